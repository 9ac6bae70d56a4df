#include "lab/train/recipes/train_editor.h"

#include <algorithm>
#include <unordered_map>

#include "lab/data/dataset.h"
#include "lab/data/edit_queries.h"
#include "lab/data/generated.h"
#include "lab/data/read_dataset.h"
#include "lab/train/math/step_random.h"
#include "lab/train/tasks/editor_task.h"
#include "saccade/core/counts.h"
#include "saccade/core/threads.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/nn/exceptions.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEditorTrainingKind = "train editor";
constexpr uint64_t kChooseHeldOut = 34;

// Numbers distinct images and texts.
struct Numbering {
  std::vector<DatasetItem> items;
  std::unordered_map<std::string, int64_t> pictures;
  std::vector<std::string> texts;
  std::unordered_map<std::string, int64_t> text_numbers;

  int64_t picture(const ImageRef& image) {
    const auto [at, added] = pictures.emplace(image.name(), std::ssize(items));
    if (added) {
      DatasetItem& item = items.emplace_back();
      item.id = image.name();
      item.image = image;
    }
    return at->second;
  }
  int64_t text(const std::string& said) {
    const auto [at, added] = text_numbers.emplace(said, std::ssize(texts));
    if (added) texts.push_back(said);
    return at->second;
  }
};

Status add_queries(const Dataset& dataset, Numbering& numbering, std::vector<EditorQuery>& queries) {
  SACCADE_ASSIGN(const EditQueries* edits, dataset.need<EditQueries>());
  const GalleryIndex gallery(*edits);
  for (const EditQuery& edit : edits->items) {
    if (edit.targets.empty()) continue;
    EditorQuery query;
    SACCADE_ASSIGN(const size_t reference, gallery.at(edit.gallery, edit.reference));
    SACCADE_ASSIGN(const size_t target, gallery.at(edit.gallery, edit.targets.front()));
    std::vector<std::string> texts = {edit_text(edit.texts)};
    texts.insert(texts.end(), edit.paraphrases.begin(), edit.paraphrases.end());
    std::erase_if(texts, [](const std::string& text) { return text.empty(); });
    if (texts.empty()) continue;
    query.reference = numbering.picture(edits->gallery[reference].image);
    query.target = numbering.picture(edits->gallery[target].image);
    for (const std::string& text : texts) query.texts.push_back(numbering.text(text));
    queries.push_back(std::move(query));
  }
  return {};
}

Json dataset_json(const Dataset& dataset, const std::string& source) {
  return {{"name", dataset.name}, {"source", source}, {"hash", dataset.hash}, {"queries", dataset.size()}};
}

// Reads the named datasets, and adds hashes of their contents to `described`.
Status read_sets(const std::vector<std::string>& sources, std::vector<Dataset>& datasets, Json& described) {
  for (const std::string& text : sources) {
    SACCADE_ASSIGN(const DatasetSource source, parse_dataset_source(text));
    SACCADE_ASSIGN(datasets.emplace_back(), read_dataset(source));
    described.push_back(dataset_json(datasets.back(), text));
  }
  return {};
}

// Removes the queries that have an unreadable image.
void drop_unreadable(const PictureStore& pictures, std::vector<EditorQuery>& queries) {
  std::erase_if(queries, [&](const EditorQuery& query) {
    return !pictures.has(query.reference) || !pictures.has(query.target);
  });
}

void choose_held_out(std::vector<EditorQuery>& queries, int64_t count, uint64_t seed) {
  KeyedRandom random(seed, kChooseHeldOut, 0);
  for (size_t i = queries.size(); i > 1; --i) std::swap(queries[i - 1], queries[random.below(i)]);
  if (count > 0 && std::ssize(queries) > count) queries.resize(static_cast<size_t>(count));
}

Status check_options(const EditorTrainingOptions& options) {
  SACCADE_TRY(check_loop_options(options));
  if (options.datasets.empty()) return fail(ErrorCode::kUsage, "no dataset given");
  if (options.encoder.empty()) return fail(ErrorCode::kUsage, "no encoder given");
  if (options.batch < 1) return fail(ErrorCode::kUsage, "batch is {}, expected 1 or more", options.batch);
  SACCADE_TRY(check_accumulation(options.accumulate, options.batch));
  if (!(options.text_dropout >= 0 && options.text_dropout <= 1)) {
    return fail(ErrorCode::kUsage, "text dropout is {}, expected 0 to 1", options.text_dropout);
  }
  if (options.precision == Precision::kInt8) {
    return fail(ErrorCode::kUsage, "training is in fp32 or bf16, not in int8");
  }
  for (const std::string& held_out : options.held_out) {
    if (std::ranges::find(options.datasets, held_out) == options.datasets.end()) continue;
    return fail(ErrorCode::kUsage, "{} is trained on and held out", held_out);
  }
  return {};
}

struct Loaded {
  EditorData data;
  Numbering numbering;
  int64_t cut = 0;
};

Status load_encoder_states(const EditorTrainingOptions& options, Loaded& loaded) {
  SACCADE_ASSIGN(const BackendOptions there,
                 encoder_options(options.device, options.encoder,
                                 {.threads = options.threads, .fingerprints = options.fingerprints}));
  SACCADE_ASSIGN(const LoadedEncoder encoder, load_checkpoint(options.encoder, there));
  EditorConfig& config = loaded.data.config;
  config.frozen = {.name = encoder.id.name,
                   .family = encoder.encoder->info().family,
                   .fingerprint = encoder.id.fingerprint,
                   .path = encoder.id.path};
  std::vector<std::string> all = loaded.numbering.texts;
  all.emplace_back();
  SACCADE_ASSIGN(loaded.data.states, editor_text_states(*encoder.encoder, all, config, loaded.cut));
  config.text_width = loaded.data.states.rows.columns();
  if (const Status checked = check_editor_config(config); !checked) {
    return fail(ErrorCode::kUsage, "{}", checked.error().message);
  }
  return {};
}

Result<EditorTrainingReport> train(const EditorTrainingOptions& options, const ProgressCallback& progress,
                                   std::stop_token stop) {
  const fs::path cache = options.cache.empty() ? options.run / "cache" : options.cache;
  SACCADE_ASSIGN(TrainingFolder folder,
                 TrainingFolder::open(options.run, kEditorTrainingKind, cache, options.dry_run));
  ThreadPool pool(options.threads);
  at::set_num_threads(pool.size());
  std::vector<Dataset> datasets;
  std::vector<Dataset> held_out;
  Json described = Json::array();
  Json described_held_out = Json::array();
  SACCADE_TRY(read_sets(options.datasets, datasets, described));
  SACCADE_TRY(read_sets(options.held_out, held_out, described_held_out));
  Loaded loaded;
  EditorData& data = loaded.data;
  data.config = options.shape;
  for (const Dataset& dataset : datasets) SACCADE_TRY(add_queries(dataset, loaded.numbering, data.queries));
  for (const Dataset& dataset : held_out) {
    EditorSet& set = data.held_out.emplace_back();
    set.name = dataset.name;
    SACCADE_TRY(add_queries(dataset, loaded.numbering, set.queries));
    choose_held_out(set.queries, options.held_out_queries, options.seed);
  }
  SACCADE_TRY(load_encoder_states(options, loaded));
  data.description = {{"kind", kEditorTrainingKind},
                      {"objective", "flow matching: the squared error of the velocity, per image"},
                      {"model", editor_config_json(data.config)},
                      {"datasets", std::move(described)},
                      {"held_out", std::move(described_held_out)},
                      {"held_out_queries", options.held_out_queries},
                      {"batch", options.batch},
                      {"text_dropout", options.text_dropout},
                      {"precision", enum_name(options.precision)}};
  SACCADE_TRY(folder.check(describe_training(data.description, options)));
  SACCADE_ASSIGN(data.pictures,
                 PictureStore::build(loaded.numbering.items, static_cast<int>(data.config.side), cache,
                                     options.processes, pool, progress, stop));
  data.description["images_sha256"] = data.pictures.sha256(0, std::ssize(loaded.numbering.items));
  drop_unreadable(data.pictures, data.queries);
  for (EditorSet& set : data.held_out) drop_unreadable(data.pictures, set.queries);
  std::erase_if(data.held_out, [](const EditorSet& set) { return set.queries.empty(); });
  if (std::ssize(data.queries) < options.batch) {
    const std::vector<std::string>& unread = data.pictures.failures();
    return fail(ErrorCode::kUsage,
                "--batch-size is too large: a batch of {} from {} with images, a text and a target{}",
                options.batch, counted(std::ssize(data.queries), "edit"),
                unread.empty() ? std::string()
                               : fmt::format("; {} cannot be read, the first: {}",
                                             counted(std::ssize(unread), "image"), unread.front()));
  }
  data.description["usable_queries"] = data.queries.size();
  SACCADE_ASSIGN(const std::unique_ptr<EditorTask> task, EditorTask::make(options, data, pool));
  TrainingLoop loop(*task, options, folder, data.description);
  SACCADE_TRY(loop.begin());
  EditorTrainingReport report;
  report.queries = std::ssize(data.queries);
  report.texts = std::ssize(loaded.numbering.texts);
  report.cut = loaded.cut;
  report.left_out = data.pictures.failures();
  report.model = options.run / "model";
  for (const auto& [name, tensor] : task->parameters()) report.parameters += tensor.numel();
  if (options.dry_run) return report;
  SACCADE_TRY(data.pictures.keep());
  SACCADE_ASSIGN(const TrainingOutcome outcome, loop.run(progress, stop));
  static_cast<TrainingSummary&>(report) = outcome;
  report.best = outcome.best;
  report.examples_per_second = outcome.steps_per_second * static_cast<double>(options.batch);
  return report;
}

}  // namespace

Json editor_training_json(const EditorTrainingReport& report) {
  return {{"model", report.model.string()},
          {"steps", report.steps},
          {"resumed_from", report.resumed_from},
          {"finished", report.finished},
          {"last_loss", report.last_loss},
          {"best_step", report.best_step},
          {"best", report.best},
          {"queries", report.queries},
          {"texts", report.texts},
          {"texts_cut", report.cut},
          {"parameters", report.parameters},
          {"examples_per_second", report.examples_per_second},
          {"left_out", report.left_out}};
}

Result<EditorTrainingReport> train_editor(const EditorTrainingOptions& options,
                                          const ProgressCallback& progress, std::stop_token stop) {
  SACCADE_TRY(check_options(options));
  return nn::without_exceptions("train editor", [&] { return train(options, progress, stop); });
}

}  // namespace saccade::lab
