#include "saccade/collection/rows/late_item.h"

#include <algorithm>

#include "saccade/core/rows.h"

namespace saccade {
namespace {

Status check_rows(MatrixView<const float> rows, std::string_view which) {
  for (int64_t r = 0; r < rows.rows(); ++r) {
    SACCADE_TRY(check_unit_row(rows.row(r)).in(fmt::format("{} {}", which, r)));
  }
  return {};
}

}  // namespace

Result<LateItem> make_late_item(MatrixView<const float> rows, const LateSettings& settings) {
  const int64_t patches = settings.grid.rows * settings.grid.columns;
  if (rows.rows() < std::max<int64_t>(patches, 1)) {
    return fail(ErrorCode::kBadData, "{} rows, expected {} at least", rows.rows(),
                std::max<int64_t>(patches, 1));
  }
  SACCADE_TRY(check_rows(rows, "row"));
  LateItem item;
  SACCADE_ASSIGN(item.mean, unit_row(sum_rows(rows)).in("the rows' mean"));

  const Matrix<float> pooled =
      settings.pool > 1 ? pool_patches(rows, settings.grid, settings.pool) : Matrix<float>();
  const MatrixView<const float> kept = settings.pool > 1 ? pooled.view() : rows;
  if (settings.pool > 1) SACCADE_TRY(check_rows(kept, "pooled row"));
  const int64_t width = stored_row_bytes({settings.precision, rows.columns()});
  item.stored.resize(static_cast<size_t>(kept.rows() * width));
  store_rows(kept, settings.precision, item.stored);
  return item;
}

Result<LateSettings> late_settings(EncoderBackend& encoder, RowPrecision precision, int64_t pool) {
  const LateInteraction* late = encoder.late_interaction();
  if (late == nullptr) {
    return fail(ErrorCode::kUnsupported,
                "the checkpoint gives one row an image: there are none to choose for");
  }
  if (pool < 1 || pool > kMaxPool) {
    return fail(ErrorCode::kUsage, "{} patches a row, expected 1 to {}", pool, kMaxPool);
  }
  LateSettings settings{precision, pool, {late->patch_rows(), late->patch_columns()}};
  if (pool > 1 && settings.grid.rows * settings.grid.columns == 0) {
    return fail(ErrorCode::kUnsupported, "the checkpoint's rows stand for no patches of an image");
  }
  return settings;
}

Status check_grid(EncoderBackend& encoder, const LateSettings& settings) {
  const LateInteraction* late = encoder.late_interaction();
  if (late == nullptr) {
    return fail(ErrorCode::kMismatch, "the collection keeps many rows an item, the encoder gives one");
  }
  if (late->patch_rows() == settings.grid.rows && late->patch_columns() == settings.grid.columns) return {};
  return fail(ErrorCode::kMismatch, "the collection's items have {} x {} patches, the encoder's {} x {}",
              settings.grid.rows, settings.grid.columns, late->patch_rows(), late->patch_columns());
}

}  // namespace saccade
