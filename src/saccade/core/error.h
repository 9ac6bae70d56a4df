// Errors as values: every operation that touches input, files, the network or a limit returns Result<T>.
//
// A message names the thing, the value found and what would be right. Each layer that knows more puts its
// context in front: "open collection photos: catalog: schema version 9, this program reads up to 3".
// Exceptions of other libraries are caught at the edge of the module that calls them. Assertions are only
// for our own bugs.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

namespace saccade {

// The kinds of failure a caller may want to tell apart. Each maps to one exit code and one HTTP status.
enum class ErrorCode {
  kUsage,        // the call or command line is wrong            exit 2, HTTP 400
  kNotFound,     // a file, folder, item or model is not there   exit 1, HTTP 404
  kBadData,      // a file or message breaks its format          exit 1, HTTP 422
  kUnsupported,  // well-formed, but of a kind we do not handle  exit 1, HTTP 415
  kLimit,        // larger or slower than the limit set          exit 1, HTTP 413
  kMismatch,     // does not belong to what it is used with      exit 1, HTTP 409
  kIo,           // the operating system refused                 exit 1, HTTP 500
  kCancelled,    // asked to stop                                exit 1, HTTP 503
  kInternal,     // a failure of a library or of ours            exit 1, HTTP 500
};

// The code's name in snake_case, as JSON answers carry it.
std::string_view error_name(ErrorCode code);
int exit_code(ErrorCode code);
int http_status(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  // The same error with "context: " in front.
  [[nodiscard]] Error in(std::string_view context) const {
    return Error{code, fmt::format("{}: {}", context, message)};
  }
};

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;

  // The same result, an error in it with "context: " in front.
  Result in(std::string_view context) && {
    if (!this->has_value()) this->error() = this->error().in(context);
    return std::move(*this);
  }
};

using Status = Result<void>;

// return fail(ErrorCode::kBadData, "header of {} bytes, limit {}", size, limit);
template <typename... Args>
tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

// kNotFound or kIo with the text of errno, as "action: No such file or directory".
tl::unexpected<Error> fail_errno(int error_number, std::string_view action);

}  // namespace saccade

#define SACCADE_CONCAT_INNER(a, b) a##b
#define SACCADE_CONCAT(a, b) SACCADE_CONCAT_INNER(a, b)

// SACCADE_TRY(expression): return its error, if it has one.
#define SACCADE_TRY(...)                                                                             \
  do {                                                                                               \
    auto saccade_status = (__VA_ARGS__);                                                             \
    if (!saccade_status) return tl::unexpected<::saccade::Error>(std::move(saccade_status).error()); \
  } while (false)

// SACCADE_ASSIGN(auto value, expression): value, or return the error.
#define SACCADE_ASSIGN(declaration, ...) \
  SACCADE_ASSIGN_INNER(SACCADE_CONCAT(saccade_result_, __LINE__), declaration, __VA_ARGS__)
#define SACCADE_ASSIGN_INNER(result, declaration, ...)                             \
  auto result = (__VA_ARGS__);                                                     \
  if (!result) return tl::unexpected<::saccade::Error>(std::move(result).error()); \
  declaration = *std::move(result)
