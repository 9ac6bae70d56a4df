// One ingest run: walks the inputs, prepares files block by block (ingest_prepare.h), decides
// (ingest_decide.h), then handles videos (ingest_video.h).
//
// A block of files is prepared while the one before is encoded, so that no processor waits for the last file of a
// block, for a commit, or for threads of the encoder that wait for one another. The encoder's threads sleep where
// they wait, and decoders have their processors meanwhile. If the caller allows fewer threads than there are
// processors, preparing and encoding alternate, as both together would take twice as many.
#include "saccade/collection/ingest/ingest.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "saccade/collection/ingest/ingest_decide.h"
#include "saccade/collection/ingest/ingest_prepare.h"
#include "saccade/collection/ingest/ingest_video.h"
#include "saccade/collection/ingest/walk.h"
#include "saccade/collection/rows/late_item.h"
#include "saccade/core/ascii.h"
#include "saccade/core/counts.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/seconds_since.h"
#include "saccade/image/decode/video.h"
#include "saccade/image/frame_name.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/nn/workers.h"

namespace saccade {
namespace {

using Clock = std::chrono::steady_clock;

Error no_such_input() {
  return {ErrorCode::kNotFound, "no such file or folder"};
}

std::string trimmed(std::string_view text) {
  return std::string(trim_ascii(without_byte_order_mark(text)));
}

class Run {
 public:
  Run(CollectionWriter& collection, const EncoderSource& encoder, const IngestOptions& options,
      ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop)
      : collection_(collection),
        source_(encoder),
        options_(options),
        pool_(pool),
        progress_(progress),
        stop_(std::move(stop)),
        block_(static_cast<size_t>(std::max(std::max(1, options.batch), 2 * pool.size()))),
        decider_(collection, options, report_) {
    for (const auto& [path, caption] : options.captions)
      captions_.emplace(catalog_path(path), trimmed(caption));
  }

  Result<IngestReport> run(std::span<const std::filesystem::path> inputs);

 private:
  Status get_encoder();
  Status check_inputs(const WalkResult& found);
  void count(const std::string& path);
  std::string caption_of(const std::string& path);
  Result<std::vector<FileTask>> next_block(std::span<const std::string> files);
  Status take_all(const WalkResult& found);
  Status take_block(std::vector<PreparedFile> files, int64_t count);
  void pass_over_videos(WalkResult& found);
  Status take_videos(const WalkResult& found);
  // Why items are not pruned although their files are gone.
  struct Kept {
    std::string folder;
    std::string_view reason;
    DeviceChange change;  // zeros for other reasons
    auto operator<=>(const Kept&) const = default;
  };
  std::optional<Kept> why_kept(const std::string& input, const Item& item);
  using KeptItems = std::map<Kept, std::unordered_map<int64_t, FileIdentity>>;  // by id
  void keep(const KeptItems& kept, std::unordered_set<int64_t>& gone, CollectionChange& change);
  [[nodiscard]] bool has(const std::string& path) const;
  Status look_for_missing(const WalkResult& found);
  void tell();

  CollectionWriter& collection_;
  const EncoderSource& source_;
  const IngestOptions& options_;
  ThreadPool& pool_;
  const ProgressCallback& progress_;
  std::stop_token stop_;
  const size_t block_;  // files prepared at a time
  std::unordered_map<std::string, std::string> captions_;
  IngestReport report_;
  std::optional<FilePreparer> preparer_;  // once the encoder is there
  IngestDecider decider_;
  int64_t total_ = 0;
  size_t offered_ = 0;              // of the files that were found
  size_t expected_ = 0;             // of these, those that were announced to the collection
  std::vector<std::string> again_;  // to be offered anew, before the others
  int64_t undecided_ = 0;           // offered, and not taken yet
};

void Run::count(const std::string& path) {
  ++report_.seen;
  if (captions_.contains(path)) ++report_.given_captions;
}

std::string Run::caption_of(const std::string& path) {
  if (const auto found = captions_.find(path); found != captions_.end()) return found->second;
  if (!options_.sidecar_captions) return {};
  constexpr int64_t kMaxCaption = 64 << 10;
  const std::filesystem::path file(path);
  for (const auto& sidecar :
       {std::filesystem::path(file).replace_extension(".txt"), std::filesystem::path(path + ".txt")}) {
    if (sidecar == file) continue;
    const auto text = read_file(sidecar, kMaxCaption);
    if (text) return trimmed(*text);
    // A name that is too long for the file system is one that no file has.
    if (text.error().code != ErrorCode::kNotFound && !is_gone(sidecar.string()))
      report_.unread_captions.push_back(failure_of(sidecar.string(), text.error()));
  }
  return {};
}

// The next files that need anything.
Result<std::vector<FileTask>> Run::next_block(std::span<const std::string> files) {
  const auto start = Clock::now();
  std::vector<FileTask> tasks;
  std::vector<std::string> again = std::exchange(again_, {});
  const auto offer = [&](const std::string& path) -> Status {
    SACCADE_ASSIGN(std::optional<FileTask> task, decider_.offer(path, caption_of(path)));
    if (task) tasks.push_back(*std::move(task));
    return {};
  };
  for (const std::string& path : again) SACCADE_TRY(offer(path));
  constexpr size_t kExpected = 256;
  while (tasks.size() < block_ && offered_ < files.size() && !stop_.stop_requested()) {
    if (offered_ == expected_) {
      const auto next = files.subspan(expected_, std::min(kExpected, files.size() - expected_));
      SACCADE_TRY(collection_.expect(next));
      expected_ += next.size();
    }
    count(files[offered_]);
    SACCADE_TRY(offer(files[offered_++]));
    if (report_.seen % 64 == 0) tell();
  }
  undecided_ += static_cast<int64_t>(tasks.size());
  report_.seconds.walk += seconds_since(start);
  return tasks;
}

Status Run::get_encoder() {
  if (preparer_) return {};
  SACCADE_ASSIGN(EncoderBackend * encoder, source_());
  report_.encoder_used = true;
  SACCADE_TRY(check_encoder(collection_, *encoder, options_));
  preparer_.emplace(collection_, *encoder, options_, pool_, stop_);
  decider_.use(*encoder);
  return {};
}

Status Run::take_all(const WalkResult& found) {
  const bool overlaps = pool_.size() >= available_processors();
  std::vector<FileTask> tasks;  // looked for, and not started
  std::deque<int64_t> started;  // files of each block that is being prepared
  while (!stop_.stop_requested()) {
    // A second block is started before the first is waited for.
    if (tasks.empty() && started.size() < (overlaps ? 2 : 1)) {
      SACCADE_ASSIGN(tasks, next_block(found.files));
      FilePreparer::announce(tasks);
    }
    if (!tasks.empty()) {
      SACCADE_TRY(get_encoder());
      started.push_back(std::ssize(tasks));
      preparer_->start(std::exchange(tasks, {}));
      if (overlaps && started.size() < 2) continue;
    }
    if (started.empty()) break;
    const auto start = Clock::now();
    std::vector<PreparedFile> files = preparer_->finish();
    report_.seconds.waiting += seconds_since(start);
    if (!overlaps) {
      // Looked for before these are decided, so that the disk is read while they are encoded.
      SACCADE_ASSIGN(tasks, next_block(found.files));
      FilePreparer::announce(tasks);
    }
    SACCADE_TRY(take_block(std::move(files), started.front()));
    started.pop_front();
  }
  if (preparer_) preparer_->drop();
  return stop_.stop_requested() ? decider_.stop() : decider_.finish();
}

// Decides about a block of `count` files, of which those that were begun are in `files`.
Status Run::take_block(std::vector<PreparedFile> files, int64_t count) {
  for (PreparedFile& file : files) {
    if (stop_.stop_requested()) return {};
    SACCADE_ASSIGN(std::optional<std::string> again, decider_.take(std::move(file)));
    if (again) again_.push_back(*std::move(again));
    --undecided_;
    tell();
  }
  if (stop_.stop_requested()) return {};
  undecided_ -= count - std::ssize(files);
  return decider_.end_block();
}

// Videos that were named one by one, where nothing reads them.
void Run::pass_over_videos(WalkResult& found) {
  std::erase_if(found.files, [&](const std::string& path) {
    if (!has_video_extension(path)) return false;
    const bool left_out = options_.video_tools.has_value();
    decider_.report_failure(
        path, {ErrorCode::kUnsupported, left_out ? "videos are left out" : std::string(kNoVideoTools)});
    return true;
  });
}

// One after the other: a video is committed with all its frames, or not at all.
Status Run::take_videos(const WalkResult& found) {
  VideoTaker taker(collection_, decider_, options_, report_, pool_, stop_, [&]() -> Result<FilePreparer*> {
    SACCADE_TRY(get_encoder());
    return &*preparer_;
  });
  for (const std::string& path : found.videos) {
    if (stop_.stop_requested()) return {};
    const auto start = Clock::now();
    SACCADE_TRY(taker.take(path, caption_of(path)));
    count(path);
    report_.seconds.waiting += seconds_since(start);
    tell();
  }
  return {};
}

void Run::tell() {
  if (!progress_) return;
  const std::string detail =
      report_.failed.empty() ? std::string() : fmt::format("{} failed", report_.failed.size());
  progress_({"indexing", report_.seen - undecided_, total_, detail});
}

// Checks for missing inputs. Each is a failure of the worker that has it, and the run fails if there are no other inputs.
// With `prune` a missing input that has items in the catalog is no failure: look_for_missing() removes or keeps them.
Status Run::check_inputs(const WalkResult& found) {
  bool any = !found.files.empty() || !found.videos.empty() || !found.folders.empty();
  for (const std::string& path : found.missing) {
    bool known = false;
    if (options_.prune) {
      SACCADE_TRY(collection_.for_each_item_under(path, [&](const Item& item) {
        known = known || !item.file.elsewhere;
        return Status{};
      }));
    }
    any = any || known;
    // look_for_missing() says what becomes of a known one.
    if (!known && has(path)) decider_.report_failure(path, no_such_input());
  }
  if (!any && !found.missing.empty()) {
    return fail(no_such_input().in(found.missing.front()));
  }
  for (const auto& folder : found.unreadable) decider_.report_failure(folder.path, folder.error);
  return {};
}

// Says why the gone file of `item` below `input` may only be away; nothing if it is deleted.
std::optional<Run::Kept> Run::why_kept(const std::string& input, const Item& item) {
  if (options_.prune_guard == PruneGuard::kNothing) return std::nullopt;
  if (options_.prune_guard == PruneGuard::kInputs && file_of(item.path) != input) {
    std::error_code error;
    if (is_missing(input)) return Kept{input, "missing", {}};
    if (std::filesystem::is_empty(input, error) || error) return Kept{input, "empty", {}};
  }
  Mounts::Lost lost = decider_.mounts().lost_below(item);
  if (lost.folder.empty()) return std::nullopt;
  return Kept{std::move(lost.folder), "another file system was here", lost.change};
}

// Takes the items of `kept` out of those that are gone, and reports each folder, where items are pruned.
void Run::keep(const KeptItems& kept, std::unordered_set<int64_t>& gone, CollectionChange& change) {
  for (const auto& [why, items] : kept) {
    const int64_t count = std::ssize(items);
    // A file system whose device number has changed has at least as many unchanged files as deleted ones. The
    // number is recorded, as later runs will not see the old one.
    if (why.change != DeviceChange{} && decider_.mounts().unchanged_across(why.change) >= count) {
      for (auto [id, file] : items) {
        file.folder_device = why.change.second;
        change.identities.emplace_back(id, file);
      }
      continue;
    }
    if (!options_.prune) continue;
    for (const auto& [id, file] : items) gone.erase(id);
    decider_.report_failure(
        why.folder,
        {ErrorCode::kNotFound, fmt::format("{} (not mounted?): {} below it kept although the files are gone "
                                           "(saccade index --prune=force removes them)",
                                           why.reason, counted(count, "image"))});
  }
}

// Returns true if this worker has the path, of several that share the inputs.
bool Run::has(const std::string& path) const {
  if (options_.shards <= 1) return true;
  const std::string hash = sha256_hex(collection_.shard_key(file_of(path)));
  uint64_t number = 0;
  std::from_chars(hash.data(), hash.data() + 15, number, 16);
  return static_cast<int64_t>(number % static_cast<uint64_t>(options_.shards)) == options_.shard;
}

Status Run::look_for_missing(const WalkResult& found) {
  if (!options_.prune && !collection_.lists_cheaply()) return {};
  std::unordered_set<std::string_view> seen(found.files.begin(), found.files.end());
  seen.insert(found.videos.begin(), found.videos.end());
  std::unordered_set<int64_t> gone;
  KeptItems kept;
  CollectionChange change;
  // Files named by themselves and gone are in `missing`; those that were found need no second look.
  for (const auto* inputs : {&found.folders, &found.missing}) {
    for (const std::string& input : *inputs) {
      SACCADE_TRY(collection_.for_each_item_under(input, [&](const Item& item) {
        if (item.file.elsewhere || seen.find(file_of(item.path)) != seen.end() || !has(item.path) ||
            !is_gone(item.path)) {
          return Status{};
        }
        gone.insert(item.id);
        if (auto why = why_kept(input, item)) kept[*std::move(why)].emplace(item.id, item.file);
        return Status{};
      }));
      SACCADE_TRY(collection_.for_each_failure_under(input, [&](const Failure& failure) {
        if (seen.find(file_of(failure.path)) == seen.end() && is_gone(failure.path)) {
          change.forget_failures.push_back(failure.path);
        }
        return Status{};
      }));
    }
  }
  const auto all = static_cast<int64_t>(gone.size());
  keep(kept, gone, change);
  if (options_.prune) {
    change.removals.assign(gone.begin(), gone.end());
    report_.removed = std::ssize(change.removals);
  }
  report_.missing = all - report_.removed;
  return collection_.commit(change);
}

Result<IngestReport> Run::run(std::span<const std::filesystem::path> inputs) {
  const auto start = Clock::now();
  const nn::StopScope scope(stop_);
  WalkResult found = walk(inputs, walk_options_of(options_, collection_.folder()), stop_, [&](int64_t count) {
    if (progress_) progress_({"looking for images", count, 0, {}});
  });
  report_.seconds.walk = seconds_since(start);
  report_.not_looked_at = std::move(found.not_looked_at);
  SACCADE_TRY(check_inputs(found));
  pass_over_videos(found);
  for (auto* files : {&found.files, &found.videos}) {
    std::erase_if(*files, [&](const std::string& path) { return !has(path); });
  }
  total_ = static_cast<int64_t>(found.files.size() + found.videos.size());
  SACCADE_TRY(take_all(found));
  SACCADE_TRY(take_videos(found));
  report_.cancelled = stop_.stop_requested();
  if (!report_.cancelled) SACCADE_TRY(look_for_missing(found));
  // Creates int8 rows that are missing: the collection is older than the feature, or the disk was full.
  SACCADE_TRY(collection_.update_int8_rows(progress_, stop_));
  tell();

  if (preparer_) preparer_->add_to(report_);
  report_.seconds.total = seconds_since(start);
  std::sort(report_.failed.begin(), report_.failed.end(),
            [](const Failure& a, const Failure& b) { return a.path < b.path; });
  return std::move(report_);
}

}  // namespace

Status check_same_precision(const CollectionInfo& info, Precision precision) {
  if (precision == info.settings.precision) return {};
  return fail(
      ErrorCode::kMismatch,
      "its embeddings are in {}, the encoder computes in {}: use {}, or allow both (--mix-precisions)",
      enum_name(info.settings.precision), enum_name(precision), enum_name(info.settings.precision));
}

Status check_encoder(const CollectionWriter& collection, EncoderBackend& encoder,
                     const IngestOptions& options) {
  const CollectionInfo& info = collection.info();
  const CheckpointId given{encoder.info().family, "", encoder.info().fingerprint, encoder.info().dim};
  SACCADE_TRY(
      check_same_checkpoint(info, given).in(fmt::format("collection {}", collection.folder().string())));
  if (!options.mix_precisions) {
    SACCADE_TRY(check_same_precision(info, encoder.info().precision)
                    .in(fmt::format("collection {}", collection.folder().string())));
  }
  if (info.settings.late) SACCADE_TRY(check_grid(encoder, *info.settings.late));
  return {};
}

Status check_any_input(std::span<const std::filesystem::path> inputs) {
  for (const std::filesystem::path& input : inputs) {
    if (!is_missing(catalog_path(input))) return {};
  }
  if (inputs.empty()) return {};
  return fail(no_such_input().in(catalog_path(inputs.front())).in("index"));
}

Result<IngestReport> ingest(CollectionWriter& collection, EncoderBackend& encoder,
                            std::span<const std::filesystem::path> inputs, const IngestOptions& options,
                            ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop) {
  SACCADE_TRY(check_encoder(collection, encoder, options).in("index"));
  return ingest(
      collection, [&]() -> Result<EncoderBackend*> { return &encoder; }, inputs, options, pool, progress,
      std::move(stop));
}

Result<IngestReport> ingest(CollectionWriter& collection, const EncoderSource& encoder,
                            std::span<const std::filesystem::path> inputs, const IngestOptions& options,
                            ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop) {
  Run run(collection, encoder, options, pool, progress, std::move(stop));
  return run.run(inputs).in("index");
}

}  // namespace saccade
