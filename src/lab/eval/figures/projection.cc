#include "lab/eval/figures/projection.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "lab/eval/rows/pair_scores.h"
#include "saccade/core/rows.h"

namespace saccade::lab {
namespace {

constexpr int64_t kMaxTsnePoints = 10'000;

Status check_finite(MatrixView<const float> rows, std::string_view what) {
  for (int64_t r = 0; r < rows.rows(); ++r) {
    for (const float value : rows.row(r)) {
      if (!std::isfinite(value))
        return fail(ErrorCode::kBadData, "{} {}: {} is not a number", what, r, value);
    }
  }
  return {};
}

// --- Principal components -------------------------------------------------------------------------------

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Computes eigenvalues (descending) and eigenvectors (columns of `vectors`) of a small symmetric matrix, by
// cyclic Jacobi rotations (Golub and Van Loan, 8.5.2).
void jacobi(Matrix<double>& a, std::vector<double>& values, Matrix<double>& vectors) {
  const int64_t n = a.rows();
  vectors = Matrix<double>(n, n);
  for (int64_t i = 0; i < n; ++i) vectors(i, i) = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double outside = 0;
    double inside = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) (i == j ? inside : outside) += a(i, j) * a(i, j);
    }
    if (outside <= 1e-32 * inside) break;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (a(p, q) == 0) continue;
        const double tau = (a(q, q) - a(p, p)) / (2 * a(p, q));
        const double t = (tau >= 0 ? 1 : -1) / (std::abs(tau) + std::hypot(1.0, tau));
        const double c = 1 / std::hypot(1.0, t);
        const double s = t * c;
        for (int64_t i = 0; i < n; ++i) {
          const double ip = a(i, p);
          const double iq = a(i, q);
          a(i, p) = c * ip - s * iq;
          a(i, q) = s * ip + c * iq;
        }
        for (int64_t i = 0; i < n; ++i) {
          const double pi = a(p, i);
          const double qi = a(q, i);
          a(p, i) = c * pi - s * qi;
          a(q, i) = s * pi + c * qi;
          const double ip = vectors(i, p);
          const double iq = vectors(i, q);
          vectors(i, p) = c * ip - s * iq;
          vectors(i, q) = s * ip + c * iq;
        }
      }
    }
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t i, int64_t j) { return a(i, i) > a(j, j); });
  Matrix<double> sorted(n, n);
  values.assign(static_cast<size_t>(n), 0);
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    values[static_cast<size_t>(j)] = a(from, from);
    for (int64_t i = 0; i < n; ++i) sorted(i, j) = vectors(i, from);
  }
  vectors = std::move(sorted);
}

// Makes the rows of `block` [b, m] orthonormal, by Gram-Schmidt done twice. A row that vanishes becomes zero:
// it is past the matrix's rank.
void orthonormalize(Matrix<double>& block) {
  for (int64_t r = 0; r < block.rows(); ++r) {
    const double before = row_length(block.row(r));
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t q = 0; q < r; ++q) {
        const double along = dot(block.row(r), block.row(q));
        for (int64_t c = 0; c < block.columns(); ++c) block(r, c) -= along * block(q, c);
      }
    }
    const double length = row_length(block.row(r));
    const double scale = length > 1e-13 * before && length > 0 ? 1 / length : 0;
    for (double& value : block.row(r)) value *= scale;
  }
}

// Returns out[i] = sum_j weights(j, i) block[j]: the block in another basis of its span.
Matrix<double> rotate(const Matrix<double>& block, const Matrix<double>& weights) {
  Matrix<double> out(block.rows(), block.columns());
  for (int64_t i = 0; i < block.rows(); ++i) {
    for (int64_t j = 0; j < block.rows(); ++j) {
      const double weight = weights(j, i);
      for (int64_t c = 0; c < block.columns(); ++c) out(i, c) += weight * block(j, c);
    }
  }
  return out;
}

struct Eigen {
  std::vector<double> values;
  Matrix<double> vectors;  // [k, m], a vector a row
};

// Computes the k largest eigenvalues of a symmetric, positive semidefinite matrix [m, m].
Eigen largest_eigen(const Matrix<double>& matrix, int64_t k, ThreadPool& pool) {
  const int64_t m = matrix.rows();
  const int64_t width = std::min(m, k + 8);
  Matrix<double> block(width, m);
  // Any start works that is not orthogonal to the wanted vectors. This generator is the same in every
  // library.
  std::minstd_rand random(1);
  for (double& value : block.values()) value = static_cast<double>(random()) / 2147483647.0 - 0.5;
  orthonormalize(block);
  Eigen result;
  for (int step = 0; step < 2000; ++step) {
    Matrix<double> image(width, m);
    pool.parallel_for(m, 64, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t i = 0; i < width; ++i) image(i, r) = dot(matrix.row(r), block.row(i));
      }
    });
    Matrix<double> small(width, width);
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t j = 0; j < width; ++j) small(i, j) = dot(block.row(i), image.row(j));
    }
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t j = 0; j < i; ++j) small(i, j) = small(j, i) = (small(i, j) + small(j, i)) / 2;
    }
    std::vector<double> values;
    Matrix<double> basis;
    jacobi(small, values, basis);
    block = rotate(block, basis);
    image = rotate(image, basis);
    double worst = 0;
    for (int64_t i = 0; i < k; ++i) {
      double squares = 0;
      for (int64_t c = 0; c < m; ++c) {
        const double off = image(i, c) - values[static_cast<size_t>(i)] * block(i, c);
        squares += off * off;
      }
      worst = std::max(worst, std::sqrt(squares));
    }
    result.values.assign(values.begin(), values.begin() + k);
    result.vectors = block.copy();
    if (worst <= 1e-10 * std::max(values[0], 1e-300)) break;
    block = std::move(image);
    orthonormalize(block);
  }
  return result;
}

Matrix<double> centred(MatrixView<const float> rows) {
  std::vector<double> mean(static_cast<size_t>(rows.columns()));
  for (int64_t r = 0; r < rows.rows(); ++r) {
    for (int64_t c = 0; c < rows.columns(); ++c) mean[static_cast<size_t>(c)] += rows(r, c);
  }
  Matrix<double> out(rows.rows(), rows.columns());
  for (int64_t r = 0; r < rows.rows(); ++r) {
    for (int64_t c = 0; c < rows.columns(); ++c) {
      out(r, c) = rows(r, c) - mean[static_cast<size_t>(c)] / static_cast<double>(rows.rows());
    }
  }
  return out;
}

Matrix<double> transposed(const Matrix<double>& matrix) {
  Matrix<double> out(matrix.columns(), matrix.rows());
  for (int64_t r = 0; r < matrix.rows(); ++r) {
    for (int64_t c = 0; c < matrix.columns(); ++c) out(c, r) = matrix(r, c);
  }
  return out;
}

// Computes the inner products of all pairs of rows.
Matrix<double> inner_products(const Matrix<double>& rows, ThreadPool& pool) {
  Matrix<double> out(rows.rows(), rows.rows());
  pool.parallel_for(rows.rows(), 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j <= i; ++j) out(i, j) = dot(rows.row(i), rows.row(j));
    }
  });
  for (int64_t i = 0; i < out.rows(); ++i) {
    for (int64_t j = 0; j < i; ++j) out(j, i) = out(i, j);
  }
  return out;
}

// --- t-SNE ----------------------------------------------------------------------------------------------

// Squared Euclidean distances of row `self` to all rows, from `products` (of self with all) and `squares`.
void squared_distances(std::span<const float> products, std::span<const double> squares, int64_t self,
                       std::span<double> out) {
  for (size_t j = 0; j < out.size(); ++j) {
    out[j] = std::max(0.0, squares[static_cast<size_t>(self)] + squares[j] - 2.0 * products[j]);
  }
}

// Computes the joint probabilities, [n, n]: symmetric, with a sum of 1.
Result<Matrix<float>> joint_probabilities(MatrixView<const float> rows, double perplexity, ThreadPool& pool) {
  const int64_t n = rows.rows();
  SACCADE_ASSIGN(const auto scores, dot_scores(rows, rows));
  std::vector<double> squares(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    float square = 0;
    scores->score(i, 1, i, 1, &square, 1, 1);
    squares[static_cast<size_t>(i)] = square;
  }
  Matrix<float> conditional(n, n);
  pool.parallel_for(n, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> products(static_cast<size_t>(n));
    std::vector<double> distances(static_cast<size_t>(n));
    for (int64_t i = begin; i < end; ++i) {
      scores->score(i, 1, 0, n, products.data(), n, 1);
      squared_distances(products, squares, i, distances);
      const std::vector<double> p = neighbour_probabilities(distances, i, perplexity);
      for (int64_t j = 0; j < n; ++j) conditional(i, j) = static_cast<float>(p[static_cast<size_t>(j)]);
    }
  });
  const auto scale = static_cast<float>(1.0 / (2.0 * static_cast<double>(n)));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      float both = (conditional(i, j) + conditional(j, i)) * scale;
      // Tiny values are set to 0. Products with them would be denormal numbers, at a tenth of the speed.
      if (both < 1e-24F) both = 0;
      conditional(i, j) = conditional(j, i) = both;
    }
  }
  return conditional;
}

// Forces on one point: sums over the others of q = 1 / (1 + distance^2), of p q (y_i - y_j) and of q^2 (y_i -
// y_j).
struct Forces {
  double q = 0;
  std::array<double, 2> attraction = {0, 0};
  std::array<double, 2> repulsion = {0, 0};
};

Forces forces_on(int64_t self, std::span<const float> p, std::span<const float> x, std::span<const float> y) {
  // Each lane has its own sum, because compilers do not reorder a plain loop's float sums into vectors.
  using Lanes = float __attribute__((vector_size(32)));
  constexpr size_t kLanes = sizeof(Lanes) / sizeof(float);
  Lanes q_sum{};
  Lanes pull_x{};
  Lanes pull_y{};
  Lanes push_x{};
  Lanes push_y{};
  const float at_x = x[static_cast<size_t>(self)];
  const float at_y = y[static_cast<size_t>(self)];
  for (size_t j = 0; j < x.size(); j += kLanes) {
    Lanes other_x{};
    Lanes other_y{};
    Lanes weight{};
    Lanes there{};
    const size_t count = std::min(kLanes, x.size() - j);
    if (count == kLanes) {
      std::memcpy(&other_x, x.data() + j, sizeof(Lanes));
      std::memcpy(&other_y, y.data() + j, sizeof(Lanes));
      std::memcpy(&weight, p.data() + j, sizeof(Lanes));
      there = there + 1.0F;
    } else {
      for (size_t lane = 0; lane < count; ++lane) {
        other_x[lane] = x[j + lane];
        other_y[lane] = y[j + lane];
        weight[lane] = p[j + lane];
        there[lane] = 1;
      }
    }
    const Lanes dx = at_x - other_x;
    const Lanes dy = at_y - other_y;
    const Lanes q = there / (1.0F + dx * dx + dy * dy);
    q_sum += q;
    pull_x += weight * q * dx;
    pull_y += weight * q * dy;
    push_x += q * q * dx;
    push_y += q * q * dy;
  }
  const auto total = [](const Lanes& lanes) {
    double sum = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
    return sum;
  };
  return Forces{
      total(q_sum) - 1, {total(pull_x), total(pull_y)}, {total(push_x), total(push_y)}};  // -1: itself
}

// Computes the sum of p log(p / q) over pairs.
double divergence_of(const Matrix<float>& p, std::span<const float> x, std::span<const float> y,
                     double q_total) {
  double sum = 0;
  for (int64_t i = 0; i < p.rows(); ++i) {
    for (int64_t j = 0; j < p.columns(); ++j) {
      if (i == j || p(i, j) <= 0) continue;
      const double dx = x[static_cast<size_t>(i)] - x[static_cast<size_t>(j)];
      const double dy = y[static_cast<size_t>(i)] - y[static_cast<size_t>(j)];
      const double q = 1 / (1 + dx * dx + dy * dy) / q_total;
      sum += p(i, j) * std::log(p(i, j) / q);
    }
  }
  return sum;
}

struct Descent {
  std::vector<float> x;
  std::vector<float> y;
  std::vector<Forces> forces;
  double q_total = 0;
};

// Computes forces at the current positions. q_total is summed in the points' order, on any number of threads.
void compute_forces(const Matrix<float>& p, Descent& descent, ThreadPool& pool) {
  pool.parallel_for(p.rows(), 32, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      descent.forces[static_cast<size_t>(i)] = forces_on(i, p.row(i), descent.x, descent.y);
    }
  });
  descent.q_total = 0;
  for (const Forces& each : descent.forces) descent.q_total += each.q;
}

// Runs gradient descent with momentum and a gain per coordinate (van der Maaten and Hinton, section 3.4).
Status descend(const Matrix<float>& p, const TsneOptions& options, Descent& descent, ThreadPool& pool,
               const ProgressCallback& progress, const std::stop_token& stop) {
  const auto n = static_cast<size_t>(p.rows());
  const double rate = std::max(50.0, static_cast<double>(n) / 48);
  std::vector<std::array<double, 2>> step(n);
  std::vector<std::array<double, 2>> gain(n, {1, 1});
  for (int64_t iteration = 0; iteration < options.iterations; ++iteration) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped while making the map");
    const bool early = iteration < options.exaggerated;
    const double exaggeration = early ? 12 : 1;
    const double momentum = early ? 0.5 : 0.8;
    compute_forces(p, descent, pool);
    std::array<double, 2> mean = {0, 0};
    for (size_t i = 0; i < n; ++i) {
      for (size_t axis = 0; axis < 2; ++axis) {
        const Forces& force = descent.forces[i];
        const double gradient =
            4 * (exaggeration * force.attraction[axis] - force.repulsion[axis] / descent.q_total);
        const bool onward = (gradient > 0) != (step[i][axis] > 0);
        gain[i][axis] = std::max(0.01, onward ? gain[i][axis] + 0.2 : gain[i][axis] * 0.8);
        step[i][axis] = momentum * step[i][axis] - rate * gain[i][axis] * gradient;
        float& place = axis == 0 ? descent.x[i] : descent.y[i];
        place = static_cast<float>(place + step[i][axis]);
        mean[axis] += place;
      }
    }
    for (size_t i = 0; i < n; ++i) {
      descent.x[i] -= static_cast<float>(mean[0] / static_cast<double>(n));
      descent.y[i] -= static_cast<float>(mean[1] / static_cast<double>(n));
    }
    if (progress && iteration % 50 == 0) progress({"t-SNE", iteration, options.iterations, ""});
  }
  compute_forces(p, descent, pool);
  return {};
}

}  // namespace

Result<PrincipalComponents> principal_components(MatrixView<const float> rows, int64_t k, ThreadPool& pool) {
  const int64_t n = rows.rows();
  const int64_t d = rows.columns();
  if (k < 1 || k > std::min(n, d)) {
    return fail(ErrorCode::kUsage, "{} principal components of {} rows of {}: at least 1 and at most {}", k,
                n, d, std::min(n, d));
  }
  SACCADE_TRY(check_finite(rows, "row"));
  const Matrix<double> centre = centred(rows);
  const bool over_rows = d > n;
  const Matrix<double> columns = over_rows ? Matrix<double>() : transposed(centre);
  const Matrix<double> products = inner_products(over_rows ? centre : columns, pool);
  double total = 0;
  for (int64_t i = 0; i < products.rows(); ++i) total += products(i, i);
  const Eigen eigen = largest_eigen(products, k, pool);

  PrincipalComponents result;
  result.coordinates = Matrix<double>(n, k);
  for (int64_t c = 0; c < k; ++c) {
    const double value = std::max(0.0, eigen.values[static_cast<size_t>(c)]);
    result.share.push_back(total > 0 ? value / total : 0);
    double largest = 0;
    for (int64_t r = 0; r < n; ++r) {
      const double place =
          over_rows ? eigen.vectors(c, r) * std::sqrt(value) : dot(centre.row(r), eigen.vectors.row(c));
      result.coordinates(r, c) = place;
      if (std::abs(place) > std::abs(largest)) largest = place;
    }
    if (largest < 0) {
      for (int64_t r = 0; r < n; ++r) result.coordinates(r, c) = -result.coordinates(r, c);
    }
  }
  return result;
}

std::vector<double> neighbour_probabilities(std::span<const double> squared_distances, int64_t self,
                                            double perplexity) {
  const auto left_out = static_cast<size_t>(self);
  double nearest = std::numeric_limits<double>::infinity();
  for (size_t j = 0; j < squared_distances.size(); ++j) {
    if (j != left_out) nearest = std::min(nearest, squared_distances[j]);
  }
  const double wanted = std::log(perplexity);
  std::vector<double> p(squared_distances.size());
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  double beta = 1;  // 1 / (2 sigma^2)
  for (int step = 0; step < 200; ++step) {
    // Subtracting the smallest distance leaves the distribution unchanged and makes its largest term 1.
    double sum = 0;
    double weighted = 0;
    for (size_t j = 0; j < p.size(); ++j) {
      const double beyond = squared_distances[j] - nearest;
      p[j] = j == left_out ? 0 : std::exp(-beta * beyond);
      sum += p[j];
      weighted += p[j] * (j == left_out ? 0 : beyond);
    }
    for (double& each : p) each /= sum;
    const double entropy = std::log(sum) + beta * weighted / sum;  // in nats
    if (std::abs(entropy - wanted) < 1e-7) break;
    if (entropy > wanted) {
      low = beta;
      beta = std::isinf(high) ? beta * 2 : (beta + high) / 2;
    } else {
      high = beta;
      beta = (beta + low) / 2;
    }
    if (beta > 1e300) break;
  }
  return p;
}

Result<Tsne> tsne(MatrixView<const float> rows, const TsneOptions& options, ThreadPool& pool,
                  const ProgressCallback& progress, std::stop_token stop) {
  const int64_t n = rows.rows();
  if (n < 4) return fail(ErrorCode::kUsage, "t-SNE of {} points: needs at least 4", n);
  if (n > kMaxTsnePoints) {
    return fail(ErrorCode::kLimit, "t-SNE of {} points: at most {}", n, kMaxTsnePoints);
  }
  if (!(options.perplexity >= 1)) {
    return fail(ErrorCode::kUsage, "perplexity {}: must be at least 1", options.perplexity);
  }
  SACCADE_TRY(check_finite(rows, "row"));
  Tsne result;
  result.perplexity = std::min(options.perplexity, static_cast<double>(n - 1) / 3);
  SACCADE_ASSIGN(const Matrix<float> p, joint_probabilities(rows, result.perplexity, pool));
  Descent descent;
  descent.x.assign(static_cast<size_t>(n), 0);
  descent.y.assign(static_cast<size_t>(n), 0);
  descent.forces.resize(static_cast<size_t>(n));
  const int64_t axes = std::min<int64_t>(2, rows.columns());
  SACCADE_ASSIGN(const PrincipalComponents start, principal_components(rows, axes, pool));
  double variance = 0;
  for (int64_t i = 0; i < n; ++i) variance += start.coordinates(i, 0) * start.coordinates(i, 0);
  const double deviation = std::sqrt(variance / static_cast<double>(n));
  for (int64_t i = 0; i < n; ++i) {
    // The standard deviation is 1e-4. Equal rows would stay in one place, so each is moved by a tiny amount.
    const double nudge = 1e-7 * (static_cast<double>(i % 17) - 8);
    const auto at = static_cast<size_t>(i);
    const double scale = deviation > 0 ? 1e-4 / deviation : 0;
    descent.x[at] = static_cast<float>(scale * start.coordinates(i, 0) + nudge);
    descent.y[at] = static_cast<float>((axes > 1 ? scale * start.coordinates(i, 1) : 0) - nudge);
  }
  SACCADE_TRY(descend(p, options, descent, pool, progress, stop));
  result.divergence = divergence_of(p, descent.x, descent.y, descent.q_total);
  result.points = Matrix<double>(n, 2);
  for (int64_t i = 0; i < n; ++i) {
    result.points(i, 0) = descent.x[static_cast<size_t>(i)];
    result.points(i, 1) = descent.y[static_cast<size_t>(i)];
  }
  return result;
}

Result<ModalityGap> modality_gap(MatrixView<const float> images, MatrixView<const float> texts,
                                 ThreadPool& pool) {
  if (images.columns() != texts.columns()) {
    return fail(ErrorCode::kMismatch, "images are {} wide, texts {}", images.columns(), texts.columns());
  }
  if (images.empty() || texts.empty())
    return fail(ErrorCode::kBadData, "no {}", images.empty() ? "images" : "texts");
  SACCADE_TRY(check_finite(images, "image"));
  SACCADE_TRY(check_finite(texts, "text"));
  const int64_t n = images.rows();
  const int64_t all = n + texts.rows();
  const int64_t d = images.columns();
  Matrix<float> rows(all, d);
  std::array<std::vector<double>, 2> mean = {std::vector<double>(static_cast<size_t>(d)),
                                             std::vector<double>(static_cast<size_t>(d))};
  for (int64_t r = 0; r < all; ++r) {
    const std::span<const float> row = r < n ? images.row(r) : texts.row(r - n);
    const double length = row_length(row);
    if (length == 0) {
      return fail(ErrorCode::kBadData, "{} {} is all zeros", r < n ? "image" : "text", r < n ? r : r - n);
    }
    for (int64_t c = 0; c < d; ++c) {
      const double value = row[static_cast<size_t>(c)] / length;
      rows(r, c) = static_cast<float>(value);
      mean[r < n ? 0 : 1][static_cast<size_t>(c)] += value / static_cast<double>(r < n ? n : all - n);
    }
  }
  ModalityGap gap;
  for (size_t c = 0; c < mean[0].size(); ++c) {
    gap.distance += (mean[0][c] - mean[1][c]) * (mean[0][c] - mean[1][c]);
  }
  gap.distance = std::sqrt(gap.distance);

  SACCADE_ASSIGN(const auto scores, dot_scores(rows.view(), rows.view()));
  std::vector<uint8_t> crosses(static_cast<size_t>(all));
  pool.parallel_for(all, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> products(static_cast<size_t>(all));
    for (int64_t i = begin; i < end; ++i) {
      scores->score(i, 1, 0, all, products.data(), all, 1);
      products[static_cast<size_t>(i)] = -2;  // below every cosine
      const int64_t nearest = std::ranges::max_element(products) - products.begin();
      crosses[static_cast<size_t>(i)] = (nearest < n) != (i < n) ? 1 : 0;
    }
  });
  const auto count = static_cast<double>(all);
  gap.other_kind_share = std::accumulate(crosses.begin(), crosses.end(), 0.0) / count;
  gap.other_kind_chance =
      all > 1 ? 2.0 * static_cast<double>(n) * static_cast<double>(all - n) / (count * (count - 1)) : 0;
  return gap;
}

}  // namespace saccade::lab
