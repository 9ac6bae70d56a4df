// Who may ask: keys, from a file.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::serve {

class Keys {
 public:
  // No key is asked for.
  Keys() = default;
  // One key a line; empty lines and those that begin with # are left out. kUsage for a file that others than
  // its owner may read or that holds no key, and for a key of fewer than 16 characters.
  static Result<Keys> read(const std::filesystem::path& file);

  [[nodiscard]] bool asked_for() const { return !digests_.empty(); }
  // Takes as long for any key, right or wrong: digests are compared, each to its end, and all of them.
  [[nodiscard]] bool has(std::string_view key) const;

 private:
  std::vector<std::array<std::byte, 32>> digests_;  // SHA-256
};

}  // namespace saccade::serve
