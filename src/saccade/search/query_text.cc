#include "saccade/search/query_text.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace saccade {

QueryText::QueryText(std::string text, std::vector<std::string> phrases)
    : text_(std::move(text)), phrases_(std::move(phrases)) {
  if (text_.find_first_not_of(" \t\r\n\f\v") != std::string::npos) parts_.push_back({.text = text_});
}

QueryText::QueryText(std::string typed, std::vector<QueryPart> parts, std::vector<std::string> phrases)
    : text_(std::move(typed)), parts_(std::move(parts)), phrases_(std::move(phrases)) {}

void QueryText::leave_out(const std::string& text) {
  text_ += text_.empty() ? "-\"" : " -\"";
  QueryPart& part = parts_.emplace_back(QueryPart{.text = text, .weight = kUnwantedWeight});
  part.at.resize(text.size());
  std::iota(part.at.begin(), part.at.end(), text_.size());
  text_ += text + "\"";
}

void QueryText::remove_beginning(size_t bytes) {
  if (parts_.empty()) return;
  QueryPart& first = parts_.front();
  bytes = std::min(bytes, first.text.size());
  first.text.erase(0, bytes);
  if (is_plain()) {
    text_ = first.text;
  } else if (first.at.empty()) {
    first.at.resize(first.text.size());
    std::iota(first.at.begin(), first.at.end(), bytes);
  } else {
    first.at.erase(first.at.begin(), first.at.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
}

}  // namespace saccade
