#include "saccade/collection/ingest.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <sys/stat.h>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "saccade/collection/late_item.h"
#include "saccade/collection/picture.h"
#include "saccade/collection/store.h"
#include "saccade/collection/walk.h"
#include "saccade/core/files.h"
#include "saccade/core/hash.h"

namespace saccade {
namespace {

using Clock = std::chrono::steady_clock;

// Late rows kept in memory before a transaction is written. Copies of a picture within one share no memory,
// so that thousands of them may take more, at 512 items a transaction at most.
constexpr int64_t kPendingBytes = int64_t{64} << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A number of units that many threads share. First come,
// first served: a large request is not starved by small ones.
class Budget {
 public:
  explicit Budget(int64_t units) : total_(units), free_(units) {}

  // Returns what was taken: `units`, or all there is where that is more.
  int64_t acquire(int64_t units) {
    units = std::min(units, total_);
    std::unique_lock lock(mutex_);
    const int64_t ticket = next_++;
    changed_.wait(lock, [&] { return ticket == serving_ && free_ >= units; });
    free_ -= units;
    ++serving_;
    changed_.notify_all();
    return units;
  }

  void release(int64_t units) {
    const std::lock_guard lock(mutex_);
    free_ += units;
    changed_.notify_all();
  }

 private:
  const int64_t total_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t free_;
  int64_t next_ = 0;
  int64_t serving_ = 0;
};

class Share {
 public:
  Share(Budget& budget, int64_t units) : budget_(budget), units_(budget.acquire(units)) {}
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share() { budget_.release(units_); }

 private:
  Budget& budget_;
  int64_t units_;
};

struct FileState {
  int64_t size = 0;
  int64_t mtime_ns = 0;
};

Result<FileState> file_state(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return fail_errno(errno, "open");
  return FileState{info.st_size, int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

Error no_such_input() {
  return {ErrorCode::kNotFound, "no such file or folder"};
}

// Certain that nothing has this name any more; a folder we may not look into is no proof.
bool is_gone(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

std::string trimmed(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

// A file on its way from the walker to the pool.
struct Task {
  int64_t sequence = 0;
  std::string path;
  FileState state;
  std::optional<Item> existing;  // the item of this path
  std::string caption;
};

// And on its way back.
struct Prepared {
  Task task;
  std::string hash;
  bool same_content = false;   // as the item of this path has
  bool known_content = false;  // another item has it: not decoded
  DecodedImage picture;        // format and size; pixels are dropped
  std::vector<float> pixels;   // as the encoder reads them
  std::optional<Error> error;
  bool catalog_failed = false;  // the error is the collection's, not this file's
};

// Everything one run needs. The calling thread walks, asks the catalog, encodes and writes; tasks of the pool
// turn files into Prepared. Results are taken in the order of the walk, whichever thread is done first, so
// that ids and batches do not depend on timing.
class Run {
 public:
  Run(CollectionWriter& collection, Encoder& encoder, const IngestOptions& options, ThreadPool& pool,
      const ProgressCallback& progress, std::stop_token stop)
      : collection_(collection),
        encoder_(encoder),
        options_(options),
        pool_(pool),
        progress_(progress),
        stop_(std::move(stop)),
        decode_(picture_decode_options(collection.info().settings, encoder.preprocessing(), options.limits)),
        batch_size_(std::max(1, options.batch)),
        window_(std::max<int64_t>(2 * int64_t{batch_size_}, 4 * int64_t{pool.size()})),
        pixel_budget_(std::max<int64_t>(options.pixels_in_flight, 1)),
        budget_(pixel_budget_) {
    for (const auto& [path, caption] : options.captions)
      captions_.emplace(catalog_path(path), trimmed(caption));
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  // Tasks refer to this object: none may outlive it.
  ~Run() {
    std::unique_lock lock(mutex_);
    abandoned_ = true;
    changed_.wait(lock, [&] { return running_ == 0; });
  }

  Result<IngestReport> run(std::span<const std::filesystem::path> inputs);

 private:
  // An item on its way into the catalog.
  struct Pending {
    Item item;
    std::vector<float> values;    // its row, once encoded
    std::vector<std::byte> late;  // and those of late interaction, where the collection keeps such
    int64_t copy_of = -1;         // index of the pending item with the same content
    bool duplicate = false;
    std::optional<Error> error;  // the encoder gave no usable row
  };

  Status check_inputs(const WalkResult& found);
  Status offer(const std::string& path);
  void prepare(Task task);
  Status read(Prepared& prepared, std::string& bytes);
  Result<bool> decode(Prepared& prepared, std::string_view bytes, int64_t max_pixels);
  Status read_and_decode(Prepared& prepared);
  std::string caption_of(const std::string& path);
  Status take_ready(bool all);
  Status take(Prepared prepared);
  Result<std::optional<Item>> find_moved(const std::string& hash);
  Status take_known(Item item, const Item& known);
  Status take_new(Item item, Prepared prepared);
  Item item_of(const Prepared& prepared) const;
  void add_failure(const Task& task, Error error);
  void report_failure(const std::string& path, Error error);
  Status encode_rows(MatrixView<const float> pixels);
  Status encode_late(MatrixView<const float> pixels);
  Status encode_batch();
  Status flush();
  Status flush_if_due();
  Status look_for_missing(const WalkResult& found);
  void tell();

  CollectionWriter& collection_;
  Encoder& encoder_;
  const IngestOptions& options_;
  ThreadPool& pool_;
  const ProgressCallback& progress_;
  std::stop_token stop_;
  const DecodeOptions decode_;
  const int batch_size_;
  const int64_t window_;  // files between the walker and the batch, at most
  const int64_t pixel_budget_;
  Budget budget_;
  std::unordered_map<std::string, std::string> captions_;

  // Shared with the tasks.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool abandoned_ = false;
  int64_t running_ = 0;
  std::unordered_map<int64_t, Prepared> ready_;  // by sequence
  IngestReport::Seconds worker_seconds_;
  int64_t bytes_read_ = 0;

  // The calling thread's own.
  IngestReport report_;
  int64_t total_ = 0;
  int64_t offered_ = 0;  // sequence numbers given out
  int64_t taken_ = 0;
  std::vector<Pending> pending_;
  std::unordered_map<std::string, int64_t> pending_hashes_;
  std::vector<std::pair<int64_t, std::vector<float>>> batch_;  // (index into pending_, pixels)
  CollectionChange change_;                                    // all but the puts
  int64_t pending_bytes_ = 0;                                  // of late rows
  // By hash, for content that items have: the last item looked at for having moved.
  std::unordered_map<std::string, int64_t> examined_;
  int64_t pending_moved_ = 0;
  int64_t pending_unchanged_ = 0;
  Clock::time_point last_flush_ = Clock::now();
};

Failure failure_of(const std::string& path, Error error) {
  Failure failure;
  failure.path = path;
  failure.code = error.code;
  failure.reason = std::move(error.message);
  // Readers of files put the path in front; the list of failures has it already.
  if (failure.reason.starts_with(path + ": ")) failure.reason.erase(0, path.size() + 2);
  failure.when = store::now_seconds();
  return failure;
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
    if (text.error().code != ErrorCode::kNotFound)
      report_.unread_captions.push_back(failure_of(sidecar.string(), text.error()));
  }
  return {};
}

// Reads the file, unless `bytes` holds it, and asks the catalog whether its content is known.
Status Run::read(Prepared& prepared, std::string& bytes) {
  if (!bytes.empty()) return {};
  const auto start = Clock::now();
  SACCADE_ASSIGN(bytes, read_file(prepared.task.path, decode_.max_bytes));
  prepared.hash = sha256_hex(bytes);
  {
    const std::lock_guard lock(mutex_);
    worker_seconds_.read += seconds_since(start);
    bytes_read_ += static_cast<int64_t>(bytes.size());
  }
  if (prepared.task.existing && prepared.task.existing->hash == prepared.hash) {
    prepared.same_content = true;
    return {};
  }
  const auto known = collection_.find_hash(prepared.hash);
  if (!known) {
    prepared.catalog_failed = true;
    return fail(known.error());
  }
  prepared.known_content = !known->empty();
  return {};
}

// False: the picture has more than max_pixels, but not more than the run allows.
Result<bool> Run::decode(Prepared& prepared, std::string_view bytes, int64_t max_pixels) {
  DecodeOptions options = decode_;
  options.max_pixels = std::min(decode_.max_pixels, max_pixels);
  auto start = Clock::now();
  auto decoded = decode_image(std::as_bytes(std::span(bytes)), options);
  const double decoding = seconds_since(start);
  {
    const std::lock_guard lock(mutex_);
    worker_seconds_.decode += decoding;
  }
  if (!decoded) {
    const bool in_time = decode_.max_seconds <= 0 || decoding < decode_.max_seconds;
    const bool too_large =
        decoded.error().code == ErrorCode::kLimit && options.max_pixels < decode_.max_pixels;
    if (too_large && in_time) return false;
    return fail(std::move(decoded).error());
  }
  prepared.picture = *std::move(decoded);
  start = Clock::now();
  const Preprocessing& preprocessing = encoder_.preprocessing();
  prepared.pixels.resize(size_t{3} * static_cast<size_t>(preprocessing.output_height()) *
                         static_cast<size_t>(preprocessing.output_width()));
  SACCADE_TRY(preprocess_picture(prepared.picture.image, preprocessing, collection_.info().settings,
                                 prepared.pixels));
  prepared.picture.image = Image{};
  const std::lock_guard lock(mutex_);
  worker_seconds_.preprocess += seconds_since(start);
  return true;
}

Status Run::read_and_decode(Prepared& prepared) {
  // How large a picture is shows only when its header is read, which the decoder does before it takes memory:
  // ask for a thread's even share first, and for twice as much as long as that is refused. The share covers
  // the file's bytes too; between two tries only small files are kept.
  constexpr int64_t kLeastShare = 4'000'000;
  constexpr int64_t kBytesAPixel = 4;
  constexpr size_t kKeptBytes = size_t{16} << 20;
  int64_t share = std::max(pixel_budget_ / pool_.size(), std::min(kLeastShare, pixel_budget_));
  std::string bytes;
  for (;;) {
    const Share held(budget_, std::max(share, prepared.task.state.size / kBytesAPixel));
    SACCADE_TRY(read(prepared, bytes));
    if (prepared.same_content || prepared.known_content) return {};
    const int64_t max_pixels = share >= pixel_budget_ ? decode_.max_pixels : share;
    SACCADE_ASSIGN(const bool fits, decode(prepared, bytes, max_pixels));
    if (fits) return {};
    if (bytes.size() > kKeptBytes) bytes = std::string();
    share *= 2;
  }
}

void Run::prepare(Task task) {
  Prepared prepared;
  prepared.task = std::move(task);
  bool abandoned = false;
  {
    const std::lock_guard lock(mutex_);
    abandoned = abandoned_;
  }
  if (!abandoned) {
    try {
      if (auto status = read_and_decode(prepared); !status) prepared.error = std::move(status).error();
    } catch (const std::bad_alloc&) {
      prepared.error = Error{ErrorCode::kLimit, "not enough memory"};
    }
  }
  const std::lock_guard lock(mutex_);
  ready_.emplace(prepared.task.sequence, std::move(prepared));
  --running_;
  changed_.notify_all();
}

// Skips a file that needs nothing, or hands it to the pool.
Status Run::offer(const std::string& path) {
  const auto start = Clock::now();
  ++report_.seen;
  Task task;
  task.path = path;
  const auto state = file_state(path);
  if (!state) {
    report_failure(path, state.error());
    return {};
  }
  task.state = *state;
  SACCADE_ASSIGN(task.existing, collection_.find_path(path));
  task.caption = caption_of(path);
  const auto same = [&](const auto& known) {
    return known.size == task.state.size && known.mtime_ns == task.state.mtime_ns;
  };
  if (task.existing && same(*task.existing)) {
    if (task.caption.empty() || task.caption == task.existing->caption) {
      ++report_.unchanged;
    } else {
      task.existing->caption = std::move(task.caption);
      change_.updates.push_back(*std::move(task.existing));
      ++pending_unchanged_;
    }
    report_.seconds.walk += seconds_since(start);
    return {};
  }
  if (!options_.retry_failed) {
    SACCADE_ASSIGN(const std::optional<Failure> failure, collection_.find_failure(path));
    if (failure && same(*failure)) {
      ++report_.skipped_failed;
      report_.seconds.walk += seconds_since(start);
      return {};
    }
  }
  task.sequence = offered_++;
  report_.peak_queue = std::max(report_.peak_queue, offered_ - taken_);
  {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  pool_.submit([this, moved = std::make_shared<Task>(std::move(task))] { prepare(std::move(*moved)); });
  report_.seconds.walk += seconds_since(start);
  return {};
}

// Takes finished files in order; waits for them while the window is full, or until all are through.
Status Run::take_ready(bool all) {
  while (taken_ < offered_) {
    const bool must_wait = all || offered_ - taken_ >= window_;
    Prepared next;
    {
      std::unique_lock lock(mutex_);
      if (!must_wait && ready_.find(taken_) == ready_.end()) return {};
      const auto start = Clock::now();
      changed_.wait(lock, [&] { return ready_.find(taken_) != ready_.end(); });
      report_.seconds.waiting += seconds_since(start);
      next = std::move(ready_.extract(taken_).mapped());
    }
    ++taken_;
    if (stop_.stop_requested()) return {};
    SACCADE_TRY(take(std::move(next)));
    SACCADE_TRY(flush_if_due());
    tell();
  }
  return {};
}

Item Run::item_of(const Prepared& prepared) const {
  Item item;
  if (prepared.task.existing) {
    item = *prepared.task.existing;  // its id, caption and date of arrival stay
  } else {
    item.added = store::now_seconds();
  }
  item.path = prepared.task.path;
  item.hash = prepared.hash;
  item.size = prepared.task.state.size;
  item.mtime_ns = prepared.task.state.mtime_ns;
  if (!prepared.task.caption.empty()) item.caption = prepared.task.caption;
  return item;
}

// An item of that content whose file is gone. Each item is
// looked at once a run, however many copies there are.
Result<std::optional<Item>> Run::find_moved(const std::string& hash) {
  const auto found = examined_.find(hash);
  int64_t examined = found == examined_.end() ? 0 : found->second;
  for (;;) {
    SACCADE_ASSIGN(std::vector<Item> known, collection_.find_hash(hash, examined));
    if (known.empty()) return std::optional<Item>();
    for (Item& candidate : known) {
      examined = candidate.id;
      if (!is_gone(candidate.path)) continue;
      examined_[hash] = examined;
      return std::optional<Item>(std::move(candidate));
    }
    examined_[hash] = examined;
  }
}

Status Run::take(Prepared prepared) {
  if (prepared.error) {
    if (prepared.catalog_failed) return fail(*std::move(prepared.error));
    add_failure(prepared.task, *std::move(prepared.error));
    return {};
  }
  Item item = item_of(prepared);
  if (prepared.same_content) {
    change_.updates.push_back(std::move(item));
    ++pending_unchanged_;
    return {};
  }
  SACCADE_ASSIGN(const std::vector<Item> known, collection_.find_hash(item.hash));
  if (!prepared.task.existing) {
    SACCADE_ASSIGN(std::optional<Item> moved, find_moved(item.hash));
    if (moved) {
      moved->path = item.path;
      moved->size = item.size;
      moved->mtime_ns = item.mtime_ns;
      if (!item.caption.empty()) moved->caption = item.caption;
      change_.updates.push_back(*std::move(moved));
      ++pending_moved_;
      return {};
    }
  }
  if (!known.empty()) return take_known(std::move(item), known.front());
  if (prepared.known_content) {
    // The item that had this content has changed since the pool looked: start over with this file.
    --report_.seen;
    return offer(prepared.task.path);
  }
  return take_new(std::move(item), std::move(prepared));
}

// The same bytes as an item of the catalog: the same row, without encoding again.
Status Run::take_known(Item item, const Item& known) {
  Pending pending;
  item.width = known.width;
  item.height = known.height;
  item.format = known.format;
  pending.item = std::move(item);
  pending.duplicate = true;
  SACCADE_ASSIGN(pending.values, collection_.row_values(known.row));
  SACCADE_ASSIGN(pending.late, collection_.late_values(known.row));
  pending_bytes_ += static_cast<int64_t>(pending.late.size());
  pending_.push_back(std::move(pending));
  return {};
}

Status Run::take_new(Item item, Prepared prepared) {
  Pending pending;
  item.width = prepared.picture.original_width;
  item.height = prepared.picture.original_height;
  item.format = prepared.picture.format;
  const auto index = static_cast<int64_t>(pending_.size());
  const auto [same, first] = pending_hashes_.emplace(item.hash, index);
  pending.item = std::move(item);
  pending.duplicate = !first;
  if (!first) pending.copy_of = same->second;
  pending_.push_back(std::move(pending));
  if (first) batch_.emplace_back(index, std::move(prepared.pixels));
  return static_cast<int>(batch_.size()) < batch_size_ ? Status{} : encode_batch();
}

void Run::report_failure(const std::string& path, Error error) {
  report_.failed.push_back(failure_of(path, std::move(error)));
}

void Run::add_failure(const Task& task, Error error) {
  const bool vanished = error.code == ErrorCode::kNotFound;
  report_failure(task.path, std::move(error));
  if (vanished) return;
  Failure& failure = report_.failed.back();
  failure.size = task.state.size;
  failure.mtime_ns = task.state.mtime_ns;
  change_.failures.push_back(failure);
}

// One row a picture of the batch.
Status Run::encode_rows(MatrixView<const float> pixels) {
  const int64_t dim = collection_.info().checkpoint.dim;
  SACCADE_ASSIGN(const Matrix<float> rows, encoder_.encode_images(pixels).in("encode images"));
  if (rows.rows() != pixels.rows() || rows.columns() != dim) {
    return fail(ErrorCode::kInternal, "encode images: [{}, {}] came back, expected [{}, {}]", rows.rows(),
                rows.columns(), pixels.rows(), dim);
  }
  for (size_t i = 0; i < batch_.size(); ++i) {
    Pending& pending = pending_[static_cast<size_t>(batch_[i].first)];
    const auto row = rows.row(static_cast<int64_t>(i));
    if (auto usable = store::check_row(row.data(), dim); usable) {
      pending.values.assign(row.begin(), row.end());
    } else {
      pending.error = Error{ErrorCode::kInternal, "the encoder gave " + usable.error().message};
    }
  }
  return {};
}

// Many rows a picture, and their mean, which is what encode_images would give.
Status Run::encode_late(MatrixView<const float> pixels) {
  const LateSettings& settings = *collection_.info().settings.late;
  const int64_t dim = collection_.info().checkpoint.dim;
  SACCADE_ASSIGN(const RowSets sets,
                 encoder_.late_interaction()->encode_image_rows(pixels).in("encode images"));
  if (static_cast<int64_t>(sets.begin.size()) != pixels.rows() + 1 || sets.rows.columns() != dim ||
      sets.begin.front() != 0 || sets.begin.back() != sets.rows.rows() ||
      !std::ranges::is_sorted(sets.begin)) {
    return fail(ErrorCode::kInternal,
                "encode images: {} sets of [{}, {}] rows came back, expected {} of {} columns",
                sets.begin.size() - 1, sets.rows.rows(), sets.rows.columns(), pixels.rows(), dim);
  }
  for (size_t i = 0; i < batch_.size(); ++i) {
    Pending& pending = pending_[static_cast<size_t>(batch_[i].first)];
    const auto rows = sets.rows.view().slice(sets.begin[i], sets.begin[i + 1] - sets.begin[i]);
    if (auto item = make_late_item(rows, settings); item) {
      pending.values = std::move(item->mean);
      pending.late = std::move(item->stored);
      pending_bytes_ += static_cast<int64_t>(pending.late.size());
    } else {
      pending.error = Error{ErrorCode::kInternal, "the encoder gave " + item.error().message};
    }
  }
  return {};
}

Status Run::encode_batch() {
  if (batch_.empty()) return {};
  const auto start = Clock::now();
  Matrix<float> pixels(static_cast<int64_t>(batch_.size()),
                       static_cast<int64_t>(batch_.front().second.size()));
  for (size_t i = 0; i < batch_.size(); ++i) {
    std::copy(batch_[i].second.begin(), batch_[i].second.end(), pixels.row(static_cast<int64_t>(i)).begin());
  }
  SACCADE_TRY(collection_.info().settings.late ? encode_late(pixels.view()) : encode_rows(pixels.view()));
  batch_.clear();
  report_.seconds.encode += seconds_since(start);
  return {};
}

// Commits what has been encoded. Anything still waiting for the encoder is dropped: the caller encodes first,
// unless it has been asked to stop.
Status Run::flush() {
  const auto start = Clock::now();
  IngestReport counted;
  for (Pending& pending : pending_) {
    if (pending.copy_of >= 0) {
      const Pending& source = pending_[static_cast<size_t>(pending.copy_of)];
      pending.values = source.values;
      pending.late = source.late;
      pending.error = source.error;
    }
  }
  for (Pending& pending : pending_) {
    if (pending.error) {
      Task task;
      task.path = pending.item.path;
      task.state = {pending.item.size, pending.item.mtime_ns};
      add_failure(task, *std::move(pending.error));
    } else if (!pending.values.empty()) {
      pending.item.id == 0 ? ++counted.added : ++counted.updated;
      if (pending.item.id == 0 && pending.duplicate) ++counted.duplicates;
      change_.puts.push_back({std::move(pending.item), std::move(pending.values), std::move(pending.late)});
    }
  }
  pending_.clear();
  pending_hashes_.clear();
  pending_bytes_ = 0;
  batch_.clear();
  SACCADE_TRY(collection_.commit(change_));
  change_ = CollectionChange{};
  report_.added += counted.added;
  report_.updated += counted.updated;
  report_.duplicates += counted.duplicates;
  report_.moved += std::exchange(pending_moved_, 0);
  report_.unchanged += std::exchange(pending_unchanged_, 0);
  report_.seconds.write += seconds_since(start);
  last_flush_ = Clock::now();
  return {};
}

Status Run::flush_if_due() {
  const auto items = static_cast<int64_t>(pending_.size() + change_.updates.size() + change_.failures.size());
  if (items == 0) return {};
  if (items < options_.items_per_transaction && pending_bytes_ < kPendingBytes &&
      seconds_since(last_flush_) < options_.seconds_per_transaction) {
    return {};
  }
  SACCADE_TRY(encode_batch());
  return flush();
}

void Run::tell() {
  if (!progress_) return;
  const int64_t done = report_.seen - (offered_ - taken_);
  const std::string detail =
      report_.failed.empty() ? std::string() : fmt::format("{} failed", report_.failed.size());
  progress_({"indexing", done, total_, detail});
}

// Inputs that are not there: with `prune`, what the catalog has of them goes; otherwise each is a failure,
// and if there is nothing else, the run's.
Status Run::check_inputs(const WalkResult& found) {
  bool any = !found.files.empty() || !found.folders.empty();
  for (const std::string& path : found.missing) {
    bool known = false;
    if (options_.prune) {
      SACCADE_TRY(collection_.for_each_item_under(path, [&](const Item&) {
        known = true;
        return Status{};
      }));
    }
    any = any || known;
    if (!known) report_failure(path, no_such_input());
  }
  if (!any && !found.missing.empty()) {
    return fail(no_such_input().in(found.missing.front()));
  }
  for (const auto& folder : found.unreadable) report_failure(folder.path, folder.error);
  return {};
}

Status Run::look_for_missing(const WalkResult& found) {
  const std::unordered_set<std::string_view> seen(found.files.begin(), found.files.end());
  std::unordered_set<int64_t> gone;
  CollectionChange change;
  // Files named by themselves and gone are in `missing`; those that were found need no second look.
  for (const auto* inputs : {&found.folders, &found.missing}) {
    for (const std::string& input : *inputs) {
      SACCADE_TRY(collection_.for_each_item_under(input, [&](const Item& item) {
        if (seen.find(item.path) == seen.end() && is_gone(item.path)) gone.insert(item.id);
        return Status{};
      }));
      SACCADE_TRY(collection_.for_each_failure_under(input, [&](const Failure& failure) {
        if (seen.find(failure.path) == seen.end() && is_gone(failure.path)) {
          change.forget_failures.push_back(failure.path);
        }
        return Status{};
      }));
    }
  }
  if (!options_.prune) {
    report_.missing = static_cast<int64_t>(gone.size());
    return {};
  }
  change.removals.assign(gone.begin(), gone.end());
  SACCADE_TRY(collection_.commit(change));
  report_.removed = static_cast<int64_t>(gone.size());
  return {};
}

Result<IngestReport> Run::run(std::span<const std::filesystem::path> inputs) {
  const auto start = Clock::now();
  const CollectionInfo& info = collection_.info();
  const CheckpointId given{encoder_.info().family, "", encoder_.info().fingerprint, encoder_.info().dim};
  SACCADE_TRY(
      check_same_checkpoint(info, given).in(fmt::format("collection {}", collection_.folder().string())));
  if (info.settings.late) SACCADE_TRY(check_grid(encoder_, *info.settings.late));

  const WalkOptions walking{options_.follow_links, options_.hidden, collection_.folder()};
  const WalkResult found = walk(inputs, walking, stop_, [&](int64_t count) {
    if (progress_) progress_({"looking for pictures", count, 0, {}});
  });
  report_.seconds.walk = seconds_since(start);
  SACCADE_TRY(check_inputs(found));
  total_ = static_cast<int64_t>(found.files.size());
  for (const std::string& path : found.files) {
    if (stop_.stop_requested()) break;
    SACCADE_TRY(offer(path));
    SACCADE_TRY(take_ready(false));
    SACCADE_TRY(flush_if_due());
    if (report_.seen % 64 == 0) tell();
  }
  if (!stop_.stop_requested()) SACCADE_TRY(take_ready(true));
  if (!stop_.stop_requested()) SACCADE_TRY(encode_batch());
  SACCADE_TRY(flush());
  report_.cancelled = stop_.stop_requested();
  if (!report_.cancelled) SACCADE_TRY(look_for_missing(found));
  tell();

  {
    const std::lock_guard lock(mutex_);
    report_.seconds.read = worker_seconds_.read;
    report_.seconds.decode = worker_seconds_.decode;
    report_.seconds.preprocess = worker_seconds_.preprocess;
    report_.bytes_read = bytes_read_;
  }
  report_.seconds.total = seconds_since(start);
  std::sort(report_.failed.begin(), report_.failed.end(),
            [](const Failure& a, const Failure& b) { return a.path < b.path; });
  return std::move(report_);
}

}  // namespace

Status check_any_input(std::span<const std::filesystem::path> inputs) {
  for (const std::filesystem::path& input : inputs) {
    if (!is_missing(catalog_path(input))) return {};
  }
  if (inputs.empty()) return {};
  return fail(no_such_input().in(catalog_path(inputs.front())).in("index"));
}

Result<IngestReport> ingest(CollectionWriter& collection, Encoder& encoder,
                            std::span<const std::filesystem::path> inputs, const IngestOptions& options,
                            ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop) {
  Run run(collection, encoder, options, pool, progress, std::move(stop));
  return run.run(inputs).in("index");
}

}  // namespace saccade
