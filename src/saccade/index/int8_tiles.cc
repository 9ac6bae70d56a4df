#include "saccade/index/int8_tiles.h"

#include <cmath>

namespace saccade {

bool has_fast_int8_tiles() {
  return int8_tile_kernels().front().level != CpuLevel::kPortable;
}

Int8TileQueries make_tile_queries(const Int8Rows& rows, std::span<const Int8Query> queries) {
  Int8TileQueries made;
  made.rows = rows;
  const int64_t columns = int8_columns(rows.dim);
  for (const Int8Query& query : queries) {
    made.parts.insert(made.parts.end(), query.parts.begin(), query.parts.begin() + columns);
    made.queries.push_back({query.start[0], query.step[0], query.of_length, query.of_error, query.least});
  }
  const std::vector<int8_t> checks = int8_check_parts(columns);
  made.parts.insert(made.parts.end(), checks.begin(), checks.end());
  return made;
}

Int8Tile::Int8Tile(const Int8TileQueries& of)
    : of_(of),
      kernel_(int8_tile_kernels().front()),
      columns_(int8_columns(of.rows.dim)),
      side_by_side_(static_cast<size_t>(columns_)),
      sums_((of.queries.size() + 2) * static_cast<size_t>(kInt8TileRows)) {}

void Int8Tile::read(int64_t first, int64_t count) {
  const int64_t stride = int8_row_bytes(of_.rows.dim);
  const std::byte* codes = of_.rows.data + first * stride;
  std::byte* side_by_side = side_by_side_.front().bytes.data();
  kernel_.turn(codes, count, stride, columns_, side_by_side);
  kernel_.multiply(side_by_side, columns_, of_.parts.data(), static_cast<int64_t>(of_.queries.size()) + 2,
                   sums_.data(), codes + count * stride);
  std::array<int32_t, kInt8TileRows> squares;
  kernel_.square(side_by_side, columns_, squares.data());
  const int32_t* odd = sums_.data() + of_.queries.size() * static_cast<size_t>(kInt8TileRows);
  const int32_t* even = odd + kInt8TileRows;
  terms_ = {};
  for (int64_t r = 0; r < count; ++r) {
    const auto at = static_cast<size_t>(r);
    const Int8Terms terms = read_checked_terms(codes + r * stride, columns_, odd[r], even[r], first + r);
    terms_.scale[at] = terms.scale;
    terms_.error[at] = terms.error;
    // Rounded up: the factor is more than the conversion to float takes away.
    terms_.length[at] =
        static_cast<float>(double{terms.scale} * std::sqrt(static_cast<double>(squares[at])) * (1 + 1e-6));
  }
  present_ = count == kInt8TileRows ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

uint64_t Int8Tile::reach(size_t q, float limit) const {
  const int32_t* sums = sums_.data() + q * static_cast<size_t>(kInt8TileRows);
  return kernel_.reach(terms_, of_.queries[q], sums, limit) & present_;
}

}  // namespace saccade
