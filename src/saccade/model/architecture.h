// Internal interface of an encoder architecture, between the families' files, the registry and conformance.
// Code outside the module uses only encoder.h.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/options/wide_layers.h"
#include "saccade/nn/parameters.h"

namespace saccade {

class StateMapper;         // state_mapper.h
struct CheckpointOutline;  // checkpoints/outline.h

// Encoder that can also run a reference's named inputs and return named outputs.
class Architecture : public EncoderBackend {
 public:
  // Computes from the inputs of an io.safetensors (`pixel_values`, `input_ids`, `attention_mask`, ...) every
  // output that this family knows by name (`image_embeds`, `text_embeds`, `logits_per_image`, `*_hidden_1`,
  // ...). Outputs whose inputs are missing are omitted.
  virtual Result<nn::TensorMap> answers(const nn::TensorMap& inputs) = 0;
  // Returns the mapper for relevance maps of heads on this encoder, or nullptr if its states have none.
  virtual StateMapper* state_mapper() { return nullptr; }
};

// Family of models: one value, in the family's own file, and one line in registry.cc.
struct Family {
  // Values of "model_type" in config.json; the first is the family's name.
  std::array<std::string_view, 2> model_types;
  Result<std::unique_ptr<Architecture>> (*load)(const Checkpoint& checkpoint, const BackendOptions& options);
  // Fills in the outline (dim and all below it) from the config and the tensors' shapes, without reading
  // weights.
  Status (*outline)(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& outline);
  // Returns kUnsupported if load() does not follow BackendOptions::device for this checkpoint. `nullptr`: the family runs
  // on the processor alone. Reads no weights.
  Status (*check_device)(const Checkpoint& checkpoint, const BackendOptions& options) = nullptr;

  [[nodiscard]] std::string_view name() const { return model_types.front(); }
};

// Returns the checkpoint's own "model_type", or its equivalent for OpenCLIP's and OpenAI's layouts, which
// have none.
Result<std::string> model_type_of(const Checkpoint& checkpoint);
// Returns the family of that type; kUnsupported lists the known ones.
Result<const Family*> find_family(const Checkpoint& checkpoint);

Result<std::unique_ptr<Architecture>> load_architecture(const std::filesystem::path& checkpoint,
                                                        const BackendOptions& options);

}  // namespace saccade
