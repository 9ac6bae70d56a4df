#include "saccade/nn/kernels/int8_packing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "saccade/nn/kernels/kernels.h"
#include "saccade/nn/kernels/lanes.h"
#include "saccade/nn/kernels/panel_task.h"

namespace saccade::nn {
namespace {

// Returns the largest absolute value; NaN if a value is not finite.
template <int W>
SACCADE_INLINE float largest_of(const float* x, int64_t count) {
  using Floats = typename Lanes<W>::Floats;
  using Ints = typename Lanes<W>::Ints;
  const int64_t whole = count / W * W;
  Floats v;
  Floats most{};
  Ints odd{};
  for (int64_t i = 0; i < whole; i += W) {
    load(v, x + i);
    absolute<W>(v);
    odd |= ~(v <= std::numeric_limits<float>::max());
    most = v > most ? v : most;
  }
  float lanes[W];
  store(lanes, most);
  float largest = *std::max_element(lanes, lanes + W);
  bool finite = sum_of<W>(odd) == 0;
  for (int64_t i = whole; i < count; ++i) {
    finite = finite && std::isfinite(x[i]);
    largest = std::max(largest, std::abs(x[i]));
  }
  return finite ? largest : std::numeric_limits<float>::quiet_NaN();
}

template <int W>
SACCADE_INLINE float weigh(const float* weights, int64_t in, double* squares) {
  using Floats = typename Lanes<W>::Floats;
  using Doubles = typename Lanes<W>::Doubles;
  const float largest = largest_of<W>(weights, in);
  if (!(largest > 0)) return largest;
  const int64_t whole = in / W * W;
  Floats v;
  Doubles sum;
  for (int64_t i = 0; i < whole; i += W) {
    load(v, weights + i);
    const Doubles part = __builtin_convertvector(v / largest, Doubles);
    load(sum, squares + i);
    sum +=
        part * part;  // the square of a float32 is exact, so that it makes no difference when it is rounded
    store(squares + i, sum);
  }
  for (int64_t i = whole; i < in; ++i) {
    const double part = weights[i] / largest;
    squares[i] += part * part;
  }
  return largest;
}

template <int W>
SACCADE_INLINE float quantize(const float* weights, const float* factors, int64_t in, float largest,
                              float* scratch, uint8_t* to) {
  using Floats = typename Lanes<W>::Floats;
  using Ints = typename Lanes<W>::Ints;
  using Bytes = typename Lanes<W>::Bytes;
  if (!(largest > 0)) return largest;
  // Scales by a power of two first, so that no quotient overflows or underflows float32.
  const float power = std::ldexp(1.F, std::clamp(-std::ilogb(largest), -126, 126));
  const int64_t whole = in / W * W;
  Floats v;
  Floats factor;
  for (int64_t i = 0; i < whole; i += W) {
    load(v, weights + i);
    load(factor, factors + i);
    v = v * power / factor;
    store(scratch + i, v);
  }
  for (int64_t i = whole; i < in; ++i) scratch[i] = weights[i] * power / factors[i];
  const float most = largest_of<W>(scratch, in);
  // Rounds by truncating twice the value; halves are rounded away from 0. Some processors would fuse an added
  // rounding constant with the product.
  const float twice = 254 / most;
  int8_t digits[W];
  for (int64_t i = 0; i < whole; i += W) {
    load(v, scratch + i);
    Floats size = v;
    absolute<W>(size);
    Ints number = (__builtin_convertvector(size * twice, Ints) + 1) >> 1;
    number = v < 0 ? -number : number;
    const Bytes bytes = __builtin_convertvector(number + 128, Bytes);
    store(digits, bytes);
    for (int64_t four = 0; four < W / 4; ++four) {
      std::memcpy(to + (i / 4 + four) * 4 * kPanelOutputs, digits + 4 * four, 4);
    }
  }
  for (int64_t i = whole; i < in; ++i) {
    const int number = (static_cast<int>(std::abs(scratch[i]) * twice) + 1) >> 1;
    to[i / 4 * 4 * kPanelOutputs + i % 4] = static_cast<uint8_t>(128 + (scratch[i] < 0 ? -number : number));
  }
  return static_cast<float>(static_cast<double>(most) / 127 / power);
}

// --- one function an instruction set --------------------------------------------------------------------

SACCADE_FOR_EACH_WIDTH(float, weigh, weigh)
SACCADE_FOR_EACH_WIDTH(float, quantize, quantize)

}  // namespace

std::span<const Int8Packer> int8_packers() {
  static constexpr Int8Packer kAll[] = {
#if defined(__x86_64__)
    {"avx512", weigh_avx512, quantize_avx512},
    {"avx2", weigh_avx2, quantize_avx2},
#endif
    {"portable", weigh_portable, quantize_portable},
  };
  return std::span<const Int8Packer>(kAll).last(kernels().size());  // chosen as those of float32 are
}

}  // namespace saccade::nn
