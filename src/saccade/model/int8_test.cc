// Tests of int8 encoders: every golden against its reference, weights with outlier channels, damaged weights.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <gmock/gmock.h>

#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"
#include "saccade/model/architecture.h"
#include "saccade/model/checkpoints/receipt.h"
#include "saccade/model/families/clip.h"
#include "saccade/model/model_test_support.h"
#include "saccade/model/options/precision_choice.h"
#include "saccade/nn/versions.h"
#include "saccade/nn/workspace.h"

namespace saccade {
namespace {

using namespace test;
using testing::HasSubstr;

class Int8Golden : public testing::TestWithParam<std::string> {};

TEST_P(Int8Golden, Conforms) {
  ConformOptions options;
  options.encoder.precision = Precision::kInt8;
  const auto report = conform(golden(GetParam()), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->answers.empty());
  double largest = 0;
  for (const AnswerCheck& check : report->answers) {
    largest = std::max(largest, check.max_abs);
    // In the ResNet's states, positions of four channels have no meaningful direction.
    if (GetParam() == "clip-resnet" && check.name.starts_with("vision_")) continue;
    EXPECT_TRUE(check.ok) << check.name << ": " << check.cosine << ", " << check.norm_ratio << ", "
                          << check.max_abs;
  }
  EXPECT_GT(largest, 1e-4) << "these are fp32's answers";
}

INSTANTIATE_TEST_SUITE_P(Families, Int8Golden,
                         testing::Values("align", "bert", "blip2-itm", "blip2-t5", "clip-gelu",
                                         "clip-legacy-sharded", "clip-quickgelu", "clip-resnet", "colpali",
                                         "jina-clip", "jina-clip-fused", "long-clip", "open_clip-gelu",
                                         "open_clip-quickgelu", "open_clip-siglip", "siglip"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Int8, TheStarterConforms) {
  ConformOptions options;
  options.encoder.precision = Precision::kInt8;
  const auto report = conform(fs::path(test::kSourceDir) / "models/starter", options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok) << dump_json(conform_json(*report), 1);
}

// Fresh CLIP weights in which four channels of each residual stream are many times as large as the others, as
// in trained CLIPs. Both the embeddings and each block's output contribute to them. As in trained models, the
// weights of layers that read them are correspondingly small, so the other channels still matter.
class OutlierParameters : public RandomParameters {
 public:
  explicit OutlierParameters(float factor) : RandomParameters(21), factor_(factor) {}
  Result<nn::Tensor> take(const std::string& name, const std::vector<int64_t>& shape,
                          nn::Init init) override {
    SACCADE_ASSIGN(const nn::Tensor tensor, RandomParameters::take(name, shape, init));
    const auto holds = [&](std::string_view part) { return name.find(part) != std::string::npos; };
    const int64_t width = shape.empty() ? 1 : shape.back();
    const auto scale = [&](float factor) {
      for (int64_t row = 0; row < tensor.numel() / width; ++row) {
        for (const int64_t channel : {int64_t{7}, width / 3, width / 2 + 1, width - 2}) {
          tensor.data<float>()[row * width + channel] *= factor;
        }
      }
    };
    if (name.ends_with("fc2.bias") || name.ends_with("out_proj.bias") ||
        (holds("embedding") && !holds("patch"))) {
      scale(factor_);
    } else if (name.ends_with("weight") && (holds("q_proj") || holds("k_proj") || holds("v_proj") ||
                                            holds("fc1") || holds("_projection"))) {
      scale(1 / factor_);
    } else if (name.ends_with("weight") && (holds("norm"))) {
      // Dividing by the length of all leaves the others small.
      const float length = factor_ * std::sqrt(4 / static_cast<float>(width));
      for (float& gain : tensor.floats()) gain *= std::max(1.F, length);
    }
    return tensor;
  }

 private:
  float factor_;
};

ClipConfig small_clip() {
  ClipConfig config;
  config.vision = {
      .width = 256, .layers = 6, .heads = 4, .mlp_width = 1024, .activation = nn::Activation::kQuickGelu};
  config.text = config.vision;
  config.text.width = 192;
  config.text.mlp_width = 768;
  config.image_size = 64;
  config.patch_size = 16;
  config.vocabulary = 500;
  config.positions = 24;
  config.projection = 128;
  return config;
}

struct ClipRows {
  nn::Tensor pictures, texts;
};
ClipRows rows_of(float factor, DType packing) {
  OutlierParameters source(factor);
  ClipModel model = ClipModel::make(small_clip(), source).value();
  model.pack(packing);
  nn::Workspace workspace(2);
  std::minstd_rand random(5);
  nn::Tensor ids = nn::Tensor::full_integers({40, 12}, 0);
  for (int64_t& id : ids.integers()) id = static_cast<int64_t>(random() % 499);
  for (int64_t text = 0; text < 40; ++text) ids[text][11].integers()[0] = 499;
  const nn::Tensor pixels = random_tensor({40, 3, 64, 64}, 6).in(&workspace);
  return {nn::normalize_rows(model.encode_images(pixels, DType::kF32)).in(nullptr),
          nn::normalize_rows(model.encode_texts(ids.in(&workspace), DType::kF32)).in(nullptr)};
}

MatrixView<const float> view(const nn::Tensor& rows) {
  return {rows.data<float>(), rows.size(0), rows.size(1), rows.size(1)};
}

// Outliers of 20 times, and of 35, where the first layers have higher precision. At 50 and more these random
// weights amplify any rounding: bf16's mean cosine is 0.99 and less.
TEST(Int8, OutlierChannelsKeepTheRows) {
  for (const float factor : {1.F, 20.F, 35.F}) {
    const ClipRows exact = rows_of(factor, DType::kF32);
    const ClipRows ours = rows_of(factor, DType::kI8);
    for (const auto& [rows, reference] :
         {std::pair(ours.pictures, exact.pictures), std::pair(ours.texts, exact.texts)}) {
      const RowAgreement agreement = agreement_of(view(rows), view(reference));
      EXPECT_GE(agreement.mean, kLeastMeanCosine) << agreement_text(agreement, "row") << " at " << factor;
      EXPECT_GE(agreement.worst, 0.98) << agreement_text(agreement, "row") << " at " << factor;
      EXPECT_LT(agreement.mean, 1 - 1e-7) << "these are fp32's rows";
      const char* of = rows.data<float>() == ours.texts.data<float>() ? "texts" : "pictures";
      RecordProperty(fmt::format("{}_{}", of, factor), std::to_string(agreement.mean));
      // Distances between embeddings are preserved, too: each is nearest to its own reference.
      for (int64_t i = 0; i < 40; ++i) {
        double own = 0;
        double other = -1;
        for (int64_t j = 0; j < 40; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < 128; ++c) dot += rows.at({i, c}) * reference.at({j, c});
          (i == j ? own : other) = i == j ? dot : std::max(other, dot);
        }
        EXPECT_GT(own, other) << factor;
      }
    }
  }
}

#if defined(__x86_64__)
// Results of processors without AVX-512 and without AVX2, in processes whose kernels are restricted
// accordingly.
TEST(Int8, OlderProcessorsConform) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const auto& [kernels, isa] : {std::pair("avx2", "AVX2"), std::pair("portable", "SSE41")}) {
    EXPECT_EXIT(
        {
          ::setenv("SACCADE_CPU", kernels, 1);
          for (const char* name : {"DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"}) ::setenv(name, isa, 1);
          std::string said = nn::instruction_set();
          for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kInt8}) {
            ConformOptions options;
            options.encoder.precision = precision;
            const auto report = conform(golden("clip-gelu"), options);
            said += !report ? "; " + report.error().message : report->ok ? "; conforms" : "; is off";
          }
          const auto choice = choose_precision(fs::path(test::kSourceDir) / "models/starter", {});
          said += choice ? "; " + precision_choice_text(*choice) : "; " + choice.error().message;
          std::fputs(said.c_str(), stderr);
          std::exit(0);
        },
        testing::ExitedWithCode(0),
        fmt::format(
            "kernels {0}, int8 {0}, bf16 oneDNN; conforms; [^;]*precision bf16: this processor has no "
            "instructions for products in bf16 [^;]*; fp32 and int8 run on every processor; "
            "conforms; precision (fp32|int8): milliseconds here",
            kernels));
  }
}
#endif

// Any format, one thread and several, either tower. Damaged memory and files often have bytes of 255. These
// are a NaN too, which rounding to bfloat16 may carry over to 0.
TEST(Int8, DamagedWeightsAreOneSentence) {
  const auto all_ones = std::bit_cast<float>(~uint32_t{0});
  for (const std::string tower : {"vision_model", "text_model"}) {
    for (const auto& damage :
         {std::pair("mlp.fc1.weight", std::nanf("")), std::pair("mlp.fc1.weight", INFINITY),
          std::pair("self_attn.q_proj.bias", all_ones)}) {
      const GoldenCopy copy("clip-gelu");
      edit_weights(copy.path(), [&](nn::TensorMap& tensors) {
        nn::Tensor& weight = tensors[fmt::format("{}.encoder.layers.0.{}", tower, damage.first)];
        weight = weight.clone();
        weight.data<float>()[2] = damage.second;
      });
      for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kInt8}) {
        if (precision == Precision::kBf16 && !nn::multiplies(DType::kBF16)) continue;
        const int threads = tower == "text_model" ? 1 : 2;
        const auto encoder = load_encoder(copy.path(), {.precision = precision, .threads = threads});
        ASSERT_TRUE(encoder) << encoder.error().message;
        const auto rows = [&]() -> Result<Matrix<float>> {
          if (tower == "text_model") {
            const TokenizedText text = {.ids = {298, 5, 7, 299}};
            return (*encoder)->encode_texts(std::span(&text, 1));
          }
          Matrix<float> pixels(1,
                               int64_t{3} * (*encoder)->info().image_height * (*encoder)->info().image_width);
          std::fill_n(pixels.data(), pixels.columns(), 0.5F);
          return (*encoder)->encode_images(pixels.view());
        }();
        ASSERT_FALSE(rows) << tower << ", " << damage.second << ", " << static_cast<int>(precision);
        EXPECT_THAT(rows.error().message, HasSubstr("weights are damaged")) << damage.first;
      }
    }
  }
}

TEST(Int8, RowsAreTheSameForAnyBatchAndThreads) {
  const auto one = load_encoder(golden("clip-gelu"), {.precision = Precision::kInt8, .threads = 1});
  const auto three = load_encoder(golden("clip-gelu"), {.precision = Precision::kInt8, .threads = 3});
  ASSERT_TRUE(one && three);
  EXPECT_EQ((*one)->info().precision, Precision::kInt8);
  const int64_t width = int64_t{3} * (*one)->info().image_height * (*one)->info().image_width;
  Matrix<float> pixels(9, width);
  std::ranges::copy(random_tensor({9, width}, 3).floats(), pixels.data());
  const Matrix<float> all = (*three)->encode_images(pixels.view()).value();
  // The first and last layers are float32. Without AVX-512, oneDNN's float32 sums depend on the row count.
  const double tolerance = nn::multiplies(DType::kBF16) ? 0 : 1e-6;
  for (int64_t i = 0; i < 9; ++i) {
    const Matrix<float> alone = (*one)->encode_images(pixels.view().slice(i, 1)).value();
    for (int64_t c = 0; c < all.columns(); ++c) {
      EXPECT_NEAR(std::as_const(alone).row(0)[static_cast<size_t>(c)],
                  std::as_const(all).row(i)[static_cast<size_t>(c)], tolerance);
    }
  }
}

TEST(Receipt, SaysHowFarRowsAreOff) {
  Matrix<float> rows(200, 2);
  Matrix<float> references(200, 2);
  for (int64_t i = 0; i < 200; ++i) {
    references.row(i)[0] = 1;
    rows.row(i)[0] = 2;
  }
  rows.row(3)[0] = 0;
  rows.row(3)[1] = 1;              // cosine 0
  rows.row(4)[1] = 2;              // 0.7071
  rows.row(5)[0] = std::nanf("");  // -1
  const RowAgreement agreement = agreement_of(rows.view(), references.view());
  EXPECT_EQ(agreement.rows, 200);
  EXPECT_DOUBLE_EQ(agreement.worst, -1);
  EXPECT_NEAR(agreement.first_percentile, std::sqrt(0.5), 1e-6);  // two in 200 are farther off
  EXPECT_NEAR(agreement.mean, (197 + std::sqrt(0.5) - 1) / 200, 1e-6);
  EXPECT_FALSE(keeps_rows({.precision = Precision::kInt8, .pictures = agreement, .texts = {}}));
  EXPECT_TRUE(keeps_rows({}));
}

TEST(Receipt, OfTheStarter) {
  const fs::path starter = fs::path(test::kSourceDir) / "models/starter";
  const auto exact = load_encoder(starter);
  const auto ours = load_encoder(starter, {.precision = Precision::kInt8});
  ASSERT_TRUE(exact && ours);
  const auto receipt = bundled_receipt(**ours, **exact);
  ASSERT_TRUE(receipt) << receipt.error().message;
  EXPECT_EQ(receipt->precision, Precision::kInt8);
  ASSERT_TRUE(receipt->pictures && receipt->texts);
  EXPECT_EQ(receipt->pictures->rows, 32);
  EXPECT_EQ(receipt->texts->rows, 32);
  EXPECT_TRUE(keeps_rows(*receipt)) << dump_json(receipt_json(*receipt), 1);
  EXPECT_LT(receipt->pictures->mean, 1 - 1e-7);
  // The same encoder loses nothing.
  EXPECT_GT(bundled_receipt(**exact, **exact)->pictures->worst, 1 - 1e-6);
}

// The weights of a tower's first queries, keys and values as they are where the stream has two outliers.
void make_outliers(const fs::path& checkpoint, const std::string& tower) {
  edit_weights(checkpoint, [&](nn::TensorMap& tensors) {
    for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
      nn::Tensor& weight = tensors[fmt::format("{}.encoder.layers.0.self_attn.{}.weight", tower, part)];
      weight = weight.clone();
      for (int64_t output = 0; output < weight.size(0); ++output) {
        for (const int64_t input : {3, 7}) weight.data<float>()[output * weight.size(1) + input] /= 35;
      }
    }
  });
}

TEST(Receipt, NamesTheLayersThatAreOfMoreBits) {
  const char* wide = nn::multiplies(DType::kBF16) ? "bf16" : "fp32";
  for (const char* family : {"clip-gelu", "siglip"}) {
    const GoldenCopy copy(family);
    const auto layers = [&](Precision precision) {
      const auto encoder = load_encoder(copy.path(), {.precision = precision});
      const auto exact = load_encoder(copy.path());
      EXPECT_TRUE(encoder && exact);
      return receipt_json(bundled_receipt(**encoder, **exact).value())["wide_layers"];
    };
    EXPECT_EQ(layers(Precision::kInt8),
              Json({{"count", 0}, {"precision", nullptr}, {"names", Json::array()}}));
    make_outliers(copy.path(), "text_model");
    const std::vector<std::string> of_text = {"text_model.encoder.layers.0", "text_model.encoder.layers.1"};
    EXPECT_EQ(layers(Precision::kInt8), Json({{"count", 2}, {"precision", wide}, {"names", of_text}}))
        << family;
    EXPECT_EQ(layers(Precision::kFp32)["count"], 0);
    make_outliers(copy.path(), "vision_model");
    EXPECT_EQ(layers(Precision::kInt8),
              Json({{"count", 5},
                    {"precision", wide},
                    {"names",
                     {"vision_model.embeddings.patch_embedding", "vision_model.encoder.layers.0",
                      "vision_model.encoder.layers.1", of_text[0], of_text[1]}}}))
        << family;
    const auto encoder = load_encoder(copy.path(), {.precision = Precision::kInt8});
    EXPECT_THAT(wide_layers_text((*encoder)->wide_layers()),
                HasSubstr(fmt::format("5 layers in {}, as their inputs have outliers: vision_model.", wide)));
  }
  EXPECT_EQ(wide_layers_text({}), "");
}

TEST(PrecisionChoice, TakesTheFastestThatKeepsTheRows) {
  const auto choice = choose_precision(fs::path(test::kSourceDir) / "models/starter", {});
  ASSERT_TRUE(choice) << choice.error().message;
  ASSERT_EQ(choice->speeds.size(), nn::multiplies(DType::kBF16) ? 3U : 2U);
  for (size_t i = 0; i + 1 < choice->speeds.size(); ++i)
    EXPECT_LE(choice->speeds[i].seconds, choice->speeds[i + 1].seconds);
  EXPECT_GT(choice->speeds.front().seconds, 0);
  size_t place = 0;
  while (choice->speeds[place].precision != choice->taken) ++place;
  // All faster precisions were tried, and had too large an error.
  const bool exact = choice->taken == Precision::kFp32;
  ASSERT_EQ(choice->receipts.size(), exact ? place : place + 1);
  for (size_t i = 0; i < choice->receipts.size(); ++i) {
    EXPECT_EQ(choice->receipts[i].precision, choice->speeds[i].precision);
    EXPECT_EQ(keeps_rows(choice->receipts[i]), i == place);
  }
  EXPECT_THAT(precision_choice_text(*choice), HasSubstr(": milliseconds here for 4 images and 4 texts: "));
}

TEST(PrecisionChoice, TextCountsWhatWasEncoded) {
  PrecisionChoice choice;
  choice.taken = Precision::kInt8;
  choice.speeds = {{Precision::kInt8, 0.0123}, {Precision::kFp32, 0.1}};
  choice.texts = 4;
  EXPECT_EQ(precision_choice_text(choice),
            "precision int8: milliseconds here for 4 texts: int8 12.3, fp32 100.0");
  choice.images = 1;
  EXPECT_EQ(precision_choice_text(choice),
            "precision int8: milliseconds here for 1 image and 4 texts: int8 12.3, fp32 100.0");
}

TEST(PrecisionChoice, IsRememberedForThisCheckpointAndTheseThreads) {
  const fs::path starter = fs::path(test::kSourceDir) / "models/starter";
  const test::TestFolder memory;
  const auto records = [&] {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(memory.path())) found.push_back(entry.path());
    return found;
  };
  const auto first = choose_precision(starter, {.threads = 1}, memory.path());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->remembered, "");
  ASSERT_EQ(records().size(), 1U);

  const auto second = choose_precision(starter, {.threads = 1}, memory.path());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->taken, first->taken);
  EXPECT_TRUE(second->speeds.empty());  // nothing was measured
  EXPECT_EQ(precision_choice_text(*second),
            precision_choice_text(*first) + " (measured before, and remembered)");

  // Another number of threads is another question.
  const auto other = choose_precision(starter, {.threads = 2}, memory.path());
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->remembered, "");
  EXPECT_EQ(records().size(), 2U);

  // A broken record is measured again, and replaced.
  for (const fs::path& path : records()) ASSERT_TRUE(write_file_atomic(path, "{\"precision\": \"int8\"}"));
  const auto again = choose_precision(starter, {.threads = 1}, memory.path());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->remembered, "");
  EXPECT_NE(choose_precision(starter, {.threads = 1}, memory.path())->remembered, "");
}

}  // namespace
}  // namespace saccade
