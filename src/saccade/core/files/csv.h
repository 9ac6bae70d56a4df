// Reader of text tables: CSV as in RFC 4180, with a configurable separator (tabs, '|').
//
// Quoted fields may hold separators, line ends and doubled quotes. Lines end in LF or CRLF. A byte order mark
// at the beginning and empty lines are skipped. A quote inside an unquoted field is an ordinary character, as
// in published files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

class CsvReader {
 public:
  static constexpr size_t kMaxField = size_t{16} << 20;
  static constexpr size_t kMaxFields = 65'536;

  // Reads `text`, which must outlive the reader. quotes = false: a quote is an ordinary character everywhere.
  explicit CsvReader(std::string_view text, char separator = ',', bool quotes = true);

  // Reads the next record into `fields`; returns false at the end. Returns kBadData with the line for a
  // quoted field that never ends, or is not followed by a separator. Returns kLimit for a field of more than
  // kMaxField bytes (an unclosed quote takes in the whole file) or a record of more than kMaxFields fields.
  Result<bool> next(std::vector<std::string>& fields);
  // Returns the line, from 1, on which the last record began.
  [[nodiscard]] int64_t line() const { return record_line_; }

 private:
  [[nodiscard]] bool at_line_end() const;
  void skip_line_end();
  Result<std::string> quoted();
  Result<std::string> plain();

  std::string_view text_;
  char separator_;
  bool quotes_;
  size_t at_ = 0;
  int64_t line_ = 1;
  int64_t record_line_ = 0;
};

// Formats a record so that CsvReader reads it back; fields are quoted if necessary.
std::string format_csv(const std::vector<std::string>& fields, char separator = ',');

}  // namespace saccade
