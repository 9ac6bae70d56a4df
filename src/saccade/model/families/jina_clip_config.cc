// Parser of Jina-CLIP v1 configs.
#include <set>
#include <string_view>

#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/families/jina_clip.h"

namespace saccade {
namespace {

constexpr int64_t kMaxSide = 65'536;
constexpr std::string_view kText = "text_model.transformer.";

Status check_blocks(std::string_view tower, const nn::TransformerShape& shape) {
  SACCADE_TRY(in_range(fmt::format("{} width", tower), shape.width, 1, kMaxSide));
  SACCADE_TRY(in_range(fmt::format("{} layers", tower), shape.layers, 1, 1000));
  SACCADE_TRY(in_range(fmt::format("{} heads", tower), shape.heads, 1, 1024));
  SACCADE_TRY(in_range(fmt::format("{} MLP width", tower), shape.mlp_width, 1, kMaxSide));
  if (shape.width % shape.heads != 0) {
    return fail(ErrorCode::kBadData, "{} width {} is not a multiple of {} heads", tower, shape.width,
                shape.heads);
  }
  if (!(shape.eps > 0 && shape.eps < 1)) {
    return fail(ErrorCode::kBadData, "{} norm eps is {}, expected above 0 and below 1", tower, shape.eps);
  }
  return {};
}

// Checks that a field equals `plain` (or is absent or null); other values require unimplemented computations.
Status expect_plain(const Json& section, std::string_view where, const char* key, const Json& plain) {
  const auto found = section.find(key);
  if (found == section.end() || found->is_null() || *found == plain) return {};
  return fail(ErrorCode::kUnsupported, "{} \"{}\" is {}, known is {}", where, key, dump_json(*found),
              dump_json(plain));
}

Result<EvaShape> read_vision(const Json& json) {
  const std::string_view where = "vision_config";
  EvaShape shape;
  nn::TransformerShape& blocks = shape.blocks;
  SACCADE_ASSIGN(blocks.width, json_field_or<int64_t>(json, "width", 768).in(where));
  SACCADE_ASSIGN(blocks.layers, json_field_or<int64_t>(json, "layers", 12).in(where));
  SACCADE_ASSIGN(const int64_t head_width, json_field_or<int64_t>(json, "head_width", 64).in(where));
  SACCADE_ASSIGN(const double ratio, json_field_or<double>(json, "mlp_ratio", 4.0).in(where));
  SACCADE_ASSIGN(shape.image_size, json_field_or<int64_t>(json, "image_size", 224).in(where));
  SACCADE_ASSIGN(shape.patch_size, json_field_or<int64_t>(json, "patch_size", 16).in(where));
  SACCADE_ASSIGN(shape.query_value_bias, json_field_or<bool>(json, "qkv_bias", true).in(where));
  SACCADE_ASSIGN(shape.sub_norm, json_field_or<bool>(json, "subln", false).in(where));
  SACCADE_ASSIGN(shape.gated, json_field_or<bool>(json, "naive_swiglu", false).in(where));
  SACCADE_ASSIGN(shape.rotary, json_field_or<bool>(json, "rope_embeddings", false).in(where));
  SACCADE_ASSIGN(const int64_t trained, json_field_or<int64_t>(json, "pt_hw_seq_len", 16).in(where));
  SACCADE_ASSIGN(const bool interpolated, json_field_or<bool>(json, "intp_freq", false).in(where));
  SACCADE_TRY(expect_plain(json, where, "post_norm", false));
  for (const char* key : {"ls_init_value", "proj_type"}) SACCADE_TRY(expect_plain(json, where, key, nullptr));

  SACCADE_TRY(in_range("vision head_width", head_width, 1, kMaxSide));
  if (!(ratio > 0 && ratio <= 1000)) return fail(ErrorCode::kBadData, "{} \"mlp_ratio\" is {}", where, ratio);
  blocks.heads = blocks.width / head_width;
  blocks.mlp_width = static_cast<int64_t>(static_cast<double>(blocks.width) * ratio);  // as Python's int()
  blocks.eps = 1e-6;  // the published code's, which the config does not hold
  SACCADE_TRY(check_blocks("vision", blocks));
  SACCADE_TRY(in_range("image size", shape.image_size, 1, 4096));
  SACCADE_TRY(in_range("patch size", shape.patch_size, 1, shape.image_size));
  SACCADE_TRY(in_range("pt_hw_seq_len", trained, 1, 4096));
  const int64_t side = shape.image_size / shape.patch_size;
  if (shape.image_size % shape.patch_size != 0) {
    return fail(ErrorCode::kUnsupported, "image size {} is not a multiple of patch size {}", shape.image_size,
                shape.patch_size);
  }
  if (shape.rotary && (blocks.width / blocks.heads) % 4 != 0) {
    return fail(ErrorCode::kBadData, "vision heads of {}: rotary positions take a multiple of 4",
                blocks.width / blocks.heads);
  }
  if (shape.rotary && !interpolated && side != trained) {
    return fail(ErrorCode::kBadData,
                "rotary positions for {} rows of patches (\"pt_hw_seq_len\"), images have {}", trained, side);
  }
  shape.rotary_positions = static_cast<double>(trained);
  return shape;
}

Result<std::vector<int64_t>> shape_of(const nn::TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return fail(ErrorCode::kBadData, "tensor {} is missing", name);
  std::vector<int64_t> shape = found->second.sizes();
  if (shape.size() != 2) {
    return fail(ErrorCode::kBadData, "tensor {} has shape {}, expected two dimensions", name,
                shape_text(shape));
  }
  return shape;
}

// Reads the text tower's shape. The config only names another repository for it ("hf_model_name_or_path"),
// with overrides in "hf_model_config_kwargs", so most of it comes from the tensors.
Result<JinaTextShape> read_text(const Json& json, const nn::TensorMap& tensors) {
  const std::string_view where = "text_config";
  SACCADE_TRY(expect_plain(json, where, "proj_type", nullptr));
  SACCADE_ASSIGN(const std::string pooler, json_field_or<std::string>(json, "pooler_type", "").in(where));
  if (pooler != "mean_pooler") {
    return fail(ErrorCode::kUnsupported, "text_config \"pooler_type\" is \"{}\", known is mean_pooler",
                pooler);
  }
  const std::string first = fmt::format("{}encoder.layers.0.", kText);
  const std::string gated = first + "mlp.gated_layers.weight";
  if (!tensors.contains(gated)) {
    SACCADE_ASSIGN(const std::string name,
                   json_field_or<std::string>(json, "hf_model_name_or_path", "").in(where));
    return fail(ErrorCode::kUnsupported,
                "a text tower (\"{}\") other than JinaBERT with gated MLPs: no tensor {}", name, gated);
  }
  JinaTextShape shape;
  SACCADE_ASSIGN(const auto words,
                 shape_of(tensors, fmt::format("{}embeddings.word_embeddings.weight", kText)));
  SACCADE_ASSIGN(const auto types,
                 shape_of(tensors, fmt::format("{}embeddings.token_type_embeddings.weight", kText)));
  SACCADE_ASSIGN(const auto gates, shape_of(tensors, gated));
  shape.vocabulary = words[0];
  shape.token_types = types[0];
  shape.blocks.width = words[1];
  shape.blocks.mlp_width = gates[0] / 2;
  shape.blocks.heads = words[1] / 64;
  shape.blocks.eps = 1e-12;
  while (tensors.contains(fmt::format("{}encoder.layers.{}.norm1.weight", kText, shape.blocks.layers))) {
    ++shape.blocks.layers;
  }
  SACCADE_ASSIGN(const Json changes, section(json, "hf_model_config_kwargs"));
  static const std::set<std::string_view> kHarmless = {"use_flash_attn",
                                                       "attention_probs_dropout_prob",
                                                       "hidden_dropout_prob",
                                                       "classifier_dropout",
                                                       "initializer_range",
                                                       "hidden_size",
                                                       "num_hidden_layers",
                                                       "intermediate_size",
                                                       "vocab_size",
                                                       "type_vocab_size",
                                                       "max_position_embeddings",
                                                       "pad_vocab_size_multiple",
                                                       "torch_dtype"};
  for (const auto& [key, value] : changes.items()) {
    if (key == "num_attention_heads") {
      SACCADE_ASSIGN(shape.blocks.heads, json_field<int64_t>(changes, key).in(where));
    } else if (key == "layer_norm_eps") {
      SACCADE_ASSIGN(shape.blocks.eps, json_field<double>(changes, key).in(where));
    } else if (key == "hidden_act") {
      SACCADE_TRY(expect_plain(changes, where, "hidden_act", "gelu"));
    } else if (key == "mlp_type") {
      SACCADE_TRY(expect_plain(changes, where, "mlp_type", "glu"));
    } else if (key == "use_qk_norm") {
      SACCADE_TRY(expect_plain(changes, where, "use_qk_norm", false));
    } else if (key == "pad_token_id") {
      SACCADE_TRY(expect_plain(changes, where, "pad_token_id", 0));
    } else if (!kHarmless.contains(key)) {
      return fail(ErrorCode::kUnsupported, "text_config \"hf_model_config_kwargs\": \"{}\" is not known here",
                  key);
    }
  }
  SACCADE_TRY(check_blocks("text", shape.blocks));
  SACCADE_TRY(in_range("vocabulary size", shape.vocabulary, 1, 10'000'000));
  SACCADE_TRY(in_range("number of token types", shape.token_types, 1, 1000));
  return shape;
}

}  // namespace

Result<JinaClipConfig> jina_clip_config(const Json& config, const nn::TensorMap& tensors) {
  if (!config.is_object()) return fail(ErrorCode::kBadData, "config is {}, not an object", json_kind(config));
  SACCADE_ASSIGN(const Json vision, required_section(config, "vision_config"));
  SACCADE_ASSIGN(const Json text, required_section(config, "text_config"));
  JinaClipConfig result;
  SACCADE_ASSIGN(result.vision, read_vision(vision));
  SACCADE_ASSIGN(result.text, read_text(text, tensors));
  result.width = result.vision.blocks.width;
  SACCADE_ASSIGN(const int64_t vision_embed,
                 json_field_or<int64_t>(vision, "embed_dim", 768).in("vision_config"));
  SACCADE_ASSIGN(const int64_t text_embed, json_field_or<int64_t>(text, "embed_dim", 768).in("text_config"));
  if (vision_embed != result.width || text_embed != result.width ||
      result.text.blocks.width != result.width) {
    return fail(ErrorCode::kUnsupported,
                "towers {} and {} wide for embeddings of {} and {}: only towers as wide as their embeddings "
                "are known",
                result.width, result.text.blocks.width, vision_embed, text_embed);
  }
  SACCADE_ASSIGN(const bool projected, json_field_or<bool>(config, "add_projections", false));
  if (projected) {
    SACCADE_ASSIGN(result.projection, json_field_or<int64_t>(config, "projection_dim", 768));
    SACCADE_TRY(in_range("projection_dim", result.projection, 1, kMaxSide));
  }
  return result;
}

}  // namespace saccade
