// The processes in which the program decodes pictures.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "saccade/image/decode/process/decoder_pool.h"
#include "saccade/image/image_codec.h"

#include "console.h"

namespace saccade::app {

// Started on the first call for them, once a program.
class Decoders {
 public:
  // Memory for all processes together, in MiB (--decode-memory); 0: default_decode_memory(). `nullopt` in commands without
  // add_decode_options(), which decode nothing.
  std::optional<int64_t> memory_mb = {};

  // Starts the decoder pool. Returns `nullptr` if there is no saccade-decode, or it does not start: images
  // are then decoded in this process, with one warning. An image of max_pixels has room in each process. Not
  // thread-safe. Throws std::logic_error in a command without add_decode_options().
  DecoderPool* start(Messages& messages, int64_t max_pixels = 0);

 private:
  bool tried_ = false;
  std::unique_ptr<DecoderPool> pool_;
};

// Adds --decode-memory. Every command that decodes images has it, and no other.
void add_decode_options(CLI::App& command);
// Adds --max-bytes, --max-pixels, --max-seconds and --decode-memory, for commands whose images have no other limits.
// `limits` outlives the command.
void add_decode_options(CLI::App& command, DecodeOptions& limits);
// Adds --max-pixels alone.
void add_pixel_limit_option(CLI::App& command, DecodeOptions& limits);
// Returns the text of an error with the names of these options in place of those of the library's settings.
std::string with_option_names(std::string text);
// Returns --decode-memory of the command that was parsed; `nullopt` if it has no such option.
std::optional<int64_t> decode_memory_of(const CLI::App& command);

}  // namespace saccade::app
