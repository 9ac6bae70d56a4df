#include "saccade/serve/shared_encoder.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace saccade::serve {

// Either texts or pictures of one caller, who waits for its end.
struct SharedEncoder::Call {
  std::span<const TokenizedText> texts;
  MatrixView<const float> pixels;
  bool done = false;
  Result<Matrix<float>> rows = Matrix<float>();

  [[nodiscard]] bool of_texts() const { return !texts.empty(); }
  [[nodiscard]] int64_t size() const { return of_texts() ? std::ssize(texts) : pixels.rows(); }
  [[nodiscard]] int64_t tokens() const {
    int64_t sum = 0;
    for (const TokenizedText& text : texts) sum += std::ssize(text.ids);
    return sum;
  }
};

SharedEncoder::SharedEncoder(std::unique_ptr<Encoder> encoder, BatchLimits limits)
    : encoder_(std::move(encoder)),
      limits_(limits),
      worker_([this](std::stop_token stop) { work(std::move(stop)); }) {}

SharedEncoder::~SharedEncoder() = default;

Result<Matrix<float>> SharedEncoder::encode_texts(std::span<const TokenizedText> texts) {
  if (texts.empty()) return encoder_->encode_texts(texts);
  Call call;
  call.texts = texts;
  return wait_for(call);
}

Result<Matrix<float>> SharedEncoder::encode_images(MatrixView<const float> pixels) {
  if (pixels.rows() == 0) return encoder_->encode_images(pixels);
  Call call;
  call.pixels = pixels;
  return wait_for(call);
}

Result<Matrix<float>> SharedEncoder::wait_for(Call& call) {
  std::unique_lock lock(mutex_);
  calls_.push_back(&call);
  waiting_.notify_one();
  done_.wait(lock, [&] { return call.done; });
  return std::move(call.rows);
}

// The first call that waits, and those of its kind behind it that fit into one pass with it.
std::vector<SharedEncoder::Call*> SharedEncoder::take() {
  std::vector<Call*> taken;
  int64_t size = 0;
  int64_t tokens = 0;
  const bool of_texts = calls_.front()->of_texts();
  const int64_t most = of_texts ? limits_.texts : limits_.pictures;
  for (auto call = calls_.begin(); call != calls_.end();) {
    const bool fits = taken.empty() || ((*call)->of_texts() == of_texts && size + (*call)->size() <= most &&
                                        tokens + (*call)->tokens() <= limits_.tokens);
    if (!fits) {
      ++call;
      continue;
    }
    size += (*call)->size();
    tokens += (*call)->tokens();
    taken.push_back(*call);
    call = calls_.erase(call);
  }
  return taken;
}

Result<Matrix<float>> SharedEncoder::encode(std::span<Call* const> calls) {
  if (calls.size() == 1) {
    const Call& only = *calls.front();
    return only.of_texts() ? encoder_->encode_texts(only.texts) : encoder_->encode_images(only.pixels);
  }
  if (calls.front()->of_texts()) {
    std::vector<TokenizedText> texts;
    for (const Call* call : calls) texts.insert(texts.end(), call->texts.begin(), call->texts.end());
    return encoder_->encode_texts(texts);
  }
  int64_t rows = 0;
  for (const Call* call : calls) rows += call->pixels.rows();
  Matrix<float> pixels(rows, calls.front()->pixels.columns());
  float* next = pixels.data();
  for (const Call* call : calls) {
    for (int64_t r = 0; r < call->pixels.rows(); ++r) next = std::ranges::copy(call->pixels.row(r), next).out;
  }
  return encoder_->encode_images(pixels.view());
}

void SharedEncoder::run(std::span<Call* const> calls) {
  const auto encoded = [&](std::span<Call* const> some) -> Result<Matrix<float>> {
    try {
      return encode(some);
    } catch (const std::exception& error) {
      return fail(ErrorCode::kInternal, "encode: {}", error.what());
    }
  };
  Result<Matrix<float>> rows = encoded(calls);
  if (calls.size() == 1) {
    calls.front()->rows = std::move(rows);
    return;
  }
  int64_t first = 0;
  for (Call* const& call : calls) {
    if (!rows) {
      call->rows = encoded(std::span(&call, 1));
      continue;
    }
    Matrix<float> own(call->size(), rows->columns());
    for (int64_t r = 0; r < own.rows(); ++r) std::ranges::copy(rows->row(first + r), own.row(r).begin());
    first += own.rows();
    call->rows = std::move(own);
  }
}

void SharedEncoder::work(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (waiting_.wait(lock, stop, [this] { return !calls_.empty(); })) {
    const std::vector<Call*> calls = take();
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    run(calls);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    lock.lock();
    ++counts_.passes;
    counts_.calls += std::ssize(calls);
    counts_.seconds += seconds.count();
    for (Call* call : calls) {
      (call->of_texts() ? counts_.texts : counts_.pictures) += call->size();
      call->done = true;
    }
    done_.notify_all();
  }
}

SharedEncoder::Counts SharedEncoder::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace saccade::serve
