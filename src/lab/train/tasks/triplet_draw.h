// Triplets of a step of composers' training: their images and texts, each once, and the right candidates of
// each query. Internal to the module.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lab/train/data/composed_data.h"
#include "lab/train/math/torch.h"

namespace saccade::lab {

// Triplets, or queries (asked_queries), in the order of a batch.
struct DrawnTriplets {
  std::vector<int64_t> triplets;             // [n]: numbers
  std::vector<int64_t> pictures;             // numbers, each once; those of references first
  int64_t reference_pictures = 0;            // number of those
  std::vector<int64_t> texts;                // numbers, each once
  std::vector<int64_t> references, targets;  // [n]: places in `pictures`
  std::vector<int64_t> wordings;             // [n]: places in `texts`
};

// Draws a step's triplets, a function of the seed and the step alone. align: stage one, which has no
// references and may have pseudo-targets.
DrawnTriplets draw_triplets(const ComposedTrainingOptions& options, const ComposedData& data,
                            GroupedOrder& order, int64_t step, bool align);
// Returns `count` held-out queries from `first` on, without triplets and targets.
DrawnTriplets asked_queries(const HeldOutQueries& set, size_t first, size_t count);

// Returns a number for each image; images of equal bytes have equal numbers. None of these is a negative for
// the other.
std::vector<int64_t> content_classes(const ItemFile& file);
// Returns which candidates of stage two are right: [n, candidates] bool. The candidates are the triplets'
// targets, then their references if those are negatives. `class_of` is of content_classes.
torch::Tensor right_candidates(const ComposedTrainingOptions& options, const ComposedData& data,
                               std::span<const int64_t> class_of, const DrawnTriplets& drawn);

// Returns a tensor of the numbers: [n] int64.
torch::Tensor numbers_of(std::span<const int64_t> values);

}  // namespace saccade::lab
