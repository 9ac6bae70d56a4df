// The document at /api/openapi.json is held against the routes, and the routes' answers against it.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/engine.h"
#include "saccade/serve/jobs.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Validator of the subset of JSON Schema that the document uses.
class Validator {
 public:
  explicit Validator(const Json& document) : document_(document) {}

  // Lists the locations at which the value violates the schema, with the reasons.
  std::vector<std::string> faults(const Json& schema, const Json& value) {
    faults_.clear();
    check(schema, value, "$");
    return faults_;
  }

 private:
  static bool is(const std::string& type, const Json& value) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    if (type == "boolean") return value.is_boolean();
    return type == "null" && value.is_null();
  }

  void check(const Json& schema, const Json& value, const std::string& at) {
    static const std::set<std::string> kKnown = {"$ref",    "type",    "properties",  "required",
                                                 "items",   "anyOf",   "enum",        "minimum",
                                                 "maximum", "default", "description", "additionalProperties"};
    for (const auto& [key, part] : schema.items()) {
      if (!kKnown.contains(key)) faults_.push_back(at + ": the test does not know \"" + key + "\"");
    }
    if (schema.contains("$ref")) {
      const auto name = schema["$ref"].get<std::string>();
      check(document_.at(Json::json_pointer(name.substr(1))), value, at);
      return;
    }
    if (schema.contains("anyOf")) {
      for (const Json& option : schema["anyOf"]) {
        Validator other(document_);
        if (other.faults(option, value).empty()) return;
      }
      faults_.push_back(at + ": none of anyOf");
      return;
    }
    if (!schema.contains("type")) return;  // any value
    const Json& type = schema["type"];
    const bool fits =
        type.is_array()
            ? std::ranges::any_of(type, [&](const Json& one) { return is(one.get<std::string>(), value); })
            : is(type.get<std::string>(), value);
    if (!fits) {
      faults_.push_back(at + ": " + std::string(json_kind(value)) + ", not " + type.dump());
      return;
    }
    if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
      faults_.push_back(at + ": " + value.dump() + " is none of the values");
    }
    if (value.is_object()) check_object(schema, value, at);
    if (value.is_array() && schema.contains("items")) {
      for (size_t i = 0; i < value.size(); ++i)
        check(schema["items"], value[i], at + "/" + std::to_string(i));
    }
  }

  void check_object(const Json& schema, const Json& value, const std::string& at) {
    if (schema.contains("required")) {
      for (const Json& key : schema["required"]) {
        if (!value.contains(key.get<std::string>())) faults_.push_back(at + ": no " + key.dump());
      }
    }
    for (const auto& [key, part] : value.items()) {
      if (schema.contains("properties") && schema["properties"].contains(key)) {
        check(schema["properties"][key], part, at + "/" + key);
      } else if (schema.contains("additionalProperties") && schema["additionalProperties"].is_object()) {
        check(schema["additionalProperties"], part, at + "/" + key);
      }
    }
  }

  const Json& document_;
  std::vector<std::string> faults_;
};

class OpenApi : public ServingTest {
 protected:
  void SetUp() override {
    ServingTest::SetUp();
    const HttpResponse response = get("/api/openapi.json");
    ASSERT_EQ(response.status, 200);
    ASSERT_EQ(response.content_type, "application/json");
    document_ = json_of(response);
  }
  // Faults of an answer beside what the document says of that route and status.
  [[nodiscard]] std::vector<std::string> faults(const std::string& path, const std::string& method,
                                                const HttpResponse& response) const {
    const Json& responses = document_["paths"][path][method]["responses"];
    const std::string status = std::to_string(response.status);
    const Json& said = responses.contains(status) ? responses[status] : responses["default"];
    return Validator(document_).faults(said["content"]["application/json"]["schema"], json_of(response));
  }
  Json document_;
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

// Files that pages are made of.
bool is_part_of_a_page(std::string_view path) {
  return path.ends_with(".js") || path.ends_with(".css") || path.ends_with(".svg");
}

TEST_F(OpenApi, NamesTheRoutesThatThereAreAndNoOthers) {
  EXPECT_EQ(document_["openapi"], "3.1.0");
  std::set<std::string> said;
  std::set<std::string> tags;
  for (const Json& tag : document_["tags"]) tags.insert(tag["name"].get<std::string>());
  for (const auto& [path, methods] : document_["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      said.insert(method + " " + path);
      EXPECT_TRUE(operation.contains("summary")) << path;
      EXPECT_TRUE(tags.contains(operation["tags"][0].get<std::string>())) << path;
    }
  }
  std::set<std::string> there;
  for (const Format& format : all_formats()) {
    for (const Route& route : format.routes) {
      if (is_part_of_a_page(route.path)) continue;
      const std::string path(route.path);
      const std::string method = lower(route.method);
      there.insert(method + " " + path);
      if (!said.contains(method + " " + path)) continue;
      const Json& operation = document_["paths"][path][method];
      EXPECT_EQ(operation.contains("security"), route.right == Right::kNone) << method << " " << path;
    }
  }
  EXPECT_EQ(said, there);
}

// Statuses with which a request is refused before a route handles it.
TEST_F(OpenApi, RefusalsHaveTheCodesThatItNames) {
  const std::vector<std::pair<int, std::string>> codes = {
      {400, "bad_request"}, {408, "timeout"},     {413, "limit"},    {429, "too_many_requests"},
      {431, "limit"},       {501, "unsupported"}, {500, "internal"}, {503, "unavailable"}};
  HttpRequest request;
  request.method = "POST";
  request.path = "/api/search";
  for (const auto& [status, code] : codes) {
    const HttpResponse refused = service_->refuse(request, status, "no");
    EXPECT_EQ(refused.status, status);
    EXPECT_EQ(json_of(refused)["error"]["code"], code) << status;
    EXPECT_THAT(faults("/api/search", "post", refused), IsEmpty()) << status;
  }
}

// Each route's error has the form that the document gives it, and routes that take named fields alone name the same.
TEST_F(OpenApi, ErrorsAndFieldsOfAllRoutesAreWhatItSays) {
  int with_fields = 0;
  for (const Format& format : all_formats()) {
    for (const Route& route : format.routes) {
      if (route.method != "POST" || route.path.find('{') != std::string_view::npos) continue;
      const std::string path(route.path);
      const HttpResponse broken = post(path, "[");
      EXPECT_GE(broken.status, 400) << path;
      EXPECT_THAT(faults(path, "post", broken), IsEmpty()) << path;
      const Json& content = document_["paths"][path]["post"]["requestBody"]["content"];
      if (!content.contains("application/json")) continue;
      Json schema = content["application/json"]["schema"];
      if (schema.contains("$ref")) {
        schema = document_.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1)));
      }
      if (!schema.contains("additionalProperties")) continue;
      ++with_fields;
      const std::string answer = post(path, R"({"nonsense": 1})").body;
      for (const auto& [field, ignored] : schema["properties"].items()) {
        EXPECT_THAT(answer, HasSubstr(field)) << path;
      }
      const size_t list = answer.find("there are: ");
      ASSERT_NE(list, std::string::npos) << path << ": " << answer;
      const size_t end = answer.find('"', list);
      EXPECT_EQ(std::count(answer.begin() + static_cast<std::ptrdiff_t>(list),
                           answer.begin() + static_cast<std::ptrdiff_t>(end), ',') +
                    1,
                std::ssize(schema["properties"]))
          << path << ": " << answer;
    }
  }
  EXPECT_GE(with_fields, 9);
}

TEST_F(OpenApi, AnswersAreWhatItSays) {
  const std::string own = "/api/collections/my pictures";
  EXPECT_THAT(faults("/api/search", "get", get("/api/search?q=red+stripes&k=3&explain=true")), IsEmpty());
  EXPECT_THAT(faults("/api/search", "get", get("/api/search?q=red")), IsEmpty());
  const HttpResponse reranked = get("/api/search?q=red&rerank=starter&rerank_depth=2");
  EXPECT_EQ(reranked.status, 200) << reranked.body;
  EXPECT_THAT(faults("/api/search", "get", reranked), IsEmpty());
  EXPECT_THAT(faults("/api/search", "get", get("/api/search")), IsEmpty());  // an error
  EXPECT_THAT(faults("/api/search", "post", post("/api/search", Json{{"image", data_address(1)}}.dump())),
              IsEmpty());
  EXPECT_THAT(faults("/api/search", "post", post("/api/search", "[")), IsEmpty());
  EXPECT_THAT(faults("/api/collections/{name}/search", "get", get(own + "/search?like=1")), IsEmpty());
  EXPECT_THAT(faults("/api/collections", "get", get("/api/collections")), IsEmpty());
  EXPECT_THAT(faults("/api/collections/{name}", "get", get(own)), IsEmpty());
  EXPECT_THAT(faults("/api/collections/{name}/facets", "get", get(own + "/facets")), IsEmpty());
  EXPECT_THAT(faults("/api/collections/{name}/images", "get", get(own + "/images")), IsEmpty());
  EXPECT_THAT(faults("/api/collections/{name}/images/{id}", "get", get(own + "/images/1")), IsEmpty());
  EXPECT_THAT(faults("/api/collections/{name}/images/{id}", "get", get(own + "/images/99")), IsEmpty());
  EXPECT_THAT(faults("/api/models", "get", get("/api/models")), IsEmpty());
  EXPECT_THAT(faults("/api/search", "get", get("/api/search?filter=id%3E0")), IsEmpty());
  EXPECT_THAT(faults("/v1/embeddings", "post", post("/v1/embeddings", R"({"input": "a bell"})")), IsEmpty());
  EXPECT_THAT(faults("/v1/models", "get", get("/v1/models")), IsEmpty());
  EXPECT_THAT(faults("/models", "get", get("/models")), IsEmpty());
  EXPECT_THAT(faults("/v2/embed", "post", post("/v2/embed", R"({"texts": ["a bell"]})")), IsEmpty());
  EXPECT_THAT(faults("/v1/rerank", "post",
                     post("/v1/rerank", R"({"query": "a bell", "documents": ["a bell", "a car"]})")),
              IsEmpty());
  EXPECT_THAT(faults("/rerank", "post", post("/rerank", R"({"query": "a bell", "texts": ["a car"]})")),
              IsEmpty());
  EXPECT_THAT(faults("/embed", "post", post("/embed", R"({"inputs": "a bell"})")), IsEmpty());
  EXPECT_THAT(faults("/info", "get", get("/info")), IsEmpty());
  EXPECT_THAT(faults("/knn-service", "post", post("/knn-service", R"({"text": "red", "num_images": 2})")),
              IsEmpty());
  EXPECT_THAT(faults("/indices-list", "get", get("/indices-list")), IsEmpty());
  JobOptions options;
  options.folders = {pictures_};
  Jobs jobs(options);
  service_ = std::make_unique<Service>(ServiceOptions(), *served_, keys_, pool_, metrics_, &jobs);
  EXPECT_THAT(
      faults("/api/collections/{name}/jobs", "post", post(own + "/jobs", R"({"folder": "pictures"})")),
      IsEmpty());
  EXPECT_THAT(faults("/api/collections/{name}/jobs", "post", post(own + "/jobs", R"({"folder": "x"})")),
              IsEmpty());
  for (int i = 0; i < 1000 && json_of(get("/api/jobs/1"))["state"] != "done"; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_THAT(faults("/api/jobs/{id}", "get", get("/api/jobs/1")), IsEmpty());
  EXPECT_THAT(faults("/api/jobs", "get", get("/api/jobs")), IsEmpty());
  EXPECT_THAT(faults("/api/collections/{name}/images", "post", post(own + "/images", "")), IsEmpty());
  make({});
  EXPECT_THAT(faults("/api/session", "post", post("/api/session", R"({"key": "a"})")), IsEmpty());
  EXPECT_THAT(faults("/healthz", "get", get("/healthz")), IsEmpty());
  EXPECT_THAT(faults("/health", "get", get("/health")), IsEmpty());
}

TEST_F(OpenApi, TheFieldsOfASearchAreThoseThatItTakes) {
  std::string named =
      json_of(post("/api/search", R"({"nonsense": 1})"))["error"]["message"].get<std::string>();
  named = named.substr(named.find("there are: ") + 11);
  std::vector<std::string> said;
  for (const auto& [field, schema] : document_["components"]["schemas"]["Search"]["properties"].items())
    said.push_back(field);
  std::ranges::sort(said);
  std::vector<std::string> taken;
  for (size_t begin = 0; begin < named.size();) {
    const size_t end = std::min(named.find(", ", begin), named.size());
    taken.push_back(named.substr(begin, end - begin));
    begin = end + 2;
  }
  std::ranges::sort(taken);
  EXPECT_EQ(said, taken);
}

TEST_F(OpenApi, DefaultsAndLimitsOfASearchAreThoseOfTheLibrary) {
  const SearchOptions options;
  const Json defaults = {{"k", options.k},
                         {"offset", options.offset},
                         {"group_duplicates", options.group_duplicates},
                         {"group_above", options.group_above},
                         {"chunk_long_text", options.chunk_long_text},
                         {"candidates", options.candidates},
                         {"keyword_weight", options.keyword_weight},
                         {"explain", options.explain},
                         {"exact", options.exact},
                         {"exact_rescore", options.exact_rescore},
                         {"rerank_depth", options.rerank_depth}};
  const ServiceOptions limits;
  for (const char* path : {"/api/search", "/api/collections/{name}/search"}) {
    std::map<std::string, Json> schemas;
    for (const Json& one : document_["paths"][path]["get"]["parameters"])
      schemas[one["name"].get<std::string>()] = one["schema"];
    for (const auto& [name, value] : defaults.items()) {
      EXPECT_EQ(schemas[name].value("default", Json()), value) << path << " " << name;
      const Json& in_body = document_["components"]["schemas"]["Search"]["properties"][name];
      EXPECT_EQ(in_body.value("default", Json()), value) << name;
    }
    EXPECT_EQ(schemas["k"].value("maximum", Json()), limits.most_hits);
    EXPECT_EQ(schemas["rerank_depth"].value("maximum", Json()), limits.most_reranked);
    EXPECT_TRUE(document_["paths"][path]["post"]["requestBody"]["content"].contains("multipart/form-data"));
  }
}

TEST_F(OpenApi, TheValidatorFindsFaults) {
  Json schema = {{"type", "object"}, {"required", {"a"}}, {"properties", {{"a", {{"type", "integer"}}}}}};
  Validator validator(document_);
  EXPECT_THAT(validator.faults(schema, {{"a", 1}}), IsEmpty());
  EXPECT_THAT(validator.faults(schema, {{"a", "1"}}), ElementsAre(HasSubstr("$/a: a string")));
  EXPECT_THAT(validator.faults(schema, {{"b", 1}}), ElementsAre(HasSubstr("no \"a\"")));
  EXPECT_THAT(validator.faults({{"$ref", "#/components/schemas/Facet"}},
                               {{"name", "colour"}, {"values", Json::array()}}),
              ElementsAre(HasSubstr("none of the values")));
}

}  // namespace
}  // namespace saccade::serve
