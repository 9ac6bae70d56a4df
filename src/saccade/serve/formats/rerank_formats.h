// Shared code of the reranking formats, which order a client's texts and images by relevance to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "saccade/serve/inputs.h"

namespace saccade::serve {

struct Ranking {
  struct Rank {
    float score = 0;
    size_t index = 0;  // among what was ranked
  };
  std::vector<Rank> ranks;  // best first
  std::string_view by;      // as InputScores::by
  int64_t tokens = 0;
  int64_t dropped_tokens = 0;
};

// Returns the model of that name. If it is empty or kNoModelNamed: the first with a matching head, else the
// first with late interaction, else the first. kNotFound lists the existing ones.
Result<ServedModel*> ranking_model(const Context& context, std::string_view name);

// Input that is ranked, and its field in the request.
struct RankedField {
  const char* name;
  std::vector<Input> inputs;
};

// Scores and ranks inputs. A score of the matching head is a probability, or its logit with `raw`. A cosine
// is returned unchanged. kUsage for no input, or with the query more than ServiceOptions::most_inputs; errors
// of score_inputs.
Result<Ranking> rank_inputs(const Context& context, ServedModel& model, Input query, RankedField field,
                            bool raw);

// Adds headers with the ranking's method and the tokens that were read and dropped.
HttpResponse with_ranking(HttpResponse response, const Ranking& ranking);

// The answer to a request of rerank_format(), errors included, for a route that others' clients ask at too.
HttpResponse rerank_documents(const Context& context, const Json& json);

}  // namespace saccade::serve
