// What the registry needs of an architecture, and what conformance runs: between the families' files and the
// rest of the module. Uses torch types; outside the module only encoder.h is seen.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/model/checkpoint.h"
#include "saccade/model/encoder.h"
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

// The factory for the checkpoint's own "model_type" (OpenCLIP's and OpenAI's layouts are CLIP's);
// kUnsupported lists the known ones.
Result<ArchitectureFactory> find_architecture(const Checkpoint& checkpoint);

Result<std::unique_ptr<Architecture>> load_architecture(const std::filesystem::path& checkpoint,
                                                        const EncoderOptions& options);

// The families: one factory each, in the family's own file.
Result<std::unique_ptr<Architecture>> load_clip(const Checkpoint& checkpoint, const EncoderOptions& options);

}  // namespace saccade
