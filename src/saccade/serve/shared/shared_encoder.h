// One encoder for many callers at once: what they ask for at the same time is encoded in one batch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "saccade/model/encoder_backend.h"
#include "saccade/serve/shared/remembered_texts.h"
#include "saccade/serve/shared/shared_passes.h"

namespace saccade::serve {

struct BatchLimits {
  int64_t texts = 64;     // of one pass
  int64_t tokens = 4096;  // likewise
  int64_t pictures = 32;  // likewise
  // Memory for the rows of texts that were asked for one at a time: some 7,000 of 512 numbers.
  int64_t remembered = int64_t{16} << 20;
};

// Encoder wrapper with dynamic batching: concurrent calls share one pass of the wrapped encoder
// (shared_passes.h). A call larger than the limits is a pass of its own. A pass that fails is repeated call
// by call, so nobody gets the error of another's input. The embedding of a single text is cached and reused
// if it is requested again. Other capabilities of the encoder are not shared: their calls run one after the
// other. Thread-safe.
class SharedEncoder final : public ForwardingEncoder {
 public:
  explicit SharedEncoder(std::unique_ptr<EncoderBackend> encoder, BatchLimits limits = {});
  SharedEncoder(const SharedEncoder&) = delete;
  SharedEncoder& operator=(const SharedEncoder&) = delete;
  // No call may be running.
  ~SharedEncoder() override;

  [[nodiscard]] Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    return encode_images_for({}, pixels);
  }
  [[nodiscard]] Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    return encode_texts_for({}, texts);
  }
  // Encodes for a client that may disconnect: kCancelled if gone() returns true before a pass has begun.
  [[nodiscard]] Result<Matrix<float>> encode_images_for(const std::function<bool()>& gone,
                                                        MatrixView<const float> pixels);
  [[nodiscard]] Result<Matrix<float>> encode_texts_for(const std::function<bool()>& gone,
                                                       std::span<const TokenizedText> texts);

  // Totals over all passes so far.
  struct Counts {
    int64_t passes = 0;
    int64_t calls = 0;
    int64_t texts = 0;
    int64_t pictures = 0;
    int64_t remembered = 0;  // texts that no pass was made for
    double seconds = 0;
    // Passes of up to kSizes texts or pictures each.
    std::array<int64_t, 8> of_size = {};
  };
  static constexpr std::array<double, 8> kSizes = {1, 2, 4, 8, 16, 32, 64, 128};
  [[nodiscard]] Counts counts() const;
  // Calls that wait for a pass now.
  [[nodiscard]] int64_t waiting() const { return passes_.counts().waiting; }

 private:
  struct Call;
  Result<Matrix<float>> join(Call& call, const std::function<bool()>& gone);
  [[nodiscard]] bool fits(const Call& call, std::span<Call* const> taken) const;
  void run(std::span<Call* const> calls);
  Result<Matrix<float>> encode(std::span<Call* const> calls);

  const std::unique_ptr<EncoderBackend> encoder_;
  const BatchLimits limits_;
  SharedPasses<Call> passes_;
  RememberedTexts remembered_;
  mutable std::mutex mutex_;
  Counts counts_;  // but for passes, calls and what was remembered
};

// Encoder lent to a request: the shared encoder, for as long as its client is connected.
class LentEncoder final : public ForwardingEncoder {
 public:
  LentEncoder(std::shared_ptr<SharedEncoder> shared, std::function<bool()> gone)
      : ForwardingEncoder(*shared), shared_(std::move(shared)), gone_(std::move(gone)) {}

  [[nodiscard]] Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    return shared_->encode_images_for(gone_, pixels);
  }
  [[nodiscard]] Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    return shared_->encode_texts_for(gone_, texts);
  }

 private:
  const std::shared_ptr<SharedEncoder> shared_;
  const std::function<bool()> gone_;
};

}  // namespace saccade::serve
