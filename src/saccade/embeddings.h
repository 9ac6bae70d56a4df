// Embeddings: vectors of length 1 in the space that a model's images and texts share.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "saccade/matrix.h"
#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// An input that was skipped, with the reason.
struct SkippedInput {
  int64_t index = 0;  // position among the inputs, from 0
  Error error = {};   // why it has no embedding
};

// Owns float32 vectors, [n, dim], each of length 1, row-major and contiguous. Movable, not copyable. A value: reading it
// from several threads is safe.
class Embeddings {
 public:
  Embeddings() = default;
  // Takes vectors of length 1, [n, dim], and the inputs that have none.
  explicit Embeddings(Matrix<float> rows, std::vector<SkippedInput> skipped = {})
      : rows_(std::move(rows)), skipped_(std::move(skipped)) {}

  // Number of vectors.
  [[nodiscard]] int64_t size() const { return rows_.rows(); }
  // Number of values of each vector.
  [[nodiscard]] int64_t dim() const { return rows_.columns(); }
  // Vector `i`, [dim]; 0 <= i < size(). Valid as long as these embeddings.
  [[nodiscard]] std::span<const float> row(int64_t i) const { return rows_.row(i); }
  // All vectors, [n, dim]. Valid as long as these embeddings.
  [[nodiscard]] MatrixView<const float> view() const { return rows_.view(); }
  // Converts to view(), for functions that take a matrix.
  operator MatrixView<const float>() const { return view(); }  // NOLINT(google-explicit-constructor)

  // Inputs that have no vector here, in order; only with OnError::kSkip. The vectors are those of the other inputs, in
  // order.
  [[nodiscard]] const std::vector<SkippedInput>& skipped() const { return skipped_; }

  // Takes the matrix out.
  [[nodiscard]] Matrix<float> release() && { return std::move(rows_); }

 private:
  Matrix<float> rows_;
  std::vector<SkippedInput> skipped_;
};

// Returns the dot product of two vectors of equal width; of embeddings it is the cosine similarity. Values that only one of
// them has are ignored. Sums in double. Thread-safe.
float dot(std::span<const float> a, std::span<const float> b);

}  // namespace saccade
#pragma GCC visibility pop
