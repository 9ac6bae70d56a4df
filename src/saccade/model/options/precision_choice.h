// Which number format an encoder is fastest in, here, without its rows becoming others.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/model/encoder.h"
#include "saccade/model/checkpoints/receipt.h"

namespace saccade {

struct PrecisionSpeed {
  Precision precision = Precision::kFp32;
  double operations = 0;  // of products, a second
};

struct PrecisionChoice {
  Precision taken = Precision::kFp32;
  std::vector<PrecisionSpeed> speeds;      // of those the processor has, the fastest first
  std::vector<PrecisionReceipt> receipts;  // of those that were tried, in that order
};

// Measures the products of each precision for some milliseconds, and takes the fastest that keeps its receipt
// (keeps_rows). Errors of loading and encoding. Cost: where fp32 is the fastest, nothing more; else the
// checkpoint is loaded in fp32 and in what is tried, both in memory, and encodes the bundled pictures and
// texts. Of the options, the precision is not looked at.
Result<PrecisionChoice> choose_precision(const std::filesystem::path& checkpoint,
                                         const BackendOptions& options);

// "precision int8: products at 640 GFLOP/s here, bf16 310, fp32 150; pictures' cosines to fp32: mean ...".
std::string precision_choice_text(const PrecisionChoice& choice);

}  // namespace saccade
