// Why each hit of an answer is one: what its score owes to each word of the query, and
// where in the picture it comes from.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "saccade/collection/collection.h"
#include "saccade/core/error.h"
#include "saccade/progress.h"
#include "saccade/core/threads.h"
#include "saccade/model/encoder.h"
#include "saccade/model/explain/relevance_map.h"
#include "saccade/search/search.h"

namespace saccade {

// Words behind these are not weighed.
inline constexpr int64_t kMostWeighedWords = 100;

struct ExplainOptions {
  // Method of the relevance maps. `nullopt` chooses by the encoder's capabilities: patch similarity if it
  // returns patch rows (ColPali), else MapMethod::kLegrad.
  std::optional<MapMethod> method = {};
  int batch = 8;          // pictures an encoder call
  std::string name = {};  // of the checkpoint, for HitExplanation
};

// kUnsupported, with the encoder's family and those that can, where it gives no maps, or none by the method
// that is asked for. Costs nothing: it can be asked before anything is searched for.
Status check_explains(EncoderBackend& encoder, const ExplainOptions& options);

// Adds to every hit of `answer`, an answer from `collection`, what `encoder` says of it: the collection's own
// encoder, or another one, such as the one that re-ranked.
//
// Words: the query is encoded without each of its words (Unicode's, text/words.h) in turn, and a word's
// weight is by how much that lowers the hit's score: leaving one out. A query's picture stays as it is. Maps:
// model/explain/relevance_map.h, with the query's row as the target, from the pictures at their paths, which must have
// the bytes they had when they were taken in; a picture that cannot be read has no map, and says why.
//
// Errors: check_explains; kCancelled when asked to stop; those of encode_query. Thread-safe. Cost: one batch
// of as many texts as words, and for kLegrad decoding and one to two times encoding the hits' pictures (with
// another encoder than the collection's, encoding them too); nothing is read of pictures for maps by
// similarity of the collection's own rows. Memory: `batch` pictures at a time.
Status explain_hits(const Collection& collection, EncoderBackend& encoder, const ExplainOptions& options,
                    SearchAnswer& answer, ThreadPool& pool, const ProgressCallback& progress = {},
                    std::stop_token stop = {});

}  // namespace saccade
