// The words of the numbers an encoder computes with.
#pragma once

#include <array>

#include "saccade/core/words.h"
#include "saccade/model/encoder.h"

namespace saccade {

inline constexpr std::array<EnumWord<Precision>, 3> kPrecisionWords{
    {{Precision::kFp32, "fp32"}, {Precision::kBf16, "bf16"}, {Precision::kInt8, "int8"}}};
inline std::span<const EnumWord<Precision>> enum_words(Precision) {
  return kPrecisionWords;
}

}  // namespace saccade
