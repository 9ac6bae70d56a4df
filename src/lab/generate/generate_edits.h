// Generates an image for every edit query of a dataset with an engine. Training uses them in place of the
// true targets.
//
// The folder's files are those of lab/data/generated.h. An image lies in pictures/, under the hash of
// everything that determines it: the reference's bytes, the text, the engine's settings, the seed. Existing
// images are never requested again. So whatever ends a run (Ctrl-C, a full disk, a bound, a kill), the same
// command resumes. Equal queries share one image.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/image/image_codec.h"
#include "saccade/imagegen/image_engine.h"
#include "saccade/progress.h"

namespace saccade::lab {

struct GenerateEditsOptions {
  std::filesystem::path folder;
  int64_t limit = 0;           // queries, the first of a shuffle by the seed; 0: all
  uint64_t seed = 1;           // seed of the images, and of that choice
  int64_t give_up_after = 20;  // maximum of consecutive failures; 0: unlimited
  bool replace_list =
      false;             // if the folder has a list of other settings or another dataset; its images stay
  DecodeOptions decode;  // limits for references and answers
  int64_t max_pixels = 64'000'000;  // limit for an answer
};

struct GenerateEditsReport {
  int64_t queries = 0;
  int64_t there = 0;     // had their image from an earlier run
  int64_t made = 0;      // images made by this one
  int64_t shared = 0;    // queries that equal another one
  int64_t failed = 0;    // queries without an image after all
  int64_t untried = 0;   // not come to
  int64_t requests = 0;  // number of requests to a remote engine
  int64_t bytes = 0;
  int64_t cut_texts = 0;
  double seconds = 0;
  std::vector<std::string> failures;  // the first ten: "query: why"
  std::string ended;                  // why it ended early; empty: it did not
  bool cancelled = false;             // ... because it was asked to
  std::filesystem::path list;
};
Json generate_edits_json(const GenerateEditsReport& report);

// Generates the images. Failures of the engine are not errors: they are in the report and in the list.
// Thread-safe for different folders. Errors: kUsage for a dataset of another kind, and for a folder with
// other files; kMismatch if its list has another dataset or other settings. kIo if an image cannot be
// written; finished images stay, and the list names them.
Result<GenerateEditsReport> generate_edits(const Dataset& dataset, PictureEngine& engine,
                                           const GenerateEditsOptions& options, ThreadPool& pool,
                                           const ProgressCallback& progress, const std::stop_token& stop);

}  // namespace saccade::lab
