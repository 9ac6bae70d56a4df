// The manifest, Saccade's own dataset format: JSON Lines, one item per line. docs/datasets.md describes every
// field.
//
//   {"image": "birds/1.jpg", "captions": ["two birds on a branch"], "id": "b1", "source": "stamps",
//    "licence": "CC0-1.0", "group": "birds-1", "split": "train"}
//
// `image` is required: a path, relative to the manifest's folder unless absolute, or a member of an archive,
// {"path": "shards/0.tar", "member": "17.jpg", "offset": 1536, "size": 40321}. `captions` is an array of
// strings (or one string) and may be empty or missing. The rest are strings, empty if missing; a missing `id`
// is the image's name. An item of a test of composition has `images` (one or two), two captions and a `kind`.
// A rated text has
//
//   {"text": "two birds on a branch", "visual": true, "ratings": [7, 6, 7], "image": "birds/1.jpg"}
//
// `text` and `visual` are required (null: ambiguous), and the others may be missing. All lines of a manifest
// are of one kind.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lab/data/dataset.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// Parses a manifest's text; relative images are taken from `folder`. Errors name the line and field. Unknown
// fields are ignored; a repeated id is an error. Only items of the three kinds are filled in.
Result<Dataset> parse_manifest(std::string_view text, const std::filesystem::path& folder);

// Formats the manifest of a dataset, for a file in `folder`. Images below it get relative paths, others
// absolute ones. Reading it gives the same items. `more`: empty, or one object per item whose fields are
// added to its line. Returns kBadData for a name or caption that is not UTF-8, which JSON cannot represent.
Result<std::string> format_manifest(const Dataset& dataset, const std::filesystem::path& folder,
                                    std::span<const Json> more = {});

}  // namespace saccade::lab
