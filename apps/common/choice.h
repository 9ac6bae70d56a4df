// Options whose values are the names of an enum (core/enum_names.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "saccade/core/enum_names.h"

namespace saccade::app {

// Returns the names of all values of E.
template <typename E>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const EnumName<E>& entry : enum_names(E{})) names.emplace_back(entry.name);
  return names;
}

// Returns a check that a value is one of E's names.
template <typename E>
CLI::IsMember is_name() {
  return CLI::IsMember(names_of<E>());
}

// `value` holds the default, and is borrowed until the command has run.
template <typename E>
CLI::Option* add_choice(CLI::App& command, const std::string& name, E& value, const std::string& help) {
  return command
      .add_option_function<std::string>(
          name, [&value](const std::string& word) { value = from_name<E>(word).value_or(value); }, help)
      ->check(is_name<E>())
      ->default_str(std::string(enum_name(value)));
}

// The same where what holds without the option is not one word: `value` stays empty then.
template <typename E>
CLI::Option* add_choice(CLI::App& command, const std::string& name, std::optional<E>& value,
                        const std::string& help) {
  return command
      .add_option_function<std::string>(
          name, [&value](const std::string& word) { value = from_name<E>(word); }, help)
      ->check(is_name<E>());
}

// The same for one or more words. `values` holds the defaults.
template <typename E>
CLI::Option* add_choices(CLI::App& command, const std::string& name, std::vector<E>& values,
                         const std::string& help) {
  std::string defaults;
  for (const E value : values) defaults += (defaults.empty() ? "" : ",") + std::string(enum_name(value));
  return command
      .add_option_function<std::vector<std::string>>(
          name,
          [&values](const std::vector<std::string>& words) {
            values.clear();
            for (const std::string& word : words) values.push_back(*from_name<E>(word));
          },
          help)
      ->delimiter(',')
      ->check(is_name<E>())
      ->default_str("[" + defaults + "]");
}

}  // namespace saccade::app
