// Names of enum values: one table serves options, JSON and messages.
//
// Beside an enum E that users name stands
//
//   std::span<const EnumName<E>> enum_names(E);   // every value, in the order that a list of them shows
//
// The argument only chooses among the overloads. A value may be listed twice: the second name is read, never written.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

template <typename E>
struct EnumName {
  E value;
  std::string_view name;
  std::string_view meaning = {};  // clause or sentence that explains the value; may be empty
};

template <typename E>
const EnumName<E>& enum_entry(E value) {
  return *std::ranges::find(enum_names(value), value, &EnumName<E>::value);
}
template <typename E>
std::string_view enum_name(E value) {
  return enum_entry(value).name;
}
template <typename E>
std::string_view meaning_of(E value) {
  return enum_entry(value).meaning;
}
// Returns the value of that name, or `nullopt` if there is none.
template <typename E>
std::optional<E> from_name(std::string_view name) {
  for (const EnumName<E>& entry : enum_names(E{})) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}
// Returns the names of all values, without second names.
template <typename E>
std::vector<std::string_view> written_names() {
  std::vector<std::string_view> names;
  for (const EnumName<E>& entry : enum_names(E{})) {
    if (entry.name == enum_name(entry.value)) names.push_back(entry.name);
  }
  return names;
}
// Returns all names as "fp16, int8", for messages that say which values are allowed.
template <typename E>
std::string list_of_names() {
  std::string list;
  for (const std::string_view name : written_names<E>()) {
    if (!list.empty()) list += ", ";
    list += name;
  }
  return list;
}

// Returns the value of that name. `option` is the option's name for the message. kUsage, which lists the names, for any
// other name.
template <typename E>
Result<E> parse_name(std::string_view option, std::string_view name) {
  if (const auto value = from_name<E>(name)) return *value;
  return fail(ErrorCode::kUsage, "{} is \"{}\", expected one of {}", option, name, list_of_names<E>());
}

}  // namespace saccade
