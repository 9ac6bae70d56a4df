// Enums by their words: one table serves options, JSON and messages.
//
// Beside an enum E that people name stands
//
//   std::span<const EnumWord<E>> enum_words(E);   // all its values, in the order that a list of them shows
//
// whose argument only chooses among the overloads. A value that is there twice has a second word, which is
// read but not written.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace saccade {

template <typename E>
struct EnumWord {
  E value;
  std::string_view word;
  std::string_view meaning = {};  // a clause or a sentence, where there is something to say
};

template <typename E>
const EnumWord<E>& enum_entry(E value) {
  return *std::ranges::find(enum_words(value), value, &EnumWord<E>::value);
}
template <typename E>
std::string_view word_of(E value) {
  return enum_entry(value).word;
}
template <typename E>
std::string_view meaning_of(E value) {
  return enum_entry(value).meaning;
}
// None for a word that is not in the table.
template <typename E>
std::optional<E> from_word(std::string_view word) {
  for (const EnumWord<E>& entry : enum_words(E{})) {
    if (entry.word == word) return entry.value;
  }
  return std::nullopt;
}
// "fp16, int8": for messages that say what would be right.
template <typename E>
std::string list_of_words() {
  std::string list;
  for (const EnumWord<E>& entry : enum_words(E{})) {
    if (!list.empty()) list += ", ";
    list += entry.word;
  }
  return list;
}

}  // namespace saccade
