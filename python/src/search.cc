#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <optional>
#include <string>
#include <utility>

#include "saccade/late_interaction.h"
#include "saccade/top_k.h"

#include "bindings.h"
#include "call.h"
#include "conversions.h"

namespace saccade::python {
namespace {

using Begins = nb::ndarray<const int64_t, nb::ndim<1>, nb::device::cpu, nb::c_contig>;
using Allowed = nb::ndarray<const uint8_t, nb::ndim<1>, nb::device::cpu, nb::c_contig>;

// (indices, scores), both [queries, k].
nb::tuple find_top_k(const RowsIn& queries, const RowsIn& rows, int64_t k, const std::string& metric,
                     const std::optional<Allowed>& allowed, int threads) {
  Call call;
  TopKOptions options{.metric = value_of(parse_metric(metric)), .threads = threads, .stop = call.stop()};
  if (allowed) options.allowed = {allowed->data(), allowed->size()};
  TopK best = call.run([&] { return top_k(view_of(queries), view_of(rows), k, options); });
  return nb::make_tuple(array_of(std::move(best.rows)), array_of(std::move(best.scores)));
}

// Items [begin[i], begin[i + 1]) of the rows; saccade/_multi.py has checked them. A copy.
MultiEmbeddings multi_of(const RowsIn& rows, const Begins& begin) {
  MultiEmbeddings multi;
  const MatrixView<const float> view = view_of(rows);
  multi.rows = Matrix<float>(view.rows(), view.columns());
  for (int64_t r = 0; r < view.rows(); ++r)
    std::copy(view.row(r).begin(), view.row(r).end(), multi.rows.row(r).begin());
  multi.begin.assign(begin.data(), begin.data() + begin.size());
  return multi;
}

nb::object score_by_max_sim(const RowsIn& queries, const Begins& queries_begin, const RowsIn& items,
                            const Begins& items_begin) {
  const MultiEmbeddings of_queries = multi_of(queries, queries_begin);
  const MultiEmbeddings of_items = multi_of(items, items_begin);
  Call call;
  return array_of(call.run([&] { return max_sim(of_queries, of_items, call.stop()); }));
}

}  // namespace

void bind_search(nb::module_& module) {
  module.def("top_k", &find_top_k, nb::arg("queries").noconvert(), nb::arg("rows").noconvert(), nb::arg("k"),
             nb::arg("metric"), nb::arg("allowed").none(), nb::arg("threads"));
  module.def("max_sim", &score_by_max_sim, nb::arg("queries").noconvert(),
             nb::arg("queries_begin").noconvert(), nb::arg("items").noconvert(),
             nb::arg("items_begin").noconvert());
}

}  // namespace saccade::python
