#include "random_checkpoint.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/files.h"
#include "saccade/core/json.h"
#include "saccade/core/safetensors.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  bool gain = false;  // around 1 instead of 0

  [[nodiscard]] int64_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
};

void add_tower(std::vector<Parameter>& parameters, const std::string& tower, const TowerShape& shape) {
  const int64_t width = shape.width;
  const auto add_linear = [&](const std::string& name, int64_t in, int64_t out) {
    parameters.push_back({name + ".weight", {out, in}});
    parameters.push_back({name + ".bias", {out}});
  };
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string block = fmt::format("{}.encoder.layers.{}.", tower, i);
    for (const char* norm : {"layer_norm1", "layer_norm2"}) {
      parameters.push_back({block + norm + ".weight", {width}, true});
      parameters.push_back({block + norm + ".bias", {width}});
    }
    for (const char* part : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      add_linear(block + "self_attn." + part, width, width);
    }
    add_linear(block + "mlp.fc1", width, kMlpRatio * width);
    add_linear(block + "mlp.fc2", kMlpRatio * width, width);
  }
}

std::vector<Parameter> parameters_of(const ClipShape& shape) {
  const int64_t vision = shape.vision.width;
  const int64_t text = shape.text.width;
  const int64_t side = kPictureSide / shape.patch;
  std::vector<Parameter> parameters = {
      {"vision_model.embeddings.class_embedding", {vision}},
      {"vision_model.embeddings.patch_embedding.weight", {vision, 3, shape.patch, shape.patch}},
      {"vision_model.embeddings.position_embedding.weight", {side * side + 1, vision}},
      {"vision_model.pre_layrnorm.weight", {vision}, true},  // the published checkpoints' spelling
      {"vision_model.pre_layrnorm.bias", {vision}},
      {"vision_model.post_layernorm.weight", {vision}, true},
      {"vision_model.post_layernorm.bias", {vision}},
      {"visual_projection.weight", {shape.projection, vision}},
      {"text_model.embeddings.token_embedding.weight", {kVocabulary, text}},
      {"text_model.embeddings.position_embedding.weight", {kPositions, text}},
      {"text_model.final_layer_norm.weight", {text}, true},
      {"text_model.final_layer_norm.bias", {text}},
      {"text_projection.weight", {shape.projection, text}},
      {"logit_scale", {}, true}};
  add_tower(parameters, "vision_model", shape.vision);
  add_tower(parameters, "text_model", shape.text);
  return parameters;
}

Json tower_config(const TowerShape& shape) {
  return Json{{"hidden_size", shape.width},
              {"num_hidden_layers", shape.layers},
              {"num_attention_heads", shape.heads},
              {"intermediate_size", kMlpRatio * shape.width},
              {"hidden_act", "quick_gelu"}};
}

}  // namespace

Status write_random_clip(const fs::path& folder, const ClipShape& shape) {
  const std::vector<Parameter> parameters = parameters_of(shape);
  int64_t largest = 0;
  for (const Parameter& parameter : parameters) largest = std::max(largest, parameter.elements());

  // All tensors are pieces of one row of values, from different places on: speed does not depend on more.
  constexpr int64_t kPlaces = 1'000'003;
  std::minstd_rand random(1);
  std::normal_distribution<float> normal(0, 0.03F);
  std::vector<float> values(static_cast<size_t>(largest + kPlaces));
  for (float& value : values) value = normal(random);
  std::vector<float> gains(values.begin(), values.begin() + kPlaces);
  for (float& gain : gains) gain += 1;

  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : parameters) {
    const auto place = static_cast<size_t>(random() % kPlaces);
    const auto elements = static_cast<size_t>(parameter.elements());
    const std::span<const float> piece = parameter.gain
                                             ? std::span<const float>(gains).first(elements)
                                             : std::span<const float>(values).subspan(place, elements);
    tensors.push_back({parameter.name, {DType::kF32, parameter.shape, std::as_bytes(piece)}});
  }
  SACCADE_TRY(write_safetensors(folder / "model.safetensors", tensors));

  Json config{{"model_type", "clip"}, {"projection_dim", shape.projection}};
  config["vision_config"] = tower_config(shape.vision);
  config["vision_config"]["image_size"] = kPictureSide;
  config["vision_config"]["patch_size"] = shape.patch;
  config["text_config"] = tower_config(shape.text);
  config["text_config"]["vocab_size"] = kVocabulary;
  config["text_config"]["max_position_embeddings"] = kPositions;
  config["text_config"]["eos_token_id"] = kVocabulary - 1;
  return write_file_atomic(folder / "config.json", dump_json(config, 2));
}

Result<ScratchFolder> ScratchFolder::make() {
  std::string name = (fs::temp_directory_path() / "saccade-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return fail_errno(errno, "make a folder like " + name);
  return ScratchFolder(fs::canonical(name));
}

ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    int64_t kibibytes = 0;
    if (key == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

void reset_peak_memory() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

}  // namespace saccade::bench
