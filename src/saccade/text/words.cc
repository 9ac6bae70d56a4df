#include "saccade/text/words.h"

#include "saccade/text/boundaries.h"

namespace saccade {

Result<std::vector<TextSegment>> split_words(std::string_view text) {
  std::vector<TextSegment> segments;
  SACCADE_TRY(for_each_boundary(text, UBRK_WORD, "words", [&](std::string_view segment, int32_t status) {
    segments.push_back({segment, status >= UBRK_WORD_NONE_LIMIT});
  }));
  return segments;
}

}  // namespace saccade
