#include "lab/train/recipes/train_inversion.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "lab/eval/evaluation.h"
#include "lab/train/math/device.h"
#include "lab/train/tasks/inversion_task.h"
#include "lab/train/training_folder.h"
#include "saccade/core/files/files.h"
#include "saccade/core/threads.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/nn/exceptions.h"

namespace saccade::lab {
namespace {

constexpr const char* kKind = "train composed";

Status check_options(const InversionTrainingOptions& options) {
  SACCADE_TRY(check_loop_options(options));
  SACCADE_TRY(check_sentence(options.sentence).in("--sentence"));
  if (options.texts.empty()) {
    return fail(ErrorCode::kUsage,
                "textual inversion is learned from texts: name a file of them with --texts");
  }
  if (options.batch < 1) return fail(ErrorCode::kUsage, "batch is {}, expected 1 or more", options.batch);
  if (options.accumulate > 1) {
    return fail(ErrorCode::kUsage, "accumulate is {}: textual inversion takes a batch as a whole, expected 1",
                options.accumulate);
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return fail(ErrorCode::kUsage, "dropout is {}, expected 0 to below 1", options.dropout);
  }
  if (!(options.noise >= 0) || !std::isfinite(options.noise)) {
    return fail(ErrorCode::kUsage, "noise is {}, expected 0 or more", options.noise);
  }
  if (options.hidden < 0) return fail(ErrorCode::kUsage, "width is {}, expected 0 or more", options.hidden);
  return {};
}

Json hashes_of(const std::vector<NamedDataset>& named) {
  Json hashes = Json::array();
  for (const NamedDataset& each : named) {
    hashes.push_back({{"name", each.name}, {"hash", each.dataset.hash}});
  }
  return hashes;
}

// Checks that test data differ from the data that select the checkpoint.
Status check_apart(const std::vector<NamedDataset>& held_out, const std::vector<NamedDataset>& test) {
  for (const NamedDataset& each : test) {
    const bool there = std::ranges::any_of(
        held_out, [&](const NamedDataset& other) { return other.dataset.hash == each.dataset.hash; });
    if (there) return fail(ErrorCode::kUsage, "{}: held out for choosing, and to be tested by", each.name);
  }
  return {};
}

// Reads edit queries in their original wording, with their images' embeddings. Queries with an unreadable
// image are left out.
Result<InversionQueries> read_queries(const NamedDataset& named, const InversionTrainingOptions& options,
                                      EncoderBackend& encoder, const EmbedOptions& embed, ThreadPool& pool,
                                      std::vector<std::string>& left_out) {
  InversionQueries set;
  set.name = named.name;
  SACCADE_TRY(named.dataset.need<EditQueries>());
  Dataset dataset = named.dataset;
  auto& edits = dataset.as<EditQueries>();
  for (EditQuery& query : edits.items) query.paraphrases.clear();
  std::vector<ImageRef> pictures;
  for (const GalleryPicture& picture : edits.gallery) pictures.push_back(picture.image);
  SACCADE_ASSIGN(const EmbeddedPictures embedded, embed_pictures(encoder, pictures, embed, pool));
  std::vector<int64_t> unreadable;
  std::vector<int64_t> row_of(pictures.size(), -1);
  for (const auto& [number, error] : embedded.failed) {
    unreadable.push_back(number);
    left_out.push_back(fmt::format("{}: {}", pictures[static_cast<size_t>(number)].name(), error.message));
  }
  int64_t next = 0;
  for (size_t i = 0; i < pictures.size(); ++i) {
    if (!std::ranges::binary_search(unreadable, static_cast<int64_t>(i))) row_of[i] = next++;
  }
  SACCADE_ASSIGN(set.task, composed_task(dataset, {}, unreadable));
  if (!set.task.has_targets()) return fail(ErrorCode::kUsage, "{}: its targets are kept back", named.name);
  const Matrix<float> rows = mean_rows(embedded.rows);
  set.pictures = Matrix<float>(std::ssize(set.task.source), rows.columns());
  for (size_t i = 0; i < set.task.source.size(); ++i) {
    std::ranges::copy(rows.row(row_of[static_cast<size_t>(set.task.source[i])]),
                      set.pictures.row(static_cast<int64_t>(i)).begin());
  }
  for (const ComposedTask::Asked& asked : set.task.asked) {
    SACCADE_ASSIGN(set.asked.emplace_back(), invert_text(*encoder.tokenizer(), options.sentence,
                                                         asked.texts.front(), encoder.info().context));
    set.references.push_back(set.task.queries[static_cast<size_t>(asked.query)].reference);
  }
  return set;
}

Result<InversionTrainingReport> train(const InversionTrainingOptions& options,
                                      const ProgressCallback& progress, std::stop_token stop) {
  SACCADE_ASSIGN(TrainingFolder folder, TrainingFolder::open(options.run, kKind, {}, options.dry_run));
  ThreadPool pool(options.encoder.threads);
  at::set_num_threads(options.encoder.threads > 0 ? options.encoder.threads : available_processors());
  SACCADE_ASSIGN(const BackendOptions there, encoder_options(options.device, options.model, options.encoder));
  SACCADE_ASSIGN(const LoadedEncoder loaded, load_checkpoint(options.model, there));
  EncoderBackend& encoder = *loaded.encoder;
  if (encoder.tokenizer() == nullptr || encoder.word_inserter() == nullptr || encoder.raw_rows() == nullptr) {
    return fail(
        ErrorCode::kUnsupported,
        "{}: no vector can stand for a word in its text tower; textual inversion needs a CLIP with its tokenizer",
        encoder.info().family);
  }
  SACCADE_ASSIGN(const InversionTexts texts,
                 read_inversion_texts(options.texts, *encoder.tokenizer(), encoder.info().context));
  if (std::ssize(texts.texts) < options.batch) {
    return fail(ErrorCode::kBadData, "{}: {} different texts, fewer than a batch of {}",
                options.texts.string(), texts.texts.size(), options.batch);
  }
  InversionConfig inversion;
  inversion.shape = {.dim = encoder.info().dim,
                     .hidden = options.hidden > 0 ? options.hidden : 4 * encoder.info().dim,
                     .word = encoder.word_inserter()->word_width()};
  inversion.sentence = options.sentence;
  const ComposerConfig config{.kind = "inversion",
                              .dim = encoder.info().dim,
                              .options = inversion_options(inversion),
                              .encoder = {.name = loaded.id.name,
                                          .family = encoder.info().family,
                                          .fingerprint = encoder.info().fingerprint,
                                          .path = loaded.id.path}};

  SACCADE_ASSIGN(const std::vector<NamedDataset> held_out, read_datasets(options.held_out));
  SACCADE_ASSIGN(const std::vector<NamedDataset> test, read_datasets(options.test));
  SACCADE_TRY(check_apart(held_out, test));
  const Json description = {{"kind", kKind},
                            {"method", "inversion"},
                            {"encoder", encoder_id_json(config.encoder)},
                            {"options", config.options},
                            {"texts_sha256", texts.sha256},
                            {"texts", std::ssize(texts.texts)},
                            {"noise", options.noise},
                            {"dropout", options.dropout},
                            {"batch", options.batch},
                            {"held_out", hashes_of(held_out)},
                            {"test", hashes_of(test)},
                            {"transparency", enum_name(options.embed.transparency)},
                            {"bootstrap", bootstrap_json(options.bootstrap)}};
  SACCADE_TRY(folder.check(description));
  EmbedOptions embed = options.embed;
  embed.progress = progress;
  embed.stop = stop;
  InversionTrainingReport report;
  const auto read = [&](const std::vector<NamedDataset>& named,
                        std::vector<InversionQueries>& queries) -> Status {
    for (const NamedDataset& dataset : named) {
      SACCADE_ASSIGN(queries.emplace_back(),
                     read_queries(dataset, options, encoder, embed, pool, report.left_out).in(dataset.name));
    }
    return {};
  };
  std::vector<InversionQueries> queries;
  std::vector<InversionQueries> tested;
  SACCADE_TRY(read(held_out, queries));
  SACCADE_TRY(read(test, tested));
  SACCADE_ASSIGN(const std::unique_ptr<FrozenTextTower> tower,
                 open_frozen_text_tower(loaded.id.path, torch_device(options.device)));
  SACCADE_ASSIGN(const std::unique_ptr<InversionTask> task,
                 InversionTask::make(options, config, encoder, *tower, texts.texts, queries, pool));
  TrainingLoop loop(*task, options, folder, description);
  SACCADE_TRY(loop.begin());
  report.texts = std::ssize(texts.texts);
  report.repeated = texts.repeated;
  report.cut = texts.cut;
  if (options.dry_run) return report;
  SACCADE_ASSIGN(const TrainingOutcome outcome, loop.run(progress, stop));
  static_cast<TrainingSummary&>(report) = outcome;
  report.held_out = outcome.best;
  report.texts_per_second = outcome.steps_per_second * static_cast<double>(options.batch);
  report.model = options.run / "model";
  if (!outcome.finished) return report;
  if (!tested.empty()) SACCADE_TRY(task->read_model(report.model));
  for (const InversionQueries& set : tested) {
    SACCADE_ASSIGN(Json line, task->measure(set));
    report.test.push_back(std::move(line));
  }
  SACCADE_TRY(folder.conclude(report.test));
  return report;
}

}  // namespace

Json inversion_training_json(const InversionTrainingReport& report) {
  return {{"method", "inversion"},
          {"model", report.model.string()},
          {"steps", report.steps},
          {"best_step", report.best_step},
          {"finished", report.finished},
          {"last_loss", report.last_loss},
          {"texts_per_second", report.texts_per_second},
          {"texts", report.texts},
          {"repeated", report.repeated},
          {"cut", report.cut},
          {"held_out", report.held_out},
          {"test", report.test},
          {"left_out", report.left_out}};
}

Result<InversionTrainingReport> train_inversion(const InversionTrainingOptions& options,
                                                const ProgressCallback& progress, std::stop_token stop) {
  SACCADE_TRY(check_options(options));
  return nn::without_exceptions("train composed", [&] { return train(options, progress, stop); });
}

}  // namespace saccade::lab
