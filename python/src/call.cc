#include "call.h"

#include <chrono>
#include <nanobind/stl/string.h>
#include <thread>

namespace saccade::python {
namespace {

constexpr std::chrono::milliseconds kLookForSignals{50};

bool on_main_thread() {
  const nb::module_ threading = nb::module_::import_("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

}  // namespace

Call::Call() : beside_(on_main_thread()) {}

void Call::guarded(const std::function<void()>& action) {
  try {
    action();
  } catch (...) {
    if (!raised_) raised_ = std::current_exception();
    stop_.request_stop();
  }
}

bool Call::ask(const std::function<void()>& action) {
  if (!beside_) {
    const nb::gil_scoped_acquire lock;
    if (!raised_) guarded(action);
    return !raised_;
  }
  std::unique_lock lock(mutex_);
  if (refused_) return false;
  asked_ = &action;
  changed_.notify_all();
  changed_.wait(lock, [&] { return asked_ == nullptr; });
  return !refused_;
}

void Call::pass_on(const Update& update) {
  guarded([&] { progress_(update.done, update.total, update.what); });
}

ProgressCallback Call::progress_to(nb::handle callback) {
  if (callback.is_none()) return {};
  progress_ = nb::borrow(callback);
  return [this](const ProgressUpdate& update) {
    Update copy{update.done, update.total, std::string(update.what)};
    if (!beside_) {
      const nb::gil_scoped_acquire lock;
      if (!raised_) pass_on(copy);
      return;
    }
    const std::lock_guard lock(mutex_);
    update_ = std::move(copy);
    changed_.notify_all();
  };
}

void Call::run_erased(const std::function<void()>& work) {
  if (beside_) {
    wait_beside(work);
  } else {
    const nb::gil_scoped_release unlocked;
    work();
  }
  if (raised_) std::rethrow_exception(raised_);
}

void Call::wait_beside(const std::function<void()>& work) {
  std::exception_ptr thrown;  // by the work: out of memory
  std::thread worker([&] {
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  });
  for (bool ended = false; !ended;) {
    const std::function<void()>* asked = nullptr;
    std::optional<Update> update;
    {
      const nb::gil_scoped_release unlocked;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kLookForSignals, [&] { return ended_ || asked_ != nullptr || update_; });
      asked = asked_;
      update = std::exchange(update_, std::nullopt);
      ended = ended_;
    }
    if (!raised_) {
      guarded([] {
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
      });
    }
    if (update && !raised_) pass_on(*update);
    if (asked != nullptr && !raised_) guarded(*asked);
    if (raised_ || asked != nullptr) {
      const std::lock_guard lock(mutex_);
      refused_ = raised_ != nullptr;
      // What was asked since gets its answer in the next round, or is refused now.
      if (asked != nullptr || refused_) asked_ = nullptr;
      changed_.notify_all();
    }
  }
  {
    const nb::gil_scoped_release unlocked;
    worker.join();
  }
  if (thrown && !raised_) std::rethrow_exception(thrown);
}

}  // namespace saccade::python
