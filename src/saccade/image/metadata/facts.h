// Embedded metadata of an image file (EXIF, XMP and IPTC): time, place, camera, and texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace saccade {

// Embedded metadata. They are untrusted: cameras lack clocks, editors guess, and people lie. Impossible
// values (a day that no calendar has, a latitude of 200) are dropped. Texts are UTF-8, on one line, and
// truncated if they are long.
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

// Returns true if an image can have been taken at that time: from 1826, of which the first photograph is, to 2199.
bool is_plausible_time(int64_t taken);
// Returns `facts` without values that are impossible or too long, whatever their source.
PictureFacts plausible(PictureFacts facts);

// Function that reads them, in the process that decodes (facts_exiv2.cc). Unreadable values are dropped.
// Throws nothing.
using ReadFacts = PictureFacts (*)(std::span<const std::byte> file);
PictureFacts read_facts(std::span<const std::byte> file);

}  // namespace saccade
