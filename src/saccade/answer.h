// Answer: what a search found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "saccade/encoder.h"
#include "saccade/match.h"

#pragma GCC visibility push(default)
namespace saccade {

// An image that was grouped with a better hit that looks the same.
struct NearDuplicate {
  int64_t id = 0;                   // of the item
  std::filesystem::path path = {};  // of its file
  float score = 0;                  // as Hit::score
  bool same_bytes = false;          // the very same file content
};

// Explanation of a hit by one model.
struct Explanation {
  // Word of the query's text.
  struct Word {
    std::string word = {};  // as it stands in the text
    float drop = 0;         // decrease of the score without it; below 0 if the score rises
  };
  // Part of an image, in fractions of its width and height.
  struct Box {
    float x = 0;       // left edge
    float y = 0;       // upper edge
    float width = 0;   // of the part
    float height = 0;  // of the part
  };
  std::string model = {};  // name of the model
  // Cosine or MaxSim of the whole query by that model. `nullopt` if the second model could not read the image.
  std::optional<float> score = {};
  std::vector<Word> words = {};  // in the text's order, at most 100; empty without a text
  std::string method = {};       // method of the map: "legrad", "chefer", or "similarity" (late interaction)
  RelevanceMap map = {};  // of sum 1, or 0 throughout if nothing in the image supports the hit; may be empty
  std::optional<Box> box = {};  // area of the map in the image; beyond 0 and 1 if the image was padded
  std::string no_map = {};      // why the map is empty; empty if there is a map
};

// An image that was found. Plain data: it refers to nothing.
struct Hit {
  int64_t rank = 0;                 // from 1, by score
  int64_t id = 0;                   // of the item; never given to another
  std::filesystem::path path = {};  // of its file
  // Similarity: the cosine in [-1, 1], with late interaction the MaxSim score. If `reranked`, the second model's score,
  // which is not comparable with those of hits that were not.
  float score = 0;
  bool reranked = false;                   // scored by SearchOptions::rerank
  std::optional<double> probability = {};  // of being right, [0, 1]; `nullopt` without calibration data
  Match match = Match::kUnknown;           // strength, by the probability
  bool by_keywords = false;                // a caption, file or folder name matches too
  std::string caption = {};                // UTF-8; may be empty
  int64_t width = 0;                       // pixels, after orientation
  int64_t height = 0;                      // pixels, after orientation
  std::string format = {};                 // "jpeg", "png", ...
  int64_t modified = 0;                    // of the file, nanoseconds since 1970 UTC
  std::vector<NearDuplicate> near_duplicates = {};  // grouped under this hit, best first
  // With SearchOptions::explain: by the collection's model, then by that of SearchOptions::rerank.
  std::vector<Explanation> explanations = {};
};

// Hits of a search, with what is to be known about them. Plain data.
struct Answer {
  std::vector<Hit> hits = {};           // in the order asked for; by default best first
  int64_t searched = 0;                 // images that passed the filter, each of them scored
  std::optional<TokenUse> tokens = {};  // of the query's text
  std::vector<std::string> notes = {};  // what people should know, a sentence each
};

}  // namespace saccade
#pragma GCC visibility pop
