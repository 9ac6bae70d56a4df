// TIP-CLIP: trains a visual text towards its image, any other towards the NULL image.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "lab/data/read_dataset.h"
#include "lab/eval/visualness/binary.h"
#include "lab/eval/visualness/picture_rank.h"
#include "lab/train/data/epoch_order.h"
#include "lab/train/math/device.h"
#include "lab/train/math/micro_batches.h"
#include "lab/train/math/objective.h"
#include "lab/train/math/variable.h"
#include "lab/train/tasks/visualness_task.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/checkpoints/fingerprint.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

constexpr uint64_t kShuffle = 11;  // purpose of keyed random numbers (random.h)
constexpr int64_t kAtOnce = 256;   // images encoded at a time without gradients

// Loads the checkpoint's weights, or those of the previous stage, in place of the random ones.
Status take_weights(const fs::path& folder, const TorchMap& parameters) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  SACCADE_ASSIGN(const Weights weights, map_weights(checkpoint));
  nn::TensorMap tensors = weights.tensors;
  if (checkpoint.layout != Layout::kHuggingFace) {
    SACCADE_ASSIGN(tensors, rename_to_hugging_face(std::move(tensors)).in(folder.string()));
  }
  for (const auto& [name, parameter] : parameters) SACCADE_TRY(take_weight(folder, tensors, name, parameter));
  return {};
}

struct Batch {
  Tensor ids;  // [n, longest], sorted by length
  std::vector<int64_t> lengths;
  Tensor visual;    // [n] bool
  Tensor pictures;  // [n] int64: numbers of images, 0 for the NULL image's texts
  Tensor places;    // [n] int64: rows of `pixels`
  Tensor pixels;    // [images of the batch, then the NULL image, 3, side, side]; undefined if rows are given
};

Tensor tensor_of(std::span<const float> values, const std::vector<int64_t>& shape) {
  return torch::from_blob(const_cast<float*>(values.data()), shape).clone();
}

// One stage: trains a text towards its image or the NULL image; evaluates macro F1 on the validation texts.
class NullPictureTask : public VisualnessTask {
 public:
  static Result<std::unique_ptr<VisualnessTask>> make(const VisualnessTrainingOptions& options,
                                                      const VisualnessData& data,
                                                      const VisualnessExamples& stage,
                                                      const fs::path& weights, ThreadPool& pool) {
    InitializedParameters source(options.seed, torch_device(options.device));
    SACCADE_ASSIGN(TrainedClip model, TrainedClip::make(data.config, source));
    SACCADE_TRY(take_weights(weights, source.parameters()));
    if (options.checkpoint_activations) model.checkpoint_activations();
    return std::unique_ptr<VisualnessTask>(
        new NullPictureTask(options, data, stage, pool, std::move(model), source.parameters()));
  }

  [[nodiscard]] const TorchMap& parameters() const override { return trained_; }

  Result<StepLosses> prepare(int64_t step) override {
    SACCADE_ASSIGN(Batch batch, make_batch(step));
    return StepLosses{[this, batch = std::move(batch)] { return loss(batch); }};
  }

  void after_update() override { model_.logit_scale().tensor().clamp_(0, kMaxLogScale); }

  Result<Json> evaluate() override {
    SACCADE_ASSIGN(const VisualnessFigures figures, measure());
    return Json{{"logit_scale", std::exp(model_.logit_scale().tensor().item<double>())},
                {"held_out", visualness_figures_json(figures)}};
  }

  [[nodiscard]] Status write_model(const fs::path& folder) const override {
    SACCADE_TRY(write_visualness_weights(folder, data_, all_));
    SACCADE_ASSIGN(const std::string fingerprint, checkpoint_fingerprint(folder));
    KeptVisualness visualness;
    visualness.null_picture = data_.description["null_image"];
    visualness.null_row = null_row_;
    visualness.threshold = measured_.threshold;
    visualness.measured = visualness_figures_json(measured_);
    visualness.measured["validation"] = data_.validation.described;
    return write_kept_visualness(folder, fingerprint, visualness);
  }

  // Measures the current weights on the validation texts.
  Result<VisualnessFigures> measure() override {
    const torch::NoGradGuard no_grad;
    SACCADE_TRY(update_picture_rows());
    const auto& items = data_.validation.items;
    const Matrix<float> texts = encode(items);
    const std::vector<double> scores = visualness_scores(null_row_, texts.view());
    std::vector<uint8_t> truth;
    for (const VisualnessExample& item : items) truth.push_back(item.visual ? 1 : 0);
    SACCADE_ASSIGN(const Threshold threshold, choose_threshold(scores, truth));
    measured_ = visualness_figures(scores, items, threshold.value);
    std::vector<int64_t> own;
    for (const VisualnessExample& item : items) own.push_back(item.picture);
    const std::vector<double> ranks = picture_ranks(texts.view(), picture_rows_.view(), own);
    measured_.pictures =
        std::ssize(std::set<int64_t>(own.begin(), own.end())) - (std::ranges::count(own, -1) > 0 ? 1 : 0);
    double sum = 0;
    for (const double rank : ranks) sum += 1 / rank;
    measured_.mrr = ranks.empty() ? std::nan("") : sum / static_cast<double>(ranks.size());
    return measured_;
  }

 private:
  NullPictureTask(const VisualnessTrainingOptions& options, const VisualnessData& data,
                  const VisualnessExamples& stage, ThreadPool& pool, TrainedClip model, TorchMap parameters)
      : options_(options),
        data_(data),
        stage_(stage),
        pool_(pool),
        dtype_(options.precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat),
        device_(torch_device(options.device)),
        model_(std::move(model)),
        all_(std::move(parameters)),
        null_row_(data.null_row),
        picture_rows_(data.picture_rows.copy()) {
    for (const auto& [name, tensor] : all_) {
      if (options.part == TrainedPart::kBoth || is_of_text_tower(name)) {
        trained_.emplace(name, tensor);
      } else {
        Tensor(tensor).set_requires_grad(false);
      }
    }
    numbers_.resize(stage.items.size());
    std::iota(numbers_.begin(), numbers_.end(), int64_t{0});
    given_rows_ =
        tensor_of(data.picture_rows.values(), {data.picture_rows.rows(), data.picture_rows.columns()})
            .to(device_);
    given_null_ = tensor_of(data.null_row, {std::ssize(data.null_row)}).to(device_);
  }

  [[nodiscard]] int64_t side() const { return data_.config.image_size; }

  Result<Batch> make_batch(int64_t step) {
    const int64_t n = data_.batch;
    EpochOrder order(numbers_, options_.seed, kShuffle);
    std::vector<const VisualnessExample*> examples;
    for (int64_t i = 0; i < n; ++i)
      examples.push_back(&stage_.items[static_cast<size_t>(order.at(step * n + i))]);
    // The loss does not depend on the order, and adjacent texts of similar length need little padding.
    std::ranges::stable_sort(examples, {},
                             [](const VisualnessExample* each) { return each->text.ids.size(); });
    Batch batch;
    batch.ids = torch::zeros({n, static_cast<int64_t>(examples.back()->text.ids.size())}, at::kLong);
    batch.visual = torch::zeros({n}, at::kBool);
    batch.pictures = torch::zeros({n}, at::kLong);
    batch.places = torch::zeros({n}, at::kLong);
    std::map<int64_t, int64_t> places;  // places of the batch's images
    for (int64_t i = 0; i < n; ++i) {
      const VisualnessExample& example = *examples[static_cast<size_t>(i)];
      std::ranges::copy(example.text.ids, batch.ids.data_ptr<int64_t>() + i * batch.ids.size(1));
      batch.lengths.push_back(std::ssize(example.text.ids));
      if (!example.visual) continue;
      batch.visual.data_ptr<bool>()[i] = true;
      batch.pictures.data_ptr<int64_t>()[i] = example.picture;
      batch.places.data_ptr<int64_t>()[i] = places.emplace(example.picture, std::ssize(places)).first->second;
    }
    if (options_.part == TrainedPart::kBoth) {
      std::vector<int64_t> pictures(places.size());
      for (const auto& [picture, place] : places) pictures[static_cast<size_t>(place)] = picture;
      SACCADE_ASSIGN(batch.pixels, pixels_of(pictures, true));
    }
    return batch;
  }

  // Returns [images (and the NULL image behind them), 3, side, side].
  Result<Tensor> pixels_of(std::span<const int64_t> pictures, bool with_null) {
    const Preprocessing preprocessing =
        with_transparency(data_.loaded.encoder->preprocessing(), options_.embed.transparency);
    const PixelOptions reading = pixel_options(preprocessing, {.apply_orientation = !options_.embed.as_stored,
                                                               .processes = options_.embed.processes});
    const auto ref = [&](int64_t i) -> const ImageRef& {
      return data_.pictures[static_cast<size_t>(pictures[static_cast<size_t>(i)])];
    };
    const PixelBatch batch = read_pixels(
        std::ssize(pictures), [&](int64_t i) { return read_image_bytes(ref(i), reading.decode.max_bytes); },
        reading, pool_);
    if (!batch.failed.empty()) {
      const auto& [i, error] = batch.failed.front();
      return fail(error.code, "{}: it could be read when the training began: {}", ref(i).name(),
                  error.message);
    }
    const int64_t count = std::ssize(pictures);
    Tensor pixels = torch::empty({count + (with_null ? 1 : 0), 3, side(), side()});
    const auto values = static_cast<size_t>(3 * side() * side());
    for (int64_t i = 0; i < count; ++i) {
      std::ranges::copy(batch.rows().row(i), pixels.data_ptr<float>() + static_cast<size_t>(i) * values);
    }
    if (with_null) {
      std::ranges::copy(data_.null_pixels, pixels.data_ptr<float>() + static_cast<size_t>(count) * values);
    }
    return pixels;
  }

  // The batch must live until the backward pass has run.
  [[nodiscard]] Tensor loss(const Batch& batch) const {
    const Tensor visual = batch.visual.to(device_);
    const Tensor pictures = batch.pictures.to(device_);
    Tensor images;
    Tensor null_row = given_null_;
    if (batch.pixels.defined()) {
      const int64_t count = batch.pixels.size(0);
      const Tensor rows =
          encode_in_micro_batches(count, options_.accumulate, [this, &batch](MicroBatch part) {
            const Tensor pixels = batch.pixels.slice(0, part.first, part.last).to(device_);
            return normalize_rows(clip_images(model_, pixels, dtype_));
          });
      null_row = rows[rows.size(0) - 1];
      images = rows.index_select(0, batch.places.to(device_));
    } else {
      images = given_rows_.size(0) == 0 ? null_row.unsqueeze(0).expand({visual.size(0), null_row.size(0)})
                                        : given_rows_.index_select(0, pictures);
    }
    const int64_t n = batch.ids.size(0);
    const Tensor texts = encode_in_micro_batches(n, options_.accumulate, [this, &batch](MicroBatch part) {
      const std::vector<int64_t> lengths(batch.lengths.begin() + part.first,
                                         batch.lengths.begin() + part.last);
      const Tensor ids = batch.ids.slice(0, part.first, part.last);
      return normalize_rows(clip_texts_by_length(model_, ids, lengths, dtype_));
    });
    const bool literal = options_.loss == VisualnessLoss::kLiteral;
    return null_picture_loss(images, texts, visual, null_row, model_.logit_scale().tensor(),
                             literal ? Tensor() : pictures);
  }

  // Returns normalized embeddings, in fp32.
  [[nodiscard]] Matrix<float> encode(std::span<const VisualnessExample> items) const {
    Matrix<float> rows(std::ssize(items), data_.config.projection);
    for_batches_of_texts(items, 0, [&](std::span<const size_t> places, const VisualnessIds& texts) {
      const Tensor part = normalize_rows(clip_texts(model_, texts.ids, at::kFloat)).to(at::kCPU).contiguous();
      for (size_t i = 0; i < places.size(); ++i) {
        std::copy_n(part.data_ptr<float>() + static_cast<int64_t>(i) * rows.columns(), rows.columns(),
                    rows.row(static_cast<int64_t>(places[i])).begin());
      }
    });
    return rows;
  }

  // Updates the embeddings of the validation images and of the NULL image, if the image tower is trained.
  Status update_picture_rows() {
    if (options_.part == TrainedPart::kText) return {};
    std::set<int64_t> wanted;
    for (const VisualnessExample& item : data_.validation.items) {
      if (item.picture >= 0) wanted.insert(item.picture);
    }
    const std::vector<int64_t> pictures(wanted.begin(), wanted.end());
    for (size_t first = 0; first <= pictures.size(); first += kAtOnce) {
      const auto part =
          std::span(pictures).subspan(first, std::min<size_t>(kAtOnce, pictures.size() - first));
      SACCADE_ASSIGN(const Tensor pixels, pixels_of(part, true));
      const Tensor rows =
          normalize_rows(clip_images(model_, pixels.to(device_), at::kFloat)).to(at::kCPU).contiguous();
      const auto dim = static_cast<size_t>(rows.size(1));
      for (size_t i = 0; i < part.size(); ++i) {
        std::copy_n(rows.data_ptr<float>() + i * dim, dim, picture_rows_.row(part[i]).begin());
      }
      null_row_.assign(rows.data_ptr<float>() + part.size() * dim,
                       rows.data_ptr<float>() + (part.size() + 1) * dim);
    }
    return {};
  }

  const VisualnessTrainingOptions& options_;
  const VisualnessData& data_;
  const VisualnessExamples& stage_;
  ThreadPool& pool_;
  at::ScalarType dtype_;
  torch::Device device_;
  TrainedClip model_;
  TorchMap all_;
  TorchMap trained_;
  std::vector<int64_t> numbers_;  // numbers of the stage's texts
  Tensor given_rows_;             // [pictures, dim], by the checkpoint that training began with
  Tensor given_null_;             // [dim]
  // Embedding from the last evaluation.
  std::vector<float> null_row_;
  Matrix<float> picture_rows_;
  VisualnessFigures measured_;
};

}  // namespace

Result<std::unique_ptr<VisualnessTask>> make_null_picture_task(const VisualnessTrainingOptions& options,
                                                               const VisualnessData& data,
                                                               const VisualnessExamples& stage,
                                                               const fs::path& weights, ThreadPool& pool) {
  return NullPictureTask::make(options, data, stage, weights, pool);
}

}  // namespace saccade::lab
