// Options whose values are the names of an enum (core/enum_names.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "saccade/core/enum_names.h"

namespace saccade::app {

// Returns the names of all values of E, without second names.
template <typename E>
std::vector<std::string> names_of() {
  const std::vector<std::string_view> names = written_names<E>();
  return {names.begin(), names.end()};
}

// Returns a check that a value is one of E's names. Second names are accepted, and help and messages do not list them.
template <typename E>
CLI::Validator is_name() {
  std::string list;
  for (const std::string_view name : written_names<E>())
    list += (list.empty() ? "{" : ",") + std::string(name);
  list += "}";
  return CLI::Validator(
      [list](const std::string& word) {
        return from_name<E>(word) ? std::string() : word + " not in " + list;
      },
      list);
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
