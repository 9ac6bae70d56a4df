// Why each hit of an answer is one: what its score owes to each word of the query, and
// where in the picture it comes from.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/explain/relevance_map.h"
#include "saccade/progress.h"
#include "saccade/search/search.h"

namespace saccade {

// Words behind these are not weighed: neither those behind so many words, nor those that would take more texts
// to encode. A word takes one text, or as many chunks as its part of the query is read in (LongText::kChunk).
inline constexpr int64_t kMostWeighedWords = 100;
inline constexpr int64_t kMostWeighedTexts = 512;

struct ExplainOptions {
  // Method of the relevance maps. `nullopt` chooses by the encoder's capabilities: patch similarity if it
  // returns patch rows (ColPali), else MapMethod::kLegrad.
  std::optional<MapMethod> method = {};
  int batch = 8;          // pictures an encoder call
  std::string name = {};  // of the checkpoint, for HitExplanation
};

// Returns kUnsupported, with the encoder's family and those that can, if the encoder has no maps, or none by
// the requested method. Costs nothing, so it can be called before a search.
Status check_explains(EncoderBackend& encoder, const ExplainOptions& options);

// Adds the explanation by `encoder` to every hit of `answer`, an answer from `collection`. The encoder is the
// collection's own or another one, such as that of reranking.
//
// Words: the query is encoded without each of its words (Unicode's, text/words.h) in turn. A word's weight is
// the decrease of the hit's score (leave one out). A query's image stays unchanged. Maps:
// model/explain/relevance_map.h, with the query's row as the target. The images are read from their paths and
// must have the bytes that were indexed. An image that cannot be read has no map, with the reason.
//
// Errors: check_explains; kCancelled if stopped; those of encode_query. Thread-safe. Cost: one batch of as
// many texts as words and parts (at most kMostWeighedTexts, and those of the query), and for kLegrad decoding and one to two times encoding the hits' images. Another
// encoder than the collection's also encodes the images. Maps by similarity of the collection's own rows read
// no images. Memory: `batch` images at a time.
Status explain_hits(const CollectionReader& collection, EncoderBackend& encoder,
                    const ExplainOptions& options, SearchAnswer& answer, ThreadPool& pool,
                    const ProgressCallback& progress = {}, std::stop_token stop = {});

}  // namespace saccade
