// Keys and sentences of a run's files that were renamed once. Files from before are still read.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "saccade/core/json.h"

namespace saccade::lab {

struct RenamedKey {
  std::string_view now;
  std::string_view earlier;
};

// Keys that are never names of datasets, models or galleries, so that they can be renamed anywhere.
inline constexpr auto kRenamedKeys = std::to_array<RenamedKey>({
    {"images_sha256", "pictures_sha256"},
    {"significant", "told_apart"},
    {"null_image", "null_picture"},
    {"common_image", "common_picture"},
});

// The same, and keys that only a record can tell from names.
inline constexpr auto kRenamedFields = std::to_array<RenamedKey>({
    {"images_sha256", "pictures_sha256"},
    {"significant", "told_apart"},
    {"image", "picture"},
    {"images", "pictures"},
    {"sentence", "words"},
});

// Reasons of exclusions, which descriptions of trainings have as values and as keys.
inline constexpr auto kRenamedReasons = std::to_array<RenamedKey>({
    {"visual texts without an image", "visual texts without a picture"},
    {"visual texts whose image cannot be read", "visual texts whose picture cannot be read"},
    {"images of galleries that are not there", "pictures of galleries that are not there"},
    {"edit queries with an image that is not there", "edit queries with a picture that is not there"},
});

// Values of "objective" in descriptions of trainings.
inline constexpr auto kRenamedObjectives = std::to_array<RenamedKey>({
    {"symmetric InfoNCE; every text of an image is its positive",
     "symmetric InfoNCE; every text of a picture is its positive"},
    {"flow matching: the squared error of the velocity, per image",
     "flow matching: the squared error of the velocity, by the picture"},
    {"own-images", "own-pictures"},
    {"one-image", "one-picture"},
});

// The description of a protocol, in a protocol.
inline constexpr RenamedKey kProtocolDescription = {"description", "words"};

// Renames a member of an object, if it has one of the earlier name and none of the new one. The member keeps its place.
inline void use_current_key(Json& json, const RenamedKey& key) {
  if (!json.contains(std::string(key.earlier)) || json.contains(std::string(key.now))) return;
  Json renamed = Json::object();
  for (auto& [name, value] : json.items()) {
    renamed[name == key.earlier ? std::string(key.now) : name] = std::move(value);
  }
  json = std::move(renamed);
}

// Replaces a string that is the earlier one of a pair.
inline void use_current_text(Json& json, std::span<const RenamedKey> texts) {
  if (!json.is_string()) return;
  const auto found = std::ranges::find(texts, json.get_ref<const std::string&>(), &RenamedKey::earlier);
  if (found != texts.end()) json = std::string(found->now);
}

// Renames all of kRenamedKeys and kRenamedReasons in the JSON and in what it holds.
inline void use_current_keys(Json& json) {
  if (json.is_object()) {
    for (const RenamedKey& key : kRenamedKeys) use_current_key(json, key);
    for (const RenamedKey& reason : kRenamedReasons) use_current_key(json, reason);
  }
  use_current_text(json, kRenamedReasons);
  if (json.is_structured()) {
    for (Json& member : json) use_current_keys(member);
  }
}

}  // namespace saccade::lab
