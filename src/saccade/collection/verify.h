// Checking a collection without changing it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/progress.h"

namespace saccade {

struct VerifyOptions {
  // Read every picture again and compare its hash: finds files changed without a change of time or size.
  bool deep = false;
};

struct VerifyReport {
  struct Problem {
    std::string subject;  // "catalog", "rows", "item 17"
    std::string message;
    bool fatal = false;  // the collection itself is damaged; otherwise a picture has changed or gone since
  };
  int64_t items = 0;
  int64_t rows = 0;
  int64_t files_hashed = 0;
  int64_t without_files = 0;      // items that were imported without their files; counted with `deep`
  std::vector<Problem> problems;  // the first 1,000
  int64_t problem_count = 0;      // all of them
  int64_t fatal_count = 0;

  [[nodiscard]] bool ok() const { return problem_count == 0; }
};

// Checks the catalog's pages and schema. Checks that each item has exactly one row within the rows file and
// that no two items share one. Each row must be finite and of length 1 (within 1e-3), and so must late
// interaction rows (within their rounding). The int8 rows must match the rows file. With `deep` the images
// are checked too. For a vector database it checks the rows and the paths of the items. Faults are listed in the report. An error means that the collection could not be opened,
// or kCancelled.
Result<VerifyReport> verify_collection(const std::filesystem::path& folder, const VerifyOptions& options,
                                       ThreadPool& pool, const ProgressCallback& progress = {},
                                       std::stop_token stop = {});

}  // namespace saccade
