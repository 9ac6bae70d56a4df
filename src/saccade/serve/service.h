// The service: maps requests to library calls, and their results to JSON.
//
// Its own API lies under /api; formats of other programs' clients have a file each.
// Every format is a list of routes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/core/untrusted_json.h"
#include "saccade/image/image_codec.h"
#include "saccade/serve/http/http.h"
#include "saccade/serve/http/keys.h"
#include "saccade/serve/metrics.h"
#include "saccade/serve/served.h"

namespace saccade::serve {

class IndexedFiles;
class Jobs;
class RemotePictures;
class RemoteRequest;
class Thumbnails;

struct ServiceOptions {
  DecodeOptions limits;         // of a client's picture: pixels, bytes, seconds, the processes that decode
  int64_t most_hits = 1000;     // k and offset together
  int64_t most_explained = 24;  // hits of one search
  int64_t most_reranked = 256;  // likewise
  // Near-duplicates of one search with a lower group_above than the default: each takes kilobytes as JSON in memory.
  int64_t most_grouped = 10'000;
  int64_t most_inputs = 256;                     // texts and pictures of one request for rows
  int64_t most_text_bytes = int64_t{256} << 10;  // of one text
  int64_t most_values = 1 << 17;  // of one body of JSON: a byte of it may become a hundred in memory
  int most_thumbnail_side = 1024;
  // From a request's beginning to its turn at an encoder or a decoder; then 503. Reranking begins no further batch then.
  double encode_seconds = 30;
  // True to refuse a Host other than this machine's own names. This keeps a web page in a local browser from
  // querying a server without keys through a name that it has pointed here (DNS rebinding).
  bool own_host_only = true;
  // False if no list of towns names the places of images. An answer without images then says so if the filter asks for one.
  bool have_towns = true;
};

// Context that every handler receives.
struct Context {
  const ServiceOptions& options;
  const Served& served;
  const Keys& keys;
  ThreadPool& pool;
  Metrics& metrics;
  Jobs* jobs;              // nullptr: nothing can be changed
  Thumbnails* thumbnails;  // nullptr: none are kept
  RemotePictures* remote;  // nullptr: nothing is fetched
  IndexedFiles& files;
  // Time from which the request at hand waits for nothing more (ServiceOptions::encode_seconds).
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  // Cancellation of the current request: returns true if its client has gone (HttpRequest::gone), or its deadline has passed.
  std::function<bool()> gone = {};
  std::shared_ptr<RemoteRequest> fetches = {};  // likewise; nullptr: nothing is fetched
  std::stop_token stop = {};                    // HttpRequest::stop of the request at hand
  Access access = Access(Right::kWrite);        // of the keys of the request at hand

  // Returns Served::collection of those that the request's keys allow: others are not there for it.
  [[nodiscard]] Result<ServedCollection*> collection(std::string_view name) const;

  // Limits for decoding the images of the request at hand: it stops with the request, and waits for a decoder
  // no longer than ServiceOptions::encode_seconds.
  [[nodiscard]] DecodeOptions limits() const;

  // The model's encoder, for the request at hand: what waits for its turn is given up once gone() says so.
  // Errors of ServedModel::encoder.
  [[nodiscard]] Result<std::shared_ptr<EncoderBackend>> lend(ServedModel& model) const;
  // Likewise, of two models. Errors of ServedModel::encoder_with.
  [[nodiscard]] Result<std::array<std::shared_ptr<EncoderBackend>, 2>> lend(ServedModel& model,
                                                                            ServedModel& second) const;
};

// Searches a collection as its engine does, with its model's encoder lent to the request at hand, and counts the time of the
// stages. `second` reranks the hits, as call.rerank says; `nullptr`: none does. Errors of Context::lend and
// EngineCore::search.
Result<SearchAnswer> search_served(const Context& context, const ServedCollection& served, SearchQuery query,
                                   EngineCore::SearchCall call, ServedModel* second = nullptr);

// Cookie of a browser that has logged in with a key once (POST /api/session).
inline constexpr std::string_view kKeyCookie = "saccade_key";

// Format of errors for the clients of an API.
using ErrorForm = std::function<Json(int status, std::string_view code, std::string_view message)>;

struct Route {
  std::string_view method;
  // "/api/collections/{name}/pictures/{id}": a part in braces is handed over; it holds no slash.
  std::string_view path;
  std::function<Result<HttpResponse>(const Context&, const HttpRequest&,
                                     const std::vector<std::string>& parts)>
      handle;
  Right right = Right::kRead;   // what it takes
  bool at_once = false;         // Admission::at_once
  bool opened_by_link = false;  // links on other sites may lead here (request_origin.h)
};

struct Format {
  std::vector<Route> routes;
  ErrorForm error;
};
Format own_format();             // api.cc
Format page_format();            // page.cc: the page for people, and the files it is made of
Format openai_format();          // openai.cc: embeddings, as OpenAI, Jina, NVIDIA NIM and infinity take them
Format cohere_format();          // cohere.cc: embeddings, as Cohere gives them
Format rerank_format();          // rerank.cc: ranks, as Jina, Cohere, infinity and vLLM give them
Format clip_retrieval_format();  // clip_retrieval.cc
Format immich_format();          // immich.cc
Format tei_format();             // tei.cc: Text Embeddings Inference
Format weaviate_format();        // weaviate.cc: the inference container of Weaviate's multi2vec-clip
// All of them, in the order in which routes are looked for.
std::vector<Format> all_formats();

// Errors as clients of OpenAI's and vLLM's ("error"), Cohere's ("message") and Jina's ("detail") read them;
// infinity's reads a list as "detail" of 422.
Json openai_error(int status, std::string_view code, std::string_view message);

// Model name that infinity's client sends if its user names none.
inline constexpr std::string_view kNoModelNamed = "default/not-specified";

class Service {
 public:
  // The referenced objects must outlive it.
  Service(ServiceOptions options, const Served& served, const Keys& keys, ThreadPool& pool, Metrics& metrics,
          Jobs* jobs = nullptr, Thumbnails* thumbnails = nullptr, RemotePictures* remote = nullptr);
  ~Service();

  // The answer to a request, errors included. Thread-safe.
  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;
  // Decides by method, path, headers and key of a request, before its body is read. Thread-safe.
  [[nodiscard]] Admission admit(const HttpRequest& request) const;
  // An error in the form that clients of the request's path expect.
  [[nodiscard]] HttpResponse refuse(const HttpRequest& request, int status, const std::string& message) const;

 private:
  // The route of a request, or why it has none.
  struct Found {
    const Format* format = nullptr;
    const Route* route = nullptr;  // nullptr: none of that method
    std::vector<std::string> parts;
    std::string methods;  // of the routes of its path
  };
  [[nodiscard]] Found find(const HttpRequest& request) const;
  [[nodiscard]] std::optional<HttpResponse> refused(const HttpRequest& request, const Found& found) const;
  [[nodiscard]] HttpResponse answer(const HttpRequest& request, const Found& found) const;

  const ServiceOptions options_;
  const std::unique_ptr<IndexedFiles> files_;
  const Context context_;
  std::vector<Format> formats_;
};

// For handlers.
HttpResponse json_response(const Json& json, int status = 200);
// An error of a handler's, for one whose clients differ in how they read them.
HttpResponse error_response(const ErrorForm& form, const Error& error);
// Parses JSON that a client sent: kBadData names the position; kLimit, before anything is parsed, for more
// values than ServiceOptions::most_values.
Result<UntrustedJson> client_json(const Context& context, std::string_view text);
// The body as a JSON object. Errors of client_json.
Result<UntrustedJson> json_object(const Context& context, const HttpRequest& request);
// kUsage for another field than these, with those that are known.
Status check_fields(const Json& json, std::span<const std::string_view> fields);
// Both.
Result<UntrustedJson> json_body(const Context& context, const HttpRequest& request,
                                std::span<const std::string_view> fields);
// kLimit for a text longer than ServiceOptions::most_text_bytes.
Status check_text(const Context& context, std::string_view text);
// Returns true if a client's image field is a remote address, "https://...", rather than a data: address or
// base64.
bool is_remote(std::string_view text);
// Fetches the remote addresses that clients sent as images. Errors of RemoteRequest::fetch, at most one,
// which is the last; kUnsupported if the server fetches nothing.
std::vector<Result<std::string>> fetch_pictures(const Context& context,
                                                std::span<const std::string> addresses);
// Returns the bytes of an image field: "data:image/png;base64,...", base64 alone, or a remote address, which
// is fetched. kBadData; errors of fetch_pictures.
Result<std::string> picture_bytes(const Context& context, const std::string& text);

}  // namespace saccade::serve
