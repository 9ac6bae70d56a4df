// Location of the encoder that a dependent checkpoint (a head, a composer, an editor) names by its
// fingerprint and last path.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/checkpoints/fingerprint.h"

namespace saccade {

struct EncoderId {
  std::string name;
  std::string family;
  std::string fingerprint;
  std::string path;  // absolute, or relative to the small checkpoint's folder
};
// Parses {"name", "family", "fingerprint"}, without the path; kBadData names the field.
Result<EncoderId> encoder_id_from_json(const Json& json);
Json encoder_id_json(const EncoderId& id);

// Opens the checkpoint that `id` names, by frozen.json in `folder`, the starter, or the hub's cache. `what`:
// "head", for messages. check: compares its fingerprint. Returns kMismatch for another encoder, kNotFound if
// none is found, and kBadData for one that is itself a dependent checkpoint.
Result<Checkpoint> open_named_encoder(EncoderId id, const std::filesystem::path& folder,
                                      std::string_view what, const FingerprintMemory& memory, bool check);

}  // namespace saccade
