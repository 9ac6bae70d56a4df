// Comparison of a composer with the plain sum of image and text, on a collection's own captions. A composer is good
// for the images and changes that it was trained on; whether a collection is like those, only the collection can tell.
//
// Two captions that differ in one word make a query: "red heart" and "blue heart" give the image of the first and the
// text "blue", and every image captioned "blue heart" is right.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/model/composers/composer.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

inline constexpr int64_t kFewestTrials = 40;  // queries, with fewer nothing is told
inline constexpr int64_t kMostTrials = 400;
inline constexpr int64_t kTrialDepth = 10;

struct ComposerTrial {
  int64_t queries = 0;
  double composer =
      0;           // share of queries with a right image among the first kTrialDepth, the reference left out
  double sum = 0;  // the same of the sum
  double difference = 0;  // composer - sum
  double error = 0;       // standard error of the difference
  bool better = false;    // the difference is above two standard errors
  std::string reason;     // why nothing was measured; empty if it was
};

// Compares shares of queries, one value a query: 1 if a right image was found, else 0. At least two queries.
ComposerTrial compared(std::span<const double> by_composer, std::span<const double> by_sum);

// Measures a composer of the collection's encoder. Reads no image files: a composer that needs them is not measured,
// and `reason` says so. Errors are those of the catalog, of encoding and of composing; kCancelled. Cost:
// kMostTrials texts at most are encoded, by either text tower, and two passes made over the rows for that many queries.
Result<ComposerTrial> try_composer(const CollectionReader& collection, EncoderBackend& encoder,
                                   Composer& composer, ThreadPool& pool, const std::stop_token& stop = {});

// Returns a line for people: what was measured, or why nothing was.
std::string trial_text(const ComposerTrial& trial);

}  // namespace saccade
