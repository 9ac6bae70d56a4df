// What was generated for edit queries: pictures that stand for their targets (pseudo-targets), and which
// query each belongs to. `saccade generate edits` writes it, training and `saccade eval edits` read it.
//
//   FOLDER/generated.jsonl   line 1: {"saccade": "generated edits", "version": 1,
//                                     "dataset": {"name", "hash"}, "engine": {"name", and its settings}}
//                            then a line a query: {"query", "gallery", "reference", "text", "file", "width",
//                            "height"}, or, where there is no picture, ... "text", "error"}
//   FOLDER/pictures/         the files that it names, relative to its folder
//   FOLDER/quality.jsonl     where `saccade eval edits` was asked for it: {"query",
//                            "cosine", "rank"}, a line a query
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

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "lab/data/dataset.h"

namespace saccade::lab {

inline constexpr std::string_view kGeneratedFile = "generated.jsonl";
inline constexpr std::string_view kQualityFile = "quality.jsonl";

struct GeneratedEdit {
  std::string query;           // EditQuery::id
  std::string gallery;         // EditQuery::gallery
  std::string reference;       // EditQuery::reference
  std::string text;            // what the engine was told
  std::filesystem::path file;  // relative to the list's folder; empty: there is no picture
  int width = 0;               // of the picture, in pixels
  int height = 0;
  std::string error;  // why there is none; empty: nobody has tried
  friend bool operator==(const GeneratedEdit&, const GeneratedEdit&) = default;
};

struct GeneratedEdits {
  std::string dataset;       // its name
  std::string dataset_hash;  // Dataset::hash
  Json engine;               // an object: "name" and whatever else decides its pictures
  std::vector<GeneratedEdit> edits;
};

// How like its target a generated picture is, by an encoder.
struct GeneratedQuality {
  double cosine = 0;  // of the rows of picture and target
  double rank = 0;    // of the target among the gallery's pictures; 1: the nearest
};

// What an engine is told: the texts, said together ("is red, and has no sleeves"). Empty where all are.
std::string edit_text(std::span<const std::string> texts);

// The list's text. kBadData for a name that is not UTF-8.
Result<std::string> format_generated_edits(const GeneratedEdits& generated);
// A list, or the folder that has one. kBadData with the line for what is not of the format: a repeated query,
// a file outside the folder; kUnsupported for another version. The pictures are not opened.
Result<GeneratedEdits> read_generated_edits(const std::filesystem::path& path);

// FOLDER/quality.jsonl, written and read; query -> quality. kNotFound says which command writes it.
Status write_generated_quality(const std::filesystem::path& folder,
                               const std::map<std::string, GeneratedQuality>& quality);
Result<std::map<std::string, GeneratedQuality>> read_generated_quality(const std::filesystem::path& folder);

// The generated pictures of a dataset's queries.
struct PseudoTargets {
  std::vector<std::optional<ImageRef>> pictures;  // [Dataset::edits]; none: there is no picture
  int64_t there = 0;                              // queries with one
  int64_t failed = 0;                             // the engine gave none
  int64_t absent = 0;                             // not in the list
  int64_t below = 0;  // less like the target than asked for, or of no known quality
};
struct PseudoTargetOptions {
  // Only pictures whose cosine with the true target is at least this (quality.jsonl).
  std::optional<double> min_cosine;
};
// `path`: as of read_generated_edits. Queries of the list that the dataset lacks are passed over:
// it may be another split. kMismatch for a query that has another reference or gallery there;
// kUsage where no query has a picture.
Result<PseudoTargets> read_pseudo_targets(const std::filesystem::path& path, const Dataset& dataset,
                                          const PseudoTargetOptions& options = {});

}  // namespace saccade::lab
