#include "saccade/model/named_encoder.h"

#include <system_error>
#include <vector>

#include "saccade/model/architecture.h"
#include "saccade/model/checkpoints/locate.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Returns the candidate locations of the encoder's checkpoint, in order of preference.
std::vector<fs::path> places_of(const EncoderId& id, const fs::path& folder) {
  std::vector<fs::path> places = {id.path};
  if (fs::path(id.path).is_relative()) places.front() = folder / id.path;
  if (id.name == "starter") {
    if (const auto starter = starter_checkpoint()) places.push_back(*starter);
  }
  if (id.name.find('/') != std::string::npos) {
    if (const auto cached = find_checkpoint(id.name)) places.push_back(*cached);
  }
  return places;
}

// Returns the path in the folder's frozen.json; kBadData, kNotFound.
Result<std::string> frozen_path(const fs::path& folder) {
  const fs::path file = folder / "frozen.json";
  SACCADE_ASSIGN(const Json json, read_json(file));
  SACCADE_ASSIGN(const auto path, json_field<std::string>(json, "path").in(file.string()));
  return path;
}

}  // namespace

Result<EncoderId> encoder_id_from_json(const Json& json) {
  EncoderId id;
  SACCADE_ASSIGN(id.name, json_field<std::string>(json, "name"));
  SACCADE_ASSIGN(id.family, json_field<std::string>(json, "family"));
  SACCADE_ASSIGN(id.fingerprint, json_field<std::string>(json, "fingerprint"));
  return id;
}

Json encoder_id_json(const EncoderId& id) {
  return {{"name", id.name}, {"family", id.family}, {"fingerprint", id.fingerprint}};
}

Result<Checkpoint> open_named_encoder(EncoderId id, const fs::path& folder, std::string_view what,
                                      const FingerprintMemory& memory, bool check) {
  SACCADE_ASSIGN(id.path, frozen_path(folder));
  std::string other;
  for (const fs::path& place : places_of(id, folder)) {
    std::error_code ignored;
    if (!fs::is_directory(place, ignored)) continue;
    SACCADE_ASSIGN(Checkpoint frozen, open_checkpoint(place).in("the frozen encoder"));
    SACCADE_ASSIGN(const std::string type, model_type_of(frozen));
    if (type == "head" || type == "composer" || type == "editor") {
      return fail(ErrorCode::kBadData, "the frozen encoder in {} is a {} itself", place.string(), type);
    }
    if (!check) return frozen;
    SACCADE_ASSIGN(const std::string found, checkpoint_fingerprint(frozen, memory));
    if (found == id.fingerprint) return frozen;
    if (other.empty()) other = fmt::format("in {} is one with {}", place.string(), found.substr(0, 16));
  }
  const std::string wanted =
      fmt::format("{} ({}, fingerprint {})", id.name, id.family, id.fingerprint.substr(0, 16));
  const std::string file = (folder / "frozen.json").string();
  if (!other.empty()) {
    return fail(
        ErrorCode::kMismatch,
        "{} {} for another encoder: it was trained on {}, and {}; write the right one's folder into {}",
        what == "editor" ? "an" : "a", what, wanted, other, file);
  }
  return fail(ErrorCode::kNotFound,
              "the frozen encoder that the {} was trained on, {}, is not in {}; write its folder into {}",
              what, wanted, id.path, file);
}

}  // namespace saccade
