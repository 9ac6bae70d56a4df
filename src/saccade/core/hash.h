// SHA-256, the one hash of Saccade: content identity of images, fingerprints of checkpoints, hashes in runs.
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

// Feed bytes, then take the digest once. Not for use by several threads at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  // 64 lower-case hexadecimal digits.
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
// Returns the hash of a file, read in blocks, so memory is constant.
Result<std::string> sha256_file(const std::filesystem::path& path);

}  // namespace saccade
