#include "saccade/core/files/installed.h"

#include <algorithm>
#include <dlfcn.h>
#include <system_error>

namespace saccade {

std::vector<std::filesystem::path> install_prefixes() {
  std::vector<std::filesystem::path> prefixes;
  const auto add = [&](const std::filesystem::path& folder) {
    if (!folder.empty() && std::ranges::find(prefixes, folder) == prefixes.end()) prefixes.push_back(folder);
  };
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&install_prefixes), &info) != 0 && info.dli_fname != nullptr) {
    const std::filesystem::path library = std::filesystem::canonical(info.dli_fname, error);
    if (!error && library != program) {
      add(library.parent_path().parent_path());                // PREFIX/lib
      add(library.parent_path().parent_path().parent_path());  // PREFIX/lib/x86_64-linux-gnu
    }
  }
  if (!program.empty()) {
    const std::filesystem::path prefix = program.parent_path().parent_path();
    add(prefix);                                                    // PREFIX/bin
    if (prefix.filename() == "libexec") add(prefix.parent_path());  // PREFIX/libexec/saccade
  }
  return prefixes;
}

std::optional<std::filesystem::path> bundled_libraries(const std::string& file,
                                                       const std::vector<std::filesystem::path>& prefixes) {
  std::error_code error;
  for (const std::filesystem::path& prefix : prefixes) {
    std::filesystem::path folder = prefix / "lib/saccade";
    if (std::filesystem::is_regular_file(folder / file, error)) return folder;
  }
  return std::nullopt;
}

}  // namespace saccade
