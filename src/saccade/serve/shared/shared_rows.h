// One pass over the rows of a collection for all searches of a moment: many queries cost little more than
// one, as each reads the same memory.
#pragma once

#include <cstdint>
#include <span>

#include "saccade/search/row_finder.h"
#include "saccade/serve/shared/shared_passes.h"

namespace saccade::serve {

// Searches share passes as shared_passes.h says; those through filters, whose rows are other ones, make their
// own. Answers are those of find_rows for each alone. Thread-safe.
class SharedRows final : public RowFinder {
 public:
  // Scores the rows that `alive` allows. The collection must keep them for its lifetime.
  explicit SharedRows(std::span<const uint8_t> alive) : alive_(alive), passes_(kPassQueries) {}

  [[nodiscard]] Result<FoundRows> find(const SearchedRows& searched, std::span<const float> query, int64_t k,
                                       std::span<const int64_t> wanted, ThreadPool& pool) override;

  struct Counts {
    int64_t passes = 0;
    int64_t queries = 0;
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct Call;
  static void run(std::span<Call* const> calls, const SearchedRows& searched, ThreadPool& pool);

  const std::span<const uint8_t> alive_;
  SharedPasses<Call> passes_;
};

}  // namespace saccade::serve
