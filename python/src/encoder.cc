#include <algorithm>
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

#include "bindings.h"
#include "call.h"
#include "conversions.h"

namespace saccade::python {
namespace {

constexpr size_t kTextsBetweenStops = 1024;

tl::unexpected<Error> stopped() {
  return tl::unexpected(Error{ErrorCode::kCancelled, "asked to stop"});
}

PyEncoder load(const nb::bytes& named, const std::string& precision, int threads, const std::string& device) {
  const std::string checkpoint = raw(named);
  const EncoderOptions options{
      .precision = value_of(parse_precision(precision)), .threads = threads, .device = device};
  Call call;
  Encoder loaded = call.run([&] { return Encoder::load(checkpoint, options); });
  // A child loads the very same model: what was chosen here is not chosen again.
  const EncoderOptions same{.precision = loaded.info().precision, .threads = threads, .device = device};
  const std::string folder = std::filesystem::absolute(loaded.folder()).string();
  return {std::make_shared<SharedEncoder>(std::move(loaded),
                                          [folder, same] { return Encoder::load(folder, same); })};
}

// Images of a Python iterator of ImageInput, each taken when it is needed. The iterator's images are used up.
Encoder::ImageSource source_of(Call& call, nb::handle iterator) {
  return [&call, iterator]() -> Result<std::optional<ImageInput>> {
    std::optional<ImageInput> next;
    const bool going_on = call.ask([&] {
      const nb::object item = nb::steal(PyIter_Next(iterator.ptr()));
      if (item.is_valid()) {
        next = std::move(nb::cast<PyImage&>(item).input);
      } else if (PyErr_Occurred() != nullptr) {
        throw nb::python_error();
      }
    });
    if (!going_on) return stopped();
    return next;
  };
}

std::vector<ImageInput> all_of(nb::handle iterator) {
  std::vector<ImageInput> inputs;
  for (const nb::handle item : iterator) inputs.push_back(std::move(nb::cast<PyImage&>(item).input));
  return inputs;
}

// Returns (embeddings, [(index, error)]).
nb::tuple encode_images(PyEncoder& self, nb::handle images, int batch_size, bool skip, nb::handle progress) {
  const Encoder& encoder = self.shared->get();
  Call call;
  const EncodeOptions options{.batch_size = batch_size,
                              .errors = skip ? OnError::kSkip : OnError::kFail,
                              .on_progress = call.progress_to(progress),
                              .stop = call.stop()};
  const Encoder::ImageSource source = source_of(call, images);
  Embeddings embeddings = call.run([&] { return encoder.encode_images(source, options); });
  nb::list skipped;
  for (const SkippedInput& one : embeddings.skipped())
    skipped.append(nb::make_tuple(one.index, error_of(one.error)));
  return nb::make_tuple(array_of(std::move(embeddings).release()), skipped);
}

nb::object encode_texts(PyEncoder& self, const std::vector<std::string>& texts, int batch_size,
                        nb::handle progress) {
  const Encoder& encoder = self.shared->get();
  Call call;
  const EncodeOptions options{
      .batch_size = batch_size, .on_progress = call.progress_to(progress), .stop = call.stop()};
  return array_of(call.run([&] { return encoder.encode_texts(texts, options); }).release());
}

nb::object encode_pixels(PyEncoder& self, const RowsIn& pixels, int batch_size, nb::handle progress) {
  const Encoder& encoder = self.shared->get();
  Call call;
  const EncodeOptions options{
      .batch_size = batch_size, .on_progress = call.progress_to(progress), .stop = call.stop()};
  const MatrixView<const float> rows = view_of(pixels);
  return array_of(call.run([&] { return encoder.encode_pixels(rows, options); }).release());
}

// (rows, begin)
nb::tuple multi_of(MultiEmbeddings multi) {
  const size_t count = multi.begin.size();
  return nb::make_tuple(array_of(std::move(multi.rows)), array_of(std::move(multi.begin), {count}));
}

nb::tuple encode_images_multi(PyEncoder& self, nb::handle images, int batch_size, nb::handle progress) {
  const Encoder& encoder = self.shared->get();
  const std::vector<ImageInput> inputs = all_of(images);
  Call call;
  const EncodeOptions options{
      .batch_size = batch_size, .on_progress = call.progress_to(progress), .stop = call.stop()};
  return multi_of(call.run([&] { return encoder.encode_images_multi(inputs, options); }));
}

nb::tuple encode_texts_multi(PyEncoder& self, const std::vector<std::string>& texts, int batch_size,
                             nb::handle progress) {
  const Encoder& encoder = self.shared->get();
  Call call;
  const EncodeOptions options{
      .batch_size = batch_size, .on_progress = call.progress_to(progress), .stop = call.stop()};
  return multi_of(call.run([&] { return encoder.encode_texts_multi(texts, options); }));
}

// (used, dropped), int64 arrays.
nb::tuple tokens(PyEncoder& self, const std::vector<std::string>& texts) {
  const Encoder& encoder = self.shared->get();
  std::vector<int64_t> used;
  std::vector<int64_t> dropped;
  Call call;
  call.run([&]() -> Status {
    const std::span<const std::string> all(texts);
    for (size_t begin = 0; begin == 0 || begin < all.size(); begin += kTextsBetweenStops) {
      if (call.stop().stop_requested()) return stopped();
      const auto uses = encoder.tokens(all.subspan(begin, std::min(kTextsBetweenStops, all.size() - begin)));
      if (!uses) return tl::unexpected(uses.error());
      for (const TokenUse& use : *uses) {
        used.push_back(use.used);
        dropped.push_back(use.dropped);
      }
    }
    return {};
  });
  return nb::make_tuple(array_of(std::move(used), {texts.size()}),
                        array_of(std::move(dropped), {texts.size()}));
}

nb::list tokenize(PyEncoder& self, const std::vector<std::string>& texts, std::optional<int64_t> max_tokens) {
  const Encoder& encoder = self.shared->get();
  const Tokenizer* tokenizer = encoder.tokenizer();
  if (tokenizer == nullptr) {
    throw Failed({ErrorCode::kUnsupported,
                  encoder.name() + ": the checkpoint has no tokenizer, so that it reads no texts"});
  }
  const int64_t most = max_tokens.value_or(encoder.info().context);
  std::vector<std::vector<int32_t>> ids;
  Call call;
  call.run([&]() -> Status {
    for (const std::string& text : texts) {
      if (call.stop().stop_requested()) return stopped();
      ids.push_back(tokenizer->encode(text, most).ids);
    }
    return {};
  });
  nb::list all;
  for (std::vector<int32_t>& one : ids) {
    const size_t count = one.size();
    all.append(array_of(std::move(one), {count}));
  }
  return all;
}

// Token ids with start and end, without padding.
nb::object encode_tokens(PyEncoder& self, const std::vector<std::vector<int32_t>>& ids, int batch_size,
                         nb::handle progress) {
  const Encoder& encoder = self.shared->get();
  std::vector<TokenizedText> texts;
  for (const std::vector<int32_t>& one : ids) {
    const auto used = std::max<int64_t>(0, std::ssize(one) - 2);
    texts.push_back({.ids = one, .used = used, .dropped = 0, .first = 1});
  }
  Call call;
  const EncodeOptions options{
      .batch_size = batch_size, .on_progress = call.progress_to(progress), .stop = call.stop()};
  return array_of(call.run([&] { return encoder.encode_tokens(texts, options); }).release());
}

nb::object relevance_map(PyEncoder& self, PyImage& image, const std::string& text) {
  const Encoder& encoder = self.shared->get();
  Call call;
  RelevanceMap map = call.run([&] { return encoder.relevance_map(image.input, text); });
  return array_of(std::move(map.values), {static_cast<size_t>(map.rows), static_cast<size_t>(map.columns)});
}

nb::object score_pairs(PyEncoder& self, nb::handle images, const std::vector<std::string>& texts,
                       int batch_size, nb::handle progress) {
  const Encoder& encoder = self.shared->get();
  const std::vector<ImageInput> inputs = all_of(images);
  Call call;
  const EncodeOptions options{
      .batch_size = batch_size, .on_progress = call.progress_to(progress), .stop = call.stop()};
  std::vector<float> scores = call.run([&] { return encoder.score_pairs(inputs, texts, options); });
  const size_t count = scores.size();
  return array_of(std::move(scores), {count});
}

nb::object visualness(PyEncoder& self, const std::vector<std::string>& texts) {
  const Encoder& encoder = self.shared->get();
  Call call;
  const EncodeOptions options{.stop = call.stop()};
  std::vector<double> scores = call.run([&] { return encoder.visualness(texts, options); });
  const size_t count = scores.size();
  return array_of(std::move(scores), {count});
}

nb::list effective_lengths(PyEncoder& self) {
  nb::list all;
  for (const EffectiveLength& length : value_of(self.shared->get().effective_lengths())) {
    nb::dict dict;
    dict["dataset"] = text_of(length.dataset);
    dict["domain"] = text_of(length.domain);
    dict["precision"] = text_of(length.precision);
    dict["tokens"] = length.tokens;
    dict["low"] = or_none(length.low);
    dict["high"] = or_none(length.high);
    dict["confidence"] = length.confidence;
    dict["share"] = length.share;
    dict["r1"] = length.r1;
    dict["longest"] = length.longest;
    dict["longer_texts"] = length.longer_texts;
    dict["at_end"] = length.at_end;
    dict["images"] = length.images;
    dict["texts"] = length.texts;
    all.append(dict);
  }
  return all;
}

// Pixels [n, 3 * height * width] as the model takes them.
nb::object preprocessed(PyEncoder& self, nb::list images) {
  const Encoder& encoder = self.shared->get();
  const Preprocessing& how = encoder.preprocessing();
  const int64_t width = int64_t{3} * how.output_height() * how.output_width();
  Matrix<float> rows(static_cast<int64_t>(images.size()), width);
  std::vector<Image> pixels;
  for (const nb::handle item : images) {
    const auto* image = std::get_if<Image>(&nb::cast<PyImage&>(item).input.content());
    if (image == nullptr)
      throw Failed({ErrorCode::kUsage, "preprocess() takes decoded images: Pillow's, or arrays"});
    pixels.push_back(*image);
  }
  Call call;
  call.run([&]() -> Status {
    for (int64_t i = 0; i < rows.rows(); ++i) {
      if (call.stop().stop_requested()) return stopped();
      if (Status done = preprocess(pixels[static_cast<size_t>(i)], how, rows.row(i)); !done) return done;
    }
    return {};
  });
  return array_of(std::move(rows));
}

nb::dict info(PyEncoder& self) {
  const Encoder& encoder = self.shared->get();
  const EncoderInfo& info = encoder.info();
  nb::dict dict;
  dict["name"] = text_of(encoder.name());
  dict["folder"] = text_of_path(encoder.folder().string());
  dict["family"] = text_of(info.family);
  dict["layout"] = text_of(info.layout);
  dict["fingerprint"] = text_of(info.fingerprint);
  dict["precision"] = text_of(name(info.precision));
  dict["device"] = text_of(info.device);
  dict["dim"] = info.dim;
  dict["context"] = info.context;
  dict["parameters"] = info.parameters;
  dict["image_height"] = info.image_height;
  dict["image_width"] = info.image_width;
  dict["logit_scale"] = info.logit_scale;
  dict["shared_space"] = info.shared_space;
  dict["preprocessing_guessed"] = info.preprocessing_guessed;
  dict["preprocessing"] = text_of(encoder.preprocessing().describe());
  const Tokenizer* tokenizer = encoder.tokenizer();
  dict["reads_texts"] = tokenizer != nullptr;
  dict["start_id"] = tokenizer != nullptr ? tokenizer->start_id() : -1;
  dict["end_id"] = tokenizer != nullptr ? tokenizer->end_id() : -1;
  dict["pad_id"] = tokenizer != nullptr ? tokenizer->pad_id() : -1;
  dict["vocabulary_size"] = tokenizer != nullptr ? tokenizer->vocabulary_size() : 0;
  dict["has_late_interaction"] = encoder.has_late_interaction();
  dict["has_pair_scorer"] = encoder.has_pair_scorer();
  dict["has_relevance_maps"] = encoder.has_relevance_maps();
  dict["has_visualness"] = encoder.has_visualness();
  nb::list notes;
  for (const std::string& note : encoder.notes()) notes.append(text_of(note));
  dict["notes"] = notes;
  return dict;
}

}  // namespace

void bind_encoder(nb::module_& module) {
  module.def("load", &load, nb::arg("checkpoint"), nb::arg("precision"), nb::arg("threads"),
             nb::arg("device"));
  nb::class_<PyEncoder>(module, "Encoder")
      .def("encode_images", &encode_images, nb::arg("images"), nb::arg("batch_size"), nb::arg("skip"),
           nb::arg("progress").none())
      .def("encode_texts", &encode_texts, nb::arg("texts"), nb::arg("batch_size"), nb::arg("progress").none())
      .def("encode_pixels", &encode_pixels, nb::arg("pixels").noconvert(), nb::arg("batch_size"),
           nb::arg("progress").none())
      .def("encode_images_multi", &encode_images_multi, nb::arg("images"), nb::arg("batch_size"),
           nb::arg("progress").none())
      .def("encode_texts_multi", &encode_texts_multi, nb::arg("texts"), nb::arg("batch_size"),
           nb::arg("progress").none())
      .def("encode_tokens", &encode_tokens, nb::arg("ids"), nb::arg("batch_size"), nb::arg("progress").none())
      .def("tokens", &tokens, nb::arg("texts"))
      .def("tokenize", &tokenize, nb::arg("texts"), nb::arg("max_tokens").none())
      .def("relevance_map", &relevance_map, nb::arg("image"), nb::arg("text"))
      .def("score_pairs", &score_pairs, nb::arg("images"), nb::arg("texts"), nb::arg("batch_size"),
           nb::arg("progress").none())
      .def("effective_lengths", &effective_lengths)
      .def("visualness", &visualness, nb::arg("texts"))
      .def("preprocess", &preprocessed, nb::arg("images"))
      .def("info", &info);
}

}  // namespace saccade::python
