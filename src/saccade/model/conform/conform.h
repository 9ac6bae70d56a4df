// Conformance check of an encoder against its reference. Runs the inputs of an io.safetensors kept beside the
// weights, and compares every output that the reference stored there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

struct ConformOptions {
  std::filesystem::path io;  // empty: io.safetensors in the checkpoint's folder
  BackendOptions encoder;
  // Largest absolute difference allowed. By default 1e-4 in fp32; rounding_bounds() applies in lower
  // precision.
  std::optional<double> tolerance = {};
};

// Error bounds of results in lower precision than fp32.
struct RoundingBounds {
  double min_cosine = 1;      // minimum cosine of any row
  double max_norm_error = 0;  // relative error of a row's length
  // Bound for logits, on the error of a similarity (a logit without its scale). Rows of logits are a few
  // similarities near 0, so their direction is not meaningful.
  double max_similarity_error = 0;
};
RoundingBounds rounding_bounds(Precision precision);

// Comparison of one named output. A NaN or infinity anywhere fails it.
struct AnswerCheck {
  std::string name;
  double max_abs = 0;               // largest |ours - reference|
  double max_rel = 0;               // largest |ours - reference| / max(|reference|, 1e-3)
  double cosine = 1;                // lowest over rows (last dimension)
  double norm_ratio = 1;            // length of our row over the reference's, the one farthest from 1
  std::optional<double> tolerance;  // limit of max_abs; without it, cosine and norm_ratio decide
  bool ok = false;
};

struct ConformReport {
  std::string checkpoint;
  std::string fingerprint;
  Precision precision = Precision::kFp32;
  std::vector<AnswerCheck> answers;
  // Names in the file that are neither inputs nor known outputs of this family.
  std::vector<std::string> unknown;
  bool ok = false;  // at least one answer, every one ok, none unknown
};

// Runs the check. Returns an error if the comparison is impossible (no file, wrong shapes); a failed
// comparison is a report.
Result<ConformReport> conform(const std::filesystem::path& checkpoint, const ConformOptions& options = {});

// Converts to {"checkpoint", "precision", "answers": [{"name", "max_abs", ...}], "ok"}.
Json conform_json(const ConformReport& report);

}  // namespace saccade
