// ZIP archives with stored (uncompressed) entries, read in place from a mapping or any bytes. PyTorch keeps
// its tensors in them (ZIP64 included). Not a general reader: no compression, no encryption, one disk.
//
//   end of central directory, the file's last 22 bytes (+ comment), "PK\5\6":
//     10 u16 entries    12 u32 directory bytes    16 u32 directory offset    20 u16 comment bytes
//   ZIP64: 20 bytes before it, "PK\6\7": 8 u64 offset of "PK\6\6", where
//     32 u64 entries    40 u64 directory bytes    48 u64 directory offset
//   directory entry, 46 bytes, "PK\1\2", then name, extra fields, comment:
//     8 u16 flags    10 u16 method    20 u32 packed bytes    24 u32 bytes    28 u16 name    30 u16 extra
//     32 u16 comment    42 u32 local header offset; 0xFFFFFFFF: the number is in extra field 1, which has
//                       bytes, packed bytes and offset, each u64, as far as they are needed, in this order
//   local header, 30 bytes, "PK\3\4", then name, extra fields, data:
//     26 u16 name    28 u16 extra
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

// Archive that borrows its bytes. Immutable, so reading from many threads is safe.
class ZipArchive {
 public:
  // Reads the directory. Returns kBadData with the entry and number at fault for entries that lie outside the
  // bytes, overlap or share a name. Checksums are not verified, because that would read every byte. Cost: n
  // log n in the entries.
  static Result<ZipArchive> open(std::span<const std::byte> bytes);

  // Returns true if there is an entry of that name, including compressed ones.
  [[nodiscard]] bool contains(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  // Returns an entry's bytes; kNotFound, or kUnsupported if it is compressed or encrypted.
  [[nodiscard]] Result<std::span<const std::byte>> stored(std::string_view name) const;
  // Returns the names with that suffix, sorted.
  [[nodiscard]] std::vector<std::string> names_ending(std::string_view suffix) const;

 private:
  struct Entry {
    std::span<const std::byte> data;
    uint16_t method = 0;
    bool encrypted = false;
  };
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace saccade
