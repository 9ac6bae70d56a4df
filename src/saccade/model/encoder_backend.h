// Encoder: a loaded checkpoint that maps images and texts to embeddings in a shared space.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/encoder_info.h"
#include "saccade/image/preprocess.h"
#include "saccade/matrix.h"
#include "saccade/model/checkpoints/fingerprint.h"
#include "saccade/precision.h"
#include "saccade/tokenizer.h"

namespace saccade {

struct BackendOptions {
  Precision precision = Precision::kFp32;  // kAuto is settled before loading (options/precision_choice.h)
  // Number of threads of a forward pass, including the caller's; 0 uses all processors of the process.
  int threads = 0;
  // Device that encodes: "cpu" for our own kernels, "cuda", "cuda:1" (device/device_name.h). Only some families run on
  // another device than the processor, in fp32 and bf16.
  std::string device = "cpu";
  // Cache of file hashes (model/checkpoints/fingerprint.h). Without it, every file is read to hash it.
  FingerprintMemory fingerprints = {};
};

// Rows of several items, concatenated: item i has rows [begin[i], begin[i + 1]).
struct RowSets {
  Matrix<float> rows;
  std::vector<int64_t> begin = {0};  // one more than there are items
};
// Returns the rows as sets of one row each; passes an error on.
inline Result<RowSets> one_each(Result<Matrix<float>> rows) {
  if (!rows) return fail(std::move(rows).error());
  RowSets sets{.rows = *std::move(rows)};
  for (int64_t i = 0; i < sets.rows.rows(); ++i) sets.begin.push_back(i + 1);
  return sets;
}

// Capability of encoders that give an item many rows, each of length 1. An item's score for a query is a sum
// over the query's rows: each adds its largest dot product with one of the item's rows (MaxSim).
class LateInteraction {
 public:
  virtual ~LateInteraction() = default;
  // Encodes pixels: [n, 3 * height * width] as written by `preprocess`. Rows of padding are omitted.
  [[nodiscard]] virtual Result<RowSets> encode_image_rows(MatrixView<const float> pixels) = 0;
  [[nodiscard]] virtual Result<RowSets> encode_text_rows(std::span<const TokenizedText> texts) = 0;
  // Return the grid of patches. An image's first rows are those of the grid, in row-major order from the top
  // left. Later rows have no position in the image. The grid is 0 x 0 if no row has a position (the queries
  // of a Q-Former).
  [[nodiscard]] virtual int patch_rows() const = 0;
  [[nodiscard]] virtual int patch_columns() const = 0;
};

// Capability of encoders that normalize embeddings in a last step: access to the unnormalized ones. Some
// published checkpoints add these, so that the longer of two has more weight.
class RawRows {
 public:
  virtual ~RawRows() = default;
  // Return embeddings [n, dim] of any length, with the directions of encode_images and encode_texts.
  [[nodiscard]] virtual Result<Matrix<float>> raw_image_rows(MatrixView<const float> pixels) = 0;
  [[nodiscard]] virtual Result<Matrix<float>> raw_text_rows(std::span<const TokenizedText> texts) = 0;
};

// Capability of encoders with a matching head, which scores one image and one text jointly (cross-encoder).
// It is slower and more accurate than the dot product of their embeddings.
class PairScorer {
 public:
  virtual ~PairScorer() = default;
  // Returns one score per pair, pixels row i with text i; a higher score is a better match. Scores of one
  // text are comparable. BLIP-2's score is the logit of its matching head plus the contrastive similarity, as
  // in its published recall.
  [[nodiscard]] virtual Result<std::vector<float>> score_pairs(MatrixView<const float> pixels,
                                                               std::span<const TokenizedText> texts) = 0;
};

// Capability of encoders that expose tower states before the last step, to train heads on. States are not
// normalized. Encoders expose different states; a width of 0 means the state is unavailable.
class FrozenFeatures {
 public:
  enum class ImageState {
    kPooled,     // one row: what the checkpoint projects into its shared space
    kQueries,    // the states of a Q-Former's queries
    kProjected,  // the same, through the checkpoint's own projection into its language model's width
    kVision,     // the states of the vision tower that the Q-Former asks
  };
  enum class TextState {
    kPooled,  // one row: what the checkpoint projects into its shared space
    kTokens,  // one row a token of the text, its end token included
  };
  virtual ~FrozenFeatures() = default;
  [[nodiscard]] virtual int64_t image_width(ImageState state) const = 0;
  // Returns the number of rows of such a state per image.
  [[nodiscard]] virtual int64_t image_rows(ImageState state) const = 0;
  [[nodiscard]] virtual int64_t text_width(TextState state) const = 0;
  // Computes states of pixels: [n, 3 * height * width] as written by `preprocess`. Returns kUsage for an
  // unavailable state. Memory: the rows; with kVision one to two megabytes per image.
  [[nodiscard]] virtual Result<RowSets> image_features(MatrixView<const float> pixels, ImageState state) = 0;
  [[nodiscard]] virtual Result<RowSets> text_features(std::span<const TokenizedText> texts,
                                                      TextState state) = 0;
};

// Attention weights of each token on each other token: [layers, heads, tokens, tokens]; rows sum to 1.
struct AttentionMaps {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t tokens = 0;
  std::vector<float> weights;
};

// Capability of text encoders with a sequence classifier, which classifies a single text.
class TextClassifier {
 public:
  virtual ~TextClassifier() = default;
  // Returns the class names in the checkpoint's config, in the order of the logits.
  [[nodiscard]] virtual const std::vector<std::string>& labels() const = 0;
  // Returns logits [texts, labels]. Softmax over a row gives probabilities if the classifier was trained with
  // it.
  [[nodiscard]] virtual Result<Matrix<float>> classify_texts(std::span<const TokenizedText> texts) = 0;
  // Returns the attention maps of the classifier's own pass over one text.
  [[nodiscard]] virtual Result<AttentionMaps> attention_maps(const TokenizedText& text) = 0;
};

class PictureMapper;  // explain/relevance_map.h
class PromptReader;   // token_states.h
class TokenStates;    // token_states.h
class WordInserter;   // token_states.h

struct WideLayers;  // options/wide_layers.h

// Optional capabilities of an encoder; nullptr if unavailable. They live as long as the encoder and share its
// lock. A new capability is a member here and a line in checked_encoder.cc.
struct EncoderCapabilities {
  RawRows* raw_rows = nullptr;
  // With late interaction, encode_images and encode_texts return the normalized mean of an item's rows. It is
  // good enough to find candidates, not to rank them.
  LateInteraction* late_interaction = nullptr;
  PairScorer* pair_scorer = nullptr;
  FrozenFeatures* frozen_features = nullptr;
  TextClassifier* text_classifier = nullptr;
  PictureMapper* picture_mapper = nullptr;
  TokenStates* token_states = nullptr;
  WordInserter* word_inserter = nullptr;
  PromptReader* prompt_reader = nullptr;
};

// Interface of all encoders. Thread-safe: concurrent calls run one after the other.
class EncoderBackend {
 public:
  virtual ~EncoderBackend() = default;

  [[nodiscard]] virtual const EncoderInfo& info() const = 0;
  [[nodiscard]] virtual const Preprocessing& preprocessing() const = 0;
  // Returns the tokenizer, or nullptr if the checkpoint's folder has no tokenizer files. Only images and ids
  // can be encoded then.
  [[nodiscard]] virtual const Tokenizer* tokenizer() const = 0;

  // Encodes pixels: [n, 3 * height * width] as written by `preprocess`. Returns embeddings [n, dim] of length
  // 1. Returns kUnsupported for text models, whose info() has size 0 x 0.
  [[nodiscard]] virtual Result<Matrix<float>> encode_images(MatrixView<const float> pixels) = 0;
  // Returns embeddings [n, dim] of length 1. Texts may have any length up to `context` ids; the encoder pads
  // them as its model requires.
  [[nodiscard]] virtual Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) = 0;

  // Returns the layers with a higher precision than requested.
  [[nodiscard]] virtual WideLayers wide_layers() const;

  // Returns the same capabilities at every call.
  [[nodiscard]] virtual EncoderCapabilities capabilities() { return {}; }
  [[nodiscard]] RawRows* raw_rows() { return capabilities().raw_rows; }
  [[nodiscard]] LateInteraction* late_interaction() { return capabilities().late_interaction; }
  [[nodiscard]] PairScorer* pair_scorer() { return capabilities().pair_scorer; }
  [[nodiscard]] FrozenFeatures* frozen_features() { return capabilities().frozen_features; }
  [[nodiscard]] TextClassifier* text_classifier() { return capabilities().text_classifier; }
  [[nodiscard]] PictureMapper* picture_mapper() { return capabilities().picture_mapper; }
  [[nodiscard]] TokenStates* token_states() { return capabilities().token_states; }
  [[nodiscard]] WordInserter* word_inserter() { return capabilities().word_inserter; }
  [[nodiscard]] PromptReader* prompt_reader() { return capabilities().prompt_reader; }
};

// Base class of encoders that wrap another one: forwards everything to it.
class ForwardingEncoder : public EncoderBackend {
 public:
  // `inner` must outlive this object.
  explicit ForwardingEncoder(EncoderBackend& inner) : inner_(&inner) {}

  [[nodiscard]] const EncoderInfo& info() const override { return inner_->info(); }
  [[nodiscard]] const Preprocessing& preprocessing() const override { return inner_->preprocessing(); }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return inner_->tokenizer(); }
  [[nodiscard]] Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    return inner_->encode_images(pixels);
  }
  [[nodiscard]] Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    return inner_->encode_texts(texts);
  }
  [[nodiscard]] WideLayers wide_layers() const override;
  [[nodiscard]] EncoderCapabilities capabilities() override { return inner_->capabilities(); }

 private:
  EncoderBackend* inner_;
};

// Returns the error of load_encoder() for a device that does not run the checkpoint's family or the precision
// (kUnsupported), or for an unknown one (kUsage). Reads the config alone, and does not look for the device.
Status check_runs_on_device(const std::filesystem::path& checkpoint, const BackendOptions& options);

// Opens a checkpoint folder of a known family and layout. Errors name the offending file, tensor or field.
Result<std::unique_ptr<EncoderBackend>> load_encoder(const std::filesystem::path& checkpoint,
                                                     const BackendOptions& options = {});

}  // namespace saccade
