#include "saccade/model/families/head.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/name_field.h"
#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/encoder_parts.h"
#include "saccade/model/families/blip2.h"
#include "saccade/model/towers/picture_tower.h"
#include "saccade/nn/activation.h"

namespace saccade {
namespace {

using nn::Tensor;

constexpr int64_t kMaxWidth = 65'536;
constexpr int64_t kRowsAtOnce = 1024;

Result<int64_t> width_field(const Json& json, const char* key, int64_t most = kMaxWidth) {
  SACCADE_ASSIGN(const auto width, json_field<int64_t>(json, key));
  SACCADE_TRY(in_range(key, width, 1, most));
  return width;
}

// Parses the fields of BLIP-2's "qformer_config", with two related ones.
Result<HeadQFormer> qformer_from_json(const Json& json) {
  HeadQFormer qformer;
  SACCADE_ASSIGN(const int64_t memory_width, width_field(json, "encoder_hidden_size"));
  SACCADE_ASSIGN(qformer.config, qformer_config_from_hugging_face(json, {}, memory_width));
  SACCADE_ASSIGN(qformer.queries, width_field(json, "num_query_tokens"));
  SACCADE_ASSIGN(qformer.memory_rows, width_field(json, "memory_rows"));
  return qformer;
}

Json qformer_json(const HeadQFormer& qformer) {
  const nn::TransformerShape& shape = qformer.config.shape;
  return {{"hidden_size", shape.width},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.heads},
          {"intermediate_size", shape.mlp_width},
          {"layer_norm_eps", shape.eps},
          {"hidden_act", nn::activation_name(shape.activation)},
          {"cross_attention_frequency", qformer.config.cross_attention_frequency},
          {"encoder_hidden_size", qformer.config.memory_width},
          {"num_query_tokens", qformer.queries},
          {"memory_rows", qformer.memory_rows}};
}

// Propagates a gradient through pool_states to states [n, rows, width].
StateGradient unpooled(const Tensor& states, Pooling pooling, const Tensor& gradient) {
  const int64_t rows = states.size(1);
  const int64_t width = states.size(2);
  const Tensor in = states.contiguous();
  const Tensor from = gradient.contiguous();
  StateGradient result;
  result.change = Tensor::zeros(states.sizes(), DType::kF32, states.workspace());
  result.weights = Tensor::zeros({states.size(0), rows});
  for (int64_t i = 0; i < states.size(0); ++i) {
    const auto pass = [&](int64_t row, int64_t column, float share) {
      result.change.data<float>()[(i * rows + row) * width + column] =
          share * from.data<float>()[i * width + column];
      result.weights.data<float>()[i * rows + row] += share / static_cast<float>(width);
    };
    for (int64_t c = 0; c < width; ++c) {
      const auto value = [&](int64_t row) { return in.data<float>()[(i * rows + row) * width + c]; };
      int64_t largest = 0;
      switch (pooling) {
        case Pooling::kMean:
          for (int64_t r = 0; r < rows; ++r) pass(r, c, 1 / static_cast<float>(rows));
          break;
        case Pooling::kMax:
          for (int64_t r = 1; r < rows; ++r) largest = value(r) > value(largest) ? r : largest;
          pass(largest, c, 1);
          break;
        case Pooling::kFirst:
          pass(0, c, 1);
          break;
        case Pooling::kLast:
          pass(rows - 1, c, 1);
          break;
      }
    }
  }
  return result;
}

}  // namespace

std::span<const EnumName<HeadKind>> enum_names(HeadKind) {
  static constexpr std::array<EnumName<HeadKind>, 2> kWords{
      {{HeadKind::kLinear, "linear"}, {HeadKind::kMlp, "mlp"}}};
  return kWords;
}

Result<HeadConfig> head_config_from_json(const Json& json) {
  HeadConfig config;
  SACCADE_ASSIGN(config.kind, name_field<HeadKind>(json, "kind"));
  const auto qformer = json.find("qformer");
  if (qformer != json.end() && !qformer->is_null()) {
    SACCADE_ASSIGN(config.qformer, qformer_from_json(*qformer).in("\"qformer\""));
  }
  SACCADE_ASSIGN(config.image_width,
                 width_field(json, "image_width", config.qformer ? kMaxWidth * kMaxWidth : kMaxWidth));
  SACCADE_ASSIGN(config.text_width, width_field(json, "text_width"));
  SACCADE_ASSIGN(config.hidden_width, width_field(json, "hidden_width"));
  SACCADE_ASSIGN(config.width, width_field(json, "width"));
  SACCADE_ASSIGN(config.input.images, name_field<ImageStates>(json, "image_states"));
  SACCADE_ASSIGN(config.input.texts, name_field<TextStates>(json, "text_states"));
  SACCADE_ASSIGN(config.input.pooling, name_field<Pooling>(json, "pooling"));
  if (config.qformer.has_value() != (config.input.images == ImageStates::kVision)) {
    return fail(ErrorCode::kBadData,
                "\"image_states\" is \"{}\" {} a Q-Former: \"vision\" goes with one alone",
                enum_name(config.input.images), config.qformer ? "with" : "without");
  }
  if (config.qformer &&
      config.image_width != config.qformer->memory_rows * config.qformer->config.memory_width) {
    return fail(ErrorCode::kBadData, "\"image_width\" is {}, the Q-Former asks {} rows of {}",
                config.image_width, config.qformer->memory_rows, config.qformer->config.memory_width);
  }
  const auto frozen = json.find("frozen");
  if (frozen == json.end() || frozen->is_null()) return config;
  SACCADE_ASSIGN(EncoderId id, encoder_id_from_json(*frozen).in("\"frozen\""));
  config.frozen = std::move(id);
  return config;
}

Json head_config_json(const HeadConfig& config) {
  return {{"model_type", "head"},
          {"kind", enum_name(config.kind)},
          {"image_width", config.image_width},
          {"text_width", config.text_width},
          {"hidden_width", config.hidden_width},
          {"width", config.width},
          {"image_states", enum_name(config.input.images)},
          {"text_states", enum_name(config.input.texts)},
          {"pooling", enum_name(config.input.pooling)},
          {"qformer", config.qformer ? qformer_json(*config.qformer) : Json()},
          {"frozen", config.frozen ? encoder_id_json(*config.frozen) : Json()}};
}

nn::Tensor pool_states(const nn::Tensor& states, Pooling pooling) {
  switch (pooling) {
    case Pooling::kMean:
      return nn::mean(states, 1);
    case Pooling::kMax:
      return nn::largest(states, 1);
    case Pooling::kFirst:
      return states.select(1, 0).contiguous();
    case Pooling::kLast:
      break;
  }
  return states.select(1, states.size(1) - 1).contiguous();
}

template <>
StateGradient HeadOf<Tensor>::image_gradient(const Tensor& states, const Tensor& target) const {
  const Tensor pooled = pool_states(states, pooling_);
  const Tensor before = image_.in ? image_.in->forward(pooled) : pooled;
  const Tensor hidden = image_.in ? nn::activate(before, nn::Activation::kGelu) : before;
  Tensor gradient = image_.out.backward(cosine_gradient(image_.out.forward(hidden), target));
  if (image_.in) {
    gradient = image_.in->backward(nn::activation_backward(before, nn::Activation::kGelu, gradient));
  }
  return unpooled(states, pooling_, gradient);
}

Result<std::unique_ptr<FeatureHead>> FeatureHead::open(const std::filesystem::path& folder,
                                                       const BackendOptions& options) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  const std::string type = checkpoint.config.is_object() ? checkpoint.config.value("model_type", "") : "";
  if (type != "head") {
    return fail(ErrorCode::kUnsupported, "checkpoint {}: no head (model_type \"{}\")", folder.string(), type);
  }
  return nn::without_exceptions(fmt::format("checkpoint {}", folder.string()),
                                [&] { return open(checkpoint, options); });
}

Result<std::unique_ptr<FeatureHead>> FeatureHead::open(const Checkpoint& checkpoint,
                                                       const BackendOptions& options) {
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  auto result = std::make_unique<FeatureHead>();
  SACCADE_ASSIGN(result->config_,
                 head_config_from_json(checkpoint.config).in((checkpoint.folder / "config.json").string()));
  SACCADE_ASSIGN(EncoderParts parts, open_parts(checkpoint, options, "head"));
  nn::LoadedParameters source(parts.weights.tensors);
  SACCADE_ASSIGN(result->head_, HeadOf<nn::Tensor>::make(result->config_, source).in(where));
  SACCADE_TRY(source.all_used({}).in(where));
  result->fingerprint_ = parts.info.fingerprint;
  result->parameters_ = parts.info.parameters;
  result->logit_scale_ = std::exp(static_cast<float>(result->head_.log_scale().item()));
  result->head_.pack(parts.dtype);
  result->workspace_ = std::move(parts.workspace);
  result->weights_ = std::move(parts.weights);
  return result;
}

Result<Matrix<float>> FeatureHead::image_rows(MatrixView<const float> features) {
  return rows(features, true);
}

Result<Matrix<float>> FeatureHead::text_rows(MatrixView<const float> features) {
  return rows(features, false);
}

StatesScored FeatureHead::scored(std::span<const float> target) const {
  const Tensor row = Tensor::of(target, {config_.width});
  return {.states = config_.input.images,
          .score = [this, row](const Tensor& states) { return head_.image_gradient(states, row); },
          .qformer = head_.qformer()};
}

Result<Matrix<float>> FeatureHead::rows(MatrixView<const float> features, bool images) {
  const int64_t expected = images ? config_.image_width : config_.text_width;
  if (features.columns() != expected) {
    return fail(ErrorCode::kMismatch, "features of {} of width {}, the head takes {}",
                images ? "images" : "texts", features.columns(), expected);
  }
  Matrix<float> result(features.rows(), config_.width);
  const int64_t at_once = rows_at_once(expected, kRowsAtOnce);
  SACCADE_TRY(run_alone(mutex_, [&] {
    for (int64_t first = 0; first < features.rows(); first += at_once) {
      const int64_t count = std::min(at_once, features.rows() - first);
      const nn::Tensor piece = nn::Tensor::borrow(features.row(first).data(), {count, expected},
                                                  {features.stride(), 1}, DType::kF32, workspace_.get())
                                   .contiguous();
      const nn::Tensor rows = images ? head_.images(piece) : head_.texts(piece);
      store_rows(nn::normalize_rows(rows), first, result);
    }
  }));
  return result;
}

}  // namespace saccade
