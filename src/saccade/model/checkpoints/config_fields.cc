#include "saccade/model/checkpoints/config_fields.h"

#include "saccade/core/files/safetensors.h"

namespace saccade {
namespace {

Error not_an_object(std::string_view key, std::string_view what) {
  return Error{ErrorCode::kBadData, fmt::format("\"{}\" is {}, not an object", key, what)};
}

}  // namespace

Status in_range(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorCode::kBadData, "{} is {}, expected {} to {}", name, value, low, high);
}

Result<Json> section(const Json& config, const std::string& key, Json defaults) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return defaults;
  if (!found->is_object()) return fail(not_an_object(key, json_kind(*found)));
  defaults.update(*found);
  return defaults;
}

Result<Json> required_section(const Json& config, const std::string& key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return fail(ErrorCode::kBadData, "\"{}\" is missing", key);
  if (!found->is_object()) return fail(not_an_object(key, json_kind(*found)));
  return *found;
}

Result<std::vector<int64_t>> tensor_shape(const nn::TensorMap& tensors, const std::string& name,
                                          size_t dimensions) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return fail(ErrorCode::kBadData, "tensor {} is missing", name);
  std::vector<int64_t> shape = found->second.sizes();
  if (shape.size() == dimensions) return shape;
  return fail(ErrorCode::kBadData, "tensor {} has shape {}, expected {} dimensions", name, shape_text(shape),
              dimensions);
}

}  // namespace saccade
