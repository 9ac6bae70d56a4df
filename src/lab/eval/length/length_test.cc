#include "lab/eval/length/length.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/length/length_curve.h"
#include "lab/eval/run/record_fields.h"
#include "saccade/core/random.h"
#include "saccade/text/sentences.h"

namespace saccade::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

constexpr int64_t kDim = 24;

// A tokenizer for which "w12" is token 12, and any other word is no token. Start is 1000, end 1001.
class WordTokenizer : public Tokenizer {
 public:
  [[nodiscard]] TokenizedText encode(std::string_view text, int64_t max_tokens) const override {
    TokenizedText result;
    result.first = 1;
    result.ids.push_back(start_id());
    for (size_t at = 0; (at = text.find_first_of("wW", at)) != std::string_view::npos; ++at) {
      if (static_cast<int64_t>(result.ids.size()) + 1 < max_tokens) {
        result.ids.push_back(std::atoi(text.data() + at + 1));
        ++result.used;
      } else {
        ++result.dropped;
      }
    }
    result.ids.push_back(end_id());
    return result;
  }
  [[nodiscard]] int64_t vocabulary_size() const override { return 1002; }
  [[nodiscard]] int32_t start_id() const override { return 1000; }
  [[nodiscard]] int32_t end_id() const override { return 1001; }
  [[nodiscard]] int32_t pad_id() const override { return 0; }
};

// Returns the vector of a token, normalized.
std::vector<float> token_row(int32_t id) {
  std::mt19937 random(static_cast<uint32_t>(id));
  std::vector<float> row(kDim);
  double square = 0;
  for (float& value : row) {
    value = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;
    square += double{value} * value;
  }
  for (float& value : row) value = static_cast<float>(value / std::sqrt(square));
  return row;
}

std::vector<float> normalized(std::vector<float> row) {
  double square = 0;
  for (const float value : row) square += double{value} * value;
  for (float& value : row) value = static_cast<float>(value / std::sqrt(square));
  return row;
}

// Early tokens count more. The start token counts a little, so that no embedding is zero.
std::vector<float> text_row(const std::vector<int32_t>& ids) {
  std::vector<float> row(kDim);
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const std::vector<float> token = token_row(ids[i]);
    const float weight = i == 0 ? 0.2F : 1.0F / static_cast<float>(i);
    for (size_t c = 0; c < row.size(); ++c) row[c] += weight * token[c];
  }
  return normalized(row);
}

// Returns the words of ids. A last word of 20 or more comes apart, as a cut word of byte pairs may.
std::string words_of(std::span<const int32_t> ids) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    const int32_t id = ids[i];
    text +=
        i + 1 == ids.size() && id >= 20 ? fmt::format("w{} w{} ", id / 10, id % 10) : fmt::format("w{} ", id);
  }
  return text;
}

// Returns the words of a text's own tokens.
std::string own_words(const TokenizedText& text) {
  return words_of(std::span<const int32_t>(text.ids).subspan(1, static_cast<size_t>(text.used)));
}

// Images that show words, each with another strength, so that no two are alike. Texts name some of these
// words in sentences. Also holds the embeddings of both.
struct World {
  WordTokenizer tokenizer;
  LengthTexts texts;
  EmbeddedRows images;
  bool late = false;
  std::vector<int64_t> text_image;
  std::multiset<std::vector<int32_t>> encoded;

  World(uint32_t seed, int64_t image_count, int64_t most_words, int64_t per_image = 2, bool with_late = false)
      : late(with_late) {
    std::mt19937 random(seed);
    const int64_t rows_each = late ? 3 : 1;
    images.late = late;
    images.sets.rows = Matrix<float>(image_count * rows_each, kDim);
    for (int64_t i = 0; i < image_count; ++i) {
      std::vector<int32_t> shown;
      for (int w = 0; w < 6; ++w) shown.push_back(static_cast<int32_t>(random() % 40));
      for (int64_t r = 0; r < rows_each; ++r) {
        std::vector<float> row(kDim);
        for (size_t place = 0; place < shown.size(); ++place) {
          const int32_t id = shown[place];
          if (late && id % 3 != r && id != shown.front()) continue;
          const std::vector<float> token = token_row(id);
          for (size_t c = 0; c < row.size(); ++c) row[c] += (1 + 0.1F * static_cast<float>(place)) * token[c];
        }
        std::ranges::copy(normalized(row), images.sets.rows.row(i * rows_each + r).begin());
      }
      images.sets.begin.push_back((i + 1) * rows_each);
      for (int64_t t = 0; t < per_image; ++t) {
        const auto words = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most_words));
        std::string text;
        for (int64_t w = 0; w < words; ++w) {
          const int32_t word = random() % 4 == 0 ? static_cast<int32_t>(random() % 40) : shown[random() % 6];
          const bool begins = text.empty() || text.ends_with(". ");
          text += fmt::format("{}{}", begins ? 'W' : 'w', word);
          text += random() % 4 == 0 ? ". " : " ";
        }
        texts.texts.push_back(text);
        text_image.push_back(i);
      }
    }
    relate();
  }

  void relate() {
    texts.relevance = Relevance::from_text_image(text_image, images.size()).value();
    texts.image_of_text = text_image;
  }

  [[nodiscard]] RowSets rows_of(std::span<const TokenizedText> given) const {
    RowSets sets;
    std::vector<std::vector<float>> rows;
    for (const TokenizedText& text : given) {
      if (late) {
        for (size_t i = 0; i + 1 < text.ids.size(); ++i) rows.push_back(token_row(text.ids[i]));
      } else {
        rows.push_back(text_row(text.ids));
      }
      sets.begin.push_back(static_cast<int64_t>(rows.size()));
    }
    sets.rows = Matrix<float>(static_cast<int64_t>(rows.size()), kDim);
    for (size_t r = 0; r < rows.size(); ++r)
      std::ranges::copy(rows[r], sets.rows.row(static_cast<int64_t>(r)).begin());
    return sets;
  }

  LengthModel model(int64_t context) {
    LengthModel result;
    result.tokenizer = &tokenizer;
    result.context = context;
    result.images = &images;
    result.decode = &words_of;
    result.encode = [this, context](std::span<const TokenizedText> given,
                                    const std::string&) -> Result<EmbeddedRows> {
      for (const TokenizedText& text : given) {
        encoded.insert(text.ids);
        if (static_cast<int64_t>(text.ids.size()) > context) return fail(ErrorCode::kUsage, "too long");
      }
      return EmbeddedRows{.sets = rows_of(given), .late = late, .cache = {}};
    };
    return result;
  }
};

float dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0F);
}

// Returns which queries have a right answer above all wrong ones, from the whole matrix, pair by pair.
std::vector<double> slow_hits(const RowSets& texts, const RowSets& images,
                              const std::vector<int64_t>& text_image, Direction direction) {
  const auto score = [&](size_t t, size_t i) {
    float sum = 0;
    for (int64_t a = texts.begin[t]; a < texts.begin[t + 1]; ++a) {
      float best = -2;
      for (int64_t b = images.begin[i]; b < images.begin[i + 1]; ++b) {
        best = std::max(best, dot(texts.rows.row(a), images.rows.row(b)));
      }
      sum += best;
    }
    return sum;
  };
  const bool to_image = direction == Direction::kTextToImage;
  const size_t queries = to_image ? texts.begin.size() - 1 : images.begin.size() - 1;
  const size_t gallery = to_image ? images.begin.size() - 1 : texts.begin.size() - 1;
  std::vector<double> hits;
  for (size_t q = 0; q < queries; ++q) {
    float right = -INFINITY;
    float wrong = -INFINITY;
    for (size_t g = 0; g < gallery; ++g) {
      const size_t t = to_image ? q : g;
      const size_t i = to_image ? g : q;
      float& best = text_image[t] == static_cast<int64_t>(i) ? right : wrong;
      best = std::max(best, score(t, i));
    }
    if (right > -INFINITY) hits.push_back(right > wrong + 1e-6F ? 1 : 0);
  }
  return hits;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

LengthOptions quick() {
  LengthOptions options;
  options.bootstrap.resamples = 50;
  return options;
}

TEST(EffectivePlace, ByHand) {
  const auto place = [](std::vector<double> curve, double share = 0.95) {
    return effective_place(curve, share);
  };
  EXPECT_EQ(place({}), std::nullopt);
  EXPECT_EQ(place({0, 0, 0}), std::nullopt);
  EXPECT_EQ(place({0.1, NAN, 0.3}), std::nullopt);
  EXPECT_THAT(place({0.3, 0.3, 0.3}), Optional(0U));
  EXPECT_THAT(place({0, 0, 0.01}), Optional(2U));
  EXPECT_THAT(place({0.1, 0.2, 0.3, 0.4, 0.4}), Optional(3U));
  // 0.37 is slightly less than 0.95 * 0.4 = 0.38, which is exactly enough.
  EXPECT_THAT(place({0.1, 0.37, 0.38, 0.4}), Optional(2U));
  EXPECT_THAT(place({0.1, 0.475, 0.5}), Optional(1U));
  // The curve goes up, down and up again. The first place counts, relative to the overall maximum.
  EXPECT_THAT(place({0.1, 0.5, 0.3, 0.52, 0.2}), Optional(1U));
  EXPECT_THAT(place({0.1, 0.49, 0.3, 0.52, 0.2}), Optional(3U));
  EXPECT_THAT(place({0.1, 0.5, 0.51, 0.5}, 1.0), Optional(2U));
  EXPECT_THAT(place({0.1, 0.2, 0.4}, 0.5), Optional(1U));
}

TEST(EffectiveLength, ItsIntervalIsOfWholeLengths) {
  const std::vector<int64_t> lengths = {2, 5, 10, 20};
  Matrix<double> resampled(4, 4);
  const double curves[4][4] = {{1, 1, 1, 1}, {0.1, 1, 1, 1}, {0.1, 0.5, 1, 1}, {0.1, 0.5, 0.9, 1}};
  for (int64_t r = 0; r < 4; ++r) std::copy_n(curves[r], 4, resampled.row(r).begin());
  const EffectiveLength all =
      effective_length(lengths, std::vector<double>{0.1, 0.6, 0.99, 1}, resampled, 0.95, 0.95);
  EXPECT_THAT(all.value, Optional(10));
  EXPECT_THAT(all.low, Optional(2));
  EXPECT_THAT(all.high, Optional(20));
  EXPECT_FALSE(all.at_end);
  const EffectiveLength middle =
      effective_length(lengths, std::vector<double>{0.1, 0.6, 0.9, 1}, resampled, 0.95, 0.2);
  EXPECT_THAT(middle.value, Optional(20));
  EXPECT_TRUE(middle.at_end);
  EXPECT_THAT(middle.low, Optional(5));  // places 1.2 and 1.8 of 0 .. 3
  EXPECT_THAT(middle.high, Optional(10));
  // One resample found nothing: an interval of the others alone would be too narrow.
  std::ranges::fill(resampled.row(0), 0.0);
  EXPECT_EQ(effective_length(lengths, std::vector<double>{0, 0, 0, 1}, resampled, 0.95, 0.95).low,
            std::nullopt);
  const EffectiveLength none = effective_length(lengths, std::vector<double>(4), resampled, 0.95, 0.95);
  EXPECT_EQ(none.value, std::nullopt);
  EXPECT_FALSE(none.at_end);
}

TEST(LengthCurve, TellsWhatIsNoBetterThanGuessing) {
  ThreadPool pool(1);
  // 200 queries of 50 images, with hits at three lengths.
  const auto curve = [&](const std::array<int, 3>& hits, double chance) {
    HitTable table;
    table.lengths = {2, 3, 4};
    table.chance = chance;
    table.sample.mean_names = {"2", "3", "4"};
    table.sample.clusters = 50;
    table.sample.values = Matrix<double>(200, 3);
    for (int64_t q = 0; q < 200; ++q) {
      table.sample.cluster.push_back(q % 50);
      for (int64_t p = 0; p < 3; ++p) table.sample.values(q, p) = q < hits[static_cast<size_t>(p)] ? 1 : 0;
    }
    return length_curve(table, {}, 0.95, {}, pool);
  };
  const LengthCurve noise = curve({4, 7, 4}, 0.02);
  EXPECT_THAT(noise.effective.value, Optional(3));
  EXPECT_FALSE(noise.above_chance);
  EXPECT_EQ(noise.chance, 0.02);
  // Seven of 200 are more than expected at one in a thousand.
  EXPECT_TRUE(curve({4, 7, 4}, 0.001).above_chance);
  EXPECT_TRUE(curve({10, 40, 38}, 0.02).above_chance);
  // The interval of one point alone would exclude 0.0105; picked from three points it does not.
  const LengthCurve edge = curve({4, 7, 4}, 0.0105);
  EXPECT_GT(edge.points[1].r1.low, 0.0105);
  EXPECT_FALSE(edge.above_chance);
}

TEST(DefaultLengths, EndWithTheLast) {
  EXPECT_THAT(default_lengths(1), ElementsAre(1));
  EXPECT_THAT(default_lengths(2), ElementsAre(2));
  EXPECT_THAT(default_lengths(6), ElementsAre(2, 3, 4, 5, 6));
  const std::vector<int64_t> clip = default_lengths(76);
  EXPECT_EQ(std::vector(clip.end() - 12, clip.end()),
            (std::vector<int64_t>{19, 20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 76}));
  for (int64_t last = 1; last < 3000; ++last) {
    const std::vector<int64_t> lengths = default_lengths(last);
    EXPECT_EQ(lengths.back(), last);
    EXPECT_EQ(std::ranges::adjacent_find(lengths, std::greater_equal<>()), lengths.end()) << last;
  }
}

TEST(TokenLengths, ByHand) {
  const TokenLengths lengths = token_lengths(std::vector<int64_t>{3, 1, 3, 7}, 3);
  EXPECT_EQ(lengths.lengths.max, 7);
  EXPECT_EQ(lengths.beyond, 1);
  EXPECT_EQ(lengths.width, 1);
  EXPECT_THAT(lengths.counts, ElementsAre(0, 1, 0, 2, 0, 0, 0, 1));
  const TokenLengths wide = token_lengths(std::vector<int64_t>{0, 63, 64, 129}, std::nullopt);
  EXPECT_EQ(wide.width, 5);
  EXPECT_EQ(wide.counts.size(), 26U);
  EXPECT_EQ(wide.counts[12], 2);
  EXPECT_EQ(wide.counts[25], 1);
  EXPECT_EQ(token_lengths(std::vector<int64_t>{63}, 1).width, 1);
  EXPECT_EQ(token_lengths(std::vector<int64_t>{64}, 1).width, 2);
  EXPECT_EQ(token_lengths(std::vector<int64_t>{1735}, 1).width, 50);
  EXPECT_TRUE(token_lengths({}, 10).counts.empty());
}

using Keep = TokenizedText (*)(const TokenizedText&, int64_t);

void expect_curves(const World& world, const std::vector<std::string>& texts, Keep keep,
                   const LengthCurves& curves) {
  for (const Direction direction : {Direction::kTextToImage, Direction::kImageToText}) {
    for (const LengthPoint& point : curves.of(direction).points) {
      std::vector<TokenizedText> cut;
      for (const std::string& text : texts) {
        cut.push_back(keep(world.tokenizer.encode(text, kWholeText), point.n));
      }
      const auto hits = slow_hits(world.rows_of(cut), world.images.sets, world.text_image, direction);
      EXPECT_DOUBLE_EQ(point.r1.value, mean(hits))
          << direction_name(direction) << " at " << point.n << " late " << world.late;
      EXPECT_LE(point.r1.low, point.r1.value);
      EXPECT_GE(point.r1.high, point.r1.value);
    }
  }
}

TEST(StudyLength, CurvesAreThoseOfTheWholeMatrix) {
  ThreadPool pool(2);
  for (const bool late : {false, true}) {
    for (uint32_t seed = 0; seed < 3; ++seed) {
      World world(seed, 30, 12, 2, late);
      LengthOptions options = quick();
      options.chunking = false;
      options.bootstrap.seed = seed;
      const auto study = study_length(world.texts, world.model(9), options, pool);
      ASSERT_TRUE(study) << study.error().message;
      ASSERT_EQ(study->plain.t2i.points.size(), 7U);  // 2 .. 8
      EXPECT_EQ(study->limit, 8);
      EXPECT_EQ(study->queries_t2i, 60);
      EXPECT_EQ(study->queries_i2t, 30);
      expect_curves(
          world, world.texts.texts, [](const auto& text, int64_t n) { return keep_first(text, n); },
          study->plain);
      ASSERT_TRUE(study->last);
      expect_curves(world, world.texts.texts, &keep_last, *study->last);
      std::vector<std::string> permuted;
      int64_t changed = 0;
      for (size_t i = 0; i < world.texts.texts.size(); ++i) {
        const std::string& text = world.texts.texts[i];
        permuted.push_back(permute_sentences(text, SplitMix(seed, static_cast<int64_t>(i)).next()).value());
        changed += permuted.back() != text ? 1 : 0;
      }
      ASSERT_TRUE(study->permuted);
      EXPECT_EQ(study->texts_of_sentences, changed);
      EXPECT_GT(changed, 10);
      expect_curves(
          world, permuted, [](const auto& text, int64_t n) { return keep_first(text, n); }, *study->permuted);
      // The curve is informative: it rises.
      EXPECT_GT(study->plain.t2i.points.back().r1.value, study->plain.t2i.points.front().r1.value);
    }
  }
}

TEST(StudyLength, EncodesEqualTextsOnce) {
  ThreadPool pool(2);
  World world(3, 40, 10);
  world.texts.texts[7] = world.texts.texts[5];
  const auto study = study_length(world.texts, world.model(20), quick(), pool);
  ASSERT_TRUE(study);
  std::set<std::vector<int32_t>> wanted;
  for (const LengthPoint& point : study->plain.t2i.points) {
    for (size_t i = 0; i < world.texts.texts.size(); ++i) {
      const std::string& text = world.texts.texts[i];
      const TokenizedText whole = world.tokenizer.encode(text, kWholeText);
      const TokenizedText permuted = world.tokenizer.encode(
          permute_sentences(text, SplitMix(0, static_cast<int64_t>(i)).next()).value(), kWholeText);
      for (const auto& one :
           {keep_first(whole, point.n), keep_last(whole, point.n), keep_first(permuted, point.n)}) {
        wanted.insert(one.ids);
      }
    }
  }
  EXPECT_EQ(std::set(world.encoded.begin(), world.encoded.end()), wanted);
  EXPECT_EQ(world.encoded.size(), wanted.size());
  EXPECT_EQ(study->encoded, static_cast<int64_t>(wanted.size()));
  // The longest text ends the curve, far below the model's context.
  EXPECT_EQ(study->plain.t2i.points.back().n, study->token_lengths.lengths.max + 1);
}

TEST(StudyLength, SubsetsAreDatasetsOfTheirOwn) {
  ThreadPool pool(2);
  World world(11, 4, 6, 2);
  LengthOptions options = quick();
  options.subset_items = 3;
  options.subsets = 40;
  const auto study = study_length(world.texts, world.model(12), options, pool);
  ASSERT_TRUE(study);
  EXPECT_EQ(study->subset_items, 3);
  for (const Direction direction : {Direction::kTextToImage, Direction::kImageToText}) {
    const LengthCurve& curve = study->plain.of(direction);
    ASSERT_EQ(curve.subset_values.size(), 40U);
    for (const LengthPoint& point : curve.points) {
      // The four choices of three images, each evaluated alone.
      std::vector<double> possible;
      for (int64_t without = 0; without < 4; ++without) {
        std::vector<TokenizedText> texts;
        std::vector<int64_t> text_image;
        RowSets images;
        images.rows = Matrix<float>(3, kDim);
        for (int64_t i = 0, place = 0; i < 4; ++i) {
          if (i == without) continue;
          std::ranges::copy(world.images.sets.rows.row(i), images.rows.row(place).begin());
          images.begin.push_back(place + 1);
          for (int64_t t = 2 * i; t < 2 * i + 2; ++t) {
            const auto& text = world.texts.texts[static_cast<size_t>(t)];
            texts.push_back(keep_first(world.tokenizer.encode(text, kWholeText), point.n));
            text_image.push_back(place);
          }
          ++place;
        }
        possible.push_back(mean(slow_hits(world.rows_of(texts), images, text_image, direction)));
      }
      const std::set<double> found(point.subsets.begin(), point.subsets.end());
      EXPECT_EQ(found, std::set<double>(possible.begin(), possible.end())) << point.n;
    }
    ASSERT_TRUE(curve.subset_effective.value);
    EXPECT_LE(curve.subset_effective.low.value_or(0), *curve.subset_effective.value);
  }
  // There are no subsets if the images are no more than a subset has.
  options.subset_items = 4;
  const auto whole = study_length(world.texts, world.model(12), options, pool);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->subset_items, 0);
  EXPECT_TRUE(whole->plain.t2i.points[0].subsets.empty());
}

TEST(StudyLength, ChunksArePooled) {
  ThreadPool pool(2);
  for (const bool late : {false, true}) {
    World world(5, 25, 30, 2, late);
    LengthOptions options = quick();
    options.controls = false;
    const LengthModel model = world.model(9);
    const auto study = study_length(world.texts, model, options, pool);
    ASSERT_TRUE(study) << study.error().message;
    ASSERT_EQ(study->chunked.size(), late ? 2U : 6U);
    EXPECT_GT(study->token_lengths.beyond, 10);
    for (const ChunkedTexts& chunked : study->chunked) {
      ASSERT_EQ(chunked.curves.t2i.points.size(), 2U) << "16 and 30 words";
      EXPECT_EQ(chunked.curves.t2i.points[0].n, 16);
      EXPECT_EQ(chunked.curves.t2i.points[1].n, study->token_lengths.lengths.max + 1);
      for (const Direction direction : {Direction::kTextToImage, Direction::kImageToText}) {
        for (const LengthPoint& point : chunked.curves.of(direction).points) {
          RowSets pooled;
          std::vector<std::vector<float>> rows;
          for (const std::string& text : world.texts.texts) {
            const TokenizedText whole = world.tokenizer.encode(text, kWholeText);
            std::vector<TokenizedText> chunks;
            if (chunked.chunking == Chunking::kEqual) {
              chunks = equal_chunks(keep_first(whole, point.n), 9).value();
            } else {
              chunks =
                  whole.used <= 7 ? std::vector{whole} : sentence_chunks(world.tokenizer, text, 9).value();
              chunks = keep_first(std::span<const TokenizedText>(chunks), point.n);
            }
            const RowSets sets = world.rows_of(chunks);
            if (late) {
              for (int64_t r = 0; r < sets.rows.rows(); ++r) {
                rows.emplace_back(sets.rows.row(r).begin(), sets.rows.row(r).end());
              }
            } else {
              std::vector<int64_t> tokens;
              for (const TokenizedText& chunk : chunks) tokens.push_back(chunk.used);
              rows.push_back(pool_chunks(sets.rows.view(), tokens, *chunked.pooling).value());
            }
            pooled.begin.push_back(static_cast<int64_t>(rows.size()));
          }
          pooled.rows = Matrix<float>(static_cast<int64_t>(rows.size()), kDim);
          for (size_t r = 0; r < rows.size(); ++r) {
            std::ranges::copy(rows[r], pooled.rows.row(static_cast<int64_t>(r)).begin());
          }
          const auto hits = slow_hits(pooled, world.images.sets, world.text_image, direction);
          EXPECT_DOUBLE_EQ(point.r1.value, mean(hits))
              << enum_name(chunked.chunking) << " at " << point.n << " " << direction_name(direction);
        }
        const Difference& difference = direction == Direction::kTextToImage ? chunked.t2i : chunked.i2t;
        EXPECT_DOUBLE_EQ(difference.figure.value, chunked.curves.of(direction).points.back().r1.value -
                                                      study->plain.of(direction).points.back().r1.value);
      }
    }
  }
}

TEST(StudyLength, RetokenizedTextsAreThoseOfTheDecodedIds) {
  ThreadPool pool(2);
  World world(1, 30, 12);
  LengthOptions options = quick();
  options.chunking = false;
  const auto tokens = study_length(world.texts, world.model(9), options, pool);
  options.cut = LengthCut::kRetokenize;
  const auto study = study_length(world.texts, world.model(9), options, pool);
  ASSERT_TRUE(tokens && study) << study.error().message;
  expect_curves(
      world, world.texts.texts,
      [](const TokenizedText& text, int64_t n) {
        return WordTokenizer().encode(own_words(keep_first(text, n)), 9);
      },
      study->plain);
  ASSERT_TRUE(study->last);
  expect_curves(
      world, world.texts.texts,
      [](const TokenizedText& text, int64_t n) {
        return WordTokenizer().encode(own_words(keep_last(text, n)), 9);
      },
      *study->last);
  int different = 0;
  ASSERT_EQ(study->plain.t2i.points.size(), tokens->plain.t2i.points.size());
  for (size_t p = 0; p < study->plain.t2i.points.size(); ++p) {
    different += study->plain.t2i.points[p].r1.value != tokens->plain.t2i.points[p].r1.value ? 1 : 0;
  }
  EXPECT_GT(different, 0);
  LengthModel without = world.model(9);
  without.decode = nullptr;
  const auto refused = study_length(world.texts, without, options, pool);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("cannot decode"));
}

TEST(StudyLength, EvenLengthsGoThroughTheLimit) {
  ThreadPool pool(1);
  World world(2, 12, 25, 1);
  LengthOptions options = quick();
  options.length_step = 4;
  options.chunks = {Chunking::kWords};
  const auto study = study_length(world.texts, world.model(9), options, pool);
  ASSERT_TRUE(study) << study.error().message;
  const int64_t longest = study->token_lengths.lengths.max + 1;
  ASSERT_GT(longest, 20);
  std::vector<int64_t> plain;
  for (const LengthPoint& point : study->plain.t2i.points) plain.push_back(point.n);
  EXPECT_THAT(plain, ElementsAre(1, 5, 8));
  ASSERT_EQ(study->chunked.size(), 3U);  // one kind, three poolings
  std::vector<int64_t> expected;
  for (int64_t n = 9; n < longest; n += 4) expected.push_back(n);
  expected.push_back(longest);
  std::vector<int64_t> chunked;
  for (const LengthPoint& point : study->chunked[0].curves.t2i.points) chunked.push_back(point.n);
  EXPECT_EQ(chunked, expected);
  options.length_step = -1;
  EXPECT_FALSE(study_length(world.texts, world.model(9), options, pool));
  options.length_step = kWholeText;
  EXPECT_TRUE(study_length(world.texts, world.model(9), options, pool));
}

// Every kind of chunks with either cut, against the definition, text by text.
TEST(StudyLength, ChunksOfEitherCut) {
  ThreadPool pool(2);
  World world(5, 25, 30);
  for (const LengthCut cut : {LengthCut::kTokens, LengthCut::kRetokenize}) {
    LengthOptions options = quick();
    options.controls = false;
    options.cut = cut;
    options.lengths = {12, 17};
    options.chunks = {Chunking::kEqual, Chunking::kSentences, Chunking::kWords};
    const auto study = study_length(world.texts, world.model(9), options, pool);
    ASSERT_TRUE(study) << study.error().message;
    ASSERT_EQ(study->chunked.size(), 9U);
    const auto chunks_of = [&](const std::string& text, Chunking chunking, int64_t n) {
      const TokenizedText whole = world.tokenizer.encode(text, kWholeText);
      const bool again = cut == LengthCut::kRetokenize;
      const std::string words = own_words(keep_first(whole, n));
      if (chunking == Chunking::kEqual) {
        return equal_chunks(again ? world.tokenizer.encode(words, kWholeText) : keep_first(whole, n), 9)
            .value();
      }
      if (chunking == Chunking::kWords && again) return word_chunks(world.tokenizer, words, 9).value();
      std::vector<TokenizedText> chunks = {whole};
      if (whole.used > 7) chunks = chunk_text(world.tokenizer, text, 9, chunking).value();
      chunks = keep_first(std::span<const TokenizedText>(chunks), n);
      if (again) {
        for (TokenizedText& chunk : chunks) chunk = world.tokenizer.encode(own_words(chunk), 9);
      }
      return chunks;
    };
    for (const ChunkedTexts& chunked : study->chunked) {
      ASSERT_EQ(chunked.curves.t2i.points.size(), 3U);
      for (const LengthPoint& point : chunked.curves.t2i.points) {
        RowSets pooled;
        pooled.rows = Matrix<float>(std::ssize(world.texts.texts), kDim);
        for (size_t t = 0; t < world.texts.texts.size(); ++t) {
          const auto chunks = chunks_of(world.texts.texts[t], chunked.chunking, point.n);
          std::vector<int64_t> tokens;
          for (const TokenizedText& chunk : chunks) tokens.push_back(chunk.used);
          const auto row = pool_chunks(world.rows_of(chunks).rows.view(), tokens, *chunked.pooling).value();
          std::ranges::copy(row, pooled.rows.row(static_cast<int64_t>(t)).begin());
          pooled.begin.push_back(static_cast<int64_t>(t) + 1);
        }
        const auto hits = slow_hits(pooled, world.images.sets, world.text_image, Direction::kTextToImage);
        EXPECT_DOUBLE_EQ(point.r1.value, mean(hits))
            << enum_name(cut) << " " << enum_name(chunked.chunking) << " at " << point.n;
      }
    }
  }
}

TEST(StudyLength, TextsWithinTheLimitNeedNoChunks) {
  ThreadPool pool(1);
  World world(5, 10, 7, 1);
  const auto study = study_length(world.texts, world.model(9), quick(), pool);
  ASSERT_TRUE(study);
  EXPECT_TRUE(study->chunked.empty());
  EXPECT_EQ(study->token_lengths.beyond, 0);
  // The exception is a smaller chunk size in the options.
  LengthOptions options = quick();
  options.chunk_tokens = 5;
  const auto shorter = study_length(world.texts, world.model(9), options, pool);
  ASSERT_TRUE(shorter);
  EXPECT_EQ(shorter->limit, 4);
  EXPECT_EQ(shorter->plain.t2i.points.back().n, 4);
  EXPECT_EQ(shorter->chunked.size(), 6U);
}

TEST(StudyLength, IsTheSameFromOneSeed) {
  World world(8, 30, 14);
  LengthOptions options = quick();
  options.subset_items = 10;
  const auto run = [&](int threads, uint64_t seed) {
    ThreadPool pool(threads);
    options.bootstrap.seed = seed;
    const Json json =
        record_json(length_result(study_length(world.texts, world.model(9), options, pool).value(), 0.95));
    const auto back = read_record<LengthResult>(json);
    EXPECT_TRUE(back) << back.error().message;
    EXPECT_EQ(dump_json(record_json(back.value())), dump_json(json));
    return dump_json(json);
  };
  EXPECT_EQ(run(1, 4), run(3, 4));
  EXPECT_NE(run(1, 4), run(1, 5));
}

// Two texts belong to several images each, as with policies for equal captions.
TEST(StudyLength, SeveralImagesMayBeRight) {
  ThreadPool pool(1);
  World world(4, 12, 6, 1);
  world.texts.relevance =
      Relevance::from_pairs(12, 12, {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}}).value();
  LengthOptions options = quick();
  options.subset_items = 2;
  options.subsets = 30;
  const auto study = study_length(world.texts, world.model(12), options, pool);
  ASSERT_TRUE(study);
  EXPECT_EQ(study->queries_t2i, 6);
  EXPECT_EQ(study->queries_i2t, 6);
  const LengthPoint& all = study->plain.t2i.points.back();
  std::vector<TokenizedText> whole;
  for (const std::string& text : world.texts.texts) whole.push_back(world.tokenizer.encode(text, kWholeText));
  const RowSets rows = world.rows_of(whole);
  int64_t hits = 0;
  for (int64_t t = 0; t < 12; ++t) {
    const auto right = world.texts.relevance.right(Direction::kTextToImage, t);
    int64_t best = 0;
    for (int64_t i = 1; i < 12; ++i) {
      const auto& images = world.images.sets.rows;
      if (dot(rows.rows.row(t), images.row(i)) > dot(rows.rows.row(t), images.row(best))) best = i;
    }
    hits += std::ranges::find(right, best) != right.end() ? 1 : 0;
  }
  EXPECT_DOUBLE_EQ(all.r1.value, static_cast<double>(hits) / 6);
  for (const double value : all.subsets) EXPECT_LE(value, 1.0);
}

TEST(StudyLength, GivenLengthsEndWithAllThereIs) {
  ThreadPool pool(1);
  World world(2, 12, 25, 1);
  LengthOptions options = quick();
  options.lengths = {20, 4, 4, 6, 500, 15};
  const auto study = study_length(world.texts, world.model(9), options, pool);
  ASSERT_TRUE(study);
  const auto lengths = [](const LengthCurve& curve) {
    std::vector<int64_t> all;
    for (const LengthPoint& point : curve.points) all.push_back(point.n);
    return all;
  };
  EXPECT_THAT(lengths(study->plain.t2i), ElementsAre(4, 6, 8));
  const int64_t longest = study->token_lengths.lengths.max + 1;
  ASSERT_GT(longest, 20);
  EXPECT_THAT(lengths(study->chunked[0].curves.i2t), ElementsAre(15, 20, longest));
}

TEST(StudyLength, SaysWhatIsWrong) {
  ThreadPool pool(1);
  World world(2, 5, 5, 1);
  const auto error = [&](const LengthOptions& options, const LengthTexts& texts) {
    const auto study = study_length(texts, world.model(9), options, pool);
    return study ? std::string("none") : study.error().message;
  };
  LengthOptions options = quick();
  options.share = 0;
  EXPECT_THAT(error(options, world.texts), HasSubstr("share is 0"));
  options.share = 1.5;
  EXPECT_THAT(error(options, world.texts), HasSubstr("share is 1.5"));
  options = quick();
  options.lengths = {5, 0};
  EXPECT_THAT(error(options, world.texts), HasSubstr("length 0"));
  options = quick();
  options.chunk_tokens = 10;
  EXPECT_THAT(error(options, world.texts), HasSubstr("chunks of 10 tokens, this model reads 1 to 9"));
  options.chunk_tokens = 2;
  EXPECT_THAT(error(options, world.texts), HasSubstr("start, end and prompt alone take 2"));
  options = quick();
  options.subset_items = 0;
  EXPECT_THAT(error(options, world.texts), HasSubstr("subsets of 0 images"));
  EXPECT_THAT(error(quick(), {}), HasSubstr("nothing to measure"));
  LengthTexts texts = world.texts;
  texts.texts.pop_back();
  EXPECT_THAT(error(quick(), texts), HasSubstr("4 texts and 5 images, but a relation of 5 with 5"));
  // A text without an image is no query, but still a wrong answer.
  world.text_image[2] = -1;
  world.relate();
  const auto study = study_length(world.texts, world.model(9), quick(), pool);
  ASSERT_TRUE(study);
  EXPECT_EQ(study->queries_t2i, 4);
  EXPECT_EQ(study->queries_i2t, 4);
  std::stop_source source;
  source.request_stop();
  const auto stopped = study_length(world.texts, world.model(9), quick(), pool, source.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

TEST(PoolChunks, ByHand) {
  Matrix<float> rows(2, 2);
  rows(0, 0) = 1;
  rows(1, 1) = 1;
  const std::vector<int64_t> tokens = {3, 1};
  const auto pooled = [&](ChunkPooling pooling) { return pool_chunks(rows.view(), tokens, pooling).value(); };
  EXPECT_THAT(pooled(ChunkPooling::kMean),
              ElementsAre(testing::FloatEq(std::sqrt(0.5F)), testing::FloatEq(std::sqrt(0.5F))));
  EXPECT_THAT(pooled(ChunkPooling::kMaximum),
              ElementsAre(testing::FloatEq(std::sqrt(0.5F)), testing::FloatEq(std::sqrt(0.5F))));
  EXPECT_THAT(pooled(ChunkPooling::kWeighted),
              ElementsAre(testing::FloatEq(3 / std::sqrt(10.0F)), testing::FloatEq(1 / std::sqrt(10.0F))));
  rows(0, 1) = -0.5F;
  EXPECT_THAT(pooled(ChunkPooling::kMaximum)[1], testing::FloatEq(std::sqrt(0.5F)));
  rows(0, 1) = 0;
  rows(1, 0) = -1;
  rows(1, 1) = 0;
  const auto cancelled = pool_chunks(rows.view(), std::vector<int64_t>{2, 2}, ChunkPooling::kMean);
  ASSERT_FALSE(cancelled);
  EXPECT_THAT(cancelled.error().message, HasSubstr("cancel out"));
  EXPECT_TRUE(pool_chunks(rows.view(), tokens, ChunkPooling::kWeighted));
  for (const ChunkPooling pooling : kChunkPoolings) {
    EXPECT_EQ(from_name<ChunkPooling>(enum_name(pooling)), pooling);
  }
}

}  // namespace
}  // namespace saccade::lab
