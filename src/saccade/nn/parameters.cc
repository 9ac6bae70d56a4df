#include "saccade/nn/parameters.h"

#include <algorithm>
#include <cstring>

#include "saccade/core/files/mapped_pages.h"

namespace saccade::nn {
namespace {

Status check_type(const std::string& name, DType dtype) {
  if (dtype != DType::kU16 && dtype != DType::kU32 && dtype != DType::kU64) return {};
  return fail(ErrorCode::kUnsupported,
              "tensor {} has dtype {}, known are BOOL, U8, I8 to I64, F16, BF16, F32 and F64", name,
              dtype_name(dtype));
}

// Returns the bytes as a tensor, without a copy if they are aligned. `mapped`: the bytes are in a mapped
// file.
Tensor borrowed(std::span<const std::byte> bytes, DType dtype, const Shape& shape, const Shape& strides,
                bool mapped) {
  if (bytes.empty()) return Tensor::empty(shape, dtype);
  const auto size = static_cast<size_t>(dtype_size(dtype));
  if (reinterpret_cast<uintptr_t>(bytes.data()) % size == 0) {
    const Tensor tensor = Tensor::borrow(bytes.data(), shape, strides, dtype);
    return mapped ? tensor.as_mapped() : tensor;
  }
  const Tensor copy = Tensor::empty({static_cast<int64_t>(bytes.size() / size)}, dtype);
  std::memcpy(copy.raw(), bytes.data(), bytes.size());
  return copy.restrided(shape, strides);
}

bool is_among(const std::string& name, std::span<const std::string_view> patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string_view pattern) {
    return pattern.starts_with('*') ? name.ends_with(pattern.substr(1)) : name == pattern;
  });
}

}  // namespace

Result<Tensor> LoadedParameters::take(const std::string& name, const std::vector<int64_t>& shape, Init init) {
  SACCADE_ASSIGN(const Tensor stored, take_stored(name, shape, init));
  return stored.to(DType::kF32).contiguous();
}

Result<Tensor> LoadedParameters::take_stored(const std::string& name, const std::vector<int64_t>& shape,
                                             Init) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return fail(ErrorCode::kBadData, "tensor {} of shape {} is missing", name, shape_text(shape));
  }
  const Tensor& tensor = found->second;
  if (tensor.sizes() != shape) {
    return fail(ErrorCode::kBadData, "tensor {} has shape {}, the config asks for {}", name,
                shape_text(tensor.sizes()), shape_text(shape));
  }
  if (!tensor.is_floating_point()) {
    return fail(ErrorCode::kBadData, "tensor {} has dtype {}, floating point is expected", name,
                dtype_name(tensor.dtype()));
  }
  taken_.insert(name);
  return tensor;
}

std::vector<std::string> LoadedParameters::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    if (!taken_.contains(name)) names.push_back(name);
  }
  return names;
}

Status LoadedParameters::all_used(std::span<const std::string_view> ignored) const {
  std::vector<std::string> left = unused();
  std::erase_if(left, [&](const std::string& name) { return is_among(name, ignored); });
  if (left.empty()) return {};
  return fail(ErrorCode::kBadData, "tensor {} of shape {} has no place in this model ({} such tensors)",
              left.front(), shape_text(tensors_.at(left.front()).sizes()), left.size());
}

Result<TensorMap> borrow_tensors(const SafeTensors& file) {
  TensorMap tensors;
  for (const auto& [name, view] : file.tensors()) {
    SACCADE_TRY(check_type(name, view.dtype));
    const Shape strides = view.bytes.empty() ? Shape() : contiguous_strides(view.shape);
    tensors.emplace(name, borrowed(view.bytes, view.dtype, view.shape, strides, file.is_mapped()));
  }
  return tensors;
}

Result<TensorMap> borrow_tensors(const TorchFile& file) {
  TensorMap tensors;
  for (const auto& [name, view] : file.tensors()) {
    SACCADE_TRY(check_type(name, view.dtype));
    tensors.emplace(name, borrowed(view.bytes, view.dtype, view.shape, view.strides, file.is_mapped()));
  }
  return tensors;
}

void release_borrowed(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_mapped() || !tensor.is_contiguous()) return;
  release_mapped_pages({static_cast<const std::byte*>(tensor.raw()), static_cast<size_t>(tensor.nbytes())});
}

TensorView view_of(const Tensor& tensor) {
  return TensorView{tensor.dtype(),
                    tensor.sizes(),
                    {static_cast<const std::byte*>(tensor.raw()), static_cast<size_t>(tensor.nbytes())}};
}

}  // namespace saccade::nn
