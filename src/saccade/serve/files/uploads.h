// Files that clients sent: one folder for each collection, in it files named by the SHA-256 of their content.
//
//   FOLDER/COLLECTION/HASH.jpg                 an image that a client sent
//   FOLDER/COLLECTION/HASH.jpg.pending-OWNER   empty; there while the image is being added or removed
//
// OWNER is derived from the collection's folder. A server that is killed leaves a file with its mark. The
// next one removes the mark, and the file too unless an item names it. Files without a mark are never removed
// unless a client requests it. A user who restores an older catalog, or puts files of their own here, loses
// nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::serve {

// Thread-safe, but for two changes of the same file: callers hold the writer's lock of its collection.
class Uploads {
 public:
  // `most_bytes`: bound on the bytes of all files together; 0 is no bound.
  Uploads(std::filesystem::path folder, int64_t most_bytes) : folder_(std::move(folder)), most_(most_bytes) {}

  // Names a collection and the folder that it is in.
  struct Owner {
    std::string name;
    std::filesystem::path folder;
  };

  // Returns the path of a file of that name.
  [[nodiscard]] std::filesystem::path path_of(const Owner& owner, const std::string& name) const {
    return folder_ / owner.name / name;
  }
  // Marks and writes a file; settle() has to follow. Returns false, and changes nothing, if it is there already.
  // kLimit if there is no room for it; kIo.
  Result<bool> put(const Owner& owner, const std::filesystem::path& file, std::string_view bytes);
  // Returns true for a path in the collection's folder here.
  [[nodiscard]] bool contains(const Owner& owner, const std::filesystem::path& path) const;
  // Removes a file and frees its room; a file that is not there is no error. kIo.
  Status remove(const std::filesystem::path& file);
  // Marks a file that is about to be removed from its collection, if there is room for a mark.
  void mark(const Owner& owner, const std::filesystem::path& file) const;
  // Removes a file's mark, and the file unless it is `kept`. kIo.
  Status settle(const Owner& owner, const std::filesystem::path& file, bool kept);
  // Returns the files with a mark.
  [[nodiscard]] std::vector<std::filesystem::path> unfinished(const Owner& owner) const;
  // Removes what was half written of a file.
  void remove_pieces(const std::filesystem::path& file);

 private:
  // Takes room for a file of so many bytes, to be given back if it is not kept.
  Status take_room(int64_t bytes);
  void give_room(int64_t bytes);

  const std::filesystem::path folder_;
  const int64_t most_;
  std::mutex mutex_;
  std::optional<int64_t> taken_;  // bytes of all files, counted when first asked for
};

}  // namespace saccade::serve
