#include "lab/train/tasks/editor_task.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lab/train/math/device.h"
#include "lab/train/math/step_random.h"
#include "saccade/core/files/files.h"
#include "saccade/image/decode/square.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

// Purposes of the keyed random numbers. The draws of one purpose never depend on another's.
enum Purpose : uint64_t { kShuffle = 31, kExample = 32, kHeldOut = 33 };

constexpr double kLeastLeft = 0.05;  // minimum of 1 - t in the weight (Li and He 2025, section 4)

// Reads a store's image over white, as the network's input.
void read_picture(const PictureStore& store, int64_t number, int64_t patch_size, std::span<float> out) {
  const StoredPicture stored = store.picture(number);
  ImageView view;
  view.width = view.height = stored.side;
  view.channels = 4;
  view.mode = PixelMode::kRgba;
  view.pixels = {stored.pixels, static_cast<size_t>(stored.side) * static_cast<size_t>(stored.side) * 4};
  editor_values(over_white(view), patch_size, out);
}

std::array<Tensor*, 6> tensors_of(EditorBatch& batch) {
  return {&batch.noisy, &batch.reference, &batch.clean, &batch.time, &batch.text, &batch.weight};
}

double standard_normal(uint64_t seed) {
  float value = 0;
  editor_noise(seed, {&value, 1});
  return value;
}

EditorBatch editor_batch(const EditorData& data, std::span<const EditorExample> examples, ThreadPool& pool) {
  const EditorConfig& config = data.config;
  const auto n = static_cast<int64_t>(examples.size());
  std::vector<int64_t> lengths;
  for (const EditorExample& example : examples) {
    const auto text = static_cast<size_t>(example.text);
    lengths.push_back(data.states.begin[text + 1] - data.states.begin[text]);
  }
  const int64_t tokens = *std::ranges::max_element(lengths);
  EditorBatch batch;
  const std::vector<int64_t> shape = {n, config.patches(), config.patch_values()};
  batch.noisy = torch::empty(shape);
  batch.reference = torch::empty(shape);
  batch.clean = torch::empty(shape);
  batch.time = torch::empty({n, 1, kTimeValues});
  batch.text = torch::zeros({n, tokens, config.text_width});
  batch.weight = torch::empty({n});
  batch.mask = editor_mask(lengths, tokens, config.patches());
  const int64_t values = config.values();
  pool.parallel_for(n, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const EditorExample& example = examples[static_cast<size_t>(i)];
      const auto row = [&](const Tensor& tensor) {
        return std::span(tensor.data_ptr<float>() + i * values, static_cast<size_t>(values));
      };
      read_picture(data.pictures, example.query->reference, config.patch_size, row(batch.reference));
      read_picture(data.pictures, example.query->target, config.patch_size, row(batch.clean));
      const std::span<float> noisy = row(batch.noisy);
      editor_noise(example.noise, noisy);
      const auto t = static_cast<float>(example.t);
      const std::span<float> clean = row(batch.clean);
      for (size_t k = 0; k < noisy.size(); ++k) noisy[k] = (1 - t) * noisy[k] + t * clean[k];
      editor_time(example.t, {batch.time.data_ptr<float>() + i * kTimeValues, kTimeValues});
      batch.weight.data_ptr<float>()[i] = static_cast<float>(editor_weight(example.t));
      for (int64_t k = 0; k < lengths[static_cast<size_t>(i)]; ++k) {
        std::ranges::copy(data.states.rows.row(data.states.begin[static_cast<size_t>(example.text)] + k),
                          batch.text.data_ptr<float>() + (i * tokens + k) * config.text_width);
      }
    }
  });
  return batch;
}

}  // namespace

double editor_time_drawn(double normal) {
  return 1 / (1 + std::exp(0.8 - 0.8 * normal));
}

double editor_weight(double t) {
  const double left = std::max(1 - t, kLeastLeft);
  return 1 / (left * left);
}

EditorBatch on_device(EditorBatch batch, torch::Device device) {
  for (Tensor* tensor : tensors_of(batch)) *tensor = tensor->to(device);
  return batch;
}

EditorBatch examples_of(EditorBatch batch, MicroBatch rows) {
  for (Tensor* tensor : tensors_of(batch)) *tensor = tensor->slice(0, rows.first, rows.last);
  batch.mask = batch.mask.slice(0, rows.first, rows.last);
  return batch;
}

Tensor editor_loss(const Tensor& said, const EditorBatch& batch) {
  return ((said - batch.clean).pow(2).mean({1, 2}) * batch.weight).mean();
}

EditorTask::EditorTask(const EditorTrainingOptions& options, const EditorData& data, ThreadPool& pool,
                       EditorOf<Variable> editor, TorchMap parameters)
    : options_(options),
      data_(data),
      pool_(pool),
      dtype_(options.precision == Precision::kBf16 ? DType::kBF16 : DType::kF32),
      device_(torch_device(options.device)),
      editor_(std::move(editor)),
      parameters_(std::move(parameters)),
      numbers_(data.queries.size()),
      order_(numbers_, options.seed, kShuffle) {
  for (size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = static_cast<int64_t>(i);
}

Result<std::unique_ptr<EditorTask>> EditorTask::make(const EditorTrainingOptions& options,
                                                     const EditorData& data, ThreadPool& pool) {
  InitializedParameters source(options.seed, torch_device(options.device));
  SACCADE_ASSIGN(EditorOf<Variable> editor, EditorOf<Variable>::make(data.config, source));
  return std::unique_ptr<EditorTask>(
      new EditorTask(options, data, pool, std::move(editor), source.parameters()));
}

EditorBatch EditorTask::batch(int64_t step) {
  std::vector<EditorExample> examples;
  for (int64_t i = 0; i < options_.batch; ++i) {
    const EditorQuery& query = data_.queries[static_cast<size_t>(order_.at(step * options_.batch + i))];
    KeyedRandom random(options_.seed, kExample, static_cast<uint64_t>(step), static_cast<uint64_t>(i));
    EditorExample& example = examples.emplace_back();
    example.query = &query;
    const bool told = !random.chance(static_cast<float>(options_.text_dropout));
    example.text = told ? query.texts[random.below(query.texts.size())] : data_.empty_text();
    example.t = editor_time_drawn(standard_normal(random.next()));
    example.noise = random.next();
  }
  return editor_batch(data_, examples, pool_);
}

// The loss is a mean over examples, so that micro-batches need nothing of each other.
Result<StepLosses> EditorTask::prepare(int64_t step) {
  const EditorBatch whole = batch(step);
  StepLosses losses;
  for (const MicroBatch rows : micro_batches(options_.batch, options_.accumulate)) {
    const double share = static_cast<double>(rows.size()) / static_cast<double>(options_.batch);
    losses.emplace_back([this, part = examples_of(whole, rows), share] { return share * loss(part); });
  }
  return losses;
}

Tensor EditorTask::loss(const EditorBatch& batch) const {
  const EditorBatch here = on_device(batch, device_);
  return editor_loss(editor_
                         .forward(Variable(here.noisy), Variable(here.reference), Variable(here.time),
                                  Variable(here.text), here.mask, dtype_)
                         .tensor(),
                     here);
}

// Uses the first text of each query, with the same times and noise at every evaluation.
Result<Json> EditorTask::evaluate() {
  Json sets = Json::array();
  for (const EditorSet& set : data_.held_out) {
    double loss_sum = 0;
    double copy_sum = 0;
    const auto count = static_cast<int64_t>(set.queries.size());
    for (int64_t first = 0; first < count; first += options_.batch) {
      std::vector<EditorExample> examples;
      for (int64_t i = first; i < std::min(count, first + options_.batch); ++i) {
        const EditorQuery& query = set.queries[static_cast<size_t>(i)];
        KeyedRandom random(1, kHeldOut, static_cast<uint64_t>(i));
        examples.push_back({.query = &query,
                            .text = query.texts.front(),
                            .t = editor_time_drawn(standard_normal(random.next())),
                            .noise = random.next()});
      }
      const EditorBatch batch = editor_batch(data_, examples, pool_);
      const auto size = static_cast<double>(examples.size());
      loss_sum += size * loss(batch).item<double>();
      copy_sum += size * editor_loss(batch.reference, batch).item<double>();
    }
    sets.push_back({{"name", set.name},
                    {"queries", count},
                    {"loss", loss_sum / static_cast<double>(count)},
                    {"reference_loss", copy_sum / static_cast<double>(count)}});
  }
  return Json{{"held_out", std::move(sets)}};
}

Result<std::optional<double>> EditorTask::headline(const Json& held_out) const {
  if (!held_out.is_array()) return fail(ErrorCode::kBadData, "not an array");
  double sum = 0;
  double weight = 0;
  for (const Json& set : held_out) {
    SACCADE_ASSIGN(const auto queries, json_field<double>(set, "queries"));
    SACCADE_ASSIGN(const auto loss, json_field<double>(set, "loss"));
    sum += queries * loss;
    weight += queries;
  }
  if (weight == 0) return std::nullopt;
  return -sum / weight;
}

Status EditorTask::write_model(const fs::path& folder) const {
  SACCADE_TRY(
      write_file_atomic(folder / "config.json", dump_json(editor_config_json(data_.config), 2) + "\n"));
  SACCADE_TRY(
      write_file_atomic(folder / "frozen.json", dump_json({{"path", data_.config.frozen.path}}, 2) + "\n"));
  return write_torch_map(folder / "model.safetensors", parameters_);
}

}  // namespace saccade::lab
