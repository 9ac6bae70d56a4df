#include "saccade/serve/service.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/core/ascii.h"
#include "saccade/core/base64.h"
#include "saccade/search/listing.h"
#include "saccade/serve/files/indexed_files.h"
#include "saccade/serve/files/remote_pictures.h"
#include "saccade/serve/request_origin.h"
#include "saccade/text/nearest.h"

namespace saccade::serve {
namespace {

using Clock = std::chrono::steady_clock;

// Returns the parts of the path at the pattern's braces; `nullopt` if the path does not match.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view path) {
  std::vector<std::string> found;
  while (!pattern.empty() && !path.empty()) {
    pattern.remove_prefix(1);  // a slash
    path.remove_prefix(1);
    const std::string_view wanted = pattern.substr(0, pattern.find('/'));
    const std::string_view given = path.substr(0, path.find('/'));
    if (wanted.starts_with('{') && !given.empty()) {
      found.emplace_back(given);
    } else if (wanted != given) {
      return std::nullopt;
    }
    pattern.remove_prefix(wanted.size());
    path.remove_prefix(given.size());
  }
  if (!pattern.empty() || !path.empty()) return std::nullopt;
  return found;
}

// Returns the value of one cookie, decoded; "" if there is none.
std::string cookie(const HttpRequest& request, std::string_view name) {
  std::string_view rest = request.header("cookie").value_or("");
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return decode_path(pair.substr(name.size() + 1)).value_or("");
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (rest.starts_with(' ')) rest.remove_prefix(1);
  }
  return {};
}

// Returns the key in an Authorization header: "Bearer KEY", or the password of "Basic" (RFC 7617), which is
// what clients make of http://user:KEY@host. "" if there is none.
std::string key_of_authorization(std::string_view header) {
  const size_t space = std::min(header.find(' '), header.size());
  const size_t begin = header.find_first_not_of(' ', space);
  if (begin == std::string_view::npos) return {};
  const std::string scheme = lower_ascii(header.substr(0, space));
  header.remove_prefix(begin);
  if (scheme == "bearer") return std::string(header);
  if (scheme != "basic") return {};
  const Result<std::string> pair = decode_base64(header);
  const size_t colon = pair ? pair->find(':') : std::string::npos;
  return colon == std::string::npos ? std::string() : pair->substr(colon + 1);
}

// Returns the access that a request's keys allow together: those of Authorization, X-API-Key, and a browser's cookie. One that is wrong hides
// none of the others.
Access access_of(const Keys& keys, const HttpRequest& request) {
  Access access = keys.access_of(cookie(request, kKeyCookie));
  if (const auto key = request.header("x-api-key")) access.add(keys.access_of(*key));
  if (const auto given = request.header("authorization"))
    access.add(keys.access_of(key_of_authorization(*given)));
  return access;
}

// Routes below it change or read the collection that its part names.
constexpr std::string_view kOfOneCollection = "/api/collections/{name}/";

// No fewer values than the JSON has: separators outside of strings, and one.
int64_t most_values_in(std::string_view json) {
  int64_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else {
      in_string = c == '"';
      if (c == ',' || c == ':' || c == '[' || c == '{') ++values;
    }
  }
  return values;
}

std::string_view code_of(int status) {
  switch (status) {
    case 400:
      return "bad_request";
    case 401:
      return "no_key";
    case 403:
      return "forbidden";
    case 404:
      return "not_found";
    case 405:
      return "method_not_allowed";
    case 408:
      return "timeout";
    case 413:
      return "limit";
    case 429:
      return "too_many_requests";
    case 431:
      return "limit";
    case 501:
      return "unsupported";
    case 503:
      return "unavailable";
    default:
      return "internal";
  }
}

// Headers that every answer carries: nothing of ours is a page that runs or frames anything.
void add_security_headers(HttpResponse& response) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(response.headers, name, &NamedValue::first) != response.headers.end();
  };
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  if (!has("Content-Security-Policy")) {
    response.headers.emplace_back("Content-Security-Policy",
                                  "default-src 'none'; frame-ancestors 'none'; sandbox");
  }
  if (!has("Cache-Control")) response.headers.emplace_back("Cache-Control", "no-store");
}

}  // namespace

Result<std::shared_ptr<EncoderBackend>> Context::lend(ServedModel& model) const {
  SACCADE_ASSIGN(std::shared_ptr<SharedEncoder> shared, model.encoder());
  return std::make_shared<LentEncoder>(std::move(shared), gone);
}

Result<std::array<std::shared_ptr<EncoderBackend>, 2>> Context::lend(ServedModel& model,
                                                                     ServedModel& second) const {
  SACCADE_ASSIGN(auto shared, model.encoder_with(second));
  return std::array<std::shared_ptr<EncoderBackend>, 2>{
      std::make_shared<LentEncoder>(std::move(shared[0]), gone),
      std::make_shared<LentEncoder>(std::move(shared[1]), gone)};
}

Result<ServedCollection*> Context::collection(std::string_view name) const {
  if (access.everywhere() != Right::kNone) return served.collection(name);
  std::vector<std::string> allowed;
  for (const auto& one : served.collections()) {
    if (access.in(one->name()) != Right::kNone) allowed.push_back(one->name());
  }
  if (name.empty() && allowed.size() == 1) return served.collection(allowed.front());
  if (std::ranges::find(allowed, name) != allowed.end()) return served.collection(name);
  if (name.empty() && !allowed.empty()) {
    return fail(ErrorCode::kUsage, "several collections are served: name one of {}",
                fmt::join(allowed, ", "));
  }
  return fail(ErrorCode::kNotFound, "no collection \"{}\"; there are: {}{}", name,
              allowed.empty() ? "none" : fmt::format("{}", fmt::join(allowed, ", ")),
              did_you_mean(name, allowed));
}

Result<SearchAnswer> search_served(const Context& context, const ServedCollection& served, SearchQuery query,
                                   EngineCore::SearchCall call, ServedModel* second) {
  const std::shared_ptr<const ServedEngine> engine = served.engine();
  // A list by date needs no encoder.
  EngineEncoder encoder;
  std::shared_ptr<EncoderBackend> reranker;
  if (second != nullptr) {
    SACCADE_ASSIGN(auto lent, context.lend(*engine->model, *second));
    encoder = engine->model->engine_encoder(std::move(lent[0]));
    call.encoder = &encoder;
    reranker = std::move(lent[1]);
    call.second = reranker.get();
    call.rerank.name = second->name;
    call.rerank.deadline = context.deadline;
  } else if (!is_listing(query) || call.like != 0) {
    SACCADE_ASSIGN(std::shared_ptr<EncoderBackend> lent, context.lend(*engine->model));
    encoder = engine->model->engine_encoder(std::move(lent));
    call.encoder = &encoder;
  }
  query.limits = context.limits();
  query.stop = context.stop;
  call.pool = &context.pool;
  call.stop = context.stop;
  call.spent = [&](std::string_view stage, double seconds) { context.metrics.spent(stage, seconds); };
  return engine->core->search(std::move(query), call);
}

DecodeOptions Context::limits() const {
  DecodeOptions limits = options.limits;
  limits.stop = stop;
  limits.max_wait_seconds = options.encode_seconds;
  return limits;
}

std::vector<Format> all_formats() {
  return {own_format(),    page_format(),   openai_format(),
          cohere_format(), rerank_format(), clip_retrieval_format(),
          immich_format(), tei_format(),    weaviate_format()};
}

Service::Service(ServiceOptions options, const Served& served, const Keys& keys, ThreadPool& pool,
                 Metrics& metrics, Jobs* jobs, Thumbnails* thumbnails, RemotePictures* remote)
    : options_(std::move(options)),
      files_(std::make_unique<IndexedFiles>()),
      context_{options_, served, keys, pool, metrics, jobs, thumbnails, remote, *files_},
      formats_(all_formats()) {}

Service::~Service() = default;

Service::Found Service::find(const HttpRequest& request) const {
  Found found;
  for (const Format& format : formats_) {
    for (const Route& route : format.routes) {
      auto parts = match(route.path, request.path);
      if (!parts) continue;
      if (found.format == nullptr) found.format = &format;
      if (route.method == request.method || (route.method == "GET" && request.method == "HEAD")) {
        found.format = &format;
        found.route = &route;
        found.parts = *std::move(parts);
        return found;
      }
      found.methods += fmt::format("{}{}", found.methods.empty() ? "" : ", ", route.method);
    }
  }
  if (found.format == nullptr) found.format = &formats_.front();
  return found;
}

HttpResponse Service::refuse(const HttpRequest& request, int status, const std::string& message) const {
  HttpResponse response =
      json_response(find(request).format->error(status, code_of(status), message), status);
  add_security_headers(response);
  return response;
}

std::optional<HttpResponse> Service::refused(const HttpRequest& request, const Found& found) const {
  const auto host = request.header("host");
  if (options_.own_host_only && host && !names_loopback(*host)) {
    return refuse(request, 403,
                  fmt::format("this server answers to localhost, not to \"{}\": start it with keys", *host));
  }
  if (found.route == nullptr) {
    HttpResponse response =
        found.methods.empty() ? refuse(request, 404, fmt::format("nothing is at {}", request.path))
                              : refuse(request, 405, fmt::format("{} takes {}", request.path, found.methods));
    if (!found.methods.empty()) response.headers.emplace_back("Allow", found.methods);
    return response;
  }
  if (is_of_another_page(request, found.route->opened_by_link)) {
    return refuse(request, 403, "a page of another site asks: pages that this server shows may");
  }
  const Access access = access_of(context_.keys, request);
  const Right has = access.anywhere();
  if (has >= found.route->right) {
    // A collection that the keys do not allow at all is not there (Context::collection).
    if (!found.route->path.starts_with(kOfOneCollection)) return std::nullopt;
    const Right here = access.in(found.parts.front());
    if (here == Right::kNone || here >= found.route->right) return std::nullopt;
    return refuse(request, 403, "this key may not change this collection");
  }
  if (has != Right::kNone) return refuse(request, 403, "this key may not change anything");
  HttpResponse response =
      refuse(request, 401, "a key is needed: Authorization: Bearer KEY, or X-API-Key: KEY");
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

Admission Service::admit(const HttpRequest& request) const {
  const Found found = find(request);
  Admission admission;
  admission.answer = refused(request, found);
  if (admission.answer) {
    context_.metrics.answered(found.route ? found.route->path : "other", admission.answer->status, 0);
    return admission;
  }
  admission.open = found.route->right == Right::kNone;
  admission.at_once = found.route->at_once;
  return admission;
}

HttpResponse Service::handle(const HttpRequest& request) const {
  const auto start = Clock::now();
  const Found found = find(request);
  std::optional<HttpResponse> response = refused(request, found);
  if (!response) {
    response = answer(request, found);
    add_security_headers(*response);
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  context_.metrics.answered(found.route ? found.route->path : "other", response->status, seconds.count());
  return *std::move(response);
}

HttpResponse Service::answer(const HttpRequest& request, const Found& found) const {
  Context context = context_;
  context.stop = request.stop;
  context.access = access_of(context_.keys, request);
  context.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(options_.encode_seconds));
  context.gone = [&request, deadline = context.deadline] {
    return request.gone() || Clock::now() >= deadline;
  };
  if (context.remote != nullptr)
    context.fetches = std::make_shared<RemoteRequest>(*context.remote, context.gone);
  Result<HttpResponse> handled = found.route->handle(context, request, found.parts);
  if (handled) return *std::move(handled);
  return error_response(found.format->error, handled.error());
}

HttpResponse json_response(const Json& json, int status) {
  HttpResponse response;
  response.status = status;
  response.body = dump_json(json);
  return response;
}

HttpResponse error_response(const ErrorForm& form, const Error& error) {
  const int status = http_status(error.code);
  // Nobody asks a handler to stop: kCancelled is what has no room or no time now.
  const std::string_view code = status == 503 ? code_of(503) : name(error.code);
  HttpResponse response = json_response(form(status, code, error.message), status);
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

Result<UntrustedJson> client_json(const Context& context, std::string_view text) {
  if (const int64_t values = most_values_in(text); values > context.options.most_values) {
    return fail(ErrorCode::kLimit, "some {} values, at most {} are taken", values,
                context.options.most_values);
  }
  SACCADE_ASSIGN(Json json, parse_json(text));
  return UntrustedJson(std::move(json));
}

Result<UntrustedJson> json_object(const Context& context, const HttpRequest& request) {
  if (request.body.empty()) return fail(ErrorCode::kBadData, "body: empty, expected a JSON object");
  SACCADE_ASSIGN(UntrustedJson json, client_json(context, request.body).in("body"));
  if (!json.is_object()) return fail(ErrorCode::kBadData, "body: {}, expected an object", json_kind(json));
  return json;
}

Status check_fields(const Json& json, std::span<const std::string_view> fields) {
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(fields, key) == fields.end()) {
      return fail(ErrorCode::kUsage, "\"{}\" is not known here; there are: {}{}", key,
                  fmt::join(fields, ", "), did_you_mean(key, fields));
    }
  }
  return {};
}

Result<UntrustedJson> json_body(const Context& context, const HttpRequest& request,
                                std::span<const std::string_view> fields) {
  SACCADE_ASSIGN(UntrustedJson json, json_object(context, request));
  SACCADE_TRY(check_fields(json, fields));
  return json;
}

Status check_text(const Context& context, std::string_view text) {
  if (std::ssize(text) <= context.options.most_text_bytes) return {};
  return fail(ErrorCode::kLimit, "a text of {} bytes, at most {} are taken", text.size(),
              context.options.most_text_bytes);
}

bool is_remote(std::string_view text) {
  return !text.starts_with("data:") && text.substr(0, 256).find("://") != std::string_view::npos;
}

std::vector<Result<std::string>> fetch_pictures(const Context& context,
                                                std::span<const std::string> addresses) {
  if (context.fetches != nullptr) return context.fetches->fetch(addresses);
  std::vector<Result<std::string>> refused;
  refused.emplace_back(
      fail(ErrorCode::kUnsupported,
           "addresses are not fetched: send the image itself, as data:image/...;base64,..."));
  return refused;
}

Result<std::string> picture_bytes(const Context& context, const std::string& text) {
  if (!is_remote(text)) return decode_picture_text(text);
  return std::move(fetch_pictures(context, {&text, 1}).back());
}

}  // namespace saccade::serve
