#include "saccade/collection/weaviate/where.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "saccade/collection/weaviate/weaviate_client.h"
#include "saccade/text/utf8.h"

namespace saccade::weaviate {
namespace {

// First code point of a private use area: characters that Weaviate does not keep, or takes for wildcards, are counted from
// here.
constexpr char32_t kPrivate = 0xE000;

struct Property {
  std::string_view field;
  std::string_view name;
  std::string_view folded;  // property of the text without regard to case; empty: the same
};
constexpr std::array kProperties = {
    Property{"id", "number", ""},         Property{"width", "width", ""},
    Property{"height", "height", ""},     Property{"pixels", "pixels", ""},
    Property{"aspect", "aspect", ""},     Property{"size", "size", ""},
    Property{"date", "date", ""},         Property{"taken", "taken", ""},
    Property{"added", "added", ""},       Property{"rating", "rating", ""},
    Property{"latitude", "latitude", ""}, Property{"longitude", "longitude", ""},
    Property{"photograph", "grain", ""},  Property{"format", "format", ""},
    Property{"hash", "hash", ""},         Property{"path", "path", "path_folded"},
    Property{"caption", "caption", ""},   Property{"camera", "camera", ""},
    Property{"lens", "lens", ""},         Property{"place", "place", ""},
    Property{"title", "title", ""},       Property{"keyword", "keywords", ""},
};

std::string property_of(const FilterNode& node) {
  for (const Property& property : kProperties) {
    if (property.field != node.field) continue;
    return std::string(node.folded && !property.folded.empty() ? property.folded : property.name);
  }
  return node.field;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    const bool special = point < 0x20 || point == U'*' || point == U'?' || point == 0x7F;
    append_utf8(result, special ? kPrivate + point : point);
  }
  return result;
}

// A condition, or a constant.
struct Part {
  enum class Kind { kTrue, kFalse, kText };
  Kind kind = Kind::kTrue;
  std::string text;
  bool exact = true;
  bool negated = false;  // has a Not
};

std::string condition(std::string_view property, std::string_view op, const std::string& value_key,
                      const std::string& value) {
  return fmt::format("{{path:[\"{}\"],operator:{},{}:{}}}", property, op, value_key, value);
}

std::string like(std::string_view property, const std::string& pattern) {
  return condition(property, "Like", "valueText", graphql_string(pattern));
}

std::string negation(const std::string& condition_text) {
  return fmt::format("{{operator:Not,operands:[{}]}}", condition_text);
}

// Met by every object that is stored: Weaviate's index has few different formats, and none of a removed object.
std::string stored() {
  return like("format", "=*=");
}

// superset: whether the result may hold for more items than the condition does, or for fewer, where it is not exact.
Part text_part(const FilterNode& node, const std::string& value, bool superset) {
  const std::string property = property_of(node);
  if (node.compare == FilterNode::Compare::kEqual) {
    return {Part::Kind::kText, condition(property, "Equal", "valueText", graphql_string(kept_text(value)))};
  }
  if (node.compare == FilterNode::Compare::kContains) {
    return {Part::Kind::kText, like(property, fmt::format("=*{}*=", escaped(value)))};
  }
  // A set of characters, and what follows it, is any text.
  const size_t set = std::min(value.find('['), value.size());
  std::string pattern = "=";
  for (size_t at = 0; at < set;) {
    const size_t next = std::min(value.find_first_of("*?", at), set);
    pattern += escaped(std::string_view(value).substr(at, next - at));
    if (next < set) pattern += value[next];
    at = next + 1;
  }
  if (set == value.size()) return {Part::Kind::kText, like(property, pattern + "=")};
  if (!superset) return {.kind = Part::Kind::kFalse, .text = {}, .exact = false};
  return {Part::Kind::kText, like(property, pattern + "*="), false};
}

Part number_part(const FilterNode& node) {
  using Compare = FilterNode::Compare;
  const double value = std::holds_alternative<double>(node.value)
                           ? std::get<double>(node.value)
                           : static_cast<double>(std::get<int64_t>(node.value));
  const std::string_view op = node.compare == Compare::kEqual     ? "Equal"
                              : node.compare == Compare::kLess    ? "LessThan"
                              : node.compare == Compare::kAtMost  ? "LessThanEqual"
                              : node.compare == Compare::kGreater ? "GreaterThan"
                                                                  : "GreaterThanEqual";
  return {Part::Kind::kText, condition(property_of(node), op, "valueNumber", fmt::format("{}", value))};
}

Part part_of(const FilterNode& node, bool superset) {
  using Kind = FilterNode::Kind;
  if (node.kind == Kind::kCondition) {
    if (const auto* text = std::get_if<std::string>(&node.value)) return text_part(node, *text, superset);
    return number_part(node);
  }
  if (node.kind == Kind::kNot) {
    Part inner = part_of(node.children.front(), !superset);
    if (inner.kind == Part::Kind::kText) {
      inner.text = negation(inner.text);
      inner.negated = true;
    } else {
      inner.kind = inner.kind == Part::Kind::kTrue ? Part::Kind::kFalse : Part::Kind::kTrue;
    }
    return inner;
  }
  const bool all = node.kind == Kind::kAnd;
  // A false part decides "and", and a true one says nothing; "or" is the other way round.
  const Part::Kind decides = all ? Part::Kind::kFalse : Part::Kind::kTrue;
  std::string operands;
  int count = 0;
  Part joined{.kind = all ? Part::Kind::kTrue : Part::Kind::kFalse, .text = {}};
  for (const FilterNode& child : node.children) {
    Part part = part_of(child, superset);
    joined.exact = joined.exact && part.exact;
    joined.negated = joined.negated || part.negated;
    if (part.kind == decides) joined.kind = decides;
    if (part.kind != Part::Kind::kText) continue;
    operands += (operands.empty() ? "" : ",") + part.text;
    ++count;
  }
  if (joined.kind == decides || count == 0) return joined;
  joined.kind = Part::Kind::kText;
  joined.text =
      count == 1 ? operands : fmt::format("{{operator:{},operands:[{}]}}", all ? "And" : "Or", operands);
  return joined;
}

}  // namespace

std::string kept_text(std::string_view text) {
  return fmt::format("={}=", escaped(text));
}

std::string equals(std::string_view property, std::string_view text) {
  return condition(property, "Equal", "valueText", graphql_string(text));
}

std::string any_of_ids(const std::vector<std::string>& ids) {
  std::string list;
  for (const std::string& id : ids) {
    if (!list.empty()) list += ',';
    list += graphql_string(id);
  }
  return fmt::format("{{path:[\"id\"],operator:ContainsAny,valueText:[{}]}}", list);
}

std::string path_under(std::string_view path) {
  std::string folder(path);
  while (folder.ends_with('/')) folder.pop_back();
  return fmt::format("{{operator:Or,operands:[{},{}]}}", equals("path", kept_text(path)),
                     like("path", fmt::format("={}/*=", escaped(folder))));
}

std::string not_met(const std::string& condition) {
  return both(negation(condition), stored());
}

std::string both(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return a + b;
  return fmt::format("{{operator:And,operands:[{},{}]}}", a, b);
}

Where where_of(const FilterNode& filter) {
  const Part part = part_of(filter, true);
  Where where;
  where.exact = part.exact;
  if (part.kind == Part::Kind::kText) where.graphql = part.negated ? both(part.text, stored()) : part.text;
  // No property begins otherwise than with "=".
  if (part.kind == Part::Kind::kFalse) where.graphql = equals("path", "-");
  return where;
}

}  // namespace saccade::weaviate
