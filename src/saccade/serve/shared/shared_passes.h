// Dynamic batching: one pass for concurrent calls. A call that arrives at an idle time runs a pass at once,
// on its own thread, after other runnable threads had a turn to join. Calls that arrive meanwhile wait, and
// one of them runs the next pass for as many as fit together. So batches grow with the load, no call waits
// for a timer, and an idle server hands nothing to another thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace saccade::serve {

// Base class of a call of SharedPasses.
class SharedCall {
 private:
  template <typename Call>
  friend class SharedPasses;
  std::condition_variable woken_;
  bool done_ = false;
  bool leads_ = false;  // makes the next pass
};

// Call: derives from SharedCall, and is borrowed while it waits. Thread-safe.
template <typename Call>
class SharedPasses {
 public:
  // most: calls of one pass.
  explicit SharedPasses(size_t most) : most_(most) {}

  // Returns true if `other` may join a pass with the calls taken so far. The first of these runs the pass.
  // Must not throw.
  using Takes = std::function<bool(const Call& other, std::span<Call* const> taken)>;

  // Returns true when a pass has been made for `own`, by run(calls) on this thread or on that of another
  // call. Exceptions of run() are caught: calls that it did not reach keep their initial outcome. Returns
  // false without a pass if gone() returned true during the wait; it is polled every kLook.
  template <typename Run>
  bool join(Call& own, const Takes& takes, const std::function<bool()>& gone, const Run& run) {
    std::vector<Call*> taken;
    taken.reserve(most_);  // here, as nothing may fail once others depend on this call
    std::unique_lock lock(mutex_);
    calls_.push_back(&own);
    if (!busy_) {
      busy_ = own.leads_ = true;
    } else if (gone) {
      while (!own.woken_.wait_for(lock, kLook, [&] { return own.done_ || own.leads_; })) {
        // One that a pass has taken is waited for: what it borrowed is in use.
        const auto waits = std::ranges::find(calls_, &own);
        if (waits == calls_.end() || !gone()) continue;
        calls_.erase(waits);
        return false;
      }
    } else {
      own.woken_.wait(lock, [&] { return own.done_ || own.leads_; });
    }
    if (own.done_) return true;
    // Those whom a pass has just woken, here or at the stage before this one, are on their way, and the first
    // to arrive would leave without them.
    for (size_t there = 0; there < calls_.size() && calls_.size() < most_;) {
      there = calls_.size();
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    taken.push_back(&own);
    std::erase(calls_, &own);
    for (auto call = calls_.begin(); call != calls_.end() && taken.size() < most_;) {
      const bool fits = takes(**call, taken);
      if (fits) taken.push_back(*call);
      call = fits ? calls_.erase(call) : call + 1;
    }
    lock.unlock();
    try {
      run(std::span<Call* const>(taken));
    } catch (...) {  // no memory; nobody would make another pass if it went on from here
    }
    lock.lock();
    ++passes_;
    passed_ += std::ssize(taken);
    for (Call* call : taken) {
      call->done_ = true;
      if (call != &own) call->woken_.notify_one();
    }
    busy_ = !calls_.empty();
    if (busy_) {
      calls_.front()->leads_ = true;
      calls_.front()->woken_.notify_one();
    }
    return true;
  }

  struct Counts {
    int64_t passes = 0;
    int64_t calls = 0;
    int64_t waiting = 0;  // now
  };
  [[nodiscard]] Counts counts() const {
    const std::lock_guard lock(mutex_);
    return {passes_, passed_, std::ssize(calls_)};
  }

 private:
  static constexpr auto kLook = std::chrono::milliseconds(50);

  const size_t most_;
  mutable std::mutex mutex_;
  std::deque<Call*> calls_;  // that wait
  bool busy_ = false;        // a pass is made, or somebody is about to
  int64_t passes_ = 0;
  int64_t passed_ = 0;
};

}  // namespace saccade::serve
