// A CLIP checkpoint as an encoder.
#include <cmath>

#include "saccade/model/device/device_clip.h"
#include "saccade/model/dual_encoder.h"
#include "saccade/model/families/clip.h"
#include "saccade/model/families/clip_checkpoint.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using nn::Tensor;

// Buffers that reference implementations save beside the weights: 0, 1, 2, ... (transformers), sizes and the
// causal mask (OpenAI), row selections of two position tables (Long-CLIP), and batch counts of statistics
// (batch normalization).
constexpr std::string_view kBuffers[] = {"*.embeddings.position_ids",
                                         "*.num_batches_tracked",
                                         "input_resolution",
                                         "context_length",
                                         "vocab_size",
                                         "attn_mask",
                                         "mask1",
                                         "mask2"};

// With a device, the states of images, texts and their tokens come from there. Projections, texts with replaced
// words, relevance maps and a reference's intermediate values are computed by our own kernels, for which layers are
// packed when they are first needed.
class ClipEncoder : public DualEncoder {
 public:
  // device: `nullptr` for the processor.
  ClipEncoder(EncoderParts parts, ClipModel model, std::unique_ptr<DeviceClip> device)
      : DualEncoder(std::move(parts), shape_of(model.config())),
        model_(std::move(model)),
        device_(std::move(device)) {}

  WideLayers wide_layers() const override { return model_.wide_layers(); }

 private:
  static DualShape shape_of(const ClipConfig& config) {
    // The first stages of a convolutional tower have much larger activations than its last.
    const int64_t side = config.image_size / (config.resnet ? 8 : config.patch_size);
    // The padding id is 0. Tokens after a text's end token do not matter, and 0 is neither the end id nor the
    // highest.
    return {.image_tokens = side * side + 1,
            .vocabulary = config.vocabulary,
            .pad_id = 0,
            .masked = false,
            .image_states = config.resnet ? config.projection : config.vision.width,
            .text_states = config.text.width,
            .picture_tokens = config.resnet ? 0 : side * side + 1,
            .word_width = config.text.width};
  }

  Tensor image_states(const Tensor& pixels, TowerTrace* trace) const override {
    if (device_ && trace == nullptr) return device_->image_states(pixels);
    return model_.image_states(pixels, dtype(), trace);
  }
  Tensor text_states(const Tensor& ids, const Tensor& mask, TowerTrace* trace) const override {
    if (device_ && trace == nullptr && keeps_up_to_end(mask, model_.end_positions(ids))) {
      return device_->text_states(ids);
    }
    return model_.text_states(ids, dtype(), mask, trace);
  }
  Tensor project_images(const Tensor& states) const override { return model_.project_images(states); }
  Tensor project_texts(const Tensor& states) const override { return model_.project_texts(states); }
  Tensor image_token_states(const Tensor& pixels) const override {
    if (device_) return device_->image_tokens(pixels);
    return model_.image_tokens(pixels, dtype());
  }
  Tensor text_token_states(const Tensor& ids) const override {
    if (device_) return device_->text_tokens(ids);
    return model_.text_tokens(ids, dtype());
  }
  Tensor text_ends(const Tensor& ids) const override { return model_.end_positions(ids); }
  Tensor text_states_with(const Tensor& ids, const Tensor& places, const Tensor& words) const override {
    return model_.text_states_with(ids, places, words, dtype());
  }
  std::optional<PictureTower> picture_tower() const override {
    if (model_.config().resnet) return std::nullopt;
    return model_.picture_tower(dtype());
  }
  Tensor logits(const Tensor& cosines) const override {
    return cosines * std::exp(model_.logit_scale().item());
  }

  ClipModel model_;
  std::unique_ptr<DeviceClip> device_;
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
  if (checkpoint.layout != Layout::kHuggingFace && checkpoint.pictures.json.is_null()) {
    return preprocessing_from_open_clip(Json::object(), info.image_height);
  }
  // CLIP's original preprocessing is the default.
  Json usual = {{"do_resize", true},
                {"size", {{"shortest_edge", info.image_height}}},
                {"resample", 3},
                {"do_center_crop", true},
                {"crop_size", {{"height", info.image_height}, {"width", info.image_width}}},
                {"do_normalize", true}};
  usual.update(clip_mean_and_std());
  return load_preprocessing(checkpoint, info, usual);
}

// OpenAI's and OpenCLIP's programs contain CLIP's tokenizer, which is used unless a config names another.
bool leaves_tokenizer_to_the_program(const Checkpoint& checkpoint, const ClipConfig& config) {
  constexpr int64_t kPublishedVocabulary = 49408;
  if (checkpoint.layout == Layout::kHuggingFace || config.vocabulary != kPublishedVocabulary) return false;
  const Json::json_pointer named("/model_cfg/text_cfg/hf_tokenizer_name");
  return !checkpoint.config.is_object() || !checkpoint.config.contains(named);
}

// Checks that the token at which texts are read is the tokenizer's end token; it is given by the config's id
// or is the highest. A start id of 0 dates from before the fields were used. Padding does not matter.
Status check_tokenizer(const Checkpoint& checkpoint, const ClipConfig& config, const Tokenizer& tokenizer) {
  const int64_t highest = tokenizer.vocabulary_size() - 1;
  if (!config.end_id && tokenizer.end_id() != highest) {
    return fail(ErrorCode::kMismatch,
                "texts are read at their highest id{}: the tokenizer's is {}, it ends them with {}",
                checkpoint.layout == Layout::kHuggingFace ? " (text_config: eos_token_id is 2)" : "", highest,
                tokenizer.end_id());
  }
  if (checkpoint.layout != Layout::kHuggingFace) return {};
  SACCADE_ASSIGN(const Json text, clip_text_section(checkpoint.config));
  return check_special_ids(
      text, "text_config",
      {{"eos_token_id", tokenizer.end_id(), kLegacyEndId}, {"bos_token_id", tokenizer.start_id(), 0}});
}

// Fills in the fields that follow from the config alone.
void set_shape(const ClipConfig& config, EncoderInfo& info) {
  info.dim = config.projection;
  info.context = config.positions;
  info.image_height = info.image_width = static_cast<int>(config.image_size);
}

Result<std::unique_ptr<Architecture>> load(const Checkpoint& checkpoint, const BackendOptions& options) {
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  SACCADE_ASSIGN(EncoderParts parts, open_parts(checkpoint, options, "clip"));
  SACCADE_ASSIGN(const ClipConfig config, read_clip_config(checkpoint, parts.weights.tensors).in(where));

  nn::TensorMap tensors = parts.weights.tensors;
  if (checkpoint.layout != Layout::kHuggingFace) {
    SACCADE_ASSIGN(tensors, rename_to_hugging_face(std::move(tensors)).in(where));
  }
  nn::LoadedParameters source(tensors);
  SACCADE_ASSIGN(ClipModel model, ClipModel::make(config, source).in(where_of_tensors(checkpoint)));
  SACCADE_TRY(source.all_used(kBuffers).in(where_of_tensors(checkpoint)));

  set_shape(config, parts.info);
  parts.info.logit_scale = std::exp(static_cast<float>(model.logit_scale().item()));
  SACCADE_ASSIGN(parts.preprocessing, clip_preprocessing(checkpoint, parts.info));
  const TextCleanup cleanup =
      checkpoint.layout == Layout::kHuggingFace ? TextCleanup::kTokenizerFile : TextCleanup::kOpenAi;
  const WordTable table{"text_model.embeddings.token_embedding.weight", config.vocabulary};
  SACCADE_ASSIGN(parts.tokenizer, load_checkpoint_tokenizer(checkpoint, cleanup, table, ReadAt::kEnd));
  if (!parts.tokenizer && leaves_tokenizer_to_the_program(checkpoint, config)) {
    SACCADE_ASSIGN(parts.tokenizer, published_clip_tokenizer());
  }
  if (parts.tokenizer != nullptr) {
    SACCADE_TRY(check_tokenizer(checkpoint, config, *parts.tokenizer).in(where));
  }
  std::unique_ptr<DeviceClip> device;
  if (!is_processor(options.device)) {
    SACCADE_ASSIGN(device, DeviceClip::open(config, tensors,
                                            {.device = options.device,
                                             .bf16 = options.precision == Precision::kBf16,
                                             .threads = options.threads})
                               .in(where));
  }
  model.pack(parts.packing);
  return std::unique_ptr<Architecture>(
      std::make_unique<ClipEncoder>(std::move(parts), std::move(model), std::move(device)));
}

Status outline(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& result) {
  return outline_from(read_clip_config(checkpoint, tensors), checkpoint, set_shape, clip_preprocessing,
                      result);
}

Status check_device(const Checkpoint& checkpoint, const BackendOptions& options) {
  Weights weights;  // only a checkpoint without a config has its shape in them
  if (checkpoint.config.is_null()) {
    SACCADE_ASSIGN(weights, map_weights(checkpoint));
  }
  SACCADE_ASSIGN(const ClipConfig config, read_clip_config(checkpoint, weights.tensors));
  if (!config.resnet) return {};
  return fail(ErrorCode::kUnsupported,
              "device {}: image towers of convolutions (ResNet) are encoded on the processor alone; use "
              "device cpu, or a CLIP with a vision transformer",
              options.device);
}

}  // namespace

Result<ClipConfig> read_clip_config(const Checkpoint& checkpoint, const nn::TensorMap& tensors) {
  if (checkpoint.config.is_null()) return clip_config_from_tensors(tensors);
  if (checkpoint.layout == Layout::kHuggingFace) return clip_config_from_hugging_face(checkpoint.config);
  if (!checkpoint.config.is_object() || !checkpoint.config.contains("model_cfg")) {
    return fail(ErrorCode::kBadData, "no \"model_cfg\" in it");
  }
  return clip_config_from_open_clip(checkpoint.config["model_cfg"], tensors);
}

extern const Family clip_family = {{"clip"}, load, outline, check_device};

}  // namespace saccade
