#include "lab/train/trained_composers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lab/train/math/atf_operations.h"
#include "lab/train/math/composer_peers.h"
#include "saccade/model/composers/combiner.h"

namespace saccade::lab {
namespace {

class TrainedSum : public TrainedComposer {
 public:
  static Result<std::unique_ptr<TrainedComposer>> make(const ComposerConfig& /*config*/,
                                                       nn::ParameterSourceOf<Variable>& /*source*/) {
    return std::unique_ptr<TrainedComposer>(std::make_unique<TrainedSum>());
  }
  [[nodiscard]] torch::Tensor compose(const ComposerPartsOf<Variable>& parts, MatchedTokens* /*matched*/,
                                      const StepDraw* /*draw*/) const override {
    return parts.pictures.tensor() + parts.texts.tensor();
  }
};

class TrainedAtf : public TrainedComposer {
 public:
  explicit TrainedAtf(AtfOf<Variable> atf) : atf_(std::move(atf)) {}
  static Result<std::unique_ptr<TrainedComposer>> make(const ComposerConfig& config,
                                                       nn::ParameterSourceOf<Variable>& source) {
    SACCADE_ASSIGN(const AtfOptions options, atf_options_from_json(config.options));
    SACCADE_ASSIGN(AtfOf<Variable> atf, AtfOf<Variable>::make(options, config.dim, source));
    return std::unique_ptr<TrainedComposer>(std::make_unique<TrainedAtf>(std::move(atf)));
  }
  [[nodiscard]] torch::Tensor compose(const ComposerPartsOf<Variable>& parts, MatchedTokens* matched,
                                      const StepDraw* draw) const override {
    TokenMerge merge;
    std::optional<StepDropout> dropout;
    if (draw != nullptr) dropout.emplace(draw->dropout, draw->seed, draw->step);
    AtfOf<Variable>::Dropout dropped;
    if (dropout) dropped = [&](const Variable& x) { return (*dropout)(x); };
    torch::Tensor rows = atf_.forward(parts, &merge, dropped).tensor();
    if (matched == nullptr) return rows;
    // Every token is in the fused sequence: alone, or in an average.
    const auto alone =
        std::ranges::count_if(merge.tokens, [](const MergedToken& t) { return !t.is_average(); });
    int64_t tokens = parts.picture_tokens.size(0) * parts.picture_tokens.size(1);
    for (const int64_t length : parts.text_lengths) tokens += length;
    matched->matched += tokens - alone;
    matched->tokens += tokens;
    return rows;
  }

 private:
  AtfOf<Variable> atf_;
};

class TrainedCombiner : public TrainedComposer {
 public:
  explicit TrainedCombiner(CombinerOf<Variable> network) : network_(std::move(network)) {}
  static Result<std::unique_ptr<TrainedComposer>> make(const ComposerConfig& config,
                                                       nn::ParameterSourceOf<Variable>& source) {
    SACCADE_ASSIGN(const CombinerShape shape, combiner_shape_from_json(config.dim, config.options));
    SACCADE_ASSIGN(CombinerOf<Variable> network, CombinerOf<Variable>::make(shape, source));
    return std::unique_ptr<TrainedComposer>(std::make_unique<TrainedCombiner>(std::move(network)));
  }
  [[nodiscard]] torch::Tensor compose(const ComposerPartsOf<Variable>& parts, MatchedTokens* /*matched*/,
                                      const StepDraw* draw) const override {
    if (draw == nullptr) return network_.forward(parts.pictures, parts.texts).tensor();
    StepDropout dropout(draw->dropout, draw->seed, draw->step);
    return network_.forward(parts.pictures, parts.texts, [&](const Variable& x) { return dropout(x); })
        .tensor();
  }

 private:
  CombinerOf<Variable> network_;
};

struct TrainedKind {
  const ComposerKind* kind;
  Result<std::unique_ptr<TrainedComposer>> (*make)(const ComposerConfig& config,
                                                   nn::ParameterSourceOf<Variable>& source);
};
constexpr TrainedKind kTrained[] = {
    {&atf_kind, TrainedAtf::make}, {&combiner_kind, TrainedCombiner::make}, {&sum_kind, TrainedSum::make}};

}  // namespace

Result<std::unique_ptr<TrainedComposer>> make_trained_composer(const ComposerConfig& config,
                                                               nn::ParameterSourceOf<Variable>& source) {
  for (const TrainedKind& each : kTrained) {
    if (each.kind->name == config.kind) return each.make(config, source);
  }
  return fail(ErrorCode::kUnsupported, "composers of kind \"{}\" are not trained on triplets", config.kind);
}

}  // namespace saccade::lab
