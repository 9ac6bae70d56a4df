// Tables of text: CSV as RFC 4180 has it, with another separator where one is told (tabs, '|').
//
// Fields may stand in double quotes, then hold separators, line ends and quotes (doubled); lines end in LF or
// CRLF; a byte order mark at the beginning and empty lines are passed over. A quote inside an unquoted field
// is a character like any other, as published files have them.
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

  // Reads `text`, which must outlive the reader. quotes = false: a quote is a character everywhere.
  explicit CsvReader(std::string_view text, char separator = ',', bool quotes = true);

  // The next record's fields into `fields`; false at the end. kBadData with the line for a quoted field that
  // never ends, or that is followed by something else than a separator; kLimit for a field of more than
  // kMaxField bytes (a quote that is not closed takes in all of a file) or a record of more than kMaxFields.
  Result<bool> next(std::vector<std::string>& fields);
  // The line, from 1, that the last record began on.
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

// A record as CsvReader reads it again; fields are quoted where they must be.
std::string format_csv(const std::vector<std::string>& fields, char separator = ',');

}  // namespace saccade
