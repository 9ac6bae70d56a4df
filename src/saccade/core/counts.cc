#include "saccade/core/counts.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

namespace saccade {

std::string count_text(int64_t count) {
  const std::string digits = fmt::format("{}", count);
  const size_t first = count < 0 ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string rate_text(double rate) {
  constexpr double kFirstWhole = 999.95;  // is "1000" in four digits
  constexpr double kTooLarge = 9e18;
  if (!(std::abs(rate) >= kFirstWhole && std::abs(rate) < kTooLarge)) return fmt::format("{:.4g}", rate);
  return count_text(std::llround(rate));
}

std::string counted(int64_t count, std::string_view singular) {
  return fmt::format("{} {}{}", count_text(count), singular, count == 1 ? "" : "s");
}

std::string size_text(int64_t bytes) {
  if (bytes < 1000) return counted(bytes, "byte");
  constexpr std::array<std::string_view, 4> kUnits = {"kB", "MB", "GB", "TB"};
  auto size = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (size >= 999.95 && unit + 1 < kUnits.size()) {
    size /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

}  // namespace saccade
