// JSON field whose value is one of an enum's names.
#pragma once

#include <string>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade {

// Reads the field. Returns kBadData for a field that is missing, not a string, or not one of the names, which
// the message lists.
template <typename E>
Result<E> name_field(const Json& json, const char* key) {
  SACCADE_ASSIGN(const std::string word, json_field<std::string>(json, key));
  if (const auto value = from_name<E>(word)) return *value;
  return fail(ErrorCode::kBadData, "\"{}\" is \"{}\", expected one of {}", key, word, list_of_names<E>());
}

}  // namespace saccade
