// Shared parts of the layers over oneDNN: support for both interfaces (2.x and 3.x), and primitives cached
// per shape.
//
// Every primitive runs on one thread; each of the workspace's workers runs one on a part of the rows or
// images. Therefore each is created with OneDnnThreads(1) in force, and gets its scratch memory from its
// worker.
#pragma once

#include <map>
#include <mutex>

#include "saccade/core/process/memory_reserve.h"
#include "saccade/nn/activation.h"
#include "saccade/nn/tensor.h"

#include <dnnl.hpp>

namespace saccade::nn {

// Maps kF32 and kBF16 to oneDNN's data type.
inline dnnl::memory::data_type dnnl_type(DType dtype) {
  return dtype == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

inline void append_activation(dnnl::post_ops& operations, Activation activation) {
  const auto append = [&](dnnl::algorithm algorithm, float alpha) {
#if DNNL_VERSION_MAJOR >= 3
    operations.append_eltwise(algorithm, alpha, 0);
#else
    operations.append_eltwise(1, algorithm, alpha, 0);
#endif
  };
  switch (activation) {
    case Activation::kGelu:
      return append(dnnl::algorithm::eltwise_gelu_erf, 0);
    case Activation::kQuickGelu:
      return append(dnnl::algorithm::eltwise_swish, 1.702F);
    case Activation::kGeluTanh:
      return append(dnnl::algorithm::eltwise_gelu_tanh, 0);
    case Activation::kRelu:
      return append(dnnl::algorithm::eltwise_relu, 0);
    case Activation::kSilu:
      return append(dnnl::algorithm::eltwise_swish, 1);
    case Activation::kNone:
      break;
  }
}

// Address space for what oneDNN compiles, to be made before anything is described or compiled: oneDNN does not look
// whether it got memory for its code and its records, and the process would end. Lends the process's reserve meanwhile.
class CompileMemory {
 public:
  CompileMemory();  // throws std::bad_alloc where there is no room

 private:
  LentMemoryReserve reserve_;
};

// Primitives that were compiled before, by what they are for: making one costs as much as a small product.
template <typename Key, typename Made>
class PrimitiveCache {
 public:
  // Returns the cached result of `make` for this key; calls `make` on a miss. Thread-safe.
  template <typename Make>
  Made get(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    auto found = made_.find(key);
    if (found == made_.end()) {
      const CompileMemory room;
      if (made_.size() >= 256) made_.clear();  // texts of many lengths: bounded
      found = made_.emplace(key, make()).first;
    }
    return found->second;
  }

 private:
  std::mutex mutex_;
  std::map<Key, Made> made_;
};

}  // namespace saccade::nn
