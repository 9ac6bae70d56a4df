// A head with its frozen encoder, as one encoder.
#include <utility>

#include "saccade/model/architecture.h"
#include "saccade/model/encoder_parts.h"
#include "saccade/model/families/head.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using nn::Tensor;

class HeadEncoder : public Architecture, public PictureMapper {
 public:
  HeadEncoder(std::unique_ptr<FeatureHead> head, std::unique_ptr<Architecture> frozen)
      : head_(std::move(head)), frozen_(std::move(frozen)), info_(frozen_->info()) {
    info_.family = "head";
    info_.layout = layout_name(Layout::kHuggingFace);
    info_.fingerprint = head_->fingerprint();
    info_.dim = head_->config().width;
    info_.parameters += head_->parameters();
    info_.logit_scale = head_->logit_scale();
    info_.shared_space = true;
  }

  const EncoderInfo& info() const override { return info_; }
  const Preprocessing& preprocessing() const override { return frozen_->preprocessing(); }
  const Tokenizer* tokenizer() const override { return frozen_->tokenizer(); }
  WideLayers wide_layers() const override { return frozen_->wide_layers(); }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    SACCADE_ASSIGN(const Matrix<float> features, image_head_input(*frozen_, input(), pixels));
    return head_->image_rows(features.view());
  }
  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    SACCADE_ASSIGN(const Matrix<float> features, text_head_input(*frozen_, input(), texts));
    return head_->text_rows(features.view());
  }

  EncoderCapabilities capabilities() override {
    StateMapper* below = frozen_->state_mapper();
    return {.picture_mapper = below != nullptr && below->can_map_states(input().images) ? this : nullptr};
  }
  Result<PictureMaps> map_pictures(MatrixView<const float> pixels, std::span<const float> target,
                                   MapMethod method) override {
    SACCADE_TRY(check_target(target, info_));
    return frozen_->state_mapper()->map_states(pixels, head_->scored(target), method);
  }

  // Computes outputs from features ("image_features", "text_features") of the training program, or from
  // images and texts through the frozen encoder.
  Result<nn::TensorMap> answers(const nn::TensorMap& inputs) override {
    nn::TensorMap result;
    SACCADE_ASSIGN(const Matrix<float> images, image_answers(inputs));
    SACCADE_ASSIGN(const Matrix<float> texts, text_answers(inputs));
    if (images.rows() > 0) result["image_embeds"] = tensor_of(images);
    if (texts.rows() > 0) result["text_embeds"] = tensor_of(texts);
    if (images.rows() > 0 && texts.rows() > 0) {
      const Tensor cosines = nn::row_products(result["text_embeds"], result["image_embeds"]);
      result["logits_per_text"] = cosines * info_.logit_scale;
      result["logits_per_image"] = result["logits_per_text"].t().contiguous();
    }
    return result;
  }

 private:
  const HeadInput& input() const { return head_->config().input; }
  static Tensor tensor_of(const Matrix<float>& rows) {
    return Tensor::of(rows.values(), {rows.rows(), rows.columns()});
  }
  static Result<Matrix<float>> matrix_of(const nn::TensorMap& inputs, const char* name) {
    const auto found = inputs.find(name);
    if (found == inputs.end()) return Matrix<float>();
    if (found->second.dim() != 2 || !found->second.is_floating_point()) {
      return fail(ErrorCode::kMismatch, "{} has shape {}, expected [n, width] of floating point", name,
                  shape_text(found->second.sizes()));
    }
    Matrix<float> rows(found->second.size(0), found->second.size(1));
    store_rows(found->second, 0, rows);
    return rows;
  }

  Result<Matrix<float>> image_answers(const nn::TensorMap& inputs) {
    SACCADE_ASSIGN(Matrix<float> features, matrix_of(inputs, "image_features"));
    if (features.rows() > 0) return head_->image_rows(features.view());
    const auto pixels = inputs.find("pixel_values");
    if (pixels == inputs.end()) return features;
    const Tensor plain = pixels->second.to(DType::kF32).contiguous();
    if (plain.dim() != 4) {
      return fail(ErrorCode::kMismatch, "pixel_values has shape {}, expected [n, 3, height, width]",
                  shape_text(plain.sizes()));
    }
    return encode_images(MatrixView<const float>(plain.data<float>(), plain.size(0),
                                                 plain.size(1) * plain.size(2) * plain.size(3)));
  }

  Result<Matrix<float>> text_answers(const nn::TensorMap& inputs) {
    SACCADE_ASSIGN(Matrix<float> features, matrix_of(inputs, "text_features"));
    if (features.rows() > 0) return head_->text_rows(features.view());
    const auto ids = inputs.find("input_ids");
    if (ids == inputs.end()) return features;
    const auto mask = inputs.find("attention_mask");
    const Tensor all = ids->second.to(DType::kI64).contiguous();
    if (all.dim() != 2 || (mask != inputs.end() && mask->second.sizes() != all.sizes())) {
      return fail(ErrorCode::kMismatch, "input_ids and attention_mask are not of one shape [n, tokens]");
    }
    const Tensor kept = mask == inputs.end() ? Tensor::full_integers(all.sizes(), 1)
                                             : mask->second.to(DType::kI64).contiguous();
    std::vector<TokenizedText> texts(static_cast<size_t>(all.size(0)));
    for (int64_t i = 0; i < all.numel(); ++i) {
      if (kept.data<int64_t>()[i] == 0) continue;
      texts[static_cast<size_t>(i / all.size(1))].ids.push_back(static_cast<int32_t>(all.data<int64_t>()[i]));
    }
    return encode_texts(texts);
  }

  std::unique_ptr<FeatureHead> head_;
  std::unique_ptr<Architecture> frozen_;
  EncoderInfo info_;
};

Result<Checkpoint> open_frozen(const Checkpoint& head, const HeadConfig& config,
                               const FingerprintMemory& memory, bool check) {
  if (!config.frozen) {
    return fail(ErrorCode::kUnsupported,
                "a head trained on features from a file, without an encoder (-m) to go with them: it reads "
                "features alone");
  }
  return open_named_encoder(*config.frozen, head.folder, "head", memory, check);
}

Result<std::unique_ptr<Architecture>> load(const Checkpoint& checkpoint, const BackendOptions& options) {
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  SACCADE_ASSIGN(std::unique_ptr<FeatureHead> head, FeatureHead::open(checkpoint, options));
  SACCADE_ASSIGN(const Checkpoint found,
                 open_frozen(checkpoint, head->config(), options.fingerprints, true).in(where));
  SACCADE_ASSIGN(std::unique_ptr<Architecture> frozen, load_architecture(found.folder, options));
  SACCADE_ASSIGN(const HeadInputWidths widths, head_input_widths(*frozen, head->config().input).in(where));
  if (widths.images != head->config().image_width || widths.texts != head->config().text_width) {
    return fail(ErrorCode::kMismatch, "{}: the head takes widths {} and {}, its encoder gives {} and {}",
                where, head->config().image_width, head->config().text_width, widths.images, widths.texts);
  }
  return std::unique_ptr<Architecture>(std::make_unique<HeadEncoder>(std::move(head), std::move(frozen)));
}

Status outline(const Checkpoint& checkpoint, const nn::TensorMap& /*tensors*/, CheckpointOutline& result) {
  SACCADE_ASSIGN(const HeadConfig config, head_config_from_json(checkpoint.config));
  result.dim = config.width;
  if (!config.frozen) return {};
  SACCADE_ASSIGN(const Checkpoint found, open_frozen(checkpoint, config, {}, false));
  SACCADE_ASSIGN(const CheckpointOutline frozen, outline_checkpoint(found.folder));
  result.context = frozen.context;
  result.image_height = frozen.image_height;
  result.image_width = frozen.image_width;
  result.preprocessing = frozen.preprocessing;
  return {};
}

// The head itself is computed on the processor: two layers over its encoder's states.
Status check_device(const Checkpoint& checkpoint, const BackendOptions& options) {
  SACCADE_ASSIGN(const HeadConfig config, head_config_from_json(checkpoint.config));
  SACCADE_ASSIGN(const Checkpoint found, open_frozen(checkpoint, config, {}, false));
  return check_runs_on_device(found.folder, options);
}

}  // namespace

extern const Family head_family = {{"head"}, load, outline, check_device};

}  // namespace saccade
