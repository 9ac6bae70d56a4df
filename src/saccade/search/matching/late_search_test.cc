// Searching in two stages: rows of late interaction, and a second encoder.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/ingest/ingest.h"
#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"
#include "saccade/index/max_sim.h"
#include "saccade/search/answer_warnings.h"
#include "saccade/search/explain/explain.h"
#include "saccade/search/explain/explain_hits.h"
#include "saccade/search/matching/rerank.h"
#include "saccade/search/query_language.h"
#include "saccade/search/search.h"
#include "saccade/search/test_letters.h"

namespace saccade {

// Prints the precision in test names.
static void PrintTo(RowPrecision precision, std::ostream* out) {
  *out << enum_name(precision);
}

namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kDim = 8;

// Test encoder for images of 4 x 4 pixels. A row is a mean colour (red axis 0, green 1, blue 2) with a little
// of axis 3. It is that of the whole image, or with late interaction of each quarter, followed by one of axis
// 7 for no location. A letter's row is its axis; those of start and end are axes 5 and 6. The matching head
// scores how much of the text's first letter the image has.
class ColourEncoder : public EncoderBackend, public LateInteraction, public PairScorer {
 public:
  ColourEncoder(char name, bool late, bool pairs) : late_(late), pairs_(pairs) {
    info_.fingerprint = std::string(64, name);
    info_.dim = kDim;
    info_.context = 8;
    preprocessing_.resize_mode = ResizeMode::kSquash;
    preprocessing_.resize_height = preprocessing_.resize_width = 4;
    preprocessing_.crop = false;
  }
  [[nodiscard]] const EncoderInfo& info() const override { return info_; }
  [[nodiscard]] const Preprocessing& preprocessing() const override { return preprocessing_; }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return &tokenizer_; }
  [[nodiscard]] EncoderCapabilities capabilities() override {
    return {.late_interaction = late_ ? this : nullptr, .pair_scorer = pairs_ ? this : nullptr};
  }
  [[nodiscard]] int patch_rows() const override { return 2; }
  [[nodiscard]] int patch_columns() const override { return 2; }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    pictures += pixels.rows();
    Matrix<float> rows(pixels.rows(), kDim);
    for (int64_t i = 0; i < pixels.rows(); ++i) colour(pixels.row(i), 0, 0, 4, rows.row(i));
    return rows;
  }
  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    encoded_texts += std::ssize(texts);
    Matrix<float> rows(static_cast<int64_t>(texts.size()), kDim);
    for (size_t t = 0; t < texts.size(); ++t) {
      const auto row = rows.row(static_cast<int64_t>(t));
      for (const int32_t id : texts[t].ids) row[axis_of(id)] += 1;
      test::normalize(row);
    }
    return rows;
  }
  Result<RowSets> encode_image_rows(MatrixView<const float> pixels) override {
    pictures += pixels.rows();
    RowSets sets;
    sets.rows = Matrix<float>(5 * pixels.rows(), kDim);
    for (int64_t i = 0; i < pixels.rows(); ++i) {
      for (int64_t q = 0; q < 4; ++q) {
        colour(pixels.row(i), q / 2 * 2, q % 2 * 2, 2, sets.rows.row(5 * i + q));
      }
      sets.rows(5 * i + 4, 7) = 1;
      sets.begin.push_back(5 * (i + 1));
    }
    return sets;
  }
  Result<RowSets> encode_text_rows(std::span<const TokenizedText> texts) override {
    RowSets sets;
    int64_t count = 0;
    for (const auto& text : texts) count += static_cast<int64_t>(text.ids.size());
    sets.rows = Matrix<float>(count, kDim);
    int64_t at = 0;
    for (const auto& text : texts) {
      for (const int32_t id : text.ids) sets.rows.row(at++)[axis_of(id)] = 1;
      sets.begin.push_back(at);
    }
    return sets;
  }
  Result<std::vector<float>> score_pairs(MatrixView<const float> pixels,
                                         std::span<const TokenizedText> texts) override {
    pictures += pixels.rows();
    std::vector<float> scores;
    for (int64_t i = 0; i < pixels.rows(); ++i) {
      const auto channel = pixels.row(i).subspan(static_cast<size_t>(texts[0].ids[1]) * 16, 16);
      float sum = 0;
      for (const float value : channel) sum += value;
      scores.push_back(10 + sum);
    }
    return scores;
  }

  EncoderInfo info_;
  int64_t pictures = 0;
  int64_t encoded_texts = 0;

 private:
  static size_t axis_of(int32_t id) { return static_cast<size_t>(id == 100 ? 5 : id == 101 ? 6 : id); }
  static void colour(std::span<const float> pixels, int64_t y0, int64_t x0, int64_t side,
                     std::span<float> row) {
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t y = y0; y < y0 + side; ++y) {
        for (int64_t x = x0; x < x0 + side; ++x) {
          row[static_cast<size_t>(c)] += pixels[static_cast<size_t>(c * 16 + y * 4 + x)];
        }
      }
    }
    row[3] += 0.1F;
    test::normalize(row);
  }

  bool late_;
  bool pairs_;
  Preprocessing preprocessing_;
  test::LetterTokenizer tokenizer_;
};

// The colours of four quarters: r, g, b, k (black), w.
Image quarters(std::string_view colours) {
  Image image;
  image.width = image.height = 4;
  image.channels = 3;
  image.mode = PixelMode::kRgb;
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 4; ++x) {
      const char c = colours[static_cast<size_t>(y / 2 * 2 + x / 2)];
      for (const char channel : {'r', 'g', 'b'}) image.pixels.push_back(c == channel || c == 'w' ? 255 : 0);
    }
  }
  return image;
}

class LateSearch : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "pictures"); }

  fs::path picture(const std::string& name, const Image& image) {
    const fs::path path = folder_ / "pictures" / name;
    EXPECT_TRUE(write_file_atomic(path, encode_png(image).value()).has_value());
    return path;
  }
  // Encodes a hit's image, independently of what is stored.
  RowSets rows_of(const SearchHit& hit) {
    const auto decoded = decode_image_file(hit.item.path).value();
    Matrix<float> pixels(1, 48);
    EXPECT_TRUE(preprocess(decoded.image, encoder_.preprocessing(), pixels.row(0)).has_value());
    return encoder_.encode_image_rows(pixels.view()).value();
  }
  void index(RowPrecision precision = RowPrecision::kFp16, int64_t pool = 1,
             Int8Policy int8_rows = Int8Policy::kAuto) {
    IngestSettings settings;
    settings.int8_rows = int8_rows;
    if (encoder_.late_interaction() != nullptr) settings.late = LateSettings{precision, pool, {2, 2}};
    auto writer =
        CollectionWriter::create(folder_ / "c", {"colours", "", encoder_.info().fingerprint, kDim}, settings);
    ASSERT_TRUE(writer.has_value()) << writer.error().message;
    const auto report = ingest(*writer, encoder_, std::vector<fs::path>{folder_ / "pictures"}, {}, pool_);
    ASSERT_TRUE(report.has_value()) << report.error().message;
    ASSERT_TRUE(report->failed.empty());
  }
  CollectionReader open() { return CollectionReader::open(folder_ / "c").value(); }
  SearchAnswer answer_to(const SearchQuery& query) {
    auto answer = search(open(), encoder_, query, pool_);
    EXPECT_TRUE(answer.has_value()) << answer.error().message;
    return answer.has_value() ? *std::move(answer) : SearchAnswer{};
  }
  Result<SearchAnswer> rerank(EncoderBackend& second, const SearchQuery& query,
                              const RerankOptions& options = {}) {
    return search_and_rerank(open(), encoder_, second, query, options, pool_);
  }
  static std::vector<std::string> names(const SearchAnswer& answer) {
    std::vector<std::string> result;
    for (const SearchHit& hit : answer.hits) {
      result.push_back(fs::path(hit.item.path).filename().string());
      for (const auto& copy : hit.folded) {
        result.push_back("  " + fs::path(copy.item.path).filename().string());
      }
    }
    return result;
  }
  static SearchQuery words(std::string text, int64_t k = 10) {
    SearchQuery query;
    query.text = std::move(text);
    query.k = k;
    return query;
  }
  // Pictures of random colours, and what each scores for a query by plain loops.
  void random_pictures(int count) {
    std::mt19937 random(11);
    for (int i = 0; i < count; ++i) {
      Image image = quarters("kkkk");
      for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random() % 256);
      picture(fmt::format("{:03}.png", i), image);
    }
  }

  test::TestFolder folder_;
  ColourEncoder encoder_{'1', true, false};
  ThreadPool pool_{2};
};

TEST_F(LateSearch, ScoresEveryRowAsPlainLoopsDo) {
  random_pictures(150);
  index();
  const CollectionReader collection = open();
  const SearchQuery query = [] {
    SearchQuery all = words("ab c", 150);
    all.candidates = 0;
    all.group_duplicates = false;
    return all;
  }();
  const SearchAnswer answer = answer_to(query);
  ASSERT_EQ(answer.hits.size(), 150U);
  EXPECT_EQ(answer.late_scored, 150);
  const TokenizedText text = encoder_.tokenizer()->encode("abc", 8);
  const RowSets text_rows = encoder_.encode_text_rows({&text, 1}).value();
  for (size_t i = 0; i < answer.hits.size(); ++i) {
    const SearchHit& hit = answer.hits[i];
    EXPECT_LE(hit.score, answer.hits[i == 0 ? 0 : i - 1].score);
    const RowSets item = rows_of(hit);
    const auto matches = max_sim_matches_plain(text_rows.rows.view(), item.rows.view());
    EXPECT_NEAR(hit.score, max_sim_total(matches), 3e-3);
    EXPECT_TRUE(hit.pooled_score.has_value());
  }
  // One thread, the same bits.
  ThreadPool one(1);
  const SearchAnswer again = search(collection, encoder_, query, one).value();
  for (size_t i = 0; i < 150; ++i) {
    EXPECT_EQ(again.hits[i].item.id, answer.hits[i].item.id);
    EXPECT_EQ(again.hits[i].score, answer.hits[i].score);
  }
}

TEST_F(LateSearch, QueriesTogetherGetTheAnswersThatEachGetsAlone) {
  random_pictures(150);
  index();
  const CollectionReader collection = open();
  std::vector<SearchQuery> queries = {words("ab c"), words("b"), words("c", 100)};
  queries.push_back(words(""));
  queries.back().images = {{picture("query.png", quarters("rgbk"))}};
  queries.push_back(words("a"));
  queries.back().images = queries[3].images;
  queries.push_back(words("a"));
  queries.back().text.leave_out("b");  // refused
  for (const int64_t candidates : {0, 20}) {
    std::vector<const SearchQuery*> asked;
    for (SearchQuery& query : queries) {
      query.candidates = candidates;
      query.explain = candidates == 20;
      asked.push_back(&query);
    }
    const auto encoded = encode_queries(collection, encoder_, asked);
    ASSERT_EQ(encoded.size(), 6U);
    EXPECT_FALSE(encoded[5]);
    std::vector<EncodedSearch> searches;
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(encoded[i]) << encoded[i].error().message;
      searches.push_back({&*encoded[i], asked[i]});
    }
    const auto answers = search_encoded_all(collection, encoder_, searches, pool_);
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(answers[i]) << answers[i].error().message;
      EXPECT_EQ(dump_json(answer_json(*answers[i])), dump_json(answer_json(answer_to(queries[i])))) << i;
      EXPECT_EQ(answers[i]->hits.front().matches.empty(), candidates == 0 || i == 3) << i;
    }
  }
}

TEST_F(LateSearch, RowsOfChunksAreJoined) {
  picture("one.png", quarters("rgbw"));
  picture("two.png", quarters("rkkk"));
  index();
  SearchQuery query = words("abcabcab");
  EXPECT_EQ(answer_to(query).tokens->dropped, 2);
  query.long_text = LongText::kChunk;
  query.explain = true;
  const SearchAnswer answer = answer_to(query);
  EXPECT_EQ(answer.tokens->used, 8);
  EXPECT_EQ(answer.tokens->dropped, 0);
  EXPECT_EQ(answer.tokens->chunks, 2);
  const std::vector<TokenizedText> chunks = {encoder_.tokenizer()->encode("abca", 8),
                                             encoder_.tokenizer()->encode("bcab", 8)};
  const RowSets rows = encoder_.encode_text_rows(chunks).value();
  ASSERT_EQ(rows.rows.rows(), 12);
  for (const SearchHit& hit : answer.hits) {
    const RowSets item = rows_of(hit);
    EXPECT_NEAR(hit.score, max_sim_total(max_sim_matches_plain(rows.rows.view(), item.rows.view())), 3e-3);
    ASSERT_EQ(hit.matches.size(), 12U);
    EXPECT_EQ(hit.matches[5].id, 101);
    EXPECT_EQ(hit.matches[6].id, 100);
    EXPECT_EQ(hit.matches[7].id, 1);
  }
}

TEST_F(LateSearch, SaysHowManyWereScoredByAllTheirRows) {
  random_pictures(60);
  index(RowPrecision::kInt8);
  SearchQuery query = words("a", 5);
  const SearchAnswer small = answer_to(query);  // fewer pictures than candidates by default
  EXPECT_EQ(small.late_scored, 60);
  query.candidates = 20;
  const SearchAnswer staged = answer_to(query);
  EXPECT_EQ(staged.late_scored, 20);
  EXPECT_EQ(staged.searched, 60);
  EXPECT_EQ(staged.hits.size(), 5U);
  const Json json = answer_json(staged);
  EXPECT_EQ(dump_json(json["late"]), R"({"scored":20,"exact":false})");
  EXPECT_TRUE(json["hits"][0].contains("pooled_score"));
  EXPECT_EQ(dump_json(answer_json(small)["late"]), R"({"scored":60,"exact":true})");
  query.candidates = 2;  // never fewer than are to be shown
  EXPECT_EQ(answer_to(query).hits.size(), 5U);
  query.candidates = -1;
  EXPECT_EQ(search(open(), encoder_, query, pool_).error().code, ErrorCode::kUsage);
  query.candidates = 20;
  query.filter = "path~\"*/00*\"";
  EXPECT_EQ(answer_to(query).late_scored, 10);
  query.filter = "width>100";
  EXPECT_EQ(answer_to(query).late_scored, 0);
}

TEST_F(LateSearch, MeansInEightBitsFindTheSameCandidates) {
  random_pictures(160);
  SearchQuery query = words("ab", 5);
  query.candidates = 20;
  index();
  const SearchAnswer expected = answer_to(query);
  EXPECT_FALSE(expected.rescored.has_value());
  fs::remove_all(folder_ / "c");
  index(RowPrecision::kFp16, 1, Int8Policy::kOn);
  SearchAnswer found = answer_to(query);
  ASSERT_TRUE(found.rescored.has_value());
  EXPECT_GE(*found.rescored, 20);
  EXPECT_EQ(found.late_scored, 20);
  found.rescored.reset();
  EXPECT_EQ(dump_json(answer_json(found)), dump_json(answer_json(expected)));
}

TEST_F(LateSearch, TheSecondStageFindsWhatMeansHide) {
  // The mean of "split" is half red, the row of one of its quarters all of it.
  picture("split.png", quarters("rbgw"));
  picture("pink.png", quarters("wwwr"));
  picture("blue.png", quarters("bbbb"));
  index();
  const SearchAnswer answer = answer_to(words("abc", 3));
  EXPECT_EQ(names(answer).front(), "split.png");
  // start and end meet nothing, each colour its quarter.
  EXPECT_NEAR(answer.hits[0].score, 3.0, 0.01);
}

TEST_F(LateSearch, OnlyRowsAlikeInTheirPlacesAreFolded) {
  picture("a.png", quarters("rgbw"));
  picture("copy.png", quarters("rgbw"));
  picture("turned.png", quarters("wbgr"));  // the same mean, other places
  index();
  SearchQuery query = words("a");
  EXPECT_THAT(names(answer_to(query)), ElementsAre("a.png", "  copy.png", "turned.png"));
  query.duplicate_cosine = 1;
  EXPECT_THAT(names(answer_to(query)), ElementsAre("a.png", "  copy.png", "turned.png"));
}

TEST_F(LateSearch, ExplainsWhichPatchEachTokenMet) {
  picture("p.png", quarters("rkkg"));
  index();
  SearchQuery query = words("ab");
  query.explain = true;
  const SearchAnswer answer = answer_to(query);
  const auto& matches = answer.hits.at(0).matches;
  ASSERT_EQ(matches.size(), 4U);  // start, a, b, end
  EXPECT_EQ(matches[0].id, 100);
  EXPECT_EQ(matches[1].id, 0);
  ASSERT_TRUE(matches[1].patches.has_value());
  EXPECT_EQ(matches[1].patches->row, 0);
  EXPECT_EQ(matches[1].patches->column, 0);
  EXPECT_EQ(matches[2].patches->row, 1);
  EXPECT_EQ(matches[2].patches->column, 1);
  EXPECT_FLOAT_EQ(matches[2].box->x, 0.5F);
  EXPECT_FLOAT_EQ(matches[2].box->height, 0.5F);
  EXPECT_NEAR(matches[1].dot, 1, 0.01);
  double sum = 0;
  for (const TokenMatch& match : matches) sum += double{match.dot};
  EXPECT_NEAR(sum, answer.hits[0].score, 1e-6);
  const Json json = answer_json(answer)["hits"][0]["matches"][2];
  EXPECT_EQ(dump_json(json["patch"]), R"({"row":1,"column":1,"rows":1,"columns":1})");
  EXPECT_EQ(dump_json(json["box"]), R"({"x":0.5,"y":0.5,"width":0.5,"height":0.5})");
}

class PooledSearch : public LateSearch, public testing::WithParamInterface<RowPrecision> {};

INSTANTIATE_TEST_SUITE_P(Precisions, PooledSearch, testing::Values(RowPrecision::kFp16, RowPrecision::kInt8),
                         [](const auto& test) { return std::string(enum_name(test.param)); });

TEST_P(PooledSearch, ScoresPooledRowsAsPlainLoopsDo) {
  random_pictures(60);
  index(GetParam(), 2);
  SearchQuery query = words("abc", 60);
  query.candidates = 0;
  query.group_duplicates = false;
  const SearchAnswer answer = answer_to(query);
  ASSERT_EQ(answer.hits.size(), 60U);
  EXPECT_EQ(answer.late_scored, 60);
  const TokenizedText text = encoder_.tokenizer()->encode("abc", 8);
  const RowSets text_rows = encoder_.encode_text_rows({&text, 1}).value();
  // An int8 row is right to half a 127th of its largest value, and each of five rows meets one value.
  const float tolerance = GetParam() == RowPrecision::kInt8 ? 5 * 0.5F / 127 : 3e-3F;
  for (size_t i = 0; i < answer.hits.size(); ++i) {
    const SearchHit& hit = answer.hits[i];
    EXPECT_LE(hit.score, answer.hits[i == 0 ? 0 : i - 1].score);
    const RowSets item = rows_of(hit);
    // The upper two quarters, the lower two, and the row for no place.
    Matrix<float> pooled(3, kDim);
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t c = 0; c < kDim; ++c) {
        pooled(half, c) = item.rows(2 * half, c) + item.rows(2 * half + 1, c);
      }
      test::normalize(pooled.row(half));
    }
    for (int64_t c = 0; c < kDim; ++c) pooled(2, c) = item.rows(4, c);
    const float expected = max_sim_total(max_sim_matches_plain(text_rows.rows.view(), pooled.view()));
    EXPECT_NEAR(hit.score, expected, tolerance);
  }
}

TEST_P(PooledSearch, PooledRowsStandForTheirBlocks) {
  picture("p.png", quarters("rrgg"));
  index(GetParam(), 2);
  EXPECT_EQ(open().late_rows(0).count, 2 + 1);
  SearchQuery query = words("b");
  query.explain = true;
  const auto match = answer_to(query).hits.at(0).matches.at(1);
  EXPECT_EQ(match.patches->row, 1);
  EXPECT_EQ(match.patches->columns, 2);
  EXPECT_FLOAT_EQ(match.box->width, 1);
}

TEST_F(LateSearch, TextAndPictureTogetherCountAlike) {
  picture("red.png", quarters("rrrr"));
  picture("redgreen.png", quarters("rrgg"));
  picture("green.png", quarters("gggg"));
  index();
  SearchQuery query = words("b");
  query.images = {{folder_ / "pictures/red.png"}};
  query.explain = true;
  const SearchAnswer answer = answer_to(query);
  EXPECT_EQ(names(answer).front(), "redgreen.png");
  // The text's dots are not scaled.
  EXPECT_NEAR(answer.hits[0].matches.at(1).dot, 1, 0.01);
  query.text = {};
  query.explain = false;
  EXPECT_EQ(names(answer_to(query)).front(), "red.png");
}

// Beside other parts, images of the collection are read like any file; none of them is a hit.
TEST_F(LateSearch, StoredImagesAreQueriesLikeFilesAndNeverHits) {
  encoder_ = ColourEncoder('1', false, false);
  for (const char* colours : {"rrrr", "rrgg", "gggg", "bbbb", "rbrb"}) {
    picture(std::string(colours) + ".png", quarters(colours));
  }
  index();
  const CollectionReader collection = open();
  SearchQuery files = words("b");
  files.images = {{folder_ / "pictures/rrrr.png"}, {folder_ / "pictures/gggg.png", 2}};
  const SearchAnswer expected = answer_to(files);
  ASSERT_EQ(expected.hits.size(), 5U);
  SearchQuery stored = words("b");
  for (const std::string name : {"rrrr.png", "gggg.png"}) {
    for (const SearchHit& hit : expected.hits) {
      if (!hit.item.path.ends_with("/" + name)) continue;
      stored.images.push_back(stored_image(collection, hit.item.id).value());
      EXPECT_EQ(stored.images.back().name(), hit.item.path);
    }
  }
  ASSERT_EQ(stored.images.size(), 2U);
  stored.images[1].weight = 2;
  const SearchAnswer answer = answer_to(stored);
  EXPECT_EQ(answer.searched, 3);
  std::vector<std::pair<std::string, float>> left;
  for (const SearchHit& hit : expected.hits) {
    if (hit.item.path.ends_with("/rrrr.png") || hit.item.path.ends_with("/gggg.png")) continue;
    left.emplace_back(hit.item.path, hit.score);
  }
  ASSERT_EQ(answer.hits.size(), left.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(answer.hits[i].item.path, left[i].first);
    EXPECT_EQ(answer.hits[i].score, left[i].second);
  }
}

TEST_F(LateSearch, OrdinaryCollectionsHaveNoMatchingPatches) {
  encoder_ = ColourEncoder('1', false, false);
  picture("p.png", quarters("rrgg"));
  index();
  SearchQuery query = words("a");
  query.explain = true;
  const auto answer = search(open(), encoder_, query, pool_);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_TRUE(answer->hits.front().matches.empty());
  EXPECT_TRUE(answer_json(answer_to(words("a")))["late"].is_null());
}

// By the patches' own rows: where the text's colour is, and nowhere else. "b a" is green and red.
TEST_F(LateSearch, MapsAreOfThePatchesThatTheTextIsLike) {
  picture("one.png", quarters("rkgk"));
  index();
  SearchAnswer answer = answer_to(words("b a"));
  const Status done = explain_hits(open(), encoder_, {.name = "colours"}, answer, pool_);
  ASSERT_TRUE(done) << done.error().message;
  const HitExplanation& explanation = answer.hits.at(0).explanations.at(0);
  EXPECT_EQ(explanation.method, "similarity");
  EXPECT_EQ(explanation.score_by, "maxsim");
  EXPECT_NEAR(*explanation.score, answer.hits[0].score, 1e-3);
  // Red's mean over four patches is a quarter of it, and three quarters are above: so is green's.
  ASSERT_EQ(explanation.map.size(), 4U);
  EXPECT_NEAR(explanation.map[0], 0.5, 0.01);
  EXPECT_NEAR(explanation.map[1], 0, 0.01);
  EXPECT_NEAR(explanation.map[2], 0.5, 0.01);
  EXPECT_NEAR(explanation.map[3], 0, 0.01);
  // In MaxSim each word contributes the scores of its own rows.
  ASSERT_EQ(explanation.words.size(), 2U);
  for (const WordWeight& word : explanation.words) EXPECT_NEAR(word.drop, 1, 0.02);
  // Nothing is read of the picture: it may be gone.
  fs::remove(folder_ / "pictures/one.png");
  answer.hits[0].explanations.clear();
  ASSERT_TRUE(explain_hits(open(), encoder_, {}, answer, pool_));
  EXPECT_TRUE(answer.hits[0].explanations.at(0).no_map.empty());
  // But for another encoder, which says why it has none.
  ColourEncoder second('2', true, false);
  ASSERT_TRUE(explain_hits(open(), second, {}, answer, pool_));
  EXPECT_FALSE(answer.hits[0].explanations.at(1).no_map.empty());
  EXPECT_FALSE(answer.hits[0].explanations.at(1).score);
}

// A map covers all that the encoder sees, beyond the image's edges if it was padded.
TEST(GridBox, ReachesBeyondThePictureWhereItWasPadded) {
  Preprocessing crop;
  crop.resize_mode = ResizeMode::kShortestEdge;
  crop.resize_height = crop.resize_width = 100;
  crop.crop = true;
  crop.crop_height = crop.crop_width = 100;
  const auto cropped = grid_box(crop, 400, 200);
  ASSERT_TRUE(cropped);
  EXPECT_FLOAT_EQ(cropped->x, 0.25F);
  EXPECT_FLOAT_EQ(cropped->width, 0.5F);
  EXPECT_FLOAT_EQ(cropped->height, 1);
  Preprocessing pad = crop;
  pad.resize_mode = ResizeMode::kLongestEdge;
  const auto padded = grid_box(pad, 400, 200);
  ASSERT_TRUE(padded);
  EXPECT_FLOAT_EQ(padded->x, 0);
  EXPECT_FLOAT_EQ(padded->y, -0.5F);
  EXPECT_FLOAT_EQ(padded->height, 2);
  EXPECT_FALSE(grid_box(pad, 0, 200));
}

TEST(PatchBox, FollowsEveryWayOfResizing) {
  Preprocessing squash;
  squash.resize_mode = ResizeMode::kSquash;
  squash.resize_height = squash.resize_width = 100;
  squash.crop = false;
  const auto box = [](const Preprocessing& how, int64_t width, int64_t height, PatchBlock block) {
    return patch_box(how, width, height, {4, 4}, block);
  };
  EXPECT_FLOAT_EQ(box(squash, 300, 50, {1, 2, 1, 1})->x, 0.5F);
  EXPECT_FLOAT_EQ(box(squash, 300, 50, {1, 2, 1, 2})->width, 0.5F);
  EXPECT_FLOAT_EQ(box(squash, 300, 50, {1, 2, 2, 1})->height, 0.5F);
  // 200 x 100 to a height of 100, the middle 100 columns kept: from a quarter to three quarters.
  Preprocessing crop;
  crop.resize_mode = ResizeMode::kShortestEdge;
  crop.resize_height = crop.resize_width = crop.crop_height = crop.crop_width = 100;
  EXPECT_FLOAT_EQ(box(crop, 200, 100, {0, 0, 1, 1})->x, 0.25F);
  EXPECT_FLOAT_EQ(box(crop, 200, 100, {0, 3, 1, 1})->x, 0.625F);
  EXPECT_FLOAT_EQ(box(crop, 200, 100, {0, 3, 1, 1})->width, 0.125F);
  EXPECT_FLOAT_EQ(box(crop, 200, 100, {0, 3, 1, 1})->height, 0.25F);
  // Made to fit, the rest is padding.
  Preprocessing fit = crop;
  fit.resize_mode = ResizeMode::kLongestEdge;
  EXPECT_FALSE(box(fit, 200, 100, {0, 0, 1, 1}).has_value());
  EXPECT_FLOAT_EQ(box(fit, 200, 100, {1, 1, 1, 1})->y, 0);
  EXPECT_FLOAT_EQ(box(fit, 200, 100, {1, 1, 1, 1})->height, 0.5F);
  EXPECT_FALSE(patch_box(squash, 0, 5, {4, 4}, {}).has_value());
  EXPECT_FALSE(patch_box(squash, 5, 5, {0, 0}, {}).has_value());
}

class Rerank : public LateSearch {
 protected:
  void SetUp() override {
    LateSearch::SetUp();
    encoder_ = ColourEncoder('1', false, false);
    picture("rrrr.png", quarters("rrrr"));
    picture("rrrg.png", quarters("rrrg"));
    picture("rrgg.png", quarters("rrgg"));
    picture("rwww.png", quarters("rwww"));
    picture("bbbb.png", quarters("bbbb"));
    index();
  }
};

TEST_F(Rerank, ByWhatTheSecondEncoderDoesBest) {
  const std::vector<std::string> first = names(answer_to(words("a")));
  EXPECT_THAT(first, ElementsAre("rrrr.png", "rrrg.png", "rrgg.png", "rwww.png", "bbbb.png"));
  ColourEncoder pairs('2', true, true);
  const SearchAnswer matched = rerank(pairs, words("b", 3)).value();
  // By how much green there is; two hits behind them are cut off.
  EXPECT_THAT(names(matched), ElementsAre("rwww.png", "rrgg.png", "rrrg.png"));
  ASSERT_TRUE(matched.reranking.has_value());
  EXPECT_EQ(matched.reranking->method, "match");
  EXPECT_EQ(matched.reranking->depth, 5);
  EXPECT_EQ(matched.reranking->reranked, 5);
  EXPECT_EQ(pairs.pictures, 5);
  EXPECT_NEAR(matched.hits[0].score, 10 + 12, 1e-3);
  EXPECT_EQ(matched.hits[0].rank, 1);
  // Where each was before: the first encoder puts half green first.
  EXPECT_EQ(matched.hits[1].retrieval->rank, 1);
  EXPECT_NEAR(matched.hits[1].retrieval->score, 0.7 / std::sqrt(3), 0.01);

  ColourEncoder late('3', true, false);
  const SearchAnswer by_rows = rerank(late, words("ab", 5)).value();
  EXPECT_EQ(by_rows.reranking->method, "maxsim");
  // A quarter of pure red and one of pure green; the better mean before has the better rank among equals.
  EXPECT_EQ(names(by_rows)[0], "rrgg.png");
  EXPECT_EQ(names(by_rows)[1], "rrrg.png");
  EXPECT_NEAR(by_rows.hits[0].score, 2, 0.02);

  ColourEncoder dense('4', false, false);
  const SearchAnswer by_cosine = rerank(dense, words("a", 5)).value();
  EXPECT_EQ(by_cosine.reranking->method, "cosine");
  EXPECT_EQ(names(by_cosine), first);
  for (const SearchHit& hit : by_cosine.hits) EXPECT_NEAR(hit.score, hit.retrieval->score, 1e-6);
}

TEST_F(Rerank, DepthLeavesTheRestBelow) {
  ColourEncoder pairs('2', false, true);
  RerankOptions options;
  options.depth = 3;
  options.batch = 2;
  const SearchAnswer answer = rerank(pairs, words("a", 5), options).value();
  EXPECT_EQ(answer.reranking->reranked, 3);
  EXPECT_EQ(pairs.pictures, 3);
  // 16 red pixels, then 12, then 8; behind them as they were.
  EXPECT_THAT(names(answer), ElementsAre("rrrr.png", "rrrg.png", "rrgg.png", "rwww.png", "bbbb.png"));
  EXPECT_TRUE(answer.hits[2].reranked);
  EXPECT_FALSE(answer.hits[3].reranked);
  EXPECT_EQ(answer.hits[3].not_reranked, "");
  const Json json = answer_json(answer);
  EXPECT_EQ(json["rerank"]["method"], "match");
  EXPECT_EQ(json["hits"][2]["retrieval"]["rank"], 3);
  EXPECT_EQ(json["hits"][2]["reranked"], true);
  EXPECT_TRUE(json["hits"][3]["score"].is_null());
  EXPECT_TRUE(json["hits"][3]["retrieval"]["score"].is_number());
}

TEST_F(Rerank, PicturesThatAreGoneOrOthersNowStayBelowInTheirOrder) {
  fs::remove(folder_ / "pictures/rrrr.png");
  picture("rrrg.png", quarters("gggg"));
  ColourEncoder pairs('2', false, true);
  const SearchAnswer answer = rerank(pairs, words("a", 5)).value();
  EXPECT_THAT(names(answer), ElementsAre("rwww.png", "rrgg.png", "bbbb.png", "rrrr.png", "rrrg.png"));
  EXPECT_EQ(answer.reranking->reranked, 3);
  EXPECT_EQ(answer.reranking->missing, 1);
  EXPECT_EQ(answer.reranking->changed, 1);
  EXPECT_EQ(answer.reranking->unreadable, 0);
  EXPECT_THAT(answer.hits[3].not_reranked, HasSubstr("rrrr.png"));
  EXPECT_EQ(answer.hits[4].not_reranked, "the file has changed since it was taken in");
  EXPECT_EQ(answer.hits[4].retrieval->rank, 2);
  // A file of the right bytes that the run's limits do not let through.
  SearchQuery query = words("a", 5);
  query.limits.max_pixels = 15;
  EXPECT_EQ(rerank(pairs, query)->reranking->unreadable, 3);
  EXPECT_EQ(rerank(pairs, query)->hits.size(), 5U);
}

TEST_F(Rerank, ADeadlineLeavesTheRestBelow) {
  RerankOptions options;
  options.batch = 2;
  options.deadline = std::chrono::steady_clock::now();
  ColourEncoder pairs('2', false, true);
  const SearchAnswer answer = rerank(pairs, words("b", 5), options).value();
  EXPECT_EQ(pairs.pictures, 2);
  EXPECT_EQ(answer.reranking->depth, 5);
  EXPECT_EQ(answer.reranking->reranked, 2);
  EXPECT_EQ(answer.reranking->out_of_time, 3);
  // As with a smaller depth.
  ColourEncoder same('2', false, true);
  RerankOptions two;
  two.depth = 2;
  EXPECT_EQ(names(answer), names(rerank(same, words("b", 5), two).value()));
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(answer.hits[i].reranked, i < 2) << i;
    EXPECT_EQ(answer.hits[i].not_reranked, i < 2 ? "" : "the time limit was reached") << i;
  }
  EXPECT_EQ(answer_json(answer)["rerank"]["out_of_time"], 3);
  EXPECT_THAT(rerank_warnings(*answer.reranking),
              ElementsAre("only 2 of 5 images were re-ranked within the time limit; the others follow in "
                          "their order"));
}

// Encoder that is busy with others' calls from the second batch of images on, for longer than its callers wait.
class BusyEncoder final : public ColourEncoder {
 public:
  explicit BusyEncoder(std::chrono::steady_clock::time_point until)
      : ColourEncoder('4', false, false), until_(until) {}
  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    if (pictures == 0) return ColourEncoder::encode_images(pixels);
    std::this_thread::sleep_until(until_);
    return fail(ErrorCode::kCancelled, "waited too long");
  }

 private:
  std::chrono::steady_clock::time_point until_;
};

TEST_F(Rerank, AnEncoderThatIsBusyUntilTheDeadlineIsNoError) {
  RerankOptions options;
  options.batch = 2;
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  BusyEncoder busy(soon);
  EXPECT_EQ(rerank(busy, words("a", 5), options).error().code, ErrorCode::kCancelled);
  options.deadline = soon;
  BusyEncoder late(soon);
  const auto answer = rerank(late, words("a", 5), options);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->reranking->reranked, 2);
  EXPECT_EQ(answer->reranking->out_of_time, 3);
}

TEST_F(Rerank, RefusesWhatCannotBe) {
  ColourEncoder dense('2', false, false);
  ColourEncoder pairs('3', false, true);
  const auto error = [&](EncoderBackend& second, RerankMethod method, const SearchQuery& query) {
    RerankOptions options;
    options.method = method;
    const auto answer = rerank(second, query, options);
    return answer ? "" : answer.error().message;
  };
  EXPECT_EQ(error(dense, RerankMethod::kMatch, words("a")),
            "re-rank: match: the checkpoint has no matching head");
  EXPECT_EQ(error(dense, RerankMethod::kMaxSim, words("a")),
            "re-rank: maxsim: the checkpoint gives one row an image");
  EXPECT_THAT(error(pairs, RerankMethod::kStrongest, words(" ")), HasSubstr("the query is empty"));
  SearchQuery large = words("a");
  for (int i = 0; i < kMostQueryParts; ++i) large.text.leave_out("b");
  EXPECT_THAT(error(dense, RerankMethod::kStrongest, large), HasSubstr("parts"));
  EXPECT_EQ(dense.encoded_texts, 0);
  SearchQuery by_picture;
  by_picture.images = {{folder_ / "pictures/rrgg.png"}};
  EXPECT_THAT(error(pairs, RerankMethod::kMatch, by_picture), HasSubstr("the query has an image"));
  const auto fallen_back = rerank(pairs, by_picture);
  ASSERT_TRUE(fallen_back.has_value());
  EXPECT_EQ(fallen_back->reranking->method, "cosine");
  EXPECT_EQ(names(*fallen_back)[0], "rrgg.png");
  RerankOptions options;
  options.depth = 0;
  EXPECT_EQ(rerank(dense, words("a"), options).error().code, ErrorCode::kUsage);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(
      search_and_rerank(open(), encoder_, dense, words("a"), {}, pool_, {}, stop.get_token()).error().code,
      ErrorCode::kCancelled);
  EXPECT_EQ(from_name<RerankMethod>("maxsim"), RerankMethod::kMaxSim);
  EXPECT_EQ(from_name<RerankMethod>("itm"), std::nullopt);
}

}  // namespace
}  // namespace saccade
