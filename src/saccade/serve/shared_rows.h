// One pass over the rows of a collection for all searches of a moment: many queries cost little more than
// one, as each reads the same memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>

#include "saccade/search/row_finder.h"

namespace saccade::serve {

// A search that comes while nothing runs makes its pass at once; those that come meanwhile wait, and one of
// them makes the next pass for all. Searches through filters, whose rows are other ones, make their own.
// Answers are those of find_rows for each alone. Thread-safe.
class SharedRows final : public RowFinder {
 public:
  // Of those rows that `alive` allows, which the collection keeps while it lives.
  explicit SharedRows(std::span<const uint8_t> alive) : alive_(alive) {}

  [[nodiscard]] Result<FoundRows> find(const SearchedRows& searched, std::span<const float> query, int64_t k,
                                       ThreadPool& pool) override;

  struct Counts {
    int64_t passes = 0;
    int64_t queries = 0;
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct Call;
  void run(std::span<Call* const> calls, const SearchedRows& searched, ThreadPool& pool) const;

  const std::span<const uint8_t> alive_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call*> calls_;
  bool busy_ = false;
  Counts counts_;
};

}  // namespace saccade::serve
