// Parser of CLIP configs in all published layouts.
#include <cmath>
#include <set>

#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/families/clip.h"

namespace saccade {
namespace {

using nn::Activation;
using nn::TransformerShape;

Status check_resnet(const ResNetShape& shape) {
  for (const int64_t blocks : shape.layers) {
    if (blocks < 1 || blocks > 1000) {
      return fail(ErrorCode::kBadData, "a stage of {} blocks, expected 1 to 1000", blocks);
    }
  }
  if (shape.width < 2 || shape.width > 4096) {
    return fail(ErrorCode::kBadData, "ResNet width is {}, expected 2 to 4096", shape.width);
  }
  return {};
}

Result<ClipConfig> checked(ClipConfig config) {
  SACCADE_TRY(config.resnet ? check_resnet(*config.resnet) : check_tower("vision", config.vision));
  SACCADE_TRY(check_tower("text", config.text));
  SACCADE_TRY(in_range("image size", config.image_size, 1, 4096));
  SACCADE_TRY(in_range("patch size", config.patch_size, 1, config.image_size));
  SACCADE_TRY(in_range("number of channels", config.channels, 3, 3));
  SACCADE_TRY(in_range("vocabulary size", config.vocabulary, 3, 10'000'000));
  SACCADE_TRY(in_range("number of text positions", config.positions, 2, 65'536));
  SACCADE_TRY(in_range("projection width", config.projection, 1, 65'536));
  if (config.image_size % config.patch_size != 0) {
    return fail(ErrorCode::kUnsupported, "image size {} is not a multiple of patch size {}",
                config.image_size, config.patch_size);
  }
  return config;
}

// Returns one tower's section, merged as in transformers: the older "<name>_dict", if present, overrides the
// tower's own fields, which override the defaults.
Result<Json> tower_section(const Json& config, const std::string& name, Json defaults) {
  SACCADE_ASSIGN(Json first, section(config, name, std::move(defaults)));
  return section(config, name + "_dict", std::move(first));
}

Result<TransformerShape> hugging_face_shape(const Json& section) {
  TransformerShape shape;
  SACCADE_ASSIGN(shape.width, json_field<int64_t>(section, "hidden_size"));
  SACCADE_ASSIGN(shape.layers, json_field<int64_t>(section, "num_hidden_layers"));
  SACCADE_ASSIGN(shape.heads, json_field<int64_t>(section, "num_attention_heads"));
  SACCADE_ASSIGN(shape.mlp_width, json_field<int64_t>(section, "intermediate_size"));
  SACCADE_ASSIGN(shape.eps, json_field<double>(section, "layer_norm_eps"));
  SACCADE_ASSIGN(const std::string activation, json_field<std::string>(section, "hidden_act"));
  SACCADE_ASSIGN(shape.activation, nn::activation_named(activation));
  return shape;
}

// Rejects OpenCLIP's switches that change the computation. The listed values are those of plain CLIP;
// ignoring another value would silently give wrong embeddings.
Status refuse_other_than(const Json& section, const char* name, const Json& plain) {
  static const std::set<std::string> kShape = {
      "image_size",      "layers",         "width", "head_width",    "mlp_ratio",     "patch_size",
      "vocab_size",      "context_length", "heads", "patch_dropout", "ls_init_value", "hf_tokenizer_name",
      "tokenizer_kwargs"};
  for (const auto& [key, value] : section.items()) {
    if (kShape.contains(key) || value.is_null()) continue;
    const auto found = plain.find(key);
    if (found != plain.end() && *found == value) continue;
    return fail(ErrorCode::kUnsupported, "{} \"{}\": {} is not a switch of plain CLIP", name, key,
                dump_json(value));
  }
  if (section.contains("ls_init_value") && !section["ls_init_value"].is_null()) {
    return fail(ErrorCode::kUnsupported, "{} uses layer scale (\"ls_init_value\")", name);
  }
  return {};
}

Result<int64_t> open_clip_mlp_width(const Json& section, int64_t width, const nn::TensorMap& tensors,
                                    std::initializer_list<const char*> towers) {
  if (!section.contains("mlp_ratio")) {
    for (const char* tower : towers) {
      const auto found = tensors.find(fmt::format("{}resblocks.0.mlp.c_fc.weight", tower));
      if (found != tensors.end() && found->second.dim() == 2) return found->second.size(0);
    }
  }
  SACCADE_ASSIGN(const double ratio, json_field_or<double>(section, "mlp_ratio", 4.0));
  // Truncates towards zero like Python's int() (bigG's ratio is 4.9231).
  if (!(ratio > 0 && ratio <= 1000)) return fail(ErrorCode::kBadData, "\"mlp_ratio\" is {}", ratio);
  return static_cast<int64_t>(static_cast<double>(width) * ratio);
}

Status read_open_clip_transformer(const Json& vision, const nn::TensorMap& tensors, ClipConfig& result) {
  SACCADE_ASSIGN(result.vision.width, json_field_or<int64_t>(vision, "width", 768));
  SACCADE_ASSIGN(result.vision.layers, json_field_or<int64_t>(vision, "layers", 12));
  SACCADE_ASSIGN(const int64_t head_width, json_field_or<int64_t>(vision, "head_width", 64));
  SACCADE_ASSIGN(result.patch_size, json_field_or<int64_t>(vision, "patch_size", 16));
  if (head_width < 1) return fail(ErrorCode::kBadData, "vision_cfg \"head_width\" is {}", head_width);
  result.vision.heads = result.vision.width / head_width;
  SACCADE_ASSIGN(result.vision.mlp_width,
                 open_clip_mlp_width(vision, result.vision.width, tensors, {"visual.transformer."}));
  return {};
}

// Reads a ResNet, whose "layers" is a list; its width counts the stem's channels.
Status read_open_clip_resnet(const Json& vision, ClipConfig& result) {
  ResNetShape shape;
  for (const Json& blocks : vision["layers"]) {
    SACCADE_ASSIGN(shape.layers.emplace_back(), detail::json_as<int64_t>("layers", blocks));
  }
  SACCADE_ASSIGN(shape.width, json_field_or<int64_t>(vision, "width", 64));
  SACCADE_ASSIGN(const int64_t head_width, json_field_or<int64_t>(vision, "head_width", 64));
  if (head_width < 1) return fail(ErrorCode::kBadData, "vision_cfg \"head_width\" is {}", head_width);
  SACCADE_TRY(check_resnet(shape));
  shape.heads = 32 * shape.width / head_width;
  result.patch_size = kResNetStride;
  result.resnet = shape;
  return {};
}

}  // namespace

Result<Json> clip_text_section(const Json& config) {
  return tower_section(config, "text_config",
                       {{"vocab_size", 49408},
                        {"hidden_size", 512},
                        {"intermediate_size", 2048},
                        {"num_hidden_layers", 12},
                        {"num_attention_heads", 8},
                        {"max_position_embeddings", 77},
                        {"hidden_act", "quick_gelu"},
                        {"layer_norm_eps", 1e-5},
                        {"eos_token_id", 49407}});
}

Result<ClipConfig> clip_config_from_hugging_face(const Json& config) {
  if (!config.is_object()) return fail(ErrorCode::kBadData, "config is {}, not an object", json_kind(config));
  SACCADE_ASSIGN(const Json vision, tower_section(config, "vision_config",
                                                  {{"hidden_size", 768},
                                                   {"intermediate_size", 3072},
                                                   {"num_hidden_layers", 12},
                                                   {"num_attention_heads", 12},
                                                   {"num_channels", 3},
                                                   {"image_size", 224},
                                                   {"patch_size", 32},
                                                   {"hidden_act", "quick_gelu"},
                                                   {"layer_norm_eps", 1e-5}}));
  SACCADE_ASSIGN(const Json text, clip_text_section(config));
  ClipConfig result;
  SACCADE_ASSIGN(result.vision, hugging_face_shape(vision).in("vision_config"));
  SACCADE_ASSIGN(result.text, hugging_face_shape(text).in("text_config"));
  SACCADE_ASSIGN(result.image_size, json_field<int64_t>(vision, "image_size").in("vision_config"));
  SACCADE_ASSIGN(result.patch_size, json_field<int64_t>(vision, "patch_size").in("vision_config"));
  SACCADE_ASSIGN(result.channels, json_field<int64_t>(vision, "num_channels").in("vision_config"));
  SACCADE_ASSIGN(result.vocabulary, json_field<int64_t>(text, "vocab_size").in("text_config"));
  SACCADE_ASSIGN(result.positions, json_field<int64_t>(text, "max_position_embeddings").in("text_config"));
  SACCADE_ASSIGN(result.projection, json_field_or<int64_t>(config, "projection_dim", 512));
  SACCADE_ASSIGN(result.logit_scale_init, json_field_or<double>(config, "logit_scale_init_value", 2.6592));
  SACCADE_ASSIGN(const int64_t end_id, json_field<int64_t>(text, "eos_token_id").in("text_config"));
  if (end_id != kLegacyEndId) {
    if (end_id < 0 || end_id >= result.vocabulary) {
      return fail(ErrorCode::kBadData, "text_config: eos_token_id {} is outside the vocabulary of {}", end_id,
                  result.vocabulary);
    }
    result.end_id = end_id;
  }
  return checked(result);
}

Result<ClipConfig> clip_config_from_open_clip(const Json& model_cfg, const nn::TensorMap& tensors) {
  if (!model_cfg.is_object() || !model_cfg.contains("vision_cfg") || !model_cfg.contains("text_cfg")) {
    return fail(ErrorCode::kBadData, "\"model_cfg\" has no \"vision_cfg\" and \"text_cfg\"");
  }
  const Json& vision = model_cfg["vision_cfg"];
  const Json& text = model_cfg["text_cfg"];
  for (const char* key : {"vision_cfg", "text_cfg"}) {
    if (!model_cfg[key].is_object()) return fail(ErrorCode::kBadData, "\"{}\" is not an object", key);
  }
  if (vision.contains("timm_model_name") || text.contains("hf_model_name")) {
    return fail(ErrorCode::kUnsupported, "a tower from timm or transformers inside OpenCLIP's layout");
  }
  SACCADE_TRY(refuse_other_than(vision, "vision_cfg",
                                {{"no_ln_pre", false},
                                 {"pool_type", "tok"},
                                 {"final_ln_after_pool", false},
                                 {"attentional_pool", false},
                                 {"pos_embed_type", "learnable"},
                                 {"output_tokens", false}}));
  SACCADE_TRY(refuse_other_than(text, "text_cfg",
                                {{"embed_cls", false},
                                 {"no_causal_mask", false},
                                 {"pool_type", "argmax"},
                                 {"proj_type", "linear"},
                                 {"proj_bias", false},
                                 {"output_tokens", false},
                                 {"pad_id", 0}}));

  ClipConfig result;
  SACCADE_ASSIGN(result.projection, json_field<int64_t>(model_cfg, "embed_dim"));
  SACCADE_ASSIGN(const bool quick_gelu, json_field_or<bool>(model_cfg, "quick_gelu", false));
  result.vision.activation = result.text.activation = quick_gelu ? Activation::kQuickGelu : Activation::kGelu;

  SACCADE_ASSIGN(result.image_size, json_field_or<int64_t>(vision, "image_size", 224));
  if (vision.contains("layers") && vision["layers"].is_array()) {
    SACCADE_TRY(read_open_clip_resnet(vision, result));
  } else {
    SACCADE_TRY(read_open_clip_transformer(vision, tensors, result));
  }

  SACCADE_ASSIGN(result.text.width, json_field_or<int64_t>(text, "width", 512));
  SACCADE_ASSIGN(result.text.layers, json_field_or<int64_t>(text, "layers", 12));
  SACCADE_ASSIGN(result.text.heads, json_field_or<int64_t>(text, "heads", 8));
  SACCADE_ASSIGN(result.vocabulary, json_field_or<int64_t>(text, "vocab_size", 49408));
  SACCADE_ASSIGN(result.positions, json_field_or<int64_t>(text, "context_length", 77));
  SACCADE_ASSIGN(result.text.mlp_width, open_clip_mlp_width(text, result.text.width, tensors,
                                                            {"transformer.", "text.transformer."}));
  return checked(result);
}

Result<ClipConfig> clip_config_from_tensors(const nn::TensorMap& tensors) {
  const auto shape_of = [&](const std::string& name, size_t dimensions) {
    return tensor_shape(tensors, name, dimensions);
  };
  const auto count_layers = [&](const std::string& prefix) {
    int64_t layers = 0;
    while (tensors.contains(fmt::format("{}{}.ln_1.weight", prefix, layers))) ++layers;
    return layers;
  };
  // The number of positions is a square plus one.
  const auto side_of = [](int64_t positions) {
    return std::llround(std::sqrt(static_cast<double>(std::max<int64_t>(positions - 1, 0))));
  };
  ClipConfig result;
  if (const std::string pool = "visual.attnpool.positional_embedding"; tensors.contains(pool)) {
    SACCADE_ASSIGN(const auto places, shape_of(pool, 2));
    SACCADE_ASSIGN(const auto first, shape_of("visual.layer1.0.conv1.weight", 4));
    ResNetShape shape;
    for (int stage = 1; stage <= 4; ++stage) {
      int64_t blocks = 0;
      while (tensors.contains(fmt::format("visual.layer{}.{}.conv1.weight", stage, blocks))) ++blocks;
      shape.layers.push_back(blocks);
    }
    shape.width = first[0];
    SACCADE_TRY(check_resnet(shape));
    shape.heads = 32 * shape.width / 64;
    result.resnet = shape;
    result.patch_size = kResNetStride;
    result.image_size = side_of(places[0]) * kResNetStride;
  } else {
    SACCADE_ASSIGN(const auto kernel, shape_of("visual.conv1.weight", 4));
    SACCADE_ASSIGN(const auto places, shape_of("visual.positional_embedding", 2));
    SACCADE_ASSIGN(const auto vision_mlp, shape_of("visual.transformer.resblocks.0.mlp.c_fc.weight", 2));
    result.patch_size = kernel[3];
    result.channels = kernel[1];
    result.image_size = side_of(places[0]) * result.patch_size;
    result.vision = {.width = kernel[0],
                     .layers = count_layers("visual.transformer.resblocks."),
                     .heads = kernel[0] / 64,
                     .mlp_width = vision_mlp[0],
                     .activation = Activation::kQuickGelu,
                     .eps = 1e-5};
  }
  SACCADE_ASSIGN(const auto tokens, shape_of("token_embedding.weight", 2));
  SACCADE_ASSIGN(const auto positions, shape_of("positional_embedding", 2));
  SACCADE_ASSIGN(const auto text_mlp, shape_of("transformer.resblocks.0.mlp.c_fc.weight", 2));
  SACCADE_ASSIGN(const auto projection, shape_of("text_projection", 2));
  result.text = {.width = tokens[1],
                 .layers = count_layers("transformer.resblocks."),
                 .heads = tokens[1] / 64,
                 .mlp_width = text_mlp[0],
                 .activation = Activation::kQuickGelu,
                 .eps = 1e-5};
  result.vocabulary = tokens[0];
  result.positions = positions[0];
  result.projection = projection[1];
  return checked(result);
}

Json clip_config_to_hugging_face(const ClipConfig& config, int64_t start_id, int64_t end_id, int64_t pad_id) {
  const auto tower = [&](const TransformerShape& shape, const char* model_type) {
    return Json{{"model_type", model_type},
                {"hidden_size", shape.width},
                {"intermediate_size", shape.mlp_width},
                {"num_hidden_layers", shape.layers},
                {"num_attention_heads", shape.heads},
                {"hidden_act", nn::activation_name(shape.activation)},
                {"layer_norm_eps", shape.eps},
                {"attention_dropout", 0.0},
                {"projection_dim", config.projection}};
  };
  Json vision = tower(config.vision, "clip_vision_model");
  vision["image_size"] = config.image_size;
  vision["patch_size"] = config.patch_size;
  vision["num_channels"] = config.channels;
  Json text = tower(config.text, "clip_text_model");
  text["vocab_size"] = config.vocabulary;
  text["max_position_embeddings"] = config.positions;
  text["bos_token_id"] = start_id;
  text["eos_token_id"] = end_id;
  text["pad_token_id"] = pad_id;
  return Json{{"architectures", {"CLIPModel"}},      {"model_type", "clip"},
              {"projection_dim", config.projection}, {"logit_scale_init_value", config.logit_scale_init},
              {"vision_config", std::move(vision)},  {"text_config", std::move(text)}};
}

}  // namespace saccade
