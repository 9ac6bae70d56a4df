// Tests of BERT: the reference's outputs, and invalid checkpoints.
#include "saccade/model/towers/bert.h"

#include <cmath>

#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;

TEST(Bert, ConformsInFp32) {
  const auto report = conform(golden("bert"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->answers.size(), 3U);
  for (const AnswerCheck& check : report->answers) {
    EXPECT_TRUE(check.max_abs <= 1e-4) << check.name << " " << check.max_abs;
  }
  EXPECT_TRUE(report->ok) << dump_json(conform_json(*report), 1);
}

TEST(Bert, ConformsInBf16) {
  SACCADE_NEEDS_BF16();
  ConformOptions options;
  options.encoder.precision = Precision::kBf16;
  const auto report = conform(golden("bert"), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok) << dump_json(conform_json(*report), 1);
  for (const AnswerCheck& check : report->answers) {
    EXPECT_TRUE(check.cosine > 0.999) << check.name << " " << check.cosine;
  }
}

// The golden's texts without their padding.
std::vector<TokenizedText> golden_texts(const SafeTensors& io) {
  const std::vector<int64_t> ids = io.find("input_ids")->to_int64s().value();
  const std::vector<int64_t> mask = io.find("attention_mask")->to_int64s().value();
  std::vector<TokenizedText> texts(4);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (mask[i] != 0) texts[i / 20].ids.push_back(static_cast<int32_t>(ids[i]));
  }
  return texts;
}

TEST(Bert, ClassifiesTextsOfAnyLengths) {
  auto encoder = load_encoder(golden("bert"));
  ASSERT_TRUE(encoder) << encoder.error().message;
  const auto io = SafeTensors::open(golden("bert") / "io.safetensors");
  ASSERT_TRUE(io);
  const std::vector<TokenizedText> texts = golden_texts(*io);
  const std::vector<float> logits = io->find("logits")->to_floats().value();
  const std::vector<float> states = io->find("last_hidden_state")->to_floats().value();
  TextClassifier* classifier = (*encoder)->text_classifier();
  ASSERT_NE(classifier, nullptr);
  EXPECT_EQ(classifier->labels(), (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
  const Matrix<float> ours = classifier->classify_texts(texts).value();
  ASSERT_EQ(ours.rows(), 4);
  ASSERT_EQ(ours.columns(), 2);
  const Matrix<float> rows = (*encoder)->encode_texts(texts).value();
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t c = 0; c < 2; ++c) EXPECT_NEAR(ours(i, c), logits[i * 2 + c], 1e-4);
    // A text's embedding is its first token's state, normalized to length 1.
    double length = 0;
    for (int64_t c = 0; c < 48; ++c) length += std::pow(states[i * 20 * 48 + c], 2);
    for (int64_t c = 0; c < 48; ++c) {
      EXPECT_NEAR(rows(i, c), states[i * 20 * 48 + c] / std::sqrt(length), 1e-4);
    }
  }
}

TEST(Bert, AttentionMapsAreTheReferences) {
  auto encoder = load_encoder(golden("bert"));
  ASSERT_TRUE(encoder);
  const auto io = SafeTensors::open(golden("bert") / "io.safetensors");
  const std::vector<TokenizedText> texts = golden_texts(*io);
  const std::vector<float> last = io->find("last_attention")->to_floats().value();
  for (size_t i = 0; i < texts.size(); ++i) {
    const AttentionMaps maps = (*encoder)->text_classifier()->attention_maps(texts[i]).value();
    const auto tokens = static_cast<int64_t>(texts[i].ids.size());
    ASSERT_EQ(maps.layers, 3);
    ASSERT_EQ(maps.heads, 4);
    ASSERT_EQ(maps.tokens, tokens);
    ASSERT_EQ(maps.weights.size(), static_cast<size_t>(3 * 4 * tokens * tokens));
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t q = 0; q < tokens; ++q) {
        for (int64_t k = 0; k < tokens; ++k) {
          EXPECT_NEAR(maps.weights[((2 * 4 + h) * tokens + q) * tokens + k],
                      last[((static_cast<int64_t>(i) * 4 + h) * 20 + q) * 20 + k], 1e-4);
        }
      }
    }
  }
}

TEST(Bert, RefusesWhatItCannotEncode) {
  auto encoder = load_encoder(golden("bert"));
  ASSERT_TRUE(encoder);
  const std::vector<float> pixels(12);
  EXPECT_EQ((*encoder)->encode_images({pixels.data(), 1, 12}).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ((*encoder)->info().image_width, 0);
  const auto refused = [&](std::vector<int32_t> ids) {
    const std::vector<TokenizedText> texts = {{.ids = std::move(ids), .used = 0, .dropped = 0}};
    return (*encoder)->encode_texts(texts).error().code;
  };
  EXPECT_EQ(refused({}), ErrorCode::kUsage);
  EXPECT_EQ(refused(std::vector<int32_t>(41, 1)), ErrorCode::kUsage);
  EXPECT_EQ(refused({2, 200}), ErrorCode::kMismatch);
  EXPECT_EQ(refused({-1}), ErrorCode::kMismatch);
  EXPECT_EQ((*encoder)->encode_texts({})->rows(), 0);
}

// Alternative layouts of the same weights: without the classifier, without the outer name, under the oldest
// names.
TEST(Bert, LayoutsOfTheWeights) {
  const GoldenCopy copy("bert");
  const fs::path& folder = copy.path();
  edit_config(folder, [](Json& c) { c["architectures"] = {"BertModel"}; });
  edit_weights(folder, [](nn::TensorMap& tensors) {
    nn::TensorMap renamed;
    for (const auto& [name, tensor] : tensors) {
      if (name.starts_with("classifier.")) continue;
      std::string other = name.substr(5);  // without "bert."
      if (other.ends_with("LayerNorm.weight")) other.replace(other.size() - 6, 6, "gamma");
      if (other.ends_with("LayerNorm.bias")) other.replace(other.size() - 4, 4, "beta");
      renamed[other] = tensor;
    }
    renamed["cls.predictions.bias"] = nn::Tensor::zeros({200});
    renamed["embeddings.position_ids"] = nn::Tensor::full_integers({1, 40}, 0);
    tensors = std::move(renamed);
  });
  const auto report = conform(folder);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->unknown, std::vector<std::string>{"logits"});  // nothing answers them any more
  EXPECT_EQ(report->answers.size(), 2U);
  for (const AnswerCheck& check : report->answers) EXPECT_TRUE(check.ok) << check.name;
  auto encoder = load_encoder(folder);
  ASSERT_TRUE(encoder);
  EXPECT_EQ((*encoder)->text_classifier(), nullptr);
}

TEST(Bert, TokenTypesCount) {
  const GoldenCopy copy("bert");
  const fs::path& folder = copy.path();
  const auto io = SafeTensors::open(golden("bert") / "io.safetensors");
  const auto answer = [&](const nn::Tensor& types) {
    nn::TensorMap tensors = nn::borrow_tensors(*io).value();
    tensors["token_type_ids"] = types;
    fs::remove(folder / "io.safetensors");
    EXPECT_TRUE(save(folder / "io.safetensors", tensors));
    return conform(folder);
  };
  EXPECT_TRUE(answer(nn::Tensor::full_integers({4, 20}, 0))->ok);
  EXPECT_FALSE(answer(nn::Tensor::full_integers({4, 20}, 1))->ok);
  EXPECT_FALSE(answer(nn::Tensor::full_integers({4, 20}, 2)));
  EXPECT_FALSE(answer(nn::Tensor::full_integers({4, 19}, 0)));
}

TEST(Bert, EveryDamageIsNamed) {
  const auto config = [](const char* key, Json value) {
    return [=](const fs::path& f) { edit_config(f, [&](Json& c) { c[key] = value; }); };
  };
  expect_refused(
      "bert",
      {{"activation", config("hidden_act", "mish"), "\"hidden_act\": activation \"mish\" is not known"},
       {"heads", config("num_attention_heads", 5), "\"hidden_size\" 48 is not a multiple of 5 heads"},
       {"no layers", config("num_hidden_layers", 0), "\"num_hidden_layers\" is 0"},
       {"text", config("hidden_size", "wide"), "\"hidden_size\" is a string"},
       {"eps", config("layer_norm_eps", 2.0), "\"layer_norm_eps\" is 2"},
       {"relative positions", config("position_embedding_type", "relative_key"),
        "\"position_embedding_type\": \"relative_key\" is not supported"},
       {"decoder", config("is_decoder", true), "\"is_decoder\": true is not supported"},
       {"vocabulary", config("vocab_size", 199),
        "tensor bert.embeddings.word_embeddings.weight has shape [200, 48], the config asks for [199, 48]"},
       {"more layers", config("num_hidden_layers", 4),
        "tensor bert.encoder.layer.3.attention.self.query.weight of shape [48, 48] is missing"},
       {"fewer layers", config("num_hidden_layers", 2),
        "tensor bert.encoder.layer.2.attention.output.LayerNorm.bias of shape [48] has no place"},
       {"labels", config("id2label", Json{{"0", "no"}, {"1", "maybe"}, {"2", "yes"}}),
        "tensor classifier.weight has shape [2, 48], the config asks for [3, 48]"},
       {"label names", config("id2label", Json{{"0", "no"}, {"7", "yes"}}), "\"id2label\": \"1\" is missing"},
       {"other head", config("architectures", Json{"BertForTokenClassification"}),
        "tensor classifier.bias of shape [2] has no place"},
       {"no pooler",
        [](const fs::path& f) {
          edit_weights(f, [](nn::TensorMap& t) { t.erase("bert.pooler.dense.weight"); });
        },
        "tensor bert.pooler.dense.weight of shape [48, 48] is missing"}});
}

}  // namespace
}  // namespace saccade
