// Content hashes of a hub's files: SHA-256 for large files (in Git LFS or its successors), git's SHA-1 for
// small ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "saccade/core/error.h"

namespace saccade::hub {

enum class HashKind {
  kSha256,  // SHA-256 of the bytes: 64 hexadecimal digits
  kGit,     // SHA-1 of "blob SIZE\0" and the bytes, as git names a file's content: 40 digits
};

// Returns the kind of the hash `text`, by its length; kUnsupported if it is neither.
Result<HashKind> hash_kind(std::string_view text);

// Incremental hash: feed bytes, then take the digest once. Not thread-safe.
class ContentHash {
 public:
  // Begins a hash. size: total number of bytes, which is part of git's hash.
  ContentHash(HashKind kind, int64_t size);
  ~ContentHash();
  ContentHash(ContentHash&&) noexcept;
  ContentHash& operator=(ContentHash&&) noexcept;

  void update(std::span<const std::byte> bytes);
  // Returns lower-case hexadecimal digits.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace saccade::hub
