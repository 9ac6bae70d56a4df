// Metrics of composers' trainings on held-out edit queries, and the metric that selects the best checkpoint.
// It is the same for all that can be trained. Internal to the module.
#pragma once

#include <optional>
#include <string>

#include "lab/eval/composed/composed_task.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/rows/embed.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/matrix.h"

namespace saccade::lab {

// Returns {"name", "queries", "gallery", "tied", "figures"} of normalized embeddings: asked [task.asked,
// dim], pictures [task.pictures, dim]. Ties count against the model. In Fashion-IQ's layout it has
// "selection" too, {"metric": "mean_r10_r50", "categories", "value"}: the layout's headline metric, in which
// every category counts once. Returns kBadData if no query has a target.
Result<Json> composed_held_out_json(const std::string& name, const ComposedTask& task,
                                    MatrixView<const float> asked, MatrixView<const float> pictures,
                                    const BootstrapOptions& bootstrap, ThreadPool& pool);
// Likewise with several rows per image, of which the nearest counts.
Result<Json> composed_held_out_json(const std::string& name, const ComposedTask& task,
                                    MatrixView<const float> asked, const EmbeddedRows& pictures,
                                    const BootstrapOptions& bootstrap, ThreadPool& pool);

// Returns the mean over all queries of r1, r5 and r10, without those that exceed a small gallery. A set's
// "selection" replaces the three. If all sets have one, every category counts once in place of every query.
// Returns `nullopt` without queries; kBadData for JSON that the function above has not written.
Result<std::optional<double>> composed_headline(const Json& held_out);

}  // namespace saccade::lab
