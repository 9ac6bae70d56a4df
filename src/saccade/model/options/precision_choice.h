// Automatic choice of the fastest number format on this machine that preserves an encoder's embeddings.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/model/checkpoints/receipt.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

struct PrecisionSpeed {
  Precision precision = Precision::kFp32;
  double seconds = 0;  // of encoding the images and texts that PrecisionChoice counts
};

struct PrecisionChoice {
  Precision taken = Precision::kFp32;
  std::vector<PrecisionSpeed> speeds;      // supported precisions, fastest first
  int64_t images = 0;                      // number of images that were encoded to measure the speeds
  int64_t texts = 0;                       // number of texts that were
  std::vector<PrecisionReceipt> receipts;  // receipts of the precisions tried, in that order
  // Text of the measurement that the choice was remembered from; empty if it was measured now.
  std::string remembered;
};

// Returns the folder where the user's choices are remembered: precisions in user_cache_folder(); empty if there is
// no such folder.
std::filesystem::path user_precision_memory();

// Loads the checkpoint in each precision, measures the time of encoding a few built-in images and texts, and
// chooses the fastest precision with an acceptable receipt (keeps_rows). Returns the errors of loading and
// encoding. Ignores `options.precision`. kUsage for a device other than the processor.
//
// Cost: each precision encodes for at most 1.5 s, or twice if that takes longer. Unless fp32 is the fastest,
// all built-in images and texts are encoded in fp32 and in the candidates as well. At most two encoders are
// loaded at a time, one of them in fp32.
//
// Choices are remembered in the folder `memory`, by the checkpoint's fingerprint, the processor's name, the
// instruction sets in use, the number of threads, and the versions of this program and of its libraries. A
// remembered choice costs the fingerprint alone; its `speeds` and `receipts` are empty. Failing to remember is
// no error. With an empty `memory` nothing is remembered.
Result<PrecisionChoice> choose_precision(const std::filesystem::path& checkpoint,
                                         const BackendOptions& options,
                                         const std::filesystem::path& memory = {});

// Formats as "precision int8: milliseconds here for 4 images and 4 texts: int8 31.2, bf16 58.0, fp32 102.7; int8,
// cosines to fp32's rows: mean ...". A remembered choice says so, and the same.
std::string precision_choice_text(const PrecisionChoice& choice);

}  // namespace saccade
