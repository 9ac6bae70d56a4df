// The page of `saccade search --html`, as a browser shows it.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/image/image_codec.h"

#include "chromium.h"
#include "run_program.h"

namespace saccade::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class SearchPage : public ProgramTest {};

// A disc of one grey in the middle of a transparent square.
std::string disc(int side, uint8_t grey) {
  Image image;
  image.width = side;
  image.height = side;
  image.channels = 4;
  image.mode = PixelMode::kRgba;
  image.pixels.assign(static_cast<size_t>(side) * static_cast<size_t>(side) * 4, 0);
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const int dx = 2 * x - side;
      const int dy = 2 * y - side;
      if (dx * dx + dy * dy > side * side * 3 / 4) continue;
      uint8_t* pixel =
          &image.pixels[(static_cast<size_t>(y) * static_cast<size_t>(side) + static_cast<size_t>(x)) * 4];
      for (int c = 0; c < 3; ++c) pixel[c] = grey;
      pixel[3] = 255;
    }
  }
  return encode_png(image).value();
}

// Share of a picture's pixels whose grey lies in [low, high].
double share_of(const std::string& png, int low, int high) {
  const auto decoded = decode_image(std::as_bytes(std::span(png)), {});
  if (!decoded) {
    ADD_FAILURE() << decoded.error().message;
    return 0;
  }
  const Image& image = decoded->image;
  const auto channels = static_cast<size_t>(image.channels);
  int64_t found = 0;
  for (size_t i = 0; i < image.pixels.size(); i += channels) {
    const int grey = (image.pixels[i] + image.pixels[i + 1] + image.pixels[i + 2]) / 3;
    found += grey >= low && grey <= high ? 1 : 0;
  }
  return static_cast<double>(found) / (static_cast<double>(image.width) * image.height);
}

// The picture searched by was once padded by a share of the page's width: nothing of it was seen.
TEST_F(SearchPage, ATransparentQueryPictureIsSeen) {
  make_collection();
  write("dark.png", disc(64, 0));
  write("bright.png", disc(64, 255));
  auto browser = Chromium::start(folder_ / "browser");
  ASSERT_TRUE(browser) << browser.error().message;
  for (const std::string name : {"dark", "bright"}) {
    const Outcome found =
        run({"-q", "search", "--image", name + ".png", "-c", "c", "--html", name + ".html"});
    ASSERT_EQ(found.code, 0) << found.err;
    for (const int width : {1400, 800, 390}) {
      ASSERT_TRUE(browser->show(width, 900, "light"));
      const Status opened = browser->open(folder_ / (name + ".html"));
      ASSERT_TRUE(opened) << opened.error().message;
      const auto shown = browser->picture_of(".query .thumb");
      ASSERT_TRUE(shown) << shown.error().message;
      // Three quarters of pi/4 of the picture, which has a margin of 8% on each side: 0.41 of the frame.
      const double disc_share = name == "dark" ? share_of(*shown, 0, 20) : share_of(*shown, 235, 255);
      EXPECT_GT(disc_share, 0.3) << name << " at " << width;
      EXPECT_LT(disc_share, 0.5) << name << " at " << width;
    }
  }
  EXPECT_THAT(browser->complaints(), IsEmpty());
}

TEST_F(SearchPage, AListingHasNoScores) {
  make_collection();
  const Outcome listed =
      run({"-q", "search", "-c", "c", "--filter", "width>0", "--html", "page.html", "--format", "{name}"});
  ASSERT_EQ(listed.code, 0) << listed.err;
  EXPECT_EQ(std::count(listed.out.begin(), listed.out.end(), '\n'), 4);
  const auto page = read_file(folder_ / "page.html");
  ASSERT_TRUE(page);
  EXPECT_THAT(*page, HasSubstr("Newest first"));
  EXPECT_THAT(*page, testing::Not(HasSubstr(">nan")));
}

}  // namespace
}  // namespace saccade::test
