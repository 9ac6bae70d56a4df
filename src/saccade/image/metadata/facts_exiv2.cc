// EXIF, XMP and IPTC by Exiv2 (https://exiv2.org/tags.html has the keys). Part of saccade-decode alone.
//
// A value may be stored in several places; the more deliberate one wins. The order of texts is XMP, which
// people and their editors write, then IPTC, then EXIF. The order of dates is EXIF, which the camera writes,
// then XMP, then IPTC.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <exception>
#include <string_view>

#include "saccade/core/ascii.h"
#include "saccade/core/files/take_text.h"
#include "saccade/image/metadata/facts.h"

#include <exiv2/exiv2.hpp>

namespace saccade {
namespace {

// "+02:00", "-0530", "Z"
std::optional<int> parse_zone(std::string_view text) {
  if (text.starts_with('Z')) return 0;
  if (text.empty() || (text[0] != '+' && text[0] != '-')) return std::nullopt;
  const int sign = text[0] == '-' ? -1 : 1;
  text.remove_prefix(1);
  const auto hours = take_digits(text, 2);
  take_any(text, ":");
  const auto minutes = take_digits(text, 2);
  if (!hours || !minutes || *minutes > 59) return std::nullopt;
  return sign * (*hours * 60 + *minutes);
}

struct Moment {
  int64_t taken = 0;
  std::optional<int> zone_minutes;
};

// Parses EXIF's "2024:05:31 23:30:59", XMP's "2024-05-31T23:30:59.25+02:00" and the less exact "2024-05-31".
// Returns `nullopt` for an invalid day: cameras without a clock write zeros and spaces.
std::optional<Moment> parse_moment(std::string_view text) {
  using namespace std::chrono;
  const auto y = take_digits(text, 4);
  if (!y || !take_any(text, ":-")) return std::nullopt;
  const auto m = take_digits(text, 2);
  if (!m || !take_any(text, ":-")) return std::nullopt;
  const auto d = take_digits(text, 2);
  if (!d) return std::nullopt;
  const year_month_day day = year(*y) / *m / *d;
  if (!day.ok()) return std::nullopt;
  Moment moment{sys_seconds(sys_days(day)).time_since_epoch().count(), std::nullopt};
  if (!take_any(text, " T")) return moment;
  const auto hour = take_digits(text, 2);
  if (!hour || *hour > 23 || !take_any(text, ":")) return moment;
  const auto minute = take_digits(text, 2);
  if (!minute || *minute > 59) return moment;
  moment.taken += *hour * 3600 + *minute * 60;
  if (take_any(text, ":")) {
    const auto second = take_digits(text, 2);
    if (second && *second <= 60) moment.taken += *second;
    if (take_any(text, ".")) text.remove_prefix(std::min(text.find_first_not_of("0123456789"), text.size()));
  }
  moment.zone_minutes = parse_zone(text);
  return moment;
}

// Returns true for placeholder texts that cameras write into every image's description.
bool is_filler(std::string_view text) {
  constexpr std::array<std::string_view, 8> kFiller = {"OLYMPUS DIGITAL CAMERA",
                                                       "OLYMPUS CAMERA",
                                                       "SONY DSC",
                                                       "SAMSUNG CAMERA PICTURES",
                                                       "Exif_JPEG_PICTURE",
                                                       "KODAK Digital Still Camera",
                                                       "MINOLTA DIGITAL CAMERA",
                                                       "default"};
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  return std::ranges::find(kFiller, text) != kFiller.end();
}

class Reader {
 public:
  explicit Reader(Exiv2::Image& image)
      : exif_(image.exifData()), xmp_(image.xmpData()), iptc_(image.iptcData()) {}

  PictureFacts read() {
    PictureFacts facts;
    read_moment(facts);
    facts.camera = camera();
    facts.lens =
        first({exif("Photo", 0xa434), xmp("Xmp.exifEX.LensModel"), xmp("Xmp.aux.Lens"), maker_lens()});
    read_place(facts);
    read_rating(facts);
    facts.title =
        first({xmp("Xmp.dc.title"), iptc("Iptc.Application2.ObjectName"), printed("Image", 0x9c9b)});
    std::string described = exif("Image", 0x010e);
    if (is_filler(described)) described.clear();
    facts.description = first(
        {xmp("Xmp.dc.description"), iptc("Iptc.Application2.Caption"), described, printed("Image", 0x9c9c)});
    read_keywords(facts);
    return facts;
  }

 private:
  static std::string first(std::initializer_list<std::string> texts) {
    for (const std::string& text : texts) {
      if (text.find_first_not_of(std::string_view(" \0\t\r\n", 5)) != std::string::npos) return text;
    }
    return {};
  }

  // Finds a tag by number: not every version of Exiv2 has a name for every tag.
  [[nodiscard]] const Exiv2::Exifdatum* find(std::string_view group, uint16_t tag) const {
    for (const Exiv2::Exifdatum& datum : exif_) {
      if (datum.tag() == tag && datum.groupName() == group && datum.count() > 0) return &datum;
    }
    return nullptr;
  }
  [[nodiscard]] std::string exif(std::string_view group, uint16_t tag) const {
    const Exiv2::Exifdatum* datum = find(group, tag);
    return datum == nullptr || datum->size() > 65'536 ? std::string() : datum->toString();
  }
  // Returns Exiv2's text for people: Windows' own tags are bytes of UTF-16.
  [[nodiscard]] std::string printed(std::string_view group, uint16_t tag) const {
    const Exiv2::Exifdatum* datum = find(group, tag);
    return datum == nullptr || datum->size() > 65'536 ? std::string() : datum->print(&exif_);
  }
  [[nodiscard]] std::string xmp(const char* key) const {
    const auto found = xmp_.findKey(Exiv2::XmpKey(key));
    return found == xmp_.end() || found->count() == 0 ? std::string() : found->toString(0);
  }
  [[nodiscard]] std::string iptc(const char* key) const {
    const auto found = iptc_.findKey(Exiv2::IptcKey(key));
    return found == iptc_.end() ? std::string() : found->toString();
  }

  void read_moment(PictureFacts& facts) const {
    constexpr std::array<std::pair<uint16_t, uint16_t>, 2> kTags = {{{0x9003, 0x9011}, {0x9004, 0x9012}}};
    std::optional<Moment> moment;
    for (const auto& [date, zone] : kTags) {
      if (moment) break;
      moment = parse_moment(exif("Photo", date));
      if (moment && !moment->zone_minutes) moment->zone_minutes = parse_zone(exif("Photo", zone));
    }
    for (const char* key : {"Xmp.exif.DateTimeOriginal", "Xmp.photoshop.DateCreated", "Xmp.xmp.CreateDate"}) {
      if (!moment) moment = parse_moment(xmp(key));
    }
    if (!moment) {
      const std::string day = iptc("Iptc.Application2.DateCreated");
      const std::string time = iptc("Iptc.Application2.TimeCreated");
      moment = parse_moment(time.empty() ? day : day + "T" + time);
    }
    if (!moment) return;
    facts.taken = moment->taken;
    facts.zone_minutes = moment->zone_minutes;
  }

  [[nodiscard]] std::string camera() const {
    const auto trimmed = [](std::string text) {
      while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.pop_back();
      return text;
    };
    const std::string make = trimmed(first({exif("Image", 0x010f), xmp("Xmp.tiff.Make")}));
    const std::string model = trimmed(first({exif("Image", 0x0110), xmp("Xmp.tiff.Model")}));
    if (make.empty() || model.empty()) return make + model;
    // "NIKON CORPORATION" makes the "NIKON D850", "Canon" the "Canon EOS R5": said once.
    const std::string word = make.substr(0, make.find(' '));
    return starts_in_any_case(model, word) ? model : make + " " + model;
  }

  // From the maker's own notes, whose numbers Exiv2 knows the names of.
  [[nodiscard]] std::string maker_lens() const {
    const auto found = Exiv2::lensName(exif_);
    if (found == exif_.end() || found->size() > 65'536) return {};
    std::string name = found->print(&exif_);
    // A number in brackets is one that it does not know.
    return name.starts_with('(') ? std::string() : name;
  }

  // Degrees, minutes and seconds as rationals; those that are missing are zero,
  // a zero below one makes it none.
  [[nodiscard]] std::optional<double> degrees(uint16_t tag, uint16_t side, char negative) const {
    const Exiv2::Exifdatum* datum = find("GPSInfo", tag);
    if (datum == nullptr || datum->typeId() != Exiv2::unsignedRational) return std::nullopt;
    double value = 0;
    double part = 1;
    for (int i = 0; i < 3 && i < static_cast<int>(datum->count()); ++i, part *= 60) {
      const Exiv2::Rational rational = datum->toRational(i);
      const auto above = static_cast<uint32_t>(rational.first);
      const auto below = static_cast<uint32_t>(rational.second);
      if (below == 0 && (i == 0 || above != 0)) return std::nullopt;
      if (below != 0) value += static_cast<double>(above) / below / part;
    }
    return exif("GPSInfo", side).starts_with(negative) ? -value : value;
  }

  // XMP's "48,51.5028N" and "48,51,30N".
  static std::optional<double> parse_degrees(std::string_view text) {
    double value = 0;
    double part = 1;
    for (int i = 0; i < 3; ++i, part *= 60) {
      double number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc()) return std::nullopt;
      value += number / part;
      text.remove_prefix(static_cast<size_t>(end - text.data()));
      if (!take_any(text, ",")) break;
    }
    if (text == "S" || text == "W") return -value;
    return text == "N" || text == "E" ? std::optional(value) : std::nullopt;
  }

  void read_place(PictureFacts& facts) const {
    facts.latitude = degrees(0x0002, 0x0001, 'S');
    facts.longitude = degrees(0x0004, 0x0003, 'W');
    if (facts.latitude && facts.longitude) return;
    facts.latitude = parse_degrees(xmp("Xmp.exif.GPSLatitude"));
    facts.longitude = parse_degrees(xmp("Xmp.exif.GPSLongitude"));
  }

  void read_rating(PictureFacts& facts) const {
    for (const std::string& text : {xmp("Xmp.xmp.Rating"), exif("Image", 0x4746)}) {
      double stars = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), stars);
      if (error != std::errc() || !(std::abs(stars) <= 5)) continue;
      facts.rating = static_cast<int>(std::lround(stars));
      return;
    }
  }

  void read_keywords(PictureFacts& facts) const {
    constexpr long kMost = 1000;
    const auto found = xmp_.findKey(Exiv2::XmpKey("Xmp.dc.subject"));
    if (found != xmp_.end()) {
      for (long i = 0; i < std::min<long>(static_cast<long>(found->count()), kMost); ++i) {
        facts.keywords.push_back(found->toString(i));
      }
    }
    for (const Exiv2::Iptcdatum& datum : iptc_) {
      if (datum.record() == Exiv2::IptcDataSets::application2 &&
          datum.tag() == Exiv2::IptcDataSets::Keywords && static_cast<long>(facts.keywords.size()) < kMost) {
        facts.keywords.push_back(datum.toString());
      }
    }
    const std::string windows = printed("Image", 0x9c9e);
    for (size_t begin = 0; begin < windows.size();) {
      const size_t end = std::min(windows.find(';', begin), windows.size());
      facts.keywords.push_back(windows.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  const Exiv2::ExifData& exif_;
  const Exiv2::XmpData& xmp_;
  const Exiv2::IptcData& iptc_;
};

}  // namespace

PictureFacts read_facts(std::span<const std::byte> file) {
  try {
    Exiv2::LogMsg::setLevel(Exiv2::LogMsg::mute);
#if !EXIV2_TEST_VERSION(0, 28, 0)
#ifdef EXV_ENABLE_BMFF
    Exiv2::enableBMFF(true);
#endif
    using Size = long;
#else
    using Size = size_t;
#endif
    const auto image = Exiv2::ImageFactory::open(reinterpret_cast<const Exiv2::byte*>(file.data()),
                                                 static_cast<Size>(file.size()));
    if (image.get() == nullptr) return {};
    image->readMetadata();
    return plausible(Reader(*image).read());
  } catch (const std::exception&) {  // a kind that it does not know, or metadata that are no such
    return {};
  } catch (...) {
    return {};
  }
}

}  // namespace saccade
