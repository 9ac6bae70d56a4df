// Counter-based random numbers: a function of their purpose, not of earlier draws. The n-th draw for item i
// of epoch e under a seed is always the same, on any thread and after any resume. So a checkpoint has no
// random state to save but the seed and the step.
#pragma once

#include <cstdint>

#include "saccade/core/random.h"

namespace saccade::lab {

// SplitMix generator over a key.
class KeyedRandom {
 public:
  KeyedRandom(uint64_t seed, uint64_t purpose, uint64_t a, uint64_t b = 0) {
    state_ = mix(mix(mix(mix(seed) ^ purpose) ^ a) ^ b);
  }

  uint64_t next() { return mix(state_ += SplitMix::kStep); }
  // Returns a number in [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  // Returns a number in [0, bound), bound >= 1; the bias is below bound / 2^64.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  bool chance(float probability) { return uniform() < probability; }

 private:
  static uint64_t mix(uint64_t z) { return SplitMix(z).next(); }
  uint64_t state_;
};

}  // namespace saccade::lab
