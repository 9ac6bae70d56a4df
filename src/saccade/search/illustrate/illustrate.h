// Illustration of a document: selects its visual sentences, and assigns images of a collection to them. Verma
// et al. 2023, "Learning the Visualness of Text Using Large Vision-Language Models", made their models for
// this use (section 1).
//
// Each visual sentence is searched for, and phrases of it. A hit is a candidate if it is probable enough to
// be right, by the collection's score calibration data (search/matching/background.h):
//
//   probabilities are known     its match probability is at least `least`, and the query is like those of the
//                               calibration: of no more words (two standard deviations above their mean), and
//                               as near to the captions as half of them (caption_nearness.h)
//   only the null is known      no more than `most_false` wrong images stand out as much
//   nothing is known            every hit is one; the answer then reports that no hit can be told from chance
//
// Candidates are assigned greedily, the most probable first, under four rules: a sentence has one image,
// an image (and its near-duplicates) is used once, a paragraph has `per_paragraph`, the document
// `at_most`. So no sentence gets an image that suits another one better. The sum of the probabilities
// is at least half of the largest possible, as in all greedy matchings, and in practice nearly
// all of it (docs/illustrate.md).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/likelihood.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/progress.h"
#include "saccade/search/search_query.h"

namespace saccade {

struct IllustrateOptions {
  // Minimum match probability of a placed image, [0, 1]. It is calibrated with captions' words alone, and is
  // too low if these are few (docs/illustrate.md).
  double least = 0.3;
  double most_false = 0.05;   // wrong pictures expected where likelihoods are not known
  int64_t per_paragraph = 1;  // pictures
  int64_t at_most = std::numeric_limits<int64_t>::max();
  int64_t candidates =
      10;  // hits that are looked at of each sentence: where the first go to others, one behind them may do
  std::string filter;  // parse_filter's language
  float duplicate_cosine = kDuplicateCosine;
  std::shared_ptr<const Background> background = {};  // nullptr: nothing is known
  bool check_files = true;  // pictures that are gone or have changed are passed over
  ProgressCallback progress = {};
  std::stop_token stop = {};
};

struct DocumentSentence {
  std::string text;
  int64_t paragraph = 0;
  bool visual = true;
  // Additional queries for the sentence, such as its phrases (text/phrases.h). The most probable of all hits
  // counts.
  std::vector<std::string> phrases = {};
};

enum class SentenceOutcome {
  kPlaced,
  kNotVisual,
  kNothingLikely,  // no picture is likely enough
  kTaken,          // those that are stand at other sentences
  kFull,           // its paragraph, or the document, has all it may have
};
std::span<const EnumName<SentenceOutcome>> enum_names(
    SentenceOutcome);  // "placed", "not_visual", "nothing_likely", "taken", "full"

struct PlacedPicture {
  int64_t sentence = 0;  // number among those given
  Item item;
  std::string query;                        // that found it: the sentence, or a phrase of it
  float score = 0;                          // as Hit::score
  std::optional<HitLikelihood> likelihood;  // where the background knows anything
};

struct IllustratePlan {
  std::vector<PlacedPicture> pictures;    // by sentence, ascending
  std::vector<SentenceOutcome> outcomes;  // one a sentence
  std::vector<float> best;  // of each: its likeliest hit's likelihood, NaN where it is not known
  bool tells = false;       // whether likelihoods were known
  bool null_known = false;  // or how hits by chance stand out
  std::string reason;       // why not, for people
  int64_t cut = 0;          // sentences that were longer than the encoder reads
  int64_t gone = 0;         // pictures passed over: their file is gone
  int64_t changed = 0;      // or has changed since it was taken in

  [[nodiscard]] int64_t count(SentenceOutcome outcome) const;
};

// Chooses the images of a document. kUsage for options out of range and a broken filter; kUnsupported if the
// encoder reads no texts; kMismatch if it is not the collection's; kCancelled; the errors of search. An empty
// collection is no error. Cost: an encoding and a search for each visual sentence, and once the encoding of
// kMostNearnessTexts texts. Memory: `candidates` x 40 bytes each. Deterministic.
Result<IllustratePlan> choose_pictures(const CollectionReader& collection, EncoderBackend& encoder,
                                       std::span<const DocumentSentence> sentences,
                                       const IllustrateOptions& options, ThreadPool& pool);

// A score of each text: what it pictures more than others.
using TextScores = std::function<Result<std::vector<double>>(std::span<const std::string>)>;
// Scores the sentences and marks as visual those above the threshold; with `phrases` these are given their
// phrases that are visual too. The scores. Errors are those of `scores`.
Result<std::vector<double>> judge_sentences(std::vector<DocumentSentence>& sentences,
                                            const TextScores& scores, double threshold, bool phrases);

// Visual sentences that no picture of the collection fits, by number, as far as their paragraphs and the
// document have room for another.
std::vector<int64_t> sentences_without_fit(std::span<const DocumentSentence> sentences,
                                           const IllustratePlan& plan, const IllustrateOptions& options);

// ---- the assignment alone

struct PictureCandidate {
  int64_t sentence = 0;
  int64_t picture = 0;
  double weight = 0;  // larger is better
};
struct AssignmentRules {
  int64_t per_paragraph = 1;
  int64_t at_most = std::numeric_limits<int64_t>::max();
  // Callback that may reject a candidate after all other rules accepted it. May be empty.
  std::function<bool(const PictureCandidate&)> may_take = {};
};
// Candidates taken, by number, in the order they were: by weight, then by sentence, then as they stand.
// `paragraph`: of each sentence. n log n.
std::vector<size_t> assign_pictures(std::span<const PictureCandidate> candidates,
                                    std::span<const int64_t> paragraph, const AssignmentRules& rules);

}  // namespace saccade
