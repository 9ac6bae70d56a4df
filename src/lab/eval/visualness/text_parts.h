// Parts of a set of texts, by their length in words and by the objects that they name (Verma et al. 2023,
// appendix A.4).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/search/visualness/lexicon.h"

namespace saccade::lab {

// The study's lengths: short texts have up to 10 words, long ones 20 or more.
inline constexpr std::array<std::string_view, 3> kTextLengths = {"short", "medium", "long"};
// Texts in which objects are at least half of the different words, and the others.
inline constexpr std::array<std::string_view, 2> kTextObjects = {"few objects", "many objects"};

// Returns the index in kTextLengths.
size_t length_of(int64_t words);

struct TextPart {
  std::string name;
  std::vector<size_t> which;  // indices of the texts, ascending
};
// Divides the texts by kTextLengths, and, unless `objects` is null, also by kTextObjects. Every part is there,
// also an empty one.
Result<std::vector<TextPart>> text_parts(std::span<const std::string> texts, const ObjectList* objects);

}  // namespace saccade::lab
