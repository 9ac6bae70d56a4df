#include "saccade/model/conform.h"

#include <cmath>
#include <set>

#include "saccade/model/architecture.h"

namespace saccade {
namespace {

using torch::Tensor;

// Rows of a few similarities, near 0 and nearly equal, have no direction to speak of.
bool is_similarity(const std::string& name) {
  return name.starts_with("logits") || name.find("logits_per_") != std::string::npos;
}

AnswerCheck compare(const std::string& name, const Tensor& ours, const Tensor& reference,
                    const ConformOptions& options, double logit_scale) {
  AnswerCheck check;
  check.name = name;
  const bool fp32 = options.encoder.precision == Precision::kFp32;
  if (options.tolerance > 0) {
    check.tolerance = options.tolerance;
  } else if (fp32) {
    check.tolerance = 1e-4;
  } else if (is_similarity(name)) {
    check.tolerance = options.max_similarity_error * logit_scale;
  }
  const Tensor a = ours.to(at::kDouble);
  const Tensor b = reference.to(at::kDouble);
  const Tensor difference = (a - b).abs();
  check.max_abs = difference.max().item<double>();
  check.max_rel = (difference / b.abs().clamp_min(1e-3)).max().item<double>();
  const int64_t columns = a.dim() == 0 ? 1 : a.size(-1);
  const Tensor rows_a = a.reshape({-1, columns});
  const Tensor rows_b = b.reshape({-1, columns});
  const Tensor norm_a = rows_a.norm(2, 1).clamp_min(1e-12);
  const Tensor norm_b = rows_b.norm(2, 1).clamp_min(1e-12);
  // Rows of zeros in both (padding) have no direction, and agree.
  const Tensor empty = (rows_a == 0).all(1).logical_and((rows_b == 0).all(1));
  const Tensor cosines = (rows_a * rows_b).sum(1) / (norm_a * norm_b);
  check.cosine = at::where(empty, torch::ones_like(cosines), cosines).min().item<double>();
  const Tensor ratio = norm_a / norm_b;
  check.norm_ratio = ratio[(ratio - 1).abs().argmax()].item<double>();
  // Written so that a NaN fails: every comparison with it is false.
  const bool close = check.tolerance == 0 || check.max_abs <= check.tolerance;
  const bool direction =
      check.cosine >= options.min_cosine && std::abs(check.norm_ratio - 1) <= options.max_norm_error;
  const bool finite = at::isfinite(a).all().item<bool>() && at::isfinite(b).all().item<bool>();
  check.ok = finite && (check.tolerance > 0 ? close : direction);
  return check;
}

}  // namespace

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
  try {
    SACCADE_ASSIGN(const nn::TensorMap ours, architecture->answers(expected).in(io.string()));
    static const std::set<std::string, std::less<>> kInputs = {"pixel_values", "input_ids", "attention_mask",
                                                               "image_prompt_ids", "token_type_ids"};
    for (const auto& [name, reference] : expected) {
      if (kInputs.contains(name)) continue;
      const auto found = ours.find(name);
      if (found == ours.end()) {
        report.unknown.push_back(name);
        continue;
      }
      if (found->second.sizes() != reference.sizes()) {
        return fail(ErrorCode::kMismatch, "{}: {} has shape {}, ours {}", io.string(), name,
                    shape_text(reference.sizes().vec()), shape_text(found->second.sizes().vec()));
      }
      if (reference.numel() == 0) return fail(ErrorCode::kBadData, "{}: {} is empty", io.string(), name);
      report.answers.push_back(compare(name, found->second, reference, options, logit_scale));
    }
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    return fail(ErrorCode::kInternal, "conform {}: {}", checkpoint.string(), text.substr(0, text.find('\n')));
  }
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
                       {"tolerance", check.tolerance},
                       {"ok", check.ok}});
  }
  return Json{{"checkpoint", report.checkpoint},
              {"precision", precision_name(report.precision)},
              {"answers", std::move(answers)},
              {"unknown", report.unknown},
              {"ok", report.ok}};
}

}  // namespace saccade
