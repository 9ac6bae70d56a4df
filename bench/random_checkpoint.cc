#include "random_checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/half.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"

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

void add_norm(std::vector<Parameter>& parameters, const std::string& name, int64_t width) {
  parameters.push_back({name + ".weight", {width}, true});
  parameters.push_back({name + ".bias", {width}});
}

void add_linear(std::vector<Parameter>& parameters, const std::string& name, int64_t in, int64_t out) {
  parameters.push_back({name + ".weight", {out, in}});
  parameters.push_back({name + ".bias", {out}});
}

void add_tower(std::vector<Parameter>& parameters, const std::string& tower, const TowerShape& shape) {
  const int64_t width = shape.width;
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string block = fmt::format("{}.encoder.layers.{}.", tower, i);
    for (const char* norm : {"layer_norm1", "layer_norm2"}) add_norm(parameters, block + norm, width);
    for (const char* part : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      add_linear(parameters, block + "self_attn." + part, width, width);
    }
    add_linear(parameters, block + "mlp.fc1", width, shape.mlp);
    add_linear(parameters, block + "mlp.fc2", shape.mlp, width);
  }
}

std::vector<Parameter> parameters_of(const ClipShape& shape) {
  const int64_t vision = shape.vision.width;
  const int64_t text = shape.text.width;
  std::vector<Parameter> parameters = {
      {"vision_model.embeddings.class_embedding", {vision}},
      {"vision_model.embeddings.patch_embedding.weight", {vision, 3, shape.patch, shape.patch}},
      {"vision_model.embeddings.position_embedding.weight", {shape.patches() + 1, vision}},
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

// Adds SigLIP's vision tower without its pooling.
void add_siglip_vision(std::vector<Parameter>& parameters, const std::string& name, const TowerShape& shape,
                       int64_t patch, int64_t patches) {
  parameters.push_back({name + ".embeddings.patch_embedding.weight", {shape.width, 3, patch, patch}});
  parameters.push_back({name + ".embeddings.patch_embedding.bias", {shape.width}});
  parameters.push_back({name + ".embeddings.position_embedding.weight", {patches, shape.width}});
  add_tower(parameters, name, shape);
  add_norm(parameters, name + ".post_layernorm", shape.width);
}

std::vector<Parameter> parameters_of(const SiglipShape& shape) {
  const int64_t width = shape.tower.width;
  const std::string head = "vision_model.head.";
  std::vector<Parameter> parameters = {
      {head + "probe", {1, 1, width}},
      {head + "attention.in_proj_weight", {3 * width, width}},
      {head + "attention.in_proj_bias", {3 * width}},
      {"text_model.embeddings.token_embedding.weight", {shape.vocabulary, width}},
      {"text_model.embeddings.position_embedding.weight", {shape.positions, width}},
      {"logit_scale", {1}, true},
      {"logit_bias", {1}}};
  add_siglip_vision(parameters, "vision_model", shape.tower, shape.patch, shape.patches());
  add_linear(parameters, head + "attention.out_proj", width, width);
  add_norm(parameters, head + "layernorm", width);
  add_linear(parameters, head + "mlp.fc1", width, shape.tower.mlp);
  add_linear(parameters, head + "mlp.fc2", shape.tower.mlp, width);
  add_tower(parameters, "text_model", shape.tower);
  add_norm(parameters, "text_model.final_layer_norm", width);
  add_linear(parameters, "text_model.head", width, width);
  return parameters;
}

std::vector<Parameter> parameters_of(const ColPaliShape& shape) {
  const TowerShape& language = shape.language;
  const int64_t width = language.width;
  const int64_t inner = language.heads * shape.head_width;
  const std::string body = "vlm.language_model.model.";
  std::vector<Parameter> parameters = {{body + "embed_tokens.weight", {shape.vocabulary, width}},
                                       {body + "norm.weight", {width}}};
  for (int64_t i = 0; i < language.layers; ++i) {
    const std::string block = fmt::format("{}layers.{}.", body, i);
    parameters.push_back({block + "input_layernorm.weight", {width}});
    parameters.push_back({block + "post_attention_layernorm.weight", {width}});
    parameters.push_back({block + "self_attn.q_proj.weight", {inner, width}});
    parameters.push_back({block + "self_attn.k_proj.weight", {shape.head_width, width}});
    parameters.push_back({block + "self_attn.v_proj.weight", {shape.head_width, width}});
    parameters.push_back({block + "self_attn.o_proj.weight", {width, inner}});
    parameters.push_back({block + "mlp.gate_proj.weight", {language.mlp, width}});
    parameters.push_back({block + "mlp.up_proj.weight", {language.mlp, width}});
    parameters.push_back({block + "mlp.down_proj.weight", {width, language.mlp}});
  }
  add_siglip_vision(parameters, "vlm.vision_tower", shape.vision, shape.patch, shape.patches());
  add_linear(parameters, "vlm.multi_modal_projector.linear", shape.vision.width, width);
  add_linear(parameters, "embedding_proj_layer", width, shape.projection);
  return parameters;
}

Json tower_config(const TowerShape& shape, const char* activation) {
  return Json{{"hidden_size", shape.width},
              {"num_hidden_layers", shape.layers},
              {"num_attention_heads", shape.heads},
              {"intermediate_size", shape.mlp},
              {"hidden_act", activation}};
}

// Writes model.safetensors. All tensors are pieces of one row of values, from different offsets on; speed
// does not depend on more.
Status write_weights(const fs::path& folder, const std::vector<Parameter>& parameters, DType dtype) {
  constexpr int64_t kPlaces = 1'000'003;
  int64_t largest = 0;
  int64_t largest_gain = 0;
  for (const Parameter& parameter : parameters) {
    int64_t& most = parameter.gain ? largest_gain : largest;
    most = std::max(most, parameter.elements());
  }
  std::minstd_rand random(1);
  std::normal_distribution<float> normal(0, 0.03F);
  std::vector<float> some(static_cast<size_t>(std::min(largest + kPlaces, int64_t{8'000'009})));
  for (float& value : some) value = normal(random);
  // Returns bytes of the dtype, with the values repeated if there are not enough.
  const auto bytes_of = [&](int64_t count, float add) {
    const auto size = static_cast<size_t>(dtype_size(dtype));
    std::vector<std::byte> bytes(static_cast<size_t>(count) * size);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const float value = some[i % some.size()] + add;
      const uint16_t half = float_to_bf16(value);
      std::memcpy(bytes.data() + i * size, dtype == DType::kBF16 ? static_cast<const void*>(&half) : &value,
                  size);
    }
    return bytes;
  };
  const std::vector<std::byte> values = bytes_of(largest + kPlaces, 0);
  const std::vector<std::byte> gains = bytes_of(largest_gain, 1);
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : parameters) {
    const auto size = static_cast<size_t>(dtype_size(dtype));
    const size_t place = parameter.gain ? 0 : static_cast<size_t>(random() % kPlaces);
    const std::span<const std::byte> from = parameter.gain ? gains : values;
    tensors.push_back({parameter.name,
                       {dtype, parameter.shape,
                        from.subspan(place * size, static_cast<size_t>(parameter.elements()) * size)}});
  }
  return write_safetensors(folder / "model.safetensors", tensors);
}

}  // namespace

Status write_random_clip(const fs::path& folder, const ClipShape& shape) {
  SACCADE_TRY(write_weights(folder, parameters_of(shape), DType::kF32));
  Json config{{"model_type", "clip"}, {"projection_dim", shape.projection}};
  config["vision_config"] = tower_config(shape.vision, "quick_gelu");
  config["vision_config"]["image_size"] = shape.side;
  config["vision_config"]["patch_size"] = shape.patch;
  config["text_config"] = tower_config(shape.text, "quick_gelu");
  config["text_config"]["vocab_size"] = kVocabulary;
  config["text_config"]["max_position_embeddings"] = kPositions;
  config["text_config"]["eos_token_id"] = kVocabulary - 1;
  return write_file_atomic(folder / "config.json", dump_json(config, 2));
}

Status write_random_siglip(const fs::path& folder, const SiglipShape& shape) {
  SACCADE_TRY(write_weights(folder, parameters_of(shape), DType::kF32));
  Json config{{"model_type", "siglip"}};
  config["vision_config"] = tower_config(shape.tower, "gelu_pytorch_tanh");
  config["vision_config"]["image_size"] = shape.side;
  config["vision_config"]["patch_size"] = shape.patch;
  config["text_config"] = tower_config(shape.tower, "gelu_pytorch_tanh");
  config["text_config"]["vocab_size"] = shape.vocabulary;
  config["text_config"]["max_position_embeddings"] = shape.positions;
  return write_file_atomic(folder / "config.json", dump_json(config, 2));
}

Status write_random_colpali(const fs::path& folder, const ColPaliShape& shape) {
  SACCADE_TRY(write_weights(folder, parameters_of(shape), DType::kBF16));
  Json config{{"model_type", "colpali"}, {"embedding_dim", shape.projection}};
  Json& model = config["vlm_config"];
  model["image_token_index"] = 560;  // of the small tokenizer below
  model["vision_config"] = tower_config(shape.vision, "gelu_pytorch_tanh");
  model["vision_config"]["image_size"] = shape.side;
  model["vision_config"]["patch_size"] = shape.patch;
  model["text_config"] = tower_config(shape.language, "gelu_pytorch_tanh");
  model["text_config"]["num_key_value_heads"] = 1;
  model["text_config"]["head_dim"] = shape.head_width;
  model["text_config"]["vocab_size"] = shape.vocabulary;
  SACCADE_TRY(write_file_atomic(folder / "config.json", dump_json(config, 2)));
  // The small tokenizer makes as many tokens of this prompt as the published one makes of its own.
  SACCADE_TRY(write_file_atomic(folder / "processor_config.json",
                                dump_json(Json{{"visual_prompt_prefix", "a cat a cat"}})));
  const fs::path words = fs::path(test::kSourceDir) / "tests/golden/tokenizers/gemma";
  std::error_code error;
  fs::copy_file(words / "tokenizer_config.json", folder / "tokenizer_config.json", error);
  if (error) return fail_errno(error.value(), "copy tokenizer_config.json of " + words.string());
  SACCADE_ASSIGN(Json tokenizer, read_json(words / "tokenizer.json"));
  constexpr int64_t kSmall = 563;  // a checkpoint's table has rows for its tokenizer's words: the rest
  auto& vocabulary = tokenizer["model"]["vocab"].get_ref<Json::object_t&>();
  for (int64_t id = kSmall; id < shape.vocabulary; ++id) {
    vocabulary.emplace_back(fmt::format("<unused{}>", id), id);
  }
  return write_file_atomic(folder / "tokenizer.json", dump_json(tokenizer));
}

bool is_wanted_shape(const std::string& name) {
  const char* list = std::getenv("SACCADE_BENCH_SHAPES");
  const std::string wanted = list == nullptr ? kVitB32.name : list;
  return wanted == "all" || ("," + wanted + ",").find("," + name + ",") != std::string::npos;
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
