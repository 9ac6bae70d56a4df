#include "saccade/nn/parameters.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "saccade/core/mapped_pages.h"

namespace saccade::nn {
namespace {

std::optional<at::ScalarType> scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return at::kBool;
    case DType::kU8:
      return at::kByte;
    case DType::kI8:
      return at::kChar;
    case DType::kI16:
      return at::kShort;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kI32:
      return at::kInt;
    case DType::kF32:
      return at::kFloat;
    case DType::kI64:
      return at::kLong;
    case DType::kF64:
      return at::kDouble;
    default:
      return std::nullopt;
  }
}

Result<at::ScalarType> scalar_type_of(const std::string& name, DType dtype) {
  if (const auto type = scalar_type(dtype)) return *type;
  return fail(ErrorCode::kUnsupported,
              "tensor {} has dtype {}, known are BOOL, U8, I8 to I64, F16, BF16, F32 and F64", name,
              dtype_name(dtype));
}

// What tensors over a mapped file are told by: they own nothing, and no other tensor has this for a deleter.
void leave_mapped(void* /*context*/) {}

// The bytes as a tensor, without a copy where they are aligned. `mapped`: whether they are a mapped file's.
torch::Tensor borrowed(std::span<const std::byte> bytes, DType dtype, at::ScalarType type,
                       const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, bool mapped) {
  if (bytes.empty()) return torch::empty(shape, type);
  const auto size = static_cast<size_t>(dtype_size(dtype));
  if (reinterpret_cast<uintptr_t>(bytes.data()) % size == 0) {
    void* data = const_cast<std::byte*>(bytes.data());  // torch has no tensors of const
    if (!mapped) return torch::from_blob(data, shape, strides, type);
    return at::for_blob(data, shape).strides(strides).context(data, leave_mapped).options(type).make_tensor();
  }
  const torch::Tensor copy = torch::empty({static_cast<int64_t>(bytes.size() / size)}, type);
  std::memcpy(copy.data_ptr(), bytes.data(), bytes.size());
  return copy.as_strided(shape, strides);
}

// Not for shapes with a side of 0, whose other sides may be of any size.
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

bool is_among(const std::string& name, std::span<const std::string_view> patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string_view pattern) {
    return pattern.starts_with('*') ? name.ends_with(pattern.substr(1)) : name == pattern;
  });
}

}  // namespace

Result<torch::Tensor> LoadedParameters::take(const std::string& name, const std::vector<int64_t>& shape,
                                             Init init) {
  SACCADE_ASSIGN(const torch::Tensor stored, take_stored(name, shape, init));
  return stored.to(at::kFloat).contiguous();
}

Result<torch::Tensor> LoadedParameters::take_stored(const std::string& name,
                                                    const std::vector<int64_t>& shape, Init) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return fail(ErrorCode::kBadData, "tensor {} of shape {} is missing", name, shape_text(shape));
  }
  const torch::Tensor& tensor = found->second;
  if (tensor.sizes() != at::IntArrayRef(shape)) {
    return fail(ErrorCode::kBadData, "tensor {} has shape {}, the config asks for {}", name,
                shape_text({tensor.sizes().data(), tensor.sizes().size()}), shape_text(shape));
  }
  if (!tensor.is_floating_point()) {
    return fail(ErrorCode::kBadData, "tensor {} has dtype {}, floating point is expected", name,
                c10::toString(tensor.scalar_type()));
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
  const torch::Tensor& first = tensors_.at(left.front());
  return fail(ErrorCode::kBadData, "tensor {} of shape {} has no place in this model ({} such tensors)",
              left.front(), shape_text({first.sizes().data(), first.sizes().size()}), left.size());
}

InitializedParameters::InitializedParameters(uint64_t seed, torch::Device device)
    : generator_(at::detail::createCPUGenerator(seed)), device_(device) {}

Result<torch::Tensor> InitializedParameters::take(const std::string& name, const std::vector<int64_t>& shape,
                                                  Init init) {
  torch::Tensor tensor = torch::empty(shape, at::kFloat);
  if (init.std == 0) {
    tensor.fill_(init.mean);
  } else {
    tensor.normal_(init.mean, init.std, generator_);
  }
  tensor = tensor.to(device_).requires_grad_(true);
  const bool added = parameters_.emplace(name, tensor).second;
  if (!added) return fail(ErrorCode::kInternal, "two parameters named {}", name);
  return tensor;
}

Result<TensorMap> borrow_tensors(const SafeTensors& file) {
  TensorMap tensors;
  for (const auto& [name, view] : file.tensors()) {
    SACCADE_ASSIGN(const at::ScalarType type, scalar_type_of(name, view.dtype));
    tensors.emplace(name,
                    borrowed(view.bytes, view.dtype, type, view.shape,
                             view.bytes.empty() ? std::vector<int64_t>() : contiguous_strides(view.shape),
                             file.is_mapped()));
  }
  return tensors;
}

Result<TensorMap> borrow_tensors(const TorchFile& file) {
  TensorMap tensors;
  for (const auto& [name, view] : file.tensors()) {
    SACCADE_ASSIGN(const at::ScalarType type, scalar_type_of(name, view.dtype));
    tensors.emplace(name, borrowed(view.bytes, view.dtype, type, view.shape, view.strides, file.is_mapped()));
  }
  return tensors;
}

void release_borrowed(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || !tensor.is_non_overlapping_and_dense()) return;
  if (tensor.storage().data_ptr().get_deleter() != leave_mapped) return;
  release_mapped_pages({static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()});
}

TensorView view_of(const torch::Tensor& tensor) {
  TORCH_INTERNAL_ASSERT(tensor.is_contiguous() && tensor.device().is_cpu());
  DType dtype = DType::kF32;
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i) {
    if (scalar_type(static_cast<DType>(i)) == tensor.scalar_type()) dtype = static_cast<DType>(i);
  }
  return TensorView{dtype,
                    tensor.sizes().vec(),
                    {static_cast<const std::byte*>(tensor.data_ptr()), static_cast<size_t>(tensor.nbytes())}};
}

}  // namespace saccade::nn
