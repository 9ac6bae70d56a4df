#include "saccade/collection/ingest/mounts.h"

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

void Mounts::note_unchanged(int64_t recorded, int64_t now) {
  if (recorded != now) ++unchanged_[{recorded, now}];
}

int64_t Mounts::unchanged_across(const DeviceChange& change) const {
  const auto found = unchanged_.find(change);
  return found == unchanged_.end() ? 0 : found->second;
}

Mounts::Lost Mounts::lost_below(const Item& item) {
  const int64_t recorded = item.file.folder_device;
  if (recorded == 0) return {};
  const Folder& folder = nearest(std::filesystem::path(file_of(item.path)).parent_path().string());
  if (folder.device == recorded) return {};
  return {folder.path, {recorded, folder.device}};
}

}  // namespace saccade
