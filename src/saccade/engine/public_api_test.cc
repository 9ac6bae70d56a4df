// The public API as a program outside sees it: this file includes no other header of the library.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <saccade/saccade.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Pointwise;

saccade::Image plain(uint8_t red, uint8_t green, uint8_t blue, int side = 40) {
  saccade::Image image{.width = side, .height = side, .channels = 3};
  for (int i = 0; i < side * side; ++i) image.pixels.insert(image.pixels.end(), {red, green, blue});
  return image;
}

// A bitmap file (BMP, 24 bits): a format simple enough to be written here.
void write_bitmap(const fs::path& path, const saccade::Image& image) {
  std::string bytes(54, '\0');
  const auto put = [&](size_t at, uint32_t value, int count) {
    for (int i = 0; i < count; ++i) bytes[at + static_cast<size_t>(i)] = static_cast<char>(value >> (8 * i));
  };
  const int stride = (image.width * 3 + 3) / 4 * 4;
  bytes[0] = 'B';
  bytes[1] = 'M';
  put(2, static_cast<uint32_t>(54 + stride * image.height), 4);
  put(10, 54, 4);
  put(14, 40, 4);
  put(18, static_cast<uint32_t>(image.width), 4);
  put(22, static_cast<uint32_t>(image.height), 4);
  put(26, 1, 2);
  put(28, 24, 2);
  for (int y = image.height - 1; y >= 0; --y) {
    std::string row(static_cast<size_t>(stride), '\0');
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        row[static_cast<size_t>(x * 3 + c)] =
            static_cast<char>(image.pixels[static_cast<size_t>((y * image.width + x) * 3 + 2 - c)]);
      }
    }
    bytes += row;
  }
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string starter() {
  return (fs::path(saccade::test::kSourceDir) / "models/starter").string();
}

class PublicApi : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "images");
    write_bitmap(folder_ / "images/red.bmp", plain(220, 20, 20));
    write_bitmap(folder_ / "images/green.bmp", plain(20, 200, 40));
    write_bitmap(folder_ / "images/blue.bmp", plain(20, 40, 220));
  }
  [[nodiscard]] saccade::Engine filled() const {
    auto engine =
        saccade::Engine::open((folder_ / "c").string(), {.encoder = starter(), .create = true, .threads = 1});
    EXPECT_TRUE(engine) << engine.error().message;
    const auto report = engine->index({folder_ / "images"});
    EXPECT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->added, 3);
    return *std::move(engine);
  }
  // Makes a checkpoint of BLIP-2 with random weights, and a tokenizer that knows letters.
  [[nodiscard]] fs::path with_matching_head() const {
    const fs::path folder = folder_ / "blip2";
    fs::copy(fs::path(saccade::test::kSourceDir) / "tests/golden/blip2-itm", folder);
    std::ofstream words(folder / "vocab.txt");
    words << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";
    for (char letter = 'a'; letter <= 'z'; ++letter) words << letter << "\n##" << letter << "\n";
    for (int unused = 56; unused < 200; ++unused) words << "[unused" << unused << "]\n";
    std::ofstream(folder / "tokenizer_config.json") << R"({"tokenizer_class": "BertTokenizer"})";
    return folder;
  }
  saccade::test::TestFolder folder_;
};

TEST_F(PublicApi, EncodesAndCompares) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_EQ(encoder->info().precision, saccade::Precision::kFp32);
  EXPECT_EQ(encoder->info().device, "cpu");
  const auto images =
      encoder->encode_images({(folder_ / "images/red.bmp").string(), (folder_ / "images/blue.bmp").string()});
  ASSERT_TRUE(images) << images.error().message;
  ASSERT_EQ(images->size(), 2);
  EXPECT_EQ(images->dim(), encoder->info().dim);
  const auto texts = encoder->encode_texts({"a red square", "a blue square"});
  ASSERT_TRUE(texts) << texts.error().message;
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(saccade::dot(images->row(i), images->row(i)), 1, 1e-5);
    EXPECT_NEAR(saccade::dot(texts->row(i), texts->row(i)), 1, 1e-5);
  }
  EXPECT_LT(saccade::dot(images->row(0), images->row(1)), 0.9999F);
}

TEST_F(PublicApi, FilesBytesAndPixelsGiveOneEmbedding) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  std::ifstream file(folder_ / "images/green.bmp", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto images = encoder->encode_images(
      {folder_ / "images/green.bmp", saccade::ImageInput::bytes(std::move(bytes)), plain(20, 200, 40)},
      {.batch_size = 2});
  ASSERT_TRUE(images) << images.error().message;
  ASSERT_EQ(images->size(), 3);
  for (int64_t i = 1; i < 3; ++i) {
    EXPECT_THAT(images->row(i), Pointwise(testing::FloatNear(1e-5F), images->row(0)));
  }
  // The same through the caller's own preprocessing.
  const saccade::Preprocessing& how = encoder->preprocessing();
  saccade::Matrix<float> pixels(1, int64_t{3} * how.output_height() * how.output_width());
  ASSERT_TRUE(saccade::preprocess(plain(20, 200, 40), how, pixels.row(0)));
  const auto own = encoder->encode_pixels(pixels.view());
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_THAT(own->row(0), Pointwise(testing::FloatNear(1e-5F), images->row(0)));
  EXPECT_EQ(encoder->encode_pixels(saccade::Matrix<float>(1, 5).view()).error().code,
            saccade::ErrorCode::kUsage);
}

TEST_F(PublicApi, OneBadImageIsNamedOrSkipped) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  std::ofstream(folder_ / "images/broken.png") << "no image";
  const std::vector<saccade::ImageInput> inputs = {folder_ / "images/red.bmp", folder_ / "images/broken.png",
                                                   folder_ / "images/blue.bmp", folder_ / "images/gone.png"};
  const auto failed = encoder->encode_images(inputs);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("image 1 ("));
  for (const int batch_size : {1, 2, 4}) {
    const auto skipped =
        encoder->encode_images(inputs, {.batch_size = batch_size, .errors = saccade::OnError::kSkip});
    ASSERT_TRUE(skipped) << skipped.error().message;
    ASSERT_EQ(skipped->size(), 2);
    ASSERT_EQ(skipped->skipped().size(), 2U);
    EXPECT_EQ(skipped->skipped()[0].index, 1);
    EXPECT_EQ(skipped->skipped()[1].index, 3);
    EXPECT_EQ(skipped->skipped()[1].error.code, saccade::ErrorCode::kNotFound);
    const auto blue = encoder->encode_images({folder_ / "images/blue.bmp"});
    EXPECT_THAT(skipped->row(1), Pointwise(testing::FloatNear(1e-5F), blue->row(0)));
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(encoder->encode_images(inputs, {.stop = stop.get_token()}).error().code,
            saccade::ErrorCode::kCancelled);
}

TEST_F(PublicApi, ASecondWriterIsRefused) {
  saccade::Engine photos = filled();
  const int lock = ::open((folder_ / "c/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(lock, 0);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  const auto refused = photos.index({folder_ / "images"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, saccade::ErrorCode::kCancelled);
  EXPECT_THAT(refused.error().message, HasSubstr("is writing to this collection"));
  EXPECT_TRUE(photos.search("red"));
  ::close(lock);
  EXPECT_TRUE(photos.index({folder_ / "images"}));
}

TEST_F(PublicApi, TokensAreCounted) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  std::string long_text;
  for (int i = 0; i < 500; ++i) long_text += "word ";
  const std::vector<std::string> texts = {"a bell", long_text};
  const auto uses = encoder->tokens(texts);
  ASSERT_TRUE(uses) << uses.error().message;
  EXPECT_GT((*uses)[0].used, 0);
  EXPECT_EQ((*uses)[0].dropped, 0);
  EXPECT_GT((*uses)[1].dropped, 400);
  EXPECT_EQ(encoder->encode_texts_multi(texts).error().code, saccade::ErrorCode::kUnsupported);
}

TEST_F(PublicApi, TextsTokenizedByTheCaller) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  std::vector<saccade::TokenizedText> texts;
  for (const char* text : {"a bell", "two birds on a branch", "a red door"}) {
    texts.push_back(encoder->tokenizer()->encode(text, encoder->info().context));
  }
  const auto own = encoder->encode_tokens(texts, {.batch_size = 2});
  ASSERT_TRUE(own) << own.error().message;
  const auto whole = encoder->encode_texts({"a bell", "two birds on a branch", "a red door"});
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_THAT(own->row(i), Pointwise(testing::FloatNear(1e-5F), whole->row(i)));
  }
  texts[1].ids[1] = 1 << 20;
  EXPECT_EQ(encoder->encode_tokens(texts).error().code, saccade::ErrorCode::kMismatch);
  texts[1].ids.clear();
  EXPECT_EQ(encoder->encode_tokens(texts).error().code, saccade::ErrorCode::kUsage);
}

TEST_F(PublicApi, EffectiveLengthsAreThoseKeptBesideTheWeights) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  const auto lengths = encoder->effective_lengths();
  ASSERT_TRUE(lengths) << lengths.error().message;
  ASSERT_FALSE(lengths->empty());
  EXPECT_EQ(lengths->front().dataset, "bootstrap-icons");
  EXPECT_GT(lengths->front().tokens, 0);
  EXPECT_LE(lengths->front().low, lengths->front().high);
}

// A stop in the middle of a pass ends it, not only one between batches.
TEST_F(PublicApi, APassEndsWhenAskedToStop) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  const int64_t width = int64_t{3} * encoder->info().image_height * encoder->info().image_width;
  const saccade::Matrix<float> pixels(4000, width);
  std::stop_source stop;
  const auto began = std::chrono::steady_clock::now();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.request_stop();
  });
  const auto stopped = encoder->encode_pixels(pixels.view(), {.batch_size = 4000, .stop = stop.get_token()});
  const auto took = std::chrono::steady_clock::now() - began;
  later.join();
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, saccade::ErrorCode::kCancelled);
  EXPECT_LT(took, std::chrono::seconds(1));
  EXPECT_TRUE(encoder->encode_pixels(pixels.view().slice(0, 2)));
}

TEST_F(PublicApi, IndexesAndSearches) {
  const saccade::Engine engine = filled();
  const auto answer = engine.search("red", {.k = 2});
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->hits.size(), 2U);
  EXPECT_EQ(answer->searched, 3);
  EXPECT_EQ(answer->hits[0].rank, 1);
  EXPECT_EQ(answer->hits[0].path.filename(), "red.bmp");  // by its name
  EXPECT_TRUE(answer->hits[0].by_keywords);
  const auto by_image = engine.search(saccade::Query::image(plain(20, 40, 220)), {.k = 1});
  ASSERT_TRUE(by_image) << by_image.error().message;
  EXPECT_EQ(by_image->hits[0].path.filename(), "blue.bmp");
  EXPECT_NEAR(by_image->hits[0].score, 1, 1e-4);
  const auto composed = engine.search(saccade::Query::image(folder_ / "images/red.bmp").but("but green"));
  ASSERT_TRUE(composed) << composed.error().message;
  EXPECT_EQ(composed->hits.size(), 3U);
  const auto like = engine.like(answer->hits[0].id);
  ASSERT_TRUE(like) << like.error().message;
  EXPECT_EQ(like->hits.size(), 2U);
  for (const saccade::Hit& hit : like->hits) EXPECT_NE(hit.id, answer->hits[0].id);
  const auto filtered = engine.search("red", {.filter = "path~green"});
  ASSERT_TRUE(filtered) << filtered.error().message;
  ASSERT_EQ(filtered->hits.size(), 1U);
  EXPECT_EQ(filtered->hits[0].path.filename(), "green.bmp");
}

// Sums of fp32 products depend on the number of rows on processors without AVX-512.
float batch_tolerance() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bw") != 0 ? 0.0F : 1e-5F;
#else
  return 1e-5F;
#endif
}

void expect_same(const saccade::Answer& one, const saccade::Answer& other) {
  EXPECT_EQ(one.searched, other.searched);
  EXPECT_EQ(one.notes, other.notes);
  ASSERT_EQ(one.tokens.has_value(), other.tokens.has_value());
  EXPECT_EQ(one.tokens ? one.tokens->used : 0, other.tokens ? other.tokens->used : 0);
  ASSERT_EQ(one.hits.size(), other.hits.size());
  for (size_t i = 0; i < one.hits.size(); ++i) {
    const saccade::Hit& a = one.hits[i];
    const saccade::Hit& b = other.hits[i];
    EXPECT_EQ(a.rank, b.rank);
    EXPECT_EQ(a.id, b.id);
    EXPECT_EQ(a.path, b.path);
    EXPECT_TRUE(std::isnan(b.score) ? std::isnan(a.score) : std::abs(a.score - b.score) <= batch_tolerance())
        << a.score << " " << b.score;
    EXPECT_EQ(a.reranked, b.reranked);
    EXPECT_EQ(a.match, b.match);
    EXPECT_EQ(a.by_keywords, b.by_keywords);
    EXPECT_EQ(a.near_duplicates.size(), b.near_duplicates.size());
    ASSERT_EQ(a.explanations.size(), b.explanations.size());
    for (size_t e = 0; e < a.explanations.size(); ++e) {
      EXPECT_EQ(a.explanations[e].words.size(), b.explanations[e].words.size());
      EXPECT_EQ(a.explanations[e].map.values.size(), b.explanations[e].map.values.size());
    }
  }
}

TEST_F(PublicApi, FramesOfVideosAreIndexed) {
  saccade::Engine engine = filled();
  const std::string video = (folder_ / "images/clip.mp4").string();
  const std::string made =
      "ffmpeg -nostdin -v error -f lavfi -i color=red:s=64x48:d=2:r=10 -c:v mpeg4 '" + video + "'";
  if (std::system(made.c_str()) != 0) GTEST_SKIP() << "there is no ffmpeg";  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(engine.index({folder_ / "images"}, {.video_frames = 0})->added, 0);
  EXPECT_EQ(engine.index({folder_ / "images"})->added, 1);
  const auto images = engine.images("path~clip");
  ASSERT_TRUE(images) << images.error().message;
  ASSERT_EQ(images->size(), 1U);
  EXPECT_THAT(images->front().path.string(), HasSubstr("clip.mp4#t="));
  const std::vector<saccade::IndexOptions> all_wrong = {
      {.video_seconds = -1}, {.video_seconds = std::nan("")}, {.video_frames = -1}, {.video_frames = 1001}};
  for (const saccade::IndexOptions& wrong : all_wrong) {
    EXPECT_EQ(engine.index({folder_ / "images"}, wrong).error().code, saccade::ErrorCode::kUsage);
  }
}

TEST_F(PublicApi, OptionsOfIndexLeaveThingsOut) {
  std::ofstream(folder_ / "images/red.txt") << "a tomato";
  std::ofstream(folder_ / "images/.saccadeignore") << "blue.*\n";
  auto engine =
      saccade::Engine::open((folder_ / "c").string(), {.encoder = starter(), .create = true, .threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ(engine->index({folder_ / "images"}, {.sidecars = false})->added, 2);
  EXPECT_EQ(engine->image(folder_ / "images/red.bmp")->caption, "");
  EXPECT_EQ(engine->index({folder_ / "images"}, {.ignore_files = false})->added, 1);
  EXPECT_EQ(engine->image(folder_ / "images/red.bmp")->caption, "a tomato");
}

TEST_F(PublicApi, ManyQueriesGetTheAnswersThatEachGetsAlone) {
  const saccade::Engine engine = filled();
  const auto red = engine.image(folder_ / "images/red.bmp");
  ASSERT_TRUE(red) << red.error().message;
  const fs::path composer = fs::path(saccade::test::kSourceDir) / "models/starter-composer";
  std::vector<saccade::Query> queries = {
      "red",
      "a \"green square\":2 -blue",
      saccade::Query::literal("-red"),
      saccade::Query::image(folder_ / "images/blue.bmp"),
      saccade::Query::image(plain(20, 200, 40)).but("but red"),
      saccade::Query::image(folder_ / "images/red.bmp").but("blue").compose(composer),
      saccade::Query("").like(red->id),
      saccade::Query("but blue").like(red->id),
      saccade::Query("a square").without("red").and_image(folder_ / "images/green.bmp", -1),
      saccade::Query("a b").and_image(folder_ / "images/green.bmp", 0),  // errors from here on
      saccade::Query::image(folder_ / "images/gone.bmp"),
      saccade::Query("").like(999),
      "\"red",
      "",  // with a filter a list
  };
  for (int i = 0; i < 60; ++i) queries.emplace_back("a square " + std::to_string(i));  // a second block
  saccade::SearchOptions page{.k = 1, .offset = 1, .filter = "path~e"};
  page.order = saccade::Order::kDate;
  saccade::SearchOptions explained{.k = 1, .explain = true};
  saccade::SearchOptions reranked{.k = 2, .rerank = engine.encoder().value(), .rerank_depth = 2};
  saccade::SearchOptions nothing{.filter = "width>5000"};
  for (saccade::SearchOptions options : {saccade::SearchOptions(), page, explained, reranked, nothing}) {
    std::vector<int64_t> done;
    options.on_progress = [&](const saccade::ProgressUpdate& update) {
      if (update.what == "searching") done.push_back(update.done);
      EXPECT_EQ(update.total, std::ssize(queries));
    };
    const auto answers = engine.search_all(queries, options);
    ASSERT_TRUE(answers) << answers.error().message;
    const bool slow = options.explain || options.rerank;
    ASSERT_EQ(done.size(), slow ? queries.size() : 2U);
    EXPECT_EQ(done.front(), slow ? 1 : 64);
    EXPECT_EQ(done.back(), std::ssize(queries));
    ASSERT_EQ(answers->size(), queries.size());
    options.on_progress = {};
    int failed = 0;
    for (size_t i = 0; i < queries.size(); ++i) {
      SCOPED_TRACE(i);
      const auto alone = engine.search(queries[i], options);
      const auto& together = (*answers)[i];
      ASSERT_EQ(together.has_value(), alone.has_value())
          << (alone ? together.error().message : alone.error().message);
      if (alone) {
        expect_same(*together, *alone);
      } else {
        ++failed;
        EXPECT_EQ(together.error().code, alone.error().code);
        EXPECT_EQ(together.error().message, alone.error().message);
      }
    }
    EXPECT_GE(failed, 3);
    EXPECT_LE(failed, 13);
  }
}

TEST_F(PublicApi, ManyQueriesFailTogetherForWhatConcernsAll) {
  const saccade::Engine engine = filled();
  const auto none = engine.search_all({});
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_TRUE(none->empty());
  const auto two = engine.search_all({"red", "blue"}, {.k = 1});
  ASSERT_TRUE(two) << two.error().message;
  ASSERT_EQ(two->size(), 2U);
  EXPECT_EQ((*two)[1]->hits[0].path.filename(), "blue.bmp");
  EXPECT_EQ(engine.search_all({"red"}, {.k = 0}).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search_all({"red"}, {.filter = "colour=blue"}).error().code, saccade::ErrorCode::kUsage);
  std::stop_source stop;
  const auto asks = [&](const saccade::ProgressUpdate&) { stop.request_stop(); };
  const std::vector<saccade::Query> many(200, "red");
  const auto stopped = engine.search_all(many, {.on_progress = asks, .stop = stop.get_token()});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, saccade::ErrorCode::kCancelled);
  EXPECT_THAT(stopped.error().message, HasSubstr("after 64 queries"));
  const auto empty =
      saccade::Engine::open((folder_ / "new").string(), {.encoder = starter(), .create = true});
  ASSERT_TRUE(empty) << empty.error().message;
  EXPECT_EQ(empty->search_all({"red"}).error().code, saccade::ErrorCode::kNotFound);
}

TEST_F(PublicApi, PagesAreOfOneAnswerAndGroupsAreAsAlikeAsWanted) {
  const saccade::Engine engine = filled();
  const auto hits = [&](const saccade::SearchOptions& options) {
    auto answer = engine.search("a red square", options);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? std::move(answer->hits) : std::vector<saccade::Hit>();
  };
  const auto whole = hits({});
  ASSERT_EQ(whole.size(), 3U);
  const auto page = hits({.k = 1, .offset = 1});
  ASSERT_EQ(page.size(), 1U);
  EXPECT_EQ(page[0].rank, 2);
  EXPECT_EQ(page[0].id, whole[1].id);
  EXPECT_EQ(page[0].score, whole[1].score);
  EXPECT_TRUE(hits({.offset = 3}).empty());
  const auto listed = engine.search("", {.k = 2, .offset = 2, .filter = "width>0"});
  ASSERT_TRUE(listed) << listed.error().message;
  ASSERT_EQ(listed->hits.size(), 1U);
  EXPECT_EQ(listed->hits[0].rank, 3);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const char* text : {"", "red"}) {
    EXPECT_EQ(engine.search(text, {.offset = kMost, .filter = "width>0"}).error().code,
              saccade::ErrorCode::kUsage);
    EXPECT_TRUE(engine.search(text, {.k = kMost, .filter = "width>0"})) << text;
  }
  const auto nothing = engine.search("red", {.filter = "width>5000"});
  ASSERT_TRUE(nothing) << nothing.error().message;
  EXPECT_TRUE(nothing->hits.empty());
  EXPECT_THAT(nothing->notes, testing::Contains(HasSubstr("no image meets width>5000")));
  const auto like = engine.like(whole[0].id, {.k = 1, .offset = 1});
  ASSERT_TRUE(like) << like.error().message;
  ASSERT_EQ(like->hits.size(), 1U);
  EXPECT_EQ(like->hits[0].rank, 2);
  // Any two images have a cosine above 0 here.
  const auto one = hits({.group_above = 0});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].near_duplicates.size(), 2U);
}

TEST_F(PublicApi, AnImageOfTheCollectionIsSearchedByWithAChangeInWords) {
  const saccade::Engine engine = filled();
  const auto red = engine.image(folder_ / "images/red.bmp");
  ASSERT_TRUE(red) << red.error().message;
  const auto alike = engine.like(red->id);
  ASSERT_TRUE(alike) << alike.error().message;
  ASSERT_EQ(alike->hits.size(), 2U);
  const auto changed = engine.search(saccade::Query("but blue").like(red->id));
  ASSERT_TRUE(changed) << changed.error().message;
  ASSERT_EQ(changed->hits.size(), 2U);
  // As the file's own image, but for that image among the hits.
  const auto by_file = engine.search(saccade::Query::image(red->path).but("but blue"));
  ASSERT_TRUE(by_file) << by_file.error().message;
  size_t other = 0;
  for (const saccade::Hit& hit : by_file->hits) {
    if (hit.id == red->id) continue;
    ASSERT_LT(other, 2U);
    EXPECT_EQ(changed->hits[other].id, hit.id);
    EXPECT_NEAR(changed->hits[other].score, hit.score, 1e-5);
    EXPECT_NE(changed->hits[other].score, alike->hits[other].score);
    ++other;
  }
  EXPECT_EQ(other, 2U);
  EXPECT_EQ(engine.search(saccade::Query("").like(0)).error().code, saccade::ErrorCode::kNotFound);
  EXPECT_EQ(engine.search(saccade::Query("").like(99)).error().code, saccade::ErrorCode::kNotFound);
  EXPECT_EQ(engine.search(saccade::Query::image(red->path).like(red->id)).error().code,
            saccade::ErrorCode::kUsage);
}

TEST_F(PublicApi, ManyThreadsSearchWhileOneIndexes) {
  saccade::Engine engine = filled();
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const auto answer = engine.search("a green square", {.k = 10});
        if (!answer || answer->hits.size() < 3) ++failures;
      }
    });
  }
  write_bitmap(folder_ / "images/white.bmp", plain(250, 250, 250));
  const auto report = engine.index({folder_ / "images"});
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->added, 1);
  EXPECT_EQ(report->unchanged, 3);
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(engine.info().images, 4);
}

TEST_F(PublicApi, LooksImagesUpAndRemovesThem) {
  saccade::Engine engine = filled();
  const auto images = engine.images();
  ASSERT_TRUE(images) << images.error().message;
  ASSERT_EQ(images->size(), 3U);
  const auto before = engine.collection();
  ASSERT_TRUE(before) << before.error().message;
  ASSERT_EQ(before->ids()[static_cast<size_t>(images->front().row)], images->front().id);
  EXPECT_EQ(before->embeddings().columns(), engine.info().dim);
  const auto one = engine.image(images->front().path);
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->id, images->front().id);
  const std::vector<int64_t> one_unknown = {one->id, 999};
  EXPECT_EQ(engine.remove(one_unknown).error().code, saccade::ErrorCode::kNotFound);
  EXPECT_EQ(engine.info().images, 3);
  const std::vector<int64_t> ids = {one->id};
  ASSERT_TRUE(engine.remove(ids));
  EXPECT_EQ(engine.info().images, 2);
  EXPECT_EQ(engine.image(one->id).error().code, saccade::ErrorCode::kNotFound);
  EXPECT_EQ(engine.like(one->id).error().code, saccade::ErrorCode::kNotFound);
  // A snapshot that was taken earlier stays as it was.
  EXPECT_EQ(before->info().images, 3);
  EXPECT_EQ(before->image(one->id)->path, one->path);
  EXPECT_NEAR(saccade::dot(before->embeddings().row(one->row), before->embeddings().row(one->row)), 1, 1e-5);
  EXPECT_EQ(engine.collection()->info().images, 2);
  const auto encoder = engine.encoder();
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_EQ(encoder->info().fingerprint, engine.info().fingerprint);
}

TEST_F(PublicApi, IndexBoundsThePixelsOfAnImage) {
  saccade::Engine engine = filled();
  const auto red = engine.image(folder_ / "images/red.bmp");
  ASSERT_TRUE(red) << red.error().message;
  const int64_t pixels = int64_t{red->width} * red->height;
  write_bitmap(folder_ / "images/white.bmp", plain(250, 250, 250));
  const auto refused = engine.index({folder_ / "images"}, {.max_pixels = pixels - 1});
  ASSERT_TRUE(refused) << refused.error().message;
  ASSERT_EQ(refused->failed.size(), 1U);
  EXPECT_EQ(refused->failed[0].error.code, saccade::ErrorCode::kLimit);
  EXPECT_NE(refused->failed[0].error.message.find("more than max_pixels"), std::string::npos)
      << refused->failed[0].error.message;
  const auto taken = engine.index({folder_ / "images"}, {.retry_failed = true, .max_pixels = pixels});
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(taken->added, 1);
  EXPECT_EQ(engine.index({folder_ / "images"}, {.max_pixels = 0}).error().code, saccade::ErrorCode::kUsage);
}

TEST_F(PublicApi, ACollectionIsReadWithoutItsModel) {
  saccade::Engine engine = filled();
  std::ofstream(folder_ / "images/broken.png") << "no image";
  const auto report = engine.index({folder_ / "images"},
                                   {.captions = {{(folder_ / "images/red.bmp").string(), "a red square"}}});
  ASSERT_TRUE(report) << report.error().message;
  const auto collection = saccade::Collection::open(folder_ / "c");
  ASSERT_TRUE(collection) << collection.error().message;
  EXPECT_EQ(collection->info().address, (folder_ / "c").string());
  EXPECT_EQ(collection->info().encoder, "starter");
  EXPECT_EQ(collection->info().encoder_folder, starter());
  EXPECT_EQ(collection->info().fingerprint, engine.info().fingerprint);
  EXPECT_EQ(collection->info().images, 3);
  EXPECT_EQ(collection->embeddings().columns(), collection->info().dim);
  EXPECT_EQ(std::ssize(collection->ids()), collection->embeddings().rows());
  // The rows are those that the model gives, and the caller's search over them finds what the engine's does.
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  const auto images = collection->images();
  ASSERT_TRUE(images) << images.error().message;
  ASSERT_EQ(images->size(), 3U);
  for (const saccade::IndexedImage& image : *images) {
    EXPECT_EQ(collection->image_of_row(image.row)->id, image.id);
    EXPECT_EQ(collection->image(image.path)->hash, image.hash);
    EXPECT_EQ(image.caption, image.path.filename() == "red.bmp" ? "a red square" : "");
    const auto encoded = encoder->encode_images({image.path});
    ASSERT_TRUE(encoded) << encoded.error().message;
    EXPECT_THAT(collection->embeddings().row(image.row),
                Pointwise(testing::FloatNear(1e-5F), encoded->row(0)));
  }
  const auto text = encoder->encode_texts({"a green square"});
  const auto allowed = collection->allowed("not path~red");
  ASSERT_TRUE(allowed) << allowed.error().message;
  const auto best = saccade::top_k(text->view(), collection->embeddings(), 2, {.allowed = *allowed});
  const auto answer = engine.search(saccade::Query::literal("a green square"),
                                    {.k = 2, .filter = "not path~red", .keyword_weight = 0});
  ASSERT_TRUE(answer) << answer.error().message;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(collection->ids()[static_cast<size_t>(best->rows(0, i))],
              answer->hits[static_cast<size_t>(i)].id);
  }
  EXPECT_EQ(collection->images("path~red")->size(), 1U);
  EXPECT_EQ(collection->allowed("width>>3").error().code, saccade::ErrorCode::kUsage);
  const auto formats = collection->values("format");
  ASSERT_TRUE(formats) << formats.error().message;
  ASSERT_EQ(formats->size(), 1U);
  EXPECT_EQ(formats->front().images, 3);
  const auto failed = collection->failed();
  ASSERT_TRUE(failed) << failed.error().message;
  ASSERT_EQ(failed->size(), 1U);
  EXPECT_EQ(failed->front().path.filename(), "broken.png");
  EXPECT_TRUE(collection->metadata(images->front().id)->camera.empty());
  EXPECT_EQ(collection->metadata(99).error().code, saccade::ErrorCode::kNotFound);
  EXPECT_EQ(collection->vectors(images->front().id).error().code, saccade::ErrorCode::kUnsupported);
  EXPECT_EQ(saccade::Collection::open(folder_ / "images").error().code, saccade::ErrorCode::kNotFound);
  // Copies share the snapshot: views outlive the object that they came from.
  auto moved = std::make_unique<saccade::Collection>(*collection);
  const auto view = moved->embeddings();
  moved.reset();
  EXPECT_EQ(view.row(0).data(), collection->embeddings().row(0).data());
  // Three images are too few to calibrate: the reason is told.
  const auto calibration = collection->calibration(saccade::QueryKind::kText);
  ASSERT_TRUE(calibration) << calibration.error().message;
  EXPECT_FALSE(calibration->gives_probabilities());
  EXPECT_THAT(calibration->reason(), HasSubstr("too few"));
  fs::remove(folder_ / "c/background.safetensors");
  const auto without = saccade::Collection::open(folder_ / "c");
  EXPECT_EQ(without->calibration(saccade::QueryKind::kText).error().code, saccade::ErrorCode::kNotFound);
}

TEST_F(PublicApi, PairsAreScoredByAMatchingHead) {
  const auto plain_encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(plain_encoder) << plain_encoder.error().message;
  const std::vector<saccade::ImageInput> images = {folder_ / "images/red.bmp", folder_ / "images/green.bmp",
                                                   folder_ / "images/blue.bmp"};
  const std::vector<std::string> texts = {"a red square", "a green square", "ab"};
  EXPECT_FALSE(plain_encoder->has_pair_scorer());
  EXPECT_EQ(plain_encoder->score_pairs(images, texts).error().code, saccade::ErrorCode::kUnsupported);
  EXPECT_EQ(plain_encoder->has_relevance_maps(),
            plain_encoder->relevance_map(folder_ / "images/red.bmp", "red").has_value());
  const fs::path folder = with_matching_head();
  const auto encoder = saccade::Encoder::load(folder.string(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  ASSERT_TRUE(encoder->has_pair_scorer());
  const auto together = encoder->score_pairs(images, texts);
  ASSERT_TRUE(together) << together.error().message;
  ASSERT_EQ(together->size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    const auto alone = encoder->score_pairs({&images[i], 1}, {&texts[i], 1});
    ASSERT_TRUE(alone) << alone.error().message;
    EXPECT_NEAR((*alone)[0], (*together)[i], 1e-4);
  }
  const auto in_batches = encoder->score_pairs(images, texts, {.batch_size = 2});
  ASSERT_TRUE(in_batches) << in_batches.error().message;
  EXPECT_THAT(*in_batches, Pointwise(testing::FloatNear(1e-4F), *together));
  EXPECT_NE((*together)[0], (*together)[1]);
  EXPECT_EQ(encoder->score_pairs(images, {&texts[0], 1}).error().code, saccade::ErrorCode::kUsage);
}

TEST_F(PublicApi, TheBestHitsAreRankedAnewByASecondModel) {
  const saccade::Engine engine = filled();
  const auto second = saccade::Encoder::load(with_matching_head().string(), {.threads = 1});
  ASSERT_TRUE(second) << second.error().message;
  const std::string text = "a red square";
  const auto first = engine.search(text);
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_EQ(first->hits.size(), 3U);
  for (const saccade::Hit& hit : first->hits) EXPECT_FALSE(hit.reranked);
  const auto answer = engine.search(text, {.rerank = *second});
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->hits.size(), 3U);
  // The order is that of the score that the second model itself gives to the pairs.
  for (size_t i = 0; i < 3; ++i) {
    const saccade::Hit& hit = answer->hits[i];
    EXPECT_TRUE(hit.reranked);
    EXPECT_EQ(hit.rank, static_cast<int64_t>(i) + 1);
    const std::vector<saccade::ImageInput> image = {hit.path};
    const auto score = second->score_pairs(image, {&text, 1});
    ASSERT_TRUE(score) << score.error().message;
    EXPECT_NEAR(hit.score, (*score)[0], 1e-3);
    EXPECT_GE(answer->hits.front().score, hit.score);
    EXPECT_LE(answer->hits.back().score, hit.score);
  }
  // Only the best one is scored anew, and stays the first; the others keep their order.
  const auto one = engine.search(
      text, {.rerank = *second, .rerank_depth = 1, .rerank_by = saccade::RerankMethod::kCosine});
  ASSERT_TRUE(one) << one.error().message;
  ASSERT_EQ(one->hits.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(one->hits[i].id, first->hits[i].id);
    EXPECT_EQ(one->hits[i].reranked, i == 0);
  }
  EXPECT_NE(one->hits[0].score, first->hits[0].score);
  const auto page = engine.search(text, {.k = 1, .offset = 1, .rerank = *second});
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->hits.size(), 1U);
  EXPECT_EQ(page->hits[0].id, answer->hits[1].id);
  EXPECT_EQ(page->hits[0].rank, 2);
  // An image of the collection is read from its file, as the hits are.
  const auto alike =
      engine.like(first->hits[0].id, {.rerank = *second, .rerank_by = saccade::RerankMethod::kCosine});
  ASSERT_TRUE(alike) << alike.error().message;
  ASSERT_EQ(alike->hits.size(), 2U);
  for (const saccade::Hit& hit : alike->hits) {
    const auto rows = second->encode_images({first->hits[0].path, hit.path});
    ASSERT_TRUE(rows) << rows.error().message;
    EXPECT_TRUE(hit.reranked);
    EXPECT_NEAR(hit.score, saccade::dot(rows->row(0), rows->row(1)), 1e-3);
  }
  // A file that is gone is told of.
  fs::remove(first->hits[1].path);
  const auto gone = engine.search(text, {.rerank = *second});
  ASSERT_TRUE(gone) << gone.error().message;
  EXPECT_FALSE(gone->hits[2].reranked);
  EXPECT_EQ(gone->hits[2].id, first->hits[1].id);
  EXPECT_THAT(gone->notes, testing::Contains(HasSubstr("1 of 3 images could not be re-ranked")));
  const auto refused = [&](const saccade::Query& query, const saccade::SearchOptions& options) {
    const auto found = engine.search(query, options);
    return found ? saccade::ErrorCode::kInternal : found.error().code;
  };
  EXPECT_EQ(refused(text, {.rerank = *second, .rerank_depth = 0}), saccade::ErrorCode::kUsage);
  EXPECT_EQ(refused(text, {.min_probability = 0.5, .rerank = *second}), saccade::ErrorCode::kUsage);
  EXPECT_EQ(refused("", {.filter = "width>0", .rerank = *second}), saccade::ErrorCode::kUsage);
  EXPECT_EQ(refused(text, {.rerank = *engine.encoder(), .rerank_by = saccade::RerankMethod::kMatch}),
            saccade::ErrorCode::kUnsupported);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(refused(text, {.stop = stop.get_token()}), saccade::ErrorCode::kCancelled);
}

TEST_F(PublicApi, HitsAreExplained) {
  const saccade::Engine engine = filled();
  const std::string text = "a red square";
  const auto plain_answer = engine.search(text);
  ASSERT_TRUE(plain_answer) << plain_answer.error().message;
  EXPECT_TRUE(plain_answer->hits[0].explanations.empty());
  const auto answer = engine.search(text, {.k = 2, .explain = true});
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->hits.size(), 2U);
  const auto encoder = engine.encoder();
  ASSERT_TRUE(encoder) << encoder.error().message;
  const auto texts = encoder->encode_texts({"a red square", "a square"});
  ASSERT_TRUE(texts) << texts.error().message;
  for (const saccade::Hit& hit : answer->hits) {
    ASSERT_EQ(hit.explanations.size(), 1U);
    const saccade::Explanation& why = hit.explanations[0];
    EXPECT_EQ(why.model, "starter");
    ASSERT_TRUE(why.score);
    EXPECT_NEAR(*why.score, hit.score, 1e-4);
    ASSERT_EQ(why.words.size(), 3U);
    EXPECT_EQ(why.words[1].word, "red");
    const auto image = encoder->encode_images({hit.path});
    ASSERT_TRUE(image) << image.error().message;
    EXPECT_NEAR(why.words[1].drop,
                saccade::dot(image->row(0), texts->row(0)) - saccade::dot(image->row(0), texts->row(1)),
                1e-4);
    EXPECT_EQ(why.method, "legrad");
    const auto map = encoder->relevance_map(hit.path, text);
    ASSERT_TRUE(map) << map.error().message;
    EXPECT_EQ(why.map.rows, map->rows);
    EXPECT_EQ(why.map.columns, map->columns);
    // As the encoder's own map, made to add up to 1.
    const double sum = std::accumulate(map->values.begin(), map->values.end(), 0.0);
    ASSERT_EQ(why.map.values.size(), map->values.size());
    for (size_t i = 0; i < map->values.size(); ++i)
      EXPECT_NEAR(why.map.values[i], map->values[i] / sum, 1e-4);
    EXPECT_TRUE(why.box);
    EXPECT_EQ(why.no_map, "");
  }
  const auto second = saccade::Encoder::load(with_matching_head().string(), {.threads = 1});
  ASSERT_TRUE(second) << second.error().message;
  const auto both = engine.search(
      text, {.k = 1, .rerank = *second, .explain = true, .explain_by = saccade::MapMethod::kChefer});
  ASSERT_TRUE(both) << both.error().message;
  ASSERT_EQ(both->hits[0].explanations.size(), 2U);
  EXPECT_EQ(both->hits[0].explanations[1].model, "blip2");
  EXPECT_EQ(both->hits[0].explanations[1].method, "chefer");
  const auto no_words = engine.search(saccade::Query("").like(answer->hits[0].id), {.k = 1, .explain = true});
  ASSERT_TRUE(no_words) << no_words.error().message;
  EXPECT_TRUE(no_words->hits[0].explanations.at(0).words.empty());
  EXPECT_EQ(engine.search(text, {.explain_by = saccade::MapMethod::kChefer}).error().code,
            saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search("", {.filter = "width>0", .explain = true}).error().code,
            saccade::ErrorCode::kUsage);
}

TEST_F(PublicApi, AComposerOfAFolderMakesTheQuery) {
  const saccade::Engine engine = filled();
  const auto query = [&] { return saccade::Query::image(folder_ / "images/red.bmp").but("green"); };
  const std::string composer = (fs::path(saccade::test::kSourceDir) / "models/starter-composer").string();
  const auto by_sum = engine.search(query().compose(saccade::Compose::kSum));
  ASSERT_TRUE(by_sum) << by_sum.error().message;
  const auto answer = engine.search(query().compose(composer));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_THAT(answer->notes, testing::Contains(HasSubstr("the composer starter-composer")));
  ASSERT_EQ(answer->hits.size(), 3U);
  EXPECT_NE(answer->hits[0].score, by_sum->hits[0].score);
  // The last compose() holds.
  const auto again = engine.search(query().compose(composer).compose(saccade::Compose::kSum));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->hits[0].score, by_sum->hits[0].score);
  const auto code_of = [&](const saccade::Query& asked) {
    const auto found = engine.search(asked);
    return found ? saccade::ErrorCode::kInternal : found.error().code;
  };
  EXPECT_EQ(code_of(query().compose("product")), saccade::ErrorCode::kUsage);
  EXPECT_EQ(code_of(query().compose(composer).was("red")), saccade::ErrorCode::kUsage);
  EXPECT_EQ(code_of(saccade::Query("green").compose(composer)), saccade::ErrorCode::kUsage);
  EXPECT_EQ(code_of(saccade::Query("green").compose(saccade::Compose::kSum)), saccade::ErrorCode::kUsage);
  EXPECT_EQ(code_of(saccade::Query("green").was("red")), saccade::ErrorCode::kUsage);
  EXPECT_NE(engine.search(query().compose("product")).error().message.find("sum, slerp, direction"),
            std::string::npos);
}

TEST_F(PublicApi, WrongUseIsAnErrorThatNamesIt) {
  const std::string nowhere = (folder_ / "nowhere").string();
  const auto none = saccade::Engine::open(nowhere);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, saccade::ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr(nowhere));
  EXPECT_FALSE(fs::exists(nowhere));
  const auto silent = saccade::Engine::open("weaviate://127.0.0.1:1/Photos");  // nothing listens there
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, saccade::ErrorCode::kIo);
  EXPECT_THAT(silent.error().message, HasSubstr("127.0.0.1:1"));
  EXPECT_EQ(saccade::Encoder::load(nowhere).error().code, saccade::ErrorCode::kNotFound);
  saccade::Engine engine = filled();
  const auto otherwise = saccade::Engine::open((folder_ / "c").string(), {.exact_decode = true});
  ASSERT_FALSE(otherwise);
  EXPECT_EQ(otherwise.error().code, saccade::ErrorCode::kUsage);
  EXPECT_THAT(otherwise.error().message, HasSubstr("exact-decode"));
  for (const std::string device : {"gpu", "cuda:"}) {
    EXPECT_EQ(saccade::Encoder::load(starter(), {.device = device}).error().code, saccade::ErrorCode::kUsage);
    const auto unknown = saccade::Engine::open((folder_ / "c").string(), {.device = device});
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, saccade::ErrorCode::kUsage);
    EXPECT_THAT(unknown.error().message, HasSubstr("device \"" + device + "\", expected cpu, cuda"));
  }
  const saccade::EncoderOptions eight_bits = {.precision = saccade::Precision::kInt8, .device = "cuda"};
  EXPECT_EQ(saccade::Encoder::load(starter(), eight_bits).error().code, saccade::ErrorCode::kUnsupported);
  EXPECT_EQ(engine.search("", {}).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search("red", {.k = 0}).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search(saccade::Query("red").without(" ")).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search("red", {.offset = -1}).error().code, saccade::ErrorCode::kUsage);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const char* text : {"red", ""}) {  // the second is a list
    const auto behind_all = engine.search(text, {.k = kMost, .offset = 1, .filter = "width>0"});
    ASSERT_FALSE(behind_all);
    EXPECT_EQ(behind_all.error().code, saccade::ErrorCode::kUsage);
  }
  EXPECT_EQ(engine.search("red", {.exact_rescore = -1}).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search("red", {.group_above = 1.5}).error().code, saccade::ErrorCode::kUsage);
  std::stop_source asked_to_stop;
  asked_to_stop.request_stop();
  EXPECT_EQ(engine.search("red", {.stop = asked_to_stop.get_token()}).error().code,
            saccade::ErrorCode::kCancelled);
  for (const int threads : {-1, 1025}) {
    const auto refused = saccade::Encoder::load(starter(), {.threads = threads});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, saccade::ErrorCode::kUsage);
    EXPECT_THAT(refused.error().message, HasSubstr(std::to_string(threads) + " threads, expected 0 to 1024"));
  }
  const saccade::Status followed = engine.watch({}, {}, {});
  ASSERT_FALSE(followed);
  EXPECT_EQ(followed.error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.collection()->values("format", -1).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search("red", {.filter = "width>>3"}).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search("red", {.keyword_weight = 2}).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search(saccade::Query::image(folder_ / "gone.png")).error().code,
            saccade::ErrorCode::kNotFound);
}

// `all`: every value of the enum with its name, in the order of the message.
template <typename E>
void expect_names(saccade::Result<E> (*parse)(std::string_view),
                  const std::vector<std::pair<E, std::string_view>>& all) {
  std::string listed;
  for (const auto& [value, named] : all) {
    EXPECT_EQ(saccade::name(value), named);
    const saccade::Result<E> parsed = parse(named);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, value);
    listed += (listed.empty() ? "" : ", ") + std::string(named);
  }
  const saccade::Result<E> wrong = parse("Size");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, saccade::ErrorCode::kUsage);
  EXPECT_THAT(wrong.error().message, testing::EndsWith(" is \"Size\", expected one of " + listed));
}

TEST(Names, OfOptionsAreWrittenAndRead) {
  expect_names<saccade::Order>(saccade::parse_order,
                               {{saccade::Order::kScore, "score"}, {saccade::Order::kDate, "date"}});
  expect_names<saccade::RerankMethod>(saccade::parse_rerank_method,
                                      {{saccade::RerankMethod::kStrongest, "strongest"},
                                       {saccade::RerankMethod::kCosine, "cosine"},
                                       {saccade::RerankMethod::kMaxSim, "maxsim"},
                                       {saccade::RerankMethod::kMatch, "match"}});
  expect_names<saccade::MapMethod>(saccade::parse_map_method, {{saccade::MapMethod::kLegrad, "legrad"},
                                                               {saccade::MapMethod::kChefer, "chefer"}});
  expect_names<saccade::Compose>(saccade::parse_compose, {{saccade::Compose::kSum, "sum"},
                                                          {saccade::Compose::kSlerp, "slerp"},
                                                          {saccade::Compose::kDirection, "direction"}});
  expect_names<saccade::Precision>(saccade::parse_precision, {{saccade::Precision::kFp32, "fp32"},
                                                              {saccade::Precision::kBf16, "bf16"},
                                                              {saccade::Precision::kInt8, "int8"},
                                                              {saccade::Precision::kAuto, "auto"}});
  expect_names<saccade::Metric>(saccade::parse_metric, {{saccade::Metric::kInnerProduct, "inner_product"},
                                                        {saccade::Metric::kCosine, "cosine"}});
  expect_names<saccade::QueryKind>(saccade::parse_query_kind, {{saccade::QueryKind::kText, "text"},
                                                               {saccade::QueryKind::kImage, "image"}});
}

TEST(TopK, IsExactOverYourOwnMatrix) {
  saccade::Matrix<float> rows(4, 2);
  const float values[] = {3, 0, 0, 1, 1, 1, 0, 0};
  std::ranges::copy(values, rows.values().begin());
  saccade::Matrix<float> queries(1, 2);
  queries(0, 0) = 1;
  const auto product = saccade::top_k(queries.view(), rows.view(), 2, {.threads = 1});
  ASSERT_TRUE(product) << product.error().message;
  EXPECT_EQ(product->rows(0, 0), 0);
  EXPECT_EQ(product->rows(0, 1), 2);
  EXPECT_FLOAT_EQ(product->scores(0, 0), 3);
  const auto cosine = saccade::top_k(queries.view(), rows.view(), 6, {.metric = saccade::Metric::kCosine});
  ASSERT_TRUE(cosine) << cosine.error().message;
  EXPECT_FLOAT_EQ(cosine->scores(0, 0), 1);
  EXPECT_NEAR(cosine->scores(0, 1), std::sqrt(0.5), 1e-6);
  EXPECT_EQ(cosine->rows(0, 4), -1);
  const std::vector<uint8_t> allowed = {0, 1, 1, 1};
  const auto filtered = saccade::top_k(queries.view(), rows.view(), 1, {.allowed = allowed});
  EXPECT_EQ(filtered->rows(0, 0), 2);
  EXPECT_EQ(saccade::top_k(queries.view(), rows.view(), 0).error().code, saccade::ErrorCode::kUsage);
  const int64_t too_many = std::numeric_limits<int64_t>::max() / 2 + 1;  // times 4 is 0 in 64 bits
  EXPECT_EQ(
      saccade::top_k(saccade::Matrix<float>(4, rows.columns()).view(), rows.view(), too_many).error().code,
      saccade::ErrorCode::kUsage);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(saccade::top_k(queries.view(), rows.view(), 1, {.stop = stop.get_token()}).error().code,
            saccade::ErrorCode::kCancelled);
  EXPECT_EQ(saccade::top_k(saccade::Matrix<float>(1, 3).view(), rows.view(), 1).error().code,
            saccade::ErrorCode::kMismatch);
}

// Rows of length 1 in random directions.
saccade::Matrix<float> random_rows(int64_t count, int64_t dim, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  saccade::Matrix<float> rows(count, dim);
  for (int64_t r = 0; r < count; ++r) {
    for (float& value : rows.row(r)) value = normal(random);
    const float length = std::sqrt(saccade::dot(rows.row(r), rows.row(r)));
    for (float& value : rows.row(r)) value /= length;
  }
  return rows;
}

// Queries near one row each, and as many in directions of their own: half of all have an answer.
TEST(Calibration, LearnsProbabilitiesFromQueriesWithKnownRows) {
  constexpr int64_t kRows = 600;
  constexpr int64_t kDim = 32;
  constexpr int64_t kQueries = 200;
  const saccade::Matrix<float> rows = random_rows(kRows, kDim, 1);
  saccade::Matrix<float> asked = random_rows(2 * kQueries, kDim, 2);
  saccade::KnownQueries known;
  for (int64_t q = 0; q < kQueries; ++q) {
    for (int64_t i = 0; i < kDim; ++i) asked(q, i) = rows(q, i) + 0.6F * asked(q, i);
    const float length = std::sqrt(saccade::dot(asked.row(q), asked.row(q)));
    for (float& value : asked.row(q)) value /= length;
    known.right.push_back({q});
    known.texts.emplace_back("some words");
  }
  // The first three quarters are learned from, the rest and the queries without an answer are held out.
  constexpr int64_t kLearned = 150;
  known.embeddings = asked.view().slice(0, kLearned);
  known.right.resize(kLearned);
  known.texts.resize(kLearned);
  const auto calibration = saccade::Calibration::learn(rows.view(), known, {.logit_scale = 20, .threads = 1});
  ASSERT_TRUE(calibration) << calibration.error().message;
  ASSERT_TRUE(calibration->gives_probabilities()) << calibration->reason();
  EXPECT_EQ(calibration->reason(), "");
  EXPECT_EQ(calibration->known_queries(), kLearned);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(saccade::Calibration::learn(rows.view(), known, {.stop = stop.get_token()}).error().code,
            saccade::ErrorCode::kCancelled);
  EXPECT_EQ(calibration->top_k(asked.row(0), rows.view(), 1, {.stop = stop.get_token()}).error().code,
            saccade::ErrorCode::kCancelled);
  double right = 0;
  double wrong = 0;
  for (int64_t q = kLearned; q < kQueries; ++q) {
    const auto found = calibration->top_k(asked.row(q), rows.view(), 3, {.text = "some words", .threads = 1});
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->hits.size(), 3U);
    const auto best = saccade::top_k(asked.view().slice(q, 1), rows.view(), 3);
    for (int i = 0; i < 3; ++i) {
      const saccade::CalibratedHit& hit = found->hits[static_cast<size_t>(i)];
      EXPECT_EQ(hit.row, best->rows(0, i));
      EXPECT_EQ(hit.score, best->scores(0, i));
      ASSERT_TRUE(hit.probability.has_value());
      ASSERT_TRUE(*hit.probability >= 0 && *hit.probability <= 1);
    }
    ASSERT_TRUE(found->answered.has_value() && found->p_value.has_value());
    right += *found->hits[0].probability / (kQueries - kLearned);
  }
  for (int64_t q = kQueries; q < 2 * kQueries; ++q) {
    const auto found = calibration->top_k(asked.row(q), rows.view(), 1, {.text = "some words", .threads = 1});
    ASSERT_TRUE(found) << found.error().message;
    wrong += *found->hits[0].probability / kQueries;
  }
  EXPECT_GT(right, 0.8);
  EXPECT_LT(wrong, 0.2);
  // Rows that are left out are no hits.
  std::vector<uint8_t> allowed(kRows, 1);
  allowed[kLearned] = 0;
  const auto found = calibration->top_k(asked.row(kLearned), rows.view(), 1,
                                        {.text = "some words", .allowed = allowed, .threads = 1});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_NE(found->hits[0].row, kLearned);
  EXPECT_LT(*found->hits[0].probability, 0.5);
}

TEST(Calibration, TellsWhyItGivesNoProbabilities) {
  const saccade::Matrix<float> rows = random_rows(100, 16, 3);
  const saccade::Matrix<float> queries = random_rows(80, 16, 4);
  saccade::KnownQueries known{.embeddings = queries.view()};
  // Right rows that have nothing to do with the scores.
  for (int64_t q = 0; q < 80; ++q) {
    known.right.push_back({q});
    known.texts.emplace_back("words");
  }
  const auto random = saccade::Calibration::learn(rows.view(), known, {.threads = 1});
  ASSERT_TRUE(random) << random.error().message;
  EXPECT_FALSE(random->gives_probabilities());
  EXPECT_NE(random->reason(), "");
  const auto found = random->top_k(queries.row(0), rows.view(), 5, {.text = "words"});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->hits.size(), 5U);
  EXPECT_FALSE(found->hits[0].probability.has_value());
  const auto few = saccade::Calibration::learn(
      rows.view().slice(0, 40),
      {.embeddings = queries.view().slice(0, 1), .right = {{0}}, .texts = {"words"}});
  ASSERT_TRUE(few) << few.error().message;
  EXPECT_THAT(few->reason(), HasSubstr("too few"));
  EXPECT_FALSE(few->top_k(queries.row(0), rows.view(), 1)->p_value.has_value());
  // Lists and widths that do not fit are refused.
  known.right.pop_back();
  EXPECT_EQ(saccade::Calibration::learn(rows.view(), known).error().code, saccade::ErrorCode::kMismatch);
  known.right.push_back({100});
  EXPECT_EQ(saccade::Calibration::learn(rows.view(), known).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(saccade::Calibration::learn(rows.view(), {}).error().code, saccade::ErrorCode::kMismatch);
  EXPECT_EQ(random->top_k(queries.row(0), rows.view(), 0).error().code, saccade::ErrorCode::kUsage);
  const std::vector<float> narrow = {1, 0};
  EXPECT_EQ(random->top_k(narrow, rows.view(), 1).error().code, saccade::ErrorCode::kMismatch);
}

TEST(Calibration, LearnsFromCaptions) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  const std::string colors[] = {"red",   "green",  "blue",   "yellow", "black",
                                "white", "orange", "violet", "grey",   "brown"};
  const std::string things[] = {"apple", "house", "car",   "fish", "tree", "star",
                                "clock", "key",   "heart", "bell", "book", "lamp"};
  std::vector<std::string> captions;
  for (const std::string& color : colors) {
    for (const std::string& thing : things) captions.push_back(color + " " + thing);
  }
  // Rows of the captions themselves: a model that knows images perfectly.
  const auto rows = encoder->encode_texts(captions);
  ASSERT_TRUE(rows) << rows.error().message;
  const auto calibration = saccade::Calibration::learn(*encoder, rows->view(), captions, {.threads = 1});
  ASSERT_TRUE(calibration) << calibration.error().message;
  EXPECT_TRUE(calibration->gives_probabilities()) << calibration->reason();
  EXPECT_GE(calibration->known_queries(), 60);
  const auto query = encoder->encode_texts({"green fish"});
  const auto found = calibration->top_k(query->row(0), rows->view(), 1, {.text = "green fish"});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(captions[static_cast<size_t>(found->hits[0].row)], "green fish");
  EXPECT_GT(found->hits[0].probability.value_or(0), 0.5);
  captions.pop_back();
  EXPECT_EQ(saccade::Calibration::learn(*encoder, rows->view(), captions).error().code,
            saccade::ErrorCode::kMismatch);
  std::stop_source stop;
  stop.request_stop();
  captions.emplace_back("another");
  EXPECT_EQ(
      saccade::Calibration::learn(*encoder, rows->view(), captions, {.stop = stop.get_token()}).error().code,
      saccade::ErrorCode::kCancelled);
}

TEST(MaxSim, SumsTheLargestDots) {
  saccade::Matrix<float> query(2, 2);
  query(0, 0) = 1;
  query(1, 1) = 1;
  saccade::Matrix<float> item(3, 2);
  const float values[] = {0.5F, 0.1F, 0.2F, 0.7F, -1, -1};
  std::ranges::copy(values, item.values().begin());
  EXPECT_FLOAT_EQ(saccade::max_sim(query.view(), item.view()).value(), 1.2F);
}

}  // namespace
