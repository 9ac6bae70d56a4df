#include <array>

#include "saccade/core/json.h"
#include "saccade/model/architecture.h"
#include "saccade/model/precision.h"

namespace saccade {
namespace {

constexpr auto kFamilies = std::to_array<Family>({
    {"clip", load_clip, outline_clip},
    {"jina_clip", load_jina_clip, outline_jina_clip},
    {"siglip", load_siglip, outline_siglip},
    {"blip-2", load_blip2, outline_blip2},
    {"bert", load_bert, outline_bert},
    {"align", load_align, outline_align},
    {"colpali", load_colpali, outline_colpali},
    {"paligemma", load_colpali, outline_colpali},  // as colpali-engine publishes ColPali
});

// OpenCLIP's layout has no "model_type": a timm tower
// pooled by attention ("map") is SigLIP's, all else CLIP's.
std::string open_clip_type(const Json& config) {
  const Json* at = &config;
  for (const char* key : {"model_cfg", "vision_cfg", "timm_pool"}) {
    if (!at->is_object() || !at->contains(key)) return "clip";
    at = &(*at)[key];
  }
  return *at == "map" ? "siglip" : "clip";
}

}  // namespace

std::string_view precision_name(Precision precision) {
  return word_of(precision);
}

Result<std::string> family_name(const Checkpoint& checkpoint) {
  if (checkpoint.layout != Layout::kHuggingFace) return open_clip_type(checkpoint.config);
  return json_field<std::string>(checkpoint.config, "model_type")
      .in((checkpoint.folder / "config.json").string());
}

Result<Family> find_family(const Checkpoint& checkpoint) {
  SACCADE_ASSIGN(const std::string model_type, family_name(checkpoint));
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.model_type);
  }
  return fail(ErrorCode::kUnsupported, "{}: model_type \"{}\" is not known; known: {}",
              (checkpoint.folder / "config.json").string(), model_type, known);
}

Result<std::unique_ptr<Architecture>> load_architecture(const std::filesystem::path& folder,
                                                        const EncoderOptions& options) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  SACCADE_ASSIGN(const Family family, find_family(checkpoint));
  try {
    return family.factory(checkpoint, options);
  } catch (const std::exception& error) {  // memory that ran out, oneDNN's refusals
    const std::string_view text = error.what();
    return fail(ErrorCode::kInternal, "checkpoint {}: {}", folder.string(), text.substr(0, text.find('\n')));
  }
}

Result<std::unique_ptr<Encoder>> load_encoder(const std::filesystem::path& checkpoint,
                                              const EncoderOptions& options) {
  SACCADE_ASSIGN(std::unique_ptr<Architecture> architecture, load_architecture(checkpoint, options));
  return std::unique_ptr<Encoder>(std::move(architecture));
}

}  // namespace saccade
