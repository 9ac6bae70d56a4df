#include "saccade/core/error.h"

#include <cerrno>
#include <cstring>

namespace saccade {
namespace {

struct ErrorKind {
  std::string_view name;
  int exit_code;
  int http_status;
};

const ErrorKind& kind_of(ErrorCode code) {
  static constexpr ErrorKind kKinds[] = {
      {"usage", 2, 400},       {"not_found", 1, 404}, {"bad_data", 1, 422},
      {"unsupported", 1, 415}, {"limit", 1, 413},     {"mismatch", 1, 409},
      {"io", 1, 500},          {"cancelled", 1, 503}, {"internal", 1, 500},
  };
  return kKinds[static_cast<int>(code)];
}

}  // namespace

std::string_view name(ErrorCode code) {
  return kind_of(code).name;
}
std::string_view error_name(ErrorCode code) {
  return name(code);
}
ErrorCode error_code_of(std::string_view name) {
  int code = 0;
  while (code < static_cast<int>(ErrorCode::kInternal) && kind_of(static_cast<ErrorCode>(code)).name != name)
    ++code;
  return static_cast<ErrorCode>(code);
}
int exit_code(ErrorCode code) {
  return kind_of(code).exit_code;
}
int http_status(ErrorCode code) {
  return kind_of(code).http_status;
}

Error Error::in(std::string_view context) const {
  const std::string front = std::string(context) + ": ";
  return message.starts_with(front) ? *this : Error{code, front + message};
}

Error without_context(Error error, std::string_view context) {
  const std::string front = std::string(context) + ": ";
  if (error.message.starts_with(front)) error.message.erase(0, front.size());
  return error;
}

tl::unexpected<Error> fail_errno(int error_number, std::string_view action) {
  ErrorCode code = ErrorCode::kIo;
  if (error_number == ENOENT || error_number == ENOTDIR) code = ErrorCode::kNotFound;
  return fail(code, "{}: {}", action, std::strerror(error_number));
}

}  // namespace saccade
