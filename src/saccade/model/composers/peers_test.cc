// Tests of the baselines of adaptive token fusion, against plain sums in double.
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/model/composers/combiner.h"
#include "saccade/model/composers/inversion.h"
#include "saccade/model/composers/kinds.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;
using testing::HasSubstr;

using Row = std::vector<double>;

// Applies a layer of the checkpoint to a row.
Row layer(const nn::TensorMap& weights, const std::string& name, const Row& x) {
  const nn::Tensor& weight = weights.at(name + ".weight");
  Row out;
  for (int64_t o = 0; o < weight.size(0); ++o) {
    double sum = weights.at(name + ".bias").at({o});
    for (int64_t i = 0; i < weight.size(1); ++i) sum += weight.at({o, i}) * x[static_cast<size_t>(i)];
    out.push_back(sum);
  }
  return out;
}

Row relu(Row x) {
  for (double& value : x) value = std::max(0.0, value);
  return x;
}

Row gelu(Row x) {
  for (double& value : x) value *= 0.5 * (1 + std::erf(value / std::sqrt(2.0)));
  return x;
}

Row unit(Row x) {
  double square = 0;
  for (const double value : x) square += value * value;
  for (double& value : x) value /= std::sqrt(square);
  return x;
}

Row row_of(const Matrix<float>& rows, int64_t i) {
  const auto row = rows.row(i);
  return {row.begin(), row.end()};
}

// A composer over the starter with random weights, all of them large enough to have an effect.
struct Folder {
  Folder(const std::string& kind, const Json& options) {
    encoder = load_encoder(fs::path(kSourceDir) / "models/starter").value();
    config.kind = kind;
    config.dim = encoder->info().dim;
    config.options = options;
    config.encoder = {"starter", "clip", encoder->info().fingerprint, "../nowhere"};
    RandomParameters source(11);
    if (kind == "combiner") {
      const CombinerShape shape = combiner_shape_from_json(config.dim, options).value();
      EXPECT_TRUE(CombinerOf<nn::Tensor>::make(shape, source));
    } else {
      const InversionConfig inversion = inversion_config_from_json(config.dim, options).value();
      EXPECT_TRUE(InversionOf<nn::Tensor>::make(inversion.shape, source));
    }
    EXPECT_TRUE(source.take("logit_scale", {}, {}));
    weights = source.parameters();
    write_text(folder.path() / "config.json", dump_json(composer_config_json(config)));
    write_text(folder.path() / "frozen.json", dump_json({{"path", "../nowhere"}}));
    EXPECT_TRUE(save(folder.path() / "model.safetensors", weights));
  }
  [[nodiscard]] Matrix<float> pixels(int64_t n) const {
    const EncoderInfo& info = encoder->info();
    Matrix<float> rows(n, int64_t{3} * info.image_height * info.image_width);
    const nn::Tensor values = random_tensor({n, rows.columns()}, 5);
    std::copy_n(values.data<float>(), values.numel(), rows.values().begin());
    return rows;
  }
  TestFolder folder;
  ComposerConfig config;
  nn::TensorMap weights;
  std::unique_ptr<EncoderBackend> encoder;
};

const std::vector<std::string> kWords = {"but in red", "crossed out", "a * with more words than the others"};

void expect_near(const Matrix<float>& rows, int64_t i, const Row& expected) {
  ASSERT_EQ(rows.columns(), std::ssize(expected));
  for (size_t d = 0; d < expected.size(); ++d) {
    ASSERT_NEAR(rows.row(i)[d], expected[d], 2e-6) << "row " << i << ", value " << d;
  }
}

TEST(Combiner, IsThePublishedNetwork) {
  const Folder made("combiner", {{"projection", 24}, {"hidden", 40}});
  const auto composer = Composer::open(made.folder.path());
  ASSERT_TRUE(composer) << composer.error().message;
  const Matrix<float> pixels = made.pixels(3);
  const auto composed = (*composer)->compose(*made.encoder, pixels.view(), kWords);
  ASSERT_TRUE(composed) << composed.error().message;
  const Matrix<float> pictures = made.encoder->encode_images(pixels.view()).value();
  for (int64_t i = 0; i < 3; ++i) {
    const TokenizedText text = made.encoder->tokenizer()->encode(kWords[static_cast<size_t>(i)], 32);
    const Row t = row_of(made.encoder->encode_texts(std::span(&text, 1)).value(), 0);
    const Row p = row_of(pictures, i);
    Row both = relu(layer(made.weights, "text_projection", t));
    const Row picture = relu(layer(made.weights, "picture_projection", p));
    both.insert(both.end(), picture.begin(), picture.end());
    Row expected = layer(made.weights, "out", relu(layer(made.weights, "combine", both)));
    const double logit = layer(made.weights, "share", relu(layer(made.weights, "weigh", both)))[0];
    const double share = 1 / (1 + std::exp(-logit));
    for (size_t d = 0; d < expected.size(); ++d) expected[d] += share * t[d] + (1 - share) * p[d];
    expect_near(composed->rows, i, unit(expected));
  }
}

TEST(Inversion, PutsThePicturesWordIntoTheSentence) {
  const Json options = {{"hidden", 20}, {"word", 192}, {"sentence", "a photo of * that {}"}};
  const Folder made("inversion", options);
  const auto composer = Composer::open(made.folder.path());
  ASSERT_TRUE(composer) << composer.error().message;
  const Matrix<float> pixels = made.pixels(3);
  const auto composed = (*composer)->compose(*made.encoder, pixels.view(), kWords);
  ASSERT_TRUE(composed) << composed.error().message;
  const Matrix<float> pictures = made.encoder->encode_images(pixels.view()).value();
  for (int64_t i = 0; i < 3; ++i) {
    const Row hidden = gelu(layer(made.weights, "in", row_of(pictures, i)));
    const Row word = layer(made.weights, "out", gelu(layer(made.weights, "middle", hidden)));
    Matrix<float> words(1, 192);
    std::ranges::transform(word, words.values().begin(), [](double x) { return static_cast<float>(x); });
    // Start, "a", "photo", "of", and then the mark.
    const std::vector<int64_t> places = {4};
    const TokenizedText said = made.encoder->tokenizer()->encode(
        "a photo of * that " + kWords[static_cast<size_t>(i)], made.encoder->info().context);
    const Matrix<float> expected =
        made.encoder->word_inserter()->encode_with_words(std::span(&said, 1), places, words.view()).value();
    expect_near(composed->rows, i, row_of(expected, 0));
  }
  // Another sentence gives another embedding.
  const auto other = Composer::open(made.folder.path(), {}, {{"sentence", "* {}"}}).value();
  const Composed again = other->compose(*made.encoder, pixels.view(), kWords).value();
  double moved = 0;
  for (size_t d = 0; d < 192; ++d)
    moved += std::abs(double{again.rows.row(0)[d]} - double{composed->rows.row(0)[d]});
  EXPECT_GT(moved, 0.01);
}

TEST(Inversion, OnePictureServesManyWords) {
  const Folder made("inversion", {{"hidden", 20}, {"word", 192}, {"sentence", "* {}"}});
  const auto composer = Composer::open(made.folder.path()).value();
  const Matrix<float> pixels = made.pixels(1);
  const auto all = composer->compose(*made.encoder, pixels.view(), kWords);
  ASSERT_TRUE(all) << all.error().message;
  for (int64_t i = 0; i < 3; ++i) {
    const auto one =
        composer->compose(*made.encoder, pixels.view(), std::span(&kWords[static_cast<size_t>(i)], 1));
    expect_near(all->rows, i, row_of(one->rows, 0));
  }
  const auto refused = composer->compose(*made.encoder, made.pixels(2).view(), kWords);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("2 reference images with 3 texts"));
}

TEST(Inversion, FindsThePicturesWordWhateverTheChangeSays) {
  const auto encoder = load_encoder(fs::path(kSourceDir) / "models/starter").value();
  const Tokenizer& tokenizer = *encoder->tokenizer();
  const int32_t mark = picture_mark_id(tokenizer).value();
  for (const char* change : {"in red", "* and * again", ""}) {
    const InvertedText inverted = invert_text(tokenizer, "a photo of * that {}", change, 32).value();
    EXPECT_EQ(inverted.place, 4) << change;
    EXPECT_EQ(inverted.text.ids[4], mark);
  }
  // The modification is truncated, the image's word is not.
  const std::string longer(300, 'x');
  const InvertedText cut = invert_text(tokenizer, "* {}", longer, 8).value();
  EXPECT_EQ(cut.place, 1);
  EXPECT_EQ(cut.text.ids.size(), 8U);
  EXPECT_GT(cut.text.dropped, 0);
  const auto none = invert_text(tokenizer, "one two three four five six * {}", "x", 5);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("cut before its image"));
}

TEST(Inversion, RefusesSentencesThatCannotBe) {
  const auto refusal = [](const char* sentence) {
    const Status status = check_sentence(sentence);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(refusal("a photo of * that {}"), "");
  EXPECT_EQ(refusal("* {}"), "");
  EXPECT_EQ(refusal("*, but {}").empty(), false);
  EXPECT_THAT(refusal("a photo that {}"), HasSubstr("nothing for the image"));
  EXPECT_THAT(refusal("a * and a * that {}"), HasSubstr("several places for the image"));
  EXPECT_THAT(refusal("a photo of *"), HasSubstr("nothing for the change"));
  EXPECT_THAT(refusal("{} of *"), HasSubstr("the change in front"));
  EXPECT_THAT(refusal("a photo of*  {}"), HasSubstr("no word of its own"));
}

TEST(Peers, RefuseOptionsThatCannotBe) {
  const auto refusal = [](const std::string& kind, const Json& options, const Json& changed) {
    const Folder made(kind, options);
    const auto composer = Composer::open(made.folder.path(), {}, changed);
    return composer ? std::string() : composer.error().message;
  };
  const Json combiner = {{"projection", 8}, {"hidden", 8}};
  EXPECT_EQ(refusal("combiner", combiner, Json::object()), "");
  EXPECT_THAT(refusal("combiner", combiner, {{"projection", 0}}), HasSubstr("projection"));
  EXPECT_THAT(refusal("combiner", combiner, {{"hidden", 9}}), HasSubstr("combine.weight"));
  EXPECT_THAT(refusal("combiner", combiner, {{"hidden", "wide"}}), HasSubstr("hidden"));
  const Json inversion = {{"hidden", 8}, {"word", 192}, {"sentence", "* {}"}};
  EXPECT_EQ(refusal("inversion", inversion, Json::object()), "");
  EXPECT_THAT(refusal("inversion", inversion, {{"word", 191}}), HasSubstr("out.weight"));
  EXPECT_THAT(refusal("inversion", inversion, {{"sentence", "a photo"}}), HasSubstr("\"sentence\""));
  // A word width that differs from the tower's.
  const Folder narrow("inversion", {{"hidden", 8}, {"word", 100}, {"sentence", "* {}"}});
  const auto composer = Composer::open(narrow.folder.path()).value();
  const auto composed =
      composer->compose(*narrow.encoder, narrow.pixels(1).view(), std::span(kWords).first(1));
  ASSERT_FALSE(composed);
  EXPECT_EQ(composed.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(composed.error().message, HasSubstr("words of width 100"));
}

TEST(Peers, NeedAnEncoderThatReadsWords) {
  const auto encoder = load_encoder(golden("siglip")).value();
  EXPECT_EQ(encoder->word_inserter(), nullptr);
  for (const ComposerKind* kind : {&combiner_kind, &inversion_kind}) {
    const Status refused = check_composer_needs(*encoder, *kind);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace saccade
