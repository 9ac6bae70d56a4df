// Tests with PDFs from other programs (tests/golden/pdf), and with damaged ones.
#include "saccade/document/pdf.h"

#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/document/prose.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Pdf : public testing::Test {
 protected:
  static fs::path golden(const std::string& name) {
    return fs::path(test::kSourceDir) / "tests/golden/pdf" / name;
  }

  static Result<PdfDocument> read(const fs::path& file, const PdfOptions& options = {},
                                  bool with_pictures = true) {
    SACCADE_ASSIGN(const PdfPrograms programs, PdfPrograms::find());
    return read_pdf(programs, file, options, with_pictures);
  }
  static void expect_failure(const Result<PdfDocument>& document, ErrorCode code, const std::string& part) {
    ASSERT_FALSE(document);
    EXPECT_EQ(document.error().code, code) << document.error().message;
    EXPECT_THAT(document.error().message, HasSubstr(part));
  }
  static std::vector<std::string> sentences_of(const PdfDocument& document) {
    std::vector<std::string> sentences;
    int64_t left_out = 0;
    for (const PdfPage& page : document.pages) {
      for (const std::string& paragraph : page.paragraphs) {
        const auto some = prose_sentences(paragraph, {}, left_out);
        EXPECT_TRUE(some);
        sentences.insert(sentences.end(), some->begin(), some->end());
      }
    }
    return sentences;
  }
  test::TestFolder folder_;
};

// groff sets two columns with hyphenation, a header on all pages but the first, and page numbers.
TEST_F(Pdf, ColumnsInOrderWithoutHeadersAndHyphens) {
  const auto document = read(golden("columns.pdf"));
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(document->pages.size(), 4U);
  EXPECT_TRUE(document->pictures.empty());
  const std::vector<std::string> sentences = sentences_of(*document);
  EXPECT_THAT(
      sentences,
      testing::IsSupersetOf(std::vector<std::string>{
          "The lighthouse stands on the easternmost rock of the archipelago and its white tower carries two horizontal "
          "red stripes.",
          "Fishermen mend their nets on the breakwater in the afternoon.",
          "Dr. Almqvist photographed the installation in remarkable detail.",
          "Children played on the shingle beach with a yellow bucket and a small brown dog.",
          "Responsibility for its recalibration remains with the meteorological department; the well-known procedure is "
          "documented comprehensively in the supplementary handbook.",
          "A transparent jellyfish floats in a glass cylinder on the windowsill."}));
  EXPECT_THAT(sentences, Not(Contains(HasSubstr("Field notes"))));
  EXPECT_THAT(sentences, Not(Contains(HasSubstr("Harbour survey"))));
  // Two lines of the header on three pages, and four page numbers.
  EXPECT_EQ(document->edge_lines, 10);
  // Down one column and then the other.
  const auto at = [&](const char* part) {
    return std::ranges::find_if(sentences,
                                [&](const std::string& s) { return s.find(part) != std::string::npos; }) -
           sentences.begin();
  };
  EXPECT_LT(at("lighthouse stands"), at("Fishermen"));
  EXPECT_LT(at("Fishermen"), at("Dr. Almqvist"));
  EXPECT_LT(at("Dr. Almqvist"), at("undersigned"));
}

// A PDF printed by Chromium, with opaque and transparent images, a logo on every page, and a bullet.
TEST_F(Pdf, PicturesOfEachPage) {
  const auto document = read(golden("pages.pdf"));
  ASSERT_TRUE(document) << document.error().message;
  ASSERT_EQ(document->pages.size(), 3U);
  EXPECT_THAT(document->pages[0].pictures, ElementsAre(0U));
  EXPECT_THAT(document->pages[1].pictures, ElementsAre(1U, 2U));
  EXPECT_TRUE(document->pages[2].pictures.empty());
  ASSERT_EQ(document->pictures.size(), 3U);
  EXPECT_EQ(document->small_pictures, 1);
  EXPECT_EQ(document->repeated_pictures, 1);
  EXPECT_EQ(document->unread_pictures, 0);
  EXPECT_THAT(document->pages[0].paragraphs,
              Contains(HasSubstr("A red disc lies in the middle of the page. The following terms apply")));
  EXPECT_THAT(document->pages[0].paragraphs, Not(Contains(HasSubstr("Annual review"))));

  const auto disc = decode_image(std::as_bytes(std::span(document->pictures[0].bytes)));
  ASSERT_TRUE(disc) << disc.error().message;
  ASSERT_EQ(disc->image.width, 160);
  ASSERT_EQ(disc->image.channels, 3);
  const auto pixel = [&](size_t x, size_t y) {
    const uint8_t* first = disc->image.pixels.data() + 3 * (160 * y + x);
    return std::vector<int>{first[0], first[1], first[2]};
  };
  EXPECT_THAT(pixel(0, 0), ElementsAre(255, 255, 255));  // transparent black in the file: white on the page
  EXPECT_THAT(pixel(80, 80), ElementsAre(220, 20, 20));
  EXPECT_EQ(document->pictures[1].width, 200);
  EXPECT_EQ(document->pictures[2].height, 128);
}

TEST_F(Pdf, LimitsOfPagesSidesAndPixels) {
  const auto first = read(golden("pages.pdf"), {.max_pages = 1});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->pages.size(), 1U);
  EXPECT_EQ(first->pages_left_out, 2);
  const auto large = read(golden("pages.pdf"), {.min_side = 150});
  ASSERT_TRUE(large);
  EXPECT_EQ(large->pictures.size(), 2U);
  const auto few_pixels = read(golden("pages.pdf"), {.max_page_pixels = 1000});
  ASSERT_TRUE(few_pixels);
  EXPECT_TRUE(few_pixels->pictures.empty());
  EXPECT_GE(few_pixels->unread_pictures, 3);
  const auto text = read(golden("pages.pdf"), {}, false);
  ASSERT_TRUE(text);
  EXPECT_TRUE(text->pictures.empty());
  EXPECT_EQ(text->pages.size(), 3U);
}

TEST_F(Pdf, WhatCannotBeReadSaysWhy) {
  expect_failure(read(golden("encrypted.pdf")), ErrorCode::kUnsupported, "password");
  expect_failure(read(golden("scanned.pdf")), ErrorCode::kUnsupported, "no text on 2 pages: scanned");
  expect_failure(read(folder_ / "nothing.pdf"), ErrorCode::kNotFound, "");
  expect_failure(read(folder_.write("words.pdf", "These are words.")), ErrorCode::kBadData, "broken");
  expect_failure(read(folder_.write("empty.pdf", "")), ErrorCode::kBadData, "broken");
  expect_failure(read(golden("columns.pdf"), {.max_bytes = 100}), ErrorCode::kLimit, "MiB");
  expect_failure(read(golden("columns.pdf"), {.max_seconds = 0}), ErrorCode::kLimit, "within 0 seconds");
  // Encrypted, but it opens without a password.
  const auto locked = read(golden("locked.pdf"));
  ASSERT_TRUE(locked) << locked.error().message;
  EXPECT_EQ(locked->pages.size(), 4U);
}

TEST_F(Pdf, CutFilesAreErrorsOrShorter) {
  const std::string whole = read_file(golden("pages.pdf")).value();
  for (const size_t part : {1, 3, 5, 8, 9}) {
    const auto document = read(folder_.write("cut.pdf", whole.substr(0, whole.size() * part / 10)));
    if (!document) {
      EXPECT_THAT(document.error().code, testing::AnyOf(ErrorCode::kBadData, ErrorCode::kUnsupported));
    } else {
      EXPECT_LE(document->pages.size(), 3U);
    }
  }
}

TEST_F(Pdf, NamesThePackageOfWhatIsMissing) {
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", folder_.path().c_str(), 1);
  const auto programs = PdfPrograms::find();
  ::setenv("PATH", before.c_str(), 1);
  ASSERT_FALSE(programs);
  EXPECT_EQ(programs.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(programs.error().message, HasSubstr("poppler-utils"));
}

}  // namespace
}  // namespace saccade
