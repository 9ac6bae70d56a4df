// Number formats of an encoder's arithmetic.
#pragma once

namespace saccade {

// Format of the products of linear layers. Everything between them is float32; in kBf16 also bfloat16.
enum class Precision {
  kFp32,
  kBf16,
  kInt8,  // 8-bit integers: weights by output column, activations by row
  // Fastest of the three on this machine that keeps fp32's embeddings, measured for the checkpoint when it is loaded.
  kAuto,
};

}  // namespace saccade
