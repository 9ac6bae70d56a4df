#include "saccade/collection/weaviate/weaviate_client.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/core/process/stoppable_wait.h"

namespace saccade::weaviate {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kMostAnswer = int64_t{1} << 30;
constexpr size_t kMostSaid = 400;
constexpr const char* kKeyVariable = "SACCADE_WEAVIATE_KEY";
constexpr const char* kKeyFileVariable = "SACCADE_WEAVIATE_KEY_FILE";

// Returns true for a message of GraphQL, whose status is 200 all the same, that a node or the replicas of a shard do not
// answer now. The words are Weaviate's and those of Go's network library.
bool is_unavailable(const std::string& said) {
  static constexpr std::string_view kWords[] = {"cannot reach enough replicas",
                                                "cannot achieve consistency level",
                                                "connection refused",
                                                "connection reset",
                                                "no route to host",
                                                "i/o timeout",
                                                "deadline exceeded",
                                                ": eof",
                                                "resolve node name",
                                                "no physical shard",
                                                "send http request"};
  const std::string lower = lower_ascii(said);
  const bool named = std::ranges::any_of(
      kWords, [&](std::string_view words) { return lower.find(words) != std::string::npos; });
  // "shard Abc is not found": of a node that has just died.
  const size_t shard = lower.find("shard ");
  return named || (shard != std::string::npos && lower.find("not found", shard) != std::string::npos);
}

// Returns the engine's message: {"error": [{"message": ...}]}, {"message": ...}, or the text itself.
std::string said_in(const std::string& body) {
  std::string said = body;
  if (const auto json = parse_json(body); json && json->is_object()) {
    const auto errors = json->find("error");
    if (errors != json->end() && errors->is_array() && !errors->empty() && errors->front().is_object()) {
      said = json_field_or<std::string>(errors->front(), "message", body).value_or(body);
    } else {
      said = json_field_or<std::string>(*json, "message", body).value_or(body);
    }
  }
  if (said.size() > kMostSaid) said = said.substr(0, kMostSaid) + "...";
  std::ranges::replace_if(
      said, [](unsigned char c) { return c < 0x20; }, ' ');
  return said.empty() ? "nothing" : said;
}

}  // namespace

Result<ClientOptions> client_options(const hub::Environment& environment) {
  ClientOptions options;
  if (const char* key = environment(kKeyVariable); key != nullptr) {
    SACCADE_ASSIGN(options.key, hub::clean_token(key, kKeyVariable));
  }
  const char* file = environment(kKeyFileVariable);
  if (options.key.empty() && file != nullptr && *file != '\0') {
    auto key = hub::read_token(file).in(kKeyFileVariable);
    if (!key) {
      // A file that is not there says nothing about the class.
      const ErrorCode code = key.error().code;
      return fail(code == ErrorCode::kNotFound ? ErrorCode::kIo : code, "{}", key.error().message);
    }
    options.key = *std::move(key);
  }
  options.certificates = hub::certificates_from(environment);
  return options;
}

Result<hub::HttpSession> Client::take_session(bool writes) const {
  {
    const std::lock_guard lock(mutex_);
    auto& free = writes ? free_to_write_ : free_to_read_;
    if (!free.empty()) {
      hub::HttpSession session = std::move(free.back());
      free.pop_back();
      return session;
    }
  }
  hub::HttpOptions http;
  http.connect_limit = milliseconds(5'000);
  http.silence_limit = (writes ? options_.writing : options_.reading).silence_limit;
  http.certificates = options_.certificates;
  return hub::HttpSession::open(http);
}

void Client::give_back(hub::HttpSession session, bool writes) const {
  const std::lock_guard lock(mutex_);
  (writes ? free_to_write_ : free_to_read_).push_back(std::move(session));
}

Result<Json> Client::call(const Request& request) const {
  hub::HttpRequest http;
  http.method = request.method == "GET" ? "" : request.method;
  http.headers = {"Accept: application/json"};
  http.max_body = kMostAnswer;
  if (!options_.key.empty()) http.headers.push_back("Authorization: Bearer " + options_.key);
  if (request.body) {
    http.headers.emplace_back("Content-Type: application/json");
    http.body = dump_json(*request.body);
  } else if (request.method == "POST" || request.method == "PUT") {
    http.body = "";
  }
  const Retry& retry = request.writes ? options_.writing : options_.reading;
  const size_t endpoints = address_.endpoints.size();
  milliseconds time = retry.first_wait;
  Error last;
  for (int round = 0; round < retry.rounds; ++round) {
    if (round > 0) {
      SACCADE_TRY(stoppable_wait(time, request.stop));
      time = std::min(2 * time, retry.longest_wait);
    }
    for (size_t i = 0; i < endpoints; ++i) {
      const size_t at = next_.load() % endpoints;
      const std::string& endpoint = address_.endpoints[at];
      http.url = endpoint + request.path;
      SACCADE_ASSIGN(hub::HttpSession session, take_session(request.writes));
      hub::HttpResult reply = session.send(http, nullptr, request.writes ? std::stop_token() : request.stop);
      give_back(std::move(session), request.writes);
      if (!reply) {
        if (reply.error().error.code == ErrorCode::kCancelled) return fail(reply.error().error);
        last = {ErrorCode::kIo,
                fmt::format("{}: Weaviate does not answer: {}", endpoint, reply.error().error.message)};
        // Waiting is no help if the address is wrong.
        if (!reply.error().passing && reply.error().connected) return fail(last);
        next_ = at + 1;
        continue;
      }
      if (reply->status / 100 == 2) {
        if (reply->body.find_first_not_of(" \r\n\t") == std::string::npos) return Json();
        return parse_json(reply->body).in(fmt::format("{}: no JSON", http.url));
      }
      if (reply->status == 404 && request.may_lack) return Json();
      const std::string said = said_in(reply->body);
      if (reply->status == 401 || reply->status == 403) {
        return fail(ErrorCode::kIo, "{}: the key is {} ({} or {}): {}", endpoint,
                    options_.key.empty() ? "missing" : "refused", kKeyVariable, kKeyFileVariable, said);
      }
      // Another node, or a later time, may not give it: 500 stands for too few replicas, too.
      last = {hub::is_passing(reply->status) ? ErrorCode::kIo : ErrorCode::kBadData,
              fmt::format("{} {}: status {}: {}", request.method, http.url, reply->status, said)};
      if (!hub::is_passing(reply->status)) return fail(last);
      next_ = at + 1;
    }
  }
  return fail(last);
}

Result<Json> Client::ask(std::string query) const {
  Request request{.method = "POST", .path = "/v1/graphql", .body = Json{{"query", std::move(query)}}};
  for (int tries = 1;; ++tries) {
    SACCADE_ASSIGN(Json answer, call(request));
    if (!answer.is_object()) return fail(ErrorCode::kBadData, "Weaviate's answer is {}", json_kind(answer));
    const auto errors = answer.find("errors");
    if (errors == answer.end() || errors->is_null() || errors->empty()) {
      if (!answer.contains("data") || !answer["data"].is_object()) {
        return fail(ErrorCode::kBadData, "Weaviate's answer has no \"data\"");
      }
      return std::move(answer["data"]);
    }
    std::string said = json_field_or<std::string>(errors->front(), "message", "").value_or("");
    const ErrorCode code = is_unavailable(said) ? ErrorCode::kIo : ErrorCode::kBadData;
    if (said.size() > kMostSaid) said = said.substr(0, kMostSaid) + "...";
    // A shard whose node has just died is reported so, with status 200.
    if (tries >= options_.reading.rounds) return fail(code, "Weaviate: {}", said);
    next_ = next_.load() + 1;
    SACCADE_TRY(stoppable_wait(tries * options_.reading.first_wait, {}));
  }
}

std::string graphql_string(std::string_view text) {
  return dump_json(Json(std::string(text)));  // the same escapes
}

}  // namespace saccade::weaviate
