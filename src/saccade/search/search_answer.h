// Search answers: hits, and the limitations that an answer has to report.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/collection/catalog/item_facts.h"
#include "saccade/core/json.h"
#include "saccade/index/likelihood.h"
#include "saccade/match.h"
#include "saccade/search/encoded_query.h"
#include "saccade/search/explain/explain.h"
#include "saccade/search/keywords/keyword_answer.h"
#include "saccade/search/search_query.h"

namespace saccade {

struct SearchHit {
  // A picture shown under a better one that looks the same.
  struct Folded {
    Item item;
    float score = 0;
    bool same_bytes = false;  // the very same file content; otherwise a near-duplicate
  };
  int64_t rank = 0;  // from 1
  // Cosine with the query, in [-1, 1]; of late interaction the MaxSim; of a second encoder its own score; NaN of an
  // answer without a query (list_newest).
  float score = 0;
  Item item;
  ItemFacts facts;             // what its file says of itself, where that is kept
  std::vector<Folded> folded;  // best first
  // Late interaction: the cosine with the mean of its rows, by which it became a candidate.
  std::optional<float> pooled_score;
  std::vector<TokenMatch> matches;           // with Query::explain: one a row of the text
  std::vector<HitExplanation> explanations;  // after explain_hits: one an encoder
  std::optional<HitLikelihood> likelihood;   // with Query::background, of the encoder's own score
  std::optional<KeywordHit> keywords;  // with Query::keyword_weight, where the picture has words of the query
  std::optional<int64_t> vector_rank;  // beside it: by the score alone; nothing where it is too low to count
  // Rank and score before reranking; the hit's `score` is the old one if it was not reranked.
  struct Retrieval {
    int64_t rank = 0;
    float score = 0;
  };
  std::optional<Retrieval> retrieval;
  bool reranked = false;
  std::string not_reranked;  // why its picture could not be scored anew; empty where its rank was too low
};

// Statistics of reranking an answer with a second encoder (rerank.h).
struct Reranking {
  std::string checkpoint;  // its name, for people
  std::string fingerprint;
  std::string method;    // "cosine", "maxsim" or "match"
  int64_t depth = 0;     // pictures that were to be scored
  int64_t reranked = 0;  // those that were
  int64_t missing = 0;   // files gone
  int64_t changed = 0;   // files with other bytes than when they were taken in
  int64_t unreadable = 0;
  int64_t out_of_time = 0;           // left out at RerankOptions::deadline
  std::optional<TokenCount> tokens;  // of the text, by its tokenizer
};

// Calibration of the hits against the collection's null distribution (background.h).
struct Matching {
  bool tells = false;  // whether hits have a likelihood
  std::string reason;  // why not, for people
  // Probability that the query has an answer here, where hits have a likelihood. If words count too, it is that of the
  // likeliest hit.
  double there = HitLikelihood::kUnknown;
  // Share of null queries whose first hit stands out at least as much; NaN if there are none.
  double p_value = HitLikelihood::kUnknown;
  int64_t queries = 0;   // that it is a share of
  int64_t labelled = 0;  // queries with known answers that likelihoods were learned from
  // Set if this was measured on a sample of the collection's images, as in a vector database: their number, and that of
  // all images then.
  struct Sample {
    int64_t images = 0;
    int64_t of = 0;
  };
  std::optional<Sample> sample = {};
  // True if the collection has too few captions or names with words: the calibration is that which ships with the
  // program.
  bool shipped = false;
  double best = HitLikelihood::kUnknown;  // likelihood of the likeliest hit, before the cut
  // Number of examined images that Query::min_probability excluded, and the number of hits that pass, with
  // near-duplicates grouped.
  int64_t cut_hits = 0;
  int64_t passed = 0;
  bool more = false;  // images that were not looked at may pass too
};

// Recall of an answer that was found through the collection's approximate index.
struct Approximation {
  double recall = 0;    // share of the best 10 that such a search finds, measured when the index was built
  int64_t queries = 0;  // that it was measured on
  bool texts = false;   // these were texts, else images of the collection
};

// Search by the index of a vector database, which may miss hits.
struct EngineSearch {
  std::string engine;        // "Weaviate 1.35.2"
  int64_t compared = 0;      // images that it found, which were compared by their full rows
  bool exact_filter = true;  // false: `searched` also counts images that do not meet the filter
};

struct SearchAnswer {
  SearchQuery query;
  std::optional<TokenCount> tokens;
  // Fewer than k only where the filter leaves fewer pictures that differ from each other.
  std::vector<SearchHit> hits;
  int64_t searched = 0;  // pictures the filter left, each of them scored
  // Late interaction: how many of them were scored by all their rows. All: the answer is exact.
  std::optional<int64_t> late_scored;
  // Number of exact rows that were read after a scan of int8 rows, because int8 scores left their rank open.
  // Set only if int8 rows were scanned. The answer is the same either way.
  std::optional<int64_t> rescored;
  // Set only if a picture among the best may be missing: at most one of these two.
  std::optional<Approximation> approximate = {};
  std::optional<EngineSearch> by_engine = {};
  // Why the collection's approximate index was not used, in a sentence; empty if it was, or if there is none to use.
  std::string why_exact = {};
  std::optional<Reranking> reranking;
  std::optional<Matching> matching;
  std::optional<KeywordSearch> keywords;  // with Query::keyword_weight
  std::shared_ptr<const ComposerReport> composer_report =
      {};  // how a composer made the query; nullptr: none did
};

// Returns the strength of the hit's match, by its match probability.
Match match_of(const SearchHit& hit);

// Returns a line for people about the strength of the matches; "" if there is nothing to say of them.
std::string matching_note(const SearchAnswer& answer);

// Returns a line for people about the fusion of text and image into one query; "" if only one of them was
// given.
std::string composed_note(const SearchAnswer& answer);

// Returns a line for people about the parts of a query as they were parsed; "" for a single text or image.
std::string understood_note(const SearchAnswer& answer);
// Returns a line for people about keyword matches: "7 of 10 results also match by caption". "" if no hit has any.
std::string words_note(const SearchAnswer& answer);

// Returns true if the text, or one of its chunks, is longer than the encoder's measured effective length.
bool beyond_measured_length(const SearchAnswer& answer);
// Returns a note for people, with the dataset of the measurement: "of these 30 tokens the model reads
// about the first 14: ...". "" if the text is not longer.
std::string measured_length_note(const SearchAnswer& answer);

// A note on an answer for people, a sentence. Its name is the same in all programs.
struct AnswerNote {
  std::string_view name;
  std::string text;
};
// Returns all that people should know of an answer, in this order: "tokens" (how many of the text's were read),
// "effective_length", "matching", "understood", "keywords", "compose", "scored", "approximate".
std::vector<AnswerNote> answer_notes(const SearchAnswer& answer);

// The answer as `saccade search --json` prints it (docs/cli.md).
// Paths that are not UTF-8 get U+FFFD when dumped.
Json answer_json(const SearchAnswer& answer);
// "all 6 tokens read", "first 75 tokens read, the other 12
// dropped: ...", "all 87 tokens read, in 2 chunks": for people.
std::string tokens_text(const TokenCount& tokens);

}  // namespace saccade
