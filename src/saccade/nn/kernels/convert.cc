#include "saccade/nn/kernels/convert.h"

#include <cstring>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>

#include "saccade/core/cpu.h"
#include "saccade/core/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace saccade::nn {
namespace {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <typename To, typename From>
To converted(From value) {
  if constexpr (std::is_same_v<From, Half>) {
    return converted<To>(fp16_to_float(value.bits));
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    return converted<To>(bf16_to_float(value.bits));
  } else if constexpr (std::is_same_v<To, Half>) {
    return {float_to_fp16(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return {float_to_bf16(static_cast<float>(value))};
  } else {
    return static_cast<To>(value);
  }
}

template <typename To, typename From>
void convert_all(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t count) {
  const From* in = static_cast<const From*>(from);
  To* out = static_cast<To*>(to);
  if (from_stride == 1 && to_stride == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = converted<To>(in[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) out[i * to_stride] = converted<To>(in[i * from_stride]);
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) void halves_to_floats(const uint16_t* in, float* out, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  }
  for (; i < count; ++i) out[i] = fp16_to_float(in[i]);
}
#endif

template <typename To>
bool convert_into(const void* from, DType from_type, int64_t from_stride, void* to, int64_t to_stride,
                  int64_t count) {
  switch (from_type) {
    case DType::kF16:
      convert_all<To, Half>(from, from_stride, to, to_stride, count);
      return true;
    case DType::kBF16:
      convert_all<To, BFloat16>(from, from_stride, to, to_stride, count);
      return true;
    case DType::kF32:
      convert_all<To, float>(from, from_stride, to, to_stride, count);
      return true;
    case DType::kF64:
      convert_all<To, double>(from, from_stride, to, to_stride, count);
      return true;
    default:
      return false;
  }
}

template <typename To>
bool convert_whole(const void* from, DType from_type, int64_t from_stride, void* to, int64_t to_stride,
                   int64_t count) {
  switch (from_type) {
    case DType::kBool:
    case DType::kU8:
      convert_all<To, uint8_t>(from, from_stride, to, to_stride, count);
      return true;
    case DType::kI8:
      convert_all<To, int8_t>(from, from_stride, to, to_stride, count);
      return true;
    case DType::kI16:
      convert_all<To, int16_t>(from, from_stride, to, to_stride, count);
      return true;
    case DType::kI32:
      convert_all<To, int32_t>(from, from_stride, to, to_stride, count);
      return true;
    case DType::kI64:
      convert_all<To, int64_t>(from, from_stride, to, to_stride, count);
      return true;
    default:
      return false;
  }
}

// Copies elements of the same type as bytes.
void copy_elements(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t count,
                   int64_t size) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count * size));
    return;
  }
  switch (size) {
    case 1:
      return convert_all<uint8_t, uint8_t>(from, from_stride, to, to_stride, count);
    case 2:
      return convert_all<uint16_t, uint16_t>(from, from_stride, to, to_stride, count);
    case 4:
      return convert_all<uint32_t, uint32_t>(from, from_stride, to, to_stride, count);
    default:
      return convert_all<uint64_t, uint64_t>(from, from_stride, to, to_stride, count);
  }
}

}  // namespace

void convert(const void* from, DType from_type, int64_t from_stride, void* to, DType to_type,
             int64_t to_stride, int64_t count) {
  if (from_type == to_type) {
    return copy_elements(from, from_stride, to, to_stride, count, dtype_size(from_type));
  }
#if defined(__x86_64__)
  if (from_type == DType::kF16 && to_type == DType::kF32 && from_stride == 1 && to_stride == 1 &&
      cpu_has(CpuLevel::kAvx2)) {
    return halves_to_floats(static_cast<const uint16_t*>(from), static_cast<float*>(to), count);
  }
#endif
  bool known = false;
  switch (to_type) {
    case DType::kF16:
      known = convert_into<Half>(from, from_type, from_stride, to, to_stride, count);
      break;
    case DType::kBF16:
      known = convert_into<BFloat16>(from, from_type, from_stride, to, to_stride, count);
      break;
    case DType::kF32:
      known = convert_into<float>(from, from_type, from_stride, to, to_stride, count) ||
              convert_whole<float>(from, from_type, from_stride, to, to_stride, count);
      break;
    case DType::kF64:
      known = convert_into<double>(from, from_type, from_stride, to, to_stride, count) ||
              convert_whole<double>(from, from_type, from_stride, to, to_stride, count);
      break;
    case DType::kI64:
      known = convert_whole<int64_t>(from, from_type, from_stride, to, to_stride, count);
      break;
    default:
      break;
  }
  if (!known) {
    throw std::logic_error(
        fmt::format("numbers of type {} as {}", dtype_name(from_type), dtype_name(to_type)));
  }
}

}  // namespace saccade::nn
