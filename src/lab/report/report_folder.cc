#include "lab/report/report_folder.h"

#include <algorithm>

#include <fmt/format.h>

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
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    ++number;
    if (end > at) {
      SACCADE_ASSIGN(Json line, parse_json(std::string_view(text).substr(at, end - at))
                                    .in(fmt::format("{}: line {}", lines.string(), number)));
      result.evaluations.push_back(std::move(line));
    }
    at = end + 1;
  }
  return result;
}

}  // namespace saccade::lab
