// Tests of embedded metadata, written by exiftool and read by the decoder process; also false values.
#include "saccade/image/metadata/facts.h"

#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>

#include "saccade/core/files/files.h"
#include "saccade/core/process/limited_process.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/decode/process/decoder_messages.h"
#include "saccade/image/decode/process/decoder_pool.h"
#include "saccade/image/image_view.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Image gradient(int width, int height) {
  Image image{width, height, 3, PixelMode::kRgb, {}};
  for (int i = 0; i < width * height * 3; ++i) image.pixels.push_back(static_cast<uint8_t>(i * 7 % 251));
  return image;
}

class Facts : public testing::Test {
 protected:
  void SetUp() override {
    auto pool = DecoderPool::start({SACCADE_DECODER});
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = *std::move(pool);
  }

  // A JPEG of 24 x 16 with these tags.
  std::string jpeg(const std::vector<std::string>& tags) {
    return tagged("picture.jpg", encode_jpeg(gradient(24, 16)).value(), tags);
  }
  std::string tagged(const std::string& name, const std::string& content, std::vector<std::string> tags) {
    const std::filesystem::path path = folder_.write(name, content);
    const auto exiftool = find_program("exiftool");
    if (!exiftool) {
      ADD_FAILURE() << "exiftool is missing: libimage-exiftool-perl";
      return {};
    }
    tags.insert(tags.begin(), {"-q", "-m", "-overwrite_original"});
    tags.push_back(path.string());
    ProcessLimits limits;
    const auto ran = run_limited(*exiftool, tags, limits);
    EXPECT_TRUE(ran && ran->code == 0) << (ran ? ran->errors : ran.error().message);
    return read_file(path, 1 << 30).value();
  }

  struct Read {
    PictureFacts facts;
    std::vector<uint8_t> pixels;
  };
  Result<Read> read(const std::string& file, bool facts = true) {
    DecodeOptions options;
    options.processes = pool_.get();
    options.facts = facts;
    Read found;
    SACCADE_TRY(
        decode_for(std::as_bytes(std::span(file)), options, [&](const PictureView& picture) -> Status {
          found.facts = picture.facts;
          found.pixels.assign(picture.image.pixels.begin(), picture.image.pixels.end());
          return {};
        }));
    return found;
  }

  test::TestFolder folder_;
  std::unique_ptr<DecoderPool> pool_;
};

TEST_F(Facts, OfACameraAndOfAPerson) {
  const std::string file =
      jpeg({"-Make=NIKON CORPORATION", "-Model=NIKON D850", "-LensModel=NIKKOR Z 50mm f/1.8 S",
            "-DateTimeOriginal=2024:05:31 23:30:59", "-OffsetTimeOriginal=+02:00", "-GPSLatitude=48.8583",
            "-GPSLatitudeRef=N", "-GPSLongitude=2.2945", "-GPSLongitudeRef=W", "-XMP-xmp:Rating=4",
            "-XMP-dc:Title=The tower", "-XMP-dc:Description=Seen from the river", "-XMP-dc:Subject=Paris",
            "-XMP-dc:Subject=night", "-IPTC:Keywords=Paris", "-IPTC:Keywords=steel"});
  const auto found = read(file);
  ASSERT_TRUE(found) << found.error().message;
  const PictureFacts& facts = found->facts;
  EXPECT_EQ(facts.camera, "NIKON D850");
  EXPECT_EQ(facts.lens, "NIKKOR Z 50mm f/1.8 S");
  EXPECT_EQ(facts.taken, 1'717'198'259);  // 2024-05-31T23:30:59, as if UTC
  EXPECT_EQ(facts.zone_minutes, 120);
  ASSERT_TRUE(facts.latitude && facts.longitude);
  EXPECT_NEAR(*facts.latitude, 48.8583, 1e-6);
  EXPECT_NEAR(*facts.longitude, -2.2945, 1e-6);
  EXPECT_EQ(facts.rating, 4);
  EXPECT_EQ(facts.title, "The tower");
  EXPECT_EQ(facts.description, "Seen from the river");
  EXPECT_THAT(facts.keywords, ElementsAre("Paris", "night", "steel"));
  // The pixels are those of the picture without, and nothing is read where nobody asks.
  const auto plain = read(file, false);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->pixels, found->pixels);
  EXPECT_TRUE(plain->facts.empty());
}

TEST_F(Facts, WhereThereIsOneStandardAlone) {
  const auto iptc =
      read(jpeg({"-IPTC:ObjectName=Harbour", "-IPTC:Caption-Abstract=Boats", "-IPTC:Keywords=sea",
                 "-IPTC:DateCreated=1999:12:31", "-IPTC:TimeCreated=22:15:00+00:00"}));
  ASSERT_TRUE(iptc);
  EXPECT_EQ(iptc->facts.title, "Harbour");
  EXPECT_EQ(iptc->facts.description, "Boats");
  EXPECT_THAT(iptc->facts.keywords, ElementsAre("sea"));
  EXPECT_EQ(iptc->facts.taken, 946'678'500);
  const auto xmp =
      read(tagged("a.png", encode_png(gradient(20, 10)).value(),
                  {"-XMP-exif:DateTimeOriginal=2001-02-03T04:05:06-05:00", "-XMP-tiff:Make=Canon",
                   "-XMP-tiff:Model=EOS R5", "-XMP-exif:GPSLatitude=-33.8568",
                   "-XMP-exif:GPSLongitude=151.2153", "-XMP-xmp:Rating=-1"}));
  ASSERT_TRUE(xmp);
  EXPECT_EQ(xmp->facts.taken, 981'173'106);
  EXPECT_EQ(xmp->facts.zone_minutes, -300);
  EXPECT_EQ(xmp->facts.camera, "Canon EOS R5");
  ASSERT_TRUE(xmp->facts.latitude && xmp->facts.longitude);
  EXPECT_NEAR(*xmp->facts.latitude, -33.8568, 1e-4);
  EXPECT_NEAR(*xmp->facts.longitude, 151.2153, 1e-4);
  EXPECT_EQ(xmp->facts.rating, -1);
  const auto windows =
      read(jpeg({"-XPTitle=Caf\xc3\xa9", "-XPKeywords=one;two", "-ImageDescription=OLYMPUS DIGITAL CAMERA"}));
  ASSERT_TRUE(windows);
  EXPECT_EQ(windows->facts.title, "Caf\xc3\xa9");
  EXPECT_EQ(windows->facts.description, "");
  EXPECT_THAT(windows->facts.keywords, ElementsAre("one", "two"));
}

TEST_F(Facts, ThatCannotBeTrueAreLeftOut) {
  const auto lies =
      read(jpeg({"-DateTimeOriginal#=0000:00:00 00:00:00", "-GPSLatitude#=undef", "-GPSLongitude#=undef",
                 "-GPSLatitudeRef=N", "-GPSLongitudeRef=E", "-Orientation#=9", "-XMP-xmp:Rating=99",
                 "-Make=   ", "-XMP-dc:Title=two\nlines\tand  more"}));
  ASSERT_TRUE(lies) << lies.error().message;
  EXPECT_FALSE(lies->facts.taken);
  EXPECT_FALSE(lies->facts.latitude);
  EXPECT_FALSE(lies->facts.longitude);
  EXPECT_FALSE(lies->facts.rating);
  EXPECT_EQ(lies->facts.camera, "");
  EXPECT_EQ(lies->facts.title, "two lines and more");
  EXPECT_EQ(lies->pixels.size(), 24U * 16 * 3);  // no orientation has the number 9: as stored
  const auto nowhere = read(jpeg({"-GPSLatitude=0", "-GPSLatitudeRef=N", "-GPSLongitude=0",
                                  "-GPSLongitudeRef=E", "-DateTimeOriginal=2023:02:29 12:00:00"}));
  ASSERT_TRUE(nowhere);
  EXPECT_FALSE(nowhere->facts.latitude);
  EXPECT_FALSE(nowhere->facts.taken);
}

// A TIFF by hand: exiftool writes no maker notes of its own. Ten megabytes of them, and a
// count that says four gigabytes.
TEST_F(Facts, MakerNotesOfTenMegabytesCostNoPicture) {
  const auto little = [](uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i, value >>= 8) text.push_back(static_cast<char>(value));
    return text;
  };
  const auto entry = [&](uint64_t tag, uint64_t type, uint64_t count, uint64_t value) {
    return little(tag, 2) + little(type, 2) + little(count, 4) + little(value, 4);
  };
  constexpr uint64_t kNotes = 10'000'000;
  for (const uint64_t count : {kNotes, uint64_t{0xffffffff}}) {
    // Header, 10 entries, pixel, EXIF folder with a maker note and a date.
    const uint64_t pixel = 8 + 2 + 10 * 12 + 4;
    const uint64_t exif = pixel + 4;
    const uint64_t date = exif + 2 + 2 * 12 + 4;
    const uint64_t notes = date + 20;
    std::string file = "II*" + std::string(1, '\0') + little(8, 4) + little(10, 2);
    file += entry(256, 3, 1, 1) + entry(257, 3, 1, 1) + entry(258, 3, 1, 8) + entry(259, 3, 1, 1) +
            entry(262, 3, 1, 1) + entry(273, 4, 1, pixel) + entry(277, 3, 1, 1) + entry(278, 3, 1, 1) +
            entry(279, 4, 1, 1) + entry(0x8769, 4, 1, exif) + little(0, 4);
    file += std::string(4, '\x7f');
    file += little(2, 2) + entry(0x9003, 2, 20, date) + entry(0x927c, 7, count, notes) + little(0, 4);
    file += std::string("2024:05:31 23:30:59") + '\0';
    file += std::string(kNotes, 'x');
    const auto found = read(file);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->pixels.size(), 1U);
    if (count == kNotes) {
      EXPECT_EQ(found->facts.taken, 1'717'198'259);
    }
  }
}

TEST_F(Facts, BrokenAtEveryByteThePictureIsTheSame) {
  const std::string file =
      jpeg({"-Make=Canon", "-Model=Canon EOS R5", "-DateTimeOriginal=2024:05:31 23:30:59",
            "-GPSLatitude=48.8583", "-GPSLatitudeRef=N", "-XMP-dc:Subject=Paris"});
  const auto sound = read(file);
  ASSERT_TRUE(sound);
  // The EXIF segment after its name, as far as its own length says, and none of the other segments.
  const size_t name = file.find("Exif");
  ASSERT_NE(name, std::string::npos);
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(file[i])); };
  const size_t end = name - 2 + (byte(name - 2) << 8 | byte(name - 1));
  int different = 0;
  for (size_t i = name + 6; i < end; ++i) {
    std::string broken = file;
    broken[i] = static_cast<char>(broken[i] ^ 0xff);
    const auto found = read(broken);
    ASSERT_TRUE(found) << "byte " << i << ": " << found.error().message;
    // Only the orientation's bytes could rotate the image, and there are none here.
    EXPECT_EQ(found->pixels, sound->pixels) << "byte " << i;
    different += found->facts == sound->facts ? 0 : 1;
  }
  EXPECT_GT(different, 20);  // it is the metadata that were broken
}

TEST(PlausibleFacts, KeepTextsShortAndReadable) {
  PictureFacts facts;
  facts.taken = INT64_MAX;
  facts.zone_minutes = 60;
  facts.latitude = 91;
  facts.longitude = 10;
  facts.rating = 0;
  facts.title = std::string(10'000, 'a') + "b";
  facts.description = "caf\xe9 \xc3\xa9\x80\xed\xa0\x80 \x1b[2J";
  facts.keywords = std::vector<std::string>(100'000, "again");
  facts.keywords.emplace_back("last");
  facts.keywords.emplace_back(" \n ");
  const PictureFacts kept = plausible(facts);
  EXPECT_FALSE(kept.taken || kept.zone_minutes || kept.latitude || kept.longitude || kept.rating);
  EXPECT_EQ(kept.title.size(), kMaxFactTitle);
  EXPECT_EQ(kept.description, "caf\xc3\xa9 \xc3\xa9 \xc3\xad\xc2\xa0 [2J");
  EXPECT_THAT(kept.keywords, ElementsAre("again", "last"));
  // Over the process's answer and back nothing changes.
  PictureFacts whole = kept;
  whole.taken = -5;
  whole.zone_minutes = -720;
  whole.latitude = -90;
  whole.longitude = 180;
  whole.rating = -1;
  EXPECT_EQ(facts_of(message_of(whole)), whole);
}

}  // namespace
}  // namespace saccade
