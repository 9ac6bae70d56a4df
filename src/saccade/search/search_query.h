// Search queries and their options.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/image/image_codec.h"
#include "saccade/match.h"
#include "saccade/model/composers/compose_embeddings.h"
#include "saccade/model/options/effective_length.h"
#include "saccade/model/options/long_text.h"
#include "saccade/search/query_text.h"
#include "saccade/text/token_parts.h"

namespace saccade {

struct Background;  // background.h
class Composer;     // model/composers/composer.h

// Minimum cosine similarity of near-duplicates, which are shown as one image. It was measured with the
// starter on 1,211 icons, emoji and drawings of 80 x 80 pixels, every hundredth it was trained on. 99.8% stay
// above it when scaled to 90% and 99.5% when saved as JPEG of quality 75, and none has another image that
// close. At 0.99 no copy is missed, but 0.7% have another image that close. A wrongly grouped image is still
// listed under the hit it resembles; group_duplicates = false shows it.
inline constexpr float kDuplicateCosine = 0.999F;

// Policy for a text that is longer than the encoder's context.
enum class LongText {
  kTruncate,  // its beginning is the query
  kChunk,     // all of it, in chunks whose rows become one; rows of late interaction are joined
};
inline constexpr std::array<EnumName<LongText>, 2> kLongTextNames{
    {{LongText::kTruncate, "truncate"}, {LongText::kChunk, "chunk"}}};
inline std::span<const EnumName<LongText>> enum_names(LongText) {
  return kLongTextNames;
}
// Chunking of long query texts: the plainest of the methods that `eval length` compares.
inline constexpr Chunking kQueryChunking = Chunking::kEqual;
inline constexpr ChunkPooling kQueryPooling = ChunkPooling::kMean;

inline constexpr std::array<EnumName<Order>, 2> kOrderNames{
    {{Order::kScore, "score"}, {Order::kDate, "date"}}};
inline std::span<const EnumName<Order>> enum_names(Order) {
  return kOrderNames;
}

// An image to search by.
struct QueryImage {
  // The content of an image file.
  struct Bytes {
    std::string name;  // for people; may be empty
    std::shared_ptr<const std::string> bytes;
  };
  // An item of the collection (stored_image). It is never a hit and in no group. Alone, it is searched by its
  // stored embedding; otherwise its file is read.
  struct Stored {
    int64_t id = 0;
    std::filesystem::path path;
  };
  std::variant<std::filesystem::path, Bytes, Stored> content;
  float weight = 1;  // among the query's images; below 0 if it is not wanted

  // Makes an image of the content of a file.
  static QueryImage of_bytes(std::string name, std::string bytes);
  // Returns the name for people: a path, or the name of the bytes.
  [[nodiscard]] std::filesystem::path name() const;
  // Returns the image's bytes, or nullptr if they are those of the file name().
  [[nodiscard]] const std::string* bytes() const;
};

// Fusion of a query's text and images into one row (model/composers/compose_embeddings.h). By default it is the sum of
// both. Late interaction supports only the sum, and the rows of each side are multiplied by its weight too. A
// negative weight searches for images unlike that side.
struct Fusion {
  Compose method = Compose::kSum;
  float text_weight = 1;
  float image_weight = 1;
  std::string was = {};  // of kDirection: what the picture shows now, in words; empty: kAnyPicture
};

inline constexpr int64_t kCutDepth = 1000;
// Largest SearchQuery::rescore.
inline constexpr int64_t kMostExactRescore = 10'000;

// Search query: a text, images, or both.
struct SearchQuery {
  QueryText text;
  std::vector<QueryImage> images = {};
  // Fusion of text and images, ignored without both: by weights, or by a trained composer, never nullptr.
  std::variant<Fusion, std::shared_ptr<Composer>> fusion = {};
  int64_t k = 10;      // hits wanted, at least 1
  std::string filter;  // parse_filter's language; empty: everything
  bool group_duplicates = true;
  float duplicate_cosine = kDuplicateCosine;
  // Largest number of near-duplicates of all hits together; the search ends with kLimit beyond it. A low
  // `duplicate_cosine` groups the whole collection under a few hits. `nullopt`: no limit.
  std::optional<int64_t> most_grouped = {};
  DecodeOptions limits;  // for the picture, as in IngestOptions
  // Number of images that late interaction scores by all their rows, chosen by their mean row. It is at least
  // k; 0 scores all. Ignored if the collection keeps no late interaction rows.
  int64_t candidates = 1000;
  // Number of images that a vector database is asked for and that are compared by their full rows, at least; 0: as many as the
  // hits need. Ignored for a folder, all of whose rows are compared.
  int64_t rescore = 0;
  // True to also report the patches that each row of the text matched (Hit::matches). Words and maps, for any
  // encoder: explain_hits.
  bool explain = false;
  LongText long_text = LongText::kTruncate;
  // Effective length of the encoder's context (read_measured_lengths). The answer reports a text that is
  // longer; no hit changes.
  std::optional<MeasuredLength> measured_length = {};

  // Score calibration data of the collection (read_background), from which the answer derives match
  // probabilities.
  std::shared_ptr<const Background> background = {};
  // Minimum match probability of hits, [0, 1]; requires calibration data that give probabilities. The best
  // max(k, kCutDepth) images are examined, so that the answer reports how many pass; k of them are its hits.
  std::optional<double> min_probability = {};
  // Among the hits shown; ranks stay those by score.
  Order order = Order::kScore;

  // True to score all rows, even if the collection has an approximate index. kUnsupported for a vector database.
  bool exact = false;

  // Weight of keyword matches against visual similarity, 0 to 1 (keyword_search.h); 0: vectors alone.
  double keyword_weight = 0;
  // Request to stop: encode_query and search_encoded end with kCancelled between two steps.
  std::stop_token stop = {};

  // Returns the composer, or nullptr.
  [[nodiscard]] Composer* composer() const;
  // Returns the weights of text and images; the default ones with a composer.
  [[nodiscard]] Fusion weights() const;
  // Returns true if the query is at most one text and one image, without weights.
  [[nodiscard]] bool is_plain() const;
};

}  // namespace saccade
