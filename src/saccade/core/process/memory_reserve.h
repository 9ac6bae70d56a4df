// Address space for the moment when there is no other.
//
// Once memory has run out, a request can be refused only if the code that refuses it finds some: destructors of JSON
// values, handlers of connections and error messages all allocate a little, and the process ends where they cannot.
// So a server sets some aside. The first allocation by `new` that fails gives it up and is tried again; until it has
// been set aside again, no new work should begin.
#pragma once

#include <cstddef>

namespace saccade {

// Sets `bytes` aside from now on, by a new-handler of the process. Bounds the allocator's arenas too, which would
// otherwise keep the addresses that the reserve needs. Called again it does nothing. Thread-safe.
void keep_memory_reserve(size_t bytes);

// Sets the memory aside again if it was given up. Returns false if there is none for that now. True without a reserve.
// Thread-safe; costs a load if nothing was given up.
bool restore_memory_reserve();

// Lends the reserve, while it lives, to code of others that does not survive a failed allocation. May be nested.
class LentMemoryReserve {
 public:
  // Throws std::bad_alloc where the reserve was given up and cannot be set aside again.
  LentMemoryReserve();
  ~LentMemoryReserve();
  LentMemoryReserve(const LentMemoryReserve&) = delete;
  LentMemoryReserve& operator=(const LentMemoryReserve&) = delete;
};

}  // namespace saccade
