// A stage of `train visualness` as the loop's task, evaluated by macro F1 on the validation texts. Internal
// to the module.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lab/train/data/visualness_data.h"
#include "lab/train/loop.h"
#include "lab/train/math/variable.h"
#include "lab/train/options/visualness_options.h"
#include "lab/train/tasks/visualness_figures.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/nn/parameters.h"

namespace saccade::lab {

class VisualnessTask : public TrainingTask {
 public:
  // Measures the current weights on the validation texts, without gradients.
  virtual Result<VisualnessFigures> measure() = 0;
  // Returns macro F1.
  [[nodiscard]] Result<std::optional<double>> headline(const Json& held_out) const final;
};

// Makes a stage's task, with the weights of a checkpoint's folder (empty: random ones). Borrows `options`,
// `data` and `stage`.
Result<std::unique_ptr<VisualnessTask>> make_null_picture_task(const VisualnessTrainingOptions& options,
                                                               const VisualnessData& data,
                                                               const VisualnessExamples& stage,
                                                               const std::filesystem::path& weights,
                                                               ThreadPool& pool);
Result<std::unique_ptr<VisualnessTask>> make_classifier_task(const VisualnessTrainingOptions& options,
                                                             const VisualnessData& data,
                                                             const VisualnessExamples& stage,
                                                             const std::filesystem::path& weights);

// Returns F1, precision, recall, accuracy, threshold and number of texts of the scores; the rest is left
// empty.
VisualnessFigures visualness_figures(std::span<const double> scores, std::span<const VisualnessExample> items,
                                     double threshold);

// Copies the checkpoint's tensor into a parameter. Errors: kMismatch, with the folder, if it has none of that
// name or one with another number of values; kBadData for values that are not finite.
Status take_weight(const std::filesystem::path& folder, const nn::TensorMap& tensors, const std::string& name,
                   const torch::Tensor& parameter);

// Texts padded to the longest: [n, longest] int64.
struct VisualnessIds {
  torch::Tensor ids;
  torch::Tensor mask;  // 1 for a text's own tokens, 0 for padding
};
VisualnessIds visualness_ids(std::span<const VisualnessExample* const> items, int64_t pad_id);
// Calls the body with batches of texts of similar lengths, for encoding without gradients. places: the
// indices of a batch's texts among the items.
void for_batches_of_texts(
    std::span<const VisualnessExample> items, int64_t pad_id,
    const std::function<void(std::span<const size_t> places, const VisualnessIds& texts)>& body);

// Writes a checkpoint in the layout of the initial one: `parameters`, all of its tensors, and the other files.
Status write_visualness_weights(const std::filesystem::path& folder, const VisualnessData& data,
                                const TorchMap& parameters);

}  // namespace saccade::lab
