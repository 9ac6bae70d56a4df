// Evidence that an image is right for a text, from both sides: what the image shows (the cosine), and the words of
// its caption, name and folders. One formula orders the hits, another one gives their match probability.
//
// **What the image shows** counts as far as the encoder knows such images. Its measure is the separation d: the mean
// standard score of right images, over texts of the collection's own captions. If the standard scores z of right and
// of other images are normal with variance 1, the log likelihood ratio of the two is d z - d^2 / 2. So an encoder
// that has never seen such images (d near 0) only orders what the words leave equal. Without enough captions d is
// estimated from the deviation of the scores times the encoder's logit scale, which is the same slope by the
// encoder's own training loss.
//
// **Words** count by coverage, the share of the query's words that the image has, and by BM25 over its words. Words
// for colours, sizes and other attributes ("red", "big") count for little, and for nothing in an image that has
// none of the query's other words. Such a word alone therefore never lifts an image.
//
//   order:        kSeparationSlope d z + w / (1 - w) (kAllWords all + kCoverage coverage + kBm25 bm25)
//   probability:  logistic in d z - d^2 / 2, the odds among the kCompetitors best scores (index/likelihood.h), the
//                 same three figures of the words, the share of the query's words that no image has, and
//                 whether any image has all words
//
// where w is the weight of keywords, 0.5 by default. The factors were fitted on libraries of icons, emoji, drawings
// and photographs, by queries whose words are not all indexed; docs/answers.md says how well they do on libraries
// that they were not fitted on.
#pragma once

#include <span>
#include <string_view>

#include "saccade/matrix.h"

namespace saccade {

// Separation of collections that nothing is known of, such as those of late interaction.
inline constexpr double kUnknownSeparation = 2;

// Minimum share of images with a caption, or a name with words, from which an image without the query's words is less
// likely to be right.
inline constexpr double kDescribedShare = 0.5;

// Evidence of the words of one image.
struct WordEvidence {
  bool all = false;     // it has all of the query's words that tell anything
  double coverage = 0;  // weighted share of them, [0, 1]
  double bm25 = 0;      // share of the largest possible BM25 weight, [0, 1)

  // Returns its part in the order, above 0 if it has any.
  [[nodiscard]] double strength() const;
};

// Words of the whole query in the collection.
struct QueryWords {
  bool known = false;    // false if most images have no words, or the query has none that tell anything
  bool any_all = false;  // some image has all words
  double unknown = 0;    // share of the words that no image has, attributes aside, [0, 1]
};

// Returns true for words that tell what a thing is like and not what it is: colours, sizes, ages, materials,
// numbers. `word`: in lower case. English.
bool is_attribute(std::string_view word);

// Scale of one query's scores.
struct ScoreScale {
  double mean = 0;
  double deviation = 1;
  double separation = kUnknownSeparation;

  [[nodiscard]] double standard(double score) const { return (score - mean) / deviation; }
};
// Returns mean and deviation of the query's scores over rows: [n, dim]. `separation` is the default.
ScoreScale score_scale(MatrixView<const float> rows, std::span<const float> query);
// Returns the separation that the scores' deviation suggests; `logit_scale`: the encoder's. In [0.1, 2.5]. Measured on
// seven libraries with the starter: 1.9 to 2.4 where the measured separation is 1.9 to 2.6, and 0.4 and 0.8 on two
// libraries of photographs that it knows nothing of (measured: 0.1 and 0).
double estimated_separation(double deviation, double logit_scale);

// Returns the number by which hits are ordered, highest first. weight: of keywords, [0, 1]; 1: words decide, and
// scores order what they leave equal.
double order_of(const ScoreScale& scale, double score, const WordEvidence& words, double weight);

// Returns the match probability of a hit. odds: as HitFigures::odds.
double match_probability(const ScoreScale& scale, double score, double odds, const WordEvidence& words,
                         const QueryWords& query);

}  // namespace saccade
