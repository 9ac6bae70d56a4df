// An endless stream of epochs over some items, each epoch a fresh shuffle. The item at any place is a
// function of the seed and the place alone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lab/train/math/step_random.h"

namespace saccade::lab {

class EpochOrder {
 public:
  // Borrows `items`. `purpose` is that of the keyed random numbers.
  EpochOrder(const std::vector<int64_t>& items, uint64_t seed, uint64_t purpose)
      : items_(items), seed_(seed), purpose_(purpose) {}

  // Returns the item at `place`. Cost: a shuffle of all items if the previous call was for another epoch.
  int64_t at(int64_t place) {
    const auto size = static_cast<int64_t>(items_.size());
    if (place / size != epoch_) {
      epoch_ = place / size;
      order_ = items_;
      KeyedRandom random(seed_, purpose_, static_cast<uint64_t>(epoch_));
      for (size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[random.below(i + 1)]);
    }
    return order_[static_cast<size_t>(place % size)];
  }

 private:
  const std::vector<int64_t>& items_;
  uint64_t seed_;
  uint64_t purpose_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;
};

}  // namespace saccade::lab
