#include "saccade/model/head_input.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

namespace saccade {
namespace {

FrozenFeatures::ImageState state_of(ImageStates images) {
  using State = FrozenFeatures::ImageState;
  switch (images) {
    case ImageStates::kQueries:
      return State::kQueries;
    case ImageStates::kProjected:
      return State::kProjected;
    case ImageStates::kVision:
      return State::kVision;
    case ImageStates::kRows:
    case ImageStates::kPooled:
      break;
  }
  return State::kPooled;
}

FrozenFeatures::TextState state_of(TextStates texts) {
  return texts == TextStates::kTokens ? FrozenFeatures::TextState::kTokens
                                      : FrozenFeatures::TextState::kPooled;
}

// Returns the encoder's capability for states of one kind; kUsage, naming the available ones, if it lacks
// them.
template <typename States>
Result<FrozenFeatures*> states_of(EncoderBackend& encoder, States asked) {
  FrozenFeatures* states = encoder.frozen_features();
  const auto width_of = [&](States kind) {
    if constexpr (std::is_same_v<States, ImageStates>) return states->image_width(state_of(kind));
    if constexpr (std::is_same_v<States, TextStates>) return states->text_width(state_of(kind));
  };
  std::string known = "rows";
  for (const EnumName<States>& entry : enum_names(States{})) {
    if (states == nullptr || entry.value == States::kRows || width_of(entry.value) == 0) continue;
    if (entry.value == asked) return states;
    known += fmt::format(", {}", entry.name);
  }
  return fail(ErrorCode::kUsage, "the encoder ({}) gives no states of {}: it has {}", encoder.info().family,
              enum_name(asked), known);
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

std::span<const EnumName<ImageStates>> enum_names(ImageStates) {
  static constexpr std::array<EnumName<ImageStates>, 5> kWords{{{ImageStates::kRows, "rows"},
                                                                {ImageStates::kPooled, "pooled"},
                                                                {ImageStates::kQueries, "queries"},
                                                                {ImageStates::kProjected, "projected"},
                                                                {ImageStates::kVision, "vision"}}};
  return kWords;
}

std::span<const EnumName<TextStates>> enum_names(TextStates) {
  static constexpr std::array<EnumName<TextStates>, 3> kWords{
      {{TextStates::kRows, "rows"}, {TextStates::kPooled, "pooled"}, {TextStates::kTokens, "tokens"}}};
  return kWords;
}

std::span<const EnumName<Pooling>> enum_names(Pooling) {
  static constexpr std::array<EnumName<Pooling>, 4> kWords{{{Pooling::kMean, "mean"},
                                                            {Pooling::kMax, "max"},
                                                            {Pooling::kFirst, "first"},
                                                            {Pooling::kLast, "last"}}};
  return kWords;
}

std::string describe(const HeadInput& input) {
  return fmt::format("images' {} and texts' {}, pooling {}", enum_name(input.images), enum_name(input.texts),
                     enum_name(input.pooling));
}

HeadInput usual_head_input(EncoderBackend& encoder) {
  if (encoder.info().shared_space) return {};
  return {.images = ImageStates::kQueries, .texts = TextStates::kTokens};
}

Result<HeadInputWidths> head_input_widths(EncoderBackend& encoder, const HeadInput& input) {
  if (encoder.info().image_height == 0) {
    return fail(ErrorCode::kUsage, "the encoder ({}) reads texts only", encoder.info().family);
  }
  HeadInputWidths widths{encoder.info().dim, encoder.info().dim};
  if (input.images != ImageStates::kRows) {
    SACCADE_ASSIGN(FrozenFeatures * states, states_of(encoder, input.images));
    widths.images = states->image_width(state_of(input.images));
    if (input.images == ImageStates::kVision) widths.images *= states->image_rows(state_of(input.images));
  }
  if (input.texts != TextStates::kRows) {
    SACCADE_ASSIGN(FrozenFeatures * states, states_of(encoder, input.texts));
    widths.texts = states->text_width(state_of(input.texts));
  }
  return widths;
}

Result<Matrix<float>> image_head_input(EncoderBackend& encoder, const HeadInput& input,
                                       MatrixView<const float> pixels) {
  if (input.images == ImageStates::kRows) return encoder.encode_images(pixels);
  SACCADE_ASSIGN(FrozenFeatures * states, states_of(encoder, input.images));
  SACCADE_ASSIGN(const RowSets sets, states->image_features(pixels, state_of(input.images)));
  if (input.images == ImageStates::kVision) {
    Matrix<float> rows(pixels.rows(), states->image_rows(state_of(input.images)) * sets.rows.columns());
    std::ranges::copy(sets.rows.values(), rows.data());
    return rows;
  }
  return pooled(sets, input.pooling);
}

Result<Matrix<float>> text_head_input(EncoderBackend& encoder, const HeadInput& input,
                                      std::span<const TokenizedText> texts) {
  if (input.texts == TextStates::kRows) return encoder.encode_texts(texts);
  SACCADE_ASSIGN(FrozenFeatures * states, states_of(encoder, input.texts));
  SACCADE_ASSIGN(const RowSets sets, states->text_features(texts, state_of(input.texts)));
  return pooled(sets, input.pooling);
}

int64_t rows_at_once(int64_t width, int64_t most) {
  constexpr int64_t kValues = int64_t{16} << 20;
  return std::clamp<int64_t>(kValues / std::max<int64_t>(1, width), 1, most);
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
