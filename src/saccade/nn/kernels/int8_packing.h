// Weights in 8 bits: what is done once for each weight, in the processor's widest instructions.
//
// All of a packer's numbers are what one operation of IEEE 754 after the other gives, so that every
// packer packs the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace saccade::nn {

struct Int8Packer {
  std::string_view name;  // "avx512", "avx2", "portable"
  // An output's weights: the largest absolute value; NaN where one is not finite. Where it is neither that
  // nor 0, the squares of all, as parts of it, are added to `squares`. weights, squares: [in].
  float (*weigh)(const float* weights, int64_t in, double* squares) = nullptr;
  // The weights divided by their inputs' factors (in [1/16384, 1]), rounded to 8 bits, each + 128, four by
  // four: `to` is the output's place in the panel, between two fours lie those of the panel's other outputs.
  // largest: what weigh() gave; where that is 0 or NaN, nothing is written. scratch: [in]. Returns the scale.
  float (*quantize)(const float* weights, const float* factors, int64_t in, float largest, float* scratch,
                    uint8_t* to) = nullptr;
};

// Those this processor can run, fastest first; the last is always "portable".
std::span<const Int8Packer> int8_packers();

}  // namespace saccade::nn
