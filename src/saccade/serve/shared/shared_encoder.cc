#include "saccade/serve/shared/shared_encoder.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

namespace saccade::serve {

namespace {

tl::unexpected<Error> no_memory() {
  return fail(ErrorCode::kCancelled, "no memory for a pass of the encoder now: try again in a second");
}

}  // namespace

// Either texts or pictures of one caller, who waits for its end.
struct SharedEncoder::Call : SharedCall {
  std::span<const TokenizedText> texts;
  MatrixView<const float> pixels;
  Result<Matrix<float>> rows = no_memory();

  [[nodiscard]] bool of_texts() const { return !texts.empty(); }
  [[nodiscard]] int64_t size() const { return of_texts() ? std::ssize(texts) : pixels.rows(); }
  [[nodiscard]] int64_t tokens() const {
    int64_t sum = 0;
    for (const TokenizedText& text : texts) sum += std::ssize(text.ids);
    return sum;
  }
};

SharedEncoder::SharedEncoder(std::unique_ptr<EncoderBackend> encoder, BatchLimits limits)
    : ForwardingEncoder(*encoder),
      encoder_(std::move(encoder)),
      limits_(limits),
      passes_(static_cast<size_t>(std::max({limits.texts, limits.pictures, int64_t{1}}))),
      remembered_(limits.remembered) {}

SharedEncoder::~SharedEncoder() = default;

Result<Matrix<float>> SharedEncoder::encode_texts_for(const std::function<bool()>& gone,
                                                      std::span<const TokenizedText> texts) {
  if (texts.empty()) return encoder_->encode_texts(texts);
  const bool alone = texts.size() == 1;
  if (alone) {
    if (auto known = remembered_.find(texts.front().ids)) return *std::move(known);
  }
  Call call;
  call.texts = texts;
  SACCADE_ASSIGN(Matrix<float> rows, join(call, gone));
  if (alone) remembered_.keep(texts.front().ids, rows.row(0));
  return rows;
}

Result<Matrix<float>> SharedEncoder::encode_images_for(const std::function<bool()>& gone,
                                                       MatrixView<const float> pixels) {
  if (pixels.rows() == 0) return encoder_->encode_images(pixels);
  Call call;
  call.pixels = pixels;
  return join(call, gone);
}

Result<Matrix<float>> SharedEncoder::join(Call& call, const std::function<bool()>& gone) {
  const auto takes = [this](const Call& other, std::span<Call* const> taken) { return fits(other, taken); };
  const bool passed = passes_.join(call, takes, gone, [this](std::span<Call* const> calls) {
    const auto start = std::chrono::steady_clock::now();
    run(calls);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const std::lock_guard lock(mutex_);
    counts_.seconds += seconds.count();
    int64_t size = 0;
    for (const Call* one : calls) {
      size += one->size();
      (one->of_texts() ? counts_.texts : counts_.pictures) += one->size();
    }
    for (size_t i = 0; i < kSizes.size(); ++i)
      counts_.of_size[i] += static_cast<double>(size) <= kSizes[i] ? 1 : 0;
  });
  if (!passed) return fail(ErrorCode::kCancelled, "waited too long for the encoder: try again in a second");
  return std::move(call.rows);
}

bool SharedEncoder::fits(const Call& call, std::span<Call* const> taken) const {
  const bool of_texts = taken.front()->of_texts();
  int64_t size = call.size();
  int64_t tokens = call.tokens();
  for (const Call* one : taken) {
    size += one->size();
    tokens += one->tokens();
  }
  return call.of_texts() == of_texts && size <= (of_texts ? limits_.texts : limits_.pictures) &&
         tokens <= limits_.tokens;
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
      Result<Matrix<float>> made = encode(some);
      // The one limit of an encoder is memory (nn/exceptions.h): no fault of what is asked.
      if (!made && made.error().code == ErrorCode::kLimit) return no_memory();
      return made;
    } catch (const std::bad_alloc&) {
      return no_memory();
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
    call->rows = std::move(own);
    first += call->size();
  }
}

SharedEncoder::Counts SharedEncoder::counts() const {
  const auto passes = passes_.counts();
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.passes = passes.passes;
  counts.calls = passes.calls;
  counts.remembered = remembered_.found();
  return counts;
}

}  // namespace saccade::serve
