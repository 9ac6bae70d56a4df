#include "saccade/collection/collection_info.h"

#include <system_error>

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

std::string catalog_path(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error).lexically_normal();
  if (!absolute.has_filename()) absolute = absolute.parent_path();  // "folder/"
  if (std::filesystem::is_directory(absolute, error)) {
    const std::filesystem::path resolved = std::filesystem::weakly_canonical(absolute, error);
    return error ? absolute.string() : resolved.string();
  }
  const std::filesystem::path parent = std::filesystem::weakly_canonical(absolute.parent_path(), error);
  const std::string name = error ? absolute.string() : (parent / absolute.filename()).string();
  std::string frame = settled_frame_name(name);
  return frame == name || std::filesystem::exists(name, error) ? name : frame;
}

}  // namespace saccade
