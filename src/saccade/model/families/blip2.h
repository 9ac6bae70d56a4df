// BLIP-2 (Li et al. 2023, "BLIP-2: Bootstrapping Language-Image Pre-training with Frozen Image Encoders and
// Large Language Models"): a frozen vision transformer, and a Q-Former that queries it with a few learned
// queries.
//
// Parameters go by transformers' names: Blip2ForImageTextRetrieval and Blip2ForConditionalGeneration.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/explain/relevance_map.h"
#include "saccade/model/towers/qformer.h"
#include "saccade/model/towers/t5_encoder.h"
#include "saccade/nn/layers.h"

namespace saccade {

struct Blip2VisionConfig {
  nn::TransformerShape shape;
  int64_t image_size = 224;
  int64_t patch_size = 14;
  // Returns the number of patches plus one for the class token.
  [[nodiscard]] int64_t tokens() const { return (image_size / patch_size) * (image_size / patch_size) + 1; }
};

enum class Blip2Kind {
  kRetrieval,  // projections and a matching head: Blip2ForImageTextRetrieval
  kT5,         // a frozen T5 behind a projection: Blip2ForConditionalGeneration
};

// Preparation of texts: the published results and current libraries differ.
enum class Blip2Captions {
  kTransformers,  // the tokenizer's own clean-up, up to all positions
  kLavis,         // TextCleanup::kLavis, at most 35 tokens: what the published recall was measured with
};

struct Blip2Config {
  Blip2Kind kind = Blip2Kind::kRetrieval;
  Blip2VisionConfig vision;
  QFormerConfig qformer;
  int64_t queries = 32;
  int64_t projection = 256;            // kRetrieval: width of the shared space
  std::optional<int64_t> image_token;  // stands before a text, once a query, in what newer processors write
  Blip2Captions captions = Blip2Captions::kTransformers;
  T5Config text;  // kT5

  // Returns the maximum number of text tokens.
  [[nodiscard]] int64_t context() const;
};

// Reads config.json, with transformers' defaults. The tensor names decide if the config does not specify the
// kind ("architectures"), or whether the Q-Former reads text (either of "qformer_text_input" and
// "use_qformer_text_input"). "saccade": {"captions": "transformers" | "lavis"} is our own field. Rejects
// impossible shapes and contradictions by name.
Result<Blip2Config> blip2_config_from_hugging_face(const Json& config, const nn::TensorMap& tensors);

// Reads the Q-Former from "qformer_config". `tensors` show whether it reads text if the section does not say
// so.
Result<QFormerConfig> qformer_config_from_hugging_face(const Json& section, const nn::TensorMap& tensors,
                                                       int64_t memory_width);

// Vision transformer with class token, positions, pre-norm blocks with one joint layer for query, key and
// value, and a final norm over all states.
class Blip2Vision {
 public:
  static Result<Blip2Vision> make(const Blip2VisionConfig& config, nn::ParameterSource& source);
  // Encodes pixels: [n, 3, image_size, image_size] float32 -> [n, tokens, width] float32, the class token
  // first.
  [[nodiscard]] nn::Tensor forward(const nn::Tensor& pixels, DType dtype) const;
  void pack(DType dtype);
  // Parts of forward(): the embedding, the blocks and the final norm.
  [[nodiscard]] nn::Tensor embed(const nn::Tensor& pixels, DType dtype) const;
  [[nodiscard]] const std::vector<nn::TransformerBlock>& blocks() const { return blocks_; }
  [[nodiscard]] const nn::LayerNorm& norm() const { return post_norm_; }
  [[nodiscard]] const Blip2VisionConfig& config() const { return config_; }

 private:
  Blip2VisionConfig config_;
  nn::Linear patch_embedding_;
  nn::Tensor class_embedding_, positions_;
  std::vector<nn::TransformerBlock> blocks_;
  nn::LayerNorm post_norm_;
};

// Blip2ForImageTextRetrieval.
struct Blip2Retrieval {
  Blip2Vision vision;
  QFormer qformer;
  nn::Linear image_projection, text_projection, match_head;

  static Result<Blip2Retrieval> make(const Blip2Config& config, nn::ParameterSource& source);
  // Computes rows from the vision tower's states: [n, queries, projection] float32, each of length 1.
  [[nodiscard]] nn::Tensor image_rows(const nn::Tensor& memory, DType dtype) const;
  // Computes text embeddings: [n, projection] float32, each of length 1.
  [[nodiscard]] nn::Tensor text_rows(const nn::Tensor& ids, const nn::Tensor& attention_mask,
                                     DType dtype) const;
  // Computes SPRC's query embeddings (composers/sprc.cc): [n, projection] float32, each of length 1. memory may
  // be [1, ...]: one image for all texts.
  [[nodiscard]] nn::Tensor prompted_rows(const nn::Tensor& memory, const nn::Tensor& ids,
                                         const nn::Tensor& attention_mask, DType dtype) const;
  // Computes logits of "does not match" and "matches": [n, 2] float32, each the mean over the queries.
  [[nodiscard]] nn::Tensor match_logits(const nn::Tensor& memory, const nn::Tensor& ids,
                                        const nn::Tensor& attention_mask, DType dtype) const;
  void pack(DType dtype);
};

// Blip2ForConditionalGeneration with a T5, up to the encoder; text generation is not supported.
struct Blip2T5 {
  Blip2Vision vision;
  QFormer qformer;
  nn::Linear language_projection;  // from the Q-Former's width to the T5's
  T5Encoder text;

  static Result<Blip2T5> make(const Blip2Config& config, nn::ParameterSource& source);
  void pack(DType dtype);
};

// Computes the relevance of image patches to a score of a Q-Former's query states: images [n, 3, image_size,
// image_size] to [n, patches]. kLegrad: QFormer::legrad alone, not through the vision tower. kChefer:
// QFormer::chefer, continued through the tower's blocks by R = R + A R (equation 6). R is normalized to row
// sums of 1 (equations 8 and 9) at the cross-attention of the queries. Memory: kChefer keeps the intermediate
// values of the tower's blocks, and a matrix [tokens, tokens] of each.
nn::Tensor map_queries(const Blip2Vision& vision, const QFormer& qformer, const nn::Tensor& pixels,
                       const StateScore& score, MapMethod method, DType dtype);

// Parts of a Q-Former that further training starts from.
enum class QFormerPart {
  kQueries,   // without its text part
  kWithText,  // with it
};
struct FrozenQFormer {
  QFormerConfig config;  // text_input says which part
  int64_t queries = 0;
  int64_t memory_rows = 0;  // rows of the vision tower
  int64_t projection = 0;   // width of the shared space; kWithText alone
  Weights weights;          // all of the checkpoint's; the Q-Former's under the names that QFormerOf asks for
};
// Reads the Q-Former of a checkpoint. Returns kUsage for another family, and for kWithText without a model
// for image-text retrieval.
Result<FrozenQFormer> read_qformer(const std::filesystem::path& folder,
                                   QFormerPart part = QFormerPart::kQueries);

}  // namespace saccade
