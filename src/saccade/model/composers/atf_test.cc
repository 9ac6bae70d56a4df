// Tests of adaptive token fusion against a slow oracle, option by option.
#include "saccade/model/composers/atf.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>

#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;
using testing::ElementsAre;

using Row = std::vector<double>;

constexpr int64_t kDim = 16;
constexpr int64_t kPictureTokens = 5;
constexpr int64_t kTextPlaces = 7;

Row row_of(const nn::Tensor& table, int64_t r) {
  Row row(static_cast<size_t>(table.size(1)));
  for (size_t d = 0; d < row.size(); ++d) row[d] = table.at({r, static_cast<int64_t>(d)});
  return row;
}
Row added(Row a, const Row& b, double factor = 1) {
  for (size_t d = 0; d < a.size(); ++d) a[d] += factor * b[d];
  return a;
}
double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}
double cosine(const Row& a, const Row& b) {
  return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
}
Row linear(const nn::TensorMap& weights, const std::string& name, const Row& x) {
  const nn::Tensor& weight = weights.at(name + ".weight");
  Row out;
  for (int64_t o = 0; o < weight.size(0); ++o) {
    out.push_back(weights.at(name + ".bias").at({o}) + dot(row_of(weight, o), x));
  }
  return out;
}

struct Merged {
  Row row;
  int64_t picture = kPictureTokens;
  int64_t text = kTextPlaces;
};

// Merges token by token, by the definitions of the options.
std::vector<Merged> merged(const std::vector<Row>& v, const std::vector<Row>& t, const AtfOptions& options,
                           double share) {
  std::vector<Merged> out;
  std::vector<bool> v_taken(v.size()), t_taken(t.size());
  for (size_t i = 0; i < v.size(); ++i) {
    for (size_t j = 0; j < t.size(); ++j) {
      const double c = cosine(v[i], t[j]);
      if (c < options.merge.tau) continue;
      bool nearest_text = true;
      bool nearest_picture = true;
      for (const Row& other : t) nearest_text = nearest_text && cosine(v[i], other) <= c;
      for (const Row& other : v) nearest_picture = nearest_picture && cosine(other, t[j]) <= c;
      if (options.merge.matching != MergeMatching::kAll && !nearest_text) continue;
      if (options.merge.matching == MergeMatching::kMutual && !nearest_picture) continue;
      const double s = options.merge.weights == MergeWeights::kEqual ? 0.5
                       : options.merge.weights == MergeWeights::kSimilarity
                           ? std::max(c, 0.0) / (1 + std::max(c, 0.0))
                           : 1 / (1 + std::exp(-share));
      Row mean(v[i].size());
      for (size_t d = 0; d < mean.size(); ++d) mean[d] = (1 - s) * v[i][d] + s * t[j][d];
      out.push_back({mean, static_cast<int64_t>(i), static_cast<int64_t>(j)});
      v_taken[i] = t_taken[j] = true;
    }
  }
  for (size_t i = 0; i < v.size(); ++i) {
    if (!v_taken[i]) out.push_back({v[i], static_cast<int64_t>(i), kTextPlaces});
  }
  for (size_t j = 0; j < t.size(); ++j) {
    if (!t_taken[j]) out.push_back({t[j], kPictureTokens, static_cast<int64_t>(j)});
  }
  return out;
}

Row oracle(const nn::TensorMap& weights, const AtfOptions& options, const std::vector<Row>& v,
           const std::vector<Row>& t, const Row& picture, const Row& text) {
  const bool fused = options.pooling != AtfPooling::kNone;
  const bool learned = fused && options.merge.weights == MergeWeights::kLearned;
  const double share = learned ? weights.at("share").item() : 0;
  std::vector<Row> tokens;
  const nn::Tensor fixed = sinusoidal_places(kPictureTokens + kTextPlaces + 2, kDim);
  for (const Merged& each : fused ? merged(v, t, options, share) : std::vector<Merged>()) {
    Row x = each.row;
    if (options.places == AtfPlaces::kLearned) {
      x = added(added(x, row_of(weights.at("picture_places"), each.picture)),
                row_of(weights.at("text_places"), each.text));
    } else if (options.places == AtfPlaces::kSinusoidal) {
      x = added(added(x, row_of(fixed, each.picture)), row_of(fixed, kPictureTokens + 1 + each.text));
    }
    double mean = 0;
    double square = 0;
    for (const double value : x) mean += value / static_cast<double>(kDim);
    for (const double value : x) square += (value - mean) * (value - mean) / static_cast<double>(kDim);
    for (size_t d = 0; d < x.size(); ++d) {
      x[d] =
          (x[d] - mean) / std::sqrt(square + 1e-5) * weights.at("norm.weight").at({static_cast<int64_t>(d)}) +
          weights.at("norm.bias").at({static_cast<int64_t>(d)});
    }
    tokens.push_back(x);
  }
  const Row sum = added(picture, text);
  Row pooled(static_cast<size_t>(kDim));
  if (!fused) {
    pooled = sum;
  } else if (options.pooling == AtfPooling::kMean) {
    for (const Row& x : tokens) pooled = added(pooled, x, 1 / static_cast<double>(tokens.size()));
  } else {
    const Row asked = options.pooling == AtfPooling::kAsked ? linear(weights, "query", sum)
                                                            : row_of(weights.at("query"), 0);
    Row answers;
    for (int64_t head = 0; head < options.heads; ++head) {
      const Row query(asked.begin() + head * kDim, asked.begin() + (head + 1) * kDim);
      double all = 0;
      Row answer(static_cast<size_t>(kDim));
      for (const Row& x : tokens) all += std::exp(dot(query, x) / std::sqrt(static_cast<double>(kDim)));
      for (const Row& x : tokens) {
        answer = added(answer, x, std::exp(dot(query, x) / std::sqrt(static_cast<double>(kDim))) / all);
      }
      answers.insert(answers.end(), answer.begin(), answer.end());
    }
    pooled = linear(weights, "answer", answers);
    if (options.pooling == AtfPooling::kAsked) pooled = added(sum, pooled);
  }
  if (options.projection == AtfProjection::kCombiner) {
    const auto relu = [](Row x) {
      for (double& value : x) value = std::max(value, 0.0);
      return x;
    };
    Row seen;
    for (const Row& part : {relu(linear(weights, "text_projection", text)),
                            relu(linear(weights, "picture_projection", picture)),
                            relu(linear(weights, "third_projection", pooled))}) {
      seen.insert(seen.end(), part.begin(), part.end());
    }
    const double logit = linear(weights, "share", relu(linear(weights, "weigh", seen))).front();
    const double of_text = 1 / (1 + std::exp(-logit));
    const Row drawn = linear(weights, "out", relu(linear(weights, "combine", seen)));
    return added(added(drawn, text, of_text), picture, 1 - of_text);
  }
  Row hidden = pooled;
  if (options.projection != AtfProjection::kLinear) {
    if (options.projection == AtfProjection::kMlp) {
      hidden.insert(hidden.end(), sum.begin(), sum.end());
    } else {
      hidden.insert(hidden.end(), picture.begin(), picture.end());
      hidden.insert(hidden.end(), text.begin(), text.end());
    }
    hidden = linear(weights, "in", hidden);
    for (double& value : hidden) value = slow_activation(value, nn::Activation::kGelu);
  }
  const Row out = linear(weights, "out", hidden);
  return options.residual == AtfResidual::kSum ? added(sum, out) : out;
}

// Three queries with texts of different lengths and some similar tokens.
struct Batch {
  std::vector<std::vector<Row>> v, t;
  std::vector<Row> pictures, texts;
  ComposerPartsOf<nn::Tensor> parts;

  Batch() {
    const std::vector<int64_t> lengths = {3, 7, 1};
    parts.picture_tokens = random_tensor({3, kPictureTokens, kDim}, 1);
    parts.text_tokens = random_tensor({3, 7, kDim}, 2);
    parts.pictures = nn::normalize_rows(random_tensor({3, kDim}, 3));
    parts.texts = nn::normalize_rows(random_tensor({3, kDim}, 4));
    parts.text_lengths = lengths;
    // Text token 1 is near to image token 2, and less so to 3; text token 2 is near to 3 as well.
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t d = 0; d < kDim; ++d) {
        float* text = parts.text_tokens.data<float>() + i * 7 * kDim;
        float* picture = parts.picture_tokens.data<float>() + i * kPictureTokens * kDim;
        text[kDim + d] = 2 * picture[2 * kDim + d] + 0.1F * text[kDim + d];
        picture[3 * kDim + d] = picture[2 * kDim + d] + 0.5F * picture[3 * kDim + d];
        text[2 * kDim + d] = picture[3 * kDim + d] + 0.3F * text[2 * kDim + d];
      }
    }
    for (int64_t i = 0; i < 3; ++i) {
      std::vector<Row>& picture = v.emplace_back();
      std::vector<Row>& text = t.emplace_back();
      for (int64_t k = 0; k < kPictureTokens; ++k) picture.push_back(row_of(parts.picture_tokens[i], k));
      for (int64_t k = 0; k < lengths[static_cast<size_t>(i)]; ++k)
        text.push_back(row_of(parts.text_tokens[i], k));
      pictures.push_back(row_of(parts.pictures, i));
      texts.push_back(row_of(parts.texts, i));
    }
  }
};

TEST(Atf, IsItsOracleUnderEveryOption) {
  const Batch batch;
  int checked = 0;
  for (const MergeMatching matching : {MergeMatching::kAll, MergeMatching::kBest, MergeMatching::kMutual}) {
    for (const MergeWeights shares :
         {MergeWeights::kEqual, MergeWeights::kSimilarity, MergeWeights::kLearned}) {
      for (const AtfPlaces places : {AtfPlaces::kLearned, AtfPlaces::kSinusoidal, AtfPlaces::kNone}) {
        for (const AtfPooling pooling :
             {AtfPooling::kMean, AtfPooling::kLearned, AtfPooling::kAsked, AtfPooling::kNone}) {
          for (const double tau : {-1.0, 0.7, 2.0}) {
            AtfOptions options;
            options.merge = {tau, matching, shares};
            options.places = places;
            options.pooling = pooling;
            options.heads = 3;
            constexpr AtfProjection kProjections[] = {AtfProjection::kMlp, AtfProjection::kLinear,
                                                      AtfProjection::kBoth, AtfProjection::kCombiner};
            options.projection = kProjections[checked % 4];
            const bool may_be_alone = options.projection != AtfProjection::kCombiner;
            options.residual = checked % 5 == 0 && may_be_alone ? AtfResidual::kNone : AtfResidual::kSum;
            options.picture_tokens = kPictureTokens;
            options.text_places = kTextPlaces;
            RandomParameters source(static_cast<uint32_t>(100 + checked++));
            auto atf = AtfOf<nn::Tensor>::make(options, kDim, source);
            ASSERT_TRUE(atf) << atf.error().message;
            // Packing consumes them.
            nn::TensorMap weights;
            for (const auto& [name, tensor] : source.parameters()) weights[name] = tensor.clone();
            atf->pack(DType::kF32);
            const nn::Tensor rows = atf->forward(batch.parts);
            for (size_t i = 0; i < 3; ++i) {
              const Row expected =
                  oracle(weights, options, batch.v[i], batch.t[i], batch.pictures[i], batch.texts[i]);
              for (int64_t d = 0; d < kDim; ++d) {
                ASSERT_NEAR(rows.at({static_cast<int64_t>(i), d}), expected[static_cast<size_t>(d)], 1e-4)
                    << i << " " << atf_options_json(options).dump();
              }
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(checked, 324);
}

TEST(Atf, MatchesAsTheOptionsSay) {
  // Image tokens 0 and 1 point in the direction of text token 0, 1 slightly off; 2 in the direction of text
  // token 1.
  const std::vector<float> pictures = {1, 0, 0, 0.9F, 0.3F, 0, 0, 0, 2};
  const std::vector<float> texts = {5, 0, 0, 0, 0, 1};
  const nn::Tensor v = nn::Tensor::of(pictures, {1, 3, 3});
  const nn::Tensor t = nn::Tensor::of(texts, {1, 2, 3});
  const std::vector<int64_t> lengths = {2};
  const auto matches = [&](MergeMatching matching, double tau) {
    std::vector<std::pair<int, int>> pairs;
    const TokenMerge merge = plan_token_merge(v, t, lengths, {tau, matching});
    const std::vector<std::vector<MergedPair>> merged = merged_pairs(merge);
    for (const MergedPair& match : merged.front()) pairs.emplace_back(match.picture, match.text);
    return pairs;
  };
  using P = std::pair<int, int>;
  EXPECT_THAT(matches(MergeMatching::kAll, 0.7), ElementsAre(P(0, 0), P(1, 0), P(2, 1)));
  EXPECT_THAT(matches(MergeMatching::kBest, 0.7), ElementsAre(P(0, 0), P(1, 0), P(2, 1)));
  EXPECT_THAT(matches(MergeMatching::kMutual, 0.7), ElementsAre(P(0, 0), P(2, 1)));
  EXPECT_THAT(matches(MergeMatching::kAll, 0.97), ElementsAre(P(0, 0), P(2, 1)));
  EXPECT_EQ(matches(MergeMatching::kAll, 0).size(), 6U);
  EXPECT_TRUE(matches(MergeMatching::kAll, 2).empty());
}

// The study's fusion as far as it says, and our variant in the form in which composers have recorded it since
// the first.
TEST(Atf, DefaultsAreTheStudysAndRecordedOptionsStay) {
  AtfOptions study;
  study.picture_tokens = 17;
  study.text_places = 32;
  EXPECT_EQ(atf_options_json(study), parse_json(R"({"tau": 0.7, "matching": "all", "weights": "similarity",
      "places": "learned", "pooling": "mean", "heads": 4, "projection": "linear", "hidden_width": 0,
      "residual": "none", "picture_tokens": 17, "text_places": 32})")
                                         .value());
  EXPECT_TRUE(check_atf_options(study));
  const Json recorded = parse_json(R"({"tau": 0.7, "matching": "mutual", "weights": "equal",
      "places": "learned", "pooling": "asked", "heads": 4, "projection": "mlp", "hidden_width": 0,
      "residual": "sum", "picture_tokens": 17, "text_places": 32})")
                            .value();
  AtfOptions ours = attention_atf_options();
  ours.picture_tokens = 17;
  ours.text_places = 32;
  EXPECT_EQ(atf_options_json(ours), recorded);
  const auto read = atf_options_from_json(recorded);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(atf_options_json(*read), recorded);
  // No default stands for an option that a composer does not record.
  for (const auto& [key, value] : recorded.items()) {
    Json without = recorded;
    without.erase(key);
    EXPECT_FALSE(atf_options_from_json(without)) << key;
  }
}

TEST(Atf, OptionsComeBack) {
  AtfOptions options;
  options.merge = {0.25, MergeMatching::kAll, MergeWeights::kLearned};
  options.places = AtfPlaces::kSinusoidal;
  options.pooling = AtfPooling::kLearned;
  options.heads = 2;
  options.projection = AtfProjection::kLinear;
  options.hidden_width = 9;
  options.residual = AtfResidual::kNone;
  options.picture_tokens = 17;
  options.text_places = 32;
  const Json json = atf_options_json(options);
  const auto again = atf_options_from_json(json);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(atf_options_json(*again), json);
  for (const auto& [key, value] : json.items()) {
    Json broken = json;
    broken[key] = "nothing of the sort";
    EXPECT_FALSE(atf_options_from_json(broken)) << key;
  }
  Json alone = json;
  alone["projection"] = "combiner";
  const auto refused = atf_options_from_json(alone);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("residual none with projection combiner"));
}

}  // namespace
}  // namespace saccade
