#include "saccade/imagegen/texts.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/imagegen/checked_answer.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

TextPicture without(std::string error) {
  return {.file = {}, .width = 0, .height = 0, .error = std::move(error)};
}

class TextRun {
 public:
  TextRun(std::span<const std::string> texts, PictureEngine& engine, const TextPicturesOptions& options,
          const ProgressCallback& progress, const std::stop_token& stop)
      : texts_(texts),
        engine_(engine),
        options_(options),
        progress_(progress),
        stop_(stop),
        pictures_(texts.size()) {
    limits_ = {.decode = options.decode, .width = engine.asked_width(), .height = engine.asked_height()};
    limits_.decode.max_pixels = options.max_pixels;
    Json settings = engine.settings();
    settings["seed"] = options.seed;
    settings_ = dump_json(settings);
  }

  Result<std::vector<TextPicture>> run() {
    if (texts_.empty()) return std::move(pictures_);
    SACCADE_TRY(make_folders(options_.folder));
    {
      std::vector<std::jthread> threads;
      const auto wanted = static_cast<size_t>(std::max(1, engine_.calls_at_once()));
      for (size_t i = 1; i < std::min(wanted, texts_.size()); ++i) {
        threads.emplace_back([this] {
          try {
            work_along();
          } catch (...) {
            const std::lock_guard lock(mutex_);
            thrown_ = std::current_exception();
            next_ = texts_.size();
          }
        });
      }
      work_along();
    }
    if (thrown_) std::rethrow_exception(thrown_);
    if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    if (failure_) return fail(*failure_);
    return std::move(pictures_);
  }

 private:
  void work_along() {
    for (;;) {
      const size_t number = next_.fetch_add(1);
      if (number >= texts_.size() || stop_.stop_requested()) return;
      TextPicture picture = make(texts_[number]);
      const std::lock_guard lock(mutex_);
      pictures_[number] = std::move(picture);
      ++done_;
      if (progress_)
        progress_({.what = "generating", .done = done_, .total = std::ssize(texts_), .detail = {}});
    }
  }

  TextPicture make(const std::string& text) {
    const std::string key = sha256_hex(dump_json(Json::array({text, settings_})));
    for (const char* extension : {"png", "jpg", "webp"}) {
      const fs::path file = place(key, extension);
      std::error_code error;
      if (!fs::is_regular_file(file, error)) continue;
      const auto bytes = read_file(file, options_.decode.max_bytes);
      if (!bytes) continue;
      if (const auto answer = look_at_answer(*bytes, limits_)) {
        return {.file = file, .width = answer->width, .height = answer->height, .error = {}};
      }
    }
    if (const auto over = engine_.over()) return without(over->message);
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return without(failure_->message);
    }
    const PictureRequest request{
        .text = text, .reference = nullptr, .seed = std::stoull(key.substr(0, 16), nullptr, 16)};
    const Result<std::string> bytes = engine_.make({&request, 1}, stop_).front();
    if (!bytes) return without(bytes.error().message);
    const auto answer = look_at_answer(*bytes, limits_);
    if (!answer) return without(answer.error().message);
    const fs::path file = place(key, answer->extension);
    if (const Status written = write_file_atomic(file, *bytes); !written) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = written.error();
      return without(written.error().message);
    }
    return {.file = file, .width = answer->width, .height = answer->height, .error = {}};
  }

  [[nodiscard]] fs::path place(const std::string& key, std::string_view extension) const {
    return options_.folder / fmt::format("generated-{}.{}", key.substr(0, 32), extension);
  }

  std::span<const std::string> texts_;
  PictureEngine& engine_;
  const TextPicturesOptions& options_;
  const ProgressCallback& progress_;
  const std::stop_token& stop_;
  AnswerLimits limits_;
  std::string settings_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;  // guards all members below
  std::vector<TextPicture> pictures_;
  int64_t done_ = 0;
  std::optional<Error> failure_;
  std::exception_ptr thrown_;  // such as that memory has run out
};

}  // namespace

Result<std::vector<TextPicture>> generate_text_pictures(std::span<const std::string> texts,
                                                        PictureEngine& engine,
                                                        const TextPicturesOptions& options,
                                                        const ProgressCallback& progress,
                                                        const std::stop_token& stop) {
  return TextRun(texts, engine, options, progress, stop).run();
}

}  // namespace saccade
