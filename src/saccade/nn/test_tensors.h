// For tests of what computes with tensors: how far two are apart, and whether gradients are right.
#pragma once

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "saccade/nn/parameters.h"
#include "saccade/nn/torch.h"

namespace saccade::test {

inline double max_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// Central differences of `loss`, a number, in the direction of one random vector a parameter, against
// autograd. The tolerance is relative to 1 + the derivative.
inline void expect_gradients_match_finite_differences(const nn::InitializedParameters& parameters,
                                                      const std::function<torch::Tensor()>& loss, double step,
                                                      double tolerance) {
  loss().backward();
  for (const auto& [name, parameter] : parameters.parameters()) {
    const torch::Tensor direction = torch::randn_like(parameter);
    const double predicted = (parameter.grad() * direction).sum().item<double>();
    const torch::NoGradGuard no_grad;
    parameter.add_(direction, step);
    const double up = loss().item<double>();
    parameter.sub_(direction, 2 * step);
    const double down = loss().item<double>();
    parameter.add_(direction, step);
    EXPECT_NEAR((up - down) / (2 * step), predicted, tolerance * (1 + std::abs(predicted))) << name;
  }
}

}  // namespace saccade::test
