// Reads enum values from the names that users give (enum_names.h).
#pragma once

#include <string_view>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"

namespace saccade {

// Returns the value of that name. `option` is the option's name for the message. kUsage, which lists the names, for any other
// name.
template <typename E>
Result<E> parse_name(std::string_view option, std::string_view name) {
  if (const auto value = from_name<E>(name)) return *value;
  return fail(ErrorCode::kUsage, "{} is \"{}\", expected one of {}", option, name, list_of_names<E>());
}

}  // namespace saccade
