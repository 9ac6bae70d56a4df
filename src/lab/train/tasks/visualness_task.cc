#include "lab/train/tasks/visualness_task.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "lab/eval/visualness/binary.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"

namespace saccade::lab {

namespace fs = std::filesystem;
using torch::Tensor;

Result<std::optional<double>> VisualnessTask::headline(const Json& held_out) const {
  SACCADE_ASSIGN(const VisualnessFigures figures, parse_visualness_figures(held_out));
  return std::optional(figures.f1);
}

VisualnessFigures visualness_figures(std::span<const double> scores, std::span<const VisualnessExample> items,
                                     double threshold) {
  Confusion confusion{};
  for (size_t i = 0; i < items.size(); ++i) {
    ++confusion[items[i].visual ? 1 : 0][scores[i] > threshold ? 1 : 0];
  }
  const BinaryFigures of_texts = binary_figures(confusion);
  VisualnessFigures figures;
  figures.f1 = of_texts.f1;
  figures.precision = of_texts.precision;
  figures.recall = of_texts.recall;
  figures.accuracy = of_texts.accuracy;
  figures.threshold = threshold;
  figures.texts = std::ssize(items);
  figures.mrr = std::nan("");
  return figures;
}

Status take_weight(const fs::path& folder, const nn::TensorMap& tensors, const std::string& name,
                   const Tensor& parameter) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    return fail(ErrorCode::kMismatch, "checkpoint {}: no tensor {}, which its config's architecture has",
                folder.string(), name);
  }
  const Tensor stored = torch_over(found->second);
  if (stored.numel() != parameter.numel()) {
    return fail(ErrorCode::kMismatch, "checkpoint {}: tensor {} has {} values, its config's architecture {}",
                folder.string(), name, stored.numel(), parameter.numel());
  }
  const torch::NoGradGuard no_grad;
  Tensor(parameter).copy_(stored.reshape(parameter.sizes()));
  if (!at::isfinite(parameter).all().item<bool>()) {
    return fail(ErrorCode::kBadData, "checkpoint {}: tensor {} has values that are no numbers",
                folder.string(), name);
  }
  return {};
}

VisualnessIds visualness_ids(std::span<const VisualnessExample* const> items, int64_t pad_id) {
  size_t longest = 0;
  for (const VisualnessExample* item : items) longest = std::max(longest, item->text.ids.size());
  const std::vector<int64_t> shape = {std::ssize(items), static_cast<int64_t>(longest)};
  VisualnessIds result{torch::full(shape, pad_id, at::kLong), torch::zeros(shape, at::kLong)};
  for (size_t i = 0; i < items.size(); ++i) {
    const std::vector<int32_t>& ids = items[i]->text.ids;
    std::ranges::copy(ids, result.ids.data_ptr<int64_t>() + i * longest);
    std::fill_n(result.mask.data_ptr<int64_t>() + i * longest, ids.size(), int64_t{1});
  }
  return result;
}

void for_batches_of_texts(
    std::span<const VisualnessExample> items, int64_t pad_id,
    const std::function<void(std::span<const size_t> places, const VisualnessIds& texts)>& body) {
  constexpr size_t kAtOnce = 256;
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return items[i].text.ids.size(); });
  for (size_t first = 0; first < order.size(); first += kAtOnce) {
    const auto places = std::span(order).subspan(first, std::min(kAtOnce, order.size() - first));
    std::vector<const VisualnessExample*> texts;
    for (const size_t place : places) texts.push_back(&items[place]);
    body(places, visualness_ids(texts, pad_id));
  }
}

Status write_visualness_weights(const fs::path& folder, const VisualnessData& data,
                                const TorchMap& parameters) {
  for (const auto& [name, content] : data.files) SACCADE_TRY(write_file_atomic(folder / name, content));
  nn::TensorMap tensors;
  for (const auto& [name, tensor] : parameters) {
    tensors.emplace(name, borrow_torch(tensor.detach().to(at::kCPU, at::kFloat).contiguous()));
  }
  if (data.layout != Layout::kHuggingFace) {
    SACCADE_ASSIGN(tensors, rename_to_open_clip(tensors));
  }
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) named.push_back({name, nn::view_of(tensor)});
  const char* file = data.layout == Layout::kOpenClip ? "open_clip_model.safetensors" : "model.safetensors";
  return write_safetensors(folder / file, named, {{"format", "pt"}});
}

}  // namespace saccade::lab
