#include "towns.h"

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

}  // namespace saccade::app
