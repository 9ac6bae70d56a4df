// A SigLIP checkpoint as an encoder.
#include <cmath>

#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/dual_encoder.h"
#include "saccade/model/families/siglip.h"
#include "saccade/text/tokenizers/tokenizer_files.h"

namespace saccade {
namespace {

using nn::Tensor;

// Buffers saved by older transformers: 0, 1, 2, ...
constexpr std::string_view kBuffers[] = {"*.embeddings.position_ids"};

class SiglipEncoder : public DualEncoder {
 public:
  SiglipEncoder(EncoderParts parts, SiglipModel model, int32_t pad_id)
      : DualEncoder(std::move(parts), shape_of(model.config(), pad_id)), model_(std::move(model)) {}

  WideLayers wide_layers() const override { return model_.wide_layers(); }

 private:
  static DualShape shape_of(const SiglipConfig& config, int32_t pad_id) {
    const int64_t side = config.vision.image_size / config.vision.patch_size;
    // All tokens of a padded text are attended to, so padding affects the embedding.
    return {.image_tokens = side * side,
            .vocabulary = config.vocabulary,
            .pad_id = pad_id,
            .padded_to = config.positions,
            .masked = false,
            .image_states = config.vision.shape.width,
            .text_states = config.text.width};
  }

  Tensor image_states(const Tensor& pixels, TowerTrace* trace) const override {
    return model_.encode_images(pixels, dtype(), trace);
  }
  Tensor text_states(const Tensor& ids, const Tensor&, TowerTrace* trace) const override {
    return model_.text_states(ids, dtype(), trace);
  }
  Tensor project_texts(const Tensor& states) const override { return model_.project_texts(states); }
  std::optional<PictureTower> picture_tower() const override { return model_.picture_tower(dtype()); }
  Tensor logits(const Tensor& cosines) const override {
    return cosines * std::exp(model_.logit_scale().item()) +
           nn::Tensor::full({}, static_cast<float>(model_.logit_bias().item()));
  }
  Status check_reference_texts(const TextInputs& texts) const override {
    if (texts.ids.size(1) == info().context) return {};
    return fail(ErrorCode::kMismatch, "input_ids has shape {}: SigLIP's texts are padded to {}",
                shape_text(texts.ids.sizes()), info().context);
  }

  SiglipModel model_;
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
  // OpenCLIP's own defaults for SigLIP (its pretrained.py), overridden by the file.
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

// Returns the text clean-up of the pipeline's program, or of the layout if none is named. SigLIP's tokenizer
// in transformers strips punctuation, Gemma's (SigLIP 2) does not, OpenCLIP does for both.
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

// Returns the id that pads a text to the context: the tokenizer's, or the config's without one. The class's
// defaults are ignored: an end id copied from CLIP's, and padding of 1, which SigLIP 2's configs kept beside
// a tokenizer that pads with 0.
Result<int32_t> padding_id(const Checkpoint& checkpoint, const Tokenizer* tokenizer, int64_t vocabulary) {
  constexpr int32_t kDefaultEnd = 49407;
  constexpr int32_t kDefaultPad = 1;
  Json text = Json::object();
  if (checkpoint.layout == Layout::kHuggingFace) {
    SACCADE_ASSIGN(text, section(checkpoint.config, "text_config"));
  }
  SACCADE_ASSIGN(auto pad, json_field_or<int32_t>(text, "pad_token_id", kDefaultPad).in("text_config"));
  if (tokenizer != nullptr) {
    SACCADE_TRY(check_special_ids(text, "text_config",
                                  {{"eos_token_id", tokenizer->end_id(), kDefaultEnd},
                                   {"pad_token_id", tokenizer->pad_id(), kDefaultPad}}));
    pad = tokenizer->pad_id();
  }
  if (pad < 0 || pad >= vocabulary) {
    return fail(ErrorCode::kMismatch, "padding id {} is outside the vocabulary of {}", pad, vocabulary);
  }
  return pad;
}

// Fills in the fields that follow from the config alone.
void set_shape(const SiglipConfig& config, EncoderInfo& info) {
  info.dim = config.projection;
  info.context = config.positions;
  info.image_height = info.image_width = static_cast<int>(config.vision.image_size);
}

Result<std::unique_ptr<Architecture>> load(const Checkpoint& checkpoint, const BackendOptions& options) {
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  SACCADE_ASSIGN(EncoderParts parts, open_parts(checkpoint, options, "siglip"));
  SACCADE_ASSIGN(const SiglipConfig config, load_config(checkpoint, parts.weights.tensors).in(where));
  nn::TensorMap tensors = parts.weights.tensors;
  if (checkpoint.layout != Layout::kHuggingFace) {
    SACCADE_ASSIGN(tensors, rename_siglip_to_hugging_face(tensors).in(where));
  }
  nn::LoadedParameters source(std::move(tensors));
  SACCADE_ASSIGN(SiglipModel model, SiglipModel::make(config, source).in(where_of_tensors(checkpoint)));
  SACCADE_TRY(source.all_used(kBuffers).in(where_of_tensors(checkpoint)));

  set_shape(config, parts.info);
  parts.info.logit_scale = std::exp(static_cast<float>(model.logit_scale().item()));
  SACCADE_ASSIGN(parts.preprocessing, load_pictures(checkpoint, parts.info).in(where));
  SACCADE_ASSIGN(const TextCleanup cleanup, text_cleanup(checkpoint, parts.preprocessing));
  const WordTable table{"text_model.embeddings.token_embedding.weight", config.vocabulary};
  SACCADE_ASSIGN(parts.tokenizer, load_checkpoint_tokenizer(checkpoint, cleanup, table, ReadAt::kAnywhere));
  SACCADE_ASSIGN(const int32_t pad,
                 padding_id(checkpoint, parts.tokenizer.get(), config.vocabulary).in(where));
  model.pack(parts.packing);
  return std::unique_ptr<Architecture>(
      std::make_unique<SiglipEncoder>(std::move(parts), std::move(model), pad));
}

Status outline(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& result) {
  return outline_from(load_config(checkpoint, tensors), checkpoint, set_shape, load_pictures, result);
}

}  // namespace

extern const Family siglip_family = {{"siglip"}, load, outline};

}  // namespace saccade
