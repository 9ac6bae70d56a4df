// Which checkpoint a command uses, and loading it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "saccade/collection/catalog.h"
#include "saccade/core/error.h"
#include "saccade/model/effective_length.h"
#include "saccade/model/encoder.h"

#include "console.h"

namespace saccade::app {

// The checkpoint that comes with Saccade: $SACCADE_STARTER, ../share/saccade/models/starter beside the
// program, or models/starter of the source tree it was built from; the first that there is. kNotFound names
// the option to use.
Result<std::filesystem::path> starter_checkpoint();

// The one a collection was made with: `given` if not empty, else where it was then, else the starter if that
// is what it was. kNotFound says how to name it.
Result<std::filesystem::path> checkpoint_of(const CollectionInfo& info, const std::filesystem::path& given);

// The folder of a checkpoint as a command names it: a folder, or OWNER/NAME[@REVISION] of a model in the
// hub's cache; a folder of that name goes first. kNotFound says how to get what is not there. What is neither
// a folder nor a hub's name comes back as it is, for whoever opens it to complain about.
Result<std::filesystem::path> find_checkpoint(const std::string& named);

// What to call the checkpoint in a folder: OWNER/NAME if it is in a hub's cache, else the folder's own name.
std::string checkpoint_name(const std::filesystem::path& folder);

// What -m takes, for the help.
inline constexpr const char* kCheckpointHelp =
    "checkpoint: a folder, or OWNER/NAME[@REVISION] of the hub's cache";

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

// What the checkpoint has been shown to read of a text, the longest of it; a file that says so and cannot be
// read is worth a warning, not a failure.
std::optional<MeasuredLength> measured_length_of(const LoadedEncoder& loaded, Messages& messages);

// `named` as for find_checkpoint.
Result<LoadedEncoder> load_checkpoint(const std::filesystem::path& named, const EncoderChoice& choice);

// Says so where the checkpoint's pictures and texts were never brought into one space (EncoderInfo), for
// every command that ranks the ones by the others.
void warn_of_separate_spaces(const LoadedEncoder& loaded, Messages& messages);

// Says so where another tool left a snapshot in the hub's cache without the file about pictures, so that they
// are treated as the family's usually are: for every command that encodes many.
void warn_of_guessed_preprocessing(const LoadedEncoder& loaded, Messages& messages);

}  // namespace saccade::app
