#include "lab/eval/evaluation.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lab/data/read_dataset.h"
#include "saccade/core/counts.h"
#include "saccade/core/hash.h"
#include "saccade/model/checkpoints/build_versions.h"
#include "saccade/model/options/precision_names.h"

namespace saccade::lab {
namespace {

// State of a dataset during an evaluation.
struct Measured {
  RunDataset described;
  std::vector<int64_t> unreadable;
  std::optional<SettledTask> task;
};

// The frame of evaluate() and evaluate_given().
class Frame {
 public:
  Frame(Study& study, const EvaluationOptions& options, ThreadPool& pool)
      : study_(study), options_(options), pool_(pool), embed_(options.embed) {
    if (!options.embed.warning) return;
    // An unusable cache fails once for images and once for texts of every checkpoint.
    embed_.warning = [this](const std::string& text) { warn(text); };
  }

  Result<Evaluation> run(const CheckpointSource& checkpoints) {
    SACCADE_ASSIGN(const std::vector<NamedDataset> datasets, read_datasets(options_.datasets));
    for (const NamedDataset& named : datasets) {
      SACCADE_TRY(study_.add_dataset(named));
      datasets_.push_back({.described = describe_dataset(named), .unreadable = {}, .task = {}});
    }
    describe();
    SACCADE_TRY(open(checkpoints));
    std::vector<std::string> names;
    for (const std::string& given : options_.checkpoints) {
      for (const Precision precision : options_.precisions) {
        SACCADE_TRY(measure(given, precision, checkpoints, names));
      }
    }
    return finish();
  }

  Result<Evaluation> run(std::span<const RunDataset> datasets, std::vector<GivenModel> models) {
    for (const RunDataset& described : datasets) {
      datasets_.push_back({.described = described, .unreadable = {}, .task = {}});
    }
    describe();
    std::vector<std::string> names;
    for (const GivenModel& model : models) names.push_back(model.described.name);
    make_unique(names);
    for (size_t i = 0; i < models.size(); ++i) {
      info_.checkpoints.push_back(models[i].described);
      info_.checkpoints.back().name = names[i];
    }
    SACCADE_TRY(open({}));
    for (size_t d = 0; d < datasets_.size(); ++d) SACCADE_TRY(settle(d, {}).in(datasets_[d].described.name));
    for (size_t i = 0; i < models.size(); ++i) {
      for (size_t d = 0; d < datasets_.size(); ++d) {
        SACCADE_TRY(models[i].measure(context(d, info_.checkpoints[i])));
      }
    }
    return finish();
  }

 private:
  void warn(const std::string& text) {
    if (options_.embed.warning && said_.insert(text).second) options_.embed.warning(text);
  }

  void describe() { info_ = describe_run(study_.kind(), options_, study_.protocol(), pool_.size()); }

  // Opens the run's folder. A folder with a run of other inputs is refused before anything is loaded. Without
  // a source, the checkpoints are described already.
  Status open(const CheckpointSource& checkpoints) {
    if (options_.run.empty()) return {};
    asked_ = info_;
    for (const Measured& one : datasets_) asked_.datasets.push_back(one.described);
    if (checkpoints.fingerprint) {
      SACCADE_ASSIGN(asked_.checkpoints, asked_checkpoints(options_, checkpoints));
    }
    SACCADE_ASSIGN(RunWriter writer, RunWriter::open(options_.run, asked_, options_.overwrite));
    writer_.emplace(std::move(writer));
    return {};
  }

  // Measures one checkpoint in one precision on all datasets. It is unloaded when this returns.
  Status measure(const std::string& given, Precision precision, const CheckpointSource& checkpoints,
                 std::vector<std::string>& names) {
    SACCADE_ASSIGN(const LoadedEncoder loaded, checkpoints.load(given, precision));
    if (loaded.encoder->tokenizer() == nullptr) {
      return fail(ErrorCode::kUsage, "checkpoint {}: no tokenizer files, so no texts", loaded.id.path);
    }
    for (const auto& text : {separate_spaces_warning(loaded), guessed_preprocessing_warning(loaded)}) {
      if (text) warn(*text);
    }
    RunCheckpoint described = describe_checkpoint(loaded);
    if (options_.precisions.size() > 1) described.name += fmt::format("-{}", described.precision);
    names.push_back(described.name);
    make_unique(names);
    described.name = names.back();
    info_.checkpoints.push_back(described);
    for (size_t d = 0; d < datasets_.size(); ++d) {
      SACCADE_TRY(
          measure_one(*loaded.encoder, d, described).in(datasets_[d].described.name).in(described.name));
    }
    return {};
  }

  Status measure_one(EncoderBackend& encoder, size_t dataset, const RunCheckpoint& model) {
    Measured& one = datasets_[dataset];
    EmbedOptions embed = embed_;
    embed.progress_detail = fmt::format("{}, {}", one.described.name, model.name);
    if (study_.takes_text_models() &&
        (encoder.info().image_height == 0 || study_.pictures(dataset).empty())) {
      if (!one.task) SACCADE_TRY(settle(dataset, {}));
      return study_.measure({context(dataset, model), encoder, EmbeddedRows{}, embed});
    }
    const std::vector<ImageRef> pictures = study_.pictures(dataset);
    SACCADE_ASSIGN(EmbeddedPictures embedded, embed_pictures(encoder, pictures, embed, pool_));
    SACCADE_TRY(settle(dataset, embedded, pictures));
    const bool all =
        one.task->pictures.size() == pictures.size() && std::ranges::is_sorted(one.task->pictures);
    const EmbeddedRows rows = all ? std::move(embedded.rows) : select_rows(embedded.rows, one.task->pictures);
    return study_.measure({context(dataset, model), encoder, rows, embed});
  }

  StudyContext context(size_t dataset, const RunCheckpoint& model) {
    return {.dataset = dataset,
            .described = datasets_[dataset].described,
            .model = model,
            .pool = pool_,
            .run = writer_ ? &*writer_ : nullptr};
  }

  // Fixes the task of a dataset, the same for every checkpoint.
  Status settle(size_t dataset, const EmbeddedPictures& embedded, std::span<const ImageRef> pictures) {
    Measured& one = datasets_[dataset];
    std::vector<int64_t> unreadable;
    for (const auto& [number, error] : embedded.failed) unreadable.push_back(number);
    if (!unreadable.empty() && !options_.leave_out) {
      const Error& error = embedded.failed.front().second;
      const std::string first = pictures[static_cast<size_t>(unreadable.front())].name();
      return fail(ErrorCode::kBadData,
                  "{} of {} cannot be read, the first: {}{}; without them it would be another measurement: "
                  "--leave-out leaves them out and says so",
                  count_text(std::ssize(unreadable)), counted(std::ssize(pictures), "image"),
                  error.message.find(first) == std::string::npos ? first + ": " : "", error.message);
    }
    if (one.task && unreadable != one.unreadable) {
      return fail(ErrorCode::kBadData, "{} images cannot be read, with the checkpoint before {}",
                  unreadable.size(), one.unreadable.size());
    }
    if (!one.task) SACCADE_TRY(settle(dataset, unreadable));
    std::vector<std::string> hashes;
    for (const int64_t picture : one.task->pictures) {
      hashes.push_back(embedded.sha256[static_cast<size_t>(picture)]);
    }
    return note_pictures(dataset, hashes);
  }

  Status settle(size_t dataset, std::vector<int64_t> unreadable) {
    Measured& one = datasets_[dataset];
    SACCADE_ASSIGN(one.task, study_.settle(dataset, unreadable));
    const SettledTask& task = *one.task;
    one.unreadable = std::move(unreadable);
    one.described.images = std::ssize(task.pictures);
    one.described.texts = task.texts;
    one.described.compositions = task.compositions;
    for (const Exclusion& exclusion : task.excluded) one.described.excluded.push_back(exclusion);
    return writer_ && task.items != nullptr ? writer_->add_items(one.described.name, *task.items) : Status();
  }

  // Records the hash of a dataset's images. If the folder holds a run of other images, it is refused here,
  // before everything has been encoded and ranked.
  Status note_pictures(size_t dataset, std::span<const std::string> hashes) {
    RunDataset& described = datasets_[dataset].described;
    std::string hash = hash_of_hashes(hashes);
    if (!described.images_sha256.empty() && hash != described.images_sha256) {
      return fail(ErrorCode::kMismatch, "its images have changed while it was evaluated");
    }
    described.images_sha256 = std::move(hash);
    if (!writer_) return {};
    asked_.datasets[dataset].images_sha256 = described.images_sha256;
    return writer_->check_inputs(asked_);
  }

  Result<Evaluation> finish() {
    Evaluation evaluation;
    for (const Measured& one : datasets_) {
      info_.datasets.push_back(one.described);
      evaluation.some_unreadable |= !one.unreadable.empty();
      if (options_.bootstrap.resamples > 0 && one.task && one.task->clusters < kFewestClusters) {
        warn(fmt::format("{}: intervals rest on {}: from fewer than {} they are too narrow to be trusted",
                         one.described.name, counted(one.task->clusters, one.task->cluster),
                         kFewestClusters));
      }
    }
    SACCADE_ASSIGN(evaluation.metrics, study_.metrics(info_.datasets));
    if (writer_) SACCADE_TRY(writer_->finish(info_, evaluation.metrics));
    evaluation.info = std::move(info_);
    return evaluation;
  }

  Study& study_;
  const EvaluationOptions& options_;
  ThreadPool& pool_;
  EmbedOptions embed_;
  RunInfo info_;
  RunInfo asked_;  // inputs known from the start
  std::optional<RunWriter> writer_;
  std::vector<Measured> datasets_;
  std::set<std::string> said_;
};

}  // namespace

CheckpointSource located_checkpoints(const BackendOptions& options) {
  CheckpointSource source;
  source.find = find_checkpoint;
  source.fingerprint = [options](const std::string& given) -> Result<std::string> {
    SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(given));
    return checkpoint_fingerprint(folder, options.fingerprints);
  };
  source.load = [options](const std::string& given, Precision precision) {
    BackendOptions asked = options;
    asked.precision = precision;
    return load_checkpoint(given, asked);
  };
  return source;
}

Json evaluation_json(const Evaluation& evaluation) {
  Json json = run_json(evaluation.info);
  for (const char* key : {"format", "command", "libraries", "machine"}) json.erase(key);
  json.update(evaluation.metrics);
  return json;
}

std::string picture_words(const EmbedOptions& options) {
  return fmt::format("Transparent images {}; {}.", meaning_of(options.transparency),
                     options.as_stored ? "EXIF orientation is ignored" : "EXIF orientation is applied");
}

Json picture_fields(const EmbedOptions& options) {
  return {{"transparent", enum_name(options.transparency)}, {"as_stored", options.as_stored}};
}

void make_unique(std::vector<std::string>& names) {
  std::map<std::string, int> seen = {{"chance", 1}};
  for (std::string& name : names) {
    std::string wanted = name;
    while (!seen.emplace(wanted, 1).second) wanted = fmt::format("{}-{}", name, ++seen[name]);
    name = std::move(wanted);
  }
}

Result<std::vector<NamedDataset>> read_datasets(std::span<const std::string> given) {
  std::vector<NamedDataset> datasets;
  std::vector<std::string> names;
  for (const std::string& one : given) {
    SACCADE_ASSIGN(const DatasetSource source, parse_dataset_source(one));
    NamedDataset& named = datasets.emplace_back();
    named.given = one;
    SACCADE_ASSIGN(named.dataset, read_dataset(source));
    names.push_back(named.dataset.name);
  }
  make_unique(names);
  for (size_t i = 0; i < names.size(); ++i) datasets[i].name = names[i];
  return datasets;
}

RunDataset describe_dataset(const NamedDataset& named) {
  return {.name = named.name,
          .path = named.given,
          .layout = named.dataset.layout,
          .sha256 = named.dataset.hash,
          .images_sha256 = {},
          .images = 0,
          .texts = 0,
          .compositions = 0,
          .excluded = named.dataset.excluded};
}

RunCheckpoint describe_checkpoint(const LoadedEncoder& loaded) {
  const EncoderInfo& info = loaded.encoder->info();
  return {.name = loaded.id.name,
          .path = loaded.id.path,
          .fingerprint = info.fingerprint,
          .family = info.family,
          .precision = std::string(enum_name(info.precision)),
          .parameters = info.parameters,
          .dim = info.dim,
          .context = info.context,
          .image_height = info.image_height,
          .image_width = info.image_width};
}

Result<std::vector<RunCheckpoint>> asked_checkpoints(const EvaluationOptions& options,
                                                     const CheckpointSource& checkpoints) {
  std::vector<RunCheckpoint> asked;
  for (const std::string& given : options.checkpoints) {
    SACCADE_ASSIGN(const std::string fingerprint, checkpoints.fingerprint(given));
    for (const Precision precision : options.precisions) {
      RunCheckpoint& one = asked.emplace_back();
      one.name = given;
      one.precision = enum_name(precision);
      one.fingerprint = fingerprint;
    }
  }
  return asked;
}

RunInfo describe_run(std::string_view kind, const EvaluationOptions& options, Json protocol, int threads) {
  RunInfo info;
  info.kind = kind;
  info.saccade = options.version;
  info.command = options.command;
  info.protocol = std::move(protocol);
  info.seed = options.bootstrap.seed;
  info.resamples = options.bootstrap.resamples;
  info.confidence = options.bootstrap.confidence;
  info.libraries = library_versions();
  info.machine = this_machine(threads);
  info.machine.device = options.device;
  return info;
}

Result<EmbeddedTexts> embed_study_texts(const EncodedContext& context,
                                        std::span<const std::string_view> texts) {
  return embed_study_texts(context, own_texts(context.encoder), texts);
}

Result<EmbeddedTexts> embed_study_texts(const EncodedContext& context, const TextFunction& function,
                                        std::span<const std::string_view> texts) {
  EmbeddedTexts result;
  std::vector<TokenizedText> tokenized;
  tokenized.reserve(texts.size());
  for (const std::string_view text : texts) {
    tokenized.push_back(context.encoder.tokenizer()->encode(text, context.encoder.info().context));
    result.cut.texts += tokenized.back().dropped > 0 ? 1 : 0;
    result.cut.tokens += tokenized.back().dropped;
  }
  SACCADE_ASSIGN(result.rows, embed_texts(context.encoder, function, tokenized, context.embed));
  if (result.cut.texts > 0 && context.embed.warning) {
    context.embed.warning(fmt::format(
        "{} on {}: {} cut, {} dropped: the model has no room for more; `saccade eval length` measures "
        "what reading them in chunks gives",
        context.model.name, context.described.name, counted(result.cut.texts, "text"),
        counted(result.cut.tokens, "token")));
  }
  return result;
}

Result<Evaluation> evaluate(Study& study, const EvaluationOptions& options,
                            const CheckpointSource& checkpoints, ThreadPool& pool) {
  return Frame(study, options, pool).run(checkpoints);
}

Result<std::vector<GivenModel>> given_models(
    std::span<const std::filesystem::path> files,
    const std::function<Status(const StudyContext&, const std::filesystem::path&)>& measure) {
  std::vector<GivenModel> models;
  for (const std::filesystem::path& path : files) {
    GivenModel& model = models.emplace_back();
    model.described.name = path.stem().string();
    model.described.path = path.string();
    SACCADE_ASSIGN(model.described.fingerprint, sha256_file(path));
    model.measure = [measure, path](const StudyContext& context) { return measure(context, path); };
  }
  return models;
}

Result<Evaluation> evaluate_given(Study& study, std::span<const RunDataset> datasets,
                                  std::vector<GivenModel> models, const EvaluationOptions& options,
                                  ThreadPool& pool) {
  return Frame(study, options, pool).run(datasets, std::move(models));
}

}  // namespace saccade::lab
