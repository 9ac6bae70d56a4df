// Tests of a corpus from PDFs that other programs have written: labels, thresholds, and resuming.
#include "lab/eval/corpus/pdf_corpus.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/model/test_encoder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class PdfCorpus : public testing::Test {
 protected:
  void SetUp() override {
    auto encoder = std::make_unique<ColourEncoder>();
    encoder->mutable_info().context = 400;
    encoder_ = encoder.get();
    loaded_.encoder = std::move(encoder);
    loaded_.id.name = "colour";
    loaded_.id.fingerprint = "colour";
    options_.inputs = {golden("pages.pdf"), golden("encrypted.pdf"), golden("columns.pdf")};
    options_.output = folder_ / "corpus";
    options_.positive_percent = 25;
    options_.negative_percent = 50;
  }
  static fs::path golden(const std::string& name) {
    return fs::path(test::kSourceDir) / "tests/golden/pdf" / name;
  }
  Result<PdfCorpusReport> build(int threads = 2) {
    ThreadPool pool(threads);
    return build_pdf_corpus(loaded_, options_, pool);
  }
  [[nodiscard]] std::vector<Json> manifest() const {
    std::vector<Json> lines;
    std::string text = read_file(options_.output / "manifest.jsonl").value();
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      lines.push_back(parse_json(text.substr(at, end - at)).value());
      at = end + 1;
    }
    return lines;
  }

  test::TestFolder folder_;
  LoadedEncoder loaded_;
  ColourEncoder* encoder_ = nullptr;
  PdfCorpusOptions options_;
};

TEST_F(PdfCorpus, LabelsSentencesByTheirBestPicture) {
  const auto report = build();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->documents, 2);
  ASSERT_EQ(report->failed.size(), 1U);
  EXPECT_EQ(report->failed[0].first, golden("encrypted.pdf"));
  EXPECT_EQ(report->pages, 7);
  EXPECT_EQ(report->pages_with_pictures, 2);  // the third page of pages.pdf has none
  EXPECT_EQ(report->pictures, 3);
  EXPECT_EQ(report->sentences, 5);
  EXPECT_EQ(report->visual, 1);
  EXPECT_EQ(report->non_visual, 2);
  EXPECT_GT(report->positive, report->negative);
  const std::vector<Json> lines = manifest();
  ASSERT_EQ(lines.size(), 3U);
  for (const Json& line : lines) {
    const bool visual = line["visual"].get<bool>();
    EXPECT_EQ(line.contains("image"), visual);
    EXPECT_THAT(line["source"].get<std::string>(), StartsWith("pages.pdf, page "));
    if (visual) {
      EXPECT_TRUE(fs::exists(options_.output / line["image"].get<std::string>()));
      EXPECT_GT(line["similarity"].get<double>(), report->positive);
    } else {
      EXPECT_LT(line["similarity"].get<double>(), report->negative);
    }
  }
  const std::string failures = read_file(options_.output / "failures.jsonl").value();
  EXPECT_EQ(std::ranges::count(failures, '\n'), 1);
  EXPECT_THAT(failures, HasSubstr("password"));
}

// The oracle computes every similarity from the encoder's own embeddings.
TEST_F(PdfCorpus, SimilaritiesAreThoseOfTheRows) {
  options_.positive = -1;  // all are visual
  options_.negative = -1;
  ASSERT_TRUE(build());
  const std::vector<Json> lines = manifest();
  ASSERT_EQ(lines.size(), 5U);
  ThreadPool pool(1);
  for (const Json& line : lines) {
    const std::string text = line["text"];
    const std::vector<TokenizedText> texts = {encoder_->tokenizer()->encode(text, 400)};
    const Matrix<float> row = encoder_->encode_texts(texts).value();
    double best = -2;
    std::string best_name;
    const std::string page = line["source"].get<std::string>().substr(std::string("pages.pdf, ").size());
    for (const auto& entry : fs::directory_iterator(options_.output / "pictures")) {
      const auto decoded = decode_image_file(entry.path()).value();
      // Page 1 shows the disc alone, 160 pixels wide; page 2 the others.
      if ((decoded.image.width == 160) != (page == "page 1")) continue;
      const std::vector<ImageRef> references = {{.path = entry.path(), .member = "", .offset = 0, .size = 0}};
      const auto picture = embed_pictures(*encoder_, references, {}, pool).value();
      double dot = 0;
      for (int64_t c = 0; c < 4; ++c)
        dot += double{row.row(0)[static_cast<size_t>(c)]} *
               picture.rows.sets.rows.row(0)[static_cast<size_t>(c)];
      if (dot > best) best_name = "pictures/" + entry.path().filename().string();
      best = std::max(best, dot);
    }
    EXPECT_NEAR(line["similarity"].get<double>(), best, 1e-5) << text;
    EXPECT_EQ(line["image"], best_name) << text;
  }
}

TEST_F(PdfCorpus, GoesOnAndIsTheSameForAnyNumberOfThreads) {
  ASSERT_TRUE(build(1));
  const std::string first = read_file(options_.output / "manifest.jsonl").value();
  const int64_t encoded = encoder_->texts;
  const auto again = build(3);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->resumed, 2);
  EXPECT_EQ(encoder_->texts, encoded);  // nothing is encoded again
  EXPECT_EQ(read_file(options_.output / "manifest.jsonl").value(), first);
  options_.output = folder_ / "other";
  ASSERT_TRUE(build(3));
  EXPECT_EQ(read_file(options_.output / "manifest.jsonl").value(), first);
  // The same bytes under another name are one document.
  options_.inputs.push_back(folder_.write("copy.pdf", read_file(golden("pages.pdf")).value()));
  const auto copy = build();
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->same_bytes, 1);
  EXPECT_EQ(read_file(options_.output / "manifest.jsonl").value(), first);
}

TEST_F(PdfCorpus, WhatItRefuses) {
  const auto expect_failure = [&](ErrorCode code, const std::string& part) {
    const auto report = build();
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, code);
    EXPECT_THAT(report.error().message, HasSubstr(part));
  };
  ASSERT_TRUE(build());
  const ProseOptions prose = options_.prose;
  options_.prose.min_words = prose.max_words + 1;
  expect_failure(ErrorCode::kUsage, "min_words is 61, expected 60 (max_words) or less");
  options_.prose = prose;
  options_.pdf.min_side = 120;
  expect_failure(ErrorCode::kUsage, "was made with min_side 100, not 120");
  options_.output = folder_ / "other";
  options_.inputs = {folder_.write("other.txt", "")};
  fs::create_directories(options_.output);
  fs::copy(folder_ / "other.txt", options_.output / "theirs.txt");
  expect_failure(ErrorCode::kUsage, "has other files");
  EXPECT_TRUE(fs::exists(options_.output / "theirs.txt"));
  options_.output = folder_ / "third";
  options_.inputs = {golden("scanned.pdf"), golden("encrypted.pdf")};
  expect_failure(ErrorCode::kBadData, "none of 2 documents could be read");
  options_.inputs = {golden("columns.pdf")};
  expect_failure(ErrorCode::kBadData, "no page of 1 documents has both sentences and images");
  options_.inputs = {folder_ / "nothing.pdf"};
  expect_failure(ErrorCode::kNotFound, "nothing.pdf");
  encoder_->mutable_info().shared_space = false;
  expect_failure(ErrorCode::kUnsupported, "does not compare texts with images");
}

TEST(CorpusThresholds, ArePercentagesOrValues) {
  std::vector<float> scores;
  for (int i = 0; i < 1000; ++i) scores.push_back(static_cast<float>(999 - i) / 1000);
  PdfCorpusOptions options;
  auto thresholds = corpus_thresholds(scores, options);
  ASSERT_TRUE(thresholds);
  const auto above = [&](double t) { return std::ranges::count_if(scores, [&](float s) { return s > t; }); };
  const auto below = [&](double t) { return std::ranges::count_if(scores, [&](float s) { return s < t; }); };
  EXPECT_EQ(above(thresholds->positive), 10);
  EXPECT_EQ(below(thresholds->negative), 50);
  options.positive_percent = 60;
  options.negative_percent = 50;
  EXPECT_FALSE(corpus_thresholds(scores, options));
  options.negative_percent = 40;
  EXPECT_TRUE(corpus_thresholds(scores, options));
  options = {};
  options.positive = 0.35;
  options.negative = 0.18;
  thresholds = corpus_thresholds(scores, options);
  ASSERT_TRUE(thresholds);
  EXPECT_DOUBLE_EQ(thresholds->positive, 0.35);
  EXPECT_DOUBLE_EQ(thresholds->negative, 0.18);
  options.negative = 0.5;
  EXPECT_FALSE(corpus_thresholds(scores, options));
  // Three sentences also have a top 1% and a bottom 5%: one each.
  thresholds = corpus_thresholds({0.1F, 0.2F, 0.3F}, {});
  ASSERT_TRUE(thresholds);
  EXPECT_FLOAT_EQ(static_cast<float>(thresholds->positive), 0.2F);
  EXPECT_FLOAT_EQ(static_cast<float>(thresholds->negative), 0.2F);
}

}  // namespace
}  // namespace saccade::lab
