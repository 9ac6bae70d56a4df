// Tests of token states, vectors in place of words, and composers' folders.
#include "saccade/model/composers/composer.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "saccade/model/composers/atf.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;
using testing::HasSubstr;

constexpr const char* kClips[] = {"clip-gelu", "clip-quickgelu", "open_clip-gelu", "long-clip"};

Matrix<float> random_pixels(const EncoderBackend& encoder, int64_t n) {
  const EncoderInfo& info = encoder.info();
  Matrix<float> pixels(n, int64_t{3} * info.image_height * info.image_width);
  const nn::Tensor values = random_tensor({n, pixels.columns()}, 5);
  std::copy_n(values.data<float>(), values.numel(), pixels.values().begin());
  return pixels;
}

// Texts of several lengths: start, any tokens, end.
std::vector<TokenizedText> texts_for(const EncoderBackend& encoder) {
  std::vector<TokenizedText> texts;
  for (const char* words : {"a red apple", "the bell, crossed out and turned", "x"}) {
    texts.push_back(encoder.tokenizer()->encode(words, encoder.info().context));
  }
  return texts;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    if (!(difference <= largest)) largest = std::isfinite(difference) ? difference : INFINITY;
  }
  return largest;
}

TEST(TokenStates, HoldTheRowThatStandsForTheWhole) {
  for (const char* name : kClips) {
    SCOPED_TRACE(name);
    const auto encoder = load_encoder(golden(name)).value();
    TokenStates* states = encoder->token_states();
    ASSERT_NE(states, nullptr);
    const Matrix<float> pixels = random_pixels(*encoder, 3);
    const RowSets pictures = states->image_tokens(pixels.view()).value();
    const Matrix<float> rows = encoder->raw_rows()->raw_image_rows(pixels.view()).value();
    ASSERT_EQ(pictures.begin.back(), 3 * states->picture_tokens());
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_LT(largest_difference(pictures.rows.row(i * states->picture_tokens()), rows.row(i)), 1e-5);
    }
    if (encoder->tokenizer() == nullptr) continue;
    const std::vector<TokenizedText> texts = texts_for(*encoder);
    const RowSets tokens = states->text_tokens(texts).value();
    const Matrix<float> sentences = encoder->raw_rows()->raw_text_rows(texts).value();
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(tokens.begin[i + 1] - tokens.begin[i], std::ssize(texts[i].ids));
      EXPECT_LT(largest_difference(tokens.rows.row(tokens.begin[i] + states->end_token(texts[i])),
                                   sentences.row(static_cast<int64_t>(i))),
                1e-5);
    }
  }
}

// The reference's last hidden states after norm and projection, in plain sums.
TEST(TokenStates, AreTheReferencesStatesProjected) {
  const auto encoder = load_encoder(golden("clip-gelu")).value();
  const SafeTensors io = SafeTensors::open(golden("clip-gelu") / "io.safetensors").value();
  const SafeTensors file = SafeTensors::open(golden("clip-gelu") / "model.safetensors").value();
  const nn::TensorMap answers = nn::borrow_tensors(io).value();
  const nn::TensorMap weights = nn::borrow_tensors(file).value();
  const nn::Tensor pixels = answers.at("pixel_values").to(DType::kF32).contiguous();
  const MatrixView<const float> view(pixels.data<float>(), pixels.size(0), pixels.numel() / pixels.size(0));
  const RowSets rows = encoder->token_states()->image_tokens(view).value();
  const nn::Tensor& states = answers.at("vision_last_hidden_state");
  const nn::Tensor& projection = weights.at("visual_projection.weight");
  const std::string norm = "vision_model.post_layernorm.";
  const int64_t tokens = states.size(1);
  const int64_t width = states.size(2);
  ASSERT_EQ(encoder->token_states()->picture_tokens(), tokens);
  for (int64_t i = 0; i < states.size(0); ++i) {
    for (int64_t t = 0; t < tokens; ++t) {
      double mean = 0;
      double square = 0;
      for (int64_t d = 0; d < width; ++d) mean += states.at({i, t, d}) / static_cast<double>(width);
      for (int64_t d = 0; d < width; ++d) square += std::pow(states.at({i, t, d}) - mean, 2);
      const double deviation = std::sqrt(square / static_cast<double>(width) + 1e-5);
      for (int64_t o = 0; o < projection.size(0); ++o) {
        double sum = 0;
        for (int64_t d = 0; d < width; ++d) {
          const double normed =
              (states.at({i, t, d}) - mean) / deviation * weights.at(norm + "weight").at({d}) +
              weights.at(norm + "bias").at({d});
          sum += normed * projection.at({o, d});
        }
        ASSERT_NEAR(rows.rows.row(i * tokens + t)[static_cast<size_t>(o)], sum, 1e-4) << i << " " << t;
      }
    }
  }
}

TEST(TokenStates, AreNotOfEveryFamily) {
  for (const char* name : {"siglip", "align", "jina-clip", "clip-resnet", "blip2-itm"}) {
    const auto encoder = load_encoder(golden(name)).value();
    EXPECT_EQ(encoder->token_states(), nullptr) << name;
  }
  const auto encoder = load_encoder(golden("siglip")).value();
  const Status refused = check_composer_needs(*encoder, atf_kind);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

// Replacing a token by its own embedding changes nothing. Another embedding changes only its own text's
// result.
TEST(WordInserter, ReadsAVectorAsAToken) {
  const auto encoder = load_encoder(golden("clip-gelu")).value();
  const SafeTensors file = SafeTensors::open(golden("clip-gelu") / "model.safetensors").value();
  const nn::Tensor table =
      nn::borrow_tensors(file).value().at("text_model.embeddings.token_embedding.weight").to(DType::kF32);
  WordInserter* inserter = encoder->word_inserter();
  ASSERT_NE(inserter, nullptr);
  std::vector<TokenizedText> texts(2);
  const auto end = static_cast<int32_t>(table.size(0) - 1);
  texts[0].ids = {end - 1, 5, 9, 7, end};
  texts[1].ids = {end - 1, 3, end};
  const std::vector<int64_t> places = {2, 1};
  Matrix<float> words(2, inserter->word_width());
  for (int64_t i = 0; i < 2; ++i) {
    const int32_t id = texts[static_cast<size_t>(i)].ids[static_cast<size_t>(places[static_cast<size_t>(i)])];
    for (int64_t d = 0; d < words.columns(); ++d)
      words.row(i)[static_cast<size_t>(d)] = static_cast<float>(table.at({id, d}));
  }
  const Matrix<float> usual = encoder->encode_texts(texts).value();
  const Matrix<float> same = inserter->encode_with_words(texts, places, words.view()).value();
  EXPECT_LT(largest_difference(usual.values(), same.values()), 1e-5);
  words.row(1)[0] += 2;  // not all alike, which the first norm takes away
  const Matrix<float> other = inserter->encode_with_words(texts, places, words.view()).value();
  EXPECT_LT(largest_difference(usual.row(0), other.row(0)), 1e-5);
  EXPECT_GT(largest_difference(usual.row(1), other.row(1)), 1e-3);

  const std::vector<int64_t> outside = {2, 3};
  const auto refused = inserter->encode_with_words(texts, outside, words.view());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("no token 3"));
}

// A composer's folder with random weights over a golden encoder.
class ComposerFolder {
 public:
  explicit ComposerFolder(const std::string& kind = "atf") {
    const auto encoder = load_encoder(fs::path(kSourceDir) / "models/starter").value();
    config.kind = kind;
    config.dim = encoder->info().dim;
    AtfOptions options = attention_atf_options();
    options.picture_tokens = encoder->token_states()->picture_tokens();
    options.text_places = encoder->info().context;
    options.residual = AtfResidual::kNone;
    config.options = kind == "atf" ? atf_options_json(options) : Json::object();
    config.encoder = {"starter", encoder->info().family, encoder->info().fingerprint, "../nowhere"};
    RandomParameters source(7);
    if (kind == "atf") {
      EXPECT_TRUE((AtfOf<nn::Tensor>::make(options, config.dim, source)));
    }
    EXPECT_TRUE(source.take("logit_scale", {}, {}));
    write(source.parameters());
  }
  void write(const nn::TensorMap& parameters) {
    write_text(path() / "config.json", dump_json(composer_config_json(config)));
    write_text(path() / "frozen.json", dump_json({{"path", config.encoder.path}}));
    EXPECT_TRUE(save(path() / "model.safetensors", parameters));
  }
  [[nodiscard]] fs::path path() const { return folder_.path(); }
  ComposerConfig config;

 private:
  TestFolder folder_;
};

TEST(Composer, ComposesPicturesAndWordsAsOneOrMany) {
  for (const char* kind : {"atf", "sum"}) {
    SCOPED_TRACE(kind);
    const ComposerFolder folder(kind);
    const auto composer = Composer::open(folder.path()).value();
    EXPECT_EQ(composer->kind().name, kind);
    const auto encoder = load_encoder(composer->encoder_folder().value()).value();
    const Matrix<float> pixels = random_pixels(*encoder, 3);
    const std::vector<std::string> words = {"but in red", "",
                                            "a long text with many more words than the others have"};
    const auto all = composer->compose(*encoder, pixels.view(), words);
    ASSERT_TRUE(all) << all.error().message;
    for (int64_t i = 0; i < 3; ++i) {
      const auto one = composer->compose(*encoder, pixels.view().slice(i, 1),
                                         std::span(&words[static_cast<size_t>(i)], 1));
      ASSERT_TRUE(one) << one.error().message;
      EXPECT_LT(largest_difference(one->rows.row(0), all->rows.row(i)), 1e-5);
    }
  }
}

TEST(Composer, IsOfOneEncoder) {
  const ComposerFolder folder;
  const auto composer = Composer::open(folder.path()).value();
  const auto other = load_encoder(golden("clip-gelu")).value();
  const Matrix<float> pixels = random_pixels(*other, 1);
  const std::vector<std::string> words = {"red"};
  const auto refused = composer->compose(*other, pixels.view(), words);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(refused.error().message, HasSubstr("it was trained on starter"));
}

TEST(Composer, RefusesDamagedFolders) {
  const struct {
    const char* what;
    std::function<void(const fs::path&)> damage;
    const char* expected;
  } kCases[] = {
      {"another kind", [](const fs::path& p) { edit_config(p, [](Json& j) { j["kind"] = "magic"; }); },
       "known are"},
      {"no dim", [](const fs::path& p) { edit_config(p, [](Json& j) { j.erase("dim"); }); }, "dim"},
      {"no options", [](const fs::path& p) { edit_config(p, [](Json& j) { j["options"] = 3; }); }, "options"},
      {"a word", [](const fs::path& p) { edit_config(p, [](Json& j) { j["options"]["pooling"] = "sum"; }); },
       "pooling"},
      {"a width", [](const fs::path& p) { edit_config(p, [](Json& j) { j["options"]["heads"] = 3; }); },
       "query"},
      {"no encoder", [](const fs::path& p) { edit_config(p, [](Json& j) { j.erase("encoder"); }); },
       "encoder"},
      {"not a composer", [](const fs::path& p) { edit_config(p, [](Json& j) { j["model_type"] = "head"; }); },
       "no composer"},
      {"one too many",
       [](const fs::path& p) {
         edit_weights(p, [](nn::TensorMap& t) { t["extra"] = nn::Tensor::full({2}, 1); });
       },
       "extra"},
      {"one too few",
       [](const fs::path& p) { edit_weights(p, [](nn::TensorMap& t) { t.erase("out.weight"); }); },
       "out.weight"},
  };
  for (const auto& each : kCases) {
    const ComposerFolder folder;
    each.damage(folder.path());
    const auto composer = Composer::open(folder.path());
    ASSERT_FALSE(composer) << each.what;
    EXPECT_THAT(composer.error().message, HasSubstr(each.expected)) << each.what;
  }
}

TEST(Composer, ATrainingsFolderSaysWhereItsCheckpointIs) {
  const test::TestFolder run;
  fs::create_directories(run.path() / "fuse/model");
  write_text(run.path() / "fuse/model/config.json", "{}");
  const auto composer = Composer::open(run.path());
  ASSERT_FALSE(composer);
  EXPECT_EQ(composer.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(composer.error().message, HasSubstr((run.path() / "fuse/model").string()));
}

TEST(Composer, SaysThatARowIsNoNumber) {
  const ComposerFolder folder;
  edit_weights(folder.path(), [](nn::TensorMap& t) {
    const nn::Tensor bias = t.at("out.bias").clone();
    bias.floats()[0] = NAN;
    t["out.bias"] = bias;
  });
  const auto composer = Composer::open(folder.path()).value();
  const auto encoder = load_encoder(composer->encoder_folder().value()).value();
  const Matrix<float> pixels = random_pixels(*encoder, 1);
  const std::vector<std::string> words = {"red"};
  const auto refused = composer->compose(*encoder, pixels.view(), words);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("weights are damaged"));
}

}  // namespace
}  // namespace saccade
