// Options that take one of an enum's words (core/words.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "saccade/core/words.h"

namespace saccade::app {

template <typename E>
CLI::IsMember is_word() {
  std::vector<std::string> words;
  for (const EnumWord<E>& entry : enum_words(E{})) words.emplace_back(entry.word);
  return CLI::IsMember(std::move(words));
}

// `value` holds the default, and is borrowed until the command has run.
template <typename E>
CLI::Option* add_choice(CLI::App& command, const std::string& name, E& value, const std::string& help) {
  return command
      .add_option_function<std::string>(
          name, [&value](const std::string& word) { value = from_word<E>(word).value_or(value); }, help)
      ->check(is_word<E>())
      ->default_str(std::string(word_of(value)));
}

// The same where what holds without the option is not one word: `value` stays empty then.
template <typename E>
CLI::Option* add_choice(CLI::App& command, const std::string& name, std::optional<E>& value,
                        const std::string& help) {
  return command
      .add_option_function<std::string>(
          name, [&value](const std::string& word) { value = from_word<E>(word); }, help)
      ->check(is_word<E>());
}

// The same for one or more words. `values` holds the defaults.
template <typename E>
CLI::Option* add_choices(CLI::App& command, const std::string& name, std::vector<E>& values,
                         const std::string& help) {
  std::string defaults;
  for (const E value : values) defaults += (defaults.empty() ? "" : ",") + std::string(word_of(value));
  return command
      .add_option_function<std::vector<std::string>>(
          name,
          [&values](const std::vector<std::string>& words) {
            values.clear();
            for (const std::string& word : words) values.push_back(*from_word<E>(word));
          },
          help)
      ->check(is_word<E>())
      ->default_str("[" + defaults + "]");
}

}  // namespace saccade::app
