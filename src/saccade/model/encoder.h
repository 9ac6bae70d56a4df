// An encoder: a loaded checkpoint that turns pictures and texts into rows of one shared space.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/matrix.h"
#include "saccade/image/preprocess.h"
#include "saccade/model/fingerprint.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

enum class Precision { kFp32, kBf16 };
// "fp32", "bf16".
std::string_view precision_name(Precision precision);

struct EncoderOptions {
  Precision precision = Precision::kFp32;
  // Threads a forward pass may use, the caller's included; 0: all processors of the process.
  int threads = 0;
  // Hashes of files that were read before (model/fingerprint.h); without, every file is read.
  FingerprintMemory fingerprints = {};
};

struct EncoderInfo {
  std::string family;       // "clip"
  std::string layout;       // "hugging_face", "open_clip", "long_clip"
  std::string fingerprint;  // SHA-256 over weights, config, tokenizer and preprocessing
  int64_t dim = 0;          // width of the shared space
  int64_t context = 0;      // text positions, start and end included
  int64_t parameters = 0;
  int image_height = 0;
  int image_width = 0;
  float logit_scale = 0;  // exp of the learned log inverse temperature; 1 where none is learned
  // False where no training has brought pictures and texts into one space: ranking by such rows is chance,
  // they are where heads are trained from (FrozenFeatures).
  bool shared_space = true;
  // True where the checkpoint does not say how pictures are brought into shape: they are treated as its
  // family usually has it.
  bool preprocessing_guessed = false;
};

// Rows of several items, one item's behind the other's: item i has rows [begin[i], begin[i + 1]).
struct RowSets {
  Matrix<float> rows;
  std::vector<int64_t> begin = {0};  // one more than there are items
};

// What encoders of many rows an item can do beside what all can: every row
// of its own, each of length 1. An item's score for a query is the sum over
// the query's rows of the largest dot product with the item's (MaxSim).
class LateInteraction {
 public:
  virtual ~LateInteraction() = default;
  // pixels: [n, 3 * height * width] as `preprocess` writes them. Rows that stand for padding are left out.
  [[nodiscard]] virtual Result<RowSets> encode_image_rows(MatrixView<const float> pixels) = 0;
  [[nodiscard]] virtual Result<RowSets> encode_text_rows(std::span<const TokenizedText> texts) = 0;
  // The first rows of every image stand for the patches of this grid, row by row from the top left; what
  // follows stands for no place. 0 x 0 where no row stands for a place (the queries of a Q-Former).
  [[nodiscard]] virtual int patch_rows() const = 0;
  [[nodiscard]] virtual int patch_columns() const = 0;
};

// What encoders with a matching head can do: judge one picture and one text together, slower and better than
// the dot product of their rows.
class PairScorer {
 public:
  virtual ~PairScorer() = default;
  // One score a pair, pixels row i with text i: higher is a better match.
  // Comparable within one text. BLIP-2's is the logit of its matching head plus
  // the contrastive similarity, what its published recall is measured with.
  [[nodiscard]] virtual Result<std::vector<float>> score_pairs(MatrixView<const float> pixels,
                                                               std::span<const TokenizedText> texts) = 0;
};

// What checkpoints of frozen towers give to heads that are trained on them: states as the towers leave them,
// of whatever length.
class FrozenFeatures {
 public:
  enum class ImageState {
    kQueries,    // the states of a Q-Former's queries
    kProjected,  // the same, through the checkpoint's own projection into its language model's width
  };
  virtual ~FrozenFeatures() = default;
  [[nodiscard]] virtual int64_t image_width(ImageState state) const = 0;
  // How many rows every image has: one a query.
  [[nodiscard]] virtual int64_t image_rows() const = 0;
  [[nodiscard]] virtual int64_t text_width() const = 0;
  // pixels: [n, 3 * height * width] as `preprocess` writes them. Memory: a few hundred kilobytes an image.
  [[nodiscard]] virtual Result<RowSets> image_features(MatrixView<const float> pixels, ImageState state) = 0;
  // One row a token of the text, its end token included.
  [[nodiscard]] virtual Result<RowSets> text_features(std::span<const TokenizedText> texts) = 0;
};

// How much each token looked at each other one: [layers, heads, tokens, tokens], rows of sum 1.
struct AttentionMaps {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t tokens = 0;
  std::vector<float> weights;
};

// What text encoders with a sequence classifier can do: judge a text alone.
class TextClassifier {
 public:
  virtual ~TextClassifier() = default;
  // What the checkpoint's config calls the classes, in the order of the logits.
  [[nodiscard]] virtual const std::vector<std::string>& labels() const = 0;
  // Logits [texts, labels]: softmax over a row gives probabilities where the classifier was trained so.
  [[nodiscard]] virtual Result<Matrix<float>> classify_texts(std::span<const TokenizedText> texts) = 0;
  // Of the classifier's own pass over one text.
  [[nodiscard]] virtual Result<AttentionMaps> attention_maps(const TokenizedText& text) = 0;
};

// Thread-safe: calls from several threads are run one after the other.
class Encoder {
 public:
  virtual ~Encoder() = default;

  [[nodiscard]] virtual const EncoderInfo& info() const = 0;
  [[nodiscard]] virtual const Preprocessing& preprocessing() const = 0;
  // nullptr where the checkpoint's folder has no tokenizer files (then only images and ids can be encoded).
  [[nodiscard]] virtual const Tokenizer* tokenizer() const = 0;

  // pixels: [n, 3 * height * width] as `preprocess` writes them. Rows [n, dim], each of length 1.
  // kUnsupported from text models, whose info() says 0 x 0.
  [[nodiscard]] virtual Result<Matrix<float>> encode_images(MatrixView<const float> pixels) = 0;
  // Rows [n, dim], each of length 1. Texts of any length up
  // to `context` ids; padding is the encoder's business.
  [[nodiscard]] virtual Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) = 0;

  // Capabilities that not all have: nullptr where there is none. They live as long as the encoder and share
  // its lock. With late interaction, the rows of encode_images and encode_texts are the items' rows' mean,
  // brought to length 1: good for a first stage, not for the answer.
  [[nodiscard]] virtual LateInteraction* late_interaction() { return nullptr; }
  [[nodiscard]] virtual PairScorer* pair_scorer() { return nullptr; }
  [[nodiscard]] virtual FrozenFeatures* frozen_features() { return nullptr; }
  [[nodiscard]] virtual TextClassifier* text_classifier() { return nullptr; }
};

// Opens a checkpoint folder of a known family and layout. Errors name the file, tensor or field at fault.
Result<std::unique_ptr<Encoder>> load_encoder(const std::filesystem::path& checkpoint,
                                              const EncoderOptions& options = {});

}  // namespace saccade
