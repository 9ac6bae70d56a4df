// Conversion of exceptions from other libraries into errors. oneDNN and, in training, libtorch report
// failures as exceptions, mostly out-of-memory.
#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <type_traits>

#include "saccade/core/error.h"

namespace saccade::nn {

// Thrown out of a forward pass that was asked to stop (workers.h, StopScope).
class Stopped : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "asked to stop"; }
};

// Returns the result of body(), a Result<T>. Returns kLimit if memory runs out, kCancelled for Stopped, and
// kInternal with an exception's first line for any other exception (libtorch's continue with a stack trace).
// `what` is the message's context.
template <typename Body>
std::invoke_result_t<Body> without_exceptions(std::string_view what, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kLimit, "{}: out of memory", what);
  } catch (const Stopped& stopped) {
    return fail(ErrorCode::kCancelled, "{}: {}", what, stopped.what());
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    return fail(ErrorCode::kInternal, "{}: {}", what, text.substr(0, text.find('\n')));
  }
}

}  // namespace saccade::nn
