// Values of the library as Python's: arrays without a copy, structures as dictionaries.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/embeddings.h"
#include "saccade/encoder.h"
#include "saccade/matrix.h"
#include "saccade/precision.h"

namespace saccade::python {

namespace nb = nanobind;

// Float32 rows from Python, [n, dim]; each row contiguous. saccade/_arrays.py has checked them.
using RowsIn = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;

inline MatrixView<const float> view_of(const RowsIn& rows) {
  const auto columns = static_cast<int64_t>(rows.shape(1));
  const int64_t stride = rows.shape(0) > 1 ? rows.stride(0) : columns;
  return {rows.data(), static_cast<int64_t>(rows.shape(0)), columns, stride};
}

// An array that owns `values`.
template <typename T>
nb::object array_of(std::vector<T> values, const std::vector<size_t>& shape) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* held) noexcept { delete static_cast<std::vector<T>*>(held); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner));
}

// An array that owns the matrix, [rows, columns].
template <typename T>
nb::object array_of(Matrix<T> matrix) {
  auto* kept = new Matrix<T>(std::move(matrix));
  const nb::capsule owner(kept, [](void* held) noexcept { delete static_cast<Matrix<T>*>(held); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<2>>(
      kept->data(), {static_cast<size_t>(kept->rows()), static_cast<size_t>(kept->columns())}, owner));
}

// None, or the value.
template <typename T>
nb::object or_none(const std::optional<T>& value) {
  return value ? nb::cast(*value) : nb::none();
}

// The bytes of os.fsencode, as paths are passed here.
inline std::string raw(const nb::bytes& bytes) {
  return {bytes.c_str(), bytes.size()};
}
// A string of any bytes, as Python has file names: what is no UTF-8 becomes surrogates (os.fsdecode).
nb::str text_of_path(const std::string& bytes);
// A string that should be UTF-8; what is not becomes U+FFFD.
nb::str text_of(std::string_view bytes);

// (kind, message) as saccade/_errors.py takes them.
nb::tuple error_of(const Error& error);
nb::object tokens_of(const std::optional<TokenUse>& use);

}  // namespace saccade::python
