// Small random generator with the same numbers on every machine and standard library, for results that must
// be reproducible from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace saccade {

// Generator SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
// 2014).
class SplitMix {
 public:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15U;

  explicit SplitMix(uint64_t state) : state_(state) {}
  // Makes the generator of part `number` under `seed`; parts can be drawn in any order, by any thread.
  SplitMix(uint64_t seed, int64_t number)
      : SplitMix(SplitMix(seed ^ (static_cast<uint64_t>(number) << 32)).next()) {}

  uint64_t next() {
    uint64_t z = (state_ += kStep);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  // Returns a uniform integer below n > 0, by multiply and shift with rejection (Lemire, ACM TOMACS 29
  // (2019)).
  uint64_t below(uint32_t n) {
    for (;;) {
      const uint64_t product = (next() >> 32) * n;
      const auto low = static_cast<uint32_t>(product);
      if (low >= n || low >= (0U - n) % n) return product >> 32;
    }
  }
  // Shuffles a vector uniformly (Fisher and Yates).
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(static_cast<uint32_t>(i))]);
  }

 private:
  uint64_t state_;
};

}  // namespace saccade
