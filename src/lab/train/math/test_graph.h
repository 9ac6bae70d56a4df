// Measures of libtorch's work for tests: size of the graph behind a result, number of operations that ran.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include "lab/train/math/torch.h"

namespace saccade::lab::test {

// Counts the nodes of the graph behind a tensor.
inline size_t graph_size(const torch::Tensor& tensor) {
  std::set<const torch::autograd::Node*> seen;
  std::vector<const torch::autograd::Node*> open = {tensor.grad_fn().get()};
  while (!open.empty()) {
    const torch::autograd::Node* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    for (const torch::autograd::Edge& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return seen.size();
}

// Counts the operations that libtorch runs while it lives, in all threads. One at a time.
class OperationCount {
 public:
  OperationCount()
      : handle_(
            at::addGlobalCallback(at::RecordFunctionCallback(add_one).scopes({at::RecordScope::FUNCTION}))) {
    counted_ = 0;
  }
  OperationCount(const OperationCount&) = delete;
  OperationCount& operator=(const OperationCount&) = delete;
  ~OperationCount() { at::removeCallback(handle_); }

  [[nodiscard]] int64_t operations() const { return counted_; }

 private:
  static std::unique_ptr<at::ObserverContext> add_one(const at::RecordFunction& /*function*/) {
    ++counted_;
    return nullptr;
  }
  static inline std::atomic<int64_t> counted_ = 0;
  at::CallbackHandle handle_;
};

}  // namespace saccade::lab::test
