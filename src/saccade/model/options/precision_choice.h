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
};

// Measures the products of each precision for some milliseconds, and chooses the fastest one with an
// acceptable receipt (keeps_rows). Returns the errors of loading and encoding. Costs nothing more if fp32 is
// the fastest. Otherwise loads the checkpoint both in fp32 and in the candidate precision, and encodes the
// built-in images and texts. Ignores `options.precision`.
Result<PrecisionChoice> choose_precision(const std::filesystem::path& checkpoint,
                                         const BackendOptions& options);

// Formats as "precision int8: products at 640 GFLOP/s here, bf16 310, fp32 150; pictures' cosines to fp32:
// mean ...".
std::string precision_choice_text(const PrecisionChoice& choice);

}  // namespace saccade
