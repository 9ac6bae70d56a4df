#include "lab/train/options/loop_options.h"

#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/device/off_device.h"

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

Result<BackendOptions> encoder_options(TrainingDevice device, const std::string& named,
                                       const BackendOptions& options) {
  if (device != TrainingDevice::kCuda) return options;
  SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(named));
  BackendOptions there = options;
  there.device = "cuda";
  SACCADE_ASSIGN(const std::string reason, off_device_reason(folder, there));
  return reason.empty() ? there : options;
}

}  // namespace saccade::lab
