#include "saccade/search/composed/collection_composer.h"

#include <system_error>

#include "saccade/core/files/files.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

fs::path composer_file(const fs::path& collection) {
  return collection / kCollectionComposerFile;
}

}  // namespace

Result<std::shared_ptr<Composer>> open_composer_for(const CollectionReader& collection,
                                                    const fs::path& composer, const BackendOptions& options) {
  SACCADE_ASSIGN(std::shared_ptr<Composer> opened, Composer::open(composer, options));
  const std::string& wanted = opened->config().encoder.fingerprint;
  const CheckpointId& there = collection.info().checkpoint;
  if (wanted != there.fingerprint) {
    return fail(
        ErrorCode::kMismatch,
        "composer {}: it was trained on {} (fingerprint {}), the collection's rows are from {} (fingerprint {}); "
        "index the images with the composer's encoder",
        composer.string(), opened->config().encoder.name, wanted.substr(0, 16), there.name,
        there.fingerprint.substr(0, 16));
  }
  return opened;
}

Status name_composer(const CollectionReader& collection, const fs::path& composer,
                     const BackendOptions& options) {
  if (collection.index() != nullptr) {
    return fail(ErrorCode::kUnsupported, "{}: a vector database names no composer: name one with each search",
                collection.folder().string());
  }
  SACCADE_ASSIGN(const std::shared_ptr<Composer> opened, open_composer_for(collection, composer, options));
  std::error_code error;
  const fs::path absolute = fs::absolute(composer, error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", composer.string(), error.message());
  const Json json = {{"path", absolute.lexically_normal().string()},
                     {"fingerprint", opened->fingerprint()},
                     {"kind", opened->config().kind}};
  return write_file_atomic(composer_file(collection.folder()), dump_json(json, 2) + "\n");
}

Status forget_composer(const fs::path& collection) {
  std::error_code error;
  fs::remove(composer_file(collection), error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", composer_file(collection).string(), error.message());
  return {};
}

Result<std::shared_ptr<Composer>> open_collection_composer(const CollectionReader& collection,
                                                           const BackendOptions& options) {
  if (collection.index() != nullptr) return std::shared_ptr<Composer>();
  const fs::path file = composer_file(collection.folder());
  std::error_code error;
  if (!fs::exists(file, error)) return std::shared_ptr<Composer>();
  const auto open = [&]() -> Result<std::shared_ptr<Composer>> {
    SACCADE_ASSIGN(const Json json, read_json(file));
    SACCADE_ASSIGN(const auto path, json_field<std::string>(json, "path"));
    SACCADE_ASSIGN(const auto fingerprint, json_field<std::string>(json, "fingerprint"));
    SACCADE_ASSIGN(std::shared_ptr<Composer> opened, open_composer_for(collection, path, options));
    if (opened->fingerprint() != fingerprint) {
      return fail(ErrorCode::kMismatch,
                  "the composer in {} is another one by now (fingerprint {}, named was {}): name it again",
                  path, opened->fingerprint().substr(0, 16), fingerprint.substr(0, 16));
    }
    return opened;
  };
  return open().in(file.string());
}

}  // namespace saccade
