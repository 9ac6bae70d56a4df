// The parts of a query that has more than one text or picture, each with its
// weight (query_language.h reads them).
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace saccade {

// Default weight of an unwanted text, relative to the wanted part, which has length 1.
inline constexpr float kUnwantedWeight = -0.25F;

struct QueryPart {
  std::string text;
  float weight = 1;             // below 0: what is not wanted
  std::vector<size_t> at = {};  // for each byte of `text`, the byte of Query::text that it was
};

struct QueryPicture {
  std::filesystem::path image;  // a file, or a name for people where there are bytes
  std::shared_ptr<const std::string> bytes = {};
  float weight = 1;
};

}  // namespace saccade
