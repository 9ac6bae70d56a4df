#include "saccade/core/threads.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/core/process/stoppable_wait.h"
#include "saccade/core/test_allocations.h"

namespace saccade::test {
thread_local int64_t allocations_left = -1;
}  // namespace saccade::test

using saccade::test::allocations_left;

// Replacement for the whole test program, so that a test can simulate out-of-memory.
[[gnu::noinline]] void* operator new(size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace saccade {
namespace {

TEST(ThreadPool, ParallelForVisitsEachItemOnce) {
  ThreadPool pool(4);
  for (const int64_t count : {0, 1, 2, 7, 64, 1000}) {
    std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
    pool.parallel_for(count, 3, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    });
    for (const auto& visit : visits) EXPECT_EQ(visit.load(), 1);
  }
}

TEST(ThreadPool, ParallelForMayNest) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  pool.parallel_for(8, 1, [&](int64_t, int64_t) {
    pool.parallel_for(100, 10, [&](int64_t begin, int64_t end) { sum += end - begin; });
  });
  EXPECT_EQ(sum.load(), 800);
}

TEST(ThreadPool, ParallelForThrowsWhatABodyThrew) {
  ThreadPool pool(3);
  std::atomic<int> begun{0};
  const auto failing = [&](int64_t begin, int64_t) {
    ++begun;
    if (begin == 5) throw std::runtime_error("no memory for block 5");
  };
  EXPECT_THROW(pool.parallel_for(1000, 1, failing), std::runtime_error);
  EXPECT_GE(begun.load(), 1);
  // The pool still works.
  std::atomic<int64_t> sum{0};
  pool.parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum.load(), 100);
}

// If memory runs out anywhere in the calling thread, no task is running when parallel_for returns or throws.
TEST(ThreadPool, ParallelForJoinsWhenMemoryRunsOut) {
  ThreadPool pool(4);
  for (int64_t left = 0; left < 16; ++left) {
    std::atomic<int> inside{0};
    std::atomic<int> blocks{0};
    const std::function<void(int64_t, int64_t)> body = [&](int64_t, int64_t) {
      ++inside;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++blocks;
      --inside;
    };
    bool thrown = false;
    allocations_left = left;
    try {
      pool.parallel_for(40, 1, body);
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    allocations_left = -1;
    EXPECT_EQ(inside.load(), 0) << left;
    EXPECT_EQ(blocks.load(), thrown ? 0 : 40) << left;
    pool.parallel_for(8, 1, [](int64_t, int64_t) {});  // all that was submitted before has begun
    EXPECT_EQ(blocks.load(), thrown ? 0 : 40) << left;
  }
}

TEST(ThreadPool, DestructorFinishesWhatWasSubmitted) {
  std::atomic<int> done{0};
  {
    ThreadPool pool(2);
    for (int i = 0; i < 50; ++i) pool.submit([&] { ++done; });
  }
  EXPECT_EQ(done.load(), 50);
}

TEST(StoppableWait, AStopEndsItAtOnce) {
  using std::chrono::steady_clock;
  std::stop_source stop;
  const auto first = steady_clock::now();
  EXPECT_TRUE(stoppable_wait(std::chrono::milliseconds(20), stop.get_token()));
  EXPECT_GE(steady_clock::now() - first, std::chrono::milliseconds(20));
  const auto before = steady_clock::now();
  std::jthread stops([&] { stop.request_stop(); });
  const Status waited = stoppable_wait(std::chrono::minutes(1), stop.get_token());
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::kCancelled);
  EXPECT_LT(steady_clock::now() - before, std::chrono::seconds(30));
}

}  // namespace
}  // namespace saccade
