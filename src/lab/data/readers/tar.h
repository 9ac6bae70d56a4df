// What is where in a tar archive: ustar, GNU (long names, sizes in base 256) and pax (path, size).
//
// A member is a header of 512 bytes and its content, padded to 512; two blocks of zeros end the archive
// (POSIX.1-2017, pax). The header: name at 0 (100 bytes), size at 124 (12, octal), checksum at 148 (8),
// type at 156, magic at 257 (6), prefix of the name at 345 (155).
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
  int64_t offset = 0;  // of its content in the archive
  int64_t size = 0;
};

// Writes the archive's bytes from `offset` on to `out`, all of it.
using ReadArchive = std::function<Status(int64_t offset, std::span<char> out)>;

// Calls member() for each regular file of an archive of `size` bytes, in order; folders, links and devices
// are passed over. Errors: those of `read`; kBadData, with the byte, for a header whose checksum is wrong, a
// member that goes on past the archive's end, and an archive without its end mark (it was cut short);
// kUnsupported for compressed archives and sparse files. Memory: names only.
Status for_each_tar_member(int64_t size, const ReadArchive& read,
                           const std::function<Status(const TarMember& member)>& member);
// The same of an archive in memory.
Status for_each_tar_member(std::span<const std::byte> archive,
                           const std::function<Status(const TarMember& member)>& member);

}  // namespace saccade::lab::data
