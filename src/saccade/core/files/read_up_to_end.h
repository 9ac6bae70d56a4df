// Reading at an offset of an open file.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/types.h>
#include <unistd.h>

namespace saccade {

// Fills `bytes` from `offset` on; continues after short reads and EINTR. Returns the number of bytes read, which is less
// than asked for only at the end of the file, or -1 with errno.
inline int64_t read_up_to_end(int descriptor, std::span<std::byte> bytes, int64_t offset) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(descriptor, bytes.data() + done, bytes.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<int64_t>(done);
}

}  // namespace saccade
