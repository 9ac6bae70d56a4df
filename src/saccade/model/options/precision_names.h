// Names of the number formats that encoders compute in.
#pragma once

#include <array>

#include "saccade/core/enum_names.h"
#include "saccade/precision.h"

namespace saccade {

inline constexpr std::array<EnumName<Precision>, 3> kPrecisionNames{
    {{Precision::kFp32, "fp32"}, {Precision::kBf16, "bf16"}, {Precision::kInt8, "int8"}}};
inline std::span<const EnumName<Precision>> enum_names(Precision) {
  return kPrecisionNames;
}

}  // namespace saccade
