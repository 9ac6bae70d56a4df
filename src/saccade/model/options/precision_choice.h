// Automatic choice of the fastest number format on this machine that preserves an encoder's embeddings.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/model/checkpoints/receipt.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

struct PrecisionSpeed {
  Precision precision = Precision::kFp32;
  double operations = 0;  // operations per second of products
};

struct PrecisionChoice {
  Precision taken = Precision::kFp32;
  std::vector<PrecisionSpeed> speeds;      // supported precisions, fastest first
  std::vector<PrecisionReceipt> receipts;  // receipts of the precisions tried, in that order
  // Text of the measurement that the choice was remembered from; empty if it was measured now.
  std::string remembered;
};

// Returns the folder where the user's choices are remembered: precisions in user_cache_folder(); empty if there is
// no such folder.
std::filesystem::path user_precision_memory();

// Measures the products of each precision for some milliseconds, and chooses the fastest one with an
// acceptable receipt (keeps_rows). Returns the errors of loading and encoding. Costs nothing more if fp32 is
// the fastest. Otherwise loads the checkpoint both in fp32 and in the candidate precision, and encodes the
// built-in images and texts. Ignores `options.precision`. kUsage for a device other than the processor.
//
// Choices are remembered in the folder `memory`, by the checkpoint's fingerprint, the processor's name, the
// instruction sets in use, the number of threads, and the versions of this program and of its libraries. A
// remembered choice costs the fingerprint alone; its `speeds` and `receipts` are empty. Failing to remember is
// no error. With an empty `memory` nothing is remembered.
Result<PrecisionChoice> choose_precision(const std::filesystem::path& checkpoint,
                                         const BackendOptions& options,
                                         const std::filesystem::path& memory = {});

// Formats as "precision int8: products at 640 GFLOP/s here, bf16 310, fp32 150; pictures' cosines to fp32:
// mean ...". A remembered choice says so, and the same.
std::string precision_choice_text(const PrecisionChoice& choice);

}  // namespace saccade
