// What people type: queries, filters and dates. The first byte chooses.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "saccade/collection/catalog/filter.h"
#include "saccade/search/query_language.h"

#include "fuzz.h"
#include "mutators.h"

namespace {

using namespace saccade;

void try_query(std::string_view text) {
  const auto read = read_query_text(text);
  if (!read) {
    FUZZ_CHECK(read.error().code == ErrorCode::kUsage && !read.error().message.empty());
    return;
  }
  FUZZ_CHECK(read->str().size() <= text.size());
  // The weight of a single wanted part counts against nothing.
  if (read->parts().size() == 1) FUZZ_CHECK(read->is_plain() || read->parts().front().weight < 0);
  for (const QueryPart& part : read->parts()) {
    FUZZ_CHECK(!part.text.empty() && part.text.size() <= text.size());
    FUZZ_CHECK(std::abs(part.weight) > 0 && std::abs(part.weight) <= kMostWeight);
  }
  for (const auto& phrase : read->phrases()) FUZZ_CHECK(!phrase.empty());
}

void try_filter(std::string_view text) {
  const auto filter = parse_filter(text);
  if (!filter) {
    FUZZ_CHECK(filter.error().code == ErrorCode::kUsage && !filter.error().message.empty());
    return;
  }
  // The text never holds a value: whatever is written, SQL has one "?" for each.
  FUZZ_CHECK(std::ranges::count(filter->sql, '?') == std::ssize(filter->values));
  FUZZ_CHECK(!filter->conditions.empty() && filter->conditions.size() <= 500);
  for (const Filter::Condition& condition : filter->conditions) {
    FUZZ_CHECK(std::ranges::count(condition.sql, '?') == std::ssize(condition.values));
    FUZZ_CHECK(!condition.field.empty() && condition.text.size() <= text.size());
  }
}

constexpr std::array<std::string_view, 26> kQueryTokens = {
    "\"",   "\u201c", "\u201d", "\u201e", "-",    ":2",   ":0.5",   ":-1",    ":",
    " ",    " -- ",   "cats",   "16:9",   ":1e9", ":nan", ":10",    "\u00ab", "\u00bb",
    "\xff", "-\"",    "\":3",   "\n",     "\t",   "'",    "\u3000", "e\u0301"};
constexpr std::array<std::string_view, 60> kFilterTokens = {"id",
                                                            "width",
                                                            "height",
                                                            "rating",
                                                            "pixels",
                                                            "aspect",
                                                            "latitude",
                                                            "longitude",
                                                            "size",
                                                            "date",
                                                            "taken",
                                                            "added",
                                                            "format",
                                                            "hash",
                                                            "path",
                                                            "caption",
                                                            "camera",
                                                            "lens",
                                                            "place",
                                                            "title",
                                                            "keyword",
                                                            "photograph",
                                                            "=",
                                                            "!=",
                                                            "<",
                                                            "<=",
                                                            ">",
                                                            ">=",
                                                            "~",
                                                            "!~",
                                                            " and ",
                                                            " or ",
                                                            "not ",
                                                            "(",
                                                            ")",
                                                            "((((",
                                                            "\"",
                                                            "'",
                                                            "12M",
                                                            "2GiB",
                                                            "1e308",
                                                            "2024",
                                                            "2024-05",
                                                            "2024-02-30",
                                                            "2024-05-31T12:30:15",
                                                            "jpg",
                                                            "yes",
                                                            "no",
                                                            "*",
                                                            "?",
                                                            "[a-z]",
                                                            "[!",
                                                            "-1",
                                                            "0.5",
                                                            " ",
                                                            "9223372036854775807",
                                                            "9223372036854775808",
                                                            "\\",
                                                            "\u00e9",
                                                            "%"};

}  // namespace

int fuzz_input(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'Q':
      try_query(text);
      break;
    case 'D':
      if (const auto span = parse_date(text)) FUZZ_CHECK(span->begin < span->end);
      break;
    default:
      try_filter(text);
  }
  return 0;
}

std::string fuzz_mutate(std::string input, SplitMix& random) {
  if (input.empty()) return "F";
  const std::string_view text = std::string_view(input).substr(1);
  std::string changed = input.substr(0, 1);
  changed += input[0] == 'Q' ? mutate_tokens(text, kQueryTokens, random)
                             : mutate_tokens(text, kFilterTokens, random);
  return changed;
}
