// Tests of reranking: ranks against sorted lists, and a second encoder that knows better.
#include "lab/eval/retrieval/retrieval_rerank.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/retrieval/retrieval_study.h"
#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/test_encoder.h"

namespace saccade::lab {
namespace {

using testing::ElementsAre;

TEST(RerankDepths, GrowToTheLast) {
  EXPECT_THAT(rerank_depths(128), ElementsAre(2, 5, 10, 20, 50, 100, 128));
  EXPECT_THAT(rerank_depths(10), ElementsAre(2, 5, 10));
  EXPECT_THAT(rerank_depths(2), ElementsAre(2));
}

// Against lists that are sorted: the first `depth` by the new scores, wrong ones first among equals, then the rest.
TEST(Reranked, AreThePlacesInTheNewOrder) {
  std::mt19937 random(9);
  ThreadPool pool(1);
  for (int round = 0; round < 200; ++round) {
    const int64_t images = 3 + static_cast<int64_t>(random() % 12);
    const int64_t texts = 8;
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (int64_t t = 0; t < texts; ++t) {
      for (int64_t i = 0; i < images; ++i) {
        if (random() % 4 == 0) pairs.emplace_back(t, i);
      }
    }
    const auto relevance = Relevance::from_pairs(texts, images, pairs);
    Matrix<float> scores(texts, images);
    std::vector<float> values(static_cast<size_t>(texts * images));
    std::iota(values.begin(), values.end(), 0.0F);
    std::ranges::shuffle(values, random);
    std::ranges::copy(values, scores.data());
    const auto source = given_scores({DType::kF32, {texts, images}, std::as_bytes(scores.values())});
    const auto first = rank_right_answers(**source, *relevance, Direction::kTextToImage, {}, pool);
    const auto depth = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(images));
    std::vector<JudgedAnswers> judged;
    std::vector<std::vector<double>> expected;
    for (int64_t q = 0; q < texts; ++q) {
      std::vector<int64_t> order(static_cast<size_t>(images));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, [&](int64_t a, int64_t b) { return scores(q, a) > scores(q, b); });
      JudgedAnswers& one = judged.emplace_back();
      for (const int64_t answer : order) {
        one.answers.push_back(answer);
        one.scores.push_back(static_cast<float>(random() % 4));  // often equal
      }
      const auto right = relevance->right(Direction::kTextToImage, q);
      std::vector<size_t> places(static_cast<size_t>(depth));
      std::iota(places.begin(), places.end(), size_t{0});
      std::ranges::stable_sort(places, [&](size_t a, size_t b) {
        if (one.scores[a] != one.scores[b]) return one.scores[a] > one.scores[b];
        return !std::ranges::binary_search(right, order[a]) && std::ranges::binary_search(right, order[b]);
      });
      std::vector<int64_t> sorted;
      for (const size_t place : places) sorted.push_back(order[place]);
      sorted.insert(sorted.end(), order.begin() + depth, order.end());
      std::vector<double>& ranks = expected.emplace_back();
      for (size_t place = 0; place < sorted.size(); ++place) {
        if (std::ranges::binary_search(right, sorted[place])) ranks.push_back(static_cast<double>(place) + 1);
      }
    }
    const QueryRanks ranks = reranked(*first, judged, *relevance, Direction::kTextToImage, depth);
    for (int64_t q = 0; q < texts; ++q) {
      EXPECT_EQ(std::vector<double>(ranks.of(q).begin(), ranks.of(q).end()),
                expected[static_cast<size_t>(q)]);
    }
  }
}

// Returns a source of one encoder, for which all texts and images are the same.
CheckpointSource blind_source() {
  CheckpointSource source;
  source.find = [](const std::string& given) -> Result<std::filesystem::path> { return given; };
  source.fingerprint = [](const std::string& given) -> Result<std::string> { return given; };
  source.load = [](const std::string& given, Precision) -> Result<LoadedEncoder> {
    auto encoder = std::make_unique<ColourEncoder>();
    encoder->mutable_info().fingerprint = "blind";
    // Rows of texts and images are the same apart from a little that says nothing.
    encoder->spoil = [](Matrix<float>& rows) {
      for (int64_t i = 0; i < rows.rows(); ++i) {
        std::ranges::fill(rows.row(i), 0.5F);
      }
    };
    LoadedEncoder loaded;
    loaded.id.name = given;
    loaded.id.path = "/models/" + given;
    loaded.encoder = std::move(encoder);
    return loaded;
  };
  return source;
}

// The first encoder gives every text the same row. The second one knows the colours.
TEST(Rerank, TheSecondEncoderDecidesAmongTheFirstAnswers) {
  test::TestFolder folder;
  const std::vector<std::array<uint8_t, 3>> colours = {{250, 0, 0}, {0, 250, 0}, {0, 0, 250}, {250, 250, 0}};
  const std::vector<std::string> captions = {"r", "g", "b", "rg"};
  std::string manifest;
  for (size_t i = 0; i < colours.size(); ++i) {
    folder.write(fmt::format("{}.png", i), one_colour(colours[i][0], colours[i][1], colours[i][2]));
    manifest += fmt::format(R"({{"image": "{}.png", "captions": ["{}"]}})", i, captions[i]) + "\n";
  }
  folder.write("set.jsonl", manifest);
  EvaluationOptions options;
  options.datasets = {(folder / "set.jsonl").string()};
  options.checkpoints = {"blind"};
  options.bootstrap.resamples = 50;
  CheckpointSource source = blind_source();
  ThreadPool pool(2);
  for (const bool late : {false, true}) {
    ColourEncoder second(late);
    RetrievalStudy study({}, options);
    study.rerank_by({.encoder = &second, .name = "second", .fingerprint = "second", .depth = 4});
    const auto evaluation = evaluate(study, options, source, pool);
    ASSERT_TRUE(evaluation) << evaluation.error().message;
    EXPECT_EQ(evaluation->info.protocol["rerank"]["by"], late ? "maxsim" : "cosine");
    const auto metrics = read_record<RetrievalMetrics>(evaluation->metrics);
    ASSERT_TRUE(metrics) << metrics.error().message;
    const RetrievalResult& result = metrics->results.back();
    ASSERT_TRUE(result.rerank);
    ASSERT_EQ(result.rerank->points.size(), 2U);  // 2 and 4
    EXPECT_EQ(find_named(result.directions.t2i.figures, "r1")->value,
              0);  // all are equal: ties count against it
    const RerankPoint& last = result.rerank->points.back();
    EXPECT_EQ(last.depth, 4);
    EXPECT_EQ(find_named(last.figures.t2i, "r1")->value, 1);
    EXPECT_EQ(find_named(last.gain.t2i, "r1")->figure.value, 1);
    // There are 4 answers in all.
    EXPECT_TRUE(std::isnan(find_named(last.figures.t2i, "r5")->value));
    EXPECT_TRUE(find_named(last.gain.t2i, "r10")->blank);
    EXPECT_EQ(result.rerank->pairs, 16);
    // Only images 0 and 1 of the first two answers are right for anything.
    EXPECT_EQ(find_named(result.rerank->points.front().figures.t2i, "r1")->value, 0.5);
  }

  // No depth is beyond the larger gallery. A direction ends with the first depth that holds all of its own.
  folder.write("two.jsonl",
               "{\"image\": \"0.png\", \"captions\": [\"r\", \"rg\"]}\n"
               "{\"image\": \"1.png\", \"captions\": [\"g\", \"gb\"]}\n");
  EvaluationOptions few = options;
  few.datasets = {(folder / "two.jsonl").string()};
  ColourEncoder colours_known;
  RetrievalStudy deep({}, few);
  deep.rerank_by({.encoder = &colours_known, .name = "second", .fingerprint = "second", .depth = 100});
  const auto whole = evaluate(deep, few, source, pool);
  ASSERT_TRUE(whole) << whole.error().message;
  const auto curve = read_record<RetrievalMetrics>(whole->metrics);
  ASSERT_TRUE(curve) << curve.error().message;
  const std::vector<RerankPoint>& points = curve->results.back().rerank->points;
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].depth, 2);  // both images, and two of the four texts
  EXPECT_EQ(points[1].depth, 4);
  EXPECT_NE(find_named(points[0].figures.t2i, "r1"), nullptr);
  EXPECT_TRUE(points[1].figures.t2i.empty());
  EXPECT_NE(find_named(points[1].figures.i2t, "r1"), nullptr);

  // A figure that reranking cannot measure is refused before any encoder is loaded.
  source.load = [](const std::string&, Precision) -> Result<LoadedEncoder> {
    return fail(ErrorCode::kInternal, "loaded");
  };
  ColourEncoder second;
  const RerankChoice choice = {.encoder = &second, .name = "second", .fingerprint = "second", .depth = 4};
  for (const auto& [retrieval, reason] :
       {std::pair(RetrievalOptions{.first_queries = true}, "seven-models"),
        std::pair(RetrievalOptions{.ties = TiePolicy::kOptimistic}, "optimistic")}) {
    RetrievalStudy study(retrieval, options);
    study.rerank_by(choice);
    const auto refused = evaluate(study, options, source, pool);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUsage) << refused.error().message;
    EXPECT_THAT(refused.error().message, testing::HasSubstr(reason));
  }
}

// BLIP-2's golden has random weights, and a tokenizer of letters is added to it. The images and captions are such that logits
// alone, similarities alone and their sum find different numbers of images first.
TEST(Rerank, AMatchingHeadScoresLogitPlusSimilarity) {
  test::TestFolder folder;
  const std::filesystem::path checkpoint = folder.path() / "blip2";
  std::filesystem::copy(std::filesystem::path(test::kSourceDir) / "tests/golden/blip2-itm", checkpoint);
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) words += fmt::format("{0}\n##{0}\n", letter);
  for (int unused = 56; unused < 200; ++unused) words += fmt::format("[unused{}]\n", unused);
  folder.write("blip2/vocab.txt", words);
  folder.write("blip2/tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  using Colour = std::array<uint8_t, 3>;
  const std::vector<std::pair<Colour, Colour>> colours = {{{255, 0, 0}, {0, 255, 255}},
                                                          {{0, 0, 0}, {0, 0, 0}},
                                                          {{255, 0, 255}, {255, 0, 0}},
                                                          {{255, 255, 255}, {0, 255, 255}},
                                                          {{0, 0, 255}, {255, 0, 0}}};
  const std::vector<std::string> captions = {"lsenjqziolunjn", "bbz", "q", "e", "zeapus"};
  constexpr int64_t kCount = 5;
  std::string manifest;
  for (size_t i = 0; i < colours.size(); ++i) {
    folder.write(fmt::format("{}.png", i), two_colours(colours[i].first, colours[i].second));
    manifest += fmt::format(R"({{"image": "{}.png", "captions": ["{}"]}})", i, captions[i]) + "\n";
  }
  folder.write("set.jsonl", manifest);
  EvaluationOptions options;
  options.datasets = {(folder / "set.jsonl").string()};
  options.checkpoints = {"blind"};
  options.bootstrap.resamples = 50;
  const auto second = load_encoder(checkpoint);
  ASSERT_TRUE(second) << second.error().message;
  EncoderBackend& encoder = **second;
  ASSERT_NE(encoder.tokenizer(), nullptr);
  ASSERT_NE(encoder.pair_scorer(), nullptr);
  ASSERT_NE(encoder.late_interaction(), nullptr);
  ThreadPool pool(2);
  RetrievalStudy study({}, options);
  study.rerank_by({.encoder = &encoder, .name = "blip2", .fingerprint = "blip2", .depth = kCount});
  const auto evaluation = evaluate(study, options, blind_source(), pool);
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  EXPECT_EQ(evaluation->info.protocol["rerank"]["by"], "match");
  const auto metrics = read_record<RetrievalMetrics>(evaluation->metrics);
  ASSERT_TRUE(metrics) << metrics.error().message;
  const RetrievalResult& result = metrics->results.back();
  ASSERT_TRUE(result.rerank);
  EXPECT_EQ(result.rerank->pairs, kCount * kCount);
  const RerankPoint& last = result.rerank->points.back();
  ASSERT_EQ(last.depth, kCount);

  // The same by plain loops: one pair at a time, and the similarity as the largest product with an image's rows. The logit is
  // what the score has beyond it (blip2_test.cc holds the score against the reference).
  const PixelBatch pixels = read_pixels(
      kCount, [&](int64_t i) { return read_file(folder / fmt::format("{}.png", i)); },
      pixel_options(with_transparency(encoder.preprocessing(), Transparency::kWhite)), pool);
  ASSERT_TRUE(pixels.failed.empty());
  const auto rows = encoder.late_interaction()->encode_image_rows(pixels.rows());
  ASSERT_TRUE(rows) << rows.error().message;
  Matrix<double> score(kCount, kCount), similarity(kCount, kCount), logit(kCount, kCount);
  for (int64_t t = 0; t < kCount; ++t) {
    const std::vector<TokenizedText> text = {
        encoder.tokenizer()->encode(captions[static_cast<size_t>(t)], encoder.info().context)};
    const auto embedded = encoder.encode_texts(text);
    ASSERT_TRUE(embedded) << embedded.error().message;
    for (int64_t i = 0; i < kCount; ++i) {
      const auto one = encoder.pair_scorer()->score_pairs(pixels.rows().slice(i, 1), text);
      ASSERT_TRUE(one) << one.error().message;
      ASSERT_EQ(one->size(), 1U);
      double largest = -2;
      for (int64_t row = rows->begin[static_cast<size_t>(i)]; row < rows->begin[static_cast<size_t>(i) + 1];
           ++row) {
        double dot = 0;
        for (int64_t c = 0; c < embedded->columns(); ++c)
          dot += double{rows->rows(row, c)} * (*embedded)(0, c);
        largest = std::max(largest, dot);
      }
      score(t, i) = one->front();
      similarity(t, i) = largest;
      logit(t, i) = one->front() - largest;
    }
  }
  // Shares of texts that find their image first, and of images that find their text first.
  const auto first = [&](const Matrix<double>& by) {
    double t2i = 0;
    double i2t = 0;
    for (int64_t own = 0; own < kCount; ++own) {
      bool image = true;
      bool text = true;
      for (int64_t other = 0; other < kCount; ++other) {
        image = image && (other == own || by(own, other) < by(own, own));
        text = text && (other == own || by(other, own) < by(own, own));
      }
      t2i += image ? 1.0 / kCount : 0;
      i2t += text ? 1.0 / kCount : 0;
    }
    return std::pair(t2i, i2t);
  };
  EXPECT_NEAR(find_named(last.figures.t2i, "r1")->value, first(score).first, 1e-9);
  EXPECT_NEAR(find_named(last.figures.i2t, "r1")->value, first(score).second, 1e-9);
  EXPECT_GT(std::abs(first(score).first - first(similarity).first), 0.1);
  EXPECT_GT(std::abs(first(score).first - first(logit).first), 0.1);
}

}  // namespace
}  // namespace saccade::lab
