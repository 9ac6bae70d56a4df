// A wait that a stop request ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "saccade/core/error.h"

namespace saccade {

// Waits for `time`. Returns kCancelled, at once, if a stop is requested before or during the wait.
inline Status stoppable_wait(std::chrono::duration<double> time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
  return {};
}

}  // namespace saccade
