// Tests of embedding through the cache: results equal those without it, whatever it contains, and only new
// items are encoded.
#include "lab/eval/rows/embed.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/model/test_encoder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<float> values(const EmbeddedRows& rows) {
  return {rows.sets.rows.values().begin(), rows.sets.rows.values().end()};
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

class Embed : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 7; ++i) {
      write(i, one_colour(static_cast<uint8_t>(30 * i), 200, static_cast<uint8_t>(250 - i)));
    }
    options_.cache = folder_.path() / "cache";
    options_.batch = 3;
  }
  void write(int number, const std::string& bytes) {
    const fs::path path = folder_.write(fmt::format("{}.png", number), bytes);
    if (static_cast<size_t>(number) == pictures_.size()) {
      pictures_.push_back({.path = path, .member = "", .offset = 0, .size = 0});
    }
  }
  EmbeddedPictures embed(EncoderBackend& encoder, const EmbedOptions& options) {
    auto result = embed_pictures(encoder, pictures_, options, pool_);
    EXPECT_TRUE(result) << result.error().message;
    return result ? *std::move(result) : EmbeddedPictures();
  }
  // Returns the embeddings of an encoder without a cache.
  std::vector<float> fresh(bool late = false) {
    ColourEncoder encoder(late);
    EmbedOptions options;
    options.batch = 100;
    return values(embed(encoder, options).rows);
  }

  test::TestFolder folder_;
  std::vector<ImageRef> pictures_;
  EmbedOptions options_;
  ThreadPool pool_{2};
};

TEST_F(Embed, RowsAreTheEncodersInTheOrderOfThePictures) {
  ColourEncoder encoder;
  EmbedOptions plain;
  plain.batch = 2;
  const EmbeddedPictures result = embed(encoder, plain);
  ASSERT_EQ(result.rows.size(), 7);
  ASSERT_THAT(result.sha256, SizeIs(7));
  for (int64_t i = 0; i < 7; ++i) {
    const float r = 30.0F * static_cast<float>(i) / 255;
    const float g = 200.0F / 255;
    const float b = (250.0F - static_cast<float>(i)) / 255;
    EXPECT_NEAR(result.rows.sets.rows(i, 0), r / std::sqrt(r * r + g * g + b * b + 0.25F), 1e-6);
    const auto bytes = read_file(pictures_[static_cast<size_t>(i)].path);
    EXPECT_EQ(result.sha256[static_cast<size_t>(i)], sha256_hex(*bytes));
  }
  EXPECT_EQ(encoder.images, 7);
}

TEST_F(Embed, ASecondTimeNothingIsEncoded) {
  for (const bool late : {false, true}) {
    ColourEncoder encoder(late);
    const std::vector<float> first = values(embed(encoder, options_).rows);
    EXPECT_EQ(first, fresh(late));
    EXPECT_EQ(encoder.images, 7);
    options_.batch = 5;
    const EmbeddedPictures again = embed(encoder, options_);
    EXPECT_EQ(values(again.rows), first);
    EXPECT_EQ(encoder.images, 7);
    EXPECT_EQ(again.rows.cache.found, 7);
    EXPECT_EQ(again.rows.late, late);
    EXPECT_EQ(again.rows.sets.begin.back(), late ? 14 : 7);
  }
}

TEST_F(Embed, WhatIsNewOrChangedIsEncodedAndEqualsOnce) {
  ColourEncoder encoder;
  const std::string hash = hash_of_hashes(embed(encoder, options_).sha256);
  write(2, one_colour(1, 2, 3));
  write(7, one_colour(9, 9, 9));
  write(8, one_colour(9, 9, 9));
  write(9, one_colour(1, 2, 3));
  const EmbeddedPictures result = embed(encoder, options_);
  EXPECT_EQ(encoder.images, 9);
  EXPECT_EQ(values(result.rows), fresh());
  EXPECT_NE(hash_of_hashes(result.sha256), hash);
}

TEST_F(Embed, OtherCheckpointsPrecisionsAndPreprocessingsAreOtherRows) {
  ColourEncoder encoder;
  embed(encoder, options_);
  encoder.set_precision(Precision::kBf16);
  embed(encoder, options_);
  EXPECT_EQ(encoder.images, 14);
  options_.transparency = Transparency::kCheckpoint;
  embed(encoder, options_);
  EXPECT_EQ(encoder.images, 21);
  options_.as_stored = true;
  embed(encoder, options_);
  EXPECT_EQ(encoder.images, 28);
  ColourEncoder other(true);
  embed(other, options_);
  EXPECT_EQ(other.images, 7);
}

TEST_F(Embed, TransparentPicturesLieOnWhite) {
  Image clear{.width = 2, .height = 2, .channels = 4, .mode = PixelMode::kRgba, .pixels = {}};
  clear.pixels.assign(16, 0);
  write(7, encode_png(clear).value());
  pictures_ = {pictures_.back()};
  ColourEncoder encoder;
  EmbedOptions options;
  EXPECT_NEAR(values(embed(encoder, options).rows)[0], 1 / std::sqrt(3.25), 1e-6);
  options.transparency = Transparency::kCheckpoint;
  EXPECT_EQ(values(embed(encoder, options).rows)[0], 0);
}

// Any byte of any file of the cache may be changed, or the file truncated. The embeddings stay the same.
TEST_F(Embed, BrokenFilesAreNoticedAndMadeAgain) {
  const std::vector<float> expected = fresh();
  ColourEncoder first;
  embed(first, options_);
  ASSERT_THAT(files_of(options_.cache), SizeIs(1));
  const fs::path file = files_of(options_.cache)[0];
  const std::string good = read_file(file).value();
  std::vector<std::string> broken;
  for (size_t at = 0; at < good.size(); at += 29) {
    broken.push_back(good);
    broken.back()[at] = static_cast<char>(broken.back()[at] ^ 0x41);
    broken.push_back(good.substr(0, at));
  }
  int64_t noticed = 0;
  for (const std::string& bytes : broken) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    ColourEncoder encoder;
    const EmbeddedPictures result = embed(encoder, options_);
    ASSERT_EQ(values(result.rows), expected);
    noticed += result.rows.cache.broken > 0 ? 1 : 0;
    EXPECT_TRUE(encoder.images > 0 || result.rows.cache.broken == 0);
    ColourEncoder again;
    ASSERT_EQ(values(embed(again, options_).rows), expected);
    EXPECT_EQ(again.images, 0);
    for (const fs::path& one : files_of(options_.cache)) {
      if (one != file) fs::remove(one);
    }
  }
  // Some changes do no harm (white space in a header). The others were detected.
  EXPECT_GT(noticed, static_cast<int64_t>(broken.size()) * 8 / 10);
}

TEST_F(Embed, PicturesThatCannotBeReadAreListed) {
  write(1, "no picture");
  fs::remove(pictures_[5].path);
  ColourEncoder encoder;
  const EmbeddedPictures result = embed(encoder, options_);
  ASSERT_THAT(result.failed, SizeIs(2));
  EXPECT_EQ(result.failed[0].first, 1);
  EXPECT_EQ(result.failed[1].first, 5);
  EXPECT_EQ(result.failed[1].second.code, ErrorCode::kNotFound);
  EXPECT_EQ(result.rows.size(), 7);
  EXPECT_EQ(result.rows.sets.begin, (std::vector<int64_t>{0, 1, 1, 2, 3, 4, 4, 5}));
  EXPECT_EQ(result.sha256[5], "");
  // The other items keep their own embeddings.
  const std::vector<int64_t> kept = {0, 2, 3, 4, 6};
  const EmbeddedRows some = select_rows(result.rows, kept);
  EXPECT_EQ(some.size(), 5);
  EXPECT_EQ(some.sets.rows(4, 0), result.rows.sets.rows(4, 0));
  EXPECT_NEAR(some.sets.rows(1, 0) / some.sets.rows(1, 1), 60.0 / 200, 1e-5);
}

TEST_F(Embed, RowsNothingCanBeComparedWithAreErrors) {
  for (const auto& [spoiled, words] :
       {std::pair(std::numeric_limits<float>::quiet_NaN(), "3.png: its row is not finite"),
        std::pair(0.0F, "3.png: its row is zero")}) {
    ColourEncoder encoder;
    encoder.spoil = [&encoder, value = spoiled](Matrix<float>& rows) {
      if (encoder.images == 6) std::ranges::fill(rows.row(0), value);  // the second batch of three
    };
    const auto result = embed_pictures(encoder, pictures_, options_, pool_);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kBadData);
    EXPECT_THAT(result.error().message, HasSubstr(words));
    fs::remove_all(options_.cache);
  }
}

TEST_F(Embed, StoppedItKeepsWhatItHas) {
  ColourEncoder encoder;
  std::stop_source stop;
  options_.stop = stop.get_token();
  options_.progress = [&](const ProgressUpdate& progress) {
    EXPECT_EQ(progress.total, 7);
    if (progress.done == 3) stop.request_stop();
  };
  const auto stopped = embed_pictures(encoder, pictures_, options_, pool_);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(stopped.error().message, HasSubstr("3 of 7 images"));
  options_.stop = {};
  options_.progress = {};
  EXPECT_EQ(values(embed(encoder, options_).rows), fresh());
  EXPECT_EQ(encoder.images, 7);
}

TEST_F(Embed, TwoAtATimeShareACache) {
  const std::vector<float> expected = fresh();
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ThreadPool pool(1);
      for (int i = 0; i < 5; ++i) {
        ColourEncoder encoder;
        EmbedOptions options = options_;
        options.batch = 1 + t;
        const auto result = embed_pictures(encoder, pictures_, options, pool);
        EXPECT_TRUE(result && values(result->rows) == expected);
      }
    });
  }
  threads.clear();
  ColourEncoder encoder;
  EXPECT_EQ(values(embed(encoder, options_).rows), expected);
  EXPECT_EQ(encoder.images, 0);
}

TEST_F(Embed, TheCacheStaysWithinItsBounds) {
  ColourEncoder encoder;
  options_.cache_bytes = 3000;
  std::vector<ImageRef> one(1);
  std::vector<ImageRef> all = pictures_;
  for (const ImageRef& picture : all) {
    one[0] = picture;
    ASSERT_TRUE(embed_pictures(encoder, one, options_, pool_));
  }
  int64_t bytes = 0;
  for (const fs::path& file : files_of(options_.cache)) bytes += static_cast<int64_t>(fs::file_size(file));
  EXPECT_LE(bytes, 3000);
  EXPECT_GT(bytes, 1000);
  // The last one is still cached, the first is not.
  encoder.images = 0;
  ASSERT_TRUE(embed_pictures(encoder, one, options_, pool_));
  EXPECT_EQ(encoder.images, 0);
  one[0] = all[0];
  ASSERT_TRUE(embed_pictures(encoder, one, options_, pool_));
  EXPECT_EQ(encoder.images, 1);
}

TEST_F(Embed, ACacheThatCannotBeUsedIsDoneWithout) {
  ColourEncoder encoder;
  std::vector<std::string> warnings;
  options_.warning = [&](const std::string& text) { warnings.push_back(text); };
  // The cache folder can be made, but not written into.
  const EmbeddedPictures kept = embed(encoder, options_);
  for (const fs::path& file : files_of(options_.cache)) {
    fs::remove(file);
    fs::create_directories(file / "in the way");
  }
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(values(embed(encoder, options_).rows), fresh());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("cache of embeddings")));
  // The cache folder cannot be made.
  options_.cache = folder_.write("file", "x") / "below";
  EXPECT_EQ(values(embed(encoder, options_).rows), fresh());
  EXPECT_THAT(warnings, SizeIs(2));
  const std::vector<TokenizedText> texts = {encoder.tokenizer()->encode("red", 16)};
  EXPECT_TRUE(embed_texts(encoder, texts, options_));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("rows are not kept"), HasSubstr("below"), HasSubstr("below")));
}

TEST_F(Embed, TheCacheLeavesFilesOfOthersAlone) {
  ColourEncoder encoder;
  folder_.write("cache/model.safetensors", std::string(9000, 'w'));
  folder_.write("cache/bert/model.safetensors", std::string(9000, 'w'));
  folder_.write("cache/0123456789abcdef0123456789abcdef/weights.safetensors", std::string(9000, 'w'));
  const auto old = folder_.write("cache/bert/model.safetensors.tmp-1-2", "w");
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(100));
  options_.cache = folder_ / "cache";
  options_.cache_bytes = 3000;
  ASSERT_TRUE(embed_pictures(encoder, pictures_, options_, pool_));
  for (const char* file : {"model.safetensors", "bert/model.safetensors", "bert/model.safetensors.tmp-1-2",
                           "0123456789abcdef0123456789abcdef/weights.safetensors"}) {
    EXPECT_TRUE(fs::exists(options_.cache / file)) << file;
  }
}

TEST_F(Embed, TextsAreKnownByTheirTokens) {
  for (const bool late : {false, true}) {
    ColourEncoder encoder(late);
    const std::vector<std::string> words = {"red", "g", "rgb", "g", "rg"};
    std::vector<TokenizedText> texts;
    for (const std::string& word : words) texts.push_back(encoder.tokenizer()->encode(word, 16));
    EmbedOptions plain;
    const auto expected = embed_texts(encoder, texts, plain);
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ(encoder.texts, 4);  // "g" once
    const auto first = embed_texts(encoder, texts, options_);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(values(*first), values(*expected));
    EXPECT_EQ(first->sets.begin, expected->sets.begin);
    // Cut to three tokens, "rgb" becomes "r", which is new, and "g" is unchanged.
    texts.clear();
    for (const std::string& word : words) texts.push_back(encoder.tokenizer()->encode(word, 3));
    encoder.texts = 0;
    const auto cut = embed_texts(encoder, texts, options_);
    ASSERT_TRUE(cut) << cut.error().message;
    EXPECT_EQ(encoder.texts, 1);
    const auto cut_plain = embed_texts(encoder, texts, plain);
    EXPECT_EQ(values(*cut), values(*cut_plain));
    EXPECT_EQ(cut->size(), 5);
  }
}

TEST_F(Embed, FunctionsOfOneEncoderAreCachedUnderTheirKeys) {
  ColourEncoder encoder;
  (void)embed(encoder, options_);
  ASSERT_EQ(encoder.images, 7);
  // The first two values of each image's embedding, plus one, as two rows.
  const ImageFunction halves{" halves", 1, true, [&](MatrixView<const float> pixels) -> Result<RowSets> {
                               SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_images(pixels));
                               RowSets sets{Matrix<float>(2 * rows.rows(), 1)};
                               for (int64_t i = 0; i < rows.rows(); ++i) {
                                 for (int64_t j = 0; j < 2; ++j)
                                   sets.rows.row(2 * i + j)[0] = 1 + rows.row(i)[j];
                                 sets.begin.push_back(2 * (i + 1));
                               }
                               return sets;
                             }};
  for (const int64_t encoded : {14, 14}) {  // the second time from the cache
    const auto result = embed_pictures(encoder, halves, pictures_, options_, pool_);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(encoder.images, encoded);
    EXPECT_TRUE(result->rows.late);
    EXPECT_EQ(result->rows.sets.begin.back(), 14);
    const std::vector<float> own = fresh();
    for (size_t i = 0; i < 14; ++i) EXPECT_EQ(values(result->rows)[i], 1 + own[4 * (i / 2) + i % 2]);
  }
  EXPECT_EQ(values(embed(encoder, options_).rows), fresh());
  EXPECT_EQ(encoder.images, 14);
}

TEST_F(Embed, ScoresAreCosinesOrMaxSim) {
  write(7, two_colours({255, 0, 0}, {0, 255, 0}));
  for (const bool late : {false, true}) {
    ColourEncoder encoder(late);
    const EmbeddedPictures pictures = embed(encoder, options_);
    const auto texts = embed_texts(encoder, std::vector{encoder.tokenizer()->encode("rg", 16)}, options_);
    ASSERT_TRUE(texts);
    const auto scores = scores_of(*texts, pictures.rows);
    ASSERT_TRUE(scores) << scores.error().message;
    float score = 0;
    (*scores)->score(0, 1, 7, 1, &score, 1, 1);
    // The rows are (1, 0, 0, 1/2) and (0, 1, 0, 1/2) over sqrt(5/4). Each has a cosine of 1 with itself;
    // their sum has this one.
    const double single = (1.0 * 0.5 * 2 + 0.25) / (std::sqrt(2.25) * std::sqrt(0.75));
    EXPECT_NEAR(score, late ? 2.0 : single, 1e-6);
    const Matrix<float> mean = mean_rows(pictures.rows);
    ASSERT_EQ(mean.rows(), 8);
    // The mean is (1, 1, 0, 1) normalized, or the embedding itself.
    EXPECT_NEAR(mean(7, 0), late ? 1 / std::sqrt(3.0) : pictures.rows.sets.rows(7, 0), 1e-6);
  }
}

// BLIP-2's 8 query embeddings of an image become their mean, of length 1. A text has one embedding, which stays.
TEST_F(Embed, PooledItemsOfBlip2AreTheMeanOfItsQueries) {
  const auto encoder = load_encoder(fs::path(test::kSourceDir) / "tests/golden/blip2-itm");
  ASSERT_TRUE(encoder) << encoder.error().message;
  const EmbeddedPictures pictures = embed(**encoder, options_);
  ASSERT_TRUE(pictures.rows.late);
  const RowSets& sets = pictures.rows.sets;
  ASSERT_EQ(sets.rows.rows(), 8 * pictures.rows.size());
  const EmbeddedRows pooled = pooled_items(pictures.rows);
  EXPECT_FALSE(pooled.late);
  ASSERT_EQ(pooled.size(), pictures.rows.size());
  for (int64_t i = 0; i < pooled.size(); ++i) {
    EXPECT_EQ(pooled.sets.begin[static_cast<size_t>(i)], i);
    std::vector<double> sum(static_cast<size_t>(sets.rows.columns()));
    double squares = 0;
    for (int64_t c = 0; c < sets.rows.columns(); ++c) {
      double& one = sum[static_cast<size_t>(c)];
      for (int64_t row = 8 * i; row < 8 * (i + 1); ++row) one += sets.rows(row, c);
      squares += one * one;
    }
    for (int64_t c = 0; c < sets.rows.columns(); ++c) {
      EXPECT_NEAR(pooled.sets.rows(i, c), sum[static_cast<size_t>(c)] / std::sqrt(squares), 1e-6);
    }
  }
  const std::vector<TokenizedText> text = {{.ids = {2, 7, 9, 3}, .used = 2}};
  const auto texts = embed_texts(**encoder, text, options_);
  ASSERT_TRUE(texts) << texts.error().message;
  const EmbeddedRows same = pooled_items(*texts);
  ASSERT_EQ(same.size(), 1);
  for (int64_t c = 0; c < same.sets.rows.columns(); ++c) {
    EXPECT_NEAR(same.sets.rows(0, c), texts->sets.rows(0, c), 1e-6);
  }
}

}  // namespace
}  // namespace saccade::lab
