// The symmetric one-caption protocol: each image of a manifest with its first caption, as many texts as
// images.
//
// Text to image: one query an image, its first caption, against all images; right are all images with that
// first caption. Image to text: the other way. Ranks by counting, ties against the model (retrieval.h).
// Transparent pictures are composited over white. The protocol of a training's held-out sets and of the
// starter's card.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/matrix.h"
#include "saccade/core/threads.h"
#include "saccade/eval/retrieval.h"
#include "saccade/image/preprocess.h"
#include "saccade/model/encoder.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

// A manifest's images and first captions as an encoder takes them.
struct OneCaptionSet {
  std::string name;
  std::string hash;                  // SHA-256 of the manifest
  Matrix<float> pixels;              // [n, 3 * height * width]
  std::vector<TokenizedText> texts;  // [n]
  std::vector<int64_t> labels;       // [n], equal where first captions are
};

struct OneCaptionRecall {
  std::string name;
  int64_t images = 0;
  Recall text_to_image;
  Recall image_to_text;
};

// Decodes and preprocesses everything. An image that cannot be read or has no caption is an error that names
// it: a smaller gallery would be another measurement. Memory: 12 bytes a pixel of the encoder's input, for
// every image.
Result<OneCaptionSet> load_one_caption_set(const std::filesystem::path& manifest,
                                           const Preprocessing& preprocessing, const Tokenizer& tokenizer,
                                           int64_t context, ThreadPool& pool);

// images, texts: [n, dim], rows of the set's images and texts in its order.
Result<OneCaptionRecall> score_one_caption(const OneCaptionSet& set, MatrixView<const float> images,
                                           MatrixView<const float> texts, ThreadPool& pool);

// Load, encode, score.
Result<OneCaptionRecall> one_caption_recall(Encoder& encoder, const std::filesystem::path& manifest,
                                            ThreadPool& pool);

// What guessing gets: the mean over queries of 1 - C(n - p, k) / C(n, k), for p right ones among n. The same
// in both directions, as the protocol is symmetric.
Recall chance_recall(const std::vector<int64_t>& labels);

}  // namespace saccade
