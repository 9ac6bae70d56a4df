// Tiles of rows in 8-bit codes, compared with many queries at a time: excludes the rows whose bound (int8_rows.h) lies below
// what a query looks for. Internal to this module.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "saccade/index/int8_rows.h"
#include "saccade/index/int8_tile_kernels.h"

namespace saccade {

// Number of queries from which tiles are faster than bounded_search, which has tighter bounds and reads codes as they lie.
inline constexpr int64_t kFewestTileQueries = 3;

// Returns true if this processor has a kernel for tiles that is faster than products of full rows.
bool has_fast_int8_tiles();

// Queries that tiles are compared with. Const after construction, so that threads may share it.
struct Int8TileQueries {
  Int8Rows rows;
  std::vector<int8_t> parts;  // the queries' first parts, then the checks' [queries + 2, columns]
  std::vector<Int8TileQuery> queries;
};
// queries: usable.
Int8TileQueries make_tile_queries(const Int8Rows& rows, std::span<const Int8Query> queries);

// A tile of rows; one for each thread. Memory: 64 times a row's columns, and 256 bytes for each query.
class Int8Tile {
 public:
  // of: borrowed.
  explicit Int8Tile(const Int8TileQueries& of);

  // Reads rows [first, first + count) of the codes, at most kInt8TileRows, and multiplies them with all queries. Rows whose
  // check is wrong have an infinite bound.
  void read(int64_t first, int64_t count);
  // Returns bit r set for each row r of the tile whose score for query q may reach `limit`.
  [[nodiscard]] uint64_t reach(size_t q, float limit) const;

 private:
  struct Vector {
    alignas(64) std::array<std::byte, 64> bytes;
  };

  const Int8TileQueries& of_;
  const NamedInt8TileKernel& kernel_;
  int64_t columns_;
  uint64_t present_ = 0;
  std::vector<Vector> side_by_side_;
  std::vector<int32_t> sums_;
  Int8TileTerms terms_;
};

}  // namespace saccade
