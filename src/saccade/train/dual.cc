#include "saccade/train/dual.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <optional>

#include "saccade/core/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/core/safetensors.h"
#include "saccade/core/threads.h"
#include "saccade/nn/exceptions.h"
#include "saccade/train/adamw.h"
#include "saccade/train/objective.h"
#include "saccade/train/schedule.h"
#include "saccade/train/training_data.h"
#include "saccade/train/variable.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

// CLIP's bound on exp(logit_scale) (Radford et al. 2021, section 2.5).
constexpr double kMaxLogitScale = 4.605170185988092;  // log(100)

LearningRateSchedule schedule_of(const DualTrainingOptions& options) {
  return {.peak = options.learning_rate, .warmup = options.warmup, .steps = options.steps};
}

MatrixView<const float> view(const Tensor& rows) {
  return {rows.data_ptr<float>(), rows.size(0), rows.size(1)};
}

Json recall_json(const Recall& recall) {
  return Json{{"queries", recall.queries}, {"r1", recall.r1}, {"r5", recall.r5}, {"r10", recall.r10}};
}

Json recall_json(const OneCaptionRecall& recall) {
  return Json{{"name", recall.name},
              {"images", recall.images},
              {"t2i", recall_json(recall.text_to_image)},
              {"i2t", recall_json(recall.image_to_text)}};
}

// The figure that decides which checkpoint is best: mean R@10 of both directions over the held-out sets,
// weighed by their size, so that a small set's noise does not choose.
double headline(const std::vector<OneCaptionRecall>& recalls) {
  double sum = 0;
  double weight = 0;
  for (const OneCaptionRecall& recall : recalls) {
    const auto images = static_cast<double>(recall.images);
    sum += images * (recall.text_to_image.r10 + recall.image_to_text.r10) / 2;
    weight += images;
  }
  return weight > 0 ? sum / weight : 0;
}

std::optional<at::ScalarType> weights_type(const std::string& name) {
  if (name == "fp32") return at::kFloat;
  if (name == "fp16") return at::kHalf;
  if (name == "bf16") return at::kBFloat16;
  return std::nullopt;
}

class Trainer {
 public:
  Trainer(const DualTrainingOptions& options, const TrainingSetup& setup, ThreadPool& pool,
          const ProgressCallback& progress)
      : options_(options),
        setup_(setup),
        pool_(pool),
        progress_(progress),
        dtype_(options.precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat),
        device_(options.device) {}

  Result<DualTrainingReport> run(std::stop_token stop) {
    for (const DatasetSource& source : options_.held_out) {
      SACCADE_ASSIGN(held_out_.emplace_back(),
                     load_one_caption_set(source, setup_.preprocessing, *setup_.tokenizer,
                                          setup_.config.positions, pool_));
    }
    InitializedParameters source(options_.seed, device_);
    SACCADE_ASSIGN(TrainedClip model, TrainedClip::make(setup_.config, source));
    parameters_ = source.parameters();
    if (!options_.initial.empty()) SACCADE_TRY(begin_with(options_.initial / "model.safetensors"));
    AdamWOptions adamw;
    adamw.weight_decay = options_.weight_decay;
    AdamW optimizer(parameters_, adamw);
    SACCADE_TRY(restore(optimizer));

    const auto started = std::chrono::steady_clock::now();
    const int64_t first_step = step_;
    // The next batch is made while this one is trained on.
    std::future<TrainingBatch> next;
    const auto prepare = [&](int64_t step) {
      return std::async(std::launch::async,
                        [this, step] { return make_batch(setup_, options_, step, pool_); });
    };
    if (step_ < options_.steps) next = prepare(step_);
    while (step_ < options_.steps && !stop.stop_requested()) {
      TrainingBatch batch = next.get();
      if (step_ + 1 < options_.steps) next = prepare(step_ + 1);
      SACCADE_TRY(train_step(model, optimizer, batch));
      ++step_;
      if (progress_) {
        const std::string detail = fmt::format("loss {:.3f}", mean_loss_);
        progress_({.what = "training", .done = step_, .total = options_.steps, .detail = detail});
      }
      const bool last = step_ == options_.steps;
      if (last || step_ % options_.evaluate_every == 0) SACCADE_TRY(evaluate(model));
      if (last || step_ % options_.checkpoint_every == 0) SACCADE_TRY(save(optimizer));
    }
    if (options_.steps == 0) SACCADE_TRY(evaluate(model));
    if (stop.stop_requested()) SACCADE_TRY(save(optimizer));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;

    DualTrainingReport report;
    report.steps = step_;
    report.finished = step_ == options_.steps;
    report.last_loss = mean_loss_;
    report.best = best_;
    report.best_step = best_step_;
    report.images_per_second = static_cast<double>((step_ - first_step) * options_.batch) / seconds.count();
    report.left_out = setup_.pictures.failures();
    report.model = options_.run / "model";
    return report;
  }

 private:
  Status train_step(const TrainedClip& model, AdamW& optimizer, const TrainingBatch& batch) {
    const Tensor pixels = batch.pixels.to(device_);
    const Tensor ids = batch.ids.to(device_);
    const Tensor keep = batch.keep.defined() ? batch.keep.to(device_) : batch.keep;
    const Tensor images = normalize_rows(clip_images(model, pixels, dtype_, keep));
    const Tensor texts = normalize_rows(encode_texts(model, ids, batch.lengths));
    const Tensor loss = info_nce(images, texts, model.logit_scale().tensor(), batch.positives.to(device_));
    const double value = loss.item<double>();
    if (!std::isfinite(value)) {
      return fail(ErrorCode::kInternal, "the loss is {} at step {}: a lower learning rate may help", value,
                  step_);
    }
    loss.backward();
    // Before anything is changed: a step with such a gradient would leave nothing worth saving.
    const double norm = optimizer.clip_gradients(options_.max_gradient_norm);
    if (!std::isfinite(norm)) {
      return fail(ErrorCode::kInternal,
                  "the gradient's norm is {} at step {}: a lower learning rate may help", norm, step_);
    }
    optimizer.step(schedule_of(options_).at(step_));
    const torch::NoGradGuard no_grad;
    model.logit_scale().tensor().clamp_(0, kMaxLogitScale);
    // A mean over about a hundred steps: one batch's loss says little.
    mean_loss_ += (value - mean_loss_) * std::max(0.01, 1.0 / static_cast<double>(step_ + 1));
    return {};
  }

  // In a few parts, each padded to its own longest text; the texts come sorted by length.
  [[nodiscard]] Tensor encode_texts(const TrainedClip& model, const Tensor& ids,
                                    const std::vector<int64_t>& lengths) const {
    constexpr int64_t kParts = 4;
    const int64_t n = ids.size(0);
    std::vector<Tensor> rows;
    for (int64_t part = 0; part < kParts; ++part) {
      const int64_t first = n * part / kParts;
      const int64_t last = n * (part + 1) / kParts;
      if (first == last) continue;
      const Tensor texts = ids.slice(0, first, last).slice(1, 0, lengths[static_cast<size_t>(last - 1)]);
      rows.push_back(clip_texts(model, texts, dtype_));
    }
    return torch::cat(rows);
  }

  Result<std::vector<OneCaptionRecall>> held_out_recalls(const TrainedClip& model) {
    const torch::NoGradGuard no_grad;
    const auto side = setup_.config.image_size;
    std::vector<OneCaptionRecall> recalls;
    for (const OneCaptionSet& set : held_out_) {
      std::vector<Tensor> images;
      std::vector<Tensor> texts;
      constexpr int64_t kAtOnce = 256;
      const auto count = static_cast<int64_t>(set.texts.size());
      for (int64_t first = 0; first < count; first += kAtOnce) {
        const int64_t n = std::min(kAtOnce, count - first);
        auto* data = const_cast<float*>(set.pixels.row(first).data());
        const Tensor pixels = torch::from_blob(data, {n, 3, side, side}).to(device_);
        images.push_back(normalize_rows(clip_images(model, pixels, dtype_)).to(at::kCPU));
        size_t longest = 1;
        for (int64_t i = first; i < first + n; ++i) {
          longest = std::max(longest, set.texts[static_cast<size_t>(i)].ids.size());
        }
        Tensor ids = torch::zeros({n, static_cast<int64_t>(longest)}, at::kLong);
        for (int64_t i = 0; i < n; ++i) {
          const auto& text = set.texts[static_cast<size_t>(first + i)].ids;
          std::copy(text.begin(), text.end(), ids.data_ptr<int64_t>() + i * static_cast<int64_t>(longest));
        }
        texts.push_back(normalize_rows(clip_texts(model, ids.to(device_), dtype_)).to(at::kCPU));
      }
      const Tensor image_rows = torch::cat(images).contiguous();
      const Tensor text_rows = torch::cat(texts).contiguous();
      SACCADE_ASSIGN(recalls.emplace_back(),
                     score_one_caption(set, view(image_rows), view(text_rows), pool_));
    }
    return recalls;
  }

  // Scores the held-out sets, appends to metrics.jsonl, and writes model/ if this is the best so far.
  Status evaluate(const TrainedClip& model) {
    SACCADE_ASSIGN(const std::vector<OneCaptionRecall> recalls, held_out_recalls(model));
    Json line{{"step", step_},
              {"loss", mean_loss_},
              {"learning_rate", schedule_of(options_).at(step_ - 1)},
              {"logit_scale", std::exp(model.logit_scale().tensor().item<double>())}};
    line["held_out"] = Json::array();
    for (const OneCaptionRecall& recall : recalls) line["held_out"].push_back(recall_json(recall));
    metrics_ += dump_json(line) + "\n";
    SACCADE_TRY(write_file_atomic(options_.run / "metrics.jsonl", metrics_));
    // Without held-out sets the newest is the best there is.
    if (best_step_ == 0 || recalls.empty() || headline(recalls) >= headline(best_)) {
      best_ = recalls;
      best_step_ = step_;
      SACCADE_TRY(write_model());
    }
    return {};
  }

  Status write_model() const {
    const fs::path folder = options_.run / "model";
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return fail(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
    SACCADE_TRY(write_file_atomic(folder / "config.json", dump_json(setup_.config_json, 2) + "\n"));
    for (const auto& [name, content] : setup_.passengers)
      SACCADE_TRY(write_file_atomic(folder / name, content));
    std::vector<Tensor> kept;
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : parameters_) {
      kept.push_back(tensor.detach().to(at::kCPU, *weights_type(options_.weights)).contiguous());
      named.push_back({name, view_of(kept.back())});
    }
    return write_safetensors(folder / "model.safetensors", named, {{"format", "pt"}});
  }

  Status save(const AdamW& optimizer) const {
    TorchMap state = optimizer.state();
    for (const auto& [name, tensor] : parameters_) state["parameter." + name] = tensor.detach();
    std::vector<Tensor> kept;
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : state) {
      kept.push_back(tensor.to(at::kCPU).contiguous());
      named.push_back({name, view_of(kept.back())});
    }
    Json best = Json::array();
    for (const OneCaptionRecall& recall : best_) best.push_back(recall_json(recall));
    const Json position{{"step", step_},
                        {"mean_loss", mean_loss_},
                        {"best_step", best_step_},
                        {"best", best},
                        {"run", description_hash()}};
    return write_safetensors(options_.run / "state.safetensors", named,
                             {{"position", dump_json(position)}, {"metrics", metrics_}});
  }

  // Weights of another training in place of the random ones.
  Status begin_with(const fs::path& path) {
    SACCADE_ASSIGN(const SafeTensors file, SafeTensors::open(path));
    SACCADE_ASSIGN(const TorchMap tensors, torch_tensors(file).in(path.string()));
    for (const auto& [name, tensor] : parameters_) {
      const auto found = tensors.find(name);
      if (found == tensors.end()) {
        return fail(ErrorCode::kMismatch, "{}: no tensor {}, which the config's architecture has",
                    path.string(), name);
      }
      if (found->second.sizes() != tensor.sizes() || !found->second.is_floating_point()) {
        return fail(ErrorCode::kMismatch,
                    "{}: tensor {} is {} of {}, the config's architecture has float of {}", path.string(),
                    name, c10::toString(found->second.scalar_type()),
                    fmt::format("[{}]", fmt::join(found->second.sizes(), ", ")),
                    fmt::format("[{}]", fmt::join(tensor.sizes(), ", ")));
      }
    }
    const torch::NoGradGuard no_grad;
    for (auto& [name, tensor] : parameters_) tensor.copy_(tensors.at(name));
    return {};
  }

  Status restore(AdamW& optimizer) {
    const fs::path path = options_.run / "state.safetensors";
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return {};
    SACCADE_ASSIGN(const SafeTensors file, SafeTensors::open(path));
    SACCADE_ASSIGN(const TorchMap tensors, torch_tensors(file).in(path.string()));
    const auto metadata = [&](const char* key) -> Result<std::string> {
      const auto found = file.metadata().find(key);
      if (found == file.metadata().end())
        return fail(ErrorCode::kBadData, "{}: no \"{}\"", path.string(), key);
      return found->second;
    };
    SACCADE_ASSIGN(const std::string position_text, metadata("position"));
    SACCADE_ASSIGN(metrics_, metadata("metrics"));
    SACCADE_ASSIGN(const Json position, parse_json(position_text).in(path.string()));
    SACCADE_TRY(restore_position(position).in(path.string()));

    TorchMap expected = optimizer.state();
    for (const auto& [name, tensor] : parameters_) expected["parameter." + name] = tensor;
    for (const auto& [name, tensor] : expected) {
      const auto found = tensors.find(name);
      if (found == tensors.end() || found->second.sizes() != tensor.sizes() ||
          found->second.scalar_type() != tensor.scalar_type()) {
        return fail(ErrorCode::kMismatch, "{}: tensor {} is missing or of another shape or type",
                    path.string(), name);
      }
    }
    if (const auto updates = tensors.at("step").item<int64_t>(); updates != step_) {
      return fail(ErrorCode::kBadData, "{}: the optimizer is at step {}, the training at {}", path.string(),
                  updates, step_);
    }
    const torch::NoGradGuard no_grad;
    for (auto& [name, tensor] : parameters_) tensor.copy_(tensors.at("parameter." + name));
    optimizer.restore(tensors);
    return {};
  }

  // Where the training stood, checked: the file may come from anywhere.
  Status restore_position(const Json& position) {
    SACCADE_ASSIGN(const std::string hash, json_field<std::string>(position, "run"));
    if (hash != description_hash()) {
      return fail(ErrorCode::kMismatch,
                  "the state of a training of other options or data (\"run\" is {}, here it is {})", hash,
                  description_hash());
    }
    SACCADE_ASSIGN(step_, json_field<int64_t>(position, "step"));
    if (step_ < 0 || step_ > options_.steps) {
      return fail(ErrorCode::kBadData, "\"step\" is {}, expected 0 to {}", step_, options_.steps);
    }
    SACCADE_ASSIGN(mean_loss_, json_field<double>(position, "mean_loss"));
    SACCADE_ASSIGN(best_step_, json_field<int64_t>(position, "best_step"));
    if (best_step_ < 0 || best_step_ > step_) {
      return fail(ErrorCode::kBadData, "\"best_step\" is {}, expected 0 to {}", best_step_, step_);
    }
    return restore_best(position);
  }

  Status restore_best(const Json& position) {
    const auto recall = [](const Json& json) -> Result<Recall> {
      Recall result;
      SACCADE_ASSIGN(result.queries, json_field<int64_t>(json, "queries"));
      SACCADE_ASSIGN(result.r1, json_field<double>(json, "r1"));
      SACCADE_ASSIGN(result.r5, json_field<double>(json, "r5"));
      SACCADE_ASSIGN(result.r10, json_field<double>(json, "r10"));
      return result;
    };
    if (!position.contains("best") || !position["best"].is_array()) {
      return fail(ErrorCode::kBadData, "\"best\" is not an array");
    }
    for (const Json& json : position["best"]) {
      OneCaptionRecall held_out;
      SACCADE_ASSIGN(held_out.name, json_field<std::string>(json, "name"));
      SACCADE_ASSIGN(held_out.images, json_field<int64_t>(json, "images"));
      if (!json.contains("t2i") || !json.contains("i2t")) {
        return fail(ErrorCode::kBadData, "\"best\" without \"t2i\" and \"i2t\"");
      }
      SACCADE_ASSIGN(held_out.text_to_image, recall(json["t2i"]));
      SACCADE_ASSIGN(held_out.image_to_text, recall(json["i2t"]));
      best_.push_back(std::move(held_out));
    }
    return {};
  }

  // Of what run.json says: two trainings with the same one go the same way.
  [[nodiscard]] std::string description_hash() const { return sha256_hex(dump_json(setup_.description)); }

  const DualTrainingOptions& options_;
  const TrainingSetup& setup_;
  ThreadPool& pool_;
  const ProgressCallback& progress_;
  at::ScalarType dtype_;
  torch::Device device_;
  std::vector<OneCaptionSet> held_out_;
  TorchMap parameters_;
  int64_t step_ = 0;
  double mean_loss_ = 0;
  std::vector<OneCaptionRecall> best_;
  int64_t best_step_ = 0;
  std::string metrics_;
};

Status check_options(const DualTrainingOptions& options) {
  const auto positive = [](const char* name, double value) -> Status {
    if (value > 0 && std::isfinite(value)) return {};
    return fail(ErrorCode::kUsage, "{} is {}, expected above 0", name, value);
  };
  if (options.datasets.empty()) return fail(ErrorCode::kUsage, "no dataset given");
  if (options.steps < 0) return fail(ErrorCode::kUsage, "steps is {}, expected 0 or more", options.steps);
  SACCADE_TRY(positive("learning rate", options.learning_rate));
  SACCADE_TRY(positive("largest gradient norm", options.max_gradient_norm));
  SACCADE_TRY(positive("steps between evaluations", static_cast<double>(options.evaluate_every)));
  SACCADE_TRY(positive("steps between checkpoints", static_cast<double>(options.checkpoint_every)));
  if (options.batch < 2) return fail(ErrorCode::kUsage, "batch is {}, expected 2 or more", options.batch);
  const std::pair<const char*, double> shares[] = {{"warm-up", options.warmup},
                                                   {"patch dropout", options.patch_dropout},
                                                   {"share of unmasked steps", options.unmasked},
                                                   {"share of first captions", options.first_caption}};
  for (const auto& [name, value] : shares) {
    if (!(value >= 0 && value <= 1)) return fail(ErrorCode::kUsage, "{} is {}, expected 0 to 1", name, value);
  }
  if (!(options.weight_decay >= 0))
    return fail(ErrorCode::kUsage, "weight decay is {}", options.weight_decay);
  if (!weights_type(options.weights)) {
    return fail(ErrorCode::kUsage, "weights \"{}\", expected fp32, fp16 or bf16", options.weights);
  }
  if (options.device != "cpu" && options.device != "cuda") {
    return fail(ErrorCode::kUsage, "device \"{}\", expected cpu or cuda", options.device);
  }
  if (options.device == "cuda" && !torch::cuda::is_available()) {
    return fail(ErrorCode::kUnsupported, "device cuda: this libtorch or machine has none");
  }
  return {};
}

constexpr const char* kRunFile = "run.json";
constexpr const char* kLockFile = "lock";

// That the run folder is a training's or may become one, before anything is written into it, decoded pictures
// included. Without run.json it may hold only what a start that was cut off earlier than that left.
Status check_run_folder(const DualTrainingOptions& options) {
  const std::string where = fmt::format("run folder {}", options.run.string());
  std::error_code error;
  if (fs::exists(options.run / kRunFile, error)) {
    SACCADE_ASSIGN(const Json there, read_json(options.run / kRunFile));
    if (there.is_object() && there.value("kind", Json()) == kDualTrainingKind) return {};
    return fail(ErrorCode::kMismatch, "{}: its {} is not of a training; choose another folder", where,
                kRunFile);
  }
  if (!fs::exists(options.run, error)) return {};
  // Empty where the cache is not below the run folder.
  const fs::path cache = fs::absolute(picture_cache(options)).lexically_relative(fs::absolute(options.run));
  for (fs::directory_iterator entry(options.run, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == kLockFile || name.starts_with(fmt::format("{}.tmp-", kRunFile))) continue;
    if (!cache.empty() && name == *cache.begin()) continue;
    return fail(ErrorCode::kUsage, "{}: not a training's, and not empty (it holds \"{}\")", where, name);
  }
  if (error) return fail(ErrorCode::kIo, "{}: {}", where, error.message());
  return {};
}

// Writes run.json, or checks that the one there is of the same training. No other process may train into the
// folder while the result lives.
Result<Descriptor> claim_run_folder(const DualTrainingOptions& options, const Json& description) {
  std::error_code error;
  fs::create_directories(options.run, error);
  if (error) return fail(ErrorCode::kIo, "run folder {}: {}", options.run.string(), error.message());
  SACCADE_ASSIGN(Descriptor lock, lock_file(options.run / kLockFile, "training into this run folder"));
  const fs::path path = options.run / kRunFile;
  if (!fs::exists(path, error)) {
    SACCADE_TRY(write_file_atomic(path, dump_json(description, 2) + "\n"));
    return lock;
  }
  SACCADE_ASSIGN(const Json there, read_json(path));
  for (const auto& [key, value] : description.items()) {
    if (!there.is_object() || !there.contains(key) || there[key] != value) {
      return fail(ErrorCode::kMismatch,
                  "run folder {} holds a training with another \"{}\"; choose another folder",
                  options.run.string(), key);
    }
  }
  return lock;
}

}  // namespace

Result<DualTrainingReport> train_dual(const DualTrainingOptions& options, const ProgressCallback& progress,
                                      std::stop_token stop) {
  SACCADE_TRY(check_options(options));
  SACCADE_TRY(check_run_folder(options));
  const int threads = options.threads > 0 ? options.threads : available_processors();
  ThreadPool pool(threads);
  return nn::without_exceptions("train dual", [&]() -> Result<DualTrainingReport> {
    at::set_num_threads(threads);
    SACCADE_ASSIGN(const TrainingSetup setup, load_training_setup(options, pool, progress, stop));
    if (options.dry_run) return DualTrainingReport{};
    SACCADE_ASSIGN(const Descriptor lock, claim_run_folder(options, setup.description));
    return Trainer(options, setup, pool, progress).run(stop);
  });
}

}  // namespace saccade
