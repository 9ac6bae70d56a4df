// Parser of SigLIP configs in all published layouts.
#include <array>
#include <map>
#include <set>

#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/families/siglip.h"

namespace saccade {
namespace {

using nn::Activation;
using nn::Tensor;
using nn::TransformerShape;

Status check_vision(const SiglipVisionConfig& config) {
  SACCADE_TRY(check_tower("vision", config.shape));
  SACCADE_TRY(in_range("image size", config.image_size, 1, 4096));
  SACCADE_TRY(in_range("patch size", config.patch_size, 1, config.image_size));
  return {};
}

Result<SiglipConfig> checked(SiglipConfig config) {
  SACCADE_TRY(check_vision(config.vision));
  SACCADE_TRY(check_tower("text", config.text));
  SACCADE_TRY(in_range("vocabulary size", config.vocabulary, 3, 10'000'000));
  SACCADE_TRY(in_range("number of text positions", config.positions, 2, 65'536));
  SACCADE_TRY(in_range("projection width", config.projection, 1, 65'536));
  if (config.projection != config.vision.shape.width) {
    return fail(ErrorCode::kMismatch, "texts become rows of {}, images of {}: they must be the same",
                config.projection, config.vision.shape.width);
  }
  return config;
}

Result<TransformerShape> shape_with_defaults(const Json& section) {
  TransformerShape shape;
  SACCADE_ASSIGN(shape.width, json_field_or<int64_t>(section, "hidden_size", 768));
  SACCADE_ASSIGN(shape.layers, json_field_or<int64_t>(section, "num_hidden_layers", 12));
  SACCADE_ASSIGN(shape.heads, json_field_or<int64_t>(section, "num_attention_heads", 12));
  SACCADE_ASSIGN(shape.mlp_width, json_field_or<int64_t>(section, "intermediate_size", 3072));
  SACCADE_ASSIGN(shape.eps, json_field_or<double>(section, "layer_norm_eps", 1e-6));
  SACCADE_ASSIGN(const auto activation,
                 json_field_or<std::string>(section, "hidden_act", "gelu_pytorch_tanh"));
  SACCADE_ASSIGN(shape.activation, nn::activation_named(activation));
  return shape;
}

// Properties implied by timm's names of SigLIP towers, for values missing from OpenCLIP's config and the
// tensors (huggingface/pytorch-image-models, timm/models/vision_transformer.py): the number of heads, and
// tanh GELU for towers added with SigLIP 2.
struct TimmTower {
  std::string_view prefix;
  int64_t heads = 0;
  bool tanh = false;
};
constexpr std::array kTimmTowers = {
    TimmTower{"vit_base_patch32_siglip_", 12, true},     TimmTower{"vit_base_patch16_siglip_", 12, false},
    TimmTower{"vit_large_patch16_siglip_512", 16, true}, TimmTower{"vit_large_patch16_siglip_", 16, false},
    TimmTower{"vit_so400m_patch16_siglip_", 16, true},   TimmTower{"vit_so400m_patch14_siglip_", 16, false},
    TimmTower{"vit_giantopt_patch16_siglip_", 16, true},
};

Result<TimmTower> timm_tower(const std::string& name) {
  std::string known;
  for (const TimmTower& tower : kTimmTowers) {
    if (name.starts_with(tower.prefix)) return tower;
    known += fmt::format("{}{}*", known.empty() ? "" : ", ", tower.prefix);
  }
  return fail(ErrorCode::kUnsupported, "timm_model_name \"{}\" is not known; known: {}", name.substr(0, 80),
              known);
}

// Rejects fields that are not listed, because they could change the results.
Status expect_fields(const Json& section, const char* name, const std::set<std::string>& read,
                     const Json& wanted) {
  for (const auto& [key, value] : section.items()) {
    if (read.contains(key) || value.is_null()) continue;
    const auto found = wanted.find(key);
    if (found != wanted.end() && *found == value) continue;
    return fail(ErrorCode::kUnsupported, "{} \"{}\": {} is not a switch of SigLIP as it is known here", name,
                key, dump_json(value));
  }
  for (const char* key : {"timm_pool", "pool_type", "no_causal_mask", "proj_bias"}) {
    if (wanted.contains(key) && !section.contains(key)) {
      return fail(ErrorCode::kUnsupported, "{} has no \"{}\", SigLIP's is {}", name, key,
                  dump_json(wanted[key]));
    }
  }
  return {};
}

Result<SiglipVisionConfig> open_clip_vision(const Json& vision, const nn::TensorMap& tensors) {
  SACCADE_TRY(expect_fields(
      vision, "vision_cfg",
      {"image_size", "timm_model_name", "timm_model_pretrained", "timm_drop", "timm_drop_path", "head_width"},
      {{"timm_pool", "map"}, {"timm_proj", "none"}}));
  SiglipVisionConfig config;
  SACCADE_ASSIGN(config.image_size, json_field_or<int64_t>(vision, "image_size", 224));
  SACCADE_ASSIGN(const auto name, json_field<std::string>(vision, "timm_model_name"));
  SACCADE_ASSIGN(const TimmTower tower, timm_tower(name));
  const std::string trunk = "visual.trunk.";
  SACCADE_ASSIGN(const auto kernel, tensor_shape(tensors, trunk + "patch_embed.proj.weight", 4));
  SACCADE_ASSIGN(const auto mlp, tensor_shape(tensors, trunk + "blocks.0.mlp.fc1.weight", 2));
  config.patch_size = kernel[3];
  config.shape.width = kernel[0];
  config.shape.mlp_width = mlp[0];
  while (tensors.contains(fmt::format("{}blocks.{}.norm1.weight", trunk, config.shape.layers))) {
    ++config.shape.layers;
  }
  config.shape.heads = tower.heads;
  if (vision.contains("head_width")) {
    SACCADE_ASSIGN(const auto head_width, json_field<int64_t>(vision, "head_width"));
    SACCADE_TRY(in_range("head_width", head_width, 1, config.shape.width));
    config.shape.heads = config.shape.width / head_width;
  }
  config.shape.activation = tower.tanh ? Activation::kGeluTanh : Activation::kGelu;
  config.shape.eps = 1e-6;
  return config;
}

Status open_clip_text(const Json& text, const nn::TensorMap& tensors, SiglipConfig& config) {
  SACCADE_TRY(expect_fields(text, "text_cfg",
                            {"context_length", "vocab_size", "width", "heads", "layers", "mlp_ratio",
                             "hf_tokenizer_name", "tokenizer_kwargs", "act_kwargs", "norm_kwargs"},
                            {{"no_causal_mask", true},
                             {"proj_bias", true},
                             {"pool_type", "last"},
                             {"proj_type", "linear"},
                             {"embed_cls", false},
                             {"output_tokens", false}}));
  SACCADE_ASSIGN(config.text.width, json_field_or<int64_t>(text, "width", 512));
  SACCADE_ASSIGN(config.text.layers, json_field_or<int64_t>(text, "layers", 12));
  SACCADE_ASSIGN(config.text.heads, json_field_or<int64_t>(text, "heads", 8));
  SACCADE_ASSIGN(config.vocabulary, json_field_or<int64_t>(text, "vocab_size", 49408));
  SACCADE_ASSIGN(config.positions, json_field_or<int64_t>(text, "context_length", 77));
  SACCADE_ASSIGN(const auto mlp, tensor_shape(tensors, "text.transformer.resblocks.0.mlp.c_fc.weight", 2));
  config.text.mlp_width = mlp[0];
  SACCADE_ASSIGN(const Json norm, section(text, "norm_kwargs").in("text_cfg"));
  SACCADE_TRY(expect_fields(norm, "norm_kwargs", {"eps"}, Json::object()));
  SACCADE_ASSIGN(config.text.eps, json_field_or<double>(norm, "eps", 1e-5).in("norm_kwargs"));
  SACCADE_ASSIGN(const Json act, section(text, "act_kwargs").in("text_cfg"));
  SACCADE_TRY(expect_fields(act, "act_kwargs", {"approximate"}, Json::object()));
  SACCADE_ASSIGN(const auto approximate,
                 json_field_or<std::string>(act, "approximate", "none").in("act_kwargs"));
  if (approximate != "none" && approximate != "tanh") {
    return fail(ErrorCode::kUnsupported,
                "text_cfg act_kwargs \"approximate\" is \"{}\", known are none and tanh", approximate);
  }
  config.text.activation = approximate == "tanh" ? Activation::kGeluTanh : Activation::kGelu;
  // The only clean-up that texts of this layout get.
  SACCADE_ASSIGN(const Json tokenizer, section(text, "tokenizer_kwargs").in("text_cfg"));
  return expect_fields(tokenizer, "tokenizer_kwargs", {}, {{"clean", "canonicalize"}});
}

// Converts timm's names below "visual.trunk." to the Hugging Face layout's; joint query-key-value tensors are
// split.
void rename_trunk(const std::string& name, const Tensor& tensor, nn::TensorMap& renamed);

}  // namespace

Result<SiglipVisionConfig> siglip_vision_config(const Json& section) {
  SiglipVisionConfig config;
  SACCADE_ASSIGN(config.shape, shape_with_defaults(section));
  SACCADE_ASSIGN(config.image_size, json_field_or<int64_t>(section, "image_size", 224));
  SACCADE_ASSIGN(config.patch_size, json_field_or<int64_t>(section, "patch_size", 16));
  SACCADE_ASSIGN(const auto channels, json_field_or<int64_t>(section, "num_channels", 3));
  SACCADE_TRY(in_range("number of channels", channels, 3, 3));
  SACCADE_TRY(check_vision(config));
  return config;
}

Result<SiglipConfig> siglip_config_from_hugging_face(const Json& config) {
  if (!config.is_object()) return fail(ErrorCode::kBadData, "config is {}, not an object", json_kind(config));
  SACCADE_ASSIGN(const Json vision, section(config, "vision_config"));
  SACCADE_ASSIGN(const Json text, section(config, "text_config"));
  SiglipConfig result;
  SACCADE_ASSIGN(result.vision, siglip_vision_config(vision).in("vision_config"));
  SACCADE_ASSIGN(result.text, shape_with_defaults(text).in("text_config"));
  SACCADE_ASSIGN(result.vocabulary, json_field_or<int64_t>(text, "vocab_size", 32000).in("text_config"));
  SACCADE_ASSIGN(result.positions,
                 json_field_or<int64_t>(text, "max_position_embeddings", 64).in("text_config"));
  SACCADE_ASSIGN(result.projection,
                 json_field_or<int64_t>(text, "projection_size", result.text.width).in("text_config"));
  return checked(result);
}

Result<SiglipConfig> siglip_config_from_open_clip(const Json& model_cfg, const nn::TensorMap& tensors) {
  for (const char* key : {"vision_cfg", "text_cfg"}) {
    if (!model_cfg.is_object() || !model_cfg.contains(key) || !model_cfg[key].is_object()) {
      return fail(ErrorCode::kBadData, "\"model_cfg\" has no object \"{}\"", key);
    }
  }
  SiglipConfig result;
  SACCADE_ASSIGN(result.projection, json_field<int64_t>(model_cfg, "embed_dim"));
  SACCADE_ASSIGN(result.vision, open_clip_vision(model_cfg["vision_cfg"], tensors));
  SACCADE_TRY(open_clip_text(model_cfg["text_cfg"], tensors, result));
  return checked(result);
}

Result<nn::TensorMap> rename_siglip_to_hugging_face(const nn::TensorMap& tensors) {
  nn::TensorMap renamed;
  nn::TensorMap rest;
  constexpr std::string_view kTrunk = "visual.trunk.";
  constexpr std::string_view kProjection = "text.text_projection.";
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(kTrunk)) {
      rename_trunk(name.substr(kTrunk.size()), tensor, renamed);
    } else if (name.starts_with(kProjection)) {
      renamed["text_model.head." + name.substr(kProjection.size())] = tensor;
    } else {
      rest[name] = tensor;
    }
  }
  SACCADE_ASSIGN(nn::TensorMap text, rename_to_hugging_face(std::move(rest)));
  for (const char* scalar : {"logit_scale", "logit_bias"}) {
    const auto found = text.find(scalar);
    if (found != text.end() && found->second.numel() == 1) found->second = found->second.reshape({1});
  }
  renamed.merge(std::move(text));
  return renamed;
}

namespace {

void rename_trunk(const std::string& name, const Tensor& tensor, nn::TensorMap& renamed) {
  static const std::map<std::string, std::string, std::less<>> kWhole = {
      {"patch_embed.proj", "vision_model.embeddings.patch_embedding"},
      {"norm", "vision_model.post_layernorm"},
      {"attn_pool.proj", "vision_model.head.attention.out_proj"},
      {"attn_pool.norm", "vision_model.head.layernorm"},
      {"attn_pool.mlp.fc1", "vision_model.head.mlp.fc1"},
      {"attn_pool.mlp.fc2", "vision_model.head.mlp.fc2"}};
  static const std::map<std::string, std::string, std::less<>> kInBlock = {
      {"norm1", "layer_norm1"},
      {"norm2", "layer_norm2"},
      {"attn.proj", "self_attn.out_proj"},
      {"mlp.fc1", "mlp.fc1"},
      {"mlp.fc2", "mlp.fc2"}};
  if (name == "pos_embed" && tensor.dim() == 3 && tensor.size(0) == 1) {
    renamed["vision_model.embeddings.position_embedding.weight"] = tensor[0];
    return;
  }
  if (name == "attn_pool.latent") {
    renamed["vision_model.head.probe"] = tensor;
    return;
  }
  const size_t dot = name.rfind('.');
  const std::string part = name.substr(0, std::min(dot, name.size()));
  const std::string kind = dot == std::string::npos ? "" : name.substr(dot + 1);
  // The pool's query, keys and values are one tensor in the Hugging Face layout, so they are joined.
  if (part == "attn_pool.q" || part == "attn_pool.kv") {
    const std::string joint = "vision_model.head.attention.in_proj_" + kind;
    Tensor& whole = renamed[joint];
    // Keys and values precede the query in alphabetical order, and so in this loop.
    whole = whole.defined() ? nn::cat({tensor, whole}) : tensor;
    return;
  }
  if (const auto found = kWhole.find(part); found != kWhole.end()) {
    renamed[found->second + "." + kind] = tensor;
    return;
  }
  const std::string_view blocks = "blocks.";
  const size_t end = name.find('.', blocks.size());
  if (name.starts_with(blocks) && end != std::string::npos && end < part.size()) {
    const std::string layer =
        fmt::format("vision_model.encoder.layers.{}.", name.substr(blocks.size(), end - blocks.size()));
    const std::string inner = part.substr(end + 1);
    if (inner == "attn.qkv" && tensor.dim() >= 1 && tensor.size(0) % 3 == 0) {
      const char* names[] = {"q_proj", "k_proj", "v_proj"};
      for (int64_t i = 0; i < 3; ++i) {
        renamed[fmt::format("{}self_attn.{}.{}", layer, names[i], kind)] = tensor.chunk(3, i, 0);
      }
      return;
    }
    if (const auto found = kInBlock.find(inner); found != kInBlock.end()) {
      renamed[layer + found->second + "." + kind] = tensor;
      return;
    }
  }
  renamed["visual.trunk." + name] = tensor;  // unknown: kept, so that it is reported as such
}

}  // namespace
}  // namespace saccade
