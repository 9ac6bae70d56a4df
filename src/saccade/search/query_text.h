// Text of a query: none, one text, or several parts with weights (query_language.h parses what people type).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace saccade {

// Default weight of an unwanted text, relative to the wanted part, which has length 1.
inline constexpr float kUnwantedWeight = -0.25F;

struct QueryPart {
  std::string text;
  float weight = 1;             // below 0 if the part is not wanted
  std::vector<size_t> at = {};  // for each byte of `text`, its byte in QueryText::str(); empty: the same one
};

class QueryText {
 public:
  QueryText() = default;
  // Makes one text, taken as it stands. A text of white space alone has no parts.
  // `phrases`: texts whose words must stand side by side for word search.
  QueryText(std::string text, std::vector<std::string> phrases = {});  // NOLINT(google-explicit-constructor)
  QueryText(const char* text) : QueryText(std::string(text)) {}        // NOLINT(google-explicit-constructor)
  // Makes a text of parts, each with the places of its bytes in `typed`: wanted ones first, then unwanted ones.
  QueryText(std::string typed, std::vector<QueryPart> parts, std::vector<std::string> phrases);

  // Returns the text for people: as typed if it has weights, else the one text. "" if there is none.
  [[nodiscard]] const std::string& str() const { return text_; }
  [[nodiscard]] std::span<const QueryPart> parts() const { return parts_; }
  [[nodiscard]] const std::vector<std::string>& phrases() const { return phrases_; }
  [[nodiscard]] bool has_words() const { return !parts_.empty(); }
  // Returns true for no text and for one text without a weight.
  [[nodiscard]] bool is_plain() const {
    return parts_.empty() || (parts_.size() == 1 && parts_.front().weight == 1);
  }

  // Adds an unwanted part, and `-"text"` to str().
  void leave_out(const std::string& text);
  // Removes the first bytes of the first part.
  void remove_beginning(size_t bytes);

 private:
  std::string text_;
  std::vector<QueryPart> parts_;
  std::vector<std::string> phrases_;
};

}  // namespace saccade
