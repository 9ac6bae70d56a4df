// Calls into the library without the interpreter's lock, which end soon after Ctrl-C.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <nanobind/nanobind.h>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include "saccade/progress.h"
#include "saccade/result.h"

namespace saccade::python {

namespace nb = nanobind;

// An error of the library on its way to Python, where it becomes an exception of its kind (saccade/_errors.py).
class Failed : public std::exception {
 public:
  explicit Failed(Error error) : error_(std::move(error)) {}
  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  Error error_;
};

// Returns the value of a result, or throws its error.
template <typename T>
T value_of(Result<T> result) {
  if (!result) throw Failed(std::move(result.error()));
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// One call of the library. run() must be called with the interpreter's lock; it releases the lock while the work runs.
//
// On Python's main thread, which receives signals, the work runs on a thread of its own. The calling thread waits, looks
// for signals every 50 ms, and runs what the work asks of Python. So iterators and progress callbacks always run on the
// thread that made the call. On other threads the work runs where it is.
class Call {
 public:
  Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Asked to stop when Python raises: KeyboardInterrupt, or an exception of ask().
  [[nodiscard]] std::stop_token stop() const { return stop_.get_token(); }

  // For the work: runs `action` on the calling thread with the interpreter's lock, and waits for it. Returns false if
  // Python has raised an exception. run() raises it when the work has ended.
  [[nodiscard]] bool ask(const std::function<void()>& action);

  // Returns a progress callback for the work: it passes updates on to callback(done, total, what). An update that comes
  // before the one before it was passed on replaces that. Empty if the callback is None.
  [[nodiscard]] ProgressCallback progress_to(nb::handle callback);

  // Runs work(), which returns a Result, and returns its value. Throws its error, or what Python raised.
  template <typename Work>
  auto run(const Work& work) {
    using Answer = std::invoke_result_t<Work>;
    std::optional<Answer> answer;
    run_erased([&] { answer.emplace(work()); });
    return value_of(*std::move(answer));
  }

 private:
  struct Update {
    int64_t done = 0;
    int64_t total = 0;
    std::string what;
  };
  void run_erased(const std::function<void()>& work);
  void wait_beside(const std::function<void()>& work);
  // Runs with the interpreter's lock; keeps what is raised, and asks the work to stop.
  void guarded(const std::function<void()>& action);
  void pass_on(const Update& update);

  bool beside_ = false;  // the work runs on a thread of its own
  std::stop_source stop_;
  nb::object progress_;
  std::exception_ptr raised_;  // with the interpreter's lock
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* asked_ = nullptr;
  std::optional<Update> update_;
  bool refused_ = false;
  bool ended_ = false;
};

}  // namespace saccade::python
