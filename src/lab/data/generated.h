// Generated edits: images that stand for the targets of edit queries (pseudo-targets), and their queries.
// `saccade generate edits` writes them, training and `saccade eval edits` read them.
//
//   FOLDER/generated.jsonl   line 1: {"saccade": "generated edits", "version": 1,
//                                     "dataset": {"name", "hash"}, "engine": {"name", and its settings}}
//                            then one line per query: {"query", "gallery", "reference", "text", "file",
//                            "width", "height"}, or, if there is no image, ... "text", "error"}
//   FOLDER/pictures/         the files that it names, relative to its folder
//   FOLDER/quality.jsonl     if requested from `saccade eval edits`: {"query",
//                            "cosine", "rank"}, one line per query
//
// docs/datasets.md describes every field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/dataset.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::lab {

inline constexpr std::string_view kGeneratedFile = "generated.jsonl";
inline constexpr std::string_view kQualityFile = "quality.jsonl";

struct GeneratedEdit {
  std::string query;           // EditQuery::id
  std::string gallery;         // EditQuery::gallery
  std::string reference;       // EditQuery::reference
  std::string text;            // instruction for the engine
  std::filesystem::path file;  // relative to the list's folder; empty: there is no image
  int width = 0;               // width of the image in pixels
  int height = 0;
  std::string error;  // reason for a missing image; empty: not tried yet
  friend bool operator==(const GeneratedEdit&, const GeneratedEdit&) = default;
};

struct GeneratedEdits {
  std::string dataset;       // its name
  std::string dataset_hash;  // Dataset::hash
  Json engine;               // an object: "name" and all other settings that affect the images
  std::vector<GeneratedEdit> edits;
};

// Similarity of a generated image to its target, by an encoder.
struct GeneratedQuality {
  double cosine = 0;  // cosine similarity of image and target
  double rank = 0;    // rank of the target among the gallery's images; 1: the nearest
};

// Returns an engine's instruction: the texts, joined ("is red, and has no sleeves"). Empty if all are empty.
std::string edit_text(std::span<const std::string> texts);

// Formats the list. Returns kBadData for a name that is not UTF-8.
Result<std::string> format_generated_edits(const GeneratedEdits& generated);
// Reads a list, or the folder of one. The images are not opened. Errors: kBadData with the line for an
// invalid format, a repeated query, or a file outside the folder; kUnsupported for another version.
Result<GeneratedEdits> read_generated_edits(const std::filesystem::path& path);

// Write and read FOLDER/quality.jsonl; query -> quality. kNotFound names the command that writes it.
Status write_generated_quality(const std::filesystem::path& folder,
                               const std::map<std::string, GeneratedQuality>& quality);
Result<std::map<std::string, GeneratedQuality>> read_generated_quality(const std::filesystem::path& folder);

// The generated images of a dataset's queries.
struct PseudoTargets {
  std::vector<std::optional<ImageRef>> pictures;  // [EditQueries::items]; nullopt: no image
  int64_t there = 0;                              // number of queries with an image
  int64_t failed = 0;                             // number that the engine failed to make
  int64_t absent = 0;                             // number missing in the list
  int64_t below = 0;                              // number below min_cosine, or without a known quality
};
struct PseudoTargetOptions {
  // Minimum cosine similarity with the true target; other images are not used (quality.jsonl).
  std::optional<double> min_cosine;
};
// Reads pseudo-targets. `path`: that of read_generated_edits. Queries of the list that the dataset lacks are
// skipped, since it may be another split. Errors: kUsage for a dataset of another kind; kMismatch for a query with another reference or gallery in
// the dataset; kUsage if no query has an image.
Result<PseudoTargets> read_pseudo_targets(const std::filesystem::path& path, const Dataset& dataset,
                                          const PseudoTargetOptions& options = {});

}  // namespace saccade::lab
