// Options that take one of an enum's words (core/words.h).
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "saccade/core/words.h"

namespace saccade::app {

// `value` holds the default, and is borrowed until the command has run.
template <typename E>
CLI::Option* add_choice(CLI::App& command, const std::string& name, E& value, const std::string& help) {
  std::vector<std::string> words;
  for (const EnumWord<E>& entry : enum_words(E{})) words.emplace_back(entry.word);
  return command
      .add_option_function<std::string>(
          name, [&value](const std::string& word) { value = from_word<E>(word).value_or(value); }, help)
      ->check(CLI::IsMember(std::move(words)))
      ->default_str(std::string(word_of(value)));
}

}  // namespace saccade::app
