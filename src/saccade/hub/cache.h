// The hub's cache folder in the layout of huggingface_hub, so that files are shared with every tool that uses
// it:
//
//   models--OWNER--NAME/blobs/HASH             contents, by git's SHA-1 or SHA-256 (content_hash.h)
//   models--OWNER--NAME/blobs/HASH.incomplete  a download not finished
//   models--OWNER--NAME/refs/REVISION          the commit that a branch or tag stood for, 40 digits
//   models--OWNER--NAME/snapshots/COMMIT/FILE  relative links to ../../blobs/HASH
//   .locks/models--OWNER--NAME/HASH.lock       flock held while HASH is downloaded or linked
//
// A snapshot's folder is a checkpoint in the form that the rest of the program reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/hub/name.h"

namespace saccade::hub {

// Paths of one model's files. Names come from parse_model_name; hashes are checked by hash_kind.
class ModelFolder {
 public:
  ModelFolder(const std::filesystem::path& cache, const ModelName& name);

  [[nodiscard]] std::filesystem::path blob(const std::string& hash) const;
  [[nodiscard]] std::filesystem::path incomplete(const std::string& hash) const;
  [[nodiscard]] std::filesystem::path lock(const std::string& hash) const;
  [[nodiscard]] std::filesystem::path snapshot(const std::string& commit) const;
  [[nodiscard]] std::filesystem::path ref(const std::string& revision) const;
  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }

  // Creates the folders that downloads go to.
  Status create() const;
  // Creates snapshots/COMMIT/FILE as a link to the blob, replacing any existing file. `file` is a plain name.
  Status link(const std::string& commit, const std::string& file, const std::string& hash) const;
  // Writes refs/REVISION; does nothing if the revision is the commit itself.
  Status write_ref(const std::string& revision, const std::string& commit) const;

 private:
  std::filesystem::path cache_;
  std::filesystem::path folder_;
  std::string name_;  // models--OWNER--NAME
};

struct CachedModel {
  ModelName name;  // without a revision
  std::string commit;
  std::vector<std::string> revisions;  // branches and tags that refer to this commit; sorted
  std::filesystem::path path;          // the snapshot

  // Returns the name for -m, without the revision if it is the default one.
  [[nodiscard]] std::string text() const;
};

// Finds the snapshot of a model by its local revision ref, or by commit. Returns kNotFound with the available
// snapshots of the model if there is none. Does not check that all files are present; see missing_files.
Result<CachedModel> find_cached(const std::filesystem::path& cache, const ModelName& name);
// Lists the snapshots of all models, by name. The list is empty if there is no cache.
Result<std::vector<CachedModel>> list_cached(const std::filesystem::path& cache);
// Returns the model of a snapshot folder in any cache, from its path alone; kNotFound for other paths.
Result<ModelName> model_of_snapshot(const std::filesystem::path& path);

}  // namespace saccade::hub
