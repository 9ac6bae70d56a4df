// A Jina-CLIP v1 checkpoint as an encoder.
#include <cmath>

#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/dual_encoder.h"
#include "saccade/model/families/jina_clip.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using nn::Tensor;

// Buffers that the reference saves beside the weights: angles, 0, 1, 2, ..., and a pooling layer that it
// never calls.
constexpr std::string_view kBuffers[] = {"*.rope.freqs_cos", "*.rope.freqs_sin", "*.embeddings.position_ids",
                                         "text_model.transformer.pooler.dense.weight",
                                         "text_model.transformer.pooler.dense.bias"};

class JinaClipEncoder : public DualEncoder {
 public:
  JinaClipEncoder(EncoderParts parts, JinaClipModel model)
      : DualEncoder(std::move(parts), shape_of(model.config())), model_(std::move(model)) {}

 private:
  static DualShape shape_of(const JinaClipConfig& config) {
    const int64_t side = config.vision.image_size / config.vision.patch_size;
    return {.image_tokens = side * side + 1,
            .vocabulary = config.text.vocabulary,
            .image_states = config.width,
            .text_states = config.width};
  }

  Tensor image_states(const Tensor& pixels, TowerTrace* trace) const override {
    return model_.image_states(pixels, dtype(), trace);
  }
  Tensor text_states(const Tensor& ids, const Tensor& mask, TowerTrace* trace) const override {
    return model_.text_states(ids, mask, dtype(), trace);
  }
  Tensor project_images(const Tensor& states) const override { return model_.project_images(states); }
  Tensor project_texts(const Tensor& states) const override { return model_.project_texts(states); }
  std::optional<PictureTower> picture_tower() const override { return model_.picture_tower(dtype()); }
  Tensor logits(const Tensor& cosines) const override {
    return cosines * std::exp(model_.logit_scale().item());
  }

  JinaClipModel model_;
};

// Reads OpenCLIP's preprocessing fields, which the checkpoint has beside class names; its code first converts
// images to RGB.
Result<Preprocessing> jina_preprocessing(const Checkpoint& checkpoint, const EncoderInfo& info) {
  const PictureConfig& said = checkpoint.pictures;
  Json json = said.json.is_null() ? Json::object() : said.json;
  for (const char* key : {"image_processor_type", "feature_extractor_type", "processor_class", "auto_map",
                          "_valid_processor_keys"}) {
    if (json.is_object()) json.erase(key);
  }
  SACCADE_ASSIGN(Preprocessing preprocessing,
                 preprocessing_from_open_clip(json, info.image_height).in(said.where));
  preprocessing.rgb_order = RgbOrder::kBeforeResize;
  SACCADE_TRY(check_output_size(preprocessing, info).in(said.where));
  return preprocessing;
}

// Fills in the fields that follow from the config alone.
void set_shape(const JinaClipConfig& config, EncoderInfo& info) {
  info.dim = config.dim();
  info.context = config.context;
  info.image_height = info.image_width = static_cast<int>(config.vision.image_size);
}

Result<std::unique_ptr<Architecture>> load(const Checkpoint& checkpoint, const BackendOptions& options) {
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  SACCADE_ASSIGN(EncoderParts parts, open_parts(checkpoint, options, "jina_clip"));
  SACCADE_ASSIGN(const JinaClipConfig config,
                 jina_clip_config(checkpoint.config, parts.weights.tensors).in(where));
  nn::LoadedParameters source(parts.weights.tensors);
  SACCADE_ASSIGN(JinaClipModel model, JinaClipModel::make(config, source).in(where));
  if (const Status used = source.all_used(kBuffers); !used) return fail(used.error().in(where));

  set_shape(config, parts.info);
  parts.info.logit_scale = std::exp(static_cast<float>(model.logit_scale().item()));
  SACCADE_ASSIGN(parts.preprocessing, jina_preprocessing(checkpoint, parts.info));
  const WordTable table{"text_model.transformer.embeddings.word_embeddings.weight", config.text.vocabulary};
  SACCADE_ASSIGN(parts.tokenizer, load_checkpoint_tokenizer(checkpoint, TextCleanup::kTokenizerFile, table,
                                                            ReadAt::kAnywhere));
  SACCADE_ASSIGN(const Json text, section(checkpoint.config, "text_config"));
  SACCADE_ASSIGN(const Json changes, section(text, "hf_model_config_kwargs"));
  SACCADE_TRY(check_bert_ids(changes, "hf_model_config_kwargs", parts.tokenizer.get()).in(where));
  model.pack(parts.packing);
  return std::unique_ptr<Architecture>(std::make_unique<JinaClipEncoder>(std::move(parts), std::move(model)));
}

Status outline(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& result) {
  return outline_from(jina_clip_config(checkpoint.config, tensors), checkpoint, set_shape, jina_preprocessing,
                      result);
}

}  // namespace

extern const Family jina_clip_family = {{"jina_clip"}, load, outline};

}  // namespace saccade
