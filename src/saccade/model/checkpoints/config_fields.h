// Helpers for reading any family's config: sections, ranges, and tensor shapes that replace missing fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/nn/parameters.h"

namespace saccade {

// Checks low <= value <= high. kBadData names the value and its bounds.
Status in_range(std::string_view name, int64_t value, int64_t low, int64_t high);

// Returns an object member merged over `defaults`, or `defaults` alone if it is absent or null.
Result<Json> section(const Json& config, const std::string& key, Json defaults = Json::object());

// Returns a required object member.
Result<Json> required_section(const Json& config, const std::string& key);

// Returns a tensor's shape. Returns kBadData without the tensor, or if it has another number of dimensions.
Result<std::vector<int64_t>> tensor_shape(const nn::TensorMap& tensors, const std::string& name,
                                          size_t dimensions);

}  // namespace saccade
