// Encoding by libsaccade-torch.so against our own kernels, with libtorch's operators on the processor: the code
// that a GPU runs.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "lab/train/math/torch.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/conform/conform.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/model_test_support.h"

namespace saccade::lab {
namespace {

using test::golden;
using testing::HasSubstr;

struct Tested {
  const char* name;
  int32_t vocabulary;  // its last ids are those of a text's start and end
};
// Checkpoints in the Hugging Face layout (one in shards), in OpenCLIP's, and with Long-CLIP's positions.
constexpr Tested kCheckpoints[] = {{"clip-gelu", 300},           {"clip-quickgelu", 300},
                                   {"clip-legacy-sharded", 120}, {"open_clip-gelu", 300},
                                   {"open_clip-quickgelu", 300}, {"long-clip", 300}};

std::unique_ptr<EncoderBackend> loaded(const std::filesystem::path& checkpoint,
                                       const BackendOptions& options) {
  auto encoder = load_encoder(checkpoint, options);
  EXPECT_TRUE(encoder) << encoder.error().message;
  return encoder ? *std::move(encoder) : nullptr;
}

Matrix<float> random_pixels(const EncoderInfo& info, int64_t images) {
  Matrix<float> pixels(images, int64_t{3} * info.image_height * info.image_width);
  std::ranges::copy(test::random_tensor({images, pixels.columns()}, 11).floats(), pixels.values().begin());
  return pixels;
}

// Texts of different lengths, one of them as long as the encoder reads.
std::vector<TokenizedText> random_texts(const EncoderInfo& info, int64_t texts, int32_t vocabulary = 300) {
  std::mt19937 random(7);
  std::vector<TokenizedText> result(static_cast<size_t>(texts));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t words = i == 0 ? info.context - 2 : static_cast<int64_t>(3 + 2 * i);
    result[i].ids.push_back(vocabulary - 2);
    for (int64_t word = 0; word < words; ++word) {
      result[i].ids.push_back(static_cast<int32_t>(3 + random() % static_cast<uint32_t>(vocabulary - 5)));
    }
    result[i].ids.push_back(vocabulary - 1);
  }
  return result;
}

// Checks direction, length and values of every row. Written so that NaN fails.
void expect_same(const Matrix<float>& rows, const Matrix<float>& expected, double min_cosine,
                 double max_error) {
  ASSERT_EQ(rows.rows(), expected.rows());
  ASSERT_EQ(rows.columns(), expected.columns());
  for (int64_t i = 0; i < rows.rows(); ++i) {
    double dot = 0, ours = 0, theirs = 0, error = 0;
    for (int64_t c = 0; c < rows.columns(); ++c) {
      const double x = rows.row(i)[static_cast<size_t>(c)];
      const double y = expected.row(i)[static_cast<size_t>(c)];
      dot += x * y;
      ours += x * x;
      theirs += y * y;
      error = std::max(error, std::isfinite(x) ? std::abs(x - y) : INFINITY);
    }
    EXPECT_TRUE(dot / std::sqrt(ours * theirs) > min_cosine) << i << ": " << dot / std::sqrt(ours * theirs);
    EXPECT_TRUE(std::abs(std::sqrt(ours / theirs) - 1) < 0.01) << i << ": " << std::sqrt(ours / theirs);
    EXPECT_TRUE(error <= max_error) << i << ": " << error;
  }
}

void expect_same_as_on_the_processor(Precision precision, double min_cosine, double max_error) {
  for (const auto& [name, vocabulary] : kCheckpoints) {
    SCOPED_TRACE(name);
    const auto ours = loaded(golden(name), {.precision = Precision::kFp32});
    const auto theirs = loaded(golden(name), {.precision = precision, .device = "torch-cpu"});
    ASSERT_TRUE(ours && theirs);
    EXPECT_EQ(theirs->info().device, "torch-cpu");
    EXPECT_EQ(theirs->info().precision, precision);
    EXPECT_EQ(theirs->info().fingerprint, ours->info().fingerprint);
    for (const int64_t count : {1, 3}) {
      SCOPED_TRACE(count);
      const Matrix<float> pixels = random_pixels(ours->info(), count);
      const auto images = theirs->encode_images(pixels.view());
      ASSERT_TRUE(images) << images.error().message;
      expect_same(*images, ours->encode_images(pixels.view()).value(), min_cosine, max_error);
      const auto texts = random_texts(ours->info(), count, vocabulary);
      const auto rows = theirs->encode_texts(texts);
      ASSERT_TRUE(rows) << rows.error().message;
      expect_same(*rows, ours->encode_texts(texts).value(), min_cosine, max_error);
    }
  }
}

TEST(TorchLibrary, GivesTheEmbeddingsOfOurKernels) {
  expect_same_as_on_the_processor(Precision::kFp32, 0.9999, 1e-4);
}

TEST(TorchLibrary, Bf16IsCloseToFp32) {
  expect_same_as_on_the_processor(Precision::kBf16, 0.999, 0.05);
}

void expect_same_states(const RowSets& states, const RowSets& expected) {
  EXPECT_EQ(states.begin, expected.begin);
  expect_same(states.rows, expected.rows, 0.9999, 2e-4);
}

TEST(TorchLibrary, GivesTheStatesOfAllTokens) {
  for (const auto& [name, vocabulary] : kCheckpoints) {
    SCOPED_TRACE(name);
    const auto ours = loaded(golden(name), {});
    const auto theirs = loaded(golden(name), {.device = "torch-cpu"});
    ASSERT_TRUE(ours && theirs);
    const Matrix<float> pixels = random_pixels(ours->info(), 3);
    const auto images = theirs->token_states()->image_tokens(pixels.view());
    ASSERT_TRUE(images) << images.error().message;
    expect_same_states(*images, ours->token_states()->image_tokens(pixels.view()).value());
    const auto texts = random_texts(ours->info(), 3, vocabulary);
    const auto words = theirs->token_states()->text_tokens(texts);
    ASSERT_TRUE(words) << words.error().message;
    expect_same_states(*words, ours->token_states()->text_tokens(texts).value());
  }
}

// Against the reference's own outputs. The states between layers are from our kernels in either case.
TEST(TorchLibrary, Conforms) {
  ConformOptions options;
  options.encoder.device = "torch-cpu";
  for (const Tested& tested : kCheckpoints) {
    const auto report = conform(golden(tested.name), options);
    ASSERT_TRUE(report) << tested.name << ": " << report.error().message;
    EXPECT_TRUE(report->ok) << tested.name << " " << dump_json(conform_json(*report), 1);
  }
}

TEST(TorchLibrary, ARowDoesNotDependOnItsBatch) {
  const auto encoder = loaded(golden("clip-gelu"), {.device = "torch-cpu"});
  ASSERT_TRUE(encoder);
  const Matrix<float> pixels = random_pixels(encoder->info(), 3);
  const auto texts = random_texts(encoder->info(), 3);
  const Matrix<float> images = encoder->encode_images(pixels.view()).value();
  const Matrix<float> rows = encoder->encode_texts(texts).value();
  for (int64_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    Matrix<float> image(1, images.columns()), text(1, rows.columns());
    std::ranges::copy(images.row(i), image.values().begin());
    std::ranges::copy(rows.row(i), text.values().begin());
    expect_same(encoder->encode_images(pixels.view().slice(i, 1)).value(), image, 0.9999, 1e-5);
    expect_same(encoder->encode_texts(std::span(texts).subspan(static_cast<size_t>(i), 1)).value(), text,
                0.9999, 1e-5);
  }
}

// The weights come from the tensors that were given: other weights, other embeddings.
TEST(TorchLibrary, ReadsEveryLayer) {
  const auto encoder = loaded(golden("clip-gelu"), {.device = "torch-cpu"});
  ASSERT_TRUE(encoder);
  const Matrix<float> pixels = random_pixels(encoder->info(), 1);
  const auto texts = random_texts(encoder->info(), 1);
  for (const char* part :
       {"vision_model.encoder.layers.1.mlp.fc2.weight", "text_model.encoder.layers.1.mlp.fc2.weight"}) {
    const test::GoldenCopy copy("clip-gelu");
    test::edit_weights(copy.path(), [&](nn::TensorMap& tensors) { tensors.at(part) = tensors.at(part) * 3; });
    const auto changed = loaded(copy.path(), {.device = "torch-cpu"});
    ASSERT_TRUE(changed);
    const bool vision = std::string(part).starts_with("vision");
    const Matrix<float> before =
        vision ? encoder->encode_images(pixels.view()).value() : encoder->encode_texts(texts).value();
    const Matrix<float> after =
        vision ? changed->encode_images(pixels.view()).value() : changed->encode_texts(texts).value();
    double difference = 0;
    for (size_t c = 0; c < before.values().size(); ++c) {
      difference = std::max(difference, std::abs(double{before.values()[c]} - after.values()[c]));
    }
    EXPECT_GT(difference, 1e-3) << part;
  }
}

TEST(TorchLibrary, AMissingGpuIsOneSentence) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a GPU";
  for (const char* device : {"cuda", "cuda:1"}) {
    const auto encoder = load_encoder(golden("clip-gelu"), {.device = device});
    ASSERT_FALSE(encoder);
    EXPECT_EQ(encoder.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(encoder.error().message, HasSubstr(std::string("device ") + device + ": libtorch "));
    EXPECT_THAT(encoder.error().message,
                HasSubstr("finds no GPU: install NVIDIA's driver, and saccade-lab built with"));
    EXPECT_EQ(encoder.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace saccade::lab
