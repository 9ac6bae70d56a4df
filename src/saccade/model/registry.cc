#include <array>

#include "saccade/core/json.h"
#include "saccade/model/architecture.h"

namespace saccade {
namespace {

struct Family {
  std::string_view model_type;
  ArchitectureFactory factory;
};

constexpr std::array<Family, 1> kFamilies = {{{"clip", load_clip}}};

}  // namespace

Result<ArchitectureFactory> find_architecture(const Checkpoint& checkpoint) {
  std::string model_type = "clip";
  if (checkpoint.layout == Layout::kHuggingFace) {
    SACCADE_ASSIGN(model_type, json_field<std::string>(checkpoint.config, "model_type")
                                   .in((checkpoint.folder / "config.json").string()));
  }
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return family.factory;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.model_type);
  }
  return fail(ErrorCode::kUnsupported, "{}: model_type \"{}\" is not known; known: {}",
              (checkpoint.folder / "config.json").string(), model_type, known);
}

Result<std::unique_ptr<Architecture>> load_architecture(const std::filesystem::path& folder,
                                                        const EncoderOptions& options) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  SACCADE_ASSIGN(const ArchitectureFactory factory, find_architecture(checkpoint));
  try {
    return factory(checkpoint, options);
  } catch (const std::exception& error) {  // libtorch and oneDNN: out of memory, above all
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
