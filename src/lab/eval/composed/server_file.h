// Submission files for the servers of test splits with hidden targets.
//
//   CIRR   {"version": "rc2", "metric": "recall", "12063": ["test1-233-3-img1", ... 50]} {"version": "rc2",
//          "metric": "recall_subset", "12063": ["...", "...", "..."]}     at most 5 MB each
//   CIRCO  {"0": [544864, ... 50]}
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/composed/composed_figures.h"
#include "lab/eval/composed/composed_task.h"
#include "saccade/core/error.h"

namespace saccade::lab {

inline constexpr int64_t kServerDepth = 50;
inline constexpr int64_t kServerSubset = 3;
inline constexpr int64_t kServerBytes = 5'000'000;

struct ServerFile {
  std::string metric;  // "recall", "recall_subset"; of CIRCO "map"
  std::string text;    // JSON
};

// Makes the files of a dataset's layout and checks each. answers: those of rank_composed with a depth of
// kServerDepth. Returns kUsage for a layout without a server, and if each text was asked alone.
Result<std::vector<ServerFile>> server_files(const ComposedTask& task,
                                             std::span<const ComposedAnswer> answers);

// Checks a submission. kBadData names the reason why a server would refuse it: a wrong version or metric; a
// query that is missing, unknown or duplicated; a list of the wrong length; or too many bytes. It also
// refuses an image that is unknown, duplicated, the reference, or outside of the subset.
Status check_server_file(const ComposedTask& task, std::string_view metric, std::string_view text);

}  // namespace saccade::lab
