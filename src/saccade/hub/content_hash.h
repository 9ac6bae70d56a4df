// What a hub names a file's content by: SHA-256 for large files (those in Git LFS or its successors), git's
// own SHA-1 for small ones.
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
  kSha256,  // of the bytes: 64 hexadecimal digits
  kGit,     // SHA-1 of "blob SIZE\0" and the bytes, as git names a file's content: 40 digits
};

// Which of the two `text` is, by its length; kUnsupported if it is neither.
Result<HashKind> hash_kind(std::string_view text);

// Feed bytes, then take the digest once. Not for use by several threads at a time.
class ContentHash {
 public:
  // size: how many bytes there will be; part of git's hash.
  ContentHash(HashKind kind, int64_t size);
  ~ContentHash();
  ContentHash(ContentHash&&) noexcept;
  ContentHash& operator=(ContentHash&&) noexcept;

  void update(std::span<const std::byte> bytes);
  // Lower-case hexadecimal digits.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace saccade::hub
