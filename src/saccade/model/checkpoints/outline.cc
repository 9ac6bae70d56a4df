#include "saccade/model/checkpoints/outline.h"

#include "saccade/core/json.h"
#include "saccade/model/architecture.h"
#include "saccade/nn/exceptions.h"

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
  SACCADE_TRY(nn::without_exceptions(fmt::format("checkpoint {}", folder.string()), [&]() -> Status {
    SACCADE_ASSIGN(const Weights weights, map_weights(checkpoint));
    for (const auto& [name, tensor] : weights.tensors) outline.parameters += tensor.numel();
    SACCADE_ASSIGN(outline.family, model_type_of(checkpoint));
    const auto family = find_family(checkpoint);
    if (!family) return family.error().code == ErrorCode::kUnsupported ? Status() : fail(family.error());
    outline.family = (*family)->name();
    outline.known = true;
    return (*family)
        ->outline(checkpoint, weights.tensors, outline)
        .in(fmt::format("checkpoint {}", folder.string()));
  }));
  return outline;
}

}  // namespace saccade
