#include "lab/data/dataset.h"

#include <algorithm>

namespace saccade::lab {
namespace {

constexpr size_t kExclusionExamples = 5;

}  // namespace

std::string ImageRef::name() const {
  if (!column.empty()) return fmt::format("{}: {} of {}", path.string(), member, column);
  return in_archive() ? fmt::format("{}: {}", path.string(), member) : path.string();
}

void Dataset::exclude(std::string_view reason, std::string_view example) {
  exclude(Exclusion{.reason = std::string(reason), .count = 1, .examples = {std::string(example)}});
}

void Dataset::exclude(const Exclusion& exclusion) {
  auto found = std::find_if(excluded.begin(), excluded.end(),
                            [&](const Exclusion& each) { return each.reason == exclusion.reason; });
  if (found == excluded.end()) {
    found = excluded.insert(excluded.end(), {.reason = exclusion.reason, .count = 0, .examples = {}});
  }
  found->count += exclusion.count;
  for (const std::string& example : exclusion.examples) {
    if (found->examples.size() < kExclusionExamples) found->examples.push_back(example);
  }
}

int64_t Dataset::size() const {
  return std::visit([](const auto& kind) { return std::ssize(kind.items); }, content);
}

std::string_view Dataset::kind() const {
  return std::visit([](const auto& kind) { return kind.kName; }, content);
}

tl::unexpected<Error> Dataset::wrong_kind(std::string_view wanted) const {
  if (size() == 0) return fail(ErrorCode::kUsage, "{}: no items, expected {}", name, wanted);
  const std::string_view evaluation = std::visit([](const auto& kind) { return kind.kEvaluation; }, content);
  return fail(ErrorCode::kUsage, "{}: {}, not {}: `saccade eval {}` takes it", name, kind(), wanted,
              evaluation);
}

}  // namespace saccade::lab
