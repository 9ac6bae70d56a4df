// A query's way: encode it, score all rows, leave out what the filter says, fold near-duplicates, name the
// hits.
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
#include "saccade/model/encoder.h"

namespace saccade {

// Rows at least this close are shown as one picture. Measured with a 192-wide encoder early in its training
// on 1,811 icons, emoji and drawings: 99.6% stay above it when scaled to 90% and 99.7% when saved as JPEG of
// quality 75, while of 160 pictures one had another one that close; at 0.985 no copy was missed, but 57% had
// another picture that close. A better encoder tells more apart. A picture wrongly folded is still there,
// under the hit it resembles, and fold_duplicates = false shows it.
inline constexpr float kDuplicateCosine = 0.999F;

// What is searched for: a text, a picture, or both (then the sum of their two rows, made length 1 again).
struct Query {
  std::string text;             // empty: none
  std::filesystem::path image;  // a file; empty: none
  int64_t k = 10;               // hits wanted, at least 1
  std::string filter;           // parse_filter's language; empty: everything
  bool fold_duplicates = true;
  float duplicate_cosine = kDuplicateCosine;
  DecodeOptions limits;  // for the picture, as in IngestOptions
};

// What the text came to. `dropped` > 0: the encoder has not seen the text's end.
struct TokenCount {
  int64_t used = 0;
  int64_t dropped = 0;
};

// A query as a row of the encoder's space.
struct EncodedQuery {
  std::vector<float> row;            // [dim], of length 1
  std::optional<TokenCount> tokens;  // of the text, where there is one
};

struct Hit {
  // A picture shown under a better one that looks the same.
  struct Folded {
    Item item;
    float score = 0;
    bool same_bytes = false;  // the very same file content; otherwise a near-duplicate
  };
  int64_t rank = 0;  // from 1
  float score = 0;   // cosine with the query, in [-1, 1]
  Item item;
  std::vector<Folded> folded;  // best first
};

struct Answer {
  Query query;
  std::optional<TokenCount> tokens;
  // Fewer than k only where the filter leaves fewer pictures that differ from each other.
  std::vector<Hit> hits;
  int64_t searched = 0;  // pictures the filter left, each of them scored
};

// kUsage for a query of neither text nor picture, or of k < 1; kMismatch if `encoder` is not the
// collection's; kUnsupported for text where the checkpoint has no tokenizer; what decode_image says for the
// picture; kBadData for a text and a picture whose rows cancel out. Thread-safe.
Result<EncodedQuery> encode_query(const Collection& collection, Encoder& encoder, const Query& query);

// The hits for a row of the collection's space, by score, then by id: query.text and query.image are not
// looked at. kUsage for k < 1 or a broken filter, kMismatch for a row of another width. Thread-safe. Cost:
// one pass over all rows (exact_search), a catalog look-up a picture shown, and where many near-duplicates
// crowd the top, a pass for each four times as many candidates.
Result<Answer> search_row(const Collection& collection, std::span<const float> row, const Query& query,
                          ThreadPool& pool);

// encode_query, then search_row.
Result<Answer> search(const Collection& collection, Encoder& encoder, const Query& query, ThreadPool& pool);

// The answer as `saccade search --json` prints it (docs/cli.md). Paths that are not UTF-8 get U+FFFD when
// dumped.
Json answer_json(const Answer& answer);
// "6 tokens read", "75 tokens read, the last 12 dropped: ...": for people.
std::string tokens_text(const TokenCount& tokens);

}  // namespace saccade
