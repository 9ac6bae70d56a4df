// Deadline of decoding an image: processor time of the thread that decodes it.
#pragma once

#include "saccade/core/error.h"
#include "saccade/core/thread_seconds.h"

namespace saccade {

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
