#include "saccade/hub/cache.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <unistd.h>

#include "saccade/core/files/files.h"

namespace saccade::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr int64_t kMaxRefBytes = 4096;

// Parses "models--OWNER--NAME"; kNotFound for other folders.
Result<ModelName> name_of_folder(const std::string& folder) {
  if (!folder.starts_with(kPrefix)) return fail(ErrorCode::kNotFound, "{}: not a model's folder", folder);
  const std::string_view text = std::string_view(folder).substr(kPrefix.size());
  const size_t dashes = text.find("--");
  if (dashes == std::string::npos) return fail(ErrorCode::kNotFound, "{}: not a model's folder", folder);
  auto name = parse_model_name(fmt::format("{}/{}", text.substr(0, dashes), text.substr(dashes + 2)));
  if (!name) return fail(ErrorCode::kNotFound, "{}: not a model's folder", folder);
  return name;
}

Result<std::string> read_ref(const fs::path& path) {
  SACCADE_ASSIGN(std::string commit, read_file(path, kMaxRefBytes));
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) commit.pop_back();
  if (!is_commit(commit)) return fail(ErrorCode::kBadData, "{}: holds no commit", path.string());
  return commit;
}

// Returns all readable refs of a model: revision to commit.
std::map<std::string, std::string> refs_of(const fs::path& folder) {
  std::map<std::string, std::string> refs;
  std::error_code error;
  const fs::path top = folder / "refs";
  for (fs::recursive_directory_iterator entry(top, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    auto commit = read_ref(entry->path());
    if (commit) refs[entry->path().lexically_relative(top).string()] = *commit;
  }
  return refs;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<CachedModel> snapshots_of(const fs::path& folder, const ModelName& name) {
  const auto refs = refs_of(folder);
  std::vector<CachedModel> models;
  for (const std::string& commit : names_in(folder / "snapshots")) {
    if (!is_commit(commit)) continue;
    CachedModel& model = models.emplace_back();
    model.name = ModelName{.owner = name.owner, .name = name.name, .revision = {}};
    model.commit = commit;
    model.path = folder / "snapshots" / commit;
    for (const auto& [revision, target] : refs) {
      if (target == commit) model.revisions.push_back(revision);
    }
  }
  return models;
}

}  // namespace

ModelFolder::ModelFolder(const fs::path& cache, const ModelName& name)
    : cache_(cache), name_(fmt::format("{}{}--{}", kPrefix, name.owner, name.name)) {
  folder_ = cache_ / name_;
}

fs::path ModelFolder::blob(const std::string& hash) const {
  return folder_ / "blobs" / hash;
}
fs::path ModelFolder::incomplete(const std::string& hash) const {
  return folder_ / "blobs" / (hash + ".incomplete");
}
fs::path ModelFolder::lock(const std::string& hash) const {
  return cache_ / ".locks" / name_ / (hash + ".lock");
}
fs::path ModelFolder::snapshot(const std::string& commit) const {
  return folder_ / "snapshots" / commit;
}
fs::path ModelFolder::ref(const std::string& revision) const {
  return folder_ / "refs" / revision;
}

Status ModelFolder::create() const {
  SACCADE_TRY(make_folders(folder_ / "blobs"));
  // Backup programs skip folders with this file (https://bford.info/cachedir/).
  const fs::path tag = cache_ / "CACHEDIR.TAG";
  std::error_code ignored;
  if (!fs::exists(tag, ignored)) {
    SACCADE_TRY(write_file_atomic(tag,
                                  "Signature: 8a477f597d28d172789f06886806bc55\n"
                                  "# A cache of models, made by a download. Safe to delete.\n"));
  }
  return {};
}

Status ModelFolder::link(const std::string& commit, const std::string& file, const std::string& hash) const {
  const fs::path folder = snapshot(commit);
  SACCADE_TRY(make_folders(folder));
  const std::string target = "../../blobs/" + hash;
  std::error_code error;
  if (fs::read_symlink(folder / file, error) == target) return {};
  // Created beside the link and renamed over it, so readers find either the old or the new one.
  const fs::path fresh = folder / fmt::format(".{}.{}.link", file, ::getpid());
  ::unlink(fresh.c_str());
  if (::symlink(target.c_str(), fresh.c_str()) != 0) return fail_errno(errno, fresh.string() + ": link");
  if (::rename(fresh.c_str(), (folder / file).c_str()) != 0) {
    const int reason = errno;
    ::unlink(fresh.c_str());
    return fail_errno(reason, (folder / file).string() + ": link");
  }
  return {};
}

Status ModelFolder::write_ref(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return {};
  const fs::path path = ref(revision);
  if (const auto there = read_ref(path); there && *there == commit) return {};
  SACCADE_TRY(make_folders(path.parent_path()));
  return write_file_atomic(path, commit);
}

std::string CachedModel::text() const {
  const auto has = [this](std::string_view revision) {
    return std::find(revisions.begin(), revisions.end(), revision) != revisions.end();
  };
  if (has(kDefaultRevision)) return name.repository();
  return name.repository() + "@" + (revisions.empty() ? commit : revisions.front());
}

Result<CachedModel> find_cached(const fs::path& cache, const ModelName& name) {
  const ModelFolder folder(cache, name);
  const std::string revision = name.revision_or_default();
  std::string commit = revision;
  if (!is_commit(revision)) commit = read_ref(folder.ref(revision)).value_or("");
  std::string others;
  for (CachedModel& model : snapshots_of(folder.path(), name)) {
    if (model.commit == commit) return std::move(model);
    others += fmt::format("{}{}", others.empty() ? "" : ", ", model.text());
  }
  if (!others.empty()) {
    return fail(ErrorCode::kNotFound, "{} is not in the cache {}, which has {}", name.text(), cache.string(),
                others);
  }
  return fail(ErrorCode::kNotFound, "{} is not in the cache {}", name.text(), cache.string());
}

Result<std::vector<CachedModel>> list_cached(const fs::path& cache) {
  std::vector<CachedModel> models;
  std::error_code error;
  if (!fs::exists(cache, error)) return models;
  if (!fs::is_directory(cache, error))
    return fail(ErrorCode::kBadData, "the cache {} is not a folder", cache.string());
  for (const std::string& folder : names_in(cache)) {
    const auto name = name_of_folder(folder);
    if (!name) continue;
    for (CachedModel& model : snapshots_of(cache / folder, *name)) models.push_back(std::move(model));
  }
  return models;
}

Result<ModelName> model_of_snapshot(const fs::path& path) {
  if (is_commit(path.filename().string()) && path.parent_path().filename() == "snapshots") {
    return name_of_folder(path.parent_path().parent_path().filename().string());
  }
  return fail(ErrorCode::kNotFound, "{}: not a snapshot in a hub's cache", path.string());
}

}  // namespace saccade::hub
