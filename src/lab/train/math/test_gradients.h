// Derivatives by central differences, for tests of gradients.
#pragma once

#include "lab/train/math/torch.h"

namespace saccade::test {}

namespace saccade::lab::test {

using namespace saccade::test;

// Returns the derivative of loss() with respect to `value`, which is restored.
template <typename Loss>
double derivative(double& value, double step, const Loss& loss) {
  const double before = value;
  value = before + step;
  const double above = loss();
  value = before - step;
  const double below = loss();
  value = before;
  return (above - below) / (2 * step);
}

// Returns the derivative of loss() along `direction`, a step of the parameter, which is restored. Called without gradients.
template <typename Loss>
double derivative_along(const torch::Tensor& direction, const torch::Tensor& parameter, double step,
                        const Loss& loss) {
  const torch::Tensor before = parameter.clone();
  torch::Tensor moved = parameter;  // the same memory
  moved.add_(direction, step);
  const double above = loss();
  moved.copy_(before).sub_(direction, step);
  const double below = loss();
  moved.copy_(before);
  return (above - below) / (2 * step);
}

}  // namespace saccade::lab::test
