#include "saccade/serve/jobs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/collection/collection_json.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/threads.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;

// Returns the file extension of that format.
Result<std::string> ending_of(const std::string& format) {
  std::string ending = "." + (format == "heif" ? std::string("heic") : format == "jpeg" ? "jpg" : format);
  if (has_image_extension("picture" + ending)) return ending;
  return fail(ErrorCode::kUnsupported, "an image of format {}, which is not taken in", format);
}

// Encoder that is requested when there are new files, and returned when this is destroyed.
struct Lent {
  ServedModel& model;
  std::shared_ptr<SharedEncoder> encoder = nullptr;

  Result<EncoderBackend*> operator()() {
    if (encoder == nullptr) {
      SACCADE_ASSIGN(encoder, model.encoder());
    }
    return encoder.get();
  }
};

Uploads::Owner owner_of(const ServedCollection& collection) {
  return {collection.name(), collection.folder()};
}

}  // namespace

Jobs::Jobs(JobOptions options)
    : options_(std::move(options)), uploads_(options_.uploads, options_.uploads_bytes) {
  for (const fs::path& folder : options_.folders) {
    std::error_code error;
    const fs::path whole = fs::absolute(folder, error).lexically_normal();
    const std::string base =
        whole.has_filename() ? whole.filename().string() : whole.parent_path().filename().string();
    std::string name = base;
    const auto taken = [&] {
      return std::ranges::any_of(folders_, [&](const auto& other) { return other.first == name; });
    };
    for (int number = 2; taken(); ++number) name = fmt::format("{}-{}", base, number);
    folders_.emplace_back(name, whole);
  }
  worker_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

Jobs::~Jobs() {
  worker_.request_stop();
  const std::lock_guard lock(mutex_);
  for (const auto& job : jobs_) job->stop.request_stop();
}

std::vector<std::string> Jobs::folders() const {
  std::vector<std::string> names;
  for (const auto& [name, path] : folders_) names.push_back(name);
  return names;
}

JobState Jobs::seen(const Job& job) const {
  JobState state = job.state;
  if (state.state == "running") state.seconds = seconds_since(job.began);
  return state;
}

// It may be forgotten from here on.
void Jobs::end(Job& job, const Status& status) {
  const std::lock_guard lock(mutex_);
  const bool cancelled =
      job.stop.stop_requested() && (status || status.error().code == ErrorCode::kCancelled);
  if (!status && !cancelled) job.state.error = status.error().message;
  job.state.seconds = seconds_since(job.began);
  job.state.state = cancelled ? "cancelled" : status ? "done" : "failed";
  ++job.state.version;
}

Result<JobState> Jobs::start(ServedCollection& collection, std::string_view folder, bool prune,
                             bool retry_failed) {
  const auto found = std::ranges::find(folders_, folder, [](const auto& one) { return one.first; });
  if (found == folders_.end()) {
    const auto names = folders();
    return fail(ErrorCode::kNotFound, "no folder \"{}\" may be indexed here; there are: {}", folder,
                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  const std::lock_guard lock(mutex_);
  size_t waiting = 0;
  for (const auto& job : jobs_) {
    if (job->state.ended()) continue;
    if (job->collection == &collection && job->state.folder == folder) return seen(*job);
    if (job->state.state == "waiting") ++waiting;
  }
  if (waiting >= options_.waiting) {
    return fail(ErrorCode::kCancelled, "{} jobs wait already: try again when one has ended", waiting);
  }
  auto job = std::make_unique<Job>();
  job->state.id = ++last_id_;
  job->state.collection = collection.name();
  job->state.folder = std::string(folder);
  job->state.state = "waiting";
  job->collection = &collection;
  job->path = found->second;
  job->options = options_.ingest;
  job->options.prune = prune;
  job->options.retry_failed = retry_failed;
  jobs_.push_back(std::move(job));
  const auto ended = [](const auto& one) { return one->state.ended(); };
  auto finished = static_cast<size_t>(std::ranges::count_if(jobs_, ended));
  for (; finished > options_.finished; --finished) jobs_.erase(std::ranges::find_if(jobs_, ended));
  news_.notify_one();
  return seen(*jobs_.back());
}

std::vector<JobState> Jobs::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<JobState> states;
  for (auto job = jobs_.rbegin(); job != jobs_.rend(); ++job) states.push_back(seen(**job));
  return states;
}

Result<JobState> Jobs::job(int64_t id) const {
  const std::lock_guard lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->state.id == id) return seen(*job);
  }
  return fail(ErrorCode::kNotFound, "no job {}", id);
}

Result<JobState> Jobs::cancel(int64_t id) {
  const std::lock_guard lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->state.id != id) continue;
    job->stop.request_stop();
    if (job->state.state == "waiting") {
      job->state.state = "cancelled";
      ++job->state.version;
    }
    return seen(*job);
  }
  return fail(ErrorCode::kNotFound, "no job {}", id);
}

void Jobs::work(const std::stop_token& stop) {
  for (;;) {
    Job* next = nullptr;
    {
      std::unique_lock lock(mutex_);
      const auto waits = [](const auto& job) { return job->state.state == "waiting"; };
      const bool one = news_.wait(lock, stop, [&] { return std::ranges::any_of(jobs_, waits); });
      if (!one || stop.stop_requested()) return;
      next = std::ranges::find_if(jobs_, waits)->get();  // none that waits or runs is forgotten
      // Before anybody can cancel it as one that waits: it would be forgotten while it runs.
      next->state.state = "running";
      ++next->state.version;
      next->began = std::chrono::steady_clock::now();
    }
    Status status;
    try {
      status = run(*next);
    } catch (const std::exception& error) {
      status = fail(ErrorCode::kInternal, "{}", error.what());
    }
    end(*next, status);
  }
}

Status Jobs::run(Job& job) {
  ServedCollection& served = *job.collection;
  const std::lock_guard writing(served.writing);
  const std::stop_token stop = job.stop.get_token();
  const auto progress = [&](const ProgressUpdate& update) {
    const std::lock_guard lock(mutex_);
    job.state.what = std::string(update.what);
    job.state.done = update.done;
    job.state.total = update.total;
    ++job.state.version;
  };
  served.take_notes();  // of what was before
  const std::array<fs::path, 1> inputs = {job.path};
  const std::shared_ptr<const ServedEngine> engine = served.engine();
  SACCADE_ASSIGN(const IngestReport report, engine->core->index(inputs, job.options, progress, stop));
  {
    const std::lock_guard lock(mutex_);
    job.state.report = ingest_json(report);
    job.state.notes = served.take_notes();
    ++job.state.version;
  }
  return served.follow();
}

Result<Jobs::Turn> Jobs::turn(ServedCollection& collection, double seconds) const {
  const auto deadline =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  std::unique_lock lock(collection.writing, std::defer_lock);
  if (!lock.try_lock_until(deadline)) {
    return fail(ErrorCode::kCancelled, "{} is being indexed: try again when that has ended",
                collection.name());
  }
  for (;;) {
    auto taken = [&]() -> Result<Turn> {
      std::optional<Descriptor> uploads;
      if (weaviate::is_address(collection.folder()) && takes_pictures()) {
        SACCADE_ASSIGN(uploads,
                       lock_file(options_.uploads / (collection.name() + ".lock"), "changing uploads"));
      }
      SACCADE_ASSIGN(CollectionWriter writer, CollectionWriter::open(collection.folder()));
      return Turn{{}, std::move(writer), std::move(uploads)};
    }();
    if (taken) {
      taken->lock = std::move(lock);
      return taken;
    }
    const bool others = taken.error().code == ErrorCode::kCancelled;
    if (!others || std::chrono::steady_clock::now() >= deadline) return fail(std::move(taken).error());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<int64_t> Jobs::add_picture(ServedCollection& collection, std::string_view bytes,
                                  const std::string& caption, const DecodeOptions& limits) {
  IngestOptions options = options_.ingest;
  SACCADE_ASSIGN(const DecodedImage picture, decode_image(std::as_bytes(std::span(bytes)), limits));
  SACCADE_ASSIGN(const std::string ending, ending_of(picture.format));
  const std::string hash = sha256_hex(bytes);
  SACCADE_ASSIGN(Turn turn_taken, turn(collection, options_.turn_seconds));
  CollectionWriter& writer = turn_taken.writer;
  const Uploads::Owner owner = owner_of(collection);
  const fs::path file = uploads_.path_of(owner, hash + ending);
  SACCADE_ASSIGN(const bool fresh, uploads_.put(owner, file, bytes));
  // However this ends, the file stays if an item names it, and goes if none does.
  const std::shared_ptr<void> settled(nullptr, [&](void*) {
    const Result<std::optional<Item>> item = writer.find_path(catalog_path(file));
    if (fresh && item) (void)uploads_.settle(owner, file, item->has_value());
  });
  options.sidecar_captions = false;
  options.retry_failed = true;
  if (!caption.empty()) options.captions[file.string()] = caption;
  const std::shared_ptr<const ServedEngine> engine = collection.engine();
  Lent lent{*engine->model};
  ThreadPool pool(1);
  // Uploading an image that was removed before brings it back. Copies of it elsewhere still stay out.
  SACCADE_ASSIGN(const std::vector<std::string> removed, writer.removed_of_hash(hash));
  for (const std::string& path : removed) {
    std::error_code error;
    if (path == catalog_path(file) || !fs::exists(path, error)) SACCADE_TRY(writer.forget_removed(path));
  }
  const std::array<fs::path, 1> inputs = {file};
  SACCADE_ASSIGN(const IngestReport report,
                 ingest(writer, EncoderSource([&] { return lent(); }), inputs, options, pool));
  if (!report.failed.empty()) return fail(report.failed.front().code, "{}", report.failed.front().reason);
  SACCADE_ASSIGN(const std::optional<Item> item, writer.find_path(catalog_path(file)));
  if (!item) return fail(ErrorCode::kInternal, "{}: was not taken in", file.string());
  SACCADE_TRY(collection.follow());
  return item->id;
}

Status Jobs::remove_picture(ServedCollection& collection, int64_t id) {
  SACCADE_TRY(collection.follow());
  SACCADE_ASSIGN(const Item item, collection.now()->collection.item(id));
  const Uploads::Owner owner = owner_of(collection);
  const bool sent = uploads_.contains(owner, item.path);
  const auto remove = [&]() -> Status {
    SACCADE_ASSIGN(Turn turn_taken, turn(collection, options_.turn_seconds));
    // Meanwhile the collection's name may have been switched to another one, where the id is another image's.
    SACCADE_ASSIGN(const std::optional<Item> there, turn_taken.writer.find_path(item.path));
    if (!there || there->id != id) return fail(ErrorCode::kNotFound, "id {}: no such item", id);
    if (sent) uploads_.mark(owner, item.path);
    const std::array<int64_t, 1> ids = {id};
    const Result<int64_t> removed = turn_taken.writer.remove_ids(ids);
    if (!removed) {
      if (sent) (void)uploads_.settle(owner, item.path, true);
      return fail(removed.error());
    }
    if (*removed == 0) return fail(ErrorCode::kNotFound, "id {}: no such item", id);
    if (!sent) return {};
    return uploads_.settle(owner, item.path, false).in("out of the collection, and its file not removed");
  };
  Status removed = remove();
  // A full disk has no room for the catalog's log, nor for a lock's content: the file's room is enough.
  if (!removed && removed.error().code == ErrorCode::kIo && sent) {
    SACCADE_TRY(uploads_.remove(item.path));
    removed = remove();
    if (!removed && removed.error().code == ErrorCode::kIo) {
      return fail(ErrorCode::kCancelled, "the file of id {} is removed, its item is not: {}; try again", id,
                  removed.error().message);
    }
  }
  SACCADE_TRY(std::move(removed));
  return collection.follow();
}

Status Jobs::remove_unfinished(ServedCollection& collection) {
  if (!takes_pictures()) return {};
  const Uploads::Owner owner = owner_of(collection);
  if (uploads_.unfinished(owner).empty()) return {};
  SACCADE_ASSIGN(const Turn turn_taken, turn(collection, 0));
  for (const fs::path& file : uploads_.unfinished(owner)) {
    uploads_.remove_pieces(file);
    SACCADE_ASSIGN(const std::optional<Item> item, turn_taken.writer.find_path(catalog_path(file)));
    SACCADE_TRY(uploads_.settle(owner, file, item.has_value()));
  }
  return {};
}

}  // namespace saccade::serve
