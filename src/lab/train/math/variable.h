// Tensors with gradients: libtorch's, under the functions that nn/layers.h and the trained architectures are
// written over (those marked (*) in nn/operations.h). What each of them does is said there.
//
// libtorch without MKL leaves products of float32 to OpenBLAS, whose threads wait by spinning, and makes a
// call of each of attention's many small ones: on the CPU these two run on oneDNN and on the kernels of
// nn/kernels/kernels.h, with gradients of their own, once differentiable.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/model/families/clip.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/tensor.h"
#include "lab/train/math/torch.h"

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
  [[nodiscard]] Variable to(DType dtype) const;

 private:
  torch::Tensor tensor_;
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
// Operation by operation, on any device.
Variable attention(const Variable& query, const Variable& key, const Variable& value, const nn::Tensor& mask,
                   std::optional<double> scale = std::nullopt);
// The layers' outputs side by side, activated. x: [..., in];
// weights: [out, in] each; biases: as many, or none.
Variable linear(const Variable& x, const std::vector<Variable>& weights, const std::vector<Variable>& biases,
                nn::Activation activation);
torch::Tensor normalize_rows(const torch::Tensor& rows);

// --- between the two kinds of tensors -------------------------------------------------------------------

using TorchMap = std::map<std::string, torch::Tensor>;

at::ScalarType torch_type(DType dtype);
// Over the same memory, which stays as long as the result does. Of a tensor on the CPU that is contiguous.
nn::Tensor borrow_torch(const torch::Tensor& tensor);
// Over the same memory, which stays as long as the result does.
torch::Tensor torch_over(const nn::Tensor& tensor);
// nn::borrow_tensors as torch sees them.
Result<TorchMap> torch_tensors(const SafeTensors& file);
// The view write_safetensors takes. The tensor must be contiguous, on the CPU, and outlive the view.
TensorView view_of(const torch::Tensor& tensor);

// Random parameters that require gradients. The values depend on `seed` and the order of the calls alone, not
// on the device they are then moved to.
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
// Its forward passes in torch's own tensors. ids, keep: int64, on any device.
torch::Tensor clip_images(const TrainedClip& model, const torch::Tensor& pixels, at::ScalarType dtype,
                          const torch::Tensor& keep = {});
torch::Tensor clip_texts(const TrainedClip& model, const torch::Tensor& ids, at::ScalarType dtype);
// The same of texts sorted by their lengths, in a few parts, each padded to its own longest text only.
torch::Tensor clip_texts_by_length(const TrainedClip& model, const torch::Tensor& ids,
                                   const std::vector<int64_t>& lengths, at::ScalarType dtype);

}  // namespace saccade::lab

extern template class saccade::ClipModelOf<saccade::lab::Variable>;
