#include "saccade/core/process/memory_reserve.h"

#include <algorithm>
#include <atomic>
#include <malloc.h>
#include <new>
#include <sys/mman.h>
#include <thread>

namespace saccade {
namespace {

std::atomic<size_t> reserve_bytes = 0;
std::atomic<void*> reserved = nullptr;
std::atomic<int> lent = 0;

void* map_reserve() {
  void* memory = ::mmap(nullptr, reserve_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Returns false if it was given up before.
bool unmap_reserve() {
  void* const memory = reserved.exchange(nullptr);
  return memory != nullptr && ::munmap(memory, reserve_bytes) == 0;
}

void give_up_reserve() {
  if (!unmap_reserve()) throw std::bad_alloc();
}

}  // namespace

void keep_memory_reserve(size_t bytes) {
  size_t none = 0;
  if (bytes == 0 || !reserve_bytes.compare_exchange_strong(none, bytes)) return;
  // glibc keeps 64 MiB of addresses for each arena it ever made, eight a processor by default, and after one large block
  // was freed takes others like it from there. Then nothing is left to set the reserve aside again.
  constexpr int kLargestOfAnArena = 4 << 20;
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  (void)::mallopt(M_ARENA_MAX, std::clamp(2 * processors, 4, 64));
  (void)::mallopt(M_MMAP_THRESHOLD, kLargestOfAnArena);
  reserved = map_reserve();
  std::set_new_handler(give_up_reserve);
}

bool restore_memory_reserve() {
  if (reserve_bytes == 0 || reserved.load() != nullptr || lent.load() > 0) return true;
  void* const memory = map_reserve();
  if (memory == nullptr) return false;
  void* none = nullptr;
  if (!reserved.compare_exchange_strong(none, memory))
    ::munmap(memory, reserve_bytes);  // another thread was first
  return true;
}

LentMemoryReserve::LentMemoryReserve() {
  if (!restore_memory_reserve()) throw std::bad_alloc();
  ++lent;
  unmap_reserve();
}

LentMemoryReserve::~LentMemoryReserve() {
  if (--lent == 0) restore_memory_reserve();
}

}  // namespace saccade
