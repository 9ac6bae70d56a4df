// Processor time, which does not depend on other programs on the machine.
#pragma once

#include <ctime>

namespace saccade {

// Returns the calling thread's processor time in seconds.
inline double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace saccade
