// File systems that come and go: tells files that were deleted from those whose file system is not mounted. Not for
// use outside this module.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "saccade/collection/catalog/catalog.h"

namespace saccade {

// A device that the catalog has for a folder, and the one where the folder is now.
using DeviceChange = std::pair<int64_t, int64_t>;

// Remembers the devices of folders for one run. From one thread.
class Mounts {
 public:
  // Notes that an unchanged file, whose folder was on device `recorded`, is there with its folder on device `now`.
  // A file system may get another number when it is mounted again, or be copied to another device.
  void note_unchanged(int64_t recorded, int64_t now);
  // Number of unchanged files that were noted so.
  [[nodiscard]] int64_t unchanged_across(const DeviceChange& change) const;

  struct Lost {
    std::string folder;  // nearest folder above the file that is there; empty if it is where it was
    DeviceChange change;
  };
  // Returns the folder above the gone file of `item` that lies on another device than the file's folder did. Empty
  // where nothing is recorded. Cost: one stat() per folder and run.
  Lost lost_below(const Item& item);

 private:
  struct Folder {
    std::string path;  // the folder itself, or the nearest above it that is there
    int64_t device = 0;
  };
  const Folder& nearest(const std::string& path);

  std::map<DeviceChange, int64_t> unchanged_;
  std::unordered_map<std::string, Folder> folders_;
};

}  // namespace saccade
