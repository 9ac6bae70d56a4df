#include "lab/train/tasks/inversion_task.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "lab/train/composer_file.h"
#include "lab/train/math/composer_peers.h"
#include "lab/train/math/device.h"
#include "lab/train/math/step_random.h"
#include "saccade/core/rows.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/families/clip_checkpoint.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

// Purposes of the keyed random numbers. The draws of one purpose never depend on another's.
enum Purpose : uint64_t { kShuffle = 31, kNoise = 32, kDropout = 33 };

// A checkpoint's tensors as leaves without gradients, in float32, on a device.
class FrozenParameters : public nn::ParameterSourceOf<Variable> {
 public:
  FrozenParameters(nn::TensorMap tensors, torch::Device device)
      : loaded_(std::move(tensors)), device_(device) {}
  Result<Variable> take(const std::string& name, const std::vector<int64_t>& shape, nn::Init init) override {
    SACCADE_ASSIGN(const nn::Tensor tensor, loaded_.take(name, shape, init));
    return Variable(torch_over(tensor.contiguous()).to(device_));
  }

 private:
  nn::LoadedParameters loaded_;
  torch::Device device_;
};

// Returns two independent normal numbers (Box and Muller 1958).
std::pair<float, float> normal_pair(KeyedRandom& random) {
  const double radius = std::sqrt(-2 * std::log(1 - double{random.uniform()}));
  const double angle = 2 * std::numbers::pi * double{random.uniform()};
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

}  // namespace

Result<std::unique_ptr<FrozenTextTower>> open_frozen_text_tower(const fs::path& folder,
                                                                torch::Device device) {
  const std::string where = fmt::format("checkpoint {}", folder.string());
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  auto tower = std::make_unique<FrozenTextTower>();
  SACCADE_ASSIGN(tower->weights, map_weights(checkpoint));
  SACCADE_ASSIGN(const ClipConfig config, read_clip_config(checkpoint, tower->weights.tensors).in(where));
  tower->tensors = tower->weights.tensors;
  if (checkpoint.layout != Layout::kHuggingFace) {
    SACCADE_ASSIGN(tower->tensors, rename_to_hugging_face(std::move(tower->tensors)).in(where));
  }
  FrozenParameters source(tower->tensors, device);
  SACCADE_ASSIGN(tower->clip, TrainedClip::make(config, source).in(where));
  return tower;
}

InversionTask::InversionTask(const InversionTrainingOptions& options, ComposerConfig config,
                             EncoderBackend& encoder, const FrozenTextTower& tower,
                             const std::vector<InversionText>& texts,
                             const std::vector<InversionQueries>& held_out, ThreadPool& pool,
                             InversionOf<Variable> network, TorchMap parameters)
    : options_(options),
      config_(std::move(config)),
      encoder_(encoder),
      tower_(tower),
      texts_(texts),
      held_out_(held_out),
      pool_(pool),
      device_(torch_device(options.device)),
      network_(std::move(network)),
      parameters_(std::move(parameters)),
      numbers_(texts.size()),
      order_(numbers_, options.seed, kShuffle) {
  std::iota(numbers_.begin(), numbers_.end(), 0);
}

Result<std::unique_ptr<InversionTask>> InversionTask::make(
    const InversionTrainingOptions& options, const ComposerConfig& config, EncoderBackend& encoder,
    const FrozenTextTower& tower, const std::vector<InversionText>& texts,
    const std::vector<InversionQueries>& held_out, ThreadPool& pool) {
  SACCADE_ASSIGN(const InversionConfig inversion, inversion_config_from_json(config.dim, config.options));
  InitializedParameters source(options.seed, torch_device(options.device));
  SACCADE_ASSIGN(InversionOf<Variable> network, InversionOf<Variable>::make(inversion.shape, source));
  return std::unique_ptr<InversionTask>(new InversionTask(options, config, encoder, tower, texts, held_out,
                                                          pool, std::move(network), source.parameters()));
}

Result<InversionBatch> InversionTask::batch(int64_t step) {
  std::vector<int64_t> which;
  for (int64_t i = 0; i < options_.batch; ++i) which.push_back(order_.at(step * options_.batch + i));
  std::vector<TokenizedText> whole;
  size_t longest = 1;
  size_t most = 1;
  for (const int64_t text : which) {
    whole.push_back(texts_[static_cast<size_t>(text)].whole);
    longest = std::max(longest, texts_[static_cast<size_t>(text)].masked.ids.size());
    most = std::max(most, texts_[static_cast<size_t>(text)].marks.size());
  }
  SACCADE_ASSIGN(Matrix<float> rows, encoder_.raw_rows()->raw_text_rows(whole));
  InversionBatch batch;
  batch.step = step;
  batch.originals = torch_copy(rows);
  batch.ids = nn::Tensor::zeros({options_.batch, static_cast<int64_t>(longest)}, DType::kI64);
  batch.places = nn::Tensor::full_integers({options_.batch, static_cast<int64_t>(most)}, -1);
  for (int64_t i = 0; i < options_.batch; ++i) {
    const InversionText& text = texts_[static_cast<size_t>(which[static_cast<size_t>(i)])];
    std::ranges::copy(text.masked.ids, batch.ids.data<int64_t>() + i * static_cast<int64_t>(longest));
    std::ranges::copy(text.marks, batch.places.data<int64_t>() + i * static_cast<int64_t>(most));
    const auto row = rows.row(i);
    normalize_row(row, 0);
    KeyedRandom random(options_.seed, kNoise, static_cast<uint64_t>(step), static_cast<uint64_t>(i));
    const float scale =
        random.uniform() * static_cast<float>(options_.noise) / std::sqrt(static_cast<float>(row.size()));
    for (size_t d = 0; d < row.size(); d += 2) {
      const auto [a, b] = normal_pair(random);
      row[d] += scale * a;
      if (d + 1 < row.size()) row[d + 1] += scale * b;
    }
    normalize_row(row, 0);
  }
  batch.rows = torch_copy(rows);
  return batch;
}

Tensor InversionTask::loss(const InversionBatch& batch) const {
  StepDropout dropout(options_.dropout, options_.seed ^ kDropout, batch.step);
  const Variable words =
      network_.words(Variable(batch.rows.to(device_)), [&](const Variable& x) { return dropout(x); });
  const Variable states = tower_.clip.text_states_with(batch.ids, batch.places, words, DType::kF32);
  const Tensor rows = tower_.clip.project_texts(states).tensor();
  return at::mse_loss(rows, batch.originals.to(device_));
}

Result<StepLosses> InversionTask::prepare(int64_t step) {
  SACCADE_ASSIGN(InversionBatch prepared, batch(step));
  return StepLosses{[this, prepared = std::move(prepared)] { return loss(prepared); }};
}

Status InversionTask::read_model(const fs::path& folder) {
  return take_up_weights(folder, parameters_);
}

Result<Json> InversionTask::measure(const InversionQueries& set) const {
  const torch::NoGradGuard no_grad;
  const Tensor words =
      network_.words(Variable(torch_copy(set.pictures).to(device_))).tensor().to(at::kCPU).contiguous();
  const MatrixView<const float> all(words.data_ptr<float>(), words.size(0), words.size(1));
  std::vector<TokenizedText> texts;
  std::vector<int64_t> places;
  for (const InvertedText& asked : set.asked) {
    texts.push_back(asked.text);
    places.push_back(asked.place);
  }
  const Matrix<float> asked = select_rows(all, set.references);
  SACCADE_ASSIGN(const Matrix<float> rows,
                 encoder_.word_inserter()->encode_with_words(texts, places, asked.view()));
  return composed_held_out_json(set.name, set.task, rows.view(), set.pictures.view(), options_.bootstrap,
                                pool_);
}

Result<Json> InversionTask::evaluate() {
  Json held_out = Json::array();
  for (const InversionQueries& set : held_out_) {
    SACCADE_ASSIGN(Json line, measure(set));
    held_out.push_back(std::move(line));
  }
  return Json{{"held_out", std::move(held_out)}};
}

Status InversionTask::write_model(const fs::path& folder) const {
  return write_composer(folder, config_, parameters_);
}

}  // namespace saccade::lab
