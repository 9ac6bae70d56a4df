// Projections of embeddings to two dimensions, for people to look at: principal components and t-SNE. Also
// measures the modality gap between the images and texts of a shared space.
//
// Everything here is a function of its input alone: no random start, the same for any number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/matrix.h"
#include "saccade/progress.h"

namespace saccade::lab {

struct PrincipalComponents {
  Matrix<double> coordinates;  // [n, k], of the rows less their mean; each column's largest entry is positive
  std::vector<double> share;   // [k] of the total variance, descending; 0 if there is no variance
};

// Computes the first k components of rows [n, d], by orthogonal iteration with Rayleigh-Ritz steps (Golub and
// Van Loan, "Matrix Computations", 4th ed., 8.2.4). The matrix is the covariance or, if d > n, the rows'
// inner products. It stops when the residual of every component is below 1e-10 of the largest eigenvalue, or
// after 2,000 steps. Errors: kUsage unless 1 <= k <= min(n, d); kBadData names a row that is not finite.
// Cost: n d min(n, d) multiply-adds, and min(n, d)^2 (k + 8) per step. Thread-safe.
Result<PrincipalComponents> principal_components(MatrixView<const float> rows, int64_t k, ThreadPool& pool);

struct TsneOptions {
  double perplexity = 30;  // lowered to (n - 1) / 3 where there are too few points
  int64_t iterations = 750;
  int64_t exaggerated = 250;  // the first of them, with attraction times 12
};

struct Tsne {
  Matrix<double> points;  // [n, 2]
  double perplexity = 0;  // as used
  double divergence = 0;  // Kullback-Leibler, which t-SNE minimizes
};

// Computes exact t-SNE of rows [n, d] with Euclidean distances (van der Maaten and Hinton, JMLR 9 (2008)). It
// starts from the first two principal components (Kobak and Berens, Nature Communications 10 (2019)), with
// learning rate max(50, n / 48). Errors: kUsage for fewer than 4 points or a perplexity below 1; kLimit for
// more than 10,000 points; kBadData names a row that is not finite. Memory: 12 n^2 bytes. Cost: n^2 pairs per
// iteration, about 5 ms for 2,000 points on two processors.
Result<Tsne> tsne(MatrixView<const float> rows, const TsneOptions& options, ThreadPool& pool,
                  const ProgressCallback& progress = {}, std::stop_token stop = {});

// Computes p(j | i) of t-SNE: a Gaussian around point i. Its width is found by bisection, so that the
// perplexity (two to the entropy in bits) is the given one to 1e-7 of it. squared_distances: from i to all
// points; [self] is left out. If too many points are equally near, the perplexity is the best that is
// possible.
std::vector<double> neighbour_probabilities(std::span<const double> squared_distances, int64_t self,
                                            double perplexity);

// Modality gap: images and texts of a shared space mostly lie apart (Liang et al., "Mind the gap", NeurIPS
// 2022).
struct ModalityGap {
  double distance = 0;           // between the mean of the images and that of the texts, all of length 1
  double other_kind_share = 0;   // share of points whose nearest other point is of the other kind
  double other_kind_chance = 0;  // the same were the kinds mixed at random
};

// Measures the modality gap. images: [n, d], texts: [m, d]; rows are normalized. The first of equally near
// points counts. Errors: kMismatch for different widths; kBadData for no rows, and for rows that are zero or
// not finite. Cost: (n + m)^2 d multiply-adds.
Result<ModalityGap> modality_gap(MatrixView<const float> images, MatrixView<const float> texts,
                                 ThreadPool& pool);

}  // namespace saccade::lab
