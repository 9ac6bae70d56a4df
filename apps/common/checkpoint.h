// Which checkpoint a command uses and how it is loaded, as options; what is to be said of it, as messages.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "saccade/collection/collection.h"
#include "saccade/core/error.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/encoder.h"

#include "console.h"

namespace saccade::app {

// What -m takes, for the help.
inline constexpr const char* kCheckpointHelp =
    "checkpoint: a folder, OWNER/NAME[@REVISION] of the hub's cache, starter, or a name that `model alias` gave";

struct EncoderChoice {
  std::optional<Precision> precision;  // nothing: not given
  bool fastest = false;  // --precision auto: choose_precision (model/options/precision_choice.h) says which
  int threads = 0;
};

// With what the user's cache remembers of checkpoints' files.
BackendOptions options_of(const EncoderChoice& choice);

// --threads, and --precision with it, for every command that loads an encoder.
void add_threads_option(CLI::App& command, EncoderChoice& choice);
void add_encoder_options(CLI::App& command, EncoderChoice& choice);

// Settles what --precision auto is for a checkpoint, and says so. Whatever was given otherwise stays.
Status settle_precision(const std::filesystem::path& named, EncoderChoice& choice, Messages& messages);

// `named` as for find_checkpoint; in fp32 where no precision was given or settled. The fingerprint is taken
// from what is remembered of files that have not changed since, or from every byte: where it is what a
// collection is bound to from then on.
Result<LoadedEncoder> load_checkpoint(const std::filesystem::path& named, const EncoderChoice& choice,
                                      bool every_byte = false);

// A loud line where the collection's checkpoint is the starter, which has seen drawings,
// and its pictures are photographs.
void warn_of_starter(const Collection& collection, Messages& messages);

// For every command that ranks pictures by texts, or the other way round.
void warn_of_separate_spaces(const LoadedEncoder& loaded, Messages& messages);
// For every command that encodes many pictures.
void warn_of_guessed_preprocessing(const LoadedEncoder& loaded, Messages& messages);

}  // namespace saccade::app
