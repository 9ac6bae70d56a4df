// Captions for indexing, given as a list beside the images: JSON Lines, one image a line.
//
//   {"image": "birds/1.jpg", "captions": ["two birds on a branch"]}
//
// `image` is a path, relative to the list's folder unless absolute. `captions` (or `caption`) is an array of strings, one
// string, or missing. Other fields are ignored, so the manifest of a dataset (docs/datasets.md) is such a list.
// `saccade-lab dataset captions` writes one for datasets of every other layout.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "saccade/core/error.h"

namespace saccade {

// Image path -> caption. Several captions of one image are joined by "; ".
using CaptionList = std::map<std::string, std::string>;

// Parses a list. Lines whose image lies in an archive are skipped: such images are not indexed by their path. kBadData
// names the line and the field at fault. Cost: linear in the text.
Result<CaptionList> parse_caption_list(std::string_view text, const std::filesystem::path& folder);

// Reads and parses a list of at most 4 GiB. Errors: as above and those of reading the file.
Result<CaptionList> read_caption_list(const std::filesystem::path& file);

// Formats one line of a list, with its line end.
std::string caption_list_line(const std::filesystem::path& image, std::span<const std::string> captions);

}  // namespace saccade
