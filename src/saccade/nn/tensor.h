// Tensor: shared memory with values of one type, seen under a shape.
//
// Copies, slices and views of a tensor are handles to the same memory, as in other libraries; nothing here
// computes gradients. Values lie in a file mapping, in memory of their own, or in the workspace of a forward
// pass (workspace.h). In the last case, results computed from them lie there too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "saccade/core/files/safetensors.h"
#include "saccade/nn/workspace.h"

namespace saccade::nn {

using Shape = std::vector<int64_t>;

int64_t element_count(const Shape& shape);

// Negative dimensions count from the end: -1 is the last. Violating a function's shape requirements is a bug
// of the caller and throws std::logic_error with the shapes.
class Tensor {
 public:
  Tensor() = default;  // undefined: no tensor

  // Allocates an uninitialized tensor in the workspace, or in memory of its own if `workspace` is nullptr.
  static Tensor empty(Shape shape, DType dtype = DType::kF32, Workspace* workspace = nullptr);
  static Tensor zeros(Shape shape, DType dtype = DType::kF32, Workspace* workspace = nullptr);
  static Tensor full(Shape shape, float value, Workspace* workspace = nullptr);
  static Tensor full_integers(Shape shape, int64_t value, Workspace* workspace = nullptr);
  // Copies row-major values.
  static Tensor of(std::span<const float> values, Shape shape);
  static Tensor of(std::span<const int64_t> values, Shape shape);
  // Makes a tensor over borrowed memory, which must outlive the tensor and all that share it.
  static Tensor borrow(const void* data, Shape shape, DType dtype, Workspace* workspace = nullptr);
  static Tensor borrow(const void* data, Shape shape, Shape strides, DType dtype,
                       Workspace* workspace = nullptr);

  [[nodiscard]] bool defined() const { return data_ != nullptr; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] bool is_floating_point() const;
  [[nodiscard]] int64_t dim() const { return static_cast<int64_t>(shape_.size()); }
  [[nodiscard]] const Shape& sizes() const { return shape_; }
  [[nodiscard]] int64_t size(int64_t dimension) const { return shape_[index_of(dimension)]; }
  [[nodiscard]] const Shape& strides() const { return strides_; }  // in elements
  [[nodiscard]] int64_t stride(int64_t dimension) const { return strides_[index_of(dimension)]; }
  [[nodiscard]] int64_t numel() const { return element_count(shape_); }
  [[nodiscard]] int64_t nbytes() const { return numel() * dtype_size(dtype_); }
  [[nodiscard]] bool is_contiguous() const;
  [[nodiscard]] Workspace* workspace() const { return workspace_ ? *workspace_ : nullptr; }

  // Returns the first element. A tensor is a handle: data behind a const one can be written to, unless it
  // lies in a mapped file.
  [[nodiscard]] void* raw() const { return data_; }
  template <typename T>
  [[nodiscard]] T* data() const {
    return static_cast<T*>(data_);
  }
  // Returns all values of a contiguous float32 tensor.
  [[nodiscard]] std::span<float> floats() const;
  [[nodiscard]] std::span<int64_t> integers() const;  // requires a contiguous int64 tensor
  // Returns the only value.
  [[nodiscard]] double item() const;
  // Returns the value at a position.
  [[nodiscard]] double at(std::initializer_list<int64_t> place) const;

  // Return other views of the same memory.
  [[nodiscard]] Tensor view(Shape shape) const;  // requires a contiguous tensor; -1 infers one dimension
  [[nodiscard]] Tensor slice(int64_t dimension, int64_t first, int64_t last = INT64_MAX) const;
  [[nodiscard]] Tensor select(int64_t dimension, int64_t index) const;
  [[nodiscard]] Tensor operator[](int64_t index) const { return select(0, index); }
  [[nodiscard]] Tensor transpose(int64_t a, int64_t b) const;
  [[nodiscard]] Tensor t() const { return transpose(0, 1); }
  [[nodiscard]] Tensor permute(const Shape& order) const;
  [[nodiscard]] Tensor unsqueeze(int64_t dimension) const;
  // Broadcasts dimensions of 1 (with stride 0) and adds leading ones; -1 keeps a dimension.
  [[nodiscard]] Tensor expand(const Shape& shape) const;
  [[nodiscard]] Tensor chunk(int64_t chunks, int64_t index, int64_t dimension) const;

  // Returns a view with any shape and strides, counted from the first element. All reachable elements must
  // belong to the tensor.
  [[nodiscard]] Tensor restrided(Shape shape, Shape strides) const;

  // Returns a view if the memory layout allows one, otherwise a copy.
  [[nodiscard]] Tensor reshape(Shape shape) const;
  [[nodiscard]] Tensor contiguous() const;
  [[nodiscard]] Tensor clone() const;
  // Converts to another type; returns itself if it already has that type. Rounds to nearest even. Converts
  // halves, bfloat16, float32 and float64 into each other, and integers into int64, float32 and float64.
  [[nodiscard]] Tensor to(DType dtype) const;
  // Returns the same handle, bound to that workspace: results computed from it are allocated there.
  [[nodiscard]] Tensor in(Workspace* workspace) const;

  // Sets every value of a float32 tensor.
  void fill(float value) const;
  // Copies the other's values, of the same shape, with conversion.
  void copy_from(const Tensor& other) const;

  // Returns a tensor over borrowed memory owned by `owner`, which is kept as long as the tensor and all that
  // share it live.
  [[nodiscard]] Tensor kept_by(std::shared_ptr<void> owner) const;

  // Returns true if the tensor lies in a mapped file, like those of borrow_tensors (parameters.h).
  [[nodiscard]] bool is_mapped() const { return mapped_; }
  [[nodiscard]] Tensor as_mapped() const;

 private:
  [[nodiscard]] size_t index_of(int64_t dimension) const;

  Shape shape_;
  Shape strides_;
  DType dtype_ = DType::kF32;
  bool mapped_ = false;
  void* data_ = nullptr;
  std::shared_ptr<void> owner_;
  std::shared_ptr<Workspace*> workspace_;
};

using TensorMap = std::map<std::string, Tensor>;

// Returns the row-major strides of a shape. Must not be called with a dimension of 0, because the other
// dimensions may then have any size.
Shape contiguous_strides(const Shape& shape);

// Returns the workspace for a result computed from all of these: the first one's that has one.
Workspace* workspace_of(std::initializer_list<const Tensor*> tensors);

}  // namespace saccade::nn
