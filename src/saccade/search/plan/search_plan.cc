#include "saccade/search/plan/search_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/rows/approximate_index.h"
#include "saccade/core/rows.h"
#include "saccade/index/likelihood.h"

namespace saccade {
namespace {

// Returns the measured recall with which the collection's approximate index answers this kind of query; nullptr if it is not
// to be used: it is missing, the collection is small, or it does not reach what was wanted of it. why: receives the reason, in
// a sentence, if an index is there.
const ListRecall* recall_for(const CollectionReader& collection, const SearchQuery& query, std::string& why) {
  if (query.exact || collection.has_late_rows()) return nullptr;
  why = collection.why_not_approximate();
  const ApproximateIndex* index = collection.approximate();
  if (index == nullptr || collection.rows().rows() < index->from) return nullptr;
  const bool text = query.text.has_words();
  const ListRecall& recall = index->by(text);
  if (recall.reached()) return &recall;
  why = recall.known()
            ? fmt::format("approximate index: recall {:.2f} on {} queries, {:.2f} was wanted",
                          recall.measured, text ? "text" : "image", recall.wanted)
            : fmt::format("approximate index: it was not measured on {} queries", text ? "text" : "image");
  return nullptr;
}

Result<std::shared_ptr<const AllowedRows>> allowed_rows(const CollectionReader& collection,
                                                        const std::string& filter, AllowedByFilter& known) {
  std::shared_ptr<const AllowedRows>& entry = known[filter];
  if (entry != nullptr) return entry;
  auto made = std::make_shared<AllowedRows>();
  if (filter.empty()) {
    made->rows = collection.alive();
    made->count = collection.item_count();
  } else {
    SACCADE_ASSIGN(const Filter parsed, parse_filter(filter).in("filter"));
    SACCADE_ASSIGN(made->filtered, collection.allowed(parsed));
    made->rows = made->filtered;
    made->count = std::ranges::count_if(made->rows, [](uint8_t flag) { return flag != 0; });
  }
  entry = std::move(made);
  return entry;
}

}  // namespace

Status check_stop(const SearchQuery& query) {
  if (query.stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop while searching");
  return {};
}

Status check_search(const SearchQuery& query) {
  SACCADE_TRY(check_stop(query));
  if (query.k < 1) return fail(ErrorCode::kUsage, "k is {}, expected 1 or more", query.k);
  if (query.candidates < 0) {
    return fail(ErrorCode::kUsage, "candidates are {}, expected 0 or more", query.candidates);
  }
  return {};
}

int64_t first_count(const SearchQuery& query, int64_t searched, bool late, bool judged, bool words) {
  if (late && query.candidates == 0) return searched + 1;
  const int64_t most = std::min(judged ? std::max(query.k, kCompetitors) : query.k, searched);
  // Ranks by score are told down to kScoreDepth, whatever k is.
  const int64_t fused = words ? std::min(kScoreDepth, searched) : 0;
  const int64_t wanted = late ? std::max({query.candidates, most, fused}) : std::max(2 * most, fused) + 32;
  return std::min(wanted, searched + 1);
}

Result<SearchPlan> plan_search(const CollectionReader& collection, const RowQuery& asked,
                               AllowedByFilter& known) {
  const auto& [row, late, by, query, logit_scale, whole] = asked;
  SACCADE_TRY(check_search(query));
  if (static_cast<int64_t>(row.size()) != collection.info().checkpoint.dim) {
    return fail(ErrorCode::kMismatch, "the query's row has {} columns, the collection's have {}", row.size(),
                collection.info().checkpoint.dim);
  }
  if (!std::isfinite(row_length(row))) return fail(ErrorCode::kUsage, "the query's row is not finite");
  SACCADE_TRY(collection.check_files().in("collection"));
  SearchPlan plan;
  SACCADE_ASSIGN(plan.allowed, allowed_rows(collection, query.filter, known));
  const std::span<const uint8_t> allowed = plan.allowed->rows;

  SearchAnswer& answer = plan.answer;
  answer.query = query;
  answer.searched = plan.allowed->count;
  if (late != nullptr) answer.late_scored = 0;
  std::set<int64_t> without;
  for (const QueryImage& image : query.images) {
    const auto* stored = std::get_if<QueryImage::Stored>(&image.content);
    if (stored == nullptr) continue;
    auto found = collection.item(stored->id);
    // An item that is not in the window can be no hit.
    if (!found && whole != nullptr && found.error().code == ErrorCode::kNotFound) continue;
    SACCADE_ASSIGN(const Item item, std::move(found));
    if (!without.insert(item.row).second) continue;
    answer.searched -= allowed[static_cast<size_t>(item.row)] != 0 ? 1 : 0;
  }
  if (whole != nullptr) answer.searched = whole->searched - std::ssize(without);
  if (answer.searched <= 0) return plan;

  SearchWords& words = plan.words;
  if (logit_scale && searches_words(query)) {
    SACCADE_ASSIGN(words.ranking, rank_by_keywords(collection, query, allowed));
    answer.keywords = words.ranking.report;
    const bool judged = by != nullptr && by->texts != nullptr;
    if (late == nullptr && (words.change() || judged)) {
      words.scale = scale_of(collection, query, row, *logit_scale, whole);
    }
  }
  SACCADE_TRY(check_stop(query));
  // Word matches are candidates whatever the rank of their rows.
  plan.brought.reserve(words.ranking.places.size());
  for (const auto& [place, ignored] : words.ranking.places) {
    if (!without.contains(place)) plan.brought.push_back(place);
  }
  plan.rows = {allowed, plan.brought, std::move(without), query.stop};
  plan.rows.count = answer.searched;
  plan.recall = recall_for(collection, query, answer.why_exact);
  if (plan.recall != nullptr) {
    plan.rows.approximate = collection.approximate();
    plan.rows.probe = plan.recall->probe;
  }
  plan.first = by != nullptr && query.min_probability
                   // One more than are looked at, so that `complete` can be seen.
                   ? std::min(std::max(query.k, kCutDepth), answer.searched) + 1
                   : first_count(query, answer.searched, late != nullptr, by != nullptr, words.change());
  return plan;
}

}  // namespace saccade
