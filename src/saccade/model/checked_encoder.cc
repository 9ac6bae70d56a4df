#include "saccade/model/checked_encoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "saccade/model/architecture.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/explain/relevance_map.h"

namespace saccade {
namespace {

enum class Input { kPicture, kText, kPair };

constexpr std::string_view name_of(Input input) {
  return input == Input::kPicture ? "picture" : input == Input::kText ? "text" : "pair";
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

class CheckedEncoder : public EncoderBackend,
                       public LateInteraction,
                       public PairScorer,
                       public FrozenFeatures,
                       public TextClassifier,
                       public PictureMapper,
                       public TokenStates,
                       public WordInserter {
 public:
  explicit CheckedEncoder(std::unique_ptr<EncoderBackend> encoder)
      : encoder_(std::move(encoder)),
        late_(encoder_->late_interaction()),
        scorer_(encoder_->pair_scorer()),
        frozen_(encoder_->frozen_features()),
        classifier_(encoder_->text_classifier()),
        mapper_(encoder_->picture_mapper()),
        tokens_(encoder_->token_states()),
        inserter_(encoder_->word_inserter()) {}

  [[nodiscard]] const EncoderBackend& unchecked() const { return *encoder_; }

  const EncoderInfo& info() const override { return encoder_->info(); }
  const Preprocessing& preprocessing() const override { return encoder_->preprocessing(); }
  const Tokenizer* tokenizer() const override { return encoder_->tokenizer(); }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    return checked(encoder_->encode_images(pixels), Input::kPicture);
  }
  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    return checked(encoder_->encode_texts(texts), Input::kText);
  }

  RawRows* raw_rows() override { return encoder_->raw_rows() == nullptr ? nullptr : &raw_; }

  LateInteraction* late_interaction() override { return late_ == nullptr ? nullptr : this; }
  Result<RowSets> encode_image_rows(MatrixView<const float> pixels) override {
    return checked(late_->encode_image_rows(pixels), Input::kPicture);
  }
  Result<RowSets> encode_text_rows(std::span<const TokenizedText> texts) override {
    return checked(late_->encode_text_rows(texts), Input::kText);
  }
  int patch_rows() const override { return late_->patch_rows(); }
  int patch_columns() const override { return late_->patch_columns(); }

  PairScorer* pair_scorer() override { return scorer_ == nullptr ? nullptr : this; }
  Result<std::vector<float>> score_pairs(MatrixView<const float> pixels,
                                         std::span<const TokenizedText> texts) override {
    SACCADE_ASSIGN(std::vector<float> scores, scorer_->score_pairs(pixels, texts));
    const auto pairs = static_cast<int64_t>(scores.size());
    for (int64_t i = 0; i < pairs; ++i) {
      SACCADE_TRY(check_finite({&scores[static_cast<size_t>(i)], 1}, Input::kPair, i, pairs));
    }
    return scores;
  }

  FrozenFeatures* frozen_features() override { return frozen_ == nullptr ? nullptr : this; }
  int64_t image_width(ImageState state) const override { return frozen_->image_width(state); }
  int64_t image_rows(ImageState state) const override { return frozen_->image_rows(state); }
  int64_t text_width(TextState state) const override { return frozen_->text_width(state); }
  Result<RowSets> image_features(MatrixView<const float> pixels, ImageState state) override {
    return checked(frozen_->image_features(pixels, state), Input::kPicture);
  }
  Result<RowSets> text_features(std::span<const TokenizedText> texts, TextState state) override {
    return checked(frozen_->text_features(texts, state), Input::kText);
  }

  TextClassifier* text_classifier() override { return classifier_ == nullptr ? nullptr : this; }
  const std::vector<std::string>& labels() const override { return classifier_->labels(); }
  Result<Matrix<float>> classify_texts(std::span<const TokenizedText> texts) override {
    return checked(classifier_->classify_texts(texts), Input::kText);
  }
  Result<AttentionMaps> attention_maps(const TokenizedText& text) override {
    SACCADE_ASSIGN(AttentionMaps maps, classifier_->attention_maps(text));
    SACCADE_TRY(check_finite(maps.weights, Input::kText, 0, 1));
    return maps;
  }

  PictureMapper* picture_mapper() override { return mapper_ == nullptr ? nullptr : this; }
  Result<PictureMaps> map_pictures(MatrixView<const float> pixels, std::span<const float> target,
                                   MapMethod method) override {
    SACCADE_ASSIGN(PictureMaps maps, mapper_->map_pictures(pixels, target, method));
    SACCADE_ASSIGN(maps.relevance, checked(std::move(maps.relevance), Input::kPicture));
    return maps;
  }

  TokenStates* token_states() override { return tokens_ == nullptr ? nullptr : this; }
  Result<RowSets> image_tokens(MatrixView<const float> pixels) override {
    return checked(tokens_->image_tokens(pixels), Input::kPicture);
  }
  Result<RowSets> text_tokens(std::span<const TokenizedText> texts) override {
    return checked(tokens_->text_tokens(texts), Input::kText);
  }
  int64_t picture_tokens() const override { return tokens_->picture_tokens(); }
  int64_t end_token(const TokenizedText& text) const override { return tokens_->end_token(text); }

  WordInserter* word_inserter() override { return inserter_ == nullptr ? nullptr : this; }
  int64_t word_width() const override { return inserter_->word_width(); }
  Result<Matrix<float>> encode_with_words(std::span<const TokenizedText> texts,
                                          std::span<const int64_t> places,
                                          MatrixView<const float> words) override {
    return checked(inserter_->encode_with_words(texts, places, words), Input::kText);
  }

 private:
  class Raw : public RawRows {
   public:
    explicit Raw(CheckedEncoder& owner) : owner_(owner) {}
    Result<Matrix<float>> raw_image_rows(MatrixView<const float> pixels) override {
      return checked(owner_.encoder_->raw_rows()->raw_image_rows(pixels), Input::kPicture);
    }
    Result<Matrix<float>> raw_text_rows(std::span<const TokenizedText> texts) override {
      return checked(owner_.encoder_->raw_rows()->raw_text_rows(texts), Input::kText);
    }

   private:
    CheckedEncoder& owner_;
  };
  Raw raw_{*this};
  std::unique_ptr<EncoderBackend> encoder_;
  // Late interaction of the wrapped encoder; nullptr if it has none, and then this object is never used as
  // one.
  LateInteraction* late_;
  PairScorer* scorer_;
  FrozenFeatures* frozen_;
  TextClassifier* classifier_;
  PictureMapper* mapper_;
  TokenStates* tokens_;
  WordInserter* inserter_;
};

}  // namespace

WideLayers wide_layers_of(const EncoderBackend& encoder) {
  const auto* checked = dynamic_cast<const CheckedEncoder*>(&encoder);
  const auto* architecture =
      dynamic_cast<const Architecture*>(checked != nullptr ? &checked->unchecked() : &encoder);
  return architecture != nullptr ? architecture->wide_layers() : WideLayers();
}

std::unique_ptr<EncoderBackend> with_checked_answers(std::unique_ptr<EncoderBackend> encoder) {
  return std::make_unique<CheckedEncoder>(std::move(encoder));
}

}  // namespace saccade
