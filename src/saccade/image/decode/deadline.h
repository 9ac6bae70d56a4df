// Deadline of decoding an image: processor time of the thread that decodes it.
#pragma once

#include <time.h>

#include "saccade/core/error.h"

namespace saccade {

// Returns the processor time of the calling thread, which does not depend on the load by other threads and
// programs.
inline double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Deadline that starts at construction, and is checked by the same thread. A check costs about half a
// microsecond.
class Deadline {
 public:
  explicit Deadline(double limit) : limit_(limit) {}  // seconds; 0: none
  [[nodiscard]] Status check() const {
    if (limit_ > 0 && thread_seconds() - start_ > limit_) {
      return fail(ErrorCode::kLimit, "not decoded within {} seconds", limit_);
    }
    return {};
  }

 private:
  double start_ = thread_seconds();
  double limit_;
};

}  // namespace saccade
