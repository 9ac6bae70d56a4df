// Vectorized activations and their derivatives (lanes.h), float32 throughout. Internal to the module's kernel
// files.
#pragma once

#include "saccade/nn/activation.h"
#include "saccade/nn/kernels/lanes.h"

namespace saccade::nn {

// Clamping bound: beyond it, e^x or its inverse is negligible.
inline constexpr float kFarthest = 80;

// Computes 1 / (1 + e^-z).
template <int W>
SACCADE_INLINE void logistic(typename Lanes<W>::Floats& z) {
  using Floats = typename Lanes<W>::Floats;
  Floats e = -z;
  e = e > kFarthest ? Floats{} + kFarthest : e;
  e = e < -kFarthest ? Floats{} - kFarthest : e;
  exp_between<W>(e);
  z = 1.F / (1.F + e);
}

// Computes Phi(x) by the erf approximation of Abramowitz and Stegun, 7.1.26, to 1.5e-7.
template <int W>
SACCADE_INLINE void normal_distribution(typename Lanes<W>::Floats& x) {
  using Floats = typename Lanes<W>::Floats;
  Floats z = x;
  absolute<W>(z);
  z *= 0.70710678118654752F;
  const Floats t = 1.F / (1.F + 0.3275911F * z);
  Floats e = -z * z;
  e = e < -kFarthest ? Floats{} - kFarthest : e;
  exp_between<W>(e);
  const Floats p =
      ((((1.061405429F * t - 1.453152027F) * t + 1.421413741F) * t - 0.284496736F) * t + 0.254829592F) * t;
  const Floats tail = 0.5F * p * e;  // Phi(-|x|)
  x = x < 0 ? tail : 1.F - tail;
}

template <int W, Activation kActivation>
SACCADE_INLINE void activate(typename Lanes<W>::Floats& x) {
  using Floats = typename Lanes<W>::Floats;
  Floats factor = x;
  switch (kActivation) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      x = x < 0 ? Floats{} : x;
      return;
    case Activation::kGelu:
      normal_distribution<W>(factor);
      break;
    case Activation::kQuickGelu:
      factor *= 1.702F;
      logistic<W>(factor);
      break;
    case Activation::kGeluTanh:
      // (1 + tanh(u)) / 2 = logistic(2 u)
      factor = 1.5957691216F * (x + 0.044715F * x * x * x);
      logistic<W>(factor);
      break;
    case Activation::kSilu:
      logistic<W>(factor);
      break;
  }
  x *= factor;
}

// Computes the activation's derivative at x.
template <int W, Activation kActivation>
SACCADE_INLINE void slope(typename Lanes<W>::Floats& x) {
  using Floats = typename Lanes<W>::Floats;
  Floats s = x;
  switch (kActivation) {
    case Activation::kNone:
      x = x * 0.F + 1.F;
      return;
    case Activation::kRelu:
      x = x > 0 ? x * 0.F + 1.F : Floats{};
      return;
    case Activation::kGelu: {
      Floats density = -0.5F * x * x;
      exp_of<W>(density);
      normal_distribution<W>(s);
      x = s + x * 0.39894228040F * density;
      return;
    }
    case Activation::kQuickGelu:
      s *= 1.702F;
      logistic<W>(s);
      x = s + 1.702F * x * s * (1.F - s);
      return;
    case Activation::kGeluTanh: {
      const Floats square = x * x;
      s = 1.5957691216F * (x + 0.044715F * x * square);
      logistic<W>(s);
      x = s + x * s * (1.F - s) * 1.5957691216F * (1.F + 0.134145F * square);
      return;
    }
    case Activation::kSilu:
      logistic<W>(s);
      x = s + x * s * (1.F - s);
      return;
  }
}

}  // namespace saccade::nn
