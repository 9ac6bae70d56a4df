// Model names of a hub: OWNER/NAME, or OWNER/NAME@REVISION.
#pragma once

#include <string>
#include <string_view>

#include "saccade/core/error.h"

namespace saccade::hub {

inline constexpr std::string_view kDefaultRevision = "main";

struct ModelName {
  std::string owner;
  std::string name;
  std::string revision;  // a branch, a tag or a commit; kDefaultRevision if empty

  [[nodiscard]] std::string repository() const { return owner + "/" + name; }
  [[nodiscard]] std::string revision_or_default() const {
    return revision.empty() ? std::string(kDefaultRevision) : revision;
  }
  // Returns the name as it was written.
  [[nodiscard]] std::string text() const {
    return revision.empty() ? repository() : repository() + "@" + revision;
  }
};

// Parses a name. kUsage names the invalid part and the allowed characters. Owner and name follow the hub's
// rules: letters, digits, "-", "_" and ".", neither beginning nor ending with "-" or ".", without "--" or
// "..". So every part is safe as a file name, and a revision as a path of such names.
Result<ModelName> parse_model_name(std::string_view text);

// Returns true for 40 lower-case hexadecimal digits: a commit, which always names the same files.
bool is_commit(std::string_view revision);

}  // namespace saccade::hub
