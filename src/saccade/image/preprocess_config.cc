// Reading what checkpoints say about their preprocessing:
// preprocessor_config.json and OpenCLIP's preprocess_cfg.
#include <algorithm>
#include <cmath>
#include <optional>

#include "saccade/image/preprocess.h"

namespace saccade {
namespace {

constexpr std::array<float, 3> kClipMean = {0.48145466F, 0.4578275F, 0.40821073F};
constexpr std::array<float, 3> kClipStd = {0.26862954F, 0.26130258F, 0.27577711F};
constexpr int kMaxSide = 16384;

// object[key], or nullptr where it is missing or null.
const Json* present(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<int> read_side(std::string_view key, const Json& value) {
  SACCADE_ASSIGN(const int side, detail::json_as<int>(key, value));
  if (side < 1 || side > kMaxSide)
    return fail(ErrorCode::kBadData, "\"{}\" is {}, sides are 1 to {}", key, side, kMaxSide);
  return side;
}

Result<std::array<float, 3>> read_triple(const char* key, const Json& value) {
  if (!value.is_array() || value.size() != 3) {
    return fail(ErrorCode::kBadData, "\"{}\" is {}, three numbers wanted", key, json_kind(value));
  }
  std::array<float, 3> triple{};
  for (size_t c = 0; c < 3; ++c) {
    SACCADE_ASSIGN(triple[c], detail::json_as<float>(key, value[c]));
    if (!std::isfinite(triple[c]))
      return fail(ErrorCode::kBadData, "\"{}\" holds a number that is not finite", key);
  }
  return triple;
}

Result<std::array<uint8_t, 3>> read_colour(const char* key, const Json& value) {
  std::array<uint8_t, 3> colour{};
  if (value.is_array() && value.size() != 3) {
    return fail(ErrorCode::kBadData, "\"{}\" has {} channels, three wanted", key, value.size());
  }
  for (size_t c = 0; c < 3; ++c) {
    SACCADE_ASSIGN(const int level, detail::json_as<int>(key, value.is_array() ? value[c] : value));
    if (level < 0 || level > 255)
      return fail(ErrorCode::kBadData, "\"{}\" holds {}, levels are 0 to 255", key, level);
    colour[c] = static_cast<uint8_t>(level);
  }
  return colour;
}

Status check_std(const std::array<float, 3>& std) {
  if (std::ranges::any_of(std, [](float value) { return value <= 0; })) {
    return fail(ErrorCode::kBadData, "a standard deviation of {}, {}, {}: all must be positive", std[0],
                std[1], std[2]);
  }
  return {};
}

Status expect_object(const Json& json, std::string_view what) {
  if (!json.is_object())
    return fail(ErrorCode::kBadData, "{} is {}, an object wanted", what, json_kind(json));
  return {};
}

// A field that says nothing: null or false.
bool is_silent(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>());
}

// Height and width as {"height", "width"}.
Status read_height_width(const char* key, const Json& value, int& height, int& width) {
  for (const auto& [name, side] : value.items()) {
    if (name != "height" && name != "width") {
      return fail(ErrorCode::kUnsupported, "\"{}\" has \"{}\", known are height and width", key, name);
    }
    int& target = name == "height" ? height : width;
    SACCADE_ASSIGN(target, read_side(name, side));
  }
  if (value.size() != 2) return fail(ErrorCode::kBadData, "\"{}\" needs both height and width", key);
  return {};
}

// Pillow's numbers for its filters.
Result<ResizeFilter> read_resample(const Json& value) {
  SACCADE_ASSIGN(const int number, detail::json_as<int>("resample", value));
  switch (number) {
    case 0:
      return ResizeFilter::kNearest;
    case 1:
      return ResizeFilter::kLanczos;
    case 2:
      return ResizeFilter::kBilinear;
    case 3:
      return ResizeFilter::kBicubic;
    case 4:
    case 5:
      return fail(ErrorCode::kUnsupported, "\"resample\" is {} ({}), known are 0 to 3", number,
                  number == 4 ? "box" : "Hamming");
    default:
      return fail(ErrorCode::kBadData, "\"resample\" is {}, Pillow's filters are 0 to 5", number);
  }
}

// What each processor of transformers takes where its file is silent.
struct Family {
  bool square = false;  // a plain number as size means a square, not the shorter side
  bool crop = false;
  ResizeFilter filter = ResizeFilter::kBicubic;
  std::optional<std::array<float, 3>> mean;
  std::optional<std::array<float, 3>> std;
};

Family family_of(std::string_view type) {
  const auto begins = [&](std::string_view name) { return type.substr(0, name.size()) == name; };
  constexpr std::array<float, 3> kHalf = {0.5F, 0.5F, 0.5F};
  if (type.empty() || begins("CLIP") || begins("ChineseCLIP")) {
    return {false, true, ResizeFilter::kBicubic, kClipMean, kClipStd};
  }
  if (begins("Siglip2")) return {true, false, ResizeFilter::kBilinear, kHalf, kHalf};
  if (begins("Siglip")) return {true, false, ResizeFilter::kBicubic, kHalf, kHalf};
  if (begins("Blip")) return {true, false, ResizeFilter::kBicubic, kClipMean, kClipStd};
  if (begins("ViT")) return {true, false, ResizeFilter::kBilinear, kHalf, kHalf};
  return {true, false, ResizeFilter::kBicubic, std::nullopt, std::nullopt};
}

// Refuses what could change the pixels and is not understood.
Status check_known(const Json& config) {
  static constexpr std::string_view kRead[] = {
      "do_resize", "size", "resample", "do_center_crop", "crop_size", "do_rescale", "rescale_factor",
      "rescale_offset", "do_normalize", "image_mean", "image_std", "do_convert_rgb", "image_processor_type",
      "feature_extractor_type", "saccade",
      // Fields for other parts of a program; none affects pixels.
      "processor_class", "return_tensors", "data_format", "input_data_format", "device", "default_to_square",
      "disable_grouping", "image_seq_length", "auto_map", "_processor_class", "_valid_processor_keys",
      "_valid_kwargs_names", "use_fast", "model_input_names", "num_channels", "image_size"};
  for (const auto& [key, value] : config.items()) {
    if (std::ranges::find(kRead, key) != std::end(kRead) || is_silent(value)) continue;
    return fail(ErrorCode::kUnsupported, "\"{}\" is not a field known here, and may change the pixels", key);
  }
  return {};
}

Status read_size(const Json& config, const Family& family, int image_size, Preprocessing& p) {
  const Json* size = present(config, "size");
  p.resize_height = p.resize_width = image_size;
  p.resize_mode = family.square ? ResizeMode::kSquash : ResizeMode::kShortestEdge;
  if (size == nullptr) return {};
  if (!size->is_object()) {
    SACCADE_ASSIGN(p.resize_height, read_side("size", *size));
    p.resize_width = p.resize_height;
    SACCADE_ASSIGN(const bool square, json_field_or<bool>(config, "default_to_square", family.square));
    p.resize_mode = square ? ResizeMode::kSquash : ResizeMode::kShortestEdge;
    return {};
  }
  if (const Json* edge = present(*size, "shortest_edge")) {
    if (size->size() != 1) return fail(ErrorCode::kUnsupported, "\"size\" has fields beside shortest_edge");
    SACCADE_ASSIGN(p.resize_height, read_side("shortest_edge", *edge));
    p.resize_width = p.resize_height;
    p.resize_mode = ResizeMode::kShortestEdge;
    return {};
  }
  p.resize_mode = ResizeMode::kSquash;
  return read_height_width("size", *size, p.resize_height, p.resize_width);
}

Status read_crop(const Json& config, const Family& family, int image_size, Preprocessing& p) {
  const Json* size = present(config, "crop_size");
  SACCADE_ASSIGN(p.crop, json_field_or<bool>(config, "do_center_crop", family.crop));
  p.crop_height = p.crop_width = image_size;
  if (!p.crop || size == nullptr) return {};
  if (size->is_object()) return read_height_width("crop_size", *size, p.crop_height, p.crop_width);
  SACCADE_ASSIGN(p.crop_height, read_side("crop_size", *size));
  p.crop_width = p.crop_height;
  return {};
}

Status read_values(const Json& config, const Family& family, Preprocessing& p) {
  SACCADE_ASSIGN(const bool rescale, json_field_or<bool>(config, "do_rescale", true));
  p.rescale_factor = 1;
  if (rescale) {
    SACCADE_ASSIGN(p.rescale_factor, json_field_or<float>(config, "rescale_factor", 1.0F / 255.0F));
    // EfficientNet's processor (ALIGN): true moves [0, 2] to [-1, 1].
    SACCADE_ASSIGN(const bool offset, json_field_or<bool>(config, "rescale_offset", false));
    if (offset) p.rescale_offset = -1;
  }
  SACCADE_ASSIGN(const bool normalize, json_field_or<bool>(config, "do_normalize", true));
  if (!normalize) return {};
  for (const char* key : {"image_mean", "image_std"}) {
    const bool is_mean = std::string_view(key) == "image_mean";
    std::array<float, 3>& target = is_mean ? p.mean : p.std;
    const Json* value = present(config, key);
    if (value != nullptr) {
      SACCADE_ASSIGN(target, read_triple(key, *value));
    } else if (const auto& usual = is_mean ? family.mean : family.std) {
      target = *usual;
    } else {
      return fail(ErrorCode::kBadData, "\"{}\" is missing, and do_normalize is true", key);
    }
  }
  return check_std(p.std);
}

struct NamedPipeline {
  std::string_view name;
  Pipeline pipeline;
};
constexpr NamedPipeline kPipelines[] = {{"hugging_face", Pipeline::kHuggingFace},
                                        {"open_clip", Pipeline::kOpenClip},
                                        {"big_vision", Pipeline::kBigVision}};

// Filter and order of the pipeline; sizes and values stay the checkpoint's. Only pictures squashed to a fixed
// size are treated by all three.
Status use_pipeline(std::string_view name, Preprocessing& p) {
  for (const NamedPipeline& known : kPipelines) {
    if (known.name == name) p.pipeline = known.pipeline;
  }
  if (!p.pipeline) {
    return fail(ErrorCode::kBadData,
                "\"pipeline\" is \"{}\", known are hugging_face, open_clip and big_vision",
                name.substr(0, 80));
  }
  if (p.resize_mode != ResizeMode::kSquash || p.crop) {
    return fail(ErrorCode::kUnsupported, "\"pipeline\" with a resize that is not a squash to one size");
  }
  p.rgb_order = *p.pipeline == Pipeline::kOpenClip ? RgbOrder::kAfterResize : RgbOrder::kBeforeResize;
  if (*p.pipeline == Pipeline::kOpenClip) p.filter = ResizeFilter::kBicubic;
  if (*p.pipeline == Pipeline::kBigVision) p.filter = ResizeFilter::kBilinearNoAntialias;
  return {};
}

// One of two names.
template <typename Choice>
Result<Choice> read_choice(const std::string& key, const Json& value, std::pair<std::string_view, Choice> one,
                           std::pair<std::string_view, Choice> other) {
  SACCADE_ASSIGN(const std::string name, detail::json_as<std::string>(key, value));
  if (name == one.first) return one.second;
  if (name == other.first) return other.second;
  return fail(ErrorCode::kBadData, "\"{}\" is \"{}\", known are {} and {}", key, name.substr(0, 80),
              one.first, other.first);
}

Status read_own_fields(const Json& own, Preprocessing& p) {
  SACCADE_TRY(expect_object(own, "\"saccade\""));
  // First, as it says several things at once, and what is said singly counts over it.
  if (const Json* pipeline = present(own, "pipeline")) {
    SACCADE_ASSIGN(const std::string name, detail::json_as<std::string>("pipeline", *pipeline));
    SACCADE_TRY(use_pipeline(name, p));
  }
  for (const auto& [key, value] : own.items()) {
    if (key == "alpha") {
      SACCADE_ASSIGN(p.alpha, read_choice<AlphaPolicy>(key, value, {"drop", AlphaPolicy::kDrop},
                                                       {"composite", AlphaPolicy::kComposite}));
    } else if (key == "rgb_order") {
      SACCADE_ASSIGN(p.rgb_order,
                     read_choice<RgbOrder>(key, value, {"before_resize", RgbOrder::kBeforeResize},
                                           {"after_resize", RgbOrder::kAfterResize}));
    } else if (key == "crop_rounding") {
      SACCADE_ASSIGN(p.crop_rounding, read_choice<CropRounding>(key, value, {"floor", CropRounding::kFloor},
                                                                {"half_even", CropRounding::kHalfEven}));
    } else if (key == "background") {
      SACCADE_ASSIGN(p.background, read_colour("background", value));
    } else if (key != "pipeline") {
      return fail(
          ErrorCode::kUnsupported,
          "\"saccade\" has \"{}\", known are alpha, background, crop_rounding, pipeline and rgb_order", key);
    }
  }
  return {};
}

std::string_view filter_name(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kNearest:
      return "nearest";
    case ResizeFilter::kBilinear:
      return "bilinear";
    case ResizeFilter::kBicubic:
      return "bicubic";
    case ResizeFilter::kLanczos:
      return "lanczos";
    case ResizeFilter::kBilinearNoAntialias:
      return "bilinear without antialiasing";
  }
  return "?";
}

// OpenCLIP's names for how pictures are brought to size.
Result<ResizeMode> read_resize_mode(const Json& value) {
  if (!value.is_string()) return detail::wrong_kind("resize_mode", value, "a string");
  if (value == "shortest") return ResizeMode::kShortestEdge;
  if (value == "longest") return ResizeMode::kLongestEdge;
  if (value == "squash") return ResizeMode::kSquash;
  return fail(ErrorCode::kUnsupported, "\"resize_mode\" is {}, known are shortest, longest and squash",
              dump_json(value));
}

}  // namespace

Result<Preprocessing> preprocessing_from_hugging_face(const Json& preprocessor_config, int image_size) {
  SACCADE_TRY(expect_object(preprocessor_config, "the preprocessor's file"));
  SACCADE_ASSIGN(image_size, read_side("image_size", image_size));
  SACCADE_TRY(check_known(preprocessor_config));
  // The older files name a feature extractor.
  const char* type_key = present(preprocessor_config, "image_processor_type") != nullptr
                             ? "image_processor_type"
                             : "feature_extractor_type";
  const auto type = json_field_or<std::string>(preprocessor_config, type_key, "");
  if (!type) return fail(type.error());
  const Family family = family_of(*type);
  Preprocessing p;
  p.rgb_order = RgbOrder::kBeforeResize;
  p.crop_rounding = CropRounding::kFloor;
  p.filter = family.filter;
  if (const Json* resample = present(preprocessor_config, "resample")) {
    SACCADE_ASSIGN(p.filter, read_resample(*resample));
  }
  SACCADE_TRY(read_size(preprocessor_config, family, image_size, p));
  SACCADE_ASSIGN(const bool resizes, json_field_or<bool>(preprocessor_config, "do_resize", true));
  if (!resizes) p.resize_mode = ResizeMode::kNone;
  SACCADE_TRY(read_crop(preprocessor_config, family, image_size, p));
  SACCADE_TRY(read_values(preprocessor_config, family, p));
  if (const Json* own = present(preprocessor_config, "saccade")) SACCADE_TRY(read_own_fields(*own, p));
  if (!p.crop && p.resize_mode != ResizeMode::kSquash) {
    return fail(ErrorCode::kBadData, "no centre crop and no fixed size: images would keep their shapes");
  }
  return p;
}

Result<Preprocessing> preprocessing_from_open_clip(const Json& preprocess_cfg, int image_size) {
  SACCADE_TRY(expect_object(preprocess_cfg, "\"preprocess_cfg\""));
  SACCADE_ASSIGN(image_size, read_side("image_size", image_size));
  Preprocessing p;
  p.rgb_order = RgbOrder::kAfterResize;
  p.crop_rounding = CropRounding::kHalfEven;
  p.mean = kClipMean;
  p.std = kClipStd;
  p.resize_height = p.resize_width = image_size;
  for (const auto& [key, value] : preprocess_cfg.items()) {
    if (value.is_null() || key == "saccade") continue;
    if (key == "mean") {
      SACCADE_ASSIGN(p.mean, read_triple("mean", value));
    } else if (key == "std") {
      SACCADE_ASSIGN(p.std, read_triple("std", value));
    } else if (key == "interpolation") {
      SACCADE_ASSIGN(const std::string name, detail::json_as<std::string>(key, value));
      if (name != "bicubic" && name != "bilinear" && name != "random") {
        return fail(ErrorCode::kUnsupported,
                    "\"interpolation\" is \"{}\", known are bicubic, bilinear and random", name);
      }
      // "random" is for training; evaluation is bicubic.
      p.filter = name == "bilinear" ? ResizeFilter::kBilinear : ResizeFilter::kBicubic;
    } else if (key == "resize_mode") {
      SACCADE_ASSIGN(p.resize_mode, read_resize_mode(value));
    } else if (key == "size") {
      const bool pair = value.is_array() && value.size() == 2;
      SACCADE_ASSIGN(p.resize_height, read_side("size", pair ? value[0] : value));
      SACCADE_ASSIGN(p.resize_width, read_side("size", pair ? value[1] : value));
    } else if (key == "fill_color") {
      SACCADE_ASSIGN(p.fill, read_colour("fill_color", value));
    } else if (key == "mode") {
      SACCADE_ASSIGN(const std::string name, detail::json_as<std::string>(key, value));
      if (name != "RGB") return fail(ErrorCode::kUnsupported, "\"mode\" is \"{}\", known is RGB", name);
    } else {
      return fail(ErrorCode::kUnsupported, "\"{}\" is not a field known here, and may change the pixels",
                  key);
    }
  }
  SACCADE_TRY(check_std(p.std));
  if (p.resize_mode == ResizeMode::kShortestEdge && p.resize_height != p.resize_width) {
    return fail(ErrorCode::kUnsupported, "\"size\" of {} x {} with resize_mode shortest: it must be square",
                p.resize_height, p.resize_width);
  }
  p.crop = p.resize_mode != ResizeMode::kSquash;
  p.crop_height = p.resize_height;
  p.crop_width = p.resize_width;
  if (const Json* own = present(preprocess_cfg, "saccade")) SACCADE_TRY(read_own_fields(*own, p));
  return p;
}

std::string Preprocessing::describe() const {
  std::string text;
  switch (resize_mode) {
    case ResizeMode::kShortestEdge:
      text = fmt::format("shortest edge to {}", resize_height);
      break;
    case ResizeMode::kSquash:
      text = fmt::format("squash to {} x {}", resize_height, resize_width);
      break;
    case ResizeMode::kLongestEdge:
      text = fmt::format("fit into {} x {}", resize_height, resize_width);
      break;
    case ResizeMode::kNone:
      text = "no resize";
      break;
  }
  if (resize_mode != ResizeMode::kNone) text += fmt::format(" {}", filter_name(filter));
  if (crop) {
    text +=
        fmt::format(", centre crop {} x {} ({}), fill {} {} {}", crop_height, crop_width,
                    crop_rounding == CropRounding::kFloor ? "floor" : "half even", fill[0], fill[1], fill[2]);
  }
  text += rgb_order == RgbOrder::kBeforeResize ? ", RGB before resize" : ", RGB after resize";
  text += alpha == AlphaPolicy::kDrop
              ? std::string(", alpha dropped")
              : fmt::format(", alpha over {} {} {}", background[0], background[1], background[2]);
  text += fmt::format(", x * {} + {}, mean {} {} {}, std {} {} {}", rescale_factor, rescale_offset, mean[0],
                      mean[1], mean[2], std[0], std[1], std[2]);
  return text;
}

}  // namespace saccade
