#include "lab/train/options/dual_options.h"

namespace saccade::lab {

std::span<const EnumName<WeightsFormat>> enum_names(WeightsFormat) {
  static constexpr EnumName<WeightsFormat> kNames[] = {
      {WeightsFormat::kFp32, "fp32"}, {WeightsFormat::kFp16, "fp16"}, {WeightsFormat::kBf16, "bf16"}};
  return kNames;
}

}  // namespace saccade::lab
