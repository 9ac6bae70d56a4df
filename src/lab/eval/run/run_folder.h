// The folder of a run: whether it may be taken, and how new files come into it without a moment at which
// somebody else's file, or a finished run, is gone.
//
//   RUN/run.json               the finished run; what its "files" name belongs to it
//   RUN/lock                   held while a process writes into the folder
//   RUN/unfinished/            files on their way; gone with the process, or with the next one that comes
//   RUN/unfinished/files.json  {"unfinished_run": 1, "files": [...]}: what publish() is putting in place
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

// The names in run.json's "files", with their hashes. kBadData for what breaks the format, and for a
// name that is not below the folder.
struct RunFileName {
  std::string name;
  std::string sha256;
};
Result<std::vector<RunFileName>> parse_run_files(const Json& json);

// Folders that were made for a path. Those that are still empty go with the object.
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

// A folder that this process may write a run into. Movable. What was staged and not published goes with it,
// and so does the lock; where nothing was published, so do the folders that claim() made.
class RunFolder {
 public:
  // Makes the folder if need be and locks it. Taken are folders that are empty, that hold a finished run, or
  // that hold what a process left that was killed while it wrote one. Nothing in the folder is changed before
  // that is known. kUsage, naming a file, for any other folder; kBadData where its run.json is no
  // evaluation's, kUnsupported where it is of another format; kIo where another process writes into it.
  static Result<RunFolder> claim(const std::filesystem::path& folder);
  RunFolder(RunFolder&&) noexcept = default;
  RunFolder& operator=(RunFolder&& other) noexcept;
  ~RunFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }
  // run.json of the finished run that is there.
  [[nodiscard]] const std::optional<Json>& finished() const { return finished_; }

  // Where to write the file that will be RUN/`name`; its folder is made. kUsage where there is such
  // a file and it is not the run's.
  Result<std::filesystem::path> stage(const std::string& name);
  // Takes run.json away, puts the staged files in place, writes run.json, and removes the files of the run
  // that was there and is no more. Killed on the way, it leaves a folder that claim() takes.
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
