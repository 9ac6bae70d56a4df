#include "saccade/text/words.h"

#include <utility>

#include "saccade/text/boundaries.h"

namespace saccade {

struct WordSplitter::State {
  Boundaries boundaries;
};

WordSplitter::WordSplitter(std::unique_ptr<State> state) : state_(std::move(state)) {}
WordSplitter::WordSplitter(WordSplitter&&) noexcept = default;
WordSplitter& WordSplitter::operator=(WordSplitter&&) noexcept = default;
WordSplitter::~WordSplitter() = default;

Result<WordSplitter> WordSplitter::open() {
  SACCADE_ASSIGN(Boundaries boundaries, Boundaries::open(UBRK_WORD, "words"));
  return WordSplitter(std::make_unique<State>(State{std::move(boundaries)}));
}

Result<std::vector<TextSegment>> WordSplitter::split(std::string_view text) {
  std::vector<TextSegment> segments;
  SACCADE_TRY(state_->boundaries.for_each(text, [&](std::string_view segment, int32_t status) {
    segments.push_back({segment, status >= UBRK_WORD_NONE_LIMIT});
  }));
  return segments;
}

Result<std::vector<TextSegment>> split_words(std::string_view text) {
  SACCADE_ASSIGN(WordSplitter splitter, WordSplitter::open());
  return splitter.split(text);
}

}  // namespace saccade
