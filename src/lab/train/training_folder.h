// The folder of a training: it identifies the training, and locks it for one process at a time.
//
// run.json describes the training: options, and hashes of all data that it reads. A training with the same
// description resumes; another one is refused. Nothing is written before that is known. Internal to the
// module.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"

namespace saccade::lab {

class TrainingFolder {
 public:
  // Opens a folder without writing. A folder with a training of this `kind` (run.json's "kind") is locked for
  // the life of the object, except in a dry run, which never writes. Errors: kMismatch for a run.json of
  // something else; kCancelled if another process trains into it. kUsage for a folder without run.json that holds
  // files other than `cache` (which may lie elsewhere) and the remains of an interrupted start.
  static Result<TrainingFolder> open(const std::filesystem::path& path, std::string_view kind,
                                     const std::filesystem::path& cache, bool dry_run);

  // Returns kMismatch if the training in the folder differs in any value of `part` of a description, naming
  // both values. Writes nothing.
  [[nodiscard]] Status check(const Json& part) const;
  // Checks a whole description: neither may have fields that the other lacks.
  [[nodiscard]] Status check_whole(const Json& description) const;
  // Makes the folder, locks it and writes run.json, unless that was done before. Checks again if another
  // process was faster.
  Status claim(const Json& description);
  // Adds the training's results to run.json, as "outcome", which comparisons ignore. Call it after claim().
  Status conclude(const Json& outcome);
  // Returns the SHA-256 of the description in run.json, without its outcome, in the words of the version that
  // wrote it. Saved states name their training by it. Call it after open() found a training, or after claim().
  [[nodiscard]] std::string description_hash() const;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::string& kind() const { return kind_; }

 private:
  TrainingFolder(std::filesystem::path path, std::string_view kind) : path_(std::move(path)), kind_(kind) {}
  Status read_description();
  [[nodiscard]] Status refuse_differences(const Json& description, bool whole) const;

  std::filesystem::path path_;
  std::string kind_;
  Json written_;  // run.json as written, without its outcome; null: not there
  Json there_;    // the same with the current keys
  Descriptor lock_;
};

}  // namespace saccade::lab
