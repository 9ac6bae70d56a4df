// JSON from untrusted sources: parsing with limits, and typed fields whose errors name the field and its
// value.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "saccade/core/error.h"

namespace saccade {

// JSON value whose objects keep the order of their keys, so that output has the order in which it was built.
using Json = nlohmann::ordered_json;

// Parses JSON. Returns kBadData with the byte position for invalid JSON, for nesting deeper than 200 levels,
// and for a duplicate key in an object, which readers interpret differently. Cost: n log n.
Result<Json> parse_json(std::string_view text);
// Parses a file of at most max_bytes; messages begin with the path.
Result<Json> read_json(const std::filesystem::path& path, int64_t max_bytes = int64_t{64} << 20);

// Formats as compact text; invalid UTF-8 becomes U+FFFD instead of throwing.
std::string dump_json(const Json& json, int indent = -1);

// Returns the type of a value, for messages: "a string", "an object".
std::string_view json_kind(const Json& json);

// Returns object[key]; null if it is missing, or if the value is no object.
const Json& member(const Json& object, std::string_view key);

namespace detail {
tl::unexpected<Error> wrong_kind(std::string_view key, const Json& value, std::string_view wanted);

template <typename T>
Result<T> json_as(std::string_view key, const Json& value) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) return wrong_kind(key, value, "true or false");
    return value.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    if (value.is_number_unsigned()) {
      const auto number = value.get<uint64_t>();
      if (std::in_range<T>(number)) return static_cast<T>(number);
    } else if (value.is_number_integer()) {
      const auto number = value.get<int64_t>();
      if (std::in_range<T>(number)) return static_cast<T>(number);
    }
    return wrong_kind(key, value, "a whole number");
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!value.is_number()) return wrong_kind(key, value, "a number");
    const auto number = value.get<double>();
    if (std::abs(number) > static_cast<double>(std::numeric_limits<T>::max())) {
      return wrong_kind(key, value, "a number in range");
    }
    return static_cast<T>(number);
  } else {
    static_assert(std::is_same_v<T, std::string>);
    if (!value.is_string()) return wrong_kind(key, value, "a string");
    return value.get<std::string>();
  }
}
}  // namespace detail

// Returns object[key] as T (bool, integer, floating point or std::string); kBadData if missing or of another
// type.
template <typename T>
Result<T> json_field(const Json& object, std::string_view key) {
  if (!object.is_object()) return detail::wrong_kind(key, object, "an object around it");
  const auto found = object.find(std::string(key));
  if (found == object.end()) return fail(ErrorCode::kBadData, "\"{}\" is missing", key);
  return detail::json_as<T>(key, *found);
}

// Returns object[key] as T, or `fallback` if the key is missing or null.
template <typename T>
Result<T> json_field_or(const Json& object, std::string_view key, T fallback) {
  if (!object.is_object()) return detail::wrong_kind(key, object, "an object around it");
  const auto found = object.find(std::string(key));
  if (found == object.end() || found->is_null()) return fallback;
  return detail::json_as<T>(key, *found);
}

// Removes all members, those of members first. Takes no memory; recurses as deep as the value is nested, which
// parse_json limits.
void empty_json(Json& value);

}  // namespace saccade
