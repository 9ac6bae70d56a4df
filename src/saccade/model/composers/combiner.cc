#include "saccade/model/composers/combiner.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/composers/kinds.h"

namespace saccade {
namespace {

constexpr int64_t kMaxWidth = 1 << 20;

class CombinerModel : public ComposerModel {
 public:
  explicit CombinerModel(CombinerOf<nn::Tensor> network) : network_(std::move(network)) {}

  Result<Composed> compose(EncoderBackend& /*encoder*/, const ComposerInput& input,
                           nn::Workspace* workspace) override {
    const ComposerPartsOf<nn::Tensor> parts = composer_parts(input, workspace);
    const nn::Tensor rows = network_.forward(parts.pictures, parts.texts).contiguous();
    Composed composed;
    composed.rows = Matrix<float>(input.picture_rows.rows(), input.picture_rows.columns());
    std::copy_n(rows.data<float>(), rows.numel(), composed.rows.values().begin());
    return composed;
  }

 private:
  CombinerOf<nn::Tensor> network_;
};

Result<std::unique_ptr<ComposerModel>> load(const ComposerConfig& config, nn::ParameterSource& source) {
  SACCADE_ASSIGN(const CombinerShape shape, combiner_shape_from_json(config.dim, config.options));
  SACCADE_ASSIGN(CombinerOf<nn::Tensor> network, CombinerOf<nn::Tensor>::make(shape, source));
  network.pack(DType::kF32);
  return std::unique_ptr<ComposerModel>(std::make_unique<CombinerModel>(std::move(network)));
}

}  // namespace

CombinerShape combiner_shape(int64_t dim) {
  return {.dim = dim, .projection = 4 * dim, .hidden = 8 * dim};
}

Result<CombinerShape> combiner_shape_from_json(int64_t dim, const Json& options) {
  CombinerShape shape{.dim = dim};
  SACCADE_ASSIGN(shape.projection, json_field<int64_t>(options, "projection"));
  SACCADE_ASSIGN(shape.hidden, json_field<int64_t>(options, "hidden"));
  SACCADE_TRY(in_range("projection", shape.projection, 1, kMaxWidth));
  SACCADE_TRY(in_range("hidden", shape.hidden, 1, kMaxWidth));
  return shape;
}

Json combiner_options(const CombinerShape& shape) {
  return {{"projection", shape.projection}, {"hidden", shape.hidden}};
}

nn::Tensor gated_mean(const nn::Tensor& logits, const nn::Tensor& a, const nn::Tensor& b) {
  const nn::Tensor share = nn::sigmoid(logits).contiguous();
  nn::Tensor mean = b.contiguous().clone();
  const nn::Tensor other = a.contiguous();
  const int64_t width = a.size(1);
  for (int64_t i = 0; i < mean.numel(); ++i) {
    float& value = mean.data<float>()[i];
    value += share.data<float>()[i / width] * (other.data<float>()[i] - value);
  }
  return mean;
}

const ComposerKind combiner_kind = {"combiner", {.picture_rows = true, .text_rows = true}, load};

}  // namespace saccade
