// A recursive descent over the grammar in filter.h, writing SQL as it goes.
#include "saccade/collection/catalog/filter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include <fmt/ranges.h>

#include "saccade/collection/catalog/sql_text.h"
#include "saccade/core/ascii.h"
#include "saccade/core/files/take_text.h"
#include "saccade/image/metadata/look.h"
#include "saccade/text/nearest.h"
#include "saccade/text/normalize.h"

namespace saccade {
namespace {

constexpr size_t kMaxText = 10'000;
// SQLite's own parser has room for 100 symbols, and a level can take five of them: "( a OR b AND".
constexpr int kMaxDepth = 12;
constexpr int kMaxConditions = 500;
constexpr size_t kMaxPattern = 1'000;

enum class Kind {
  kInteger,
  kCount,
  kBytes,
  kDecimal,
  kDate,
  kFlag,
  kFormat,
  kText,
  kName,     // text without regard to case
  kKeyword,  // names, each between line ends
};

struct Field {
  std::string_view name;
  std::string_view sql;
  Kind kind;
  bool of_facts = false;  // of the metadata alone
};

constexpr std::array kFields = {
    Field{"id", "items.id", Kind::kInteger},
    // NULL where an item without a file lacks them.
    Field{"width", "nullif(width, 0)", Kind::kInteger},
    Field{"height", "nullif(height, 0)", Kind::kInteger},
    Field{"pixels", "nullif(width * height, 0)", Kind::kCount},
    Field{"aspect", "(CAST(width AS REAL) / nullif(height, 0))", Kind::kDecimal},
    Field{"size", "nullif(size, -1)", Kind::kBytes},
    // whole_seconds() of the file's time.
    Field{"date", "coalesce(facts.taken, nullif(mtime_ns, -1) / 1000000000 - (mtime_ns % 1000000000 < 0))",
          Kind::kDate},
    Field{"taken", "facts.taken", Kind::kDate, true},
    Field{"added", "added", Kind::kDate},
    Field{"rating", "coalesce(facts.rating, 0)", Kind::kInteger, true},
    Field{"latitude", "facts.latitude", Kind::kDecimal, true},
    Field{"longitude", "facts.longitude", Kind::kDecimal, true},
    Field{"photograph", "coalesce(facts.grain, 0)", Kind::kFlag, true},
    Field{"format", "format", Kind::kFormat},
    Field{"hash", "hash", Kind::kText},
    Field{"path", kItemFile, Kind::kText},
    Field{"caption", "items.caption", Kind::kName},
    Field{"camera", "coalesce(facts.camera, '')", Kind::kName, true},
    Field{"lens", "coalesce(facts.lens, '')", Kind::kName, true},
    Field{"place", "coalesce(facts.place, '')", Kind::kName, true},
    Field{"title", "coalesce(facts.title, '')", Kind::kName, true},
    Field{"keyword", "coalesce(facts.keywords, '')", Kind::kKeyword, true},
};

bool is_text(Kind kind) {
  return kind >= Kind::kFormat;
}

struct Suffix {
  std::string_view name;
  int64_t factor;
};
constexpr std::array kByteSuffixes = {
    Suffix{"b", 1},         Suffix{"kb", 1'000},    Suffix{"mb", 1'000'000}, Suffix{"gb", 1'000'000'000},
    Suffix{"kib", 1 << 10}, Suffix{"mib", 1 << 20}, Suffix{"gib", 1 << 30}};
constexpr std::array kCountSuffixes = {Suffix{"k", 1'000}, Suffix{"m", 1'000'000}};

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
// Returns true for characters of an unquoted value: all except those that the grammar uses. Bytes of UTF-8
// are included.
bool is_word(char c) {
  return !is_space(c) && std::string_view("()\"'=!<>~").find(c) == std::string_view::npos;
}

// "12", "-1.5" as a double; nothing else of what from_chars would take (inf, nan, hex, exponents).
std::optional<double> parse_decimal(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || text.size() > 40 ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return is_ascii_digit(c) || c == '.'; })) {
    return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A number with one of the suffixes, rounded to a whole one.
std::optional<int64_t> parse_scaled(std::string_view text, std::span<const Suffix> suffixes) {
  size_t digits = 0;
  while (digits < text.size() && (is_ascii_digit(text[digits]) || text[digits] == '.')) ++digits;
  const std::string suffix = lower_ascii(text.substr(digits));
  int64_t factor = suffix.empty() ? 1 : 0;
  for (const Suffix& candidate : suffixes) {
    if (candidate.name == suffix) factor = candidate.factor;
  }
  if (factor == 0) return std::nullopt;
  if (factor == 1) return parse_integer(text.substr(0, digits));
  const auto number = parse_decimal(text.substr(0, digits));
  if (!number || *number * static_cast<double>(factor) > 9e18) return std::nullopt;
  return std::llround(*number * static_cast<double>(factor));
}

std::optional<TimeSpan> parse_time(std::string_view text, std::chrono::sys_days day) {
  const int64_t midnight = std::chrono::sys_seconds(day).time_since_epoch().count();
  const auto hour = take_digits(text, 2);
  if (!hour || *hour > 23 || !take_any(text, ":")) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || *minute > 59) return std::nullopt;
  const int64_t begin = midnight + *hour * 3600 + *minute * 60;
  if (text.empty()) return TimeSpan{begin, begin + 60};
  if (!take_any(text, ":")) return std::nullopt;
  const auto second = take_digits(text, 2);
  if (!second || *second > 59 || !text.empty()) return std::nullopt;
  return TimeSpan{begin + *second, begin + *second + 1};
}

}  // namespace

std::optional<TimeSpan> parse_date(std::string_view text) {
  using namespace std::chrono;
  const auto seconds_of = [](year_month_day date) {
    return sys_seconds(sys_days(date)).time_since_epoch().count();
  };
  const auto y = take_digits(text, 4);
  // Nanoseconds since 1970 in 64 bits reach from 1678 to 2261.
  if (!y || *y < 1700 || *y > 2200) return std::nullopt;
  const year_month_day new_year = year(*y) / January / 1;
  if (text.empty()) return TimeSpan{seconds_of(new_year), seconds_of(new_year + years(1))};
  if (!take_any(text, "-")) return std::nullopt;
  const auto m = take_digits(text, 2);
  if (!m || *m < 1 || *m > 12) return std::nullopt;
  const year_month_day first = year(*y) / *m / 1;
  if (text.empty()) return TimeSpan{seconds_of(first), seconds_of(first + months(1))};
  if (!take_any(text, "-")) return std::nullopt;
  const auto d = take_digits(text, 2);
  if (!d) return std::nullopt;
  const year_month_day date = year(*y) / *m / *d;
  if (!date.ok()) return std::nullopt;
  if (text.empty()) return TimeSpan{seconds_of(date), seconds_of(date) + 86'400};
  if (!take_any(text, "T")) return std::nullopt;
  return parse_time(text, sys_days(date));
}

namespace {

const Field* field_of(std::string_view name) {
  const auto* const field = std::ranges::find(kFields, name, &Field::name);
  return field == kFields.end() ? nullptr : field;
}

// Returns what a condition on metadata says of an item that has none; `nullopt` for other conditions.
std::optional<bool> missing_meets(const FilterNode& condition) {
  using Compare = FilterNode::Compare;
  const Field* field = field_of(condition.field);
  if (field == nullptr || !field->of_facts) return std::nullopt;
  if (field->kind == Kind::kDate || field->kind == Kind::kDecimal || field->kind == Kind::kKeyword)
    return false;
  if (const auto* text = std::get_if<std::string>(&condition.value)) {
    // An empty text meets a glob of stars alone.
    return condition.compare == Compare::kGlob ? text->find_first_not_of('*') == std::string::npos
                                               : text->empty();
  }
  const auto* whole = std::get_if<int64_t>(&condition.value);
  const double value = whole != nullptr ? static_cast<double>(*whole) : std::get<double>(condition.value);
  switch (condition.compare) {
    case Compare::kEqual:
      return value == 0;
    case Compare::kLess:
      return value > 0;
    case Compare::kAtMost:
      return value >= 0;
    case Compare::kGreater:
      return value < 0;
    case Compare::kAtLeast:
      return value <= 0;
    case Compare::kGlob:
    case Compare::kContains:
      break;
  }
  return std::nullopt;
}

// Returns what the filter says of every item without metadata; `nullopt` if it depends on the item.
std::optional<bool> missing_passes(const FilterNode& node) {
  if (node.kind == FilterNode::Kind::kCondition) return missing_meets(node);
  if (node.kind == FilterNode::Kind::kNot) {
    const std::optional<bool> inner = missing_passes(node.children.front());
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  // One false child decides "and", one true child decides "or".
  const bool decides = node.kind == FilterNode::Kind::kOr;
  std::optional<bool> all = !decides;
  for (const FilterNode& child : node.children) {
    const std::optional<bool> one = missing_passes(child);
    if (one == decides) return decides;
    if (!one) all.reset();
  }
  return all;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Filter> parse() {
    if (text_.size() > kMaxText) {
      return fail(ErrorCode::kUsage, "{} bytes, limit {}", text_.size(), kMaxText);
    }
    SACCADE_ASSIGN(filter_.tree, parse_or());
    skip_spaces();
    if (at_ < text_.size()) return wrong(at_, "\"and\", \"or\" or the end");
    filter_.without_facts = missing_passes(filter_.tree);
    return std::move(filter_);
  }

 private:
  // "column 7: expected X, found Y"
  [[nodiscard]] tl::unexpected<Error> wrong(size_t where, std::string_view expected,
                                            std::string_view suggestion = {}) const {
    std::string found = "the end";
    if (where < text_.size()) {
      size_t end = where + 1;
      while (end < text_.size() && is_word(text_[where]) && is_word(text_[end]) && end - where < 40) ++end;
      found = fmt::format("\"{}\"", text_.substr(where, end - where));
    }
    return fail(ErrorCode::kUsage, "column {}: expected {}, found {}{}", where + 1, expected, found,
                suggestion);
  }

  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  // Takes the keyword if it stands here as a word of its own.
  bool take_keyword(std::string_view keyword) {
    skip_spaces();
    const std::string_view here = text_.substr(at_, keyword.size());
    if (lower_ascii(here) != keyword) return false;
    const size_t end = at_ + keyword.size();
    if (end < text_.size() && is_word(text_[end])) return false;
    at_ = end;
    return true;
  }

  // Returns the only child, or a node around several.
  static FilterNode joined(FilterNode::Kind kind, std::vector<FilterNode> children) {
    if (children.size() == 1) return std::move(children.front());
    return {.kind = kind, .children = std::move(children)};
  }

  Result<FilterNode> parse_or() {
    filter_.sql += '(';
    std::vector<FilterNode> children(1);
    SACCADE_ASSIGN(children.back(), parse_and());
    while (take_keyword("or")) {
      filter_.sql += " OR ";
      SACCADE_ASSIGN(children.emplace_back(), parse_and());
    }
    filter_.sql += ')';
    return joined(FilterNode::Kind::kOr, std::move(children));
  }

  Result<FilterNode> parse_and() {
    std::vector<FilterNode> children(1);
    SACCADE_ASSIGN(children.back(), parse_term());
    while (take_keyword("and")) {
      filter_.sql += " AND ";
      SACCADE_ASSIGN(children.emplace_back(), parse_term());
    }
    return joined(FilterNode::Kind::kAnd, std::move(children));
  }

  static FilterNode negation(FilterNode node) {
    FilterNode negated{.kind = FilterNode::Kind::kNot};
    negated.children.push_back(std::move(node));
    return negated;
  }

  Status enter(size_t start) {
    if (++depth_ <= kMaxDepth) return {};
    return fail(ErrorCode::kUsage, "column {}: nested deeper than {} levels", start + 1, kMaxDepth);
  }

  Result<FilterNode> parse_term() {
    skip_spaces();
    const size_t start = at_;
    if (take_keyword("not")) {
      SACCADE_TRY(enter(start));
      filter_.sql += "NOT (";
      SACCADE_ASSIGN(FilterNode negated, parse_term());
      filter_.sql += ')';
      --depth_;
      return negation(std::move(negated));
    }
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      SACCADE_TRY(enter(start));
      SACCADE_ASSIGN(FilterNode inner, parse_or());
      --depth_;
      skip_spaces();
      if (at_ >= text_.size() || text_[at_] != ')') {
        return wrong(at_, fmt::format("\"and\", \"or\" or the \")\" for column {}", start + 1));
      }
      ++at_;
      return inner;
    }
    return parse_condition();
  }

  Result<FilterNode> parse_condition() {
    if (++conditions_ > kMaxConditions) {
      return fail(ErrorCode::kUsage, "column {}: more than {} conditions", at_ + 1, kMaxConditions);
    }
    const size_t start = at_;
    while (at_ < text_.size() && is_ascii_letter(text_[at_])) ++at_;
    const std::string name = lower_ascii(text_.substr(start, at_ - start));
    const Field* const field = field_of(name);
    if (field == nullptr) {
      at_ = start;
      std::array<std::string_view, kFields.size()> names;
      std::ranges::transform(kFields, names.begin(), &Field::name);
      return wrong(start, fmt::format("a field ({})", fmt::join(names, ", ")), did_you_mean(name, names));
    }
    skip_spaces();
    const size_t operator_at = at_;
    const std::string_view op = take_operator();
    const bool text = is_text(field->kind);
    const std::string_view operators = text                         ? "= != ~ !~"
                                       : field->kind == Kind::kFlag ? "= !="
                                                                    : "= != < <= > >=";
    const bool order = !op.empty() && (op[0] == '<' || op[0] == '>');
    if (op.empty() || (order && operators.find('<') == std::string_view::npos) ||
        (!text && op.back() == '~')) {
      return wrong(operator_at, fmt::format("one of {} after \"{}\"", operators, name));
    }
    skip_spaces();
    const size_t value_at = at_;
    SACCADE_ASSIGN(const std::string value, take_value());
    const size_t sql_at = filter_.sql.size();
    const size_t values_at = filter_.values.size();
    // A comparison with NULL, a missing value, is false, and != and !~ are the opposite of = and ~ as "not" is.
    const bool negated = op[0] == '!';
    const std::string_view plain = negated ? op.substr(1) : op;
    filter_.sql += negated ? "NOT coalesce(" : "coalesce(";
    leaf_ = {.kind = FilterNode::Kind::kCondition, .field = std::string(field->name)};
    filter_.facts_alone = (conditions_ == 1 || filter_.facts_alone) && field->of_facts;
    SACCADE_TRY(text                         ? text_condition(*field, plain, value, value_at)
                : field->kind == Kind::kDate ? date_condition(*field, plain, value, value_at)
                : field->kind == Kind::kFlag ? flag_condition(*field, value, value_at)
                                             : number_condition(*field, plain, value, value_at));
    filter_.sql += ", 0)";
    filter_.conditions.push_back(
        {std::string(text_.substr(start, at_ - start)),
         std::string(field->sql),
         filter_.sql.substr(sql_at),
         {filter_.values.begin() + static_cast<std::ptrdiff_t>(values_at), filter_.values.end()}});
    return negated ? negation(std::move(leaf_)) : std::move(leaf_);
  }

  std::string_view take_operator() {
    for (const std::string_view op : {"!=", "!~", "<=", ">=", "=", "<", ">", "~"}) {
      if (text_.substr(at_).starts_with(op)) {
        at_ += op.size();
        return op;
      }
    }
    return {};
  }

  Result<std::string> take_value() {
    std::string value;
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const size_t start = at_;
      const char quote = text_[at_++];
      for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
        const bool escape = text_[at_] == '\\' && at_ + 1 < text_.size() &&
                            (text_[at_ + 1] == '"' || text_[at_ + 1] == '\'' || text_[at_ + 1] == '\\');
        if (escape) ++at_;
        value += text_[at_];
      }
      if (at_ >= text_.size()) return wrong(at_, fmt::format("the {} for column {}", quote, start + 1));
      ++at_;
    } else {
      const size_t start = at_;
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
      if (at_ == start) return wrong(at_, "a value");
      value = text_.substr(start, at_ - start);
    }
    if (value.find('\0') != std::string::npos) {
      return fail(ErrorCode::kUsage, "column {}: a zero byte in the value", at_ + 1);
    }
    return value;
  }

  Status text_condition(const Field& field, std::string_view op, std::string value, size_t value_at) {
    if (value.size() > kMaxPattern) {
      return fail(ErrorCode::kUsage, "column {}: a value of {} bytes, limit {}", value_at + 1, value.size(),
                  kMaxPattern);
    }
    const bool whole = op == "=";
    const bool glob = !whole && value.find_first_of("*?[") != std::string::npos;
    using Compare = FilterNode::Compare;
    leaf_.compare = whole ? Compare::kEqual : glob ? Compare::kGlob : Compare::kContains;
    leaf_.folded = field.kind != Kind::kFormat && (field.kind != Kind::kText || (!whole && !glob));
    if (field.kind == Kind::kFormat) {
      value = format_of(lower_ascii(value));
    } else if (leaf_.folded) {
      value = fold_case(value);
    }
    if (leaf_.folded) {
      filter_.sql +=
          fmt::format("{}({}, '{}', ?)", field.kind == Kind::kKeyword ? "any_line" : "folded", field.sql,
                      whole  ? "is"
                      : glob ? "glob"
                             : "has");
    } else if (whole) {
      filter_.sql += fmt::format("{} = ?", field.sql);
    } else {
      filter_.sql += glob ? fmt::format("{} GLOB ?", field.sql) : fmt::format("instr({}, ?) > 0", field.sql);
    }
    leaf_.value = value;
    filter_.values.emplace_back(std::move(value));
    return {};
  }

  // Endings that people say for formats.
  static std::string format_of(std::string value) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kSaid = {{{"jpg", "jpeg"},
                                                                                     {"jpe", "jpeg"},
                                                                                     {"jfif", "jpeg"},
                                                                                     {"tif", "tiff"},
                                                                                     {"heic", "heif"},
                                                                                     {"hif", "heif"},
                                                                                     {"dib", "bmp"},
                                                                                     {"svgz", "svg"}}};
    if (value.starts_with('.')) value.erase(0, 1);
    for (const auto& [said, meant] : kSaid) {
      if (value == said) return std::string(meant);
    }
    return value;
  }

  Status flag_condition(const Field& field, const std::string& value, size_t value_at) {
    const std::string word = lower_ascii(value);
    const bool yes = word == "yes" || word == "true" || word == "1";
    if (!yes && word != "no" && word != "false" && word != "0") return wrong(value_at, "yes or no");
    filter_.sql += fmt::format("{} {} ?", field.sql, yes ? ">=" : "<");
    leaf_.compare = yes ? FilterNode::Compare::kAtLeast : FilterNode::Compare::kLess;
    leaf_.value = kPhotographGrain;
    filter_.values.emplace_back(kPhotographGrain);
    return {};
  }

  Status number_condition(const Field& field, std::string_view op, const std::string& value,
                          size_t value_at) {
    filter_.sql += fmt::format("{} {} ?", field.sql, op);
    leaf_.compare = comparison(op);
    if (field.kind == Kind::kDecimal) {
      const auto number = parse_decimal(value);
      if (!number) return wrong(value_at, "a number like 1.5");
      leaf_.value = *number;
      filter_.values.emplace_back(*number);
      return {};
    }
    const auto number = field.kind == Kind::kBytes   ? parse_scaled(value, kByteSuffixes)
                        : field.kind == Kind::kCount ? parse_scaled(value, kCountSuffixes)
                                                     : parse_integer(value);
    if (!number) {
      return wrong(value_at, field.kind == Kind::kBytes   ? "a size like 500, 2kB, 1.5MB or 1GiB"
                             : field.kind == Kind::kCount ? "a number like 500000, 500k or 12M"
                                                          : "a whole number");
    }
    leaf_.value = *number;
    filter_.values.emplace_back(*number);
    return {};
  }

  static FilterNode::Compare comparison(std::string_view op) {
    using Compare = FilterNode::Compare;
    if (op == "=") return Compare::kEqual;
    if (op[0] == '<') return op == "<" ? Compare::kLess : Compare::kAtMost;
    return op == ">" ? Compare::kGreater : Compare::kAtLeast;
  }

  Status date_condition(const Field& field, std::string_view op, const std::string& value, size_t value_at) {
    const auto span = parse_date(value);
    if (!span) return wrong(value_at, "a date like 2024, 2024-05, 2024-05-31 or 2024-05-31T12:30");
    const auto [begin, end] = *span;
    if (op == "=") {
      filter_.sql += fmt::format("{0} >= ? AND {0} < ?", field.sql);
      filter_.values.emplace_back(begin);
      filter_.values.emplace_back(end);
      FilterNode from = leaf_;
      from.compare = FilterNode::Compare::kAtLeast;
      from.value = begin;
      FilterNode before = leaf_;
      before.compare = FilterNode::Compare::kLess;
      before.value = end;
      leaf_ = {.kind = FilterNode::Kind::kAnd};
      leaf_.children = {std::move(from), std::move(before)};
      return {};
    }
    // After a span is from its end on; up to and including it is before its end.
    const bool at_end = op == ">" || op == "<=";
    filter_.sql += fmt::format("{} {} ?", field.sql, op[0] == '<' ? "<" : ">=");
    leaf_.compare = op[0] == '<' ? FilterNode::Compare::kLess : FilterNode::Compare::kAtLeast;
    leaf_.value = at_end ? end : begin;
    filter_.values.emplace_back(at_end ? end : begin);
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  int conditions_ = 0;
  FilterNode leaf_;  // the condition that is being parsed
  Filter filter_;
};

}  // namespace

std::optional<std::string_view> text_field(std::string_view name) {
  for (const Field& field : kFields) {
    if (field.name == name && is_text(field.kind)) return field.sql;
  }
  return std::nullopt;
}

std::string_view filter_tables(std::string_view sql) {
  return sql.find("facts.") == std::string_view::npos ? "items"
                                                      : "items LEFT JOIN facts ON facts.id = items.id";
}

Result<Filter> parse_filter(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace saccade
