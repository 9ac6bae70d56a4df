// The part of libtorch's headers that is used here: tensors, their operations
// and automatic differentiation. All of them (torch/torch.h: modules,
// optimizers, data loaders) take about twice as long to compile, in every file.
#pragma once

#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>
