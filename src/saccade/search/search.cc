#include "saccade/search/search.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/catalog/words/word_match.h"
#include "saccade/collection/rows/approximate_index.h"
#include "saccade/collection/rows/late_item.h"
#include "saccade/core/rows.h"
#include "saccade/index/max_sim.h"
#include "saccade/model/composers/composer.h"
#include "saccade/search/candidates.h"
#include "saccade/search/fold.h"
#include "saccade/search/keywords/keyword_search.h"
#include "saccade/search/matching/background.h"
#include "saccade/search/matching/evidence.h"
#include "saccade/search/query_language.h"
#include "saccade/search/query_rows.h"
#include "saccade/search/row_finder.h"
#include "saccade/text/caption_queries.h"

namespace saccade {
namespace {

// A pass over the rows for each search.
class OwnPass final : public RowFinder {
 public:
  Result<FoundRows> find(const SearchedRows& searched, std::span<const float> query, int64_t k,
                         std::span<const int64_t> wanted, ThreadPool& pool) override {
    return find_rows(searched, {query.data(), 1, static_cast<int64_t>(query.size())}, k, pool, {&wanted, 1});
  }
};

// Hands out what a shared pass found for a query. Another look at the rows, for more of them, is a pass of its own.
class GivenRows final : public RowFinder {
 public:
  GivenRows(int64_t k, Result<FoundRows> found) : k_(k), found_(std::move(found)) {}
  Result<FoundRows> find(const SearchedRows& searched, std::span<const float> query, int64_t k,
                         std::span<const int64_t> wanted, ThreadPool& pool) override {
    if (found_ && k == k_) return *std::exchange(found_, std::nullopt);
    return OwnPass().find(searched, query, k, wanted, pool);
  }

 private:
  int64_t k_;
  std::optional<Result<FoundRows>> found_;
};

Status check_stop(const SearchQuery& query) {
  if (query.stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop while searching");
  return {};
}

// Checks that the near-duplicates are within the query's limit.
Status check_grouped(const SearchQuery& query, const Folding& folding) {
  if (!query.most_grouped) return {};
  int64_t grouped = 0;
  for (const Group& group : folding.groups) grouped += std::ssize(group.others);
  if (grouped <= *query.most_grouped) return {};
  return fail(ErrorCode::kLimit,
              "near-duplicates from a cosine of {} on are more than {}: raise group_above, or set "
              "group_duplicates to false",
              query.duplicate_cosine, *query.most_grouped);
}

Status check(const SearchQuery& query) {
  SACCADE_TRY(check_stop(query));
  if (query.k < 1) return fail(ErrorCode::kUsage, "k is {}, expected 1 or more", query.k);
  if (query.candidates < 0) {
    return fail(ErrorCode::kUsage, "candidates are {}, expected 0 or more", query.candidates);
  }
  return {};
}

// Returns the initial number of candidates among `searched` images. It suffices without a second pass if
// images have a few copies each. It exceeds the number of images by at most one, so that `complete` can be
// determined.
int64_t first_count(const SearchQuery& query, int64_t searched, bool late, bool judged, bool words) {
  if (late && query.candidates == 0) return searched + 1;
  const int64_t most = std::min(judged ? std::max(query.k, kCompetitors) : query.k, searched);
  // Ranks by score are told down to kScoreDepth, whatever k is, which suffices for grouped near-duplicates too.
  const int64_t fused = words ? std::min(kScoreDepth, searched) : 0;
  const int64_t wanted = late ? std::max({query.candidates, most, fused}) : std::max(2 * most, fused) + 32;
  return std::min(wanted, searched + 1);
}

// Returns the item if it is all that is searched by.
const QueryImage::Stored* stored_alone(const SearchQuery& query) {
  if (query.text.has_words() || query.images.size() != 1 || query.images.front().weight < 0) return nullptr;
  return std::get_if<QueryImage::Stored>(&query.images.front().content);
}

// Checks a query, and the encoder unless nothing of the query is encoded.
Status check_fits(const CollectionReader& collection, EncoderBackend& encoder, const SearchQuery& query) {
  SACCADE_TRY(check(query));
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

// Word search state of one search.
struct Words {
  KeywordRanking ranking;
  ScoreScale scale;              // of the query's scores
  std::vector<FusedRank> ranks;  // of the candidates, in their order

  [[nodiscard]] bool change() const { return !ranking.places.empty(); }
};

Result<std::vector<SearchHit>> hits_of(const CollectionReader& collection, const std::vector<Group>& groups,
                                       bool late) {
  std::vector<SearchHit> hits;
  for (const Group& group : groups) {
    SearchHit hit;
    hit.rank = static_cast<int64_t>(hits.size()) + 1;
    hit.score = group.first.score;
    if (late) hit.pooled_score = group.first.pooled_score;
    SACCADE_ASSIGN(hit.item, collection.item(group.first.id));
    SACCADE_ASSIGN(hit.facts, collection.facts(group.first.id));
    for (const Candidate& other : group.others) {
      SACCADE_ASSIGN(Item item, collection.item(other.id));
      const bool same_bytes = item.hash == hit.item.hash && !item.hash.empty();
      hit.folded.push_back({std::move(item), other.score, same_bytes});
    }
    hits.push_back(std::move(hit));
  }
  return hits;
}

// Calibration that judges the hits of this kind of query, or the reason why there is none.
struct Judge {
  const Background::Kind* kind = nullptr;
  // Evidence of both sides, for a text whose words count too. `nullptr`: it is judged by `kind` alone.
  const Background::Texts* texts = nullptr;
  std::string reason;

  [[nodiscard]] bool tells() const { return kind != nullptr && (texts != nullptr || kind->model.tells); }
};

Judge judge_of(const CollectionReader& collection, const SearchQuery& query) {
  if (collection.has_late_rows()) {
    return {
        .reason =
            "scores of late interaction are not calibrated: they grow with the number of the text's tokens"};
  }
  if (query.background == nullptr) {
    return {.reason = "the collection has not been measured: `saccade index` does that"};
  }
  if (!query.is_plain()) return {.reason = "queries of several parts are not calibrated"};
  if (query.text.has_words() && !query.images.empty()) {
    return {.reason = "queries of a text and an image together are not calibrated"};
  }
  const Background& background = *query.background;
  const Background::Kind& kind = query.images.empty() ? background.text : background.picture;
  if (kind.surroundings.mean_query.empty()) return {.reason = kind.model.reason};
  if (query.images.empty() && query.keyword_weight > 0)
    return {.kind = &kind, .texts = &background.texts, .reason = {}};
  return {.kind = &kind, .reason = kind.model.reason};
}

constexpr int64_t kScaleRows = 256;

// The collection that a window's items are from (search_index).
struct Whole {
  int64_t searched = 0;                         // number of its items that the filter leaves
  bool complete = false;                        // no other item meets the filter
  std::shared_ptr<const Matrix<float>> sample;  // rows of its items
};

// Returns the scale of a query's scores by one row: from the calibration's sample of the rows, or from one of the
// same size.
ScoreScale scale_of(const CollectionReader& collection, const SearchQuery& query,
                    std::span<const float> query_row, double logit_scale, const Whole* whole) {
  if (query.background != nullptr && query.background->text.surroundings.sample.rows() > 0) {
    ScoreScale scale = score_scale(query.background->text.surroundings.sample.view(), query_row);
    scale.separation = query.background->texts.separation;
    return scale;
  }
  if (whole != nullptr && whole->sample != nullptr) {
    ScoreScale scale = score_scale(whole->sample->view(), query_row);
    scale.separation = estimated_separation(scale.deviation, logit_scale);
    return scale;
  }
  const MatrixView<const float> rows = collection.rows();
  const std::span<const uint8_t> is_alive = collection.alive();
  const int64_t alive = std::ranges::count_if(is_alive, [](uint8_t flag) { return flag != 0; });
  const int64_t count = std::min(kScaleRows, alive);
  Matrix<float> sample(count, rows.columns());
  int64_t row = 0;
  int64_t before = 0;  // living rows before it
  for (int64_t s = 0; s < count; ++s) {
    const int64_t wanted = s * alive / count;  // a living row, by its number among them
    if (alive == rows.rows()) row = before = wanted;
    while (before < wanted || is_alive[static_cast<size_t>(row)] == 0) {
      before += is_alive[static_cast<size_t>(row++)] != 0 ? 1 : 0;
    }
    std::ranges::copy(rows.row(row), sample.row(s).begin());
  }
  ScoreScale scale = score_scale(sample.view(), query_row);
  scale.separation = estimated_separation(scale.deviation, logit_scale);
  return scale;
}

// Returns the scale of late interaction's scores: the last of the kCompetitors best has the standard score 0, the first
// has 2.5. candidates: by score.
ScoreScale late_scale(std::span<const Candidate> candidates) {
  ScoreScale scale;
  if (candidates.empty()) return scale;
  const auto last = std::min(static_cast<size_t>(kCompetitors), candidates.size()) - 1;
  scale.mean = double{candidates[last].score};
  const double range = double{candidates.front().score} - scale.mean;
  if (range > 0) scale.deviation = range / 2.5;
  return scale;
}

// Of each candidate; none where nothing is known. Fills answer.matching.
std::map<int64_t, HitLikelihood> judge(const CollectionReader& collection, std::span<const float> row,
                                       const Judge& judge, const Candidates& candidates, const Words& words,
                                       SearchAnswer& answer) {
  Matching& matching = answer.matching.emplace();
  matching.reason = judge.reason;
  std::map<int64_t, HitLikelihood> by_row;
  if (judge.kind == nullptr) return by_row;
  const MatchModel& model = judge.kind->model;
  matching.tells = judge.tells();
  if (answer.query.background->sample > 0) {
    matching.sample = Matching::Sample{answer.query.background->sample, answer.query.background->items};
  }
  matching.queries = model.queries;
  matching.labelled = model.labelled;
  std::vector<RowScore> best;
  for (const Candidate& candidate : candidates.best) best.push_back({candidate.row, candidate.score});
  Judgement judgement = judge_hits(model, judge.kind->surroundings, collection.rows(), row, best,
                                   answer.searched, std::ssize(caption_words(answer.query.text.str())));
  matching.there = judgement.there;
  matching.p_value = judgement.p_value;
  if (judge.texts != nullptr && !best.empty()) {
    matching.shipped = !judge.texts->measured;
    matching.labelled = judge.texts->labelled;
    matching.there = 0;
    const LogOdds log_odds(best, judge.kind->surroundings.temperature);
    for (size_t i = 0; i < best.size(); ++i) {
      const KeywordRanking::Place* place = place_of(words.ranking, best[i].row);
      const double score{best[i].score};
      judgement.hits[i].right = match_probability(words.scale, score, log_odds.of(score),
                                                  place != nullptr ? place->evidence : WordEvidence(),
                                                  words_for(words.ranking, place, judge.texts->described));
      matching.there = std::max(matching.there, judgement.hits[i].right);
    }
  }
  for (size_t i = 0; i < best.size(); ++i) by_row.emplace(best[i].row, judgement.hits[i]);
  return by_row;
}

// Returns true if a caption of the item is the query.
Result<bool> caption_is(const CollectionReader& collection, int64_t id,
                        const std::vector<std::string>& asked) {
  SACCADE_ASSIGN(const Item item, collection.item(id));
  const auto parts = caption_parts(item.caption);
  return std::ranges::any_of(parts, [&](std::string_view part) { return caption_words(part) == asked; });
}

// Returns the hits of the candidates that pass the cut, and those whose caption is the query. All candidates are
// judged first, so that only few are grouped.
Result<Folding> cut_and_fold(Candidates candidates, Words& words,
                             const std::map<int64_t, HitLikelihood>& likelihoods,
                             const CollectionReader& collection, const SearchQuery& query,
                             SearchAnswer& answer) {
  Matching& matching = *answer.matching;
  const std::vector<std::string> asked = caption_words(query.text.str());
  std::vector<Candidate> left;
  const auto is_likely = [&](const Candidate& candidate) {
    return likelihoods.at(candidate.row).right >= *query.min_probability;
  };
  for (const auto& [row, likelihood] : likelihoods) {
    if (!(matching.best >= likelihood.right)) matching.best = likelihood.right;
  }
  matching.more = !candidates.complete && !candidates.best.empty() && is_likely(candidates.best.back());
  for (const Candidate& candidate : candidates.best) {
    bool passes = is_likely(candidate);
    const KeywordRanking::Place* place = place_of(words.ranking, candidate.row);
    if (!passes && place != nullptr && place->evidence.all) {
      SACCADE_ASSIGN(passes, caption_is(collection, candidate.id, asked));
    }
    if (passes) left.push_back(candidate);
  }
  matching.cut_hits = std::ssize(candidates.best) - std::ssize(left);
  candidates.best = std::move(left);
  if (words.change()) {
    words.ranks = fuse_ranks(words.ranking, query.keyword_weight, words.scale, candidates.best);
  }
  Folding folding =
      fold(candidates, collection, query, std::ssize(candidates.best), std::ssize(candidates.best));
  matching.passed = std::ssize(folding.groups);
  if (matching.passed > query.k) folding.groups.resize(static_cast<size_t>(query.k));
  return folding;
}

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

// Rows that a filter allows, as find_rows takes them.
struct AllowedRows {
  std::vector<uint8_t> filtered;  // empty without a filter
  std::span<const uint8_t> rows;
  int64_t count = 0;
};
// Allowed rows by filter, for several searches: each filter is looked up once.
using AllowedByFilter = std::map<std::string, std::shared_ptr<const AllowedRows>>;

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

// Query of search_with(), by one row. All borrowed.
struct RowQuery {
  std::span<const float> row;
  const PackedQuery* late = nullptr;  // rows of late interaction; `nullptr`: the one row alone is compared
  const Judge* by = nullptr;          // judges the hits; `nullptr`: they are not judged
  const SearchQuery& query;
  std::optional<double> logit_scale;  // the encoder's; without it the query's words are not looked at
  const Whole* whole = nullptr;       // collection of a window of items; `nullptr`: the collection is whole
};

// A search up to its first look at the rows. Not copied, as `rows` refers to `brought`.
struct SearchPlan {
  SearchPlan() = default;
  SearchPlan(SearchPlan&&) = default;
  SearchPlan& operator=(SearchPlan&&) = default;

  SearchAnswer answer;
  std::shared_ptr<const AllowedRows> allowed;
  Words words;
  std::vector<int64_t> brought;  // rows that `rows` wants
  CandidateRows rows;
  const ListRecall* recall = nullptr;  // of the approximate index, if it is used
  int64_t first = 0;                   // candidates of the first look; 0: there are no rows to look at
};

Result<SearchPlan> plan_search(const CollectionReader& collection, const RowQuery& asked,
                               AllowedByFilter& known) {
  const auto& [row, late, by, query, logit_scale, whole] = asked;
  SACCADE_TRY(check(query));
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

  Words& words = plan.words;
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

// Carries a search out from its first look at the rows to its answer. asked: as plan_search() had it.
Result<SearchAnswer> carry_out(const CollectionReader& collection, const RowQuery& asked, SearchPlan plan,
                               ThreadPool& pool, RowFinder& finder) {
  const std::span<const float> row = asked.row;
  const PackedQuery* late = asked.late;
  const Judge* by = asked.by;
  const SearchQuery& query = asked.query;
  const Whole* whole = asked.whole;
  SearchAnswer& answer = plan.answer;
  if (plan.first == 0) return std::move(answer);
  Words& words = plan.words;
  const CandidateRows& rows = plan.rows;
  const ListRecall* recall = plan.recall;
  const auto say_how = [&](const Candidates& found) {
    answer.rescored = found.rescored;
    if (!found.why_exact.empty()) answer.why_exact = found.why_exact;
    answer.approximate.reset();
    if (!found.approximate) return;
    answer.approximate = {
        .recall = recall->measured, .queries = recall->queries, .texts = query.text.has_words()};
  };
  Folding folding;
  Candidates candidates;
  std::map<int64_t, HitLikelihood> likelihoods;
  if (by != nullptr && query.min_probability) {
    // Further where that many score alike.
    for (int64_t count = plan.first; candidates.best.empty() && !candidates.complete; count *= 4) {
      SACCADE_ASSIGN(candidates, find_candidates(collection, row, std::min(count, answer.searched + 1), rows,
                                                 pool, finder));
    }
    say_how(candidates);
    if (whole != nullptr && !whole->complete) candidates.complete = false;
    join_brought(candidates);
    likelihoods = judge(collection, row, *by, candidates, words, answer);
    SACCADE_ASSIGN(folding,
                   cut_and_fold(std::move(candidates), words, likelihoods, collection, query, answer));
    folding.settled = true;
  }
  // The same copies are grouped whether or not hits are judged, which looks at more candidates.
  const int64_t depth = first_count(query, answer.searched, late != nullptr, false, words.change());
  for (int64_t count = plan.first; !folding.settled; count *= 4) {
    count = std::min(count, answer.searched + 1);
    SACCADE_TRY(check_stop(query));
    SACCADE_TRY(check_grouped(query, folding));
    if (late != nullptr) {
      SACCADE_ASSIGN(candidates, find_late_candidates(collection, row, *late, count, rows, pool, finder));
      answer.late_scored = candidates.scored;
    } else {
      SACCADE_ASSIGN(candidates, find_candidates(collection, row, count, rows, pool, finder));
    }
    say_how(candidates);
    if (!words.change()) {
      folding = fold(candidates, collection, query, query.k, depth);
      continue;
    }
    // So many must be there, and where many score alike they may not be.
    if (!candidates.complete && std::ssize(candidates.best) < kScoreDepth) continue;
    join_brought(candidates);
    Candidates fused = candidates;
    if (late != nullptr) words.scale = late_scale(fused.best);
    words.ranks = fuse_ranks(words.ranking, query.keyword_weight, words.scale, fused.best);
    folding = fold(fused, collection, query, query.k, depth);
  }
  SACCADE_TRY(check_stop(query));
  SACCADE_TRY(check_grouped(query, folding));
  SACCADE_ASSIGN(answer.hits, hits_of(collection, folding.groups, late != nullptr));
  std::unordered_map<int64_t, SearchHit*> hits;  // by row: few, where ranks are hundreds
  if (!words.ranks.empty()) {
    for (SearchHit& hit : answer.hits) hits.emplace(hit.item.row, &hit);
  }
  for (const FusedRank& rank : words.ranks) {
    const auto ranked = hits.find(rank.row);
    if (ranked == hits.end()) continue;
    SearchHit& hit = *ranked->second;
    hit.vector_rank = rank.by_vectors;
    if (rank.by_words == nullptr) continue;
    hit.keywords = keyword_hit(collection, *rank.by_words, *answer.keywords);
  }
  if (by == nullptr) return std::move(answer);
  if (!query.min_probability) likelihoods = judge(collection, row, *by, candidates, words, answer);
  for (SearchHit& hit : answer.hits) {
    const auto found = likelihoods.find(hit.item.row);
    if (found == likelihoods.end()) continue;
    hit.likelihood = found->second;
    if (answer.matching->tells && !(answer.matching->best >= hit.likelihood->right)) {
      answer.matching->best = hit.likelihood->right;
    }
  }
  return std::move(answer);
}

Result<SearchAnswer> search_with(const CollectionReader& collection, const RowQuery& asked, ThreadPool& pool,
                                 RowFinder& finder) {
  AllowedByFilter known;
  SACCADE_ASSIGN(SearchPlan plan, plan_search(collection, asked, known));
  return carry_out(collection, asked, std::move(plan), pool, finder);
}

// Explains each hit by the patches that the text's rows matched.
Status explain(const CollectionReader& collection, const Preprocessing& preprocessing,
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

// Number of images that a vector index is first asked for: enough for the hits with a few near-duplicates each, and for a
// fusion with keywords.
constexpr int64_t kFirstWindow = 256;

// Searches a collection that has an index of its own: asks it for the nearest items, and ranks these by their full rows like
// the rows of a folder. Asks for more while they do not suffice and more come.
Result<SearchAnswer> search_index(const CollectionReader& collection, const RowQuery& by_row,
                                  ThreadPool& pool) {
  const SearchQuery& query = by_row.query;
  const std::span<const float> row = by_row.row;
  SACCADE_TRY(check(query));
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
  Whole whole;
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

// Data that the row query of an encoded query borrows.
struct EncodedParts {
  Judge judge;
  std::optional<PackedQuery> late;
};

// Returns the row query of an encoded one, which borrows from `parts`.
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

// Completes the answer to an encoded query.
Status complete(const CollectionReader& collection, EncoderBackend& encoder, const EncodedQuery& encoded,
                const RowQuery& asked, SearchAnswer& answer) {
  if (asked.late != nullptr && asked.query.explain) {
    SACCADE_TRY(explain(collection, encoder.preprocessing(), encoded, *asked.late, answer));
  }
  answer.tokens = encoded.tokens;
  answer.composer_report = encoded.composer_report;
  order_hits(answer);
  return {};
}

// A search of search_encoded_all() that waits for a pass over the rows. `asked` refers to `parts`.
struct PlannedSearch {
  size_t which = 0;
  EncodedParts parts;
  std::optional<RowQuery> asked;
  SearchPlan plan;
  std::unique_ptr<RowFinder> finder;
};

// Candidates and word matches of planned searches that may be held at a time: some 100 MB.
constexpr int64_t kMostRowsHeld = int64_t{1} << 20;

// Makes the first looks at the rows, those that go together in one pass, and gives each search its finder.
void share_passes(const CollectionReader& collection, std::deque<PlannedSearch>& planned, ThreadPool& pool) {
  struct Look {
    PlannedSearch* search = nullptr;
    RowRequest request;
    const uint8_t* allowed = nullptr;
  };
  std::vector<Look> looks;
  for (PlannedSearch& one : planned) {
    one.finder = std::make_unique<OwnPass>();
    if (one.plan.first == 0) continue;
    const auto request = row_request(one.asked->row, one.plan.first, one.plan.rows);
    if (request) looks.push_back({&one, *request, one.plan.allowed->rows.data()});
  }
  std::ranges::stable_sort(looks, [](const Look& a, const Look& b) {
    return a.allowed != b.allowed ? std::less<>()(a.allowed, b.allowed) : a.request.k < b.request.k;
  });
  for (size_t begin = 0, end = 0; begin < looks.size(); begin = end) {
    // The largest `k` decides the cost of a pass.
    std::vector<RowRequest> requests;
    while (end < looks.size() && looks[end].allowed == looks[begin].allowed &&
           looks[end].request.k <= 4 * looks[begin].request.k) {
      requests.push_back(looks[end++].request);
    }
    if (requests.size() < 2) continue;
    const PlannedSearch& first = *looks[begin].search;
    std::vector<Result<FoundRows>> found = find_together(
        {collection.rows(), first.plan.rows.allowed, collection.int8_rows(), first.plan.rows.stop}, requests,
        pool);
    for (size_t i = 0; i < requests.size(); ++i) {
      looks[begin + i].search->finder = std::make_unique<GivenRows>(requests[i].k, std::move(found[i]));
    }
  }
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
  SACCADE_TRY(complete(collection, encoder, encoded, asked, answer));
  return answer;
}

std::vector<Result<SearchAnswer>> search_encoded_all(const CollectionReader& collection,
                                                     EncoderBackend& encoder,
                                                     std::span<const EncodedSearch> searches,
                                                     ThreadPool& pool) {
  std::vector<Result<SearchAnswer>> answers(searches.size());
  if (collection.index() != nullptr) {
    for (size_t i = 0; i < searches.size(); ++i) {
      const auto& [encoded, query] = searches[i];
      answers[i] = search_encoded(collection, encoder, *encoded, *query, pool);
    }
    return answers;
  }
  AllowedByFilter known;
  std::deque<PlannedSearch> planned;  // that have not been carried out
  int64_t held = 0;
  const auto carry_out_all = [&] {
    share_passes(collection, planned, pool);
    for (PlannedSearch& one : planned) {
      const EncodedQuery& encoded = *searches[one.which].encoded;
      answers[one.which] = [&]() -> Result<SearchAnswer> {
        SACCADE_ASSIGN(SearchAnswer answer,
                       carry_out(collection, *one.asked, std::move(one.plan), pool, *one.finder));
        SACCADE_TRY(complete(collection, encoder, encoded, *one.asked, answer));
        return answer;
      }();
    }
    planned.clear();
    held = 0;
  };
  for (size_t i = 0; i < searches.size(); ++i) {
    PlannedSearch& one = planned.emplace_back();
    one.which = i;
    const Status done = [&]() -> Status {
      const auto& [encoded, query] = searches[i];
      SACCADE_ASSIGN(const RowQuery asked, row_query(collection, encoder, *encoded, *query, one.parts));
      SACCADE_ASSIGN(one.plan, plan_search(collection, one.asked.emplace(asked), known));
      return {};
    }();
    if (!done) {
      answers[i] = fail(done.error());
      planned.pop_back();
      continue;
    }
    held += one.plan.first + std::ssize(one.plan.brought);
    if (std::ssize(planned) == kSearchesTogether || held > kMostRowsHeld) carry_out_all();
  }
  carry_out_all();
  return answers;
}

Result<SearchAnswer> search(const CollectionReader& collection, EncoderBackend& encoder,
                            const SearchQuery& query, ThreadPool& pool) {
  SACCADE_ASSIGN(const EncodedQuery encoded, encode_query(collection, encoder, query));
  return search_encoded(collection, encoder, encoded, query, pool);
}

}  // namespace saccade
