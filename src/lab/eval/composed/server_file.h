// Answers to queries whose targets are kept back, as their servers take them.
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

#include "saccade/core/error.h"
#include "lab/eval/composed/composed_figures.h"
#include "lab/eval/composed/composed_task.h"

namespace saccade::lab {

inline constexpr int64_t kServerDepth = 50;
inline constexpr int64_t kServerSubset = 3;
inline constexpr int64_t kServerBytes = 5'000'000;

struct ServerFile {
  std::string metric;  // "recall", "recall_subset"; of CIRCO "map"
  std::string text;    // JSON
};

// The files of a dataset's layout, each checked. answers: as rank_composed gives them with a depth of
// kServerDepth. kUsage for a layout without a server, and where each text was asked alone.
Result<std::vector<ServerFile>> server_files(const ComposedTask& task,
                                             std::span<const ComposedAnswer> answers);

// kBadData names what a server would refuse: another version or metric, a query that is missing, unknown or
// there twice, a list of another length, a picture that is unknown, there twice, the reference or outside
// of the subset, too many bytes.
Status check_server_file(const ComposedTask& task, std::string_view metric, std::string_view text);

}  // namespace saccade::lab
