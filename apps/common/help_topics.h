// Topics of `saccade help TOPIC`: texts that options refer to, for people who have the program and no documents.
#pragma once

#include <span>
#include <string_view>

namespace saccade::app {

struct HelpTopic {
  std::string_view name;
  std::string_view summary;
  std::string_view text;
};

// Returns all topics, by name.
std::span<const HelpTopic> help_topics();

}  // namespace saccade::app
