#include "saccade/nn/parameters.h"

#include <cstring>
#include <optional>

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

}  // namespace

Result<torch::Tensor> LoadedParameters::take(const std::string& name, const std::vector<int64_t>& shape,
                                             Init) {
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
  return tensor.to(at::kFloat);
}

std::vector<std::string> LoadedParameters::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    if (!taken_.contains(name)) names.push_back(name);
  }
  return names;
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

TensorMap borrow_tensors(const SafeTensors& file) {
  TensorMap tensors;
  for (const auto& [name, view] : file.tensors()) {
    const auto dtype = scalar_type(view.dtype);
    if (!dtype) continue;
    const bool aligned = reinterpret_cast<uintptr_t>(view.bytes.data()) % dtype_size(view.dtype) == 0;
    torch::Tensor tensor;
    if (aligned || view.bytes.empty()) {
      void* data = const_cast<std::byte*>(view.bytes.data());  // torch has no tensors of const
      tensor = torch::from_blob(data, view.shape, *dtype);
    } else {
      tensor = torch::empty(view.shape, *dtype);
      std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
    }
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
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
