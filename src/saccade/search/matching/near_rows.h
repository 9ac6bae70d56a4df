// Finds the first of many rows that is near another one without a dot product with each of them: a few columns
// bound it from above. Not for use outside this module.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "saccade/matrix.h"

namespace saccade {

// Rows in the order in which they were added. Rows a and b are split into some columns a1, b1 and the others
// a2, b2. By the Cauchy-Schwarz inequality, a . b <= a1 . b1 + |a2| |b2|. The chosen columns are those in
// which the rows differ most, so the bound alone rejects nearly all pairs that are not near. If it does not,
// a vectorized dot product decides whether the caller needs to make its exact comparison.
class NearRows {
 public:
  // Prepares the comparison. `rows` is the matrix of all rows, which must outlive this. `sample` holds
  // numbers of some of its rows, from which the columns are chosen. `least` is the dot product from which two
  // rows are near.
  NearRows(MatrixView<const float> rows, std::span<const int64_t> sample, float least);

  void add(int64_t row);
  void replace(size_t place, int64_t row);

  // Returns the first place for which exact(place) is true; size() if there is none.
  // Every place whose row equals `row`, or whose dot product with it is at least `least` (in any order of the
  // float sum), is tried.
  template <typename Exact>
  size_t find_first(int64_t row, Exact exact) const {
    const Probe probe = probe_of(row);
    for (size_t block = 0; block < blocks_.size(); ++block) {
      const uint32_t open = open_lanes(blocks_[block], probe);
      for (uint32_t lanes = open; lanes != 0; lanes &= lanes - 1) {
        const size_t place = block * kLanes + static_cast<size_t>(__builtin_ctz(lanes));
        if (place >= numbers_.size() || !may_be_near(row, place, probe)) continue;
        if (exact(place)) return place;
      }
    }
    return numbers_.size();
  }

  [[nodiscard]] size_t size() const { return numbers_.size(); }

 private:
  static constexpr size_t kLanes = 16;
  static constexpr size_t kColumns = 32;

  // Rows side by side, a column of all of them after another.
  struct Block {
    float values[kColumns][kLanes] = {};
    float rest[kLanes] = {};  // length of what is outside the columns
  };
  using Kept = std::array<float, kColumns>;  // a row's columns; 0 behind the last
  struct Probe {
    Kept values = {};
    float rest = 0;
    float limit = 0;  // bounds below this are not near
  };

  [[nodiscard]] Kept kept_of(std::span<const float> values) const;
  [[nodiscard]] Probe probe_of(int64_t row) const;
  static uint32_t open_lanes(const Block& block, const Probe& probe);
  [[nodiscard]] bool may_be_near(int64_t row, size_t place, const Probe& probe) const;

  MatrixView<const float> rows_;
  float least_;
  std::vector<int64_t> columns_;  // at most kColumns
  std::vector<int64_t> numbers_;  // of the rows, by place
  std::vector<Block> blocks_;
  double longest_ = 0;  // row added
};

}  // namespace saccade
