// ALIGN as a model and as an encoder.
#include "saccade/model/align.h"

#include <cmath>
#include <mutex>

#include "saccade/core/threads.h"
#include "saccade/model/architecture.h"
#include "saccade/model/encoder_parts.h"

namespace saccade {
namespace {

using torch::Tensor;

Result<Json> section(const Json& config, const char* name) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return Json(Json::object());
  if (found->is_object()) return *found;
  return fail(ErrorCode::kBadData, "\"{}\" is {}, not an object", name, json_kind(*found));
}

class AlignEncoder : public Architecture {
 public:
  struct Parts {
    EncoderInfo info;
    Preprocessing preprocessing;
    std::unique_ptr<Tokenizer> tokenizer;
    Weights weights;  // before the model, whose tensors borrow from it
    AlignModel model;
    at::ScalarType dtype = at::kFloat;
  };
  explicit AlignEncoder(Parts parts) : parts_(std::move(parts)) {}

  const EncoderInfo& info() const override { return parts_.info; }
  const Preprocessing& preprocessing() const override { return parts_.preprocessing; }
  const Tokenizer* tokenizer() const override { return parts_.tokenizer.get(); }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    SACCADE_TRY(check_pictures(pixels, parts_.info));
    Matrix<float> rows(pixels.rows(), parts_.info.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for_pictures(
          pixels, parts_.info, kTokensAtOnce / kPicturesAtOnce, [&](int64_t first, const Tensor& piece) {
            store_rows(nn::normalize_rows(parts_.model.encode_images(piece, parts_.dtype)), first, rows);
          });
    }));
    return rows;
  }

  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    const BertConfig& config = parts_.model.config().text;
    SACCADE_TRY(check_texts(texts, parts_.info, config.vocabulary));
    Matrix<float> rows(static_cast<int64_t>(texts.size()), parts_.info.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for (const TextBatch& batch : text_batches(texts, config.pad_id)) {
        store_rows(nn::normalize_rows(parts_.model.encode_texts(batch.ids, batch.mask, parts_.dtype)),
                   batch.items, rows);
      }
    }));
    return rows;
  }

  Result<nn::TensorMap> answers(const nn::TensorMap& inputs) override {
    const std::lock_guard lock(mutex_);
    const torch::InferenceMode inference;
    const AlignModel& model = parts_.model;
    const BertConfig& text = model.config().text;
    SACCADE_ASSIGN(const Tensor pixels, pixels_of_any_size(inputs));
    SACCADE_ASSIGN(const TextInputs texts, text_inputs_of(inputs, text.positions, text.vocabulary));
    nn::TensorMap result;
    if (pixels.defined()) {
      result["image_embeds"] = nn::normalize_rows(model.encode_images(pixels, parts_.dtype));
      Tensor hidden_1;
      result["vision_last_hidden_state"] =
          model.vision().states(pixels, parts_.dtype, &hidden_1).contiguous();
      result["vision_hidden_1"] = hidden_1.contiguous();
    }
    if (texts.ids.defined()) {
      if (!(texts.mask != 0).any(1).all().item<bool>()) {
        return fail(ErrorCode::kMismatch, "attention_mask leaves out every token of a text");
      }
      result["text_embeds"] = nn::normalize_rows(model.encode_texts(texts.ids, texts.mask, parts_.dtype));
      BertTrace trace;
      result["text_last_hidden_state"] = model.text().states(texts.ids, texts.mask, parts_.dtype, {}, &trace);
      result["text_hidden_1"] = trace.hidden_1;
    }
    if (pixels.defined() && texts.ids.defined()) {
      result["logits_per_text"] =
          at::matmul(result["text_embeds"], result["image_embeds"].t()) / model.temperature();
      result["logits_per_image"] = result["logits_per_text"].t().contiguous();
    }
    return result;
  }

 private:
  // A picture of 289 x 289 has activations of 60 MB in a tower as wide as ALIGN's.
  static constexpr int64_t kPicturesAtOnce = 8;

  // Convolutions take any size; what a reference was run on need not be what the preprocessing makes.
  static Result<Tensor> pixels_of_any_size(const nn::TensorMap& inputs) {
    const auto found = inputs.find("pixel_values");
    if (found == inputs.end()) return Tensor();
    const Tensor& pixels = found->second;
    if (pixels.dim() != 4 || pixels.size(1) != 3 || pixels.numel() == 0) {
      return fail(ErrorCode::kMismatch, "pixel_values has shape {}, expected [n, 3, height, width]",
                  shape_text(pixels.sizes().vec()));
    }
    return pixels.to(at::kFloat);
  }

  Parts parts_;
  std::mutex mutex_;
};

Status load_model(const Checkpoint& checkpoint, AlignEncoder::Parts& parts) {
  SACCADE_ASSIGN(const AlignConfig config, align_config_from_hugging_face(checkpoint.config));
  nn::TensorMap tensors = with_current_bert_names(parts.weights.tensors);
  nn::LoadedParameters source(std::move(tensors));
  SACCADE_ASSIGN(parts.model, AlignModel::make(config, source));
  // 0, 1, 2, ...; and how many batches the statistics were gathered over.
  constexpr std::string_view kBuffers[] = {"*embeddings.position_ids", "*.num_batches_tracked"};
  SACCADE_TRY(source.all_used(kBuffers));
  const float temperature = parts.model.temperature().item<float>();
  if (!(temperature > 0 && std::isfinite(temperature))) {
    return fail(ErrorCode::kBadData, "tensor temperature is {}, expected a number above 0", temperature);
  }
  parts.info.dim = config.projection;
  parts.info.context = config.text.positions;
  parts.info.logit_scale = 1 / temperature;
  return {};
}

// preprocessor_config.json, or what ALIGN's always says.
Result<Preprocessing> align_preprocessing(const Checkpoint& checkpoint, int64_t pooling_window) {
  Json json = {{"do_resize", true},
               {"size", {{"height", 346}, {"width", 346}}},
               {"resample", 2},
               {"do_center_crop", true},
               {"crop_size", {{"height", 289}, {"width", 289}}},
               {"do_rescale", true},
               {"rescale_factor", 1 / 127.5},
               {"rescale_offset", true},
               {"do_normalize", false}};
  const std::filesystem::path file = checkpoint.folder / "preprocessor_config.json";
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    SACCADE_ASSIGN(json, read_json(file));
  }
  SACCADE_ASSIGN(const Preprocessing preprocessing,
                 preprocessing_from_hugging_face(json, 289).in(file.string()));
  // The last states are about a 32nd of a side; were they more than the pooling's window, the reference would
  // fail.
  const int64_t side = std::max(preprocessing.output_height(), preprocessing.output_width());
  if (side > 4096 || side / 32 + 1 > pooling_window) {
    return fail(ErrorCode::kUnsupported, "{}: pictures of {} x {} are too large", file.string(),
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
    return fail(ErrorCode::kBadData, "\"projection_dim\" is {}, the picture tower is {} wide",
                result.projection, result.vision.width());
  }
  return result;
}

Result<AlignModel> AlignModel::make(const AlignConfig& config, nn::ParameterSource& source) {
  AlignModel model;
  model.config_ = config;
  SACCADE_ASSIGN(model.vision_, EfficientNet::make(config.vision, source, "vision_model."));
  // The pooler comes with the checkpoints, though nothing reads it.
  SACCADE_ASSIGN(model.text_, BertModel::make(config.text, source, "text_model.", true));
  SACCADE_ASSIGN(model.text_projection_, nn::Linear::make(source, "text_projection", config.text.shape.width,
                                                          config.projection, 0.02));
  SACCADE_ASSIGN(model.temperature_, source.take("temperature", {}, {config.temperature_init, 0}));
  return model;
}

Tensor AlignModel::encode_images(const Tensor& pixels, at::ScalarType dtype) const {
  return vision_.pool(vision_.states(pixels, dtype));
}

Tensor AlignModel::encode_texts(const Tensor& ids, const Tensor& mask, at::ScalarType dtype) const {
  return text_projection_.forward(text_.first_state(ids, mask, dtype));
}

void AlignModel::pack(at::ScalarType dtype) {
  vision_.pack(dtype);
  text_.pack(dtype);
  text_projection_.pack(at::kFloat);  // one row a text: the last step stays exact
}

Result<std::unique_ptr<Architecture>> load_align(const Checkpoint& checkpoint,
                                                 const EncoderOptions& options) {
  at::set_num_threads(options.threads > 0 ? options.threads : available_processors());
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  AlignEncoder::Parts parts;
  SACCADE_ASSIGN(parts.weights, map_weights(checkpoint));
  SACCADE_TRY(load_model(checkpoint, parts).in(where));
  const AlignConfig& config = parts.model.config();
  SACCADE_ASSIGN(parts.preprocessing, align_preprocessing(checkpoint, config.vision.pooling_window));
  parts.info.family = "align";
  parts.info.layout = std::string(layout_name(checkpoint.layout));
  SACCADE_ASSIGN(parts.info.fingerprint, checkpoint_fingerprint(checkpoint.folder));
  for (const auto& [name, tensor] : parts.weights.tensors) parts.info.parameters += tensor.numel();
  parts.info.image_height = parts.preprocessing.output_height();
  parts.info.image_width = parts.preprocessing.output_width();
  SACCADE_ASSIGN(parts.tokenizer,
                 load_checkpoint_tokenizer(checkpoint, TextCleanup::kTokenizerFile, config.text.vocabulary));
  parts.dtype = options.precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat;
  parts.model.pack(parts.dtype);
  return std::unique_ptr<Architecture>(std::make_unique<AlignEncoder>(std::move(parts)));
}

Status outline_align(const Checkpoint& checkpoint, const nn::TensorMap&, CheckpointOutline& outline) {
  SACCADE_ASSIGN(const AlignConfig config, align_config_from_hugging_face(checkpoint.config));
  SACCADE_ASSIGN(const Preprocessing preprocessing,
                 align_preprocessing(checkpoint, config.vision.pooling_window));
  outline.dim = config.projection;
  outline.context = config.text.positions;
  outline.image_height = preprocessing.output_height();
  outline.image_width = preprocessing.output_width();
  outline.preprocessing = preprocessing.describe();
  return {};
}

}  // namespace saccade
