// Tests of composition: whether a model distinguishes two captions of the same words by their images.
//
// Thrush et al., "Winoground", CVPR 2022. With s(c, i) the score of caption c with image i, an item counts
//
//   text    s(c0, i0) > s(c1, i0) and s(c1, i1) > s(c0, i1)
//   image   s(c0, i0) > s(c0, i1) and s(c1, i1) > s(c1, i0)
//   group   both
//
// strictly: a tie is wrong. Items of one image (SugarCrepe, ARO) have only the first half of the text score:
// s(c0, i0) > s(c1, i0). Chance is 1/4, 1/4 and 1/6, or 1/2.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/run/run.h"
#include "lab/eval/winoground/composition_metrics.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"

namespace saccade::lab {

// Scores of an item: [caption][image]. The second column is ignored for items of one image.
using CompositionScores = std::array<std::array<float, 2>, 2>;

struct CompositionVerdict {
  bool text = false;
  bool image = false;
  bool group = false;
  bool tied = false;  // two of the scores compared are equal
};
CompositionVerdict judge(const CompositionScores& scores, bool two_pictures);

// The items of a dataset to judge, and their images, each once.
struct CompositionTask {
  bool two_pictures = true;
  std::vector<CompositionItem> items;
  std::vector<ImageRef> pictures;  // in the order of their first item
  std::vector<int64_t> source;     // [pictures]: their numbers in the task of the whole dataset
  // [items]: numbers of the item's images; [1] is -1 for items of one image
  std::vector<std::array<int64_t, 2>> picture_of;
  std::vector<Exclusion> excluded;  // in addition to the dataset's own exclusions
};
// Makes the task. Returns kUsage for a dataset of images and captions; kBadData if items of one and of two
// images are mixed.
Result<CompositionTask> composition_task(const Dataset& dataset);
// Returns the task without the items of these images (by number, ascending), counted. The remaining images
// are renumbered in the order of the remaining items, which may differ from before; `source` maps the
// numbers. Returns kBadData if nothing is left.
Result<CompositionTask> without_pictures(const CompositionTask& task, std::span<const int64_t> pictures);

// Returns the number of sets of items that share no image with each other. Intervals resample these sets.
int64_t composition_clusters(const CompositionTask& task);

// The figures of all items (kind is nullopt) or of one kind.
struct CompositionGroup {
  std::optional<std::string> kind;
  int64_t items = 0;
  int64_t tied = 0;
  Estimates estimates;  // resampled by sets of items that images connect
  std::vector<Figure> figures;
};
struct CompositionOutcome {
  std::vector<CompositionVerdict> verdicts;
  std::vector<CompositionGroup>
      groups;  // all items, then the kinds in order of their first item, if there are several
};

// Evaluates the task. scores: one per item. kBadData names an item with a NaN score.
Result<CompositionOutcome> evaluate_compositions(const CompositionTask& task,
                                                 std::span<const CompositionScores> scores,
                                                 const BootstrapOptions& bootstrap, ThreadPool& pool);

// Adds the results of a model and of chance, and the comparisons of two models, by kind. Errors as paired_differences.
void add_results(const std::string& dataset, const std::string& model, const CompositionOutcome& outcome,
                 CompositionMetrics& metrics);
void add_chance(const std::string& dataset, const CompositionTask& task, const CompositionOutcome& any,
                CompositionMetrics& metrics);
Status add_comparisons(const std::string& dataset, const std::string& a_name, const CompositionOutcome& a,
                       const std::string& b_name, const CompositionOutcome& b, double confidence,
                       CompositionMetrics& metrics);

// Adds one line per item to the run's pairs.jsonl.
Status add_pairs(RunWriter& run, const std::string& dataset, const std::string& model,
                 const CompositionTask& task, std::span<const CompositionScores> scores,
                 const CompositionOutcome& outcome);

// Reads scores of another program: the tensor "scores" [items, 2, pictures]. Errors name what is wrong.
Result<std::vector<CompositionScores>> read_composition_scores(const std::filesystem::path& path,
                                                               const CompositionTask& task);

}  // namespace saccade::lab
