#include "lab/train/options/dual_options.h"

namespace saccade::lab {

std::span<const EnumName<WeightsFormat>> enum_names(WeightsFormat) {
  static constexpr EnumName<WeightsFormat> kNames[] = {
      {WeightsFormat::kFp32, "fp32"}, {WeightsFormat::kFp16, "fp16"}, {WeightsFormat::kBf16, "bf16"}};
  return kNames;
}

std::span<const EnumName<TrainingDevice>> enum_names(TrainingDevice) {
  static constexpr EnumName<TrainingDevice> kNames[] = {{TrainingDevice::kCpu, "cpu"},
                                                        {TrainingDevice::kCuda, "cuda"}};
  return kNames;
}

}  // namespace saccade::lab
