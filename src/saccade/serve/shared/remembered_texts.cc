#include "saccade/serve/shared/remembered_texts.h"

#include <algorithm>

namespace saccade::serve {

int64_t RememberedTexts::Text::bytes() const {
  constexpr int64_t kAround = 160;  // of the list's and the map's nodes, about
  return kAround + std::ssize(ids) * static_cast<int64_t>(sizeof(int32_t)) +
         std::ssize(row) * static_cast<int64_t>(sizeof(float));
}

std::optional<Matrix<float>> RememberedTexts::find(std::span<const int32_t> ids) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key_of(ids));
  if (place == places_.end()) return std::nullopt;
  texts_.splice(texts_.begin(), texts_, place->second);
  ++found_;
  const std::vector<float>& row = place->second->row;
  Matrix<float> copy(1, std::ssize(row));
  std::ranges::copy(row, copy.row(0).begin());
  return copy;
}

void RememberedTexts::keep(std::span<const int32_t> ids, std::span<const float> row) {
  std::list<Text> made;
  made.push_front({{ids.begin(), ids.end()}, {row.begin(), row.end()}});
  if (made.front().bytes() > most_bytes_) return;
  const std::lock_guard lock(mutex_);
  const bool is_new = places_.emplace(key_of(made.front().ids), made.begin()).second;
  if (!is_new) return;  // two asked for it at the same time
  bytes_ += made.front().bytes();
  texts_.splice(texts_.begin(), made);
  for (; bytes_ > most_bytes_; texts_.pop_back()) {
    bytes_ -= texts_.back().bytes();
    places_.erase(key_of(texts_.back().ids));
  }
}

int64_t RememberedTexts::found() const {
  const std::lock_guard lock(mutex_);
  return found_;
}

}  // namespace saccade::serve
