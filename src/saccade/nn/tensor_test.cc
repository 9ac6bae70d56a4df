// Tests of tensors, their memory and their threads against slow, simple loops.
#include "saccade/nn/tensor.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "saccade/core/half.h"
#include "saccade/nn/exceptions.h"
#include "saccade/nn/operations.h"
#include "saccade/nn/test_tensors.h"

namespace saccade::nn {
namespace {

using test::max_difference;
using test::random_tensor;

Tensor counted(const Shape& shape) {
  Tensor tensor = Tensor::empty(shape);
  std::iota(tensor.floats().begin(), tensor.floats().end(), 0.F);
  return tensor;
}

TEST(Tensor, ViewsNameTheSameNumbers) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(x.at({1, 2, 3}), 23);
  EXPECT_EQ(x.slice(1, 1, 3).at({1, 0, 0}), 16);
  EXPECT_EQ(x.slice(2, -1).sizes(), (Shape{2, 3, 1}));
  EXPECT_EQ(x.select(1, 2).at({1, 3}), 23);
  EXPECT_EQ(x[1].sizes(), (Shape{3, 4}));
  EXPECT_EQ(x.transpose(0, 2).at({3, 2, 1}), 23);
  EXPECT_EQ(x.permute({2, 0, 1}).at({3, 1, 2}), 23);
  EXPECT_EQ(x.view({6, -1}).at({5, 3}), 23);
  EXPECT_EQ(x.unsqueeze(-1).sizes(), (Shape{2, 3, 4, 1}));
  EXPECT_EQ(x.select(0, 1).expand({5, 3, 4}).at({4, 2, 3}), 23);
  EXPECT_EQ(x.chunk(2, 1, 2).at({1, 2, 1}), 23);
  x.select(0, 0).fill(7);
  EXPECT_EQ(x.at({0, 2, 3}), 7);  // the same memory
  EXPECT_EQ(Tensor::full({}, 3).item(), 3);
  EXPECT_TRUE(x.slice(1, 3).is_contiguous());  // no elements remain
  EXPECT_EQ(x.slice(1, 3).clone().numel(), 0);
}

TEST(Tensor, MistakesWithShapesAreThrown) {
  const Tensor x = counted({2, 3});
  EXPECT_THROW((void)x.view({4}), std::logic_error);
  EXPECT_THROW((void)x.t().view({6}), std::logic_error);
  EXPECT_THROW((void)x.size(2), std::logic_error);
  EXPECT_THROW((void)x.select(0, 2), std::logic_error);
  EXPECT_THROW((void)x.expand({2, 4}), std::logic_error);
  EXPECT_THROW((void)x.item(), std::logic_error);
  EXPECT_THROW((void)x.integers(), std::logic_error);
  EXPECT_THROW(x.copy_from(counted({3, 2})), std::logic_error);
  EXPECT_THROW((void)(x + counted({2, 2})), std::logic_error);
}

// Random shapes, permuted, sliced and copied; the position of every value is checked.
TEST(Tensor, CopiesGoToTheirPlaces) {
  std::mt19937 random(1);
  Workspace workspace(3);
  for (int round = 0; round < 200; ++round) {
    Shape shape(1 + random() % 4);
    for (int64_t& side : shape) side = 1 + static_cast<int64_t>(random() % 5);
    Shape order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const Tensor whole = counted(shape).in(round % 2 == 0 ? &workspace : nullptr);
    const auto cut = static_cast<int64_t>(random() % shape.size());
    const Tensor x = whole.slice(cut, shape[static_cast<size_t>(cut)] / 2).permute(order);
    const Tensor copy = x.contiguous();
    ASSERT_TRUE(copy.is_contiguous());
    ASSERT_EQ(copy.sizes(), x.sizes());
    for (int64_t i = 0; i < copy.numel(); ++i) {
      int64_t left = i;
      int64_t offset = 0;
      for (int64_t d = x.dim() - 1; d >= 0; --d) {
        offset += left % x.size(d) * x.stride(d);
        left /= x.size(d);
      }
      ASSERT_EQ(copy.data<float>()[i], x.data<float>()[offset]);
    }
    const Tensor halves = x.to(DType::kF16);  // small whole numbers keep their value
    EXPECT_EQ(max_difference(halves, x), 0);
    EXPECT_EQ(max_difference(cat({copy, x}, 0).slice(0, copy.size(0)), x), 0);
  }
}

TEST(Tensor, ConvertsAsOneNumberAtATime) {
  std::vector<float> values = {0.F, -0.F, 1.F, -2.5F, 65504.F, 1e-8F, 3e38F, INFINITY, -INFINITY, 1.0009765F};
  const Tensor noise = random_tensor({1000}, 2, 100);
  values.insert(values.end(), noise.floats().begin(), noise.floats().end());
  const Tensor x = Tensor::of(values, {static_cast<int64_t>(values.size())});
  const Tensor halves = x.to(DType::kF16);
  const Tensor brains = x.to(DType::kBF16);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(halves.data<uint16_t>()[i], float_to_fp16(values[i]));
    ASSERT_EQ(brains.data<uint16_t>()[i], float_to_bf16(values[i]));
    const float back = halves.to(DType::kF32).data<float>()[i];
    ASSERT_EQ(back, fp16_to_float(float_to_fp16(values[i])));
    ASSERT_EQ(x.to(DType::kF64).data<double>()[i], values[i]);
  }
  const Tensor whole = Tensor::of(std::vector<int64_t>{-1, 0, 1 << 20}, {3});
  EXPECT_EQ(whole.to(DType::kF32).at({2}), 1 << 20);
  EXPECT_THROW((void)x.to(DType::kI64), std::logic_error);
}

TEST(Workspace, HandsOutTheSameMemoryAgain) {
  Workspace workspace(1);
  const void* first = nullptr;
  {
    const Tensor a = Tensor::empty({100, 100}, DType::kF32, &workspace);
    first = a.raw();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0U);
  }
  {
    const Tensor a = Tensor::empty({90, 100}, DType::kF32, &workspace);  // a little smaller
    EXPECT_EQ(a.raw(), first);
    EXPECT_NE(Tensor::empty({100, 100}, DType::kF32, &workspace).raw(), first);
  }
  const size_t kept = workspace.kept();
  for (int round = 0; round < 10; ++round) {
    const Tensor a = Tensor::zeros({100, 100}, DType::kF32, &workspace);
    const Tensor b = a + a;
  }
  EXPECT_EQ(workspace.kept(), kept);  // ten passes, no more memory than one
}

TEST(Workspace, TensorsOutliveIt) {
  Tensor left;
  {
    Workspace workspace(2);
    left = Tensor::full({1000}, 5, &workspace);
  }
  EXPECT_EQ(left.in(nullptr).to(DType::kF64).at({999}), 5);
}

TEST(Workers, DoEveryItemOnce) {
  for (const int threads : {1, 2, 5}) {
    Workers workers(threads);
    EXPECT_EQ(workers.size(), threads);
    for (int64_t count = 0; count < 300; count += 1 + count / 3) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(count));
      workers.run(count, [&](int64_t item, int worker) {
        EXPECT_LT(worker, threads);
        ++done[static_cast<size_t>(item)];
      });
      for (const auto& times : done) ASSERT_EQ(times, 1);
    }
    std::vector<int> hit(1000);  // pieces do not overlap: no atomics needed
    workers.split(1000, 3, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) ++hit[static_cast<size_t>(i)];
    });
    EXPECT_EQ(std::accumulate(hit.begin(), hit.end(), 0), 1000);
  }
}

// Consecutive loops: an item of one must never be run as one of the next.
TEST(Workers, LoopsDoNotMix) {
  Workers workers(4);
  std::vector<int64_t> sums(64);
  for (int64_t round = 0; round < 20'000; ++round) {
    const int64_t count = 1 + round % 7;
    std::atomic<int64_t> sum{0};
    workers.run(count, [&](int64_t item, int) { sum += item + round; });
    ASSERT_EQ(sum, count * (count - 1) / 2 + count * round) << round;
  }
}

// Sleeping workers are woken, and the caller does not wait for workers that do not come.
TEST(Workers, WakeAfterAWhile) {
  Workers workers(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int64_t> sum{0};
    workers.run(100, [&](int64_t item, int) { sum += item; });
    ASSERT_EQ(sum, 4950);
  }
}

// Workers that poll without end would use the time of a processor or more.
TEST(Workers, SleepWithoutWork) {
  Workers workers(4);
  workers.run(100, [](int64_t, int) {});
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.05);
}

TEST(Workers, ThrowWhatABodyThrows) {
  Workers workers(3);
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(workers.run(100,
                             [&](int64_t item, int) {
                               if (item == 17) throw std::runtime_error("17");
                             }),
                 std::runtime_error);
    std::atomic<int> done{0};
    workers.run(10, [&](int64_t, int) { ++done; });
    ASSERT_EQ(done, 10);  // the next loop is whole
  }
}

TEST(Workers, StopWhereTheirCallerIsAskedTo) {
  Workers workers(2);
  std::atomic<int> done{0};
  const auto loop = [&] { workers.run(10, [&](int64_t, int) { ++done; }); };
  std::stop_source outer;
  std::stop_source inner;
  {
    const StopScope of_outer(outer.get_token());
    loop();
    EXPECT_EQ(done, 10);
    outer.request_stop();
    EXPECT_THROW(loop(), Stopped);
    {
      const StopScope of_inner(inner.get_token());
      loop();                    // the innermost counts
      std::thread(loop).join();  // another thread has no scope
    }
    EXPECT_THROW(loop(), Stopped);
  }
  loop();
  EXPECT_EQ(done, 40);
  const auto error = without_exceptions("encode", []() -> Status { throw Stopped(); });
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace saccade::nn
