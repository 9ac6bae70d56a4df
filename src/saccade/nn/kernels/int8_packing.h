// Quantization and packing of weights to 8 bits, done once per weight in the processor's widest instructions.
//
// All packers apply the same sequence of IEEE 754 operations, so their results are identical bit for bit.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace saccade::nn {

struct Int8Packer {
  std::string_view name;  // "avx512", "avx2", "portable"
  // Returns the largest absolute weight of an output, or NaN if a weight is not finite. If it is neither NaN
  // nor 0, adds the squares of all weights, relative to the largest, to `squares`. weights, squares: [in].
  float (*weigh)(const float* weights, int64_t in, double* squares) = nullptr;
  // Divides the weights by their inputs' factors (in [1/16384, 1]), rounds them to 8 bits, adds 128 and
  // writes them in groups of four. `to` is the output's place in the panel; the groups of the panel's other
  // outputs lie between two of its groups. `largest` is the result of weigh(); if it is 0 or NaN, nothing is
  // written. scratch: [in]. Returns the scale.
  float (*quantize)(const float* weights, const float* factors, int64_t in, float largest, float* scratch,
                    uint8_t* to) = nullptr;
};

// Returns the packers that this processor can run, fastest first; the last is always "portable".
std::span<const Int8Packer> int8_packers();

}  // namespace saccade::nn
