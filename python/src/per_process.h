// Objects of the library that live in one process: a fork's child has their memory, but none of their threads.
#pragma once

#include <functional>
#include <memory>
#include <unistd.h>
#include <utility>

#include "call.h"

namespace saccade::python {

// Holds a T and the way to make it anew. In the child of a fork the parent's T is neither used nor destroyed, which would
// wait for threads that are not there: the first use makes another. All methods need the interpreter's lock.
template <typename T>
class PerProcess {
 public:
  PerProcess(T value, std::function<Result<T>()> make_anew)
      : held_(std::make_unique<Held>(std::move(value))), make_anew_(std::move(make_anew)) {}
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() { leave_to_parent(); }

  // Returns this process's object; valid as long as this. Throws the error of making it anew.
  T& get() {
    if (held_->process != ::getpid()) {
      auto made = std::make_unique<Held>(value_of(make_anew_()));
      leave_to_parent();
      held_ = std::move(made);
    }
    return held_->value;
  }

 private:
  struct Held {
    explicit Held(T made) : value(std::move(made)) {}
    T value;
    pid_t process = ::getpid();
  };
  void leave_to_parent() {
    if (held_ && held_->process != ::getpid()) static_cast<void>(held_.release());
  }

  std::unique_ptr<Held> held_;
  std::function<Result<T>()> make_anew_;
};

}  // namespace saccade::python
