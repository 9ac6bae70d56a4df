// Fuzzer of request bodies in every format of the server, answered by its own handlers over the starter
// checkpoint and a collection of six images. The input's first line is the request's path, the rest the body;
// a form's boundary is "b".
#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "saccade/collection/collection_writer.h"
#include "saccade/core/files/temporary_folder.h"
#include "saccade/core/source_dir.h"
#include "saccade/serve/service.h"

#include "fuzz.h"
#include "mutators.h"

namespace saccade::serve {
namespace {

// State of the handlers, made once per process.
class Serving {
 public:
  Serving() : folder_(TemporaryFolder::make().value()) {
    const std::filesystem::path starter = std::filesystem::path(test::kSourceDir) / "models/starter";
    const LoadedEncoder loaded = load_checkpoint(starter.string()).value();
    auto writer = CollectionWriter::create(folder_.path() / "pictures", loaded.id).value();
    CollectionChange change;
    for (int row = 0; row < 6; ++row) {
      CollectionChange::Put put;
      put.item.path = fmt::format("/nowhere/{}.jpg", row);
      put.item.hash = fmt::format("{:064x}", row);
      put.item.format = "jpeg";
      put.item.width = put.item.height = 640;
      put.item.caption = row % 2 == 0 ? "a red bell" : "two cats";
      put.values.assign(static_cast<size_t>(loaded.id.dim), 0);
      put.values[static_cast<size_t>(row)] = 1;
      change.puts.push_back(std::move(put));
    }
    FUZZ_CHECK(writer.commit(change).has_value());
    ServedOptions options;
    options.collections = {folder_.path() / "pictures"};
    options.follow_seconds = 3600;
    served_ = Served::open(options).value();
    ServiceOptions limits;
    limits.most_inputs = 4;
    limits.most_text_bytes = 1024;
    limits.limits.max_pixels = 100'000;
    service_ = std::make_unique<Service>(limits, *served_, keys_, pool_, metrics_);
  }
  [[nodiscard]] HttpResponse answer(const HttpRequest& request) const { return service_->handle(request); }

 private:
  TemporaryFolder folder_;
  Keys keys_;
  ThreadPool pool_{1};
  Metrics metrics_;
  std::unique_ptr<Served> served_;
  std::unique_ptr<Service> service_;
};

}  // namespace
}  // namespace saccade::serve

int fuzz_input(const uint8_t* data, size_t size) {
  using namespace saccade::serve;
  static const Serving serving;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  HttpRequest request;
  request.method = "POST";
  request.path = fmt::format("/{}", input.substr(0, line));
  request.body = input.substr(std::min(line + 1, input.size()));
  request.headers = {{"host", "localhost"}};
  if (request.body.starts_with("--b\r\n")) {
    request.headers.emplace_back("content-type", "multipart/form-data; boundary=b");
  }
  const HttpResponse response = serving.answer(request);
  // Every request is answered, and never with a server error.
  constexpr std::array<int, 8> kKnown = {200, 400, 404, 405, 409, 413, 415, 422};
  if (std::ranges::find(kKnown, response.status) == kKnown.end()) {
    std::fprintf(stderr, "status %d: %s\n", response.status, response.body.c_str());
  }
  FUZZ_CHECK(std::ranges::find(kKnown, response.status) != kKnown.end());
  const auto json = saccade::parse_json(response.body);
  FUZZ_CHECK(response.content_type != "application/json" || json.has_value());
  // An error has the shape of one of the formats, and a message.
  if (response.status != 200) {
    FUZZ_CHECK(json && (json->contains("error") || json->contains("message") || json->contains("detail")));
  }
  return 0;
}

namespace {

constexpr std::array<std::string_view, 91> kWords = {"text",
                                                     "image",
                                                     "k",
                                                     "offset",
                                                     "like",
                                                     "compose",
                                                     "text_weight",
                                                     "was",
                                                     "literal",
                                                     "filter",
                                                     "group_duplicates",
                                                     "chunk_long_text",
                                                     "long_query",
                                                     "candidates",
                                                     "min_probability",
                                                     "order",
                                                     "date",
                                                     "keyword_weight",
                                                     "explain",
                                                     "explain_by",
                                                     "chefer",
                                                     "weight",
                                                     "without",
                                                     "group_above",
                                                     "exact_rescore",
                                                     "rerank",
                                                     "rerank_depth",
                                                     "rerank_by",
                                                     "cosine",
                                                     "match",
                                                     "collection",
                                                     "pictures",
                                                     "composer",
                                                     "sum",
                                                     "difference",
                                                     "direction",
                                                     "input",
                                                     "model",
                                                     "starter",
                                                     "encoding_format",
                                                     "base64",
                                                     "float",
                                                     "dimensions",
                                                     "type",
                                                     "image_url",
                                                     "url",
                                                     "data:image/png;base64,iVBORw0KGgo=",
                                                     "normalized",
                                                     "embedding_type",
                                                     "modality",
                                                     "input_type",
                                                     "query",
                                                     "passage",
                                                     "truncate",
                                                     "NONE",
                                                     "END",
                                                     "user",
                                                     "indice_name",
                                                     "num_images",
                                                     "num_result_ids",
                                                     "deduplicate",
                                                     "embedding_input",
                                                     "ids",
                                                     "inputs",
                                                     "texts",
                                                     "raw_scores",
                                                     "return_text",
                                                     "normalize",
                                                     "truncation_direction",
                                                     "Right",
                                                     "prompt_name",
                                                     "documents",
                                                     "top_n",
                                                     "return_documents",
                                                     "clip",
                                                     "visual",
                                                     "textual",
                                                     "modelName",
                                                     "options",
                                                     "language",
                                                     "entries",
                                                     "a red bell",
                                                     "cats -dogs",
                                                     "\"red bell\":2",
                                                     "width > 100 and format = jpeg",
                                                     "embedding_types",
                                                     "images",
                                                     "content",
                                                     "max_chunks_per_doc",
                                                     "sentences",
                                                     "source_sentence"};
constexpr std::array<std::string_view, 6> kPartLines = {
    "--b\r\n",
    "--b--\r\n",
    "Content-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\n",
    "Content-Disposition: form-data; name=\"text\"\r\n",
    "Content-Disposition: form-data; name=\"entries\"\r\n",
    "\r\n"};
constexpr std::array<std::string_view, 14> kPaths = {"api/search",  "api/collections/pictures/search",
                                                     "api/session", "v1/embeddings",
                                                     "embeddings",  "embeddings_image",
                                                     "knn-service", "metadata",
                                                     "predict",     "embed",
                                                     "rerank",      "v1/rerank",
                                                     "v2/rerank",   "v2/embed"};

}  // namespace

std::string fuzz_mutate(std::string input, saccade::SplitMix& random) {
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string_view body = std::string_view(input).substr(std::min(line + 1, input.size()));
  if (random.below(8) == 0)
    return std::string(kPaths[random.below(kPaths.size())]) + "\n" + std::string(body);
  const std::string changed = body.starts_with("--b") ? mutate_lines(body, kPartLines, kWords, random)
                                                      : mutate_json(body, kWords, random);
  return input.substr(0, line) + "\n" + changed;
}
