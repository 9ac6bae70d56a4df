// The folder of a run: ownership checks, and publishing of new files. At no moment are somebody else's files,
// or a finished run, lost.
//
//   RUN/run.json               the finished run; the files in its "files" belong to it
//   RUN/lock                   held while a process writes into the folder
//   RUN/unfinished/            staged files; deleted with the process, or by the next one that claims it
//   RUN/unfinished/files.json  {"unfinished_run": 1, "files": [...]}: the files that publish() puts in place
//
// Files that neither run.json nor files.json names are not the run's: they are never replaced or deleted.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"

namespace saccade::lab {

inline constexpr const char* kRunFile = "run.json";

// A name in run.json's "files", with its hash. Errors: kBadData for an invalid format, and for a name that is
// not below the folder.
struct RunFileName {
  std::string name;
  std::string sha256;
};
Result<std::vector<RunFileName>> parse_run_files(const Json& json);

// Folders that were made for a path. The object's destructor removes those that are still empty.
class MadeFolders {
 public:
  MadeFolders() = default;
  // Makes the folder and those above it that are missing.
  static Result<MadeFolders> make(const std::filesystem::path& folder);
  MadeFolders(MadeFolders&&) noexcept = default;
  MadeFolders& operator=(MadeFolders&& other) noexcept {
    std::swap(made_, other.made_);
    return *this;
  }
  ~MadeFolders();

 private:
  std::vector<std::filesystem::path> made_;  // the deepest first
};

// A folder into which this process may write a run. Movable. The destructor removes staged files that were
// not published, and the lock. If nothing was published, it also removes the folders that claim() made.
class RunFolder {
 public:
  // Makes the folder if needed and locks it. It accepts empty folders, folders with a finished run, and
  // folders left by a process that was killed while it wrote one. Nothing in the folder is changed before
  // that is known. Errors: kUsage, naming a file, for any other folder; kBadData if its run.json is not an
  // evaluation's; kUnsupported if it has another format; kCancelled if another process writes into it.
  static Result<RunFolder> claim(const std::filesystem::path& folder);
  RunFolder(RunFolder&&) noexcept = default;
  RunFolder& operator=(RunFolder&& other) noexcept;
  ~RunFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }
  // run.json of the finished run in the folder; `nullopt` if there is none.
  [[nodiscard]] const std::optional<Json>& finished() const { return finished_; }

  // Returns the staging path of the file that will be RUN/`name`, and makes its folder. Returns kUsage if
  // such a file exists and does not belong to the run.
  Result<std::filesystem::path> stage(const std::string& name);
  // Removes run.json, puts the staged files in place, writes run.json, and removes the old run's other files.
  // If the process is killed on the way, claim() accepts the folder.
  Status publish(std::span<const std::string> names, std::string_view run_json);

 private:
  RunFolder(std::filesystem::path folder, MadeFolders made, Descriptor lock)
      : made_(std::move(made)), folder_(std::move(folder)), lock_(std::move(lock)) {}
  [[nodiscard]] std::filesystem::path staging() const;
  Status tidy(const std::set<std::string>& debris);
  Status write_list() const;

  MadeFolders made_;
  std::filesystem::path folder_;
  Descriptor lock_;
  std::optional<Json> finished_;
  std::set<std::string> own_;  // names of the run's files, run.json among them
  bool staging_ours_ = false;  // RUN/unfinished is known to be a run's
  bool half_published_ = false;
};

}  // namespace saccade::lab
