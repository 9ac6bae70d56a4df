#include "number.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace saccade::app {
namespace {

template <typename T>
std::optional<T> parse(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Validators answer with what is wrong, or with nothing.
template <typename T, typename Fits>
CLI::Validator number(std::string expected, Fits fits) {
  CLI::Validator validator(
      [expected = std::move(expected), fits](std::string& text) -> std::string {
        const std::optional<T> value = parse<T>(text);
        if (!value || !fits(*value)) return fmt::format("\"{}\", expected {}", text, expected);
        text = fmt::format("{}", *value);  // as CLI11 will read it: no leading zeros, which mean octal
        return "";
      },
      "");
  return validator;
}

}  // namespace

CLI::Validator whole_number(int64_t lowest, int64_t highest) {
  std::string expected = highest == kMostWhole ? fmt::format("a whole number of {} or more", lowest)
                                               : fmt::format("a whole number from {} to {}", lowest, highest);
  return number<int64_t>(std::move(expected),
                         [=](int64_t value) { return value >= lowest && value <= highest; });
}

CLI::Validator real_number(double lowest, double highest, Lowest bound, Highest top) {
  const bool above = bound == Lowest::kExcluded;
  const bool below = top == Highest::kExcluded;
  std::string expected = fmt::format("a number {} {}", above ? "above" : "from", lowest);
  if (highest < std::numeric_limits<double>::max()) {
    expected += fmt::format(" to {}{}", below ? "below " : "", highest);
  }
  return number<double>(std::move(expected), [=](double value) {
    return std::isfinite(value) && (above ? value > lowest : value >= lowest) &&
           (below ? value < highest : value <= highest);
  });
}

}  // namespace saccade::app
