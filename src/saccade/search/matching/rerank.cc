#include "saccade/search/matching/rerank.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/index/max_sim.h"
#include "saccade/search/hit_pictures.h"
#include "saccade/search/query_language.h"
#include "saccade/search/query_rows.h"

namespace saccade {
namespace {

using Clock = std::chrono::steady_clock;

Result<RerankMethod> choose_method(RerankMethod wanted, EncoderBackend& second, const SearchQuery& query) {
  const bool can_match = second.pair_scorer() != nullptr;
  const bool can_max_sim = second.late_interaction() != nullptr;
  switch (wanted) {
    case RerankMethod::kStrongest:
      if (can_match && query.images.empty() && query.is_plain()) return RerankMethod::kMatch;
      return can_max_sim && query.is_plain() ? RerankMethod::kMaxSim : RerankMethod::kCosine;
    case RerankMethod::kMatch:
      if (!can_match) return fail(ErrorCode::kUnsupported, "match: the checkpoint has no matching head");
      if (!query.images.empty()) {
        return fail(ErrorCode::kUsage, "match: a matching head judges texts, the query has an image");
      }
      if (!query.is_plain()) {
        return fail(ErrorCode::kUsage, "match: a matching head judges one text, the query has several parts");
      }
      return wanted;
    case RerankMethod::kMaxSim:
      if (!can_max_sim) {
        return fail(ErrorCode::kUnsupported, "maxsim: the checkpoint gives one row an image");
      }
      return wanted;
    case RerankMethod::kCosine:
      return wanted;
  }
  return wanted;
}

// The query as the second encoder's method wants it.
class Scorer {
 public:
  static Result<Scorer> make(const IngestSettings& settings, EncoderBackend& second, const SearchQuery& query,
                             RerankMethod method) {
    Scorer scorer(second, method);
    if (method == RerankMethod::kMatch) {
      SACCADE_ASSIGN(scorer.text_, tokenize_query(second, query));
      scorer.encoded_.tokens = TokenCount{
          .used = scorer.text_.used, .dropped = scorer.text_.dropped, .longest_chunk = scorer.text_.used};
    } else {
      SACCADE_ASSIGN(scorer.encoded_,
                     encode_query_rows(settings, second, query, method == RerankMethod::kMaxSim));
    }
    return scorer;
  }

  [[nodiscard]] const std::optional<TokenCount>& tokens() const { return encoded_.tokens; }

  // One score a row of pixels.
  Result<std::vector<float>> score(MatrixView<const float> pixels) {
    auto scores = score_any(pixels);
    if (scores && static_cast<int64_t>(scores->size()) != pixels.rows()) {
      return fail(ErrorCode::kInternal, "{} scores came back for {} images", scores->size(), pixels.rows());
    }
    return scores;
  }

 private:
  Scorer(EncoderBackend& second, RerankMethod method) : second_(&second), method_(method) {}

  Result<std::vector<float>> score_any(MatrixView<const float> pixels) {
    if (method_ == RerankMethod::kMatch) {
      const std::vector<TokenizedText> texts(static_cast<size_t>(pixels.rows()), text_);
      return second_->pair_scorer()->score_pairs(pixels, texts);
    }
    std::vector<float> scores;
    if (method_ == RerankMethod::kCosine) {
      SACCADE_ASSIGN(const Matrix<float> rows, second_->encode_images(pixels));
      for (int64_t r = 0; r < rows.rows(); ++r) {
        const auto row = rows.row(r);
        scores.push_back(std::inner_product(row.begin(), row.end(), encoded_.row.begin(), 0.0F));
      }
      return scores;
    }
    SACCADE_ASSIGN(const RowSets sets, second_->late_interaction()->encode_image_rows(pixels));
    for (size_t i = 0; i + 1 < sets.begin.size(); ++i) {
      const auto item = sets.rows.view().slice(sets.begin[i], sets.begin[i + 1] - sets.begin[i]);
      scores.push_back(max_sim_total(max_sim_matches_plain(encoded_.late.view(), item)));
    }
    return scores;
  }

  EncoderBackend* second_;
  RerankMethod method_;
  EncodedQuery encoded_;
  TokenizedText text_;  // kMatch
};

void note(const PictureProblem& problem, SearchHit& hit, Reranking& reranking) {
  hit.not_reranked = problem.text;
  switch (problem.kind) {
    case PictureProblem::Kind::kMissing:
      ++reranking.missing;
      return;
    case PictureProblem::Kind::kChanged:
      ++reranking.changed;
      return;
    case PictureProblem::Kind::kUnreadable:
      ++reranking.unreadable;
      return;
    case PictureProblem::Kind::kOutOfTime:
      ++reranking.out_of_time;
      return;
  }
}

// Reads the pictures of `hits` and scores them.
Status score_batch(std::span<SearchHit> hits, const IngestSettings& settings, EncoderBackend& second,
                   Scorer& scorer, const DecodeOptions& limits, ThreadPool& pool, Reranking& reranking) {
  const HitPictures pictures = read_hit_pictures(hits, settings, second.preprocessing(), limits, pool);
  for (size_t i = 0; i < hits.size(); ++i) {
    if (pictures.problems[i]) note(*pictures.problems[i], hits[i], reranking);
  }
  const std::vector<size_t>& read = pictures.read;
  if (read.empty()) return {};
  SACCADE_ASSIGN(const std::vector<float> scores,
                 scorer.score(pictures.pixels.view().slice(0, std::ssize(read))));
  for (size_t i = 0; i < read.size(); ++i) {
    if (!std::isfinite(scores[i])) {
      note({PictureProblem::Kind::kUnreadable, "the encoder gave a score that is not finite"}, hits[read[i]],
           reranking);
      continue;
    }
    hits[read[i]].score = scores[i];
    hits[read[i]].reranked = true;
    ++reranking.reranked;
  }
  return {};
}

// Returns the limits with a wait for a decoder that ends at the deadline.
DecodeOptions limits_until(Clock::time_point deadline, DecodeOptions limits) {
  if (deadline == Clock::time_point::max()) return limits;
  constexpr double kShortest = 0.001;  // 0 would be no limit
  const double left = std::max(std::chrono::duration<double>(deadline - Clock::now()).count(), kShortest);
  limits.max_wait_seconds = limits.max_wait_seconds > 0 ? std::min(limits.max_wait_seconds, left) : left;
  return limits;
}

// Scores hits batch by batch until the deadline, and notes those that are left out.
Status score_hits(std::span<SearchHit> hits, const IngestSettings& settings, EncoderBackend& second,
                  Scorer& scorer, const DecodeOptions& limits, const RerankOptions& options, ThreadPool& pool,
                  const ProgressCallback& progress, const std::stop_token& stop, Reranking& reranking) {
  const auto is_late = [&] { return Clock::now() >= options.deadline; };
  const auto stopped = [] { return fail(ErrorCode::kCancelled, "asked to stop"); };
  const auto batch = static_cast<size_t>(std::max(1, options.batch));
  for (size_t first = 0; first < hits.size(); first += batch) {
    if (stop.stop_requested()) return stopped();
    if (first > 0 && is_late()) break;
    const size_t count = std::min(batch, hits.size() - first);
    const Status scored = score_batch(hits.subspan(first, count), settings, second, scorer,
                                      limits_until(options.deadline, limits), pool, reranking);
    if (!scored) {
      // Busy encoders are waited for no longer than until then.
      const bool in_vain = scored.error().code == ErrorCode::kCancelled && !stop.stop_requested();
      if (first > 0 && in_vain && is_late()) break;
      return scored;
    }
    if (progress) {
      progress({"re-ranking", static_cast<int64_t>(first + count), std::ssize(hits), {}});
    }
  }
  if (stop.stop_requested()) return stopped();  // images may be left out for it
  for (SearchHit& hit : hits) {
    if (!hit.reranked && hit.not_reranked.empty()) {
      note({PictureProblem::Kind::kOutOfTime, "the time limit was reached"}, hit, reranking);
    }
  }
  return {};
}

}  // namespace

std::span<const EnumName<RerankMethod>> enum_names(RerankMethod) {
  static constexpr std::array<EnumName<RerankMethod>, 4> kWords{{{RerankMethod::kStrongest, "strongest"},
                                                                 {RerankMethod::kCosine, "cosine"},
                                                                 {RerankMethod::kMaxSim, "maxsim"},
                                                                 {RerankMethod::kMatch, "match"}}};
  return kWords;
}
std::string_view name(RerankMethod method) {
  return enum_name(method);
}
Result<RerankMethod> parse_rerank_method(std::string_view name) {
  return parse_name<RerankMethod>("rerank_by", name);
}

Result<SearchAnswer> search_and_rerank(const CollectionReader& collection, EncoderBackend& encoder,
                                       EncoderBackend& second, const SearchQuery& query,
                                       const RerankOptions& options, ThreadPool& pool,
                                       const ProgressCallback& progress, std::stop_token stop,
                                       RowFinder* rows) {
  if (query.min_probability) {
    return fail(
        ErrorCode::kUsage,
        "results of re-ranking have no match probabilities, so they cannot be cut by them: the second encoder's "
        "scores are not calibrated");
  }
  if (options.depth < 1) return fail(ErrorCode::kUsage, "depth is {}, expected 1 or more", options.depth);
  SACCADE_TRY(check_query_size(query));
  SACCADE_ASSIGN(const RerankMethod method, choose_method(options.method, second, query).in("re-rank"));
  const IngestSettings& settings = collection.info().settings;
  SACCADE_ASSIGN(Scorer scorer, Scorer::make(settings, second, query, method).in("re-rank"));
  SACCADE_ASSIGN(const EncodedQuery encoded, encode_query(collection, encoder, query));

  SearchQuery deep = query;
  deep.k = std::max(query.k, options.depth);
  deep.order = Order::kScore;
  deep.background.reset();
  SACCADE_ASSIGN(SearchAnswer answer, rows != nullptr
                                          ? search_encoded(collection, encoder, encoded, deep, pool, *rows)
                                          : search_encoded(collection, encoder, encoded, deep, pool));
  answer.query = query;
  Reranking reranking;
  reranking.checkpoint = options.name;
  reranking.fingerprint = second.info().fingerprint;
  reranking.method = enum_name(method);
  reranking.depth = std::min(options.depth, static_cast<int64_t>(answer.hits.size()));
  reranking.tokens = scorer.tokens();
  for (SearchHit& hit : answer.hits) hit.retrieval = SearchHit::Retrieval{hit.rank, hit.score};
  SACCADE_TRY(score_hits(std::span(answer.hits).first(static_cast<size_t>(reranking.depth)), settings, second,
                         scorer, query.limits, options, pool, progress, stop, reranking)
                  .in("re-rank"));
  // Stable: equal scores, and all that was not scored, stay in the order of retrieval.
  std::ranges::stable_sort(answer.hits, [](const SearchHit& a, const SearchHit& b) {
    if (a.reranked != b.reranked) return a.reranked;
    return a.reranked && a.score > b.score;
  });
  if (static_cast<int64_t>(answer.hits.size()) > query.k) answer.hits.resize(static_cast<size_t>(query.k));
  for (size_t i = 0; i < answer.hits.size(); ++i) answer.hits[i].rank = static_cast<int64_t>(i) + 1;
  answer.reranking = std::move(reranking);
  order_hits(answer);
  return answer;
}

}  // namespace saccade
