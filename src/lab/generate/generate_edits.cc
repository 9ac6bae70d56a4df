#include "lab/generate/generate_edits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "lab/data/edit_queries.h"
#include "lab/data/generated.h"
#include "lab/data/read_dataset.h"
#include "saccade/core/counts.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/random.h"
#include "saccade/image/read_pixels.h"
#include "saccade/imagegen/checked_answer.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPictures = "pictures";
constexpr const char* kLock = "lock";
constexpr std::array<const char*, 3> kExtensions = {"png", "jpg", "webp"};
constexpr int64_t kListEvery = 500;  // images between two writings of the list
constexpr size_t kFailuresKept = 10;

// An image to make: the lines that need it, and its state.
struct Job {
  std::string key;
  size_t picture = 0;  // the reference, in EditQueries::gallery
  std::string text;
  uint64_t seed = 0;
  std::vector<size_t> queries;  // numbers in the list
  bool tried = false;
};

fs::path picture_place(const std::string& key, std::string_view extension) {
  return fs::path(kPictures) / key.substr(0, 2) / fmt::format("{}.{}", key, extension);
}

// Returns the first 64 bits of a hash's hexadecimal digits.
uint64_t number_of(const std::string& hash) {
  return std::stoull(hash.substr(0, 16), nullptr, 16);
}

class Run {
 public:
  Run(const Dataset& dataset, const EditQueries& edits, PictureEngine& engine,
      const GenerateEditsOptions& options, ThreadPool& pool, const ProgressCallback& progress,
      const std::stop_token& stop)
      : dataset_(dataset),
        edits_(edits),
        engine_(engine),
        options_(options),
        pool_(pool),
        progress_(progress),
        stop_(stop) {}

  Result<GenerateEditsReport> run() {
    const auto started = std::chrono::steady_clock::now();
    SACCADE_TRY(claim_folder());
    list_.dataset = dataset_.name;
    list_.dataset_hash = dataset_.hash;
    list_.engine = engine_.settings();
    list_.engine["seed"] = options_.seed;
    choose_queries();
    SACCADE_TRY(make_jobs());
    SACCADE_TRY(find_what_is_there());
    const Status worked = work();
    const Status listed = write_list();
    SACCADE_TRY(worked);
    SACCADE_TRY(listed);
    count();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
    report_.seconds = seconds.count();
    return report_;
  }

 private:
  // Checks that the folder is not somebody else's, and holds no other list.
  Status claim_folder() {
    const fs::path& folder = options_.folder;
    std::error_code error;
    const bool has_list = fs::exists(folder / kGeneratedFile, error);
    if (fs::exists(folder, error) && !has_list) {
      for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name == kPictures || name == kLock) continue;
        return fail(ErrorCode::kUsage,
                    "{} is there and holds other things ({}): name an empty or a new folder", folder.string(),
                    name);
      }
    }
    if (error) return fail(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
    if (has_list && !options_.replace_list) SACCADE_TRY(compare_with_list());
    SACCADE_TRY(make_folders(folder / kPictures));
    SACCADE_ASSIGN(lock_, lock_file(folder / kLock, "generating images into this folder"));
    report_.list = folder / kGeneratedFile;
    return {};
  }

  Status compare_with_list() {
    SACCADE_ASSIGN(const GeneratedEdits there, read_generated_edits(options_.folder));
    const std::string where = (options_.folder / kGeneratedFile).string();
    const char* remedy = "name another folder, or --replace-list (images that are there stay)";
    if (there.dataset_hash != dataset_.hash) {
      return fail(ErrorCode::kMismatch, "{}: generated for {} (hash {}), not for {} (hash {}): {}", where,
                  there.dataset, there.dataset_hash.substr(0, 16), dataset_.name, dataset_.hash.substr(0, 16),
                  remedy);
    }
    Json ours = engine_.settings();
    ours["seed"] = options_.seed;
    if (there.engine == ours) return {};
    for (const auto& [key, value] : ours.items()) {
      const Json other = there.engine.contains(key) ? there.engine[key] : Json();
      if (other == value) continue;
      return fail(ErrorCode::kMismatch, "{}: generated with \"{}\": {}, asked for is {}: {}", where, key,
                  dump_json(other), dump_json(value), remedy);
    }
    return fail(ErrorCode::kMismatch, "{}: generated with other settings: {}: {}", where,
                dump_json(there.engine), remedy);
  }

  void choose_queries() {
    chosen_.resize(edits_.items.size());
    std::iota(chosen_.begin(), chosen_.end(), size_t{0});
    if (options_.limit <= 0 || std::ssize(chosen_) <= options_.limit) return;
    SplitMix random(options_.seed);
    random.shuffle(chosen_);
    chosen_.resize(static_cast<size_t>(options_.limit));
    std::ranges::sort(chosen_);
  }

  // Makes the lines of the list, and the images they need. References are read for their hashes.
  Status make_jobs() {
    const GalleryIndex gallery(edits_);
    std::vector<size_t> references;  // numbers of images, each once
    std::unordered_map<size_t, size_t> place;
    std::vector<size_t> reference_of;
    for (const size_t number : chosen_) {
      const EditQuery& query = edits_.items[number];
      GeneratedEdit& edit = list_.edits.emplace_back();
      edit.query = query.id;
      edit.gallery = query.gallery;
      edit.reference = query.reference;
      edit.text = edit_text(query.texts);
      SACCADE_ASSIGN(const size_t picture, gallery.at(query.gallery, query.reference).in(query.id));
      const auto [at, added] = place.emplace(picture, references.size());
      if (added) references.push_back(picture);
      reference_of.push_back(at->second);
    }
    std::vector<Result<std::string>> hashes(references.size(), std::string());
    pool_.parallel_for(std::ssize(references), 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && !stop_.stop_requested(); ++i) {
        const auto at = static_cast<size_t>(i);
        const auto bytes = read_image_bytes(edits_.gallery[references[at]].image, options_.decode.max_bytes);
        hashes[at] = bytes ? Result<std::string>(sha256_hex(*bytes)) : fail(bytes.error());
      }
    });
    if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    const std::string settings = dump_json(list_.engine);
    std::unordered_map<std::string, size_t> jobs;
    for (size_t i = 0; i < list_.edits.size(); ++i) {
      GeneratedEdit& edit = list_.edits[i];
      if (edit.text.empty()) {
        edit.error = "the text is empty: nothing is to be different";
        continue;
      }
      const Result<std::string>& hash = hashes[reference_of[i]];
      if (!hash) {
        edit.error = "the reference: " + hash.error().message;
        continue;
      }
      const std::string key = sha256_hex(dump_json(Json::array({*hash, edit.text, settings})));
      const auto [at, added] = jobs.emplace(key, jobs_.size());
      if (added) {
        jobs_.push_back({.key = key,
                         .picture = references[reference_of[i]],
                         .text = edit.text,
                         .seed = number_of(key),
                         .queries = {}});
      }
      jobs_[at->second].queries.push_back(i);
    }
    return {};
  }

  void place(const Job& job, const fs::path& file, int width, int height) {
    for (const size_t number : job.queries) {
      GeneratedEdit& edit = list_.edits[number];
      edit.file = file;
      edit.width = width;
      edit.height = height;
      edit.error.clear();
    }
  }

  // Finds images of earlier runs. A file that is not an image (somebody wrote into it) is made again.
  Status find_what_is_there() {
    std::vector<uint8_t> found(jobs_.size(), 0);
    std::mutex mutex;
    pool_.parallel_for(std::ssize(jobs_), 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && !stop_.stop_requested(); ++i) {
        const Job& job = jobs_[static_cast<size_t>(i)];
        for (const char* extension : kExtensions) {
          const fs::path file = picture_place(job.key, extension);
          std::error_code error;
          if (!fs::is_regular_file(options_.folder / file, error)) continue;
          const auto bytes = read_file(options_.folder / file, options_.decode.max_bytes);
          const auto answer =
              bytes ? look_at_answer(*bytes, answer_limits(1)) : Result<PictureAnswer>(fail(bytes.error()));
          if (!answer) continue;
          const std::lock_guard lock(mutex);
          place(job, file, answer->width, answer->height);
          found[static_cast<size_t>(i)] = 1;
          break;
        }
      }
    });
    if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    std::vector<Job> left;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (found[i] == 0) {
        left.push_back(std::move(jobs_[i]));
      } else {
        report_.there += std::ssize(jobs_[i].queries);
        report_.shared += std::ssize(jobs_[i].queries) - 1;
      }
    }
    jobs_ = std::move(left);
    return {};
  }

  // size_only_above: images with more pixels are not decoded.
  [[nodiscard]] AnswerLimits answer_limits(int64_t size_only_above) const {
    AnswerLimits limits{
        .decode = options_.decode, .width = engine_.asked_width(), .height = engine_.asked_height()};
    // Cancellation does not apply here: received images are kept.
    limits.decode.max_pixels = options_.max_pixels;
    limits.decode.size_only_above = size_only_above;
    return limits;
  }

  Status work() {
    std::vector<std::jthread> threads;
    const auto wanted = static_cast<size_t>(std::max(1, engine_.calls_at_once()));
    const size_t batches = (jobs_.size() + static_cast<size_t>(engine_.at_once()) - 1) /
                           static_cast<size_t>(std::max<int64_t>(1, engine_.at_once()));
    DecodeOptions decode = options_.decode;
    decode.vector_side = engine_.vector_side();
    decode.stop = stop_;
    PictureReader reader(decode, kPixelsInFlight, pool_.size());
    reader_ = &reader;
    tell();
    for (size_t i = 1; i < std::min(wanted, batches); ++i) threads.emplace_back([this] { work_along(); });
    work_along();
    threads.clear();
    reader_ = nullptr;
    return failure_ ? Status(fail(*failure_)) : Status();
  }

  // Work of one thread: batches until there are no more, or something ends the run.
  void work_along() {
    const auto size = static_cast<size_t>(std::max<int64_t>(1, engine_.at_once()));
    for (;;) {
      const size_t first = next_.fetch_add(size);
      if (first >= jobs_.size() || ended_ || stop_.stop_requested()) return;
      const auto batch = std::span(jobs_).subspan(first, std::min(size, jobs_.size() - first));
      make_batch(batch);
    }
  }

  void make_batch(std::span<Job> batch) {
    std::vector<Image> references(batch.size());
    std::vector<std::optional<Error>> unreadable(batch.size());
    pool_.parallel_for(std::ssize(batch), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        unreadable[at] = read_reference(batch[at], references[at]);
      }
    });
    std::vector<PictureRequest> requests;
    std::vector<Job*> asked;
    for (size_t i = 0; i < batch.size(); ++i) {
      if (unreadable[i]) {
        failed(batch[i], unreadable[i]->in("the reference"), false);
        continue;
      }
      requests.push_back({.text = batch[i].text, .reference = &references[i], .seed = batch[i].seed});
      asked.push_back(&batch[i]);
    }
    if (requests.empty()) return;
    std::vector<Result<std::string>> pictures = engine_.make(requests, stop_);
    for (size_t i = 0; i < asked.size(); ++i) take(*asked[i], std::move(pictures[i]));
  }

  std::optional<Error> read_reference(const Job& job, Image& out) {
    const ImageRef& image = edits_.gallery[job.picture].image;
    const auto bytes = [&]() -> Result<std::optional<std::string>> {
      return read_image_bytes(image, options_.decode.max_bytes);
    };
    return reader_
        ->read(bytes, image.size,
               [&](const PictureView& picture) -> Status {
                 out = engine_.reference(picture.image);
                 return {};
               })
        .error;
  }

  void take(Job& job, Result<std::string> picture) {
    if (!picture) {
      failed(job, picture.error(), true);
      return;
    }
    const auto answer = look_at_answer(*picture, answer_limits(0));
    if (!answer) {
      failed(job, answer.error(), true);
      return;
    }
    const fs::path file = picture_place(job.key, answer->extension);
    Status written = make_folders((options_.folder / file).parent_path());
    if (written) written = write_file_atomic(options_.folder / file, *picture);
    const std::lock_guard lock(mutex_);
    job.tried = true;
    if (!written) {
      // A full disk stays full, so it is better to stop than to pay for images that cannot be stored.
      if (!failure_) failure_ = written.error();
      ended_ = true;
      return;
    }
    place(job, file, answer->width, answer->height);
    ++report_.made;
    failed_in_a_row_ = 0;
    ++done_;
    if (report_.made % kListEvery == 0) static_cast<void>(write_list());
    tell();
  }

  void failed(Job& job, const Error& error, bool of_engine) {
    const std::lock_guard lock(mutex_);
    if (error.code == ErrorCode::kCancelled) return;
    const std::optional<Error> over = engine_.over();
    // Requests that were never sent count as untried.
    if (over && error.message == over->message) {
      end(over->message);
      return;
    }
    job.tried = true;
    ++done_;
    for (const size_t number : job.queries) list_.edits[number].error = error.message;
    if (of_engine && ++failed_in_a_row_ >= options_.give_up_after && options_.give_up_after > 0) {
      end(fmt::format("{} failed one after the other, the last: {}", counted(failed_in_a_row_, "image"),
                      error.message));
    }
    tell();
  }

  void end(std::string why) {
    if (report_.ended.empty()) report_.ended = std::move(why);
    ended_ = true;
  }

  // Called with the lock held, or from a single thread.
  void tell() const {
    if (!progress_) return;
    const std::string detail = fmt::format("{} made", report_.made);
    progress_({.what = "generating", .done = done_, .total = std::ssize(jobs_), .detail = detail});
  }

  Status write_list() {
    SACCADE_ASSIGN(const std::string text, format_generated_edits(list_));
    return write_file_atomic(options_.folder / kGeneratedFile, text);
  }

  void count() {
    report_.queries = std::ssize(list_.edits);
    for (const Job& job : jobs_) {
      if (job.tried) report_.shared += std::ssize(job.queries) - 1;
    }
    for (const GeneratedEdit& edit : list_.edits) {
      if (!edit.file.empty()) continue;
      if (edit.error.empty()) {
        ++report_.untried;
        continue;
      }
      ++report_.failed;
      if (report_.failures.size() < kFailuresKept) {
        report_.failures.push_back(fmt::format("{}: {}", edit.query, edit.error));
      }
    }
    report_.requests = engine_.requests();
    report_.bytes = engine_.bytes();
    report_.cut_texts = engine_.cut_texts();
    if (stop_.stop_requested()) {
      report_.cancelled = true;
      report_.ended = "stopped";
    }
  }

  const Dataset& dataset_;
  const EditQueries& edits_;
  PictureEngine& engine_;
  const GenerateEditsOptions& options_;
  ThreadPool& pool_;
  const ProgressCallback& progress_;
  const std::stop_token& stop_;

  Descriptor lock_;
  std::vector<size_t> chosen_;  // numbers of queries, ascending
  GeneratedEdits list_;
  std::vector<Job> jobs_;
  PictureReader* reader_ = nullptr;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> ended_ = false;
  std::mutex mutex_;  // guards everything below, and the list's lines
  GenerateEditsReport report_;
  int64_t done_ = 0;
  int64_t failed_in_a_row_ = 0;
  std::optional<Error> failure_;
};

}  // namespace

Json generate_edits_json(const GenerateEditsReport& report) {
  return {{"list", report.list.string()},
          {"queries", report.queries},
          {"there", report.there},
          {"made", report.made},
          {"shared", report.shared},
          {"failed", report.failed},
          {"untried", report.untried},
          {"requests", report.requests},
          {"bytes", report.bytes},
          {"texts_cut", report.cut_texts},
          {"seconds", report.seconds},
          {"failures", report.failures},
          {"ended", report.ended.empty() ? Json() : Json(report.ended)}};
}

Result<GenerateEditsReport> generate_edits(const Dataset& dataset, PictureEngine& engine,
                                           const GenerateEditsOptions& options, ThreadPool& pool,
                                           const ProgressCallback& progress, const std::stop_token& stop) {
  SACCADE_ASSIGN(const EditQueries* edits, dataset.need<EditQueries>());
  return Run(dataset, *edits, engine, options, pool, progress, stop).run();
}

}  // namespace saccade::lab
