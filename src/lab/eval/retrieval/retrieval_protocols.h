// Named protocols of text-image retrieval. A name stands for the captions that are texts, those that are queries, and what is
// measured beside it, so that figures of one name compare.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lab/eval/figures/ranking.h"
#include "lab/eval/retrieval/query_groups.h"
#include "lab/eval/retrieval/retrieval_task.h"
#include "lab/eval/rows/pair_scores.h"
#include "saccade/core/enum_names.h"

namespace saccade::lab {

enum class RetrievalProtocol { kSevenModels, kKarpathy, kClipBenchmark, kLongClip, kSymmetric };
// Returns "seven-models", ..., and each protocol's meaning in a sentence.
std::span<const EnumName<RetrievalProtocol>> enum_names(RetrievalProtocol);

struct RetrievalOptions {
  CaptionPolicy captions = CaptionPolicy::kAll;
  // True if only the first caption of each image is a query of text to image (RetrievalTask::first_queries).
  bool first_queries = false;
  bool symmetric = false;                          // true to measure the symmetric protocol as well
  std::optional<RetrievalProtocol> protocol = {};  // the name under which use_protocol() set these options
  TiePolicy ties = TiePolicy::kPessimistic;
  LateScoring late = {};                 // form of MaxSim for encoders with late interaction
  std::vector<TextQueryKind> by = {};    // kinds of text queries whose groups are measured as well
  std::optional<QueryTable> table = {};  // groups of the user's own
};

// Sets the protocol's options, and its name.
void use_protocol(RetrievalProtocol protocol, RetrievalOptions& options);

}  // namespace saccade::lab
