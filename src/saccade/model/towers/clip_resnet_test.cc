// Tests of CLIP with a ResNet, in OpenCLIP's layout (torch.save) and in OpenAI's (a TorchScript archive in
// float16), against a reference in plain PyTorch (tools/reference/clip_resnet.py).
#include "saccade/model/towers/clip_resnet.h"

#include <gmock/gmock.h>

#include "saccade/model/conform/conform.h"
#include "saccade/model/families/clip.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;
using testing::HasSubstr;

ConformOptions bf16() {
  ConformOptions options;
  options.encoder.precision = Precision::kBf16;
  return options;
}

TEST(ClipResNet, Conforms) {
  const auto report = conform(golden("clip-resnet"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->answers.size(), 7U);
  EXPECT_TRUE(report->unknown.empty());
  for (const AnswerCheck& check : report->answers) {
    EXPECT_TRUE(check.max_abs <= 1e-4) << check.name << " " << check.max_abs;
  }
}

TEST(ClipResNet, ConformsInBf16) {
  SACCADE_NEEDS_BF16();
  const auto report = conform(golden("clip-resnet"), bf16());
  ASSERT_TRUE(report) << report.error().message;
  for (const AnswerCheck& check : report->answers) {
    if (check.name.starts_with("logits")) continue;
    if (!check.name.ends_with("embeds")) continue;  // places of four channels have directions of their own
    EXPECT_TRUE(check.cosine > 0.999) << check.name << " " << check.cosine;
    EXPECT_TRUE(std::abs(check.norm_ratio - 1) < 0.01) << check.name << " " << check.norm_ratio;
  }
}

// The same weights as OpenAI publishes them: no config, all shapes from the tensors.
TEST(ClipResNet, ReadsOpenAisArchive) {
  const GoldenCopy copy("clip-resnet-openai");
  const fs::path& folder = copy.path();
  fs::copy(golden("clip-resnet") / "io.safetensors", folder / "io.safetensors");
  const auto report = conform(folder);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->answers.size(), 7U);
  for (const AnswerCheck& check : report->answers) {
    EXPECT_TRUE(check.max_abs <= 1e-4) << check.name << " " << check.max_abs;
  }
  const auto encoder = load_encoder(folder);
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_EQ((*encoder)->info().layout, "openai");
  EXPECT_EQ((*encoder)->info().image_height, 64);
  EXPECT_EQ((*encoder)->info().context, 12);
}

TEST(ClipResNet, RowsDoNotDependOnTheBatch) {
  auto encoder = load_encoder(golden("clip-resnet"));
  ASSERT_TRUE(encoder) << encoder.error().message;
  const auto io = SafeTensors::open(golden("clip-resnet") / "io.safetensors");
  const std::vector<float> pixels = io->find("pixel_values")->to_floats().value();
  const MatrixView<const float> pictures(pixels.data(), 3, 3 * 64 * 64);
  const Matrix<float> together = (*encoder)->encode_images(pictures).value();
  for (int64_t i = 0; i < 3; ++i) {
    const Matrix<float> alone = (*encoder)->encode_images(pictures.slice(i, 1)).value();
    for (int64_t c = 0; c < together.columns(); ++c) EXPECT_NEAR(alone(0, c), together(i, c), 1e-5);
  }
}

TEST(ClipResNet, WhatDoesNotFitIsNamed) {
  const Json json = read(golden("clip-resnet") / "open_clip_config.json");
  const auto message = [&](const char* key, const Json& value) {
    const GoldenCopy copy("clip-resnet");
    const fs::path& folder = copy.path();
    Json changed = json;
    changed["model_cfg"]["vision_cfg"][key] = value;
    write_text(folder / "open_clip_config.json", dump_json(changed));
    const auto encoder = load_encoder(folder);
    return encoder ? std::string("good") : encoder.error().message;
  };
  EXPECT_EQ(message("head_width", 32), "good");
  EXPECT_THAT(message("layers", Json{1, 2, 2, 1}), HasSubstr("tensor visual.layer3.1.conv1.weight of shape"));
  EXPECT_THAT(message("layers", Json{1, 1, 1, 1}), HasSubstr("tensor visual.layer2.1.bn1.bias"));
  EXPECT_THAT(message("layers", Json{1, 2, 1}), HasSubstr("a ResNet of 3 stages, expected 4"));
  EXPECT_THAT(message("layers", Json{1, 2, 0, 1}), HasSubstr("a stage of 0 blocks"));
  EXPECT_THAT(message("layers", Json{1, "2", 1, 1}), HasSubstr("\"layers\" is a string"));
  EXPECT_THAT(message("width", 8),
              HasSubstr("tensor visual.conv1.weight has shape [2, 3, 3, 3], the config asks"));
  EXPECT_THAT(message("width", 5), HasSubstr("it must be even"));
  EXPECT_THAT(message("image_size", 100), HasSubstr("image size 100 is not a multiple of patch size 32"));
  EXPECT_THAT(message("image_size", 96),
              HasSubstr("tensor visual.attnpool.positional_embedding has shape [5, 128]"));
  EXPECT_THAT(message("head_width", 0), HasSubstr("\"head_width\" is 0"));
}

// Two candidate weight files; a file that is not one; both kinds of weights.
TEST(TorchCheckpoint, WeightsAreFoundOrNamed) {
  const GoldenCopy copy("clip-resnet-openai");
  const fs::path& folder = copy.path();
  fs::copy(folder / "model.pt", folder / "other.pth");
  EXPECT_THAT(load_encoder(folder).error().message,
              HasSubstr("model.pt and other.pth could both be the weights"));
  fs::remove(folder / "other.pth");
  const std::string one = checkpoint_fingerprint(folder).value();
  fs::copy(golden("torch_files") / "module.pt", folder / "model.pt", fs::copy_options::overwrite_existing);
  EXPECT_NE(checkpoint_fingerprint(folder).value(), one);
  EXPECT_THAT(load_encoder(folder).error().message, HasSubstr("global __main__.Tree is refused"));

  const GoldenCopy both("clip-resnet");
  const fs::path& preferred = both.path();
  write_text(preferred / "open_clip_model.safetensors", "not safetensors");
  EXPECT_THAT(load_encoder(preferred).error().message, HasSubstr("open_clip_model.safetensors"));
}

TEST(TorchCheckpoint, ReadsShards) {
  const GoldenCopy copy("clip-resnet");
  const fs::path& folder = copy.path();
  fs::rename(folder / "open_clip_pytorch_model.bin", folder / "part.bin");
  write_text(folder / "open_clip_pytorch_model.bin.index.json",
             R"({"weight_map": {"logit_scale": "part.bin"}})");
  const auto report = conform(folder);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok);
}

}  // namespace
}  // namespace saccade
