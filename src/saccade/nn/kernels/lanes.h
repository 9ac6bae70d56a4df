// Vector types for the kernels: the compilers' vector extensions, W lanes wide, in templates that are inlined
// into one function per instruction set. Internal to the module's kernel files.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#define SACCADE_INLINE __attribute__((always_inline)) inline
#define SACCADE_INLINE_LAMBDA __attribute__((always_inline))
#define SACCADE_UNROLL _Pragma("GCC unroll 8")
#if defined(__x86_64__)
#define SACCADE_AVX2 __attribute__((target("avx2,fma")))
#define SACCADE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#endif

// Defines NAME_portable, and on x86 NAME_avx2 and NAME_avx512, which call KERNEL<W> with their arguments. W is
// the number of floats in a vector. The arguments' types are deduced where the function's address is taken.
#define SACCADE_FOR_WIDTH(attribute, result, name, kernel, width) \
  template <typename... Arguments>                                \
  attribute result name(Arguments... arguments) {                 \
    return kernel<width>(arguments...);                           \
  }
#if defined(__x86_64__)
#define SACCADE_FOR_EACH_WIDTH(result, name, kernel)              \
  SACCADE_FOR_WIDTH(, result, name##_portable, kernel, 4)         \
  SACCADE_FOR_WIDTH(SACCADE_AVX2, result, name##_avx2, kernel, 8) \
  SACCADE_FOR_WIDTH(SACCADE_AVX512, result, name##_avx512, kernel, 16)
#else
#define SACCADE_FOR_EACH_WIDTH(result, name, kernel) SACCADE_FOR_WIDTH(, result, name##_portable, kernel, 4)
#endif

namespace saccade::nn {

template <int W>
struct Lanes {
  using Floats __attribute__((vector_size(W * sizeof(float)))) = float;
  using Doubles __attribute__((vector_size(W * sizeof(double)))) = double;
  using Ints __attribute__((vector_size(W * sizeof(int32_t)))) = int32_t;
  using Words __attribute__((vector_size(W * sizeof(uint32_t)))) = uint32_t;
  using Halves __attribute__((vector_size(W * sizeof(uint16_t)))) = uint16_t;
  using Bytes __attribute__((vector_size(W))) = int8_t;
};

// Vectors are passed by reference, because the calling convention for values differs between instruction
// sets.
template <typename V, typename T>
SACCADE_INLINE void load(V& vector, const T* from) {
  std::memcpy(&vector, from, sizeof(V));
}

template <typename V, typename T>
SACCADE_INLINE void store(T* to, const V& vector) {
  std::memcpy(to, &vector, sizeof(V));
}

// Loads a vector of float32 or bfloat16 values as float32.
template <int W>
SACCADE_INLINE void load_floats(typename Lanes<W>::Floats& vector, const float* from) {
  load(vector, from);
}
template <int W>
SACCADE_INLINE void load_floats(typename Lanes<W>::Floats& vector, const uint16_t* from) {
  typename Lanes<W>::Halves halves;
  load(halves, from);
  const typename Lanes<W>::Words words = __builtin_convertvector(halves, typename Lanes<W>::Words) << 16;
  std::memcpy(&vector, &words, sizeof vector);
}

// Stores a vector as bfloat16, rounded to nearest even. NaN stays NaN: rounding could carry a NaN whose lower
// half is set over to 0.
template <int W>
SACCADE_INLINE void store_halves(uint16_t* to, const typename Lanes<W>::Floats& vector) {
  using Words = typename Lanes<W>::Words;
  Words words;
  std::memcpy(&words, &vector, sizeof words);
  words += 0x7fffU + ((words >> 16) & 1U);
  words = vector == vector ? words : Words{} + 0x7fc00000U;
  const typename Lanes<W>::Halves halves = __builtin_convertvector(words >> 16, typename Lanes<W>::Halves);
  store(to, halves);
}

template <int W, typename V>
SACCADE_INLINE auto sum_of(const V& vector) {
  std::remove_cvref_t<decltype(vector[0])> lanes[W];
  std::memcpy(lanes, &vector, sizeof(V));
  for (int half = W / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

template <int W>
SACCADE_INLINE void absolute(typename Lanes<W>::Floats& v) {
  typename Lanes<W>::Ints bits;
  std::memcpy(&bits, &v, sizeof bits);
  bits &= 0x7fffffff;
  std::memcpy(&v, &bits, sizeof v);
}

// Computes e^x for |x| <= 87.3, to 2 units in the last place; NaN stays NaN. Cephes' expf: x = n ln 2 + r
// with |r| <= ln 2 / 2, a polynomial for e^r, and n added to the exponent.
template <int W>
SACCADE_INLINE void exp_between(typename Lanes<W>::Floats& x) {
  using Floats = typename Lanes<W>::Floats;
  using Ints = typename Lanes<W>::Ints;
  constexpr float kRound =
      12582912.F;  // 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
  const Floats shifted = x * 1.44269504088896341F + kRound;
  const Floats n = shifted - kRound;
  const Floats r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  Floats p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.F;
  Ints bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3f800000;
  Floats power;
  std::memcpy(&power, &bits, sizeof power);
  x = p * power;
}

// Computes e^x for x <= 0; 0 below -87.3, where results would be denormal.
template <int W>
SACCADE_INLINE void exp_of(typename Lanes<W>::Floats& x) {
  using Floats = typename Lanes<W>::Floats;
  const auto below = x < -87.3F;
  x = below ? Floats{} : x;
  exp_between<W>(x);
  x = below ? Floats{} : x;
}

}  // namespace saccade::nn
