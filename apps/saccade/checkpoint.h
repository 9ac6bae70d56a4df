// Which checkpoint a command uses, and loading it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "saccade/collection/catalog.h"
#include "saccade/core/error.h"
#include "saccade/model/encoder.h"

namespace saccade::app {

// The checkpoint that comes with Saccade: $SACCADE_STARTER, ../share/saccade/models/starter beside the
// program, or models/starter of the source tree it was built from; the first that there is. kNotFound names
// the option to use.
Result<std::filesystem::path> starter_checkpoint();

// The one a collection was made with: `given` if not empty, else where it was then, else the starter if that
// is what it was. kNotFound says how to name it.
Result<std::filesystem::path> checkpoint_of(const CollectionInfo& info, const std::filesystem::path& given);

struct EncoderChoice {
  std::string precision = "fp32";  // or "bf16"
  int threads = 0;
};

Precision precision_of(const EncoderChoice& choice);

// --precision and --threads, for every command that loads an encoder.
void add_encoder_options(CLI::App& command, EncoderChoice& choice);

struct LoadedEncoder {
  std::unique_ptr<Encoder> encoder;
  CheckpointId id;
};

Result<LoadedEncoder> load_checkpoint(const std::filesystem::path& folder, const EncoderChoice& choice);

}  // namespace saccade::app
