#include "end_within.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <unistd.h>
#include <utility>

namespace saccade::app {

EndWithin::EndWithin(double seconds, std::string message)
    : thread_([seconds, line = "saccade: " + std::move(message) + "\n"](const std::stop_token& in_time) {
        std::mutex mutex;
        std::condition_variable_any never;
        std::unique_lock lock(mutex);
        never.wait_for(lock, in_time, std::chrono::duration<double>(seconds), [] { return false; });
        if (in_time.stop_requested()) return;
        [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
        std::_Exit(1);
      }) {}

}  // namespace saccade::app
