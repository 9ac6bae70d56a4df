// Sources of a model's parameters: the tensors of a checkpoint, or fresh random values for training.
//
// While a model is built, it requests each parameter by name and shape from any source. So the list of names,
// the shape checks and the initial values stand in one place, beside the layer they belong to.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/nn/tensor.h"
#include "saccade/nn/weights/torch_file.h"

namespace saccade::nn {

// Initial distribution of a parameter that is not loaded.
struct Init {
  double mean = 0;
  double std = 0;  // 0: every value is `mean`
};

// Source of parameters. T: Tensor for inference, Variable (lab/train/math/variable.h) for training.
template <typename T>
class ParameterSourceOf {
 public:
  virtual ~ParameterSourceOf() = default;
  // Returns the parameter of that name, or an error if the source has none of that shape.
  virtual Result<T> take(const std::string& name, const std::vector<int64_t>& shape, Init init) = 0;
  // Returns the parameter as stored, of any floating dtype and strides, so that nothing is copied. Callers
  // convert it themselves, such as a layer that packs its weights or a table read by rows.
  virtual Result<T> take_stored(const std::string& name, const std::vector<int64_t>& shape, Init init) {
    return take(name, shape, init);
  }
};
using ParameterSource = ParameterSourceOf<Tensor>;

// Parameters of a checkpoint. Weights may be of any floating dtype; take() returns them as float32.
// Contiguous float32 tensors are not copied: they use the caller's memory (a mapped file).
class LoadedParameters : public ParameterSource {
 public:
  explicit LoadedParameters(TensorMap tensors) : tensors_(std::move(tensors)) {}
  Result<Tensor> take(const std::string& name, const std::vector<int64_t>& shape, Init init) override;
  Result<Tensor> take_stored(const std::string& name, const std::vector<int64_t>& shape, Init init) override;
  // Returns the names that were not requested.
  [[nodiscard]] std::vector<std::string> unused() const;
  // Returns kBadData with the name of the first tensor that was not requested. Such a tensor belongs to a
  // part that this model lacks, and its results would be silently wrong. `ignored` lists names without effect
  // in a family (buffers of its reference); a name that begins with "*" matches all names with that suffix.
  [[nodiscard]] Status all_used(std::span<const std::string_view> ignored) const;

 private:
  TensorMap tensors_;
  std::set<std::string> taken_;
};

// Returns the tensors of an open file. They share the file's memory: they are valid as long as the file is,
// and must not be written to. Returns kUnsupported with the name of the first tensor of an unsupported type
// (unsigned above 8 bits). Skipping it would hide a missing or an unused tensor.
Result<TensorMap> borrow_tensors(const SafeTensors& file);
Result<TensorMap> borrow_tensors(const TorchFile& file);

// Releases the memory of a tensor of borrow_tensors in a mapped file; the next access reads the file again.
// Does nothing for other tensors.
void release_borrowed(const Tensor& tensor);

// Returns a view for write_safetensors. The tensor must be contiguous and outlive the view.
TensorView view_of(const Tensor& tensor);

}  // namespace saccade::nn
