#include "lab/train/composer_file.h"

#include "lab/train/math/initial_weights.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"

namespace saccade::lab {

Status write_composer(const std::filesystem::path& folder, const ComposerConfig& config,
                      const TorchMap& parameters) {
  TorchMap all = parameters;
  all.try_emplace("logit_scale", torch::zeros({}, at::kFloat));
  SACCADE_TRY(write_torch_map(folder / "model.safetensors", all, at::kFloat));
  SACCADE_TRY(
      write_file_atomic(folder / "frozen.json", dump_json({{"path", config.encoder.path}}, 2) + "\n"));
  // The config is written last: if it exists, the checkpoint is complete.
  return write_file_atomic(folder / "config.json", dump_json(composer_config_json(config), 2) + "\n");
}

Status take_up_weights(const std::filesystem::path& folder, const TorchMap& parameters) {
  const std::filesystem::path path = folder / "model.safetensors";
  SACCADE_ASSIGN(const SafeTensors file, SafeTensors::open(path));
  SACCADE_ASSIGN(const TorchMap tensors, torch_tensors(file).in(path.string()));
  return begin_with(tensors, parameters, path.string());
}

}  // namespace saccade::lab
