#include "saccade/model/head_input.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

namespace saccade {
namespace {

FrozenFeatures::ImageState state_of(ImageStates images) {
  return images == ImageStates::kQueries ? FrozenFeatures::ImageState::kQueries
                                         : FrozenFeatures::ImageState::kProjected;
}

Result<FrozenFeatures*> states_of(Encoder& encoder, std::string_view asked) {
  FrozenFeatures* states = encoder.frozen_features();
  if (states != nullptr) return states;
  return fail(ErrorCode::kUsage, "the encoder ({}) gives no states of {}: it has rows", encoder.info().family,
              asked);
}

void pool_mean(const RowSets& sets, int64_t begin, int64_t end, std::span<float> out) {
  std::vector<double> sum(out.size());
  for (int64_t r = begin; r < end; ++r) {
    const auto row = sets.rows.row(r);
    for (size_t c = 0; c < out.size(); ++c) sum[c] += row[c];
  }
  for (size_t c = 0; c < out.size(); ++c)
    out[c] = static_cast<float>(sum[c] / static_cast<double>(end - begin));
}

void pool_max(const RowSets& sets, int64_t begin, int64_t end, std::span<float> out) {
  std::ranges::copy(sets.rows.row(begin), out.begin());
  for (int64_t r = begin + 1; r < end; ++r) {
    const auto row = sets.rows.row(r);
    for (size_t c = 0; c < out.size(); ++c) out[c] = std::max(out[c], row[c]);
  }
}

}  // namespace

std::span<const EnumWord<ImageStates>> enum_words(ImageStates) {
  static constexpr std::array<EnumWord<ImageStates>, 3> kWords{{{ImageStates::kRows, "rows"},
                                                                {ImageStates::kQueries, "queries"},
                                                                {ImageStates::kProjected, "projected"}}};
  return kWords;
}

std::span<const EnumWord<TextStates>> enum_words(TextStates) {
  static constexpr std::array<EnumWord<TextStates>, 2> kWords{
      {{TextStates::kRows, "rows"}, {TextStates::kTokens, "tokens"}}};
  return kWords;
}

std::span<const EnumWord<Pooling>> enum_words(Pooling) {
  static constexpr std::array<EnumWord<Pooling>, 4> kWords{{{Pooling::kMean, "mean"},
                                                            {Pooling::kMax, "max"},
                                                            {Pooling::kFirst, "first"},
                                                            {Pooling::kLast, "last"}}};
  return kWords;
}

std::string describe(const HeadInput& input) {
  return fmt::format("pictures' {} and texts' {}, pooling {}", word_of(input.images), word_of(input.texts),
                     word_of(input.pooling));
}

HeadInput usual_head_input(Encoder& encoder) {
  if (encoder.frozen_features() == nullptr) return {};
  return {.images = ImageStates::kQueries, .texts = TextStates::kTokens};
}

Result<HeadInputWidths> head_input_widths(Encoder& encoder, const HeadInput& input) {
  if (encoder.info().image_height == 0) {
    return fail(ErrorCode::kUsage, "the encoder ({}) reads texts only", encoder.info().family);
  }
  HeadInputWidths widths{encoder.info().dim, encoder.info().dim};
  if (input.images != ImageStates::kRows) {
    SACCADE_ASSIGN(FrozenFeatures * states, states_of(encoder, word_of(input.images)));
    widths.images = states->image_width(state_of(input.images));
  }
  if (input.texts != TextStates::kRows) {
    SACCADE_ASSIGN(FrozenFeatures * states, states_of(encoder, word_of(input.texts)));
    widths.texts = states->text_width();
  }
  return widths;
}

Result<Matrix<float>> image_head_input(Encoder& encoder, const HeadInput& input,
                                       MatrixView<const float> pixels) {
  if (input.images == ImageStates::kRows) return encoder.encode_images(pixels);
  SACCADE_ASSIGN(FrozenFeatures * states, states_of(encoder, word_of(input.images)));
  SACCADE_ASSIGN(const RowSets sets, states->image_features(pixels, state_of(input.images)));
  return pooled(sets, input.pooling);
}

Result<Matrix<float>> text_head_input(Encoder& encoder, const HeadInput& input,
                                      std::span<const TokenizedText> texts) {
  if (input.texts == TextStates::kRows) return encoder.encode_texts(texts);
  SACCADE_ASSIGN(FrozenFeatures * states, states_of(encoder, word_of(input.texts)));
  SACCADE_ASSIGN(const RowSets sets, states->text_features(texts));
  return pooled(sets, input.pooling);
}

Matrix<float> pooled(const RowSets& sets, Pooling pooling) {
  const auto items = static_cast<int64_t>(sets.begin.size()) - 1;
  Matrix<float> rows(items, sets.rows.columns());
  for (int64_t i = 0; i < items; ++i) {
    const int64_t begin = sets.begin[static_cast<size_t>(i)];
    const int64_t end = sets.begin[static_cast<size_t>(i) + 1];
    if (begin == end) continue;
    switch (pooling) {
      case Pooling::kMean:
        pool_mean(sets, begin, end, rows.row(i));
        break;
      case Pooling::kMax:
        pool_max(sets, begin, end, rows.row(i));
        break;
      case Pooling::kFirst:
        std::ranges::copy(sets.rows.row(begin), rows.row(i).begin());
        break;
      case Pooling::kLast:
        std::ranges::copy(sets.rows.row(end - 1), rows.row(i).begin());
        break;
    }
  }
  return rows;
}

}  // namespace saccade
