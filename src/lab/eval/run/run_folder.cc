#include "lab/eval/run/run_folder.h"

#include <algorithm>
#include <system_error>

#include "lab/eval/run/run_record.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/files/temporary_files.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = "lock";
constexpr const char* kStaging = "unfinished";
constexpr const char* kStagingFile = "files.json";
constexpr const char* kStagingKey = "unfinished_run";

// Checks that a file name from JSON lies below the folder.
bool is_below(const fs::path& name) {
  return !name.empty() && name.is_relative() &&
         std::none_of(name.begin(), name.end(), [](const fs::path& part) { return part == ".."; });
}

// Returns the names in a folder.
Result<std::vector<std::string>> list(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return fail_errno(error.value(), folder.string());
  std::ranges::sort(names);
  return names;
}

// The contents of a folder that decide to whom it belongs.
struct Content {
  std::optional<Json> finished;
  std::set<std::string> own;     // files of the finished run
  std::set<std::string> debris;  // files of a run that was interrupted while they were put in place
};

Status foreign(const fs::path& folder, std::string_view name) {
  return fail(
      ErrorCode::kUsage,
      "run folder {}: not a run of `saccade eval`, and not empty (it holds \"{}\"); name a folder that is "
      "new or empty",
      folder.string(), name);
}

// Returns the files that a killed process was putting in place; `nullopt` if the folder is not of such a
// process.
Result<std::optional<std::set<std::string>>> read_staging(const fs::path& staging) {
  std::set<std::string> own;
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(staging, error))) return std::optional<std::set<std::string>>();
  if (!fs::exists(staging / kStagingFile, error)) {
    // The process was killed before it wrote the list; then the folder holds nothing else.
    SACCADE_ASSIGN(const std::vector<std::string> names, list(staging));
    const bool made = std::ranges::all_of(
        names, [](const std::string& name) { return temporary_of(name) == std::string_view(kStagingFile); });
    return made ? std::optional(own) : std::nullopt;
  }
  const auto json = read_json(staging / kStagingFile);
  if (!json || !json->is_object() || json->value(kStagingKey, Json()) != kRunFormat) {
    return std::optional<std::set<std::string>>();
  }
  for (const Json& name : json->value("files", Json::array())) {
    if (!name.is_string() || !is_below(name.get<std::string>())) {
      return fail(ErrorCode::kBadData, "{}: \"files\" is not a list of names below the run's folder",
                  (staging / kStagingFile).string());
    }
    own.insert(name.get<std::string>());
  }
  return std::optional(std::move(own));
}

Result<Content> inspect(const fs::path& folder) {
  Content content;
  SACCADE_ASSIGN(const std::vector<std::string> names, list(folder));
  const auto holds = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  if (holds(kStaging)) {
    SACCADE_ASSIGN(auto staged, read_staging(folder / kStaging));
    if (!staged) SACCADE_TRY(foreign(folder, kStaging));
    content.debris = *std::move(staged);
  }
  if (holds(kRunFile)) {
    const fs::path path = folder / kRunFile;
    SACCADE_ASSIGN(content.finished, read_json(path));
    SACCADE_TRY(parse_run_info(*content.finished).in(path.string()));
    SACCADE_ASSIGN(const auto files, parse_run_files(*content.finished).in(path.string()));
    for (const RunFileName& file : files) content.own.insert(file.name);
    content.own.insert(kRunFile);
    std::erase_if(content.debris, [&](const std::string& name) { return content.own.contains(name); });
    return content;
  }
  if (holds(kStaging)) return content;
  for (const std::string& name : names) {
    if (name != kLockFile) SACCADE_TRY(foreign(folder, name));
  }
  return content;
}

}  // namespace

Result<std::vector<RunFileName>> parse_run_files(const Json& json) {
  const auto found = json.find("files");
  if (found == json.end() || !found->is_array()) {
    return fail(ErrorCode::kBadData, "\"files\" is missing or no array");
  }
  std::vector<RunFileName> files;
  for (const Json& one : *found) {
    RunFileName& file = files.emplace_back();
    SACCADE_ASSIGN(file.name, json_field<std::string>(one, "name").in("\"files\""));
    SACCADE_ASSIGN(file.sha256, json_field<std::string>(one, "sha256").in("\"files\""));
    if (!is_below(file.name)) {
      return fail(ErrorCode::kBadData, "\"files\": \"{}\" is not a name below the run's folder", file.name);
    }
  }
  return files;
}

Result<MadeFolders> MadeFolders::make(const fs::path& folder) {
  MadeFolders made;
  std::error_code error;
  for (fs::path path = fs::absolute(folder, error).lexically_normal();
       !path.empty() && path != path.root_path() && !fs::exists(fs::symlink_status(path, error));
       path = path.parent_path()) {
    if (path.has_filename()) made.made_.push_back(path);
  }
  SACCADE_TRY(make_folders(folder));
  return made;
}

MadeFolders::~MadeFolders() {
  std::error_code ignored;
  for (const fs::path& path : made_) fs::remove(path, ignored);
}

Result<RunFolder> RunFolder::claim(const fs::path& folder) {
  SACCADE_ASSIGN(MadeFolders made, MadeFolders::make(folder));
  // Inspects the folder before the lock file is made, so that somebody else's folder stays as it is. It is
  // inspected again with the lock held, as another process may have finished a run meanwhile.
  SACCADE_TRY(inspect(folder));
  SACCADE_ASSIGN(Descriptor lock, lock_file(folder / kLockFile, "writing to this run folder"));
  RunFolder claimed(folder, std::move(made), std::move(lock));
  SACCADE_ASSIGN(Content content, inspect(folder));
  claimed.finished_ = std::move(content.finished);
  claimed.own_ = std::move(content.own);
  SACCADE_TRY(claimed.tidy(content.debris));
  SACCADE_TRY(claimed.stage("metrics.json"));
  return claimed;
}

RunFolder& RunFolder::operator=(RunFolder&& other) noexcept {
  std::swap(made_, other.made_);
  std::swap(folder_, other.folder_);
  std::swap(lock_, other.lock_);
  std::swap(finished_, other.finished_);
  std::swap(own_, other.own_);
  std::swap(staging_ours_, other.staging_ours_);
  std::swap(half_published_, other.half_published_);
  return *this;
}

RunFolder::~RunFolder() {
  if (lock_.get() < 0) return;  // moved from
  std::error_code ignored;
  // After an error during publishing, only the list still tells whose files these are.
  if (!half_published_ && staging_ours_) fs::remove_all(staging(), ignored);
  fs::remove(folder_ / kLockFile, ignored);  // while it is held: nobody else's
}

fs::path RunFolder::staging() const {
  return folder_ / kStaging;
}

// Removes the files of a killed process, its list last.
Status RunFolder::tidy(const std::set<std::string>& debris) {
  staging_ours_ = true;
  std::error_code ignored;
  for (const std::string& name : debris) fs::remove(folder_ / name, ignored);
  std::error_code error;
  for (fs::directory_iterator entry(staging(), error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename() != kStagingFile) fs::remove_all(entry->path(), ignored);
  }
  SACCADE_TRY(make_folders(staging()));
  return write_list();
}

Status RunFolder::write_list() const {
  return write_file_atomic(staging() / kStagingFile,
                           dump_json({{kStagingKey, kRunFormat}, {"files", own_}}) + "\n");
}

Result<fs::path> RunFolder::stage(const std::string& name) {
  std::error_code error;
  const fs::path becomes = folder_ / name;
  if (!own_.contains(name) && fs::exists(fs::symlink_status(becomes, error))) {
    return fail(
        ErrorCode::kUsage,
        "run folder {}: it holds a file \"{}\" that is not of its run; move it, or name another folder",
        folder_.string(), name);
  }
  const fs::path parent = becomes.parent_path();
  if (parent != folder_ && fs::exists(parent, error) && !fs::is_directory(parent, error)) {
    return fail(ErrorCode::kUsage, "run folder {}: {} is not a folder", folder_.string(), parent.string());
  }
  fs::path staged = staging() / name;
  SACCADE_TRY(make_folders(staged.parent_path()));
  return staged;
}

Status RunFolder::publish(std::span<const std::string> names, std::string_view run_json) {
  std::set<std::string> old = own_;
  old.erase(kRunFile);
  own_.insert(names.begin(), names.end());
  own_.insert(kRunFile);
  SACCADE_TRY(write_list());
  half_published_ = true;
  std::error_code error;
  fs::remove(folder_ / kRunFile, error);
  if (error) return fail_errno(error.value(), (folder_ / kRunFile).string() + ": remove");
  for (const std::string& name : names) {
    const fs::path becomes = folder_ / name;
    SACCADE_TRY(make_folders(becomes.parent_path()));
    fs::rename(staging() / name, becomes, error);
    if (error) return fail_errno(error.value(), becomes.string() + ": rename");
  }
  SACCADE_TRY(write_file_atomic(staging() / kRunFile, run_json));
  fs::rename(staging() / kRunFile, folder_ / kRunFile, error);
  if (error) return fail_errno(error.value(), (folder_ / kRunFile).string() + ": rename");
  for (const std::string& name : old) {
    if (std::ranges::find(names, name) == names.end()) fs::remove(folder_ / name, error);
  }
  half_published_ = false;
  return {};
}

}  // namespace saccade::lab
