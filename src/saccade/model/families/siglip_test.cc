// Tests of the SigLIP family: the reference's outputs, and invalid checkpoints.
#include "saccade/model/families/siglip.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/model/architecture.h"
#include "saccade/model/conform/conform.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;
using testing::HasSubstr;

class SiglipGolden : public testing::TestWithParam<std::string> {};

TEST_P(SiglipGolden, ConformsInFp32) {
  expect_conforms_in_fp32(GetParam(), 5);
}

TEST_P(SiglipGolden, ConformsInBf16) {
  SACCADE_NEEDS_BF16();
  expect_conforms_in_bf16(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Siglip, SiglipGolden, testing::Values("siglip", "open_clip-siglip"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The golden's scale is 1 and its bias 0, which would hide mistakes, so others are tested.
TEST(Siglip, LogitsAreScaledAndShifted) {
  const GoldenCopy copy("siglip");
  copy.edit_tensors("model.safetensors", [](nn::TensorMap& tensors) {
    tensors["logit_scale"] = nn::Tensor::full({1}, std::log(20.0F));
    tensors["logit_bias"] = nn::Tensor::full({1}, -10.0F);
  });
  const auto encoder = load_architecture(copy.path(), {});
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_NEAR((*encoder)->info().logit_scale, 20, 1e-4);
  const auto file = SafeTensors::open(golden("siglip") / "io.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  nn::TensorMap answers = (*encoder)->answers(nn::borrow_tensors(*file).value()).value();
  const nn::Tensor expected =
      nn::row_products(answers["image_embeds"], answers["text_embeds"]) * 20 + nn::Tensor::full({}, -10);
  EXPECT_LT(max_difference(answers["logits_per_image"], expected), 1e-4);
  EXPECT_EQ(max_difference(answers["logits_per_text"], answers["logits_per_image"].t()), 0);
}

// OpenCLIP computes GELU by erf unless timm's name or its own config says otherwise. SigLIP's own GELU gives
// other results.
TEST(OpenClipSiglip, ActivationsAreWhatTheConfigSays) {
  const GoldenCopy copy("open_clip-siglip");
  copy.edit_json("open_clip_config.json",
                 [](Json& json) { json["model_cfg"]["text_cfg"].erase("act_kwargs"); });
  const auto text = conform(copy.path());
  ASSERT_TRUE(text) << text.error().message;
  copy.edit_json("open_clip_config.json", [](Json& json) {
    json["model_cfg"]["vision_cfg"]["timm_model_name"] = "vit_base_patch16_siglip_224";
  });
  const auto both = conform(copy.path());
  ASSERT_TRUE(both) << both.error().message;
  const auto max_abs = [](const ConformReport& report, std::string_view name) {
    for (const AnswerCheck& check : report.answers) {
      if (check.name == name) return check.max_abs;
    }
    return -1.0;
  };
  EXPECT_GT(max_abs(*text, "text_last_hidden_state"), 1e-4);
  EXPECT_LT(max_abs(*text, "vision_last_hidden_state"), 1e-4);
  EXPECT_GT(max_abs(*both, "vision_last_hidden_state"), 1e-4);
}

// With the tokenizer of its make: ids below the tiny model's vocabulary of 200 are all that is needed here.
void add_tokenizer(const GoldenCopy& copy) {
  fs::copy(golden("tokenizers/sentencepiece/unigram.model"), copy.path() / "spiece.model");
}

TEST(Siglip, TextsArePaddedToTheContext) {
  auto encoder = load_encoder(golden("siglip"));
  ASSERT_TRUE(encoder) << encoder.error().message;
  const auto io = SafeTensors::open(golden("siglip") / "io.safetensors");
  const std::vector<int64_t> ids = io->find("input_ids")->to_int64s().value();
  const std::vector<float> expected = io->find("text_embeds")->to_floats().value();
  std::vector<TokenizedText> texts(4);
  for (size_t i = 0; i < 4; ++i) {
    texts[i].ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(16 * i),
                        ids.begin() + static_cast<std::ptrdiff_t>(16 * (i + 1)));
    // The encoder adds the padding again.
    while (texts[i].ids.size() > 1 && texts[i].ids.back() == 1) texts[i].ids.pop_back();
  }
  const Matrix<float> together = (*encoder)->encode_texts(texts).value();
  for (size_t i = 0; i < 4; ++i) {
    const Matrix<float> alone = (*encoder)->encode_texts(std::span(texts).subspan(i, 1)).value();
    double length = 0;
    for (int64_t c = 0; c < together.columns(); ++c) {
      const auto row = static_cast<int64_t>(i);
      EXPECT_NEAR(together(row, c), expected[i * 48 + static_cast<size_t>(c)], 1e-4);
      EXPECT_NEAR(together(row, c), alone(0, c), 1e-5);
      length += static_cast<double>(alone(0, c)) * alone(0, c);
    }
    EXPECT_NEAR(length, 1, 1e-5);
  }
}

TEST(Siglip, TokenizerAndConfigMustAgree) {
  const GoldenCopy copy("siglip");
  add_tokenizer(copy);
  EXPECT_THAT(load_encoder(copy.path()).error().message,
              HasSubstr("the tokenizer has 335 tokens, tensor text_model.embeddings.token_embedding.weight "
                        "has 200 rows, for 73 to 200 tokens"));

  const auto enlarge = [](const GoldenCopy& folder) {
    folder.edit_json("config.json", [](Json& json) { json["text_config"]["vocab_size"] = 335; });
    folder.edit_tensors("model.safetensors", [](nn::TensorMap& tensors) {
      nn::Tensor& table = tensors["text_model.embeddings.token_embedding.weight"];
      table = nn::cat({table, nn::Tensor::zeros({135, 48})});
    });
  };
  enlarge(copy);
  const auto encoder = load_encoder(copy.path());
  ASSERT_TRUE(encoder) << encoder.error().message;
  // SigLIP's own clean-up is the default: case and punctuation have no effect.
  const Tokenizer& tokenizer = *(*encoder)->tokenizer();
  EXPECT_EQ(tokenizer.encode("A Photo, of a CAT!", 16).ids, tokenizer.encode("a photo of a cat", 16).ids);
  EXPECT_NE(tokenizer.encode("a_photo", 16).ids, tokenizer.encode("a photo", 16).ids);

  // Pipelines by name, which apply to images and texts.
  const auto with = [&](const char* pipeline) {
    copy.write("preprocessor_config.json", dump_json(Json{{"image_processor_type", "SiglipImageProcessor"},
                                                          {"size", {{"height", 64}, {"width", 64}}},
                                                          {"saccade", {{"pipeline", pipeline}}}}));
    return load_encoder(copy.path()).value();
  };
  const auto open_clip = with("open_clip");
  EXPECT_EQ(open_clip->tokenizer()->encode("A_photo.", 16).ids, tokenizer.encode("a photo", 16).ids);
  EXPECT_EQ(open_clip->preprocessing().rgb_order, RgbOrder::kAfterResize);
  const auto big_vision = with("big_vision");
  EXPECT_EQ(big_vision->tokenizer()->encode("CAT", 16).ids, tokenizer.encode("cat", 16).ids);
  EXPECT_NE(big_vision->tokenizer()->encode("cat.", 16).ids, tokenizer.encode("cat.", 16).ids);
  EXPECT_EQ(big_vision->preprocessing().filter, ResizeFilter::kBilinearNoAntialias);
  EXPECT_NE(big_vision->info().fingerprint, open_clip->info().fingerprint);
  fs::remove(copy.path() / "preprocessor_config.json");

  copy.edit_json("config.json", [](Json& json) { json["text_config"]["eos_token_id"] = 7; });
  EXPECT_THAT(load_encoder(copy.path()).error().message,
              HasSubstr("text_config: eos_token_id is 7, the tokenizer's is 1"));
  // Values copied from CLIP's defaults are ignored.
  copy.edit_json("config.json", [](Json& json) { json["text_config"]["eos_token_id"] = 49407; });
  EXPECT_TRUE(load_encoder(copy.path()));
}

// SigLIP 2 is SigLIP with Gemma's vocabulary, as its files specify. The config's special tokens are the
// class's defaults.
TEST(Siglip2, ReadsTextsAndPicturesAsItsFilesSay) {
  const GoldenCopy copy("siglip");
  fs::copy(golden("tokenizers/gemma/tokenizer.json"), copy.path() / "tokenizer.json");
  copy.write("tokenizer_config.json",
             R"({"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>",
                 "pad_token": "<pad>", "add_bos_token": false, "add_eos_token": true, "do_lower_case": true})");
  const Json pictures{{"image_processor_type", "SiglipImageProcessor"},
                      {"size", {{"height", 64}, {"width", 64}}},
                      {"resample", 2}};
  copy.write("preprocessor_config.json", dump_json(pictures));
  copy.edit_json("config.json", [](Json& json) {
    json["text_config"].update(
        {{"vocab_size", 563}, {"bos_token_id", 49406}, {"eos_token_id", 49407}, {"pad_token_id", 1}});
  });
  copy.edit_tensors("model.safetensors", [](nn::TensorMap& tensors) {
    nn::Tensor& table = tensors["text_model.embeddings.token_embedding.weight"];
    table = nn::cat({table, random_tensor({363, 48}, 6)});
  });
  const auto loaded = load_encoder(copy.path());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EncoderBackend& encoder = **loaded;
  EXPECT_EQ(encoder.preprocessing().filter, ResizeFilter::kBilinear);
  EXPECT_EQ(encoder.preprocessing().resize_mode, ResizeMode::kSquash);
  EXPECT_FLOAT_EQ(encoder.preprocessing().mean[0], 0.5F);

  // No start; the end stays when a text is cut. Lower case, punctuation as it is.
  const Tokenizer& tokenizer = *encoder.tokenizer();
  const TokenizedText text = tokenizer.encode("a photo of a cat", 16);
  EXPECT_EQ(text.ids, (std::vector<int32_t>{311, 554, 407, 316, 547, 528, 1}));
  EXPECT_EQ(tokenizer.encode("A Photo of a CAT", 16).ids, text.ids);
  EXPECT_NE(tokenizer.encode("a photo of a cat!", 16).ids, text.ids);
  EXPECT_EQ(tokenizer.encode("A photo of a CAT!", 16).ids, tokenizer.encode("a photo of a cat!", 16).ids);
  EXPECT_EQ(tokenizer.encode("a photo of a cat", 4).ids, (std::vector<int32_t>{311, 554, 407, 1}));
  EXPECT_EQ(tokenizer.pad_id(), 0);

  // Padding up to the context affects the embedding: Gemma's padding id is used, not the config's default.
  const auto filled_with = [&](int32_t id) {
    TokenizedText whole = text;
    whole.ids.resize(static_cast<size_t>(encoder.info().context), id);
    return encoder.encode_texts({&whole, 1}).value();
  };
  const Matrix<float> row = encoder.encode_texts({&text, 1}).value();
  const Matrix<float> zeros = filled_with(0);
  const Matrix<float> ones = filled_with(1);
  float from_ones = 0;
  for (int64_t c = 0; c < row.columns(); ++c) {
    EXPECT_NEAR(row(0, c), zeros(0, c), 1e-6);
    from_ones = std::max(from_ones, std::abs(row(0, c) - ones(0, c)));
  }
  EXPECT_GT(from_ones, 1e-3F);

  // The other pipelines have their own text clean-up and image resizing.
  const auto with = [&](const char* pipeline) {
    Json named = pictures;
    named["saccade"] = {{"pipeline", pipeline}};
    copy.write("preprocessor_config.json", dump_json(named));
    return load_encoder(copy.path()).value();
  };
  const auto open_clip = with("open_clip");
  EXPECT_EQ(open_clip->tokenizer()->encode("A_photo of a CAT!", 16).ids, text.ids);
  EXPECT_EQ(open_clip->tokenizer()->pad_id(), 0);
  const auto big_vision = with("big_vision");
  EXPECT_EQ(big_vision->tokenizer()->encode("A Photo of a CAT", 16).ids, text.ids);
  EXPECT_NE(big_vision->tokenizer()->encode("a photo of a cat!", 16).ids, text.ids);
  EXPECT_EQ(big_vision->preprocessing().filter, ResizeFilter::kBilinearNoAntialias);
}

TEST(OpenClipSiglip, CleansTextsItsOwnWay) {
  const GoldenCopy copy("open_clip-siglip");
  add_tokenizer(copy);
  copy.edit_json("open_clip_config.json", [](Json& json) {
    Json& text = json["model_cfg"]["text_cfg"];
    text["vocab_size"] = 335;
    // As published.
    text["hf_tokenizer_name"] = "timm/ViT-B-16-SigLIP";
    text["tokenizer_kwargs"] = {{"clean", "canonicalize"}};
  });
  copy.edit_tensors("open_clip_model.safetensors", [](nn::TensorMap& tensors) {
    nn::Tensor& table = tensors["text.token_embedding.weight"];
    table = nn::cat({table, nn::Tensor::zeros({135, 48})});
  });
  const auto encoder = load_encoder(copy.path());
  ASSERT_TRUE(encoder) << encoder.error().message;
  const Tokenizer& tokenizer = *(*encoder)->tokenizer();
  EXPECT_EQ(tokenizer.encode("a_photo, of", 16).ids, tokenizer.encode("a photo of", 16).ids);
}

TEST(Siglip, EveryDamageIsNamed) {
  const auto config = [](const std::function<void(Json&)>& change) {
    return [change](const fs::path& folder) { edit_config(folder, change); };
  };
  const auto tensors = [](const std::function<void(nn::TensorMap&)>& change) {
    return [change](const fs::path& folder) { edit_weights(folder, change); };
  };
  const std::vector<Damage> damages = {
      {"activation", config([](Json& c) { c["vision_config"]["hidden_act"] = "swish7"; }),
       "vision_config: activation \"swish7\" is not known"},
      {"heads", config([](Json& c) { c["text_config"]["num_attention_heads"] = 5; }),
       "text width 48 is not a multiple of 5 heads"},
      {"channels", config([](Json& c) { c["vision_config"]["num_channels"] = 4; }),
       "number of channels is 4"},
      {"projection", config([](Json& c) { c["text_config"]["projection_size"] = 32; }),
       "texts become rows of 32, images of 48"},
      {"width", config([](Json& c) { c["vision_config"]["intermediate_size"] = 97; }),
       "has shape [96, 48], the config asks for [97, 48]"},
      {"kind", config([](Json& c) { c["text_config"] = 3; }), "\"text_config\" is a number, not an object"},
      {"missing", tensors([](nn::TensorMap& t) { t.erase("vision_model.head.probe"); }),
       "tensor vision_model.head.probe of shape [1, 1, 48] is missing"},
      {"shape", tensors([](nn::TensorMap& t) { t["logit_bias"] = nn::Tensor::zeros({2}); }),
       "tensor logit_bias has shape [2], the config asks for [1]"},
      {"extra", tensors([](nn::TensorMap& t) { t["adapter"] = nn::Tensor::zeros({2}); }),
       "tensor adapter of shape [2] has no place"},
      {"padding", config([](Json& c) { c["text_config"]["pad_token_id"] = 200; }),
       "padding id 200 is outside the vocabulary of 200"},
      {"pictures",
       [](const fs::path& folder) {
         write_text(
             folder / "preprocessor_config.json",
             R"({"image_processor_type": "SiglipImageProcessor", "size": {"height": 32, "width": 32}})");
       },
       "32 x 32, the model takes 64 x 64"},
  };
  expect_refused("siglip", damages);
}

TEST(OpenClipSiglip, EveryDamageIsNamed) {
  const auto config = [](const std::function<void(Json&)>& change) {
    return [change](const fs::path& folder) {
      edit_json(folder / "open_clip_config.json", [&](Json& json) { change(json["model_cfg"]); });
    };
  };
  const auto tensors = [](const std::function<void(nn::TensorMap&)>& change) {
    return [change](const fs::path& folder) { edit_tensors(folder / "open_clip_model.safetensors", change); };
  };
  const std::vector<Damage> damages = {
      {"tower", config([](Json& c) { c["vision_cfg"]["timm_model_name"] = "resnet50"; }),
       "timm_model_name \"resnet50\" is not known; known: vit_base_patch32_siglip_*"},
      {"pool", config([](Json& c) { c["text_cfg"]["pool_type"] = "argmax"; }),
       "text_cfg \"pool_type\": \"argmax\" is not a switch of SigLIP"},
      {"silent", config([](Json& c) { c["text_cfg"].erase("no_causal_mask"); }),
       "text_cfg has no \"no_causal_mask\", SigLIP's is true"},
      {"switch", config([](Json& c) { c["vision_cfg"]["timm_proj"] = "linear"; }),
       "vision_cfg \"timm_proj\""},
      {"gelu", config([](Json& c) { c["text_cfg"]["act_kwargs"]["approximate"] = "sigmoid"; }),
       "\"approximate\" is \"sigmoid\""},
      {"norm", config([](Json& c) { c["text_cfg"]["norm_kwargs"]["elementwise_affine"] = false; }),
       "norm_kwargs \"elementwise_affine\": false is not a switch of SigLIP"},
      {"norm's kind", config([](Json& c) { c["text_cfg"]["norm_kwargs"] = 1e-6; }),
       "text_cfg: \"norm_kwargs\" is a number, not an object"},
      {"activation", config([](Json& c) { c["text_cfg"]["act_kwargs"]["inplace"] = true; }),
       "act_kwargs \"inplace\": true is not a switch of SigLIP"},
      {"clean-up", config([](Json& c) {
         c["text_cfg"]["tokenizer_kwargs"] = {{"clean", "lower"}};
       }),
       "tokenizer_kwargs \"clean\": \"lower\" is not a switch of SigLIP"},
      {"tokenizer", config([](Json& c) {
         c["text_cfg"]["tokenizer_kwargs"] = {{"strip_sep_token", true}};
       }),
       "tokenizer_kwargs \"strip_sep_token\": true is not a switch of SigLIP"},
      {"tokenizer's mode", config([](Json& c) { c["text_cfg"]["tokenizer_mode"] = "clips"; }),
       "text_cfg \"tokenizer_mode\": \"clips\" is not a switch of SigLIP"},
      {"missing", tensors([](nn::TensorMap& t) { t.erase("visual.trunk.attn_pool.kv.weight"); }),
       "(its tensors by their names in the Hugging Face layout): tensor vision_model.head.attention."
       "in_proj_weight has shape [48, 48]"},
      {"extra", tensors([](nn::TensorMap& t) {
         t["visual.trunk.cls_token"] = nn::Tensor::zeros({1, 1, 48});
       }),
       "tensor visual.trunk.cls_token of shape [1, 1, 48] has no place"},
  };
  expect_refused("open_clip-siglip", damages);
}

}  // namespace
}  // namespace saccade
