// Thread pool with a fixed number of workers, and parallel loops.
//
// Cancellation uses std::stop_token, passed in by the caller; long loops check it between items.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "saccade/result.h"

namespace saccade {

// Largest number of threads that a caller may ask for.
inline constexpr int kMostThreads = 1024;
// kUsage for a number of threads below 0 or above kMostThreads.
Status check_threads(int threads);

// Runs tasks on `threads` threads; all methods may be called from any thread.
class ThreadPool {
 public:
  // Starts the threads. threads = 0 uses as many as the processors available to this process (its affinity
  // mask). Starts fewer if the system has no more threads; throws std::system_error if it has none.
  explicit ThreadPool(int threads = 0);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  // Finishes all submitted tasks, then joins.
  ~ThreadPool();

  [[nodiscard]] int size() const { return static_cast<int>(workers_.size()); }

  // Queues a task. It must not throw, because nobody catches its exceptions.
  void submit(std::function<void()> task);

  // Calls body(begin, end) over [0, count) in blocks of at most `grain`; the caller works too. Returns when
  // all are done. Blocks are handed out in order, so results must not depend on which thread takes which. May
  // be called from inside a task: the caller then does the blocks that no idle worker picks up. Rethrows the
  // first exception of a body (out of memory) and skips the blocks not yet begun.
  void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

// Returns the number of processors this process may run on, at least 1.
int available_processors();

}  // namespace saccade
