// Changes below a set of folders, reported by inotify. Not for use outside this module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "saccade/collection/catalog/descriptor.h"
#include "saccade/core/error.h"

struct inotify_event;

namespace saccade {

// Changes since the last call.
struct FolderChanges {
  std::set<std::string> files;    // written, moved here or touched: pictures by their names, or not
  std::set<std::string> folders;  // new here, or with a file in them that says something of others
  std::set<std::string> gone;     // files and folders that were moved away or deleted
  bool overflow = false;          // more than the kernel had room for: anything may have happened
  [[nodiscard]] bool empty() const { return files.empty() && folders.empty() && gone.empty() && !overflow; }
};

class FolderEvents {
 public:
  // kIo where the kernel gives no more of them.
  static Result<FolderEvents> open(int64_t most_watches, bool hidden, std::filesystem::path except);

  // Watches a folder and all below it (links to folders are not followed). False where not all of them could
  // be: the kernel's table, or `most_watches`, is full.
  bool add(const std::string& folder);
  // Reads what waits, without waiting for it; new folders are watched before they are told of.
  Status read(FolderChanges& changes);
  // To wait for: readable when there is something to read.
  [[nodiscard]] int descriptor() const { return events_.get(); }
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] int64_t watches() const { return static_cast<int64_t>(folders_.size()); }

 private:
  FolderEvents(Descriptor events, int64_t most, bool hidden, std::string except)
      : events_(std::move(events)), most_(most), hidden_(hidden), except_(std::move(except)) {}
  bool add_one(const std::string& folder);
  // Returns true if the watch is of the folder that has this name now. Another one that has it is watched from then on.
  bool is_of(int watch, const std::string& folder);
  void take(const inotify_event& event, const char* name, FolderChanges& changes);

  Descriptor events_;
  int64_t most_;
  bool hidden_;
  std::string except_;
  bool complete_ = true;
  std::unordered_map<int, std::string> folders_;  // by watch
};

}  // namespace saccade
