// Tests of caption policies: the ranking under each, exclusions and their counts, and the figures against the
// full matrix of random cases.
#include "lab/eval/retrieval/retrieval_task.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/retrieval/retrieval_figures.h"

namespace saccade::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::array kPolicies = {CaptionPolicy::kAll, CaptionPolicy::kFirst5, CaptionPolicy::kFirst1,
                                  CaptionPolicy::kDedup, CaptionPolicy::kOneCaption};

RetrievalSource source_of(const std::vector<std::vector<std::string>>& captions) {
  Dataset dataset;
  for (size_t i = 0; i < captions.size(); ++i) {
    DatasetItem& item = dataset.as<CaptionedImages>().items.emplace_back();
    item.id = fmt::format("p{}", i);
    item.image.path = fmt::format("p{}.png", i);
    item.captions = captions[i];
  }
  return retrieval_source(dataset).value();
}

std::vector<std::string> texts_of(const RetrievalTask& task) {
  std::vector<std::string> texts;
  for (const RunText& text : task.items.texts) texts.push_back(text.text);
  return texts;
}
std::vector<std::vector<int64_t>> right_of(const RetrievalTask& task, Direction direction) {
  std::vector<std::vector<int64_t>> right;
  for (int64_t q = 0; q < task.relevance.queries(direction); ++q) {
    const auto answers = task.relevance.right(direction, q);
    right.emplace_back(answers.begin(), answers.end());
  }
  return right;
}

TEST(CaptionPolicies, NamesComeBack) {
  for (const CaptionPolicy policy : kPolicies) {
    EXPECT_EQ(from_name<CaptionPolicy>(enum_name(policy)), policy);
    EXPECT_FALSE(meaning_of(policy).empty());
  }
  EXPECT_EQ(from_name<CaptionPolicy>("some"), std::nullopt);
}

TEST(CaptionPolicies, WhatIsRanked) {
  const RetrievalSource source = source_of({{"a", "b", "c", "d", "e", "f"}, {"b", "x", "b"}, {"a", "y"}});
  const auto task = [&](CaptionPolicy policy) {
    return make_retrieval_task(source, policy, {}, false).value();
  };

  const RetrievalTask all = task(CaptionPolicy::kAll);
  EXPECT_THAT(texts_of(all), ElementsAre("a", "b", "c", "d", "e", "f", "b", "x", "b", "a", "y"));
  EXPECT_THAT(right_of(all, Direction::kImageToText),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(6, 7, 8), ElementsAre(9, 10)));
  EXPECT_EQ(all.text_ids[7], "p1#1");
  EXPECT_EQ(all.image_of_text[8], 1);

  const RetrievalTask five = task(CaptionPolicy::kFirst5);
  EXPECT_THAT(texts_of(five), ElementsAre("a", "b", "c", "d", "e", "b", "x", "b", "a", "y"));
  EXPECT_THAT(five.texts, ElementsAre(0, 1, 2, 3, 4, 6, 7, 8, 9, 10));

  const RetrievalTask one = task(CaptionPolicy::kFirst1);
  EXPECT_THAT(texts_of(one), ElementsAre("a", "b", "a"));
  EXPECT_THAT(right_of(one, Direction::kTextToImage),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));

  const RetrievalTask dedup = task(CaptionPolicy::kDedup);
  EXPECT_THAT(texts_of(dedup), ElementsAre("a", "b", "c", "d", "e", "f", "x", "y"));
  EXPECT_THAT(dedup.texts, ElementsAre(0, 1, 2, 3, 4, 5, 7, 10));
  EXPECT_THAT(dedup.items.texts[0].images, ElementsAre(0, 2));
  EXPECT_THAT(dedup.items.texts[1].images, ElementsAre(0, 1));
  EXPECT_THAT(right_of(dedup, Direction::kImageToText),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(1, 6), ElementsAre(0, 7)));

  const RetrievalTask symmetric = task(CaptionPolicy::kOneCaption);
  EXPECT_THAT(texts_of(symmetric), ElementsAre("a", "b", "a"));
  EXPECT_THAT(right_of(symmetric, Direction::kTextToImage),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1), ElementsAre(0, 2)));
  EXPECT_THAT(right_of(symmetric, Direction::kImageToText),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1), ElementsAre(0, 2)));
  EXPECT_THAT(symmetric.items.texts[2].images, ElementsAre(0, 2));
}

TEST(CaptionPolicies, AnotherGalleryIsAnErrorOrSaid) {
  const RetrievalSource no_caption = source_of({{"a"}, {}, {"b"}});
  const auto refused = make_retrieval_task(no_caption, CaptionPolicy::kAll, {}, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBadData);
  EXPECT_THAT(refused.error().message, HasSubstr("images without a text: 1, the first: p1"));
  EXPECT_THAT(refused.error().message, HasSubstr("--leave-out"));
  const auto left = make_retrieval_task(no_caption, CaptionPolicy::kAll, {}, true);
  ASSERT_TRUE(left) << left.error().message;
  EXPECT_THAT(left->images, ElementsAre(0, 2));
  ASSERT_THAT(left->excluded, SizeIs(1));
  EXPECT_EQ(left->excluded[0].count, 1);
  EXPECT_THAT(left->excluded[0].examples, ElementsAre("p1"));
  EXPECT_THAT(right_of(*left, Direction::kTextToImage), ElementsAre(ElementsAre(0), ElementsAre(1)));

  // An unreadable image excludes its texts.
  const RetrievalSource source = source_of({{"a", "b"}, {"c", "d"}, {"e"}});
  const std::vector<int64_t> unreadable = {1};
  EXPECT_FALSE(make_retrieval_task(source, CaptionPolicy::kAll, unreadable, false));
  const auto rest = make_retrieval_task(source, CaptionPolicy::kAll, unreadable, true);
  ASSERT_TRUE(rest);
  EXPECT_THAT(texts_of(*rest), ElementsAre("a", "b", "e"));
  EXPECT_THAT(rest->image_of_text, ElementsAre(0, 0, 1));
  ASSERT_THAT(rest->excluded, SizeIs(2));
  EXPECT_EQ(rest->excluded[0].reason, "images that cannot be read");
  EXPECT_EQ(rest->excluded[1].count, 2);

  RetrievalSource lone = source_of({{"a"}, {"b"}});
  lone.texts[1].image = -1;
  const auto lone_refused = make_retrieval_task(lone, CaptionPolicy::kAll, {}, false);
  ASSERT_FALSE(lone_refused);
  EXPECT_THAT(lone_refused.error().message, HasSubstr("texts without an image: 1, the first: b"));
  const auto lone_left = make_retrieval_task(lone, CaptionPolicy::kAll, {}, true);
  ASSERT_TRUE(lone_left);
  EXPECT_THAT(lone_left->images, ElementsAre(0));
  EXPECT_THAT(lone_left->excluded, SizeIs(2));  // the text, and the image it leaves alone

  const std::vector<int64_t> everything = {0, 1, 2};
  const auto nothing = make_retrieval_task(source, CaptionPolicy::kAll, everything, true);
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().message, HasSubstr("no image with a text is left"));

  Dataset composition;
  composition.content.emplace<CompositionTests>().items.resize(1);
  EXPECT_EQ(retrieval_source(composition).error().code, ErrorCode::kUsage);
  RetrievalSource unknown = source_of({{"a"}});
  unknown.captions_known = false;
  EXPECT_EQ(make_retrieval_task(unknown, CaptionPolicy::kDedup, {}, false).error().code, ErrorCode::kUsage);
  EXPECT_TRUE(make_retrieval_task(unknown, CaptionPolicy::kFirst1, {}, false));
}

// Scores held in memory.
class MatrixScores : public PairScores {
 public:
  explicit MatrixScores(Matrix<float> scores) : scores_(std::move(scores)) {}
  [[nodiscard]] int64_t texts() const override { return scores_.rows(); }
  [[nodiscard]] int64_t images() const override { return scores_.columns(); }
  void score(int64_t first_text, int64_t text_count, int64_t first_image, int64_t image_count, float* out,
             int64_t text_stride, int64_t image_stride) const override {
    for (int64_t t = 0; t < text_count; ++t) {
      for (int64_t i = 0; i < image_count; ++i) {
        out[t * text_stride + i * image_stride] = scores_(first_text + t, first_image + i);
      }
    }
  }

 private:
  Matrix<float> scores_;
};

// The oracle: finds right answers by comparing captions, and ranks by sorting the full matrix.
double oracle_hits(const std::vector<std::vector<std::string>>& captions, CaptionPolicy policy,
                   const Matrix<float>& by_caption, bool to_image, int64_t k) {
  struct Text {
    std::string words;
    std::set<size_t> pictures;
    int64_t row;
  };
  std::vector<Text> texts;
  int64_t row = 0;
  for (size_t p = 0; p < captions.size(); ++p) {
    for (size_t c = 0; c < captions[p].size(); ++c, ++row) {
      const bool first_only = policy == CaptionPolicy::kFirst1 || policy == CaptionPolicy::kOneCaption;
      if ((first_only && c > 0) || (policy == CaptionPolicy::kFirst5 && c > 4)) continue;
      auto same = std::ranges::find(texts, captions[p][c], &Text::words);
      if (policy == CaptionPolicy::kDedup && same != texts.end()) {
        same->pictures.insert(p);
        continue;
      }
      texts.push_back({captions[p][c], {p}, row});
    }
  }
  if (policy == CaptionPolicy::kOneCaption) {
    for (Text& text : texts) {
      for (size_t p = 0; p < captions.size(); ++p) {
        if (captions[p][0] == text.words) text.pictures.insert(p);
      }
    }
  }
  const size_t queries = to_image ? texts.size() : captions.size();
  const size_t answers = to_image ? captions.size() : texts.size();
  int64_t hits = 0;
  for (size_t q = 0; q < queries; ++q) {
    std::vector<std::pair<float, bool>> list;
    for (size_t a = 0; a < answers; ++a) {
      const Text& text = texts[to_image ? q : a];
      const size_t picture = to_image ? a : q;
      list.emplace_back(-by_caption(text.row, static_cast<int64_t>(picture)),
                        text.pictures.contains(picture));
    }
    std::ranges::sort(list);  // of equal scores wrong ones (false) first
    bool hit = false;
    for (size_t i = 0; i < std::min(list.size(), static_cast<size_t>(k)); ++i) hit = hit || list[i].second;
    hits += hit ? 1 : 0;
  }
  return static_cast<double>(hits) / static_cast<double>(queries);
}

TEST(CaptionPolicies, FiguresAreThoseOfTheFullMatrix) {
  std::mt19937 random(3);
  ThreadPool pool(2);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::vector<std::string>> captions(1 + random() % 7);
    int64_t rows = 0;
    for (auto& own : captions) {
      own.resize(1 + random() % 7);
      for (std::string& caption : own) caption = std::string(1, static_cast<char>('a' + random() % 12));
      rows += static_cast<int64_t>(own.size());
    }
    Matrix<float> matrix(rows, static_cast<int64_t>(captions.size()));
    for (float& value : matrix.values()) value = static_cast<float>(random() % 5);
    const RetrievalSource source = source_of(captions);
    const CaptionPolicy policy = kPolicies[static_cast<size_t>(round) % kPolicies.size()];
    const RetrievalTask task = make_retrieval_task(source, policy, {}, false).value();
    Matrix<float> taken(static_cast<int64_t>(task.texts.size()), matrix.columns());
    for (size_t t = 0; t < task.texts.size(); ++t) {
      std::ranges::copy(matrix.row(task.texts[t]), taken.row(static_cast<int64_t>(t)).begin());
    }
    const MatrixScores scores(std::move(taken));
    const auto outcome = evaluate_retrieval(scores, task, {}, {.resamples = 3}, pool);
    ASSERT_TRUE(outcome) << outcome.error().message;
    for (const bool to_image : {true, false}) {
      const auto& figures = outcome->of(to_image ? Direction::kTextToImage : Direction::kImageToText).figures;
      for (size_t k = 0; k < kRecallDepths.size(); ++k) {
        ASSERT_DOUBLE_EQ(figures[k].value, oracle_hits(captions, policy, matrix, to_image, kRecallDepths[k]))
            << enum_name(policy) << " " << figures[k].name << " round " << round;
      }
    }
    for (const Direction direction : {Direction::kTextToImage, Direction::kImageToText}) {
      const int64_t depth = 1 + round % 9;
      const auto top = top_answers(scores, task.relevance, direction, depth, pool);
      for (int64_t q = 0; q < task.relevance.queries(direction); ++q) {
        const int64_t gallery = task.relevance.gallery(direction);
        std::vector<std::pair<float, int64_t>> list;
        for (int64_t a = 0; a < gallery; ++a) {
          float score = 0;
          const bool to_image = direction == Direction::kTextToImage;
          scores.score(to_image ? q : a, 1, to_image ? a : q, 1, &score, 1, 1);
          list.emplace_back(-score, a);
        }
        std::ranges::sort(list);
        const auto& found = top[static_cast<size_t>(q)];
        ASSERT_EQ(static_cast<int64_t>(found.size()), std::min<int64_t>(depth, gallery));
        for (size_t i = 0; i < found.size(); ++i) {
          ASSERT_EQ(found[i].answer, list[i].second);
          ASSERT_EQ(found[i].score, -list[i].first);
          const auto right = task.relevance.right(direction, q);
          ASSERT_EQ(found[i].right, std::ranges::find(right, found[i].answer) != right.end());
        }
      }
    }
  }
}

TEST(CaptionPolicies, DeeperThanTheGalleryIsNoFigure) {
  const RetrievalTask task =
      make_retrieval_task(source_of({{"a", "b"}, {"c", "d"}, {"e", "f"}}), CaptionPolicy::kAll, {}, false)
          .value();
  ThreadPool pool(1);
  Matrix<float> matrix(6, 3);
  matrix(0, 1) = 1;
  const auto outcome = evaluate_retrieval(MatrixScores(std::move(matrix)), task, {}, {}, pool);
  ASSERT_TRUE(outcome);
  for (const RetrievalResult& record :
       {retrieval_result("d", "m", task, *outcome), chance_result("d", task)}) {
    const Json result = record_json(record);
    const auto back = read_record<RetrievalResult>(result);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(dump_json(record_json(*back)), dump_json(result));
    EXPECT_TRUE(result["t2i"]["r1"]["value"].is_number());
    EXPECT_TRUE(result["t2i"]["r5"]["value"].is_null());  // of 3 images
    EXPECT_TRUE(result["t2i"]["recall5"]["value"].is_null());
    EXPECT_TRUE(result["i2t"]["r5"]["value"].is_number());  // of 6 texts
    EXPECT_TRUE(result["i2t"]["r10"]["low"].is_null());
    EXPECT_TRUE(result["t2i"]["mrr"]["value"].is_number());
  }
  const auto record = compare_retrieval("d", "m", *outcome, "n", *outcome, 0.95);
  ASSERT_TRUE(record);
  const Json comparison = record_json(*record);
  EXPECT_EQ(dump_json(comparison["t2i"]["r5"]),
            R"({"difference":null,"low":null,"high":null,"bca_low":null,"bca_high":null,"p_value":null,)"
            R"("significant":null})");
  EXPECT_EQ(comparison["t2i"]["r1"]["difference"], 0);
  EXPECT_EQ(comparison["t2i"]["r1"]["significant"], false);
  EXPECT_EQ(comparison["t2i"]["r1"]["p_value"], 1);
  const auto back = read_record<RetrievalComparison>(comparison);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(dump_json(record_json(*back)), dump_json(comparison));
}

}  // namespace
}  // namespace saccade::lab
