#include "saccade/nn/weights/zip_archive.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace saccade {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kEndBytes = 22;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kDirectoryEntryBytes = 46;
constexpr size_t kLocalHeaderBytes = 30;
constexpr uint64_t kMaxEntries = 200'000;  // a large checkpoint has some thousand
constexpr uint32_t kInExtraField = 0xFFFFFFFF;

// The caller has checked that offset + sizeof(T) lies within.
template <typename T>
T number_at(Bytes bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

bool has_mark(Bytes bytes, size_t offset, char third, char fourth) {
  const char mark[4] = {'P', 'K', third, fourth};
  return offset <= bytes.size() && bytes.size() - offset >= 4 &&
         std::memcmp(bytes.data() + offset, mark, 4) == 0;
}

struct Directory {
  uint64_t entries = 0;
  uint64_t size = 0;
  uint64_t offset = 0;
  size_t end = 0;  // end of the directory
};

Result<Directory> find_directory(Bytes bytes) {
  if (bytes.size() < kEndBytes)
    return fail(ErrorCode::kBadData, "{} bytes, too few for a zip file", bytes.size());
  const size_t last = bytes.size() - kEndBytes;
  const size_t first = last > 0xFFFF ? last - 0xFFFF : 0;
  for (size_t at = last + 1; at-- > first;) {
    if (!has_mark(bytes, at, 5, 6) || number_at<uint16_t>(bytes, at + 20) != last - at) continue;
    Directory found{.entries = number_at<uint16_t>(bytes, at + 10),
                    .size = number_at<uint32_t>(bytes, at + 12),
                    .offset = number_at<uint32_t>(bytes, at + 16),
                    .end = at};
    if (at >= kLocatorBytes && has_mark(bytes, at - kLocatorBytes, 6, 7)) {
      const auto end64 = number_at<uint64_t>(bytes, at - kLocatorBytes + 8);
      if (end64 > at - kLocatorBytes || at - kLocatorBytes - end64 < kEnd64Bytes ||
          !has_mark(bytes, end64, 6, 6)) {
        return fail(ErrorCode::kBadData, "zip64 end record at byte {}: not there", end64);
      }
      found = {.entries = number_at<uint64_t>(bytes, end64 + 32),
               .size = number_at<uint64_t>(bytes, end64 + 40),
               .offset = number_at<uint64_t>(bytes, end64 + 48),
               .end = end64};
    }
    if (found.offset > found.end || found.size > found.end - found.offset) {
      return fail(ErrorCode::kBadData, "zip directory of {} bytes at byte {} of {}", found.size, found.offset,
                  found.end);
    }
    if (found.entries > found.size / kDirectoryEntryBytes) {
      return fail(ErrorCode::kBadData, "zip directory of {} bytes for {} entries", found.size, found.entries);
    }
    if (found.entries > kMaxEntries) {
      return fail(ErrorCode::kLimit, "zip directory of {} entries, limit {}", found.entries, kMaxEntries);
    }
    return found;
  }
  return fail(ErrorCode::kBadData, "not a zip file, or cut off: no end record");
}

struct Placed {
  std::string name;
  uint64_t packed = 0;
  uint64_t size = 0;
  uint64_t header = 0;  // offset of the local header
  uint16_t method = 0;
  uint16_t flags = 0;
};

// Replaces the values that the extra field of kind 1 holds.
Status read_zip64(Bytes extra, Placed& entry) {
  while (extra.size() >= 4) {
    const auto kind = number_at<uint16_t>(extra, 0);
    const auto length = number_at<uint16_t>(extra, 2);
    if (length > extra.size() - 4) break;
    Bytes field = extra.subspan(4, length);
    extra = extra.subspan(4 + length);
    if (kind != 1) continue;
    for (uint64_t* value : {&entry.size, &entry.packed, &entry.header}) {
      if (*value != kInExtraField) continue;
      if (field.size() < 8) break;
      *value = number_at<uint64_t>(field, 0);
      field = field.subspan(8);
    }
  }
  for (const uint64_t value : {entry.size, entry.packed, entry.header}) {
    if (value == kInExtraField)
      return fail(ErrorCode::kBadData, "entry {}: zip64 numbers are missing", entry.name);
  }
  return {};
}

// Removes the first entry of `directory` and returns it.
Result<Placed> next_entry(Bytes& directory) {
  if (directory.size() < kDirectoryEntryBytes || !has_mark(directory, 0, 1, 2)) {
    return fail(ErrorCode::kBadData, "zip directory: no entry {} bytes before its end", directory.size());
  }
  const size_t name = number_at<uint16_t>(directory, 28);
  const size_t extra = number_at<uint16_t>(directory, 30);
  const size_t comment = number_at<uint16_t>(directory, 32);
  if (name + extra + comment > directory.size() - kDirectoryEntryBytes) {
    return fail(ErrorCode::kBadData, "zip directory: an entry of {} bytes, {} before its end",
                kDirectoryEntryBytes + name + extra + comment, directory.size());
  }
  Placed entry{.name = {reinterpret_cast<const char*>(directory.data()) + kDirectoryEntryBytes, name},
               .packed = number_at<uint32_t>(directory, 20),
               .size = number_at<uint32_t>(directory, 24),
               .header = number_at<uint32_t>(directory, 42),
               .method = number_at<uint16_t>(directory, 10),
               .flags = number_at<uint16_t>(directory, 8)};
  SACCADE_TRY(read_zip64(directory.subspan(kDirectoryEntryBytes + name, extra), entry));
  directory = directory.subspan(kDirectoryEntryBytes + name + extra + comment);
  return entry;
}

// Returns the entry's packed bytes, which end before `limit`.
Result<Bytes> locate(Bytes bytes, const Placed& entry, uint64_t limit) {
  if (entry.header > limit || limit - entry.header < kLocalHeaderBytes ||
      !has_mark(bytes, entry.header, 3, 4)) {
    return fail(ErrorCode::kBadData, "entry {}: no local header at byte {}", entry.name, entry.header);
  }
  const uint64_t names =
      uint64_t{number_at<uint16_t>(bytes, entry.header + 26)} + number_at<uint16_t>(bytes, entry.header + 28);
  const uint64_t room = limit - entry.header - kLocalHeaderBytes;
  if (names > room || entry.packed > room - names) {
    return fail(ErrorCode::kBadData, "entry {} of {} bytes at byte {} goes past the directory at byte {}",
                entry.name, entry.packed, entry.header, limit);
  }
  return bytes.subspan(entry.header + kLocalHeaderBytes + names, entry.packed);
}

}  // namespace

Result<ZipArchive> ZipArchive::open(Bytes bytes) {
  SACCADE_ASSIGN(const Directory directory, find_directory(bytes));
  Bytes rest = bytes.subspan(directory.offset, directory.size);
  ZipArchive archive;
  struct Range {
    uint64_t begin, end;
    const std::string* name;
  };
  std::vector<Range> ranges;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    SACCADE_ASSIGN(const Placed entry, next_entry(rest));
    SACCADE_ASSIGN(const Bytes data, locate(bytes, entry, directory.offset));
    if (entry.method == 0 && entry.packed != entry.size) {
      return fail(ErrorCode::kBadData, "entry {}: stored, yet {} bytes are kept as {}", entry.name,
                  entry.size, entry.packed);
    }
    const auto [at, added] =
        archive.entries_.emplace(entry.name, Entry{data, entry.method, (entry.flags & 1) != 0});
    if (!added) return fail(ErrorCode::kBadData, "two entries named {}", entry.name);
    ranges.push_back(
        {entry.header, static_cast<uint64_t>(data.data() - bytes.data()) + data.size(), &at->first});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[i - 1].end) {
      return fail(ErrorCode::kBadData, "entry {} begins at byte {}, before {} ends at byte {}",
                  *ranges[i].name, ranges[i].begin, *ranges[i - 1].name, ranges[i - 1].end);
    }
  }
  return archive;
}

Result<Bytes> ZipArchive::stored(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return fail(ErrorCode::kNotFound, "no entry {}", name);
  if (found->second.encrypted) return fail(ErrorCode::kUnsupported, "entry {} is encrypted", name);
  if (found->second.method != 0) {
    return fail(ErrorCode::kUnsupported, "entry {} is compressed (method {}), expected stored bytes", name,
                found->second.method);
  }
  return found->second.data;
}

std::vector<std::string> ZipArchive::names_ending(std::string_view suffix) const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) {
    if (name.ends_with(suffix)) names.push_back(name);
  }
  return names;
}

}  // namespace saccade
