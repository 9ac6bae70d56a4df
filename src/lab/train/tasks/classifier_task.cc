// The study's baseline: BERT with a two-class layer over the pooled state of its first token, trained by
// cross-entropy.
#include <algorithm>
#include <numeric>

#include "lab/train/data/epoch_order.h"
#include "lab/train/math/device.h"
#include "lab/train/math/micro_batches.h"
#include "lab/train/math/step_random.h"
#include "lab/train/tasks/visualness_task.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/visualness.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;
using TrainedBert = BertModelOf<Variable>;

enum Purpose : uint64_t { kShuffle = 11, kDropout = 12 };  // keyed random numbers (random.h)
constexpr auto kClasses = static_cast<int64_t>(kVisualnessLabels.size());

// Loads the checkpoint's weights in place of the random ones. A plain BERT has no classifier, and one of
// other classes has another. Its layer then stays random, as does a missing pooler.
Status take_weights(const fs::path& folder, const TorchMap& parameters) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  SACCADE_ASSIGN(const Weights weights, map_weights(checkpoint));
  nn::TensorMap tensors;
  for (auto& [name, tensor] : with_current_bert_names(weights.tensors)) {
    const bool is_head =
        name.starts_with("bert.") || name.starts_with("classifier.") || name.starts_with("cls.");
    tensors.emplace(is_head ? name : "bert." + name, tensor);
  }
  const Json labels = checkpoint.config.value("id2label", Json());
  const Json ours = {{"0", kVisualnessLabels[0]}, {"1", kVisualnessLabels[1]}};
  for (const auto& [name, parameter] : parameters) {
    if (name.starts_with("classifier.") && labels != ours) continue;
    if (name.starts_with("bert.pooler.") && !tensors.contains(name)) continue;
    SACCADE_TRY(take_weight(folder, tensors, name, parameter));
  }
  return {};
}

class ClassifierTask : public VisualnessTask {
 public:
  ClassifierTask(const VisualnessTrainingOptions& options, const VisualnessData& data,
                 const VisualnessExamples& stage, TrainedBert model, nn::LinearOf<Variable> classifier,
                 TorchMap parameters)
      : options_(options),
        data_(data),
        stage_(stage),
        dtype_(options.precision == Precision::kBf16 ? DType::kBF16 : DType::kF32),
        device_(torch_device(options.device)),
        model_(std::move(model)),
        classifier_(std::move(classifier)),
        parameters_(std::move(parameters)),
        numbers_(stage.items.size()) {
    std::iota(numbers_.begin(), numbers_.end(), int64_t{0});
  }

  [[nodiscard]] const TorchMap& parameters() const override { return parameters_; }

  // The loss is a mean over examples, so that micro-batches need nothing of each other.
  Result<StepLosses> prepare(int64_t step) override {
    EpochOrder order(numbers_, options_.seed, kShuffle);
    std::vector<const VisualnessExample*> examples;
    Tensor truth = torch::zeros({data_.batch}, at::kLong);
    for (int64_t i = 0; i < data_.batch; ++i) {
      examples.push_back(&stage_.items[static_cast<size_t>(order.at(step * data_.batch + i))]);
      truth.data_ptr<int64_t>()[i] = examples.back()->visual ? 1 : 0;
    }
    const Tensor kept = kept_values(step);
    StepLosses losses;
    for (const MicroBatch rows : micro_batches(data_.batch, options_.accumulate)) {
      const auto own = [rows](const Tensor& all) {
        return all.defined() ? all.slice(0, rows.first, rows.last) : all;
      };
      const auto texts =
          std::span(examples).subspan(static_cast<size_t>(rows.first), static_cast<size_t>(rows.size()));
      const double share = static_cast<double>(rows.size()) / static_cast<double>(data_.batch);
      losses.emplace_back([this, texts = visualness_ids(texts, data_.bert.pad_id),
                           truth = own(truth).to(device_), kept = own(kept), share] {
        return share * at::cross_entropy_loss(logits(texts, dtype_, kept), truth);
      });
    }
    return losses;
  }

  Result<Json> evaluate() override {
    SACCADE_ASSIGN(const VisualnessFigures figures, measure());
    return Json{{"held_out", visualness_figures_json(figures)}};
  }

  Result<VisualnessFigures> measure() override {
    const torch::NoGradGuard no_grad;
    const auto& items = data_.validation.items;
    std::vector<double> scores(items.size());
    for_batches_of_texts(items, data_.bert.pad_id,
                         [&](std::span<const size_t> places, const VisualnessIds& texts) {
                           const Tensor visual = at::softmax(logits(texts, DType::kF32, {}), -1)
                                                     .select(1, 1)
                                                     .to(at::kCPU, at::kDouble)
                                                     .contiguous();
                           for (size_t i = 0; i < places.size(); ++i)
                             scores[places[i]] = visual.data_ptr<double>()[i];
                         });
    return visualness_figures(scores, items, kVisualProbability);
  }

  [[nodiscard]] Status write_model(const fs::path& folder) const override {
    return write_visualness_weights(folder, data_, parameters_);
  }

 private:
  // Returns the dropout mask [batch, width]: 0 for dropped values; the others are scaled up.
  [[nodiscard]] Tensor kept_values(int64_t step) const {
    if (options_.dropout == 0) return {};
    Tensor kept = torch::empty({data_.batch, data_.bert.shape.width}, at::kFloat);
    KeyedRandom random(options_.seed, kDropout, static_cast<uint64_t>(step));
    for (int64_t i = 0; i < kept.numel(); ++i) {
      kept.data_ptr<float>()[i] =
          random.uniform() < options_.dropout ? 0 : 1 / static_cast<float>(1 - options_.dropout);
    }
    return kept.to(device_);
  }

  // Returns [n, classes]. kept: undefined, or the dropout mask that multiplies the pooled states.
  [[nodiscard]] Tensor logits(const VisualnessIds& texts, DType dtype, const Tensor& kept) const {
    Variable pooled =
        model_.pool(model_.first_state(borrow_torch(texts.ids), borrow_torch(texts.mask), dtype));
    if (kept.defined()) pooled = Variable(pooled.tensor() * kept);
    return classifier_.forward(pooled).tensor();
  }

  const VisualnessTrainingOptions& options_;
  const VisualnessData& data_;
  const VisualnessExamples& stage_;
  DType dtype_;
  torch::Device device_;
  TrainedBert model_;
  nn::LinearOf<Variable> classifier_;
  TorchMap parameters_;
  std::vector<int64_t> numbers_;  // numbers of the stage's texts
};

}  // namespace

Result<std::unique_ptr<VisualnessTask>> make_classifier_task(const VisualnessTrainingOptions& options,
                                                             const VisualnessData& data,
                                                             const VisualnessExamples& stage,
                                                             const fs::path& weights) {
  InitializedParameters source(options.seed, torch_device(options.device));
  SACCADE_ASSIGN(TrainedBert model, TrainedBert::make(data.bert, source, "bert.", true));
  SACCADE_ASSIGN(auto classifier, nn::LinearOf<Variable>::make(source, "classifier", data.bert.shape.width,
                                                               kClasses, kBertInitStd));
  if (!weights.empty()) SACCADE_TRY(take_weights(weights, source.parameters()));
  return std::unique_ptr<VisualnessTask>(std::make_unique<ClassifierTask>(
      options, data, stage, std::move(model), std::move(classifier), source.parameters()));
}

}  // namespace saccade::lab
