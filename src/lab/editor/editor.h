// A small image editor: generates a modified version of an image from a text ("this image, but ..."), at 64 x
// 64 pixels or the size in its checkpoint.
//
// Flow matching (Lipman et al. 2023, arXiv 2210.02747) uses mixtures of noise z_0 and the image z_1
//   z_t = (1 - t) z_0 + t z_1,   whose velocity is   z_1 - z_0 = (z_1 - z_t) / (1 - t)
// The network's inputs are z_t, t, the reference and the text, and it predicts z_1 (Li and He 2025, arXiv
// 2511.13720: pixels of large patches are easier to predict than velocities). The loss is that of the
// velocity. Sampling begins with noise and follows the velocity in a few Euler steps. Classifier-free
// guidance (Ho and Salimans 2022, arXiv 2207.12598) extrapolates away from the prediction for an empty text.
//
// The network is a transformer over a sequence of tokens, like U-ViT without its long skips (Bao et al. 2023,
// arXiv 2209.12152). There is one token for t, those of the text, and one for each patch of the image, which
// holds the patch's noisy pixels and the reference's. The prediction is the reference plus its output. It is
// written once over nn's layers, for inference on nn::Tensor and for training with gradients
// (lab/train/recipes/train_editor.h).
//
// A checkpoint:
//   config.json        {"model_type": "editor", "side", "patch_size", "width", "layers", "heads",
//                       "mlp_width", "text_width", "text_tokens", "text_states", "steps", "guidance",
//                       "frozen": {"name", "family", "fingerprint"}}
//   frozen.json        location of the encoder of its texts (named_encoder.h)
//   model.safetensors  below, in make()
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/image_view.h"
#include "saccade/matrix.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/named_encoder.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/workspace.h"

namespace saccade::lab {

// Representation of texts in the network's input.
enum class EditorTexts {
  kTokens,  // a state each token, in the encoder's shared space (TokenStates)
  kRow,     // the text's row: of any encoder
};
std::span<const EnumName<EditorTexts>> enum_names(EditorTexts);  // "tokens", "row"

struct EditorConfig {
  int64_t side = 64;  // side of images in pixels
  int64_t patch_size = 8;
  int64_t width = 192;
  int64_t layers = 6;
  int64_t heads = 6;
  int64_t mlp_width = 768;
  int64_t text_width = 0;    // width of the encoder's states
  int64_t text_tokens = 24;  // maximum number of tokens per text
  EditorTexts text_states = EditorTexts::kTokens;
  // Number of sampling steps and guidance scale by default.
  int64_t steps = 8;
  double guidance = 2;
  EncoderId frozen;

  [[nodiscard]] int64_t patches() const { return (side / patch_size) * (side / patch_size); }
  [[nodiscard]] int64_t patch_values() const { return 3 * patch_size * patch_size; }
  [[nodiscard]] int64_t values() const { return patches() * patch_values(); }  // values per image
};
// Parses a config; kBadData names the field.
Result<EditorConfig> editor_config_from_json(const Json& json);
Json editor_config_json(const EditorConfig& config);  // without the encoder's path
// Returns kBadData for sizes that do not fit together or are out of range.
Status check_editor_config(const EditorConfig& config);

// ---- pictures as numbers

// Converts RGB of side x side to values of -1 to 1, patch by patch: [patches, 3 * patch * patch], rows of
// patches first, within one channel by channel. The reverse rounds.
void editor_values(const Image& rgb, int64_t patch_size, std::span<float> out);
Image editor_picture(std::span<const float> values, const EditorConfig& config);

// Computes the network's encoding of t: [kTimeValues].
inline constexpr int64_t kTimeValues = 128;
void editor_time(double t, std::span<float> out);

// Draws noise of the standard normal distribution, a function of the seed alone.
void editor_noise(uint64_t seed, std::span<float> out);

// Returns the texts' states for the network, as the config specifies. A text of more than text_tokens tokens
// is cut, its end token kept, and counted in `cut`. Returns kUnsupported for an encoder without a tokenizer,
// or without token states.
Result<RowSets> editor_text_states(EncoderBackend& encoder, std::span<const std::string> texts,
                                   const EditorConfig& config, int64_t& cut);

// ---- drawing

// Follows the velocity from noise z to an image in `steps` Euler steps. clean(t, z, out) predicts the image
// from z at t. The last step ends on the output of clean().
using CleanPicture = std::function<Status(double t, std::span<const float> z, std::span<float> clean)>;
Status euler_steps(int64_t steps, const CleanPicture& clean, std::span<float> z);

// ---- the network

template <typename T>
class EditorOf {
 public:
  static Result<EditorOf> make(const EditorConfig& config, nn::ParameterSourceOf<T>& source) {
    EditorOf editor;
    const auto spread = [](int64_t in) { return 1 / std::sqrt(3.0 * static_cast<double>(in)); };
    const int64_t width = config.width;
    SACCADE_ASSIGN(editor.picture_, nn::LinearOf<T>::make(source, "picture_in", 2 * config.patch_values(),
                                                          width, spread(2 * config.patch_values())));
    SACCADE_ASSIGN(editor.places_, source.take("picture_places", {config.patches(), width}, {0, 0.02}));
    SACCADE_ASSIGN(editor.time_in_, nn::LinearOf<T>::make(source, "time_in", kTimeValues, width, 0.02));
    SACCADE_ASSIGN(editor.time_out_, nn::LinearOf<T>::make(source, "time_out", width, width, spread(width)));
    SACCADE_ASSIGN(editor.text_norm_, nn::LayerNormOf<T>::make(source, "text_norm", config.text_width, 1e-5));
    SACCADE_ASSIGN(editor.text_, nn::LinearOf<T>::make(source, "text_in", config.text_width, width,
                                                       spread(config.text_width)));
    SACCADE_ASSIGN(editor.text_places_, source.take("text_places", {config.text_tokens, width}, {0, 0.02}));
    const nn::TransformerShape shape{.width = width,
                                     .layers = config.layers,
                                     .heads = config.heads,
                                     .mlp_width = config.mlp_width,
                                     .activation = nn::Activation::kGeluTanh};
    const nn::BlockNames names{.norm1 = "norm1",
                               .query = "qkv",
                               .key = "",
                               .value = "",
                               .output = "out",
                               .norm2 = "norm2",
                               .mlp_in = "mlp.in",
                               .mlp_out = "mlp.out"};
    for (int64_t i = 0; i < config.layers; ++i) {
      SACCADE_ASSIGN(editor.blocks_.emplace_back(),
                     nn::TransformerBlockOf<T>::make(source, fmt::format("blocks.{}.", i), names, shape));
    }
    SACCADE_ASSIGN(editor.norm_, nn::LayerNormOf<T>::make(source, "norm", width, 1e-5));
    // Initially the output is the reference unchanged.
    SACCADE_ASSIGN(editor.out_,
                   nn::LinearOf<T>::make(source, "picture_out", width, config.patch_values(), 0));
    return editor;
  }

  // Predicts the image. noisy, reference: [n, patches, patch_values]; time: [n, 1, kTimeValues]; text: [n,
  // tokens, text_width], tokens at most text_tokens; all float32. mask: [n, 1, 1, 1 + tokens + patches],
  // added to the attention's scores (editor_mask). Returns [n, patches, patch_values] float32.
  [[nodiscard]] T forward(const T& noisy, const T& reference, const T& time, const T& text,
                          const nn::Tensor& mask, DType dtype) const {
    const int64_t tokens = text.size(1);
    const T picture =
        picture_.forward(cat(std::vector<T>{noisy, reference}, 2).to(dtype)).to(DType::kF32) + places_;
    const T when = time_out_.forward(time_in_.forward(time.to(dtype), nn::Activation::kSilu)).to(DType::kF32);
    const T words =
        text_.forward(text_norm_.forward(text, dtype)).to(DType::kF32) + text_places_.slice(0, 0, tokens);
    T x = cat(std::vector<T>{when, words, picture}, 1);
    for (const nn::TransformerBlockOf<T>& block : blocks_) x = block.forward(std::move(x), mask, dtype);
    const T drawn = norm_.forward(x.slice(1, 1 + tokens).clone(), dtype);
    return reference + out_.forward(drawn).to(DType::kF32);
  }
  void pack(DType dtype) {
    for (nn::LinearOf<T>* layer : {&picture_, &time_in_, &time_out_, &text_}) layer->pack(dtype);
    for (nn::TransformerBlockOf<T>& block : blocks_) block.pack(dtype);
    out_.pack(dtype);
  }

 private:
  nn::LinearOf<T> picture_, time_in_, time_out_, text_, out_;
  T places_, text_places_;
  nn::LayerNormOf<T> text_norm_, norm_;
  std::vector<nn::TransformerBlockOf<T>> blocks_;
};

// Returns the mask of texts of these lengths, padded to `tokens`: [n, 1, 1, 1 + tokens + patches].
nn::Tensor editor_mask(std::span<const int64_t> lengths, int64_t tokens, int64_t patches);

// ---- a loaded editor

struct EditSettings {
  int64_t steps = 0;     // 0: the checkpoint's
  double guidance = -1;  // below 0: the checkpoint's; 1: none, 0: without the text
};

// A loaded editor. Thread-safe: calls are run one after the other.
class Editor {
 public:
  // Opens the editor, and the encoder of its texts. Errors: kUnsupported for a checkpoint of another kind;
  // those of load_encoder and open_named_encoder.
  static Result<std::unique_ptr<Editor>> open(const std::filesystem::path& folder,
                                              const BackendOptions& options = {});

  [[nodiscard]] const EditorConfig& config() const { return config_; }
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }
  [[nodiscard]] int64_t parameters() const { return parameters_; }

  // Returns a reference in the network's format: RGB of side x side, over white.
  [[nodiscard]] Image reference(const ImageView& picture) const;
  // Draws one image for each reference. references: results of reference(); as many texts and seeds. An image
  // does not depend on the others of the call. Texts longer than the maximum are counted in `cut`. Errors:
  // kUsage for other sizes and counts; kCancelled. Cost: `steps` passes of the network, twice that with
  // guidance.
  [[nodiscard]] Result<std::vector<Image>> draw(std::span<const Image> references,
                                                std::span<const std::string> texts,
                                                std::span<const uint64_t> seeds, const EditSettings& settings,
                                                const std::stop_token& stop, int64_t& cut);

 private:
  struct Conditions;
  Status draw_some(std::span<const Image> references, const RowSets& states, size_t first, size_t empty,
                   std::span<const uint64_t> seeds, const EditSettings& settings, const std::stop_token& stop,
                   std::vector<Image>& drawn);

  EditorConfig config_;
  std::string fingerprint_;
  int64_t parameters_ = 0;
  DType dtype_ = DType::kF32;
  std::unique_ptr<nn::Workspace> workspace_;
  Weights weights_;
  EditorOf<nn::Tensor> editor_;
  std::unique_ptr<EncoderBackend> encoder_;
  std::mutex mutex_;
};

}  // namespace saccade::lab
