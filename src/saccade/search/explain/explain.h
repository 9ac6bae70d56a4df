// Explanations of hits: contribution of each query word to the score, relevance maps of the image, and with
// late interaction the patch that each text row matched. explain_hits.h fills these in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/image/preprocess.h"
#include "saccade/index/patch_pool.h"

namespace saccade {

// A part of a picture, in fractions of its width and height.
struct PictureBox {
  float x = 0;
  float y = 0;
  float width = 0;
  float height = 0;
};

// Best-matching patch of one text row in an image.
struct TokenMatch {
  int64_t token = 0;          // which of the text's rows, from 0
  std::optional<int32_t> id;  // its token's id, where rows and tokens are one to one
  float dot = 0;              // the largest dot product; the text's add up to its score
  // Patches of the matched row, and their box in the image. `nullopt` if the row corresponds to no location;
  // no box if the patches show padding alone.
  std::optional<PatchBlock> patches;
  std::optional<PictureBox> box;
};

// A word of the query's text, and what the hit's score loses where the word is
// left out; below 0 where it gains.
struct WordWeight {
  size_t begin = 0;  // bytes of the text
  size_t end = 0;
  float drop = 0;
};

// Explanation of a hit by one encoder.
struct HitExplanation {
  std::string model;     // the checkpoint's name, for people
  std::string score_by;  // what is explained: "cosine", or "maxsim" of late interaction
  // Score of the whole query by that encoder. `nullopt` if its image could not be read and the encoder is not
  // the collection's.
  std::optional<float> score;
  std::vector<WordWeight> words;  // in the text's order; empty without a text, and where there is no score
  // Method of the relevance map: "legrad" or "chefer" (model/explain/relevance_map.h), or "similarity" for
  // late interaction. The latter is by how much the dot products of the text's rows with a patch's row exceed
  // their average over the image's patches; negative differences are left out.
  std::string method;
  PatchGrid grid;
  std::vector<float>
      map;  // [rows * columns], row by row from the top left: 0 or more, of sum 1, or 0 throughout
  std::optional<PictureBox> box;  // where the grid lies in the picture; beyond its edges where it was padded
  std::string no_map;             // why there is none; empty where there is
};

// Returns the box of `grid` patches in an image of width x height pixels that went through `preprocessing`.
// It is within a pixel of what the encoder reads. Returns `nullopt` if the patches lie outside the image.
std::optional<PictureBox> patch_box(const Preprocessing& preprocessing, int64_t width, int64_t height,
                                    PatchGrid grid, const PatchBlock& patches);
// Returns the box of the whole grid. It extends beyond the image, below 0 or above 1, if that was padded.
std::optional<PictureBox> grid_box(const Preprocessing& preprocessing, int64_t width, int64_t height);

}  // namespace saccade
