#include "saccade/nn/linear/onednn.h"

#include <cstddef>
#include <new>
#include <sys/mman.h>

namespace saccade::nn {

CompileMemory::CompileMemory() {
  // Room for all kernels of one primitive, at most 256 KiB each, and for those of other threads meanwhile.
  constexpr size_t kCode = size_t{16} << 20;
  void* room =
      ::mmap(nullptr, kCode, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  ::munmap(room, kCode);
}

}  // namespace saccade::nn
