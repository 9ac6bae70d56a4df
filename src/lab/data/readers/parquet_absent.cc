// Parquet in a build without Arrow: every function returns an error.
#include "lab/data/readers/parquet.h"
#include "lab/data/readers/parquet_image.h"

namespace saccade::lab::data {
namespace {

tl::unexpected<Error> no_arrow() {
  return fail(
      ErrorCode::kUnsupported,
      "this build reads no Parquet files, as it has no Arrow: install libarrow-dev and libparquet-dev, "
      "configure again with -DSACCADE_PARQUET=ON, and build; or convert the dataset elsewhere");
}

}  // namespace

bool has_parquet() {
  return false;
}

Result<Dataset> read_parquet(const std::vector<ParquetShard>& /*shards*/,
                             const std::filesystem::path& /*folder*/, const DatasetOptions& /*options*/) {
  return no_arrow();
}

Result<std::string> read_parquet_image(const ImageRef& image, int64_t /*max_bytes*/) {
  return Result<std::string>(no_arrow()).in(image.name());
}

}  // namespace saccade::lab::data
