#include "saccade/search/plan/row_query.h"

#include "saccade/collection/catalog/catalog.h"
#include "saccade/index/max_sim.h"
#include "saccade/index/patch_pool.h"
#include "saccade/search/explain/explain.h"
#include "saccade/search/query_rows.h"

namespace saccade {
namespace {

// Explains each hit by the patches that the text's rows matched.
Status explain_matches(const CollectionReader& collection, const Preprocessing& preprocessing,
                       const EncodedQuery& encoded, const PackedQuery& packed, SearchAnswer& answer) {
  const LateSettings& settings = *collection.info().settings.late;
  for (SearchHit& hit : answer.hits) {
    SACCADE_ASSIGN(const auto matches, max_sim_matches(collection.late_rows(hit.item.row), packed));
    for (int64_t token = 0; token < encoded.text_rows; ++token) {
      const RowMatch& match = matches[static_cast<size_t>(token)];
      TokenMatch met;
      met.token = token;
      if (!encoded.text_ids.empty()) met.id = encoded.text_ids[static_cast<size_t>(token)];
      met.dot = match.dot / encoded.text_weight;
      met.patches = patches_of_row(match.row, settings.grid, settings.pool);
      if (met.patches) {
        met.box = patch_box(preprocessing, hit.item.width, hit.item.height, settings.grid, *met.patches);
      }
      hit.matches.push_back(met);
    }
  }
  return {};
}

}  // namespace

Result<RowQuery> row_query(const CollectionReader& collection, EncoderBackend& encoder,
                           const EncodedQuery& encoded, const SearchQuery& query, EncodedParts& parts) {
  if (query.min_probability && !(*query.min_probability >= 0 && *query.min_probability <= 1)) {
    return fail(ErrorCode::kUsage, "the minimum match probability is {}, expected 0 to 1",
                *query.min_probability);
  }
  parts.judge = judge_of(collection, query);
  if (query.min_probability && !parts.judge.tells()) {
    return fail(ErrorCode::kUnsupported, "hits have no match probabilities to compare with the minimum: {}",
                parts.judge.reason);
  }
  RowQuery asked{.row = encoded.row, .query = query, .logit_scale = double{encoder.info().logit_scale}};
  const bool late = collection.has_late_rows();
  if (late && encoded.late.rows() > 0 && collection.index() == nullptr) {
    SACCADE_ASSIGN(parts.late, pack_query(encoded.late.view(), collection.info().settings.late->precision));
    asked.late = &*parts.late;
  }
  if (query.background != nullptr && !late) asked.by = &parts.judge;
  return asked;
}

Status complete_answer(const CollectionReader& collection, EncoderBackend& encoder,
                       const EncodedQuery& encoded, const RowQuery& asked, SearchAnswer& answer) {
  if (asked.late != nullptr && asked.query.explain) {
    SACCADE_TRY(explain_matches(collection, encoder.preprocessing(), encoded, *asked.late, answer));
  }
  answer.tokens = encoded.tokens;
  answer.composer_report = encoded.composer_report;
  order_hits(answer);
  return {};
}

}  // namespace saccade
