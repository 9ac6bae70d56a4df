// What a checkpoint is known by, once it has been read: kept in collections and runs.
#pragma once

#include <cstdint>
#include <string>

namespace saccade {

// The checkpoint whose encoder made some rows. The fingerprint decides; name and path are for people.
struct CheckpointId {
  std::string name;
  std::string path;         // where it was when the rows were made
  std::string fingerprint;  // SHA-256, 64 hexadecimal digits
  int64_t dim = 0;          // columns of a row
};

}  // namespace saccade
