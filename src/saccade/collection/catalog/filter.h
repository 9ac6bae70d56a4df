// The filter language: conditions on catalog fields, turned into SQL with bound values.
//
//   width>=640 and format=jpeg and size<2MB
//   (path~"*/birds/*" or not caption~"*dog*") and date>=2024-01-01
//
//   filter     := and_terms { "or" and_terms }
//   and_terms  := term { "and" term }
//   term       := "not" term | "(" filter ")" | field operator value
//   value      := word | "text in double quotes" | 'or single', with \ before a quote or backslash
//
//   field                      operators           values
//   id width height rating     = != < <= > >=      whole numbers; a rating of 0: none
//   pixels                     = != < <= > >=      width x height; also 12M, 500k
//   aspect latitude longitude  = != < <= > >=      width / height; degrees north and east; decimal numbers
//   size                       = != < <= > >=      bytes, or 2kB, 2MB, 2GB (1000s), 2KiB, 2MiB, 2GiB (1024s)
//   date taken added           = != < <= > >=      2024, 2024-05, 2024-05-31, 2024-05-31T12:30[:15]
//   format hash                = != ~ !~           format ignores case and knows jpg, tif and heic
//   path caption camera lens place title keyword   = != ~ !~
//   photograph                 = !=                yes, no
//
// `taken` is the capture time in the file's metadata, in local time of the place. `date` is `taken`, or the
// file's own time in UTC if that is missing. `added` is the time of indexing. A date is the whole span it
// names: date=2024 is any moment of that year, date>2024 begins with 2025. `~` with any of * ? [ in its value
// matches a glob over the whole value (* any characters, "/" included, ? one, [a-z] a set). Without them it
// searches for the value anywhere. Comparisons ignore case and the encoding of accents (fold_case in
// text/normalize.h), except in `hash` and in "=" and globs over `path`. Each keyword of an image is a
// separate value: a condition on `keyword` is true if one of them meets it. Fields and keywords of the
// language ignore case.
//
// Logic has two values. A comparison with a missing value is false: latitude>0 and taken<2024 leave out images
// that do not have one. `not` negates, and != and !~ are the negations of = and ~: "not taken=2024" and
// taken!=2024 keep images without a date. A missing text is empty, and a missing rating is 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

using SqlValue = std::variant<int64_t, double, std::string>;

// A parsed filter as a tree, for stores that do not speak SQL. Logic has two values: a comparison with a missing value is
// false.
struct FilterNode {
  enum class Kind { kAnd, kOr, kNot, kCondition };
  // Comparison of a condition. Operators != and !~ are kNot around kEqual and around one of the last three.
  enum class Compare {
    kEqual,
    kLess,
    kAtMost,
    kGreater,
    kAtLeast,
    kGlob,      // `value` is SQLite's GLOB pattern for the whole text
    kContains,  // the text contains `value`
  };
  Kind kind = Kind::kAnd;
  std::vector<FilterNode> children = {};  // of kNot one; kAnd without any is true
  std::string field = {};  // a name of the language, such as "width"; "photograph" is its grain
  Compare compare = Compare::kEqual;
  SqlValue value = int64_t{0};  // a text is folded (fold_case) if `folded`
  bool folded = false;          // texts are compared without regard to case
};

// A parsed filter: a condition over the columns of `items`, and of `facts` with "facts." before them (filter_tables),
// with one "?" a value. The text never holds a value.
struct Filter {
  std::string sql;
  std::vector<SqlValue> values;
  // Its conditions one by one: what CollectionReader::why_empty looks at.
  struct Condition {
    std::string text;   // as it was written
    std::string field;  // in SQL
    std::string sql;
    std::vector<SqlValue> values;
  };
  std::vector<Condition> conditions = {};
  FilterNode tree = {};
  // Result for every item without a row of `facts`; `nullopt` if it depends on the item.
  std::optional<bool> without_facts = {};
  bool facts_alone = false;  // it is over columns of `facts` alone; without_facts has a value then
};

// Returns the tables that the SQL of a filter, a condition or a field is over, for a FROM clause.
std::string_view filter_tables(std::string_view sql);

// The span of time a date names, [begin, end) in seconds since 1970 UTC: 2024, 2024-05,
// 2024-05-31, 2024-05-31T12:30[:15], of the years 1700 to 2200. Nothing for other texts, and
// for days that no calendar has.
struct TimeSpan {
  int64_t begin = 0;
  int64_t end = 0;
};
std::optional<TimeSpan> parse_date(std::string_view text);

// The SQL of a field that is text (as the list above has them), for counting its values; nothing for others.
std::optional<std::string_view> text_field(std::string_view name);

// kUsage names what is wrong and the column (from 1) where, and not whose filter it is: callers
// say that. Any bytes; texts over 10,000 bytes, nested deeper than 12 or with more than 500
// conditions are refused. Thread-safe.
Result<Filter> parse_filter(std::string_view text);

}  // namespace saccade
