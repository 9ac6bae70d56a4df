#include "saccade/model/visualness.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "saccade/core/hash.h"
#include "saccade/core/random.h"
#include "saccade/core/rows.h"
#include "saccade/image/preprocess.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/checkpoints/saccade_file.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using Kind = NullPicture::Kind;

constexpr const char* kKey = "visualness";

constexpr std::array kKinds = {
    EnumName<Kind>{Kind::kRandom, "random", "every pixel drawn at random by a seed"},
    EnumName<Kind>{Kind::kGrey, "grey", "the mean of random pixels"},
    EnumName<Kind>{Kind::kBlack, "black"},
    EnumName<Kind>{Kind::kWhite, "white"},
    EnumName<Kind>{Kind::kFile, "file", "an image of one's own"},
};

Result<KeptVisualness> parse(const Json& json) {
  KeptVisualness kept;
  SACCADE_ASSIGN(kept.threshold, json_field<double>(json, "threshold"));
  const auto row = json.find("null_row");
  if (row == json.end() || !row->is_array() || row->empty()) {
    return fail(ErrorCode::kBadData, "\"null_row\" is no list of numbers");
  }
  for (const Json& value : *row) {
    SACCADE_ASSIGN(kept.null_row.emplace_back(), detail::json_as<float>("null_row", value));
  }
  SACCADE_TRY(check_unit_row(kept.null_row).in("\"null_row\""));
  kept.null_picture =
      json.value(json.contains("null_image") ? "null_image" : "null_picture", Json());  // earlier name
  kept.measured = json.value("measured", Json());
  return kept;
}

}  // namespace

std::span<const EnumName<Kind>> enum_names(Kind) {
  return kKinds;
}

Result<NullPicture> parse_null_picture(std::string_view text) {
  NullPicture picture;
  constexpr std::string_view kSeeded = "random:";
  if (text.starts_with(kSeeded)) {
    const std::string_view seed = text.substr(kSeeded.size());
    const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), picture.seed);
    if (error != std::errc() || end != seed.data() + seed.size()) {
      return fail(ErrorCode::kUsage, "NULL image \"{}\": \"{}\" is no seed, a whole number from 0", text,
                  seed);
    }
    return picture;
  }
  const std::optional<Kind> kind = from_name<Kind>(text);
  picture.kind = kind.value_or(Kind::kFile);
  if (picture.kind != Kind::kFile) return picture;
  if (text.empty()) return fail(ErrorCode::kUsage, "the NULL image has no name");
  picture.file = text;
  return picture;
}

Result<Json> describe_null_picture(const NullPicture& picture) {
  Json json = {{"kind", enum_name(picture.kind)}};
  if (picture.kind == Kind::kRandom) json["seed"] = picture.seed;
  if (picture.kind == Kind::kFile) {
    SACCADE_ASSIGN(const std::string hash, sha256_file(picture.file));
    json["file_sha256"] = hash;
  }
  return json;
}

Result<Image> draw_null_picture(const NullPicture& picture, int width, int height,
                                const DecodeOptions& decode) {
  if (picture.kind == Kind::kFile) {
    SACCADE_ASSIGN(DecodedImage decoded, decode_image_file(picture.file, decode));
    return std::move(decoded.image);
  }
  Image image{.width = width, .height = height, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  const auto values = size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height);
  const auto even = static_cast<uint8_t>(picture.kind == Kind::kWhite  ? 255
                                         : picture.kind == Kind::kGrey ? 128
                                                                       : 0);
  image.pixels.assign(values, even);
  if (picture.kind == Kind::kRandom) {
    SplitMix random(picture.seed);
    for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random.next() >> 56);
  }
  return image;
}

Result<std::vector<float>> null_picture_pixels(const NullPicture& picture,
                                               const Preprocessing& preprocessing) {
  const int width = preprocessing.output_width();
  const int height = preprocessing.output_height();
  Preprocessing on_white = preprocessing;
  on_white.alpha = AlphaPolicy::kComposite;
  SACCADE_ASSIGN(
      const Image image,
      draw_null_picture(picture, width, height, pixel_options(preprocessing).decode).in("NULL image"));
  std::vector<float> pixels(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height));
  SACCADE_TRY(preprocess(image, on_white, pixels).in("NULL image"));
  return pixels;
}

Result<std::vector<float>> null_picture_row(EncoderBackend& encoder, const NullPicture& picture) {
  SACCADE_ASSIGN(const std::vector<float> pixels, null_picture_pixels(picture, encoder.preprocessing()));
  SACCADE_ASSIGN(const Matrix<float> rows,
                 encoder.encode_images({pixels.data(), 1, static_cast<int64_t>(pixels.size())}));
  return std::vector<float>(rows.row(0).begin(), rows.row(0).end());
}

std::vector<double> visualness_scores(std::span<const float> null_row, MatrixView<const float> texts) {
  std::vector<double> scores;
  for (int64_t i = 0; i < texts.rows(); ++i) scores.push_back(1 - dot_product(null_row, texts.row(i)));
  return scores;
}

Result<std::vector<double>> visual_probabilities(TextClassifier& classifier,
                                                 std::span<const TokenizedText> texts) {
  const std::vector<std::string>& labels = classifier.labels();
  size_t label = 1;
  if (const auto named = std::ranges::find(labels, "visual"); named != labels.end()) {
    label = static_cast<size_t>(named - labels.begin());
  } else if (labels.size() != 2) {
    return fail(ErrorCode::kUsage, "its {} classes are neither two nor is one called \"visual\"",
                labels.size());
  }
  std::vector<double> probabilities;
  if (texts.empty()) return probabilities;
  SACCADE_ASSIGN(const Matrix<float> logits, classifier.classify_texts(texts));
  for (int64_t i = 0; i < logits.rows(); ++i) {
    const auto row = logits.row(i);
    const double most = *std::ranges::max_element(row);
    double sum = 0;
    for (const float logit : row) sum += std::exp(logit - most);
    probabilities.push_back(std::exp(row[label] - most) / sum);
  }
  return probabilities;
}

Result<std::optional<KeptVisualness>> read_kept_visualness(const fs::path& checkpoint,
                                                           std::string_view fingerprint) {
  SACCADE_ASSIGN(const Json json, read_saccade_file(checkpoint));
  const auto found = json.find(kKey);
  if (found == json.end() || found->is_null()) return std::optional<KeptVisualness>();
  const std::string where = fmt::format("{}: \"{}\"", saccade_file(checkpoint).string(), kKey);
  SACCADE_ASSIGN(const std::string of, json_field<std::string>(*found, "fingerprint").in(where));
  if (of != fingerprint) return std::optional<KeptVisualness>();
  SACCADE_ASSIGN(KeptVisualness kept, parse(*found).in(where));
  return std::optional(std::move(kept));
}

Status write_kept_visualness(const fs::path& checkpoint, std::string_view fingerprint,
                             const KeptVisualness& kept) {
  SACCADE_ASSIGN(Json json, read_saccade_file(checkpoint));
  json[kKey] = {{"fingerprint", fingerprint},
                {"null_image", kept.null_picture},
                {"null_row", kept.null_row},
                {"threshold", kept.threshold},
                {"measured", kept.measured}};
  return write_saccade_file(checkpoint, json);
}

}  // namespace saccade
