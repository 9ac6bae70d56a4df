#include "saccade/calibration.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings.h"
#include "call.h"
#include "conversions.h"

namespace saccade::python {
namespace {

using Mask = nb::ndarray<const uint8_t, nb::ndim<1>, nb::device::cpu, nb::c_contig>;

std::span<const uint8_t> mask_of(const std::optional<Mask>& allowed) {
  return allowed ? std::span<const uint8_t>(allowed->data(), allowed->size()) : std::span<const uint8_t>();
}

PyCalibration learn(const RowsIn& rows, const RowsIn& queries, const std::vector<std::vector<int64_t>>& right,
                    const std::vector<std::string>& texts, const std::vector<int64_t>& own_rows,
                    const std::string& kind, double logit_scale, const std::optional<Mask>& allowed,
                    int threads) {
  const KnownQueries known{
      .embeddings = view_of(queries), .right = right, .texts = texts, .own_rows = own_rows};
  Call call;
  const CalibrationOptions options{.kind = value_of(parse_query_kind(kind)),
                                   .logit_scale = logit_scale,
                                   .allowed = mask_of(allowed),
                                   .threads = threads,
                                   .stop = call.stop()};
  return {call.run([&] { return Calibration::learn(view_of(rows), known, options); })};
}

PyCalibration learn_from_captions(PyEncoder& encoder, const RowsIn& rows,
                                  const std::vector<std::string>& captions,
                                  const std::optional<Mask>& allowed, int threads) {
  const Encoder& loaded = encoder.shared->get();
  Call call;
  const CalibrationOptions options{.allowed = mask_of(allowed), .threads = threads, .stop = call.stop()};
  return {call.run([&] { return Calibration::learn(loaded, view_of(rows), captions, options); })};
}

// ([(row, score, probability, expected_wrong)], answered, p_value)
nb::tuple top_k(PyCalibration& self, const RowsIn& query, const RowsIn& rows, int64_t k,
                const std::string& text, const std::optional<Mask>& allowed, int threads) {
  Call call;
  const CalibratedTopKOptions options{
      .text = text, .allowed = mask_of(allowed), .threads = threads, .stop = call.stop()};
  const CalibratedTopK found =
      call.run([&] { return self.calibration.top_k(view_of(query).row(0), view_of(rows), k, options); });
  nb::list hits;
  for (const CalibratedHit& hit : found.hits) {
    hits.append(nb::make_tuple(hit.row, hit.score, or_none(hit.probability), or_none(hit.expected_wrong)));
  }
  return nb::make_tuple(hits, or_none(found.answered), or_none(found.p_value));
}

}  // namespace

void bind_calibration(nb::module_& module) {
  nb::class_<PyCalibration>(module, "Calibration")
      .def("top_k", &top_k, nb::arg("query").noconvert(), nb::arg("rows").noconvert(), nb::arg("k"),
           nb::arg("text"), nb::arg("allowed").none(), nb::arg("threads"))
      .def("gives_probabilities", [](PyCalibration& self) { return self.calibration.gives_probabilities(); })
      .def("reason", [](PyCalibration& self) { return text_of(self.calibration.reason()); })
      .def("known_queries", [](PyCalibration& self) { return self.calibration.known_queries(); });
  module.def("learn", &learn, nb::arg("rows").noconvert(), nb::arg("queries").noconvert(), nb::arg("right"),
             nb::arg("texts"), nb::arg("own_rows"), nb::arg("kind"), nb::arg("logit_scale"),
             nb::arg("allowed").none(), nb::arg("threads"));
  module.def("learn_from_captions", &learn_from_captions, nb::arg("encoder"), nb::arg("rows").noconvert(),
             nb::arg("captions"), nb::arg("allowed").none(), nb::arg("threads"));
}

}  // namespace saccade::python
