#include "lab/eval/retrieval/retrieval_figures.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "lab/eval/rows/given.h"

namespace saccade::lab {
namespace {

// True for r@k and recall@k of a gallery with fewer than k answers, which would be 1 for any model.
bool is_beyond(int64_t gallery, std::string_view name) {
  return std::ranges::any_of(kRecallDepths, [&](int64_t k) {
    return k > gallery && (name == fmt::format("r{}", k) || name == fmt::format("recall{}", k));
  });
}

// Returns the numbers of the `count` largest scores, in their order; ties go by number. Nearly every score is only compared
// with the last of the best.
std::vector<int64_t> best_of(std::span<const float> scores, int64_t count) {
  const auto wanted = std::min(static_cast<size_t>(count), scores.size());
  const auto before = [&](int64_t a, int64_t b) {
    const float one = scores[static_cast<size_t>(a)];
    const float other = scores[static_cast<size_t>(b)];
    return one > other || (one == other && a < b);
  };
  std::vector<int64_t> best(wanted);  // a heap, the last of the best in front
  std::iota(best.begin(), best.end(), 0);
  std::ranges::make_heap(best, before);
  for (size_t i = wanted; i < scores.size() && wanted > 0; ++i) {
    if (!(scores[i] > scores[static_cast<size_t>(best.front())])) continue;
    std::ranges::pop_heap(best, before);
    best.back() = static_cast<int64_t>(i);
    std::ranges::push_heap(best, before);
  }
  std::ranges::sort_heap(best, before);
  return best;
}

// Scores of a task's first captions.
struct FirstScores {
  FirstScores(const PairScores& all, const RetrievalTask& task) : images(task.images.size()) {
    std::iota(images.begin(), images.end(), 0);
    scores = selected_scores(all, task.first->texts, images);
  }
  std::vector<int64_t> images;  // borrowed by the scores
  std::unique_ptr<PairScores> scores;
};

RetrievalDirection direction_of(const QueryCounts& counts, std::vector<Figure> figures, int64_t gallery) {
  blank_beyond(gallery, figures);
  return {counts, std::move(figures)};
}

}  // namespace

void blank_beyond(int64_t gallery, std::vector<Figure>& figures) {
  for (Figure& figure : figures) {
    if (is_beyond(gallery, figure.name)) figure = {.name = std::move(figure.name)};
  }
}

void blank_beyond(int64_t gallery, std::vector<Difference>& differences) {
  for (Difference& difference : differences) {
    if (!is_beyond(gallery, difference.figure.name)) continue;
    difference = {.figure = {.name = std::move(difference.figure.name)}, .blank = true};
  }
}

Result<TieBreak> tie_break(TiePolicy policy, const RetrievalTask& task) {
  TieBreak ties;
  ties.policy = policy;
  if (policy != TiePolicy::kTrec) return ties;
  std::vector<std::string> image_ids;
  for (const RunImage& image : task.items.images) image_ids.push_back(image.id);
  SACCADE_ASSIGN(ties.image_order, trec_order(image_ids));
  SACCADE_ASSIGN(ties.text_order, trec_order(task.text_ids));
  return ties;
}

Result<RetrievalOutcome> evaluate_retrieval(const PairScores& scores, const RetrievalTask& task,
                                            const TieBreak& ties, const BootstrapOptions& bootstrap,
                                            ThreadPool& pool) {
  if (!task.first_queries) {
    return evaluate_retrieval(scores, task.relevance, task.image_of_text, ties, bootstrap, pool);
  }
  const FirstScores first(scores, task);
  RetrievalOutcome outcome;
  SACCADE_ASSIGN(outcome.text_to_image,
                 evaluate_direction(*first.scores, task.first->relevance, Direction::kTextToImage, {}, ties,
                                    bootstrap, pool));
  SACCADE_ASSIGN(outcome.image_to_text, evaluate_direction(scores, task.relevance, Direction::kImageToText,
                                                           task.image_of_text, ties, bootstrap, pool));
  return outcome;
}

Result<RetrievalOutcome> evaluate_symmetric(const PairScores& scores, const RetrievalTask& task,
                                            TiePolicy policy, const BootstrapOptions& bootstrap,
                                            ThreadPool& pool) {
  SACCADE_ASSIGN(TieBreak ties, tie_break(policy, task));
  if (policy == TiePolicy::kTrec) {
    std::vector<std::string> ids;
    for (const int64_t text : task.first->texts) ids.push_back(task.text_ids[static_cast<size_t>(text)]);
    SACCADE_ASSIGN(ties.text_order, trec_order(ids));
  }
  const FirstScores first(scores, task);
  return evaluate_retrieval(*first.scores, task.first->relevance, {}, ties, bootstrap, pool);
}

Result<SymmetricRetrieval> symmetric_retrieval(const RetrievalOutcome& standard,
                                               const RetrievalOutcome& symmetric, double confidence) {
  SymmetricRetrieval result;
  for (const Direction direction : kBothDirections) {
    const DirectionOutcome& one = symmetric.of(direction);
    result.directions.of(direction) = direction_of(one.counts, one.figures, one.ranks.gallery);
    SACCADE_ASSIGN(result.gain.of(direction),
                   paired_differences(standard.of(direction).estimates, one.estimates, confidence));
    blank_beyond(one.ranks.gallery, result.gain.of(direction));
  }
  return result;
}

Result<Difference> retrieval_gap(const RetrievalOutcome& outcome, double confidence) {
  SACCADE_ASSIGN(
      std::vector<Difference> differences,
      paired_differences(outcome.image_to_text.estimates, outcome.text_to_image.estimates, confidence));
  const Difference* found = find_named(differences, "r1");
  if (found == nullptr) return fail(ErrorCode::kInternal, "no R@1 among the figures");
  return *found;
}

std::vector<std::vector<RunAnswer>> top_answers(const PairScores& scores, const Relevance& relevance,
                                                Direction direction, int64_t depth, ThreadPool& pool) {
  const bool to_image = direction == Direction::kTextToImage;
  const int64_t queries = relevance.queries(direction);
  const int64_t gallery = relevance.gallery(direction);
  const int64_t kept = std::min(depth, gallery);
  std::vector<std::vector<RunAnswer>> result(static_cast<size_t>(queries));
  constexpr int64_t kBlock = 16;
  pool.parallel_for(queries, kBlock, [&](int64_t begin, int64_t end) {
    Matrix<float> rows(end - begin, gallery);
    if (to_image) {
      scores.score(begin, end - begin, 0, gallery, rows.data(), gallery, 1);
    } else {
      scores.score(0, gallery, begin, end - begin, rows.data(), 1, gallery);
    }
    for (int64_t q = begin; q < end; ++q) {
      const std::span<const float> row = std::as_const(rows).row(q - begin);
      const std::vector<int64_t> order = best_of(row, kept);
      const auto right = relevance.right(direction, q);
      for (int64_t k = 0; k < kept; ++k) {
        const int64_t answer = order[static_cast<size_t>(k)];
        result[static_cast<size_t>(q)].push_back({.answer = answer,
                                                  .score = row[static_cast<size_t>(answer)],
                                                  .right = std::ranges::binary_search(right, answer)});
      }
    }
  });
  return result;
}

RetrievalResult retrieval_result(const std::string& dataset, const std::string& model,
                                 const RetrievalTask& task, const RetrievalOutcome& outcome) {
  RetrievalResult result = {
      .dataset = dataset, .model = model, .images = std::ssize(task.images), .texts = std::ssize(task.texts)};
  for (const Direction direction : kBothDirections) {
    const DirectionOutcome& one = outcome.of(direction);
    result.directions.of(direction) = direction_of(one.counts, one.figures, one.ranks.gallery);
  }
  return result;
}

RetrievalResult chance_result(const std::string& dataset, const RetrievalTask& task) {
  RetrievalResult result = {.dataset = dataset,
                            .model = std::string(kChance),
                            .images = std::ssize(task.images),
                            .texts = std::ssize(task.texts)};
  for (const Direction direction : kBothDirections) {
    QueryCounts counts;
    const bool of_first = task.first_queries && direction == Direction::kTextToImage;
    const Relevance& relevance = of_first ? task.first->relevance : task.relevance;
    for (int64_t q = 0; q < relevance.queries(direction); ++q) {
      const size_t right = relevance.right(direction, q).size();
      ++(right == 0 ? counts.without_answer : counts.queries);
      counts.several_right += right > 1 ? 1 : 0;
    }
    const std::vector<double> guess = chance_figures(relevance, direction, kRecallDepths);
    std::vector<Figure> figures;
    for (const std::string& name : retrieval_names(kRecallDepths)) {
      Figure& figure = figures.emplace_back();
      figure.name = name;
      if (figures.size() <= guess.size()) figure.value = guess[figures.size() - 1];
    }
    result.directions.of(direction) = direction_of(counts, std::move(figures), relevance.gallery(direction));
  }
  return result;
}

Result<RetrievalComparison> compare_retrieval(const std::string& dataset, const std::string& a_name,
                                              const RetrievalOutcome& a, const std::string& b_name,
                                              const RetrievalOutcome& b, double confidence) {
  RetrievalComparison comparison = {.dataset = dataset, .a = a_name, .b = b_name};
  for (const Direction direction : kBothDirections) {
    SACCADE_ASSIGN(std::vector<Difference> differences,
                   paired_differences(a.of(direction).estimates, b.of(direction).estimates, confidence)
                       .in(fmt::format("{} and {} on {}", a_name, b_name, dataset)));
    blank_beyond(a.of(direction).ranks.gallery, differences);
    comparison.directions.of(direction) = std::move(differences);
  }
  return comparison;
}

Status add_ranks(RunWriter& run, const std::string& dataset, const std::string& model,
                 const PairScores& scores, const RetrievalTask& task, const RetrievalOutcome& outcome,
                 ThreadPool& pool) {
  for (const Direction direction : kBothDirections) {
    const bool of_first = task.first_queries && direction == Direction::kTextToImage;
    const std::vector<std::vector<RunAnswer>> top =
        of_first ? top_answers(*FirstScores(scores, task).scores, task.first->relevance, direction,
                               kTopAnswers, pool)
                 : top_answers(scores, task.relevance, direction, kTopAnswers, pool);
    const QueryRanks& ranks = outcome.of(direction).ranks;
    for (int64_t q = 0; q < ranks.queries(); ++q) {
      const auto index = static_cast<size_t>(q);
      SACCADE_TRY(run.add_query({.dataset = dataset,
                                 .model = model,
                                 .direction = direction,
                                 .query = of_first ? task.first->texts[index] : q,
                                 .ranks = {ranks.of(q).begin(), ranks.of(q).end()},
                                 .tied = ranks.tied[index] != 0,
                                 .top = top[index]}));
    }
  }
  return {};
}

}  // namespace saccade::lab
