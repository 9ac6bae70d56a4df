// Segmentation of a text at ICU's boundaries of one kind. Internal to the module.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include <unicode/ubrk.h>
#include <unicode/utext.h>

#include "saccade/core/error.h"

namespace saccade {

// ICU's boundaries of one kind, opened once for many texts: opening costs more than a short text does. One thread at
// a time.
class Boundaries {
 public:
  // `what` is named in the error message if ICU lacks its tables (kInternal).
  static Result<Boundaries> open(UBreakIteratorType kind, std::string_view what) {
    UErrorCode status = U_ZERO_ERROR;
    Boundaries boundaries(ubrk_open(kind, "", nullptr, 0, &status), what);
    if (U_FAILURE(status)) return boundaries.failed(status);
    return boundaries;
  }

  // Calls visit(segment, ICU's rule status of its end) for each consecutive, non-empty segment. Text beyond 1
  // GiB belongs to the last segment.
  template <typename Visit>
  Status for_each(std::string_view text, const Visit& visit) {
    constexpr size_t kMaxText = size_t{1} << 30;  // ICU's boundaries are 32-bit
    if (text.empty()) return {};
    UErrorCode status = U_ZERO_ERROR;
    UText reader = UTEXT_INITIALIZER;
    utext_openUTF8(&reader, text.data(), static_cast<int64_t>(std::min(text.size(), kMaxText)), &status);
    const std::unique_ptr<UText, decltype(&utext_close)> closed(&reader, &utext_close);
    if (U_SUCCESS(status)) ubrk_setUText(iterator_.get(), &reader, &status);
    if (U_FAILURE(status)) return failed(status);
    // A segment is passed on once the next one is known: the last one includes the text that ICU did not see.
    size_t begin = 0;
    size_t end = 0;
    int32_t kept_status = 0;
    for (int32_t next = ubrk_next(iterator_.get()); next != UBRK_DONE; next = ubrk_next(iterator_.get())) {
      if (static_cast<size_t>(next) <= end) continue;
      if (end > begin) visit(text.substr(begin, end - begin), kept_status);
      begin = end;
      end = static_cast<size_t>(next);
      kept_status = ubrk_getRuleStatus(iterator_.get());
    }
    visit(text.substr(begin), kept_status);
    return {};
  }

 private:
  Boundaries(UBreakIterator* iterator, std::string_view what)
      : iterator_(iterator, &ubrk_close), what_(what) {}
  [[nodiscard]] tl::unexpected<Error> failed(UErrorCode status) const {
    return fail(ErrorCode::kInternal, "{}: ICU: {}", what_, u_errorName(status));
  }

  std::unique_ptr<UBreakIterator, decltype(&ubrk_close)> iterator_;
  std::string what_;
};

// Boundaries of one text.
template <typename Visit>
Status for_each_boundary(std::string_view text, UBreakIteratorType kind, std::string_view what,
                         const Visit& visit) {
  if (text.empty()) return {};
  SACCADE_ASSIGN(Boundaries boundaries, Boundaries::open(kind, what));
  return boundaries.for_each(text, visit);
}

}  // namespace saccade
