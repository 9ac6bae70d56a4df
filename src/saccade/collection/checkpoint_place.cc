#include "saccade/collection/checkpoint_place.h"

#include "saccade/collection/catalog/store.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/files/files.h"

namespace saccade {

Status remember_checkpoint(const std::filesystem::path& collection, const CheckpointId& checkpoint) {
  // A vector database is used from many hosts, which have their checkpoints at other places.
  if (weaviate::is_address(collection)) return {};
  const auto remembered = [&]() -> Status {
    const std::filesystem::path files = store::files_of(collection);
    SACCADE_ASSIGN(CollectionInfo info, store::read_info(files));
    SACCADE_TRY(check_same_checkpoint(info, checkpoint));
    if (info.checkpoint.path == checkpoint.path && info.checkpoint.name == checkpoint.name) return {};
    SACCADE_ASSIGN(const Descriptor lock, lock_file(files / store::kLockName, "writing to this collection"));
    SACCADE_ASSIGN(info, store::read_info(files));
    info.checkpoint.path = checkpoint.path;
    info.checkpoint.name = checkpoint.name;
    return store::write_info(files, info);
  };
  return remembered().in("remember the checkpoint's place");
}

}  // namespace saccade
