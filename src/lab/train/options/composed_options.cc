#include "lab/train/options/composed_options.h"

#include <array>

namespace saccade::lab {

std::span<const EnumName<AlignTargets>> enum_names(AlignTargets) {
  static constexpr std::array<EnumName<AlignTargets>, 3> kNames{
      {{AlignTargets::kNone, "none", "no stage one"},
       {AlignTargets::kReal, "real", "the triplets' own targets"},
       {AlignTargets::kPseudo, "pseudo", "targets that a generator drew; the real one where it drew none"}}};
  return kNames;
}

std::span<const EnumName<TrainedTowers>> enum_names(TrainedTowers) {
  static constexpr std::array<EnumName<TrainedTowers>, 3> kNames{
      {{TrainedTowers::kNone, "none", "the encoder stays as it is"},
       {TrainedTowers::kText, "text", "the text tower is trained"},
       {TrainedTowers::kBoth, "both", "both towers are trained"}}};
  return kNames;
}

std::span<const EnumName<WrongAnswers>> enum_names(WrongAnswers) {
  static constexpr std::array<EnumName<WrongAnswers>, 2> kNames{
      {{WrongAnswers::kTargets, "targets", "the batch's other targets"},
       {WrongAnswers::kReferences, "references", "those and the batch's references"}}};
  return kNames;
}

std::span<const EnumName<TrainedJoin>> enum_names(TrainedJoin) {
  static constexpr std::array<EnumName<TrainedJoin>, 3> kNames{
      {{TrainedJoin::kAnd, "and", "a triplet's texts are joined in their order"},
       {TrainedJoin::kBothOrders, "both-orders", "a triplet's texts are joined in either order, at random"},
       {TrainedJoin::kParts, "parts",
        "a triplet's text is its texts in either order or one of them, at random"}}};
  return kNames;
}

double dropout_of(const ComposedTrainingOptions& options) {
  const bool combines = options.method == "combiner" ||
                        (options.method == "atf" && options.atf.projection == AtfProjection::kCombiner);
  return options.dropout.value_or(combines ? 0.5 : 0);
}

}  // namespace saccade::lab
