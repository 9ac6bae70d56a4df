// Tests of ALIGN: the reference's outputs, its scaling rules, and invalid checkpoints.
#include "saccade/model/families/align.h"

#include "saccade/model/architecture.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;

TEST(Align, ConformsInFp32) {
  const auto report = conform(golden("align"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->answers.size(), 3U);
  for (const AnswerCheck& check : report->answers) {
    EXPECT_TRUE(check.max_abs <= 1e-4) << check.name << " " << check.max_abs;
  }
  EXPECT_TRUE(report->ok) << dump_json(conform_json(*report), 1);
}

TEST(Align, ConformsInBf16) {
  SACCADE_NEEDS_BF16();
  ConformOptions options;
  options.encoder.precision = Precision::kBf16;
  const auto report = conform(golden("align"), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok) << dump_json(conform_json(*report), 1);
  for (const AnswerCheck& check : report->answers) {
    if (!check.name.ends_with("embeds")) continue;
    EXPECT_TRUE(check.cosine > 0.999) << check.name << " " << check.cosine;
  }
}

// The golden's temperature is 1, which would hide mistakes, so another one is tested.
TEST(Align, LogitsAreDividedByTheTemperature) {
  const GoldenCopy copy("align");
  copy.edit_tensors("model.safetensors",
                    [](nn::TensorMap& tensors) { tensors["temperature"] = nn::Tensor::full({}, 0.05F); });
  const auto encoder = load_architecture(copy.path(), {});
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_NEAR((*encoder)->info().logit_scale, 20, 1e-4);
  const auto file = SafeTensors::open(golden("align") / "io.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  nn::TensorMap answers = (*encoder)->answers(nn::borrow_tensors(*file).value()).value();
  const nn::Tensor expected = nn::row_products(answers["text_embeds"], answers["image_embeds"]) * 20;
  EXPECT_LT(max_difference(answers["logits_per_text"], expected), 1e-4);
}

TEST(Align, RowsDoNotDependOnBatchOrPadding) {
  const GoldenCopy copy("align");
  const fs::path& folder = copy.path();
  write_text(
      folder / "preprocessor_config.json",
      R"({"do_resize": true, "size": {"height": 78, "width": 78}, "resample": 2, "do_center_crop": true,
                 "crop_size": {"height": 65, "width": 65}, "do_rescale": true, "rescale_factor": 0.00784313725490196,
                 "rescale_offset": true, "do_normalize": false, "include_top": false,
                 "image_processor_type": "EfficientNetImageProcessor"})");
  auto encoder = load_encoder(folder);
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_EQ((*encoder)->info().image_width, 65);
  const Preprocessing& preprocessing = (*encoder)->preprocessing();
  EXPECT_EQ(preprocessing.resize_mode, ResizeMode::kSquash);
  EXPECT_EQ(preprocessing.filter, ResizeFilter::kBilinear);
  EXPECT_EQ(preprocessing.resize_width, 78);
  EXPECT_EQ(preprocessing.rescale_offset, -1);
  const auto io = SafeTensors::open(golden("align") / "io.safetensors");
  const std::vector<float> pixels = io->find("pixel_values")->to_floats().value();
  const std::vector<float> expected = io->find("image_embeds")->to_floats().value();
  const MatrixView<const float> pictures(pixels.data(), 2, int64_t{3} * 65 * 65);
  const Matrix<float> together = (*encoder)->encode_images(pictures).value();
  for (int64_t i = 0; i < 2; ++i) {
    const Matrix<float> alone = (*encoder)->encode_images(pictures.slice(i, 1)).value();
    for (int64_t c = 0; c < 160; ++c) {
      EXPECT_NEAR(together(i, c), expected[i * 160 + c], 1e-4);
      EXPECT_NEAR(alone(0, c), together(i, c), 1e-5);
    }
  }
  const std::vector<int64_t> ids = io->find("input_ids")->to_int64s().value();
  const std::vector<int64_t> mask = io->find("attention_mask")->to_int64s().value();
  const std::vector<float> rows = io->find("text_embeds")->to_floats().value();
  std::vector<TokenizedText> texts(4);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (mask[i] != 0) texts[i / 20].ids.push_back(static_cast<int32_t>(ids[i]));
  }
  const Matrix<float> ours = (*encoder)->encode_texts(texts).value();
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t c = 0; c < 160; ++c) EXPECT_NEAR(ours(i, c), rows[i * 160 + c], 1e-4);
  }
  EXPECT_EQ((*encoder)->encode_images({pixels.data(), 1, 100}).error().code, ErrorCode::kUsage);
}

// Without a preprocessing file, ALIGN's defaults apply.
TEST(Align, PreprocessingWithoutAFile) {
  auto encoder = load_encoder(golden("align"));
  ASSERT_TRUE(encoder);
  const Preprocessing& preprocessing = (*encoder)->preprocessing();
  EXPECT_EQ(preprocessing.resize_mode, ResizeMode::kSquash);
  EXPECT_EQ(preprocessing.resize_height, 346);
  EXPECT_EQ(preprocessing.output_height(), 289);
  EXPECT_FLOAT_EQ(preprocessing.rescale_factor, 1 / 127.5F);
  EXPECT_EQ(preprocessing.mean, (std::array<float, 3>{0, 0, 0}));
  EXPECT_NEAR((*encoder)->info().logit_scale, 1.0F, 1e-6);
}

// The published model's shapes (EfficientNet-B7 with the defaults), and the rule that rounding removes at
// most a tenth.
TEST(EfficientNetConfig, ScalesAsTheReference) {
  const auto b7 = efficientnet_config_from_hugging_face(Json::object());
  ASSERT_TRUE(b7) << b7.error().message;
  EXPECT_EQ(b7->stem, 64);
  EXPECT_EQ(b7->width(), 640);
  EXPECT_EQ(b7->blocks.size(), 55U);
  EXPECT_EQ(b7->blocks[0].reduced, 16);
  EXPECT_FALSE(b7->blocks[0].adds_input);
  EXPECT_TRUE(b7->blocks[1].adds_input);
  EXPECT_EQ(b7->blocks[4].stride, 2);
  EXPECT_EQ(b7->blocks[5].stride, 1);
  const auto narrow = efficientnet_config_from_hugging_face({{"width_coefficient", 0.51}});
  ASSERT_TRUE(narrow);
  EXPECT_EQ(narrow->blocks.front().in, 16);
  EXPECT_EQ(narrow->blocks.back().out, 160);
  const auto odd = efficientnet_config_from_hugging_face(
      {{"width_coefficient", 1.0}, {"depth_divisor", 20}, {"depth_coefficient", 1.0}});
  ASSERT_TRUE(odd) << odd.error().message;
  EXPECT_EQ(odd->stem, 40);           // 32 + 10 is 2 twenties
  EXPECT_EQ(odd->blocks[0].out, 20);  // 16 + 10 is 1
  EXPECT_EQ(odd->blocks[1].out, 40);  // 24 + 10 is 1, and 20 is less than 0.9 * 24: 2
}

TEST(Align, EveryDamageIsNamed) {
  const auto vision = [](const char* key, Json value) {
    return [=](const fs::path& f) { edit_config(f, [&](Json& c) { c["vision_config"][key] = value; }); };
  };
  const auto weights = [](std::function<void(nn::TensorMap&)> change) {
    return [=](const fs::path& f) { edit_weights(f, change); };
  };
  expect_refused(
      "align",
      {{"activation", vision("hidden_act", "mish"), "vision_config: \"hidden_act\": activation \"mish\""},
       {"pooling", vision("pooling_type", "attention"), "\"pooling_type\" is \"attention\""},
       {"even kernel", vision("kernel_sizes", {3, 3, 4, 3, 5, 5, 3}), "\"kernel_sizes\" has 4: not odd"},
       {"stride", vision("strides", {1, 2, 3, 2, 1, 2, 1}), "\"strides\" has 3, expected 1 to 2"},
       {"list too short", vision("expand_ratios", {1, 6}),
        "\"expand_ratios\" has 2 entries, \"in_channels\" 7"},
       {"stages that do not meet", vision("in_channels", {32, 16, 40, 40, 80, 112, 192}),
        "\"in_channels\": stage 2 takes 24 channels, the one before gives 16"},
       {"depth", vision("depth_coefficient", 1e9), "\"depth_coefficient\" is 1000000000"},
       {"eps", vision("batch_norm_eps", 0), "\"batch_norm_eps\" is 0"},
       {"channels", vision("num_channels", 4), "\"num_channels\" is 4, not 3"},
       {"width", vision("width_coefficient", 0.6), "the image tower is 192 wide"},
       {"more blocks", vision("depth_coefficient", 0.9), "the config asks for"},
       {"projection", [](const fs::path& f) { edit_config(f, [](Json& c) { c["projection_dim"] = 161; }); },
        "\"projection_dim\" is 161, the image tower is 160 wide"},
       {"text",
        [](const fs::path& f) { edit_config(f, [](Json& c) { c["text_config"]["hidden_act"] = "mish"; }); },
        "text_config: \"hidden_act\": activation \"mish\""},
       {"section", [](const fs::path& f) { edit_config(f, [](Json& c) { c["text_config"] = 3; }); },
        "\"text_config\" is a number, not an object"},
       {"missing tensor", weights([](nn::TensorMap& t) {
          t.erase("vision_model.encoder.blocks.3.squeeze_excite.reduce.bias");
        }),
        "tensor vision_model.encoder.blocks.3.squeeze_excite.reduce.bias of shape"},
       {"extra tensor",
        weights([](nn::TensorMap& t) { t["vision_model.head.weight"] = nn::Tensor::full({2}, 1); }),
        "tensor vision_model.head.weight of shape [2] has no place"},
       {"wrong shape", weights([](nn::TensorMap& t) {
          t["vision_model.embeddings.convolution.weight"] = nn::Tensor::full({16, 3, 5, 5}, 1);
        }),
        "tensor vision_model.embeddings.convolution.weight has shape [16, 3, 5, 5]"},
       {"temperature", weights([](nn::TensorMap& t) { t["temperature"] = nn::Tensor::zeros({}); }),
        "tensor temperature is 0"},
       {"pictures too large",
        [](const fs::path& f) {
          write_text(f / "preprocessor_config.json",
                     R"({"size": {"height": 5000, "width": 5000}, "do_center_crop": false, "resample": 2})");
        },
        "5000"}});
}

}  // namespace
}  // namespace saccade
