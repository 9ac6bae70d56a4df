// SPRC: sentence-level prompts (Bai et al. 2024, "Sentence-level Prompts Benefit Composed Image Retrieval",
// ICLR, arXiv 2310.05473), on BLIP-2's Q-Former. Steps and places follow the published program.
//
//   prompt = the query tokens' states of the Q-Former over image and text     [queries, width]
//   row    = text_projection(the first text token's state of the Q-Former over [prompt, text])
//
// The second pass attends to no image, and all its states go through the MLPs of text. A target's score is
// the largest dot product of `row` with one of the target's rows, which are BLIP-2's own. Training changes
// the Q-Former, so the trained parameters are those of the encoder in the composer's folder. The kind has none
// of its own, and no options.
#include <memory>
#include <vector>

#include "saccade/model/composers/kinds.h"
#include "saccade/model/composers/token_states.h"

namespace saccade {
namespace {

class SprcModel : public ComposerModel {
 public:
  Result<Composed> compose(EncoderBackend& encoder, const ComposerInput& input,
                           nn::Workspace* /*workspace*/) override {
    PromptReader* reader = encoder.prompt_reader();
    if (reader == nullptr || encoder.tokenizer() == nullptr) {
      return fail(ErrorCode::kUnsupported, "{}: its text tower reads no prompt before a text",
                  encoder.info().family);
    }
    std::vector<TokenizedText> texts;
    for (const std::string& change : input.words) {
      texts.push_back(encoder.tokenizer()->encode(change, encoder.info().context));
    }
    Composed composed;
    SACCADE_ASSIGN(composed.rows, reader->encode_with_prompts(input.picture_states, texts));
    return composed;
  }
};

Result<std::unique_ptr<ComposerModel>> load(const ComposerConfig& /*config*/,
                                            nn::ParameterSource& /*source*/) {
  return std::unique_ptr<ComposerModel>(std::make_unique<SprcModel>());
}

}  // namespace

const ComposerKind sprc_kind = {"sprc", {.words = true, .prompts = true}, load, true};

}  // namespace saccade
