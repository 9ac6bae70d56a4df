// ALIGN as a model and as an encoder.
#include "saccade/model/families/align.h"

#include <cmath>

#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/dual_encoder.h"

namespace saccade {
namespace {

using nn::Tensor;

class AlignEncoder : public DualEncoder {
 public:
  AlignEncoder(EncoderParts parts, AlignModel model)
      : DualEncoder(std::move(parts), shape_of(model.config())), model_(std::move(model)) {}

 private:
  static DualShape shape_of(const AlignConfig& config) {
    // An image of 289 x 289 has activations of 60 MB in a tower as wide as ALIGN's, so eight are encoded at
    // once.
    return {.image_tokens = kTokensAtOnce / 8,
            .vocabulary = config.text.vocabulary,
            .pad_id = config.text.pad_id,
            .image_states = config.vision.width(),
            .text_states = config.text.shape.width};
  }

  Tensor image_states(const Tensor& pixels, TowerTrace* trace) const override {
    return model_.encode_images(pixels, dtype(), trace);
  }
  Tensor text_states(const Tensor& ids, const Tensor& mask, TowerTrace* trace) const override {
    return model_.text_states(ids, mask, dtype(), trace);
  }
  Tensor project_texts(const Tensor& states) const override { return model_.project_texts(states); }
  Tensor logits(const Tensor& cosines) const override { return cosines * (1 / model_.temperature().item()); }

  // Convolutions accept any size, so a reference's input size may differ from that of the preprocessing.
  Result<Tensor> reference_pixels(const nn::TensorMap& inputs) const override {
    const auto found = inputs.find("pixel_values");
    if (found == inputs.end()) return Tensor();
    const Tensor& pixels = found->second;
    if (pixels.dim() != 4 || pixels.size(1) != 3 || pixels.numel() == 0) {
      return fail(ErrorCode::kMismatch, "pixel_values has shape {}, expected [n, 3, height, width]",
                  shape_text(pixels.sizes()));
    }
    return pixels.in(parts().workspace.get()).to(DType::kF32);
  }
  Status check_reference_texts(const TextInputs& texts) const override {
    if (keeps_a_token_of_each(texts.mask)) return {};
    return fail(ErrorCode::kMismatch, "attention_mask leaves out every token of a text");
  }

  AlignModel model_;
};

Result<AlignModel> load_model(const Checkpoint& checkpoint, EncoderParts& parts) {
  SACCADE_ASSIGN(const AlignConfig config, align_config_from_hugging_face(checkpoint.config));
  nn::LoadedParameters source(with_current_bert_names(parts.weights.tensors));
  SACCADE_ASSIGN(AlignModel model, AlignModel::make(config, source));
  // Buffers: 0, 1, 2, ...; and the number of batches of the statistics.
  constexpr std::string_view kBuffers[] = {"*embeddings.position_ids", "*.num_batches_tracked"};
  SACCADE_TRY(source.all_used(kBuffers));
  const float temperature = static_cast<float>(model.temperature().item());
  if (!(temperature > 0 && std::isfinite(temperature))) {
    return fail(ErrorCode::kBadData, "tensor temperature is {}, expected a number above 0", temperature);
  }
  parts.info.dim = config.projection;
  parts.info.context = config.text.positions;
  parts.info.logit_scale = 1 / temperature;
  return model;
}

// Returns the checkpoint's preprocessing, or ALIGN's fixed defaults.
Result<Preprocessing> align_preprocessing(const Checkpoint& checkpoint, int64_t pooling_window) {
  const Json usual = {{"do_resize", true},
                      {"size", {{"height", 346}, {"width", 346}}},
                      {"resample", 2},
                      {"do_center_crop", true},
                      {"crop_size", {{"height", 289}, {"width", 289}}},
                      {"do_rescale", true},
                      {"rescale_factor", 1 / 127.5},
                      {"rescale_offset", true},
                      {"do_normalize", false}};
  const PictureConfig& said = checkpoint.pictures;
  SACCADE_ASSIGN(
      const Preprocessing preprocessing,
      preprocessing_from_hugging_face(said.json.is_null() ? usual : said.json, 289).in(said.where));
  // The last states have about a 32nd of the side; if they exceeded the pooling window, the reference would
  // fail.
  const int64_t side = std::max(preprocessing.output_height(), preprocessing.output_width());
  if (side > 4096 || side / 32 + 1 > pooling_window) {
    return fail(ErrorCode::kUnsupported, "{}: images of {} x {} are too large", said.where,
                preprocessing.output_width(), preprocessing.output_height());
  }
  return preprocessing;
}

}  // namespace

Result<AlignConfig> align_config_from_hugging_face(const Json& config) {
  AlignConfig result;
  SACCADE_ASSIGN(const Json vision, section(config, "vision_config"));
  SACCADE_ASSIGN(const Json text, section(config, "text_config"));
  SACCADE_ASSIGN(result.vision, efficientnet_config_from_hugging_face(vision).in("vision_config"));
  SACCADE_ASSIGN(result.text, bert_config_from_hugging_face(text).in("text_config"));
  SACCADE_ASSIGN(result.projection, json_field_or<int64_t>(config, "projection_dim", 640));
  SACCADE_ASSIGN(result.temperature_init, json_field_or<double>(config, "temperature_init_value", 1.0));
  if (result.projection != result.vision.width()) {
    return fail(ErrorCode::kBadData, "\"projection_dim\" is {}, the image tower is {} wide",
                result.projection, result.vision.width());
  }
  return result;
}

Result<AlignModel> AlignModel::make(const AlignConfig& config, nn::ParameterSource& source) {
  AlignModel model;
  model.config_ = config;
  SACCADE_ASSIGN(model.vision_, EfficientNet::make(config.vision, source, "vision_model."));
  // The checkpoints contain the pooler, although nothing uses it.
  SACCADE_ASSIGN(model.text_, BertModel::make(config.text, source, "text_model.", true));
  SACCADE_ASSIGN(model.text_projection_, nn::Linear::make(source, "text_projection", config.text.shape.width,
                                                          config.projection, 0.02));
  SACCADE_ASSIGN(model.temperature_, source.take("temperature", {}, {config.temperature_init, 0}));
  return model;
}

Tensor AlignModel::encode_images(const Tensor& pixels, DType dtype, TowerTrace* trace) const {
  if (trace == nullptr) return vision_.pool(vision_.states(pixels, dtype));
  Tensor hidden_1;
  const Tensor states = vision_.states(pixels, dtype, &hidden_1);
  // As the reference has them: channels first.
  *trace = {hidden_1.permute({0, 3, 1, 2}).contiguous(), states.permute({0, 3, 1, 2}).contiguous()};
  return vision_.pool(states);
}

Tensor AlignModel::project_texts(const Tensor& states) const {
  return text_projection_.forward(states);
}

Tensor AlignModel::text_states(const Tensor& ids, const Tensor& mask, DType dtype, TowerTrace* trace) const {
  if (trace == nullptr) return text_.first_state(ids, mask, dtype);
  BertTrace bert;
  const Tensor states = text_.states(ids, mask, dtype, {}, &bert);
  *trace = {bert.hidden_1, states};
  return states.select(1, 0);
}

void AlignModel::pack(DType dtype) {
  vision_.pack(dtype);
  text_.pack(dtype);
  text_projection_.pack(DType::kF32);  // one row a text: the last step stays exact
}

namespace {

Result<std::unique_ptr<Architecture>> load(const Checkpoint& checkpoint, const BackendOptions& options) {
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  SACCADE_ASSIGN(EncoderParts parts, open_parts(checkpoint, options, "align"));
  SACCADE_ASSIGN(AlignModel model, load_model(checkpoint, parts).in(where));
  const AlignConfig& config = model.config();
  SACCADE_ASSIGN(parts.preprocessing, align_preprocessing(checkpoint, config.vision.pooling_window));
  parts.info.image_height = parts.preprocessing.output_height();
  parts.info.image_width = parts.preprocessing.output_width();
  const WordTable table{"text_model.embeddings.word_embeddings.weight", config.text.vocabulary};
  SACCADE_ASSIGN(parts.tokenizer,
                 load_checkpoint_tokenizer(checkpoint, TextCleanup::kTokenizerFile, table, ReadAt::kStart));
  SACCADE_ASSIGN(const Json text, section(checkpoint.config, "text_config"));
  SACCADE_TRY(check_bert_ids(text, "text_config", parts.tokenizer.get()).in(where));
  model.pack(parts.packing);
  return std::unique_ptr<Architecture>(std::make_unique<AlignEncoder>(std::move(parts), std::move(model)));
}

Status outline(const Checkpoint& checkpoint, const nn::TensorMap&, CheckpointOutline& result) {
  SACCADE_ASSIGN(const AlignConfig config, align_config_from_hugging_face(checkpoint.config));
  SACCADE_ASSIGN(const Preprocessing preprocessing,
                 align_preprocessing(checkpoint, config.vision.pooling_window));
  EncoderInfo info;
  info.dim = config.projection;
  info.context = config.text.positions;
  info.image_height = preprocessing.output_height();
  info.image_width = preprocessing.output_width();
  fill_outline(info, preprocessing, result);
  return {};
}

}  // namespace

extern const Family align_family = {{"align"}, load, outline};

}  // namespace saccade
