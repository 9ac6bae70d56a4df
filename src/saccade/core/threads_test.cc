#include "saccade/core/threads.h"

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

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
  // The pool is as good as before.
  std::atomic<int64_t> sum{0};
  pool.parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum.load(), 100);
}

TEST(ThreadPool, DestructorFinishesWhatWasSubmitted) {
  std::atomic<int> done{0};
  {
    ThreadPool pool(2);
    for (int i = 0; i < 50; ++i) pool.submit([&] { ++done; });
  }
  EXPECT_EQ(done.load(), 50);
}

}  // namespace
}  // namespace saccade
