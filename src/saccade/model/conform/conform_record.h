// Record of conformance results (conform.h): the checkpoints that have reproduced their reference's outputs,
// by fingerprint.
//
// Each fingerprint has one file, FINGERPRINT.json in saccade/conformance of XDG_STATE_HOME (default:
// ~/.local/state). It is not kept beside the weights, because their folder may be shared, read-only, or in a
// hub's cache.
//   {"fingerprint": HEX, "stamps": [HEX, ...],
//    "results": [{"precision": "fp32", "reference": HEX, "answers": 8, "max_abs": 2e-06,
//                "program": "0.1.0"}, ...]}
// A stamp is derived from file metadata, without reading the files; "reference" is the SHA-256 of the
// reference's outputs.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/conform/conform.h"

namespace saccade {

struct ConformanceResult {
  std::string precision;
  std::string reference;
  int64_t answers = 0;
  double max_abs = 0;   // the largest difference of any answer
  std::string program;  // the version that compared
};

struct ConformanceRecord {
  std::string fingerprint;
  std::vector<std::string> stamps;
  std::vector<ConformanceResult> results;
};

// Returns the SHA-256 over the files' paths, sizes and modification times, which is equal while nobody
// touches them. Empty if a file cannot be examined.
std::string files_stamp(std::span<const std::filesystem::path> files);

// Records a successful report. A failed one deletes the record of the same precision and reference. `files`
// are the checkpoint's, `reference` is the file compared with, `program` is this program's version.
Status remember_conformance(const ConformReport& report, std::span<const std::filesystem::path> files,
                            const std::filesystem::path& reference, std::string_view program);

// Converts to the record's "results", in the format of the files.
Json conformance_json(const ConformanceRecord& record);

// Returns the record of one checkpoint; without results if there is no record or it cannot be read.
ConformanceRecord conformance_of(const std::string& fingerprint);
// Returns all records, by each of their stamps.
std::map<std::string, ConformanceRecord> conformance_by_stamp();

}  // namespace saccade
