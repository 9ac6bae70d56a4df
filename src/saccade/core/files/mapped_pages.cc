#include "saccade/core/files/mapped_pages.h"

#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

namespace saccade {

void release_mapped_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size()) / page * page;
  // A refusal (locked pages) is harmless: the bytes stay in memory.
  if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace saccade
