#include "saccade/image/frame_name.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "saccade/core/ascii.h"

namespace saccade {
namespace {

constexpr std::string_view kTime = "#t=";

// Reads "s" or "s.fraction" as milliseconds; digits after the third decimal are cut off.
std::optional<int64_t> parse_time(std::string_view text) {
  constexpr size_t kMostDigits = 12;
  const auto is_number = [](std::string_view digits) {
    return !digits.empty() && digits.size() <= kMostDigits &&
           digits.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  std::string decimals(text.substr(std::min(point + 1, text.size())));
  if (!is_number(digits) || (point < text.size() && !is_number(decimals))) return std::nullopt;
  decimals.resize(3, '0');
  digits += decimals;
  int64_t milliseconds = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), milliseconds);
  return milliseconds;
}

}  // namespace

bool has_video_extension(const std::filesystem::path& path) {
  static constexpr std::array<std::string_view, 15> kEndings = {".3gp", ".asf", ".avi", ".flv",  ".m2ts",
                                                                ".m4v", ".mkv", ".mov", ".mp4",  ".mpeg",
                                                                ".mpg", ".mts", ".ogv", ".webm", ".wmv"};
  const std::string ending = lower_ascii(path.extension().string());
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

std::string frame_fragment(int64_t milliseconds) {
  return fmt::format("{}{}.{:03}", kTime, milliseconds / 1000, milliseconds % 1000);
}

std::string frame_name(std::string_view file, int64_t milliseconds) {
  return std::string(file) + frame_fragment(milliseconds);
}

std::optional<FrameName> read_frame_name(std::string_view name) {
  const size_t at = name.rfind(kTime);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view time = name.substr(at + kTime.size());
  constexpr size_t kDecimals = 4;  // with their point
  constexpr size_t kMostDigits = 12;
  if (time.size() <= kDecimals || time.size() > kMostDigits + kDecimals) return std::nullopt;
  int64_t seconds = 0;
  int64_t thousandths = 0;
  const std::string_view whole = time.substr(0, time.size() - kDecimals);
  const std::string_view rest = time.substr(whole.size() + 1);
  std::from_chars(whole.data(), whole.data() + whole.size(), seconds);
  std::from_chars(rest.data(), rest.data() + rest.size(), thousandths);
  FrameName frame{std::string(name.substr(0, at)), seconds * 1000 + thousandths};
  // Written back it must be the same: one name a frame.
  if (seconds < 0 || thousandths < 0 || frame_name(frame.file, frame.milliseconds) != name)
    return std::nullopt;
  if (!has_video_extension(frame.file)) return std::nullopt;
  return frame;
}

std::string settled_frame_name(std::string_view name) {
  const size_t at = name.rfind(kTime);
  if (at == std::string_view::npos || !has_video_extension(std::string(name.substr(0, at))))
    return std::string(name);
  const auto milliseconds = parse_time(name.substr(at + kTime.size()));
  return milliseconds ? frame_name(name.substr(0, at), *milliseconds) : std::string(name);
}

std::string file_of(std::string_view path) {
  auto frame = read_frame_name(path);
  return frame ? std::move(frame->file) : std::string(path);
}

std::optional<double> second_of(std::string_view path) {
  const auto frame = read_frame_name(path);
  return frame ? std::optional(static_cast<double>(frame->milliseconds) / 1000) : std::nullopt;
}

std::string time_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::floor(seconds));
  const int64_t minutes = whole / 60;
  if (minutes < 60) return fmt::format("{}:{:02}", minutes, whole % 60);
  return fmt::format("{}:{:02}:{:02}", minutes / 60, minutes % 60, whole % 60);
}

std::string shown_name(std::string_view path) {
  const auto frame = read_frame_name(path);
  if (!frame) return std::string(path);
  return fmt::format("{} at {}", frame->file, time_text(static_cast<double>(frame->milliseconds) / 1000));
}

}  // namespace saccade
