// Parser of search box queries: wanted parts, unwanted parts, and their weights.
//
//   cats -dogs                 cats, and not dogs: a word behind a "-" weighs kUnwantedWeight
//   beach:2 sunset             two parts: "beach", twice as heavy as "sunset"
//   "golden retriever":2 -"stop sign":0.8   several words as one part, in quotes
//   "red apple" tree           no weight: the words belong to the others, and word
//                              search wants them side by side
//   cats -- -dogs and a:b      behind "--" all is taken literally
//
// A weight follows a word with a letter (16:9 and 12:30 are words), and is a number above 0, up to 10. A
// number below 0 marks the part as unwanted. Quotes are "..." or typographic ones, at the beginning of a
// word. A quote that is never closed is an ordinary character. A query without weights and unwanted parts is
// one literal text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/search/search_query.h"

namespace saccade {

inline constexpr float kMostWeight = 10;

// Bounds on one query. Each part, a text or an image, is encoded by itself, and each phrase is looked up by itself.
inline constexpr int64_t kMostQueryCharacters = 8192;
inline constexpr int64_t kMostQueryParts = 64;
inline constexpr int64_t kMostQueryPhrases = 64;

// Parses `typed`. kUsage for a weight that is 0 or beyond kMostWeight, for a part without words, and beyond the
// bounds above. The weight of a single wanted part is dropped unless an image among `images`, the query's, is
// not wanted. Time is linear in the length of `typed`; thread-safe.
Result<QueryText> read_query_text(std::string_view typed, std::span<const QueryImage> images = {});

// Checks a query that was put together in another way against the same bounds; kUsage names the bound.
Status check_query_size(const SearchQuery& query);

// Parses "FILE:2" as a file and its weight, if no file has the whole name but one has the name before the
// colon; else weight 1. kUsage as for a part's weight.
Result<QueryImage> read_query_image(const std::string& named);
Result<std::vector<QueryImage>> read_query_images(std::span<const std::string> named);

}  // namespace saccade
