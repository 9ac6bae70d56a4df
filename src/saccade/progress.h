// Progress reports of long operations, by callback. The library itself prints nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace saccade {

// State of a long operation.
struct ProgressUpdate {
  std::string_view what;    // "indexing", "training": valid during the call only
  int64_t done = 0;         // items, or bytes
  int64_t total = 0;        // items, or bytes; 0 if it is not known yet
  std::string_view detail;  // "loss 1.23", or empty
  bool bytes = false;       // done and total are bytes, not things
};

// Called now and then on the thread that made the call; must return quickly. May be empty.
using ProgressCallback = std::function<void(const ProgressUpdate&)>;

}  // namespace saccade
