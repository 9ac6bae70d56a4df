#include "saccade/search/keywords/keyword_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "saccade/collection/catalog/words/word_match.h"
#include "saccade/text/caption_queries.h"

namespace saccade {
namespace {

// Stop words of English queries, sorted: words around those that are searched for.
constexpr auto kSmallWords = std::to_array<std::string_view>(
    {"a",          "an",      "and",  "are",  "as",  "at",   "by", "for", "from",
     "image",      "in",      "is",   "it",   "its", "of",   "on", "or",  "photo",
     "photograph", "picture", "some", "that", "the", "this", "to", "with"});
static_assert(std::ranges::is_sorted(kSmallWords));

bool is_small(const std::string& word) {
  return std::ranges::binary_search(kSmallWords, std::string_view(word));
}

// Weights of the terms that tell anything, and which of them say what a thing is.
struct Terms {
  double weight = 0;
  uint64_t all = 0;
  uint64_t things = 0;  // all, where there are only words for attributes
  std::vector<double> weights;

  explicit Terms(const std::vector<WordTerm>& terms) : weights(terms.size()) {
    for (size_t i = 0; i < terms.size(); ++i) {
      if (terms[i].common) continue;
      all |= uint64_t{1} << i;
      if (!is_attribute(terms[i].text)) things |= uint64_t{1} << i;
    }
    if (things == 0) things = all;
    for (size_t i = 0; i < terms.size(); ++i) {
      if ((all >> i & 1) != 0) weights[i] = (things >> i & 1) != 0 ? 1 : kAttributeWeight;
      weight += weights[i];
    }
  }
  [[nodiscard]] double coverage(uint64_t has) const {
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) sum += (has >> i & 1) != 0 ? weights[i] : 0;
    return sum / weight;
  }
  // Share of the words for things that no image has.
  [[nodiscard]] double unknown(const std::vector<WordTerm>& terms) const {
    int64_t missing = 0;
    for (size_t i = 0; i < terms.size(); ++i) {
      missing += (things >> i & 1) != 0 && terms[i].pictures == 0 ? 1 : 0;
    }
    return things == 0 ? 0 : static_cast<double>(missing) / std::popcount(things);
  }
};

// Returns the rows that have a part that is not wanted, all words of it side by side. Ascending.
Result<std::vector<int64_t>> unwanted_rows(const CollectionReader& collection, const SearchQuery& query) {
  std::vector<std::string> terms;
  for (const QueryPart& part : query.text.parts()) {
    if (part.weight < 0) terms.push_back(part.text);
  }
  if (terms.empty()) return std::vector<int64_t>();
  return collection.rows_with_words(terms);
}

}  // namespace

std::vector<std::string> word_terms(const SearchQuery& query) {
  std::vector<std::string> terms = query.text.phrases();
  std::set<std::string> known;
  for (const std::string& phrase : terms) {
    for (std::string& word : caption_words(phrase)) known.insert(std::move(word));
  }
  std::vector<std::string> words;
  const auto read = [&](std::string_view text) {
    for (std::string& word : caption_words(text)) {
      if (known.insert(word).second) words.push_back(std::move(word));
    }
  };
  for (const QueryPart& part : query.text.parts()) {
    if (part.weight > 0) read(part.text);
  }
  if (!terms.empty() || !std::ranges::all_of(words, is_small)) std::erase_if(words, is_small);
  terms.insert(terms.end(), std::make_move_iterator(words.begin()), std::make_move_iterator(words.end()));
  return terms;
}

bool searches_words(const SearchQuery& query) {
  return query.keyword_weight != 0 && query.text.has_words() && query.images.empty();
}

Result<KeywordRanking> rank_by_keywords(const CollectionReader& collection, const SearchQuery& query,
                                        std::span<const uint8_t> allowed) {
  if (!(query.keyword_weight >= 0 && query.keyword_weight <= 1)) {
    return fail(ErrorCode::kUsage, "keyword weight {}: expected 0 to 1", query.keyword_weight);
  }
  KeywordRanking ranking;
  KeywordSearch& report = ranking.report;
  report.share = query.keyword_weight;
  const std::vector<std::string> terms = word_terms(query);
  if (terms.empty()) {
    report.reason = "the query has no words";
    return ranking;
  }
  auto matches = collection.match_words(terms);
  if (!matches) {
    report.reason = "the words cannot be searched: " + matches.error().message;
    return ranking;
  }
  report.reason = matches->reason;
  for (const WordTerm& term : matches->terms) report.terms.push_back({term.text, term.pictures, term.common});
  if (report.terms.empty()) {
    for (const std::string& term : terms) report.terms.push_back({term});
  } else if (std::ranges::all_of(report.terms, &KeywordSearch::Term::common)) {
    report.reason =
        "the words of the query are in more than a quarter of the images and were not searched for";
  }
  const Terms weighed(matches->terms);
  ranking.words.known = weighed.all != 0;
  ranking.words.unknown = weighed.unknown(matches->terms);
  std::vector<WordMatch>& found = matches->found;
  std::erase_if(found, [&](const WordMatch& match) {
    return allowed[static_cast<size_t>(match.row)] == 0 || (match.has & weighed.things) == 0;
  });
  if (found.empty()) return ranking;
  SACCADE_ASSIGN(const std::vector<int64_t> unwanted, unwanted_rows(collection, query));
  std::erase_if(found,
                [&](const WordMatch& match) { return std::ranges::binary_search(unwanted, match.row); });
  report.pictures = std::ssize(found);
  const auto evidence_of = [&](const WordMatch& match) {
    return WordEvidence{.all = match.has == weighed.all,
                        .coverage = weighed.coverage(match.has),
                        .bm25 = match.weight / matches->weight};
  };
  std::vector<double> strengths;
  strengths.reserve(found.size());
  for (const WordMatch& match : found) {
    const WordEvidence evidence = evidence_of(match);
    ranking.words.any_all = ranking.words.any_all || evidence.all;
    strengths.push_back(evidence.strength());
  }
  // Ranks count down to kWordDepth, so only images that reach the strength of that rank are sorted.
  double least = -std::numeric_limits<double>::infinity();
  if (std::ssize(strengths) > kWordDepth) {
    std::vector<double> best = strengths;
    const auto last = best.begin() + kWordDepth - 1;
    std::ranges::nth_element(best, last, std::ranges::greater());
    least = *last;
  }
  std::vector<std::pair<int64_t, KeywordRanking::Place>>& places = ranking.places;
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < found.size(); ++i) {
    if (strengths[i] < least) continue;
    order.emplace_back(-strengths[i], places.size());
    places.emplace_back(found[i].row,
                        KeywordRanking::Place{.id = found[i].id, .evidence = evidence_of(found[i])});
  }
  std::ranges::sort(order);
  int64_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || order[i].first > order[i - 1].first) rank = static_cast<int64_t>(i) + 1;
    places[order[i].second].second.rank = rank;
  }
  return ranking;
}

const KeywordRanking::Place* place_of(const KeywordRanking& words, int64_t row) {
  const auto place =
      std::ranges::lower_bound(words.places, row, {}, &std::pair<int64_t, KeywordRanking::Place>::first);
  return place != words.places.end() && place->first == row ? &place->second : nullptr;
}

QueryWords words_for(const KeywordRanking& words, const KeywordRanking::Place* place, double described) {
  QueryWords its = words.words;
  its.known = place != nullptr || (its.known && described >= kDescribedShare);
  return its;
}

std::vector<FusedRank> fuse_ranks(const KeywordRanking& words, double share, const ScoreScale& scale,
                                  std::vector<Candidate>& candidates) {
  std::vector<FusedRank> fused;
  fused.reserve(candidates.size());
  // Highest first; equal ones in the order of scores, then ids.
  std::vector<std::pair<double, size_t>> order;
  order.reserve(candidates.size());
  int64_t rank = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    if (i == 0 || candidate.score < candidates[i - 1].score) rank = static_cast<int64_t>(i) + 1;
    FusedRank& one = fused.emplace_back();
    one.row = candidate.row;
    if (rank <= kScoreDepth) one.by_vectors = rank;
    one.by_words = place_of(words, candidate.row);
    const WordEvidence none;
    order.emplace_back(
        -order_of(scale, candidate.score, one.by_words != nullptr ? one.by_words->evidence : none, share), i);
  }
  std::ranges::sort(order);
  std::vector<FusedRank> ranks;
  std::vector<Candidate> ordered;
  ranks.reserve(order.size());
  ordered.reserve(order.size());
  for (const auto& [ignored, i] : order) {
    ordered.push_back(candidates[i]);
    ranks.push_back(fused[i]);
  }
  candidates = std::move(ordered);
  return ranks;
}

KeywordHit keyword_hit(const CollectionReader& collection, const KeywordRanking::Place& place,
                       KeywordSearch& report) {
  KeywordHit hit;
  hit.rank = place.rank;
  hit.weight = place.evidence.coverage;
  hit.all = place.evidence.all;
  std::vector<std::string> terms;
  for (const KeywordSearch::Term& term : report.terms) {
    if (!term.common && term.pictures > 0) terms.push_back(term.text);
  }
  const auto fields = collection.word_fields(place.id, terms);
  if (!fields) {
    report.reason = "the words of a result cannot be read: " + fields.error().message;
    return hit;
  }
  for (size_t i = 0; i < fields->size(); ++i) {
    if ((*fields)[i] != 0) hit.matches.push_back({terms[i], (*fields)[i]});
  }
  return hit;
}

}  // namespace saccade
