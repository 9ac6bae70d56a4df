#include "saccade/collection/catalog/id_rows.h"

#include <algorithm>
#include <cstddef>

namespace saccade::store {

IdRows::IdRows(std::span<const int64_t> ids) {
  entries_.reserve(ids.size());
  for (size_t row = 0; row < ids.size(); ++row) {
    if (ids[row] != 0) entries_.push_back({ids[row], static_cast<int64_t>(row)});
  }
  // Rows are appended as items come, so that they are in order but for those that have changed since.
  if (!std::ranges::is_sorted(entries_, {}, &Entry::id)) std::ranges::sort(entries_, {}, &Entry::id);
}

const IdRows::Entry* IdRows::Walk::find(int64_t id) {
  if (left_.empty() || id < left_.front().id) return nullptr;
  // Ids are mostly dense: it is no further on than they would be without a gap, and mostly right there.
  const uint64_t gap = static_cast<uint64_t>(id) - static_cast<uint64_t>(left_.front().id);
  const auto furthest = static_cast<size_t>(std::min<uint64_t>(gap, left_.size() - 1));
  const auto found = left_[furthest].id == id
                         ? left_.begin() + static_cast<std::ptrdiff_t>(furthest)
                         : std::ranges::lower_bound(left_.first(furthest + 1), id, {}, &Entry::id);
  left_ = left_.subspan(static_cast<size_t>(found - left_.begin()));
  return !left_.empty() && left_.front().id == id ? &left_.front() : nullptr;
}

}  // namespace saccade::store
