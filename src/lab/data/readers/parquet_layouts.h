// Published Parquet layouts beyond rows of images and captions: Winoground, and MTEB's retrieval data. Internal to the module.
#pragma once

#include <vector>

#include "lab/data/dataset.h"
#include "lab/data/readers/parquet.h"
#include "lab/data/readers/reader.h"
#include "saccade/core/error.h"

namespace saccade::lab::data {

// Returns true if a file has Winoground's columns: image_0, image_1, caption_0 and caption_1. False if it cannot be read.
bool has_winoground_columns(const ParquetShard& shard);

// Reads tests of composition, one a row. kBadData for a null among their images and captions.
Result<Dataset> read_winoground_parquet(const std::vector<ParquetShard>& shards);

// Returns true for a folder with MTEB's configurations "corpus", "queries" (or "query") and "qrels" (or "default", or "data").
bool is_mteb(const Candidate& candidate);

// Reads such a folder: images with the texts that its qrels relate to them by a score above 0, in the order of the texts. Images
// of the corpus without a text stay, because they belong to the gallery; texts without an image, and queries that are not judged,
// are left out and counted. One split of the qrels is read, the one in `options`. Errors: kUsage if there are several and none is
// named; kBadData for unknown and repeated ids, and if not one side has the images and the other the texts.
Result<Dataset> read_mteb(const Candidate& candidate, const DatasetOptions& options);

}  // namespace saccade::lab::data
