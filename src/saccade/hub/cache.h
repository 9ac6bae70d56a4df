// The hub's own cache folder, as huggingface_hub keeps it,
// so that files are shared with every tool that uses it:
//
//   models--OWNER--NAME/blobs/HASH             contents, by git's SHA-1 or SHA-256 (content_hash.h)
//   models--OWNER--NAME/blobs/HASH.incomplete  a download not finished
//   models--OWNER--NAME/refs/REVISION          the commit that a branch or tag stood for, 40 digits
//   models--OWNER--NAME/snapshots/COMMIT/FILE  relative links to ../../blobs/HASH
//   .locks/models--OWNER--NAME/HASH.lock       flock held while HASH is downloaded or linked
//
// A snapshot's folder is a checkpoint as the rest of the program reads them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/hub/name.h"

namespace saccade::hub {

// Where everything of one model is. Names come from parse_model_name, hashes from hash_kind's check.
class ModelFolder {
 public:
  ModelFolder(const std::filesystem::path& cache, const ModelName& name);

  [[nodiscard]] std::filesystem::path blob(const std::string& hash) const;
  [[nodiscard]] std::filesystem::path incomplete(const std::string& hash) const;
  [[nodiscard]] std::filesystem::path lock(const std::string& hash) const;
  [[nodiscard]] std::filesystem::path snapshot(const std::string& commit) const;
  [[nodiscard]] std::filesystem::path ref(const std::string& revision) const;
  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }

  // Makes the folders that downloads go to.
  Status create() const;
  // snapshots/COMMIT/FILE as a link to the blob, in place of whatever is there. `file` is a plain name.
  Status link(const std::string& commit, const std::string& file, const std::string& hash) const;
  // refs/REVISION; nothing where the revision is the commit itself.
  Status write_ref(const std::string& revision, const std::string& commit) const;

 private:
  std::filesystem::path cache_;
  std::filesystem::path folder_;
  std::string name_;  // models--OWNER--NAME
};

struct CachedModel {
  ModelName name;  // without a revision
  std::string commit;
  std::vector<std::string> revisions;  // branches and tags that stand for the commit here; sorted
  std::filesystem::path path;          // the snapshot

  // How to name it with -m: without a revision where that is the default one.
  [[nodiscard]] std::string text() const;
};

// The snapshot of a model, by its revision's ref here, or by commit. kNotFound where there is none, with what
// there is of the model instead. Whether all of its files are there is missing_files' question.
Result<CachedModel> find_cached(const std::filesystem::path& cache, const ModelName& name);
// Every snapshot of every model, by name. An empty list where there is no cache.
Result<std::vector<CachedModel>> list_cached(const std::filesystem::path& cache);
// Which model a snapshot's folder in some cache belongs to, by its path alone; kNotFound for other paths.
Result<ModelName> model_of_snapshot(const std::filesystem::path& path);

}  // namespace saccade::hub
