// Parser of BLIP-2 configs.
#include <algorithm>
#include <array>

#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/families/blip2.h"

namespace saccade {
namespace {

using nn::TransformerShape;

constexpr int64_t kLavisTokens = 35;  // LAVIS, blip2_retrieval: max_length where recall is measured

Status check_shape(const TransformerShape& shape) {
  constexpr int64_t kMaxSide = 65'536;
  SACCADE_TRY(in_range("\"hidden_size\"", shape.width, 1, kMaxSide));
  SACCADE_TRY(in_range("\"num_hidden_layers\"", shape.layers, 1, kMaxSide));
  SACCADE_TRY(in_range("\"num_attention_heads\"", shape.heads, 1, kMaxSide));
  SACCADE_TRY(in_range("\"intermediate_size\"", shape.mlp_width, 1, kMaxSide));
  if (shape.width % shape.heads != 0) {
    return fail(ErrorCode::kBadData, "\"hidden_size\" {} is not a multiple of {} heads", shape.width,
                shape.heads);
  }
  if (!(shape.eps > 0 && shape.eps < 1)) {
    return fail(ErrorCode::kBadData, "\"layer_norm_eps\" is {}, expected above 0 and below 1", shape.eps);
  }
  return {};
}

// Returns `shape` overridden by the section's fields.
Result<TransformerShape> shape_of(const Json& section, TransformerShape shape) {
  SACCADE_ASSIGN(shape.width, json_field_or<int64_t>(section, "hidden_size", shape.width));
  SACCADE_ASSIGN(shape.layers, json_field_or<int64_t>(section, "num_hidden_layers", shape.layers));
  SACCADE_ASSIGN(shape.heads, json_field_or<int64_t>(section, "num_attention_heads", shape.heads));
  SACCADE_ASSIGN(shape.mlp_width, json_field_or<int64_t>(section, "intermediate_size", shape.mlp_width));
  SACCADE_ASSIGN(shape.eps, json_field_or<double>(section, "layer_norm_eps", shape.eps));
  SACCADE_ASSIGN(const std::string activation,
                 json_field_or<std::string>(section, "hidden_act", std::string("gelu")));
  SACCADE_ASSIGN(shape.activation, nn::activation_named(activation));
  SACCADE_TRY(check_shape(shape));
  return shape;
}

// Returns a side in pixels: a number, or a list of two equal ones.
Result<int64_t> side_of(const Json& section, const char* key, int64_t otherwise) {
  const auto found = section.find(key);
  if (found == section.end() || !found->is_array()) return json_field_or<int64_t>(section, key, otherwise);
  if (found->size() != 2 || (*found)[0] != (*found)[1]) {
    return fail(ErrorCode::kUnsupported, "\"{}\" is {}, expected one side or two equal ones", key,
                dump_json(*found));
  }
  return json_field<int64_t>(Json{{key, (*found)[0]}}, key);
}

Result<Blip2VisionConfig> vision_of(const Json& section) {
  Blip2VisionConfig vision;
  SACCADE_ASSIGN(vision.shape, shape_of(section, {.width = 1408,
                                                  .layers = 39,
                                                  .heads = 16,
                                                  .mlp_width = 6144,
                                                  .activation = nn::Activation::kGelu,
                                                  .eps = 1e-6}));
  SACCADE_ASSIGN(vision.shape.attention_bias, json_field_or<bool>(section, "qkv_bias", true));
  SACCADE_ASSIGN(vision.image_size, side_of(section, "image_size", 224));
  SACCADE_ASSIGN(vision.patch_size, side_of(section, "patch_size", 14));
  SACCADE_TRY(in_range("\"image_size\"", vision.image_size, 1, 4096));
  SACCADE_TRY(in_range("\"patch_size\"", vision.patch_size, 1, vision.image_size));
  if (vision.image_size % vision.patch_size != 0) {
    return fail(ErrorCode::kUnsupported, "\"image_size\" {} is not a multiple of \"patch_size\" {}",
                vision.image_size, vision.patch_size);
  }
  return vision;
}

// Returns true if the Q-Former reads text. The field has had two names; older configs have neither.
Result<bool> reads_text(const Json& section, const nn::TensorMap& tensors) {
  const bool has_mlp = tensors.contains("qformer.encoder.layer.0.intermediate.dense.weight");
  SACCADE_ASSIGN(const bool older, json_field_or<bool>(section, "qformer_text_input", has_mlp));
  SACCADE_ASSIGN(const bool newer, json_field_or<bool>(section, "use_qformer_text_input", older));
  if (section.contains("qformer_text_input") && newer != older) {
    return fail(ErrorCode::kBadData, "\"qformer_text_input\" is {}, \"use_qformer_text_input\" {}", older,
                newer);
  }
  return newer;
}

// Kind of model, by the class that wrote the checkpoint, or by a tensor that only this kind has.
struct KnownKind {
  std::string_view architecture;
  const char* tensor;
  Blip2Kind kind;
};
constexpr std::array<KnownKind, 2> kKinds = {
    {{"Blip2ForImageTextRetrieval", "itm_head.weight", Blip2Kind::kRetrieval},
     {"Blip2ForConditionalGeneration", "language_projection.weight", Blip2Kind::kT5}}};

Result<Blip2Kind> kind_of(const Json& config, const nn::TensorMap& tensors) {
  const auto named = config.find("architectures");
  if (named != config.end() && named->is_array()) {
    for (const KnownKind& known : kKinds) {
      if (std::find(named->begin(), named->end(), Json(known.architecture)) != named->end())
        return known.kind;
    }
  }
  std::string looked_for;
  for (const KnownKind& known : kKinds) {
    if (tensors.contains(known.tensor)) return known.kind;
    looked_for += fmt::format("{}{} ({})", looked_for.empty() ? "" : ", ", known.architecture, known.tensor);
  }
  return fail(ErrorCode::kUnsupported, "\"architectures\" is {} and no tensor tells the kind; known: {}",
              named == config.end() ? "missing" : dump_json(*named), looked_for);
}

Result<Blip2Captions> captions_of(const Json& config, Blip2Kind kind) {
  const auto own = config.find("saccade");
  if (own == config.end()) return Blip2Captions::kTransformers;
  SACCADE_ASSIGN(const std::string name,
                 json_field_or<std::string>(*own, "captions", std::string("transformers")).in("\"saccade\""));
  if (name == "transformers") return Blip2Captions::kTransformers;
  if (name != "lavis") {
    return fail(ErrorCode::kUnsupported, "\"captions\" is \"{}\"; known: transformers, lavis", name);
  }
  if (kind != Blip2Kind::kRetrieval) {
    return fail(ErrorCode::kUnsupported,
                "\"captions\": \"lavis\" is LAVIS's recipe for retrieval, this "
                "checkpoint is of another kind");
  }
  return Blip2Captions::kLavis;
}

// Reads the section of the frozen language model.
Result<T5Config> text_of(const Json& section) {
  SACCADE_ASSIGN(const std::string type,
                 json_field_or<std::string>(section, "model_type", std::string("opt")));
  if (type != "t5") {
    return fail(ErrorCode::kUnsupported, "language model \"{}\" has no encoder to read texts with; known: t5",
                type);
  }
  return t5_config_from_hugging_face(section);
}

}  // namespace

Result<QFormerConfig> qformer_config_from_hugging_face(const Json& section, const nn::TensorMap& tensors,
                                                       int64_t memory_width) {
  QFormerConfig qformer;
  SACCADE_ASSIGN(qformer.shape, shape_of(section, {.width = 768,
                                                   .layers = 12,
                                                   .heads = 12,
                                                   .mlp_width = 3072,
                                                   .activation = nn::Activation::kGelu,
                                                   .eps = 1e-12}));
  // The section's "encoder_hidden_size" is ignored, because transformers overwrites it too.
  qformer.memory_width = memory_width;
  SACCADE_ASSIGN(qformer.cross_attention_frequency,
                 json_field_or<int64_t>(section, "cross_attention_frequency", 2));
  SACCADE_ASSIGN(qformer.vocabulary, json_field_or<int64_t>(section, "vocab_size", 30522));
  SACCADE_ASSIGN(qformer.positions, json_field_or<int64_t>(section, "max_position_embeddings", 512));
  SACCADE_ASSIGN(qformer.pad_id, json_field_or<int64_t>(section, "pad_token_id", 0));
  SACCADE_ASSIGN(qformer.text_input, reads_text(section, tensors));
  SACCADE_TRY(in_range("\"cross_attention_frequency\"", qformer.cross_attention_frequency, 1, 65'536));
  SACCADE_TRY(in_range("\"vocab_size\"", qformer.vocabulary, 3, 10'000'000));
  SACCADE_TRY(in_range("\"max_position_embeddings\"", qformer.positions, 2, 65'536));
  SACCADE_TRY(in_range("\"pad_token_id\"", qformer.pad_id, 0, qformer.vocabulary - 1));
  SACCADE_ASSIGN(const std::string positions,
                 json_field_or<std::string>(section, "position_embedding_type", std::string("absolute")));
  if (positions != "absolute") {
    return fail(ErrorCode::kUnsupported, "\"position_embedding_type\" is \"{}\", known: absolute", positions);
  }
  return qformer;
}

int64_t Blip2Config::context() const {
  if (kind == Blip2Kind::kT5) return text.trained_tokens;
  return captions == Blip2Captions::kLavis ? std::min(kLavisTokens, qformer.positions) : qformer.positions;
}

Result<Blip2Config> blip2_config_from_hugging_face(const Json& config, const nn::TensorMap& tensors) {
  if (!config.is_object()) return fail(ErrorCode::kBadData, "config is {}, not an object", json_kind(config));
  Blip2Config result;
  SACCADE_ASSIGN(result.kind, kind_of(config, tensors));
  SACCADE_ASSIGN(const Json vision, section(config, "vision_config"));
  SACCADE_ASSIGN(result.vision, vision_of(vision).in("vision_config"));
  SACCADE_ASSIGN(const Json qformer, section(config, "qformer_config"));
  SACCADE_ASSIGN(
      result.qformer,
      qformer_config_from_hugging_face(qformer, tensors, result.vision.shape.width).in("qformer_config"));
  SACCADE_ASSIGN(result.queries, json_field_or<int64_t>(config, "num_query_tokens", 32));
  SACCADE_TRY(in_range("\"num_query_tokens\"", result.queries, 1, 4096));
  SACCADE_ASSIGN(result.projection, json_field_or<int64_t>(config, "image_text_hidden_size", 256));
  SACCADE_TRY(in_range("\"image_text_hidden_size\"", result.projection, 1, 65'536));
  if (config.contains("image_token_index") && !config["image_token_index"].is_null()) {
    SACCADE_ASSIGN(result.image_token, json_field<int64_t>(config, "image_token_index"));
  }
  SACCADE_ASSIGN(result.captions, captions_of(config, result.kind));
  if (result.qformer.text_input != (result.kind == Blip2Kind::kRetrieval)) {
    return fail(ErrorCode::kBadData, "qformer_config: the Q-Former {} text, which {} contradicts",
                result.qformer.text_input ? "reads" : "does not read",
                result.kind == Blip2Kind::kRetrieval ? "Blip2ForImageTextRetrieval"
                                                     : "Blip2ForConditionalGeneration");
  }
  if (result.kind == Blip2Kind::kT5) {
    SACCADE_ASSIGN(const Json text, section(config, "text_config"));
    SACCADE_ASSIGN(result.text, text_of(text).in("text_config"));
  }
  return result;
}

}  // namespace saccade
