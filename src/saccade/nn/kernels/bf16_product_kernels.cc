#include "saccade/nn/kernels/bf16_product_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "saccade/core/cpu.h"
#include "saccade/nn/kernels/panel_results.h"
#include "saccade/nn/kernels/tile_blocks.h"

namespace saccade::nn {
namespace {

template <int W, typename Tiles>
SACCADE_INLINE void multiply_by_tiles(const Bf16PanelTask& task, int64_t first, int64_t last) {
  using Floats = typename Lanes<W>::Floats;
  multiply_blocks<TileNumbers::kHalves, Tiles>(
      reinterpret_cast<const std::byte*>(task.x), 2 * task.inputs,
      reinterpret_cast<const std::byte*>(task.weights), first, last,
      [&](int64_t row, const float* sums) SACCADE_INLINE_LAMBDA {
        write_row<W>(task.results, row,
                     [&](int64_t c, Floats& value) SACCADE_INLINE_LAMBDA { load(value, sums + c); });
      });
}

void multiply_emulated(const Bf16PanelTask& task, int64_t first, int64_t last) {
  multiply_by_tiles<4, EmulatedTiles>(task, first, last);
}

#if defined(__x86_64__)
SACCADE_AMX void multiply_amx(const Bf16PanelTask& task, int64_t first, int64_t last) {
  multiply_by_tiles<16, AmxTiles>(task, first, last);
}
#endif

// Whole numbers from -8 to 7, which bfloat16 holds.
struct SmallNumbers {
  std::vector<uint16_t> halves;
  std::vector<int> values;

  SmallNumbers(int64_t count, std::minstd_rand& random) {
    for (int64_t i = 0; i < count; ++i) {
      const int value = static_cast<int>(random() >> 8 & 15U) - 8;
      const auto number = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &number, sizeof bits);
      values.push_back(value);
      halves.push_back(static_cast<uint16_t>(bits >> 16));
    }
  }
};

}  // namespace

bool multiplies_exactly(const Bf16Kernel& kernel) {
  constexpr int64_t kMostRows = kBlockRows + 3;
  const std::vector<float> bias(kPanelOutputs, 2);
  std::minstd_rand random(1);
  for (const int64_t inputs : {2 * kTileHeight, 4 * kTileHeight + 5}) {
    const SmallNumbers x(kMostRows * inputs, random);
    SmallNumbers weights((inputs + 1) / 2 * kPanelOutputs * 2, random);
    if (inputs % 2 == 1) {
      for (int64_t o = 0; o < kPanelOutputs; ++o)
        weights.halves[(inputs / 2 * kPanelOutputs + o) * 2 + 1] = 0;
    }
    std::vector<float> expected;
    for (int64_t row = 0; row < kMostRows; ++row) {
      for (int64_t o = 0; o < kPanelOutputs; ++o) {
        int sum = 2;
        for (int64_t i = 0; i < inputs; ++i) {
          sum += x.values[row * inputs + i] * weights.values[(i / 2 * kPanelOutputs + o) * 2 + i % 2];
        }
        expected.push_back(static_cast<float>(sum));
      }
    }
    // One wide block, one tall block, a whole block and one row, a whole block and a wide one.
    for (const int64_t count : {kTileHeight, kTileHeight + 1, kBlockRows + 1, kMostRows}) {
      std::vector<float> found(kMostRows * kPanelOutputs);
      Bf16PanelTask task;
      task.inputs = inputs;
      task.x = x.halves.data();
      task.weights = weights.halves.data();
      task.results.bias = bias.data();
      task.results.out = found.data();
      task.results.out_stride = kPanelOutputs;
      kernel.multiply(task, 0, count);
      const auto end = found.begin() + count * kPanelOutputs;
      if (!std::equal(found.begin(), end, expected.begin())) return false;
      if (std::any_of(end, found.end(), [](float value) { return value != 0; })) return false;
    }
  }
  return true;
}

const Bf16Kernel& emulated_bf16_kernel() {
  static constexpr Bf16Kernel kKernel = {"emulated_amx", multiply_emulated, {kBlockRows, kTileChunkBytes}};
  return kKernel;
}

const Bf16Kernel* bf16_kernel() {
#if defined(__x86_64__)
  static constexpr Bf16Kernel kAmx = {"amx", multiply_amx, {kBlockRows, kTileChunkBytes}};
  static const bool kWorks = cpu_has(CpuLevel::kAmx) && multiplies_exactly(kAmx);
  return kWorks ? &kAmx : nullptr;
#else
  return nullptr;
#endif
}

}  // namespace saccade::nn
