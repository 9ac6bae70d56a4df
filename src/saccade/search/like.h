// Images similar to one that the collection has.
#pragma once

#include "saccade/collection/collection.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/model/encoder.h"
#include "saccade/search/search.h"

namespace saccade {

// Makes `query` search for images similar to item `id`: its file becomes query.image, and query.without
// excludes it. Returns the encoded query. Without a text that is the item's own row, and nothing is encoded.
// With a text the image is read and composed with it, as by encode_query. kNotFound if the collection has no
// such item.
Result<EncodedQuery> encode_like(const Collection& collection, EncoderBackend& encoder, int64_t id,
                                 SearchQuery& query);

// Searches for images similar to item `id` by its row alone: the text, images and parts of `query` are ignored.
// The item is excluded (Query::without); other images with the same content are hits like any other. Late
// interaction rows are compared by their means. Errors: kNotFound if the collection has no such item; otherwise as
// search_encoded.
Result<SearchAnswer> search_like(const Collection& collection, EncoderBackend& encoder, int64_t id,
                                 const SearchQuery& query, ThreadPool& pool);

}  // namespace saccade
