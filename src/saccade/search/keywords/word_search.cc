#include "saccade/search/keywords/word_search.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "saccade/collection/catalog/word_match.h"
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

// A picture counts from this share of the words' weight on, which it must be above.
constexpr double kLeastWeight = 0.5;

// Rows that have a word of what is not wanted, all words of a part side by side.
Result<std::set<int64_t>> unwanted_rows(const Collection& collection, const SearchQuery& query) {
  std::vector<std::string> terms;
  for (const QueryPart& part : query.parts) {
    if (part.weight < 0) terms.push_back(part.text);
  }
  std::set<int64_t> rows;
  if (terms.empty()) return rows;
  SACCADE_ASSIGN(const WordMatches matches, collection.match_words(terms));
  for (const WordMatch& match : matches.found) rows.insert(match.row);
  return rows;
}

}  // namespace

std::vector<std::string> word_terms(const SearchQuery& query) {
  std::vector<std::string> terms = query.phrases;
  std::set<std::string> known;
  for (const std::string& phrase : query.phrases) {
    for (std::string& word : caption_words(phrase)) known.insert(std::move(word));
  }
  std::vector<std::string> words;
  const auto read = [&](std::string_view text) {
    for (std::string& word : caption_words(text)) {
      if (known.insert(word).second) words.push_back(std::move(word));
    }
  };
  if (query.parts.empty()) read(query.text);
  for (const QueryPart& part : query.parts) {
    if (part.weight > 0) read(part.text);
  }
  if (!terms.empty() || !std::ranges::all_of(words, is_small)) std::erase_if(words, is_small);
  terms.insert(terms.end(), std::make_move_iterator(words.begin()), std::make_move_iterator(words.end()));
  return terms;
}

Result<WordRanking> rank_by_words(const Collection& collection, const SearchQuery& query,
                                  std::span<const uint8_t> allowed) {
  if (!(query.word_share >= 0 && query.word_share <= 1)) {
    return fail(ErrorCode::kUsage, "the words' share is {}, expected 0 to 1", query.word_share);
  }
  WordRanking ranking;
  WordSearch& report = ranking.report;
  report.share = query.word_share;
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
  }
  std::vector<WordMatch>& found = matches->found;
  std::erase_if(found, [&](const WordMatch& match) {
    return allowed[static_cast<size_t>(match.row)] == 0 || match.weight <= kLeastWeight * matches->weight;
  });
  if (found.empty()) return ranking;
  SACCADE_ASSIGN(const std::set<int64_t> unwanted, unwanted_rows(collection, query));
  std::erase_if(found, [&](const WordMatch& match) { return unwanted.contains(match.row); });
  report.pictures = std::ssize(found);
  std::ranges::sort(found, [](const WordMatch& a, const WordMatch& b) {
    return a.weight > b.weight || (a.weight == b.weight && a.id < b.id);
  });
  int64_t rank = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (i == 0 || found[i].weight < found[i - 1].weight) rank = static_cast<int64_t>(i) + 1;
    if (rank > kWordDepth) break;
    ranking.places.emplace_back(found[i].row,
                                WordRanking::Place{found[i].id, rank, found[i].weight / matches->weight});
  }
  std::ranges::sort(ranking.places, {}, &std::pair<int64_t, WordRanking::Place>::first);
  return ranking;
}

std::vector<FusedRank> fuse_ranks(const WordRanking& words, double share,
                                  std::vector<Candidate>& candidates) {
  std::vector<FusedRank> fused;
  fused.reserve(candidates.size());
  // Sums, largest first, and the candidates whose they are; equal ones in the order of scores, then ids.
  // Those of vectors alone come so.
  std::vector<std::pair<double, size_t>> by_vectors;
  std::vector<std::pair<double, size_t>> by_both;
  by_vectors.reserve(candidates.size());
  int64_t rank = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    if (i == 0 || candidate.score < candidates[i - 1].score) rank = static_cast<int64_t>(i) + 1;
    FusedRank& one = fused.emplace_back();
    double sum = 0;
    one.row = candidate.row;
    if (rank <= kWordDepth) {
      one.by_vectors = rank;
      sum += (1 - share) / (kRankOffset + static_cast<double>(rank));
    }
    const auto place = std::ranges::lower_bound(words.places, candidate.row, {},
                                                &std::pair<int64_t, WordRanking::Place>::first);
    if (place != words.places.end() && place->first == candidate.row) {
      one.by_words = &place->second;
      sum += share / (kRankOffset + static_cast<double>(place->second.rank));
    }
    (one.by_words == nullptr ? by_vectors : by_both).emplace_back(-sum, i);
  }
  std::ranges::sort(by_both);
  std::vector<std::pair<double, size_t>> order(fused.size());
  std::ranges::merge(by_vectors, by_both, order.begin());
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

Result<WordHit> word_hit(const Collection& collection, const WordRanking::Place& place,
                         const WordSearch& report) {
  WordHit hit;
  hit.rank = place.rank;
  hit.weight = place.weight;
  std::vector<std::string> terms;
  for (const WordSearch::Term& term : report.terms) {
    if (!term.common && term.pictures > 0) terms.push_back(term.text);
  }
  SACCADE_ASSIGN(const std::vector<uint8_t> fields, collection.word_fields(place.id, terms));
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] != 0) hit.matches.push_back({terms[i], fields[i]});
  }
  return hit;
}

}  // namespace saccade
