// RAW photographs: which bytes are some, and what LibRaw makes of files that
// other programs wrote (tests/data/raw/README.md).
#include "saccade/image/decode/raw.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <gmock/gmock.h>

#include "saccade/core/files/files.h"
#include "saccade/core/process/limited_process.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/decode/process/decoder_pool.h"
#include "saccade/image/image_view.h"

namespace saccade {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

std::string fixture(const char* name) {
  return read_file(fs::path(SACCADE_TEST_DATA) / "raw" / name).value();
}

TEST(Raw, IsToldByItsFirstBytes) {
  const std::string rest(32, '\0');
  const auto with = [&](std::string begin) { return is_raw(bytes_of(begin + rest)); };
  EXPECT_TRUE(with(std::string("II*\0\x10\0\0\0CR\x02\0", 12)));
  EXPECT_TRUE(with(std::string("\0\0\0\x18", 4) + "ftypcrx "));
  EXPECT_TRUE(with("FUJIFILMCCD-RAW 0201"));
  EXPECT_TRUE(with(std::string("IIRO\x08\0\0\0", 8)));
  EXPECT_TRUE(with(std::string("IIU\0\x08\0\0\0", 8)));
  EXPECT_FALSE(with(""));
  EXPECT_FALSE(with("\xff\xd8\xff\xe1"));
  EXPECT_FALSE(with(std::string("\0\0\0\x18", 4) + "ftypheic"));
  EXPECT_FALSE(with(std::string("II*\0\x08\0\0\0", 8)));  // a TIFF file of nothing
  EXPECT_TRUE(is_raw(bytes_of(fixture("preview.dng"))));
  EXPECT_TRUE(has_raw_extension("a/B.CR2"));
  EXPECT_FALSE(has_raw_extension("a/cr2"));
  EXPECT_EQ(has_image_extension("a.dng"), reads_raw_files());
}

// Directories that lead round in circles, beyond the file, and to each other.
TEST(Raw, LyingDirectoriesEnd) {
  const auto little = [](uint64_t value, int size) {
    std::string text;
    for (int i = 0; i < size; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  const std::string head = "II*" + std::string(1, '\0') + little(8, 4);
  const auto entry = [&](uint64_t tag, uint64_t type, uint64_t count, uint64_t value) {
    return little(tag, 2) + little(type, 2) + little(count, 4) + little(value, 4);
  };
  const auto raw = [&](const std::string& rest) { return is_raw(bytes_of(head + rest)); };
  EXPECT_FALSE(raw(little(1, 2) + entry(256, 3, 1, 10) + little(8, 4)));          // its own next
  EXPECT_FALSE(raw(little(1, 2) + entry(330, 4, 1, 8) + little(0, 4)));           // its own child
  EXPECT_FALSE(raw(little(1, 2) + entry(330, 4, 0xffffffff, 8) + little(0, 4)));  // children everywhere
  EXPECT_FALSE(raw(little(1, 2) + entry(330, 4, 2, 0xfffffff0) + little(0xfffffffe, 4)));
  EXPECT_FALSE(raw(little(0xffff, 2)));
  EXPECT_TRUE(raw(little(1, 2) + entry(262, 3, 1, 32803) + little(0, 4)));
  EXPECT_TRUE(
      raw(little(1, 2) + entry(330, 4, 1, 26) + little(0, 4) + little(1, 2) + entry(262, 3, 1, 34892)));
  const std::string file = fixture("preview.dng");
  for (size_t length = 0; length < std::min<size_t>(file.size(), 4096); ++length) {
    (void)is_raw(bytes_of(file.substr(0, length)));
  }
}

TEST(Raw, IsLeftToProcesses) {
  const auto decoded = decode_image(bytes_of(fixture("preview.dng")));
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, ErrorCode::kIo);
  EXPECT_THAT(decoded.error().message, HasSubstr("saccade-decode alone"));
}

class RawFiles : public testing::Test {
 protected:
  void SetUp() override {
    auto pool = DecoderPool::start({SACCADE_DECODER});
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = *std::move(pool);
  }
  Result<DecodedImage> decode(const std::string& file, DecodeOptions options = {}) {
    options.processes = pool_.get();
    return decode_image(bytes_of(file), options);
  }
  // The fixture with these tags, by exiftool.
  std::string tagged(const char* name, std::vector<std::string> tags) {
    const fs::path path = folder_.write(name, fixture(name));
    const auto exiftool = find_program("exiftool");
    EXPECT_TRUE(exiftool) << "libimage-exiftool-perl";
    tags.insert(tags.begin(), {"-q", "-m", "-overwrite_original"});
    tags.push_back(path.string());
    const auto ran = run_limited(*exiftool, tags, {});
    EXPECT_TRUE(ran && ran->code == 0) << (ran ? ran->errors : ran.error().message);
    return read_file(path).value();
  }

  test::TestFolder folder_;
  std::unique_ptr<DecoderPool> pool_;
};

// The mean of a part of the picture, in shares of its sides.
std::array<double, 3> mean_of(const Image& image, double left, double top, double right, double bottom) {
  std::array<double, 3> sum{};
  double count = 0;
  for (int y = static_cast<int>(top * image.height); y < static_cast<int>(bottom * image.height); ++y) {
    for (int x = static_cast<int>(left * image.width); x < static_cast<int>(right * image.width);
         ++x, ++count) {
      for (size_t c = 0; c < 3; ++c) {
        sum[c] +=
            image
                .pixels[(static_cast<size_t>(y) * static_cast<size_t>(image.width) + static_cast<size_t>(x)) *
                            static_cast<size_t>(image.channels) +
                        c];
      }
    }
  }
  for (double& value : sum) value /= count;
  return sum;
}

TEST_F(RawFiles, AreReadOrSaidNotTo) {
  const auto decoded = decode(fixture("preview.dng"));
  if (reads_raw_files()) {
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->format, kRawFormat);
  } else {
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(decoded.error().message, HasSubstr("no LibRaw"));
  }
}

TEST_F(RawFiles, AreShownAsTheCameraDid) {
  if (!reads_raw_files()) GTEST_SKIP() << "built without LibRaw";
  const auto decoded = decode(fixture("preview.dng"));
  ASSERT_TRUE(decoded) << decoded.error().message;
  // The sensor's size, and the camera's own picture to the byte.
  EXPECT_EQ(decoded->original_width, 240);
  EXPECT_EQ(decoded->original_height, 160);
  const auto preview = decode_image(bytes_of(fixture("preview.jpg")));
  ASSERT_TRUE(preview);
  EXPECT_EQ(decoded->image.width, 640);
  EXPECT_EQ(decoded->image.height, 480);
  EXPECT_EQ(decoded->image.pixels, preview->image.pixels);
  DecodeOptions size_only;
  size_only.size_only_above = 1;
  const auto size = decode(fixture("preview.dng"), size_only);
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_TRUE(size->image.pixels.empty());
  EXPECT_EQ(size->original_width, 240);
}

TEST_F(RawFiles, AreTurnedAsTheFileSays) {
  if (!reads_raw_files()) GTEST_SKIP() << "built without LibRaw";
  const auto straight = decode(fixture("preview.dng"));
  const std::string turned = tagged("preview.dng", {"-IFD0:Orientation#=6"});
  for (const char* name : {"preview", "developed"}) {
    const std::string file =
        name == std::string("preview") ? turned : tagged("sensor.dng", {"-IFD0:Orientation#=6"});
    const auto decoded = decode(file);
    ASSERT_TRUE(decoded) << name << decoded.error().message;
    EXPECT_EQ(decoded->original_width, 160) << name;
    EXPECT_EQ(decoded->original_height, 240) << name;
    EXPECT_LT(decoded->image.width, decoded->image.height) << name;
    DecodeOptions as_stored;
    as_stored.apply_orientation = false;
    const auto stored = decode(file, as_stored);
    ASSERT_TRUE(stored) << name << stored.error().message;
    EXPECT_EQ(stored->original_width, 240) << name;
    EXPECT_GT(stored->image.width, stored->image.height) << name;
    // Orientation 6: the stored left is shown on top. The left half is red, the right half blue.
    const auto top = mean_of(decoded->image, 0.2, 0.1, 0.8, 0.4);
    const auto bottom = mean_of(decoded->image, 0.2, 0.6, 0.8, 0.9);
    EXPECT_GT(top[0], top[2] + 40) << name;
    EXPECT_GT(bottom[2], bottom[0] + 40) << name;
  }
}

TEST_F(RawFiles, WithoutAPreviewAreDeveloped) {
  if (!reads_raw_files()) GTEST_SKIP() << "built without LibRaw";
  const auto decoded = decode(fixture("sensor.dng"));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->format, kRawFormat);
  EXPECT_EQ(decoded->original_width, 240);
  EXPECT_EQ(decoded->image.channels, 3);
  EXPECT_NEAR(decoded->image.width, 240, 4);
  const auto left = mean_of(decoded->image, 0.1, 0.2, 0.4, 0.8);
  const auto right = mean_of(decoded->image, 0.6, 0.2, 0.9, 0.8);
  EXPECT_GT(left[0], left[2] + 40);
  EXPECT_GT(right[2], right[0] + 40);
}

TEST_F(RawFiles, SayWhenAndWithWhatTheyWereTaken) {
  const std::string file = tagged("preview.dng", {"-ExifIFD:DateTimeOriginal=2021:02:03 04:05:06",
                                                  "-IFD0:Make=Canon", "-IFD0:Model=Canon EOS R5"});
  DecodeOptions options;
  options.processes = pool_.get();
  options.facts = true;
  PictureFacts facts;
  const Status read = decode_for(bytes_of(file), options, [&](const PictureView& picture) {
    facts = picture.facts;
    return Status{};
  });
  if (!reads_raw_files()) return;
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(facts.taken, 1'612'325'106);
  EXPECT_EQ(facts.camera, "Canon EOS R5");
}

// Cut off and damaged anywhere, they fail or are read, and the process that reads them costs no run.
TEST_F(RawFiles, DamageIsAnErrorOrAPicture) {
  if (!reads_raw_files()) GTEST_SKIP() << "built without LibRaw";
  for (const char* name : {"preview.dng", "sensor.dng"}) {
    const std::string file = fixture(name);
    for (size_t part = 1; part < 40; ++part) {
      const auto cut = decode(file.substr(0, file.size() * part / 40));
      if (!cut) {
        EXPECT_FALSE(cut.error().message.empty());
      }
      std::string harmed = file;
      for (size_t at = part * 7; at < harmed.size() && at < 2000; at += 97)
        harmed[at] = static_cast<char>(part * 31);
      const auto damaged = decode(harmed);
      if (!damaged) {
        EXPECT_NE(damaged.error().code, ErrorCode::kInternal) << damaged.error().message;
      }
    }
  }
  DecodeOptions few;
  few.max_pixels = 1000;
  EXPECT_EQ(decode(fixture("preview.dng"), few).error().code, ErrorCode::kLimit);
  const auto whole = decode(fixture("preview.dng"));
  EXPECT_TRUE(whole);
}

}  // namespace
}  // namespace saccade
