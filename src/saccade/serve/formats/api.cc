// The server's own API: its routes, and what is short: collections, models, health and metrics.
#include "saccade/serve/formats/api.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/collection_json.h"
#include "saccade/core/ascii.h"
#include "saccade/model/conform/conform_record.h"
#include "saccade/model/options/precision_names.h"

namespace saccade::serve {
namespace {

Json error_json(std::string_view code, std::string_view message) {
  return {{"error", {{"code", code}, {"message", message}}}};
}

Result<Json> described(const ServedCollection& served) {
  const std::shared_ptr<const ServedEngine> engine = served.engine();
  SACCADE_ASSIGN(const std::shared_ptr<const CollectionSnapshot> snapshot, engine->core->snapshot());
  SACCADE_ASSIGN(const CollectionSummary summary, snapshot->collection.summary());
  SACCADE_ASSIGN(const std::shared_ptr<Composer> composer, snapshot->composer());
  Json json = {{"name", served.name()}, {"model", engine->model->name}, {"composer", composer != nullptr}};
  json.update(collection_json(snapshot->collection.info(), summary));
  if (const Status followed = served.following(); !followed) {
    json["warnings"].push_back("the collection's folder has changed, and the old content is served: " +
                               followed.error().message);
  }
  for (const auto& more : {served.warnings(), engine->model->warnings}) {
    for (const std::string& warning : more) {
      const Json& all = json["warnings"];
      if (std::ranges::find(all, Json(warning)) == all.end()) json["warnings"].push_back(warning);
    }
  }
  return json;
}

Result<Json> described_now(const Context& context, std::string_view name) {
  SACCADE_ASSIGN(const ServedCollection* served, context.collection(name));
  return described(*served);
}

// Lists the collections. One that cannot be read now is listed with the reason; it is an error if none can be read.
Result<HttpResponse> collections(const Context& context, const HttpRequest&, const Parts&) {
  Json list = Json::array();
  Json unavailable = Json::array();
  std::optional<Error> failed;
  for (const auto& one : context.served.collections()) {
    if (context.access.in(one->name()) == Right::kNone) continue;
    Result<Json> json = described_now(context, one->name());
    if (json) {
      list.push_back(*std::move(json));
    } else {
      failed = json.error();
      unavailable.push_back({{"name", one->name()}, {"reason", failed->message}});
    }
  }
  if (list.empty() && failed) return fail(*std::move(failed));
  return json_response({{"collections", std::move(list)}, {"unavailable", std::move(unavailable)}});
}

Result<HttpResponse> collection(const Context& context, const HttpRequest&, const Parts& parts) {
  SACCADE_ASSIGN(const ServedCollection* served, context.collection(parts[0]));
  SACCADE_ASSIGN(const Json json, described(*served));
  return json_response(json);
}

// --- models, health, metrics -------------------------------------------------------------------------------

Result<HttpResponse> models(const Context& context, const HttpRequest&, const Parts&) {
  Json list = Json::array();
  for (const auto& model : context.served.models()) {
    const EncoderInfo& info = model->info;
    list.push_back({{"name", model->name},
                    {"family", info.family},
                    {"fingerprint", info.fingerprint},
                    {"conformance", conformance_json(conformance_of(info.fingerprint))},
                    {"precision", enum_name(info.precision)},
                    {"device", info.device},
                    {"dim", info.dim},
                    {"context", info.context},
                    {"reads_texts", model->reads_texts},
                    {"reads_images", info.image_width > 0},
                    {"late_interaction", model->late_interaction},
                    {"pair_scorer", model->pair_scorer},
                    {"explains", model->explains},
                    {"warnings", model->warnings},
                    {"bytes", model->bytes},
                    {"loaded", context.served.model_memory().use_of(*model).loaded}});
  }
  return json_response({{"models", std::move(list)}});
}

// A page's pictures cannot carry a header: a browser keeps the key in a cookie that no script reads and
// that no other site's page sends.
HttpResponse session(const HttpRequest& request, std::string_view value, std::string_view rest) {
  HttpResponse response = json_response({{"status", "ok"}});
  response.headers.emplace_back("Set-Cookie",
                                fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict{}{}", kKeyCookie, value,
                                            request.secure ? "; Secure" : "", rest));
  return response;
}

Result<HttpResponse> open_session(const Context& context, const HttpRequest& request, const Parts&) {
  constexpr std::array<std::string_view, 1> kFields = {"key"};
  SACCADE_ASSIGN(const UntrustedJson json, json_body(context, request, kFields));
  SACCADE_ASSIGN(const std::string key, json_field<std::string>(json, "key"));
  // Without configured keys, a key sent by a client is not stored.
  if (!context.keys.asked_for()) return json_response({{"status", "ok"}});
  if (context.keys.right_of(key) == Right::kNone) {
    return json_response(error_json("no_key", "this is none of the server's keys"), 401);
  }
  return session(request, percent_encoded(key), "");
}

Result<HttpResponse> close_session(const Context&, const HttpRequest& request, const Parts&) {
  return session(request, "", "; Max-Age=0");
}

Result<HttpResponse> health(const Context&, const HttpRequest&, const Parts&) {
  return json_response({{"status", "ok"}});
}

// 503 for an open route, which names no path.
HttpResponse unavailable(std::string_view message) {
  HttpResponse response = json_response(error_json("unavailable", message), 503);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

// Reports whether every collection can be searched now.
Result<HttpResponse> ready(const Context& context, const HttpRequest&, const Parts&) {
  for (const auto& served : context.served.collections()) {
    if (!context.served.collection(served->name())) return unavailable("a collection cannot be read now");
    const Status followed = served->following();
    if (followed) continue;
    return unavailable(
        followed.error().code == ErrorCode::kMismatch
            ? "a collection's folder now holds one of another checkpoint, which cannot be opened: the old one is "
              "served"
            : "a collection's folder or engine cannot be opened now");
  }
  return json_response({{"status", "ok"}});
}

// Returns the resident memory of this process; `nullopt` if the system does not report it.
std::optional<int64_t> resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  if (!(file >> all >> resident)) return std::nullopt;
  return resident * ::sysconf(_SC_PAGESIZE);
}

Result<HttpResponse> metrics(const Context& context, const HttpRequest&, const Parts&) {
  std::vector<Metrics::Value> values;
  const auto& models = context.served.models();
  const ServedModels& memory = context.served.model_memory();
  const auto add = [&](const char* name, const auto& value_of) {
    for (const auto& model : models) {
      const double value = value_of(memory.use_of(*model));
      values.push_back({fmt::format("saccade_{}", name), "model", model->name, value});
    }
  };
  using Use = ServedModels::Use;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  add("encoder_passes_total", [&](const Use& use) { return number(use.counts.passes); });
  add("encoder_calls_total", [&](const Use& use) { return number(use.counts.calls); });
  add("encoder_texts_total", [&](const Use& use) { return number(use.counts.texts); });
  add("encoder_images_total", [&](const Use& use) { return number(use.counts.pictures); });
  add("encoder_texts_remembered_total", [&](const Use& use) { return number(use.counts.remembered); });
  add("encoder_seconds_total", [&](const Use& use) { return use.counts.seconds; });
  add("model_loads_total", [&](const Use& use) { return number(use.loads); });
  add("model_loaded", [&](const Use& use) { return use.loaded ? 1.0 : 0.0; });
  values.push_back({"saccade_models_bytes", "", "", number(memory.bytes())});
  if (const auto bytes = resident_bytes())
    values.push_back({"process_resident_memory_bytes", "", "", number(*bytes)});
  std::vector<Metrics::Sizes> sizes;
  for (const auto& model : models) {
    const SharedEncoder::Counts counts = memory.use_of(*model).counts;
    sizes.push_back({"saccade_encoder_batch_size",
                     "model",
                     model->name,
                     SharedEncoder::kSizes,
                     {counts.of_size.begin(), counts.of_size.end()},
                     std::max(counts.passes, counts.of_size.back()),  // a pass may be ending now
                     number(counts.texts + counts.pictures)});
  }
  for (const auto& served : context.served.collections()) {
    if (context.access.in(served->name()) == Right::kNone) continue;
    const int64_t pictures = served->now()->collection.item_count();
    values.push_back({"saccade_collection_images", "collection", served->name(), number(pictures)});
  }
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = context.metrics.text(values, sizes);
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
           {"GET", "/api/collections/{name}/images", pictures},
           {"POST", "/api/collections/{name}/images", add_picture, Right::kWrite},
           {"GET", "/api/collections/{name}/images/{id}", picture},
           {"DELETE", "/api/collections/{name}/images/{id}", remove_picture, Right::kWrite},
           {"GET", "/api/collections/{name}/images/{id}/file", picture_file},
           {"GET", "/api/collections/{name}/images/{id}/thumbnail", thumbnail},
           {"POST", "/api/collections/{name}/jobs", start_job, Right::kWrite},
           {"GET", "/api/jobs", jobs},
           {"GET", "/api/jobs/{id}", job},
           {"DELETE", "/api/jobs/{id}", cancel_job, Right::kWrite},
           {"GET", "/api/jobs/{id}/events", job_events},
           {"GET", "/api/models", models},
           {"POST", "/api/session", open_session, Right::kNone},
           {"DELETE", "/api/session", close_session, Right::kNone},
           {"GET", "/healthz", health, Right::kNone, true},
           {"GET", "/readyz", ready, Right::kNone, true},
           {"GET", "/metrics", metrics}},
          [](int, std::string_view code, std::string_view message) { return error_json(code, message); }};
}

}  // namespace saccade::serve
