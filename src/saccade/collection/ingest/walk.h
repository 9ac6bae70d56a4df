// Folder walk of ingest: selection of the files that are read.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/collection/ingest/ingest_options.h"
#include "saccade/core/error.h"

namespace saccade {

struct WalkOptions {
  bool follow_links = false;
  bool hidden = false;
  // A folder not to look into: the collection's own. Empty: none.
  std::filesystem::path except;
  // Settings as in IngestOptions.
  std::vector<std::string> exclude = {};
  bool ignore_files = true;
  bool sidecars = true;  // "picture.txt" and "picture.jpg.txt" belong to the picture
  bool videos = false;   // are taken too (WalkResult::videos)
};
// Returns the walk options of an ingest with such options; `except` is the collection's folder.
WalkOptions walk_options_of(const IngestOptions& options, const std::filesystem::path& except);

struct WalkResult {
  std::vector<std::string> files;    // pictures: catalog paths, each once, in the order found
  std::vector<std::string> videos;   // likewise
  std::vector<std::string> folders;  // the inputs that are folders, as catalog paths
  std::vector<std::string> missing;  // inputs that are not there, as catalog paths
  struct Unreadable {
    std::string path;
    Error error;
  };
  std::vector<Unreadable> unreadable;  // folders, and ignore files, that could not be read
  NotLookedAt not_looked_at;
};

// Returns true if an input does not exist: it is neither a file, a folder, nor a dangling link.
bool is_missing(const std::filesystem::path& path);

// Walks folders recursively, names sorted byte by byte, and returns files with an image's extension. Inputs
// that are files are returned whatever their name. If stopped, returns the files found so far.
WalkResult walk(std::span<const std::filesystem::path> inputs, const WalkOptions& options,
                std::stop_token stop, const std::function<void(int64_t found)>& progress);

// Returns true if a walk of `inputs` would reach this file or folder. It tests its name, its links, and the
// rules of the folders above it, without listing any folder. An input itself is always reached.
bool walk_would_take(const std::filesystem::path& path, std::span<const std::filesystem::path> inputs,
                     const WalkOptions& options);

// The first `most` files that a walk finds, or all where there are fewer.
std::vector<std::string> first_pictures(std::span<const std::filesystem::path> inputs, size_t most,
                                        const WalkOptions& options);

}  // namespace saccade
