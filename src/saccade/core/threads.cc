#include "saccade/core/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <sched.h>
#include <system_error>
#include <utility>

#include "saccade/core/error.h"

namespace saccade {

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Status check_threads(int threads) {
  if (threads >= 0 && threads <= kMostThreads) return {};
  return fail(ErrorCode::kUsage, "{} threads, expected 0 to {}", threads, kMostThreads);
}

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = available_processors();
  workers_.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    try {
      workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      if (workers_.empty()) throw;
      return;
    }
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  ready_.notify_one();
}

void ThreadPool::work() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              const std::function<void(int64_t, int64_t)>& body) {
  grain = std::max<int64_t>(grain, 1);
  const int64_t blocks = (count + grain - 1) / grain;
  if (blocks <= 0) return;
  if (blocks == 1) return body(0, count);

  // State shared with the helpers. They may outlive this call briefly until they see that nothing is left.
  // `body` itself is used only while a block is held, and this call waits for all blocks.
  struct Loop {
    std::atomic<int64_t> next{0};
    int64_t finished = 0;
    std::mutex mutex;
    std::condition_variable done;
    std::exception_ptr thrown;
    std::atomic<bool> given_up{false};
  };
  auto loop = std::make_shared<Loop>();
  const auto run = [loop, count, grain, blocks, &body] {
    int64_t mine = 0;
    for (int64_t block = loop->next++; block < blocks; block = loop->next++, ++mine) {
      if (loop->given_up) continue;  // still counted, so that the wait below ends
      try {
        body(block * grain, std::min(count, (block + 1) * grain));
      } catch (...) {
        const std::lock_guard lock(loop->mutex);
        if (!loop->thrown) loop->thrown = std::current_exception();
        loop->given_up = true;
      }
    }
    if (mine == 0) return;
    const std::lock_guard lock(loop->mutex);
    loop->finished += mine;
    if (loop->finished == blocks) loop->done.notify_all();
  };
  // With the caller, as many threads as the pool has: one more than there are processors would only take
  // turns.
  const int64_t helpers = std::min<int64_t>(size(), blocks) - 1;
  try {
    for (int64_t i = 0; i < helpers; ++i) submit(run);
  } catch (...) {
    // Out of memory for more helpers. Those already submitted use `body`, so this call must wait for them. It
    // does the rest of the blocks itself.
  }
  run();
  std::unique_lock lock(loop->mutex);
  loop->done.wait(lock, [&] { return loop->finished == blocks; });
  if (loop->thrown) std::rethrow_exception(loop->thrown);
}

}  // namespace saccade
