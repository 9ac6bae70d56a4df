#include "saccade/image/read_pixels.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <stop_token>

#include "saccade/core/seconds_since.h"

namespace saccade {
namespace {

using Clock = std::chrono::steady_clock;

// A number of units that many threads share. First come, first served: a large request is not
// starved by small ones.
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

PictureReader::Outcome failed(Error error) {
  const bool of_the_bytes = is_of_the_bytes(error.code);
  return {.error = std::move(error), .of_the_bytes = of_the_bytes};
}

}  // namespace

bool is_of_the_bytes(ErrorCode code) {
  return code == ErrorCode::kBadData || code == ErrorCode::kUnsupported || code == ErrorCode::kLimit;
}

struct PictureReader::State {
  explicit State(int64_t pixels) : budget(pixels) {}
  Budget budget;
  mutable std::mutex mutex;
  Seconds seconds;
};

PictureReader::PictureReader(const DecodeOptions& options, int64_t pixels_in_flight, int threads)
    : options_(options),
      pixels_in_flight_(std::max<int64_t>(pixels_in_flight, 1)),
      first_share_(std::max(pixels_in_flight_ / std::max(threads, 1),
                            std::min<int64_t>(4'000'000, pixels_in_flight_))),
      state_(std::make_unique<State>(pixels_in_flight_)) {}
PictureReader::~PictureReader() = default;

PictureReader::Seconds PictureReader::seconds() const {
  const std::lock_guard lock(state_->mutex);
  return state_->seconds;
}

// Decodes the image; `nullopt` if it has more than max_pixels.
std::optional<PictureReader::Outcome> PictureReader::decode(std::string_view bytes, int64_t max_pixels,
                                                            const Use& use) {
  DecodeOptions options = options_;
  options.size_only_above = max_pixels;
  const auto start = Clock::now();
  std::optional<double> decoding;  // seconds, once it is done
  bool too_large = false;
  const Status done = decode_for(std::as_bytes(std::span(bytes)), options, [&](const PictureView& picture) {
    decoding = seconds_since(start);
    too_large = picture.image.pixels.empty();
    return too_large ? Status() : use(picture);
  });
  const double all = seconds_since(start);
  {
    const std::lock_guard lock(state_->mutex);
    state_->seconds.decode += decoding.value_or(all);
    state_->seconds.use += all - decoding.value_or(all);
  }
  if (too_large) return std::nullopt;
  if (done) return Outcome{};
  Outcome outcome = failed(done.error());
  const bool limited = !decoding && done.error().code == ErrorCode::kLimit;
  const bool out_of_time = limited && options.max_seconds > 0 && all >= options.max_seconds;
  outcome.of_the_bytes = outcome.of_the_bytes && !out_of_time;
  return outcome;
}

PictureReader::Outcome PictureReader::read_within(const ReadBytes& bytes, int64_t file_bytes,
                                                  const Use& use) {
  // The size of an image is known only when its header is read, which the decoder does before it allocates
  // memory. So a thread's even share is requested first, and doubled as long as that is refused. The share
  // covers the file's bytes too; between two tries only small files are kept.
  constexpr int64_t kBytesAPixel = 4;
  constexpr size_t kKeptBytes = size_t{16} << 20;
  std::optional<std::string> content;
  for (int64_t share = first_share_;; share *= 2) {
    const Share held(state_->budget, std::max(share, file_bytes / kBytesAPixel));
    if (!content) {
      auto read = bytes();
      if (!read) return failed(std::move(read).error());
      if (!*read) return {};
      content = *std::move(read);
    }
    auto outcome = decode(*content, share >= pixels_in_flight_ ? options_.max_pixels : share, use);
    if (outcome) return *std::move(outcome);
    if (content->size() > kKeptBytes) content.reset();
  }
}

PictureReader::Outcome PictureReader::read(const ReadBytes& bytes, int64_t file_bytes, const Use& use) {
  try {
    return read_within(bytes, file_bytes, use);
  } catch (const std::bad_alloc&) {
    return failed({ErrorCode::kIo, "not enough memory"});
  }
}

PixelOptions pixel_options(const Preprocessing& preprocessing, DecodeOptions decode) {
  decode.vector_side = vector_side(preprocessing);
  return {.decode = decode, .preprocessing = preprocessing};
}

PixelBatch read_pixels(int64_t count, const std::function<Result<std::string>(int64_t number)>& bytes,
                       const PixelOptions& options, ThreadPool& pool) {
  const Preprocessing& preprocessing = options.preprocessing;
  DecodeOptions decode = options.decode;
  std::stop_source ended;  // at the first failure, or with the caller's
  std::atomic<bool> failed = false;
  const std::stop_callback with_caller(options.decode.stop, [&] { ended.request_stop(); });
  if (options.all_or_none) decode.stop = ended.get_token();
  PictureReader reader(decode, options.pixels_in_flight, pool.size());
  PixelBatch batch;
  batch.pixels =
      Matrix<float>(count, int64_t{3} * preprocessing.output_height() * preprocessing.output_width());
  std::vector<std::optional<Error>> errors(static_cast<size_t>(count));
  pool.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto content = [&]() -> Result<std::optional<std::string>> { return bytes(i); };
      const auto use = [&](const PictureView& picture) {
        return preprocess(picture.image, preprocessing, batch.pixels.row(i));
      };
      std::optional<Error> error;
      if (options.all_or_none && ended.stop_requested()) {
        error = Error{ErrorCode::kCancelled, "asked to stop"};
      } else {
        error = reader.read(content, 0, use).error;
      }
      if (error && options.all_or_none) {
        if (failed.exchange(true)) return;  // ended for another's failure
        ended.request_stop();
      }
      errors[static_cast<size_t>(i)] = std::move(error);
    }
  });
  for (int64_t i = 0; i < count; ++i) {
    if (auto& error = errors[static_cast<size_t>(i)]) {
      batch.failed.emplace_back(i, *std::move(error));
      continue;
    }
    const auto row = static_cast<int64_t>(batch.which.size());
    if (row < i) std::ranges::copy(batch.pixels.row(i), batch.pixels.row(row).begin());
    batch.which.push_back(i);
  }
  batch.seconds = reader.seconds();
  return batch;
}

}  // namespace saccade
