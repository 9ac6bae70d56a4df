#include "saccade/model/checkpoints/receipt.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include <fmt/ranges.h>

#include "saccade/core/counts.h"
#include "saccade/image/preprocess.h"
#include "saccade/model/options/precision_names.h"

namespace saccade {
namespace {

constexpr int kSide = 160;

constexpr std::array<std::string_view, kBundledInputs> kTexts = {
    "a photo of a dog",
    "a cat asleep on a red sofa",
    "two people walking on a beach at sunset",
    "a plate of food with rice and vegetables",
    "an old steam locomotive",
    "an aerial view of a harbor with boats",
    "a child holding a yellow umbrella in the rain",
    "a black and white portrait of a man",
    "the logo of a company",
    "arrow pointing to the left",
    "a shopping cart",
    "three green apples",
    "snow on a mountain",
    "a bus stop at night",
    "a woman playing the violin on a stage",
    "a chart that compares sales in four quarters",
    "a map of the world",
    "close-up of a bee on a flower",
    "a kitchen with white cupboards and a wooden table",
    "football players celebrate a goal",
    "a screenshot of a web page",
    "a handwritten letter",
    "an airplane above the clouds",
    "runway, parking lot and storage tanks seen from above",
    "a bicycle that leans against a brick wall",
    "a herd of zebras drinks at a river while a crocodile watches them from the other bank",
    "a coffee cup beside a laptop, a notebook and a pair of glasses on a desk by the window",
    "blue",
    "smile",
    "ein Haus am See",
    "une rue de Paris sous la pluie",
    "2 + 2 = 4"};

// Draws one of the drawings: a background of two colors, with a pattern chosen by its number.
Image drawing(int number) {
  Image image{.width = kSide, .height = kSide, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  image.pixels.resize(size_t{3} * kSide * kSide);
  uint32_t random = 2'654'435'761U * static_cast<uint32_t>(number + 1);
  const auto next = [&random] {
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    return static_cast<int>(random >> 8 & 0xff);
  };
  int colours[3][3];
  for (auto& colour : colours) {
    for (int& part : colour) part = next();
  }
  const int x0 = 40 + next() % 80;
  const int y0 = 40 + next() % 80;
  const int size = 16 + next() % 48;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int dx = x - x0;
      const int dy = y - y0;
      bool on = false;
      switch (number % 6) {
        case 0:
          on = dx * dx + dy * dy < size * size;
          break;
        case 1:
          on = (x + y) / size % 2 == 0;
          break;
        case 2:
          on = std::abs(dx) < size && std::abs(dy) < size / 2;
          break;
        case 3:
          on = (x / size + y / size) % 2 == 0;
          break;
        case 4:
          on = std::abs(dx) + std::abs(dy) < size || (dx - 40) * (dx - 40) + dy * dy < size * 6;
          break;
        default:
          on = next() < 96;  // noise
      }
      uint8_t* pixel = image.pixels.data() + size_t{3} * static_cast<size_t>(y * kSide + x);
      for (int c = 0; c < 3; ++c) {
        const int ground = (colours[0][c] * (kSide - y) + colours[1][c] * y) / kSide;
        pixel[c] = static_cast<uint8_t>(on ? colours[2][c] : ground);
      }
    }
  }
  return image;
}

Precision precision_of(DType dtype) {
  return dtype == DType::kBF16 ? Precision::kBf16 : Precision::kFp32;
}

Json wide_layers_json(const WideLayers& layers) {
  return {{"count", layers.names.size()},
          {"precision", layers.names.empty() ? Json() : Json(enum_name(precision_of(layers.dtype)))},
          {"names", layers.names}};
}

// Converts to {"rows", "mean", "first_percentile", "worst"}.
Json agreement_json(const RowAgreement& agreement) {
  return {{"rows", agreement.rows},
          {"mean", agreement.mean},
          {"first_percentile", agreement.first_percentile},
          {"worst", agreement.worst}};
}

}  // namespace

RowAgreement agreement_of(MatrixView<const float> rows, MatrixView<const float> references) {
  RowAgreement agreement;
  agreement.rows = rows.rows();
  if (rows.rows() == 0) return agreement;
  std::vector<double> cosines;
  double sum = 0;
  for (int64_t i = 0; i < rows.rows(); ++i) {
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (int64_t c = 0; c < rows.columns(); ++c) {
      const double a = rows.row(i)[static_cast<size_t>(c)];
      const double b = references.row(i)[static_cast<size_t>(c)];
      ab += a * b;
      aa += a * a;
      bb += b * b;
    }
    double cosine = aa == 0 && bb == 0 ? 1 : ab / std::sqrt(aa * bb);
    if (!std::isfinite(cosine)) cosine = -1;
    cosines.push_back(cosine);
    sum += cosine;
  }
  std::sort(cosines.begin(), cosines.end());
  agreement.mean = sum / static_cast<double>(cosines.size());
  agreement.first_percentile = cosines[cosines.size() / 100];
  agreement.worst = cosines.front();
  return agreement;
}

bool keeps_rows(const PrecisionReceipt& receipt) {
  const auto kept = [](const std::optional<RowAgreement>& agreement) {
    return !agreement || agreement->mean >= kLeastMeanCosine;
  };
  return kept(receipt.pictures) && kept(receipt.texts);
}

Result<RowAgreement> picture_agreement(EncoderBackend& encoder, EncoderBackend& reference,
                                       MatrixView<const float> pixels) {
  SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_images(pixels));
  SACCADE_ASSIGN(const Matrix<float> references, reference.encode_images(pixels));
  return agreement_of(rows.view(), references.view());
}

Result<BundledInputs> bundled_inputs(const EncoderBackend& encoder, int64_t count) {
  const EncoderInfo& info = encoder.info();
  BundledInputs inputs;
  if (info.image_width > 0) {
    inputs.pixels = Matrix<float>(count, int64_t{3} * info.image_height * info.image_width);
    for (int64_t i = 0; i < count; ++i) {
      SACCADE_TRY(preprocess(drawing(static_cast<int>(i)), encoder.preprocessing(), inputs.pixels.row(i)));
    }
  }
  if (encoder.tokenizer() != nullptr) {
    for (const std::string_view text : std::span(kTexts).first(static_cast<size_t>(count))) {
      inputs.texts.push_back(encoder.tokenizer()->encode(text, info.context));
    }
  }
  return inputs;
}

Status encode_inputs(EncoderBackend& encoder, const BundledInputs& inputs) {
  if (inputs.pixels.rows() > 0) SACCADE_TRY(encoder.encode_images(inputs.pixels.view()));
  if (!inputs.texts.empty()) SACCADE_TRY(encoder.encode_texts(inputs.texts));
  return {};
}

Result<PrecisionReceipt> bundled_receipt(EncoderBackend& encoder, EncoderBackend& reference) {
  PrecisionReceipt receipt;
  receipt.precision = encoder.info().precision;
  receipt.wide_layers = encoder.wide_layers();
  SACCADE_ASSIGN(const BundledInputs inputs, bundled_inputs(encoder));
  if (inputs.pixels.rows() > 0) {
    SACCADE_ASSIGN(receipt.pictures, picture_agreement(encoder, reference, inputs.pixels.view()));
  }
  if (!inputs.texts.empty()) {
    SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_texts(inputs.texts));
    SACCADE_ASSIGN(const Matrix<float> references, reference.encode_texts(inputs.texts));
    receipt.texts = agreement_of(rows.view(), references.view());
  }
  return receipt;
}

std::string agreement_text(const RowAgreement& agreement, std::string_view what) {
  return fmt::format("mean {:.5f}, 1st percentile {:.5f}, worst {:.5f} ({})", agreement.mean,
                     agreement.first_percentile, agreement.worst, counted(agreement.rows, what));
}

std::string wide_layers_text(const WideLayers& layers) {
  if (layers.names.empty()) return {};
  return fmt::format("{} in {}, as their inputs have outliers: {}",
                     counted(std::ssize(layers.names), "layer"), enum_name(precision_of(layers.dtype)),
                     fmt::join(layers.names, ", "));
}

Json receipt_json(const PrecisionReceipt& receipt) {
  return {{"precision", enum_name(receipt.precision)},
          {"images", receipt.pictures ? agreement_json(*receipt.pictures) : Json()},
          {"texts", receipt.texts ? agreement_json(*receipt.texts) : Json()},
          {"wide_layers", wide_layers_json(receipt.wide_layers)},
          {"kept", keeps_rows(receipt)}};
}

}  // namespace saccade
