#include "saccade/hub/pull.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/ranges.h>

#include "saccade/core/files/file_lock.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/hub/cache.h"
#include "saccade/hub/partial_file.h"
#include "saccade/hub/select.h"

namespace saccade::hub {
namespace {

namespace fs = std::filesystem;

// State of one pull.
class Pull {
 public:
  Pull(const ModelName& name, const PullOptions& options, const ProgressCallback& progress,
       std::stop_token stop, Client client)
      : folder_(options.settings.cache, name),
        progress_(progress),
        stop_(std::move(stop)),
        client_(std::move(client)) {
    report_.name = name;
  }

  Result<PullReport> run() {
    SACCADE_ASSIGN(const RemoteModel model, client_.model(report_.name));
    report_.commit = model.commit;
    report_.path = folder_.snapshot(model.commit);
    SACCADE_ASSIGN(const Selection selection, select_files(model.files));
    SACCADE_TRY(folder_.create());
    // Sizes come first, so that progress knows the total. The index comes before the rest, because it names
    // the rest.
    std::vector<RemoteFile> files;
    for (const std::string& file : selection.files) {
      SACCADE_ASSIGN(files.emplace_back(), client_.file(report_.name, report_.commit, file));
      if (file == selection.weights_index) {
        SACCADE_TRY(place(files.back()));
        files.pop_back();
      }
    }
    if (!selection.weights_index.empty()) {
      SACCADE_ASSIGN(const std::vector<std::string> shards,
                     shard_names(report_.path / selection.weights_index));
      for (const std::string& shard : shards) {
        SACCADE_ASSIGN(files.emplace_back(), client_.file(report_.name, report_.commit, shard));
      }
    }
    total_ = done_;
    for (const RemoteFile& file : files) total_ += file.size;
    // Small files come first, because most problems of a checkpoint show in them.
    std::stable_sort(files.begin(), files.end(),
                     [](const RemoteFile& a, const RemoteFile& b) { return a.size < b.size; });
    SACCADE_TRY(check_space(files));
    for (const RemoteFile& file : files) {
      SACCADE_TRY(place(file).in(file.name));
    }
    SACCADE_TRY(folder_.write_ref(report_.name.revision_or_default(), report_.commit));
    std::sort(report_.files.begin(), report_.files.end(),
              [](const PulledFile& a, const PulledFile& b) { return a.name < b.name; });
    return std::move(report_);
  }

 private:
  void tell(int64_t of_this_file, std::string_view detail) const {
    if (!progress_) return;
    ProgressUpdate update;
    update.what = "downloading";
    update.done = done_ + of_this_file;
    update.total = total_;
    update.detail = detail;
    update.bytes = true;
    progress_(update);
  }

  // Checks disk space before hours of downloading rather than failing at their end.
  [[nodiscard]] Status check_space(const std::vector<RemoteFile>& files) const {
    int64_t needed = 0;
    for (const RemoteFile& file : files) {
      std::error_code error;
      if (fs::exists(folder_.blob(file.hash), error)) continue;
      needed += file.size;
      const auto begun = fs::file_size(folder_.incomplete(file.hash), error);
      if (!error) needed -= std::min(file.size, static_cast<int64_t>(begun));
    }
    std::error_code error;
    const fs::space_info space = fs::space(folder_.path(), error);
    if (error || needed <= 0 || space.available >= static_cast<uintmax_t>(needed)) return {};
    return fail(ErrorCode::kIo, "{}: {} bytes are still to come, and {} are free there",
                folder_.path().string(), needed, space.available);
  }

  // Ensures that the blob is present, by download if necessary, and linked.
  Status place(const RemoteFile& file) {
    PulledFile pulled{.name = file.name, .size = file.size, .hash = file.hash, .downloaded = false};
    SACCADE_ASSIGN(const Descriptor lock, wait_for_lock_file(folder_.lock(file.hash), stop_, [&] {
                     tell(0, file.name + ": waiting for another download of it");
                   }));
    tell(0, file.name);
    const fs::path blob = folder_.blob(file.hash);
    std::error_code error;
    bool whole = false;
    if (fs::exists(blob, error)) {
      SACCADE_ASSIGN(whole, has_content(blob, file.kind, file.hash, file.size));
    }
    if (!whole) {
      SACCADE_TRY(download(file, blob));
      pulled.downloaded = true;
    }
    SACCADE_TRY(folder_.link(report_.commit, file.name, file.hash));
    done_ += file.size;
    tell(0, file.name);
    report_.files.push_back(std::move(pulled));
    return {};
  }

  Status download(const RemoteFile& file, const fs::path& blob) {
    SACCADE_ASSIGN(PartialFile partial,
                   PartialFile::open(folder_.incomplete(file.hash), file.kind, file.hash, file.size));
    for (;;) {
      const bool resumed = partial.found() > 0;
      const Status fetched = client_.fetch(report_.name, report_.commit, file, partial,
                                           [&] { tell(partial.filled(), file.name); });
      report_.downloaded_bytes += partial.filled() - partial.found();
      if (!fetched && fetched.error().code != ErrorCode::kMismatch) return fetched;
      const int64_t found = partial.found();
      const Status finished = fetched ? partial.finish(blob) : fetched;
      if (finished) {
        report_.resumed_bytes += found;
        return {};
      }
      if (finished.error().code != ErrorCode::kMismatch) return finished;
      if (!resumed) {
        partial.discard();
        return finished;
      }
      // Bytes from an earlier download may be at fault: download everything once more.
      SACCADE_TRY(partial.restart());
    }
  }

  ModelFolder folder_;
  const ProgressCallback& progress_;
  std::stop_token stop_;
  Client client_;
  PullReport report_;
  int64_t done_ = 0;
  int64_t total_ = 0;
};

Result<PullReport> look_offline(const ModelName& name, const Settings& settings) {
  constexpr const char* kOffline = "offline (--offline or HF_HUB_OFFLINE)";
  SACCADE_ASSIGN(const CachedModel model, find_cached(settings.cache, name).in(kOffline));
  SACCADE_ASSIGN(const std::vector<std::string> missing, missing_files(model.path).in(kOffline));
  if (!missing.empty()) {
    return fail(ErrorCode::kNotFound, "{}: of {} in the cache {}, {} is missing", kOffline, name.text(),
                settings.cache.string(), fmt::join(missing, ", "));
  }
  PullReport report;
  report.name = name;
  report.commit = model.commit;
  report.path = model.path;
  std::error_code error;
  for (fs::directory_iterator entry(model.path, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!fs::is_regular_file(entry->path(), ignored)) continue;
    report.files.push_back({.name = entry->path().filename().string(),
                            .size = static_cast<int64_t>(fs::file_size(entry->path(), ignored)),
                            .hash = fs::canonical(entry->path(), ignored).filename().string(),
                            .downloaded = false});
  }
  std::sort(report.files.begin(), report.files.end(),
            [](const PulledFile& a, const PulledFile& b) { return a.name < b.name; });
  return report;
}

}  // namespace

Json pull_json(const PullReport& report) {
  Json files = Json::array();
  for (const PulledFile& file : report.files) {
    files.push_back(
        {{"name", file.name}, {"bytes", file.size}, {"hash", file.hash}, {"downloaded", file.downloaded}});
  }
  return Json{{"model", report.name.repository()},
              {"revision", report.name.revision_or_default()},
              {"commit", report.commit},
              {"path", report.path.string()},
              {"files", std::move(files)},
              {"downloaded_bytes", report.downloaded_bytes},
              {"resumed_bytes", report.resumed_bytes}};
}

Result<PullReport> pull(const ModelName& name, const PullOptions& options, const ProgressCallback& progress,
                        std::stop_token stop) {
  const std::string context = "pull " + name.text();
  if (options.settings.offline) return look_offline(name, options.settings).in(context);
  auto client = Client::open(options.settings, options.retry, stop, options.http);
  if (!client) return fail(client.error().in(context));
  return Pull(name, options, progress, std::move(stop), std::move(*client)).run().in(context);
}

}  // namespace saccade::hub
