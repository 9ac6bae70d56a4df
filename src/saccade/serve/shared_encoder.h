// One encoder for many callers at once: what they ask for at the same time is encoded in one batch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "saccade/model/encoder.h"

namespace saccade::serve {

struct BatchLimits {
  int64_t texts = 64;     // of one pass
  int64_t tokens = 4096;  // likewise
  int64_t pictures = 32;  // likewise
};

// Passes calls on to the encoder it wraps. A call that comes while nothing runs is passed on at once; those
// that come while a pass runs wait and share the next one, so that batches grow with the load and nobody
// waits for a clock. A call larger than the limits is a pass of its own. A pass that fails is repeated call
// by call: nobody gets the error of another's input. Thread-safe.
class SharedEncoder final : public Encoder {
 public:
  explicit SharedEncoder(std::unique_ptr<Encoder> encoder, BatchLimits limits = {});
  SharedEncoder(const SharedEncoder&) = delete;
  SharedEncoder& operator=(const SharedEncoder&) = delete;
  // No call may be running.
  ~SharedEncoder() override;

  [[nodiscard]] const EncoderInfo& info() const override { return encoder_->info(); }
  [[nodiscard]] const Preprocessing& preprocessing() const override { return encoder_->preprocessing(); }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return encoder_->tokenizer(); }
  [[nodiscard]] Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override;
  [[nodiscard]] Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override;
  // Not shared: one call after the other.
  [[nodiscard]] RawRows* raw_rows() override { return encoder_->raw_rows(); }
  [[nodiscard]] LateInteraction* late_interaction() override { return encoder_->late_interaction(); }
  [[nodiscard]] PairScorer* pair_scorer() override { return encoder_->pair_scorer(); }
  [[nodiscard]] FrozenFeatures* frozen_features() override { return encoder_->frozen_features(); }
  [[nodiscard]] TextClassifier* text_classifier() override { return encoder_->text_classifier(); }
  [[nodiscard]] TokenStates* token_states() override { return encoder_->token_states(); }
  [[nodiscard]] WordInserter* word_inserter() override { return encoder_->word_inserter(); }
  [[nodiscard]] PictureMapper* picture_mapper() override { return encoder_->picture_mapper(); }

  // Of all passes so far.
  struct Counts {
    int64_t passes = 0;
    int64_t calls = 0;
    int64_t texts = 0;
    int64_t pictures = 0;
    double seconds = 0;
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct Call;
  Result<Matrix<float>> wait_for(Call& call);
  void work(std::stop_token stop);
  std::vector<Call*> take();
  void run(std::span<Call* const> calls);
  Result<Matrix<float>> encode(std::span<Call* const> calls);

  const std::unique_ptr<Encoder> encoder_;
  const BatchLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable_any waiting_;
  std::condition_variable done_;
  std::deque<Call*> calls_;
  Counts counts_;
  std::jthread worker_;
};

}  // namespace saccade::serve
