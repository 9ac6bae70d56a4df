#include "saccade/nn/tensor.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "saccade/nn/kernels/convert.h"

namespace saccade::nn {
namespace {

// Address of the data of tensors without elements, which are still defined tensors.
char no_elements;

[[noreturn]] void refuse(const char* what, const Tensor& tensor, const Shape& other = {}) {
  throw std::logic_error(
      fmt::format("{}: shape {}, {}", what, shape_text(tensor.sizes()), shape_text(other)));
}

// Iterates over all elements of a shape, with the innermost dimension as one row. Calls body(offset_a,
// offset_b) with the offsets of each row's first element.
template <typename Body>
void for_rows(const Shape& shape, const Shape& strides_a, const Shape& strides_b, const Body& body) {
  const size_t outer = shape.empty() ? 0 : shape.size() - 1;
  std::vector<int64_t> place(outer, 0);
  int64_t a = 0;
  int64_t b = 0;
  for (;;) {
    body(a, b);
    size_t d = outer;
    for (; d > 0; --d) {
      a += strides_a[d - 1];
      b += strides_b[d - 1];
      if (++place[d - 1] < shape[d - 1]) break;
      a -= strides_a[d - 1] * shape[d - 1];
      b -= strides_b[d - 1] * shape[d - 1];
      place[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t side : shape) count *= side;
  return count;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Workspace* workspace_of(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors) {
    if (tensor->workspace() != nullptr) return tensor->workspace();
  }
  return nullptr;
}

Tensor Tensor::empty(Shape shape, DType dtype, Workspace* workspace) {
  Tensor tensor;
  const int64_t count = element_count(shape);
  if (count < 0) throw std::logic_error(fmt::format("a tensor of shape {}", shape_text(shape)));
  tensor.strides_ = contiguous_strides(shape);
  tensor.shape_ = std::move(shape);
  tensor.dtype_ = dtype;
  if (workspace != nullptr) tensor.workspace_ = workspace->link();
  const auto bytes = static_cast<size_t>(count * dtype_size(dtype));
  tensor.owner_ = workspace == nullptr ? allocate_plain(bytes) : workspace->allocate(bytes);
  tensor.data_ = tensor.owner_.get();
  return tensor;
}

Tensor Tensor::zeros(Shape shape, DType dtype, Workspace* workspace) {
  Tensor tensor = empty(std::move(shape), dtype, workspace);
  std::memset(tensor.data_, 0, static_cast<size_t>(tensor.nbytes()));
  return tensor;
}

Tensor Tensor::full(Shape shape, float value, Workspace* workspace) {
  Tensor tensor = empty(std::move(shape), DType::kF32, workspace);
  tensor.fill(value);
  return tensor;
}

Tensor Tensor::full_integers(Shape shape, int64_t value, Workspace* workspace) {
  Tensor tensor = empty(std::move(shape), DType::kI64, workspace);
  std::fill_n(tensor.data<int64_t>(), tensor.numel(), value);
  return tensor;
}

Tensor Tensor::of(std::span<const float> values, Shape shape) {
  Tensor tensor = empty(std::move(shape));
  if (static_cast<int64_t>(values.size()) != tensor.numel()) refuse("values for a tensor", tensor);
  std::copy(values.begin(), values.end(), tensor.data<float>());
  return tensor;
}

Tensor Tensor::of(std::span<const int64_t> values, Shape shape) {
  Tensor tensor = empty(std::move(shape), DType::kI64);
  if (static_cast<int64_t>(values.size()) != tensor.numel()) refuse("values for a tensor", tensor);
  std::copy(values.begin(), values.end(), tensor.data<int64_t>());
  return tensor;
}

Tensor Tensor::borrow(const void* data, Shape shape, DType dtype, Workspace* workspace) {
  Shape strides = contiguous_strides(shape);
  return borrow(data, std::move(shape), std::move(strides), dtype, workspace);
}

Tensor Tensor::borrow(const void* data, Shape shape, Shape strides, DType dtype, Workspace* workspace) {
  Tensor tensor;
  tensor.shape_ = std::move(shape);
  tensor.strides_ = std::move(strides);
  tensor.dtype_ = dtype;
  tensor.data_ = data == nullptr ? &no_elements : const_cast<void*>(data);
  if (workspace != nullptr) tensor.workspace_ = workspace->link();
  return tensor;
}

bool Tensor::is_floating_point() const {
  return dtype_ == DType::kF16 || dtype_ == DType::kBF16 || dtype_ == DType::kF32 || dtype_ == DType::kF64;
}

size_t Tensor::index_of(int64_t dimension) const {
  const int64_t index = dimension < 0 ? dimension + dim() : dimension;
  if (index < 0 || index >= dim()) {
    throw std::logic_error(
        fmt::format("dimension {} of a tensor of shape {}", dimension, shape_text(shape_)));
  }
  return static_cast<size_t>(index);
}

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != expected) return numel() == 0;
    expected *= shape_[i];
  }
  return true;
}

std::span<float> Tensor::floats() const {
  if (dtype_ != DType::kF32 || !is_contiguous())
    refuse("floats of a tensor that is not float32 in a row", *this);
  return {data<float>(), static_cast<size_t>(numel())};
}

std::span<int64_t> Tensor::integers() const {
  if (dtype_ != DType::kI64 || !is_contiguous())
    refuse("integers of a tensor that is not int64 in a row", *this);
  return {data<int64_t>(), static_cast<size_t>(numel())};
}

double Tensor::item() const {
  if (numel() != 1) refuse("the only value of a tensor", *this);
  double value = 0;
  convert(raw(), dtype_, 1, &value, DType::kF64, 1, 1);
  return value;
}

double Tensor::at(std::initializer_list<int64_t> place) const {
  Tensor one = *this;
  for (const int64_t index : place) one = one.select(0, index);
  return one.item();
}

Tensor Tensor::view(Shape shape) const {
  int64_t known = 1;
  for (const int64_t side : shape) known *= side == -1 ? 1 : side;
  for (int64_t& side : shape) {
    if (side == -1) side = known == 0 ? 0 : numel() / known;
  }
  if (element_count(shape) != numel()) refuse("view of a tensor", *this, shape);
  if (!is_contiguous()) refuse("view of a tensor that does not lie in a row", *this, shape);
  Tensor seen = *this;
  seen.strides_ = contiguous_strides(shape);
  seen.shape_ = std::move(shape);
  return seen;
}

Tensor Tensor::slice(int64_t dimension, int64_t first, int64_t last) const {
  const size_t d = index_of(dimension);
  const int64_t side = shape_[d];
  first = std::clamp<int64_t>(first < 0 ? first + side : first, 0, side);
  last = std::clamp<int64_t>(last < 0 ? last + side : last, first, side);
  Tensor seen = *this;
  seen.shape_[d] = last - first;
  if (first < side) {
    seen.data_ = static_cast<std::byte*>(data_) + first * strides_[d] * dtype_size(dtype_);
  }
  return seen;
}

Tensor Tensor::select(int64_t dimension, int64_t index) const {
  const size_t d = index_of(dimension);
  const int64_t at = index < 0 ? index + shape_[d] : index;
  if (at < 0 || at >= shape_[d]) refuse("one of a tensor", *this, {index});
  Tensor seen = slice(dimension, at, at + 1);
  seen.shape_.erase(seen.shape_.begin() + static_cast<std::ptrdiff_t>(d));
  seen.strides_.erase(seen.strides_.begin() + static_cast<std::ptrdiff_t>(d));
  return seen;
}

Tensor Tensor::transpose(int64_t a, int64_t b) const {
  Tensor seen = *this;
  std::swap(seen.shape_[index_of(a)], seen.shape_[index_of(b)]);
  std::swap(seen.strides_[index_of(a)], seen.strides_[index_of(b)]);
  return seen;
}

Tensor Tensor::permute(const Shape& order) const {
  if (static_cast<int64_t>(order.size()) != dim()) refuse("order of dimensions", *this, order);
  Tensor seen = *this;
  for (size_t i = 0; i < order.size(); ++i) {
    seen.shape_[i] = shape_[index_of(order[i])];
    seen.strides_[i] = strides_[index_of(order[i])];
  }
  return seen;
}

Tensor Tensor::unsqueeze(int64_t dimension) const {
  const int64_t at = dimension < 0 ? dimension + dim() + 1 : dimension;
  Tensor seen = *this;
  const auto place = static_cast<std::ptrdiff_t>(at);
  seen.shape_.insert(seen.shape_.begin() + place, 1);
  seen.strides_.insert(seen.strides_.begin() + place, 1);
  return seen;
}

Tensor Tensor::expand(const Shape& shape) const {
  const auto added = static_cast<int64_t>(shape.size()) - dim();
  if (added < 0) refuse("expand", *this, shape);
  Tensor seen = *this;
  seen.shape_ = shape;
  seen.strides_.assign(shape.size(), 0);
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t from = static_cast<int64_t>(i) - added;
    if (from < 0) continue;
    const int64_t side = shape_[static_cast<size_t>(from)];
    int64_t& wanted = seen.shape_[i];
    if (wanted == -1) wanted = side;
    if (wanted != side && side != 1) refuse("expand", *this, shape);
    if (wanted == side) seen.strides_[i] = strides_[static_cast<size_t>(from)];
  }
  return seen;
}

Tensor Tensor::chunk(int64_t chunks, int64_t index, int64_t dimension) const {
  const int64_t each = size(dimension) / chunks;
  return slice(dimension, index * each, (index + 1) * each);
}

Tensor Tensor::restrided(Shape shape, Shape strides) const {
  Tensor seen = *this;
  seen.shape_ = std::move(shape);
  seen.strides_ = std::move(strides);
  return seen;
}

Tensor Tensor::reshape(Shape shape) const {
  return contiguous().view(std::move(shape));
}

Tensor Tensor::contiguous() const {
  return is_contiguous() ? *this : clone();
}

Tensor Tensor::clone() const {
  Tensor copy = empty(shape_, dtype_, workspace());
  copy.copy_from(*this);
  return copy;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor converted = empty(shape_, dtype, workspace());
  converted.copy_from(*this);
  return converted;
}

Tensor Tensor::in(Workspace* workspace) const {
  Tensor tensor = *this;
  tensor.workspace_ = workspace == nullptr ? nullptr : workspace->link();
  return tensor;
}

void Tensor::fill(float value) const {
  if (dtype_ != DType::kF32) refuse("fill of a tensor that is not float32", *this);
  if (numel() == 0) return;
  const int64_t columns = shape_.empty() ? 1 : shape_.back();
  const int64_t stride = shape_.empty() ? 1 : strides_.back();
  for_rows(shape_, strides_, strides_, [&](int64_t row, int64_t) {
    for (int64_t i = 0; i < columns; ++i) data<float>()[row + i * stride] = value;
  });
}

void Tensor::copy_from(const Tensor& other) const {
  if (shape_ != other.shape_) refuse("copy between tensors", *this, other.shape_);
  if (numel() == 0) return;
  const int64_t size_to = dtype_size(dtype_);
  const int64_t size_from = dtype_size(other.dtype_);
  if (is_contiguous() && other.is_contiguous()) {
    const auto piece = [&](int64_t first, int64_t last, int) {
      convert(static_cast<const std::byte*>(other.data_) + first * size_from, other.dtype_, 1,
              static_cast<std::byte*>(data_) + first * size_to, dtype_, 1, last - first);
    };
    Workspace* workspace = workspace_of({this, &other});
    if (workspace == nullptr) return piece(0, numel(), 0);
    return workspace->workers().split(numel(), 1 << 16, piece);
  }
  const int64_t columns = shape_.empty() ? 1 : shape_.back();
  const int64_t stride_to = shape_.empty() ? 1 : strides_.back();
  const int64_t stride_from = shape_.empty() ? 1 : other.strides_.back();
  for_rows(shape_, other.strides_, strides_, [&](int64_t from, int64_t to) {
    convert(static_cast<const std::byte*>(other.data_) + from * size_from, other.dtype_, stride_from,
            static_cast<std::byte*>(data_) + to * size_to, dtype_, stride_to, columns);
  });
}

Tensor Tensor::kept_by(std::shared_ptr<void> owner) const {
  Tensor tensor = *this;
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::as_mapped() const {
  Tensor tensor = *this;
  tensor.mapped_ = true;
  return tensor;
}

}  // namespace saccade::nn
