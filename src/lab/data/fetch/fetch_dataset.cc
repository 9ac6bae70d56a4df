#include "lab/data/fetch/fetch_dataset.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "lab/data/fetch/shard_file.h"
#include "lab/data/readers/piece_file.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_files.h"
#include "saccade/core/hash.h"
#include "saccade/core/seconds_since.h"
#include "saccade/hub/address_range.h"
#include "saccade/hub/client.h"
#include "saccade/hub/guarded_fetch.h"
#include "saccade/image/image_view.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using namespace data;

constexpr std::string_view kFetchMark = "fetched dataset";
constexpr std::string_view kSpoolName = ".spool-";
constexpr size_t kOpenShards = 2;
constexpr auto kLongestRetryWait = std::chrono::minutes(5);
constexpr int kCheckedSide = 64;  // JPEGs are decoded at a smaller size, of at least this

// Temporary file without a name for images that wait for the rows before them. Thread-safe.
class Spool {
 public:
  static Result<std::unique_ptr<Spool>> open(const fs::path& folder) {
    std::string name = (folder / fmt::format("{}XXXXXX", kSpoolName)).string();
    Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
    if (file.get() < 0) return fail_errno(errno, fmt::format("create {}", name));
    auto reader = PieceFile::open(name);
    ::unlink(name.c_str());
    if (!reader) return fail(std::move(reader).error());
    return std::make_unique<Spool>(std::move(file), *std::move(reader));
  }
  Spool(Descriptor file, PieceFile reader) : file_(std::move(file)), reader_(std::move(reader)) {}

  // Returns the offset of the bytes.
  Result<int64_t> add(std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    SACCADE_TRY(write_all(file_.get(), std::as_bytes(std::span(bytes)), "a temporary file"));
    return std::exchange(end_, end_ + std::ssize(bytes));
  }
  Result<std::string> read(int64_t begin, int64_t size) const {
    std::string bytes(static_cast<size_t>(size), '\0');
    SACCADE_TRY(reader_.read(begin, bytes));
    return bytes;
  }

 private:
  std::mutex mutex_;
  Descriptor file_;  // guarded by mutex_
  int64_t end_ = 0;  // guarded by mutex_
  PieceFile reader_;
};

// Row of a shard that is being fetched.
struct OpenRow {
  UrlRow row;
  bool before = false;  // its sample is in the shard of an earlier run
  int64_t offset = -1;  // of its image in the spool; -1: there is none
  int64_t size = 0;
  std::string ending;
  std::string sha256;
  FetchFailure failure;
};

struct OpenShard {
  int64_t number = 0;
  int64_t first_row = 0;
  std::vector<OpenRow> rows;
  std::unique_ptr<Spool> spool;
  int64_t waiting = 0;  // rows without an outcome; guarded by Fetcher::mutex_
};

std::string shard_name(int64_t number, std::string_view ending) {
  return fmt::format("{:05}.{}", number, ending);
}

// Returns kUsage for a folder with files of others.
Status check_is_ours(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "fetch.json", error)) return {};
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name == ".lock" || temporary_of(name) == "fetch.json") continue;
    return fail(ErrorCode::kUsage,
                "{} has files that this command did not write, such as {}; name an empty folder with -o",
                folder.string(), name);
  }
  return {};
}

// Rows of all tables, one table after the other.
class AllRows {
 public:
  explicit AllRows(const FetchOptions& options) : options_(options) {}
  Result<bool> next(UrlRow& row) {
    for (;;) {
      if (!table_) {
        if (at_ == options_.tables.size()) return false;
        SACCADE_ASSIGN(table_, open_url_table(options_.tables[at_], options_.columns).in(name()));
      }
      SACCADE_ASSIGN(const bool more, table_->next(row).in(name()));
      if (more) return true;
      table_ = nullptr;
      ++at_;
    }
  }

 private:
  [[nodiscard]] std::string name() const { return options_.tables[at_].string(); }
  const FetchOptions& options_;
  size_t at_ = 0;
  std::unique_ptr<UrlTable> table_;
};

class Fetcher {
 public:
  Fetcher(const FetchOptions& options, const ProgressCallback& progress, const std::stop_token& stop)
      : options_(options),
        progress_(progress),
        stop_(stop),
        schedule_(options.limits),
        names_(options.resolve ? options.resolve : HostNames::Resolve(hub::resolve_host)) {}

  Result<FetchReport> run();

 private:
  Result<Json> describe();
  Status prepare_folder(const Json& description);
  // Checks a shard of an earlier run. nullopt: it is not finished.
  Result<std::optional<ShardRecord>> finished(int64_t number) const;
  Status fetch_all();
  Status open_shard(int64_t number, AllRows& rows, const ShardRecord* before);
  Status wait_for(OpenShard& shard);
  Status write_shard(OpenShard& shard);
  Status write_failures() const;
  void work(const std::stop_token& stop);
  void fetch_row(FetchJob job, const std::stop_token& stop);
  void end_run(Error error);
  [[nodiscard]] bool is_public(const std::string& address) const;
  [[nodiscard]] std::optional<std::string_view> kind_of(ErrorCode code) const;
  Result<std::string> ending_of(std::string_view image, const std::stop_token& stop) const;
  void settle(OpenShard& shard);
  void report_progress();
  [[nodiscard]] int64_t rows_of(int64_t shard) const {
    return std::min(options_.rows_per_shard, report_.rows - shard * options_.rows_per_shard);
  }
  OpenShard* shard_of(int64_t row);

  const FetchOptions& options_;
  const ProgressCallback& progress_;
  const std::stop_token stop_;
  FetchSchedule schedule_;
  HostNames names_;
  FetchReport report_;
  std::map<int64_t, ShardRecord> records_;
  std::deque<std::unique_ptr<OpenShard>> open_;  // guarded by mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  Status broken_;  // error of this machine that ends the run; guarded by mutex_
  std::atomic<int64_t> requests_ = 0;
  std::atomic<int64_t> done_ = 0;
};

// Reads all tables once: a broken one is told before anything is fetched.
Result<Json> Fetcher::describe() {
  Json tables = Json::array();
  for (const fs::path& path : options_.tables) {
    SACCADE_ASSIGN(const std::string hash, sha256_file(path));
    std::error_code error;
    const auto size = fs::file_size(path, error);
    tables.push_back(
        {{"name", path.filename().string()}, {"bytes", error ? 0 : int64_t(size)}, {"sha256", hash}});
  }
  AllRows rows(options_);
  for (UrlRow row;;) {
    SACCADE_ASSIGN(const bool more, rows.next(row));
    if (!more) break;
    if (++report_.rows % 1000 == 0 && stop_.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
  }
  if (report_.rows == 0) return fail(ErrorCode::kBadData, "the tables have no rows");
  report_.shards = (report_.rows + options_.rows_per_shard - 1) / options_.rows_per_shard;
  const UrlColumns& columns = options_.columns;
  return Json{{"saccade", kFetchMark},
              {"version", 1},
              {"tables", tables},
              {"columns",
               {{"url", columns.url},
                {"caption", columns.caption},
                {"id", columns.id},
                {"kept", columns.kept},
                {"header", columns.header}}},
              {"rows", report_.rows},
              {"rows_per_shard", options_.rows_per_shard}};
}

Status Fetcher::prepare_folder(const Json& description) {
  std::error_code error;
  const fs::path settings = options_.folder / "fetch.json";
  if (fs::exists(settings, error)) {
    SACCADE_ASSIGN(const Json before, read_json(settings));
    if (before != description) {
      return fail(ErrorCode::kMismatch,
                  "{}: made from other tables, columns or rows per shard; name another folder with -o",
                  settings.string());
    }
  } else {
    SACCADE_TRY(write_file_atomic(settings, dump_json(description, 2) + "\n"));
  }
  std::vector<fs::path> left;  // temporary files of a killed run
  for (const auto& entry : fs::directory_iterator(options_.folder, error)) {
    const std::string name = entry.path().filename().string();
    const auto target = temporary_of(name);
    if (name.starts_with(kSpoolName)) left.push_back(entry.path());
    if (target && (target->ends_with(".tar") || target->ends_with(".json") || *target == "failures.jsonl"))
      left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove(path, error);
  return {};
}

Result<std::optional<ShardRecord>> Fetcher::finished(int64_t number) const {
  const fs::path path = options_.folder / shard_name(number, "json");
  const fs::path tar = options_.folder / shard_name(number, "tar");
  std::error_code error;
  if (!fs::exists(path, error)) return std::optional<ShardRecord>();
  SACCADE_ASSIGN(const Json json, read_json(path));
  SACCADE_ASSIGN(ShardRecord record, parse_shard_record(json).in(path.string()));
  const auto changed = [&] {
    return fail(ErrorCode::kMismatch, "{} has changed since it was written; delete {} to fetch it again",
                tar.string(), path.string());
  };
  if (record.shard != number || record.rows != rows_of(number)) return changed();
  if (static_cast<int64_t>(fs::file_size(tar, error)) != record.bytes || error) return changed();
  SACCADE_ASSIGN(const std::string hash, sha256_file(tar));
  if (hash != record.sha256) return changed();
  return std::optional<ShardRecord>(std::move(record));
}

Status Fetcher::open_shard(int64_t number, AllRows& rows, const ShardRecord* before) {
  auto shard = std::make_unique<OpenShard>();
  shard->number = number;
  shard->first_row = number * options_.rows_per_shard;
  SACCADE_ASSIGN(shard->spool, Spool::open(options_.folder));
  shard->rows.resize(static_cast<size_t>(rows_of(number)));
  std::vector<FetchJob> jobs;
  for (size_t i = 0; i < shard->rows.size(); ++i) {
    OpenRow& open = shard->rows[i];
    SACCADE_ASSIGN(const bool more, rows.next(open.row));
    if (!more) return fail(ErrorCode::kMismatch, "a table has changed while it was read");
    const int64_t row = shard->first_row + static_cast<int64_t>(i);
    open.before = before != nullptr && std::none_of(before->failures.begin(), before->failures.end(),
                                                    [&](const auto& each) { return each.row == row; });
    if (open.before) continue;
    open.failure = {.row = row, .url = open.row.url, .kind = "address"};
    if (!open.row.problem.empty()) {
      open.failure.reason = open.row.problem;
      continue;
    }
    const auto url = hub::url_parts(open.row.url);
    if (!url) {
      open.failure.reason = url.error().message;
      continue;
    }
    jobs.push_back({.row = row, .host = url->host, .url = open.row.url});
  }
  shard->waiting = static_cast<int64_t>(jobs.size());
  done_ += static_cast<int64_t>(shard->rows.size() - jobs.size());
  {
    const std::lock_guard lock(mutex_);
    open_.push_back(std::move(shard));
  }
  for (FetchJob& job : jobs) schedule_.add(std::move(job));
  return {};
}

OpenShard* Fetcher::shard_of(int64_t row) {
  const std::lock_guard lock(mutex_);
  for (const auto& shard : open_) {
    if (shard->number == row / options_.rows_per_shard) return shard.get();
  }
  return nullptr;
}

void Fetcher::settle(OpenShard& shard) {
  ++done_;
  const std::lock_guard lock(mutex_);
  if (--shard.waiting == 0) changed_.notify_all();
}

// Ends the run with an error of this machine. The row has no outcome, so that the next run fetches its shard again.
void Fetcher::end_run(Error error) {
  const std::lock_guard lock(mutex_);
  broken_ = fail(std::move(error));
  changed_.notify_all();
}

bool Fetcher::is_public(const std::string& address) const {
  if (options_.is_public) return options_.is_public(address);
  const auto number = hub::ip_address(address);
  return number && hub::is_public(*number);
}

// Returns the kind of failure of bytes that are not decoded with this error. nullopt: it says nothing of the bytes.
std::optional<std::string_view> Fetcher::kind_of(ErrorCode code) const {
  switch (code) {
    case ErrorCode::kUnsupported:
      return "not_an_image";
    case ErrorCode::kBadData:
    case ErrorCode::kLimit:
      return "broken_image";
    case ErrorCode::kInternal:  // a decoder's process answers nonsense; without one, libvips does not start
      if (options_.processes != nullptr) return "broken_image";
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

// Decodes an image. Returns the ending of its format, or the decoder's error.
Result<std::string> Fetcher::ending_of(std::string_view image, const std::stop_token& stop) const {
  DecodeOptions decode;
  decode.max_bytes = options_.max_bytes;
  decode.shrink_to_side = kCheckedSide;
  decode.processes = options_.processes;
  decode.stop = stop;
  std::string ending;
  SACCADE_TRY(decode_for(std::as_bytes(std::span(image)), decode, [&](const PictureView& picture) -> Status {
    ending = image_ending(picture.format);
    return {};
  }));
  return ending;
}

void Fetcher::fetch_row(FetchJob job, const std::stop_token& stop) {
  OpenShard* shard = shard_of(job.row);
  if (shard == nullptr) return;
  OpenRow& open = shard->rows[static_cast<size_t>(job.row - shard->first_row)];
  hub::GuardedFetch fetch;
  fetch.max_bytes = options_.max_bytes;
  fetch.seconds = options_.seconds;
  fetch.redirects = options_.redirects;
  fetch.before_redirect = [&] { return schedule_.turn(stop); };
  fetch.permit = [&](const hub::UrlParts& url) -> Result<std::vector<std::string>> {
    ++requests_;
    const auto limit = std::chrono::milliseconds(static_cast<int64_t>(options_.seconds * 1000));
    SACCADE_ASSIGN(std::vector<std::string> addresses, names_.addresses(url.host, limit, stop));
    for (const std::string& address : addresses) {
      if (!options_.private_networks && !is_public(address)) {
        return fail(ErrorCode::kUnsupported, "{} is not a public address: {}", url.host, address);
      }
    }
    return addresses;
  };
  hub::HttpResult reply = hub::fetch_guarded(job.url, fetch, stop);
  if (stop.stop_requested()) return;
  FetchFailure& failure = open.failure;
  bool passing = false;
  std::optional<std::chrono::milliseconds> asked;
  if (!reply) {
    const Error& error = reply.error().error;
    passing = reply.error().passing || error.code == ErrorCode::kIo;
    failure.kind = reply.error().late                      ? "timeout"
                   : error.code == ErrorCode::kUnsupported ? "refused"
                   : error.code == ErrorCode::kLimit       ? "too_large"
                                                           : "connection";
    failure.reason = error.message;
  } else if (reply->status != 200) {
    failure.kind = "status";
    failure.status = reply->status;
    failure.reason = fmt::format("the server answers with status {}", reply->status);
    passing = hub::is_passing(reply->status);
    if (passing) asked = hub::asked_wait(*reply);
  } else if (auto ending = ending_of(reply->body, stop); !ending) {
    if (stop.stop_requested()) return;
    const auto kind = kind_of(ending.error().code);
    if (!kind) return end_run(ending.error().in(job.url));
    failure.kind = *kind;
    failure.reason = fmt::format("{} bytes: {}", reply->body.size(), ending.error().message);
  } else {
    open.ending = *std::move(ending);
    open.sha256 = sha256_hex(reply->body);
    open.size = std::ssize(reply->body);
    auto offset = shard->spool->add(reply->body);
    if (!offset) return end_run(std::move(offset).error());
    open.offset = *offset;
    return settle(*shard);
  }
  const auto first = std::chrono::milliseconds(static_cast<int64_t>(options_.first_wait * 1000));
  const auto wait = asked.value_or(first * (int64_t{1} << std::min(job.tries, 6)));
  if (passing && job.tries < options_.retries && wait <= kLongestRetryWait) {
    const auto when = Clock::now() + wait;
    if (asked) schedule_.hold(job.host, when);
    ++job.tries;
    return schedule_.add(std::move(job), when);
  }
  settle(*shard);
}

void Fetcher::work(const std::stop_token& stop) {
  while (auto job = schedule_.take(stop)) {
    const std::string host = job->host;
    try {
      fetch_row(*std::move(job), stop);
    } catch (const std::exception& error) {  // no memory
      end_run({ErrorCode::kInternal, fmt::format("fetch: {}", error.what())});
    }
    schedule_.finish(host);
  }
}

void Fetcher::report_progress() {
  if (progress_) progress_({.what = "fetching", .done = done_, .total = report_.rows, .detail = {}});
}

Status Fetcher::wait_for(OpenShard& shard) {
  std::unique_lock lock(mutex_);
  while (shard.waiting > 0 && broken_) {
    if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    changed_.wait_for(lock, std::chrono::milliseconds(200));
    lock.unlock();
    report_progress();
    lock.lock();
  }
  return broken_;
}

Status Fetcher::write_shard(OpenShard& shard) {
  const fs::path path = options_.folder / shard_name(shard.number, "tar");
  ShardRecord record{
      .shard = shard.number, .first_row = shard.first_row, .rows = static_cast<int64_t>(shard.rows.size())};
  std::optional<PieceFile> old;
  std::map<std::string, SampleRange> samples;
  if (records_.contains(shard.number)) {
    SACCADE_ASSIGN(old, PieceFile::open(path));
    SACCADE_ASSIGN(samples, shard_samples(*old).in(path.string()));
  }
  SACCADE_ASSIGN(TarWriter tar, TarWriter::create(path));
  int64_t fetched = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < shard.rows.size(); ++i) {
    const OpenRow& open = shard.rows[i];
    const int64_t row = shard.first_row + static_cast<int64_t>(i);
    const std::string key = sample_key(row);
    if (open.before) {
      const auto range = samples.find(key);
      if (range == samples.end()) return fail(ErrorCode::kMismatch, "{}: no sample {}", path.string(), key);
      std::string members(static_cast<size_t>(range->second.end - range->second.begin), '\0');
      SACCADE_TRY(old->read(range->second.begin, members));
      SACCADE_TRY(tar.add_members(members));
      ++record.images;
      continue;
    }
    if (open.offset < 0) {
      record.failures.push_back(open.failure);
      continue;
    }
    SACCADE_ASSIGN(const std::string image, shard.spool->read(open.offset, open.size));
    SACCADE_TRY(tar.add(fmt::format("{}.{}", key, open.ending), image));
    Json json = {{"key", key}, {"row", row}, {"url", open.row.url}};
    if (!open.row.id.empty()) json["id"] = open.row.id;
    json["captions"] = open.row.captions;
    json["sha256"] = open.sha256;
    for (const auto& [name, value] : open.row.kept.items()) json[name] = value;
    std::string text;
    for (std::string caption : open.row.captions) {
      std::replace(caption.begin(), caption.end(), '\n', ' ');
      std::replace(caption.begin(), caption.end(), '\r', ' ');
      text += caption + "\n";
    }
    if (!text.empty()) SACCADE_TRY(tar.add(key + ".txt", text));
    SACCADE_TRY(tar.add(key + ".json", dump_json(json) + "\n"));
    ++record.images;
    ++fetched;
    bytes += open.size;
  }
  // The record of the shard that is replaced must not survive it.
  if (old) {
    std::error_code error;
    fs::remove(options_.folder / shard_name(shard.number, "json"), error);
  }
  SACCADE_TRY(tar.commit());
  record.bytes = tar.bytes();
  record.sha256 = tar.sha256();
  SACCADE_TRY(write_file_atomic(options_.folder / shard_name(shard.number, "json"),
                                dump_json(shard_record_json(record), 2) + "\n"));
  records_[shard.number] = std::move(record);
  report_.fetched += fetched;
  report_.bytes += bytes;
  return {};
}

Status Fetcher::fetch_all() {
  AllRows rows(options_);
  const auto end_first = [&]() -> Status {
    OpenShard& first = *open_.front();
    SACCADE_TRY(wait_for(first));
    SACCADE_TRY(write_shard(first));
    const std::lock_guard lock(mutex_);
    open_.pop_front();
    return {};
  };
  for (int64_t number = 0; number < report_.shards; ++number) {
    if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    SACCADE_ASSIGN(auto before, finished(number));
    if (before) {
      const bool again = options_.retry_failed && !before->failures.empty();
      records_[number] = *before;
      if (!again) {
        ++report_.kept_shards;
        UrlRow skipped;
        for (int64_t i = 0; i < rows_of(number); ++i) SACCADE_TRY(rows.next(skipped));
        done_ += rows_of(number);
        report_progress();
        continue;
      }
    }
    SACCADE_TRY(open_shard(number, rows, before ? &*before : nullptr));
    if (open_.size() == kOpenShards) SACCADE_TRY(end_first());
  }
  while (!open_.empty()) SACCADE_TRY(end_first());
  return {};
}

// Writes the failures of all finished shards.
Status Fetcher::write_failures() const {
  SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(options_.folder / "failures.jsonl"));
  for (const auto& [number, record] : records_) {
    for (const FetchFailure& failure : record.failures) {
      SACCADE_TRY(file.write(dump_json(fetch_failure_json(failure)) + "\n"));
    }
  }
  return file.commit();
}

Result<FetchReport> Fetcher::run() {
  const auto start = Clock::now();
  SACCADE_TRY(hub::HttpSession::open({}));
  SACCADE_ASSIGN(const Json description, describe());
  SACCADE_TRY(make_folders(options_.folder));
  SACCADE_TRY(check_is_ours(options_.folder));
  SACCADE_ASSIGN(const Descriptor lock, lock_file(options_.folder / ".lock", "fetching into this folder"));
  SACCADE_TRY(prepare_folder(description));
  Status done;
  {
    std::stop_source ending;
    const std::stop_callback stopped(stop_, [&ending] { ending.request_stop(); });
    std::vector<std::jthread> workers;
    for (int i = 0; i < options_.connections; ++i)
      workers.emplace_back([this, token = ending.get_token()] { work(token); });
    done = fetch_all();
    ending.request_stop();
  }
  if (!done && done.error().code != ErrorCode::kCancelled) return fail(std::move(done).error());
  report_.cancelled = !done;
  // The list is complete after a stop, too: finished shards behind it keep their failures.
  for (int64_t number = 0; !done && number < report_.shards; ++number) {
    if (records_.contains(number)) continue;
    const auto json = read_json(options_.folder / shard_name(number, "json"));
    if (!json) continue;
    auto record = parse_shard_record(*json);
    if (record) records_[number] = *std::move(record);
  }
  SACCADE_TRY(write_failures());
  report_.list = options_.folder / "failures.jsonl";
  report_.untried = report_.rows;
  for (const auto& [number, record] : records_) {
    report_.images += record.images;
    report_.failed += std::ssize(record.failures);
    report_.untried -= record.rows;
    for (const FetchFailure& failure : record.failures) ++report_.failures[failure.kind];
  }
  report_.requests = requests_;
  report_.seconds = seconds_since(start);
  return report_;
}

}  // namespace

Json fetch_report_json(const FetchReport& report) {
  return {{"rows", report.rows},         {"images", report.images},           {"fetched", report.fetched},
          {"failed", report.failed},     {"untried", report.untried},         {"failures", report.failures},
          {"shards", report.shards},     {"kept_shards", report.kept_shards}, {"requests", report.requests},
          {"bytes", report.bytes},       {"seconds", report.seconds},         {"cancelled", report.cancelled},
          {"list", report.list.string()}};
}

Result<FetchReport> fetch_dataset(const FetchOptions& options, const ProgressCallback& progress,
                                  const std::stop_token& stop) {
  return Fetcher(options, progress, stop).run();
}

}  // namespace saccade::lab
