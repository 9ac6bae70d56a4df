// The part of libtorch's headers used here: tensors, their operations and automatic differentiation.
// Including all (torch/torch.h: modules, optimizers, data loaders) takes about twice as long to compile, in
// every file.
#pragma once

#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "saccade/matrix.h"

namespace saccade::lab {

// Returns a view of a tensor [rows, columns], contiguous and on the processor.
inline MatrixView<const float> view(const torch::Tensor& rows) {
  return {rows.data_ptr<float>(), rows.size(0), rows.size(1)};
}
inline torch::Tensor torch_copy(const Matrix<float>& rows) {
  return torch::from_blob(const_cast<float*>(rows.data()), {rows.rows(), rows.columns()}).clone();
}

}  // namespace saccade::lab
