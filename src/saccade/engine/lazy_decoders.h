// Processes that decode images, started when they are first needed.
#pragma once

#include <memory>
#include <mutex>

#include "saccade/image/decode/process/decoder_pool.h"

namespace saccade {

// Thread-safe.
class LazyDecoders {
 public:
  // Returns the processes; `nullptr` if saccade-decode is not installed or does not start: images are then decoded in
  // this process.
  DecoderPool* get() {
    const std::lock_guard lock(mutex_);
    if (tried_) return pool_.get();
    tried_ = true;
    const auto program = find_decoder_program();
    if (!program) return nullptr;
    DecoderPoolOptions options;
    options.program = *program;
    if (auto pool = DecoderPool::start(std::move(options))) pool_ = *std::move(pool);
    return pool_.get();
  }

 private:
  std::mutex mutex_;
  bool tried_ = false;
  std::unique_ptr<DecoderPool> pool_;
};

}  // namespace saccade
