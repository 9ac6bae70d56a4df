#include "saccade/model/checkpoints/fingerprint.h"

#include <map>
#include <system_error>

#include "saccade/core/ascii.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_files.h"
#include "saccade/core/files/user_folders.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/model/checkpoints/checkpoint.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxRecord = 1 << 20;

struct KnownFile {
  std::string stamp;
  std::string sha256;
};
using KnownFiles = std::map<std::string, KnownFile>;  // by the file's name

fs::path record_of(const fs::path& folder, const FingerprintMemory& memory) {
  return memory.folder / (sha256_hex(folder.native()) + ".json");
}

// Reads a record; any error in it means that the file is read again.
KnownFiles read_record(const fs::path& path) {
  KnownFiles known;
  const auto json = read_json(path, kMaxRecord);
  if (!json || !json->is_object()) return known;
  const auto files = json->find("files");
  if (files == json->end() || !files->is_object()) return known;
  for (const auto& [name, entry] : files->items()) {
    const auto stamp = json_field<std::string>(entry, "stamp");
    const auto hash = json_field<std::string>(entry, "sha256");
    if (stamp && hash && is_sha256_text(*hash)) known[name] = {*stamp, *hash};
  }
  return known;
}

// Writes a record. Failing to cache is not an error.
void write_record(const fs::path& path, const fs::path& folder, const KnownFiles& known) {
  Json files = Json::object();
  for (const auto& [name, file] : known) files[name] = {{"stamp", file.stamp}, {"sha256", file.sha256}};
  if (!make_folders(path.parent_path())) return;
  (void)write_file_atomic(path, dump_json({{"folder", folder.string()}, {"files", files}}, 2) + "\n");
  remove_temporaries(path);  // of processes that were killed here
}

}  // namespace

FingerprintMemory user_fingerprint_memory() {
  const auto cache = user_cache_folder();
  return {.folder = cache ? *cache / "fingerprints" : fs::path()};
}

Result<std::string> checkpoint_fingerprint(const Checkpoint& checkpoint, const FingerprintMemory& memory) {
  std::error_code error;
  const fs::path folder = fs::canonical(checkpoint.folder, error);
  const bool remembers = !memory.folder.empty() && !error;
  const fs::path record = remembers ? record_of(folder, memory) : fs::path();
  const KnownFiles before = remembers ? read_record(record) : KnownFiles();
  KnownFiles now;
  bool fresh = false;
  Sha256 all;
  for (const fs::path& file : checkpoint.files) {
    const std::string name = file.filename().string();
    const auto stamp = file_stamp(file);
    std::string hash;
    if (const auto known = before.find(name);
        memory.trusted && stamp && known != before.end() && known->second.stamp == stamp->text()) {
      hash = known->second.sha256;
    } else {
      SACCADE_ASSIGN(hash, sha256_file(file));
      fresh = true;
    }
    // A file that changed while it was read, or may change without a new stamp, is read again the next time.
    if (stamp && is_settled(*stamp) && file_stamp(file).value_or(FileStamp{}) == *stamp) {
      now[name] = {stamp->text(), hash};
    }
    all.update(fmt::format("{} {}\n", hash, name));
  }
  if (remembers && fresh && !now.empty()) write_record(record, folder, now);
  return all.hex();
}

Result<std::string> checkpoint_fingerprint(const fs::path& folder, const FingerprintMemory& memory) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  return checkpoint_fingerprint(checkpoint, memory);
}

}  // namespace saccade
