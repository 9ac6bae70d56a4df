#include "print/ingest_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/image/decode/raw.h"
#include "saccade/image/decode/video.h"
#include "saccade/image/frame_name.h"

#include "decoders.h"

namespace saccade::app {
namespace {

// Lists the kinds of skipped files, most frequent first; empty if there are none:
// "2,113 .cr2, 40 .mov, 12 other files, 40 folder links (--follow-links), 3 hidden (--hidden), the files of 1
// other collection (/home/me/photos/old)"
std::string not_looked_at_text(const NotLookedAt& passed) {
  constexpr size_t kShown = 8;
  std::vector<std::pair<int64_t, std::string>> endings;
  int64_t others = 0;
  for (const auto& [ending, count] : passed.endings) {
    if (ending.empty()) {
      others += count;
    } else {
      endings.emplace_back(count, ending);
    }
  }
  std::sort(endings.begin(), endings.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  for (size_t i = kShown; i < endings.size(); ++i) others += endings[i].first;
  if (endings.size() > kShown) endings.resize(kShown);
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  for (const auto& [count, ending] : endings) add(fmt::format("{} {}", count_text(count), one_line(ending)));
  const bool raw =
      std::ranges::any_of(passed.endings, [](const auto& one) { return has_raw_extension("x" + one.first); });
  if (raw && !reads_raw_files()) text += " (RAW photographs: this build has no LibRaw)";
  const bool videos = std::ranges::any_of(
      passed.endings, [](const auto& one) { return has_video_extension("x" + one.first); });
  if (videos && !find_video_tools()) text += fmt::format(" ({})", kNoVideoTools);
  if (others > 0) add(counted(others, "other file"));
  if (passed.folder_links > 0) add(counted(passed.folder_links, "folder link") + " (--follow-links)");
  if (passed.broken_links > 0) add(counted(passed.broken_links, "broken link"));
  if (passed.hidden > 0) add(count_text(passed.hidden) + " hidden (--hidden)");
  if (passed.excluded > 0) add(count_text(passed.excluded) + " excluded");
  if (!passed.collections.empty()) {
    std::vector<std::string> names;
    for (const std::string& folder : passed.collections) {
      if (names.size() < kShown) names.push_back(one_line(folder));
    }
    const auto more = static_cast<int64_t>(passed.collections.size() - names.size());
    add(fmt::format("the files of {} ({}{})",
                    counted(static_cast<int64_t>(passed.collections.size()), "other collection"),
                    fmt::join(names, ", "), more > 0 ? fmt::format(", and {} more", count_text(more)) : ""));
  }
  return text;
}

}  // namespace

std::string failure_text(const Failure& failure) {
  return fmt::format("{}: {}", one_line(failure.path), with_option_names(one_line(failure.reason)));
}

std::string report_text(const IngestReport& report, const IngestOptions& options,
                        const std::string& collection) {
  std::string text = fmt::format("{}: {} seen in {}", one_line(collection), counted(report.seen, "file"),
                                 duration_text(report.seconds.total));
  if (report.seconds.total > 0 && report.added + report.updated > 0) {
    text += fmt::format(", {:.1f} images a second",
                        static_cast<double>(report.added + report.updated) / report.seconds.total);
  }
  text += "\n";
  const auto line = [&text](int64_t count, std::string_view what) {
    if (count > 0) text += fmt::format("  {:>9}  {}\n", count_text(count), what);
  };
  line(report.added, report.duplicates > 0 ? fmt::format("added, {} of them with the bytes of another image",
                                                         count_text(report.duplicates))
                                           : "added");
  line(report.updated, "updated: the file had changed");
  line(report.moved, "found under another path");
  line(report.unchanged, "unchanged");
  line(report.removed, "removed: the file is gone");
  // With `prune`, the failures say why each was kept.
  line(report.missing, options.prune ? "kept although the file is gone"
                                     : "kept although the file is gone (saccade index --prune removes them)");
  line(report.videos, report.videos == 1 ? "video looked into: its frames are counted above"
                                         : "videos looked into: their frames are counted above");
  line(report.facts_read, "of these had their embedded metadata read, which was not stored before");
  line(report.stayed_out,
       "left out: removed from the collection before (saccade collection remove --forget allows them again)");
  line(report.skipped_failed, "skipped: failed before (--retry-failed tries again)");
  if (const std::string passed = not_looked_at_text(report.not_looked_at); !passed.empty()) {
    text += fmt::format("  not looked at: {}\n", passed);
  }
  const auto list = [&](const std::vector<Failure>& failures, std::string_view what) {
    line(static_cast<int64_t>(failures.size()), what);
    for (const Failure& failure : failures) text += fmt::format("             {}\n", failure_text(failure));
  };
  list(report.unread_captions, "caption files not read; the captions of their images are unchanged:");
  list(report.failed, "failed:");
  return text;
}

void warn_of_no_pictures(const IngestReport& report, std::string_view input, Messages& messages) {
  const int64_t known = report.seen + report.removed + report.missing;
  if (known > 0 || !report.failed.empty() || report.cancelled) return;
  messages.warning(
      fmt::format("no images in {}: folders are searched for files with an image's ending", one_line(input)));
}

}  // namespace saccade::app
