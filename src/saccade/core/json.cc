#include "saccade/core/json.h"

#include "saccade/core/files.h"

namespace saccade {

std::string_view json_kind(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "an array";
    case Json::value_t::string: return "a string";
    case Json::value_t::boolean: return "true or false";
    default: return "a number";
  }
}

Result<Json> parse_json(std::string_view text) {
  // Depth first: the parser itself does not recurse, but destroying and dumping a value does.
  constexpr int kMaxDepth = 200;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) {
        return fail(ErrorCode::kBadData, "JSON nested deeper than {} levels at byte {}", kMaxDepth, i);
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return fail(ErrorCode::kBadData, "not JSON at byte {}", error.byte);
  } catch (const nlohmann::json::exception& error) {
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

namespace detail {

tl::unexpected<Error> wrong_kind(std::string_view key, const Json& value, std::string_view wanted) {
  std::string shown = dump_json(value);
  if (shown.size() > 60) shown = shown.substr(0, 60) + "...";
  return fail(ErrorCode::kBadData, "\"{}\" is {} ({}), expected {}", key, json_kind(value), shown, wanted);
}

}  // namespace detail
}  // namespace saccade
