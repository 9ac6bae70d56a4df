// The fingerprint of a checkpoint: SHA-256 over the hashes and names of the files that decide what its
// encoder answers. What was read once is remembered, as reading gigabytes is most of what loading costs.
//
// What is remembered is a file a checkpoint's folder, named by the SHA-256 of the folder's path, in a folder
// that may be deleted at any time:
//
//   {"folder": PATH, "files": {"model.safetensors": {"stamp": "SIZE MTIME CTIME INODE DEVICE",
//                                                    "sha256": HEX}, ...}}
//
// A hash counts as long as the file's stamp (core/files/file_stamp.h) is the one it was read under.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "saccade/core/error.h"

namespace saccade {

struct Checkpoint;

struct FingerprintMemory {
  // Empty: nothing is remembered, every byte is read. A folder that cannot be read or written is the same.
  std::filesystem::path folder = {};
  // False: every byte is read, and what that gives is remembered.
  bool trusted = true;
};

// The user's own: fingerprints in user_cache_folder(); empty where there is none.
FingerprintMemory user_fingerprint_memory();

// Of an opened checkpoint, or of one by its folder (errors as open_checkpoint's). kIo where a file cannot be
// read. Cost: where it is not remembered, reads every file once.
Result<std::string> checkpoint_fingerprint(const Checkpoint& checkpoint,
                                           const FingerprintMemory& memory = {});
Result<std::string> checkpoint_fingerprint(const std::filesystem::path& folder,
                                           const FingerprintMemory& memory = {});

}  // namespace saccade
