// Number formats of an encoder's arithmetic.
#pragma once

#include <string_view>

#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// Format of the products of linear layers. Everything between them is float32; in kBf16 also bfloat16.
enum class Precision {
  kFp32,
  kBf16,
  kInt8,  // 8-bit integers: weights by output column, activations by row
  // Fastest of the three on this machine that keeps fp32's embeddings, measured for the checkpoint when it is loaded.
  kAuto,
};

// Returns "fp32", "bf16", "int8" or "auto". Thread-safe.
std::string_view name(Precision precision);
// Returns the format of that name. kUsage, which lists the names, for any other name. Thread-safe.
Result<Precision> parse_precision(std::string_view name);

}  // namespace saccade
#pragma GCC visibility pop
