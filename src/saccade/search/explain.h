// Why a picture is a hit: which of the query's words it owes its score to, which parts of the picture, and of
// late interaction which patch each row of the text met. explain_hits.h fills these in.
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

// What one row of a text met in a picture.
struct TokenMatch {
  int64_t token = 0;          // which of the text's rows, from 0
  std::optional<int32_t> id;  // its token's id, where rows and tokens are one to one
  float dot = 0;              // the largest dot product; the text's add up to its score
  // The patches of the row it is with, and where they lie in the picture; nothing where the row stands for no
  // place, and no box where the patches show padding alone.
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

// What one encoder says of a hit.
struct HitExplanation {
  std::string model;     // the checkpoint's name, for people
  std::string score_by;  // what is explained: "cosine", or "maxsim" of late interaction
  // Of the whole query, by that encoder; nothing where its picture could not be read and the
  // encoder is not the collection's.
  std::optional<float> score;
  std::vector<WordWeight> words;  // in the text's order; empty without a text, and where there is no score
  // Where in the picture the score comes from: "legrad" or "chefer" (model/explain/relevance_map.h), or "similarity" of
  // late interaction: by how much the dot products of the text's rows with the patch's row are above those
  // with the picture's patches on average, where they are.
  std::string method;
  PatchGrid grid;
  std::vector<float>
      map;  // [rows * columns], row by row from the top left: 0 or more, of sum 1, or 0 throughout
  std::optional<PictureBox> box;  // where the grid lies in the picture; beyond its edges where it was padded
  std::string no_map;             // why there is none; empty where there is
};

// Where patches of `grid` lie in a picture of width x height pixels that went through `preprocessing`: within
// a pixel of what the encoder reads. Nothing where they lie outside the picture.
std::optional<PictureBox> patch_box(const Preprocessing& preprocessing, int64_t width, int64_t height,
                                    PatchGrid grid, const PatchBlock& patches);
// Where all of the grid lies: beyond the picture's edges, below 0 or above 1, where it was padded.
std::optional<PictureBox> grid_box(const Preprocessing& preprocessing, int64_t width, int64_t height);

}  // namespace saccade
