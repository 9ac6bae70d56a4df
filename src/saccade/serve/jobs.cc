#include "saccade/serve/jobs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/collection/collection_json.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/threads.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;

// What a file of that format is called at its end.
Result<std::string> ending_of(const std::string& format) {
  std::string ending = "." + (format == "heif" ? std::string("heic") : format == "jpeg" ? "jpg" : format);
  if (has_image_extension("picture" + ending)) return ending;
  return fail(ErrorCode::kUnsupported, "a picture of format {}, which is not taken in", format);
}

// Asked for when something is new, and given back with this.
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

}  // namespace

Jobs::Jobs(JobOptions options) : options_(std::move(options)) {
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

void Jobs::change(Job& job, const std::string& state) {
  const std::lock_guard lock(mutex_);
  if (job.state.state == "running") job.state.seconds = seconds_since(job.began);
  job.state.state = state;
  ++job.state.version;
  if (state == "running") job.began = std::chrono::steady_clock::now();
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
    }
    change(*next, "running");
    Status status;
    try {
      status = run(*next);
    } catch (const std::exception& error) {
      status = fail(ErrorCode::kInternal, "{}", error.what());
    }
    const bool cancelled =
        next->stop.stop_requested() && (status || status.error().code == ErrorCode::kCancelled);
    if (!status && !cancelled) {
      const std::lock_guard lock(mutex_);
      next->state.error = status.error().message;
    }
    change(*next, cancelled ? "cancelled" : status ? "done" : "failed");
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
  Lent lent{*served.model};
  const EncoderSource encoder = [&] { return lent(); };
  ThreadPool pool(options_.threads);
  {
    SACCADE_ASSIGN(CollectionWriter writer, CollectionWriter::open(served.folder()));
    const std::array<fs::path, 1> inputs = {job.path};
    SACCADE_ASSIGN(const IngestReport report,
                   ingest(writer, encoder, inputs, job.options, pool, progress, stop));
    const std::lock_guard lock(mutex_);
    job.state.report = ingest_json(report);
    ++job.state.version;
  }
  SACCADE_TRY(served.follow());
  if (stop.stop_requested()) return {};
  const std::shared_ptr<const Snapshot> now = served.now();
  if (now->collection.item_count() == 0) return {};
  SACCADE_ASSIGN(const bool due, background_is_due(now->collection));
  if (!due) return {};
  SACCADE_ASSIGN(EncoderBackend * loaded, encoder());
  SACCADE_TRY(refresh_background(now->collection, *loaded, pool, stop));
  return served.follow();
}

Result<std::unique_lock<std::timed_mutex>> Jobs::turn(ServedCollection& collection) const {
  std::unique_lock lock(collection.writing, std::defer_lock);
  if (!lock.try_lock_for(std::chrono::duration<double>(options_.turn_seconds))) {
    return fail(ErrorCode::kCancelled, "{} is being indexed: try again when that has ended",
                collection.name());
  }
  return lock;
}

Status Jobs::take_room(int64_t bytes) {
  if (options_.uploads_bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  if (!uploaded_) {
    uploaded_ = 0;
    std::error_code error;
    for (fs::recursive_directory_iterator file(options_.uploads, error), end; !error && file != end;
         file.increment(error)) {
      std::error_code gone;
      const auto size = file->is_regular_file(gone) ? file->file_size(gone) : 0;
      if (!gone) *uploaded_ += static_cast<int64_t>(size);
    }
  }
  if (*uploaded_ + bytes > options_.uploads_bytes) {
    return fail(ErrorCode::kLimit, "no room for a picture of {} bytes: {} of {} are taken", bytes, *uploaded_,
                options_.uploads_bytes);
  }
  *uploaded_ += bytes;
  return {};
}

void Jobs::give_room(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (uploaded_) *uploaded_ = std::max(int64_t{0}, *uploaded_ - bytes);
}

Result<int64_t> Jobs::add_picture(ServedCollection& collection, std::string_view bytes,
                                  const std::string& caption) {
  IngestOptions options = options_.ingest;
  SACCADE_ASSIGN(const DecodedImage picture, decode_image(std::as_bytes(std::span(bytes)), options.limits));
  SACCADE_ASSIGN(const std::string ending, ending_of(picture.format));
  const fs::path folder = options_.uploads / collection.name();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
  const std::string hash = sha256_hex(bytes);
  const fs::path file = folder / (hash + ending);
  SACCADE_ASSIGN(const auto turn_taken, turn(collection));
  const bool fresh = !fs::exists(file, error);
  if (fresh) {
    SACCADE_TRY(take_room(std::ssize(bytes)));
    if (Status written = write_file_atomic(file, bytes); !written) {
      give_room(std::ssize(bytes));
      return tl::unexpected<Error>(std::move(written).error());
    }
  }
  const auto drop = [&] {
    if (fresh && fs::remove(file, error)) give_room(std::ssize(bytes));
  };
  options.sidecar_captions = false;
  options.retry_failed = true;
  if (!caption.empty()) options.captions[file.string()] = caption;
  Lent lent{*collection.model};
  ThreadPool pool(1);
  SACCADE_ASSIGN(CollectionWriter writer, CollectionWriter::open(collection.folder()));
  // Who sends a picture wants it, though it was taken out once; what lies elsewhere still stays out.
  SACCADE_ASSIGN(const std::vector<std::string> removed, writer.removed_of_hash(hash));
  for (const std::string& path : removed) {
    if (path == catalog_path(file) || !fs::exists(path, error)) SACCADE_TRY(writer.forget_removed(path));
  }
  const std::array<fs::path, 1> inputs = {file};
  SACCADE_ASSIGN(const IngestReport report,
                 ingest(writer, EncoderSource([&] { return lent(); }), inputs, options, pool));
  if (!report.failed.empty()) drop();
  if (!report.failed.empty()) return fail(report.failed.front().code, "{}", report.failed.front().reason);
  SACCADE_ASSIGN(const std::optional<Item> item, writer.find_path(catalog_path(file)));
  if (!item) return fail(ErrorCode::kInternal, "{}: was not taken in", file.string());
  SACCADE_TRY(collection.follow());
  return item->id;
}

Status Jobs::remove_picture(ServedCollection& collection, int64_t id) {
  SACCADE_ASSIGN(const auto turn_taken, turn(collection));
  SACCADE_TRY(collection.follow());
  SACCADE_ASSIGN(const Item item, collection.now()->collection.item(id));
  {
    SACCADE_ASSIGN(CollectionWriter writer, CollectionWriter::open(collection.folder()));
    const std::array<int64_t, 1> ids = {id};
    SACCADE_TRY(writer.remove_ids(ids));
  }
  const fs::path path = item.path;
  if (path.parent_path() == fs::path(catalog_path(options_.uploads / collection.name()))) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (!error && fs::remove(path, error)) give_room(static_cast<int64_t>(size));
    if (error && error != std::errc::no_such_file_or_directory)
      return fail(ErrorCode::kIo, "{}: out of the collection, and not removed: {}", item.path,
                  error.message());
  }
  return collection.follow();
}

}  // namespace saccade::serve
