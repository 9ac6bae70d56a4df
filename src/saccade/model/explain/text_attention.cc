#include "saccade/model/explain/text_attention.h"

#include <cstddef>
#include <span>
#include <utility>

#include "saccade/model/encoder_parts.h"
#include "saccade/model/families/clip.h"
#include "saccade/model/families/clip_checkpoint.h"
#include "saccade/nn/exceptions.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using nn::Tensor;

// Computes the mean over heads of one token's row; weights: [heads, tokens, tokens].
std::vector<double> mean_row(std::span<const float> weights, int64_t heads, int64_t tokens, int64_t from) {
  const auto n = static_cast<size_t>(tokens);
  std::vector<double> mean(n);
  for (size_t head = 0; head < static_cast<size_t>(heads); ++head) {
    const auto row = weights.subspan((head * n + static_cast<size_t>(from)) * n, n);
    for (size_t t = 0; t < n; ++t) mean[t] += row[t] / static_cast<double>(heads);
  }
  return mean;
}

class ClassifierAttention : public TextAttention {
 public:
  explicit ClassifierAttention(TextClassifier& classifier) : classifier_(classifier) {}
  Result<std::vector<double>> attend(const TokenizedText& text) override {
    SACCADE_ASSIGN(const AttentionMaps maps, classifier_.attention_maps(text));
    const auto last = static_cast<size_t>((maps.layers - 1) * maps.heads * maps.tokens * maps.tokens);
    return mean_row(std::span(maps.weights).subspan(last), maps.heads, maps.tokens, 0);
  }

 private:
  TextClassifier& classifier_;
};

// CLIP's text transformer up to the attention of its last block.
class ClipAttention : public TextAttention {
 public:
  static Result<std::unique_ptr<TextAttention>> open(const EncoderInfo& info, const fs::path& folder,
                                                     int threads) {
    auto result = std::make_unique<ClipAttention>();
    SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
    SACCADE_ASSIGN(result->weights_, map_weights(checkpoint));
    nn::TensorMap tensors = result->weights_.tensors;
    SACCADE_ASSIGN(result->config_, read_clip_config(checkpoint, tensors));
    if (checkpoint.layout != Layout::kHuggingFace) {
      SACCADE_ASSIGN(tensors, rename_to_hugging_face(std::move(tensors)));
    }
    result->info_ = info;
    result->workspace_ = std::make_unique<nn::Workspace>(threads);
    nn::LoadedParameters source(std::move(tensors));
    SACCADE_TRY(result->take(source));
    return std::unique_ptr<TextAttention>(std::move(result));
  }

  Result<std::vector<double>> attend(const TokenizedText& text) override {
    SACCADE_TRY(check_texts({&text, 1}, info_, config_.vocabulary));
    return nn::without_exceptions("attend", [&]() -> Result<std::vector<double>> {
      const TextBatch batch = text_batches({&text, 1}, 0, {.workspace = workspace_.get()}).front();
      const int64_t tokens = batch.ids.size(1);
      const Tensor mask = nn::causal_mask(tokens);
      Tensor x = nn::embedding(token_embedding_, batch.ids) + positions_.slice(0, 0, tokens);
      x = run_blocks<Tensor>(before_, before_.size(), std::move(x), mask, DType::kF32, nullptr);
      const Tensor weights = nn::attention_weights(query_key_value_.forward(norm_.forward(x, DType::kF32)),
                                                   config_.text.heads, mask);
      const int64_t end = clip_end_positions(batch.ids, config_.end_id).integers()[0];
      return mean_row(weights.contiguous().floats(), config_.text.heads, tokens, end);
    });
  }

 private:
  Status take(nn::LoadedParameters& source) {
    const std::string text = "text_model";
    const int64_t width = config_.text.width;
    SACCADE_ASSIGN(token_embedding_,
                   source.take(text + ".embeddings.token_embedding.weight", {config_.vocabulary, width}, {}));
    SACCADE_ASSIGN(positions_, source.take(text + ".embeddings.position_embedding.weight",
                                           {config_.positions, width}, {}));
    nn::TransformerShape before = config_.text;
    --before.layers;
    SACCADE_ASSIGN(before_, make_blocks<Tensor>(source, text, before));
    const nn::BlockNames& names = hugging_face_block_names();
    const std::string last = fmt::format("{}.encoder.layers.{}.", text, before.layers);
    SACCADE_ASSIGN(norm_, nn::LayerNorm::make(source, last + names.norm1, width, config_.text.eps));
    SACCADE_ASSIGN(query_key_value_,
                   nn::Linear::make_joint(source, {last + names.query, last + names.key, last + names.value},
                                          width, width, 0, !config_.text.attention_bias));
    for (nn::TransformerBlock& block : before_) block.pack(DType::kF32);
    query_key_value_.pack(DType::kF32);
    return {};
  }

  Weights weights_;  // the model borrows from them
  ClipConfig config_;
  EncoderInfo info_;
  std::unique_ptr<nn::Workspace> workspace_;
  Tensor token_embedding_, positions_;
  std::vector<nn::TransformerBlock> before_;
  nn::LayerNorm norm_;
  nn::Linear query_key_value_;
};

}  // namespace

Result<std::unique_ptr<TextAttention>> open_text_attention(EncoderBackend& encoder,
                                                           const fs::path& checkpoint, int threads) {
  if (TextClassifier* classifier = encoder.text_classifier()) {
    return std::unique_ptr<TextAttention>(std::make_unique<ClassifierAttention>(*classifier));
  }
  if (encoder.info().family != "clip") return std::unique_ptr<TextAttention>();
  return ClipAttention::open(encoder.info(), checkpoint, threads)
      .in(fmt::format("checkpoint {}", checkpoint.string()));
}

}  // namespace saccade
