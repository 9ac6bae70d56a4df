// Evaluations of composed search: of checkpoints with composers, and of embeddings from files.
#include <algorithm>

#include <fmt/format.h>

#include "lab/eval/composed/composed_study.h"
#include "saccade/model/device/device_name.h"

namespace saccade::lab {

std::string ComposedVariant::name_of(size_t seed) const {
  return seeds.size() < 2 ? name : fmt::format("{}, seed {}", name, seeds[seed]);
}

Result<std::vector<MeasuredComposer>> open_composers(const ComposedOptions& composed,
                                                     const BackendOptions& options) {
  std::vector<MeasuredComposer> composers;
  std::vector<std::string> names;
  const auto open = [&](const std::filesystem::path& folder) -> Status {
    MeasuredComposer& each = composers.emplace_back();
    each.folder = folder;
    each.options = options;
    SACCADE_ASSIGN(each.composer, Composer::open(folder, options));
    return {};
  };
  for (const ComposedVariant& variant : composed.variants) {
    for (size_t s = 0; s < variant.composers.size(); ++s) {
      SACCADE_TRY(open(variant.composers[s]));
      names.push_back(variant.name_of(s));
    }
  }
  for (const std::filesystem::path& folder : composed.composers) {
    SACCADE_TRY(open(folder));
    names.push_back(composers.back().composer->name());
  }
  // A name must also differ from the names of the methods.
  for (const EnumName<ComposeBy>& entry : enum_names(ComposeBy{})) {
    for (std::string& name : names) {
      if (name == entry.name) name = "composer " + name;
    }
  }
  make_unique(names);
  for (size_t i = 0; i < composers.size(); ++i) composers[i].name = std::move(names[i]);
  return composers;
}

Result<Evaluation> evaluate_composed(const ComposedOptions& composed, EvaluationOptions options,
                                     const BackendOptions& encoder, ThreadPool& pool) {
  if (!composed.choose_on.empty()) options.datasets.insert(options.datasets.begin(), composed.choose_on);
  const CheckpointSource checkpoints = located_checkpoints(encoder);
  BackendOptions composing = encoder;
  composing.device = kProcessor;  // which composers use, and their own towers
  SACCADE_ASSIGN(const std::vector<MeasuredComposer> composers, open_composers(composed, composing));
  std::vector<std::string> there;
  for (const std::string& checkpoint : options.checkpoints) {
    SACCADE_ASSIGN(there.emplace_back(), checkpoints.fingerprint(checkpoint));
  }
  for (const MeasuredComposer& each : composers) {
    const std::string& wanted = each.composer->config().encoder.fingerprint;
    if (std::ranges::find(there, wanted) != there.end()) continue;
    SACCADE_ASSIGN(const std::filesystem::path folder, each.composer->encoder_folder());
    there.push_back(wanted);
    options.checkpoints.push_back(folder.string());
  }
  if (options.checkpoints.empty())
    return fail(ErrorCode::kUsage, "neither a checkpoint nor a composer to measure");
  ComposedStudy study(composed, options, composers);
  return evaluate(study, options, checkpoints, pool);
}

Result<Evaluation> evaluate_given_composed(std::span<const std::filesystem::path> files,
                                           Similarity similarity, const ComposedOptions& composed,
                                           const EvaluationOptions& options, ThreadPool& pool) {
  if (options.datasets.size() != 1) {
    return fail(ErrorCode::kUsage, "--embeddings files belong to one --dataset, {} are given",
                options.datasets.size());
  }
  if (!composed.choose_on.empty() || composed.weight || !composed.methods.empty()) {
    return fail(
        ErrorCode::kUsage,
        "--embeddings have their queries composed already: no --method, --text-weight or --choose-on");
  }
  if (composed.protocol.join == JoinTexts::kEach || composed.protocol.join == JoinTexts::kBothOrders) {
    return fail(ErrorCode::kUsage, "--embeddings have one row a query: --join {} asks several texts of it",
                enum_name(composed.protocol.join));
  }
  SACCADE_ASSIGN(const std::vector<NamedDataset> datasets, read_datasets(options.datasets));
  ComposedStudy study(composed, options, {}, true);
  SACCADE_TRY(study.add_dataset(datasets.front()));
  const auto measure = [&study, similarity](const StudyContext& context, const std::filesystem::path& file) {
    return study.measure_file(context, file, similarity);
  };
  SACCADE_ASSIGN(std::vector<GivenModel> models, given_models(files, measure));
  const RunDataset described = describe_dataset(datasets.front());
  return evaluate_given(study, std::span(&described, 1), std::move(models), options, pool);
}

}  // namespace saccade::lab
