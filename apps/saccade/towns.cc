#include "towns.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace saccade::app {

std::unique_ptr<Gazetteer> find_towns() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path installed =
      program.parent_path().parent_path() / "share" / "saccade" / "places" / "towns.tsv";
  for (const std::filesystem::path& place : {installed, std::filesystem::path(SACCADE_SOURCE_TOWNS)}) {
    if (std::filesystem::is_regular_file(place, error)) return std::make_unique<Gazetteer>(place);
  }
  return nullptr;
}

bool asks_for(const Filter& filter, std::string_view field) {
  return std::ranges::any_of(filter.conditions, [&](const Filter::Condition& condition) {
    const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
    const std::string_view name(condition.text.begin(), std::ranges::find_if_not(condition.text, is_letter));
    return std::ranges::equal(name, field, {}, [](unsigned char c) { return std::tolower(c); });
  });
}

std::string without_towns(const Filter& filter, bool have_towns) {
  if (have_towns || !asks_for(filter, "place")) return {};
  return "no list of towns is installed to name places by: ./dev build makes it, for pictures indexed after";
}

}  // namespace saccade::app
