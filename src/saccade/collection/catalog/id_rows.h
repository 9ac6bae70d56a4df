// Rows of items by their ids, in one snapshot. Not for use outside this module.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace saccade::store {

class IdRows {
 public:
  struct Entry {
    int64_t id = 0;
    int64_t row = 0;
  };

  // ids: one a row, 0 where no item has it.
  explicit IdRows(std::span<const int64_t> ids);

  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }  // by id, ascending
  [[nodiscard]] int64_t size() const { return std::ssize(entries_); }

  // Looks up ids that ascend.
  class Walk {
   public:
    explicit Walk(const IdRows& rows) : left_(rows.entries()) {}
    // Returns the item's entry, which lives as long as the rows, or nullptr if there is none. Cost: some nanoseconds
    // where ids are dense.
    const Entry* find(int64_t id);

   private:
    std::span<const Entry> left_;
  };

 private:
  std::vector<Entry> entries_;
};

}  // namespace saccade::store
