// The processes in which the program decodes pictures.
#pragma once

#include <cstdint>
#include <memory>

#include <CLI/CLI.hpp>

#include "saccade/image/decode/process/decoder_pool.h"

#include "console.h"

namespace saccade::app {

// Started on the first call for them, once a program.
class Decoders {
 public:
  // Memory for all processes together, in MiB; 0: default_decode_memory().
  int64_t memory_mb = 0;

  // Starts the decoder pool. Returns `nullptr` if there is no saccade-decode, or it does not start: images
  // are then decoded in this process, with one warning. An image of max_pixels has room in each process. Not
  // thread-safe.
  DecoderPool* start(Messages& messages, int64_t max_pixels = 0);

 private:
  bool tried_ = false;
  std::unique_ptr<DecoderPool> pool_;
};

// Adds --decode-memory to the commands that decode many images. Called once they are all there; `decoders`
// outlives the app.
void add_decode_options(CLI::App& app, Decoders& decoders);

}  // namespace saccade::app
