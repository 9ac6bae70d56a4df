// Hits for scripts: a record a hit, of the fields that were asked for.
#pragma once

#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/search/search_answer.h"

namespace saccade::app {

// "{rank}\t{score}\t{path}" and what ends a record.
class HitFormat {
 public:
  // Parses a format: fields in braces; "\t", "\n", "\0" and "\\" as in C; "{{" and "}}" for braces. kUsage
  // for an unknown field, listing the known ones, and for a single brace or backslash. With `nul` records end
  // with NUL in place of a line end.
  static Result<HitFormat> parse(const std::string& text, bool nul);

  // Paths and captions stand as they are, whatever bytes they have: for programs, not for terminals.
  [[nodiscard]] std::string text_of(const SearchAnswer& answer) const;

 private:
  struct Piece {
    std::string text;   // in front of the field
    std::string field;  // empty: none, behind the last
  };
  std::vector<Piece> pieces_;
  char end_ = '\n';
};

}  // namespace saccade::app
