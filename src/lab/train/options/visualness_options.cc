#include "lab/train/options/visualness_options.h"

namespace saccade::lab {

std::span<const EnumName<VisualnessObjective>> enum_names(VisualnessObjective) {
  static constexpr EnumName<VisualnessObjective> kNames[] = {
      {VisualnessObjective::kOwnPictures, "own-images"},
      {VisualnessObjective::kOnePicture, "one-image"},
      {VisualnessObjective::kOwnPictures, "own-pictures"},
      {VisualnessObjective::kOnePicture, "one-picture"}};
  return kNames;
}

std::span<const EnumName<VisualnessLoss>> enum_names(VisualnessLoss) {
  static constexpr EnumName<VisualnessLoss> kNames[] = {{VisualnessLoss::kLiteral, "literal"},
                                                        {VisualnessLoss::kMultiPositive, "multi-positive"}};
  return kNames;
}

std::span<const EnumName<TrainedPart>> enum_names(TrainedPart) {
  static constexpr EnumName<TrainedPart> kNames[] = {{TrainedPart::kBoth, "both"},
                                                     {TrainedPart::kText, "text"}};
  return kNames;
}

}  // namespace saccade::lab
