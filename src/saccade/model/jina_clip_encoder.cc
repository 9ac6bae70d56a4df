// A Jina-CLIP v1 checkpoint as an encoder.
#include <mutex>

#include "saccade/core/threads.h"
#include "saccade/model/architecture.h"
#include "saccade/model/encoder_parts.h"
#include "saccade/model/jina_clip.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

// What the reference saves beside the weights: angles, 0, 1, 2, ..., and a pooling layer that it never calls.
constexpr std::string_view kBuffers[] = {"*.rope.freqs_cos", "*.rope.freqs_sin", "*.embeddings.position_ids",
                                         "text_model.transformer.pooler.dense.weight",
                                         "text_model.transformer.pooler.dense.bias"};

class JinaClipEncoder : public Architecture {
 public:
  JinaClipEncoder(EncoderInfo info, Preprocessing preprocessing, std::unique_ptr<Tokenizer> tokenizer,
                  JinaClipModel model, Weights weights, at::ScalarType dtype)
      : info_(std::move(info)),
        preprocessing_(preprocessing),
        tokenizer_(std::move(tokenizer)),
        weights_(std::move(weights)),
        model_(std::move(model)),
        dtype_(dtype) {}

  const EncoderInfo& info() const override { return info_; }
  const Preprocessing& preprocessing() const override { return preprocessing_; }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    SACCADE_TRY(check_pictures(pixels, info_));
    const EvaShape& shape = model_.config().vision;
    const int64_t side = shape.image_size / shape.patch_size;
    Matrix<float> rows(pixels.rows(), info_.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for_pictures(pixels, info_, side * side + 1, [&](int64_t first, const Tensor& piece) {
        store_rows(nn::normalize_rows(model_.encode_images(piece, dtype_)), first, rows);
      });
    }));
    return rows;
  }

  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    SACCADE_TRY(check_texts(texts, info_, model_.config().text.vocabulary));
    Matrix<float> rows(static_cast<int64_t>(texts.size()), info_.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for (const TextBatch& batch : text_batches(texts, 0)) {
        store_rows(nn::normalize_rows(model_.encode_texts(batch.ids, batch.mask, dtype_)), batch.items, rows);
      }
    }));
    return rows;
  }

  Result<nn::TensorMap> answers(const nn::TensorMap& inputs) override {
    const std::lock_guard lock(mutex_);
    const torch::InferenceMode inference;
    SACCADE_ASSIGN(const Tensor pixels, pixel_values_of(inputs, info_));
    SACCADE_ASSIGN(const TextInputs texts,
                   text_inputs_of(inputs, info_.context, model_.config().text.vocabulary));
    nn::TensorMap result;
    JinaTrace trace;
    if (pixels.defined()) {
      result["image_embeds"] = nn::normalize_rows(model_.encode_images(pixels, dtype_, &trace));
      result["vision_hidden_1"] = trace.hidden_1;
      result["vision_last_hidden_state"] = trace.last_hidden_state;
    }
    if (texts.ids.defined()) {
      result["text_embeds"] = nn::normalize_rows(model_.encode_texts(texts.ids, texts.mask, dtype_, &trace));
      result["text_hidden_1"] = trace.hidden_1;
      result["text_last_hidden_state"] = trace.last_hidden_state;
    }
    if (pixels.defined() && texts.ids.defined()) {
      result["logits_per_image"] =
          at::matmul(result["image_embeds"], result["text_embeds"].t()) * model_.logit_scale().exp();
      result["logits_per_text"] = result["logits_per_image"].t().contiguous();
    }
    return result;
  }

 private:
  EncoderInfo info_;
  Preprocessing preprocessing_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Weights weights_;  // before the model, whose tensors borrow from it
  JinaClipModel model_;
  at::ScalarType dtype_;
  std::mutex mutex_;
};

// preprocessor_config.json has OpenCLIP's fields beside the names of classes; its code makes pictures RGB
// first.
Result<Preprocessing> jina_preprocessing(const Checkpoint& checkpoint, const EncoderInfo& info) {
  const fs::path file = checkpoint.folder / "preprocessor_config.json";
  Json json = Json::object();
  std::error_code ignored;
  if (fs::exists(file, ignored)) {
    SACCADE_ASSIGN(json, read_json(file));
    for (const char* key : {"image_processor_type", "feature_extractor_type", "processor_class", "auto_map",
                            "_valid_processor_keys"}) {
      if (json.is_object()) json.erase(key);
    }
  }
  SACCADE_ASSIGN(Preprocessing preprocessing,
                 preprocessing_from_open_clip(json, info.image_height).in(file.string()));
  preprocessing.rgb_order = RgbOrder::kBeforeResize;
  SACCADE_TRY(check_output_size(preprocessing, info).in(file.string()));
  return preprocessing;
}

}  // namespace

Result<std::unique_ptr<Architecture>> load_jina_clip(const Checkpoint& checkpoint,
                                                     const EncoderOptions& options) {
  at::set_num_threads(options.threads > 0 ? options.threads : available_processors());
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  SACCADE_ASSIGN(Weights weights, map_weights(checkpoint));
  SACCADE_ASSIGN(const JinaClipConfig config, jina_clip_config(checkpoint.config, weights.tensors).in(where));
  nn::LoadedParameters source(weights.tensors);
  SACCADE_ASSIGN(JinaClipModel model, JinaClipModel::make(config, source).in(where));
  if (const Status used = source.all_used(kBuffers); !used) return fail(used.error().in(where));

  EncoderInfo info;
  info.family = "jina_clip";
  info.layout = std::string(layout_name(checkpoint.layout));
  SACCADE_ASSIGN(info.fingerprint, checkpoint_fingerprint(checkpoint.folder));
  info.dim = model.dim();
  info.context = config.context;
  for (const auto& [name, tensor] : weights.tensors) info.parameters += tensor.numel();
  info.image_height = info.image_width = static_cast<int>(config.vision.image_size);
  info.logit_scale = model.logit_scale().exp().item<float>();

  SACCADE_ASSIGN(const Preprocessing preprocessing, jina_preprocessing(checkpoint, info));
  SACCADE_ASSIGN(std::unique_ptr<Tokenizer> tokenizer,
                 load_checkpoint_tokenizer(checkpoint, TextCleanup::kTokenizerFile, config.text.vocabulary));
  const at::ScalarType dtype = options.precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat;
  model.pack(dtype);
  return std::unique_ptr<Architecture>(std::make_unique<JinaClipEncoder>(
      std::move(info), preprocessing, std::move(tokenizer), std::move(model), std::move(weights), dtype));
}

}  // namespace saccade
