// The part of libtorch's headers used here: tensors, their operations and automatic differentiation.
// Including all (torch/torch.h: modules, optimizers, data loaders) takes about twice as long to compile, in
// every file.
#pragma once

#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>
