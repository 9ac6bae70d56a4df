#include "lab/train/options/loop_options.h"

#include <utility>

namespace saccade::lab {

std::span<const EnumName<RateSchedule>> enum_names(RateSchedule) {
  static constexpr EnumName<RateSchedule> kNames[] = {
      {RateSchedule::kCosine, "cosine", "half a cosine, from the peak down to 0"},
      {RateSchedule::kConstant, "constant", "the peak, to the last step"}};
  return kNames;
}

std::span<const EnumName<TrainingDevice>> enum_names(TrainingDevice) {
  static constexpr EnumName<TrainingDevice> kNames[] = {{TrainingDevice::kCpu, "cpu"},
                                                        {TrainingDevice::kCuda, "cuda"}};
  return kNames;
}

BackendOptions encoder_options(TrainingDevice device, const std::filesystem::path& checkpoint,
                               BackendOptions options) {
  if (device != TrainingDevice::kCuda) return options;
  BackendOptions there = options;
  there.device = "cuda";
  return check_runs_on_device(checkpoint, there) ? there : std::move(options);
}

}  // namespace saccade::lab
