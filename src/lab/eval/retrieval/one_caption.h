// The symmetric one-caption protocol: each image of a dataset with its first caption, as many texts as
// images.
//
// Text to image: one query per image, its first caption, against all images. All images with that first
// caption are relevant. Image to text is the reverse. Ranks are counted, with ties against the model
// (ranking.h). Transparent images are composited over white. This is the protocol of a training's held-out
// sets and of the starter's card.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/image/image_codec.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/preprocessing.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {

// A dataset's images and first captions as encoder inputs.
struct OneCaptionSet {
  std::string name;
  std::string hash;                  // Dataset::hash
  Matrix<float> pixels;              // [n, 3 * height * width]
  std::vector<TokenizedText> texts;  // [n]
  std::vector<int64_t> labels;       // [n], equal for equal first captions
};

struct Recall {
  int64_t queries = 0;  // those with a right answer in the gallery
  double r1 = 0;        // share of them with a right answer among the first 1, 5, 10
  double r5 = 0;
  double r10 = 0;
};

struct OneCaptionRecall {
  std::string name;
  int64_t images = 0;
  Recall text_to_image;
  Recall image_to_text;
};

// Decodes and preprocesses everything. An image that cannot be read or has no caption is an error that names
// it, because a smaller gallery would be another measurement. This function sets the size of vector images in
// `decode`. Memory: 12 bytes per pixel of the encoder's input, for every image.
Result<OneCaptionSet> load_one_caption_set(const DatasetSource& source, const Preprocessing& preprocessing,
                                           const Tokenizer& tokenizer, int64_t context, ThreadPool& pool,
                                           const DecodeOptions& decode = {});

// Computes recall. images, texts: [n, dim], embeddings of the set's images and texts in its order.
Result<OneCaptionRecall> score_one_caption(const OneCaptionSet& set, MatrixView<const float> images,
                                           MatrixView<const float> texts, ThreadPool& pool);

}  // namespace saccade::lab
