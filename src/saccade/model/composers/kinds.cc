#include "saccade/model/composers/kinds.h"

#include <array>

namespace saccade {
namespace {

constexpr std::array<const ComposerKind*, 5> kComposerKinds = {&atf_kind, &combiner_kind, &inversion_kind,
                                                               &sprc_kind, &sum_kind};

}  // namespace

Result<const ComposerKind*> find_composer_kind(std::string_view name) {
  std::string known;
  for (const ComposerKind* kind : kComposerKinds) {
    if (kind->name == name) return kind;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", kind->name);
  }
  return fail(ErrorCode::kUnsupported, "a composer of kind \"{}\", known are: {}", name, known);
}

}  // namespace saccade
