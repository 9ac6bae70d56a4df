#include "saccade/collection/mounts.h"

#include <filesystem>
#include <sys/stat.h>

#include "saccade/image/frame_name.h"

namespace saccade {

const Mounts::Folder& Mounts::nearest(const std::string& path) {
  const auto [found, fresh] = folders_.try_emplace(path);
  Folder& folder = found->second;
  if (!fresh) return folder;
  struct stat info {};
  const std::string above = std::filesystem::path(path).parent_path().string();
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    folder = {path, static_cast<int64_t>(info.st_dev)};
  } else if (!above.empty() && above != path) {
    folder = nearest(above);  // references into an unordered_map stay valid
  }
  return folder;
}

std::string Mounts::lost_below(const Item& item) {
  if (item.file.folder_device == 0) return {};
  const Folder& folder = nearest(std::filesystem::path(file_of(item.path)).parent_path().string());
  if (folder.device == item.file.folder_device) return {};
  return renumbered_.contains({item.file.folder_device, folder.device}) ? std::string() : folder.path;
}

}  // namespace saccade
