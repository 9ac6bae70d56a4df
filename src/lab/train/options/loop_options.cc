#include "lab/train/options/loop_options.h"

namespace saccade::lab {

std::span<const EnumName<RateSchedule>> enum_names(RateSchedule) {
  static constexpr EnumName<RateSchedule> kNames[] = {
      {RateSchedule::kCosine, "cosine", "half a cosine, from the peak down to 0"},
      {RateSchedule::kConstant, "constant", "the peak, to the last step"}};
  return kNames;
}

}  // namespace saccade::lab
