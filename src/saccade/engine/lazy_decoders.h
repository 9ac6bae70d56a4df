// Processes that decode images, started when they are first needed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "saccade/image/decode/process/decoder_pool.h"

namespace saccade {

// Thread-safe.
class LazyDecoders {
 public:
  // Returns the processes; `nullptr` if saccade-decode is not installed or does not start: images are then decoded in
  // this process. An image of max_pixels has room in each process: others are started if those that there are have less.
  DecoderPool* get(int64_t max_pixels = 0) {
    const std::lock_guard lock(mutex_);
    const int64_t memory = decoder_memory(max_pixels);
    if (memory <= memory_) return pools_.empty() ? nullptr : pools_.back().get();
    memory_ = memory;
    const auto program = find_decoder_program();
    if (!program) return nullptr;
    DecoderPoolOptions options;
    options.program = *program;
    options.memory_bytes = memory;
    if (auto pool = DecoderPool::start(std::move(options))) pools_.push_back(*std::move(pool));
    return pools_.empty() ? nullptr : pools_.back().get();
  }

 private:
  std::mutex mutex_;
  int64_t memory_ = 0;  // of a process of the last pool, or of the last that was tried
  std::vector<std::unique_ptr<DecoderPool>> pools_;  // calls that run may still use the earlier ones
};

}  // namespace saccade
