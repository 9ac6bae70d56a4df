#include "saccade/collection/collection_info.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "saccade/image/frame_name.h"

namespace saccade {

Status check_same_checkpoint(const CollectionInfo& collection, const CheckpointId& checkpoint) {
  const CheckpointId& made = collection.checkpoint;
  if (made.fingerprint == checkpoint.fingerprint && made.dim == checkpoint.dim) return {};
  return fail(
      ErrorCode::kMismatch,
      "made with checkpoint \"{}\" (fingerprint {:.12}), cannot be used with \"{}\" (fingerprint {:.12})",
      made.name, made.fingerprint, checkpoint.name, checkpoint.fingerprint);
}

namespace {

namespace fs = std::filesystem;

fs::path normal_path(const fs::path& path) {
  std::error_code error;
  fs::path absolute = fs::absolute(path, error).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();  // "folder/"
}

// With the time of a video frame as frame_name() writes it.
std::string with_frame_name(const fs::path& path) {
  std::error_code error;
  std::string frame = settled_frame_name(path.string());
  return frame == path || fs::exists(path, error) ? path.string() : frame;
}

}  // namespace

std::string catalog_path(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = normal_path(path);
  if (fs::is_directory(absolute, error)) {
    const fs::path resolved = fs::weakly_canonical(absolute, error);
    return error ? absolute.string() : resolved.string();
  }
  const fs::path parent = fs::weakly_canonical(absolute.parent_path(), error);
  return with_frame_name(error ? absolute : parent / absolute.filename());
}

std::vector<std::string> catalog_paths(const fs::path& path) {
  const fs::path absolute = normal_path(path);
  std::vector<std::string> names = {with_frame_name(absolute)};
  const auto add = [&](std::string name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  };
  add(catalog_path(path));
  for (fs::path top = absolute.parent_path(); top.has_relative_path(); top = top.parent_path()) {
    std::error_code error;
    const fs::path resolved = fs::weakly_canonical(top, error);
    if (!error) add(with_frame_name((resolved / absolute.lexically_relative(top)).lexically_normal()));
  }
  return names;
}

}  // namespace saccade
