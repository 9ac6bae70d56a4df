#include "lab/data/readers/json_records.h"

#include <algorithm>

namespace saccade::lab::data {
namespace {

constexpr size_t kOutlineMembers = 32;
constexpr size_t kMaxLook = 1 << 20;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Scans one JSON text. It only tracks strings and brackets; the user of a value parses it.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    constexpr std::string_view kMark = "\xef\xbb\xbf";  // a byte order mark, as some tools put first
    if (text_.starts_with(kMark)) at_ = kMark.size();
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] size_t at() const { return at_; }

  Status expect(char wanted) {
    skip_space();
    if (at_end() || text_[at_] != wanted) return wrong(fmt::format("'{}'", wanted));
    ++at_;
    return {};
  }
  [[nodiscard]] tl::unexpected<Error> wrong(std::string_view wanted) const {
    if (at_end()) return fail(ErrorCode::kBadData, "not JSON: it ends where {} should be", wanted);
    return fail(ErrorCode::kBadData, "not JSON at byte {}: expected {}", at_, wanted);
  }

  // Returns the text of the current value, without the spaces around it.
  Result<std::string_view> value() {
    skip_space();
    const size_t begin = at_;
    int64_t depth = 0;
    do {
      if (at_end()) return wrong("the end of a value");
      const char c = text_[at_];
      if (c == '"') {
        if (!skip_string()) return wrong("the end of a string");
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') {
        if (depth == 0) break;  // end of the enclosing value
        --depth;
      } else if (depth == 0 && (c == ',' || c == ':' || is_space(c))) {
        break;
      }
      ++at_;
      if (depth == 0 && (c == '}' || c == ']')) break;
    } while (depth > 0 || !at_end());
    if (at_ == begin) return wrong("a value");
    return text_.substr(begin, at_ - begin);
  }

 private:
  bool skip_string() {
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (c == '\\') ++at_;
    }
    at_ = text_.size();
    return false;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Walks over members or elements between brackets. each(scanner) takes one, and may stop the walk.
Status walk(Scanner& scanner, char open, char close, const std::function<Result<bool>()>& each) {
  SACCADE_TRY(scanner.expect(open));
  scanner.skip_space();
  if (scanner.peek() == close) return scanner.expect(close);
  for (;;) {
    SACCADE_ASSIGN(const bool go_on, each());
    if (!go_on) return {};
    scanner.skip_space();
    if (scanner.peek() == close) return scanner.expect(close);
    SACCADE_TRY(scanner.expect(','));
  }
}

Status expect_end(Scanner& scanner) {
  scanner.skip_space();
  if (!scanner.at_end()) return scanner.wrong("the end of the file");
  return {};
}

Result<std::string> read_key(Scanner& scanner) {
  SACCADE_ASSIGN(const std::string_view text, scanner.value());
  SACCADE_ASSIGN(const Json key, parse_json(text));
  if (!key.is_string()) return fail(ErrorCode::kBadData, "a key that is {}", json_kind(key));
  SACCADE_TRY(scanner.expect(':'));
  return key.get<std::string>();
}

}  // namespace

Status for_each_element(std::string_view text,
                        const std::function<Status(int64_t, std::string_view)>& element) {
  Scanner scanner(text);
  int64_t number = 0;
  const auto each = [&]() -> Result<bool> {
    ++number;
    SACCADE_ASSIGN(const std::string_view value, scanner.value());
    SACCADE_TRY(element(number, value).in(fmt::format("record {}", number)));
    return true;
  };
  SACCADE_TRY(walk(scanner, '[', ']', each));
  return expect_end(scanner);
}

Status for_each_member(std::string_view text,
                       const std::function<Status(const std::string&, std::string_view)>& member) {
  Scanner scanner(text);
  const auto each = [&]() -> Result<bool> {
    SACCADE_ASSIGN(const std::string key, read_key(scanner));
    SACCADE_ASSIGN(const std::string_view value, scanner.value());
    SACCADE_TRY(member(key, value));
    return true;
  };
  SACCADE_TRY(walk(scanner, '{', '}', each));
  return expect_end(scanner);
}

Status for_each_record(std::string_view array, const std::function<Status(int64_t, const Json&)>& record) {
  return for_each_element(array, [&](int64_t number, std::string_view text) -> Status {
    SACCADE_ASSIGN(const Json json, parse_json(text));
    if (!json.is_object()) return fail(ErrorCode::kBadData, "{}, not an object", json_kind(json));
    return record(number, json);
  });
}

std::string_view JsonOutline::member(std::string_view key) const {
  for (const auto& [name, text] : members) {
    if (name == key) return text;
  }
  return {};
}

std::optional<JsonOutline> outline_json(std::string_view text) {
  Scanner scanner(text);
  scanner.skip_space();
  const char open = scanner.peek();
  if (open != '{' && open != '[') return std::nullopt;
  JsonOutline outline;
  outline.array = open == '[';
  const auto value = scanner.value();
  if (!value) return std::nullopt;
  outline.value = *value;
  scanner.skip_space();
  outline.more = !scanner.at_end();
  if (outline.array) {
    outline.first = first_element(*value);
    return outline;
  }
  Scanner inside(*value);
  const auto each = [&]() -> Result<bool> {
    SACCADE_ASSIGN(std::string key, read_key(inside));
    SACCADE_ASSIGN(const std::string_view member, inside.value());
    outline.members.emplace_back(std::move(key), member);
    return outline.members.size() < kOutlineMembers;
  };
  if (!walk(inside, '{', '}', each)) return std::nullopt;
  return outline;
}

bool has_keys(std::string_view value, std::initializer_list<std::string_view> keys) {
  if (value.empty() || value.size() > kMaxLook) return false;
  const auto json = parse_json(value);
  return json && json->is_object() &&
         std::all_of(keys.begin(), keys.end(), [&](auto key) { return json->contains(std::string(key)); });
}

std::string_view first_element(std::string_view array) {
  std::string_view first;
  Scanner scanner(array);
  const Status ignored = walk(scanner, '[', ']', [&]() -> Result<bool> {
    SACCADE_ASSIGN(first, scanner.value());
    return false;
  });
  return ignored ? first : std::string_view();
}

}  // namespace saccade::lab::data
