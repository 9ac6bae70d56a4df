// Ranks of right answers, by counting higher scores. Nothing is sorted, and only a few rows of the score
// matrix are held at a time.
//
// Let a right answer have the score s. `above` answers of the gallery score higher. Among those that score
// exactly s, w are wrong and r right (itself included). The ranks of the r are then, for i = 1 .. r:
//
//   optimistic   above + i          right ones first
//   pessimistic  above + w + i      wrong ones first
//   mean         above + w / 2 + i  halfway between these two; not whole if w is odd
//   index        in the gallery's order
//   trec         by document id, strcmp order, largest first: what trec_eval (and so pytrec_eval and MTEB) do
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/figures/relevance.h"
#include "lab/eval/rows/pair_scores.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"

namespace saccade::lab {

enum class TiePolicy { kPessimistic, kOptimistic, kMean, kIndex, kTrec };
// Returns "pessimistic", "optimistic", "mean", "index", "trec", and each policy's meaning in a clause: "of
// equal scores the wrong answers come first".
std::span<const EnumName<TiePolicy>> enum_names(TiePolicy);

// Policy for equal scores. Only kTrec uses the orders: the place of each text and image among answers with
// equal scores, from trec_order.
struct TieBreak {
  TiePolicy policy = TiePolicy::kPessimistic;
  std::vector<int64_t> text_order = {};
  std::vector<int64_t> image_order = {};
};
// Returns places: place i is that of ids[i] in descending strcmp order. Returns kBadData for a duplicate id.
Result<std::vector<int64_t>> trec_order(std::span<const std::string> ids);

// The ranks (from 1) of every right answer to every query.
struct QueryRanks {
  int64_t gallery = 0;               // answers that were ranked
  std::vector<int64_t> begin = {0};  // [queries + 1]; query q has ranks begin[q] .. begin[q + 1] - 1
  std::vector<double> ranks;         // ascending within a query; empty for a query without a right answer
  std::vector<uint8_t> tied;         // [queries], 1: a wrong answer has exactly a right one's score

  [[nodiscard]] int64_t queries() const { return static_cast<int64_t>(begin.size()) - 1; }
  [[nodiscard]] std::span<const double> of(int64_t query) const {
    const auto q = static_cast<size_t>(query);
    return std::span(ranks).subspan(static_cast<size_t>(begin[q]),
                                    static_cast<size_t>(begin[q + 1] - begin[q]));
  }
};

// Ranks the right answers of all queries. The result is the same for any number of threads. Errors: kBadData
// names the text and image whose score is NaN; kMismatch if `scores` and `relevance` are of different sizes.
// Memory: at most 16 MiB of scores, or one row if that is more, for each thread. Cost: all scores once, and a
// pass over a query's row for each of its right answers.
Result<QueryRanks> rank_right_answers(const PairScores& scores, const Relevance& relevance,
                                      Direction direction, const TieBreak& ties, ThreadPool& pool);

}  // namespace saccade::lab
