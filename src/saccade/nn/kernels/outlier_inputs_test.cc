// Tests of the detection of outlier channels.
#include "saccade/nn/kernels/outlier_inputs.h"

#include <vector>

#include <gtest/gtest.h>

#include "saccade/nn/test_tensors.h"

namespace saccade::nn {
namespace {

using test::random_tensor;

std::vector<Tensor> with_inputs_of(const std::vector<float>& factors) {
  std::vector<Tensor> weights = {random_tensor({200, 96}, 1, 0.1F), random_tensor({40, 96}, 2, 0.1F)};
  for (const Tensor& weight : weights) {
    for (int64_t output = 0; output < weight.size(0); ++output) {
      for (size_t i = 0; i < factors.size(); ++i) {
        weight.data<float>()[output * 96 + 7 * static_cast<int64_t>(i)] *= factors[i];
      }
    }
  }
  return weights;
}

TEST(OutlierInputs, AreThoseOfSmallWeights) {
  EXPECT_EQ(outlier_inputs({}), 0);
  EXPECT_EQ(outlier_inputs(with_inputs_of({})), 0);
  EXPECT_EQ(outlier_inputs(with_inputs_of({0.05F, 20})), 0);
  EXPECT_EQ(outlier_inputs(with_inputs_of({1 / 35.F, 1, 1 / 100.F})), 2);
  EXPECT_EQ(outlier_inputs(with_inputs_of({0, 1e-6F})), 0) << "dead ones";
  const std::vector<Tensor> half = {with_inputs_of({1 / 35.F})[0].to(DType::kBF16)};
  EXPECT_EQ(outlier_inputs(half), 1);
  EXPECT_EQ(outlier_inputs({Tensor::full({4, 8}, std::nanf(""))}), 0);
}

TEST(OutlierInputs, AskForMoreBitsOfIntegersAlone) {
  const std::vector<Tensor> ordinary = with_inputs_of({});
  const std::vector<Tensor> outliers = with_inputs_of({1 / 35.F});
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    EXPECT_EQ(packing_of_first(ordinary, dtype), dtype);
  }
  EXPECT_EQ(packing_of_first(outliers, DType::kF32), DType::kF32);
  EXPECT_EQ(packing_of_first(outliers, DType::kBF16), DType::kBF16);
  EXPECT_EQ(packing_of_first(outliers, DType::kI8), multiplies(DType::kBF16) ? DType::kBF16 : DType::kF32);
}

}  // namespace
}  // namespace saccade::nn
