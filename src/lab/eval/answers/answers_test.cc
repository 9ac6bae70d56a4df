#include "lab/eval/answers/answers.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lab/eval/run/record_fields.h"
#include "saccade/core/rows.h"
#include "saccade/core/test_folder.h"
#include "saccade/search/matching/evidence.h"
#include "saccade/search/test_letters.h"
#include "saccade/text/caption_queries.h"

namespace saccade::lab {
namespace {

constexpr int64_t kDim = 48;

// A text is the sum of its words' directions.
class WordEncoder : public EncoderBackend {
 public:
  WordEncoder() {
    info_.fingerprint = std::string(64, '5');
    info_.dim = kDim;
    info_.context = 1000;
    info_.logit_scale = 20;
  }
  [[nodiscard]] const EncoderInfo& info() const override { return info_; }
  [[nodiscard]] const Preprocessing& preprocessing() const override { return preprocessing_; }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return &tokenizer_; }
  [[nodiscard]] Result<Matrix<float>> encode_images(MatrixView<const float>) override {
    return fail(ErrorCode::kUnsupported, "no pictures here");
  }
  [[nodiscard]] Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    Matrix<float> rows(std::ssize(texts), kDim);
    for (int64_t t = 0; t < rows.rows(); ++t) {
      std::string text;
      for (const int32_t id : texts[static_cast<size_t>(t)].ids) text += static_cast<char>(id);
      add(text, rows.row(t));
      normalize_row(rows.row(t));
    }
    return rows;
  }
  static void add(const std::string& text, std::span<float> row) {
    for (const std::string& word : caption_words(text)) {
      std::mt19937_64 random(std::hash<std::string>()(word));
      std::normal_distribution<float> normal;
      for (float& value : row) value += normal(random);
    }
  }

 private:
  EncoderInfo info_;
  Preprocessing preprocessing_;
  saccade::test::SpellingTokenizer tokenizer_;
};

// Two captions of an image name the same two things, in other words.
std::vector<DatasetItem> made_items(int64_t count) {
  std::mt19937_64 random(7);
  std::vector<DatasetItem> items;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t a = random() % 80;
    const uint64_t b = random() % 80;
    DatasetItem item;
    item.id = fmt::format("{}", i);
    item.captions = {fmt::format("thing{} part{}", a, b), fmt::format("object{} part{}", a, b)};
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<int64_t> all_of(const std::vector<DatasetItem>& items) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < std::ssize(items); ++i) numbers.push_back(i);
  return numbers;
}

const Figure& ndcg_of(const AnswersFigures& figures, Ordering ordering) {
  const auto found = std::ranges::find_if(figures.orders, [&](const AnswersFigures::Order& order) {
    return order.ordering == ordering && order.group == QueryGroup::kAll;
  });
  return found->ndcg;
}

TEST(AnswersTask, QueriesAreHeldOutAndTheTruthIsAllCaptions) {
  const std::vector<DatasetItem> items = made_items(400);
  const AnswersTask task = answers_task(items, all_of(items), {.each = 100});
  const AnswersTask other = answers_task(items, all_of(items), {.each = 100, .fitted = true});
  ASSERT_GT(task.present, 50);
  EXPECT_EQ(std::ssize(task.queries) - task.present, kAbsentQueries);
  EXPECT_EQ(task.indexed[3], items[3].captions[0]);
  for (int64_t q = 0; q < task.present; ++q) {
    const AnswersTask::Query& query = task.queries[static_cast<size_t>(q)];
    EXPECT_TRUE(query.text.starts_with("object")) << "the first caption is indexed and not asked for";
    for (const int64_t image : query.right) {
      EXPECT_EQ(items[static_cast<size_t>(image)].captions[1], query.text);
    }
    for (int64_t o = 0; o < other.present; ++o) {
      EXPECT_NE(other.queries[static_cast<size_t>(o)].cluster, query.cluster) << "a class is on one side";
    }
  }
}

TEST(AnswersTask, FunctionWordsAndInflectionDecideNothing) {
  const std::vector<std::vector<std::string>> captions = {{"x", "a tank"},   {"x", "two big tanks"},
                                                          {"x", "riding"},   {"x", "he rides here"},
                                                          {"x", "a pony"},   {"x", "there are ponies"},
                                                          {"x", "stopping"}, {"x", "stopped"},
                                                          {"x", "a bus"},    {"x", "glass"}};
  std::vector<DatasetItem> items;
  for (size_t i = 0; i < 200; ++i) {
    DatasetItem item;
    item.id = fmt::format("{}", i);
    item.captions =
        i < captions.size() ? captions[i] : std::vector<std::string>{"x", fmt::format("other{}", i)};
    items.push_back(std::move(item));
  }
  std::map<std::string, std::vector<int64_t>> right;
  for (const bool fitted : {false, true}) {
    for (AnswersTask::Query& query :
         answers_task(items, all_of(items), {.each = 1000, .fitted = fitted}).queries) {
      right[query.text] = std::move(query.right);
    }
  }
  EXPECT_EQ(right["a tank"], (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(right["two big tanks"], (std::vector<int64_t>{1}));
  EXPECT_EQ(right["riding"], (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(right["a pony"], (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(right["stopped"], (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(right["a bus"], (std::vector<int64_t>{8}));
  EXPECT_EQ(right["glass"], (std::vector<int64_t>{9}));
}

TEST(AnswersTask, AdjectivesAreAskedWithTheirNouns) {
  std::vector<DatasetItem> items;
  for (int64_t i = 0; i < 200; ++i) {
    DatasetItem item;
    item.id = fmt::format("{}", i);
    item.captions = {"a picture", fmt::format("a very big old thing{} of red and ox", i)};
    items.push_back(std::move(item));
  }
  const AnswersTask task = answers_task(items, all_of(items), {.each = 1, .attributed = 30});
  int64_t attributed = 0;
  for (const AnswersTask::Query& query : task.queries) {
    if (query.group != QueryGroup::kAttributed) continue;
    ++attributed;
    EXPECT_TRUE(query.text.starts_with("old thing")) << query.text;
    EXPECT_EQ(items[static_cast<size_t>(query.right.front())].captions[1].find(query.text), 11U);
  }
  EXPECT_EQ(attributed, 30);
}

TEST(Answers, TheDefaultIsAboveBothSidesAndProbabilitiesComeTrue) {
  const std::vector<DatasetItem> items = made_items(400);
  const AnswersTask task = answers_task(items, all_of(items), {.each = 100});
  WordEncoder encoder;
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  Matrix<float> rows(std::ssize(items), kDim);
  for (int64_t i = 0; i < rows.rows(); ++i) {
    for (const std::string& caption : items[static_cast<size_t>(i)].captions)
      WordEncoder::add(caption, rows.row(i));
    for (float& value : rows.row(i)) value += 2 * normal(random);
    normalize_row(rows.row(i));
  }
  const test::TestFolder folder;
  ThreadPool pool(2);
  const auto measured =
      measure_answers(task, rows.view(), encoder, folder.path() / "collection", {.resamples = 50}, pool);
  ASSERT_TRUE(measured) << measured.error().message;
  const AnswersFigures* figures = &measured->figures;
  EXPECT_EQ(figures->asked, task.present);
  ASSERT_TRUE(figures->tells) << figures->reason;
  EXPECT_FALSE(figures->shipped);
  EXPECT_GT(figures->separation, 1);
  const double both = ndcg_of(*figures, Ordering::kDefault).value;
  EXPECT_GT(both, ndcg_of(*figures, Ordering::kVectors).value);
  EXPECT_GT(both, ndcg_of(*figures, Ordering::kKeywords).value);
  EXPECT_GT(ndcg_of(*figures, Ordering::kReciprocalRanks).value, 0);
  EXPECT_GT(ndcg_of(*figures, Ordering::kConvex).value, 0);
  EXPECT_LT(figures->ece, 0.25);
  EXPECT_LE(figures->present_weak.value, figures->absent_weak.value);
  ASSERT_EQ(figures->cuts.size(), 3U);
  for (size_t c = 1; c < 3; ++c) EXPECT_LE(figures->cuts[c].hits, figures->cuts[c - 1].hits);
  const Json json = record_json(*figures);
  const auto back = read_record<AnswersFigures>(json);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(dump_json(record_json(*back)), dump_json(json));
  EXPECT_EQ(json["orders"][0]["order"], "vectors");
  EXPECT_EQ(json["orders"][0]["group"], "all");
  EXPECT_NEAR(figures->orders[0].lead.value, both - figures->orders[0].ndcg.value, 1e-9);
  // The evidence of each hit gives its match probability.
  ASSERT_EQ(measured->records.size(), task.queries.size());
  for (const AnswerRecord& record : measured->records) {
    ASSERT_EQ(std::ssize(record.hits), kAnswerDepth) << record.query;
    for (const AnswerRecord::Hit& hit : record.hits) {
      const QueryWords query = {.known = hit.known, .any_all = record.any_all, .unknown = record.unknown};
      const WordEvidence words = {.all = hit.all, .coverage = hit.coverage, .bm25 = hit.bm25};
      EXPECT_NEAR(match_probability({.separation = record.separation}, hit.standard, hit.odds, words, query),
                  hit.probability, 1e-6)
          << record.query;
    }
  }
  const auto record = read_record<AnswerRecord>(record_json(measured->records[0]));
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(dump_json(record_json(*record)), dump_json(record_json(measured->records[0])));
}

}  // namespace
}  // namespace saccade::lab
