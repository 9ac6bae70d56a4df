#include "saccade/model/families/colpali.h"

#include <array>
#include <map>
#include <utility>

#include "saccade/model/checkpoints/config_fields.h"

namespace saccade {

using nn::Linear;
using nn::Tensor;

namespace {

constexpr std::array kQueries = {std::pair{ColPaliQueries::kHuggingFace, "hugging_face"},
                                 std::pair{ColPaliQueries::kColPaliEngine, "colpali_engine"}};

// Reads PaliGemma's own config: "vlm_config" of ColPali's.
Status read_paligemma(const Json& config, ColPaliConfig& result) {
  SACCADE_ASSIGN(const Json vision, required_section(config, "vision_config"));
  SACCADE_ASSIGN(const Json text, required_section(config, "text_config"));
  SACCADE_ASSIGN(result.vision, siglip_vision_config(vision).in("vision_config"));
  SACCADE_ASSIGN(result.text, gemma_config_from_hugging_face(text).in("text_config"));
  for (const char* key : {"image_token_index", "image_token_id"}) {
    SACCADE_ASSIGN(result.image_token, json_field_or<int32_t>(config, key, result.image_token));
  }
  if (result.image_token < 0) {
    return fail(ErrorCode::kBadData, "\"image_token_index\" is {}, expected 0 or more", result.image_token);
  }
  // The same value is stored in two places.
  SACCADE_ASSIGN(const auto width,
                 json_field_or<int64_t>(vision, "projection_dim", result.text.width).in("vision_config"));
  if (width != result.text.width) {
    return fail(ErrorCode::kMismatch,
                "vision_config: \"projection_dim\" is {}, \"hidden_size\" of text_config {}", width,
                result.text.width);
  }
  for (const auto& [name, part] : {std::pair{"text_config", &text}, std::pair{"vision_config", &vision}}) {
    SACCADE_ASSIGN(const auto tokens,
                   json_field_or<int64_t>(*part, "num_image_tokens", result.patches()).in(name));
    if (tokens != result.patches()) {
      return fail(ErrorCode::kMismatch,
                  "{}: \"num_image_tokens\" is {}, images of {} x {} have {} patches of {} x {}", name,
                  tokens, result.vision.image_size, result.vision.image_size, result.patches(),
                  result.vision.patch_size, result.vision.patch_size);
    }
  }
  return {};
}

Status read_own_fields(const Json& config, ColPaliConfig& result) {
  const Json& own = member(config, "saccade");
  if (own.is_null()) return {};
  if (!own.is_object()) {
    return fail(ErrorCode::kBadData, "\"saccade\" is {}, not an object", json_kind(own));
  }
  for (const auto& [key, value] : own.items()) {
    if (key != "queries") {
      return fail(ErrorCode::kUnsupported, "\"saccade\" has \"{}\", known is queries", key);
    }
    SACCADE_ASSIGN(const auto name, json_field<std::string>(own, "queries").in("saccade"));
    const auto* found =
        std::ranges::find_if(kQueries, [&](const auto& entry) { return entry.second == name; });
    if (found == kQueries.end()) {
      return fail(ErrorCode::kUnsupported,
                  "saccade: \"queries\" is \"{}\", known are hugging_face and colpali_engine",
                  name.substr(0, 80));
    }
    result.queries = found->first;
  }
  return {};
}

constexpr std::string_view kProjection = "embedding_proj_layer.";

// Removes the prefix that a program puts before PaliGemma's parts; returns an empty name for the
// language-model head.
std::string part_name(std::string_view name) {
  for (const std::string_view before : {"vlm.", "model.", "model."}) {
    if (name.starts_with(before)) name.remove_prefix(before.size());
  }
  struct Rename {
    std::string_view from, to;
  };
  constexpr Rename kRenames[] = {{"language_model.lm_head.", {}},
                                 {"lm_head.", {}},
                                 {"language_model.model.", "language_model."},
                                 {"vision_tower.vision_model.", "vision_tower."},
                                 {"custom_text_proj.", kProjection}};
  for (const Rename& rename : kRenames) {
    if (!name.starts_with(rename.from)) continue;
    if (rename.to.empty()) return {};
    return std::string(rename.to) + std::string(name.substr(rename.from.size()));
  }
  return std::string(name);
}

}  // namespace

Result<ColPaliConfig> colpali_config(const Json& config, const Json& processor,
                                     const nn::TensorMap& tensors) {
  ColPaliConfig result;
  SACCADE_ASSIGN(const auto type, json_field<std::string>(config, "model_type"));
  if (type == "colpali") {
    SACCADE_ASSIGN(const Json model, required_section(config, "vlm_config"));
    SACCADE_TRY(read_paligemma(model, result).in("vlm_config"));
    SACCADE_ASSIGN(result.projection, json_field_or<int64_t>(config, "embedding_dim", result.projection));
    if (result.projection < 1 || result.projection > 65'536) {
      return fail(ErrorCode::kBadData, "\"embedding_dim\" is {}, expected 1 to 65536", result.projection);
    }
  } else {
    SACCADE_TRY(read_paligemma(config, result));
    const auto found = tensors.find(std::string(kProjection) + "weight");
    if (found == tensors.end() || found->second.dim() != 2) {
      return fail(ErrorCode::kUnsupported,
                  "model_type \"{}\" without ColPali's projection (custom_text_proj.weight [dim, {}]): it "
                  "has no rows to search by",
                  type, result.text.width);
    }
    result.projection = found->second.size(0);
    result.queries = ColPaliQueries::kColPaliEngine;
  }
  SACCADE_ASSIGN(
      result.query_prefix,
      json_field_or<std::string>(processor, "query_prefix", result.query_prefix).in("processor_config.json"));
  SACCADE_ASSIGN(result.image_prompt,
                 json_field_or<std::string>(processor, "visual_prompt_prefix", result.image_prompt)
                     .in("processor_config.json"));
  SACCADE_TRY(read_own_fields(config, result));
  return result;
}

Result<nn::TensorMap> rename_colpali(const nn::TensorMap& tensors) {
  nn::TensorMap renamed;
  std::map<std::string, std::string> origins;
  Tensor head;
  for (const auto& [name, tensor] : tensors) {
    if (name.find(".lora_") != std::string::npos || name.find(".base_layer.") != std::string::npos) {
      return fail(ErrorCode::kUnsupported,
                  "tensor {} belongs to an adapter that is not merged into its weights; ColPali's merged "
                  "checkpoints are published under names that end in -merged",
                  name);
    }
    const std::string part = part_name(name);
    if (part.empty()) {
      if (name.ends_with(".weight")) head = tensor;
      continue;
    }
    renamed[part] = tensor;
    const auto [origin, first] = origins.emplace(part, name);
    if (!first) {
      return fail(ErrorCode::kBadData, "tensors {} and {} are the same part of the model", origin->second,
                  name);
    }
  }
  // The token embedding and the language-model head are one tensor, which some files store only under the
  // head's name.
  if (head.defined()) renamed.emplace("language_model.embed_tokens.weight", head);
  return renamed;
}

Result<ColPaliModel> ColPaliModel::make(const ColPaliConfig& config, nn::ParameterSource& source) {
  constexpr double kInitStd = 0.02;
  ColPaliModel model;
  model.config_ = config;
  SACCADE_ASSIGN(model.vision_, SiglipVision::make(config.vision, source, "vision_tower"));
  SACCADE_ASSIGN(model.projector_, Linear::make(source, "multi_modal_projector.linear",
                                                config.vision.shape.width, config.text.width, kInitStd));
  SACCADE_ASSIGN(model.language_, Gemma::make(config.text, source, "language_model."));
  SACCADE_ASSIGN(model.projection_, Linear::make(source, "embedding_proj_layer", config.text.width,
                                                 config.projection, kInitStd));
  return model;
}

Tensor ColPaliModel::rows(const Tensor& states) const {
  return nn::normalize_rows(projection_.forward(states));
}

Tensor ColPaliModel::image_rows(const Tensor& pixels, const Tensor& prompts, DType dtype) const {
  // The patches are used unscaled: the reference divides them by sqrt(width) and then multiplies everything
  // by it.
  const Tensor seen = projector_.forward(vision_.forward(pixels, dtype).to(dtype)).to(DType::kF32);
  const Tensor prompt = language_.embed(prompts).expand({pixels.size(0), -1, -1});
  return rows(language_.forward(nn::cat({seen, prompt}, 1), {}, dtype));
}

Tensor ColPaliModel::text_rows(const Tensor& ids, const Tensor& mask, DType dtype) const {
  return rows(language_.forward(language_.embed(ids), mask, dtype));
}

void ColPaliModel::pack(DType dtype) {
  vision_.pack(dtype, wide_layers_);
  projector_.pack(dtype);
  language_.pack(dtype);
  projection_.pack(DType::kF32);  // a thousandth of the work, and the last step stays exact
}

}  // namespace saccade
