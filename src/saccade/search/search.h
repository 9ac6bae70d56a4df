// A query's way: encode it, score all rows, leave out what
// the filter says, fold near-duplicates, name the hits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saccade/collection/catalog.h"
#include "saccade/collection/collection.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/image/image.h"
#include "saccade/model/effective_length.h"
#include "saccade/model/encoder.h"
#include "saccade/model/long_text.h"
#include "saccade/search/explain.h"
#include "saccade/text/token_parts.h"

namespace saccade {

// Rows at least this close are shown as one picture. Measured with the starter on 1,211 icons, emoji and
// drawings of 80 x 80 pixels, every hundredth it was trained on: 99.8% stay above it when scaled to 90% and
// 99.5% when saved as JPEG of quality 75, and none has another picture that close; at 0.99 no copy is missed,
// but 0.7% have another picture that close. A picture wrongly folded is still there, under the hit it
// resembles, and fold_duplicates = false shows it.
inline constexpr float kDuplicateCosine = 0.999F;

// What becomes of a text that is longer than the encoder reads.
enum class LongText {
  kTruncate,  // its beginning is the query
  kChunk,     // all of it, in chunks whose rows become one; rows of late interaction are joined
};
// How it is cut into chunks, and their rows become one: of the ways `eval length` compares, the plainest.
inline constexpr Chunking kQueryChunking = Chunking::kEqual;
inline constexpr ChunkPooling kQueryPooling = ChunkPooling::kMean;

// What is searched for: a text, a picture, or both (then the sum of their two rows, made length 1 again).
struct Query {
  std::string text;             // empty: none
  std::filesystem::path image;  // a file; empty: none
  int64_t k = 10;               // hits wanted, at least 1
  std::string filter;           // parse_filter's language; empty: everything
  bool fold_duplicates = true;
  float duplicate_cosine = kDuplicateCosine;
  DecodeOptions limits;  // for the picture, as in IngestOptions
  // Where the collection keeps rows of late interaction: how many pictures, the best by their rows' mean, are
  // scored by all their rows, at least k; 0: all.
  int64_t candidates = 1000;
  bool explain = false;  // and which patches each row of the text met
  LongText long_text = LongText::kTruncate;
  // What the encoder has been shown to read of a text (read_measured_lengths), for the answer to say where
  // the text is longer; it changes no hit.
  std::optional<MeasuredLength> measured_length = {};
};

// What the text came to. `dropped` > 0: the encoder has not seen the text's end.
struct TokenCount {
  int64_t used = 0;
  int64_t dropped = 0;
  int64_t chunks = 1;         // that the text was read in
  int64_t longest_chunk = 0;  // tokens of the longest of them
};

// A query as a row of the encoder's space.
struct EncodedQuery {
  std::vector<float> row;            // [dim], of length 1
  std::optional<TokenCount> tokens;  // of the text, where there is one
  // Rows of late interaction where the collection keeps such, [n, dim]: the text's, then the picture's. Where
  // there are both, each part's are divided by their number.
  Matrix<float> late;
  int64_t text_rows = 0;          // the first of them
  float text_weight = 1;          // what the text's were multiplied by
  std::vector<int32_t> text_ids;  // their tokens' ids, where rows and tokens are one to one
};

struct Hit {
  // A picture shown under a better one that looks the same.
  struct Folded {
    Item item;
    float score = 0;
    bool same_bytes = false;  // the very same file content; otherwise a near-duplicate
  };
  int64_t rank = 0;  // from 1
  // Cosine with the query, in [-1, 1]; of late interaction the MaxSim; of a second encoder its own score.
  float score = 0;
  Item item;
  std::vector<Folded> folded;  // best first
  // Late interaction: the cosine with the mean of its rows, by which it became a candidate.
  std::optional<float> pooled_score;
  std::vector<TokenMatch> matches;  // with Query::explain: one a row of the text
  // After `rerank`: where it was before, and whether it was scored anew (`score` is the old one if not).
  struct Retrieval {
    int64_t rank = 0;
    float score = 0;
  };
  std::optional<Retrieval> retrieval;
  bool reranked = false;
  std::string not_reranked;  // why its picture could not be scored anew; empty where its rank was too low
};

// What a second encoder did to an answer (rerank.h).
struct Reranking {
  std::string checkpoint;  // its name, for people
  std::string fingerprint;
  std::string method;    // "cosine", "maxsim" or "match"
  int64_t depth = 0;     // pictures that were to be scored
  int64_t reranked = 0;  // those that were
  int64_t missing = 0;   // files gone
  int64_t changed = 0;   // files with other bytes than when they were taken in
  int64_t unreadable = 0;
  std::optional<TokenCount> tokens;  // of the text, by its tokenizer
};

struct Answer {
  Query query;
  std::optional<TokenCount> tokens;
  // Fewer than k only where the filter leaves fewer pictures that differ from each other.
  std::vector<Hit> hits;
  int64_t searched = 0;  // pictures the filter left, each of them scored
  // Late interaction: how many of them were scored by all their rows. All: the answer is exact.
  std::optional<int64_t> late_scored;
  std::optional<Reranking> reranking;
};

// All of the query that the collection can use. kUsage for a query of neither text nor
// picture, or of k < 1; kMismatch if `encoder` is not the collection's; kUnsupported
// for text where the checkpoint has no tokenizer; what decode_image says for the
// picture; kBadData for a text and a picture whose rows cancel out. Thread-safe.
Result<EncodedQuery> encode_query(const Collection& collection, Encoder& encoder, const Query& query);

// The hits for a row of the collection's space, by score, then by id: query.text and query.image are not
// looked at. kUsage for k < 1 or a broken filter, kMismatch for a row of another width. Thread-safe. Cost:
// one pass over all rows (exact_search), a catalog look-up a picture shown, and where many near-duplicates
// crowd the top, a pass for each four times as many candidates.
Result<Answer> search_row(const Collection& collection, std::span<const float> row, const Query& query,
                          ThreadPool& pool);

// Likewise by all the query's rows where the collection keeps rows of late interaction (their mean alone
// finds candidates): in two stages, unless every picture is a candidate. kUnsupported for Query::explain
// where it keeps none. Cost: beside the pass over all rows, MaxSim (max_sim.h) of the candidates.
Result<Answer> search_encoded(const Collection& collection, Encoder& encoder, const EncodedQuery& encoded,
                              const Query& query, ThreadPool& pool);

// encode_query, then search_encoded.
Result<Answer> search(const Collection& collection, Encoder& encoder, const Query& query, ThreadPool& pool);

// Whether the text, or one of its chunks, is longer than what the encoder has been shown to read.
bool beyond_measured_length(const Answer& answer);
// "the model effectively reads about 14 of these 30 tokens: ...", "" where that is not so: for people.
std::string measured_length_note(const Answer& answer);

// The answer as `saccade search --json` prints it (docs/cli.md).
// Paths that are not UTF-8 get U+FFFD when dumped.
Json answer_json(const Answer& answer);
// "all 6 tokens read", "first 75 tokens read, the other 12
// dropped: ...", "all 87 tokens read, in 2 chunks": for people.
std::string tokens_text(const TokenCount& tokens);

}  // namespace saccade
