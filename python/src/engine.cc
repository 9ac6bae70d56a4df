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
  if (precision) options.precision = value_of(parse_precision(*precision));
  Call call;
  Engine opened = call.run([&] { return Engine::open(address, options); });
  // A child process may open it again from another working directory.
  const std::string place =
      address.find("://") == std::string::npos ? std::filesystem::absolute(address).string() : address;
  return {std::make_shared<SharedEngine>(std::move(opened),
                                         [place, options] { return Engine::open(place, options); })};
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
    query->compose(value_of(parse_compose(*method)), weight);
  }
  if (!asked.attr("_composer").is_none()) {
    query->compose(std::filesystem::path(raw(nb::cast<nb::bytes>(asked.attr("_composer")))));
  }
  const auto was = nb::cast<std::string>(asked.attr("_description"));
  if (!was.empty()) query->was(was);
  return *std::move(query);
}

// Reads an option that Python gives. saccade/_options.py has checked its type.
template <typename T>
void read_option(nb::handle value, T& option) {
  option = nb::cast<T>(value);
}
// Names of files may have any bytes.
void read_option(nb::handle value, std::vector<std::string>& option) {
  for (const nb::handle one : value) option.push_back(raw(nb::cast<nb::bytes>(one)));
}
void read_option(nb::handle value, std::map<std::string, std::string>& option) {
  for (const auto& [path, text] : nb::cast<nb::dict>(value)) {
    option[raw(nb::cast<nb::bytes>(path))] = nb::cast<std::string>(text);
  }
}
void read_option(nb::handle value, Order& option) {
  option = value_of(parse_order(nb::cast<std::string>(value)));
}
void read_option(nb::handle value, RerankMethod& option) {
  option = value_of(parse_rerank_method(nb::cast<std::string>(value)));
}
void read_option(nb::handle value, std::optional<MapMethod>& option) {
  if (!value.is_none()) option = value_of(parse_map_method(nb::cast<std::string>(value)));
}
void read_option(nb::handle value, std::optional<Encoder>& option) {
  if (!value.is_none()) option = nb::cast<PyEncoder&>(value).shared->get();
}

// Returns the value that Python gives for an option.
template <typename T>
nb::object option_of(const T& option) {
  return nb::cast(option);
}
nb::object option_of(const Order& option) {
  return text_of(name(option));
}
nb::object option_of(const RerankMethod& option) {
  return text_of(name(option));
}
nb::object option_of(const std::optional<MapMethod>& option) {
  return option ? nb::object(text_of(name(*option))) : nb::none();
}
nb::object option_of(const std::optional<Encoder>& /*none by default*/) {
  return nb::none();
}

// Calls visit(name, option) for each option of a search that Python gives.
template <typename Visit>
void each_option(SearchOptions& options, const Visit& visit) {
  visit("k", options.k);
  visit("offset", options.offset);
  visit("filter", options.filter);
  visit("keyword_weight", options.keyword_weight);
  visit("min_probability", options.min_probability);
  visit("group_duplicates", options.group_duplicates);
  visit("group_above", options.group_above);
  visit("order", options.order);
  visit("chunk_long_text", options.chunk_long_text);
  visit("candidates", options.candidates);
  visit("exact", options.exact);
  visit("exact_rescore", options.exact_rescore);
  visit("rerank", options.rerank);
  visit("rerank_depth", options.rerank_depth);
  visit("rerank_by", options.rerank_by);
  visit("explain", options.explain);
  visit("explain_by", options.explain_by);
}
// As above, for index and watch.
template <typename Visit>
void each_option(IndexOptions& options, const Visit& visit) {
  visit("prune", options.prune);
  visit("retry_failed", options.retry_failed);
  visit("follow_links", options.follow_links);
  visit("hidden", options.hidden);
  visit("exclude", options.exclude);
  visit("captions", options.captions);
  visit("ignore_files", options.ignore_files);
  visit("sidecars", options.sidecars);
  visit("metadata", options.metadata);
  visit("video_seconds", options.video_seconds);
  visit("video_frames", options.video_frames);
  visit("batch_size", options.batch_size);
  visit("max_pixels", options.max_pixels);
}

// Returns the options that a dict of them gives; those that are missing have the library's defaults.
template <typename Options>
Options read_options(const nb::dict& given) {
  Options options;
  each_option(options, [&](const char* name, auto& option) {
    if (given.contains(name)) read_option(given[name], option);
  });
  return options;
}

// Returns the library's defaults.
template <typename Options>
nb::dict default_options() {
  Options options;
  nb::dict defaults;
  each_option(options, [&](const char* name, const auto& option) { defaults[name] = option_of(option); });
  return defaults;
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

std::vector<std::filesystem::path> paths_of(const std::vector<nb::bytes>& paths) {
  std::vector<std::filesystem::path> made;
  for (const nb::bytes& path : paths) made.emplace_back(raw(path));
  return made;
}

nb::dict index(PyEngine& self, const std::vector<nb::bytes>& paths, const nb::dict& options,
               nb::handle progress) {
  Engine& engine = self.shared->get();
  const std::vector<std::filesystem::path> folders = paths_of(paths);
  Call call;
  IndexOptions made = read_options<IndexOptions>(options);
  made.on_progress = call.progress_to(progress);
  made.stop = call.stop();
  return report_of(call.run([&] { return engine.index(folders, made); }));
}

void watch(PyEngine& self, const std::vector<nb::bytes>& paths, const nb::dict& options,
           nb::handle on_change) {
  Engine& engine = self.shared->get();
  const std::vector<std::filesystem::path> folders = paths_of(paths);
  Call call;
  IndexOptions made = read_options<IndexOptions>(options);
  made.stop = call.stop();
  call.run([&] {
    return engine.watch(folders, made, [&](const IndexReport& report) {
      static_cast<void>(call.ask([&] { on_change(report_of(report)); }));
    });
  });
}

// queries: (query, its images). Returns (answer, None) or (None, error) for each.
nb::list search_all(PyEngine& self, const nb::list& queries, nb::handle progress, const nb::dict& given) {
  const Engine& engine = self.shared->get();
  std::vector<Query> asked;
  asked.reserve(queries.size());
  for (const nb::handle pair : queries) asked.push_back(query_of(pair[0], nb::cast<nb::list>(pair[1])));
  SearchOptions options = read_options<SearchOptions>(given);
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
  dict["precision"] = text_of(name(info.precision));
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
  return {value_of(value_of(self.shared->get().collection()).calibration(value_of(parse_query_kind(kind))))};
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
  module.def("search_defaults", &default_options<SearchOptions>);
  module.def("index_defaults", &default_options<IndexOptions>);
  nb::class_<PyEngine>(module, "Engine")
      .def("index", &index, nb::arg("paths"), nb::arg("options"), nb::arg("progress").none())
      .def("watch", &watch, nb::arg("paths"), nb::arg("options"), nb::arg("on_change"))
      .def("search_all", &search_all, nb::arg("queries"), nb::arg("progress").none(), nb::arg("options"))
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
