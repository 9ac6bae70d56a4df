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
  // Views contiguous rows: the stride is `columns`.
  MatrixView(T* data, int64_t rows, int64_t columns) : MatrixView(data, rows, columns, columns) {}
  // Views rows that begin `stride` elements apart.
  MatrixView(T* data, int64_t rows, int64_t columns, int64_t stride)
      : data_(data), rows_(rows), columns_(columns), stride_(stride) {
    assert(rows >= 0 && columns >= 0 && stride >= columns);
  }
  // A view of const from a view of non-const.
  template <typename U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>)
      MatrixView(const MatrixView<U>& other)  // NOLINT(google-explicit-constructor)
      : MatrixView(other.data(), other.rows(), other.columns(), other.stride()) {}

  // First element; `nullptr` for a view of nothing.
  [[nodiscard]] T* data() const { return data_; }
  // Number of rows.
  [[nodiscard]] int64_t rows() const { return rows_; }
  // Number of elements of a row.
  [[nodiscard]] int64_t columns() const { return columns_; }
  // Number of elements from the beginning of a row to that of the next.
  [[nodiscard]] int64_t stride() const { return stride_; }
  // True without rows or without columns.
  [[nodiscard]] bool empty() const { return rows_ == 0 || columns_ == 0; }

  // Row `r`, [columns]; 0 <= r < rows(), checked in debug builds.
  [[nodiscard]] std::span<T> row(int64_t r) const {
    assert(r >= 0 && r < rows_);
    return {data_ + r * stride_, static_cast<size_t>(columns_)};
  }
  // Element in row `r` and column `c`; both in range, checked in debug builds.
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
  // Makes a matrix of zeros.
  Matrix(int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns), data_(static_cast<size_t>(rows * columns)) {}
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  // Takes the rows of another matrix.
  Matrix(Matrix&&) noexcept = default;
  // Takes the rows of another matrix.
  Matrix& operator=(Matrix&&) noexcept = default;
  ~Matrix() = default;

  // Returns a copy.
  [[nodiscard]] Matrix copy() const {
    Matrix result;
    result.rows_ = rows_;
    result.columns_ = columns_;
    result.data_ = data_;
    return result;
  }

  // Number of rows.
  [[nodiscard]] int64_t rows() const { return rows_; }
  // Number of elements of a row.
  [[nodiscard]] int64_t columns() const { return columns_; }
  // First element.
  [[nodiscard]] T* data() { return data_.data(); }
  // First element.
  [[nodiscard]] const T* data() const { return data_.data(); }
  // All elements, row by row.
  [[nodiscard]] std::span<T> values() { return data_; }
  // All elements, row by row.
  [[nodiscard]] std::span<const T> values() const { return data_; }
  // Row `r`, [columns]; 0 <= r < rows().
  [[nodiscard]] std::span<T> row(int64_t r) { return view().row(r); }
  // Row `r`, [columns]; 0 <= r < rows().
  [[nodiscard]] std::span<const T> row(int64_t r) const { return view().row(r); }
  // Element in row `r` and column `c`; both in range.
  [[nodiscard]] T& operator()(int64_t r, int64_t c) { return view()(r, c); }
  // Element in row `r` and column `c`; both in range.
  [[nodiscard]] const T& operator()(int64_t r, int64_t c) const { return view()(r, c); }
  // All rows. Valid as long as this matrix.
  [[nodiscard]] MatrixView<T> view() { return {data(), rows_, columns_}; }
  // All rows. Valid as long as this matrix.
  [[nodiscard]] MatrixView<const T> view() const { return {data(), rows_, columns_}; }

 private:
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  std::vector<T> data_;
};

}  // namespace saccade
