#include "mutators.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <limits>
#include <vector>

#include "saccade/core/json.h"

using saccade::Json;
using saccade::SplitMix;

namespace {

size_t below(SplitMix& random, size_t n) {
  return n == 0 ? 0 : random.below(static_cast<uint32_t>(n));
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    const bool word =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80;
    if (word && inside) {
      words.back() += c;
    } else {
      words.emplace_back(1, c);
    }
    inside = word;
  }
  return words;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

// One change of a sequence.
void change(std::vector<std::string>& items, std::span<const std::string_view> tokens, SplitMix& random) {
  const size_t at = below(random, items.size() + 1);
  const size_t count = std::min(1 + below(random, 8), items.size() - at);
  const auto begin = items.begin() + static_cast<std::ptrdiff_t>(at);
  const auto end = begin + static_cast<std::ptrdiff_t>(count);
  const std::string token(tokens.empty() ? std::string_view(" ") : tokens[below(random, tokens.size())]);
  switch (below(random, 6)) {
    case 0:
    case 1:
      items.insert(begin, token);
      break;
    case 2:
      items.erase(begin, end);
      break;
    case 3: {  // again, somewhere, up to so many times
      const std::vector<std::string> copy(begin, end);
      for (size_t times = 1 + (below(random, 8) == 0 ? below(random, 60) : 0); times > 0; --times) {
        items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), copy.begin(), copy.end());
      }
      break;
    }
    case 4:
      if (at < items.size()) std::swap(items[at], items[below(random, items.size())]);
      break;
    default:
      if (at < items.size()) items[at] = token;
  }
}

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += item;
  return text;
}

std::string random_word(std::span<const std::string_view> words, SplitMix& random) {
  if (!words.empty() && below(random, 4) != 0) return std::string(words[below(random, words.size())]);
  constexpr std::array<std::string_view, 8> kOdd = {"",  "a",    "\xff", "\u00e9",
                                                    "0", "../x", "a\nb", "\xed\xa0\x80"};
  return std::string(kOdd[below(random, kOdd.size())]);
}

Json random_value(std::span<const std::string_view> words, SplitMix& random) {
  constexpr std::array<int64_t, 9> kWhole = {0,
                                             1,
                                             -1,
                                             2,
                                             255,
                                             65536,
                                             1'000'000'007,
                                             std::numeric_limits<int64_t>::max(),
                                             std::numeric_limits<int64_t>::min()};
  constexpr std::array<double, 7> kReal = {0.0, -0.0, 0.5, 1e-320, 1e39, 1.7e308, -3.25};
  switch (below(random, 8)) {
    case 0:
      return nullptr;
    case 1:
      return below(random, 2) == 0;
    case 2:
      return kWhole[below(random, kWhole.size())];
    case 3:
      return kReal[below(random, kReal.size())];
    case 4:
      return below(random, 2) == 0 ? Json::array() : Json::object();
    case 5:
      return std::numeric_limits<uint64_t>::max() >> below(random, 64);
    default:
      return random_word(words, random);
  }
}

// Every value below, the root first.
void collect(Json& json, std::vector<Json*>& values) {
  values.push_back(&json);
  if (json.is_structured()) {
    for (Json& child : json) collect(child, values);
  }
}

void change_number(Json& number, SplitMix& random) {
  if (number.is_number_float()) {
    number = number.get<double>() * (below(random, 2) == 0 ? 2.0 : -0.5);
    return;
  }
  const auto value = number.get<uint64_t>();  // wraps as it likes
  switch (below(random, 4)) {
    case 0:
      number = value + 1;
      break;
    case 1:
      number = value - 1;
      break;
    case 2:
      number = value * 2;
      break;
    default:
      number = static_cast<int64_t>(0 - value);
  }
}

void change_structure(Json& json, std::vector<Json*>& values, std::span<const std::string_view> words,
                      SplitMix& random) {
  const Json other = *values[below(random, values.size())];
  if (json.is_array()) {
    const size_t at = below(random, json.size() + 1);
    if (at < json.size() && below(random, 3) == 0) {
      json.erase(at);
    } else {
      json.insert(json.begin() + static_cast<std::ptrdiff_t>(at),
                  below(random, 2) == 0 ? other : random_value(words, random));
    }
    return;
  }
  auto& members = json.get_ref<Json::object_t&>();
  const size_t at = below(random, members.size() + 1);
  if (at == members.size() || below(random, 3) == 0) {
    std::string key = random_word(words, random);
    if (!json.contains(key))
      members.emplace_back(std::move(key), below(random, 2) == 0 ? other : random_value(words, random));
  } else if (below(random, 2) == 0) {
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(at));
  } else {
    (members.begin() + static_cast<std::ptrdiff_t>(at))->second = other;
  }
}

constexpr std::array<std::string_view, 18> kJsonTokens = {
    "{",    "}",    "[", "]",     ",",  ":",  "\"", "\\u0000", "\\ud800",
    "null", "true", "-", "1e999", "0.", "\\", " ",  "\"a\":",  "[["};

}  // namespace

std::string mutate_tokens(std::string_view text, std::span<const std::string_view> tokens, SplitMix& random) {
  std::vector<std::string> words = words_of(text);
  for (size_t times = 1 + below(random, 4); times > 0; --times) change(words, tokens, random);
  return joined(words);
}

std::string mutate_lines(std::string_view text, std::span<const std::string_view> lines,
                         std::span<const std::string_view> tokens, SplitMix& random) {
  std::vector<std::string> all = lines_of(text);
  if (!all.empty() && below(random, 2) == 0) {
    std::string& line = all[below(random, all.size())];
    line = mutate_tokens(line, tokens, random);
  } else {
    change(all, lines, random);
  }
  return joined(all);
}

std::string mutate_json(std::string_view text, std::span<const std::string_view> words, SplitMix& random) {
  auto json = saccade::parse_json(text);
  if (!json || below(random, 16) == 0) return mutate_tokens(text, kJsonTokens, random);
  for (size_t times = 1 + below(random, 3); times > 0; --times) {
    std::vector<Json*> values;
    collect(*json, values);
    Json& chosen = *values[below(random, values.size())];
    if (chosen.is_structured() && below(random, 4) != 0) {
      change_structure(chosen, values, words, random);
    } else if (chosen.is_number() && below(random, 2) == 0) {
      change_number(chosen, random);
    } else {
      chosen =
          below(random, 4) == 0 ? Json(*values[below(random, values.size())]) : random_value(words, random);
    }
  }
  return saccade::dump_json(*json);
}

std::string mutate_part(std::string_view text, char separator, std::span<const Mutation> mutations,
                        SplitMix& random) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const size_t at = below(random, parts.size());
  parts[at] = mutations[std::min(at, mutations.size() - 1)](parts[at]);
  std::string whole;
  for (size_t i = 0; i < parts.size(); ++i) whole += (i == 0 ? "" : std::string(1, separator)) + parts[i];
  return whole;
}
