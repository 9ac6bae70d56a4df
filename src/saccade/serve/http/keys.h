// API keys, loaded from a file.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::serve {

// Rights of a key; each includes those before it.
enum class Right {
  kNone,   // what everybody may
  kRead,   // search and encode
  kWrite,  // change collections
};

class Keys {
 public:
  // No key is asked for.
  Keys() = default;
  // Reads one key a line. The word "write" and a space before it permit changes of collections. Empty lines
  // and those that begin with # are skipped. kUsage for a file that others than its owner may read or that
  // holds no key, and for a key of fewer than 16 characters.
  static Result<Keys> read(const std::filesystem::path& file);

  [[nodiscard]] bool asked_for() const { return !known_.empty(); }
  // kWrite for anybody where no key is asked for. Takes as long for any key, right or wrong: digests are
  // compared, each to its end, and all of them.
  [[nodiscard]] Right right_of(std::string_view key) const;

 private:
  struct Known {
    std::array<std::byte, 32> digest;  // SHA-256
    Right right;
  };
  std::vector<Known> known_;
};

}  // namespace saccade::serve
