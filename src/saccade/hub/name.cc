#include "saccade/hub/name.h"

#include <algorithm>

#include "saccade/core/ascii.h"

namespace saccade::hub {
namespace {

constexpr size_t kMaxPart = 96;
constexpr size_t kMaxRevision = 200;

bool is_word(char c) {
  return is_ascii_alphanumeric(c) || c == '_';
}

bool good_part(std::string_view part) {
  if (part.empty() || part.size() > kMaxPart || !is_word(part.front()) || !is_word(part.back())) return false;
  if (part.find("--") != std::string_view::npos || part.find("..") != std::string_view::npos) return false;
  return std::all_of(part.begin(), part.end(), [](char c) { return is_word(c) || c == '-' || c == '.'; });
}

// Checks the subset of git's reference rules that also makes a safe path below a folder.
bool good_revision(std::string_view revision) {
  if (revision.empty() || revision.size() > kMaxRevision) return false;
  char before = '/';
  for (const char c : revision) {
    const bool first = before == '/';
    if (first ? !is_word(c) : !(is_word(c) || c == '-' || c == '.' || c == '/' || c == '+')) return false;
    before = c;
  }
  return before != '/' && before != '.' && revision.find("..") == std::string_view::npos;
}

}  // namespace

bool is_commit(std::string_view revision) {
  return revision.size() == 40 && std::all_of(revision.begin(), revision.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Result<ModelName> parse_model_name(std::string_view text) {
  const size_t at = text.find('@');
  const std::string_view repository = text.substr(0, at);
  const size_t slash = repository.find('/');
  if (slash == std::string_view::npos || repository.find('/', slash + 1) != std::string_view::npos) {
    return fail(ErrorCode::kUsage, "\"{}\" is not a model's name, which is OWNER/NAME or OWNER/NAME@REVISION",
                text);
  }
  ModelName result{.owner = std::string(repository.substr(0, slash)),
                   .name = std::string(repository.substr(slash + 1)),
                   .revision = {}};
  for (const std::string& part : {result.owner, result.name}) {
    if (good_part(part)) continue;
    return fail(ErrorCode::kUsage,
                "\"{}\" in \"{}\" is not a name on a hub: up to {} letters, digits, \"-\", \"_\" and \".\", "
                "beginning and ending with a letter or digit, without \"--\" or \"..\"",
                part, text, kMaxPart);
  }
  if (at == std::string_view::npos) return result;
  result.revision = text.substr(at + 1);
  if (!good_revision(result.revision)) {
    return fail(ErrorCode::kUsage, "\"{}\" in \"{}\" is not a revision: a branch, a tag or a commit",
                result.revision, text);
  }
  return result;
}

}  // namespace saccade::hub
