// ColPali (Faysse et al. 2024, "ColPali: Efficient Document Retrieval with Vision Language Models"). It is
// PaliGemma, a SigLIP vision tower whose patches are read by Gemma before a short prompt, with a projection
// of every state to a row of its own.
//
// Parameters are named "vision_tower.", "multi_modal_projector.", "language_model." and
// "embedding_proj_layer."; published names are converted to these on loading.
#pragma once

#include <cstdint>
#include <string>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/families/siglip.h"
#include "saccade/model/towers/gemma.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/parameters.h"

namespace saccade {

// Query templates of the programs that read the same weights. Both end a query with ten padding tokens, which
// the model reads; each gives a row of the query.
enum class ColPaliQueries {
  kHuggingFace,    // transformers: "<bos>Question: {query}", the paddings, "\n"; 50 tokens
  kColPaliEngine,  // colpali-engine: "<bos>{query}", the paddings
};

struct ColPaliConfig {
  SiglipVisionConfig vision;
  GemmaConfig text;
  int64_t projection = 128;
  int32_t image_token = 257'152;
  ColPaliQueries queries = ColPaliQueries::kHuggingFace;
  std::string query_prefix = "Question: ";           // prefix for kHuggingFace
  std::string image_prompt = "Describe the image.";  // "<bos>", this and "\n" follow the patches

  [[nodiscard]] int64_t patch_side() const { return vision.image_size / vision.patch_size; }
  [[nodiscard]] int64_t patches() const { return patch_side() * patch_side(); }
  // Returns the maximum number of tokens of a query, including the template.
  [[nodiscard]] int64_t context() const {
    return queries == ColPaliQueries::kHuggingFace ? 50 : text.positions;
  }
};

// Reads config.json of transformers ("model_type" "colpali") or of colpali-engine's merged checkpoints. The
// latter is PaliGemma's ("paligemma"), and the width of the projection comes from the tensors. Queries use
// the template of the program that wrote the checkpoint, unless `"saccade": {"queries": NAME}` is set.
// processor: processor_config.json, or {}; its "query_prefix" and "visual_prompt_prefix" are used. tensors:
// under the names of rename_colpali.
Result<ColPaliConfig> colpali_config(const Json& config, const Json& processor, const nn::TensorMap& tensors);

// Converts the published names, which changed between transformers' releases, to those above. Drops the
// language-model head, which retrieval does not use. Returns kUnsupported for an adapter's tensors beside the
// weights they adapt, and kBadData for two tensors of one meaning.
Result<nn::TensorMap> rename_colpali(const nn::TensorMap& tensors);

class ColPaliModel {
 public:
  static Result<ColPaliModel> make(const ColPaliConfig& config, nn::ParameterSource& source);

  // Computes rows of length 1 for images [n, 3, side, side] float32 followed by prompts [n or 1, tokens]
  // int64 without image tokens. Result: [n, patches + tokens, projection] float32, the patches' rows first.
  // Every token attends to all tokens.
  [[nodiscard]] nn::Tensor image_rows(const nn::Tensor& pixels, const nn::Tensor& prompts, DType dtype) const;
  // Computes rows of length 1 for texts [n, tokens] int64: [n, tokens, projection] float32. mask: as in
  // Gemma::forward.
  [[nodiscard]] nn::Tensor text_rows(const nn::Tensor& ids, const nn::Tensor& mask, DType dtype) const;
  [[nodiscard]] const ColPaliConfig& config() const { return config_; }
  void pack(DType dtype);
  // Returns the layers that pack() left in higher precision.
  [[nodiscard]] const WideLayers& wide_layers() const { return wide_layers_; }

 private:
  [[nodiscard]] nn::Tensor rows(const nn::Tensor& states) const;

  ColPaliConfig config_;
  SiglipVision vision_;
  WideLayers wide_layers_;
  nn::Linear projector_;
  Gemma language_;
  nn::Linear projection_;
};

}  // namespace saccade
