// What a picture's file says of itself in EXIF, XMP and IPTC: when, where and with
// what it was taken, and its words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace saccade {

// None of it is to be trusted: cameras without a clock, editors that guess, people who lie. What
// cannot be true (a day that no calendar has, a latitude of 200) is left out; texts are UTF-8, on one
// line, and cut where they are long.
struct PictureFacts {
  // The clock on the wall where it was taken, as seconds since 1970 as if that clock were UTC: "2024-05-31
  // 23:30" is of that day whatever the zone.
  std::optional<int64_t> taken;
  std::optional<int> zone_minutes;  // of that clock, east of UTC, where the file says so
  std::string camera;               // maker and model, the maker said once: "Canon EOS R5", "NIKON D850"
  std::string lens;
  std::optional<double> latitude;  // degrees north, WGS 84; both or none
  std::optional<double> longitude;
  std::optional<int> rating;  // 1 to 5 stars; -1: rejected. 0, not rated, is left out
  std::string title;
  std::string description;
  std::vector<std::string> keywords;  // each once, in the file's order

  friend bool operator==(const PictureFacts&, const PictureFacts&) = default;
  [[nodiscard]] bool empty() const { return *this == PictureFacts{}; }
};

// Bytes of each text; keywords together.
inline constexpr size_t kMaxFactName = 127;  // camera, lens
inline constexpr size_t kMaxFactTitle = 511;
inline constexpr size_t kMaxFactText = 2047;  // description, keywords

// `facts` with all that cannot be true or is too long taken out of it, whoever it comes from.
PictureFacts plausible(PictureFacts facts);

// Reads them, in the process that decodes (facts_exiv2.cc). What cannot be read is left out. Throws nothing.
using ReadFacts = PictureFacts (*)(std::span<const std::byte> file);
PictureFacts read_facts(std::span<const std::byte> file);

}  // namespace saccade
