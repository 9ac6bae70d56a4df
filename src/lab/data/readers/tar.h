// Tar archive reader: ustar, GNU (long names, sizes in base 256) and pax (path, size).
//
// A member is a header of 512 bytes and its content, padded to 512; two blocks of zeros end the archive
// (POSIX.1-2017, pax). The header: name at 0 (100 bytes), size at 124 (12, octal), checksum at 148 (8), type
// at 156, magic at 257 (6), prefix of the name at 345 (155).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "saccade/core/error.h"

namespace saccade::lab::data {

struct TarMember {
  std::string name;
  int64_t offset = 0;  // offset of its content in the archive
  int64_t size = 0;
};

// Fills `out` with the archive's bytes from `offset` on.
using ReadArchive = std::function<Status(int64_t offset, std::span<char> out)>;

// Calls member() for each regular file of an archive of `size` bytes, in order; folders, links and devices
// are skipped. Errors: those of `read`; kUnsupported for compressed archives and sparse files. kBadData, with
// the byte, for a header with a wrong checksum, a member that extends past the archive's end, and an archive
// without its end mark (it was truncated). Memory: names only.
Status for_each_tar_member(int64_t size, const ReadArchive& read,
                           const std::function<Status(const TarMember& member)>& member);
// Does the same for an archive in memory.
Status for_each_tar_member(std::span<const std::byte> archive,
                           const std::function<Status(const TarMember& member)>& member);

}  // namespace saccade::lab::data
