#include "ingest_report.h"

#include <fmt/format.h>

namespace saccade::app {

std::string report_text(const IngestReport& report, const std::string& collection) {
  std::string text = fmt::format("{}: {} seen in {}", one_line(collection), counted(report.seen, "file"),
                                 duration_text(report.seconds.total));
  if (report.seconds.total > 0 && report.added + report.updated > 0) {
    text += fmt::format(", {:.1f} pictures a second",
                        static_cast<double>(report.added + report.updated) / report.seconds.total);
  }
  text += "\n";
  const auto line = [&text](int64_t count, std::string_view what) {
    if (count > 0) text += fmt::format("  {:>9}  {}\n", count_text(count), what);
  };
  line(report.added,
       report.duplicates > 0
           ? fmt::format("added, {} of them with the bytes of another picture", count_text(report.duplicates))
           : "added");
  line(report.updated, "updated: the file had changed");
  line(report.moved, "found under another path");
  line(report.unchanged, "unchanged");
  line(report.removed, "removed: the file is gone");
  line(report.missing, "kept although the file is gone (--prune removes them)");
  line(report.skipped_failed, "skipped: failed before (--retry-failed tries again)");
  const auto list = [&](const std::vector<Failure>& failures, std::string_view what) {
    line(static_cast<int64_t>(failures.size()), what);
    for (const Failure& failure : failures)
      text += fmt::format("             {}: {}\n", one_line(failure.path), one_line(failure.reason));
  };
  list(report.unread_captions, "caption files not read, their pictures have none:");
  list(report.failed, "failed:");
  return text;
}

void warn_of_no_pictures(const IngestReport& report, std::string_view input, Messages& messages) {
  if (report.seen > 0 || !report.failed.empty() || report.cancelled) return;
  messages.warning(fmt::format("no pictures in {}: folders are searched for files with an image's ending",
                               one_line(input)));
}

}  // namespace saccade::app
