// A folder that a report shows, and the options of its page.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/run/run.h"
#include "lab/eval/study/leaderboard.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/image/image_codec.h"

namespace saccade::lab {

// A folder shown on a page: an evaluation's run, or a training's.
struct ReportFolder {
  std::filesystem::path folder;
  std::optional<Run> run;         // set for an evaluation
  std::vector<Json> evaluations;  // set for a training: the lines of its metrics.jsonl
};
// Reads a folder. Returns kNotFound for a folder that holds neither; otherwise errors as read_run.
Result<ReportFolder> read_report_folder(const std::filesystem::path& folder);

// Contents of a report. A study's folder gives one folder per part, and its leaderboard.
struct ReportInputs {
  std::vector<ReportFolder> folders;
  std::optional<Leaderboard> leaderboard;
};
// Reads folders of runs, trainings and at most one study. Errors as read_report_folder and read_leaderboard; kUsage for two
// studies.
Result<ReportInputs> read_report_inputs(std::span<const std::string> folders);

struct RunPageOptions {
  std::string title = "Saccade: report";
  // Script that draws charts (made by tools/report/bundle.mjs). If empty, their data are shown as tables.
  std::string chart_script;
  int64_t examples = 4;        // best and worst queries shown, of each dataset, model and direction
  int64_t map_points = 1000;   // images and texts together on a map of each dataset and model; 0: no maps
  int thumbnail_side = 168;    // pixels: twice the displayed size, for high-resolution screens
  int64_t max_pictures = 600;  // maximum of thumbnails; the page says how many are missing
  int64_t max_picture_bytes = int64_t{6} << 20;  // maximum of their total size in the page
  const Leaderboard* leaderboard = nullptr;      // borrowed; shown first on the page of a study
  DecodeOptions limits;                          // limits for decoding the images, which are read in place
};

}  // namespace saccade::lab
