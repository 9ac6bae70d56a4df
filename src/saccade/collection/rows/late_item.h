// Late interaction data that a collection stores per item and per encoder.
#pragma once

#include <cstddef>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

struct LateItem {
  std::vector<float> mean;        // [dim], the rows' mean, of length 1: the item's row of the first stage
  std::vector<std::byte> stored;  // its rows, pooled and rounded as the settings say
};

// Makes the stored form of one item. rows: [n, dim]. kBadData if there are none or fewer than the grid has
// patches. Also kBadData for a row that is not of length 1 (within 1e-3), before pooling or after.
Result<LateItem> make_late_item(MatrixView<const float> rows, const LateSettings& settings);

// Returns the settings with which a new collection stores `encoder`'s rows. kUnsupported if the encoder
// returns one row per item, or if `pool` is above 1 and its rows do not correspond to patches. kUsage for
// `pool` outside 1 to kMaxPool.
Result<LateSettings> late_settings(EncoderBackend& encoder, RowPrecision precision, int64_t pool);

// kMismatch unless the encoder gives many rows an item, over the grid that the settings name.
Status check_grid(EncoderBackend& encoder, const LateSettings& settings);

}  // namespace saccade
