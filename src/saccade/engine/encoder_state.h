// State of an Encoder; private to the engine module.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/encoder.h"
#include "saccade/engine/lazy_decoders.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/visualness.h"

namespace saccade {

struct Encoder::State {
  explicit State(int threads) : pool(threads) {}

  std::shared_ptr<EncoderBackend> backend;
  std::string name;
  std::filesystem::path folder;
  std::vector<std::string> notes;
  std::optional<KeptVisualness> visualness;
  mutable ThreadPool pool;
  mutable LazyDecoders decoders;
};

inline Status check_batch_size(int64_t size) {
  return size >= 1 ? Status() : fail(ErrorCode::kUsage, "a batch size of {}, expected 1 or more", size);
}

}  // namespace saccade
