#include "lab/train/training_folder.h"

#include <vector>

#include <fmt/format.h>

#include "lab/eval/run/earlier_keys.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/hash.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunFile = "run.json";
constexpr const char* kLockFile = "lock";
constexpr const char* kDoing = "training into this run folder";

// Returns "/datasets/0/sha256" -> value, for every value that is neither object nor array. A protocol's
// description, an encoder's name and counts of excluded records are for people and are not compared. An encoder has
// a fingerprint, and a dataset a hash.
Json leaves(const Json& json) {
  Json all = Json::object();
  if (!json.empty()) {
    const Json flat = json.flatten();
    for (const auto& [pointer, value] : flat.items()) {
      if (pointer.find("/excluded") == std::string::npos) all[pointer] = value;
    }
  }
  all.erase("/held_out_protocol/description");
  for (const char* encoder : {"/encoder", "/frozen", "/model/frozen"}) {
    if (all.contains(fmt::format("{}/fingerprint", encoder))) all.erase(fmt::format("{}/name", encoder));
  }
  return all;
}

// Returns a short value in full, and the beginning of a long one.
std::string shown(const Json& value) {
  constexpr size_t kShown = 72;
  const std::string text = dump_json(value);
  return text.size() <= kShown ? text : fmt::format("{}...", text.substr(0, kShown));
}

}  // namespace

Result<TrainingFolder> TrainingFolder::open(const fs::path& path, std::string_view kind,
                                            const fs::path& cache, bool dry_run) {
  TrainingFolder folder(path, kind);
  const std::string where = fmt::format("run folder {}", path.string());
  std::error_code error;
  if (fs::exists(path / kRunFile, error)) {
    SACCADE_TRY(folder.read_description());
    if (!dry_run) {
      SACCADE_ASSIGN(folder.lock_, lock_file(path / kLockFile, kDoing));
    }
    return folder;
  }
  if (!fs::exists(path, error)) return folder;
  // The path is empty if the cache is not below the run folder.
  const fs::path below = fs::absolute(cache).lexically_relative(fs::absolute(path));
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == kLockFile || name.starts_with(fmt::format("{}.tmp-", kRunFile))) continue;
    if (!below.empty() && name == *below.begin()) continue;
    return fail(ErrorCode::kUsage, "{}: not a training's, and not empty (it holds \"{}\")", where, name);
  }
  if (error) return fail(ErrorCode::kIo, "{}: {}", where, error.message());
  return folder;
}

Status TrainingFolder::read_description() {
  SACCADE_ASSIGN(there_, read_json(path_ / kRunFile));
  if (there_.is_object() && there_.value("kind", Json()) == kind_) {
    there_.erase("outcome");
    written_ = there_;
    use_current_keys(there_);
    if (const auto held_out = there_.find("held_out_protocol");
        held_out != there_.end() && held_out->is_object()) {
      use_current_key(*held_out, kProtocolDescription);
    }
    if (const auto objective = there_.find("objective"); objective != there_.end()) {
      use_current_text(*objective, kRenamedObjectives);
    }
    use_current_key(there_, {"images", "pictures"});
    return {};
  }
  return fail(ErrorCode::kMismatch,
              "run folder {}: its {} is not of a training (\"{}\"); choose another folder", path_.string(),
              kRunFile, kind_);
}

Status TrainingFolder::check(const Json& part) const {
  return refuse_differences(part, false);
}

Status TrainingFolder::check_whole(const Json& description) const {
  return refuse_differences(description, true);
}

Status TrainingFolder::refuse_differences(const Json& description, bool whole) const {
  if (there_.is_null()) return {};
  const Json here = leaves(description);
  const Json there = leaves(there_);
  std::vector<std::string> differences;
  const auto add = [&](const std::string& pointer, const std::string& its, const std::string& ours) {
    differences.push_back(fmt::format("\"{}\" is {} there, {} here", pointer.substr(1), its, ours));
  };
  for (const auto& [pointer, value] : here.items()) {
    const auto found = there.find(pointer);
    if (found == there.end()) {
      add(pointer, "missing", shown(value));
    } else if (*found != value) {
      add(pointer, shown(*found), shown(value));
    }
  }
  for (const auto& [pointer, value] : there.items()) {
    if (whole && !here.contains(pointer)) add(pointer, shown(value), "missing");
  }
  if (differences.empty()) return {};
  constexpr size_t kNamed = 4;
  const size_t named = std::min(differences.size(), kNamed);
  std::string words = fmt::format(
      "{}", fmt::join(differences.begin(), differences.begin() + static_cast<ptrdiff_t>(named), "; "));
  if (differences.size() > named) words += fmt::format("; and {} more", differences.size() - named);
  return fail(ErrorCode::kMismatch, "run folder {} holds another training; choose another folder: {}",
              path_.string(), words);
}

Status TrainingFolder::claim(const Json& description) {
  if (lock_.get() < 0) {
    SACCADE_TRY(make_folders(path_));
    SACCADE_ASSIGN(lock_, lock_file(path_ / kLockFile, kDoing));
    if (std::error_code error; fs::exists(path_ / kRunFile, error)) SACCADE_TRY(read_description());
  }
  SACCADE_TRY(check_whole(description));
  if (!there_.is_null()) return {};
  SACCADE_TRY(write_file_atomic(path_ / kRunFile, dump_json(description, 2) + "\n"));
  written_ = there_ = description;
  return {};
}

std::string TrainingFolder::description_hash() const {
  return sha256_hex(dump_json(written_));
}

Status TrainingFolder::conclude(const Json& outcome) {
  Json whole = written_;
  whole["outcome"] = outcome;
  return write_file_atomic(path_ / kRunFile, dump_json(whole, 2) + "\n");
}

}  // namespace saccade::lab
