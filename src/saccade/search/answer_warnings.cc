#include "saccade/search/answer_warnings.h"

#include <utility>

#include <fmt/format.h>

#include "saccade/core/counts.h"

namespace saccade {

std::string scored_note(const SearchAnswer& answer) {
  if (answer.late_scored) {
    return *answer.late_scored == answer.searched
               ? fmt::format("exact: {} scored by all their rows", counted(answer.searched, "image"))
               : fmt::format("{} searched by their rows' mean, the best {} scored by all their rows",
                             counted(answer.searched, "image"), count_text(*answer.late_scored));
  }
  if (!answer.rescored || answer.approximate) return {};
  return fmt::format("exact: {} looked at in eight bits, {} of them in full",
                     counted(answer.searched, "image"), count_text(*answer.rescored));
}

std::string approximate_note(const SearchAnswer& answer) {
  if (answer.approximate) {
    return fmt::format("approximate, recall {:.2f} measured on {} {} queries", answer.approximate->recall,
                       count_text(answer.approximate->queries), answer.approximate->texts ? "text" : "image");
  }
  if (answer.by_engine) {
    const EngineSearch& search = *answer.by_engine;
    return fmt::format("approximate: {} chose {} of {}{}, which were compared in full", search.engine,
                       count_text(search.compared), search.exact_filter ? "" : "at most ",
                       counted(answer.searched, "image"));
  }
  if (answer.why_exact.empty()) return {};
  return fmt::format("searched exactly: {}. Build the index anew with saccade collection ann.",
                     answer.why_exact);
}

std::vector<std::string> rerank_warnings(const Reranking& reranking) {
  std::vector<std::string> warnings;
  if (reranking.tokens && reranking.tokens->dropped > 0) {
    warnings.push_back("the text was cut for re-ranking: " + tokens_text(*reranking.tokens));
  }
  const int64_t left_out = reranking.missing + reranking.changed + reranking.unreadable;
  if (left_out > 0) {
    warnings.push_back(
        fmt::format("{} of {} could not be re-ranked: {} gone, {} changed since they were taken in, "
                    "{} unreadable",
                    count_text(left_out), counted(reranking.depth, "image"), count_text(reranking.missing),
                    count_text(reranking.changed), count_text(reranking.unreadable)));
  }
  if (reranking.out_of_time > 0) {
    warnings.push_back(
        fmt::format("only {} of {} were re-ranked within the time limit; the others follow in their order",
                    count_text(reranking.reranked), counted(reranking.depth, "image")));
  }
  return warnings;
}

std::vector<std::string> answer_warnings(const SearchAnswer& answer) {
  std::vector<std::string> warnings;
  if (answer.tokens && answer.tokens->dropped > 0) {
    warnings.push_back("the text was cut: " + tokens_text(*answer.tokens));
  }
  if (!answer.reranking) return warnings;
  for (std::string& warning : rerank_warnings(*answer.reranking)) warnings.push_back(std::move(warning));
  return warnings;
}

}  // namespace saccade
