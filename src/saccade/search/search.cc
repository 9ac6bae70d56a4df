#include "saccade/search/search.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/catalog/item_store.h"
#include "saccade/collection/catalog/words/word_match.h"
#include "saccade/collection/collection_info.h"
#include "saccade/collection/rows/late_item.h"
#include "saccade/model/composers/composer.h"
#include "saccade/search/keywords/keyword_search.h"
#include "saccade/search/plan/carry_out.h"
#include "saccade/search/plan/index_search.h"
#include "saccade/search/plan/row_query.h"
#include "saccade/search/plan/search_plan.h"
#include "saccade/search/query_language.h"
#include "saccade/search/query_rows.h"
#include "saccade/search/row_finder.h"

namespace saccade {
namespace {

// Returns the item if it is all that is searched by.
const QueryImage::Stored* stored_alone(const SearchQuery& query) {
  if (query.text.has_words() || query.images.size() != 1 || query.images.front().weight < 0) return nullptr;
  return std::get_if<QueryImage::Stored>(&query.images.front().content);
}

// Checks a query, and the encoder unless nothing of the query is encoded.
Status check_fits(const CollectionReader& collection, EncoderBackend& encoder, const SearchQuery& query) {
  SACCADE_TRY(check_search(query));
  SACCADE_TRY(check_query_size(query));
  if (stored_alone(query) != nullptr) return {};
  SACCADE_TRY(check_same_checkpoint(collection.info(),
                                    {"the encoder", "", encoder.info().fingerprint, encoder.info().dim}));
  if (collection.has_late_rows()) SACCADE_TRY(check_grid(encoder, *collection.info().settings.late));
  if (Composer* composer = query.composer()) SACCADE_TRY(composer->check_encoder(encoder));
  return {};
}

// Returns an item's own row as a query.
Result<EncodedQuery> stored_row(const CollectionReader& collection, const QueryImage::Stored& stored) {
  SACCADE_TRY(collection.check_files().in("collection"));
  EncodedQuery encoded;
  if (const VectorIndex* index = collection.index()) {
    SACCADE_ASSIGN(WholeItem whole, index->whole(stored.id));
    encoded.row = std::move(whole.values);
    return encoded;
  }
  SACCADE_ASSIGN(const Item item, collection.item(stored.id));
  const auto row = collection.rows().row(item.row);
  encoded.row.assign(row.begin(), row.end());
  return encoded;
}

}  // namespace

void order_hits(SearchAnswer& answer) {
  if (answer.query.order != Order::kDate) return;
  // Sorts by the filter's `date`.
  std::ranges::stable_sort(answer.hits, std::greater<>(), [](const SearchHit& hit) {
    const auto& taken = hit.facts.picture.taken;
    return taken ? *taken * 1'000'000'000 : hit.item.mtime_ns;
  });
}

void drop_shown(const std::set<int64_t>& shown, SearchAnswer& answer) {
  std::erase_if(answer.hits, [&](const SearchHit& hit) {
    return shown.contains(hit.item.id) || std::ranges::any_of(hit.folded, [&](const SearchHit::Folded& copy) {
             return shown.contains(copy.item.id);
           });
  });
}

Result<QueryImage> stored_image(const CollectionReader& collection, int64_t id) {
  SACCADE_ASSIGN(const Item item, collection.item(id));
  return QueryImage{QueryImage::Stored{id, item.path}};
}

void look_ahead(const CollectionReader& collection, const SearchQuery& query) {
  if (collection.index() != nullptr) return;
  if (!query.filter.empty()) {
    const auto filter = parse_filter(query.filter);
    if (filter) static_cast<void>(collection.allowed(*filter).has_value());
  }
  if (!searches_words(query)) return;
  const std::vector<std::string> terms = word_terms(query);
  if (!terms.empty()) static_cast<void>(collection.match_words(terms).has_value());
}

Result<EncodedQuery> encode_query(const CollectionReader& collection, EncoderBackend& encoder,
                                  const SearchQuery& query) {
  SACCADE_TRY(check_fits(collection, encoder, query));
  if (const QueryImage::Stored* alone = stored_alone(query)) return stored_row(collection, *alone);
  return encode_query_rows(collection.info().settings, encoder, query, collection.has_late_rows());
}

std::vector<Result<EncodedQuery>> encode_queries(const CollectionReader& collection, EncoderBackend& encoder,
                                                 std::span<const SearchQuery* const> queries) {
  const bool late = collection.has_late_rows();
  std::vector<Result<EncodedQuery>> encoded(queries.size());
  std::vector<size_t> left;  // to be encoded, of those that are in order
  std::vector<const SearchQuery*> texts;
  for (size_t i = 0; i < queries.size(); ++i) {
    const SearchQuery& query = *queries[i];
    const Status fits = check_fits(collection, encoder, query);
    if (!fits) {
      encoded[i] = fail(fits.error());
    } else if (const QueryImage::Stored* alone = stored_alone(query)) {
      encoded[i] = stored_row(collection, *alone);
    } else {
      left.push_back(i);
      texts.push_back(&query);
    }
  }
  const EncodedTexts ahead = encode_texts_ahead(encoder, texts, late);
  for (const size_t i : left) {
    encoded[i] = [&]() -> Result<EncodedQuery> {
      SACCADE_TRY(check_stop(*queries[i]));
      return encode_query_rows(collection.info().settings, encoder, *queries[i], late, &ahead);
    }();
  }
  return encoded;
}

Result<SearchAnswer> search_row(const CollectionReader& collection, std::span<const float> row,
                                const SearchQuery& query, ThreadPool& pool) {
  OwnPass finder;
  const RowQuery asked{.row = row, .query = query, .logit_scale = {}};
  auto found = collection.index() != nullptr ? search_index(collection, asked, pool)
                                             : search_with(collection, asked, pool, finder);
  SACCADE_ASSIGN(SearchAnswer answer, std::move(found));
  order_hits(answer);
  return answer;
}

Result<SearchAnswer> search_encoded(const CollectionReader& collection, EncoderBackend& encoder,
                                    const EncodedQuery& encoded, const SearchQuery& query, ThreadPool& pool) {
  OwnPass finder;
  return search_encoded(collection, encoder, encoded, query, pool, finder);
}

Result<SearchAnswer> search_encoded(const CollectionReader& collection, EncoderBackend& encoder,
                                    const EncodedQuery& encoded, const SearchQuery& query, ThreadPool& pool,
                                    RowFinder& finder) {
  EncodedParts parts;
  SACCADE_ASSIGN(const RowQuery asked, row_query(collection, encoder, encoded, query, parts));
  SACCADE_ASSIGN(SearchAnswer answer, collection.index() != nullptr
                                          ? search_index(collection, asked, pool)
                                          : search_with(collection, asked, pool, finder));
  SACCADE_TRY(complete_answer(collection, encoder, encoded, asked, answer));
  return answer;
}

Result<SearchAnswer> search(const CollectionReader& collection, EncoderBackend& encoder,
                            const SearchQuery& query, ThreadPool& pool) {
  SACCADE_ASSIGN(const EncodedQuery encoded, encode_query(collection, encoder, query));
  return search_encoded(collection, encoder, encoded, query, pool);
}

}  // namespace saccade
