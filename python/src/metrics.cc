// Figures of retrieval: the laboratory's own code (src/lab/eval), compiled into this module.
#include <algorithm>
#include <cmath>
#include <memory>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lab/eval/retrieval/retrieval.h"
#include "lab/eval/rows/pair_scores.h"
#include "saccade/core/enum_names.h"

#include "bindings.h"
#include "call.h"
#include "conversions.h"

namespace saccade::python {
namespace {

using Numbers = nb::ndarray<const int64_t, nb::ndim<1>, nb::device::cpu, nb::c_contig>;
using Pairs = nb::ndarray<const int64_t, nb::shape<-1, 2>, nb::device::cpu, nb::c_contig>;

// Ends a pass over the scores when it is asked to stop: the threads that share it pass the exception on. A block of scores by
// MaxSim takes seconds: `texts_at_once` of one image are then computed between two looks, each as in any block.
class StoppedScores : public lab::PairScores {
 public:
  StoppedScores(std::unique_ptr<lab::PairScores> scores, std::stop_token stop,
                std::optional<int64_t> texts_at_once)
      : scores_(std::move(scores)), stop_(std::move(stop)), texts_at_once_(texts_at_once) {}
  [[nodiscard]] int64_t texts() const override { return scores_->texts(); }
  [[nodiscard]] int64_t images() const override { return scores_->images(); }
  void score(int64_t first_text, int64_t text_count, int64_t first_image, int64_t image_count, float* out,
             int64_t text_stride, int64_t image_stride) const override {
    const int64_t images = texts_at_once_ ? 1 : image_count;
    const int64_t texts = texts_at_once_.value_or(text_count);
    for (int64_t i = 0; i < image_count; i += images) {
      for (int64_t t = 0; t < text_count; t += texts) {
        if (stop_.stop_requested()) throw Failed({ErrorCode::kCancelled, "asked to stop"});
        scores_->score(first_text + t, std::min(texts, text_count - t), first_image + i, images,
                       out + t * text_stride + i * image_stride, text_stride, image_stride);
      }
    }
  }

 private:
  std::unique_ptr<lab::PairScores> scores_;
  std::stop_token stop_;
  std::optional<int64_t> texts_at_once_;
};

struct PyRelevance {
  lab::Relevance relevance;
};

PyRelevance relevance_of_images(const Numbers& images_of_texts, int64_t images) {
  return {
      value_of(lab::Relevance::from_text_image({images_of_texts.data(), images_of_texts.size()}, images))};
}

PyRelevance relevance_of_pairs(const Pairs& pairs, int64_t texts, int64_t images) {
  std::vector<std::pair<int64_t, int64_t>> made;
  for (size_t i = 0; i < pairs.shape(0); ++i) made.emplace_back(pairs.data()[2 * i], pairs.data()[2 * i + 1]);
  return {value_of(lab::Relevance::from_pairs(texts, images, std::move(made)))};
}

PyRelevance relevance_of_labels(const Numbers& labels) {
  return {value_of(lab::Relevance::from_labels({labels.data(), labels.size()}))};
}

nb::object finite_or_none(double value) {
  return std::isfinite(value) ? nb::cast(value) : nb::none();
}

nb::dict direction_of(const lab::DirectionOutcome& outcome) {
  nb::dict figures;
  for (const lab::Figure& figure : outcome.figures) {
    figures[nb::str(figure.name.c_str())] =
        nb::make_tuple(finite_or_none(figure.value), finite_or_none(figure.low), finite_or_none(figure.high),
                       finite_or_none(figure.bca_low), finite_or_none(figure.bca_high),
                       finite_or_none(figure.wilson_high), finite_or_none(figure.wilson_low));
  }
  nb::dict dict;
  dict["figures"] = figures;
  dict["gallery"] = outcome.ranks.gallery;
  dict["queries"] = outcome.counts.queries;
  dict["without_answer"] = outcome.counts.without_answer;
  dict["tied"] = outcome.counts.tied;
  dict["several_right"] = outcome.counts.several_right;
  std::vector<double> first;
  for (int64_t q = 0; q < outcome.ranks.queries(); ++q) {
    const auto ranks = outcome.ranks.of(q);
    first.push_back(ranks.empty() ? std::nan("") : ranks.front());
  }
  const size_t count = first.size();
  dict["ranks"] = array_of(std::move(first), {count});
  return dict;
}

struct Options {
  std::string ties;
  std::optional<std::vector<std::string>> image_ids;
  std::optional<std::vector<std::string>> text_ids;
  lab::BootstrapOptions bootstrap;
  int threads = 0;
};

Options options_of(nb::handle given) {
  Options options;
  options.ties = nb::cast<std::string>(given["ties"]);
  options.image_ids = nb::cast<std::optional<std::vector<std::string>>>(given["image_ids"]);
  options.text_ids = nb::cast<std::optional<std::vector<std::string>>>(given["text_ids"]);
  options.bootstrap.resamples = nb::cast<int64_t>(given["resamples"]);
  options.bootstrap.seed = nb::cast<uint64_t>(given["seed"]);
  options.bootstrap.confidence = nb::cast<double>(given["confidence"]);
  options.threads = nb::cast<int>(given["threads"]);
  return options;
}

// (text_to_image, image_to_text)
nb::tuple evaluate(Call& call, Result<std::unique_ptr<lab::PairScores>> made, const PyRelevance& relevance,
                   Options options, std::optional<int64_t> texts_at_once = std::nullopt) {
  const StoppedScores scores(value_of(std::move(made)), call.stop(), texts_at_once);
  options.bootstrap.stop = call.stop();
  lab::TieBreak ties;
  ties.policy = value_of(parse_name<lab::TiePolicy>("ties", options.ties));
  if (options.image_ids) ties.image_order = value_of(lab::trec_order(*options.image_ids));
  if (options.text_ids) ties.text_order = value_of(lab::trec_order(*options.text_ids));
  const lab::RetrievalOutcome outcome = call.run([&] {
    ThreadPool pool(options.threads);
    return lab::evaluate_retrieval(scores, relevance.relevance, {}, ties, options.bootstrap, pool);
  });
  return nb::make_tuple(direction_of(outcome.text_to_image), direction_of(outcome.image_to_text));
}

nb::tuple of_embeddings(const RowsIn& texts, const RowsIn& images, const PyRelevance& relevance,
                        nb::handle options) {
  Call call;
  return evaluate(call, lab::dot_scores(view_of(texts), view_of(images)), relevance, options_of(options));
}

nb::tuple of_scores(const nb::ndarray<const float, nb::ndim<2>, nb::device::cpu, nb::c_contig>& scores,
                    const PyRelevance& relevance, nb::handle options) {
  Call call;
  const std::vector<int64_t> shape = {static_cast<int64_t>(scores.shape(0)),
                                      static_cast<int64_t>(scores.shape(1))};
  const TensorView tensor{DType::kF32, shape, std::as_bytes(std::span(scores.data(), scores.size()))};
  return evaluate(call, lab::given_scores(tensor), relevance, options_of(options));
}

RowSets sets_of(const RowsIn& rows, const Numbers& begin) {
  const MatrixView<const float> view = view_of(rows);
  RowSets sets{Matrix<float>(view.rows(), view.columns()), {begin.data(), begin.data() + begin.size()}};
  for (int64_t r = 0; r < view.rows(); ++r) std::ranges::copy(view.row(r), sets.rows.row(r).begin());
  return sets;
}

nb::tuple of_vectors(const RowsIn& texts, const Numbers& texts_begin, const RowsIn& images,
                     const Numbers& images_begin, const PyRelevance& relevance, nb::handle options) {
  const RowSets of_texts = sets_of(texts, texts_begin);
  const RowSets of_images = sets_of(images, images_begin);
  Call call;
  return evaluate(call, lab::max_sim_scores(of_texts, of_images), relevance, options_of(options), 64);
}

// {name: value} of a ranking drawn at random.
nb::dict chance(const PyRelevance& relevance, bool to_image) {
  const auto direction = to_image ? lab::Direction::kTextToImage : lab::Direction::kImageToText;
  const std::vector<double> values = lab::chance_figures(relevance.relevance, direction, lab::kRecallDepths);
  const std::vector<std::string> names = lab::retrieval_names(lab::kRecallDepths);
  nb::dict dict;
  for (size_t i = 0; i < values.size(); ++i) dict[nb::str(names[i].c_str())] = finite_or_none(values[i]);
  return dict;
}

}  // namespace

void bind_metrics(nb::module_& module) {
  nb::class_<PyRelevance>(module, "Relevance");
  module.def("relevance_of_images", &relevance_of_images, nb::arg("images_of_texts").noconvert(),
             nb::arg("images"));
  module.def("relevance_of_pairs", &relevance_of_pairs, nb::arg("pairs").noconvert(), nb::arg("texts"),
             nb::arg("images"));
  module.def("relevance_of_labels", &relevance_of_labels, nb::arg("labels").noconvert());
  module.def("retrieval_of_embeddings", &of_embeddings, nb::arg("texts").noconvert(),
             nb::arg("images").noconvert(), nb::arg("relevance"), nb::arg("options"));
  module.def("retrieval_of_scores", &of_scores, nb::arg("scores").noconvert(), nb::arg("relevance"),
             nb::arg("options"));
  module.def("retrieval_of_vectors", &of_vectors, nb::arg("texts").noconvert(),
             nb::arg("texts_begin").noconvert(), nb::arg("images").noconvert(),
             nb::arg("images_begin").noconvert(), nb::arg("relevance"), nb::arg("options"));
  module.def("chance", &chance, nb::arg("relevance"), nb::arg("to_image"));
}

}  // namespace saccade::python
