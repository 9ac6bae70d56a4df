// Pictures like one that the collection has.
#pragma once

#include "saccade/collection/collection.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/model/encoder.h"
#include "saccade/search/search.h"

namespace saccade {

// The pictures whose rows are near that of item `id`, which itself is left out; query.text,
// pictures and parts are not looked at. Nothing is encoded: of late interaction rows are compared
// by their means. kNotFound for an id that is not there; else as search_encoded.
Result<SearchAnswer> search_like(const Collection& collection, EncoderBackend& encoder, int64_t id, const SearchQuery& query,
                           ThreadPool& pool);

}  // namespace saccade
