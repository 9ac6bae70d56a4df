// Composer that adds both embeddings, without parameters of its own: only the encoder under it is trained.
#include "saccade/model/composers/kinds.h"

namespace saccade {
namespace {

class SumModel : public ComposerModel {
 public:
  Result<Composed> compose(EncoderBackend& /*encoder*/, const ComposerInput& input,
                           nn::Workspace* /*workspace*/) override {
    Composed composed{.rows = input.picture_rows.copy(), .matches = {}};
    for (size_t i = 0; i < composed.rows.values().size(); ++i) {
      composed.rows.data()[i] += input.text_rows.values()[i];
    }
    return composed;
  }
};

Result<std::unique_ptr<ComposerModel>> load(const ComposerConfig& /*config*/,
                                            nn::ParameterSource& /*source*/) {
  return std::unique_ptr<ComposerModel>(std::make_unique<SumModel>());
}

}  // namespace

const ComposerKind sum_kind = {"sum", {.picture_rows = true, .text_rows = true}, load};

}  // namespace saccade
