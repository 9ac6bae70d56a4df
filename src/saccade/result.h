// Errors as values: every operation that touches input, files, the network or a limit returns Result<T>.
//
//   auto encoder = saccade::Encoder::load("openai/clip-vit-base-patch32");
//   if (!encoder) return report(encoder.error().message);
//
// A message names the thing, the value found and what would be right. Each layer that knows more puts its context in
// front: "open collection photos: catalog: schema version 9, this program reads up to 3".
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

#pragma GCC visibility push(default)
namespace saccade {

// Kinds of failure that a caller may want to tell apart. Each maps to one exit code and one HTTP status.
enum class ErrorCode {
  kUsage,        // the call or command line is wrong            exit 2, HTTP 400
  kNotFound,     // a file, folder, item or model is not there   exit 1, HTTP 404
  kBadData,      // a file or message breaks its format          exit 1, HTTP 422
  kUnsupported,  // well-formed, but of a kind we do not handle  exit 1, HTTP 415
  kLimit,        // larger or slower than the limit set          exit 1, HTTP 413
  kMismatch,     // does not belong to what it is used with      exit 1, HTTP 409
  kIo,           // the operating system refused                 exit 1, HTTP 500
  kCancelled,    // asked to stop, or in use by another now      exit 1, HTTP 503
  kInternal,     // a failure of a library or of ours            exit 1, HTTP 500
};

// Returns the code's name in snake_case, as JSON answers carry it: "not_found".
std::string_view name(ErrorCode code);
// Earlier name of name().
[[deprecated("use name()")]] std::string_view error_name(ErrorCode code);
// Returns the exit code of a command that fails with this code.
int exit_code(ErrorCode code);
// Returns the HTTP status of a request that fails with this code.
int http_status(ErrorCode code);

// A failure: its kind, and a message for people.
struct Error {
  ErrorCode code = ErrorCode::kInternal;  // kind
  std::string message;                    // for people, without a line end

  // Returns the same error with "context: " in front, unless the message begins so.
  [[nodiscard]] Error in(std::string_view context) const;
};

// A value or an Error. Test it like a pointer; `*result` and `result->` reach the value, `result.error()` the error.
// value() throws tl::bad_expected_access if there is an error; everything else works with exceptions off.
template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;

  // Returns the same result; an error in it gets "context: " in front.
  Result in(std::string_view context) && {
    if (!this->has_value()) this->error() = this->error().in(context);
    return std::move(*this);
  }
};

// A result without a value.
using Status = Result<void>;

}  // namespace saccade
#pragma GCC visibility pop
