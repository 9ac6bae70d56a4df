// SHA-256, the only hash function of Saccade: image identity, checkpoint fingerprints, hashes in runs.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "saccade/core/error.h"

namespace saccade {

// Incremental hash: feed bytes, then take the digest once. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  // Returns 64 lower-case hexadecimal digits.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the hash of bytes in memory.
std::string sha256_hex(std::span<const std::byte> bytes);
inline std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}
// Returns the bytes of pairs of hexadecimal digits in lower case, as above.
std::string bytes_of_hex(std::string_view hex);
// Returns the hash of a file, read in blocks, so memory is constant.
Result<std::string> sha256_file(const std::filesystem::path& path);

}  // namespace saccade
