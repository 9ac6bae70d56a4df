// From the sums of a panel of outputs to a layer's results: bias, activation, residual sum, rounding to bfloat16. Internal to the
// module's kernel files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "saccade/nn/kernels/activation_lanes.h"
#include "saccade/nn/kernels/panel_task.h"

namespace saccade::nn {

template <int W, Activation kActivation, bool kAccumulate, typename Out, typename Value>
SACCADE_INLINE void write_row_as(const PanelResults& results, int64_t row, const Value& value_of) {
  using Floats = typename Lanes<W>::Floats;
  Out* out = static_cast<Out*>(results.out) + row * results.out_stride;
  Out partial[kPanelOutputs];
  Out* to = results.outputs == kPanelOutputs ? out : partial;
  if (kAccumulate && to == partial) std::copy_n(out, results.outputs, partial);
  SACCADE_UNROLL
  for (int64_t c = 0; c < kPanelOutputs; c += W) {
    Floats value;
    Floats bias;
    value_of(c, value);
    load(bias, results.bias + c);
    value += bias;
    activate<W, kActivation>(value);
    if constexpr (std::is_same_v<Out, uint16_t>) {
      store_halves<W>(to + c, value);
    } else {
      if constexpr (kAccumulate) {
        Floats before;
        load(before, to + c);
        value += before;
      }
      store(to + c, value);
    }
  }
  if (to == partial) std::copy_n(partial, results.outputs, out);
}

template <int W, Activation kActivation, typename Value>
SACCADE_INLINE void write_row_with(const PanelResults& results, int64_t row, const Value& value_of) {
  if (results.accumulate) return write_row_as<W, kActivation, true, float>(results, row, value_of);
  if (results.halves) return write_row_as<W, kActivation, false, uint16_t>(results, row, value_of);
  write_row_as<W, kActivation, false, float>(results, row, value_of);
}

// Writes the results of a row. value_of(c, value): sets a vector of W floats to the sums of the outputs from c on.
template <int W, typename Value>
SACCADE_INLINE void write_row(const PanelResults& results, int64_t row, const Value& value_of) {
  switch (results.activation) {
    case Activation::kNone:
      return write_row_with<W, Activation::kNone>(results, row, value_of);
    case Activation::kGelu:
      return write_row_with<W, Activation::kGelu>(results, row, value_of);
    case Activation::kQuickGelu:
      return write_row_with<W, Activation::kQuickGelu>(results, row, value_of);
    case Activation::kGeluTanh:
      return write_row_with<W, Activation::kGeluTanh>(results, row, value_of);
    case Activation::kRelu:
      return write_row_with<W, Activation::kRelu>(results, row, value_of);
    case Activation::kSilu:
      return write_row_with<W, Activation::kSilu>(results, row, value_of);
  }
}

}  // namespace saccade::nn
