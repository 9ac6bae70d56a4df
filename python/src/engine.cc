#include "saccade/engine.h"

#include <filesystem>
#include <map>
#include <memory>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "call.h"
#include "conversions.h"

namespace saccade::python {
namespace {

using SharedEngine = PerProcess<Engine>;
struct PyEngine {
  std::shared_ptr<SharedEngine> shared;
};

PyEngine open(const nb::bytes& named, const nb::bytes& encoder, bool create,
              const std::optional<std::string>& precision, int threads, bool exact_decode,
              const std::string& device) {
  const std::string address = raw(named);
  EngineOptions options{.encoder = raw(encoder),
                        .create = create,
                        .threads = threads,
                        .exact_decode = exact_decode,
                        .device = device};
  if (precision) options.precision = precision_of(*precision);
  const auto make = [address, options] { return Engine::open(address, options); };
  Call call;
  return {std::make_shared<SharedEngine>(call.run(make), make)};
}

// The query of saccade/_query.py. images: those of its `_images`, which are moved from.
Query query_of(nb::handle asked, const nb::list& images) {
  const auto text = nb::cast<std::optional<std::string>>(asked.attr("_text"));
  std::optional<Query> query;
  if (text) query = nb::cast<bool>(asked.attr("_literal")) ? Query::literal(*text) : Query::text(*text);
  for (const nb::handle pair : images) {
    ImageInput image = std::move(nb::cast<PyImage&>(pair[0]).input);
    const auto weight = nb::cast<float>(pair[1]);
    if (query) {
      query->and_image(std::move(image), weight);
    } else {
      query = Query::image(std::move(image));
    }
  }
  if (!query) query = Query::text("");
  if (const auto liked = nb::cast<std::optional<int64_t>>(asked.attr("_liked"))) query->like(*liked);
  for (const nb::handle unwanted : nb::cast<nb::tuple>(asked.attr("_unwanted"))) {
    query->without(nb::cast<std::string>(unwanted));
  }
  if (const auto method = nb::cast<std::optional<std::string>>(asked.attr("_method"))) {
    const auto weight = nb::cast<std::optional<double>>(asked.attr("_text_weight"));
    if (*method == "sum") {
      query->compose(Compose::kSum, weight);
    } else if (*method == "slerp") {
      query->compose(Compose::kSlerp, weight);
    } else if (*method == "direction") {
      query->compose(Compose::kDirection, weight);
    } else {
      throw Failed({ErrorCode::kInternal, "compose is \"" + *method + "\""});
    }
  }
  if (!asked.attr("_composer").is_none()) {
    query->compose(std::filesystem::path(raw(nb::cast<nb::bytes>(asked.attr("_composer")))));
  }
  const auto was = nb::cast<std::string>(asked.attr("_description"));
  if (!was.empty()) query->was(was);
  return *std::move(query);
}

MapMethod map_method_of(const std::string& name) {
  if (name == "legrad") return MapMethod::kLegrad;
  if (name == "chefer") return MapMethod::kChefer;
  throw Failed({ErrorCode::kUsage, "explain_by is \"" + name + "\", expected legrad or chefer"});
}

RerankMethod rerank_method_of(const std::string& name) {
  if (name == "strongest") return RerankMethod::kStrongest;
  if (name == "cosine") return RerankMethod::kCosine;
  if (name == "maxsim") return RerankMethod::kMaxSim;
  if (name == "match") return RerankMethod::kMatch;
  throw Failed(
      {ErrorCode::kUsage, "rerank_by is \"" + name + "\", expected strongest, cosine, maxsim or match"});
}

SearchOptions search_options(int64_t k, int64_t offset, const std::string& filter, double keyword_weight,
                             std::optional<double> min_probability, bool group_duplicates, double group_above,
                             const std::string& order, bool chunk_long_text, int64_t candidates, bool exact,
                             int64_t exact_rescore, nb::handle rerank, int64_t rerank_depth,
                             const std::string& rerank_by, bool explain,
                             const std::optional<std::string>& explain_by) {
  if (order != "score" && order != "date") {
    throw Failed({ErrorCode::kUsage, "order is \"" + order + "\", expected score or date"});
  }
  SearchOptions options{.k = k,
                        .offset = offset,
                        .filter = filter,
                        .keyword_weight = keyword_weight,
                        .min_probability = min_probability,
                        .group_duplicates = group_duplicates,
                        .group_above = group_above,
                        .order = order == "date" ? Order::kDate : Order::kScore,
                        .chunk_long_text = chunk_long_text,
                        .candidates = candidates,
                        .exact = exact,
                        .exact_rescore = exact_rescore,
                        .rerank_depth = rerank_depth,
                        .rerank_by = rerank_method_of(rerank_by),
                        .explain = explain};
  if (explain_by) options.explain_by = map_method_of(*explain_by);
  if (!rerank.is_none()) options.rerank = nb::cast<PyEncoder&>(rerank).shared->get();
  return options;
}

nb::dict explanation_of(const Explanation& explanation) {
  nb::dict dict;
  dict["model"] = text_of(explanation.model);
  dict["score"] = or_none(explanation.score);
  nb::list words;
  for (const Explanation::Word& word : explanation.words) {
    words.append(nb::make_tuple(text_of(word.word), word.drop));
  }
  dict["words"] = words;
  dict["method"] = text_of(explanation.method);
  dict["map"] = nb::none();
  if (const RelevanceMap& map = explanation.map; !map.values.empty()) {
    dict["map"] = array_of(std::vector<float>(map.values),
                           {static_cast<size_t>(map.rows), static_cast<size_t>(map.columns)});
  }
  dict["box"] = nb::none();
  if (const auto& box = explanation.box)
    dict["box"] = nb::make_tuple(box->x, box->y, box->width, box->height);
  dict["no_map"] = text_of(explanation.no_map);
  return dict;
}

nb::dict hit_of(const Hit& hit) {
  nb::dict dict;
  dict["rank"] = hit.rank;
  dict["id"] = hit.id;
  dict["path"] = text_of_path(hit.path.string());
  dict["score"] = hit.score;
  dict["reranked"] = hit.reranked;
  dict["probability"] = or_none(hit.probability);
  dict["match"] = text_of(name(hit.match));
  dict["by_keywords"] = hit.by_keywords;
  dict["caption"] = text_of(hit.caption);
  dict["width"] = hit.width;
  dict["height"] = hit.height;
  dict["format"] = text_of(hit.format);
  dict["modified"] = hit.modified;
  nb::list copies;
  for (const NearDuplicate& copy : hit.near_duplicates) {
    copies.append(nb::make_tuple(copy.id, text_of_path(copy.path.string()), copy.score, copy.same_bytes));
  }
  dict["near_duplicates"] = copies;
  nb::list explanations;
  for (const Explanation& explanation : hit.explanations) explanations.append(explanation_of(explanation));
  dict["explanations"] = explanations;
  return dict;
}

nb::list texts_of(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(text_of(text));
  return list;
}

// (hits, searched, (used, dropped) or None, notes)
nb::tuple answer_of(const Answer& answer) {
  nb::list hits;
  for (const Hit& hit : answer.hits) hits.append(hit_of(hit));
  return nb::make_tuple(hits, answer.searched, tokens_of(answer.tokens), texts_of(answer.notes));
}

nb::dict report_of(const IndexReport& report) {
  nb::dict dict;
  dict["seen"] = report.seen;
  dict["added"] = report.added;
  dict["updated"] = report.updated;
  dict["moved"] = report.moved;
  dict["unchanged"] = report.unchanged;
  dict["removed"] = report.removed;
  dict["missing"] = report.missing;
  nb::list failed;
  for (const FailedFile& file : report.failed) {
    failed.append(nb::make_tuple(text_of_path(file.path.string()), error_of(file.error)));
  }
  dict["failed"] = failed;
  dict["seconds"] = report.seconds;
  dict["notes"] = texts_of(report.notes);
  return dict;
}

nb::dict image_of(const IndexedImage& image) {
  nb::dict dict;
  dict["id"] = image.id;
  dict["row"] = image.row;
  dict["path"] = text_of_path(image.path.string());
  dict["hash"] = text_of(image.hash);
  dict["size"] = image.size;
  dict["modified"] = image.modified;
  dict["width"] = image.width;
  dict["height"] = image.height;
  dict["format"] = text_of(image.format);
  dict["caption"] = text_of(image.caption);
  return dict;
}

IndexOptions index_options(nb::handle options) {
  IndexOptions made;
  made.prune = nb::cast<bool>(options["prune"]);
  made.retry_failed = nb::cast<bool>(options["retry_failed"]);
  made.follow_links = nb::cast<bool>(options["follow_links"]);
  made.hidden = nb::cast<bool>(options["hidden"]);
  made.exclude = nb::cast<std::vector<std::string>>(options["exclude"]);
  made.captions = nb::cast<std::map<std::string, std::string>>(options["captions"]);
  made.batch_size = nb::cast<int>(options["batch_size"]);
  made.max_pixels = nb::cast<int64_t>(options["max_pixels"]);
  return made;
}

std::vector<std::filesystem::path> paths_of(const std::vector<nb::bytes>& paths) {
  std::vector<std::filesystem::path> made;
  for (const nb::bytes& path : paths) made.emplace_back(raw(path));
  return made;
}

nb::dict index(PyEngine& self, const std::vector<nb::bytes>& paths, nb::handle options, nb::handle progress) {
  Engine& engine = self.shared->get();
  const std::vector<std::filesystem::path> folders = paths_of(paths);
  Call call;
  IndexOptions made = index_options(options);
  made.on_progress = call.progress_to(progress);
  made.stop = call.stop();
  return report_of(call.run([&] { return engine.index(folders, made); }));
}

void watch(PyEngine& self, const std::vector<nb::bytes>& paths, nb::handle options, nb::handle on_change) {
  Engine& engine = self.shared->get();
  const std::vector<std::filesystem::path> folders = paths_of(paths);
  Call call;
  IndexOptions made = index_options(options);
  made.stop = call.stop();
  call.run([&] {
    return engine.watch(folders, made, [&](const IndexReport& report) {
      static_cast<void>(call.ask([&] { on_change(report_of(report)); }));
    });
  });
}

// queries: (query, its images). Returns (answer, None) or (None, error) for each.
nb::list search_all(PyEngine& self, const nb::list& queries, nb::handle progress, int64_t k, int64_t offset,
                    const std::string& filter, double keyword_weight, std::optional<double> min_probability,
                    bool group_duplicates, double group_above, const std::string& order, bool chunk_long_text,
                    int64_t candidates, bool exact, int64_t exact_rescore, nb::handle rerank,
                    int64_t rerank_depth, const std::string& rerank_by, bool explain,
                    const std::optional<std::string>& explain_by) {
  const Engine& engine = self.shared->get();
  std::vector<Query> asked;
  asked.reserve(queries.size());
  for (const nb::handle pair : queries) asked.push_back(query_of(pair[0], nb::cast<nb::list>(pair[1])));
  SearchOptions options = search_options(k, offset, filter, keyword_weight, min_probability, group_duplicates,
                                         group_above, order, chunk_long_text, candidates, exact,
                                         exact_rescore, rerank, rerank_depth, rerank_by, explain, explain_by);
  Call call;
  options.on_progress = call.progress_to(progress);
  options.stop = call.stop();
  nb::list all;
  for (const Result<Answer>& one : call.run([&] { return engine.search_all(asked, options); })) {
    all.append(one ? nb::make_tuple(answer_of(*one), nb::none())
                   : nb::make_tuple(nb::none(), error_of(one.error())));
  }
  return all;
}

nb::dict info(PyEngine& self) {
  const EngineInfo info = self.shared->get().info();
  nb::dict dict;
  dict["address"] = text_of_path(info.address);
  dict["encoder"] = text_of(info.encoder);
  dict["encoder_folder"] = text_of_path(info.encoder_folder);
  dict["fingerprint"] = text_of(info.fingerprint);
  dict["precision"] = text_of(precision_name(info.precision));
  dict["images"] = info.images;
  dict["dim"] = info.dim;
  dict["late_interaction"] = info.late_interaction;
  dict["created"] = text_of(info.created);
  return dict;
}

PyEncoder encoder(PyEngine& self) {
  const auto make = [shared = self.shared] { return shared->get().encoder(); };
  const Engine& engine = self.shared->get();
  Call call;
  return {std::make_shared<SharedEncoder>(call.run([&] { return engine.encoder(); }), make)};
}

nb::dict image_by_id(PyEngine& self, int64_t id) {
  return image_of(value_of(self.shared->get().image(id)));
}

nb::dict image_by_path(PyEngine& self, const nb::bytes& path) {
  return image_of(value_of(self.shared->get().image(std::filesystem::path(raw(path)))));
}

nb::list images(PyEngine& self, const std::string& filter) {
  const Engine& engine = self.shared->get();
  Call call;
  nb::list all;
  for (const IndexedImage& image : call.run([&] { return engine.images(filter); }))
    all.append(image_of(image));
  return all;
}

// (rows, ids), read-only; both keep the mapped file.
nb::tuple embeddings(PyEngine& self) {
  auto* kept = new Collection(value_of(self.shared->get().collection()));
  const nb::capsule owner(kept, [](void* held) noexcept { delete static_cast<Collection*>(held); });
  const MatrixView<const float> rows = kept->embeddings();
  const std::span<const int64_t> ids = kept->ids();
  const auto count = static_cast<size_t>(rows.rows());
  const auto columns = static_cast<size_t>(rows.columns());
  return nb::make_tuple(nb::ndarray<nb::numpy, const float, nb::ndim<2>>(rows.data(), {count, columns}, owner,
                                                                         {rows.stride(), 1}),
                        nb::ndarray<nb::numpy, const int64_t, nb::ndim<1>>(ids.data(), {ids.size()}, owner));
}

// One byte a row.
nb::object allowed(PyEngine& self, const std::string& filter) {
  const Collection collection = value_of(self.shared->get().collection());
  Call call;
  std::vector<uint8_t> bytes = call.run([&] { return collection.allowed(filter); });
  const size_t count = bytes.size();
  return array_of(std::move(bytes), {count});
}

nb::object vectors(PyEngine& self, int64_t id) {
  return array_of(value_of(value_of(self.shared->get().collection()).vectors(id)));
}

nb::dict metadata(PyEngine& self, int64_t id) {
  const ImageMetadata found = value_of(value_of(self.shared->get().collection()).metadata(id));
  nb::dict dict;
  dict["taken"] = or_none(found.taken);
  dict["zone_minutes"] = or_none(found.zone_minutes);
  dict["camera"] = text_of(found.camera);
  dict["lens"] = text_of(found.lens);
  dict["latitude"] = or_none(found.latitude);
  dict["longitude"] = or_none(found.longitude);
  dict["place"] = text_of(found.place);
  dict["rating"] = or_none(found.rating);
  dict["title"] = text_of(found.title);
  dict["description"] = text_of(found.description);
  dict["keywords"] = texts_of(found.keywords);
  return dict;
}

// [(value, images)]
nb::list values(PyEngine& self, const std::string& field, int64_t most) {
  const Collection collection = value_of(self.shared->get().collection());
  Call call;
  nb::list all;
  for (const Collection::FieldValue& one : call.run([&] { return collection.values(field, most); })) {
    all.append(nb::make_tuple(text_of(one.value), one.images));
  }
  return all;
}

nb::list failed(PyEngine& self) {
  nb::list all;
  for (const FailedFile& file : value_of(value_of(self.shared->get().collection()).failed())) {
    all.append(nb::make_tuple(text_of_path(file.path.string()), error_of(file.error)));
  }
  return all;
}

PyCalibration calibration(PyEngine& self, const std::string& kind) {
  return {value_of(value_of(self.shared->get().collection()).calibration(query_kind_of(kind)))};
}

void remove(PyEngine& self, const std::vector<int64_t>& ids) {
  Engine& engine = self.shared->get();
  Call call;
  call.run([&] { return engine.remove(ids); });
}

void refresh(PyEngine& self) {
  Engine& engine = self.shared->get();
  Call call;
  call.run([&] { return engine.refresh(); });
}

}  // namespace

void bind_engine(nb::module_& module) {
  module.def("open", &open, nb::arg("address"), nb::arg("encoder"), nb::arg("create"),
             nb::arg("precision").none(), nb::arg("threads"), nb::arg("exact_decode"), nb::arg("device"));
  nb::class_<PyEngine>(module, "Engine")
      .def("index", &index, nb::arg("paths"), nb::arg("options"), nb::arg("progress").none())
      .def("watch", &watch, nb::arg("paths"), nb::arg("options"), nb::arg("on_change"))
      .def("search_all", &search_all, nb::arg("queries"), nb::arg("progress").none(), nb::arg("k"),
           nb::arg("offset"), nb::arg("filter"), nb::arg("keyword_weight"), nb::arg("min_probability").none(),
           nb::arg("group_duplicates"), nb::arg("group_above"), nb::arg("order"), nb::arg("chunk_long_text"),
           nb::arg("candidates"), nb::arg("exact"), nb::arg("exact_rescore"), nb::arg("rerank").none(),
           nb::arg("rerank_depth"), nb::arg("rerank_by"), nb::arg("explain"), nb::arg("explain_by").none())
      .def("info", &info)
      .def("encoder", &encoder)
      .def("image_by_id", &image_by_id, nb::arg("id"))
      .def("image_by_path", &image_by_path, nb::arg("path"))
      .def("images", &images, nb::arg("filter"))
      .def("embeddings", &embeddings)
      .def("allowed", &allowed, nb::arg("filter"))
      .def("vectors", &vectors, nb::arg("id"))
      .def("metadata", &metadata, nb::arg("id"))
      .def("values", &values, nb::arg("field"), nb::arg("most"))
      .def("failed", &failed)
      .def("calibration", &calibration, nb::arg("kind"))
      .def("remove", &remove, nb::arg("ids"))
      .def("refresh", &refresh);
}

}  // namespace saccade::python
