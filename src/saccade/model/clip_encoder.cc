// A CLIP checkpoint as an encoder: loading, batching, pooling, conformance answers.
#include <mutex>

#include "saccade/core/threads.h"
#include "saccade/model/architecture.h"
#include "saccade/model/clip.h"
#include "saccade/model/encoder_parts.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

// What reference implementations save beside the weights: 0, 1, 2, ... (transformers), sizes and the causal
// mask (OpenAI), which rows of two position tables are read (Long-CLIP), for how many batches statistics were
// gathered (batch normalization).
constexpr std::string_view kBuffers[] = {"*.embeddings.position_ids",
                                         "*.num_batches_tracked",
                                         "input_resolution",
                                         "context_length",
                                         "vocab_size",
                                         "attn_mask",
                                         "mask1",
                                         "mask2"};

class ClipEncoder : public Architecture {
 public:
  ClipEncoder(EncoderInfo info, Preprocessing preprocessing, std::unique_ptr<Tokenizer> tokenizer,
              ClipModel model, Weights weights, at::ScalarType dtype)
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
    // A convolutional tower's first stages hold many more numbers than its last.
    const int64_t side =
        model_.config().image_size / (model_.config().resnet ? 8 : model_.config().patch_size);
    Matrix<float> rows(pixels.rows(), info_.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for_pictures(pixels, info_, side * side + 1, [&](int64_t first, const Tensor& piece) {
        store_rows(nn::normalize_rows(model_.encode_images(piece, dtype_)), first, rows);
      });
    }));
    return rows;
  }

  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    SACCADE_TRY(check_texts(texts, info_, model_.config().vocabulary));
    Matrix<float> rows(static_cast<int64_t>(texts.size()), info_.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      // Padding of id 0 without a mask: what follows a text's end token is never looked at, and 0 is neither
      // the end id nor the highest.
      for (const TextBatch& batch : text_batches(texts, 0)) {
        store_rows(nn::normalize_rows(model_.encode_texts(batch.ids, dtype_)), batch.items, rows);
      }
    }));
    return rows;
  }

  Result<nn::TensorMap> answers(const nn::TensorMap& inputs) override {
    const std::lock_guard lock(mutex_);
    const torch::InferenceMode inference;
    const ClipConfig& config = model_.config();
    SACCADE_ASSIGN(const Tensor pixels, pixel_values_of(inputs, info_));
    SACCADE_ASSIGN(const TextInputs texts, text_inputs_of(inputs, config.positions, config.vocabulary));
    nn::TensorMap result;
    if (pixels.defined()) {
      // Embeddings the way users get them; the states on the way by a second pass, as looking at them costs
      // the shortcut of the last block.
      result["image_embeds"] = nn::normalize_rows(model_.encode_images(pixels, dtype_));
      TowerTrace trace;
      (void)model_.encode_images(pixels, dtype_, &trace);
      result["vision_hidden_1"] = trace.hidden_1;
      result["vision_last_hidden_state"] = trace.last_hidden_state;
    }
    if (texts.ids.defined()) {
      result["text_embeds"] = nn::normalize_rows(model_.encode_texts(texts.ids, dtype_, texts.mask));
      TowerTrace trace;
      (void)model_.encode_texts(texts.ids, dtype_, texts.mask, &trace);
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
  ClipModel model_;
  at::ScalarType dtype_;
  std::mutex mutex_;
};

Result<Preprocessing> clip_preprocessing(const Checkpoint& checkpoint, const EncoderInfo& info) {
  if (checkpoint.config.is_object() && checkpoint.config.contains("preprocess_cfg")) {
    const std::string file = (checkpoint.folder / "open_clip_config.json").string();
    SACCADE_ASSIGN(
        const Preprocessing preprocessing,
        preprocessing_from_open_clip(checkpoint.config["preprocess_cfg"], info.image_height).in(file));
    SACCADE_TRY(check_output_size(preprocessing, info).in(file));
    return preprocessing;
  }
  std::error_code ignored;
  if (checkpoint.layout != Layout::kHuggingFace &&
      !fs::exists(checkpoint.folder / "preprocessor_config.json", ignored)) {
    return preprocessing_from_open_clip(Json::object(), info.image_height);
  }
  // A checkpoint without the file is preprocessed as CLIP always was.
  Json usual = {{"do_resize", true},
                {"size", {{"shortest_edge", info.image_height}}},
                {"resample", 3},
                {"do_center_crop", true},
                {"crop_size", {{"height", info.image_height}, {"width", info.image_width}}},
                {"do_normalize", true}};
  usual.update(clip_mean_and_std());
  return load_preprocessing(checkpoint, info, usual);
}

Result<ClipConfig> load_config(const Checkpoint& checkpoint, const nn::TensorMap& tensors) {
  if (checkpoint.config.is_null()) return clip_config_from_tensors(tensors);
  if (checkpoint.layout == Layout::kHuggingFace) return clip_config_from_hugging_face(checkpoint.config);
  if (!checkpoint.config.is_object() || !checkpoint.config.contains("model_cfg")) {
    return fail(ErrorCode::kBadData, "no \"model_cfg\" in it");
  }
  return clip_config_from_open_clip(checkpoint.config["model_cfg"], tensors);
}

}  // namespace

Result<std::unique_ptr<Architecture>> load_clip(const Checkpoint& checkpoint, const EncoderOptions& options) {
  at::set_num_threads(options.threads > 0 ? options.threads : available_processors());
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  SACCADE_ASSIGN(Weights weights, map_weights(checkpoint));
  SACCADE_ASSIGN(const ClipConfig config, load_config(checkpoint, weights.tensors).in(where));

  nn::TensorMap tensors = weights.tensors;
  if (checkpoint.layout != Layout::kHuggingFace) {
    SACCADE_ASSIGN(tensors, rename_to_hugging_face(std::move(tensors)).in(where));
  }
  nn::LoadedParameters source(std::move(tensors));
  SACCADE_ASSIGN(ClipModel model, ClipModel::make(config, source).in(where));
  if (const Status used = source.all_used(kBuffers); !used) return fail(used.error().in(where));

  EncoderInfo info;
  info.family = "clip";
  info.layout = std::string(layout_name(checkpoint.layout));
  SACCADE_ASSIGN(info.fingerprint, checkpoint_fingerprint(checkpoint.folder));
  info.dim = config.projection;
  info.context = config.positions;
  for (const auto& [name, tensor] : weights.tensors) info.parameters += tensor.numel();
  info.image_height = info.image_width = static_cast<int>(config.image_size);
  info.logit_scale = model.logit_scale().exp().item<float>();

  SACCADE_ASSIGN(const Preprocessing preprocessing, clip_preprocessing(checkpoint, info));
  const TextCleanup cleanup =
      checkpoint.layout == Layout::kHuggingFace ? TextCleanup::kTokenizerFile : TextCleanup::kOpenAi;
  SACCADE_ASSIGN(std::unique_ptr<Tokenizer> tokenizer,
                 load_checkpoint_tokenizer(checkpoint, cleanup, config.vocabulary));

  const at::ScalarType dtype = options.precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat;
  model.pack(dtype);
  return std::unique_ptr<Architecture>(std::make_unique<ClipEncoder>(
      std::move(info), preprocessing, std::move(tokenizer), std::move(model), std::move(weights), dtype));
}

Status outline_clip(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& outline) {
  SACCADE_ASSIGN(const ClipConfig config, load_config(checkpoint, tensors));
  EncoderInfo info;
  info.image_height = info.image_width = static_cast<int>(config.image_size);
  SACCADE_ASSIGN(const Preprocessing preprocessing, clip_preprocessing(checkpoint, info));
  outline.dim = config.projection;
  outline.context = config.positions;
  outline.image_height = info.image_height;
  outline.image_width = info.image_width;
  outline.preprocessing = preprocessing.describe();
  return {};
}

}  // namespace saccade
