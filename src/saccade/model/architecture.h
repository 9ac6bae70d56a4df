// What the registry needs of an architecture, and what conformance runs: between the families' files and the
// rest of the module. Outside the module only encoder.h is seen.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/model/checkpoint.h"
#include "saccade/model/encoder.h"
#include "saccade/model/outline.h"
#include "saccade/nn/parameters.h"

namespace saccade {

// An encoder that can also run a reference's named inputs to named answers.
class Architecture : public Encoder {
 public:
  // From the inputs of an io.safetensors (`pixel_values`, `input_ids`, `attention_mask`, ...) to every answer
  // this family knows by name (`image_embeds`, `text_embeds`, `logits_per_image`, `*_hidden_1`, ...). Inputs
  // that are not there leave their answers out.
  virtual Result<nn::TensorMap> answers(const nn::TensorMap& inputs) = 0;
};

using ArchitectureFactory = Result<std::unique_ptr<Architecture>> (*)(const Checkpoint& checkpoint,
                                                                      const EncoderOptions& options);

// Fills in what the config and the tensors' shapes say (dim and all below it), without touching a weight.
using OutlineFunction = Status (*)(const Checkpoint& checkpoint, const nn::TensorMap& tensors,
                                   CheckpointOutline& outline);

struct Family {
  std::string_view model_type;
  ArchitectureFactory factory;
  OutlineFunction outline;
};

// The checkpoint's own "model_type"; OpenCLIP's and OpenAI's layouts are CLIP's.
Result<std::string> family_name(const Checkpoint& checkpoint);
// The family of that name; kUnsupported lists the known ones.
Result<Family> find_family(const Checkpoint& checkpoint);

Result<std::unique_ptr<Architecture>> load_architecture(const std::filesystem::path& checkpoint,
                                                        const EncoderOptions& options);

// The families: one factory each, in the family's own file.
Result<std::unique_ptr<Architecture>> load_clip(const Checkpoint& checkpoint, const EncoderOptions& options);
Status outline_clip(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& outline);
Result<std::unique_ptr<Architecture>> load_jina_clip(const Checkpoint& checkpoint,
                                                     const EncoderOptions& options);
Status outline_jina_clip(const Checkpoint& checkpoint, const nn::TensorMap& tensors,
                         CheckpointOutline& outline);
Result<std::unique_ptr<Architecture>> load_siglip(const Checkpoint& checkpoint,
                                                  const EncoderOptions& options);
Status outline_siglip(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& outline);
Result<std::unique_ptr<Architecture>> load_blip2(const Checkpoint& checkpoint, const EncoderOptions& options);
Status outline_blip2(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& outline);
Result<std::unique_ptr<Architecture>> load_bert(const Checkpoint& checkpoint, const EncoderOptions& options);
Status outline_bert(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& outline);
Result<std::unique_ptr<Architecture>> load_align(const Checkpoint& checkpoint, const EncoderOptions& options);
Status outline_align(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& outline);
Result<std::unique_ptr<Architecture>> load_colpali(const Checkpoint& checkpoint,
                                                   const EncoderOptions& options);
Status outline_colpali(const Checkpoint& checkpoint, const nn::TensorMap& tensors,
                       CheckpointOutline& outline);

}  // namespace saccade
