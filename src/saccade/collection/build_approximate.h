// Builds the approximate index of a collection (rows/approximate_index.h).
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/rows/approximate_index.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/lists/list_index.h"
#include "saccade/matrix.h"
#include "saccade/progress.h"

namespace saccade {

struct ApproximateOptions {
  double recall = 0.95;  // wanted, at 10
  int64_t from = kApproximateFrom;
  ListOptions lists = {};
  // Embeddings of texts, [m, dim], as they search this collection; a third of them tune, the others measure. May be empty.
  MatrixView<const float> texts = {};
  // Number of the collection's rows that are queries by image.
  int64_t image_queries = 500;
};

// Builds the index of the collection's current rows, tunes it, and writes it in place of an earlier one; readers take it up
// with their next snapshot. The collection can be searched and written meanwhile. kUnsupported for late interaction and
// for a vector database, kUsage without images or for another recall than tune_lists takes, kMismatch if the collection was
// compacted meanwhile, kCancelled; errors of build_lists, tune_lists and of writing a file.
Result<std::unique_ptr<const ApproximateIndex>> build_approximate(const CollectionReader& collection,
                                                                  const ApproximateOptions& options,
                                                                  ThreadPool& pool,
                                                                  const ProgressCallback& progress = {},
                                                                  const std::stop_token& stop = {});

// Checks that the collection still has the rows that an index was built from, and removes the index otherwise. kMismatch
// after a compaction, which gives every item another row.
Status check_not_compacted(const CollectionReader& built_from);

// Removes the index; true if there was one. kUnsupported for a vector database.
Result<bool> remove_approximate(const CollectionReader& collection);

}  // namespace saccade
