// The words of the numbers an encoder computes with.
#pragma once

#include <array>

#include "saccade/core/words.h"
#include "saccade/model/encoder.h"

namespace saccade {

inline constexpr std::array<EnumWord<Precision>, 2> kPrecisionWords{
    {{Precision::kFp32, "fp32"}, {Precision::kBf16, "bf16"}}};
inline std::span<const EnumWord<Precision>> enum_words(Precision) {
  return kPrecisionWords;
}

}  // namespace saccade
