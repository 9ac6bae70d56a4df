// Tests of explanations. Word weights are compared with queries encoded separately, and maps with the
// encoder's own. With the starter, over images of two objects, both must be meaningful.
#include "saccade/search/explain/explain_hits.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/ingest/ingest.h"
#include "saccade/collection/picture.h"
#include "saccade/collection/rows/late_item.h"
#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/image_codec.h"
#include "saccade/search/query_language.h"
#include "saccade/search/test_letters.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path starter() {
  return fs::path(test::kSourceDir) / "models/starter";
}
fs::path golden(const std::string& name) {
  return fs::path(test::kSourceDir) / "tests/golden" / name;
}

// Things the starter knows, drawn in a field of 24 x 24.
struct Thing {
  const char* name;
  const char* drawing;
};
constexpr Thing kThings[] = {
    {"heart", R"(<path d="M12 21C4 14 2 11 2 8a5 5 0 0 1 10-2 5 5 0 0 1 10 2c0 3-2 6-10 13z"/>)"},
    {"star", R"(<path d="M12 2l3 7 7.500 .5-6 5 2 7.500L12 18l-6.500 4 2-7.500-6-5L9 9z"/>)"},
    {"house", R"(<path d="M2 12L12 3l10 9h-3v9h-5v-6h-4v6H5v-9z"/>)"},
    {"moon", R"(<path d="M15 2a10 10 0 1 0 7 14A9 9 0 0 1 15 2z"/>)"},
    {"cloud", R"(<path d="M7 19a5 5 0 0 1 0-10 6 6 0 0 1 11-1 5 5 0 0 1 0 11z"/>)"},
    {"lightning", R"(<path d="M13 2L4 14h7l-2 8 10-12h-7z"/>)"},
    {"envelope", R"(<path fill="none" stroke="#000" stroke-width="2" d="M2 5h20v14H2zL12 13 22 5"/>)"},
    {"flag", R"(<path d="M4 2h2v20H4zM7 3h14l-4 5 4 5H7z"/>)"},
    {"lock",
     R"(<path d="M5 10h14v11H5z"/><path fill="none" stroke="#000" stroke-width="2.500" d="M8 10V7a4 4 0 0 1 8 0v3"/>)"},
    {"key",
     R"(<circle cx="7" cy="12" r="4" fill="none" stroke="#000" stroke-width="2.500"/><path d="M11 11h11v6h-2.500v-3.500H17V16h-2.500v-2.500H11z"/>)"},
    {"eye",
     R"(<path fill="none" stroke="#000" stroke-width="2" d="M1 12c6-9 16-9 22 0-6 9-16 9-22 0z"/><circle cx="12" cy="12" r="3.500"/>)"},
    {"umbrella",
     R"(<path d="M2 12a10 10 0 0 1 20 0z"/><path fill="none" stroke="#000" stroke-width="2" d="M12 12v7a2.500 2.500 0 0 0 5 0"/>)"},
};
constexpr size_t kThingCount = std::size(kThings);

std::string two_things(const Thing& left, const Thing& right) {
  const auto at = [](const Thing& thing, int x) {
    return fmt::format(R"(<svg x="{}" y="52" width="88" height="88" viewBox="0 0 24 24">{}</svg>)", x,
                       thing.drawing);
  };
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="192" height="192" viewBox="0 0 192 192">{}{}</svg>)",
      at(left, 4), at(right, 100));
}

// A golden with a tokenizer: a word's letters are its tokens.
class WithLetters : public ForwardingEncoder {
 public:
  explicit WithLetters(std::unique_ptr<EncoderBackend> encoder)
      : ForwardingEncoder(*encoder), encoder_(std::move(encoder)) {}
  const Tokenizer* tokenizer() const override { return &letters_; }

 private:
  std::unique_ptr<EncoderBackend> encoder_;
  test::LetterTokenizer letters_;
};

class CountingEncoder : public ForwardingEncoder {
 public:
  explicit CountingEncoder(std::unique_ptr<EncoderBackend> encoder)
      : ForwardingEncoder(*encoder), encoder_(std::move(encoder)) {}
  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> some) override {
    texts += std::ssize(some);
    return encoder_->encode_texts(some);
  }
  int64_t texts = 0;

 private:
  std::unique_ptr<EncoderBackend> encoder_;
};

class ExplainTest : public testing::Test {
 protected:
  void load(const fs::path& checkpoint) {
    auto loaded = load_encoder(checkpoint);
    ASSERT_TRUE(loaded) << loaded.error().message;
    encoder_ = *std::move(loaded);
  }
  // A collection of all that was written to pictures/.
  void take_in() {
    const EncoderInfo& info = encoder_->info();
    IngestSettings settings;
    if (encoder_->late_interaction() != nullptr) {
      settings.late = late_settings(*encoder_, RowPrecision::kFp16, 1).value();
    }
    auto writer =
        CollectionWriter::create(folder_ / "collection", {"any", "", info.fingerprint, info.dim}, settings);
    ASSERT_TRUE(writer) << writer.error().message;
    const auto report = ingest(*writer, *encoder_, std::vector<fs::path>{folder_ / "pictures"}, {}, pool_);
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_TRUE(report->failed.empty());
    auto opened = CollectionReader::open(folder_ / "collection");
    ASSERT_TRUE(opened) << opened.error().message;
    collection_ = std::make_unique<CollectionReader>(*std::move(opened));
  }
  void write_things() {
    for (const auto& [left, right] : {std::pair{0, 1}, {2, 3}, {4, 5}}) {
      folder_.write(fmt::format("pictures/{}.svg", left), two_things(kThings[left], kThings[right]));
    }
  }
  // PNGs of random pixels, for models that know nothing.
  void write_noise() {
    std::mt19937 random(4);
    for (const char* name : {"a", "b", "c"}) {
      Image image{48, 40, 3, PixelMode::kRgb, std::vector<uint8_t>(48 * 40 * 3)};
      for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random());
      folder_.write(fmt::format("pictures/{}.png", name), encode_png(image).value());
    }
  }
  Result<SearchAnswer> explained(const SearchQuery& query, const ExplainOptions& options = {}) {
    SACCADE_ASSIGN(SearchAnswer answer, search(*collection_, *encoder_, query, pool_));
    SACCADE_TRY(explain_hits(*collection_, *encoder_, options, answer, pool_));
    return answer;
  }

  test::TestFolder folder_;
  ThreadPool pool_{2};
  std::unique_ptr<EncoderBackend> encoder_;
  std::unique_ptr<CollectionReader> collection_;
};

double sum_of(const std::vector<float>& map) {
  return std::accumulate(map.begin(), map.end(), 0.0);
}

TEST_F(ExplainTest, AWordsWeightIsWhatTheScoreLosesWithoutIt) {
  load(starter());
  write_things();
  take_in();
  SearchQuery query;
  query.text = "a red heart, \"star\"";
  const auto answer = explained(query, {.name = "the starter"});
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->hits.size(), 3U);
  const std::vector<std::string> without = {"red heart, \"star\"", "a heart, \"star\"", "a red , \"star\"",
                                            "a red heart, \"\""};
  for (const SearchHit& hit : answer->hits) {
    ASSERT_EQ(hit.explanations.size(), 1U);
    const HitExplanation& explanation = hit.explanations.front();
    EXPECT_EQ(explanation.model, "the starter");
    EXPECT_EQ(explanation.score_by, "cosine");
    ASSERT_TRUE(explanation.score);
    EXPECT_NEAR(*explanation.score, hit.score, 1e-5);
    ASSERT_EQ(explanation.words.size(), 4U);
    const std::vector<std::string> words = {"a", "red", "heart", "star"};
    for (size_t w = 0; w < 4; ++w) {
      const WordWeight& word = explanation.words[w];
      EXPECT_EQ(query.text.str().substr(word.begin, word.end - word.begin), words[w]);
      SearchQuery other = query;
      other.text = without[w];
      other.k = 3;
      const SearchAnswer again = search(*collection_, *encoder_, other, pool_).value();
      const auto same =
          std::ranges::find(again.hits, hit.item.id, [](const SearchHit& h) { return h.item.id; });
      ASSERT_NE(same, again.hits.end());
      EXPECT_NEAR(word.drop, hit.score - same->score, 1e-5) << words[w];
    }
    EXPECT_EQ(explanation.method, "legrad");
    EXPECT_EQ(explanation.grid.rows, 4);
    EXPECT_EQ(explanation.grid.columns, 4);
    ASSERT_EQ(explanation.map.size(), 16U);
    EXPECT_NEAR(sum_of(explanation.map), 1, 1e-5);
    ASSERT_TRUE(explanation.box);
    EXPECT_FLOAT_EQ(explanation.box->x, 0);
    EXPECT_FLOAT_EQ(explanation.box->width, 1);
  }
}

TEST_F(ExplainTest, OneWordAloneIsComparedWithNoText) {
  load(starter());
  write_things();
  take_in();
  SearchQuery query;
  query.text = "heart";
  const auto answer = explained(query);
  ASSERT_TRUE(answer) << answer.error().message;
  const std::vector<TokenizedText> nothing = {encoder_->tokenizer()->encode("", encoder_->info().context)};
  const Matrix<float> row = encoder_->encode_texts(nothing).value();
  for (const SearchHit& hit : answer->hits) {
    ASSERT_EQ(hit.explanations.front().words.size(), 1U);
    const auto picture = collection_->rows().row(hit.item.row);
    const float without = std::inner_product(picture.begin(), picture.end(), row.row(0).begin(), 0.0F);
    EXPECT_NEAR(hit.explanations.front().words.front().drop, hit.score - without, 1e-5);
  }
}

TEST_F(ExplainTest, APictureAsAQueryHasMapsAndNoWords) {
  load(starter());
  write_things();
  take_in();
  SearchQuery query;
  query.images = {{folder_ / "pictures/0.svg"}};
  const auto answer = explained(query);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->hits.front().explanations.front().words.empty());
  EXPECT_NEAR(sum_of(answer->hits.front().explanations.front().map), 1, 1e-5);
  // With words, it stays as it is where one is left out.
  query.text = "heart";
  const auto both = explained(query);
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->hits.front().explanations.front().words.size(), 1U);
  EXPECT_NEAR(*both->hits.front().explanations.front().score, both->hits.front().score, 1e-5);
}

TEST_F(ExplainTest, ManyWordsAreWeighedUpToALimit) {
  load(starter());
  write_things();
  take_in();
  SearchQuery query;
  std::string many;
  for (int64_t i = 0; i < kMostWeighedWords + 20; ++i) many += "w ";
  query.text = many;
  const auto answer = explained(query);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(std::ssize(answer->hits.front().explanations.front().words), kMostWeighedWords);
}

// A query of many parts is encoded part by part, and each again only where a word is left out of it.
TEST_F(ExplainTest, EqualTextsAreEncodedOnce) {
  load(starter());
  write_things();
  take_in();
  auto counting = std::make_unique<CountingEncoder>(std::move(encoder_));
  const int64_t& texts = counting->texts;
  encoder_ = std::move(counting);
  std::string typed;
  for (int64_t i = 0; i < kMostQueryParts; ++i) typed += fmt::format("\"red heart{}\":2 ", i);
  SearchQuery query;
  query.text = read_query_text(typed).value();
  const auto answer = explained(query);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(std::ssize(answer->hits.front().explanations.front().words), kMostWeighedWords);
  // The search's parts, the parts again, and 50 parts without their first word and without their second: "red" is
  // what is left of all of the latter.
  EXPECT_EQ(texts, 2 * kMostQueryParts + kMostWeighedWords / 2 + 1);
}

TEST_F(ExplainTest, ALongTextInChunksIsWeighedUpToALimit) {
  load(starter());
  write_things();
  take_in();
  auto counting = std::make_unique<CountingEncoder>(std::move(encoder_));
  const int64_t& texts = counting->texts;
  encoder_ = std::move(counting);
  std::string many;
  while (std::ssize(many) + 6 <= kMostQueryCharacters) many += fmt::format("{} ", 10'000 + many.size());
  SearchQuery query;
  query.text = many;
  query.long_text = LongText::kChunk;
  const auto answer = explained(query);
  ASSERT_TRUE(answer) << answer.error().message;
  const int64_t chunks = answer->tokens->chunks;
  ASSERT_GT(chunks * kMostWeighedWords, kMostWeighedTexts);
  EXPECT_EQ(std::ssize(answer->hits.front().explanations.front().words), kMostWeighedTexts / chunks);
  EXPECT_LE(texts, 2 * chunks + kMostWeighedTexts);
}

TEST_F(ExplainTest, AGonePictureHasWordsAndSaysWhyNoMap) {
  load(starter());
  write_things();
  take_in();
  fs::remove(folder_ / "pictures/0.svg");
  folder_.write("pictures/2.svg", two_things(kThings[6], kThings[7]));
  SearchQuery query;
  query.text = "heart";
  const auto answer = explained(query);
  ASSERT_TRUE(answer) << answer.error().message;
  int without = 0;
  for (const SearchHit& hit : answer->hits) {
    const HitExplanation& explanation = hit.explanations.front();
    EXPECT_EQ(explanation.words.size(), 1U);
    EXPECT_EQ(explanation.map.empty(), !explanation.no_map.empty());
    if (explanation.map.empty()) ++without;
    if (hit.item.path.ends_with("/2.svg")) {
      EXPECT_THAT(explanation.no_map, HasSubstr("changed"));
    }
  }
  EXPECT_EQ(without, 2);
}

// Late interaction: the words' weights are of MaxSim. (ColPali's: tests/cli/late_interaction_test.cc.)
TEST_F(ExplainTest, OfLateInteractionScoresAreMaxSim) {
  load(golden("blip2-itm"));
  encoder_ = std::make_unique<WithLetters>(std::move(encoder_));
  write_noise();
  take_in();
  SearchQuery query;
  query.text = "a cat";
  for (const MapMethod method : {MapMethod::kLegrad, MapMethod::kChefer}) {
    const auto answer = explained(query, {.method = method});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_FALSE(answer->hits.empty());
    for (const SearchHit& hit : answer->hits) {
      const HitExplanation& explanation = hit.explanations.front();
      EXPECT_EQ(explanation.score_by, "maxsim");
      EXPECT_NEAR(*explanation.score, hit.score, 2e-3);
      EXPECT_EQ(explanation.words.size(), 2U);
      EXPECT_EQ(explanation.method, enum_name(method));
      EXPECT_EQ(std::ssize(explanation.map), 16);
      EXPECT_NEAR(sum_of(explanation.map), 1, 1e-4);
    }
  }
}

TEST_F(ExplainTest, FamiliesWithoutMapsAreRefusedByName) {
  for (const auto& [name, family] : {std::pair{"align", "align"}, {"clip-resnet", "clip"}}) {
    load(golden(name));
    const Status can = check_explains(*encoder_, {});
    ASSERT_FALSE(can);
    EXPECT_EQ(can.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(can.error().message, HasSubstr(family));
    EXPECT_THAT(can.error().message, HasSubstr("siglip"));
  }
}

// Another encoder than the collection's: its own row of the picture, its own words, its
// own map, beside the first one's.
TEST_F(ExplainTest, ASecondEncoderSpeaksForItself) {
  load(starter());
  write_things();
  take_in();
  SearchQuery query;
  query.text = "red heart";
  SearchAnswer answer = explained(query, {.name = "first"}).value();
  for (const char* name : {"siglip", "blip2-itm"}) {
    WithLetters second(load_encoder(golden(name)).value());
    const Status done = explain_hits(*collection_, second, {.name = "second"}, answer, pool_);
    ASSERT_TRUE(done) << done.error().message;
    for (SearchHit& hit : answer.hits) {
      ASSERT_EQ(hit.explanations.size(), 2U);
      EXPECT_EQ(hit.explanations[1].model, "second");
      ASSERT_TRUE(hit.explanations[1].score);
      EXPECT_NE(hit.explanations[1].score, hit.explanations[0].score);
      EXPECT_EQ(hit.explanations[1].words.size(), 2U);
      EXPECT_NEAR(sum_of(hit.explanations[1].map), 1, 1e-4);
      hit.explanations.pop_back();
    }
  }
}

// --- that it means something ----------------------------------------------------------------------------

// Every picture of two different things, each of them named in turn.
class TwoThings {
 public:
  TwoThings() : encoder_(load_encoder(starter()).value()) {
    std::vector<TokenizedText> names;
    for (const Thing& thing : kThings) {
      names.push_back(encoder_->tokenizer()->encode(thing.name, encoder_->info().context));
    }
    rows_ = encoder_->encode_texts(names).value();
  }

  // visit(pixels [1, 3 * side * side], the name's row, whether its thing is on the left)
  template <typename Visit>
  void each(const Visit& visit) {
    const Preprocessing& preprocessing = encoder_->preprocessing();
    for (size_t a = 0; a < kThingCount; ++a) {
      for (size_t b = 0; b < kThingCount; ++b) {
        if (a == b) continue;
        const std::string svg = two_things(kThings[a], kThings[b]);
        const DecodedImage decoded =
            decode_image(std::as_bytes(std::span(svg)), picture_decode_options({}, preprocessing)).value();
        Matrix<float> pixels(1, int64_t{3} * preprocessing.output_height() * preprocessing.output_width());
        ASSERT_TRUE(preprocess_picture(decoded.image, preprocessing, {}, pixels.row(0)));
        visit(pixels, std::as_const(rows_).row(static_cast<int64_t>(a)), true);
        visit(pixels, std::as_const(rows_).row(static_cast<int64_t>(b)), false);
      }
    }
  }
  [[nodiscard]] std::vector<float> map(const Matrix<float>& pixels, std::span<const float> name,
                                       MapMethod method) {
    const PictureMaps maps = encoder_->picture_mapper()->map_pictures(pixels.view(), name, method).value();
    EXPECT_EQ(maps.rows, kSide);
    return {maps.relevance.row(0).begin(), maps.relevance.row(0).end()};
  }
  [[nodiscard]] float score(const Matrix<float>& pixels, std::span<const float> name) {
    const Matrix<float> rows = encoder_->encode_images(pixels.view()).value();
    return std::inner_product(name.begin(), name.end(), rows.row(0).begin(), 0.0F);
  }

  static constexpr int64_t kSide = 4;  // patches

 private:
  std::unique_ptr<EncoderBackend> encoder_;
  Matrix<float> rows_;
};

Matrix<float> copy_of(const Matrix<float>& pixels) {
  Matrix<float> copy(pixels.rows(), pixels.columns());
  std::ranges::copy(pixels.values(), copy.values().begin());
  return copy;
}

// The pixels of a patch, in every channel of a picture of 64 x 64.
template <typename Visit>
void for_patch(Matrix<float>& pixels, size_t patch, const Visit& visit) {
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t y = 0; y < 16; ++y) {
      for (size_t x = 0; x < 16; ++x) {
        visit(pixels.values()[(channel * 64 + patch / 4 * 16 + y) * 64 + patch % 4 * 16 + x]);
      }
    }
  }
}

// Measured: legrad 165 of 264 (62.5%, half by chance), chefer 195.
TEST(ExplainedPictures, TheNamedHalfHasMoreOfTheMap) {
  TwoThings things;
  for (const MapMethod method : {MapMethod::kLegrad, MapMethod::kChefer}) {
    int right = 0;
    int all = 0;
    things.each([&](const Matrix<float>& pixels, std::span<const float> name, bool on_left) {
      const std::vector<float> map = things.map(pixels, name, method);
      double left_mass = 0;
      for (size_t p = 0; p < map.size(); ++p) left_mass += p % 4 < 2 ? map[p] : -map[p];
      right += on_left ? left_mass > 0 : left_mass < 0;
      ++all;
    });
    RecordProperty(std::string(enum_name(method)), right);
    EXPECT_GT(right, all * (method == MapMethod::kLegrad ? 57 : 65) / 100)
        << enum_name(method) << " " << right << " of " << all;
  }
}

// Deletion: without the two patches that the map has most of, the score is lower
// than without two others that show something. Measured: legrad in 177 of 264, chefer in 217.
TEST(ExplainedPictures, WithoutTheirBestPatchesTheyScoreLess) {
  constexpr float kWhite = 1;  // normalized
  TwoThings things;
  std::mt19937 random(3);
  for (const MapMethod method : {MapMethod::kLegrad, MapMethod::kChefer}) {
    int lower = 0;
    int all = 0;
    double best_drop = 0;
    double other_drop = 0;
    things.each([&](const Matrix<float>& pixels, std::span<const float> name, bool) {
      Matrix<float> copy = copy_of(pixels);
      std::vector<size_t> inked;
      for (size_t patch = 0; patch < 16; ++patch) {
        bool ink = false;
        for_patch(copy, patch, [&](const float& value) { ink = ink || value < 0.9F; });
        if (ink) inked.push_back(patch);
      }
      ASSERT_GT(inked.size(), 4U);
      const std::vector<float> map = things.map(pixels, name, method);
      const auto without = [&](size_t first, size_t second) {
        Matrix<float> blank = copy_of(pixels);
        for (const size_t patch : {first, second})
          for_patch(blank, patch, [](float& value) { value = kWhite; });
        return things.score(blank, name);
      };
      std::ranges::shuffle(inked, random);
      const float other = without(inked[0], inked[1]);
      std::ranges::sort(inked, std::greater<>(), [&](size_t patch) { return map[patch]; });
      const float best = without(inked[0], inked[1]);
      const float whole = things.score(pixels, name);
      best_drop += whole - best;
      other_drop += whole - other;
      lower += best < other;
      ++all;
    });
    RecordProperty(std::string(enum_name(method)), lower);
    EXPECT_GT(best_drop, other_drop) << enum_name(method);
    EXPECT_GT(lower, all * (method == MapMethod::kLegrad ? 60 : 72) / 100)
        << enum_name(method) << " " << lower << " of " << all;
  }
}

}  // namespace
}  // namespace saccade
