// Fingerprint of a checkpoint: SHA-256 over the hashes and names of the files that affect the encoder's
// output. Hashes are cached, because reading gigabytes is most of the cost of loading.
//
// The cache has one file per checkpoint folder, named by the SHA-256 of the folder's path. It may be deleted
// at any time:
//
//   {"folder": PATH, "files": {"model.safetensors": {"stamp": "SIZE MTIME CTIME INODE DEVICE",
//                                                    "sha256": HEX}, ...}}
//
// A cached hash is valid as long as the file has the stamp (core/files/file_stamp.h) under which it was read.
#pragma once

#include <filesystem>
#include <string>

#include "saccade/core/error.h"

namespace saccade {

struct Checkpoint;

struct FingerprintMemory {
  // Folder of the cache. If it is empty, or cannot be read or written, nothing is cached and every byte is
  // read.
  std::filesystem::path folder = {};
  // Flag to use cached hashes. If false, every byte is read, and the cache is updated.
  bool trusted = true;
};

// Returns the user's own cache: fingerprints in user_cache_folder(); empty if there is no such folder.
FingerprintMemory user_fingerprint_memory();

// Returns the fingerprint of an opened checkpoint, or of a folder (with the errors of open_checkpoint).
// Returns kIo if a file cannot be read. Cost: reads every file once, unless its hash is cached.
Result<std::string> checkpoint_fingerprint(const Checkpoint& checkpoint,
                                           const FingerprintMemory& memory = {});
Result<std::string> checkpoint_fingerprint(const std::filesystem::path& folder,
                                           const FingerprintMemory& memory = {});

}  // namespace saccade
