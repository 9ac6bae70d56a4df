#include "saccade/core/json.h"
#include "saccade/model/architecture.h"
#include "saccade/model/checked_encoder.h"
#include "saccade/model/device/device_name.h"
#include "saccade/model/device/off_device.h"
#include "saccade/nn/exceptions.h"

namespace saccade {

// Model families, one line each: NAME_family is in the family's own file.
#define SACCADE_FAMILIES(line) \
  line(clip) line(jina_clip) line(siglip) line(blip2) line(bert) line(align) line(colpali) line(head)

#define SACCADE_DECLARE(name) extern const Family name##_family;
SACCADE_FAMILIES(SACCADE_DECLARE)

namespace {

#define SACCADE_LIST(name) &name##_family,
constexpr const Family* kFamilies[] = {SACCADE_FAMILIES(SACCADE_LIST)};

// Returns the family of OpenCLIP's layout, which has no "model_type": a timm tower with attention pooling
// ("map") is SigLIP's, all others are CLIP's.
std::string open_clip_type(const Json& config) {
  const Json* at = &config;
  for (const char* key : {"model_cfg", "vision_cfg", "timm_pool"}) {
    if (!at->is_object() || !at->contains(key)) return "clip";
    at = &(*at)[key];
  }
  return *at == "map" ? "siglip" : "clip";
}

// Returns an error for a device that the family, the checkpoint, the precision or this program does not know.
Status check_device(const Family& family, const Checkpoint& checkpoint, const BackendOptions& options) {
  SACCADE_TRY(check_device_name(options.device));
  if (is_processor(options.device)) return {};
  if (family.check_device == nullptr) {
    return fail(ErrorCode::kUnsupported,
                "device {}: family {} is encoded on the processor alone; use device cpu, or a checkpoint of "
                "family clip (OpenAI's CLIP, OpenCLIP, MetaCLIP, DFN, Long-CLIP)",
                options.device, family.name());
  }
  if (options.precision == Precision::kInt8) {
    return fail(ErrorCode::kUnsupported,
                "device {}: precision int8 is computed on the processor alone; use fp32 or bf16",
                options.device);
  }
  return family.check_device(checkpoint, options);
}

}  // namespace

Result<std::string> model_type_of(const Checkpoint& checkpoint) {
  if (checkpoint.layout != Layout::kHuggingFace) return open_clip_type(checkpoint.config);
  return json_field<std::string>(checkpoint.config, "model_type")
      .in((checkpoint.folder / "config.json").string());
}

Result<const Family*> find_family(const Checkpoint& checkpoint) {
  SACCADE_ASSIGN(const std::string model_type, model_type_of(checkpoint));
  std::string known;
  for (const Family* family : kFamilies) {
    for (const std::string_view type : family->model_types) {
      if (type.empty()) continue;
      if (type == model_type) return family;
      known += fmt::format("{}{}", known.empty() ? "" : ", ", type);
    }
  }
  return fail(ErrorCode::kUnsupported, "{}: model_type \"{}\" is not known; known: {}",
              (checkpoint.folder / "config.json").string(), model_type, known);
}

Status check_runs_on_device(const std::filesystem::path& folder, const BackendOptions& options) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  SACCADE_ASSIGN(const Family* family, find_family(checkpoint));
  return check_device(*family, checkpoint, options);
}

Result<std::string> off_device_reason(const std::filesystem::path& checkpoint,
                                      const BackendOptions& options) {
  if (is_processor(options.device)) return std::string();
  const Status runs = check_runs_on_device(checkpoint, options);
  if (runs) return std::string();
  if (runs.error().code != ErrorCode::kUnsupported) return fail(runs.error());
  return runs.error().message;
}

Result<std::unique_ptr<Architecture>> load_architecture(const std::filesystem::path& folder,
                                                        const BackendOptions& options) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  SACCADE_ASSIGN(const Family* family, find_family(checkpoint));
  SACCADE_TRY(check_device(*family, checkpoint, options).in(fmt::format("checkpoint {}", folder.string())));
  return nn::without_exceptions(fmt::format("checkpoint {}", folder.string()),
                                [&] { return family->load(checkpoint, options); });
}

Result<std::unique_ptr<EncoderBackend>> load_encoder(const std::filesystem::path& checkpoint,
                                                     const BackendOptions& options) {
  SACCADE_ASSIGN(std::unique_ptr<Architecture> architecture, load_architecture(checkpoint, options));
  return with_checked_answers(std::move(architecture));
}

}  // namespace saccade
