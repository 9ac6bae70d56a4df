// Creation of errors (saccade/result.h) and their propagation inside the library.
//
// Exceptions of other libraries are caught at the edge of the module that calls them. Assertions are only for
// our own bugs.
#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "saccade/result.h"

namespace saccade {

// Makes an error: return fail(ErrorCode::kBadData, "header of {} bytes, limit {}", size, limit);
template <typename... Args>
tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

// Returns the code of that name (name()); kInternal for any other name.
ErrorCode error_code_of(std::string_view name);

// Returns the error without "context: " in front, if it begins so: for a list that has the context, a file, beside the reason.
Error without_context(Error error, std::string_view context);

// Makes kNotFound or kIo with the text of errno, as "action: No such file or directory".
tl::unexpected<Error> fail_errno(int error_number, std::string_view action);

}  // namespace saccade

#define SACCADE_CONCAT_INNER(a, b) a##b
#define SACCADE_CONCAT(a, b) SACCADE_CONCAT_INNER(a, b)

// SACCADE_TRY(expression): returns its error, if it has one.
#define SACCADE_TRY(...)                                                                             \
  do {                                                                                               \
    auto saccade_status = (__VA_ARGS__);                                                             \
    if (!saccade_status) return tl::unexpected<::saccade::Error>(std::move(saccade_status).error()); \
  } while (false)

// SACCADE_ASSIGN(auto value, expression): assigns the value, or returns the error.
#define SACCADE_ASSIGN(declaration, ...) \
  SACCADE_ASSIGN_INNER(SACCADE_CONCAT(saccade_result_, __LINE__), declaration, __VA_ARGS__)
#define SACCADE_ASSIGN_INNER(result, declaration, ...)                             \
  auto result = (__VA_ARGS__);                                                     \
  if (!result) return tl::unexpected<::saccade::Error>(std::move(result).error()); \
  declaration = *std::move(result)
