// The approximate index of a collection (index/lists/list_index.h): a file beside the rows file, built on request.
//
//   rows-<n>.lists   safetensors; metadata "saccade_lists": JSON of the figures; tensors "means" F32 [lists, columns],
//                    "ends" I64 [lists], "checks" U64 [lists], "rows" U32 [entries], "factors" BF16 [entries],
//                    "signs" U64 [entries, words]
//
// It covers the rows that were committed when it was built. Rows never change, so that it stays right: rows that were added
// are searched beside it, and removed ones are left out by the mask. It can be missing; `compact` removes it with the rows
// file that it belongs to. It is not used if it is damaged, of another version, of other rows, or outgrown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "saccade/core/error.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/index/lists/list_search.h"
#include "saccade/index/lists/list_tuning.h"
#include "saccade/matrix.h"

namespace saccade {

// Number of rows from which searches use an approximate index. Below it an exact search takes less than 10 ms
// (docs/scale.md).
inline constexpr int64_t kApproximateFrom = 500'000;
// Share of the covered rows that may be added until the index is outgrown: those are scored in full, so that an exact search
// by 8-bit rows is as fast then.
inline constexpr double kMostAdded = 0.25;

// An open index. Immutable; all but `checks` is read from the mapped file. Thread-safe.
struct ApproximateIndex {
  SafeTensors file;
  ListIndex lists;
  std::unique_ptr<ListChecks> checks;
  ListRecall texts;  // known() == false without queries of the kind
  ListRecall images;
  int64_t from = kApproximateFrom;  // rows of the collection from which it is used
  double seconds = 0;               // that building it took
  FileStamp stamp;                  // of the file

  // Returns what searches by a text, or by images alone, use.
  [[nodiscard]] const ListRecall& by(bool text) const { return text ? texts : images; }
};

// Returns the path of the index of a rows file.
std::filesystem::path approximate_path(const std::filesystem::path& folder, int64_t generation);

// Opens the index of the rows [0, rows.rows()). kNotFound if there is none; kBadData if it is damaged or of other rows,
// kUnsupported if it is of another version, kMismatch if it is outgrown.
Result<std::unique_ptr<const ApproximateIndex>> open_approximate(const std::filesystem::path& folder,
                                                                 int64_t generation,
                                                                 MatrixView<const float> rows);

// Writes an index of built lists, in place of an earlier one. `figures`: everything else that is known of it; its lists, checks
// and stamp are ignored. Errors of writing a file.
Status write_approximate(const std::filesystem::path& folder, int64_t generation,
                         MatrixView<const float> rows, const BuiltLists& built,
                         const ApproximateIndex& figures);

}  // namespace saccade
