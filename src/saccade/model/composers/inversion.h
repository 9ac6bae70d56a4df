// Textual inversion for composed search: a network maps an image embedding to a pseudo-word, and the text
// tower encodes it in a sentence with the modification ("a photo of * that {change}"). The idea is that of
// Pic2Word (Saito et al. 2023, arXiv 2302.03084) and SEARLE (Baldrati et al. 2023, arXiv 2303.15247).
// Training on texts alone follows LinCIR (Gu et al. 2023, arXiv 2312.01998): texts replace images, and noise
// on their embeddings models the modality gap.
//
//   word = W_3 gelu(W_2 gelu(W_1 row)),   d -> 4 d -> 4 d -> width of the tower's words
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/parameters.h"
#include "saccade/tokenizer.h"

namespace saccade {

// Placeholders in a sentence for the image's pseudo-word and for the modification.
inline constexpr std::string_view kPictureMark = "*";
inline constexpr std::string_view kChangeMark = "{}";

struct InversionShape {
  int64_t dim = 0;     // width of embeddings
  int64_t hidden = 0;  // published: 4 dim
  int64_t word = 0;    // width of the text tower's words
};
struct InversionConfig {
  InversionShape shape;
  std::string sentence;  // with kPictureMark once, as a word of its own, and kChangeMark once behind it
};
// Parses a composer's "options"; kBadData names an impossible one.
Result<InversionConfig> inversion_config_from_json(int64_t dim, const Json& options);
Json inversion_options(const InversionConfig& config);
// Returns kUsage if a sentence lacks a mark, has one twice, or has the modification before the image.
Status check_sentence(std::string_view sentence);

// Sentence with the modification inserted, and the position of the image's token.
struct InvertedText {
  TokenizedText text;
  int64_t place = 0;
};
// Returns the token id of kPictureMark; kUnsupported for a tokenizer that does not make exactly one token of
// it.
Result<int32_t> picture_mark_id(const Tokenizer& tokenizer);
// Inserts the modification, which is truncated if the sentence is longer than `context`. Returns kUsage if
// the image's word itself would not fit.
Result<InvertedText> invert_text(const Tokenizer& tokenizer, std::string_view sentence,
                                 std::string_view change, int64_t context);

template <typename T>
class InversionOf {
 public:
  // Dropout applied to hidden values in training; empty means none.
  using Dropout = std::function<T(const T&)>;

  static Result<InversionOf> make(const InversionShape& shape, nn::ParameterSourceOf<T>& source) {
    // Initialized like torch's linear layers: uniform in +-1 / sqrt(in), a standard deviation of 1 / sqrt(3
    // in).
    const auto layer = [&](const char* name, int64_t in, int64_t out) {
      return nn::LinearOf<T>::make(source, name, in, out, 1 / std::sqrt(3.0 * static_cast<double>(in)));
    };
    InversionOf made;
    SACCADE_ASSIGN(made.in_, layer("in", shape.dim, shape.hidden));
    SACCADE_ASSIGN(made.middle_, layer("middle", shape.hidden, shape.hidden));
    SACCADE_ASSIGN(made.out_, layer("out", shape.hidden, shape.word));
    return made;
  }

  // Maps rows: [n, dim], of length 1, to words [n, word].
  [[nodiscard]] T words(const T& rows, const Dropout& dropout = {}) const {
    const auto dropped = [&](const T& x) { return dropout ? dropout(x) : x; };
    const T x = dropped(in_.forward(rows, nn::Activation::kGelu));
    return out_.forward(dropped(middle_.forward(x, nn::Activation::kGelu)));
  }

  void pack(DType dtype) {
    for (nn::LinearOf<T>* layer : {&in_, &middle_, &out_}) layer->pack(dtype);
  }

 private:
  nn::LinearOf<T> in_, middle_, out_;
};

}  // namespace saccade
