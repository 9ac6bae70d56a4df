#include "saccade/nn/workers.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "saccade/core/threads.h"
#include "saccade/nn/exceptions.h"

// Functions of libgomp, used by Debian's oneDNN. Declared here because not every compiler finds its header.
extern "C" {
void omp_set_num_threads(int threads);
int omp_get_max_threads(void);
}

namespace saccade::nn {
namespace {

constexpr int64_t kMaxItems = (int64_t{1} << 20) - 1;
// Time that a thread polls before it sleeps: as long as the work between two loops.
constexpr std::chrono::microseconds kPatience{30};
// Number of polls between two readings of the clock. They take about a microsecond, of which the reading is a small part.
constexpr int kLooks = 32;

// Token of the calling thread's innermost StopScope.
thread_local const std::stop_token* current_stop = nullptr;

constexpr uint64_t packed(uint32_t generation, int64_t count, int64_t next) {
  return (static_cast<uint64_t>(generation & 0xffffffU) << 40) | (static_cast<uint64_t>(count) << 20) |
         static_cast<uint64_t>(next);
}

// Pauses for some tens of nanoseconds: a duration that differs between processors.
void rest_a_moment() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // not `yield`, which most cores execute as a nop
#endif
}

// Calls arrived() until it returns true, for kPatience at most.
template <typename Arrived>
void poll(const Arrived& arrived) {
  if (arrived()) return;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int look = 0; look < kLooks; ++look) {
      rest_a_moment();
      if (arrived()) return;
    }
  } while (std::chrono::steady_clock::now() < end);
}

}  // namespace

StopScope::StopScope(std::stop_token stop) : stop_(std::move(stop)), outer_(current_stop) {
  current_stop = &stop_;
}

StopScope::~StopScope() {
  current_stop = outer_;
}

OneDnnThreads::OneDnnThreads(int threads) : before_(omp_get_max_threads()) {
  omp_set_num_threads(threads);
}

OneDnnThreads::~OneDnnThreads() {
  omp_set_num_threads(before_);
}

Workers::Workers(int threads) {
  if (threads <= 0) threads = available_processors();
  threads_.reserve(static_cast<size_t>(threads - 1));
  for (int worker = 1; worker < threads; ++worker) {
    try {
      threads_.emplace_back([this, worker] { work(worker); });
    } catch (const std::system_error&) {
      return;
    }
  }
}

Workers::~Workers() {
  stopping_ = true;
  announced_.fetch_add(1);
  announced_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

int64_t Workers::pieces_of(int64_t count, int64_t grain) const {
  // Four pieces per thread, so that a late or preempted thread leaves little work.
  const int64_t most = std::max<int64_t>(1, count / std::max<int64_t>(grain, 1));
  return size() == 1 ? 1 : std::min<int64_t>(most, int64_t{4} * size());
}

void Workers::work(int worker) {
  const OneDnnThreads alone(1);
  uint32_t seen = 0;
  for (;;) {
    uint32_t newest = seen;
    poll([&] {
      newest = announced_.load(std::memory_order_acquire);
      return newest != seen;
    });
    if (newest == seen) {
      sleeping_.fetch_add(1);
      announced_.wait(seen);
      sleeping_.fetch_sub(1);
      continue;
    }
    if (stopping_) return;
    seen = newest;
    take_items(newest, worker);
  }
}

void Workers::take_items(uint32_t generation, int worker) {
  for (;;) {
    uint64_t state = state_.load(std::memory_order_acquire);
    int64_t next = 0;
    do {
      const auto count = static_cast<int64_t>((state >> 20) & 0xfffffU);
      next = static_cast<int64_t>(state & 0xfffffU);
      if ((state >> 40) != (generation & 0xffffffU) || next >= count) return;
    } while (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel));
    // Until this item is counted below, the loop cannot end.
    if (!given_up_.load(std::memory_order_relaxed)) {
      try {
        call_(body_, next, worker);
      } catch (...) {
        const std::lock_guard lock(thrown_mutex_);
        if (!thrown_) thrown_ = std::current_exception();
        given_up_ = true;
      }
    }
    const auto count = static_cast<int64_t>((state >> 20) & 0xfffffU);
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == count && worker != 0) done_.notify_one();
  }
}

void Workers::run_erased(int64_t count, const void* body, Erased call) {
  if (count <= 0) return;
  if (current_stop != nullptr && current_stop->stop_requested()) throw Stopped();
  const OneDnnThreads alone(1);
  if (count == 1 || threads_.empty() || count > kMaxItems) {
    for (int64_t item = 0; item < count; ++item) call(body, item, 0);
    return;
  }
  const uint32_t generation = announced_.load(std::memory_order_relaxed) + 1;
  body_ = body;
  call_ = call;
  done_.store(0, std::memory_order_relaxed);
  state_.store(packed(generation, count, 0), std::memory_order_release);
  announced_.store(generation, std::memory_order_seq_cst);
  if (sleeping_.load() > 0) announced_.notify_all();
  take_items(generation, 0);
  int32_t done = 0;
  poll([&] {
    done = done_.load(std::memory_order_acquire);
    return done >= count;
  });
  while (done < count) {
    done_.wait(done, std::memory_order_acquire);
    done = done_.load(std::memory_order_acquire);
  }
  if (given_up_) {
    given_up_ = false;
    std::rethrow_exception(std::exchange(thrown_, nullptr));
  }
}

}  // namespace saccade::nn
