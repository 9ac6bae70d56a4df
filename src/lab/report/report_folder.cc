#include "lab/report/report_folder.h"

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"

namespace saccade::lab {

Result<ReportFolder> read_report_folder(const std::filesystem::path& folder) {
  ReportFolder result;
  result.folder = folder;
  std::error_code error;
  const std::filesystem::path lines = folder / "metrics.jsonl";
  if (!std::filesystem::exists(lines, error)) {
    SACCADE_ASSIGN(result.run, read_run(folder));
    return result;
  }
  SACCADE_ASSIGN(const std::string text, read_file(lines));
  int64_t number = 0;
  for (const std::string_view line : Lines(text)) {
    ++number;
    if (line.empty()) continue;
    SACCADE_ASSIGN(result.evaluations.emplace_back(),
                   parse_json(line).in(fmt::format("{}: line {}", lines.string(), number)));
  }
  return result;
}

Result<ReportInputs> read_report_inputs(std::span<const std::string> folders) {
  ReportInputs inputs;
  for (const std::string& folder : folders) {
    if (!is_study(folder)) {
      SACCADE_ASSIGN(inputs.folders.emplace_back(), read_report_folder(folder));
      continue;
    }
    if (inputs.leaderboard) return fail(ErrorCode::kUsage, "{}: a report shows one study", folder);
    SACCADE_ASSIGN(inputs.leaderboard, read_leaderboard(folder));
    for (Run& run : leaderboard_runs(*inputs.leaderboard, folder)) {
      ReportFolder& part = inputs.folders.emplace_back();
      part.folder = run.folder;
      part.run = std::move(run);
    }
  }
  return inputs;
}

}  // namespace saccade::lab
