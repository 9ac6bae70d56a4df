// The server's own API: its routes, and what is short: collections, models, health and metrics.
#include "saccade/serve/api.h"

#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/collection_json.h"
#include "saccade/model/precision.h"
#include "saccade/search/explain_hits.h"

namespace saccade::serve {
namespace {

Json error_json(std::string_view code, std::string_view message) {
  return {{"error", {{"code", code}, {"message", message}}}};
}

Result<Json> described(const ServedCollection& served) {
  const std::shared_ptr<const Snapshot> snapshot = served.now();
  SACCADE_ASSIGN(const CollectionSummary summary, snapshot->collection.summary());
  Json json = {
      {"name", served.name()}, {"model", served.model->name}, {"composer", snapshot->composer != nullptr}};
  json.update(collection_json(snapshot->collection.info(), summary));
  return json;
}

Result<HttpResponse> collections(const Context& context, const HttpRequest&, const Parts&) {
  Json list = Json::array();
  for (const auto& served : context.served.collections()) {
    SACCADE_ASSIGN(Json json, described(*served));
    list.push_back(std::move(json));
  }
  return json_response({{"collections", std::move(list)}});
}

Result<HttpResponse> collection(const Context& context, const HttpRequest&, const Parts& parts) {
  SACCADE_ASSIGN(const ServedCollection* served, context.served.collection(parts[0]));
  SACCADE_ASSIGN(const Json json, described(*served));
  return json_response(json);
}

// --- models, health, metrics -------------------------------------------------------------------------------

Result<HttpResponse> models(const Context& context, const HttpRequest&, const Parts&) {
  Json list = Json::array();
  for (const auto& model : context.served.models()) {
    const EncoderInfo& info = model->encoder->info();
    list.push_back({{"name", model->name},
                    {"family", info.family},
                    {"fingerprint", info.fingerprint},
                    {"precision", word_of(info.precision)},
                    {"dim", info.dim},
                    {"context", info.context},
                    {"reads_texts", model->encoder->tokenizer() != nullptr},
                    {"reads_pictures", info.image_width > 0},
                    {"late_interaction", model->encoder->late_interaction() != nullptr},
                    {"explains", check_explains(*model->encoder, {}).has_value()}});
  }
  return json_response({{"models", std::move(list)}});
}

// A page's pictures cannot carry a header: a browser keeps the key in a cookie that no script reads and
// that no other site's page sends.
HttpResponse session(std::string_view value, std::string_view rest) {
  HttpResponse response = json_response({{"status", "ok"}});
  response.headers.emplace_back(
      "Set-Cookie", fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict{}", kKeyCookie, value, rest));
  return response;
}

Result<HttpResponse> open_session(const Context& context, const HttpRequest& request, const Parts&) {
  constexpr std::array<std::string_view, 1> kFields = {"key"};
  SACCADE_ASSIGN(const Json json, json_body(request, kFields));
  SACCADE_ASSIGN(const std::string key, json_field<std::string>(json, "key"));
  if (context.keys.asked_for() && !context.keys.has(key)) {
    return json_response(error_json("no_key", "this is none of the server's keys"), 401);
  }
  return session(escape_part(key), "");
}

Result<HttpResponse> close_session(const Context&, const HttpRequest&, const Parts&) {
  return session("", "; Max-Age=0");
}

Result<HttpResponse> health(const Context&, const HttpRequest&, const Parts&) {
  return json_response({{"status", "ok"}});
}

Result<HttpResponse> metrics(const Context& context, const HttpRequest&, const Parts&) {
  std::map<std::string, double> gauges;
  for (const auto& model : context.served.models()) {
    const SharedEncoder::Counts counts = model->encoder->counts();
    const auto add = [&](std::string_view name, double value) {
      gauges[fmt::format("saccade_encoder_{}{{model=\"{}\"}}", name, model->name)] = value;
    };
    add("passes_total", static_cast<double>(counts.passes));
    add("calls_total", static_cast<double>(counts.calls));
    add("texts_total", static_cast<double>(counts.texts));
    add("pictures_total", static_cast<double>(counts.pictures));
    add("seconds_total", counts.seconds);
  }
  for (const auto& served : context.served.collections()) {
    gauges[fmt::format("saccade_collection_pictures{{collection=\"{}\"}}", served->name())] =
        static_cast<double>(served->now()->collection.item_count());
  }
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = context.metrics.text(gauges);
  return response;
}

}  // namespace

Format own_format() {
  return {{{"GET", "/api/search", search_by_query},
           {"POST", "/api/search", search_by_body},
           {"GET", "/api/collections", collections},
           {"GET", "/api/collections/{name}", collection},
           {"GET", "/api/collections/{name}/search", search_by_query},
           {"POST", "/api/collections/{name}/search", search_by_body},
           {"GET", "/api/collections/{name}/facets", facets},
           {"GET", "/api/collections/{name}/pictures", pictures},
           {"GET", "/api/collections/{name}/pictures/{id}", picture},
           {"GET", "/api/collections/{name}/pictures/{id}/file", picture_file},
           {"GET", "/api/collections/{name}/pictures/{id}/thumbnail", thumbnail},
           {"GET", "/api/models", models},
           {"POST", "/api/session", open_session, true},
           {"DELETE", "/api/session", close_session, true},
           {"GET", "/healthz", health, true},
           {"GET", "/metrics", metrics}},
          [](int, std::string_view code, std::string_view message) { return error_json(code, message); }};
}

HttpResponse unavailable(std::string_view message) {
  HttpResponse response = json_response(error_json("unavailable", message), 503);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace saccade::serve
