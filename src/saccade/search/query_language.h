// What a person types into a search box, read: what is wanted, what is not, and how much of each.
//
//   cats -dogs                 cats, and not dogs: a word behind a "-" weighs kUnwantedWeight
//   beach:2 sunset             two parts: "beach", twice as heavy as "sunset"
//   "golden retriever":2 -"stop sign":0.8   several words as one part, in quotes
//   "red apple" tree           no weight: the words belong to the others, and word
//                              search wants them side by side
//   cats -- -dogs and a:b      behind "--" all is as it stands
//
// A weight needs a word with a letter before it (16:9 and 12:30 are words), and is a number above 0, up to
// 10; below 0 it says that the part is not wanted. Quotes are "..." or those of typography, at the beginning
// of a word; one that is never closed is a sign like any other. What has neither is one text, as it stands.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/search/query.h"

namespace saccade {

inline constexpr float kMostWeight = 10;

// Bounds on one query. Each part is encoded by itself, and each phrase is looked up by itself.
inline constexpr int64_t kMostQueryCharacters = 8192;
inline constexpr int64_t kMostQueryParts = 64;
inline constexpr int64_t kMostQueryPhrases = 64;

// Sets query.text, parts and phrases from `typed`. kUsage for a weight that is 0 or beyond
// kMostWeight, for a part without words, and beyond the bounds above. Where there is one part, its text is
// query.text, and parts are empty. Time is linear in the length of `typed`, whatever it holds; thread-safe.
Status read_query_text(std::string_view typed, SearchQuery& query);

// Checks a query that was put together in another way against the same bounds; kUsage names the bound.
Status check_query_size(const SearchQuery& query);

// "FILE:2" as a file and its weight, where there is no file of the whole name but one of the name before the
// colon; else weight 1. kUsage as for a part's weight.
Result<QueryPicture> read_query_picture(const std::string& named);

// Puts the pictures into the query: the first into query.image, others into query.more_images.
Status set_query_pictures(std::span<const std::string> named, SearchQuery& query);

// Whether the query is one text, or one picture, or one of each, without weights.
bool is_plain(const SearchQuery& query);

}  // namespace saccade
