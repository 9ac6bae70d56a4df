// Tensors with gradients: libtorch's, with the functions used by nn/layers.h and the trained architectures
// (those marked (*) in nn/operations.h, which documents them).
//
// libtorch without MKL leaves products of float32 to OpenBLAS, whose threads spin while they wait. It also
// makes a call for each of attention's many small products. On the CPU both run on oneDNN and on the kernels
// of nn/kernels/kernels.h instead, with gradients of their own, once differentiable.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/train/math/torch.h"
#include "saccade/core/error.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/model/families/clip.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/tensor.h"

namespace saccade::lab {

class Variable {
 public:
  Variable() = default;
  explicit Variable(torch::Tensor tensor) : tensor_(std::move(tensor)) {}

  [[nodiscard]] const torch::Tensor& tensor() const { return tensor_; }
  [[nodiscard]] bool defined() const { return tensor_.defined(); }
  [[nodiscard]] int64_t size(int64_t dimension) const { return tensor_.size(dimension); }
  [[nodiscard]] Variable view(const nn::Shape& shape) const { return Variable(tensor_.view(shape)); }
  [[nodiscard]] Variable slice(int64_t dimension, int64_t first, int64_t last = INT64_MAX) const {
    return Variable(tensor_.slice(dimension, first, last));
  }
  [[nodiscard]] Variable select(int64_t dimension, int64_t index) const {
    return Variable(tensor_.select(dimension, index));
  }
  [[nodiscard]] Variable operator[](int64_t index) const { return Variable(tensor_[index]); }
  [[nodiscard]] Variable expand(const nn::Shape& shape) const { return Variable(tensor_.expand(shape)); }
  [[nodiscard]] Variable clone() const { return Variable(tensor_.clone()); }
  [[nodiscard]] Variable contiguous() const { return Variable(tensor_.contiguous()); }
  [[nodiscard]] Variable to(DType dtype) const;

 private:
  torch::Tensor tensor_;
};

// While one lives, the functions below compute on the CPU by libtorch's own operators alone, as on every other
// device, in the thread that made it.
class PlainOperators {
 public:
  PlainOperators();
  ~PlainOperators();
  PlainOperators(const PlainOperators&) = delete;
  PlainOperators& operator=(const PlainOperators&) = delete;
};

bool wants_gradients(const Variable& x);
Variable operator+(const Variable& a, const Variable& b);
Variable tanh(const Variable& x);
Variable cat(const std::vector<Variable>& variables, int64_t dimension = 0);
Variable embedding(const Variable& table, const nn::Tensor& ids);
Variable take_rows(const Variable& x, const nn::Tensor& positions);
Variable gather_rows(const Variable& x, const nn::Tensor& which);
Variable patches(const Variable& pixels, int64_t patch);
Variable layer_norm(const Variable& x, const Variable& gain, const Variable& bias, double eps, DType dtype);
Variable attention(const Variable& qkv, int64_t heads, const nn::Tensor& mask,
                   std::optional<double> scale = std::nullopt);
// Computes attention operation by operation, on any device.
Variable attention(const Variable& query, const Variable& key, const Variable& value, const nn::Tensor& mask,
                   std::optional<double> scale = std::nullopt);
// Returns the layers' outputs side by side, activated. x: [..., in]; weights: [out, in] each; biases: as
// many, or none.
Variable linear(const Variable& x, const std::vector<Variable>& weights, const std::vector<Variable>& biases,
                nn::Activation activation);
torch::Tensor normalize_rows(const torch::Tensor& rows);

// Computes compute(x) and keeps x alone for the backward pass, which computes it again (gradient
// checkpointing; Chen et al. 2016). `compute` gives the same result at every call, and what it refers to
// lives until the backward pass has run. Parameters that it reads get their gradients in `grad`, as by
// backward(); torch::autograd::grad() does not see them. Without gradients it is compute(x).
Variable recomputed(const Variable& x, const std::function<Variable(const Variable&)>& compute);

// --- between the two kinds of tensors -------------------------------------------------------------------

using TorchMap = std::map<std::string, torch::Tensor>;

at::ScalarType torch_type(DType dtype);
// Returns a tensor over the same memory, which lives as long as the result. `tensor` must be contiguous and
// on the CPU.
nn::Tensor borrow_torch(const torch::Tensor& tensor);
// Returns a tensor over the same memory, which lives as long as the result.
torch::Tensor torch_over(const nn::Tensor& tensor);
// Returns the tensors of nn::borrow_tensors as torch tensors.
Result<TorchMap> torch_tensors(const SafeTensors& file);
// Returns the view that write_safetensors takes. The tensor must be contiguous, on the CPU, and outlive the
// view.
TensorView view_of(const torch::Tensor& tensor);
// Writes tensors of any device as safetensors, converted to `dtype`; `nullopt` keeps the type of each.
Status write_torch_map(const std::filesystem::path& path, const TorchMap& tensors,
                       std::optional<at::ScalarType> dtype = std::nullopt,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

// Random parameters that require gradients. The values depend on `seed` and the order of the calls alone, not
// on the device to which they are then moved.
class InitializedParameters : public nn::ParameterSourceOf<Variable> {
 public:
  explicit InitializedParameters(uint64_t seed, torch::Device device = at::kCPU);
  Result<Variable> take(const std::string& name, const std::vector<int64_t>& shape, nn::Init init) override;
  [[nodiscard]] const TorchMap& parameters() const { return parameters_; }

 private:
  torch::Generator generator_;
  torch::Device device_;
  TorchMap parameters_;
};

// CLIP with gradients: nn/layers.h and model/families/clip.h over Variable.
using TrainedClip = ClipModelOf<Variable>;
// CLIP's bound on the logarithm of its logits' scale: log(100) (Radford et al. 2021, section 2.5).
inline constexpr double kMaxLogScale = 4.605170185988092;
// Returns true for a parameter of the text tower, or the logits' scale.
bool is_of_text_tower(std::string_view parameter);
// Runs CLIP's forward passes on torch's own tensors. ids, keep: int64, on any device.
torch::Tensor clip_images(const TrainedClip& model, const torch::Tensor& pixels, at::ScalarType dtype,
                          const torch::Tensor& keep = {});
torch::Tensor clip_texts(const TrainedClip& model, const torch::Tensor& ids, at::ScalarType dtype);
// Encodes texts sorted by length in a few parts, each padded only to its own longest text.
torch::Tensor clip_texts_by_length(const TrainedClip& model, const torch::Tensor& ids,
                                   const std::vector<int64_t>& lengths, at::ScalarType dtype);

}  // namespace saccade::lab

extern template class saccade::ClipModelOf<saccade::lab::Variable>;
