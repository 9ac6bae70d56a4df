#include "saccade/image/metadata/facts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace saccade {
namespace {

// The bytes of the UTF-8 character that `text` begins with, 0 where it begins with none.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t count = byte(0) < 0x80   ? 1
                       : byte(0) < 0xc2 ? 0
                       : byte(0) < 0xe0 ? 2
                       : byte(0) < 0xf0 ? 3
                       : byte(0) < 0xf5 ? 4
                                        : 0;
  if (count == 0 || count > text.size()) return 0;
  for (size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies past U+10FFFF.
  if ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) >= 0xa0) ||
      (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) >= 0x90)) {
    return 0;
  }
  return count;
}

// On one line, spaces once, at most `most` bytes, cut between characters. Bytes that are not UTF-8 are read
// as Latin-1, which is what old cameras and editors wrote.
std::string clean_text(std::string_view text, size_t most) {
  std::string clean;
  bool space = false;
  for (size_t i = 0; i < text.size();) {
    const size_t count = character_bytes(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    std::string character;
    if (count == 0) {
      character = {static_cast<char>(0xc0 | (byte >> 6)), static_cast<char>(0x80 | (byte & 0x3f))};
    } else {
      character = text.substr(i, count);
    }
    i += std::max<size_t>(count, 1);
    const bool control = (count == 1 && (byte <= ' ' || byte == 0x7f)) ||
                         (character[0] == '\xc2' && static_cast<unsigned char>(character[1]) < 0xa0);
    if (control) {
      space = !clean.empty();
      continue;
    }
    if (clean.size() + character.size() + (space ? 1 : 0) > most) break;
    if (space) clean += ' ';
    space = false;
    clean += character;
  }
  return clean;
}

}  // namespace

bool is_plausible_time(int64_t taken) {
  // Dates of cameras without a clock (1970, 2000-01-01) are plausible too.
  constexpr int64_t kFirst = -4'544'208'000;  // 1826-01-01
  constexpr int64_t kLast = 7'258'118'400;    // 2200-01-01
  return taken >= kFirst && taken < kLast;
}

PictureFacts plausible(PictureFacts facts) {
  if (facts.taken && !is_plausible_time(*facts.taken)) facts.taken.reset();
  // From UTC-12 to UTC+14.
  if (!facts.taken || (facts.zone_minutes && (*facts.zone_minutes < -720 || *facts.zone_minutes > 840))) {
    facts.zone_minutes.reset();
  }
  const bool place = facts.latitude && facts.longitude && std::isfinite(*facts.latitude) &&
                     std::isfinite(*facts.longitude) && std::abs(*facts.latitude) <= 90 &&
                     std::abs(*facts.longitude) <= 180 &&
                     (*facts.latitude != 0 || *facts.longitude != 0);  // what receivers without a fix say
  if (!place) {
    facts.latitude.reset();
    facts.longitude.reset();
  }
  if (facts.rating && (*facts.rating < -1 || *facts.rating == 0 || *facts.rating > 5)) facts.rating.reset();
  facts.camera = clean_text(facts.camera, kMaxFactName);
  facts.lens = clean_text(facts.lens, kMaxFactName);
  facts.title = clean_text(facts.title, kMaxFactTitle);
  facts.description = clean_text(facts.description, kMaxFactText);
  if (facts.description == facts.title) facts.description.clear();
  std::vector<std::string> keywords;
  std::set<std::string> seen;
  size_t bytes = 0;
  for (const std::string& raw : facts.keywords) {
    std::string keyword = clean_text(raw, kMaxFactName);
    if (keyword.empty() || !seen.insert(keyword).second) continue;
    bytes += keyword.size() + 1;
    if (bytes > kMaxFactText) break;
    keywords.push_back(std::move(keyword));
  }
  facts.keywords = std::move(keywords);
  return facts;
}

}  // namespace saccade
