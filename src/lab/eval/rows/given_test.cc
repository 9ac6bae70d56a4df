// Tests of embeddings and scores from other programs: the reference's figures on shared files, and bad files.
#include "lab/eval/rows/given.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/retrieval/retrieval_figures.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path golden(const std::string& name) {
  return fs::path(test::kSourceDir) / "tests/golden/retrieval" / name;
}

// Compares with figures from tools/reference/retrieval.py.
void expect_reference(const Json& expected, const RetrievalOutcome& outcome) {
  for (const Direction direction : {Direction::kTextToImage, Direction::kImageToText}) {
    const Json& reference = expected[std::string(direction_name(direction))];
    const DirectionOutcome& one = outcome.of(direction);
    EXPECT_EQ(one.counts.queries, reference["queries"]);
    ASSERT_EQ(one.figures.size(), reference.size() - 1);
    for (const Figure& figure : one.figures) {
      ASSERT_TRUE(reference.contains(figure.name)) << figure.name;
      const double value = reference[figure.name];
      EXPECT_NEAR(figure.value, value, 1e-12 * std::max(1.0, value))
          << direction_name(direction) << " " << figure.name;
      EXPECT_LE(figure.low, figure.value + 1e-12);
      EXPECT_GE(figure.high, figure.value - 1e-12);
    }
  }
}

TEST(Given, FiguresAreTheReferencesOnSharedEmbeddings) {
  const auto expected = read_json(golden("figures.json"));
  ASSERT_TRUE(expected) << expected.error().message;
  ThreadPool pool(2);
  const auto unit = GivenFile::open_embeddings(golden("unit.safetensors"), Similarity::kDot);
  ASSERT_TRUE(unit) << unit.error().message;
  for (const CaptionPolicy policy : {CaptionPolicy::kAll, CaptionPolicy::kFirst1}) {
    const auto task = make_retrieval_task(unit->source(), policy, {}, false);
    ASSERT_TRUE(task) << task.error().message;
    const auto scores = selected_scores(unit->scores(), task->texts, task->images);
    const auto outcome = evaluate_retrieval(*scores, *task, {}, {.resamples = 200}, pool);
    ASSERT_TRUE(outcome) << outcome.error().message;
    SCOPED_TRACE(enum_name(policy));
    expect_reference((*expected)["unit"][std::string(enum_name(policy))], *outcome);
    EXPECT_EQ(outcome->text_to_image.counts.tied, 0);
  }
  const auto whole = GivenFile::open_embeddings(golden("whole.safetensors"), Similarity::kDot);
  ASSERT_TRUE(whole) << whole.error().message;
  for (const TiePolicy policy : {TiePolicy::kPessimistic, TiePolicy::kOptimistic}) {
    const auto task = make_retrieval_task(whole->source(), CaptionPolicy::kAll, {}, false);
    ASSERT_TRUE(task) << task.error().message;
    const auto outcome =
        evaluate_retrieval(whole->scores(), *task, {.policy = policy}, {.resamples = 200}, pool);
    ASSERT_TRUE(outcome) << outcome.error().message;
    SCOPED_TRACE(enum_name(policy));
    expect_reference((*expected)["whole"][std::string(enum_name(policy))], *outcome);
    EXPECT_GT(outcome->text_to_image.counts.tied, 20);
  }
}

class GivenFiles : public testing::Test {
 protected:
  // Two images, three texts, width 2; `change` may make them invalid.
  struct Tensors {
    std::vector<float> images = {1, 0, 0, 2};
    std::vector<float> texts = {3, 1, 1, 1, 0, 1};
    std::vector<int64_t> text_image = {0, 1, 1};
    std::vector<int64_t> image_shape = {2, 2};
    std::vector<int64_t> text_shape = {3, 2};
    std::vector<int64_t> index_shape = {3};
    std::string image_name = "image_embeds";
  };
  fs::path write(const std::function<void(Tensors&)>& change = {}) const {
    Tensors t;
    if (change) change(t);
    const std::vector<NamedTensor> tensors = {
        {t.image_name, {DType::kF32, t.image_shape, std::as_bytes(std::span(t.images))}},
        {"text_embeds", {DType::kF32, t.text_shape, std::as_bytes(std::span(t.texts))}},
        {"text_image", {DType::kI64, t.index_shape, std::as_bytes(std::span(t.text_image))}}};
    const fs::path path = folder_.path() / "given.safetensors";
    EXPECT_TRUE(write_safetensors(path, tensors));
    return path;
  }
  fs::path write_scores(std::vector<float> scores, std::vector<int64_t> text_image) const {
    const std::vector<NamedTensor> tensors = {
        {"scores",
         {DType::kF32,
          {static_cast<int64_t>(text_image.size()),
           static_cast<int64_t>(scores.size() / std::max<size_t>(1, text_image.size()))},
          std::as_bytes(std::span(scores))}},
        {"text_image",
         {DType::kI64, {static_cast<int64_t>(text_image.size())}, std::as_bytes(std::span(text_image))}}};
    const fs::path path = folder_.path() / "scores.safetensors";
    EXPECT_TRUE(write_safetensors(path, tensors));
    return path;
  }
  static float score(const GivenFile& given, int64_t text, int64_t image) {
    float value = 0;
    given.scores().score(text, 1, image, 1, &value, 1, 1);
    return value;
  }

  test::TestFolder folder_;
};

TEST_F(GivenFiles, RowsAreBroughtToLengthOneOrNot) {
  const auto cosine = GivenFile::open_embeddings(write(), Similarity::kCosine);
  ASSERT_TRUE(cosine) << cosine.error().message;
  EXPECT_NEAR(score(*cosine, 1, 1), std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(score(*cosine, 0, 0), 3 / std::sqrt(10), 1e-6);
  const auto dot = GivenFile::open_embeddings(write(), Similarity::kDot);
  ASSERT_TRUE(dot) << dot.error().message;
  EXPECT_EQ(score(*dot, 1, 1), 2);
  EXPECT_EQ(dot->images(), 2);
  EXPECT_EQ(dot->texts(), 3);
}

TEST_F(GivenFiles, ScoresAreTakenAsTheyAre) {
  const auto given = GivenFile::open_scores(write_scores({1, 2, 3, 4, 5, 6}, {0, 1, 1}));
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(score(*given, 2, 0), 5);
  // Some of them, in blocks across the gaps.
  const std::vector<int64_t> texts = {0, 2};
  const std::vector<int64_t> images = {1};
  const auto some = selected_scores(given->scores(), texts, images);
  std::array<float, 2> out{};
  some->score(0, 2, 0, 1, out.data(), 1, 1);
  EXPECT_EQ(out[0], 2);
  EXPECT_EQ(out[1], 6);
}

TEST_F(GivenFiles, WhatIsWrongIsNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::map<std::string, std::function<void(Tensors&)>> changes = {
      {"row 1 of \"image_embeds\" is not finite", [&](Tensors& t) { t.images[3] = nan; }},
      {"row 2 of \"text_embeds\" is not finite", [&](Tensors& t) { t.texts[4] = -infinity; }},
      {"row 1 of \"image_embeds\" is zero", [&](Tensors& t) { t.images[3] = 0; }},
      {"\"image_embeds\" of width 1, \"text_embeds\" of width 2",
       [&](Tensors& t) {
         t.images.resize(2);
         t.images[1] = 1;
         t.image_shape = {2, 1};
       }},
      {"\"text_embeds\" of shape [6]", [&](Tensors& t) { t.text_shape = {6}; }},
      {"no tensor \"image_embeds\"; there are: images, text_embeds, text_image",
       [&](Tensors& t) { t.image_name = "images"; }},
      {"\"text_image\" for 2 texts, there are 3",
       [&](Tensors& t) {
         t.text_image.resize(2);
         t.index_shape = {2};
       }},
      {"text 2 has image 2, there are 2", [&](Tensors& t) { t.text_image[2] = 2; }},
      {"text 0 has image -2, there are 2", [&](Tensors& t) { t.text_image[0] = -2; }}};
  for (const auto& [words, change] : changes) {
    const auto given = GivenFile::open_embeddings(write(change), Similarity::kCosine);
    ASSERT_FALSE(given) << words;
    EXPECT_EQ(given.error().code, ErrorCode::kBadData);
    EXPECT_THAT(given.error().message, HasSubstr(words));
    EXPECT_THAT(given.error().message, HasSubstr("given.safetensors"));
  }
  EXPECT_TRUE(GivenFile::open_embeddings(write([](Tensors& t) { t.images[3] = 0; }), Similarity::kDot));
  EXPECT_EQ(GivenFile::open_embeddings(folder_.path() / "none", Similarity::kDot).error().code,
            ErrorCode::kNotFound);
  const fs::path none = folder_.path() / "none";
  EXPECT_EQ(GivenFile::open_scores(none).error().message, none.string() + ": No such file or directory");
  EXPECT_THAT(GivenFile::open_scores(write()).error().message, HasSubstr("no tensor \"scores\""));
  EXPECT_THAT(GivenFile::open_embeddings(write_scores({1}, {0}), Similarity::kDot).error().message,
              HasSubstr("no tensor \"image_embeds\""));

  // A NaN score is found when it is ranked.
  const auto given = GivenFile::open_scores(write_scores({1, 2, nan, 4}, {0, 1}));
  ASSERT_TRUE(given) << given.error().message;
  const auto task = make_retrieval_task(given->source(), CaptionPolicy::kAll, {}, false);
  ThreadPool pool(1);
  const auto outcome = evaluate_retrieval(given->scores(), *task, {}, {}, pool);
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("the score of text 1 with image 0 is not a number"));
}

TEST_F(GivenFiles, AFileBelongsToItsDataset) {
  const auto given = GivenFile::open_embeddings(write(), Similarity::kDot);
  ASSERT_TRUE(given);
  RetrievalSource source = given->source();
  EXPECT_TRUE(given->check_belongs_to(source));
  source.texts[2].image = 0;
  EXPECT_THAT(given->check_belongs_to(source).error().message,
              HasSubstr("text 2 belongs to image 1, in the dataset to 0"));
  source.texts.pop_back();
  EXPECT_THAT(given->check_belongs_to(source).error().message, HasSubstr("2 images and 3 texts"));
}

TEST_F(GivenFiles, MeansOfManyRowsSaySo) {
  const std::vector<float> row = {1};
  const std::vector<int64_t> zero = {0};
  const std::vector<NamedTensor> tensors = {
      {"image_embeds", {DType::kF32, {1, 1}, std::as_bytes(std::span(row))}},
      {"text_embeds", {DType::kF32, {1, 1}, std::as_bytes(std::span(row))}},
      {"text_image", {DType::kI64, {1}, std::as_bytes(std::span(zero))}}};
  const fs::path path = folder_.path() / "m.safetensors";
  ASSERT_TRUE(write_safetensors(path, tensors, {{"rows", "mean"}}));
  EXPECT_TRUE(GivenFile::open_embeddings(path, Similarity::kDot)->means());
  ASSERT_TRUE(write_safetensors(path, tensors));
  EXPECT_FALSE(GivenFile::open_embeddings(path, Similarity::kDot)->means());
}

}  // namespace
}  // namespace saccade::lab
