// The manifest, a dataset as Saccade keeps it: JSON Lines,
// one item a line. docs/datasets.md describes every field.
//
//   {"image": "birds/1.jpg", "captions": ["two birds on a branch"], "id": "b1", "source": "stamps",
//    "licence": "CC0-1.0", "group": "birds-1", "split": "train"}
//
// `image` is required: a path, relative to the manifest's folder unless absolute, or a member of an archive,
// {"path": "shards/0.tar", "member": "17.jpg", "offset": 1536, "size": 40321}. `captions` is an array of
// strings (or one string) and may be empty or missing; the rest are strings, empty where missing, `id` being
// the image's name then. An item of a test of composition has `images` (one or two), two captions and a
// `kind`. A rated text has
//
//   {"text": "two birds on a branch", "visual": true, "ratings": [7, 6, 7], "image": "birds/1.jpg"}
//
// where `visual` is required (null: ambiguous), and all but `text` and it may be missing. All lines of a
// manifest are of one sort.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "lab/data/dataset.h"

namespace saccade::lab {

// A manifest's text; relative images are taken from `folder`. Errors name the line and field. Unknown fields
// are let pass, a repeated id is not. Only items of the three sorts are filled in.
Result<Dataset> parse_manifest(std::string_view text, const std::filesystem::path& folder);

// The manifest of a dataset, for a file in `folder`: pictures below it by their path from there, others by
// absolute paths. Reading it gives the same items. `more`: nothing, or an object an item, whose fields its
// line gets too. kBadData for a name or caption that is not UTF-8, which JSON cannot hold.
Result<std::string> format_manifest(const Dataset& dataset, const std::filesystem::path& folder,
                                    std::span<const Json> more = {});

}  // namespace saccade::lab
