// The name of a model on a hub, as people write it: OWNER/NAME, or OWNER/NAME@REVISION.
#pragma once

#include <string>
#include <string_view>

#include "saccade/core/error.h"

namespace saccade::hub {

inline constexpr std::string_view kDefaultRevision = "main";

struct ModelName {
  std::string owner;
  std::string name;
  std::string revision;  // a branch, a tag or a commit; empty: kDefaultRevision

  [[nodiscard]] std::string repository() const { return owner + "/" + name; }
  [[nodiscard]] std::string revision_or_default() const {
    return revision.empty() ? std::string(kDefaultRevision) : revision;
  }
  // As it was written.
  [[nodiscard]] std::string text() const {
    return revision.empty() ? repository() : repository() + "@" + revision;
  }
};

// kUsage says which part is wrong and what is allowed. Owner and name are as hubs have them: letters, digits,
// "-", "_" and ".", neither beginning nor ending with "-" or ".", without "--" or "..". So every part is safe
// as the name of a file, and a revision as a path of such names.
Result<ModelName> parse_model_name(std::string_view text);

// 40 lower-case hexadecimal digits: a commit, which names the same files for ever.
bool is_commit(std::string_view revision);

}  // namespace saccade::hub
