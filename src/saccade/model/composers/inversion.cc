#include "saccade/model/composers/inversion.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/composers/kinds.h"
#include "saccade/model/composers/token_states.h"

namespace saccade {
namespace {

constexpr int64_t kMaxWidth = 1 << 20;

class InversionModel : public ComposerModel {
 public:
  InversionModel(InversionConfig config, InversionOf<nn::Tensor> network)
      : config_(std::move(config)), network_(std::move(network)) {}

  Result<Composed> compose(EncoderBackend& encoder, const ComposerInput& input,
                           nn::Workspace* workspace) override {
    WordInserter* inserter = encoder.word_inserter();
    if (inserter == nullptr || encoder.tokenizer() == nullptr) {
      return fail(ErrorCode::kUnsupported, "{}: no vector can stand for a word in its text tower",
                  encoder.info().family);
    }
    if (inserter->word_width() != config_.shape.word) {
      return fail(ErrorCode::kMismatch, "words of width {} for a text tower whose words have width {}",
                  config_.shape.word, inserter->word_width());
    }
    std::vector<TokenizedText> texts;
    std::vector<int64_t> places;
    for (const std::string& change : input.words) {
      SACCADE_ASSIGN(InvertedText inverted,
                     invert_text(*encoder.tokenizer(), config_.sentence, change, encoder.info().context));
      texts.push_back(std::move(inverted.text));
      places.push_back(inverted.place);
    }
    const nn::Tensor rows =
        nn::Tensor::borrow(input.picture_rows.data(), {input.picture_rows.rows(), config_.shape.dim},
                           {input.picture_rows.columns(), 1}, DType::kF32, workspace)
            .contiguous();
    const nn::Tensor words = network_.words(rows).contiguous();
    Composed composed;
    SACCADE_ASSIGN(
        composed.rows,
        inserter->encode_with_words(
            texts, places, MatrixView<const float>(words.data<float>(), words.size(0), words.size(1))));
    return composed;
  }

 private:
  InversionConfig config_;
  InversionOf<nn::Tensor> network_;
};

Result<std::unique_ptr<ComposerModel>> load(const ComposerConfig& config, nn::ParameterSource& source) {
  SACCADE_ASSIGN(InversionConfig inversion, inversion_config_from_json(config.dim, config.options));
  SACCADE_ASSIGN(InversionOf<nn::Tensor> network, InversionOf<nn::Tensor>::make(inversion.shape, source));
  network.pack(DType::kF32);
  return std::unique_ptr<ComposerModel>(
      std::make_unique<InversionModel>(std::move(inversion), std::move(network)));
}

// Returns the position of `mark`, which must occur exactly once in the sentence.
Result<size_t> place_of(std::string_view sentence, std::string_view mark, const char* what) {
  const size_t found = sentence.find(mark);
  if (found == std::string_view::npos || sentence.find(mark, found + 1) != std::string_view::npos) {
    return fail(ErrorCode::kUsage, "the sentence \"{}\" has {} for {}, expected one \"{}\"", sentence,
                found == std::string_view::npos ? "nothing" : "several places", what, mark);
  }
  return found;
}

}  // namespace

Status check_sentence(std::string_view sentence) {
  SACCADE_ASSIGN(const size_t picture, place_of(sentence, kPictureMark, "the image"));
  SACCADE_ASSIGN(const size_t change, place_of(sentence, kChangeMark, "the change"));
  if (change < picture) {
    return fail(ErrorCode::kUsage, "the sentence \"{}\" has the change in front of the image's word",
                sentence);
  }
  const auto is_space = [&](size_t at) { return at >= sentence.size() || sentence[at] == ' '; };
  if (!is_space(picture + 1) || (picture > 0 && !is_space(picture - 1))) {
    return fail(ErrorCode::kUsage, "the sentence \"{}\": \"{}\" is no word of its own, put spaces around it",
                sentence, kPictureMark);
  }
  return {};
}

Result<InversionConfig> inversion_config_from_json(int64_t dim, const Json& options) {
  InversionConfig config;
  config.shape.dim = dim;
  SACCADE_ASSIGN(config.shape.hidden, json_field<int64_t>(options, "hidden"));
  SACCADE_ASSIGN(config.shape.word, json_field<int64_t>(options, "word"));
  SACCADE_ASSIGN(config.sentence, json_field<std::string>(options, "sentence"));
  SACCADE_TRY(in_range("hidden", config.shape.hidden, 1, kMaxWidth));
  SACCADE_TRY(in_range("word", config.shape.word, 1, kMaxWidth));
  if (auto checked = check_sentence(config.sentence); !checked) {
    return fail(ErrorCode::kBadData, "\"sentence\": {}", checked.error().message);
  }
  return config;
}

Json inversion_options(const InversionConfig& config) {
  return {{"hidden", config.shape.hidden}, {"word", config.shape.word}, {"sentence", config.sentence}};
}

Result<int32_t> picture_mark_id(const Tokenizer& tokenizer) {
  constexpr int64_t kRoom = 8;
  const TokenizedText alone = tokenizer.encode(std::string(kPictureMark), kRoom);
  if (alone.ids.size() != 3) {
    return fail(
        ErrorCode::kUnsupported,
        "the tokenizer makes {} tokens of \"{}\", start and end among them, where one can stand for an image",
        alone.ids.size(), kPictureMark);
  }
  return alone.ids[1];
}

Result<InvertedText> invert_text(const Tokenizer& tokenizer, std::string_view sentence,
                                 std::string_view change, int64_t context) {
  SACCADE_ASSIGN(const int32_t mark, picture_mark_id(tokenizer));
  std::string said(sentence);
  const size_t at = said.find(kChangeMark);
  if (at == std::string::npos) return fail(ErrorCode::kUsage, "a sentence without \"{}\"", kChangeMark);
  said.replace(at, kChangeMark.size(), change);
  InvertedText inverted;
  inverted.text = tokenizer.encode(said, context);
  // The modification comes after the image, so the first mark is the image's, whatever the modification
  // contains.
  const auto found = std::ranges::find(inverted.text.ids, mark);
  if (found == inverted.text.ids.end()) {
    return fail(ErrorCode::kUsage, "the sentence \"{}\" is cut before its image at {} tokens", sentence,
                context);
  }
  inverted.place = found - inverted.text.ids.begin();
  return inverted;
}

const ComposerKind inversion_kind = {
    "inversion", {.picture_rows = true, .words = true, .word_place = true}, load};

}  // namespace saccade
