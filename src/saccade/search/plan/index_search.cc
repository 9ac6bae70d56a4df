#include "saccade/search/plan/index_search.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/catalog/item_store.h"
#include "saccade/search/keywords/keyword_search.h"
#include "saccade/search/matching/query_scale.h"
#include "saccade/search/plan/carry_out.h"
#include "saccade/search/plan/search_plan.h"
#include "saccade/search/row_finder.h"

namespace saccade {
namespace {

// Number of images that a vector index is first asked for: enough for the hits with a few near-duplicates each, and for a
// fusion with keywords.
constexpr int64_t kFirstWindow = 256;

}  // namespace

Result<SearchAnswer> search_index(const CollectionReader& collection, const RowQuery& by_row,
                                  ThreadPool& pool) {
  const SearchQuery& query = by_row.query;
  const std::span<const float> row = by_row.row;
  SACCADE_TRY(check_search(query));
  if (query.exact) SACCADE_TRY(collection.check_has_rows("an exact search"));
  const VectorIndex& index = *collection.index();
  if (static_cast<int64_t>(row.size()) != collection.info().checkpoint.dim) {
    return fail(ErrorCode::kMismatch, "the query's row has {} columns, the collection's have {}", row.size(),
                collection.info().checkpoint.dim);
  }
  if (query.k > index.most()) {
    return fail(ErrorCode::kUsage, "k is {}, but {} finds at most {}", query.k, index.engine(), index.most());
  }
  std::optional<Filter> filter;
  if (!query.filter.empty()) {
    SACCADE_ASSIGN(filter, parse_filter(query.filter).in("filter"));
  }
  NearestQuery asked{.row = row, .filter = filter ? &*filter : nullptr};
  std::vector<std::string> terms;
  std::vector<std::string> unwanted;
  if (by_row.logit_scale && query.keyword_weight != 0 && query.text.has_words() && query.images.empty()) {
    terms = word_terms(query);
    for (const QueryPart& part : query.text.parts()) {
      if (part.weight < 0) unwanted.push_back(part.text);
    }
  }
  asked.terms = terms;
  asked.counted = unwanted;
  int64_t least = query.rescore > 0 ? query.rescore : kFirstWindow;
  if (query.min_probability) least = std::max(least, std::max(query.k, kCutDepth) + 1);
  asked.count = std::min(std::max(4 * query.k + 32, least), index.most());
  WholeCollection whole;
  SACCADE_ASSIGN(whole.sample, index.sample());
  OwnPass finder;
  int64_t before = -1;
  for (;; asked.count = std::min(4 * asked.count, index.most())) {
    SACCADE_TRY(check_stop(query));
    SACCADE_ASSIGN(NearestItems nearest, index.nearest(asked));
    whole.searched = nearest.searched;
    whole.complete = nearest.complete;
    const int64_t compared = std::ssize(nearest.items);
    SACCADE_ASSIGN(const CollectionReader window,
                   CollectionReader::of_items({collection.info(), std::move(nearest.items),
                                               std::move(nearest.words), collection.folder()}));
    RowQuery in_window = by_row;
    in_window.whole = &whole;
    SACCADE_ASSIGN(SearchAnswer answer, search_with(window, in_window, pool, finder));
    // Hits that a cut leaves out are not replaced.
    const bool enough = query.min_probability || std::ssize(answer.hits) >= query.k;
    const bool grows = compared > std::exchange(before, compared);
    if (!enough && grows && !nearest.complete && asked.count < index.most()) continue;
    for (SearchHit& hit : answer.hits) {
      hit.item.path = index.path_here(hit.item.path);
      for (SearchHit::Folded& copy : hit.folded) copy.item.path = index.path_here(copy.item.path);
    }
    answer.by_engine = EngineSearch{index.engine(), compared, nearest.exact};
    return answer;
  }
}

}  // namespace saccade
