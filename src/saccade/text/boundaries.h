// Segmentation of a text at ICU's boundaries of one kind. Internal to the module.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>

#include <unicode/ubrk.h>
#include <unicode/utext.h>

#include "saccade/core/error.h"

namespace saccade {

// Calls visit(segment, ICU's rule status of its end) for each consecutive, non-empty segment. Text beyond 1
// GiB belongs to the last segment. `what` is named in the error message if ICU lacks its tables (kInternal).
template <typename Visit>
Status for_each_boundary(std::string_view text, UBreakIteratorType kind, std::string_view what, Visit visit) {
  constexpr size_t kMaxText = size_t{1} << 30;  // ICU's boundaries are 32-bit
  if (text.empty()) return {};
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<UText, decltype(&utext_close)> reader(
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(std::min(text.size(), kMaxText)), &status),
      &utext_close);
  const std::unique_ptr<UBreakIterator, decltype(&ubrk_close)> boundaries(
      ubrk_open(kind, "", nullptr, 0, &status), &ubrk_close);
  if (U_SUCCESS(status)) ubrk_setUText(boundaries.get(), reader.get(), &status);
  if (U_FAILURE(status)) return fail(ErrorCode::kInternal, "{}: ICU: {}", what, u_errorName(status));
  // A segment is passed on once the next one is known: the last one includes the text that ICU did not see.
  size_t begin = 0;
  size_t end = 0;
  int32_t kept_status = 0;
  for (int32_t next = ubrk_next(boundaries.get()); next != UBRK_DONE; next = ubrk_next(boundaries.get())) {
    if (static_cast<size_t>(next) <= end) continue;
    if (end > begin) visit(text.substr(begin, end - begin), kept_status);
    begin = end;
    end = static_cast<size_t>(next);
    kept_status = ubrk_getRuleStatus(boundaries.get());
  }
  visit(text.substr(begin), kept_status);
  return {};
}

}  // namespace saccade
