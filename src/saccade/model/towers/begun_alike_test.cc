#include "saccade/model/towers/begun_alike.h"

#include <random>
#include <set>
#include <vector>

#include <gmock/gmock.h>

#include "saccade/model/encoder_backend.h"
#include "saccade/model/families/clip.h"
#include "saccade/model/model_test_support.h"
#include "saccade/nn/workspace.h"

namespace saccade {
namespace {

using nn::Tensor;
using testing::ElementsAre;

constexpr int64_t kEnd = 299;

Tensor ids_of(const std::vector<std::vector<int64_t>>& texts, nn::Workspace* workspace = nullptr) {
  size_t longest = 0;
  for (const auto& text : texts) longest = std::max(longest, text.size());
  const Tensor ids =
      Tensor::full_integers({std::ssize(texts), static_cast<int64_t>(longest)}, kEnd, workspace);
  for (size_t i = 0; i < texts.size(); ++i)
    std::ranges::copy(texts[i], ids.integers().begin() + static_cast<std::ptrdiff_t>(i * longest));
  return ids;
}

std::vector<int64_t> values(const Tensor& tensor) {
  return {tensor.integers().begin(), tensor.integers().end()};
}

TEST(BegunAlike, EachTokenAfterTheSameOnesIsThereOnce) {
  const Tensor ids = ids_of({{1, 5, 6, kEnd}, {1, 5, kEnd}, {1, 6, 5, kEnd}, {1, 5, 6, kEnd}, {kEnd}});
  const BegunAlike alike = begun_alike(ids, clip_end_positions(ids, kEnd));
  EXPECT_THAT(values(alike.ids), ElementsAre(1, 5, 6, kEnd, kEnd, 6, 5, kEnd, kEnd));
  EXPECT_THAT(values(alike.positions), ElementsAre(0, 1, 2, 3, 2, 1, 2, 3, 0));
  EXPECT_THAT(values(alike.ends), ElementsAre(3, 4, 7, 3, 8));
  EXPECT_THAT(values(alike.shared.places), ElementsAre(0, 1, 2, 3, 6, 9, 10, 11, 16));
  EXPECT_EQ(alike.shared.of_texts.sizes(), (nn::Shape{5, 4}));
  EXPECT_THAT(values(alike.shared.of_texts),
              ElementsAre(0, 1, 2, 3, 0, 1, 4, 0, 0, 5, 6, 7, 0, 1, 2, 3, 8, 0, 0, 0));
}

TEST(BegunAlike, AMaskThatHidesATokenIsHeeded) {
  const Tensor ids = ids_of({{1, 5, kEnd}, {1, 5, 6, kEnd}});
  const Tensor ends = clip_end_positions(ids, kEnd);
  Tensor mask = Tensor::full_integers({2, 4}, 1);
  EXPECT_TRUE(keeps_up_to_end({}, ends));
  EXPECT_TRUE(keeps_up_to_end(mask, ends));
  mask.integers()[3] = 0;  // behind the first text's end
  EXPECT_TRUE(keeps_up_to_end(mask, ends));
  mask.integers()[7] = 0;  // the second's end
  EXPECT_FALSE(keeps_up_to_end(mask, ends));
}

// Texts of few different tokens, so that many begin alike; some are the same.
std::vector<TokenizedText> random_texts(size_t count) {
  std::mt19937 random(3);
  std::vector<TokenizedText> texts(count);
  for (TokenizedText& text : texts) {
    text.ids.push_back(298);
    const size_t words = random() % 12;
    for (size_t w = 0; w < words; ++w) text.ids.push_back(static_cast<int32_t>(10 + random() % 3));
    text.ids.push_back(kEnd);
  }
  return texts;
}

class Shares : public testing::TestWithParam<Precision> {};

// A text's embedding equals the one computed alone, without sharing.
TEST_P(Shares, RowsAreThoseOfTextsAlone) {
  if (GetParam() == Precision::kBf16) SACCADE_NEEDS_BF16();
  BackendOptions options;
  options.precision = GetParam();
  options.threads = 2;
  const auto encoder = load_encoder(test::golden("clip-gelu"), options);
  ASSERT_TRUE(encoder) << encoder.error().message;
  const std::vector<TokenizedText> texts = random_texts(200);
  const Matrix<float> together = (*encoder)->encode_texts(texts).value();
  std::set<std::vector<float>> different;
  double furthest = 1;
  for (size_t i = 0; i < texts.size(); ++i) {
    const Matrix<float> alone = (*encoder)->encode_texts({&texts[i], 1}).value();
    const auto row = together.row(static_cast<int64_t>(i));
    double cosine = 0;
    for (size_t c = 0; c < row.size(); ++c) cosine += static_cast<double>(alone.row(0)[c]) * row[c];
    furthest = std::min(furthest, cosine);
    different.emplace(row.begin(), row.end());
  }
  EXPECT_GT(furthest, GetParam() == Precision::kFp32 ? 1 - 1e-6 : 1 - 1e-3);
  std::set<std::vector<int32_t>> texts_there;
  for (const TokenizedText& text : texts) texts_there.insert(text.ids);
  EXPECT_EQ(different.size(), texts_there.size());
}

INSTANTIATE_TEST_SUITE_P(BegunAlike, Shares,
                         testing::Values(Precision::kFp32, Precision::kBf16, Precision::kInt8));

}  // namespace
}  // namespace saccade
