// Tests of heads on frozen encoders: results, location of the encoder, and rejected input.
#include "saccade/model/families/head.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gmock/gmock.h>

#include "saccade/core/rows.h"
#include "saccade/model/checkpoints/fingerprint.h"
#include "saccade/model/checkpoints/outline.h"
#include "saccade/model/explain/relevance_map.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;
using testing::HasSubstr;

fs::path starter() {
  return fs::path(kSourceDir) / "models/starter";
}

Matrix<float> random_rows(int64_t n, int64_t width, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix<float> rows(n, width);
  for (float& value : rows.values()) value = normal(random);
  return rows;
}

// The layers of a side one behind the other, in plain sums of doubles.
Matrix<float> plain_rows(const nn::TensorMap& weights, const std::string& side, MatrixView<const float> x) {
  Matrix<float> result;
  for (int64_t i = 0; i < x.rows(); ++i) {
    std::vector<double> row(x.row(i).begin(), x.row(i).end());
    for (const char* layer : {"in", "out"}) {
      const std::string name = fmt::format("{}_head.{}.", side, layer);
      if (!weights.contains(name + "weight")) continue;
      const nn::Tensor& weight = weights.at(name + "weight");
      std::vector<double> next(static_cast<size_t>(weight.size(0)));
      for (int64_t o = 0; o < weight.size(0); ++o) {
        double sum = weights.at(name + "bias").at({o});
        for (int64_t c = 0; c < weight.size(1); ++c) sum += weight.at({o, c}) * row[static_cast<size_t>(c)];
        const bool hidden = std::string(layer) == "in";
        next[static_cast<size_t>(o)] = hidden ? sum * 0.5 * (1 + std::erf(sum / std::sqrt(2.0))) : sum;
      }
      row = next;
    }
    double squares = 0;
    for (const double value : row) squares += value * value;
    if (result.rows() == 0) result = Matrix<float>(x.rows(), static_cast<int64_t>(row.size()));
    for (size_t c = 0; c < row.size(); ++c)
      result.row(i)[c] = static_cast<float>(row[c] / std::sqrt(squares));
  }
  return result;
}

void expect_near(MatrixView<const float> a, MatrixView<const float> b, float tolerance) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.columns(), b.columns());
  for (int64_t i = 0; i < a.rows(); ++i) {
    for (int64_t c = 0; c < a.columns(); ++c) {
      ASSERT_TRUE(std::abs(a(i, c) - b(i, c)) <= tolerance)
          << i << " " << c << ": " << a(i, c) << " " << b(i, c);
    }
  }
}

// A head's folder with random weights.
class Head : public testing::Test {
 protected:
  static HeadConfig config_on(const fs::path& frozen, HeadKind kind = HeadKind::kMlp) {
    const auto encoder = load_encoder(frozen).value();
    HeadConfig config;
    config.kind = kind;
    config.input = usual_head_input(*encoder);
    const HeadInputWidths widths = head_input_widths(*encoder, config.input).value();
    config.image_width = widths.images;
    config.text_width = widths.texts;
    config.hidden_width = 24;
    config.width = 16;
    config.frozen = EncoderId{.name = frozen.filename().string(),
                              .family = encoder->info().family,
                              .fingerprint = encoder->info().fingerprint,
                              .path = frozen.string()};
    return config;
  }

  fs::path write(const HeadConfig& config, const std::string& name = "head") {
    const fs::path folder = folder_ / name;
    fs::create_directories(folder);
    write_text(folder / "config.json", dump_json(head_config_json(config)));
    write_text(folder / "frozen.json",
               dump_json({{"path", config.frozen ? config.frozen->path : std::string()}}));
    weights_.clear();
    const auto add = [&](const std::string& tensor, std::vector<int64_t> shape) {
      const auto columns = shape.size() == 2 ? shape[1] : 1;
      const Matrix<float> values = random_rows(shape[0], columns, static_cast<unsigned>(weights_.size()));
      weights_[tensor] = nn::Tensor::of(values.values(), nn::Shape(shape.begin(), shape.end()));
    };
    for (const auto& [side, width] : {std::pair{"image", config.image_width}, {"text", config.text_width}}) {
      int64_t in = width;
      if (config.kind == HeadKind::kMlp) {
        add(fmt::format("{}_head.in.weight", side), {config.hidden_width, in});
        add(fmt::format("{}_head.in.bias", side), {config.hidden_width});
        in = config.hidden_width;
      }
      add(fmt::format("{}_head.out.weight", side), {config.width, in});
      add(fmt::format("{}_head.out.bias", side), {config.width});
    }
    weights_["logit_scale"] = nn::Tensor::full({}, 2.5F);
    EXPECT_TRUE(save(folder / "model.safetensors", weights_));
    return folder;
  }

  void expect_refused(const fs::path& folder, const std::string& words) {
    const auto encoder = load_encoder(folder);
    ASSERT_FALSE(encoder) << words;
    EXPECT_THAT(encoder.error().message, HasSubstr(words));
    EXPECT_THAT(encoder.error().message, HasSubstr(folder.string()));
  }

  TestFolder folder_;
  nn::TensorMap weights_;
};

TEST_F(Head, IsItsLayersAndLengthOne) {
  for (const HeadKind kind : {HeadKind::kLinear, HeadKind::kMlp}) {
    const fs::path folder = write(config_on(starter(), kind));
    const auto head = FeatureHead::open(folder);
    ASSERT_TRUE(head) << head.error().message;
    EXPECT_NEAR((*head)->logit_scale(), std::exp(2.5), 1e-4);
    const Matrix<float> features = random_rows(5, 192, 99);
    expect_near((*head)->image_rows(features.view()).value().view(),
                plain_rows(weights_, "image", features.view()).view(), 2e-6F);
    expect_near((*head)->text_rows(features.view()).value().view(),
                plain_rows(weights_, "text", features.view()).view(), 2e-6F);
    const auto other = (*head)->image_rows(random_rows(2, 10, 1).view());
    ASSERT_FALSE(other);
    EXPECT_THAT(other.error().message, HasSubstr("width 10, the head takes 192"));
  }
}

TEST_F(Head, IsAnEncoderLikeAnyOther) {
  const fs::path folder = write(config_on(starter()));
  const auto encoder = load_encoder(folder);
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_EQ((*encoder)->info().family, "head");
  EXPECT_EQ((*encoder)->info().dim, 16);
  EXPECT_EQ((*encoder)->info().image_height, 64);
  EXPECT_EQ((*encoder)->info().fingerprint, checkpoint_fingerprint(folder).value());
  const auto frozen = load_encoder(starter());
  ASSERT_TRUE(frozen);
  ASSERT_NE((*encoder)->tokenizer(), nullptr);
  const std::vector<TokenizedText> texts = {(*encoder)->tokenizer()->encode("a red apple", 32),
                                            (*encoder)->tokenizer()->encode("two boats", 32)};
  const Matrix<float> features = (*frozen)->encode_texts(texts).value();
  expect_near((*encoder)->encode_texts(texts).value().view(),
              plain_rows(weights_, "text", features.view()).view(), 2e-6F);
  const Matrix<float> pixels = random_rows(2, int64_t{3} * 64 * 64, 3);
  const Matrix<float> seen = (*frozen)->encode_images(pixels.view()).value();
  expect_near((*encoder)->encode_images(pixels.view()).value().view(),
              plain_rows(weights_, "image", seen.view()).view(), 2e-6F);

  const auto outline = outline_checkpoint(folder);
  ASSERT_TRUE(outline) << outline.error().message;
  EXPECT_EQ(outline->family, "head");
  EXPECT_EQ(outline->dim, 16);
  EXPECT_EQ(outline->context, 32);
}

// Agreement of the maps with the gradients of the head's own score is tested against autograd
// (lab/train/picture_map_test.cc).
TEST_F(Head, ThatChangesNothingHasItsEncodersMaps) {
  HeadConfig config = config_on(starter(), HeadKind::kLinear);
  config.width = config.image_width;
  const fs::path folder = write(config);
  std::vector<float> identity(static_cast<size_t>(config.width * config.width));
  for (int64_t i = 0; i < config.width; ++i) identity[static_cast<size_t>(i * config.width + i)] = 1;
  weights_["image_head.out.weight"] = nn::Tensor::of(identity, {config.width, config.width});
  weights_["image_head.out.bias"] = nn::Tensor::full({config.width}, 0);
  ASSERT_TRUE(save(folder / "model.safetensors", weights_));
  const auto head = load_encoder(folder);
  ASSERT_TRUE(head) << head.error().message;
  const auto frozen = load_encoder(starter()).value();
  const Matrix<float> pixels = random_rows(3, int64_t{3} * 64 * 64, 3);
  const Matrix<float> target = frozen->encode_images(random_rows(1, int64_t{3} * 64 * 64, 4).view()).value();
  for (const MapMethod method : {MapMethod::kLegrad, MapMethod::kChefer}) {
    ASSERT_NE((*head)->picture_mapper(), nullptr);
    const auto maps = (*head)->picture_mapper()->map_pictures(pixels.view(), target.row(0), method);
    ASSERT_TRUE(maps) << maps.error().message;
    const PictureMaps own =
        frozen->picture_mapper()->map_pictures(pixels.view(), target.row(0), method).value();
    EXPECT_EQ(maps->rows, own.rows);
    EXPECT_GT(*std::ranges::max_element(own.relevance.values()), 1e-5F);
    expect_near(maps->relevance.view(), own.relevance.view(), 1e-7F);
    const std::vector<float> narrow(7);
    EXPECT_FALSE((*head)->picture_mapper()->map_pictures(pixels.view(), narrow, method));
  }
}

TEST_F(Head, HasNoMapsWhereItsEncoderHasNone) {
  for (const char* name : {"clip-resnet", "align", "colpali"}) {
    const auto head = load_encoder(write(config_on(golden(name)), name));
    ASSERT_TRUE(head) << head.error().message;
    EXPECT_EQ((*head)->picture_mapper(), nullptr) << name;
  }
}

TEST_F(Head, ConformsToWhatAnotherProgramMadeOfItsFeatures) {
  const fs::path folder = write(config_on(starter()));
  const Matrix<float> features = random_rows(3, 192, 7);
  const auto tensor = [](const Matrix<float>& rows) {
    return nn::Tensor::of(rows.values(), {rows.rows(), rows.columns()});
  };
  const auto make_io = [&](float error) {
    Matrix<float> rows = plain_rows(weights_, "image", features.view());
    rows(1, 2) += error;
    ASSERT_TRUE(save(folder / "io.safetensors",
                     {{"image_features", tensor(features)},
                      {"text_features", tensor(features)},
                      {"image_embeds", tensor(rows)},
                      {"text_embeds", tensor(plain_rows(weights_, "text", features.view()))}}));
  };
  make_io(0);
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    if (precision == Precision::kBf16 && !nn::multiplies(DType::kBF16)) continue;
    ConformOptions options;
    options.encoder.precision = precision;
    const auto report = conform(folder, options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->answers.size(), 2U);
    EXPECT_TRUE(report->ok) << dump_json(conform_json(*report), 1);
  }
  make_io(1e-3F);
  EXPECT_FALSE(conform(folder).value().ok);
}

// BLIP-2's states and T5's, pooled in every way, by the golden's own inputs.
TEST_F(Head, ReadsTheStatesOfBlip2) {
  const fs::path frozen_folder = golden("blip2-t5");
  auto frozen = load_encoder(frozen_folder).value();
  const auto io = SafeTensors::open(frozen_folder / "io.safetensors").value();
  const std::vector<float> pixels = io.find("pixel_values")->to_floats().value();
  const int64_t images = io.find("pixel_values")->shape[0];
  const MatrixView<const float> view(pixels.data(), images, std::ssize(pixels) / images);
  const std::vector<TokenizedText> texts = {{.ids = {5, 9, 7, 1}}, {.ids = {3, 1}}};
  for (const ImageStates states : {ImageStates::kQueries, ImageStates::kProjected}) {
    for (const Pooling pooling : {Pooling::kMean, Pooling::kMax, Pooling::kFirst, Pooling::kLast}) {
      HeadConfig config = config_on(frozen_folder);
      EXPECT_EQ(config.input, (HeadInput{ImageStates::kQueries, TextStates::kTokens, Pooling::kMean}));
      config.input = {states, TextStates::kTokens, pooling};
      SCOPED_TRACE(describe(config.input));
      config.image_width = head_input_widths(*frozen, config.input)->images;
      const auto encoder = load_encoder(write(config));
      ASSERT_TRUE(encoder) << encoder.error().message;
      EXPECT_TRUE((*encoder)->info().shared_space);
      const auto pool = [&](const RowSets& sets) {
        Matrix<float> rows(std::ssize(sets.begin) - 1, sets.rows.columns());
        for (int64_t i = 0; i < rows.rows(); ++i) {
          const int64_t begin = sets.begin[static_cast<size_t>(i)];
          const int64_t end = sets.begin[static_cast<size_t>(i) + 1];
          for (int64_t c = 0; c < rows.columns(); ++c) {
            float sum = 0;
            float most = sets.rows(begin, c);
            for (int64_t r = begin; r < end; ++r) {
              sum += sets.rows(r, c);
              most = std::max(most, sets.rows(r, c));
            }
            rows(i, c) = pooling == Pooling::kMean    ? sum / static_cast<float>(end - begin)
                         : pooling == Pooling::kMax   ? most
                         : pooling == Pooling::kFirst ? sets.rows(begin, c)
                                                      : sets.rows(end - 1, c);
          }
        }
        return rows;
      };
      const auto state = states == ImageStates::kQueries ? FrozenFeatures::ImageState::kQueries
                                                         : FrozenFeatures::ImageState::kProjected;
      const Matrix<float> image_features =
          pool(frozen->frozen_features()->image_features(view, state).value());
      expect_near((*encoder)->encode_images(view).value().view(),
                  plain_rows(weights_, "image", image_features.view()).view(), 1e-5F);
      const Matrix<float> text_features =
          pool(frozen->frozen_features()->text_features(texts, FrozenFeatures::TextState::kTokens).value());
      expect_near((*encoder)->encode_texts(texts).value().view(),
                  plain_rows(weights_, "text", text_features.view()).view(), 1e-5F);
    }
  }
}

// The input of a checkpoint's projection, multiplied by that projection, is the encoder's own embedding.
// Heads can read it from every family that has it.
TEST_F(Head, ReadsWhatAFamilyProjects) {
  struct Case {
    const char* golden;
    const char* image_projection;  // empty: the tower ends in the shared space
    const char* text_projection;
  };
  for (const Case& family :
       {Case{"clip-gelu", "visual_projection", "text_projection"}, Case{"siglip", "", "text_model.head"},
        Case{"align", "", "text_projection"}, Case{"blip2-itm", "", "text_projection"}}) {
    SCOPED_TRACE(family.golden);
    const fs::path frozen_folder = golden(family.golden);
    auto frozen = load_encoder(frozen_folder).value();
    const auto file = SafeTensors::open(frozen_folder / "model.safetensors").value();
    const nn::TensorMap tensors = nn::borrow_tensors(file).value();
    const auto projected = [&](Matrix<float> states, const std::string& name) {
      if (!name.empty()) {
        const nn::Tensor weight = tensors.at(name + ".weight");
        const auto bias = tensors.find(name + ".bias");
        Matrix<float> rows(states.rows(), weight.size(0));
        for (int64_t i = 0; i < rows.rows(); ++i) {
          for (int64_t o = 0; o < rows.columns(); ++o) {
            double sum = bias == tensors.end() ? 0 : bias->second.at({o});
            for (int64_t c = 0; c < states.columns(); ++c) sum += states(i, c) * weight.at({o, c});
            rows(i, o) = static_cast<float>(sum);
          }
        }
        states = std::move(rows);
      }
      for (int64_t i = 0; i < states.rows(); ++i) normalize_row(states.row(i));
      return states;
    };
    const HeadInput input{ImageStates::kPooled, TextStates::kPooled, Pooling::kMean};
    const std::vector<TokenizedText> texts = {{.ids = {5, 9, 7, 1}}, {.ids = {3, 1}}};
    expect_near(projected(text_head_input(*frozen, input, texts).value(), family.text_projection).view(),
                frozen->encode_texts(texts).value().view(), 1e-5F);
    HeadConfig config = config_on(frozen_folder);
    EXPECT_EQ(config.input, HeadInput{}) << "an encoder with a shared space is read by its rows";
    const EncoderInfo& info = frozen->info();
    const int64_t values = int64_t{3} * info.image_height * info.image_width;
    std::mt19937 random(7);
    std::normal_distribution<float> draw;
    std::vector<float> pixels(static_cast<size_t>(2 * values));
    for (float& value : pixels) value = draw(random);
    const MatrixView<const float> view(pixels.data(), 2, values);
    if (info.family == "blip-2") {
      EXPECT_EQ(image_head_input(*frozen, input, view).error().message,
                "the encoder (blip-2) gives no states of pooled: it has rows, queries, vision");
      config.input = {ImageStates::kQueries, TextStates::kPooled, Pooling::kMean};
    } else {
      const Matrix<float> states = image_head_input(*frozen, input, view).value();
      EXPECT_GT(
          std::abs(1 - nn::normalize_rows(nn::Tensor::of(states.values(), {2, states.columns()})).at({0, 0}) /
                           states(0, 0)),
          1e-3)
          << "their length is left";
      expect_near(projected(states.copy(), family.image_projection).view(),
                  frozen->encode_images(view).value().view(), 1e-5F);
      config.input = input;
    }
    const HeadInputWidths widths = head_input_widths(*frozen, config.input).value();
    config.image_width = widths.images;
    config.text_width = widths.texts;
    const auto encoder = load_encoder(write(config));
    ASSERT_TRUE(encoder) << encoder.error().message;
    expect_near(
        (*encoder)->encode_images(view).value().view(),
        plain_rows(weights_, "image", image_head_input(*frozen, config.input, view).value().view()).view(),
        1e-5F);
    expect_near(
        (*encoder)->encode_texts(texts).value().view(),
        plain_rows(weights_, "text", text_head_input(*frozen, config.input, texts).value().view()).view(),
        1e-5F);
  }
}

TEST_F(Head, FindsItsEncoderWhereItIs) {
  HeadConfig config = config_on(starter());
  fs::copy(starter(), folder_ / "elsewhere");
  config.frozen->path = "../elsewhere";  // relative to the head's own folder
  config.frozen->name = "mine";
  EXPECT_TRUE(load_encoder(write(config)));
  config.frozen->path = (folder_ / "missing").string();
  expect_refused(write(config), "mine (clip, fingerprint");
  config.frozen->name = "starter";  // comes with the program
  EXPECT_TRUE(load_encoder(write(config)));
  // Moving the encoder does not change the head's fingerprint.
  const std::string before = checkpoint_fingerprint(folder_ / "head").value();
  write_text(folder_ / "head/frozen.json", dump_json({{"path", "../elsewhere"}}));
  EXPECT_EQ(checkpoint_fingerprint(folder_ / "head").value(), before);
}

TEST_F(Head, RefusesAnotherEncoder) {
  HeadConfig config = config_on(starter());
  config.frozen->path = golden("clip-gelu").string();
  config.frozen->name = "mine";
  expect_refused(write(config), "a head for another encoder: it was trained on mine (clip, fingerprint");
  config.frozen->path = write(config_on(starter()), "other").string();
  expect_refused(write(config), "is a head itself");
  config.frozen.reset();
  expect_refused(write(config), "it reads features alone");
}

TEST_F(Head, RefusesWhatContradictsItself) {
  const HeadConfig config = config_on(starter());
  const fs::path folder = write(config);
  const auto with = [&](const char* key, const Json& value) {
    write(config);
    edit_config(folder, [&](Json& json) { json[key] = value; });
  };
  with("kind", "deep");
  expect_refused(folder, "\"kind\" is \"deep\", expected one of linear, mlp");
  with("width", 0);
  expect_refused(folder, "width is 0");
  with("width", 17);
  expect_refused(folder, "image_head.out.weight");
  with("pooling", "median");
  expect_refused(folder, "\"pooling\" is \"median\"");
  with("text_states", "tokens");
  expect_refused(folder, "gives no states of tokens: it has rows, pooled");
  with("frozen", Json{{"name", "starter"}});
  expect_refused(folder, "\"frozen\": \"family\" is missing");
  with("kind", "linear");
  expect_refused(folder, "image_head.out.weight");
  write(config);
  edit_weights(folder, [](nn::TensorMap& tensors) { tensors["more"] = nn::Tensor::zeros({2}); });
  expect_refused(folder, "more");
  write(config);
  fs::remove(folder / "frozen.json");
  expect_refused(folder, "frozen.json");
}

}  // namespace
}  // namespace saccade
