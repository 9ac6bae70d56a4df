#include "saccade/core/json.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "saccade/core/files/files.h"

namespace saccade {

void empty_json(Json& value) {
  if (auto* array = value.get_ptr<Json::array_t*>()) {
    for (Json& element : *array) empty_json(element);
    array->clear();
  } else if (auto* object = value.get_ptr<Json::object_t*>()) {
    for (auto& member : *object) empty_json(member.second);
    object->clear();
  }
}

std::string_view json_kind(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "true or false";
    default:
      return "a number";
  }
}

namespace {

// Builds a value from the parser's events. The library's own builder searches for each key among all earlier
// ones, which takes minutes for an object of a million keys. It also silently keeps the last of two equal
// keys.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder() = default;
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  ~Builder() override {
    for (Open& one : open_) empty_json(one.value);
    empty_json(root_);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // never in JSON text

  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool key(string_t& value) override {
    open_.back().key = std::move(value);
    return true;
  }
  bool end_object() override {
    const auto& members = open_.back().value.get_ref<const Json::object_t&>();
    if (const std::string* twice = repeated_key(members)) {
      error_ = fmt::format("key \"{}\" twice in one object", twice->substr(0, 60));
      return false;
    }
    return close();
  }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    const bool utf8 = std::string_view(error.what()).find("ill-formed UTF-8") == std::string_view::npos;
    error_ = fmt::format("not JSON at byte {}{}", position, utf8 ? "" : ": it is not UTF-8");
    return false;
  }

  Json take_root() { return std::move(root_); }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  static constexpr size_t kMaxDepth = 200;  // destroying and dumping a value recurses

  struct Open {
    Json value;
    std::string key;  // key of the current member, if value is an object
  };

  bool open(Json value) {
    if (open_.size() == kMaxDepth) {
      error_ = fmt::format("JSON nested deeper than {} levels", kMaxDepth);
      return false;
    }
    open_.push_back({std::move(value), {}});
    return true;
  }
  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }
  bool add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    try {
      if (Open& top = open_.back(); top.value.is_array()) {
        top.value.get_ref<Json::array_t&>().push_back(std::move(value));
      } else {
        top.value.get_ref<Json::object_t&>().emplace_back(std::move(top.key), std::move(value));
      }
    } catch (...) {
      empty_json(value);
      throw;
    }
    return true;
  }
  static const std::string* repeated_key(const Json::object_t& members) {
    std::vector<const std::string*> keys;
    keys.reserve(members.size());
    for (const auto& member : members) keys.push_back(&member.first);
    std::sort(keys.begin(), keys.end(), [](const auto* a, const auto* b) { return *a < *b; });
    const auto found =
        std::adjacent_find(keys.begin(), keys.end(), [](const auto* a, const auto* b) { return *a == *b; });
    return found == keys.end() ? nullptr : *found;
  }

  std::vector<Open> open_;
  Json root_;
  std::string error_;
};

}  // namespace

Result<Json> parse_json(std::string_view text) {
  // The parser takes a zero byte for the end of the text, whatever follows it.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    const bool utf16 = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
    return fail(ErrorCode::kBadData, "not JSON: a zero byte at offset {}{}", zero,
                utf16 ? "; it is UTF-16, and UTF-8 is expected" : "");
  }
  try {
    Builder builder;
    if (!Json::sax_parse(text, &builder)) return fail(ErrorCode::kBadData, "{}", builder.error());
    return builder.take_root();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kLimit, "no memory for {} bytes of JSON", text.size());
  } catch (const std::exception& error) {
    return fail(ErrorCode::kBadData, "not JSON: {}", error.what());
  }
}

Result<Json> read_json(const std::filesystem::path& path, int64_t max_bytes) {
  SACCADE_ASSIGN(const std::string text, read_file(path, max_bytes));
  return parse_json(text).in(path.string());
}

std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

const Json& member(const Json& object, std::string_view key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNull : *found;
}

namespace detail {

tl::unexpected<Error> wrong_kind(std::string_view key, const Json& value, std::string_view wanted) {
  std::string shown = dump_json(value);
  if (shown.size() > 60) shown = shown.substr(0, 60) + "...";
  return fail(ErrorCode::kBadData, "\"{}\" is {} ({}), expected {}", key, json_kind(value), shown, wanted);
}

}  // namespace detail
}  // namespace saccade
