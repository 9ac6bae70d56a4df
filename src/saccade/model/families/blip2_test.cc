// Tests of the BLIP-2 family: the reference's outputs, and contradictory checkpoints.
#include "saccade/model/families/blip2.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "saccade/model/checkpoints/outline.h"
#include "saccade/model/conform/conform.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;
using nn::Tensor;

constexpr int64_t kPixels = 3 * 56 * 56;
constexpr int64_t kQueries = 8;

// Inputs and outputs of a golden, in memory of their own.
struct Answers {
  nn::TensorMap tensors;

  explicit Answers(const std::string& name) {
    const auto file = SafeTensors::open(golden(name) / "io.safetensors");
    const nn::TensorMap borrowed = nn::borrow_tensors(*file).value();
    for (const auto& [key, tensor] : borrowed) tensors[key] = tensor.clone();
  }
  [[nodiscard]] const Tensor& operator[](const std::string& name) const { return tensors.at(name); }
  [[nodiscard]] MatrixView<const float> pictures() const {
    const Tensor& pixels = tensors.at("pixel_values");
    return {pixels.data<float>(), pixels.size(0), kPixels};
  }
  // Returns the texts without masked tokens.
  [[nodiscard]] std::vector<TokenizedText> texts() const {
    std::vector<TokenizedText> result(static_cast<size_t>(tensors.at("input_ids").size(0)));
    for (size_t i = 0; i < result.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      const auto kept = tensors.at("attention_mask")[row].integers();
      const int64_t length = std::accumulate(kept.begin(), kept.end(), int64_t{0});
      for (int64_t t = 0; t < length; ++t) {
        result[i].ids.push_back(static_cast<int32_t>(tensors.at("input_ids").at({row, t})));
      }
    }
    return result;
  }
};

// The mean of rows [n, width], brought to length 1.
Tensor unit_mean(const Tensor& rows) {
  const Tensor mean = nn::mean(rows, 0);
  return mean * (1 / norm_of(mean));
}

class Blip2Golden : public testing::TestWithParam<std::string> {};

TEST_P(Blip2Golden, Conforms) {
  for (const auto precision : {Precision::kFp32, Precision::kBf16}) {
    if (precision == Precision::kBf16 && !nn::multiplies(DType::kBF16)) continue;
    ConformOptions options;
    options.encoder.precision = precision;
    const auto report = conform(golden(GetParam()), options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->answers.size(), GetParam() == "blip2-itm" ? 4U : 3U);
    EXPECT_TRUE(report->ok) << dump_json(conform_json(*report), 1);
    for (const AnswerCheck& check : report->answers) {
      if (precision == Precision::kFp32) {
        EXPECT_TRUE(check.max_abs <= 1e-4) << check.name;
      }
      if (check.name == "itc_logits_per_image")
        continue;  // three nearly equal numbers a row, judged one by one
      EXPECT_TRUE(check.cosine > 0.999) << check.name << " " << check.cosine;
      EXPECT_TRUE(std::abs(check.norm_ratio - 1) < 0.01) << check.name << " " << check.norm_ratio;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Blip2, Blip2Golden, testing::Values("blip2-itm", "blip2-t5"),
                         [](const auto& test) { return test.param.substr(6); });

TEST(Blip2Retrieval, MaxSimOfTheRowsIsTheContrastiveSimilarity) {
  const Answers expected("blip2-itm");
  const auto encoder = load_encoder(golden("blip2-itm"));
  ASSERT_TRUE(encoder) << encoder.error().message;
  LateInteraction* late = (*encoder)->late_interaction();
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(late->patch_rows(), 0);
  EXPECT_EQ(late->patch_columns(), 0);
  EXPECT_TRUE((*encoder)->info().shared_space);
  const RowSets images = late->encode_image_rows(expected.pictures()).value();
  const RowSets texts = late->encode_text_rows(expected.texts()).value();
  EXPECT_EQ(images.begin, (std::vector<int64_t>{0, kQueries, 2 * kQueries, 3 * kQueries}));
  EXPECT_EQ(texts.begin, (std::vector<int64_t>{0, 1, 2, 3}));
  const Matrix<float> dense = (*encoder)->encode_images(expected.pictures()).value();
  const Matrix<float> dense_texts = (*encoder)->encode_texts(expected.texts()).value();
  const int64_t width = images.rows.columns();
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t t = 0; t < 3; ++t) {
      double largest = -2;
      for (int64_t row = images.begin[i]; row < images.begin[i + 1]; ++row) {
        double dot = 0;
        for (int64_t c = 0; c < width; ++c)
          dot += static_cast<double>(images.rows(row, c)) * texts.rows(t, c);
        largest = std::max(largest, dot);
      }
      EXPECT_NEAR(largest, expected["itc_logits_per_image"].at({i, t}), 1e-5);
    }
    // The dense row: the rows' mean, brought to length 1.
    const Tensor mean = unit_mean(expected["image_embeds"][i]);
    for (int64_t c = 0; c < width; ++c) {
      EXPECT_NEAR(dense(i, c), mean.at({c}), 1e-5);
      EXPECT_EQ(dense_texts(i, c), texts.rows(i, c));
    }
  }
}

TEST(Blip2Retrieval, PairScoresAreMatchingLogitPlusSimilarity) {
  const Answers expected("blip2-itm");
  const auto encoder = load_encoder(golden("blip2-itm"));
  ASSERT_TRUE(encoder);
  PairScorer* scorer = (*encoder)->pair_scorer();
  ASSERT_NE(scorer, nullptr);
  const std::vector<TokenizedText> texts = expected.texts();
  const std::vector<float> scores = scorer->score_pairs(expected.pictures(), texts).value();
  ASSERT_EQ(scores.size(), 3U);
  for (int64_t i = 0; i < 3; ++i) {
    const double logit = expected["itm_logits"].at({i, 1});
    const double similarity = expected["itc_logits_per_image"].at({i, i});
    EXPECT_GT(std::abs(similarity), 1e-3);  // or the sum would show nothing
    EXPECT_NEAR(scores[static_cast<size_t>(i)], logit + similarity, 1e-5);
  }
  // All nine pairs of an image and a text: a pair's score does not depend on the rest of the batch.
  const auto ask = [&](const std::vector<std::pair<int64_t, size_t>>& pairs) {
    std::vector<float> pixels;
    std::vector<TokenizedText> chosen;
    for (const auto& [image, text] : pairs) {
      const std::span<const float> row = expected.pictures().row(image);
      pixels.insert(pixels.end(), row.begin(), row.end());
      chosen.push_back(texts[text]);
    }
    return scorer->score_pairs({pixels.data(), static_cast<int64_t>(pairs.size()), kPixels}, chosen).value();
  };
  const std::vector<float> by_image =
      ask({{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}, {2, 0}, {2, 1}, {2, 2}});
  const std::vector<float> by_text =
      ask({{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}, {0, 2}, {1, 2}, {2, 2}});
  for (size_t i = 0; i < 3; ++i) {
    for (size_t t = 0; t < 3; ++t) {
      EXPECT_NEAR(by_image[3 * i + t], by_text[3 * t + i], 1e-5);
      EXPECT_NEAR(by_image[3 * i + t], ask({{static_cast<int64_t>(i), t}})[0], 1e-5);
    }
    EXPECT_NEAR(by_image[4 * i], scores[i], 1e-5);
  }
  // More pairs than fit into one piece, with an image that continues from one to the next.
  std::vector<std::pair<int64_t, size_t>> many(700, {1, 2});
  many.resize(1100, {2, 0});
  const std::vector<float> long_run = ask(many);
  for (const size_t at : {size_t{0}, size_t{350}, size_t{699}}) EXPECT_NEAR(long_run[at], by_image[5], 1e-5);
  for (const size_t at : {size_t{700}, size_t{1099}}) EXPECT_NEAR(long_run[at], by_image[6], 1e-5);
  EXPECT_TRUE(scorer->score_pairs({expected.pictures().data(), 0, kPixels}, {})->empty());
}

TEST(Blip2Frozen, FeaturesAreTheTowersStates) {
  const Answers expected("blip2-t5");
  const auto encoder = load_encoder(golden("blip2-t5"));
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_FALSE((*encoder)->info().shared_space);
  EXPECT_EQ((*encoder)->late_interaction(), nullptr);
  EXPECT_EQ((*encoder)->pair_scorer(), nullptr);
  FrozenFeatures* frozen = (*encoder)->frozen_features();
  ASSERT_NE(frozen, nullptr);
  using State = FrozenFeatures::ImageState;
  EXPECT_EQ(frozen->image_rows(State::kQueries), kQueries);
  EXPECT_EQ(frozen->image_width(State::kPooled), 0);
  EXPECT_EQ(frozen->image_features(expected.pictures(), State::kPooled).error().code, ErrorCode::kUsage);
  using TextState = FrozenFeatures::TextState;
  EXPECT_EQ(frozen->text_features(expected.texts(), TextState::kPooled).error().code, ErrorCode::kUsage);
  const RowSets queries = frozen->image_features(expected.pictures(), State::kQueries).value();
  EXPECT_EQ(queries.begin.back(), 3 * kQueries);
  EXPECT_EQ(queries.rows.columns(), frozen->image_width(State::kQueries));
  const Tensor rows = Tensor::borrow(queries.rows.data(), {3, kQueries, 48}, DType::kF32);
  EXPECT_LT(max_difference(rows, expected["query_output"]), 1e-4);
  const auto weights = SafeTensors::open(golden("blip2-t5") / "model.safetensors");
  const nn::TensorMap tensors = nn::borrow_tensors(*weights).value();
  const Tensor through =
      nn::row_products(expected["query_output"], tensors.at("language_projection.weight")) +
      tensors.at("language_projection.bias");
  const RowSets vision = frozen->image_features(expected.pictures(), State::kVision).value();
  const nn::Shape memory = expected["vision_last_hidden_state"].sizes();
  EXPECT_EQ(frozen->image_rows(State::kVision), memory[1]);
  EXPECT_EQ(frozen->image_width(State::kVision), memory[2]);
  EXPECT_LT(max_difference(Tensor::borrow(vision.rows.data(), memory, DType::kF32),
                           expected["vision_last_hidden_state"]),
            1e-4);
  const RowSets projected = frozen->image_features(expected.pictures(), State::kProjected).value();
  const Tensor ours = Tensor::borrow(projected.rows.data(), {3, kQueries, 48}, DType::kF32);
  EXPECT_LT(max_difference(ours, through), 1e-4);

  const std::vector<TokenizedText> texts = expected.texts();
  const RowSets states = frozen->text_features(texts, TextState::kTokens).value();
  EXPECT_EQ(states.rows.columns(), frozen->text_width(TextState::kTokens));
  const Matrix<float> dense = (*encoder)->encode_texts(texts).value();
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto length = static_cast<int64_t>(texts[i].ids.size());
    ASSERT_EQ(states.begin[i + 1] - states.begin[i], length);
    const Tensor reference = expected["text_encoder_last_hidden_state"][static_cast<int64_t>(i)];
    const Tensor mine =
        Tensor::borrow(states.rows.data() + states.begin[i] * frozen->text_width(TextState::kTokens),
                       {length, 48}, DType::kF32);
    EXPECT_LT(max_difference(mine, reference.slice(0, 0, length)), 1e-4);
    const Tensor mean = unit_mean(reference.slice(0, 0, length));
    for (int64_t c = 0; c < 48; ++c) {
      EXPECT_NEAR(dense(static_cast<int64_t>(i), c), mean.at({c}), 1e-4);
    }
  }
  const Matrix<float> images = (*encoder)->encode_images(expected.pictures()).value();
  const Tensor mean = unit_mean(through[2]);
  for (int64_t c = 0; c < 48; ++c) EXPECT_NEAR(images(2, c), mean.at({c}), 1e-4);
}

// Alternative spellings in files of other years with the same meaning.
TEST(Blip2Config, OtherSpellingsGiveTheSameAnswers) {
  const std::pair<const char*, std::function<void(const fs::path&)>> kSpellings[] = {
      {"the older name for text input",
       [](const fs::path& f) {
         edit_config(f, [](Json& c) {
           c["qformer_config"]["qformer_text_input"] = true;
           c["qformer_config"].erase("use_qformer_text_input");
         });
       }},
      {"both names for text input",
       [](const fs::path& f) {
         edit_config(f, [](Json& c) { c["qformer_config"]["qformer_text_input"] = true; });
       }},
      {"neither name for text input",
       [](const fs::path& f) {
         edit_config(f, [](Json& c) { c["qformer_config"].erase("use_qformer_text_input"); });
       }},
      {"no class", [](const fs::path& f) { edit_config(f, [](Json& c) { c.erase("architectures"); }); }},
      {"sides as a list",
       [](const fs::path& f) {
         edit_config(f, [](Json& c) { c["vision_config"]["image_size"] = {56, 56}; });
       }},
      {"a width that nothing has",
       [](const fs::path& f) {
         edit_config(f, [](Json& c) { c["qformer_config"]["encoder_hidden_size"] = 1408; });
       }},
      {"a buffer of older transformers",
       [](const fs::path& f) {
         edit_weights(
             f, [](nn::TensorMap& t) { t["embeddings.position_ids"] = Tensor::full_integers({40}, 0); });
       }},
      {"places for the picture before the text", [](const fs::path& f) {
         edit_config(f, [](Json& c) { c["image_token_index"] = 200; });
         Answers io("blip2-itm");
         io.tensors["input_ids"] = nn::cat({Tensor::full_integers({3, kQueries}, 200), io["input_ids"]}, 1);
         io.tensors["attention_mask"] =
             nn::cat({nn::Tensor::full_integers({3, kQueries}, 1), io["attention_mask"]}, 1);
         fs::remove(f / "io.safetensors");
         ASSERT_TRUE(save(f / "io.safetensors", io.tensors));
       }}};
  for (const auto& [name, apply] : kSpellings) {
    const GoldenCopy copy("blip2-itm");
    const fs::path& folder = copy.path();
    apply(folder);
    const auto report = conform(folder);
    ASSERT_TRUE(report) << name << ": " << report.error().message;
    EXPECT_TRUE(report->ok) << name;
  }
  const GoldenCopy copy("blip2-t5");
  const fs::path& folder = copy.path();
  edit_config(folder, [](Json& c) { c["architectures"] = {"Blip2Model"}; });
  edit_weights(folder, [](nn::TensorMap& t) {
    t["language_model.encoder.embed_tokens.weight"] = t["language_model.shared.weight"];
    t.erase("language_model.shared.weight");
    t["language_model.lm_head.weight"] = nn::Tensor::zeros({200, 48});
  });
  const auto report = conform(folder);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok);
}

TEST(Blip2Config, OutlineSaysWhatTheEncoderWould) {
  for (const char* name : {"blip2-itm", "blip2-t5"}) {
    const auto encoder = load_encoder(golden(name));
    ASSERT_TRUE(encoder);
    const auto outline = outline_checkpoint(golden(name));
    ASSERT_TRUE(outline) << outline.error().message;
    EXPECT_TRUE(outline->known);
    EXPECT_EQ(outline->family, (*encoder)->info().family);
    EXPECT_EQ(outline->dim, (*encoder)->info().dim);
    EXPECT_EQ(outline->context, (*encoder)->info().context);
    EXPECT_EQ(outline->image_height, 56);
    EXPECT_EQ(outline->preprocessing, (*encoder)->preprocessing().describe());
  }
}

TEST(Blip2Config, PublishedRecallReadsThirtyFiveTokens) {
  const Json config = read(golden("blip2-itm") / "config.json");
  EXPECT_EQ(blip2_config_from_hugging_face(config, {})->context(), 40);
  Json lavis = config;
  lavis["saccade"] = {{"captions", "lavis"}};
  EXPECT_EQ(blip2_config_from_hugging_face(lavis, {})->context(), 35);
  lavis["qformer_config"]["max_position_embeddings"] = 20;
  EXPECT_EQ(blip2_config_from_hugging_face(lavis, {})->context(), 20);
}

// Both preparations with a checkpoint's own tokenizer: the same words, cleaned by one of them.
TEST(Blip2Retrieval, CaptionsAreReadByEitherRecipe) {
  const GoldenCopy copy("blip2-itm");
  const fs::path& folder = copy.path();
  add_blip2_tokenizer(folder);
  const std::string marked = "A dog: (runs)!";
  const auto plain = load_encoder(folder);
  ASSERT_TRUE(plain) << plain.error().message;
  edit_config(folder, [](Json& c) { c["saccade"] = {{"captions", "lavis"}}; });
  const auto lavis = load_encoder(folder);
  ASSERT_TRUE(lavis) << lavis.error().message;
  ASSERT_NE((*plain)->tokenizer(), nullptr);
  ASSERT_NE((*lavis)->tokenizer(), nullptr);
  const auto ids = [](const EncoderBackend& encoder, const std::string& text) {
    return encoder.tokenizer()->encode(text, encoder.info().context).ids;
  };
  EXPECT_EQ(ids(**lavis, marked), ids(**plain, "a dog runs"));
  EXPECT_NE(ids(**plain, marked), ids(**plain, "a dog runs"));
  std::string long_text;
  for (int i = 0; i < 60; ++i) long_text += "a ";
  const TokenizedText cut = (*lavis)->tokenizer()->encode(long_text, (*lavis)->info().context);
  EXPECT_EQ(cut.ids.size(), 35U);
  EXPECT_EQ(cut.used + cut.dropped, 60);
}

TEST(Blip2Retrieval, QueryKeyValueMayHaveNoBias) {
  const GoldenCopy copy("blip2-itm");
  const fs::path& folder = copy.path();
  const auto edit_biases = [&](const std::function<void(nn::TensorMap&, const std::string&)>& change) {
    edit_weights(folder, [&](nn::TensorMap& t) {
      for (const char* layer : {"0", "1", "2"}) {
        change(t, std::string("vision_model.encoder.layers.") + layer + ".self_attn.qkv.bias");
      }
    });
  };
  edit_biases([](nn::TensorMap& t, const std::string& name) { t[name] = nn::Tensor::zeros({192}); });
  const Answers inputs("blip2-itm");
  const Matrix<float> zero = (*load_encoder(folder))->encode_images(inputs.pictures()).value();
  edit_config(folder, [](Json& c) { c["vision_config"]["qkv_bias"] = false; });
  const auto left_over = load_encoder(folder);
  ASSERT_FALSE(left_over);
  EXPECT_NE(left_over.error().message.find("self_attn.qkv.bias of shape [192] has no place"),
            std::string::npos)
      << left_over.error().message;
  edit_biases([](nn::TensorMap& t, const std::string& name) { t.erase(name); });
  const auto encoder = load_encoder(folder);
  ASSERT_TRUE(encoder) << encoder.error().message;
  const Matrix<float> none = (*encoder)->encode_images(inputs.pictures()).value();
  for (int64_t c = 0; c < zero.columns(); ++c) EXPECT_NEAR(none(1, c), zero(1, c), 1e-6);
}

TEST(Blip2Encoder, RefusesWrongInput) {
  for (const char* name : {"blip2-itm", "blip2-t5"}) {
    const auto encoder = load_encoder(golden(name));
    ASSERT_TRUE(encoder);
    const std::vector<float> pixels(kPixels);
    EXPECT_EQ((*encoder)->encode_images({pixels.data(), 1, 100}).error().code, ErrorCode::kUsage);
    EXPECT_EQ((*encoder)->encode_images({pixels.data(), 0, kPixels})->rows(), 0);
    const auto text = [](size_t length, int32_t id) {
      return std::vector<TokenizedText>{{.ids = std::vector<int32_t>(length, id), .used = 1, .dropped = 0}};
    };
    EXPECT_EQ((*encoder)->encode_texts(text(3, 200)).error().code, ErrorCode::kMismatch);
    EXPECT_EQ((*encoder)->encode_texts(text(0, 1)).error().code, ErrorCode::kUsage);
    const auto context = static_cast<size_t>((*encoder)->info().context);
    EXPECT_EQ((*encoder)->encode_texts(text(context + 1, 5)).error().code, ErrorCode::kUsage);
    EXPECT_TRUE((*encoder)->encode_texts(text(std::min<size_t>(context, 40), 5)));
    if (PairScorer* scorer = (*encoder)->pair_scorer()) {
      EXPECT_EQ(scorer->score_pairs({pixels.data(), 1, kPixels}, {}).error().code, ErrorCode::kUsage);
      EXPECT_EQ(scorer->score_pairs({pixels.data(), 1, kPixels}, text(3, 200)).error().code,
                ErrorCode::kMismatch);
    }
    if (FrozenFeatures* frozen = (*encoder)->frozen_features()) {
      EXPECT_EQ(
          frozen->image_features({pixels.data(), 1, 5}, FrozenFeatures::ImageState::kQueries).error().code,
          ErrorCode::kUsage);
      EXPECT_EQ(frozen
                    ->text_features(text(3, -1), frozen->text_width(FrozenFeatures::TextState::kTokens) > 0
                                                     ? FrozenFeatures::TextState::kTokens
                                                     : FrozenFeatures::TextState::kPooled)
                    .error()
                    .code,
                ErrorCode::kMismatch);
    }
  }
}

std::function<void(const fs::path&)> config_with(const std::function<void(Json&)>& change) {
  return [change](const fs::path& folder) { edit_config(folder, change); };
}

std::function<void(const fs::path&)> without_tensor(const std::string& name) {
  return [name](const fs::path& folder) { edit_weights(folder, [&](nn::TensorMap& t) { t.erase(name); }); };
}

TEST(Blip2Retrieval, EveryDamageIsNamed) {
  expect_refused(
      "blip2-itm",
      {{"missing tensor", without_tensor("qformer.encoder.layer.1.intermediate_query.dense.bias"),
        "tensor qformer.encoder.layer.1.intermediate_query.dense.bias of shape [96] is missing"},
       {"missing head", without_tensor("itm_head.bias"), "tensor itm_head.bias of shape [2] is missing"},
       {"extra tensor",
        [](const fs::path& f) {
          edit_weights(f, [](nn::TensorMap& t) { t["lm_head.weight"] = nn::Tensor::full({2}, 1); });
        },
        "tensor lm_head.weight of shape [2] has no place"},
       {"wrong shape",
        [](const fs::path& f) {
          edit_weights(f, [](nn::TensorMap& t) {
            t["vision_model.embeddings.class_embedding"] = nn::Tensor::full({64}, 1);
          });
        },
        "tensor vision_model.embeddings.class_embedding has shape [64], the config asks for [1, 1, 64]"},
       {"more queries than there are", config_with([](Json& c) { c["num_query_tokens"] = 9; }),
        "tensor query_tokens has shape [1, 8, 48], the config asks for [1, 9, 48]"},
       {"no queries", config_with([](Json& c) { c["num_query_tokens"] = 0; }), "\"num_query_tokens\" is 0"},
       {"looks at the picture too often",
        config_with([](Json& c) { c["qformer_config"]["cross_attention_frequency"] = 1; }),
        "tensor qformer.encoder.layer.1.crossattention.attention.query.weight of shape [48, 48] is missing"},
       {"looks at the picture too rarely",
        config_with([](Json& c) { c["qformer_config"]["cross_attention_frequency"] = 4; }),
        "tensor qformer.encoder.layer.2.crossattention"},
       {"never looks at the picture",
        config_with([](Json& c) { c["qformer_config"]["cross_attention_frequency"] = 0; }),
        "qformer_config: \"cross_attention_frequency\" is 0"},
       {"another picture size", config_with([](Json& c) { c["vision_config"]["image_size"] = 42; }),
        "tensor vision_model.embeddings.position_embedding has shape [1, 17, 64], the config asks for [1, "
        "10, 64]"},
       {"patches that do not fit", config_with([](Json& c) { c["vision_config"]["image_size"] = 50; }),
        "vision_config: \"image_size\" 50 is not a multiple of \"patch_size\" 14"},
       {"pictures that are not square", config_with([](Json& c) {
          c["vision_config"]["image_size"] = {56, 28};
        }),
        "\"image_size\" is [56,28]"},
       {"heads do not divide", config_with([](Json& c) { c["qformer_config"]["num_attention_heads"] = 5; }),
        "qformer_config: \"hidden_size\" 48 is not a multiple of 5 heads"},
       {"two names that contradict",
        config_with([](Json& c) { c["qformer_config"]["qformer_text_input"] = false; }),
        "\"qformer_text_input\" is false, \"use_qformer_text_input\" true"},
       {"a Q-Former that does not read",
        config_with([](Json& c) { c["qformer_config"]["use_qformer_text_input"] = false; }),
        "the Q-Former does not read text, which Blip2ForImageTextRetrieval contradicts"},
       {"another class", config_with([](Json& c) { c["architectures"] = {"Blip2ForConditionalGeneration"}; }),
        "the Q-Former reads text, which Blip2ForConditionalGeneration contradicts"},
       {"nothing tells the kind",
        [](const fs::path& f) {
          edit_config(f, [](Json& c) { c["architectures"] = {"Blip2Model"}; });
          edit_weights(f, [](nn::TensorMap& t) { t.erase("itm_head.weight"); });
        },
        "\"architectures\" is [\"Blip2Model\"] and no tensor tells the kind"},
       {"another width", config_with([](Json& c) { c["image_text_hidden_size"] = 32; }),
        "tensor vision_projection.weight has shape [24, 48], the config asks for [32, 48]"},
       {"unknown positions",
        config_with([](Json& c) { c["qformer_config"]["position_embedding_type"] = "rope"; }),
        "\"position_embedding_type\" is \"rope\""},
       {"unknown captions", config_with([](Json& c) {
          c["saccade"] = {{"captions", "blip"}};
        }),
        "\"captions\" is \"blip\"; known: transformers, lavis"},
       {"a list where a section should be", config_with([](Json& c) { c["vision_config"] = Json::array(); }),
        "\"vision_config\" is an array, not an object"},
       {"preprocessing of another size",
        [](const fs::path& f) {
          write_text(
              f / "preprocessor_config.json",
              R"({"image_processor_type": "BlipImageProcessor", "size": {"height": 32, "width": 32}})");
        },
        "32 x 32, the model takes 56 x 56"}});
}

TEST(Blip2Frozen, EveryDamageIsNamed) {
  expect_refused(
      "blip2-t5",
      {{"a language model without an encoder",
        config_with([](Json& c) { c["text_config"]["model_type"] = "opt"; }),
        "text_config: language model \"opt\" has no encoder to read texts with; known: t5"},
       {"no embedding", without_tensor("language_model.shared.weight"),
        "tensor language_model.shared.weight of shape [200, 48] is missing"},
       {"heads of another width", config_with([](Json& c) { c["text_config"]["d_kv"] = 13; }),
        "SelfAttention.q.weight has shape [48, 48], the config asks for [52, 48]"},
       {"a plain MLP", config_with([](Json& c) { c["text_config"]["feed_forward_proj"] = "relu"; }),
        "tensor language_model.encoder.block.0.layer.1.DenseReluDense.wi.weight of shape "
        "[96, 48] is missing"},
       {"buckets that are not there",
        config_with([](Json& c) { c["text_config"]["relative_attention_num_buckets"] = 16; }),
        "relative_attention_bias.weight has shape [8, 4], the config asks for [16, 4]"},
       {"missing projection", without_tensor("language_projection.bias"),
        "tensor language_projection.bias of shape [48] is missing"},
       {"a recipe for retrieval", config_with([](Json& c) {
          c["saccade"] = {{"captions", "lavis"}};
        }),
        "LAVIS's recipe for retrieval"}});
}

}  // namespace
}  // namespace saccade
