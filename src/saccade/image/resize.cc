// Pillow's resize (Pillow, src/libImaging/Resample.c and Geometry.c), pixel for pixel.
//
// A separable filter widened by the scale when shrinking: a horizontal pass to 8 bits, then a vertical one
// (the other way round where the height shrinks most). Weights are whole numbers in units of 2^-22; a sum
// starts at one half and is cut off to 0..255. All sums are whole numbers below 2^31, so the order of
// additions does not matter and vector code gives the same bits.
#include "saccade/image/resize.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numbers>
#include <type_traits>
#include <utility>

#include "saccade/core/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace saccade {
namespace {

constexpr int kPrecisionBits = 22;
constexpr int32_t kHalf = 1 << (kPrecisionBits - 1);

double bilinear(double x) {
  return std::max(0.0, 1.0 - std::abs(x));
}

double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double lanczos(double x) {
  return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

struct Filter {
  double (*weight)(double);
  double support;
};

Filter filter_of(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kBilinear:
      return {bilinear, 1};
    case ResizeFilter::kLanczos:
      return {lanczos, 3};
    case ResizeFilter::kBicubic:
    case ResizeFilter::kNearest:
    case ResizeFilter::kBilinearNoAntialias:  // neither comes here
      break;
  }
  return {bicubic, 2};
}

// Input range and weights of each output [begin, begin + count) of one axis.
struct Weights {
  int stride = 0;            // weights an output has room for: a multiple of 4, zeros at the end
  std::vector<int> first;    // [count] the first input
  std::vector<int> taps;     // [count] how many inputs
  std::vector<int32_t> fix;  // [count, stride] weights in units of 2^-22

  [[nodiscard]] const int32_t* of(int output) const {
    return fix.data() + static_cast<size_t>(output) * static_cast<size_t>(stride);
  }
};

// One axis of a resize: outputs [begin, begin + count) of out_size.
struct Axis {
  int in_size = 0;
  // Inputs that the outputs stand for: [start, start + extent). Not whole numbers where the image was shrunk.
  double start = 0;
  double extent = 0;
  int64_t out_size = 0;
  int64_t begin = 0;
  int count = 0;
  Filter filter = {};

  [[nodiscard]] Weights weights(int from, int number) const;
  // The inputs that any output takes: [first, last).
  [[nodiscard]] std::pair<int, int> inputs() const;
};

// Returns the weights of `count` outputs from number `from`.
Weights Axis::weights(int from, int number) const {
  const int64_t first_output = begin + from;
  const double scale = extent / static_cast<double>(out_size);
  const double stretch = std::max(scale, 1.0);
  const double support = filter.support * stretch;
  const auto most = static_cast<int>(std::min(std::ceil(support) * 2 + 1, static_cast<double>(in_size)));
  Weights weights;
  weights.stride = (most + 3) / 4 * 4;
  weights.first.resize(static_cast<size_t>(number));
  weights.taps.resize(static_cast<size_t>(number));
  weights.fix.resize(static_cast<size_t>(number) * static_cast<size_t>(weights.stride));
  std::vector<double> exact(static_cast<size_t>(most));
  for (int i = 0; i < number; ++i) {
    const double center = start + (static_cast<double>(first_output + i) + 0.5) * scale;
    // Compared as doubles first: a far-off centre must not overflow the conversion to int.
    // The range of a shrunken image may lie a pixel beyond it.
    const int first = static_cast<int>(std::clamp(center - support + 0.5, 0.0, in_size - 1.0));
    const int last =
        std::max(first + 1, static_cast<int>(std::min(center + support + 0.5, static_cast<double>(in_size))));
    const int taps = last - first;
    double sum = 0;
    for (int t = 0; t < taps; ++t) {
      exact[static_cast<size_t>(t)] = filter.weight((t + first - center + 0.5) * (1.0 / stretch));
      sum += exact[static_cast<size_t>(t)];
    }
    int32_t* fix = weights.fix.data() + static_cast<size_t>(i) * static_cast<size_t>(weights.stride);
    for (int t = 0; t < taps; ++t) {
      double weight = exact[static_cast<size_t>(t)];
      if (sum != 0) weight /= sum;
      fix[t] = static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kPrecisionBits));
    }
    weights.first[static_cast<size_t>(i)] = first;
    weights.taps[static_cast<size_t>(i)] = taps;
  }
  return weights;
}

std::pair<int, int> Axis::inputs() const {
  const Weights last = weights(count - 1, 1);
  return {weights(0, 1).first.front(), last.first.front() + last.taps.front()};
}

// Calls body(weights, from) for blocks of outputs. An image of usual shape needs one block. An image
// 200,000,000 pixels wide needs several, since all its weights together would take gigabytes.
template <typename Body>
void for_each_block(const Axis& axis, const Body& body) {
  constexpr size_t kWeights = size_t{8} << 20;
  const size_t stride = axis.weights(0, 1).fix.size();
  const int block =
      static_cast<int>(std::clamp<size_t>(kWeights / stride, 1, static_cast<size_t>(axis.count)));
  for (int from = 0; from < axis.count; from += block) {
    body(axis.weights(from, std::min(block, axis.count - from)), from);
  }
}

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

// Rows of bytes somewhere in memory; `end` is where reading must stop.
struct Rows {
  const uint8_t* data = nullptr;
  size_t stride = 0;
  const uint8_t* end = nullptr;

  [[nodiscard]] const uint8_t* row(int64_t y) const { return data + static_cast<size_t>(y) * stride; }
};

template <int kChannels>
void horizontal_portable(const uint8_t* in, const Weights& weights, uint8_t* out) {
  for (size_t x = 0; x < weights.first.size(); ++x) {
    const int32_t* weight = weights.of(static_cast<int>(x));
    const uint8_t* pixel = in + static_cast<size_t>(weights.first[x]) * kChannels;
    std::array<int32_t, kChannels> sums;
    sums.fill(kHalf);
    for (int t = 0; t < weights.taps[x]; ++t, pixel += kChannels) {
      for (int c = 0; c < kChannels; ++c) sums[static_cast<size_t>(c)] += pixel[c] * weight[t];
    }
    for (int c = 0; c < kChannels; ++c) *out++ = to_byte(sums[static_cast<size_t>(c)]);
  }
}

void horizontal_portable(const Rows& in, int rows, int channels, const Weights& weights, size_t out_stride,
                         uint8_t* out) {
  for (int y = 0; y < rows; ++y, out += out_stride) {
    switch (channels) {
      case 1:
        horizontal_portable<1>(in.row(y), weights, out);
        break;
      case 2:
        horizontal_portable<2>(in.row(y), weights, out);
        break;
      case 3:
        horizontal_portable<3>(in.row(y), weights, out);
        break;
      default:
        horizontal_portable<4>(in.row(y), weights, out);
        break;
    }
  }
}

// Bytes [0, bytes) of one output row.
void vertical_portable(const Rows& in, int first, int taps, const int32_t* weights, size_t bytes,
                       uint8_t* out) {
  constexpr size_t kBlock = 512;  // sums that stay in the first cache
  std::array<int32_t, kBlock> sums;
  for (size_t begin = 0; begin < bytes; begin += kBlock) {
    const size_t count = std::min(kBlock, bytes - begin);
    std::fill_n(sums.begin(), count, kHalf);
    for (int t = 0; t < taps; ++t) {
      const uint8_t* row = in.row(first + t) + begin;
      for (size_t i = 0; i < count; ++i) sums[i] += row[i] * weights[t];
    }
    for (size_t i = 0; i < count; ++i) out[begin + i] = to_byte(sums[i]);
  }
}

#if defined(__x86_64__) || defined(__aarch64__)

// Number of bytes that a load of 16 bytes at the last group of 4 pixels may read past a row.
constexpr size_t kOverread = 16;

// Calls body(count, from, to) for groups of four rows and then for single ones: `count` is a constant, from and to are
// arrays of the rows' inputs and outputs. Rows so near the end of the picture that a load would pass it are read from
// copies.
template <typename Body>
void for_row_groups(const Rows& in, int rows, size_t row_bytes, size_t out_stride, uint8_t* out,
                    const Body& body) {
  using Inputs = std::array<const uint8_t*, 4>;
  using Outputs = std::array<uint8_t*, 4>;
  std::array<std::vector<uint8_t>, 4> copies;
  const auto readable = [&](int y, size_t slot) {
    const uint8_t* row = in.row(y);
    if (static_cast<size_t>(in.end - row) >= row_bytes + kOverread) return row;
    copies[slot].resize(row_bytes + kOverread);
    std::memcpy(copies[slot].data(), row, row_bytes);
    return static_cast<const uint8_t*>(copies[slot].data());
  };
  int y = 0;
  for (; y + 4 <= rows; y += 4, out += 4 * out_stride) {
    body(std::integral_constant<int, 4>(),
         Inputs{readable(y, 0), readable(y + 1, 1), readable(y + 2, 2), readable(y + 3, 3)},
         Outputs{out, out + out_stride, out + 2 * out_stride, out + 3 * out_stride});
  }
  for (; y < rows; ++y, out += out_stride) {
    body(std::integral_constant<int, 1>(), Inputs{readable(y, 0)}, Outputs{out});
  }
}

#endif

#if defined(__x86_64__)

// A product of a byte and a 24-bit weight from 16-bit multiplications: weight = high * 2^12 + low, low in
// [0, 2^12). Sums of each half are joined at the end, modulo 2^32, which leaves the true sum as it fits.
constexpr int kLowBits = 12;

struct SplitWeights {
  std::vector<int16_t> groups;  // [count, stride / 4, 8]: the high halves of 4 weights, then their low halves
};

SplitWeights split(const Weights& weights) {
  SplitWeights result;
  result.groups.resize(weights.fix.size() * 2);
  for (size_t i = 0; i < weights.fix.size(); ++i) {
    const size_t at = i / 4 * 8 + i % 4;
    result.groups[at] = static_cast<int16_t>(weights.fix[i] >> kLowBits);
    result.groups[at + 4] = static_cast<int16_t>(weights.fix[i] & ((1 << kLowBits) - 1));
  }
  return result;
}

// kRows rows at a time, so that each weight is loaded once for all of them. Two pixels' channels c meet in
// one 16-bit pair: the lower half of a register takes pixels 0 and 1, the upper half 2 and 3.
template <int kRows, int kChannels>
__attribute__((target("avx2"))) void horizontal_avx2(const std::array<const uint8_t*, 4>& in,
                                                     const Weights& weights, const SplitWeights& halves,
                                                     const std::array<uint8_t*, 4>& out) {
  const __m256i spread = kChannels == 3
                             ? _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                                                6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1)
                             : _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1,  //
                                                8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
  const __m256i pick_high = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,  //
                                             4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  const __m256i pick_low = _mm256_add_epi8(pick_high, _mm256_set1_epi8(8));
  const size_t stride = static_cast<size_t>(weights.stride);
  for (size_t x = 0; x < weights.first.size(); ++x) {
    const size_t offset = static_cast<size_t>(weights.first[x]) * kChannels;
    const int16_t* group = halves.groups.data() + x * stride * 2;
    __m256i high[kRows];
    __m256i low[kRows];
    for (int r = 0; r < kRows; ++r) high[r] = low[r] = _mm256_setzero_si256();
    for (int t = 0; t < weights.taps[x]; t += 4, group += 8) {
      const __m256i both =
          _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(group)));
      const __m256i weight_high = _mm256_shuffle_epi8(both, pick_high);
      const __m256i weight_low = _mm256_shuffle_epi8(both, pick_low);
      for (int r = 0; r < kRows; ++r) {
        const auto* pixels = in[static_cast<size_t>(r)] + offset + static_cast<size_t>(t) * kChannels;
        const __m256i pairs = _mm256_shuffle_epi8(
            _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels))), spread);
        high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(pairs, weight_high));
        low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(pairs, weight_low));
      }
    }
    for (int r = 0; r < kRows; ++r) {
      const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high[r], kLowBits), low[r]);
      __m128i total = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
      total = _mm_srai_epi32(_mm_add_epi32(total, _mm_set1_epi32(kHalf)), kPrecisionBits);
      total = _mm_packus_epi16(_mm_packs_epi32(total, total), total);
      const int pixel = _mm_cvtsi128_si32(total);
      std::memcpy(out[static_cast<size_t>(r)] + x * kChannels, &pixel, kChannels);
    }
  }
}

template <int kChannels>
void horizontal_vectors(const Rows& in, int rows, int in_width, const Weights& weights, size_t out_stride,
                        uint8_t* out) {
  const SplitWeights halves = split(weights);
  for_row_groups(in, rows, static_cast<size_t>(in_width) * kChannels, out_stride, out,
                 [&](auto count, const auto& from, const auto& to) {
                   horizontal_avx2<decltype(count)::value, kChannels>(from, weights, halves, to);
                 });
}

// 16 bytes of two rows at a time: byte i of both rows side by side makes one 16-bit pair. bytes >= 16.
__attribute__((target("avx2"))) void vertical_vectors(const Rows& in, int first, int taps,
                                                      const int32_t* weights, size_t bytes, uint8_t* out) {
  constexpr int32_t kLowMask = (1 << kLowBits) - 1;
  for (size_t begin = 0; begin < bytes; begin += 16) {
    const size_t at = std::min(begin, bytes - 16);  // the last block overlaps the one before
    __m256i high[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256i low[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int t = 0; t < taps; t += 2) {
      const bool pair = t + 1 < taps;
      const int32_t other = pair ? weights[t + 1] : 0;
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in.row(first + t) + at));
      const __m128i b =
          pair ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(in.row(first + t + 1) + at)) : a;
      const auto join = [](int32_t lower, int32_t upper) {
        return static_cast<int32_t>((static_cast<uint32_t>(upper) << 16) |
                                    (static_cast<uint32_t>(lower) & 0xffffU));
      };
      const __m256i weight_high = _mm256_set1_epi32(join(weights[t] >> kLowBits, other >> kLowBits));
      const __m256i weight_low = _mm256_set1_epi32(join(weights[t] & kLowMask, other & kLowMask));
      const __m256i lower = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
      const __m256i upper = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
      high[0] = _mm256_add_epi32(high[0], _mm256_madd_epi16(lower, weight_high));
      low[0] = _mm256_add_epi32(low[0], _mm256_madd_epi16(lower, weight_low));
      high[1] = _mm256_add_epi32(high[1], _mm256_madd_epi16(upper, weight_high));
      low[1] = _mm256_add_epi32(low[1], _mm256_madd_epi16(upper, weight_low));
    }
    const __m256i half = _mm256_set1_epi32(kHalf);
    const __m256i sum0 =
        _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(high[0], kLowBits), low[0]), half);
    const __m256i sum1 =
        _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(high[1], kLowBits), low[1]), half);
    const __m256i words =
        _mm256_packs_epi32(_mm256_srai_epi32(sum0, kPrecisionBits), _mm256_srai_epi32(sum1, kPrecisionBits));
    // packs works within each half: [0-3, 8-11 | 4-7, 12-15], put in order here.
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    const __m128i packed =
        _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + at), packed);
  }
}

bool use_vectors(ResizeKernel kernel) {
  return kernel == ResizeKernel::kFastest && cpu_has(CpuLevel::kAvx2);
}

#elif defined(__aarch64__)

// kRows rows at a time, so that each weight is loaded once for all of them. A pixel's channels lie in the lanes of one
// vector of 32-bit sums.
template <int kRows, int kChannels>
void horizontal_neon(const std::array<const uint8_t*, 4>& in, const Weights& weights,
                     const std::array<uint8_t*, 4>& out) {
  // Bytes of each of four pixels at the low ends of 32-bit lanes; an index past the table gives 0.
  uint8x16_t spread[4];
  for (int pixel = 0; pixel < 4; ++pixel) {
    std::array<uint8_t, 16> picked;
    picked.fill(0xff);
    for (size_t c = 0; c < kChannels; ++c) {
      picked[4 * c] = static_cast<uint8_t>(static_cast<size_t>(pixel) * kChannels + c);
    }
    spread[pixel] = vld1q_u8(picked.data());
  }
  for (size_t x = 0; x < weights.first.size(); ++x) {
    const size_t offset = static_cast<size_t>(weights.first[x]) * kChannels;
    const int32_t* weight = weights.of(static_cast<int>(x));
    int32x4_t sums[kRows];
    for (int r = 0; r < kRows; ++r) sums[r] = vdupq_n_s32(kHalf);
    for (int t = 0; t < weights.taps[x]; t += 4) {
      const int32x4_t four = vld1q_s32(weight + t);
      for (int r = 0; r < kRows; ++r) {
        const uint8x16_t pixels =
            vld1q_u8(in[static_cast<size_t>(r)] + offset + static_cast<size_t>(t) * kChannels);
        const auto values = [&](int pixel) {
          return vreinterpretq_s32_u8(vqtbl1q_u8(pixels, spread[pixel]));
        };
        sums[r] = vmlaq_laneq_s32(sums[r], values(0), four, 0);
        sums[r] = vmlaq_laneq_s32(sums[r], values(1), four, 1);
        sums[r] = vmlaq_laneq_s32(sums[r], values(2), four, 2);
        sums[r] = vmlaq_laneq_s32(sums[r], values(3), four, 3);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      const uint16x4_t words = vqmovun_s32(vshrq_n_s32(sums[r], kPrecisionBits));
      const uint8x8_t bytes = vqmovn_u16(vcombine_u16(words, words));
      const uint32_t pixel = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
      std::memcpy(out[static_cast<size_t>(r)] + x * kChannels, &pixel, kChannels);
    }
  }
}

template <int kChannels>
void horizontal_vectors(const Rows& in, int rows, int in_width, const Weights& weights, size_t out_stride,
                        uint8_t* out) {
  for_row_groups(in, rows, static_cast<size_t>(in_width) * kChannels, out_stride, out,
                 [&](auto count, const auto& from, const auto& to) {
                   horizontal_neon<decltype(count)::value, kChannels>(from, weights, to);
                 });
}

// 16 bytes at a time; bytes >= 16.
void vertical_vectors(const Rows& in, int first, int taps, const int32_t* weights, size_t bytes,
                      uint8_t* out) {
  for (size_t begin = 0; begin < bytes; begin += 16) {
    const size_t at = std::min(begin, bytes - 16);  // the last block overlaps the one before
    int32x4_t sums[4] = {vdupq_n_s32(kHalf), vdupq_n_s32(kHalf), vdupq_n_s32(kHalf), vdupq_n_s32(kHalf)};
    for (int t = 0; t < taps; ++t) {
      const uint8x16_t row = vld1q_u8(in.row(first + t) + at);
      const uint16x8_t low = vmovl_u8(vget_low_u8(row));
      const uint16x8_t high = vmovl_u8(vget_high_u8(row));
      const auto add = [weight = weights[t]](int32x4_t& sum, uint16x4_t four) {
        sum = vmlaq_n_s32(sum, vreinterpretq_s32_u32(vmovl_u16(four)), weight);
      };
      add(sums[0], vget_low_u16(low));
      add(sums[1], vget_high_u16(low));
      add(sums[2], vget_low_u16(high));
      add(sums[3], vget_high_u16(high));
    }
    const auto words = [](int32x4_t sum) { return vqmovun_s32(vshrq_n_s32(sum, kPrecisionBits)); };
    const uint8x8_t lower = vqmovn_u16(vcombine_u16(words(sums[0]), words(sums[1])));
    const uint8x8_t upper = vqmovn_u16(vcombine_u16(words(sums[2]), words(sums[3])));
    vst1q_u8(out + at, vcombine_u8(lower, upper));
  }
}

bool use_vectors(ResizeKernel kernel) {
  return kernel == ResizeKernel::kFastest && cpu_has(CpuLevel::kNeon);
}

#else

template <int kChannels>
void horizontal_vectors(const Rows& in, int rows, int /*in_width*/, const Weights& weights, size_t out_stride,
                        uint8_t* out) {
  horizontal_portable(in, rows, kChannels, weights, out_stride, out);
}

void vertical_vectors(const Rows& in, int first, int taps, const int32_t* weights, size_t bytes,
                      uint8_t* out) {
  vertical_portable(in, first, taps, weights, bytes, out);
}

bool use_vectors(ResizeKernel /*kernel*/) {
  return false;
}

#endif

void horizontal(const Rows& in, int rows, int in_width, int channels, const Weights& weights,
                ResizeKernel kernel, size_t out_stride, uint8_t* out) {
  if (channels >= 3 && use_vectors(kernel)) {
    return channels == 3 ? horizontal_vectors<3>(in, rows, in_width, weights, out_stride, out)
                         : horizontal_vectors<4>(in, rows, in_width, weights, out_stride, out);
  }
  horizontal_portable(in, rows, channels, weights, out_stride, out);
}

// `in` begins at column `first_column` of the source.
void horizontal(const Rows& in, int first_column, int rows, int channels, const Axis& axis,
                ResizeKernel kernel, uint8_t* out) {
  const auto bytes = static_cast<size_t>(channels);
  const size_t out_stride = static_cast<size_t>(axis.count) * bytes;
  for_each_block(axis, [&](Weights weights, int from) {
    const int begin = weights.first.front();
    const int columns = weights.first.back() + weights.taps.back() - begin;
    for (int& first : weights.first) first -= begin;
    Rows part = in;
    part.data += static_cast<size_t>(begin - first_column) * bytes;
    horizontal(part, rows, columns, channels, weights, kernel, out_stride,
               out + static_cast<size_t>(from) * bytes);
  });
}

void vertical(const Rows& in, const Weights& weights, int first_row, size_t bytes, ResizeKernel kernel,
              uint8_t* out) {
  const bool fast = bytes >= 16 && use_vectors(kernel);
  for (size_t y = 0; y < weights.first.size(); ++y, out += bytes) {
    const int first = weights.first[y] - first_row;
    const int32_t* row_weights = weights.of(static_cast<int>(y));
    if (fast) {
      vertical_vectors(in, first, weights.taps[y], row_weights, bytes, out);
    } else {
      vertical_portable(in, first, weights.taps[y], row_weights, bytes, out);
    }
  }
}

// `in` begins at row `first_row` of the source.
void vertical(const Rows& in, int first_row, size_t bytes, const Axis& axis, ResizeKernel kernel,
              uint8_t* out) {
  for_each_block(axis, [&](const Weights& weights, int from) {
    vertical(in, weights, first_row, bytes, kernel, out + static_cast<size_t>(from) * bytes);
  });
}

// Computes positions by repeated addition of the scale, as Pillow does. Positions so far out that Pillow
// would need minutes, and could not hold the image, are summed from the first of them.
std::vector<int> nearest_positions(int in_size, int64_t out_size, int64_t begin, int count) {
  const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
  std::vector<int> positions(static_cast<size_t>(count));
  constexpr int64_t kMostSteps = 100'000'000;
  const int64_t from = begin > kMostSteps ? begin : 0;
  double at = scale * (0.5 + static_cast<double>(from));
  for (int64_t i = from; i < begin + count; ++i, at += scale) {
    if (i >= begin) positions[static_cast<size_t>(i - begin)] = std::min(static_cast<int>(at), in_size - 1);
  }
  return positions;
}

void nearest(const ImageView& image, const ResizeWindow& window, uint8_t* out) {
  const auto channels = static_cast<size_t>(image.channels);
  const std::vector<int> columns =
      nearest_positions(image.width, window.full_width, window.left, window.width);
  const std::vector<int> rows =
      nearest_positions(image.height, window.full_height, window.top, window.height);
  for (const int y : rows) {
    const uint8_t* row =
        image.pixels.data() + static_cast<size_t>(y) * static_cast<size_t>(image.width) * channels;
    for (const int x : columns) {
      std::memcpy(out, row + static_cast<size_t>(x) * channels, channels);
      out += channels;
    }
  }
}

// Source of a row or column of tf.image.resize: two source indices, and the weight of the second
// (tensorflow/core/kernels/image/resize_bilinear_op.cc, half pixel centres).
struct Between {
  int lower = 0;
  int upper = 0;
  float part = 0;
};

std::vector<Between> bilinear_positions(int in_size, int64_t out_size, int64_t begin, int count) {
  const float scale = static_cast<float>(in_size) / static_cast<float>(out_size);
  std::vector<Between> positions;
  for (int64_t i = begin; i < begin + count; ++i) {
    const float at = (static_cast<float>(i) + 0.5F) * scale - 0.5F;
    const float floor = std::floor(at);
    positions.push_back({std::max(static_cast<int>(floor), 0),
                         std::min(static_cast<int>(std::ceil(at)), in_size - 1), at - floor});
  }
  return positions;
}

void bilinear_without_antialiasing(const ImageView& image, const ResizeWindow& window, uint8_t* out) {
  const auto channels = static_cast<size_t>(image.channels);
  const std::vector<Between> columns =
      bilinear_positions(image.width, window.full_width, window.left, window.width);
  const std::vector<Between> rows =
      bilinear_positions(image.height, window.full_height, window.top, window.height);
  const auto pixel = [&](int y, int x) {
    return image.pixels.data() +
           (static_cast<size_t>(y) * static_cast<size_t>(image.width) + static_cast<size_t>(x)) * channels;
  };
  const auto between = [](float a, float b, float part) { return a + (b - a) * part; };
  for (const Between& row : rows) {
    for (const Between& column : columns) {
      const uint8_t* corners[] = {pixel(row.lower, column.lower), pixel(row.lower, column.upper),
                                  pixel(row.upper, column.lower), pixel(row.upper, column.upper)};
      for (size_t c = 0; c < channels; ++c) {
        const float top = between(corners[0][c], corners[1][c], column.part);
        const float bottom = between(corners[2][c], corners[3][c], column.part);
        *out++ = static_cast<uint8_t>(std::clamp(between(top, bottom, row.part), 0.F, 255.F));
      }
    }
  }
}

// Returns true if the vertical pass comes first. Up to 12.1 Pillow always took the horizontal pass first.
// Pillow 13 takes the vertical one first if the height loses more than twice as many rows as the width loses
// columns (python-pillow/Pillow#9549). The order changes pixels by a few levels, as they are clipped to 8
// bits in between.
bool vertical_first(const ImageView& image, const ResizeWindow& window) {
  const int64_t rows_lost = (image.shrunk ? image.shrunk.height : image.height) - window.full_height;
  const int64_t columns_lost = (image.shrunk ? image.shrunk.width : image.width) - window.full_width;
  return rows_lost > 0 && rows_lost > 2 * columns_lost;
}

}  // namespace

Image resize_window(const ImageView& image, const ResizeWindow& window, ResizeFilter filter,
                    ResizeKernel kernel) {
  assert(image.width > 0 && image.height > 0 && image.channels >= 1 && image.channels <= 4);
  assert(window.width > 0 && window.height > 0 && window.left >= 0 && window.top >= 0);
  assert(window.left + window.width <= window.full_width && window.top + window.height <= window.full_height);
  const auto channels = static_cast<size_t>(image.channels);
  const size_t in_stride = static_cast<size_t>(image.width) * channels;
  const size_t out_stride = static_cast<size_t>(window.width) * channels;
  Image out{window.width, window.height, image.channels, image.mode, {}};
  out.pixels.resize(out_stride * static_cast<size_t>(window.height));

  const bool same_width = window.full_width == image.width && !image.shrunk;
  const bool same_height = window.full_height == image.height && !image.shrunk;
  if (filter == ResizeFilter::kNearest && !(same_width && same_height)) {
    nearest(image, window, out.pixels.data());
    return out;
  }
  if (filter == ResizeFilter::kBilinearNoAntialias && !(same_width && same_height)) {
    bilinear_without_antialiasing(image, window, out.pixels.data());
    return out;
  }

  Rows source{image.pixels.data(), in_stride, image.pixels.data() + image.pixels.size()};
  uint8_t* const target = out.pixels.data();
  if (same_width && same_height) {
    for (int y = 0; y < window.height; ++y) {
      std::memcpy(target + static_cast<size_t>(y) * out_stride,
                  source.row(window.top + y) + static_cast<size_t>(window.left) * channels, out_stride);
    }
    return out;
  }
  const ShrunkFrom whole = image.shrunk ? image.shrunk : ShrunkFrom{image.width,
                                                                    image.height,
                                                                    0,
                                                                    0,
                                                                    static_cast<double>(image.width),
                                                                    static_cast<double>(image.height)};
  const Filter kernel_shape = filter_of(filter);
  const Axis across{image.width, whole.left,   whole.across, window.full_width,
                    window.left, window.width, kernel_shape};
  const Axis down{image.height, whole.top,     whole.down,  window.full_height,
                  window.top,   window.height, kernel_shape};
  if (same_height) {
    source.data = source.row(window.top);
    horizontal(source, 0, window.height, image.channels, across, kernel, target);
    return out;
  }
  const auto [first_row, last_row] = down.inputs();
  source.data = source.row(first_row);
  if (same_width) {
    source.data += static_cast<size_t>(window.left) * channels;
    vertical(source, first_row, out_stride, down, kernel, target);
    return out;
  }
  std::vector<uint8_t> between;
  if (vertical_first(image, window)) {
    const auto [first_column, last_column] = across.inputs();
    const size_t stride = static_cast<size_t>(last_column - first_column) * channels;
    between.resize(stride * static_cast<size_t>(window.height));
    source.data += static_cast<size_t>(first_column) * channels;
    vertical(source, first_row, stride, down, kernel, between.data());
    source = {between.data(), stride, between.data() + between.size()};
    horizontal(source, first_column, window.height, image.channels, across, kernel, target);
  } else {
    const int rows = last_row - first_row;
    between.resize(out_stride * static_cast<size_t>(rows));
    horizontal(source, 0, rows, image.channels, across, kernel, between.data());
    source = {between.data(), out_stride, between.data() + between.size()};
    vertical(source, first_row, out_stride, down, kernel, target);
  }
  return out;
}

Image resize(const Image& image, int width, int height, ResizeFilter filter) {
  return resize_window(image, {width, height, 0, 0, width, height}, filter);
}

}  // namespace saccade
