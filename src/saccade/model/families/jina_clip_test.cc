// Tests of Jina-CLIP v1 against a reference in plain PyTorch (tools/reference/jina_clip.py), and with invalid
// checkpoints.
#include "saccade/model/families/jina_clip.h"

#include <cmath>

#include <gmock/gmock.h>

#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;
using testing::HasSubstr;

class JinaGolden : public testing::TestWithParam<std::string> {};

TEST_P(JinaGolden, Conforms) {
  expect_conforms_in_fp32(GetParam(), 7);
}

TEST_P(JinaGolden, ConformsInBf16) {
  SACCADE_NEEDS_BF16();
  expect_conforms_in_bf16(GetParam());
}

INSTANTIATE_TEST_SUITE_P(JinaClip, JinaGolden, testing::Values("jina-clip", "jina-clip-fused"),
                         [](const auto& test) {
                           return std::string(test.param == "jina-clip" ? "published" : "fused");
                         });

// Press et al. 2021: 8 heads 1/2 ... 1/256; 12 heads as the paper's code continues them.
TEST(JinaClip, SlopesFollowTheHeads) {
  const auto expect = [](int64_t heads, const std::vector<double>& exponents) {
    const nn::Tensor slopes = alibi_slopes(heads);
    ASSERT_EQ(slopes.numel(), static_cast<int64_t>(exponents.size()));
    for (size_t i = 0; i < exponents.size(); ++i) {
      EXPECT_NEAR(std::log2(slopes[static_cast<int64_t>(i)].item()), -exponents[i], 1e-6) << heads;
    }
  };
  expect(1, {8});
  expect(8, {1, 2, 3, 4, 5, 6, 7, 8});
  expect(12, {1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5});
}

TEST(JinaClip, TextsDoNotDependOnPadding) {
  auto encoder = load_encoder(golden("jina-clip"));
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_EQ((*encoder)->info().context, 512);
  const auto io = SafeTensors::open(golden("jina-clip") / "io.safetensors");
  const std::vector<int64_t> ids = io->find("input_ids")->to_int64s().value();
  const std::vector<float> expected = io->find("text_embeds")->to_floats().value();
  std::vector<TokenizedText> texts(4);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t t = 0; t < 14 && ids[i * 14 + t] != 0; ++t) {
      texts[i].ids.push_back(static_cast<int32_t>(ids[i * 14 + t]));
    }
  }
  const Matrix<float> together = (*encoder)->encode_texts(texts).value();
  for (size_t i = 0; i < 4; ++i) {
    const Matrix<float> alone = (*encoder)->encode_texts(std::span(texts).subspan(i, 1)).value();
    for (int64_t c = 0; c < 48; ++c) {
      EXPECT_NEAR(together(static_cast<int64_t>(i), c), expected[i * 48 + static_cast<size_t>(c)], 1e-4);
      EXPECT_NEAR(alone(0, c), together(static_cast<int64_t>(i), c), 1e-5);
    }
  }
}

// Jina-CLIP uses BERT's word pieces; here BERT's golden tokenizer is combined with the golden weights.
TEST(JinaClip, TextsGoThroughTheFoldersTokenizer) {
  const GoldenCopy copy("jina-clip");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "vocab.txt"}) {
    fs::copy(golden("tokenizers/bert") / name, copy.path() / name);
  }
  EXPECT_THAT(load_encoder(copy.path()).error().message, HasSubstr("the tokenizer has 389 tokens, tensor "));

  copy.edit_tensors("model.safetensors", [](nn::TensorMap& tensors) {
    nn::Tensor& table = tensors.at("text_model.transformer.embeddings.word_embeddings.weight");
    table = nn::cat({table, nn::Tensor::full({389 - table.size(0), table.size(1)}, 1)});
  });
  const auto encoder = load_encoder(copy.path());
  ASSERT_TRUE(encoder) << encoder.error().message;
  const int context = static_cast<int>((*encoder)->info().context);
  std::vector<TokenizedText> texts;
  const Json cases = read(golden("tokenizers/bert.json"))["cases"];
  for (const Json& known : cases) {
    texts.push_back((*encoder)->tokenizer()->encode(known["text"].get<std::string>(), context));
    EXPECT_EQ(texts.back().ids, known["ids"].get<std::vector<int32_t>>()) << known["text"];
  }
  // Each text's embedding equals that of its ids alone, with the shortest (empty) and the longest in one
  // batch.
  const Matrix<float> together = (*encoder)->encode_texts(texts).value();
  for (size_t i = 0; i < texts.size(); ++i) {
    const Matrix<float> alone = (*encoder)->encode_texts(std::span(texts).subspan(i, 1)).value();
    for (int64_t c = 0; c < together.columns(); ++c) {
      EXPECT_NEAR(together(static_cast<int64_t>(i), c), alone(0, c), 1e-5) << i;
    }
  }
  const TokenizedText cut = (*encoder)->tokenizer()->encode(std::string(20'000, 'a') + " cat", 16);
  EXPECT_LE(cut.ids.size(), 16U);
}

TEST(JinaClip, PreprocessesAsItsFileSays) {
  const auto encoder = load_encoder(golden("jina-clip"));
  ASSERT_TRUE(encoder) << encoder.error().message;
  const Preprocessing& p = (*encoder)->preprocessing();
  EXPECT_EQ(p.resize_mode, ResizeMode::kShortestEdge);
  EXPECT_EQ(p.filter, ResizeFilter::kBicubic);
  EXPECT_EQ(p.rgb_order, RgbOrder::kBeforeResize);
  EXPECT_EQ(p.output_height(), 32);
  EXPECT_FLOAT_EQ(p.mean[0], 0.48145466F);
}

TEST(JinaClip, EveryDamageIsNamed) {
  const auto vision = [](const char* key, const Json& value) {
    return [=](const fs::path& f) { edit_config(f, [&](Json& c) { c["vision_config"][key] = value; }); };
  };
  const auto text = [](const char* key, const Json& value) {
    return [=](const fs::path& f) { edit_config(f, [&](Json& c) { c["text_config"][key] = value; }); };
  };
  const auto tensors = [](const std::function<void(nn::TensorMap&)>& change) {
    return [=](const fs::path& f) { edit_weights(f, change); };
  };
  expect_refused(
      "jina-clip",
      {{"layer scale", vision("ls_init_value", 1e-5),
        "vision_config \"ls_init_value\" is 1e-05, known is null"},
       {"post norm", vision("post_norm", true), "\"post_norm\" is true"},
       {"no rotary positions to spread", vision("intp_freq", false),
        "rotary positions for 16 rows of patches"},
       {"odd heads", vision("head_width", 6), "rotary positions take a multiple of 4"},
       {"no head", vision("head_width", 0), "head_width is 0"},
       {"another width", vision("mlp_ratio", 2),
        "tensor vision_model.blocks.0.mlp.w1.weight has shape [128, 48], the"},
       {"huge picture", vision("image_size", 1 << 20), "image size is 1048576"},
       {"pooler", text("pooler_type", "cls_pooler"),
        "\"pooler_type\" is \"cls_pooler\", known is mean_pooler"},
       {"text projection", text("proj_type", "mlp"), "\"proj_type\" is \"mlp\""},
       {"switch", text("hf_model_config_kwargs", Json{{"window_size", 5}}),
        "\"window_size\" is not known here"},
       {"activation", text("hf_model_config_kwargs", Json{{"hidden_act", "relu"}}),
        "\"hidden_act\" is \"relu\""},
       {"heads", text("hf_model_config_kwargs", Json{{"num_attention_heads", 5}}),
        "not a multiple of 5 heads"},
       {"no kwargs", text("hf_model_config_kwargs", 3), "\"hf_model_config_kwargs\" is a number"},
       {"no text", [](const fs::path& f) { edit_config(f, [](Json& c) { c.erase("text_config"); }); },
        "\"text_config\" is missing"},
       {"missing tensor", tensors([](nn::TensorMap& t) { t.erase("vision_model.blocks.1.attn.v_bias"); }),
        "tensor vision_model.blocks.1.attn.v_bias of shape [48] is missing"},
       {"another text tower", tensors([](nn::TensorMap& t) {
          t.erase("text_model.transformer.encoder.layers.0.mlp.gated_layers.weight");
        }),
        "a text tower (\"jinaai/jina-bert-flash-implementation\") other than JinaBERT with gated MLPs"},
       {"extra tensor", tensors([](nn::TensorMap& t) {
          t["text_model.transformer.encoder.layers.0.mixer.layer_norm_q.weight"] = nn::Tensor::full({48}, 1);
        }),
        "mixer.layer_norm_q.weight of shape [48] has no place in this model"},
       {"integers", tensors([](nn::TensorMap& t) { t["logit_scale"] = nn::Tensor::full_integers({}, 1); }),
        "tensor logit_scale has dtype I64"},
       {"image size",
        [](const fs::path& f) { write_text(f / "preprocessor_config.json", R"({"size": 24})"); },
        "24 x 24, the model takes 32 x 32"}});
}

// Buffers of some versions of the published code are ignored.
TEST(JinaClip, KnownBuffersArePassedOver) {
  const GoldenCopy copy("jina-clip");
  const fs::path& folder = copy.path();
  edit_weights(folder, [](nn::TensorMap& tensors) {
    tensors["vision_model.rope.freqs_cos"] = nn::Tensor::full({16, 16}, 1);
    tensors["vision_model.blocks.0.attn.rope.freqs_sin"] = nn::Tensor::full({16, 16}, 1);
    tensors["text_model.transformer.pooler.dense.weight"] = nn::Tensor::full({48, 48}, 1);
  });
  EXPECT_TRUE(load_encoder(folder));
}

}  // namespace
}  // namespace saccade
