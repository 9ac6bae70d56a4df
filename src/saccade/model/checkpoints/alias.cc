#include "saccade/model/checkpoints/alias.h"

#include <algorithm>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/user_folders.h"
#include "saccade/text/nearest.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = 1 << 16;
constexpr size_t kLongestName = 64;

Result<fs::path> alias_folder() {
  SACCADE_ASSIGN(const fs::path state, user_state_folder());
  return state / "models";
}

bool is_alias_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName && is_ascii_alphanumeric(name.front()) &&
         std::ranges::all_of(
             name, [](char c) { return is_ascii_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

std::optional<std::string> checkpoint_of_alias(const std::string& name) {
  const auto folder = alias_folder();
  if (!folder || !is_alias_name(name)) return std::nullopt;
  auto target = read_file(*folder / name, kMostBytes);
  if (!target || target->find('/') == std::string::npos) return std::nullopt;
  return *std::move(target);
}

std::vector<std::pair<std::string, std::string>> checkpoint_aliases() {
  std::vector<std::pair<std::string, std::string>> aliases;
  const auto folder = alias_folder();
  if (!folder) return aliases;
  std::error_code error;
  for (fs::directory_iterator entry(*folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (auto target = checkpoint_of_alias(name)) aliases.emplace_back(name, *std::move(target));
  }
  std::ranges::sort(aliases);
  return aliases;
}

std::string checkpoint_suggestion(const std::string& name) {
  std::vector<std::string> names = {kStarterName};
  for (const auto& [alias, target] : checkpoint_aliases()) names.push_back(alias);
  return did_you_mean(name, names);
}

Status set_checkpoint_alias(const std::string& name, const std::string& target) {
  if (!is_alias_name(name)) {
    return fail(
        ErrorCode::kUsage,
        "\"{}\" is no name: letters, digits, \"-\", \"_\" and \".\" make one, a letter or digit first, {} at most",
        name, kLongestName);
  }
  if (name == kStarterName) {
    return fail(ErrorCode::kUsage, "\"{}\" is the checkpoint that comes with the program", name);
  }
  if (target.find('/') == std::string::npos) {
    return fail(ErrorCode::kUsage, "\"{}\" is neither an absolute path nor OWNER/NAME", target);
  }
  SACCADE_ASSIGN(const fs::path folder, alias_folder());
  SACCADE_TRY(make_folders(folder));
  return write_file_atomic(folder / name, target);
}

Status remove_checkpoint_alias(const std::string& name) {
  SACCADE_ASSIGN(const fs::path folder, alias_folder());
  std::error_code error;
  if (!is_alias_name(name) || !fs::remove(folder / name, error)) {
    return fail(ErrorCode::kNotFound, "no checkpoint is called \"{}\"{}", name, checkpoint_suggestion(name));
  }
  return {};
}

}  // namespace saccade
