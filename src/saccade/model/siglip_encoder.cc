// A SigLIP checkpoint as an encoder.
#include "saccade/core/threads.h"
#include "saccade/model/architecture.h"
#include "saccade/model/encoder_parts.h"
#include "saccade/model/siglip.h"
#include "saccade/text/tokenizer_files.h"

namespace saccade {
namespace {

using torch::Tensor;

// 0, 1, 2, ...: saved by older transformers.
constexpr std::string_view kBuffers[] = {"*.embeddings.position_ids"};

class SiglipEncoder : public Architecture {
 public:
  SiglipEncoder(EncoderInfo info, Preprocessing preprocessing, std::unique_ptr<Tokenizer> tokenizer,
                SiglipModel model, Weights weights, at::ScalarType dtype, int32_t pad_id)
      : info_(std::move(info)),
        preprocessing_(preprocessing),
        tokenizer_(std::move(tokenizer)),
        weights_(std::move(weights)),
        model_(std::move(model)),
        dtype_(dtype),
        pad_id_(pad_id) {}

  const EncoderInfo& info() const override { return info_; }
  const Preprocessing& preprocessing() const override { return preprocessing_; }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    SACCADE_TRY(check_pictures(pixels, info_));
    Matrix<float> rows(pixels.rows(), info_.dim);
    const SiglipVisionConfig& vision = model_.config().vision;
    const int64_t side = vision.image_size / vision.patch_size;
    SACCADE_TRY(run_alone(mutex_, [&] {
      for_pictures(pixels, info_, side * side, [&](int64_t first, const Tensor& piece) {
        store_rows(nn::normalize_rows(model_.encode_images(piece, dtype_)), first, rows);
      });
    }));
    return rows;
  }

  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    SACCADE_TRY(check_texts(texts, info_, model_.config().vocabulary));
    Matrix<float> rows(static_cast<int64_t>(texts.size()), info_.dim);
    const auto at_once = static_cast<size_t>(std::max<int64_t>(1, kTokensAtOnce / info_.context));
    SACCADE_TRY(run_alone(mutex_, [&] {
      for (size_t first = 0; first < texts.size(); first += at_once) {
        const auto part = texts.subspan(first, std::min(at_once, texts.size() - first));
        store_rows(nn::normalize_rows(model_.encode_texts(padded(part), dtype_)), static_cast<int64_t>(first),
                   rows);
      }
    }));
    return rows;
  }

  Result<nn::TensorMap> answers(const nn::TensorMap& inputs) override {
    const std::lock_guard lock(mutex_);
    const torch::InferenceMode inference;
    SACCADE_ASSIGN(const Tensor pixels, pixel_values_of(inputs, info_));
    SACCADE_ASSIGN(const TextInputs texts, text_inputs_of(inputs, info_.context, model_.config().vocabulary));
    nn::TensorMap result;
    // Embeddings the way users get them; the states on the way by a second pass.
    if (pixels.defined()) {
      result["image_embeds"] = nn::normalize_rows(model_.encode_images(pixels, dtype_));
      TowerTrace trace;
      (void)model_.encode_images(pixels, dtype_, &trace);
      result["vision_hidden_1"] = trace.hidden_1;
      result["vision_last_hidden_state"] = trace.last_hidden_state;
    }
    if (texts.ids.defined()) {
      if (texts.ids.size(1) != info_.context) {
        return fail(ErrorCode::kMismatch, "input_ids has shape {}: SigLIP's texts are padded to {}",
                    shape_text(texts.ids.sizes().vec()), info_.context);
      }
      result["text_embeds"] = nn::normalize_rows(model_.encode_texts(texts.ids, dtype_));
      TowerTrace trace;
      (void)model_.encode_texts(texts.ids, dtype_, &trace);
      result["text_hidden_1"] = trace.hidden_1;
      result["text_last_hidden_state"] = trace.last_hidden_state;
    }
    if (pixels.defined() && texts.ids.defined()) {
      result["logits_per_image"] =
          at::matmul(result["image_embeds"], result["text_embeds"].t()) * model_.logit_scale().exp() +
          model_.logit_bias();
      result["logits_per_text"] = result["logits_per_image"].t().contiguous();
    }
    return result;
  }

 private:
  // [n, context]: all of it is looked at, so that padding is part of what a text says.
  [[nodiscard]] Tensor padded(std::span<const TokenizedText> texts) const {
    Tensor ids = torch::full({static_cast<int64_t>(texts.size()), info_.context}, pad_id_, at::kLong);
    auto* out = ids.data_ptr<int64_t>();
    for (const TokenizedText& text : texts) {
      std::copy(text.ids.begin(), text.ids.end(), out);
      out += info_.context;
    }
    return ids;
  }

  EncoderInfo info_;
  Preprocessing preprocessing_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Weights weights_;  // before the model, whose tensors borrow from it
  SiglipModel model_;
  at::ScalarType dtype_;
  int32_t pad_id_;
  std::mutex mutex_;
};

Result<SiglipConfig> load_config(const Checkpoint& checkpoint, const nn::TensorMap& tensors) {
  if (checkpoint.layout == Layout::kHuggingFace) return siglip_config_from_hugging_face(checkpoint.config);
  if (!checkpoint.config.is_object() || !checkpoint.config.contains("model_cfg")) {
    return fail(ErrorCode::kBadData, "no \"model_cfg\" in it");
  }
  return siglip_config_from_open_clip(checkpoint.config["model_cfg"], tensors);
}

Result<Preprocessing> load_pictures(const Checkpoint& checkpoint, const EncoderInfo& info) {
  const Json half = Json{0.5, 0.5, 0.5};
  if (checkpoint.layout == Layout::kHuggingFace) {
    return load_preprocessing(checkpoint, info,
                              Json{{"image_processor_type", "SiglipImageProcessor"},
                                   {"size", {{"height", info.image_height}, {"width", info.image_width}}}});
  }
  const std::string where = (checkpoint.folder / "open_clip_config.json").string();
  // OpenCLIP's own defaults for SigLIP (its pretrained.py), under what the file says.
  Json config{{"mean", half}, {"std", half}, {"interpolation", "bicubic"}, {"resize_mode", "squash"}};
  if (checkpoint.config.contains("preprocess_cfg")) {
    const Json& own = checkpoint.config["preprocess_cfg"];
    if (!own.is_object()) {
      return fail(ErrorCode::kBadData, "{}: \"preprocess_cfg\" is {}, not an object", where, json_kind(own));
    }
    config.update(own);
  }
  SACCADE_ASSIGN(const Preprocessing preprocessing,
                 preprocessing_from_open_clip(config, info.image_height).in(where));
  SACCADE_TRY(check_output_size(preprocessing, info).in(where));
  return preprocessing;
}

// What the pipeline's program does to a text before its tokenizer; where none is named, the layout's own.
// SigLIP's tokenizer in transformers strips punctuation, Gemma's (SigLIP 2) does not, OpenCLIP does for both.
Result<TextCleanup> text_cleanup(const Checkpoint& checkpoint, const Preprocessing& preprocessing) {
  const bool hugging_face = checkpoint.layout == Layout::kHuggingFace;
  switch (preprocessing.pipeline.value_or(hugging_face ? Pipeline::kHuggingFace : Pipeline::kOpenClip)) {
    case Pipeline::kOpenClip:
      return TextCleanup::kCanonical;
    case Pipeline::kBigVision:
      return TextCleanup::kLowerAscii;
    case Pipeline::kHuggingFace:
      break;
  }
  SACCADE_ASSIGN(const TokenizerFiles files, read_tokenizer_files(checkpoint.folder));
  const bool gemma = files.model_type() == "BPE" || files.tokenizer_class().starts_with("Gemma") ||
                     files.tokenizer_class().starts_with("Siglip2");
  return gemma ? TextCleanup::kLower : TextCleanup::kSiglip;
}

// The id that fills a text up to the context: the tokenizer's; without one the config's, whose default is 1.
// An end token in the config that is not the tokenizer's is a mix-up of files, but for the default that older
// configs copied from CLIP's (49407).
Result<int32_t> padding_id(const Checkpoint& checkpoint, const Tokenizer* tokenizer, int64_t vocabulary) {
  constexpr int32_t kCopiedFromClip = 49407;
  int32_t pad = 1;
  if (checkpoint.layout == Layout::kHuggingFace && checkpoint.config.contains("text_config")) {
    const Json& text = checkpoint.config["text_config"];
    SACCADE_ASSIGN(pad, json_field_or<int32_t>(text, "pad_token_id", 1).in("text_config"));
    SACCADE_ASSIGN(const auto end, json_field_or<int32_t>(text, "eos_token_id", kCopiedFromClip));
    if (tokenizer != nullptr && end != kCopiedFromClip && end != tokenizer->end_id()) {
      return fail(ErrorCode::kMismatch, "config.json: eos_token_id is {}, the tokenizer ends texts with {}",
                  end, tokenizer->end_id());
    }
  }
  if (tokenizer != nullptr) pad = tokenizer->pad_id();
  if (pad < 0 || pad >= vocabulary) {
    return fail(ErrorCode::kMismatch, "padding id {} is outside the vocabulary of {}", pad, vocabulary);
  }
  return pad;
}

}  // namespace

Result<std::unique_ptr<Architecture>> load_siglip(const Checkpoint& checkpoint,
                                                  const EncoderOptions& options) {
  at::set_num_threads(options.threads > 0 ? options.threads : available_processors());
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  SACCADE_ASSIGN(Weights weights, map_weights(checkpoint));
  SACCADE_ASSIGN(const SiglipConfig config, load_config(checkpoint, weights.tensors).in(where));
  nn::TensorMap tensors = weights.tensors;
  if (checkpoint.layout != Layout::kHuggingFace) {
    SACCADE_ASSIGN(tensors, rename_siglip_to_hugging_face(tensors).in(where));
  }
  nn::LoadedParameters source(std::move(tensors));
  SACCADE_ASSIGN(SiglipModel model, SiglipModel::make(config, source).in(where));
  if (const Status used = source.all_used(kBuffers); !used) return fail(used.error().in(where));

  EncoderInfo info;
  info.family = "siglip";
  info.layout = std::string(layout_name(checkpoint.layout));
  SACCADE_ASSIGN(info.fingerprint, checkpoint_fingerprint(checkpoint.folder));
  info.dim = config.projection;
  info.context = config.positions;
  for (const auto& [name, tensor] : weights.tensors) info.parameters += tensor.numel();
  info.image_height = info.image_width = static_cast<int>(config.vision.image_size);
  info.logit_scale = model.logit_scale().exp().item<float>();

  SACCADE_ASSIGN(const Preprocessing preprocessing, load_pictures(checkpoint, info).in(where));
  SACCADE_ASSIGN(const TextCleanup cleanup, text_cleanup(checkpoint, preprocessing));
  SACCADE_ASSIGN(std::unique_ptr<Tokenizer> tokenizer,
                 load_checkpoint_tokenizer(checkpoint, cleanup, config.vocabulary));
  SACCADE_ASSIGN(const int32_t pad, padding_id(checkpoint, tokenizer.get(), config.vocabulary).in(where));
  const at::ScalarType dtype = options.precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat;
  model.pack(dtype);
  return std::unique_ptr<Architecture>(std::make_unique<SiglipEncoder>(std::move(info), preprocessing,
                                                                       std::move(tokenizer), std::move(model),
                                                                       std::move(weights), dtype, pad));
}

}  // namespace saccade
