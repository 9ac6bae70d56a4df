// Base of all dual encoders, which give one embedding per image and per text: batching, lengths, conformance
// outputs, features for heads. A family adds its two towers, their projections, and the computation of logits
// from cosines. Internal to the module.
#pragma once

#include <mutex>
#include <optional>

#include "saccade/model/architecture.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/device/device_name.h"
#include "saccade/model/encoder_parts.h"
#include "saccade/model/explain/relevance_map.h"
#include "saccade/model/explain/state_mapper.h"
#include "saccade/model/towers/picture_tower.h"
#include "saccade/model/towers/tower.h"

namespace saccade {

// Properties of a family's towers that batching needs.
struct DualShape {
  int64_t image_tokens = 1;  // cost of one image, in tokens of a transformer tower
  int64_t vocabulary = 0;
  int64_t pad_id = 0;
  int64_t padded_to = 0;     // padded length of every text; 0 pads to the longest of its batch
  bool masked = true;        // false if tokens after a text's end have no effect, so no mask is needed
  int64_t image_states = 0;  // widths of what the towers give
  int64_t text_states = 0;
  int64_t picture_tokens = 0;  // rows per image of token_states(); 0 if unsupported
  int64_t word_width = 0;      // width of replaceable token embeddings; 0 if unsupported
};

class DualEncoder : public Architecture,
                    public RawRows,
                    public FrozenFeatures,
                    public PictureMapper,
                    public StateMapper,
                    public TokenStates,
                    public WordInserter {
 public:
  const EncoderInfo& info() const override { return parts_.info; }
  const Preprocessing& preprocessing() const override { return parts_.preprocessing; }
  const Tokenizer* tokenizer() const override { return parts_.tokenizer.get(); }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override;
  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override;
  EncoderCapabilities capabilities() override {
    return {.raw_rows = this,
            .frozen_features = this,
            .picture_mapper = picture_tower() ? this : nullptr,
            .token_states = shape_.picture_tokens > 0 ? this : nullptr,
            .word_inserter = shape_.word_width > 0 ? this : nullptr};
  }
  // Computes embeddings in the same way as for users. Intermediate states need a second pass, because
  // recording them disables the shortcuts of the last block.
  Result<nn::TensorMap> answers(const nn::TensorMap& inputs) override;

  Result<Matrix<float>> raw_image_rows(MatrixView<const float> pixels) override {
    return picture_rows(pixels, false);
  }
  Result<Matrix<float>> raw_text_rows(std::span<const TokenizedText> texts) override {
    return sentence_rows(texts, false);
  }

  int64_t image_width(ImageState state) const override {
    return state == ImageState::kPooled ? shape_.image_states : 0;
  }
  int64_t image_rows(ImageState state) const override { return state == ImageState::kPooled ? 1 : 0; }
  int64_t text_width(TextState state) const override {
    return state == TextState::kPooled ? shape_.text_states : 0;
  }
  Result<RowSets> image_features(MatrixView<const float> pixels, ImageState state) override;
  Result<RowSets> text_features(std::span<const TokenizedText> texts, TextState state) override;

  Result<PictureMaps> map_pictures(MatrixView<const float> pixels, std::span<const float> target,
                                   MapMethod method) override;
  StateMapper* state_mapper() override { return picture_tower() ? this : nullptr; }
  bool can_map_states(ImageStates states) const override {
    return states == ImageStates::kRows || states == ImageStates::kPooled;
  }
  Result<PictureMaps> map_states(MatrixView<const float> pixels, const StatesScored& scored,
                                 MapMethod method) override;

  Result<RowSets> image_tokens(MatrixView<const float> pixels) override;
  Result<RowSets> text_tokens(std::span<const TokenizedText> texts) override;
  int64_t picture_tokens() const override { return shape_.picture_tokens; }
  int64_t end_token(const TokenizedText& text) const override;

  int64_t word_width() const override { return shape_.word_width; }
  Result<Matrix<float>> encode_with_words(std::span<const TokenizedText> texts,
                                          std::span<const int64_t> places,
                                          MatrixView<const float> words) override;

 protected:
  DualEncoder(EncoderParts parts, DualShape shape) : parts_(std::move(parts)), shape_(shape) {}

  // Computes the states to project, [n, image_states], of pixels: [n, 3, height, width] float32. Fills
  // `trace` if not null.
  virtual nn::Tensor image_states(const nn::Tensor& pixels, TowerTrace* trace) const = 0;
  // Computes [n, text_states]. ids: [n, tokens] int64; mask: same shape, 0 excludes a token, or undefined.
  virtual nn::Tensor text_states(const nn::Tensor& ids, const nn::Tensor& mask, TowerTrace* trace) const = 0;
  // Project states to [n, dim], not normalized; a tower that ends in that width needs no projection.
  virtual nn::Tensor project_images(const nn::Tensor& states) const { return states; }
  virtual nn::Tensor project_texts(const nn::Tensor& states) const { return states; }
  // Return the states of all tokens in the shared space, not normalized: [n, tokens, dim]. Only for families
  // whose shape provides them.
  virtual nn::Tensor image_token_states(const nn::Tensor& pixels) const;
  virtual nn::Tensor text_token_states(const nn::Tensor& ids) const;
  // Returns the position of each text's pooled token: [n] int64.
  virtual nn::Tensor text_ends(const nn::Tensor& ids) const;
  // Computes text_states with the embedding of token places[i] of text i replaced. places: [n] int64; words:
  // [n, word_width].
  virtual nn::Tensor text_states_with(const nn::Tensor& ids, const nn::Tensor& places,
                                      const nn::Tensor& words) const;
  // Returns the image tower of the family's own model for relevance maps; nullopt if it is not a transformer.
  virtual std::optional<PictureTower> picture_tower() const { return std::nullopt; }
  // Computes logits from cosines of any shape.
  virtual nn::Tensor logits(const nn::Tensor& cosines) const = 0;
  // Returns the pixels in a reference's inputs, undefined if there are none. check_reference_texts checks the
  // family's requirements on the texts.
  virtual Result<nn::Tensor> reference_pixels(const nn::TensorMap& inputs) const;
  virtual Status check_reference_texts(const TextInputs& texts) const;

  [[nodiscard]] DType dtype() const { return parts_.dtype; }
  [[nodiscard]] const EncoderParts& parts() const { return parts_; }

 private:
  // Returns the number of tokens per pass of image_states() and text_states().
  [[nodiscard]] int64_t states_at_once() const {
    return is_processor(parts_.info.device) ? parts_.tokens_at_once : kDeviceTokensAtOnce;
  }
  // Call body(first, states) for pieces of the images, and body(batch, states) for batches of the texts.
  template <typename Body>
  Status for_image_states(MatrixView<const float> pixels, const Body& body);
  template <typename Body>
  Status for_text_states(std::span<const TokenizedText> texts, const Body& body);
  // Computes image embeddings; with `unit`, normalized to length 1.
  Result<Matrix<float>> picture_rows(MatrixView<const float> pixels, bool unit);
  Result<Matrix<float>> sentence_rows(std::span<const TokenizedText> texts, bool unit);

  EncoderParts parts_;  // destroyed after the family's model, which borrows from the weights
  DualShape shape_;
  std::mutex mutex_;
};

}  // namespace saccade
