// Small pictures kept on disk, within a bound: what was not asked for the longest goes first.
//
//   FOLDER/ab/cd....webp   by the key's digits; the ending is the type
//
// Everything may be deleted at any time. Several servers may share a folder;
// each then keeps to its own bound.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "saccade/collection/small_picture.h"
#include "saccade/core/error.h"

namespace saccade::serve {

// Thread-safe.
class Thumbnails {
 public:
  // Makes the folder, and looks through what is in it. kIo.
  static Result<std::unique_ptr<Thumbnails>> open(const std::filesystem::path& folder, int64_t bytes);

  // Under that key, of hexadecimal digits (SHA-256).
  [[nodiscard]] std::optional<SmallPicture> find(std::string_view key);
  // Stores a thumbnail. If writing fails, it is not stored.
  void keep(std::string_view key, const SmallPicture& picture);
  [[nodiscard]] int64_t bytes() const;

 private:
  Thumbnails(std::filesystem::path folder, int64_t bytes) : folder_(std::move(folder)), most_(bytes) {}
  [[nodiscard]] std::filesystem::path path_of(std::string_view key, std::string_view ending) const;
  // To nine tenths of the bound, where it is passed.
  void make_room();

  const std::filesystem::path folder_;
  const int64_t most_;
  mutable std::mutex mutex_;
  int64_t bytes_ = 0;  // of the files, as far as this server knows
};

}  // namespace saccade::serve
