#include "saccade/model/outline.h"

#include "saccade/core/json.h"
#include "saccade/model/architecture.h"

namespace saccade {

Result<CheckpointOutline> outline_checkpoint(const std::filesystem::path& folder) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  CheckpointOutline outline;
  outline.layout = std::string(layout_name(checkpoint.layout));
  outline.files = checkpoint.files;
  for (const std::filesystem::path& file : checkpoint.files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (!error) outline.bytes += static_cast<int64_t>(size);
  }
  try {
    SACCADE_ASSIGN(const Weights weights, map_weights(checkpoint));
    for (const auto& [name, tensor] : weights.tensors) outline.parameters += tensor.numel();
    SACCADE_ASSIGN(outline.family, family_name(checkpoint));
    const auto family = find_family(checkpoint);
    if (!family) {
      if (family.error().code != ErrorCode::kUnsupported) return fail(family.error());
      return outline;
    }
    outline.known = true;
    SACCADE_TRY(family->outline(checkpoint, weights.tensors, outline)
                    .in(fmt::format("checkpoint {}", folder.string())));
  } catch (const std::exception& error) {  // memory that ran out
    const std::string_view text = error.what();
    return fail(ErrorCode::kInternal, "checkpoint {}: {}", folder.string(), text.substr(0, text.find('\n')));
  }
  return outline;
}

}  // namespace saccade
