// Identity of a loaded checkpoint, as stored in collections and runs.
#pragma once

#include <cstdint>
#include <string>

namespace saccade {

// Checkpoint of the encoder that produced some embeddings. Only the fingerprint is compared; name and path
// are for people.
struct CheckpointId {
  std::string name;
  std::string path;         // location when the embeddings were computed
  std::string fingerprint;  // SHA-256, 64 hexadecimal digits
  int64_t dim = 0;          // columns of a row
};

}  // namespace saccade
