// What composers' trainings measure on held-out edit queries, and what decides which of their checkpoints is
// kept, whatever is trained. Internal to the module.
#pragma once

#include <optional>
#include <string>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/matrix.h"
#include "saccade/core/threads.h"
#include "lab/eval/composed/composed_task.h"
#include "lab/eval/figures/sample.h"

namespace saccade::lab {

// {"name", "queries", "gallery", "tied", "figures"} of rows of length 1: asked [task.asked, dim], pictures
// [task.pictures, dim]. Ties count against the model. kBadData where no query has a target.
Result<Json> composed_held_out_json(const std::string& name, const ComposedTask& task,
                                    MatrixView<const float> asked, MatrixView<const float> pictures,
                                    const BootstrapOptions& bootstrap, ThreadPool& pool);

// The mean over all queries of r1, r5 and r10; of a gallery with fewer pictures, of those that it has.
// Nothing without queries; kBadData for what the above has not written.
Result<std::optional<double>> composed_headline(const Json& held_out);

}  // namespace saccade::lab
