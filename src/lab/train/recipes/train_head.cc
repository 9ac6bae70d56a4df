#include "lab/train/recipes/train_head.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lab/data/dataset_json.h"
#include "lab/eval/run/record_fields.h"
#include "lab/train/math/device.h"
#include "lab/train/recipes/head_training.h"
#include "lab/train/tasks/head_task.h"
#include "saccade/core/counts.h"
#include "saccade/core/seconds_since.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/nn/exceptions.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoHead = "no head";

// Training data before encoding.
struct TrainingItems {
  std::vector<NamedDataset> datasets;
  std::vector<const ImageRef*> images;                      // of all datasets' items, in order
  std::vector<std::pair<int64_t, std::string_view>> texts;  // item, caption
  Json description = Json::array();
};

Result<TrainingItems> read_training_items(const HeadTrainingOptions& options) {
  TrainingItems all;
  SACCADE_ASSIGN(all.datasets, read_datasets(options.datasets));
  for (const NamedDataset& named : all.datasets) {
    SACCADE_ASSIGN(const CaptionedImages* images, named.dataset.need<CaptionedImages>());
    for (const DatasetItem& item : images->items) {
      for (const std::string& caption : item.captions)
        all.texts.emplace_back(std::ssize(all.images), caption);
      all.images.push_back(&item.image);
    }
    all.description.push_back({{"name", named.name},
                               {"layout", named.dataset.layout},
                               {"sha256", named.dataset.hash},
                               {"items", named.dataset.size()},
                               {"excluded", exclusion_counts(named.dataset.excluded)}});
  }
  return all;
}

// Returns the images and texts of all subsets.
FeatureItems chosen_items(const TrainingItems& all, std::span<const PairSubset> subsets) {
  std::set<int64_t> numbers;
  for (const PairSubset& subset : subsets) {
    const std::vector<int64_t> some = choose_pairs(std::ssize(all.texts), subset.count, subset.seed);
    numbers.insert(some.begin(), some.end());
  }
  FeatureItems items;
  std::vector<int64_t> place(all.images.size(), -1);
  for (const int64_t number : numbers) {
    const auto& [item, caption] = all.texts[static_cast<size_t>(number)];
    int64_t& at = place[static_cast<size_t>(item)];
    if (at < 0) {
      at = std::ssize(items.pictures);
      items.pictures.push_back(*all.images[static_cast<size_t>(item)]);
    }
    items.texts.push_back(caption);
    items.text_image.push_back(at);
    items.text_number.push_back(number);
  }
  return items;
}

// Returns kUsage if an image of a set is among those of `seen`; adds the set's images.
Status check_apart(const NamedDataset& dataset, std::string_view role,
                   std::map<std::string, std::string>& seen) {
  SACCADE_ASSIGN(const CaptionedImages* images, dataset.dataset.need<CaptionedImages>());
  int64_t shared = 0;
  std::string first;
  for (const DatasetItem& item : images->items) {
    const auto found = seen.find(item.image.name());
    if (found == seen.end()) continue;
    if (shared++ == 0) first = fmt::format("{} (in {})", item.image.name(), found->second);
  }
  if (shared > 0) {
    return fail(ErrorCode::kUsage, "{}: {} elsewhere in this training too, the first {}: {} must be apart",
                dataset.name, counted(shared, "image"), first, role);
  }
  for (const DatasetItem& item : images->items) seen.emplace(item.image.name(), dataset.name);
  return {};
}

EncoderId frozen_id(const LoadedEncoder& loaded) {
  return {.name = loaded.id.name,
          .family = loaded.encoder->info().family,
          .fingerprint = loaded.id.fingerprint,
          .path = loaded.id.path};
}

Status load_encoder_of(const HeadTrainingOptions& options, HeadData& data) {
  if (options.frozen.empty()) return {};
  SACCADE_ASSIGN(const BackendOptions there,
                 encoder_options(options.device, options.frozen, options.encoder));
  SACCADE_ASSIGN(LoadedEncoder loaded, load_checkpoint(options.frozen, there));
  if (loaded.encoder->info().family == "head") {
    return fail(ErrorCode::kUsage, "checkpoint {} is a head itself: name the encoder it sits on",
                loaded.id.path);
  }
  data.frozen = describe_checkpoint(loaded);
  data.config.frozen = frozen_id(loaded);
  data.encoder = std::move(loaded.encoder);
  data.config.input = usual_head_input(*data.encoder);
  data.config.input.pooling = options.pooling;
  if (options.image_states) data.config.input.images = *options.image_states;
  if (options.train_qformer) {
    SACCADE_ASSIGN(data.qformer, read_qformer(loaded.id.path));
    data.config.input.images = ImageStates::kVision;
    data.config.qformer = HeadQFormer{data.qformer->config, data.qformer->queries, data.qformer->memory_rows};
  }
  if (options.text_states) data.config.input.texts = *options.text_states;
  SACCADE_ASSIGN(const HeadInputWidths widths, head_input_widths(*data.encoder, data.config.input));
  data.config.image_width = widths.images;
  data.config.text_width = widths.texts;
  return {};
}

Status use_file(const HeadTrainingOptions& options, HeadData& data) {
  SACCADE_ASSIGN(data.features, FeatureFile::open(options.features));
  const HeadConfig& config = data.config;
  if (data.encoder != nullptr && (config.image_width != data.features.image_width() ||
                                  config.text_width != data.features.text_width())) {
    return fail(ErrorCode::kMismatch,
                "{}: features of widths {} and {}, {} gives {} and {} ({}): a head for another encoder",
                options.features.string(), data.features.image_width(), data.features.text_width(),
                data.frozen.name, config.image_width, config.text_width, describe(config.input));
  }
  data.config.image_width = data.features.image_width();
  data.config.text_width = data.features.text_width();
  data.all_pairs = data.features.texts();
  std::set<std::string> seen = {data.features.sha256()};
  for (const auto& [given, sets] :
       {std::pair{&options.held_out, &data.held_out}, {&options.test, &data.test}}) {
    for (const std::string& path : *given) {
      SACCADE_ASSIGN(HeadSet set, head_set_of_file(path, options.captions));
      if (set.features.image_width() != data.config.image_width ||
          set.features.text_width() != data.config.text_width) {
        return fail(ErrorCode::kMismatch, "{}: features of widths {} and {}, those trained on have {} and {}",
                    path, set.features.image_width(), set.features.text_width(), data.config.image_width,
                    data.config.text_width);
      }
      if (!seen.insert(set.features.sha256()).second) {
        return fail(ErrorCode::kUsage, "{}: elsewhere in this training too: what is held out must be apart",
                    path);
      }
      sets->push_back(std::move(set));
    }
  }
  return {};
}

Status use_datasets(const HeadTrainingOptions& options, std::span<const PairSubset> subsets,
                    const TrainingFolder& folder, HeadData& data, ThreadPool& pool,
                    const EmbedOptions& embed) {
  SACCADE_ASSIGN(const TrainingItems all, read_training_items(options));
  SACCADE_ASSIGN(const std::vector<NamedDataset> held_out, read_datasets(options.held_out));
  SACCADE_ASSIGN(const std::vector<NamedDataset> test, read_datasets(options.test));
  std::map<std::string, std::string> seen;
  for (const NamedDataset& named : all.datasets) {
    for (const DatasetItem& item : named.dataset.as<CaptionedImages>().items)
      seen.emplace(item.image.name(), named.name);
  }
  for (const NamedDataset& named : held_out) SACCADE_TRY(check_apart(named, "what is held out", seen));
  for (const NamedDataset& named : test) SACCADE_TRY(check_apart(named, "what is tested on", seen));
  data.all_pairs = std::ssize(all.texts);
  data.description["datasets"] = all.description;
  SACCADE_TRY(folder.check(data.description));
  for (const PairSubset& subset : subsets) {
    const int64_t count = subset.count > 0 ? std::min(subset.count, data.all_pairs) : data.all_pairs;
    if (count >= options.batch) continue;
    return fail(ErrorCode::kUsage, "--batch-size is too large: a batch of {} from {}", options.batch,
                counted(count, "pair"));
  }

  const fs::path features = folder.path() / "features";
  SACCADE_ASSIGN(BuiltFeatures built,
                 build_features(*data.encoder, data.config.input, chosen_items(all, subsets),
                                features / "train.safetensors", "training pairs", embed, pool));
  data.file = std::move(built.file);
  data.features = std::move(built.features);
  data.left_out = std::move(built.left_out);
  for (const auto& [given, sets, role] :
       {std::tuple{&held_out, &data.held_out, "held-out"}, {&test, &data.test, "test"}}) {
    for (const NamedDataset& named : *given) {
      const fs::path path = features / fmt::format("{}-{}.safetensors", role, sets->size());
      SACCADE_ASSIGN(sets->emplace_back(), head_set_of_dataset(named, *data.encoder, data.config.input,
                                                               options.captions, path, embed, pool));
    }
  }
  return {};
}

// Measures one head after the other on one set, and compares them.
Result<Json> judge(const HeadTrainingOptions& options, const HeadData& data, const HeadSet& set,
                   const std::vector<std::pair<std::string, fs::path>>& heads, ThreadPool& pool) {
  const double confidence = options.bootstrap.confidence;
  std::vector<std::pair<std::string, Estimates>> models;
  SACCADE_ASSIGN(const std::optional<RetrievalOutcome> own, measure_own(set, options.bootstrap, pool));
  if (own) models.emplace_back(kNoHead, recall_estimates(*own));
  for (const auto& [name, folder] : heads) {
    SACCADE_ASSIGN(const std::unique_ptr<FeatureHead> head,
                   FeatureHead::open(folder, {.threads = pool.size()}));
    SACCADE_ASSIGN(const HeadRows rows, head_rows(*head, set).in(name));
    SACCADE_ASSIGN(const RetrievalOutcome outcome,
                   measure_rows(set, rows.images.view(), rows.texts.view(), options.bootstrap, pool));
    models.emplace_back(name, recall_estimates(outcome));
  }
  Json results = Json::array();
  for (const auto& [name, estimates] : models) {
    Json result = {{"model", name}};
    result.update(record_json(recall_figures(estimates, confidence)));
    results.push_back(std::move(result));
  }
  const std::string& ours = heads.front().first;
  const auto& mine = *std::ranges::find(models, ours, &std::pair<std::string, Estimates>::first);
  Json verdicts = Json::array();
  Json sentences = Json::array();
  if (!own) {
    sentences.push_back(fmt::format(
        "{} cannot be compared with no head: images' features of width {} and texts' of {} have no cosine",
        ours, set.features.image_width(), set.features.text_width()));
  }
  for (const auto& [name, estimates] : models) {
    if (name == ours) continue;
    SACCADE_ASSIGN(const Verdict verdict, compare_recall(ours, mine.second, name, estimates, confidence));
    verdicts.push_back(record_json(verdict));
    sentences.push_back(verdict.sentence);
  }
  if (data.test.empty()) {
    sentences.push_back(
        "measured on what also chose the step that is kept, which flatters the head: --test takes a "
        "set that chose nothing");
  }
  return Json{{"set", set.name},
              {"images", set.described.images},
              {"texts", set.described.texts},
              {"results", std::move(results)},
              {"verdicts", std::move(verdicts)},
              {"sentences", std::move(sentences)}};
}

// Returns heads to compare with, under the names given to them.
Result<std::vector<std::pair<std::string, fs::path>>> compared_heads(const HeadTrainingOptions& options,
                                                                     const HeadData& data) {
  std::vector<std::pair<std::string, fs::path>> heads = {
      {std::string(enum_name(options.kind)), options.run / "model"}};
  for (const std::string& named : options.against) {
    SACCADE_ASSIGN(const fs::path folder, find_checkpoint(named));
    SACCADE_ASSIGN(const std::unique_ptr<FeatureHead> head, FeatureHead::open(folder));
    const HeadConfig& config = head->config();
    const auto fingerprint = [](const HeadConfig& of) { return of.frozen ? of.frozen->fingerprint : ""; };
    if (fingerprint(config) != fingerprint(data.config)) {
      return fail(ErrorCode::kMismatch, "{}: a head for another encoder: it sits on {}, this training on {}",
                  named, config.frozen ? config.frozen->name : "none",
                  data.config.frozen ? data.config.frozen->name : "none");
    }
    if (config.input != data.config.input || config.image_width != data.config.image_width ||
        config.text_width != data.config.text_width) {
      return fail(ErrorCode::kMismatch, "{}: it reads {} of widths {} and {}, this training {} of {} and {}",
                  named, describe(config.input), config.image_width, config.text_width,
                  describe(data.config.input), data.config.image_width, data.config.text_width);
    }
    heads.emplace_back(named, folder);
  }
  return heads;
}

Result<HeadTrainingReport> train(const HeadTrainingOptions& options, const ProgressCallback& progress,
                                 std::stop_token stop) {
  SACCADE_ASSIGN(TrainingFolder folder, TrainingFolder::open(options.run, kHeadTrainingKind,
                                                             options.run / "features", options.dry_run));
  ThreadPool pool(options.encoder.threads);
  at::set_num_threads(pool.size());
  const PairSubset subset{options.pairs, options.seed};
  SACCADE_ASSIGN(HeadData data, load_head_data(options, {&subset, 1}, folder, pool, progress, stop));
  SACCADE_ASSIGN(const auto heads, compared_heads(options, data));
  SACCADE_ASSIGN(const TrainedHead trained, train_one_head(options, data, folder, pool, progress, stop));
  HeadTrainingReport report;
  report.pairs = trained.pairs;
  report.left_out = data.left_out;
  report.model = options.run / "model";
  if (options.dry_run) return report;
  SACCADE_TRY(data.keep());
  static_cast<TrainingSummary&>(report) = trained.training;
  report.seconds = trained.seconds;
  if (!report.finished) return report;
  for (const HeadSet& set : data.judges()) {
    SACCADE_ASSIGN(report.outcome.emplace_back(), judge(options, data, set, heads, pool).in(set.name));
  }
  SACCADE_TRY(folder.conclude(report.outcome));
  return report;
}

}  // namespace

Result<std::vector<int64_t>> HeadData::pairs(const PairSubset& subset, int64_t batch) const {
  const std::vector<int64_t> chosen = choose_pairs(all_pairs, subset.count, subset.seed);
  std::vector<int64_t> texts;
  for (int64_t t = 0; t < features.texts(); ++t) {
    const auto at = static_cast<size_t>(t);
    if (features.text_image()[at] < 0) continue;
    if (std::ranges::binary_search(chosen, features.text_number()[at])) texts.push_back(t);
  }
  if (std::ssize(texts) < batch) {
    return fail(ErrorCode::kUsage, "--batch-size is too large: a batch of {} from {}", batch,
                counted(std::ssize(texts), "pair"));
  }
  if (features.one_class(texts)) {
    return fail(
        ErrorCode::kBadData,
        "one class only: all {} have the same image or the same text, so that there is nothing to tell "
        "apart",
        counted(std::ssize(texts), "pair"));
  }
  return texts;
}

Status HeadData::keep() {
  SACCADE_TRY(file.keep());
  for (std::vector<HeadSet>* sets : {&held_out, &test}) {
    for (HeadSet& set : *sets) SACCADE_TRY(set.file.keep());
  }
  return {};
}

Status check_head_options(const HeadTrainingOptions& options) {
  if (options.datasets.empty() == options.features.empty()) {
    return fail(ErrorCode::kUsage, "name either datasets (--dataset) or a file of features (--features)");
  }
  if (options.features.empty() && options.frozen.empty()) {
    return fail(ErrorCode::kUsage, "no frozen encoder given");
  }
  if (options.train_qformer) {
    if (options.frozen.empty())
      return fail(ErrorCode::kUsage, "a Q-Former is trained of no encoder: name it (-m)");
    if (options.image_states && *options.image_states != ImageStates::kVision) {
      return fail(ErrorCode::kUsage, "a Q-Former that is trained reads the vision tower's states, not \"{}\"",
                  enum_name(*options.image_states));
    }
    if (options.hard_negatives > 0) {
      return fail(ErrorCode::kUsage,
                  "hard negatives are chosen by frozen features, which a Q-Former that is "
                  "trained has none of");
    }
    if (!(options.qformer_rate > 0 && options.qformer_rate <= 1)) {
      return fail(ErrorCode::kUsage, "the Q-Former's learning rate is {}, expected above 0 and up to 1",
                  options.qformer_rate);
    }
  } else if (options.image_states == ImageStates::kVision) {
    return fail(ErrorCode::kUsage,
                "states of the vision tower are for a Q-Former that is trained with the head");
  }
  if (options.batch < 2) return fail(ErrorCode::kUsage, "batch is {}, expected 2 or more", options.batch);
  SACCADE_TRY(check_accumulation(options.accumulate, options.batch));
  for (const auto& [name, value] :
       {std::pair{"width", options.width}, {"hidden width", options.hidden_width}}) {
    if (value < 1 || value > 65'536) {
      return fail(ErrorCode::kUsage, "{} is {}, expected 1 to 65,536", name, value);
    }
  }
  if (options.pairs < 0) return fail(ErrorCode::kUsage, "pairs is {}, expected 0 or more", options.pairs);
  if (!(options.epochs >= 0 && options.epochs <= 1e6)) {
    return fail(ErrorCode::kUsage, "epochs is {}, expected 0 to 1,000,000", options.epochs);
  }
  if (!(options.hard_negatives >= 0 && options.hard_negatives <= 0.5)) {
    return fail(ErrorCode::kUsage, "share of hard negatives is {}, expected 0 to 0.5",
                options.hard_negatives);
  }
  return check_device(options.device);
}

Result<HeadData> load_head_data(const HeadTrainingOptions& options, std::span<const PairSubset> subsets,
                                const TrainingFolder& folder, ThreadPool& pool,
                                const ProgressCallback& progress, std::stop_token stop) {
  EmbedOptions embed = options.embed;
  embed.progress = progress;
  embed.stop = std::move(stop);
  HeadData data;
  SACCADE_TRY(load_encoder_of(options, data));
  const HeadConfig& config = data.config;
  data.description = {{"kind", folder.kind()},
                      {"objective", "symmetric InfoNCE; every text of an image is its positive"},
                      {"frozen", head_config_json(config)["frozen"]},
                      {"image_states", enum_name(config.input.images)},
                      {"text_states", enum_name(config.input.texts)},
                      {"pooling", enum_name(config.input.pooling)}};
  if (options.features.empty()) {
    SACCADE_TRY(use_datasets(options, subsets, folder, data, pool, embed));
  } else {
    SACCADE_TRY(use_file(options, data));
  }
  data.description["features_sha256"] = data.features.sha256();
  data.description["captions"] = enum_name(options.captions);
  data.description["bootstrap"] = bootstrap_json(options.bootstrap);
  for (const auto& [key, sets] : {std::pair{"held_out", &data.held_out}, {"test", &data.test}}) {
    data.description[key] = Json::array();
    for (const HeadSet& set : *sets) data.description[key].push_back(set.description);
  }
  return data;
}

Result<TrainedHead> train_one_head(const HeadTrainingOptions& given, const HeadData& data,
                                   TrainingFolder& folder, ThreadPool& pool, const ProgressCallback& progress,
                                   std::stop_token stop) {
  SACCADE_ASSIGN(const std::vector<int64_t> pairs, data.pairs({given.pairs, given.seed}, given.batch));
  HeadTrainingOptions options = given;
  options.steps = head_training_steps(options, std::ssize(pairs));
  // Evaluates once per epoch.
  options.evaluate_every = std::max<int64_t>(1, (std::ssize(pairs) + options.batch - 1) / options.batch);
  if (data.held_out.empty()) options.patience = 0;
  SACCADE_TRY(check_loop_options(options));
  HeadConfig config = data.config;
  config.kind = options.kind;
  config.width = options.width;
  config.hidden_width = options.hidden_width;
  Json description = data.description;
  description["kind"] = folder.kind();
  description["head"] = enum_name(options.kind);
  description["width"] = options.width;
  description["hidden_width"] = options.hidden_width;
  description["pairs"] = pairs.size();
  description["pairs_asked"] = options.pairs;
  description["batch"] = options.batch;
  description["hard_negatives"] = options.hard_negatives;
  if (config.qformer) description["qformer_rate"] = options.qformer_rate;
  SACCADE_ASSIGN(const std::unique_ptr<HeadTask> task,
                 HeadTask::make(options, config, data.features, pairs, data.held_out, pool,
                                data.qformer ? data.qformer->weights.tensors : nn::TensorMap()));
  TrainingLoop loop(*task, options, folder, description);
  SACCADE_TRY(loop.begin());
  TrainedHead trained;
  trained.pairs = std::ssize(pairs);
  if (options.dry_run) return trained;
  const auto started = std::chrono::steady_clock::now();
  SACCADE_ASSIGN(trained.training, loop.run(progress, std::move(stop)));
  trained.seconds = seconds_since(started);
  return trained;
}

Json head_training_json(const HeadTrainingReport& report) {
  return {{"model", report.model.string()}, {"pairs", report.pairs},         {"steps", report.steps},
          {"finished", report.finished},    {"last_loss", report.last_loss}, {"best_step", report.best_step},
          {"seconds", report.seconds},      {"outcome", report.outcome},     {"left_out", report.left_out}};
}

Result<HeadTrainingReport> train_head(const HeadTrainingOptions& options, const ProgressCallback& progress,
                                      std::stop_token stop) {
  SACCADE_TRY(check_head_options(options));
  return nn::without_exceptions("train head", [&] { return train(options, progress, stop); });
}

}  // namespace saccade::lab
