#include "saccade/model/checked_encoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "saccade/model/composers/token_states.h"
#include "saccade/model/explain/relevance_map.h"
#include "saccade/model/options/wide_layers.h"

namespace saccade {
namespace {

enum class Input { kPicture, kText, kPair };

constexpr std::string_view name_of(Input input) {
  return input == Input::kPicture ? "image" : input == Input::kText ? "text" : "pair";
}

Status check_finite(std::span<const float> numbers, Input input, int64_t item, int64_t items) {
  const auto bad = std::find_if_not(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
  if (bad == numbers.end()) return {};
  return fail(ErrorCode::kBadData,
              "the encoder's answer for {} {} of {} has a value that is {}: the checkpoint's weights are "
              "damaged, or its numbers outgrow their format",
              name_of(input), item + 1, items, std::isnan(*bad) ? "NaN" : "infinite");
}

Result<Matrix<float>> checked(Result<Matrix<float>> rows, Input input) {
  if (!rows) return rows;
  for (int64_t i = 0; i < rows->rows(); ++i) {
    SACCADE_TRY(check_finite(std::as_const(*rows).row(i), input, i, rows->rows()));
  }
  return rows;
}

Result<RowSets> checked(Result<RowSets> sets, Input input) {
  if (!sets) return sets;
  const auto items = static_cast<int64_t>(sets->begin.size()) - 1;
  for (int64_t i = 0; i < items; ++i) {
    const auto item = static_cast<size_t>(i);
    for (int64_t row = sets->begin[item]; row < sets->begin[item + 1]; ++row) {
      SACCADE_TRY(check_finite(std::as_const(sets->rows).row(row), input, i, items));
    }
  }
  return sets;
}

class CheckedEncoder : public ForwardingEncoder,
                       public RawRows,
                       public LateInteraction,
                       public PairScorer,
                       public FrozenFeatures,
                       public TextClassifier,
                       public PictureMapper,
                       public TokenStates,
                       public WordInserter,
                       public PromptReader {
 public:
  explicit CheckedEncoder(std::unique_ptr<EncoderBackend> encoder)
      : ForwardingEncoder(*encoder), encoder_(std::move(encoder)), inner_(encoder_->capabilities()) {}

  EncoderCapabilities capabilities() override {
    // The bindings are all of the struct's members: one that is added to it must be added here.
    const auto& [raw, late, scorer, frozen, classifier, mapper, tokens, inserter, reader] = inner_;
    const auto mine = [this](auto* inner) {
      return inner == nullptr ? nullptr : static_cast<decltype(inner)>(this);
    };
    return {mine(raw),    mine(late),   mine(scorer),   mine(frozen), mine(classifier),
            mine(mapper), mine(tokens), mine(inserter), mine(reader)};
  }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    return checked(encoder_->encode_images(pixels), Input::kPicture);
  }
  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    return checked(encoder_->encode_texts(texts), Input::kText);
  }

  Result<Matrix<float>> raw_image_rows(MatrixView<const float> pixels) override {
    return checked(inner_.raw_rows->raw_image_rows(pixels), Input::kPicture);
  }
  Result<Matrix<float>> raw_text_rows(std::span<const TokenizedText> texts) override {
    return checked(inner_.raw_rows->raw_text_rows(texts), Input::kText);
  }

  Result<RowSets> encode_image_rows(MatrixView<const float> pixels) override {
    return checked(inner_.late_interaction->encode_image_rows(pixels), Input::kPicture);
  }
  Result<RowSets> encode_text_rows(std::span<const TokenizedText> texts) override {
    return checked(inner_.late_interaction->encode_text_rows(texts), Input::kText);
  }
  int patch_rows() const override { return inner_.late_interaction->patch_rows(); }
  int patch_columns() const override { return inner_.late_interaction->patch_columns(); }

  Result<std::vector<float>> score_pairs(MatrixView<const float> pixels,
                                         std::span<const TokenizedText> texts) override {
    SACCADE_ASSIGN(std::vector<float> scores, inner_.pair_scorer->score_pairs(pixels, texts));
    const auto pairs = static_cast<int64_t>(scores.size());
    for (int64_t i = 0; i < pairs; ++i) {
      SACCADE_TRY(check_finite({&scores[static_cast<size_t>(i)], 1}, Input::kPair, i, pairs));
    }
    return scores;
  }

  int64_t image_width(ImageState state) const override { return inner_.frozen_features->image_width(state); }
  int64_t image_rows(ImageState state) const override { return inner_.frozen_features->image_rows(state); }
  int64_t text_width(TextState state) const override { return inner_.frozen_features->text_width(state); }
  Result<RowSets> image_features(MatrixView<const float> pixels, ImageState state) override {
    return checked(inner_.frozen_features->image_features(pixels, state), Input::kPicture);
  }
  Result<RowSets> text_features(std::span<const TokenizedText> texts, TextState state) override {
    return checked(inner_.frozen_features->text_features(texts, state), Input::kText);
  }

  const std::vector<std::string>& labels() const override { return inner_.text_classifier->labels(); }
  Result<Matrix<float>> classify_texts(std::span<const TokenizedText> texts) override {
    return checked(inner_.text_classifier->classify_texts(texts), Input::kText);
  }
  Result<AttentionMaps> attention_maps(const TokenizedText& text) override {
    SACCADE_ASSIGN(AttentionMaps maps, inner_.text_classifier->attention_maps(text));
    SACCADE_TRY(check_finite(maps.weights, Input::kText, 0, 1));
    return maps;
  }

  Result<PictureMaps> map_pictures(MatrixView<const float> pixels, std::span<const float> target,
                                   MapMethod method) override {
    SACCADE_ASSIGN(PictureMaps maps, inner_.picture_mapper->map_pictures(pixels, target, method));
    SACCADE_ASSIGN(maps.relevance, checked(std::move(maps.relevance), Input::kPicture));
    return maps;
  }

  Result<RowSets> image_tokens(MatrixView<const float> pixels) override {
    return checked(inner_.token_states->image_tokens(pixels), Input::kPicture);
  }
  Result<RowSets> text_tokens(std::span<const TokenizedText> texts) override {
    return checked(inner_.token_states->text_tokens(texts), Input::kText);
  }
  int64_t picture_tokens() const override { return inner_.token_states->picture_tokens(); }
  int64_t end_token(const TokenizedText& text) const override { return inner_.token_states->end_token(text); }

  int64_t word_width() const override { return inner_.word_inserter->word_width(); }
  Result<Matrix<float>> encode_with_words(std::span<const TokenizedText> texts,
                                          std::span<const int64_t> places,
                                          MatrixView<const float> words) override {
    return checked(inner_.word_inserter->encode_with_words(texts, places, words), Input::kText);
  }

  Result<Matrix<float>> encode_with_prompts(const RowSets& images,
                                            std::span<const TokenizedText> texts) override {
    return checked(inner_.prompt_reader->encode_with_prompts(images, texts), Input::kPair);
  }

 private:
  std::unique_ptr<EncoderBackend> encoder_;
  const EncoderCapabilities inner_;
};

}  // namespace

WideLayers EncoderBackend::wide_layers() const {
  return {};
}
WideLayers ForwardingEncoder::wide_layers() const {
  return inner_->wide_layers();
}

std::unique_ptr<EncoderBackend> with_checked_answers(std::unique_ptr<EncoderBackend> encoder) {
  return std::make_unique<CheckedEncoder>(std::move(encoder));
}

}  // namespace saccade
