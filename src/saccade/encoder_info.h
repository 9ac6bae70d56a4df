// Facts about a loaded model.
#pragma once

#include <cstdint>
#include <string>

#include "saccade/precision.h"

namespace saccade {

// Description of a loaded model. A value.
struct EncoderInfo {
  std::string family = {};                 // "clip"
  std::string layout = {};                 // "hugging_face", "open_clip", "long_clip"
  std::string fingerprint = {};            // SHA-256 over weights, config, tokenizer and preprocessing
  Precision precision = Precision::kFp32;  // number format of its arithmetic; never kAuto
  std::string device = "cpu";              // device that encodes: "cpu", "cuda", "cuda:1"
  int64_t dim = 0;                         // width of the shared space
  int64_t context = 0;                     // text positions, start and end tokens included
  int64_t parameters = 0;                  // number of trained values
  int image_height = 0;                    // pixels; 0 if the model reads no images
  int image_width = 0;                     // pixels; 0 if the model reads no images
  float logit_scale = 0;                   // exp of the learned log inverse temperature; 1 if none is learned
  // False if images and texts were never trained into one space. Ranking by such embeddings is chance; they serve to
  // train heads on.
  bool shared_space = true;
  // True if the checkpoint does not say how images are resized and normalized. Its family's usual way is used then.
  bool preprocessing_guessed = false;
};

}  // namespace saccade
