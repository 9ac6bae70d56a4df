// Projection heads on a frozen encoder: a linear layer or a two-layer MLP per side, into a space shared by
// images and texts. Only the heads are trained, by symmetric contrastive loss. A head may have its own
// Q-Former, initialized from the encoder's and trained with the head.
//
// A head's checkpoint is small, and names its encoder:
//   config.json        {"model_type": "head", "kind", "image_width", "text_width", "hidden_width", "width",
//                       "image_states", "text_states", "pooling", "qformer": its shape, or null,
//                       "frozen": {"name", "family", "fingerprint"}, or null: features came from elsewhere}
//   frozen.json        {"path"}: location of that encoder's checkpoint, absolute or relative to this folder.
//                      Not covered by the fingerprint; edit it after moving the encoder
//   model.safetensors  {image,text}_head.{in,out}.{weight,bias} (a linear head has "out" alone), logit_scale,
//                      query_tokens and qformer.* as BLIP-2 has them
//   io.safetensors     features and the training program's outputs for them, for conformance
#pragma once

#include <cmath>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/matrix.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/explain/state_mapper.h"
#include "saccade/model/head_input.h"
#include "saccade/model/named_encoder.h"
#include "saccade/model/towers/qformer.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/workspace.h"

namespace saccade {

enum class HeadKind {
  kLinear,  // one linear layer
  kMlp,     // linear, GELU, linear
};
std::span<const EnumName<HeadKind>> enum_names(HeadKind);  // "linear", "mlp"

// A head's own Q-Former, which queries the vision tower's states, `memory_rows` of them per image.
struct HeadQFormer {
  QFormerConfig config;
  int64_t queries = 0;
  int64_t memory_rows = 0;
};

struct HeadConfig {
  HeadKind kind = HeadKind::kMlp;
  int64_t image_width = 0;  // width of the heads' input
  int64_t text_width = 0;
  int64_t hidden_width = 768;  // hidden width of an MLP
  int64_t width = 768;         // width of the shared space
  HeadInput input;             // with a Q-Former `pooling` is of its queries' states
  std::optional<HeadQFormer> qformer;
  std::optional<EncoderId> frozen;
};
// Parses the config. kBadData names the field.
Result<HeadConfig> head_config_from_json(const Json& json);
Json head_config_json(const HeadConfig& config);  // without the path

// Initial log of the factor on cosines; training begins with a factor of 1 / 0.07 (Radford et al. 2021).
inline constexpr double kInitialLogScale = 2.6592600369327780;

// Pools [n, rows, width] to [n, width], as pooled() does.
nn::Tensor pool_states(const nn::Tensor& states, Pooling pooling);

template <typename T>
class HeadOf {
 public:
  static Result<HeadOf> make(const HeadConfig& config, nn::ParameterSourceOf<T>& source) {
    HeadOf head;
    const int64_t image_width = config.qformer ? config.qformer->config.shape.width : config.image_width;
    SACCADE_ASSIGN(head.image_, side(config, source, "image_head.", image_width));
    SACCADE_ASSIGN(head.text_, side(config, source, "text_head.", config.text_width));
    SACCADE_ASSIGN(head.log_scale_, source.take("logit_scale", {}, {kInitialLogScale, 0}));
    if (config.qformer) {
      SACCADE_ASSIGN(head.qformer_,
                     QFormerOf<T>::make(config.qformer->config, config.qformer->queries, source));
      head.memory_rows_ = config.qformer->memory_rows;
      head.memory_width_ = config.qformer->config.memory_width;
    }
    head.pooling_ = config.input.pooling;
    return head;
  }
  // Project [n, image_width] or [n, text_width] float32 -> [n, width], not normalized.
  [[nodiscard]] T images(const T& features) const {
    if (!qformer_) return image_.forward(features);
    const T memory = features.view({features.size(0), memory_rows_, memory_width_});
    return image_.forward(pool_states(qformer_->ask(memory, DType::kF32), pooling_));
  }
  [[nodiscard]] T texts(const T& features) const { return text_.forward(features); }
  // Computes the gradient of the cosine with `target` [width]. Inference only, without autograd. states: [n,
  // rows, image_width], which `images` reads pooled; with a Q-Former, its queries' states.
  [[nodiscard]] StateGradient image_gradient(const nn::Tensor& states, const nn::Tensor& target) const;
  [[nodiscard]] const QFormerOf<T>* qformer() const { return qformer_ ? &*qformer_ : nullptr; }
  [[nodiscard]] const T& log_scale() const { return log_scale_; }
  void pack(DType dtype) {
    image_.pack(dtype);
    text_.pack(dtype);
    if (qformer_) qformer_->pack(dtype);
  }

 private:
  struct Side {
    std::optional<nn::LinearOf<T>> in;
    nn::LinearOf<T> out;
    [[nodiscard]] T forward(const T& x) const {
      return in ? out.forward(in->forward(x, nn::Activation::kGelu)) : out.forward(x);
    }
    void pack(DType dtype) {
      if (in) in->pack(dtype);
      out.pack(dtype);
    }
  };
  static Result<Side> side(const HeadConfig& config, nn::ParameterSourceOf<T>& source,
                           const std::string& prefix, int64_t width) {
    // Initialized like torch's linear layers: uniform in +-1 / sqrt(in), a standard deviation of 1 / sqrt(3
    // in).
    const auto spread = [](int64_t in) { return 1 / std::sqrt(3.0 * static_cast<double>(in)); };
    Side made;
    if (config.kind == HeadKind::kMlp) {
      SACCADE_ASSIGN(made.in,
                     nn::LinearOf<T>::make(source, prefix + "in", width, config.hidden_width, spread(width)));
      width = config.hidden_width;
    }
    SACCADE_ASSIGN(made.out,
                   nn::LinearOf<T>::make(source, prefix + "out", width, config.width, spread(width)));
    return made;
  }

  Side image_, text_;
  T log_scale_;
  std::optional<QFormerOf<T>> qformer_;
  int64_t memory_rows_ = 0;
  int64_t memory_width_ = 0;
  Pooling pooling_ = Pooling::kMean;
};

template <>
StateGradient HeadOf<nn::Tensor>::image_gradient(const nn::Tensor& states, const nn::Tensor& target) const;

// Head without its encoder, for precomputed features. Thread-safe.
class FeatureHead {
 public:
  // Opens a head. Returns kUnsupported for a checkpoint of another family, and the errors of load_encoder.
  static Result<std::unique_ptr<FeatureHead>> open(const std::filesystem::path& folder,
                                                   const BackendOptions& options = {});
  static Result<std::unique_ptr<FeatureHead>> open(const Checkpoint& checkpoint,
                                                   const BackendOptions& options);

  [[nodiscard]] const HeadConfig& config() const { return config_; }
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }
  [[nodiscard]] int64_t parameters() const { return parameters_; }
  [[nodiscard]] float logit_scale() const { return logit_scale_; }

  // Compute embeddings of length 1: [n, image_width] or [n, text_width] -> [n, width]. Return kMismatch for
  // another width.
  [[nodiscard]] Result<Matrix<float>> image_rows(MatrixView<const float> features);
  [[nodiscard]] Result<Matrix<float>> text_rows(MatrixView<const float> features);
  // Returns an image's cosine with `target` [width] as a function of its states, for relevance maps. Borrows
  // from the head.
  [[nodiscard]] StatesScored scored(std::span<const float> target) const;

 private:
  Result<Matrix<float>> rows(MatrixView<const float> features, bool images);

  HeadConfig config_;
  std::string fingerprint_;
  int64_t parameters_ = 0;
  float logit_scale_ = 0;
  std::unique_ptr<nn::Workspace> workspace_;
  Weights weights_;
  HeadOf<nn::Tensor> head_;
  std::mutex mutex_;
};

}  // namespace saccade
