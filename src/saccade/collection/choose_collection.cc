#include "saccade/collection/choose_collection.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_files.h"
#include "saccade/core/files/user_folders.h"
#include "saccade/core/hash.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Longer paths are none.
constexpr int64_t kMostPathBytes = 1 << 16;
// Remembered ones that are looked at.
constexpr size_t kMostRemembered = 1000;

std::string from_environment() {
  const char* value = std::getenv(kCollectionVariable);
  return value == nullptr ? "" : value;
}

std::optional<fs::path> hidden_collection() {
  std::error_code error;
  for (fs::path folder = fs::current_path(error); !error && !folder.empty(); folder = folder.parent_path()) {
    if (is_collection(folder / kHiddenCollection)) return folder / kHiddenCollection;
    if (folder == folder.parent_path()) break;
  }
  return std::nullopt;
}

Result<ChosenCollection> by_name(const std::string& named) {
  const bool address = named.find("://") != std::string::npos || named.starts_with("weaviate:");
  if (address && !weaviate::is_address(named)) {
    return fail(ErrorCode::kUsage,
                "{}: expected the folder of a collection, or an address like weaviate://HOST:PORT/Name",
                named);
  }
  return ChosenCollection{named, ChosenBy::kName};
}

}  // namespace

Result<ChosenCollection> choose_collection(const std::string& named) {
  if (!named.empty()) return by_name(named);
  if (const std::string variable = from_environment(); !variable.empty()) {
    if (is_collection(variable)) return ChosenCollection{variable, ChosenBy::kEnvironment};
    return fail(ErrorCode::kNotFound, "{} names {}: no collection there", kCollectionVariable, variable);
  }
  if (const auto hidden = hidden_collection()) return ChosenCollection{*hidden, ChosenBy::kFolder};
  const std::vector<fs::path> known = remembered_collections();
  if (known.size() == 1) return ChosenCollection{known.front(), ChosenBy::kOnly};
  if (known.empty()) {
    return fail(
        ErrorCode::kUsage,
        "no collection yet: `saccade index FOLDER` makes one of the images in a folder; one that lies "
        "elsewhere is named by -c DIR");
  }
  constexpr size_t kShown = 5;
  std::string names;
  for (size_t i = 0; i < std::min(known.size(), kShown); ++i)
    names += (i == 0 ? "" : ", ") + known[i].string();
  if (known.size() > kShown) names += fmt::format(" and {} more", known.size() - kShown);
  return fail(ErrorCode::kUsage, "which collection? Name it by -c DIR or {}; there are {}",
              kCollectionVariable, names);
}

Result<ChosenCollection> choose_collection_to_fill(const std::string& named) {
  if (!named.empty()) return by_name(named);
  if (const std::string variable = from_environment(); !variable.empty()) {
    return ChosenCollection{variable, ChosenBy::kEnvironment};
  }
  if (const auto hidden = hidden_collection()) return ChosenCollection{*hidden, ChosenBy::kFolder};
  return ChosenCollection{kHiddenCollection, ChosenBy::kNew};
}

std::vector<fs::path> remembered_collections() {
  std::vector<fs::path> known;
  const auto state = user_state_folder();
  if (!state) return known;
  std::error_code error;
  size_t looked_at = 0;
  for (fs::directory_iterator entry(*state / "collections", error), end; !error && entry != end;
       entry.increment(error)) {
    if (++looked_at > kMostRemembered) break;
    if (temporary_of(entry->path().filename().string())) continue;
    auto path = read_file(entry->path(), kMostPathBytes);
    if (path && is_collection(*path)) known.emplace_back(*std::move(path));
  }
  std::ranges::sort(known);
  return known;
}

void remember_collection(const fs::path& folder) {
  if (weaviate::is_address(folder)) return;
  const auto state = user_state_folder();
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder, error);
  if (!state || error) return;
  const fs::path record = *state / "collections" / sha256_hex(whole.string());
  if (!fs::exists(record, error)) {
    if (!make_folders(record.parent_path()) || !write_file_atomic(record, whole.string())) return;
  }
  remove_temporaries(record);
}

}  // namespace saccade
