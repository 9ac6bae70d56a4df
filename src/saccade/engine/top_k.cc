#include "saccade/top_k.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/embeddings.h"
#include "saccade/index/exact_search.h"

namespace saccade {
namespace {

// Number of results, of which a matrix has the size.
constexpr int64_t kMostResults = int64_t{1} << 48;

// A copy with rows of length 1; rows of zeros stay.
Matrix<float> normalized(MatrixView<const float> rows) {
  Matrix<float> copy(rows.rows(), rows.columns());
  for (int64_t r = 0; r < rows.rows(); ++r) {
    double squares = 0;
    for (const float value : rows.row(r)) squares += static_cast<double>(value) * value;
    const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
    std::ranges::transform(rows.row(r), copy.row(r).begin(),
                           [scale](float value) { return static_cast<float>(value * scale); });
  }
  return copy;
}

}  // namespace

static std::span<const EnumName<Metric>> enum_names(Metric) {
  static constexpr std::array<EnumName<Metric>, 2> kNames{
      {{Metric::kInnerProduct, "inner_product"}, {Metric::kCosine, "cosine"}}};
  return kNames;
}
std::string_view name(Metric metric) {
  return enum_name(metric);
}
Result<Metric> parse_metric(std::string_view name) {
  return parse_name<Metric>("metric", name);
}

float dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += static_cast<double>(a[i]) * b[i];
  return static_cast<float>(sum);
}

Result<TopK> top_k(MatrixView<const float> queries, MatrixView<const float> rows, int64_t k,
                   const TopKOptions& options) {
  if (k < 1) return fail(ErrorCode::kUsage, "k is {}, expected 1 or more", k);
  const int64_t most = kMostResults / std::max<int64_t>(1, queries.rows());
  if (k > most) {
    return fail(ErrorCode::kUsage, "k is {}, expected {} or less for {} queries", k, most, queries.rows());
  }
  SACCADE_TRY(check_threads(options.threads));
  Matrix<float> unit_queries;
  Matrix<float> unit_rows;
  if (options.metric == Metric::kCosine) {
    unit_queries = normalized(queries);
    unit_rows = normalized(rows);
    queries = unit_queries.view();
    rows = unit_rows.view();
  }
  ThreadPool pool(options.threads);
  SACCADE_ASSIGN(
      const FoundRows found,
      find_rows({.rows = rows, .allowed = options.allowed, .stop = options.stop}, queries, k, pool));
  TopK top{Matrix<int64_t>(queries.rows(), k), Matrix<float>(queries.rows(), k)};
  for (int64_t q = 0; q < queries.rows(); ++q) {
    const std::vector<RowScore>& best = found.best[static_cast<size_t>(q)];
    for (int64_t i = 0; i < k; ++i) {
      const bool there = i < std::ssize(best);
      top.rows(q, i) = there ? best[static_cast<size_t>(i)].row : -1;
      top.scores(q, i) = there ? best[static_cast<size_t>(i)].score : -std::numeric_limits<float>::infinity();
    }
  }
  return top;
}

}  // namespace saccade
