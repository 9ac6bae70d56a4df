// BLIP-2 (Li et al. 2023, "BLIP-2: Bootstrapping Language-Image Pre-training
// with Frozen Image Encoders and Large Language Models"): a frozen vision
// transformer, and a Q-Former that asks it with a few learned queries.
//
// The Q-Former is a BERT whose every n-th block also looks at the picture, with two sets of MLPs: one for the
// queries, one for text. It is run in three ways: queries alone (a picture's rows), text alone (a text's
// row), both side by side (whether they match).
//
// Parameters go by transformers' names: Blip2ForImageTextRetrieval and Blip2ForConditionalGeneration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/towers/t5_encoder.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/post_norm.h"

namespace saccade {

struct Blip2VisionConfig {
  nn::TransformerShape shape;
  int64_t image_size = 224;
  int64_t patch_size = 14;
  // One more than patches: the class token's.
  [[nodiscard]] int64_t tokens() const { return (image_size / patch_size) * (image_size / patch_size) + 1; }
};

struct QFormerConfig {
  nn::TransformerShape shape;
  int64_t memory_width = 1408;            // of the vision tower's states
  int64_t cross_attention_frequency = 2;  // blocks 0, n, 2n, ... look at the picture
  bool text_input = false;                // has MLPs for text
  int64_t vocabulary = 30522;
  int64_t positions = 512;
  int64_t pad_id = 0;
};

enum class Blip2Kind {
  kRetrieval,  // projections and a matching head: Blip2ForImageTextRetrieval
  kT5,         // a frozen T5 behind a projection: Blip2ForConditionalGeneration
};

// How texts are prepared: published results and today's users differ.
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

  // Text tokens an encoder takes.
  [[nodiscard]] int64_t context() const;
};

// From config.json, with transformers' defaults; the names of the tensors decide where the config leaves open
// what kind it is ("architectures") or whether the Q-Former reads text (either of "qformer_text_input" and
// "use_qformer_text_input"). "saccade": {"captions": "transformers" | "lavis"} is a field of our own. Refuses
// impossible shapes and contradictions by name.
Result<Blip2Config> blip2_config_from_hugging_face(const Json& config, const nn::TensorMap& tensors);

// The vision transformer: class token, positions, pre-norm blocks with one joint layer for query, key and
// value, and a norm over all states at the end.
class Blip2Vision {
 public:
  static Result<Blip2Vision> make(const Blip2VisionConfig& config, nn::ParameterSource& source);
  // pixels: [n, 3, image_size, image_size] float32 -> [n, tokens, width] float32, the class token first.
  [[nodiscard]] nn::Tensor forward(const nn::Tensor& pixels, DType dtype) const;
  void pack(DType dtype);

 private:
  Blip2VisionConfig config_;
  nn::Linear patch_embedding_;
  nn::Tensor class_embedding_, positions_;
  std::vector<nn::TransformerBlock> blocks_;
  nn::LayerNorm post_norm_;
};

class QFormer {
 public:
  static Result<QFormer> make(const QFormerConfig& config, int64_t queries, nn::ParameterSource& source);

  // memory: [n, rows, memory_width], the vision tower's states
  // -> the queries' states, [n, queries, width] float32.
  [[nodiscard]] nn::Tensor ask(const nn::Tensor& memory, DType dtype) const;
  // The rest needs a Q-Former that reads text. ids, attention_mask: [n, tokens] int64.
  // The state at a text's first token: [n, width] float32.
  [[nodiscard]] nn::Tensor read(const nn::Tensor& ids, const nn::Tensor& attention_mask, DType dtype) const;
  // The queries' states after looking at picture and text i, for every i: [n, queries, width] float32. memory
  // may be [1, ...]: one picture for all texts.
  [[nodiscard]] nn::Tensor compare(const nn::Tensor& memory, const nn::Tensor& ids,
                                   const nn::Tensor& attention_mask, DType dtype) const;
  void pack(DType dtype);

 private:
  struct Block {
    nn::PostNormAttention attention;
    std::optional<nn::PostNormCrossAttention> cross_attention;
    nn::PostNormMlp query_mlp;
    std::optional<nn::PostNormMlp> text_mlp;
  };
  static Result<Block> make_block(const QFormerConfig& config, int64_t index, nn::ParameterSource& source);
  [[nodiscard]] nn::Tensor embed(const nn::Tensor& ids) const;
  // What a block does with the queries' states after its attention: [n, queries, width].
  static nn::Tensor finish_queries(const Block& block, nn::Tensor x, const nn::Tensor& memory, DType dtype);

  nn::Tensor query_tokens_;                         // [1, queries, width]
  nn::Tensor word_embedding_, position_embedding_;  // undefined without text
  nn::LayerNorm norm_;
  std::vector<Block> blocks_;
};

// Blip2ForImageTextRetrieval.
struct Blip2Retrieval {
  Blip2Vision vision;
  QFormer qformer;
  nn::Linear image_projection, text_projection, match_head;

  static Result<Blip2Retrieval> make(const Blip2Config& config, nn::ParameterSource& source);
  // From the vision tower's states: [n, queries, projection] float32, each row of length 1.
  [[nodiscard]] nn::Tensor image_rows(const nn::Tensor& memory, DType dtype) const;
  // [n, projection] float32, each row of length 1.
  [[nodiscard]] nn::Tensor text_rows(const nn::Tensor& ids, const nn::Tensor& attention_mask,
                                     DType dtype) const;
  // [n, 2] float32, logits of "does not match" and "matches", each the mean over the queries.
  [[nodiscard]] nn::Tensor match_logits(const nn::Tensor& memory, const nn::Tensor& ids,
                                        const nn::Tensor& attention_mask, DType dtype) const;
  void pack(DType dtype);
};

// Blip2ForConditionalGeneration with a T5, as far as its encoder: what writes text is left out.
struct Blip2T5 {
  Blip2Vision vision;
  QFormer qformer;
  nn::Linear language_projection;  // from the Q-Former's width to the T5's
  T5Encoder text;

  static Result<Blip2T5> make(const Blip2Config& config, nn::ParameterSource& source);
  void pack(DType dtype);
};

}  // namespace saccade
