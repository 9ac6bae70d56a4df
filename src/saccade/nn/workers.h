// Thread pool of a forward pass, for many short consecutive loops.
//
// The caller and all awake workers take items of a loop one by one. The caller waits for items that were
// begun, never for a worker that has not arrived. So if another program occupies a processor, the other
// threads take over its share. Workers poll for the next loop for some microseconds before they sleep; nobody
// spins longer for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace saccade::nn {

// Threads for one loop at a time; concurrent calls of run() are an error of the caller.
class Workers {
 public:
  // Starts the threads, or fewer if the system has no more. threads: their number including the caller's; 0 uses all
  // processors of this process. oneDNN's own threads (OpenMP's) are disabled within the loops.
  explicit Workers(int threads);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  [[nodiscard]] int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(item, worker) for items 0 ... count - 1 in any order, with worker in [0, size()). Returns when
  // all are done. Rethrows the first exception of a body and skips the items not yet begun. Throws Stopped
  // instead of a loop if the caller's StopScope was asked to stop.
  template <typename Body>
  void run(int64_t count, const Body& body) {
    run_erased(count, &body, [](const void* erased, int64_t item, int worker) {
      (*static_cast<const Body*>(erased))(item, worker);
    });
  }

  // Calls body(first, last, worker) for pieces of [0, count). Pieces have at least `grain` items (the last
  // may have fewer), and there are no more of them than needed to keep every thread busy.
  template <typename Body>
  void split(int64_t count, int64_t grain, const Body& body) {
    if (count <= 0) return;
    const int64_t pieces = pieces_of(count, grain);
    run(pieces, [&](int64_t piece, int worker) {
      body(count * piece / pieces, count * (piece + 1) / pieces, worker);
    });
  }
  [[nodiscard]] int64_t pieces_of(int64_t count, int64_t grain) const;

 private:
  using Erased = void (*)(const void* body, int64_t item, int worker);
  void run_erased(int64_t count, const void* body, Erased call);
  void work(int worker);
  // Takes items of the loop `generation` until there are none.
  void take_items(uint32_t generation, int worker);

  // Generation of the loop, its number of items and the number taken, in one word of 24, 20 and 20 bits. So
  // an item can only be taken from the loop that was observed.
  std::atomic<uint64_t> state_{0};
  std::atomic<uint32_t> announced_{0};  // the newest generation; what workers sleep on
  std::atomic<int32_t> done_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<bool> stopping_{false};
  // Written before a loop is announced, and read only by threads that hold one of its items.
  const void* body_ = nullptr;
  Erased call_ = nullptr;
  std::atomic<bool> given_up_{false};
  std::mutex thrown_mutex_;
  std::exception_ptr thrown_;
  std::vector<std::thread> threads_;
};

// Makes forward passes of the calling thread end early while it lives: once the token is asked to stop, the next
// loop of any Workers throws Stopped. A pass has a loop every few milliseconds. Scopes nest; the innermost counts.
class StopScope {
 public:
  explicit StopScope(std::stop_token stop);
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;
  ~StopScope();

 private:
  std::stop_token stop_;
  const std::stop_token* outer_;
};

// Sets the number of threads of oneDNN's own loops on the calling thread during its lifetime.
class OneDnnThreads {
 public:
  explicit OneDnnThreads(int threads);
  OneDnnThreads(const OneDnnThreads&) = delete;
  OneDnnThreads& operator=(const OneDnnThreads&) = delete;
  ~OneDnnThreads();

 private:
  int before_;
};

}  // namespace saccade::nn
