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
  if (!program.empty()) add(program.parent_path().parent_path());
  return prefixes;
}

}  // namespace saccade
