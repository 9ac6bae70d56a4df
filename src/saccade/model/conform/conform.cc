#include "saccade/model/conform/conform.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "saccade/model/architecture.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/nn/exceptions.h"

namespace saccade {
namespace {

using nn::Tensor;

// Returns true for outputs that are a few similarities, near 0 and nearly equal: their direction is not
// meaningful.
bool is_similarity(const std::string& name) {
  return name.starts_with("logits") || name.find("logits_per_") != std::string::npos;
}

AnswerCheck compare(const std::string& name, const Tensor& ours, const Tensor& reference,
                    const ConformOptions& options, double logit_scale) {
  AnswerCheck check;
  check.name = name;
  const bool fp32 = options.encoder.precision == Precision::kFp32;
  const RoundingBounds bounds = rounding_bounds(options.encoder.precision);
  if (options.tolerance) {
    check.tolerance = options.tolerance;
  } else if (fp32) {
    check.tolerance = 1e-4;
  } else if (is_similarity(name)) {
    check.tolerance = bounds.max_similarity_error * logit_scale;
  }
  const Tensor a = ours.to(DType::kF64).contiguous();
  const Tensor b = reference.to(DType::kF64).contiguous();
  const int64_t columns = a.dim() == 0 ? 1 : a.size(-1);
  bool finite = true;
  for (int64_t first = 0; first < a.numel(); first += columns) {
    const double* x = a.data<double>() + first;
    const double* y = b.data<double>() + first;
    double xx = 0, yy = 0, xy = 0;
    bool empty = true;
    for (int64_t c = 0; c < columns; ++c) {
      const double difference = std::abs(x[c] - y[c]);
      check.max_abs = std::max(check.max_abs, difference);
      check.max_rel = std::max(check.max_rel, difference / std::max(std::abs(y[c]), 1e-3));
      finite = finite && std::isfinite(x[c]) && std::isfinite(y[c]);
      empty = empty && x[c] == 0 && y[c] == 0;
      xx += x[c] * x[c];
      yy += y[c] * y[c];
      xy += x[c] * y[c];
    }
    if (empty) continue;  // rows of zeros in both (padding) have no direction, and agree
    const double norm_x = std::max(std::sqrt(xx), 1e-12);
    const double norm_y = std::max(std::sqrt(yy), 1e-12);
    check.cosine = std::min(check.cosine, xy / (norm_x * norm_y));
    if (std::abs(norm_x / norm_y - 1) > std::abs(check.norm_ratio - 1)) check.norm_ratio = norm_x / norm_y;
  }
  // Written so that a NaN fails: every comparison with it is false.
  const bool direction =
      check.cosine >= bounds.min_cosine && std::abs(check.norm_ratio - 1) <= bounds.max_norm_error;
  check.ok = finite && (check.tolerance ? check.max_abs <= *check.tolerance : direction);
  return check;
}

}  // namespace

RoundingBounds rounding_bounds(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kAuto:  // no encoder has it
      break;
    case Precision::kBf16:
      return {.min_cosine = 0.999, .max_norm_error = 0.01, .max_similarity_error = 0.01};
    case Precision::kInt8:
      return {.min_cosine = 0.995, .max_norm_error = 0.02, .max_similarity_error = 0.02};
  }
  return {};
}

Result<ConformReport> conform(const std::filesystem::path& checkpoint, const ConformOptions& options) {
  const std::filesystem::path io = options.io.empty() ? checkpoint / "io.safetensors" : options.io;
  SACCADE_ASSIGN(const SafeTensors file, SafeTensors::open(io).in("conform: reference answers"));
  SACCADE_ASSIGN(const std::unique_ptr<Architecture> architecture,
                 load_architecture(checkpoint, options.encoder));
  SACCADE_ASSIGN(const nn::TensorMap expected, nn::borrow_tensors(file).in(io.string()));

  const double logit_scale = architecture->info().logit_scale;

  ConformReport report;
  report.checkpoint = checkpoint.string();
  report.fingerprint = architecture->info().fingerprint;
  report.precision = options.encoder.precision;
  SACCADE_TRY(nn::without_exceptions(fmt::format("conform {}", checkpoint.string()), [&]() -> Status {
    SACCADE_ASSIGN(const nn::TensorMap ours, architecture->answers(expected).in(io.string()));
    static const std::set<std::string, std::less<>> kInputs = {
        "pixel_values",   "input_ids",      "attention_mask", "image_prompt_ids",
        "token_type_ids", "image_features", "text_features"};
    for (const auto& [name, reference] : expected) {
      if (kInputs.contains(name)) continue;
      const auto found = ours.find(name);
      if (found == ours.end()) {
        report.unknown.push_back(name);
        continue;
      }
      if (found->second.sizes() != reference.sizes()) {
        return fail(ErrorCode::kMismatch, "{}: {} has shape {}, ours {}", io.string(), name,
                    shape_text(reference.sizes()), shape_text(found->second.sizes()));
      }
      if (reference.numel() == 0) return fail(ErrorCode::kBadData, "{}: {} is empty", io.string(), name);
      report.answers.push_back(compare(name, found->second, reference, options, logit_scale));
    }
    return {};
  }));
  report.ok = !report.answers.empty() && report.unknown.empty();
  for (const AnswerCheck& check : report.answers) report.ok = report.ok && check.ok;
  return report;
}

Json conform_json(const ConformReport& report) {
  Json answers = Json::array();
  for (const AnswerCheck& check : report.answers) {
    answers.push_back({{"name", check.name},
                       {"max_abs", check.max_abs},
                       {"max_rel", check.max_rel},
                       {"cosine", check.cosine},
                       {"norm_ratio", check.norm_ratio},
                       {"tolerance", check.tolerance ? Json(*check.tolerance) : Json()},
                       {"ok", check.ok}});
  }
  return Json{{"checkpoint", report.checkpoint},
              {"precision", enum_name(report.precision)},
              {"answers", std::move(answers)},
              {"unknown", report.unknown},
              {"ok", report.ok}};
}

}  // namespace saccade
