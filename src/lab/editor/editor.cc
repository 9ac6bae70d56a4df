#include "lab/editor/editor.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

#include "saccade/core/name_field.h"
#include "saccade/core/random.h"
#include "saccade/image/decode/square.h"
#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/encoder_parts.h"

namespace saccade::lab {
namespace {

constexpr int64_t kMaxSide = 1024;
constexpr int64_t kMaxWidth = 16'384;
constexpr double kMaxGuidance = 100;

// Index of an image's value (channel, y, x) among its patches' values.
struct Place {
  int64_t side, patch;
  [[nodiscard]] size_t at(int64_t channel, int64_t y, int64_t x) const {
    const int64_t square = (y / patch) * (side / patch) + x / patch;
    const int64_t within = (channel * patch + y % patch) * patch + x % patch;
    return static_cast<size_t>(square * 3 * patch * patch + within);
  }
};

}  // namespace

std::span<const EnumName<EditorTexts>> enum_names(EditorTexts) {
  static constexpr std::array<EnumName<EditorTexts>, 2> kWords{
      {{EditorTexts::kTokens, "tokens"}, {EditorTexts::kRow, "row"}}};
  return kWords;
}

Status check_editor_config(const EditorConfig& config) {
  SACCADE_TRY(in_range("side", config.side, 1, kMaxSide));
  SACCADE_TRY(in_range("patch_size", config.patch_size, 1, config.side));
  SACCADE_TRY(in_range("width", config.width, 1, kMaxWidth));
  SACCADE_TRY(in_range("layers", config.layers, 1, 1000));
  SACCADE_TRY(in_range("heads", config.heads, 1, config.width));
  SACCADE_TRY(in_range("mlp_width", config.mlp_width, 1, 4 * kMaxWidth));
  SACCADE_TRY(in_range("text_width", config.text_width, 1, kMaxWidth));
  SACCADE_TRY(in_range("text_tokens", config.text_tokens, 2, 4096));
  SACCADE_TRY(in_range("steps", config.steps, 1, 1000));
  if (config.side % config.patch_size != 0) {
    return fail(ErrorCode::kBadData, "\"side\" is {}, which is no multiple of \"patch_size\", {}",
                config.side, config.patch_size);
  }
  if (config.width % config.heads != 0) {
    return fail(ErrorCode::kBadData, "\"width\" is {}, which is no multiple of \"heads\", {}", config.width,
                config.heads);
  }
  if (!(config.guidance >= 0 && config.guidance <= kMaxGuidance)) {
    return fail(ErrorCode::kBadData, "\"guidance\" is {}, expected 0 to {}", config.guidance, kMaxGuidance);
  }
  return {};
}

Result<EditorConfig> editor_config_from_json(const Json& json) {
  EditorConfig config;
  for (const auto& [key, field] : {std::pair{"side", &config.side},
                                   {"patch_size", &config.patch_size},
                                   {"width", &config.width},
                                   {"layers", &config.layers},
                                   {"heads", &config.heads},
                                   {"mlp_width", &config.mlp_width},
                                   {"text_width", &config.text_width},
                                   {"text_tokens", &config.text_tokens},
                                   {"steps", &config.steps}}) {
    SACCADE_ASSIGN(*field, json_field<int64_t>(json, key));
  }
  SACCADE_ASSIGN(config.text_states, name_field<EditorTexts>(json, "text_states"));
  SACCADE_ASSIGN(config.guidance, json_field<double>(json, "guidance"));
  const auto frozen = json.find("frozen");
  if (frozen == json.end()) return fail(ErrorCode::kBadData, "\"frozen\" is missing");
  SACCADE_ASSIGN(config.frozen, encoder_id_from_json(*frozen).in("\"frozen\""));
  SACCADE_TRY(check_editor_config(config));
  return config;
}

Json editor_config_json(const EditorConfig& config) {
  return {{"model_type", "editor"},
          {"side", config.side},
          {"patch_size", config.patch_size},
          {"width", config.width},
          {"layers", config.layers},
          {"heads", config.heads},
          {"mlp_width", config.mlp_width},
          {"text_width", config.text_width},
          {"text_tokens", config.text_tokens},
          {"text_states", enum_name(config.text_states)},
          {"steps", config.steps},
          {"guidance", config.guidance},
          {"frozen", encoder_id_json(config.frozen)}};
}

void editor_values(const Image& rgb, int64_t patch_size, std::span<float> out) {
  const Place place{rgb.width, patch_size};
  const uint8_t* pixel = rgb.pixels.data();
  for (int64_t y = 0; y < rgb.height; ++y) {
    for (int64_t x = 0; x < rgb.width; ++x) {
      for (int64_t c = 0; c < 3; ++c) out[place.at(c, y, x)] = static_cast<float>(*pixel++) / 127.5F - 1.F;
    }
  }
}

Image editor_picture(std::span<const float> values, const EditorConfig& config) {
  const auto side = static_cast<int>(config.side);
  const Place place{config.side, config.patch_size};
  Image image{.width = side, .height = side, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  image.pixels.reserve(static_cast<size_t>(config.values()));
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t x = 0; x < side; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        const float value = std::clamp(values[place.at(c, y, x)], -1.F, 1.F);
        image.pixels.push_back(static_cast<uint8_t>(std::lround((value + 1.F) * 127.5F)));
      }
    }
  }
  return image;
}

void editor_time(double t, std::span<float> out) {
  // Encodes 1,000 t with sinusoids, like transformers' positions (Vaswani et al. 2017, section 3.5).
  const size_t half = out.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const double angle =
        1000 * t * std::exp(-std::log(10'000.0) * static_cast<double>(i) / static_cast<double>(half));
    out[i] = static_cast<float>(std::cos(angle));
    out[half + i] = static_cast<float>(std::sin(angle));
  }
}

void editor_noise(uint64_t seed, std::span<float> out) {
  // Uses the transform of Box and Muller 1958.
  SplitMix random(seed);
  const auto uniform = [&] { return (static_cast<double>(random.next() >> 11) + 0.5) * 0x1p-53; };
  for (size_t i = 0; i < out.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

Result<RowSets> editor_text_states(EncoderBackend& encoder, std::span<const std::string> texts,
                                   const EditorConfig& config, int64_t& cut) {
  const Tokenizer* tokenizer = encoder.tokenizer();
  if (tokenizer == nullptr) {
    return fail(ErrorCode::kUnsupported, "the encoder's checkpoint has no tokenizer: it reads no texts");
  }
  std::vector<TokenizedText> read;
  read.reserve(texts.size());
  for (const std::string& text : texts) {
    read.push_back(tokenizer->encode(text, std::min(config.text_tokens, encoder.info().context)));
    cut += read.back().dropped > 0 ? 1 : 0;
  }
  if (config.text_states == EditorTexts::kTokens) {
    TokenStates* states = encoder.token_states();
    if (states == nullptr) {
      return fail(ErrorCode::kUnsupported,
                  "the encoder ({}) has no states of tokens; \"row\" is what any has", encoder.info().family);
    }
    return states->text_tokens(read);
  }
  return one_each(encoder.encode_texts(read));
}

Status euler_steps(int64_t steps, const CleanPicture& clean, std::span<float> z) {
  std::vector<float> picture(z.size());
  for (int64_t step = 0; step < steps; ++step) {
    const double t = static_cast<double>(step) / static_cast<double>(steps);
    SACCADE_TRY(clean(t, z, picture));
    // z + (picture - z) / (1 - t) / steps: one step's share of the remaining distance.
    const auto share = static_cast<float>(1.0 / static_cast<double>(steps - step));
    for (size_t i = 0; i < z.size(); ++i) z[i] += (picture[i] - z[i]) * share;
  }
  return {};
}

nn::Tensor editor_mask(std::span<const int64_t> lengths, int64_t tokens, int64_t patches) {
  const auto n = static_cast<int64_t>(lengths.size());
  const int64_t all = 1 + tokens + patches;
  nn::Tensor mask = nn::Tensor::zeros({n, 1, 1, all});
  for (int64_t i = 0; i < n; ++i) {
    float* row = mask.data<float>() + i * all + 1;
    std::fill(row + lengths[static_cast<size_t>(i)], row + tokens, -std::numeric_limits<float>::infinity());
  }
  return mask;
}

Result<std::unique_ptr<Editor>> Editor::open(const std::filesystem::path& folder,
                                             const BackendOptions& options) {
  const std::string where = fmt::format("checkpoint {}", folder.string());
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  const std::string type = checkpoint.config.is_object() ? checkpoint.config.value("model_type", "") : "";
  if (type != "editor") {
    return fail(ErrorCode::kUnsupported, "{}: no editor (model_type \"{}\")", where, type);
  }
  return nn::without_exceptions(where, [&]() -> Result<std::unique_ptr<Editor>> {
    auto editor = std::make_unique<Editor>();
    SACCADE_ASSIGN(editor->config_,
                   editor_config_from_json(checkpoint.config).in((folder / "config.json").string()));
    SACCADE_ASSIGN(EncoderParts parts, open_parts(checkpoint, options, "editor"));
    nn::LoadedParameters source(parts.weights.tensors);
    SACCADE_ASSIGN(editor->editor_, EditorOf<nn::Tensor>::make(editor->config_, source).in(where));
    SACCADE_TRY(source.all_used({}).in(where));
    editor->fingerprint_ = parts.info.fingerprint;
    editor->parameters_ = parts.info.parameters;
    editor->dtype_ = parts.dtype;
    editor->editor_.pack(parts.packing);
    editor->workspace_ = std::move(parts.workspace);
    editor->weights_ = std::move(parts.weights);
    SACCADE_ASSIGN(
        const Checkpoint frozen,
        open_named_encoder(editor->config_.frozen, folder, "editor", options.fingerprints, true).in(where));
    SACCADE_ASSIGN(editor->encoder_, load_encoder(frozen.folder, options));
    return editor;
  });
}

Image Editor::reference(const ImageView& picture) const {
  return over_white(premultiplied_square(picture, static_cast<int>(config_.side)));
}

Result<std::vector<Image>> Editor::draw(std::span<const Image> references, std::span<const std::string> texts,
                                        std::span<const uint64_t> seeds, const EditSettings& settings,
                                        const std::stop_token& stop, int64_t& cut) {
  if (texts.size() != references.size() || seeds.size() != references.size()) {
    return fail(ErrorCode::kUsage, "{} references, {} texts and {} seeds", references.size(), texts.size(),
                seeds.size());
  }
  for (const Image& reference : references) {
    if (reference.width == config_.side && reference.height == config_.side && reference.channels == 3) {
      continue;
    }
    return fail(ErrorCode::kUsage, "a reference of {} x {} and {} channels, the editor takes {} x {} and 3",
                reference.width, reference.height, reference.channels, config_.side, config_.side);
  }
  EditSettings settled = settings;
  if (settled.steps <= 0) settled.steps = config_.steps;
  if (settled.guidance < 0) settled.guidance = config_.guidance;
  if (!(settled.guidance <= kMaxGuidance)) {
    return fail(ErrorCode::kUsage, "guidance is {}, expected 0 to {}", settled.guidance, kMaxGuidance);
  }
  // The empty text comes last.
  std::vector<std::string> all(texts.begin(), texts.end());
  all.emplace_back();
  SACCADE_ASSIGN(const RowSets states, editor_text_states(*encoder_, all, config_, cut));
  if (states.rows.columns() != config_.text_width) {
    return fail(ErrorCode::kMismatch, "the encoder's states have width {}, the editor reads {}",
                states.rows.columns(), config_.text_width);
  }
  std::vector<Image> drawn;
  drawn.reserve(references.size());
  const int64_t tokens = 2 * (1 + config_.text_tokens + config_.patches());
  const auto at_once = static_cast<size_t>(std::max<int64_t>(1, kTokensAtOnce / tokens));
  const std::lock_guard lock(mutex_);
  for (size_t first = 0; first < references.size(); first += at_once) {
    const size_t count = std::min(at_once, references.size() - first);
    SACCADE_TRY(nn::without_exceptions("draw", [&] {
      return draw_some(references.subspan(first, count), states, first, texts.size(),
                       seeds.subspan(first, count), settled, stop, drawn);
    }));
  }
  return drawn;
}

// With guidance the batch contains the images twice: with their texts, and with the empty one.
Status Editor::draw_some(std::span<const Image> references, const RowSets& states, size_t first, size_t empty,
                         std::span<const uint64_t> seeds, const EditSettings& settings,
                         const std::stop_token& stop, std::vector<Image>& drawn) {
  const auto n = static_cast<int64_t>(references.size());
  const bool guided = settings.guidance != 1;
  const int64_t rows = guided ? 2 * n : n;
  const int64_t values = config_.values();
  std::vector<int64_t> lengths;
  std::vector<int64_t> begins;
  for (int64_t i = 0; i < rows; ++i) {
    const size_t text = i < n ? first + static_cast<size_t>(i) : empty;
    begins.push_back(states.begin[text]);
    lengths.push_back(states.begin[text + 1] - states.begin[text]);
  }
  const int64_t tokens = *std::ranges::max_element(lengths);
  const auto made = [&](nn::Shape shape) {
    return nn::Tensor::zeros(std::move(shape), DType::kF32, workspace_.get());
  };
  const nn::Tensor text = made({rows, tokens, config_.text_width});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < lengths[static_cast<size_t>(i)]; ++k) {
      std::ranges::copy(states.rows.row(begins[static_cast<size_t>(i)] + k),
                        text.data<float>() + (i * tokens + k) * config_.text_width);
    }
  }
  const nn::Tensor mask = editor_mask(lengths, tokens, config_.patches());
  const nn::Tensor reference = made({rows, config_.patches(), config_.patch_values()});
  std::vector<float> z(static_cast<size_t>(n * values));
  for (int64_t i = 0; i < rows; ++i) {
    const auto at = static_cast<size_t>(i % n);
    editor_values(references[at], config_.patch_size,
                  {reference.data<float>() + i * values, static_cast<size_t>(values)});
    if (i < n) {
      editor_noise(seeds[at],
                   std::span(z).subspan(at * static_cast<size_t>(values), static_cast<size_t>(values)));
    }
  }
  const nn::Tensor noisy = made({rows, config_.patches(), config_.patch_values()});
  const nn::Tensor time = made({rows, 1, kTimeValues});
  const auto guidance = static_cast<float>(settings.guidance);
  const auto clean = [&](double t, std::span<const float> now, std::span<float> picture) -> Status {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    for (int64_t i = 0; i < rows; i += n) std::ranges::copy(now, noisy.data<float>() + i * values);
    for (int64_t i = 0; i < rows; ++i) {
      editor_time(t, {time.data<float>() + i * kTimeValues, static_cast<size_t>(kTimeValues)});
    }
    const nn::Tensor said = editor_.forward(noisy, reference, time, text, mask, dtype_).contiguous();
    const float* with = said.data<float>();
    if (!guided) {
      std::copy_n(with, picture.size(), picture.begin());
      return {};
    }
    const float* without = with + n * values;
    for (size_t i = 0; i < picture.size(); ++i) {
      picture[i] = without[i] + guidance * (with[i] - without[i]);
    }
    return {};
  };
  SACCADE_TRY(euler_steps(settings.steps, clean, z));
  for (int64_t i = 0; i < n; ++i) {
    const std::span<const float> picture =
        std::span<const float>(z).subspan(static_cast<size_t>(i * values), static_cast<size_t>(values));
    if (!std::ranges::all_of(picture, [](float value) { return std::isfinite(value); })) {
      return fail(ErrorCode::kInternal, "the editor draws values that are no numbers");
    }
    drawn.push_back(editor_picture(picture, config_));
  }
  return {};
}

}  // namespace saccade::lab
