// Downloads the images of a table of URLs into WebDataset shards.
//
//   FOLDER/fetch.json      tables (names, sizes, hashes), columns, rows of a shard
//   FOLDER/00000.tar       samples of rows 0 to rows_per_shard - 1, in order: KEY.jpg (or .png, ...), KEY.txt
//                          (a caption a line, if there are any), KEY.json (url, captions, kept columns)
//   FOLDER/00000.json      record of the shard: size, hash and failures
//   FOLDER/failures.jsonl  all failures, one a line
//
// A shard is written to a temporary name and renamed, and its record is written after it. A shard with a record
// is finished; any other is fetched again. The same answers give the same bytes, however often a run stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/data/fetch/fetch_schedule.h"
#include "lab/data/fetch/url_table.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/image/image_codec.h"
#include "saccade/progress.h"

namespace saccade::lab {

struct FetchOptions {
  std::vector<std::filesystem::path> tables;
  std::filesystem::path folder;
  data::UrlColumns columns;
  data::FetchLimits limits;
  int64_t rows_per_shard = 1000;
  int connections = 32;                   // maximum number of simultaneous requests
  int64_t max_bytes = int64_t{20} << 20;  // maximum size of an image
  double seconds = 20;                    // time limit of a request, redirects included
  int redirects = 5;                      // maximum number of redirects
  int retries = 2;                        // further requests after a passing failure
  double first_wait = 1;                  // seconds before the first retry, doubled for each further one
  bool private_networks = false;          // permits addresses that are not public
  // Processes that decode each image once, to learn its format and that it is whole. nullptr: the threads that
  // fetch decode.
  DecoderPool* processes = nullptr;
  bool retry_failed = false;  // requests the failed rows of finished shards again
  // Addresses of a name, as text. Only tests set it; empty: the system's resolver.
  data::HostNames::Resolve resolve = {};
  // Returns true for an address that is public. Only tests set it; empty: hub::is_public.
  std::function<bool(const std::string& address)> is_public = {};
};

struct FetchReport {
  int64_t rows = 0;                         // of all tables
  int64_t images = 0;                       // in all finished shards
  int64_t fetched = 0;                      // images that this run fetched, in shards that it finished
  int64_t failed = 0;                       // rows without an image in finished shards
  int64_t untried = 0;                      // rows of shards that are not finished
  int64_t shards = 0;                       // of all rows
  int64_t kept_shards = 0;                  // finished before
  int64_t requests = 0;                     // requests of this run, retries included
  int64_t bytes = 0;                        // of images fetched by this run
  double seconds = 0;                       // time of this run
  std::map<std::string, int64_t> failures;  // number of failures by kind
  bool cancelled = false;                   // a stop request ended the run
  std::filesystem::path list;               // failures.jsonl
};
Json fetch_report_json(const FetchReport& report);

// Fetches what is missing in the folder. Failures of rows are no errors: they are in the report and the list.
// Errors: kUsage for a missing column and for a folder with other files; kMismatch if the folder was made from
// other tables or with other columns, or if a finished shard has changed; kBadData for a broken table; kIo if
// the folder cannot be written. Memory: the texts of two shards; `max_bytes` and a decoded image per connection.
Result<FetchReport> fetch_dataset(const FetchOptions& options, const ProgressCallback& progress,
                                  const std::stop_token& stop);

}  // namespace saccade::lab
