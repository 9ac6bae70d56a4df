// File systems that come and go: tells files that were deleted from those whose file system is not mounted. Not for
// use outside this module.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "saccade/collection/catalog/catalog.h"

namespace saccade {

// Remembers the devices of folders for one run. From one thread.
class Mounts {
 public:
  // Notes that an unchanged file, whose folder was on device `recorded`, is there with its folder on device `now`:
  // the kernel has given the file system another number, or the folder was copied to another one.
  void renumbered(int64_t recorded, int64_t now) { renumbered_.emplace(recorded, now); }

  // Returns the nearest folder above the gone file of `item` that is there, if it lies on another file system
  // than the file's folder did; empty otherwise, and where nothing is recorded. Cost: one stat() per folder and
  // run.
  std::string lost_below(const Item& item);

 private:
  struct Folder {
    std::string path;  // the folder itself, or the nearest above it that is there
    int64_t device = 0;
  };
  const Folder& nearest(const std::string& path);

  std::set<std::pair<int64_t, int64_t>> renumbered_;
  std::unordered_map<std::string, Folder> folders_;
};

}  // namespace saccade
