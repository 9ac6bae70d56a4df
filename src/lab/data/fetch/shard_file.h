// Shards of a fetched dataset: a tar file in WebDataset's layout, and the record beside it. Internal to the
// module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/readers/piece_file.h"
#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"

namespace saccade::lab::data {

// Row that has no image, and the reason.
struct FetchFailure {
  int64_t row = 0;       // counted from 0 over all tables
  std::string url = {};  // as in the table
  // address, refused, connection, timeout, status, too_large, not_an_image, broken_image
  std::string kind = {};
  int status = 0;  // HTTP status; 0: none
  std::string reason = {};
};
Json fetch_failure_json(const FetchFailure& failure);

// Record of a finished shard, NUMBER.json beside NUMBER.tar.
struct ShardRecord {
  int64_t shard = 0;
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t images = 0;
  int64_t bytes = 0;  // size of the tar file
  std::string sha256 = {};
  std::vector<FetchFailure> failures = {};
};
Json shard_record_json(const ShardRecord& record);
Result<ShardRecord> parse_shard_record(const Json& json);

// Returns the ending of file names for a format of the decoder (DecodedImage::format): "jpg" for "jpeg".
std::string image_ending(std::string_view format);

// Returns the key of a row's sample: nine digits or more.
std::string sample_key(int64_t row);

// Tar archive that is being written; equal members give equal bytes. Discarded unless it is committed.
class TarWriter {
 public:
  static Result<TarWriter> create(const std::filesystem::path& path);
  Status add(std::string_view name, std::string_view content);
  // Adds bytes of another archive: whole members with their headers.
  Status add_members(std::string_view bytes);
  // Ends the archive and puts it in place.
  Status commit();
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  // Returns the hash of all bytes; once, after commit().
  std::string sha256() { return hash_.hex(); }

 private:
  explicit TarWriter(AtomicFile file) : file_(std::move(file)) {}
  Status write(std::string_view text);

  AtomicFile file_;
  Sha256 hash_;
  int64_t bytes_ = 0;
};

// Range of an archive with all members of one sample.
struct SampleRange {
  int64_t begin = 0;
  int64_t end = 0;
};
// Returns the samples of a shard that TarWriter wrote, by key.
Result<std::map<std::string, SampleRange>> shard_samples(const PieceFile& file);

}  // namespace saccade::lab::data
