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
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/image/image.h"
#include "saccade/model/composers/compose.h"
#include "saccade/model/options/effective_length.h"
#include "saccade/model/options/long_text.h"
#include "saccade/search/query_parts.h"
#include "saccade/text/token_parts.h"

namespace saccade {

struct Background;  // background.h
class Composer;     // model/composers/composer.h

// Minimum cosine similarity of near-duplicates, which are shown as one image. It was measured with the
// starter on 1,211 icons, emoji and drawings of 80 x 80 pixels, every hundredth it was trained on. 99.8% stay
// above it when scaled to 90% and 99.5% when saved as JPEG of quality 75, and none has another image that
// close. At 0.99 no copy is missed, but 0.7% have another image that close. A wrongly grouped image is still
// listed under the hit it resembles; fold_duplicates = false shows it.
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

// Order of the hits.
enum class HitOrder {
  kScore,  // best first
  kDate,   // when it was taken, else the file's; newest first
};
inline constexpr std::array<EnumName<HitOrder>, 2> kHitOrderNames{
    {{HitOrder::kScore, "score"}, {HitOrder::kDate, "date"}}};
inline std::span<const EnumName<HitOrder>> enum_names(HitOrder) {
  return kHitOrderNames;
}

// Fusion of a query's parts into one row (model/composers/compose.h). By default it is the sum of each part's
// row. Late interaction supports only the sum, and each part's rows are multiplied by its weight too. Weights
// are ignored if there is only one part. A negative weight searches for images unlike the part.
struct Fusion {
  Compose method = Compose::kSum;
  float text_weight = 1;
  float image_weight = 1;
  std::string was = {};  // of kDirection: what the picture shows now, in words; empty: kAnyPicture
  // Trained composer that makes the row instead; method and weights are then ignored. May be `nullptr`.
  std::shared_ptr<Composer> composer = {};
};

inline constexpr int64_t kCutDepth = 1000;

// Search query: a text, an image, or both.
struct SearchQuery {
  std::string text;             // empty: none
  std::filesystem::path image;  // a file; empty: none
  // A picture's bytes in place of a file's; `image` is then no more than its name for people. nullptr: none.
  std::shared_ptr<const std::string> image_bytes = {};
  Fusion fusion;
  int64_t k = 10;      // hits wanted, at least 1
  std::string filter;  // parse_filter's language; empty: everything
  // Id of an item that is never a hit and in no group, such as the query image itself; 0 excludes none.
  int64_t without = 0;
  bool fold_duplicates = true;
  float duplicate_cosine = kDuplicateCosine;
  DecodeOptions limits;  // for the picture, as in IngestOptions
  // Number of images that late interaction scores by all their rows, chosen by their mean row. It is at least
  // k; 0 scores all. Ignored if the collection keeps no late interaction rows.
  int64_t candidates = 1000;
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
  std::optional<double> cut = {};
  // Among the hits shown; ranks stay those by score.
  HitOrder order = HitOrder::kScore;

  // Parsed parts of `text` (query_language.h): wanted ones first, then unwanted ones. If empty, `text` is one
  // text, taken literally.
  std::vector<QueryPart> parts = {};
  // Quoted phrases; word search requires their words side by side.
  std::vector<std::string> phrases = {};
  // Pictures beside `image`, and what that one weighs among them.
  std::vector<QueryPicture> more_images = {};
  float image_weight = 1;
  // The share of words beside vectors, [0, 1] (word_search.h); 0: vectors alone.
  double word_share = 0;
  // Request to stop: encode_query and search_encoded end with kCancelled between two steps.
  std::stop_token stop = {};

  [[nodiscard]] bool has_image() const { return !image.empty() || image_bytes != nullptr; }
};

}  // namespace saccade
