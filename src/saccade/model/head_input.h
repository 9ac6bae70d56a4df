// Input features of heads on a frozen encoder: one row per image and one per text, from any of the encoder's
// states.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

enum class ImageStates {
  kRows,       // the encoder's own rows, of length 1
  kPooled,     // input of the checkpoint's projection into its shared space (FrozenFeatures, as all below)
  kQueries,    // the states of a Q-Former's queries
  kProjected,  // the same behind the checkpoint's own projection
  kVision,     // the states of the vision tower that a Q-Former asks, side by side: for a head with its own
};
std::span<const EnumName<ImageStates>> enum_names(ImageStates);  // "rows", "pooled", "queries", ...

enum class TextStates {
  kRows,    // the encoder's own rows, of length 1
  kPooled,  // input of the checkpoint's projection into its shared space
  kTokens,  // the states of a text's tokens
};
std::span<const EnumName<TextStates>> enum_names(TextStates);  // "rows", "pooled", "tokens"

// Pooling of an item's several states into one row, column by column.
enum class Pooling { kMean, kMax, kFirst, kLast };
std::span<const EnumName<Pooling>> enum_names(Pooling);  // "mean", "max", "first", "last"

struct HeadInput {
  ImageStates images = ImageStates::kRows;
  TextStates texts = TextStates::kRows;
  Pooling pooling = Pooling::kMean;

  friend bool operator==(const HeadInput&, const HeadInput&) = default;
};
// Describes the input, such as "queries and tokens, their mean", for messages and to distinguish cached
// features.
std::string describe(const HeadInput& input);

// Returns the default input: queries and tokens if the encoder has no shared space (a Q-Former beside a
// language model), else its embeddings.
HeadInput usual_head_input(EncoderBackend& encoder);

struct HeadInputWidths {
  int64_t images = 0;
  int64_t texts = 0;
};
// Returns the widths; kUsage for states that the encoder does not provide, and for one that reads texts only.
Result<HeadInputWidths> head_input_widths(EncoderBackend& encoder, const HeadInput& input);

// Computes one row per item, [n, width] as in head_input_widths: several states are pooled; those of kVision
// are concatenated. Returns the encoder's errors, and those above. The cost is that of the encoder.
Result<Matrix<float>> image_head_input(EncoderBackend& encoder, const HeadInput& input,
                                       MatrixView<const float> pixels);
Result<Matrix<float>> text_head_input(EncoderBackend& encoder, const HeadInput& input,
                                      std::span<const TokenizedText> texts);

// Returns the number of rows of a width to process at a time: 64 MB of them, at most `most`, at least 1.
int64_t rows_at_once(int64_t width, int64_t most);

// Pools all rows of each item into one: [n, width]; 0 for an item without rows.
Matrix<float> pooled(const RowSets& sets, Pooling pooling);

}  // namespace saccade
