// One run: compares both collections, encodes what the copy lacks (ingest_prepare.h, ingest_decide.h), removes what the first
// one has lost, and looks again.
#include "saccade/collection/reencode/reencode.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/file_state.h"
#include "saccade/collection/ingest/ingest_decide.h"
#include "saccade/collection/ingest/ingest_prepare.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/core/hash.h"
#include "saccade/core/seconds_since.h"
#include "saccade/image/decode/video.h"
#include "saccade/image/frame_name.h"
#include "saccade/nn/workers.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostPasses = 20;
constexpr size_t kCompared = 256;  // items that are looked up together
constexpr size_t kChangesPerCommit = 512;
// A snapshot that is held for hours keeps the first collection's log from being folded back.
constexpr double kSnapshotSeconds = 60;

class Reencoding {
 public:
  Reencoding(CollectionWriter& into, const EncoderSource& source, CollectionReader& from,
             const IngestOptions& options, ThreadPool& pool, const ProgressCallback& progress,
             std::stop_token stop)
      : into_(into),
        source_(source),
        from_(from),
        options_(of_files(options)),
        pool_(pool),
        progress_(progress),
        stop_(std::move(stop)),
        to_address_(weaviate::is_address(into.folder())),
        keeps_ids_(!to_address_ && !weaviate::is_address(from.folder())),
        block_(static_cast<size_t>(std::max(std::max(1, options.batch), 2 * pool.size()))),
        decider_(into, options_, encoded_) {}

  Result<ReencodeReport> run();

 private:
  // Result of one comparison of both collections.
  struct Difference {
    std::vector<int64_t> lacking;  // ids of the first collection's items that are to be encoded
    int64_t there = 0;             // items that the copy has, with whatever content
    bool changed = false;          // something else was carried over
  };

  static IngestOptions of_files(IngestOptions options) {
    options.facts = false;  // the first collection has them
    options.sidecar_captions = false;
    options.captions.clear();
    return options;
  }

  Result<bool> pass(bool first);
  Status compare(std::vector<CarriedItem>& items, const CollectionReader& copy, bool first,
                 Difference& found);
  Status carry_removed(const CollectionReader& copy);
  Status commit_if(size_t changes);
  Status encode(const std::vector<int64_t>& ids);
  Result<std::vector<FileTask>> next_block(const std::vector<int64_t>& ids, size_t& next);
  Result<std::optional<CarriedItem>> look_up(int64_t id) const;
  Result<std::shared_ptr<const FrameSource>> frame_of(const Item& item);
  Status start(FileTask task, std::vector<FileTask>& tasks);
  Status give_up(FileTask task, Error error);
  Status get_encoder();
  Result<bool> remove_lost(const CollectionReader& copy, int64_t there);
  void tell(int64_t done, int64_t total) const;
  // kCancelled where the run was asked to stop.
  [[nodiscard]] Status go_on() const;
  Status drop_settled_failures();

  CollectionWriter& into_;
  const EncoderSource& source_;
  CollectionReader& from_;
  const IngestOptions options_;
  ThreadPool& pool_;
  const ProgressCallback& progress_;
  std::stop_token stop_;
  const bool to_address_;  // whose text is valid UTF-8
  const bool keeps_ids_;
  const size_t block_;  // files prepared at a time
  ReencodeReport report_;
  IngestReport encoded_;
  std::optional<FilePreparer> preparer_;  // once the encoder is there
  IngestDecider decider_;
  CollectionChange change_;  // all but what is encoded
  std::unordered_map<std::string, std::string>
      tried_;                          // hashes of items that were encoded or given up, by path
  std::unordered_set<int64_t> moved_;  // ids in the copy
  Clock::time_point refreshed_ = Clock::now();
  // The video whose frames were asked for last, with its hash.
  std::string video_;
  std::string video_hash_;
};

bool has_content(const Item& copy, const Item& item) {
  // An item that was imported without its file may have no hash.
  return item.hash.empty() || copy.hash == item.hash;
}

void Reencoding::tell(int64_t done, int64_t total) const {
  if (!progress_) return;
  const std::string detail =
      encoded_.failed.empty() ? std::string() : fmt::format("{} left out", encoded_.failed.size());
  progress_({"encoding", done, total, detail});
}

Status Reencoding::go_on() const {
  if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop");
  return {};
}

Status Reencoding::commit_if(size_t changes) {
  const size_t waiting = change_.updates.size() + change_.facts.size() + change_.removals.size();
  if (waiting < changes) return {};
  SACCADE_TRY(into_.commit(change_));
  change_ = {};
  return {};
}

// Compares items with the copy's. Captions, dates and metadata that differ are carried over.
Status Reencoding::compare(std::vector<CarriedItem>& items, const CollectionReader& copy, bool first,
                           Difference& found) {
  std::vector<std::string> paths;
  for (const CarriedItem& one : items) paths.push_back(one.item.path);
  SACCADE_TRY(into_.expect(paths));
  for (CarriedItem& one : items) {
    SACCADE_TRY(go_on());
    ++report_.items;
    SACCADE_ASSIGN(std::optional<Item> there, into_.find_path(one.item.path));
    bool moved = false;
    if (!there && keeps_ids_ && copy.item_count() > 0) {
      auto same = copy.item(one.item.id);
      if (!same && same.error().code != ErrorCode::kNotFound) return fail(std::move(same).error());
      moved = same && !same->hash.empty() && same->hash == one.item.hash;
      if (moved) there = *std::move(same);
    }
    if (there) ++found.there;
    if (!there || !has_content(*there, one.item)) {
      const auto tried = tried_.find(one.item.path);
      if (tried == tried_.end() || tried->second != one.item.hash) found.lacking.push_back(one.item.id);
      continue;
    }
    const std::string& caption = one.item.caption;
    if (moved || there->caption != (to_address_ ? to_valid_utf8(caption) : caption) ||
        there->added != one.item.added) {
      Item changed = *there;
      changed.path = one.item.path;
      changed.caption = caption;
      changed.added = one.item.added;
      change_.updates.push_back(std::move(changed));
    }
    SACCADE_ASSIGN(const ItemFacts facts, into_.find_facts(there->id));
    const bool described = facts != one.facts;
    if (described) change_.facts.emplace_back(there->id, std::move(one.facts));
    const bool updated = !change_.updates.empty() && change_.updates.back().id == there->id;
    if (moved) {
      moved_.insert(there->id);
      ++report_.moved;
    } else if (described || updated) {
      ++report_.described;
    } else if (first) {
      ++report_.unchanged;
    }
    found.changed = found.changed || described || updated;
    SACCADE_TRY(commit_if(kChangesPerCommit));
  }
  items.clear();
  return {};
}

// Makes the copy's list of images that stay out that of the first collection.
Status Reencoding::carry_removed(const CollectionReader& copy) {
  SACCADE_ASSIGN(const std::vector<RemovedPicture> wanted, from_.removed());
  SACCADE_ASSIGN(const std::vector<RemovedPicture> there, copy.removed());
  std::unordered_set<std::string> paths;
  for (const RemovedPicture& one : there) paths.insert(one.path);
  for (const RemovedPicture& one : wanted) {
    if (paths.erase(one.path) == 0) change_.removed.push_back(one);
  }
  change_.forget_removed.assign(paths.begin(), paths.end());
  return commit_if(0);
}

Status Reencoding::get_encoder() {
  if (preparer_) return {};
  SACCADE_ASSIGN(EncoderBackend * encoder, source_());
  SACCADE_TRY(check_encoder(into_, *encoder, options_));
  preparer_.emplace(into_, *encoder, options_, pool_, stop_);
  decider_.use(*encoder);
  return {};
}

// Returns an item of the first collection with its metadata; `nullopt` if it is no longer there.
Result<std::optional<CarriedItem>> Reencoding::look_up(int64_t id) const {
  const auto found = [&]() -> Result<CarriedItem> {
    if (const VectorIndex* index = from_.index()) {
      SACCADE_ASSIGN(WholeItem whole, index->whole(id));
      return CarriedItem{std::move(whole.item), std::move(whole.facts)};
    }
    CarriedItem one;
    SACCADE_ASSIGN(one.item, from_.item(id));
    SACCADE_ASSIGN(one.facts, from_.facts(id));
    return one;
  };
  auto one = found();
  if (one) return std::optional<CarriedItem>(*std::move(one));
  if (one.error().code == ErrorCode::kNotFound) return std::optional<CarriedItem>();
  return fail(std::move(one).error());
}

// Extracts the frame of a video that an item is, `nullptr` for an image.
Result<std::shared_ptr<const FrameSource>> Reencoding::frame_of(const Item& item) {
  const auto frame = read_frame_name(item.path);
  if (!frame) return std::shared_ptr<const FrameSource>();
  if (!options_.video_tools) return fail(ErrorCode::kUnsupported, "{}", kNoVideoTools);
  if (video_ != frame->file) {
    SACCADE_ASSIGN(video_hash_, sha256_file(frame->file));
    video_ = frame->file;
  }
  FrameSource source;
  source.hash = video_hash_ + frame_fragment(frame->milliseconds);
  if (!item.hash.empty() && source.hash != item.hash) return fail(ErrorCode::kMismatch, "{}", kChangedSince);
  VideoOptions options = options_.videos;
  options.max_pixels = options_.limits.max_pixels;
  options.threads = pool_.size();
  options.stop = stop_;
  options.processes = options_.limits.processes;
  SACCADE_ASSIGN(source.picture,
                 read_frame(*options_.video_tools, frame->file, frame->milliseconds, options));
  source.width = static_cast<int>(item.width);
  source.height = static_cast<int>(item.height);
  return std::make_shared<const FrameSource>(std::move(source));
}

Status Reencoding::give_up(FileTask task, Error error) {
  PreparedFile file;
  file.task = std::move(task);
  file.error = std::move(error);
  SACCADE_TRY(decider_.take(std::move(file)));
  return {};
}

// Adds the task of an item's file, unless that is missing or has changed.
Status Reencoding::start(FileTask task, std::vector<FileTask>& tasks) {
  const Item& item = task.carried->item;
  const auto state = file_state(item.path);
  if (!state) {
    const Status here = check_file_here(item);
    return give_up(std::move(task), here ? state.error() : here.error());
  }
  task.state = *state;
  if (item.size != kUnknownState && item.size != state->size) {
    return give_up(std::move(task), {ErrorCode::kMismatch, std::string(kChangedSince)});
  }
  auto frame = frame_of(item);
  if (!frame) {
    if (frame.error().code == ErrorCode::kCancelled && stop_.stop_requested()) return {};
    return give_up(std::move(task), std::move(frame).error());
  }
  task.frame = *std::move(frame);
  tasks.push_back(std::move(task));
  return {};
}

// Returns the tasks of the next items, and moves `next` behind them.
Result<std::vector<FileTask>> Reencoding::next_block(const std::vector<int64_t>& ids, size_t& next) {
  if (seconds_since(refreshed_) > kSnapshotSeconds) {
    SACCADE_TRY(from_.refresh());
    refreshed_ = Clock::now();
  }
  std::vector<CarriedItem> items;
  std::vector<std::string> paths;
  for (; next < ids.size() && items.size() < block_; ++next) {
    SACCADE_ASSIGN(std::optional<CarriedItem> one, look_up(ids[next]));
    if (!one) continue;
    paths.push_back(one->item.path);
    tried_[one->item.path] = one->item.hash;
    if (!keeps_ids_) one->item.id = 0;
    items.push_back(*std::move(one));
  }
  SACCADE_TRY(into_.expect(paths));
  std::vector<FileTask> tasks;
  for (CarriedItem& one : items) {
    if (stop_.stop_requested()) break;
    FileTask task;
    task.path = one.item.path;
    SACCADE_ASSIGN(task.existing, into_.find_path(task.path));
    task.carried = std::make_shared<const CarriedItem>(std::move(one));
    SACCADE_TRY(start(std::move(task), tasks));
  }
  return tasks;
}

// Encodes the items with these ids. A block of files is prepared while the one before it is encoded, as in ingest().
Status Reencoding::encode(const std::vector<int64_t>& ids) {
  const auto total = static_cast<int64_t>(ids.size());
  const size_t ahead = pool_.size() >= available_processors() ? 2 : 1;
  size_t next = 0;
  size_t started = 0;
  int64_t done = 0;
  std::vector<FileTask> again;  // their content was known from an item that has changed since
  while (!stop_.stop_requested()) {
    while (started < ahead && (next < ids.size() || !again.empty()) && !stop_.stop_requested()) {
      std::vector<FileTask> tasks = std::exchange(again, {});
      if (tasks.empty()) {
        SACCADE_ASSIGN(tasks, next_block(ids, next));
      }
      if (tasks.empty()) continue;
      SACCADE_TRY(get_encoder());
      FilePreparer::announce(tasks);
      preparer_->start(std::move(tasks));
      ++started;
    }
    if (started == 0) break;
    for (PreparedFile& file : preparer_->finish()) {
      if (stop_.stop_requested()) break;
      FileTask task = file.task;
      SACCADE_ASSIGN(const std::optional<std::string> retry, decider_.take(std::move(file)));
      if (retry) {
        again.push_back(std::move(task));
      } else {
        ++done;
      }
      tell(done, total);
    }
    --started;
    if (!stop_.stop_requested()) SACCADE_TRY(decider_.end_block());
  }
  if (!stop_.stop_requested()) return decider_.finish();
  // Blocks that were started and not taken are encoded by the next run.
  if (preparer_) preparer_->drop();
  return decider_.stop();
}

// Removes the items that the first collection has not. `there`: the number of the copy's that it has.
Result<bool> Reencoding::remove_lost(const CollectionReader& copy, int64_t there) {
  if (copy.item_count() <= there) return false;
  std::unordered_set<std::string> paths;
  SACCADE_TRY(from_.for_each_item([&](const Item& item) {
    paths.insert(item.path);
    return Status{};
  }));
  std::vector<int64_t> lost;
  SACCADE_TRY(copy.for_each_item([&](const Item& item) {
    // The snapshot has a moved item under its old path.
    if (!paths.contains(item.path) && !moved_.contains(item.id)) lost.push_back(item.id);
    return Status{};
  }));
  for (const int64_t id : lost) {
    change_.removals.push_back(id);
    SACCADE_TRY(commit_if(kChangesPerCommit));
  }
  SACCADE_TRY(commit_if(0));
  report_.removed += std::ssize(lost);
  return !lost.empty();
}

// Makes the copy equal once, and returns whether anything had to be done.
Result<bool> Reencoding::pass(bool first) {
  SACCADE_ASSIGN(CollectionReader copy, CollectionReader::open(into_.folder()));
  SACCADE_TRY(carry_removed(copy));
  Difference found;
  std::vector<CarriedItem> items;
  report_.items = 0;
  moved_.clear();
  const auto take = [&](const Item& item, const ItemFacts& facts, std::span<const float> /*row*/) -> Status {
    SACCADE_TRY(go_on());
    items.push_back({item, facts});
    if (items.size() < kCompared) return {};
    tell(0, 0);
    return compare(items, copy, first, found);
  };
  Status compared = from_.for_each_row(take);
  if (compared) compared = compare(items, copy, first, found);
  if (!compared && !(compared.error().code == ErrorCode::kCancelled && stop_.stop_requested())) {
    return fail(std::move(compared).error());
  }
  SACCADE_TRY(commit_if(0));
  if (stop_.stop_requested()) return false;
  if (!found.lacking.empty()) SACCADE_TRY(encode(found.lacking));
  if (stop_.stop_requested()) return false;
  // Behind the encoding, so that the embedding of a file under a new name is taken from the item of its old one.
  SACCADE_ASSIGN(const bool lost, remove_lost(copy, found.there));
  return found.changed || lost || !found.lacking.empty();
}

// Drops the failures of items that the first collection has lost by now, or that the copy has all the same.
Status Reencoding::drop_settled_failures() {
  std::vector<Failure> left;
  for (Failure& failure : encoded_.failed) {
    const auto item = from_.item_of_path(failure.path);
    if (!item && item.error().code == ErrorCode::kNotFound) continue;
    if (!item) return fail(item.error());
    SACCADE_ASSIGN(const std::optional<Item> there, into_.find_path(failure.path));
    if (!there || !has_content(*there, *item)) left.push_back(std::move(failure));
  }
  encoded_.failed = std::move(left);
  return {};
}

Result<ReencodeReport> Reencoding::run() {
  const nn::StopScope scope(stop_);
  SACCADE_TRY(check_copy(into_.info(), from_.info()));
  bool more = true;
  for (int passes = 0; more && passes < kMostPasses; ++passes) {
    if (passes > 0) SACCADE_TRY(from_.refresh());
    refreshed_ = Clock::now();
    SACCADE_ASSIGN(more, pass(passes == 0));
  }
  report_.cancelled = stop_.stop_requested();
  if (more && !report_.cancelled) {
    return fail(ErrorCode::kLimit,
                "the first collection has changed during each of {} passes; encoded images are kept, and the "
                "same call goes on from here",
                kMostPasses);
  }
  if (!report_.cancelled) SACCADE_TRY(into_.update_int8_rows(progress_, stop_));
  report_.added = encoded_.added;
  report_.updated = encoded_.updated;
  report_.duplicates = encoded_.duplicates;
  if (!report_.cancelled) SACCADE_TRY(drop_settled_failures());
  report_.failed = std::move(encoded_.failed);
  std::ranges::sort(report_.failed, {}, &Failure::path);
  return std::move(report_);
}

}  // namespace

std::string identity_of(const CollectionInfo& info) {
  return fmt::format("{} {}", info.created, info.checkpoint.fingerprint);
}

Status check_copy(const CollectionInfo& copy, const CollectionInfo& from) {
  if (copy.copy_of == identity_of(from)) return {};
  if (identity_of(copy) == identity_of(from)) {
    return fail(ErrorCode::kMismatch, "both are the same collection: name a new one");
  }
  return fail(ErrorCode::kMismatch,
              "a collection that is not being filled from the first one is there: name a new one");
}

Result<ReencodeReport> reencode(CollectionWriter& into, const EncoderSource& encoder, CollectionReader& from,
                                const IngestOptions& options, ThreadPool& pool,
                                const ProgressCallback& progress, std::stop_token stop) {
  Reencoding run(into, encoder, from, options, pool, progress, std::move(stop));
  return run.run().in(fmt::format("reencode {}", from.folder().string()));
}

}  // namespace saccade
