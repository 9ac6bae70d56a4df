#include "lab/report/report_data.h"

#include <algorithm>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "lab/report/image_thumbnail.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

constexpr size_t kSeriesColours = 8;
constexpr size_t kChanceColour = 7;  // grey

std::string folder_name(const std::filesystem::path& folder) {
  std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

// Assigns colours in the order of the checkpoints. A name that means two checkpoints gets the folder of its
// run appended.
void name_series(ReportData& data) {
  std::map<std::string, Series> by_identity;
  const auto taken = [&](const std::string& text) {
    return std::ranges::any_of(by_identity, [&](const auto& each) { return each.second.name == text; });
  };
  for (const LoadedRun& run : data.runs) {
    std::set<std::string> in_this_run;
    for (const RunCheckpoint& checkpoint : run.run->info.checkpoints) {
      std::string identity = checkpoint.fingerprint + "\n" + checkpoint.precision;
      // Copies of one checkpoint in one run still get a row each.
      if (checkpoint.fingerprint.empty() || !in_this_run.insert(identity).second) {
        identity += "\n" + checkpoint.name;
      }
      auto found = by_identity.find(identity);
      if (found == by_identity.end()) {
        std::string name = checkpoint.name;
        if (taken(name)) name = fmt::format("{} ({})", checkpoint.name, run.name);
        for (int i = 2; taken(name); ++i) name = fmt::format("{} ({}, {})", checkpoint.name, run.name, i);
        const size_t place = by_identity.size();
        const size_t colour = place / kChanceColour * kSeriesColours + place % kChanceColour;
        found = by_identity.emplace(identity, Series{name, colour}).first;
      }
      data.series.emplace(std::pair{&run, checkpoint.name}, found->second);
    }
  }
}

// Reads the run's metrics as the type of its kind, if that is one of `Kinds`.
template <typename... Kinds>
Status read_kind(const Run& run, std::variant<std::monostate, Kinds...>& metrics) {
  Status status;
  const auto read = [&]<typename Metrics>(const Metrics* /*kind*/) {
    if (run.info.kind != Metrics::kKind) return;
    Result<Metrics> result = read_metrics<Metrics>(run);
    if (result) {
      metrics = *std::move(result);
    } else {
      status = fail(std::move(result).error());
    }
  };
  (read(static_cast<const Kinds*>(nullptr)), ...);
  return status;
}

}  // namespace

Result<ReportData> load_report_data(std::span<const ReportFolder> folders) {
  ReportData data;
  for (const ReportFolder& folder : folders) {
    if (!folder.run) {
      data.trainings.push_back(&folder);
      continue;
    }
    LoadedRun loaded;
    loaded.run = &*folder.run;
    loaded.name = folder_name(folder.folder);
    SACCADE_TRY(read_kind(*folder.run, loaded.metrics));
    const auto context = [&] { return folder.folder.string(); };
    if (folder.run->files.contains("items.jsonl")) {
      SACCADE_ASSIGN(loaded.items, read_run_items(*folder.run).in(context()));
    }
    if (folder.run->files.contains("ranks.jsonl")) {
      SACCADE_TRY(read_run_lines(*folder.run, "ranks.jsonl", [&](const Json& line) -> Status {
                    SACCADE_ASSIGN(RunQuery query, read_record<RunQuery>(line));
                    loaded.queries.push_back(std::move(query));
                    return {};
                  }).in(context()));
    }
    data.runs.push_back(std::move(loaded));
  }
  name_series(data);
  return data;
}

bool LoadedRun::has_checkpoint(const std::string& model) const {
  return std::ranges::any_of(run->info.checkpoints,
                             [&](const RunCheckpoint& checkpoint) { return checkpoint.name == model; });
}

Series ReportData::series_of(const LoadedRun& run, const std::string& model) const {
  const auto found = series.find({&run, model});
  return found == series.end() ? Series{model, kChanceColour} : found->second;
}

std::string tile_html(const Thumbnail& thumbnail, const std::string& id) {
  return fmt::format("<div class=\"thumb {}\" title=\"{}\">{}</div>", thumbnail.background, escape_html(id),
                     picture_html(thumbnail, id));
}

std::string_view direction_words(Direction direction) {
  return direction == Direction::kTextToImage ? "text \xE2\x86\x92 image" : "image \xE2\x86\x92 text";
}

std::string shortened(std::string_view text, size_t characters) {
  size_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
    if (begins && seen++ == characters) return std::string(text.substr(0, i)) + "\xE2\x80\xA6";
  }
  return std::string(text);
}

size_t PictureShelf::add(const ImageRef& image) {
  const auto [found, is_new] = numbers_.try_emplace(image.name(), images_.size());
  if (is_new) images_.push_back(image);
  return found->second;
}

Status PictureShelf::decode(const RunPageOptions& options, ThreadPool& pool, const ProgressCallback& progress,
                            const std::stop_token& stop) {
  const auto total = std::min(static_cast<int64_t>(images_.size()), options.max_pictures);
  thumbnails_.assign(images_.size(), Thumbnail{"", "", "left out: the page has as many images as it may"});
  std::mutex mutex;
  int64_t done = 0;
  pool.parallel_for(total, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !stop.stop_requested(); ++i) {
      const auto at = static_cast<size_t>(i);
      thumbnails_[at] = image_thumbnail(images_[at], options.thumbnail_side, options.limits);
      const std::lock_guard lock(mutex);
      ++done;
      if (progress) progress({"thumbnails", done, total, ""});
    }
  });
  if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped while making the page");
  int64_t bytes = 0;
  for (Thumbnail& thumbnail : thumbnails_) {
    bytes += std::ssize(thumbnail.url);
    if (bytes > options.max_picture_bytes && !thumbnail.url.empty()) {
      thumbnail = Thumbnail{"", "", "left out: the page has as many bytes of images as it may"};
    }
  }
  return {};
}

}  // namespace saccade::lab
