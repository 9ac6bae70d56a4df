// A dataset as Saccade keeps it: a JSON Lines manifest, one image a line.
//
//   {"image": "birds/1.jpg", "captions": ["two birds on a branch"], "id": "b1", "source": "stamps",
//    "licence": "CC0-1.0", "group": "birds-1", "split": "train"}
//
// `image` is required: a path, relative to the manifest's folder unless absolute. `captions` is an array of
// strings (or one string) and may be empty or missing; the rest are strings, empty where missing, `id` being
// the image's path then. Images of one group show the same thing: they must not fall on both sides of a
// split.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

struct DatasetItem {
  std::string id;
  std::filesystem::path image;  // absolute, or relative to the current folder
  std::vector<std::string> captions;
  std::string source;
  std::string licence;
  std::string group;
  std::string split;
};

struct Dataset {
  std::string name;  // the manifest's file name without its ending
  std::string hash;  // SHA-256 of the manifest
  std::vector<DatasetItem> items;
};

// Every line must be as above: errors name file, line and field. Unknown fields are let pass. Does not open
// images.
Result<Dataset> read_manifest(const std::filesystem::path& path);

// The same from text; relative images are taken from `folder`.
Result<Dataset> parse_manifest(std::string_view text, const std::filesystem::path& folder);

}  // namespace saccade
