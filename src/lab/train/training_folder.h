// The folder a training writes into: what training it holds, and that one process at a time writes there.
//
// run.json describes the training: options, and hashes of all that it reads. The same description is the same
// training, which goes on; another one is refused. Nothing is written before that is known.
// Internal to the module.
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
  // Writes nothing. A folder that holds a training of this `kind` (run.json's "kind") is locked until the
  // object goes, save for a dry run, which never writes. kMismatch for a run.json of something else; kUsage
  // for a folder without one that holds other files than `cache` (which may lie elsewhere) and what a start
  // that was cut off leaves; kIo where another process trains into it.
  static Result<TrainingFolder> open(const std::filesystem::path& path, std::string_view kind,
                                     const std::filesystem::path& cache, bool dry_run);

  // kMismatch where the training that is there differs in anything that `part` of a description has, naming
  // the values of both. Writes nothing.
  [[nodiscard]] Status check(const Json& part) const;
  // The same for a whole description: neither may have what the other lacks.
  [[nodiscard]] Status check_whole(const Json& description) const;
  // Makes the folder, locks it and writes run.json, where that has not been done; checks it once more where
  // another process was faster.
  Status claim(const Json& description);
  // Adds what came of the training to run.json, as "outcome", which no comparison looks at. After claim().
  Status conclude(const Json& outcome);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::string& kind() const { return kind_; }

 private:
  TrainingFolder(std::filesystem::path path, std::string_view kind) : path_(std::move(path)), kind_(kind) {}
  Status read_description();
  [[nodiscard]] Status refuse_differences(const Json& description, bool whole) const;

  std::filesystem::path path_;
  std::string kind_;
  Json there_;  // run.json without its outcome; null: not there
  Descriptor lock_;
};

}  // namespace saccade::lab
