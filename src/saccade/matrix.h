// Row-major matrices: a view that borrows and a matrix that owns.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace saccade {

// Borrowed rows, [rows, columns], each row `stride` elements after the one before (stride >= columns).
// Copying is free; the owner must outlive the view. Safe to read from many threads.
template <typename T>
class MatrixView {
 public:
  MatrixView() = default;
  MatrixView(T* data, int64_t rows, int64_t columns) : MatrixView(data, rows, columns, columns) {}
  MatrixView(T* data, int64_t rows, int64_t columns, int64_t stride)
      : data_(data), rows_(rows), columns_(columns), stride_(stride) {
    assert(rows >= 0 && columns >= 0 && stride >= columns);
  }
  // A view of const from a view of non-const.
  template <typename U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>)
      MatrixView(const MatrixView<U>& other)  // NOLINT(google-explicit-constructor)
      : MatrixView(other.data(), other.rows(), other.columns(), other.stride()) {}

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t columns() const { return columns_; }
  [[nodiscard]] int64_t stride() const { return stride_; }
  [[nodiscard]] bool empty() const { return rows_ == 0 || columns_ == 0; }

  [[nodiscard]] std::span<T> row(int64_t r) const {
    assert(r >= 0 && r < rows_);
    return {data_ + r * stride_, static_cast<size_t>(columns_)};
  }
  [[nodiscard]] T& operator()(int64_t r, int64_t c) const {
    assert(c >= 0 && c < columns_);
    return row(r)[static_cast<size_t>(c)];
  }
  // Rows [first, first + count).
  [[nodiscard]] MatrixView slice(int64_t first, int64_t count) const {
    assert(first >= 0 && count >= 0 && first + count <= rows_);
    return MatrixView(data_ + first * stride_, count, columns_, stride_);
  }

 private:
  T* data_ = nullptr;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t stride_ = 0;
};

// Owned rows, [rows, columns], contiguous. Move-only, so that no large copy happens by accident.
template <typename T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns), data_(static_cast<size_t>(rows * columns)) {}
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  Matrix(Matrix&&) noexcept = default;
  Matrix& operator=(Matrix&&) noexcept = default;
  ~Matrix() = default;

  [[nodiscard]] Matrix copy() const {
    Matrix result;
    result.rows_ = rows_;
    result.columns_ = columns_;
    result.data_ = data_;
    return result;
  }

  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t columns() const { return columns_; }
  [[nodiscard]] T* data() { return data_.data(); }
  [[nodiscard]] const T* data() const { return data_.data(); }
  [[nodiscard]] std::span<T> values() { return data_; }
  [[nodiscard]] std::span<const T> values() const { return data_; }
  [[nodiscard]] std::span<T> row(int64_t r) { return view().row(r); }
  [[nodiscard]] std::span<const T> row(int64_t r) const { return view().row(r); }
  [[nodiscard]] T& operator()(int64_t r, int64_t c) { return view()(r, c); }
  [[nodiscard]] const T& operator()(int64_t r, int64_t c) const { return view()(r, c); }
  [[nodiscard]] MatrixView<T> view() { return {data(), rows_, columns_}; }
  [[nodiscard]] MatrixView<const T> view() const { return {data(), rows_, columns_}; }

 private:
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  std::vector<T> data_;
};

}  // namespace saccade
