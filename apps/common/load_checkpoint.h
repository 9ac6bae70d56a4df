// Options that choose and load a command's checkpoint, and messages about it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/encoder_backend.h"

#include "console.h"

namespace saccade::app {

// Help text of -m.
inline constexpr const char* kCheckpointHelp =
    "checkpoint: a folder, OWNER/NAME[@REVISION] of the hub's cache, starter, or a name that `model alias` gave";

struct EncoderChoice {
  std::optional<Precision> precision;  // nothing: not given
  bool fastest = false;  // --precision auto: choose_precision (model/options/precision_choice.h) says which
  int threads = 0;
  std::string device = "cpu";  // as BackendOptions::device
};

// Returns backend options with the user's cache of checkpoint fingerprints.
BackendOptions options_of(const EncoderChoice& choice);

// Default of --precision in the help of commands that use an existing collection.
inline constexpr std::string_view kPrecisionOfCollection = "the collection's own";

// Adds --threads, for every command that computes.
void add_threads_option(CLI::App& command, int& threads);
// Adds --precision and --threads, for commands that load an encoder. The help names the default precision.
void add_encoder_options(CLI::App& command, EncoderChoice& choice,
                         std::string_view default_precision = "fp32");
// --device, for commands that encode many images or texts.
void add_device_option(CLI::App& command, EncoderChoice& choice);

// Settles what --precision auto is for a checkpoint, and says so. Whatever was given otherwise stays.
Status settle_precision(const std::filesystem::path& named, EncoderChoice& choice, Messages& messages);

// Loads a checkpoint; `named` as for find_checkpoint; in fp32 if no precision was given or settled. The
// fingerprint is cached for files that have not changed since. It is computed from every byte if a collection
// will be bound to it.
Result<LoadedEncoder> load_checkpoint(const std::filesystem::path& named, const EncoderChoice& choice,
                                      bool every_byte = false);

// A loud line where the collection's checkpoint is the starter, which has seen drawings,
// and its pictures are photographs.
void warn_of_starter(const CollectionReader& collection, Messages& messages);

// Warns in every command that ranks images by texts, or texts by images.
void warn_of_separate_spaces(const LoadedEncoder& loaded, Messages& messages);
// Warns in every command that encodes many images.
void warn_of_guessed_preprocessing(const LoadedEncoder& loaded, Messages& messages);

}  // namespace saccade::app
