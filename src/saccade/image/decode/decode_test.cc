#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vips/vips.h>

#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/core/thread_seconds.h"
#include "saccade/image/decode/hostile_pictures.h"
#include "saccade/image/decode/jpeg_scans.h"
#include "saccade/image/decode/process/decoder_pool.h"
#include "saccade/image/decode/svg_size.h"
#include "saccade/image/icc_profile.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/image_view.h"
#include "saccade/image/preprocess.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kTests = std::filesystem::path(test::kSourceDir) / "tests";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// HEIC and AVIF, which are decoded in a process of their own.
bool is_heif(std::string_view text) {
  return text.size() >= 8 && text.substr(4, 4) == "ftyp";
}

// Made where a test first needs them, and ended with it: other tests count the processes that there are.
class Processes : public testing::EmptyTestEventListener {
 public:
  static DecoderPool* get() {
    if (!pool_) {
      static const bool listening = [] {
        testing::UnitTest::GetInstance()->listeners().Append(new Processes);
        return true;
      }();
      (void)listening;
      auto pool = DecoderPool::start({SACCADE_DECODER});
      EXPECT_TRUE(pool) << pool.error().message;
      if (pool) pool_ = *std::move(pool);
    }
    return pool_.get();
  }
  void OnTestEnd(const testing::TestInfo&) override { pool_.reset(); }

 private:
  static inline std::unique_ptr<DecoderPool> pool_;
};

Result<DecodedImage> decode(std::string_view text, DecodeOptions options = {}) {
  if (is_heif(text)) options.processes = Processes::get();
  return decode_image(bytes_of(text), options);
}

// Smooth, so that lossy formats keep it to a few levels; all four corners differ.
Image gradient(int width, int height, int channels) {
  Image image{width, height, channels, PixelMode::kRgb, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int across = 255 * x / std::max(1, width - 1);
      const int down = 255 * y / std::max(1, height - 1);
      const int values[] = {across, down, (across + down) / 2, 255 - across / 2};
      for (int c = 0; c < channels; ++c) {
        image.pixels.push_back(static_cast<uint8_t>(channels == 2 && c == 1 ? values[3] : values[c]));
      }
    }
  }
  return image;
}

// `image` in any format libvips writes: suffix as in ".webp[lossless]"; of several pages of `page_height`
// lines where that is given. Empty where it cannot.
std::string encoded(const Image& image, const char* suffix,
                    VipsInterpretation meaning = VIPS_INTERPRETATION_ERROR, int orientation = 0,
                    int page_height = 0) {
  (void)encode_png(gradient(1, 1, 1));  // starts libvips
  VipsImage* memory = vips_image_new_from_memory_copy(image.pixels.data(), image.pixels.size(), image.width,
                                                      image.height, image.channels, VIPS_FORMAT_UCHAR);
  if (meaning == VIPS_INTERPRETATION_ERROR) {
    meaning = image.channels < 3 ? VIPS_INTERPRETATION_B_W : VIPS_INTERPRETATION_sRGB;
  }
  VipsImage* named = nullptr;
  EXPECT_EQ(vips_copy(memory, &named, "interpretation", meaning, nullptr), 0);
  if (orientation > 0) vips_image_set_int(named, VIPS_META_ORIENTATION, orientation);
  if (page_height > 0) vips_image_set_int(named, VIPS_META_PAGE_HEIGHT, page_height);
  void* buffer = nullptr;
  size_t size = 0;
  std::string result;
  if (vips_image_write_to_buffer(named, suffix, &buffer, &size, nullptr) == 0) {
    result.assign(static_cast<const char*>(buffer), size);
    g_free(buffer);
  } else {
    vips_error_clear();
  }
  g_object_unref(named);
  g_object_unref(memory);
  return result;
}

// gradient(width, height, 3) in a format, as libvips writes it here, or as it did where a codec has no
// encoder here (tests/data/pictures): readers are what is tested.
std::string gradient_file(int width, int height, const char* suffix) {
  std::string file = encoded(gradient(width, height, 3), suffix);
  if (!file.empty()) return file;
  const auto stored =
      read_file(kTests / "data" / "pictures" /
                ("gradient_" + std::to_string(width) + "x" + std::to_string(height) + suffix));
  EXPECT_TRUE(stored) << "this libvips does not write " << suffix << ", and: " << stored.error().message;
  return stored.value_or("");
}

int largest_difference(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height || a.channels != b.channels ||
      a.pixels.size() != b.pixels.size()) {
    return 1000;
  }
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i)
    largest = std::max(largest, std::abs(a.pixels[i] - b.pixels[i]));
  return largest;
}

struct FormatCase {
  const char* suffix;
  const char* format;
  int channels;
  int tolerance;
  PixelMode mode;
};

TEST(Decode, EveryFormatComesBack) {
  const FormatCase cases[] = {
      {".png", "png", 1, 0, PixelMode::kGrey},
      {".png", "png", 2, 0, PixelMode::kGreyAlpha},
      {".png", "png", 3, 0, PixelMode::kRgb},
      {".png", "png", 4, 0, PixelMode::kRgba},
      {".png[interlace]", "png", 3, 0, PixelMode::kRgb},
      {".jpg[Q=95]", "jpeg", 3, 8, PixelMode::kRgb},
      {".jpg[Q=95]", "jpeg", 1, 4, PixelMode::kGrey},
      {".webp[lossless]", "webp", 3, 0, PixelMode::kRgb},
      {".webp[lossless]", "webp", 4, 0, PixelMode::kRgba},
      {".tif", "tiff", 1, 0, PixelMode::kGrey},
      {".tif[compression=lzw]", "tiff", 3, 0, PixelMode::kRgb},
      {".tif[tile,compression=deflate]", "tiff", 4, 0, PixelMode::kRgba},
      {".gif", "gif", 3, 40, PixelMode::kPalette},
      {".heic", "heif", 3, 12, PixelMode::kRgb},
      {".avif", "avif", 3, 12, PixelMode::kRgb},
  };
  for (const FormatCase& c : cases) {
    SCOPED_TRACE(std::string(c.suffix) + " of " + std::to_string(c.channels));
    const Image image = gradient(67, 130, c.channels);
    const std::string file = c.channels == 3 ? gradient_file(67, 130, c.suffix) : encoded(image, c.suffix);
    ASSERT_FALSE(file.empty()) << "this libvips does not write it";
    const auto back = decode(file);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->format, c.format);
    EXPECT_EQ(back->original_width, 67);
    EXPECT_EQ(back->original_height, 130);
    EXPECT_EQ(back->image.mode, c.mode);
    EXPECT_LE(largest_difference(back->image, image), c.tolerance);
  }
}

// RGBA without a transparent pixel as RGB.
Image without_opaque_alpha(const Image& image) {
  if (image.channels != 4) return image;
  Image result{image.width, image.height, 3, image.mode, {}};
  for (size_t i = 0; i < image.pixels.size(); i += 4) {
    if (image.pixels[i + 3] != 255) return image;
    result.pixels.insert(result.pixels.end(), image.pixels.begin() + static_cast<std::ptrdiff_t>(i),
                         image.pixels.begin() + static_cast<std::ptrdiff_t>(i) + 3);
  }
  return result;
}

// Animations and documents: the first picture stands for the file, and its size alone is what counts.
TEST(Decode, OfSeveralPicturesTheFirst) {
  Image pages = gradient(30, 20, 3);
  for (const uint8_t value : {uint8_t{10}, uint8_t{200}}) {
    pages.pixels.insert(pages.pixels.end(), size_t{30} * 20 * 3, value);
    pages.height += 20;
  }
  for (const FormatCase& c : {FormatCase{".gif", "gif", 3, 40, PixelMode::kPalette},
                              FormatCase{".webp[lossless]", "webp", 3, 0, PixelMode::kRgb},
                              FormatCase{".tif", "tiff", 3, 0, PixelMode::kRgb}}) {
    SCOPED_TRACE(c.suffix);
    const std::string file = encoded(pages, c.suffix, VIPS_INTERPRETATION_ERROR, 0, 20);
    ASSERT_FALSE(file.empty()) << "this libvips does not write it";
    // The file does hold three.
    VipsImage* header = vips_image_new_from_buffer(file.data(), file.size(), "", nullptr);
    ASSERT_NE(header, nullptr);
    EXPECT_EQ(vips_image_get_n_pages(header), 3);
    g_object_unref(header);
    DecodeOptions options;
    options.max_pixels = 30 * 20;
    const auto back = decode(file, options);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->format, c.format);
    EXPECT_EQ(back->image.mode, c.mode);
    EXPECT_EQ(back->original_height, 20);
    // An animation's frames may have holes that show the one before: libvips gives it an alpha channel.
    EXPECT_LE(largest_difference(without_opaque_alpha(back->image), gradient(30, 20, 3)), c.tolerance);
  }
}

TEST(Decode, GoldenModes) {
  const auto folder = kTests / "golden" / "preprocess";
  const auto mode = [&](const char* name) {
    const auto image = decode_image_file(folder / name);
    EXPECT_TRUE(image) << image.error().message;
    return image ? image->image.mode : PixelMode::kRgb;
  };
  EXPECT_EQ(mode("palette.png"), PixelMode::kPalette);
  EXPECT_EQ(mode("bilevel.png"), PixelMode::kBilevel);
  EXPECT_EQ(mode("grey.png"), PixelMode::kGrey);
  EXPECT_EQ(mode("alpha.png"), PixelMode::kRgba);
}

TEST(Decode, SixteenBitsBecomeTheUpperEight) {
  std::vector<uint16_t> samples = {0x0000, 0x00ff, 0x0100, 0x7fff, 0x8000, 0xffff};
  (void)encode_png(gradient(1, 1, 1));
  for (const char* suffix : {".png", ".tif"}) {
    VipsImage* memory =
        vips_image_new_from_memory_copy(samples.data(), samples.size() * 2, 2, 1, 3, VIPS_FORMAT_USHORT);
    VipsImage* named = nullptr;
    ASSERT_EQ(vips_copy(memory, &named, "interpretation", VIPS_INTERPRETATION_RGB16, nullptr), 0);
    void* buffer = nullptr;
    size_t size = 0;
    ASSERT_EQ(vips_image_write_to_buffer(named, suffix, &buffer, &size, nullptr), 0);
    const auto back = decode(std::string_view(static_cast<const char*>(buffer), size));
    g_free(buffer);
    g_object_unref(named);
    g_object_unref(memory);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->image.pixels, (std::vector<uint8_t>{0, 0, 1, 0x7f, 0x80, 0xff}));
  }
}

TEST(Decode, CmykIsConvertedAsPillowDoes) {
  // One even colour, so that JPEG keeps it: c 51, m 102, y 0, k 51 of 255.
  Image image{16, 16, 4, PixelMode::kRgba, {}};
  for (int i = 0; i < 256; ++i) image.pixels.insert(image.pixels.end(), {51, 102, 0, 51});
  for (const char* suffix : {".jpg[Q=100]", ".tif"}) {
    const std::string file = encoded(image, suffix, VIPS_INTERPRETATION_CMYK);
    ASSERT_FALSE(file.empty());
    const auto back = decode(file);
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(back->image.channels, 3);
    EXPECT_NEAR(back->image.pixels[0], 163, 1);  // 204 - 51 * 204 / 255
    EXPECT_NEAR(back->image.pixels[1], 122, 1);
    EXPECT_NEAR(back->image.pixels[2], 204, 1);
  }
}

// Written, and converted, by Pillow and littlecms (tests/data/color_profiles/make.py).
TEST(Decode, ProfilesAreConvertedWhereAskedFor) {
  const std::filesystem::path folder = std::filesystem::path(test::kSourceDir) / "tests/data/color_profiles";
  const auto decode = [&](const std::string& name, bool convert) {
    DecodeOptions options;
    options.convert_to_srgb = convert;
    auto decoded = decode_image_file(folder / name, options);
    EXPECT_TRUE(decoded) << decoded.error().message;
    return decoded ? std::move(decoded->image) : Image{};
  };
  for (const auto& [name, converted] : {std::pair{"display_p3.png", "display_p3_in_srgb.png"},
                                        std::pair{"adobe_rgb.png", "adobe_rgb_in_srgb.png"},
                                        std::pair{"display_p3.jpg", "display_p3_jpg_in_srgb.png"}}) {
    const Image expected = decode(converted, false);
    EXPECT_LE(largest_difference(decode(name, true), expected), 2) << name;
    EXPECT_GT(largest_difference(decode(name, false), expected), 20) << name << ": nothing to convert";
    EXPECT_EQ(decode(converted, true).pixels, expected.pixels) << "no profile, no conversion";
  }
  // Otherwise the numbers are those that Pillow hands over, and a profile of sRGB changes none.
  EXPECT_EQ(decode("display_p3.jpg", false).pixels, decode("display_p3_jpg_as_stored.png", false).pixels);
  EXPECT_EQ(decode("srgb.png", true).pixels, decode("srgb.png", false).pixels);
}

// A profile that is cut off, or of another kind of samples, changes nothing.
TEST(Decode, BrokenProfilesAreLeftOut) {
  const std::filesystem::path folder = std::filesystem::path(test::kSourceDir) / "tests/data/color_profiles";
  const std::string jpeg = read_file(folder / "display_p3.jpg").value();
  const size_t profile = jpeg.find("ICC_PROFILE") + 14;
  ASSERT_LT(profile, jpeg.size() - 200);
  const auto stored = decode_image(bytes_of(jpeg));
  ASSERT_TRUE(stored);
  DecodeOptions options;
  options.convert_to_srgb = true;
  for (const size_t at : {size_t{0}, size_t{12}, size_t{16}, size_t{36}, size_t{128}, size_t{140}}) {
    std::string broken = jpeg;
    for (size_t i = 0; i < 4; ++i) broken[profile + at + i] = '\xfe';
    const auto decoded = decode_image(bytes_of(broken), options);
    ASSERT_TRUE(decoded) << at << ": " << decoded.error().message;
    EXPECT_EQ(decoded->image.pixels.size(), stored->image.pixels.size()) << at;
  }
  // Bounds of the reader that tells sRGB's own: every truncation.
  const auto whole = bytes_of(jpeg).subspan(profile, 600);
  EXPECT_EQ(profile_description(whole), "RGB built-in");
  EXPECT_FALSE(is_srgb_profile(whole));
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(is_srgb_profile(cut));
  }
}

TEST(Decode, ExifOrientation) {
  // 2 x 3, grey levels a to f; what a person sees for each orientation, as the EXIF standard draws it.
  const Image image{2, 3, 1, PixelMode::kGrey, {'a', 'b', 'c', 'd', 'e', 'f'}};
  const std::string seen[] = {"abcdef", "badcfe", "fedcba", "efcdab", "acebdf", "ecafdb", "fdbeca", "bdface"};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string file = encoded(image, ".tif", VIPS_INTERPRETATION_ERROR, orientation);
    const auto upright = decode(file);
    ASSERT_TRUE(upright) << upright.error().message;
    EXPECT_EQ(upright->image.width, orientation < 5 ? 2 : 3);
    EXPECT_EQ(upright->original_width, upright->image.width);
    EXPECT_EQ(upright->original_height, upright->image.height);
    EXPECT_EQ(std::string(upright->image.pixels.begin(), upright->image.pixels.end()), seen[orientation - 1])
        << "orientation " << orientation;
    DecodeOptions raw;
    raw.apply_orientation = false;
    EXPECT_EQ(decode(file, raw)->image.pixels, image.pixels);
  }
  // JPEG carries it in an EXIF block.
  const auto photo = decode(encoded(gradient(64, 32, 3), ".jpg", VIPS_INTERPRETATION_ERROR, 6));
  ASSERT_TRUE(photo);
  EXPECT_EQ(photo->original_width, 32);
  EXPECT_EQ(photo->original_height, 64);
}

TEST(Decode, ShrinksOnLoadNoFurtherThanAsked) {
  DecodeOptions options;
  options.shrink_to_side = 100;
  const auto small = decode(encoded(gradient(900, 410, 3), ".jpg"), options);
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_EQ(small->image.height, 103);  // a quarter, rounded up
  EXPECT_EQ(small->original_width, 900);
  EXPECT_EQ(small->original_height, 410);
  const auto whole = decode(encoded(gradient(300, 199, 3), ".jpg"), options);
  EXPECT_EQ(whole->image.height, 199);
}

constexpr std::string_view kSvgHead =
    "<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink' ";

TEST(Decode, SvgIsRenderedToTheSideAsked) {
  DecodeOptions options;
  options.vector_side = 64;
  for (const auto& [size, width, height] :
       {std::tuple{"width='24' height='24'", 64, 64}, std::tuple{"viewBox='0 0 3 1'", 192, 64},
        std::tuple{"width='1.3' height='1.3'", 64, 64}, std::tuple{"width='500' height='2000'", 64, 256}}) {
    const auto image = decode(
        std::string(kSvgHead) + size + "><rect width='100%' height='100%' fill='#f00'/></svg>", options);
    ASSERT_TRUE(image) << size << ": " << image.error().message;
    EXPECT_EQ(image->format, "svg");
    EXPECT_EQ(image->image.width, width) << size;
    EXPECT_EQ(image->image.height, height) << size;
    ASSERT_EQ(image->image.channels, 4);
    const size_t middle = static_cast<size_t>((height / 2 * width + width / 2) * 4);
    EXPECT_EQ(image->image.pixels[middle], 255) << size;
    EXPECT_EQ(image->image.pixels[middle + 1], 0) << size;
    EXPECT_EQ(image->image.pixels[middle + 3], 255) << size;
  }
}

// 72 points are an inch, and so are the 96 pixels the square is drawn in: it reaches the far corner.
TEST(Decode, SvgInPointsIsNotCutOff) {
  DecodeOptions options;
  options.vector_side = 64;
  const auto image = decode(
      std::string(kSvgHead) + "width='72pt' height='72pt'><rect x='90' y='90' width='6' height='6'/></svg>",
      options);
  ASSERT_TRUE(image) << image.error().message;
  ASSERT_EQ(image->image.width, 64);
  EXPECT_EQ(image->original_width, 96);
  const auto alpha = [&](int x, int y) {
    return image->image.pixels[static_cast<size_t>((y * 64 + x) * 4 + 3)];
  };
  EXPECT_EQ(alpha(62, 62), 255);
  EXPECT_EQ(alpha(57, 57), 0);
}

TEST(SvgSize, RewritesPhysicalUnitsOfTheRootOnly) {
  const std::string prolog =
      "<?xml version='1.0'?><!-- <svg width='1in'> --><!DOCTYPE svg [<!ENTITY a \"<b>\">]>\n";
  EXPECT_EQ(svg_with_pixel_size(prolog +
                                "<svg id=\"x\" height = '1in'\n width=\"2.54cm\"><rect width='1in'/></svg>"),
            prolog + "<svg id=\"x\" height = '96.000000'\n width=\"96.000000\"><rect width='1in'/></svg>");
  EXPECT_EQ(svg_with_pixel_size("<svg id='a>b' width='1in' height='1in'/>"),
            "<svg id='a>b' width='96.000000' height='96.000000'/>");
  for (const char* same :
       {"<svg width='10' height='10'/>", "<svg width='10px' height='10px'/>",
        "<svg width='50%' height='1in'/>", "<svg width='1in' height='1in' viewBox='0 0 9 9'/>",
        "<svg width='1in'/>", "<svg width=1in height=1in/>", "<html><svg width='1in' height='1in'/>",
        "<svg width='-1in' height='1in'/>", "<svg width='1e999in' height='1in'/>", "", "<", "<svg", "<!--",
        "<!DOCTYPE [", "<svg =>", "<svg  = '1in' >"}) {
    EXPECT_FALSE(svg_with_pixel_size(same)) << same;
  }
  const std::string whole = prolog + "<svg width='72pt' height='6pc'><g/></svg>";
  for (size_t length = 0; length < whole.size(); ++length) (void)svg_with_pixel_size(whole.substr(0, length));
}

// Once 300 KB took four minutes: each of many declarations, and each of many attributes, read the rest again.
TEST(SvgSize, IsLinear) {
  const auto repeated = [](std::string_view text, size_t size) {
    std::string all;
    while (all.size() < size) all += text;
    return all;
  };
  const auto seconds = [](const std::string& svg) {
    const double start = thread_seconds();
    (void)svg_with_pixel_size(svg);
    return thread_seconds() - start;
  };
  constexpr size_t kSize = 2'000'000;
  for (const std::string& svg :
       {repeated("<!x>", kSize), "<svg a='1'" + repeated("=''", kSize) + ">",
        "<svg " + repeated("a=''", kSize) + ">",
        "<svg a" + repeated(" ", kSize) + "=''" + repeated(" ", kSize) + ">", repeated("<!--", kSize),
        repeated("<?a?>", kSize), "<!DOCTYPE svg [" + repeated("]", kSize)}) {
    EXPECT_LT(seconds(svg), 0.5) << svg.substr(0, 20);
  }
}

TEST(Decode, SvgReadsNoOtherFile) {
  const test::TestFolder folder;
  const auto secret = folder / "secret.png";
  const Image red{8, 8, 3, PixelMode::kRgb, [] {
                    std::vector<uint8_t> pixels;
                    for (int i = 0; i < 64; ++i) pixels.insert(pixels.end(), {255, 0, 0});
                    return pixels;
                  }()};
  ASSERT_TRUE(write_file_atomic(secret, *encode_png(red)));
  DecodeOptions options;
  options.vector_side = 16;
  for (const std::string& link :
       {"file://" + secret.string(), secret.string(), std::string("secret.png"),
        std::string("file:///etc/passwd"), std::string("http://127.0.0.1:9/a.png")}) {
    const std::string svg = std::string(kSvgHead) +
                            "width='16' height='16'><image width='16' height='16' href='" + link +
                            "' xlink:href='" + link + "'/></svg>";
    const auto path = folder / "hostile.svg";
    ASSERT_TRUE(write_file_atomic(path, svg));
    const auto image = decode_image_file(path, options);
    if (!image) continue;  // refused: as good
    EXPECT_TRUE(std::ranges::all_of(image->image.pixels, [](uint8_t value) { return value == 0; })) << link;
  }
  // An external entity, and entities that would expand a thousandfold.
  const std::string entity = "<?xml version='1.0'?><!DOCTYPE svg [<!ENTITY x SYSTEM 'file://" +
                             (folder / "text").string() + "'>]>" + std::string(kSvgHead) +
                             "width='16' height='16'>&x;</svg>";
  ASSERT_TRUE(write_file_atomic(folder / "text", "<rect width='16' height='16' fill='red'/>"));
  const auto image = decode(entity, options);
  if (image) {
    EXPECT_TRUE(std::ranges::all_of(image->image.pixels, [](uint8_t value) { return value == 0; }));
  }
}

// One drawing cannot be stopped: what would take too long is not begun.
TEST(Decode, SvgWithSlowFiltersIsGivenUpEarly) {
  const std::string blur = test::svg(
      "<filter id='f'><feGaussianBlur stdDeviation='2'/></filter><rect width='64' height='64' filter='url(#f)'/>");
  const std::string slow = test::svg_of_noise(3);
  DecodeOptions options;
  options.vector_side = 256;
  EXPECT_TRUE(decode(blur, options));
  const auto seconds_of = [&](double limit, bool in_time) {
    options.max_seconds = limit;
    const double start = thread_seconds();
    const auto result = decode(slow, options);
    EXPECT_EQ(result.has_value(), in_time);
    if (!result) {
      EXPECT_EQ(result.error().code, ErrorCode::kLimit);
      EXPECT_THAT(result.error().message, HasSubstr("it would take about"));
    }
    return thread_seconds() - start;
  };
  const double whole = seconds_of(0, true);
  EXPECT_LT(seconds_of(whole / 10, false), whole / 2);
}

TEST(Decode, SvgOfNestedTransparentGroupsIsGivenUpEarly) {
  DecodeOptions options;
  options.vector_side = 256;
  options.max_seconds = 0.5;
  const double start = thread_seconds();
  const auto result = decode(test::svg_of_nested_groups(14), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kLimit);
  EXPECT_THAT(result.error().message, HasSubstr("it would take about"));
  EXPECT_LT(thread_seconds() - start, 10);
}

// A packed document is the document: the same size from the same units, the same pixels.
TEST(Decode, PackedSvgIsTheSamePicture) {
  const std::string plain =
      std::string(kSvgHead) + "width='72pt' height='72pt'><rect x='30' y='60' width='60' height='30'/></svg>";
  const auto want = decode(plain);
  const auto packed = decode(test::gzip(plain));
  ASSERT_TRUE(want && packed) << packed.error().message;
  EXPECT_EQ(packed->image.pixels, want->image.pixels);
  EXPECT_EQ(packed->format, "svg");
  EXPECT_EQ(packed->original_width, 96);
  const std::string file = test::gzip(plain);
  for (size_t length = 0; length < file.size(); ++length)
    EXPECT_FALSE(decode(file.substr(0, length))) << length;
  EXPECT_THAT(decode(test::gzip("hello, this is a text of some length")).error().message, HasSubstr("gzip"));
}

TEST(Decode, PackedSvgIsUnpackedWithinTheLimit) {
  const std::string bomb = test::gzip_bomb(std::string(kSvgHead) + "width='9' height='9'>", 3000, "</svg>");
  DecodeOptions options;
  options.max_bytes = int64_t{64} << 20;
  ASSERT_LT(static_cast<int64_t>(bomb.size()), options.max_bytes);
  const auto result = decode(bomb, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kLimit);
  EXPECT_THAT(result.error().message, HasSubstr("once unpacked"));
  // Within it, it is a picture: the bomb is one that zlib takes for whole.
  EXPECT_TRUE(decode(test::gzip_bomb(std::string(kSvgHead) + "width='9' height='9'>", 2, "</svg>"), options));
}

TEST(Decode, EntitiesMayNotMultiply) {
  EXPECT_EQ(decode(test::svg_with_repeated_entity()).error().code, ErrorCode::kLimit);
  // In an attribute, and one within the other.
  const std::string head = "<!DOCTYPE svg [<!ENTITY a '" + std::string(60'000, ' ') + "'>";
  std::string attributes;
  for (int i = 0; i < 600; ++i) attributes += "<g id='&a;'/>";
  EXPECT_EQ(decode(head + "]>" + test::svg(attributes)).error().code, ErrorCode::kLimit);
  std::string nested = head;
  for (char c = 'b'; c < 'k'; ++c) {
    nested += std::string("<!ENTITY ") + c + " '";
    for (int i = 0; i < 10; ++i) nested += std::string("&") + static_cast<char>(c - 1) + ";";
    nested += "'>";
  }
  EXPECT_EQ(decode(nested + "]>" + test::svg("<text>&j;</text>")).error().code, ErrorCode::kLimit);
  // As drawing programs use them.
  EXPECT_TRUE(
      decode("<!DOCTYPE svg [<!ENTITY ns 'http://www.w3.org/2000/svg'><!ENTITY c '#f00'>]>"
             "<svg xmlns='&ns;' width='9' height='9'><rect width='9' height='9' fill='&c;'/></svg>"));
}

// Images embedded in a drawing have the same limits as image files.
TEST(Decode, PicturesWithinSvg) {
  DecodeOptions options;
  options.vector_side = 64;
  const Image red{8, 8, 3, PixelMode::kRgb, [] {
                    std::vector<uint8_t> pixels;
                    for (int i = 0; i < 64; ++i) pixels.insert(pixels.end(), {255, 0, 0});
                    return pixels;
                  }()};
  const std::string png = *encode_png(red);
  for (const auto& [kind, picture] : {std::pair{"image/png", png}, std::pair{"image/jpeg", *encode_jpeg(red)},
                                      std::pair{"image/gif", encoded(red, ".gif")}}) {
    const auto drawn = decode(test::svg_with_picture(kind, picture), options);
    ASSERT_TRUE(drawn) << kind << ": " << drawn.error().message;
    EXPECT_GT(drawn->image.pixels[4 * (32 * 64 + 32)], 250) << kind;
    EXPECT_EQ(drawn->image.pixels[4 * (32 * 64 + 32) + 3], 255) << kind;
    options.max_pixels = 64 * 64;
    EXPECT_TRUE(decode(test::svg_with_picture(kind, picture), options));
    options.max_pixels = int64_t{1} << 30;
  }
  options.max_pixels = 200'000'000;
  const auto error_of = [&](const std::string& file) {
    const auto result = decode(file, options);
    EXPECT_FALSE(result);
    return result ? Error{} : result.error();
  };
  // Too many pixels: one, or all together.
  EXPECT_EQ(error_of(test::svg_with_picture("image/png", test::flat_png(20'000, 20'000))).code,
            ErrorCode::kLimit);
  const std::string address = "data:image/png;base64," + encode_base64(test::flat_png(90, 90));
  const std::string both = test::svg("<image href='" + address + "'/><image href='" + address + "'/>");
  options.max_pixels = 2 * 8100;
  EXPECT_TRUE(decode(both, options));
  options.max_pixels = 2 * 8100 - 1;
  EXPECT_EQ(error_of(both).code, ErrorCode::kLimit);
  options.max_pixels = 8099;
  EXPECT_THAT(error_of(test::flat_png(90, 90)).message,
              HasSubstr("90 x 90 pixels are more than max_pixels (8099)"));
  options.max_pixels = 200'000'000;
  // Embedded images that librsvg would omit silently are errors, however the address is written.
  EXPECT_EQ(error_of(test::svg_with_picture("image/png", png.substr(0, png.size() / 2))).code,
            ErrorCode::kBadData);
  EXPECT_EQ(error_of(test::svg_with_picture("image/png", "hello")).code, ErrorCode::kUnsupported);
  EXPECT_EQ(error_of(test::svg_with_picture("image/tiff", encoded(red, ".tif"))).code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(error_of(test::svg("<image xlink:href='data:image/png;base64,!!!'/>")).code, ErrorCode::kBadData);
  EXPECT_EQ(error_of(test::svg("<image xlink:href='data:image/png'/>")).code, ErrorCode::kBadData);
  EXPECT_EQ(error_of(test::svg("<image href=' &#68;ATA:,hello'/>")).code, ErrorCode::kUnsupported);
  EXPECT_EQ(error_of("<!DOCTYPE svg [<!ENTITY a 'ata:,hel'>]>" + test::svg("<image href='d&a;lo'/>")).code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(error_of("<!DOCTYPE svg [<!ENTITY a \"<image href='data:,hello'/>\">]>" + test::svg("&a;")).code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(error_of(test::svg("<filter><feImage href='data:,%68ello'/></filter>")).code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(
      error_of(test::svg("<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='data:,hello'/>")).code,
      ErrorCode::kUnsupported);
  // Drawings within drawings, to some depth.
  std::string nested = test::svg_with_picture("image/png", png);
  for (int i = 0; i < 3; ++i) nested = test::svg_with_picture("image/svg+xml", nested);
  EXPECT_TRUE(decode(nested, options)) << decode(nested, options).error().message;
  nested = test::svg_with_picture("image/svg+xml", nested);
  EXPECT_EQ(error_of(nested).code, ErrorCode::kLimit);
  // Other addresses are none of this.
  EXPECT_TRUE(decode(test::svg("<image href='other.png'/><a href='data:,hello'/>"), options));
}

TEST(Decode, ScansOfAJpegAreCounted) {
  const std::string plain = encoded(gradient(64, 48, 3), ".jpg");
  const std::string progressive = encoded(gradient(64, 48, 3), ".jpg[interlace]");
  EXPECT_EQ(jpeg_scans(bytes_of(plain)), 1);
  const int64_t usual = jpeg_scans(bytes_of(progressive));
  EXPECT_GE(usual, 6);
  EXPECT_LE(usual, 12);
  EXPECT_EQ(jpeg_scans(bytes_of(test::with_empty_scans(progressive, 40))), usual + 40);
  EXPECT_TRUE(decode(progressive));
  const auto many = decode(test::with_empty_scans(progressive, 3000));
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code, ErrorCode::kLimit);
  EXPECT_THAT(many.error().message, HasSubstr("scans, limit 500"));
}

TEST(Decode, SizeOnlyWhereAskedFor) {
  DecodeOptions options;
  options.size_only_above = 5000;
  options.vector_side = 80;
  const std::string bitmap = test::wide_bmp();
  for (const auto& [file, width, height] :
       {std::tuple{encoded(gradient(100, 51, 3), ".png"), 100, 51},
        std::tuple{encoded(gradient(100, 51, 3), ".jpg", VIPS_INTERPRETATION_ERROR, 6), 51, 100},
        std::tuple{test::svg("<g/>"), 80, 80}, std::tuple{bitmap, 200'000'000, 1}}) {
    const auto large = decode(file, options);
    ASSERT_TRUE(large) << large.error().message;
    EXPECT_EQ(large->image.width, width);
    EXPECT_EQ(large->image.height, height);
    EXPECT_TRUE(large->image.pixels.empty());
    EXPECT_FALSE(large->format.empty());
  }
  EXPECT_EQ(decode(encoded(gradient(100, 50, 3), ".png"), options)->image.pixels.size(), 15'000U);
}

TEST(Decode, SvgOfAbsurdSizes) {
  for (const char* size : {"width='0' height='0'", "width='1e9' height='1e9'", "width='-5' height='4'",
                           "width='1' height='9999999'", "viewBox='0 0 0 0'", "width='nan' height='inf'"}) {
    DecodeOptions options;
    options.max_pixels = 1'000'000;
    const auto image = decode(std::string(kSvgHead) + size + "><circle r='5'/></svg>", options);
    if (image) {
      EXPECT_LE(int64_t{image->image.width} * image->image.height, options.max_pixels) << size;
    } else {
      EXPECT_FALSE(image.error().message.empty()) << size;
    }
  }
}

TEST(Decode, Limits) {
  const std::string file = encoded(gradient(100, 50, 3), ".png");
  DecodeOptions options;
  options.max_pixels = 4999;
  EXPECT_EQ(decode(file, options).error().code, ErrorCode::kLimit);
  EXPECT_THAT(decode(file, options).error().message, HasSubstr("100 x 50"));
  options.max_pixels = 5000;
  EXPECT_TRUE(decode(file, options));
  options.max_bytes = static_cast<int64_t>(file.size()) - 1;
  EXPECT_EQ(decode(file, options).error().code, ErrorCode::kLimit);
  options = {};
  options.max_seconds = 1e-9;
  const auto late = decode(file, options);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kLimit);
  EXPECT_THAT(late.error().message, HasSubstr("seconds"));
  // A header that promises 100,000 x 100,000 pixels gets no memory for them.
  std::string bomb = file;
  for (const size_t at : {16, 20}) bomb.replace(at, 4, std::string("\0\x01\x86\xa0", 4));
  const auto refused = decode(bomb);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().code == ErrorCode::kLimit || refused.error().code == ErrorCode::kBadData);
}

TEST(Decode, FilesThatAreNoPictures) {
  const test::TestFolder folder;
  EXPECT_EQ(decode_image_file(folder / "none.png").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(decode_image_file(folder / "."));
  ASSERT_TRUE(write_file_atomic(folder / "empty.png", ""));
  EXPECT_EQ(decode_image_file(folder / "empty.png").error().code, ErrorCode::kBadData);
  ASSERT_EQ(::mkfifo((folder / "pipe.png").c_str(), 0600), 0);
  EXPECT_FALSE(decode_image_file(folder / "pipe.png"));
  const std::pair<std::string, const char*> cases[] = {
      {"%PDF-1.4\n%%EOF", "not an image in a format known here: it looks like a PDF document"},
      {std::string("\0\0\0\x0cjP  \r\n\x87\n", 12), "looks like a JPEG 2000 image"},
      {"hello, this is a text of some length", "not an image"},
      {"P6 1 1 255\nabc", "not an image"},
      {std::string(1000, '\0'), "not an image"}};
  for (const auto& [content, wanted] : cases) {
    const auto result = decode(content);
    ASSERT_FALSE(result) << content;
    EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(result.error().message, HasSubstr(wanted));
  }
}

std::string le(uint64_t value, int bytes) {
  return test::little_endian(value, bytes);
}

// A bitmap with the usual 40-byte header; `extra` is masks or palette.
std::string bmp(int width, int height, int bits, uint32_t compression, const std::string& extra,
                const std::string& data, uint32_t colours = 0) {
  const auto offset = static_cast<uint32_t>(54 + extra.size());
  return "BM" + le(offset + static_cast<uint32_t>(data.size()), 4) + le(0, 4) + le(offset, 4) + le(40, 4) +
         le(static_cast<uint32_t>(width), 4) + le(static_cast<uint32_t>(height), 4) + le(1, 2) +
         le(static_cast<uint32_t>(bits), 2) + le(compression, 4) + le(static_cast<uint32_t>(data.size()), 4) +
         le(0, 8) + le(colours, 4) + le(0, 4) + extra + data;
}

TEST(Bmp, EveryKindOfPixel) {
  using Pixels = std::vector<uint8_t>;
  const std::string four =
      le(0x000000, 4) + le(0xff0000, 4) + le(0x00ff00, 4) + le(0x0000ff, 4);  // black, R, G, B
  const std::string bits = le(0x000000, 4) + le(0xffffff, 4);
  struct Case {
    const char* name;
    std::string file;
    Pixels want;
    PixelMode mode;
  };
  const Case cases[] = {
      {"24 bits",
       bmp(1, 2, 24, 0, "", std::string("\x01\x02\x03\0\x04\x05\x06\0", 8)),
       {6, 5, 4, 3, 2, 1},
       PixelMode::kRgb},
      {"24 bits, top down",
       bmp(1, -2, 24, 0, "", std::string("\x01\x02\x03\0\x04\x05\x06\0", 8)),
       {3, 2, 1, 6, 5, 4},
       PixelMode::kRgb},
      {"32 bits", bmp(1, 1, 32, 0, "", le(0x99112233, 4)), {0x11, 0x22, 0x33}, PixelMode::kRgb},
      {"16 bits, 5 each",
       bmp(2, 1, 16, 0, "", le(0x7c00, 2) + le(0x0210, 2)),
       {255, 0, 0, 0, 131, 131},
       PixelMode::kRgb},
      {"16 bits, 5 6 5",
       bmp(2, 1, 16, 3, le(0xf800, 4) + le(0x7e0, 4) + le(0x1f, 4), le(0xf800, 2) + le(0x0400, 2)),
       {255, 0, 0, 0, 129, 0},
       PixelMode::kRgb},
      {"32 bits with alpha",
       bmp(1, 1, 32, 6, le(0xff, 4) + le(0xff00, 4) + le(0xff0000, 4) + le(0xff000000, 4), le(0x80030201, 4)),
       {1, 2, 3, 0x80},
       PixelMode::kRgba},
      {"8 bits",
       bmp(3, 1, 8, 0, four, std::string("\x01\x03\x09\0", 4), 4),
       {255, 0, 0, 0, 0, 255, 0, 0, 0},
       PixelMode::kPalette},
      {"4 bits",
       bmp(3, 1, 4, 0, four, std::string("\x12\x30\0\0", 4), 4),
       {255, 0, 0, 0, 255, 0, 0, 0, 255},
       PixelMode::kPalette},
      {"1 bit", bmp(3, 1, 1, 0, bits, std::string("\xa0\0\0\0", 4)), {255, 0, 255}, PixelMode::kBilevel},
      {"RLE8",
       bmp(4, 2, 8, 1, four, std::string("\x03\x01\x01\x02\0\0\0\x03\x01\x02\x03\0\0\x01", 14), 4),
       {255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 0, 255, 0},
       PixelMode::kPalette},
      {"RLE4",
       bmp(3, 1, 4, 2, four, std::string("\x03\x12\0\x01", 4), 4),
       {255, 0, 0, 0, 255, 0, 255, 0, 0},
       PixelMode::kPalette},
  };
  for (const Case& c : cases) {
    const auto image = decode(c.file);
    ASSERT_TRUE(image) << c.name << ": " << image.error().message;
    EXPECT_EQ(image->format, "bmp");
    EXPECT_EQ(image->image.pixels, c.want) << c.name;
    EXPECT_EQ(image->image.mode, c.mode) << c.name;
    for (size_t length = 0; length < c.file.size(); ++length) {
      const auto cut = decode(c.file.substr(0, length));
      if (cut) {
        EXPECT_TRUE(c.file[30] == 1 || c.file[30] == 2 || length + 3 >= c.file.size())
            << c.name << " cut to " << length;
      }
    }
  }
}

TEST(Bmp, TimeIsLimited) {
  DecodeOptions options;
  options.max_seconds = 1e-9;
  const auto late = decode(bmp(2, 2, 24, 0, "", std::string(16, '\x7f')), options);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kLimit);
  EXPECT_THAT(late.error().message, HasSubstr("not decoded within"));
}

// 200,000,000 x 1 pixels: what is made of them takes memory and time by their number, not by the square of
// the shape. Weights of all outputs at a time took 9.7 GB and 42 s.
TEST(Bmp, OfAbsurdShapeIsPreprocessedWithinLimits) {
  const auto wide = decode(test::wide_bmp());
  ASSERT_TRUE(wide) << wide.error().message;
  ASSERT_EQ(wide->image.width, 200'000'000);
  const auto peak = [] {
    rusage used = {};
    ::getrusage(RUSAGE_SELF, &used);
    return int64_t{used.ru_maxrss} << 10;
  };
  const int64_t before = peak();
  const double start = thread_seconds();
  Preprocessing p;
  std::vector<float> out(size_t{3} * 224 * 224);
  for (const ResizeMode mode : {ResizeMode::kSquash, ResizeMode::kShortestEdge}) {
    for (const RgbOrder order : {RgbOrder::kBeforeResize, RgbOrder::kAfterResize}) {
      p.resize_mode = mode;
      p.rgb_order = order;
      const auto status = preprocess(wide->image, p, out);
      EXPECT_TRUE(status) << status.error().message;
    }
  }
  EXPECT_LT(peak() - before, int64_t{1} << 30);
  EXPECT_LT(thread_seconds() - start, 60);
}

TEST(Bmp, LyingHeaders) {
  const std::string good = bmp(2, 2, 24, 0, "", std::string(16, '\x7f'));
  ASSERT_TRUE(decode(good));
  // Every byte of the header set to each of a few values: an error or an image, within the limits.
  DecodeOptions options;
  options.max_pixels = 1'000'000;
  for (size_t at = 2; at < 54; ++at) {
    for (const char value : {'\0', '\x01', '\x02', '\x04', '\x08', '\x10', '\x7f', '\x80', '\xff'}) {
      std::string bad = good;
      bad[at] = value;
      const auto image = decode(bad, options);
      if (image) {
        EXPECT_EQ(image->image.pixels.size(), static_cast<size_t>(image->image.width) *
                                                  static_cast<size_t>(image->image.height) *
                                                  static_cast<size_t>(image->image.channels));
      }
    }
  }
  EXPECT_EQ(decode(bmp(60'000, 60'000, 8, 1, std::string(1024, '\0'), std::string("\0\x01", 2)),
                   DecodeOptions{.max_pixels = int64_t{1} << 40})
                .error()
                .code,
            ErrorCode::kBadData);
  EXPECT_EQ(decode(bmp(1, 1, 24, 4, "", "xxxx")).error().code, ErrorCode::kUnsupported);
}

TEST(Decode, EveryTruncationIsAnErrorOrAnImage) {
  for (const char* suffix : {".jpg", ".png", ".webp", ".gif", ".tif", ".heic", ".avif"}) {
    const std::string file = gradient_file(23, 17, suffix);
    ASSERT_FALSE(file.empty()) << suffix;
    // A process that dies of a cut is replaced, which takes its time.
    const size_t stride = std::max<size_t>(1, file.size() / (is_heif(file) ? 80 : 400));
    size_t refused = 0;
    size_t tried = 0;
    for (size_t length = 0; length < file.size(); length += stride, ++tried) {
      const auto cut = decode(std::string_view(file).substr(0, length));
      if (cut) continue;
      ++refused;
      EXPECT_TRUE(cut.error().code == ErrorCode::kBadData || cut.error().code == ErrorCode::kUnsupported ||
                  cut.error().code == ErrorCode::kLimit)
          << suffix << " cut to " << length << ": " << cut.error().message;
      EXPECT_EQ(cut.error().message.find('\n'), std::string::npos);
    }
    // The last bytes may be padding or an end marker; a picture cut in half is never taken for whole.
    EXPECT_GE(refused * 10, tried * 9) << suffix;
    const auto half = decode(std::string_view(file).substr(0, file.size() / 2));
    ASSERT_FALSE(half) << suffix;
  }
  const std::string svg = std::string(kSvgHead) + "width='4' height='4'><rect width='2' height='2'/></svg>";
  for (size_t length = 0; length < svg.size(); ++length)
    EXPECT_FALSE(decode(svg.substr(0, length))) << length;
}

// libheif has an assertion that some cut files fail: no bytes of that kind come to it in this process.
TEST(Decode, HeifIsLeftToAProcessOfItsOwn) {
  for (const char* suffix : {".heic", ".avif"}) {
    const std::string file = gradient_file(23, 17, suffix);
    const auto here = decode_image(bytes_of(file), {});
    ASSERT_FALSE(here) << suffix;
    EXPECT_EQ(here.error().code, ErrorCode::kIo);  // nothing is wrong with the file
    EXPECT_THAT(here.error().message, HasSubstr("saccade-decode"));
    EXPECT_TRUE(decode(file)) << suffix;
  }
}

TEST(Decode, BrokenImagesCorpus) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kTests / "data" / "broken_images")) {
    if (entry.path().extension() == ".md") continue;
    ++files;
    DecodeOptions options;
    options.max_pixels = 4'000'000;
    const auto bytes = read_file(entry.path());
    ASSERT_TRUE(bytes) << bytes.error().message;
    const auto image = decode(*bytes, options);
    EXPECT_FALSE(image) << entry.path();
    if (!image) {
      EXPECT_EQ(image.error().message.find('\n'), std::string::npos);
      if (entry.path().stem() == "cut") {
        EXPECT_THAT(image.error().message, HasSubstr("broken or cut off")) << entry.path();
      }
    }
  }
  EXPECT_GE(files, 10U);
}

// Decodes a file with one loader of libvips itself.
Image by_libvips(const std::string& file, int shrink) {
  VipsImage* loaded = nullptr;
  EXPECT_EQ(
      vips_jpegload_buffer(const_cast<char*>(file.data()), file.size(), &loaded, "shrink", shrink, nullptr),
      0)
      << vips_error_buffer();
  Image image{vips_image_get_width(loaded),
              vips_image_get_height(loaded),
              vips_image_get_bands(loaded),
              PixelMode::kRgb,
              {}};
  size_t size = 0;
  void* pixels = vips_image_write_to_memory(loaded, &size);
  image.pixels.assign(static_cast<uint8_t*>(pixels), static_cast<uint8_t*>(pixels) + size);
  g_free(pixels);
  g_object_unref(loaded);
  return image;
}

Image top_left(const Image& image, int width, int height) {
  Image part{width, height, image.channels, image.mode, {}};
  const auto channels = static_cast<size_t>(image.channels);
  for (int y = 0; y < height; ++y) {
    const auto row =
        image.pixels.begin() +
        static_cast<std::ptrdiff_t>(static_cast<size_t>(y) * static_cast<size_t>(image.width) * channels);
    part.pixels.insert(part.pixels.end(), row,
                       row + static_cast<std::ptrdiff_t>(static_cast<size_t>(width) * channels));
  }
  return part;
}

// A smaller version is resized like the whole image, in each orientation, although its last row and column stand for
// fewer pixels than the others.
TEST(Decode, ASmallerVersionIsResizedLikeTheWhole) {
  constexpr int kSide = 48;
  Preprocessing preprocessing;
  preprocessing.resize_height = preprocessing.resize_width = kSide;
  preprocessing.crop_height = preprocessing.crop_width = kSide;
  const auto pixels = [&](const DecodedImage& decoded) {
    std::vector<float> out(size_t{3} * kSide * kSide);
    EXPECT_TRUE(preprocess(ImageView(decoded), preprocessing, out));
    return out;
  };
  for (const auto& [width, height] : {std::pair(393, 201), std::pair(201, 393), std::pair(810, 785)}) {
    // Stripes of some five output pixels: a shift by a tenth of one changes their slopes by 20 levels.
    Image stripes{width, height, 3, PixelMode::kRgb, {}};
    const double scale = 2 * std::numbers::pi * kSide / (5.0 * std::min(width, height));
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        for (int c = 0; c < 3; ++c) {
          const double wave = std::sin(scale * x + c) + std::sin(scale * y + 2 * c);
          stripes.pixels.push_back(static_cast<uint8_t>(128 + 55 * wave));
        }
      }
    }
    for (int orientation = 1; orientation <= 8; ++orientation) {
      SCOPED_TRACE(fmt::format("{} x {}, {}", width, height, orientation));
      const std::string file = encoded(stripes, ".jpg[Q=95]", VIPS_INTERPRETATION_ERROR, orientation);
      const auto whole = decode(file);
      DecodeOptions options;
      options.shrink_to_side = 2 * kSide;
      const auto small = decode(file, options);
      ASSERT_TRUE(whole && small);
      ASSERT_FALSE(whole->shrunk);
      ASSERT_TRUE(small->shrunk);
      EXPECT_LE(small->image.width, whole->image.width / 2 + 1);
      EXPECT_EQ(small->shrunk.width, whole->image.width);
      EXPECT_EQ(small->shrunk.height, whole->image.height);
      const std::vector<float> exact = pixels(*whole);
      const std::vector<float> fast = pixels(*small);
      double squares = 0;
      for (size_t i = 0; i < exact.size(); ++i) squares += std::pow(255 * (exact[i] - fast[i]), 2);
      EXPECT_LT(std::sqrt(squares / static_cast<double>(exact.size())), 1.5);  // levels
    }
  }
}

TEST(Decode, JpegHasThePixelsOfLibvips) {
  (void)encode_png(gradient(1, 1, 1));  // starts libvips
  std::mt19937 random(3);
  for (const char* suffix : {".jpg[Q=90]", ".jpg[Q=30,subsample_mode=on]", ".jpg[Q=95,subsample_mode=off]",
                             ".jpg[interlace]", ".jpg[optimize_coding,restart_interval=2]"}) {
    for (const int channels : {1, 3}) {
      for (const auto& [width, height] : {std::pair(640, 481), std::pair(97, 65), std::pair(17, 9)}) {
        SCOPED_TRACE(fmt::format("{} {} x {} x {}", suffix, width, height, channels));
        Image image = gradient(width, height, channels);
        for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(value / 2 + random() % 100);
        std::string file = encoded(image, suffix);
        if (file.empty()) continue;  // an option that this libvips does not know
        for (const int shrink : {1, 2, 4, 8}) {
          if (std::min(width, height) / shrink < 1) continue;
          DecodeOptions options;
          options.shrink_to_side = shrink == 1 ? 0 : std::min(width, height) / shrink;
          const auto ours = decode(file, options);
          ASSERT_TRUE(ours) << ours.error().message;
          // libvips leaves out a last row or column that stands for fewer pixels.
          EXPECT_EQ(ours->image.width, (width + shrink - 1) / shrink);
          EXPECT_EQ(ours->image.height, (height + shrink - 1) / shrink);
          const Image cut = top_left(ours->image, width / shrink, height / shrink);
          EXPECT_EQ(largest_difference(cut, by_libvips(file, shrink)), 0) << shrink;
        }
      }
    }
  }
}

TEST(Decode, ManyThreadsAtOnce) {
  const std::string good = encoded(gradient(200, 120, 3), ".jpg");
  const std::string bad = good.substr(0, good.size() / 2);
  const auto want = decode(good);
  ASSERT_TRUE(want);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        if ((t + i) % 3 == 0) {
          EXPECT_FALSE(decode(bad));
        } else {
          const auto got = decode(good);
          ASSERT_TRUE(got) << got.error().message;
          EXPECT_EQ(got->image.pixels, want->image.pixels);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Decode, Extensions) {
  for (const char* name :
       {"a.jpg", "a.JPEG", "b.c.Png", "x.webp", "x.svg", "x.heic", "x.avif", "x.bmp", "x.tif"}) {
    EXPECT_TRUE(has_image_extension(name)) << name;
  }
  for (const char* name : {"a", "a.txt", "jpg", ".jpg", "a.jpg.txt", "a.pdf", ""})
    EXPECT_FALSE(has_image_extension(name)) << name;
}

TEST(Encode, RefusesWhatIsNoImage) {
  EXPECT_EQ(encode_png(Image{}).error().code, ErrorCode::kUsage);
  EXPECT_EQ(encode_jpeg(Image{2, 2, 3, PixelMode::kRgb, {1}}).error().code, ErrorCode::kUsage);
  EXPECT_EQ(encode_jpeg(gradient(2, 2, 3), 0).error().code, ErrorCode::kUsage);
}

TEST(Encode, JpegShowsTransparencyOverWhite) {
  Image clear{16, 16, 4, PixelMode::kRgba, std::vector<uint8_t>(16 * 16 * 4, 0)};
  const auto file = encode_jpeg(clear);
  ASSERT_TRUE(file) << file.error().message;
  const auto back = decode(*file);
  ASSERT_TRUE(back);
  EXPECT_TRUE(std::ranges::all_of(back->image.pixels, [](uint8_t value) { return value >= 253; }));
}

}  // namespace
}  // namespace saccade
