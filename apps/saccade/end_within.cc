#include "end_within.h"

#include <chrono>
#include <cstdlib>
#include <stop_token>
#include <unistd.h>
#include <utility>

#include "saccade/core/process/stoppable_wait.h"

namespace saccade::app {

EndWithin::EndWithin(double seconds, std::string message)
    : thread_([seconds, line = "saccade: " + std::move(message) + "\n"](const std::stop_token& in_time) {
        if (!stoppable_wait(std::chrono::duration<double>(seconds), in_time)) return;
        [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
        std::_Exit(1);
      }) {}

}  // namespace saccade::app
