#include "lab/train/recipes/train_composed.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "lab/train/data/composed_data.h"
#include "lab/train/tasks/composed_training_task.h"
#include "lab/train/tasks/sprc_training_task.h"
#include "saccade/core/hash.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/nn/exceptions.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKind = "train composed";
constexpr const char* kStageKind = "train composed, a stage";

// SPRC trains a Q-Former over a frozen vision tower: the other parts of a training are not for it.
Status check_sprc_options(const ComposedTrainingOptions& options) {
  for (const auto& [name, weight] :
       {std::pair{"the prompt's loss", options.sprc.prompt}, {"the alignment", options.sprc.alignment}}) {
    if (weight >= 0 && std::isfinite(weight)) continue;
    return fail(ErrorCode::kUsage, "weight of {} is {}, expected 0 or more", name, weight);
  }
  if (options.method != kSprc) return {};
  if (options.align != AlignTargets::kNone) {
    return fail(ErrorCode::kUsage, "method sprc has no stage one: expected align none");
  }
  if (options.towers != TrainedTowers::kNone) {
    return fail(ErrorCode::kUsage,
                "method sprc trains the Q-Former over a frozen vision tower: expected towers none");
  }
  if (dropout_of(options) > 0) {
    return fail(ErrorCode::kUsage, "dropout is {}: method sprc has none, expected 0", dropout_of(options));
  }
  if (options.device != TrainingDevice::kCpu) {
    return fail(ErrorCode::kUsage, "device {}: method sprc trains on processors alone, expected cpu",
                enum_name(options.device));
  }
  return {};
}

Json described(const ComposedTrainingOptions& options, const ComposedData& data,
               const LoadedEncoder& loaded) {
  Json description = data.description;
  description["kind"] = kKind;
  description["encoder"] = {{"name", loaded.id.name}, {"fingerprint", loaded.id.fingerprint}};
  description["method"] = options.method;
  if (options.method == "atf") description["atf"] = atf_options_json(options.atf);
  if (options.method == "combiner") description["combiner"] = combiner_options(options.combiner);
  if (options.method == kSprc) {
    description["sprc"] = {{"prompt_weight", options.sprc.prompt},
                           {"alignment_weight", options.sprc.alignment},
                           {"rate", options.tower_rate}};
  }
  if (dropout_of(options) > 0) description["dropout"] = dropout_of(options);
  description["align"] = enum_name(options.align);
  if (options.align != AlignTargets::kNone) {
    description["align_towers"] = enum_name(options.align_towers);
    description["align_steps"] = options.align_steps;
    description["align_rate"] = options.align_rate;
    if (options.min_cosine) description["min_cosine"] = *options.min_cosine;
  }
  description["towers"] = enum_name(options.towers);
  if (options.towers != TrainedTowers::kNone) description["tower_rate"] = options.tower_rate;
  description["batch"] = options.batch;
  description["together"] = options.together;
  description["wrong"] = enum_name(options.wrong);
  description["join"] = enum_name(options.join);
  description["paraphrases"] = options.paraphrases;
  description["precision"] = enum_name(options.precision);
  description["transparency"] = enum_name(options.embed.transparency);
  description["bootstrap"] = bootstrap_json(options.bootstrap);
  return description;
}

// One training from its options to its composer.
class Recipe {
 public:
  Recipe(const ComposedTrainingOptions& options, const ProgressCallback& progress, std::stop_token stop)
      : options_(options), progress_(progress), stop_(std::move(stop)), pool_(options.encoder.threads) {
    embed_ = options.embed;
    embed_.progress = progress;
    embed_.stop = stop_;
  }

  Result<ComposedTrainingReport> run() {
    SACCADE_ASSIGN(TrainingFolder folder,
                   TrainingFolder::open(options_.run, kKind, cache(), options_.dry_run));
    at::set_num_threads(pool_.size());
    SACCADE_TRY(load(options_.model));
    begins_with_ = {loaded_.id.name, loaded_.encoder->info().family, loaded_.id.fingerprint, loaded_.id.path};
    SACCADE_TRY(check_encoder());
    SACCADE_ASSIGN(data_, read_composed_data(options_));
    options_.atf.picture_tokens = states_ ? states_->picture_tokens() : 0;
    options_.atf.text_places = loaded_.encoder->info().context;
    const Json description = describe_training(described(options_, data_, loaded_), options_);
    SACCADE_TRY(folder.check_whole(description));
    report_.triplets = data_.size();
    if (options_.dry_run) return report_;
    SACCADE_TRY(folder.claim(description));
    for (const std::string& text : data_.texts) {
      texts_.push_back(loaded_.encoder->tokenizer()->encode(text, loaded_.encoder->info().context));
    }
    report_.finished = true;
    if (options_.align != AlignTargets::kNone) SACCADE_TRY(align());
    if (report_.finished && options_.method != "none") SACCADE_TRY(fuse());
    if (report_.finished) SACCADE_TRY(folder.conclude(report_.stages.back().test));
    report_.triplets = data_.size();
    return std::move(report_);
  }

 private:
  [[nodiscard]] fs::path cache() const {
    return options_.cache.empty() ? options_.run / "cache" : options_.cache;
  }

  Status load(const std::string& checkpoint) {
    SACCADE_ASSIGN(const BackendOptions there,
                   encoder_options(options_.device, checkpoint, options_.encoder));
    SACCADE_ASSIGN(loaded_, load_checkpoint(checkpoint, there));
    return {};
  }

  Status check_encoder() {
    states_ = loaded_.encoder->token_states();
    const bool trains = options_.align != AlignTargets::kNone || options_.towers != TrainedTowers::kNone;
    const ComposerKind* kind = &sum_kind;  // method that evaluates stage one
    if (options_.method != "none") {
      SACCADE_ASSIGN(kind, find_composer_kind(options_.method));
    }
    SACCADE_TRY(check_composer_needs(*loaded_.encoder, *kind));
    needs_tokens_ = kind->needs.tokens;
    if (trains && states_ == nullptr) {
      return fail(ErrorCode::kUnsupported,
                  "{}: its towers cannot be trained here; those of CLIP with a vision transformer can",
                  loaded_.encoder->info().family);
    }
    return {};
  }

  Status align() {
    ComposedStage stage = begin(options_.align_towers, false);
    stage.align = true;
    SACCADE_TRY(store(stage));
    ComposedTrainingOptions options = options_;
    options.steps = options_.align_steps;
    options.learning_rate = options_.align_rate;
    SACCADE_TRY(train("align", options, stage));
    if (!report_.finished) return {};
    // The next stage begins with the weights of this one.
    SACCADE_TRY(load(report_.stages.back().model.string()));
    states_ = loaded_.encoder->token_states();
    return {};
  }

  Status fuse() {
    ComposedStage stage = begin(options_.towers, needs_tokens_);
    stage.composer.kind = options_.method;
    stage.composer.dim = loaded_.encoder->info().dim;
    if (options_.method == "atf") stage.composer.options = atf_options_json(options_.atf);
    if (options_.method == "combiner") {
      const CombinerShape usual = combiner_shape(stage.composer.dim);
      CombinerShape shape = options_.combiner;
      if (shape.projection == 0) shape.projection = usual.projection;
      if (shape.hidden == 0) shape.hidden = usual.hidden;
      stage.composer.options = combiner_options(shape);
    }
    stage.composer.encoder = begins_with_;
    const bool aligns = options_.align != AlignTargets::kNone;
    const auto trains = [&](TrainedTowers towers) {
      return options_.towers == towers || (aligns && options_.align_towers == towers);
    };
    stage.own = trains(TrainedTowers::kBoth)   ? OwnEncoder::kWhole
                : trains(TrainedTowers::kText) ? OwnEncoder::kTexts
                                               : OwnEncoder::kNone;
    SACCADE_TRY(store(stage));
    return train("fuse", options_, stage);
  }

  ComposedStage begin(TrainedTowers towers, bool all_tokens) {
    all_tokens_ = all_tokens;
    ComposedStage stage;
    stage.towers = towers;
    stage.loaded = &loaded_;
    stage.data = &data_;
    stage.texts = texts_;
    return stage;
  }

  // Stores the stage's inputs in the cache, then selects the available triplets.
  Status store(ComposedStage& stage) {
    if (stage.towers == TrainedTowers::kBoth) {
      SACCADE_ASSIGN(pixels_, store_pixels(loaded_, data_, cache(), embed_, pool_));
      stage.pixels = &pixels_;
    } else if (is_sprc(stage)) {
      SACCADE_ASSIGN(picture_tokens_, store_vision_states(loaded_, data_, cache(), embed_, pool_));
      stage.picture_tokens = &picture_tokens_;
    } else {
      SACCADE_ASSIGN(picture_tokens_,
                     store_picture_tokens(loaded_, data_, all_tokens_, cache(), embed_, pool_));
      stage.picture_tokens = &picture_tokens_;
    }
    if (stage.towers == TrainedTowers::kNone && !is_sprc(stage)) {
      SACCADE_ASSIGN(text_tokens_, store_text_tokens(loaded_, texts_, all_tokens_, cache(), embed_));
      stage.text_tokens = &text_tokens_;
    }
    const ItemFile& pictures = stage.pixels != nullptr ? pixels_.file : picture_tokens_.file;
    report_.left_out = pictures.left_out();
    return settle_composed_data(options_, pictures, data_);
  }

  static bool is_sprc(const ComposedStage& stage) { return !stage.align && stage.composer.kind == kSprc; }

  Result<std::unique_ptr<ComposedStageTask>> make_task(const ComposedTrainingOptions& options,
                                                       const ComposedStage& stage) {
    if (is_sprc(stage)) return SprcTrainingTask::make(options, stage, pool_);
    return ComposedTrainingTask::make(options, stage, pool_);
  }

  Status train(const std::string& name, ComposedTrainingOptions options, const ComposedStage& stage) {
    const bool shared = stage.align && !options_.stage_one.empty();
    options.run = shared ? options_.stage_one : options_.run / name;
    SACCADE_TRY(check_loop_options(options));
    SACCADE_ASSIGN(TrainingFolder folder, TrainingFolder::open(options.run, kStageKind, cache(), false));
    SACCADE_ASSIGN(const std::unique_ptr<ComposedStageTask> task, make_task(options, stage));
    ComposedTrainingOptions recorded = options_;
    if (shared) {
      // Trainings with another stage two share it.
      recorded.method = "none";
      recorded.dropout = std::nullopt;
      recorded.towers = TrainedTowers::kNone;
    }
    Json description = described(recorded, data_, loaded_);
    description["kind"] = kStageKind;
    description["stage"] = name;
    TrainingLoop loop(*task, options, folder, description);
    SACCADE_TRY(loop.begin());
    SACCADE_ASSIGN(const TrainingOutcome outcome, loop.run(progress_, stop_));
    ComposedStageReport& report = report_.stages.emplace_back();
    report.stage = name;
    static_cast<TrainingSummary&>(report) = outcome;
    report.triplets_per_second = outcome.steps_per_second * static_cast<double>(options.batch);
    report.held_out = outcome.best;
    report.model = options.run / "model";
    report_.finished = outcome.finished;
    const bool last = name == "fuse" || options_.method == "none";
    if (!outcome.finished || !last || data_.test.empty()) return {};
    SACCADE_TRY(task->read_model(report.model));
    for (const HeldOutQueries& set : data_.test) {
      SACCADE_ASSIGN(Json line, task->measure(set));
      report.test.push_back(std::move(line));
    }
    return {};
  }

  ComposedTrainingOptions options_;
  const ProgressCallback& progress_;
  std::stop_token stop_;
  ThreadPool pool_;
  EmbedOptions embed_;
  LoadedEncoder loaded_;
  EncoderId begins_with_;
  TokenStates* states_ = nullptr;
  bool needs_tokens_ = false;
  bool all_tokens_ = false;
  ComposedData data_;
  std::vector<TokenizedText> texts_;
  StoredPixels pixels_;
  StoredTokens picture_tokens_, text_tokens_;
  ComposedTrainingReport report_;
};

}  // namespace

Status check_composed_options(const ComposedTrainingOptions& options) {
  if (options.datasets.empty()) return fail(ErrorCode::kUsage, "no dataset given");
  SACCADE_TRY(check_loop_options(options));
  if (options.batch < 2) return fail(ErrorCode::kUsage, "batch is {}, expected 2 or more", options.batch);
  SACCADE_TRY(check_accumulation(options.accumulate, options.batch));
  const bool trains_towers = options.towers != TrainedTowers::kNone || options.align != AlignTargets::kNone;
  if (options.accumulate > 1 && !trains_towers) {
    return fail(ErrorCode::kUsage,
                "accumulate is {}: it is for towers that are trained (--align, --towers), expected 1",
                options.accumulate);
  }
  if (options.checkpoint_activations && !trains_towers) {
    return fail(ErrorCode::kUsage,
                "--checkpoint-activations is for towers that are trained (--align, --towers): none is "
                "trained here");
  }
  if (options.together < 1)
    return fail(ErrorCode::kUsage, "together is {}, expected 1 or more", options.together);
  if (options.align_steps < 1)
    return fail(ErrorCode::kUsage, "steps of stage one is {}, expected 1 or more", options.align_steps);
  if (!(options.paraphrases >= 0 && options.paraphrases <= 1)) {
    return fail(ErrorCode::kUsage, "share of paraphrases is {}, expected 0 to 1", options.paraphrases);
  }
  for (const auto& [name, rate] : {std::pair{"learning rate of stage one", options.align_rate},
                                   {"learning rate of towers", options.tower_rate}}) {
    if (!(rate > 0 && std::isfinite(rate)))
      return fail(ErrorCode::kUsage, "{} is {}, expected above 0", name, rate);
  }
  if (!std::isfinite(options.atf.merge.tau))
    return fail(ErrorCode::kUsage, "tau is {}", options.atf.merge.tau);
  if (const double dropout = dropout_of(options); !(dropout >= 0 && dropout < 1)) {
    return fail(ErrorCode::kUsage, "dropout is {}, expected 0 to below 1", dropout);
  }
  const bool linear = options.method == "atf" && options.atf.projection == AtfProjection::kLinear;
  if (linear && dropout_of(options) > 0) {
    return fail(
        ErrorCode::kUsage,
        "dropout is {}: projection linear has no hidden values, expected 0, or projection mlp, both or "
        "combiner",
        dropout_of(options));
  }
  if (const Status fits = check_atf_options(options.atf); !fits) {
    return fail(ErrorCode::kUsage, "{}", fits.error().message);
  }
  if (options.atf.heads < 1 || options.atf.heads > 1024) {
    return fail(ErrorCode::kUsage, "{} heads of pooling, expected 1 to 1024", options.atf.heads);
  }
  if (options.precision == Precision::kInt8) {
    return fail(ErrorCode::kUsage, "precision is int8: towers are trained in fp32 or bf16");
  }
  SACCADE_TRY(check_sprc_options(options));
  const bool pseudo = options.align == AlignTargets::kPseudo;
  if (pseudo && options.pseudo_targets.empty()) {
    return fail(ErrorCode::kUsage, "alignment with pseudo-targets needs their folder (--pseudo-targets)");
  }
  if (!pseudo && !options.pseudo_targets.empty()) {
    return fail(ErrorCode::kUsage, "pseudo-targets are for alignment with them (--align pseudo)");
  }
  if (options.align != AlignTargets::kNone && options.align_towers == TrainedTowers::kNone) {
    return fail(ErrorCode::kUsage, "stage one trains a tower at least: text or both");
  }
  if (options.method == "none") {
    if (options.align == AlignTargets::kNone) return fail(ErrorCode::kUsage, "neither stage is asked for");
    return {};
  }
  SACCADE_ASSIGN(const ComposerKind* kind, find_composer_kind(options.method));
  if (kind->name == "sum" && options.towers == TrainedTowers::kNone) {
    return fail(ErrorCode::kUsage,
                "a sum of a frozen encoder's rows has nothing to be trained: train its towers too");
  }
  return {};
}

Json composed_training_json(const ComposedTrainingReport& report) {
  Json stages = Json::array();
  for (const ComposedStageReport& stage : report.stages) {
    stages.push_back({{"stage", stage.stage},
                      {"model", stage.model.string()},
                      {"steps", stage.steps},
                      {"best_step", stage.best_step},
                      {"finished", stage.finished},
                      {"last_loss", stage.last_loss},
                      {"triplets_per_second", stage.triplets_per_second},
                      {"held_out", stage.held_out},
                      {"test", stage.test}});
  }
  return {{"stages", std::move(stages)},
          {"triplets", report.triplets},
          {"finished", report.finished},
          {"left_out", report.left_out}};
}

Result<ComposedTrainingReport> train_composed(const ComposedTrainingOptions& options,
                                              const ProgressCallback& progress, std::stop_token stop) {
  SACCADE_TRY(check_composed_options(options));
  return nn::without_exceptions("train composed", [&] { return Recipe(options, progress, stop).run(); });
}

}  // namespace saccade::lab
