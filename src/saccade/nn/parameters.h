// Where a model's parameters come from: a checkpoint's tensors, or fresh random values for training.
//
// A model asks for each parameter by name and shape while it is built, whichever the source; so the list of
// names, the shape checks and the initial values stand in one place, beside the layer they belong to.
#pragma once

#include <cstdint>
#include <map>
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

// The distribution a parameter starts from when nothing is loaded.
struct Init {
  double mean = 0;
  double std = 0;  // 0: every value is `mean`
};

// T: Tensor for inference, Variable (lab/train/math/variable.h) for training.
template <typename T>
class ParameterSourceOf {
 public:
  virtual ~ParameterSourceOf() = default;
  // The parameter of that name; an error if the source has none of that shape.
  virtual Result<T> take(const std::string& name, const std::vector<int64_t>& shape, Init init) = 0;
  // The same for those who convert what they use of it themselves (a layer that packs its weights, a table
  // read by rows): of whatever floating dtype and strides it is kept in, so that nothing is copied.
  virtual Result<T> take_stored(const std::string& name, const std::vector<int64_t>& shape, Init init) {
    return take(name, shape, init);
  }
};
using ParameterSource = ParameterSourceOf<Tensor>;

// Parameters of a checkpoint. Weights may be of any floating dtype; take() hands them out as float32, and the
// memory of contiguous float32 tensors is the caller's own (a mapped file), not copied.
class LoadedParameters : public ParameterSource {
 public:
  explicit LoadedParameters(TensorMap tensors) : tensors_(std::move(tensors)) {}
  Result<Tensor> take(const std::string& name, const std::vector<int64_t>& shape, Init init) override;
  Result<Tensor> take_stored(const std::string& name, const std::vector<int64_t>& shape, Init init) override;
  // Names nobody has asked for.
  [[nodiscard]] std::vector<std::string> unused() const;
  // kBadData names the first tensor nobody has asked for: it belongs to some part of a model that this one
  // lacks, whose answers would silently be others. `ignored` are the names a family knows to change nothing
  // (buffers of its reference); one that begins with "*" stands for all names that end in the rest.
  [[nodiscard]] Status all_used(std::span<const std::string_view> ignored) const;

 private:
  TensorMap tensors_;
  std::set<std::string> taken_;
};

// The tensors of an open file, sharing the file's memory: they live as long as it does, and must not be
// written to. kUnsupported names the first tensor of a type that nothing here reads (unsigned above 8 bits):
// left out, it would be missing to those who need it, and not too many to those who have no place for it.
Result<TensorMap> borrow_tensors(const SafeTensors& file);
Result<TensorMap> borrow_tensors(const TorchFile& file);

// Gives back the memory that a tensor of borrow_tensors takes where its file is mapped: it is read from the
// file again when it is asked for again. Nothing happens to other tensors.
void release_borrowed(const Tensor& tensor);

// The view write_safetensors takes. The tensor must be contiguous, and outlive the view.
TensorView view_of(const Tensor& tensor);

}  // namespace saccade::nn
