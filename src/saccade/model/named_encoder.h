// The encoder that a small checkpoint on top of it (a head, a composer, an editor) names: by its
// fingerprint, and where it was.
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
// {"name", "family", "fingerprint"}, without the path; kBadData names the field.
Result<EncoderId> encoder_id_from_json(const Json& json);
Json encoder_id_json(const EncoderId& id);

// The path of frozen.json in such a folder; kBadData, kNotFound.
Result<std::string> frozen_path(const std::filesystem::path& folder);

// The checkpoint that `id` names: where frozen.json in `folder` says, the starter, or the hub's cache.
// `what`: "head", for messages. check: its fingerprint is compared. kMismatch for another encoder, kNotFound
// for none, kBadData for one that is such a small checkpoint itself.
Result<Checkpoint> open_named_encoder(EncoderId id, const std::filesystem::path& folder,
                                      std::string_view what, const FingerprintMemory& memory, bool check);

}  // namespace saccade
