#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/test_support.h"
#include "saccade/core/base64.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/test_environment.h"
#include "saccade/core/test_folder.h"
#include "saccade/engine.h"
#include "saccade/engine/core.h"
#include "saccade/engine/query_conversion.h"
#include "saccade/image/decode/test_video.h"
#include "saccade/image/frame_name.h"
#include "saccade/search/composed/collection_composer.h"
#include "saccade/search/search.h"
#include "saccade/serve/service.h"
#include "saccade/serve/shared/shared_encoder.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

using Serving = ServingTest;

// Checks that `actual` has all of `expected`, with equal values; it may have more fields.
void expect_all_of(const Json& expected, const Json& actual, const std::string& where) {
  if (expected.is_object()) {
    ASSERT_TRUE(actual.is_object()) << where;
    for (const auto& [key, value] : expected.items()) {
      ASSERT_TRUE(actual.contains(key)) << where << "." << key;
      expect_all_of(value, actual[key], where + "." + key);
    }
  } else if (expected.is_array()) {
    ASSERT_TRUE(actual.is_array() && actual.size() == expected.size()) << where;
    for (size_t i = 0; i < expected.size(); ++i) {
      expect_all_of(expected[i], actual[i], fmt::format("{}[{}]", where, i));
    }
  } else {
    EXPECT_EQ(expected, actual) << where;
  }
}

TEST_F(Serving, SearchesAsTheEngineDoes) {
  for (const char* name :
       {"red stripes.png", "stripes.png"}) {  // copies, so that there is something to group
    saccade::test::write_text(pictures_ / name, saccade::test::png(4));
  }
  add(6);
  ASSERT_TRUE(served_->collections().front()->follow());
  const auto engine = Engine::open(folder_.string());
  ASSERT_TRUE(engine) << engine.error().message;
  EngineCoreOptions core_options;  // as the command line has it, with all of the answer
  core_options.folder = folder_;
  const auto core = EngineCore::open(std::move(core_options));
  ASSERT_TRUE(core) << core.error().message;
  const std::string picture = saccade::test::png(4);
  const auto image = [&] { return ImageInput::bytes(picture); };
  const auto weighted = [&](int seed, double weight) {
    return Json{{"image", data_address(seed)}, {"weight", weight}};
  };
  struct Asked {
    std::map<std::string, Json> body;
    Query query;
    SearchOptions options = {};
  };
  using OwnComposer = EngineCore::OwnComposer;
  const std::vector<Asked> all = {
      {{{"text", "red stripes"}, {"k", 3}}, "red stripes", {.k = 3}},
      {{{"text", "but red -blue \"two stripes\""}}, "but red -blue \"two stripes\""},
      {{{"text", "but -red"}, {"literal", true}}, Query::literal("but -red")},
      {{{"text", "stripes"}, {"keyword_weight", 0}, {"group_duplicates", false}},
       "stripes",
       {.keyword_weight = 0, .group_duplicates = false}},
      {{{"text", "stripes"}, {"group_above", 0}}, "stripes", {.group_above = 0}},
      {{{"text", "a"}, {"k", 2}, {"offset", 1}}, "a", {.k = 2, .offset = 1}},
      {{{"text", "a"}, {"filter", "id>2"}, {"order", "date"}},
       "a",
       {.filter = "id>2", .order = Order::kDate}},
      {{{"text", std::string(400, 'a') + " b"}, {"chunk_long_text", true}},
       std::string(400, 'a') + " b",
       {.chunk_long_text = true}},
      {{{"image", data_address(4)}, {"k", 2}}, Query::image(image()), {.k = 2}},
      {{{"image", data_address(4)}, {"text", "but at night"}}, Query::image(image()).but("but at night")},
      {{{"image", data_address(4)}, {"text", "but at night"}, {"literal", true}},
       Query::literal("but at night").and_image(image())},
      {{{"image", data_address(4)}, {"text", "red"}, {"compose", "slerp"}, {"text_weight", 0.3}},
       Query::image(image()).but("red").compose(Compose::kSlerp, 0.3)},
      {{{"image", data_address(4)}, {"text", "red"}, {"compose", "direction"}, {"was", "blue"}},
       Query::image(image()).but("red").compose(Compose::kDirection).was("blue")},
      {{{"images", std::vector<Json>{weighted(4, 1), weighted(1, 0.5), weighted(2, -1)}}},
       Query::image(image())
           .and_image(ImageInput::bytes(saccade::test::png(1)), 0.5F)
           .and_image(ImageInput::bytes(saccade::test::png(2)), -1)},
      {{{"image", data_address(4)}, {"images", std::vector<Json>{weighted(1, 2)}}, {"text", "red"}},
       Query::image(image()).and_image(ImageInput::bytes(saccade::test::png(1)), 2).but("red")},
      {{{"text", "red stripes"}, {"without", std::vector<std::string>{"blue", "green"}}},
       Query("red stripes").without("blue").without("green")},
      {{{"text", "red:2"}, {"literal", true}, {"without", "blue"}}, Query::literal("red:2").without("blue")},
      {{{"like", 2}, {"k", 4}}, Query("").like(2), {.k = 4}},
      {{{"like", 5}, {"group_duplicates", false}}, Query("").like(5), {.group_duplicates = false}},
      {{{"like", 2}, {"text", "but at night"}}, Query("but at night").like(2)},
      {{{"like", 2}, {"text", "but red"}, {"literal", true}, {"compose", "slerp"}},
       Query::literal("but red").like(2).compose(Compose::kSlerp)},
  };
  for (const Asked& asked : all) {
    const std::string body = Json(asked.body).dump();
    const HttpResponse response = post("/api/search", body);
    ASSERT_EQ(response.status, 200) << body << response.body;
    const Json json = json_of(response);
    EngineCore::SearchCall call;
    call.like = asked.query.liked().value_or(0);
    call.offset = asked.options.offset;
    call.literal = asked.query.is_literal();
    if (asked.query.method()) call.own_composer = OwnComposer::kNo;
    const auto query = search_query(asked.query, asked.options);
    ASSERT_TRUE(query) << query.error().message;
    const auto whole = (*core)->search(*query, call);
    ASSERT_TRUE(whole) << whole.error().message;
    expect_all_of(answer_json(*whole), json, body);
    const auto answer = engine->search(asked.query, asked.options);
    ASSERT_TRUE(answer) << answer.error().message;
    ASSERT_EQ(json["hits"].size(), answer->hits.size()) << body;
    EXPECT_EQ(json["searched"], answer->searched);
    for (size_t i = 0; i < answer->hits.size(); ++i) {
      const Hit& hit = answer->hits[i];
      EXPECT_EQ(json["hits"][i]["rank"], hit.rank) << body;
      EXPECT_EQ(json["hits"][i]["id"], hit.id) << body;
      EXPECT_EQ(json["hits"][i]["path"], hit.path.string()) << body;
      EXPECT_EQ(static_cast<float>(json["hits"][i]["score"].get<double>()), hit.score) << body;
      EXPECT_EQ(json["hits"][i]["near_duplicates"].size(), hit.near_duplicates.size()) << body;
    }
    std::vector<std::string> notes;
    for (const char* name : {"tokens", "effective_length", "matching", "understood", "keywords", "compose"}) {
      const Json& note = json["notes"][name];
      const bool read_whole =
          std::string_view(name) == "tokens" && (note.is_null() || json["tokens"]["dropped"] == 0);
      if (!note.is_null() && !read_whole) notes.push_back(note.get<std::string>());
    }
    EXPECT_EQ(notes, answer->notes) << body;
  }
  // A page of hits is part of the whole answer.
  const Json whole = json_of(post("/api/search", R"({"text": "red stripes", "k": 5})"));
  const Json page =
      json_of(post("/api/collections/my pictures/search", R"({"text": "red stripes", "k": 2, "offset": 1})"));
  ASSERT_THAT(page["hits"], SizeIs(2));
  EXPECT_EQ(page["hits"][0], whole["hits"][1]);
  EXPECT_EQ(page["hits"][1], whole["hits"][2]);
  EXPECT_EQ(page["query"]["k"], 2);
  EXPECT_EQ(whole["hits"][0]["file"],
            "/api/collections/my%20pictures/images/" + whole["hits"][0]["id"].dump() + "/file");
}

TEST_F(Serving, ASecondModelReranksTheBestHits) {
  const fs::path folder = add_matching_model();
  const auto second = load_checkpoint(folder.string());
  ASSERT_TRUE(second) << second.error().message;
  EngineCoreOptions core_options;  // as the command line has it
  core_options.folder = folder_;
  const auto core = EngineCore::open(std::move(core_options));
  ASSERT_TRUE(core) << core.error().message;
  struct Asked {
    std::map<std::string, Json> body;
    Query query;
    SearchOptions options = {};
    const char* method;
  };
  const std::vector<Asked> all = {
      {{{"text", "a red bird"}}, "a red bird", {}, "match"},
      {{{"text", "a red bird"}, {"rerank_by", "cosine"}, {"k", 4}},
       "a red bird",
       {.k = 4, .rerank_depth = 2, .rerank_by = RerankMethod::kCosine},
       "cosine"},
      {{{"image", data_address(4)}}, Query::image(ImageInput::bytes(saccade::test::png(4))), {}, "maxsim"},
      {{{"like", 2}}, Query("").like(2), {.rerank_depth = 4}, "maxsim"},
  };
  for (const Asked& asked : all) {
    Json body(asked.body);
    body["rerank"] = "blip2";
    body["rerank_depth"] = asked.options.rerank_depth;
    const HttpResponse response = post("/api/search", body.dump());
    ASSERT_EQ(response.status, 200) << body << response.body;
    EngineCore::SearchCall call;
    call.like = asked.query.liked().value_or(0);
    call.second = second->encoder.get();
    call.rerank.method = asked.options.rerank_by;
    call.rerank.depth = asked.options.rerank_depth;
    call.rerank.name = "blip2";
    const auto whole = (*core)->search(*search_query(asked.query, asked.options), call);
    ASSERT_TRUE(whole) << whole.error().message;
    const Json json = json_of(response);
    expect_all_of(answer_json(*whole), json, body.dump());
    EXPECT_EQ(json["rerank"]["method"], asked.method);
    EXPECT_EQ(json["rerank"]["reranked"], std::min<int64_t>(asked.options.rerank_depth, 6));
  }
  EXPECT_TRUE(json_of(get("/api/search?q=a+red+bird"))["rerank"].is_null());
  // A page is part of the whole answer.
  const Json whole = json_of(get("/api/search?q=a+red+bird&rerank=blip2"));
  const Json page = json_of(get("/api/search?q=a+red+bird&rerank=blip2&k=2&offset=3"));
  ASSERT_THAT(page["hits"], SizeIs(2));
  EXPECT_EQ(page["hits"][0], whole["hits"][3]);
  EXPECT_EQ(page["hits"][1], whole["hits"][4]);
  EXPECT_EQ(page["query"]["k"], 2);
  EXPECT_THAT(get("/metrics").body, HasSubstr("stage=\"rerank\""));
  // A file that is gone is told of, and stays below those that were scored.
  const auto best = whole["hits"][0]["path"].get<std::string>();
  fs::remove(best);
  const Json gone = json_of(get("/api/search?q=a+red+bird&rerank=blip2"));
  EXPECT_EQ(gone["hits"][5]["path"], best);
  EXPECT_EQ(gone["hits"][5]["reranked"], false);
  EXPECT_TRUE(gone["hits"][5]["score"].is_null());
  EXPECT_THAT(gone["warnings"].dump(), HasSubstr("1 of 6 images could not be re-ranked"));
  const auto refused = [&](const std::string& more, int status, const char* words) {
    const HttpResponse response = get("/api/search?" + more);
    EXPECT_EQ(response.status, status) << more << response.body;
    EXPECT_THAT(json_of(response)["error"]["message"].get<std::string>(), HasSubstr(words)) << more;
  };
  refused("q=a&rerank=nobody", 404, "\"rerank\": no model \"nobody\"; there are: ");
  refused("q=a&rerank=blip2&rerank_depth=0", 400, "rerank_depth is 0, expected 1 or more");
  refused("q=a&rerank=blip2&rerank_depth=257", 400, "\"rerank_depth\": 257, at most 256 hits are re-ranked");
  refused("q=a&rerank=blip2&rerank_by=best", 400, "expected one of strongest, cosine, maxsim, match");
  refused("q=a&rerank_depth=5", 400, "no \"rerank\"");
  refused("q=a&rerank_by=match", 400, "no \"rerank\"");
  refused("q=a&rerank=starter&rerank_by=match", 415, "the checkpoint has no matching head");
  refused("q=a&rerank=blip2&min_probability=0.5", 400, "results of re-ranking have no match probabilities");
  refused("filter=id%3E0&rerank=blip2", 400, "listed by date have no score to re-rank");
}

// The others keep their places, and the answer says how many were scored.
TEST_F(Serving, RerankingEndsAtTheTimeLimit) {
  constexpr int kImages = 12;
  for (int i = 6; i < kImages - 1; ++i) {
    saccade::test::write_text(pictures_ / fmt::format("p{}.png", i), saccade::test::png(i));
  }
  add(kImages - 1);
  add_matching_model();
  const std::string search = "/api/search?q=a+red+bird&k=12&group_duplicates=false&rerank=blip2";
  const Json whole = json_of(get(search));
  EXPECT_EQ(whole["rerank"]["reranked"], kImages);
  EXPECT_EQ(whole["rerank"]["out_of_time"], 0);
  EXPECT_THAT(whole["warnings"].dump(), Not(HasSubstr("time limit")));
  ServiceOptions options;
  options.encode_seconds = 0;
  make(options);
  const int first = RerankOptions().batch;  // begun in any case
  const Json json = json_of(get(search));
  ASSERT_THAT(json["hits"], SizeIs(kImages));
  EXPECT_EQ(json["rerank"]["depth"], kImages);
  EXPECT_EQ(json["rerank"]["reranked"], first);
  EXPECT_EQ(json["rerank"]["out_of_time"], kImages - first);
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("only 8 of 12 images were re-ranked within the time limit"));
  for (int i = 0; i < kImages; ++i) {
    const Json& hit = json["hits"][static_cast<size_t>(i)];
    EXPECT_EQ(hit["reranked"], i < first) << hit;
    if (i >= first) {
      EXPECT_EQ(hit["retrieval"]["rank"], i + 1) << hit;
    }
  }
}

TEST_F(Serving, ALowSimilarityDoesNotGroupAWholeCollection) {
  const auto search = [&](const std::string& more) { return get("/api/search?q=red&k=1&" + more); };
  const Json whole = json_of(search("group_above=0"));
  const auto grouped = std::ssize(whole["hits"][0]["near_duplicates"]);
  ASSERT_GE(grouped, 1);
  ServiceOptions options;
  options.most_grouped = grouped;
  make(options);
  EXPECT_EQ(json_of(search("group_above=0"))["hits"], whole["hits"]);
  --options.most_grouped;
  make(options);
  for (const char* more : {"group_above=0", "group_above=0&rerank=starter&rerank_depth=1"}) {
    const HttpResponse refused = search(more);
    EXPECT_EQ(refused.status, 413) << refused.body;
    EXPECT_THAT(refused.body, HasSubstr("raise group_above")) << more;
  }
  EXPECT_EQ(search("group_above=0&group_duplicates=false").status, 200);
}

TEST_F(Serving, SearchesByAPictureAndByOneOfItsOwn) {
  const Json by_picture = json_of(post("/api/search", Json{{"image", data_address(4)}, {"k", 2}}.dump()));
  ASSERT_THAT(by_picture["hits"], SizeIs(2));
  EXPECT_THAT(by_picture["hits"][0]["path"].get<std::string>(), HasSubstr("p4.png"));
  const auto id = by_picture["hits"][0]["id"].get<int64_t>();
  const Json like = json_of(get("/api/search?like=" + std::to_string(id) + "&k=5&group_duplicates=false"));
  ASSERT_THAT(like["hits"], SizeIs(5));
  for (const Json& hit : like["hits"]) EXPECT_NE(hit["id"], id);
  EXPECT_EQ(like["hits"][0]["rank"], 1);
  EXPECT_EQ(get("/api/search?like=99").status, 404);

  // A picture and words, composed: with none of the words it is the picture alone.
  const auto composed = [&](const Json& more) {
    Json body = {{"image", data_address(4)}, {"text", "red"}, {"k", 2}};
    body.update(more);
    return post("/api/search", body.dump());
  };
  const Json alone = json_of(composed({{"compose", "slerp"}, {"text_weight", 0}}));
  EXPECT_EQ(alone["hits"][0]["id"], by_picture["hits"][0]["id"]);
  EXPECT_NEAR(alone["hits"][0]["score"].get<double>(), 1, 1e-5);
  EXPECT_EQ(alone["query"]["compose"]["method"], "slerp");
  EXPECT_EQ(json_of(composed(Json::object()))["query"]["compose"]["text_weight"], 1.0);
  EXPECT_EQ(composed({{"compose", "learned"}}).status, 400);
  EXPECT_EQ(composed({{"text_weight", 1.5}}).status, 400);
  EXPECT_EQ(composed({{"was", "green"}}).status, 400);
  const HttpResponse alone_in_words = post("/api/search", R"({"text": "red", "compose": "slerp"})");
  EXPECT_EQ(alone_in_words.status, 400);
  EXPECT_THAT(alone_in_words.body, HasSubstr("the query has no image"));
  EXPECT_EQ(post("/api/search", R"({"text": "red", "compose": "composer"})").status, 400);
}

// Fields under their earlier names, in a body and in a query string.
TEST_F(Serving, EarlierNamesOfFieldsAreAccepted) {
  const std::string text = std::string(400, 'a') + " b";
  const auto hits = [&](const Json& body) { return json_of(post("/api/search", body.dump()))["hits"]; };
  const auto tokens = [&](const Json& body) { return json_of(post("/api/search", body.dump()))["tokens"]; };
  const Json dated = hits({{"text", "red"}, {"order", "date"}});
  EXPECT_NE(dated, hits({{"text", "red"}}));
  EXPECT_EQ(hits({{"text", "red"}, {"sort", "date"}}), dated);
  EXPECT_EQ(json_of(get("/api/search?q=red&sort=date"))["hits"], dated);
  const Json chunks = tokens({{"text", text}, {"chunk_long_text", true}});
  EXPECT_EQ(chunks["dropped"], 0);
  EXPECT_EQ(tokens({{"text", text}, {"long_query", "chunk"}}), chunks);
  EXPECT_EQ(tokens({{"text", text}, {"long_query", "truncate"}}), tokens({{"text", text}}));
  EXPECT_EQ(tokens({{"text", text}, {"long_query", nullptr}}), tokens({{"text", text}}));
  EXPECT_EQ(json_of(get("/api/search?long_query=chunk&q=" + std::string(400, 'a')))["tokens"]["dropped"], 0);
  const Json composed = {{"image", data_address(4)}, {"text", "red"}, {"compose", "slerp"}};
  const auto weighted = [&](const char* name, double weight) {
    Json body = composed;
    body[name] = weight;
    return json_of(post("/api/search", body.dump()));
  };
  EXPECT_EQ(weighted("weight", 0.2)["query"]["compose"], weighted("text_weight", 0.2)["query"]["compose"]);
  EXPECT_EQ(weighted("weight", 0.2)["query"]["compose"]["method"], "slerp");
  EXPECT_EQ(get("/api/search?q=a&cut=2").body, get("/api/search?q=a&min_probability=2").body);
  // Both names at once, and a word of neither kind.
  for (const char* body : {R"({"text": "a", "sort": "date", "order": "date"})",
                           R"({"text": "a", "cut": 0.5, "min_probability": 0.5})"}) {
    EXPECT_THAT(json_of(post("/api/search", body))["error"]["message"].get<std::string>(),
                HasSubstr("are the same"));
  }
  EXPECT_EQ(get("/api/search?q=a&long_query=both").status, 400);
  EXPECT_EQ(get("/api/search?q=a&chunk_long_text=chunk").status, 400);
}

// A composer that sums, over the collection's encoder: what it answers is known.
TEST_F(Serving, ACollectionsComposerMakesTheQuery) {
  ServedCollection& served = *served_->collections().front();
  const CheckpointId& id = served.now()->collection.info().checkpoint;
  const fs::path composer = served.folder().parent_path() / "added";
  fs::create_directories(composer);
  ComposerConfig config;
  config.kind = "sum";
  config.dim = id.dim;
  config.encoder = {id.name, "clip", id.fingerprint, id.path};
  ASSERT_TRUE(write_file_atomic(composer / "config.json", dump_json(composer_config_json(config))));
  ASSERT_TRUE(write_file_atomic(composer / "frozen.json", dump_json({{"path", id.path}})));
  const float scale = 0;
  const NamedTensor tensors[] = {{"logit_scale", {DType::kF32, {}, std::as_bytes(std::span(&scale, 1))}}};
  ASSERT_TRUE(write_safetensors(composer / "model.safetensors", tensors));

  const auto composed = [&](const Json& more) {
    Json body = {{"image", data_address(4)}, {"text", "red"}, {"k", 3}, {"group_duplicates", false}};
    body.update(more);
    return post("/api/search", body.dump());
  };
  const Json before = json_of(composed(Json::object()));
  EXPECT_EQ(before["query"]["compose"]["method"], "sum");
  EXPECT_EQ(composed({{"compose", "composer"}}).status, 400);  // none is named
  ASSERT_TRUE(name_composer(served.now()->collection, composer));
  ASSERT_TRUE(served.follow());
  const Json after = json_of(composed(Json::object()));
  EXPECT_EQ(after["query"]["compose"]["composer"], "added");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(after["hits"][i]["id"], before["hits"][i]["id"]);
    EXPECT_NEAR(after["hits"][i]["score"].get<double>(), before["hits"][i]["score"].get<double>(), 1e-5);
  }
  EXPECT_EQ(json_of(composed({{"compose", "composer"}}))["query"]["compose"]["kind"], "sum");
  EXPECT_EQ(json_of(composed({{"text_weight", 0.5}}))["query"]["compose"]["method"], "sum");
  EXPECT_EQ(json_of(composed({{"compose", "slerp"}}))["query"]["compose"]["method"], "slerp");
  EXPECT_EQ(composed({{"compose", "composer"}, {"text_weight", 0.5}}).status, 400);

  // A collection that grows does not load it again.
  const Composer* const opened = served.now()->composer().value().get();
  ASSERT_NE(opened, nullptr);
  add(6);
  ASSERT_TRUE(served.follow());
  EXPECT_EQ(served.now()->collection.item_count(), 7);
  EXPECT_EQ(served.now()->composer().value().get(), opened);
  ASSERT_TRUE(forget_composer(served.folder()));
  ASSERT_TRUE(served.follow());
  EXPECT_EQ(served.now()->composer().value(), nullptr);
}

TEST_F(Serving, SendsPicturesWholeInPartsAndSmall) {
  const Json first = json_of(get("/api/collections/my pictures/images/1"));
  EXPECT_EQ(first["format"], "png");
  EXPECT_EQ(first["width"], 20);
  HttpRequest request;
  request.method = "GET";
  request.path = "/api/collections/my pictures/images/1/file";
  const HttpResponse whole = ask(request);
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(whole.content_type, "image/png");
  ASSERT_TRUE(whole.file);
  EXPECT_EQ(whole.file->bytes, first["bytes"].get<int64_t>());
  const std::string tag = header(whole, "ETag");
  EXPECT_THAT(header(whole, "Content-Security-Policy"), HasSubstr("sandbox"));
  request.headers = {{"range", "bytes=1-3"}};
  const HttpResponse part = ask(request);
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.file->offset, 1);
  EXPECT_EQ(part.file->bytes, 3);
  EXPECT_EQ(header(part, "Content-Range"), "bytes 1-3/" + first["bytes"].dump());
  request.method = "HEAD";
  const HttpResponse head = ask(request);
  EXPECT_EQ(head.status, 200);
  ASSERT_TRUE(head.file);
  EXPECT_EQ(head.file->bytes, first["bytes"].get<int64_t>());
  request.method = "GET";
  request.headers = {{"range", "bytes=999999-"}};
  EXPECT_EQ(ask(request).status, 416);
  request.headers = {{"if-none-match", tag}};
  EXPECT_EQ(ask(request).status, 304);
  request.headers = {{"range", "bytes=1-3"}, {"if-range", "\"another\""}};
  EXPECT_EQ(ask(request).status, 200);

  const HttpResponse small = get("/api/collections/my pictures/images/1/thumbnail?size=16");
  ASSERT_EQ(small.status, 200) << small.body;
  const auto decoded = decode_image(std::as_bytes(std::span(small.body)));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->image.width, 16);
  EXPECT_EQ(get("/api/collections/my pictures/images/1/thumbnail?size=15").status, 400);
  fs::remove(pictures_ / "p0.png");
  EXPECT_EQ(get("/api/collections/my pictures/images/1/file").status, 404);
  EXPECT_EQ(get("/api/collections/my pictures/images/77/file").status, 404);
  EXPECT_EQ(get("/api/collections/my pictures/images/x/file").status, 400);
}

TEST_F(Serving, OneOfItsOwnPicturesAndWordsAreOneQuery) {
  const Json uploaded = json_of(post("/api/search", Json{{"image", data_address(4)},
                                                         {"text", "red"},
                                                         {"compose", "slerp"},
                                                         {"k", 6},
                                                         {"group_duplicates", false}}
                                                        .dump()));
  const Json own = json_of(get("/api/search?q=a&k=6&group_duplicates=false"));
  int64_t fourth = 0;
  for (const Json& hit : own["hits"]) {
    if (hit["path"].get<std::string>().ends_with("p4.png")) fourth = hit["id"].get<int64_t>();
  }
  const Json composed =
      json_of(get(fmt::format("/api/search?like={}&q=red&compose=slerp&k=6&group_duplicates=false", fourth)));
  ASSERT_THAT(composed["hits"], SizeIs(5));  // all but the picture itself, as ranked for its bytes
  std::vector<int64_t> expected;
  for (const Json& hit : uploaded["hits"]) {
    if (hit["id"] != fourth) expected.push_back(hit["id"].get<int64_t>());
  }
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(composed["hits"][i]["id"], expected[i]);
    EXPECT_EQ(composed["hits"][i]["rank"], i + 1);
  }
  EXPECT_TRUE(composed["notes"]["compose"].is_string());
  fs::remove(pictures_ / "p4.png");
  EXPECT_EQ(get(fmt::format("/api/search?like={}&q=red", fourth)).status, 404);
  EXPECT_EQ(get(fmt::format("/api/search?like={}", fourth)).status, 200);  // its row is enough
}

TEST_F(Serving, PagesByDateRepeatNothingAndOmitNothing) {
  for (const std::string like : {"", "&like=2"}) {
    const std::string query = like.empty() ? "/api/search?q=red&group_duplicates=false"
                                           : "/api/search?group_duplicates=false" + like;
    const Json all = json_of(get(query + "&k=10"));
    std::set<int64_t> expected;
    for (const Json& hit : all["hits"]) expected.insert(hit["id"].get<int64_t>());
    ASSERT_GE(expected.size(), 5U);
    std::set<int64_t> shown;
    for (size_t offset = 0; offset < expected.size(); offset += 2) {
      const Json page = json_of(get(fmt::format("{}&order=date&k=2&offset={}", query, offset)));
      ASSERT_EQ(page["hits"].size(), std::min<size_t>(2, expected.size() - offset));
      for (const Json& hit : page["hits"]) {
        EXPECT_TRUE(shown.insert(hit["id"].get<int64_t>()).second) << hit.dump();
        EXPECT_GT(hit["rank"].get<size_t>(), offset);
        EXPECT_LE(hit["rank"].get<size_t>(), offset + 2);
      }
    }
    EXPECT_EQ(shown, expected);
  }
}

TEST_F(Serving, WordsThatLeadIntoAChangeAreNotEncoded) {
  const auto answer = [&](const std::string& text, const Json& more) {
    Json body = {{"image", data_address(4)}, {"text", text}, {"k", 3}};
    body.update(more);
    return json_of(post("/api/search", body.dump()));
  };
  const Json plain = answer("red", Json::object());
  const Json led = answer("but with red", Json::object());
  EXPECT_EQ(led["query"]["text"], "red");
  EXPECT_EQ(led["tokens"], plain["tokens"]);
  EXPECT_EQ(led["hits"], plain["hits"]);
  const Json literal = answer("but with red", {{"literal", true}});
  EXPECT_EQ(literal["query"]["text"], "but with red");
  EXPECT_NE(literal["tokens"], plain["tokens"]);
  EXPECT_EQ(json_of(get("/api/search?like=2&q=but+red"))["query"]["text"], "red");
  // Without an image these are words like others.
  EXPECT_EQ(json_of(get("/api/search?q=but+red"))["query"]["text"], "but red");
}

TEST_F(Serving, ReadsTheTextAsAPersonMeansIt) {
  const Json plain = json_of(get("/api/search?q=red+stripes&k=2"));
  EXPECT_TRUE(plain["notes"]["understood"].is_null());
  const Json parts =
      json_of(post("/api/search", R"({"text": "red:2 -green", "k": 2, "keyword_weight": 0.5})"));
  ASSERT_THAT(parts["query"]["parts"], SizeIs(2));
  EXPECT_EQ(parts["query"]["parts"][0]["text"], "red");
  EXPECT_EQ(parts["query"]["parts"][0]["weight"], 2.0);
  EXPECT_LT(parts["query"]["parts"][1]["weight"].get<double>(), 0);
  EXPECT_TRUE(parts["notes"]["understood"].is_string());
  EXPECT_EQ(parts["keywords"]["weight"], 0.5);
  EXPECT_EQ(get("/api/search?q=red:11").status, 400);
  EXPECT_EQ(get("/api/search?q=red&keyword_weight=2").status, 400);
}

TEST_F(Serving, SaysWhyAHitIsOne) {
  const Json explained = json_of(get("/api/search?q=red+stripes&k=2&explain=true"));
  ASSERT_THAT(explained["hits"], SizeIs(2));
  for (const Json& hit : explained["hits"]) {
    const Json& why = hit["explanations"][0];
    EXPECT_EQ(why["model"], "starter");
    ASSERT_THAT(why["words"], SizeIs(2));
    EXPECT_EQ(why["words"][1]["word"], "stripes");
    EXPECT_NEAR(why["score"].get<double>(), hit["score"].get<double>(), 1e-5);
    EXPECT_EQ(why["map"]["values"].size(),
              why["map"]["rows"].get<size_t>() * why["map"]["columns"].get<size_t>());
  }
  EXPECT_EQ(explained["hits"][0]["explanations"][0]["method"], "legrad");
  const Json other = json_of(get("/api/search?q=red+stripes&k=2&explain=true&explain_by=chefer"));
  EXPECT_EQ(other["hits"][0]["explanations"][0]["method"], "chefer");
  EXPECT_NE(other["hits"][0]["explanations"][0]["map"], explained["hits"][0]["explanations"][0]["map"]);
  EXPECT_FALSE(json_of(get("/api/search?q=red&k=2"))["hits"][0].contains("explanations"));
  EXPECT_EQ(json_of(get("/api/models"))["models"][0]["explains"], true);
}

TEST_F(Serving, ListsPicturesNewestFirstAndCountsThem) {
  for (int i = 0; i < 6; ++i) {
    const auto time = fs::file_time_type::clock::now() - std::chrono::hours(24 * 40 * i + 24);
    fs::last_write_time(pictures_ / fmt::format("p{}.png", i), time);
  }
  add(6);  // and takes the new times in
  ASSERT_TRUE(served_->collections().front()->follow());
  const Json all = json_of(get("/api/collections/my pictures/images?k=3&offset=1"));
  EXPECT_EQ(all["total"], 7);
  ASSERT_THAT(all["images"], SizeIs(3));
  EXPECT_THAT(all["images"][0]["path"].get<std::string>(), HasSubstr("p0.png"));  // p6 is the newest
  EXPECT_THAT(all["images"][2]["path"].get<std::string>(), HasSubstr("p2.png"));
  EXPECT_EQ(all["images"][0]["width"], 20);
  EXPECT_EQ(json_of(get("/api/collections/my pictures/images?offset=7"))["images"].size(), 0U);
  const Json facets = json_of(get("/api/collections/my pictures/facets"));
  ASSERT_THAT(facets["facets"], SizeIs(1));  // dates alone tell these pictures apart
  for (const Json& value : facets["facets"][0]["values"]) {
    HttpRequest request;
    request.method = "GET";
    request.path = "/api/collections/my pictures/images";
    request.query = {{"filter", value["filter"].get<std::string>()}};
    EXPECT_EQ(json_of(ask(request))["total"], value["items"]);
  }
  EXPECT_EQ(get("/api/collections/my pictures/images?filter=width>").status, 400);
  EXPECT_EQ(get("/api/collections/my pictures/images?k=0").status, 400);
  EXPECT_EQ(get("/api/collections/my pictures/facets?k=0").status, 400);
}

TEST_F(Serving, ListsByWhenPicturesWereTaken) {
  for (int i = 0; i < 6; ++i) {
    const auto time = fs::file_time_type::clock::now() - std::chrono::hours(24 * 40 * i + 24);
    fs::last_write_time(pictures_ / fmt::format("p{}.png", i), time);
  }
  add(6);
  {
    CollectionWriter writer = CollectionWriter::open(folder_).value();
    ItemFacts facts;
    facts.read = FactsRead::kPixels;
    facts.picture.taken = 4'000'000'000;
    CollectionChange change;
    change.facts.emplace_back(writer.find_path((pictures_ / "p4.png").string()).value()->id, facts);
    ASSERT_TRUE(writer.commit(change));
  }
  ASSERT_TRUE(served_->collections().front()->follow());
  const Json all = json_of(get("/api/collections/my pictures/images?k=2"));
  EXPECT_THAT(all["images"][0]["path"].get<std::string>(), HasSubstr("p4.png"));
  EXPECT_THAT(all["images"][1]["path"].get<std::string>(), HasSubstr("p6.png"));
  EXPECT_EQ(all["images"][1]["second"], Json());
  // Each says which date it goes by.
  const auto facts_of = [&](size_t place) {
    return json_of(get(
        fmt::format("/api/collections/my pictures/images/{}", all["images"][place]["id"].get<int64_t>())));
  };
  EXPECT_EQ(facts_of(0)["dated_by"], "taken");
  EXPECT_EQ(facts_of(0)["metadata"], Json({{"taken", "2096-10-02T07:06:40"}}));
  EXPECT_EQ(facts_of(1)["dated_by"], "file");
  EXPECT_EQ(facts_of(1)["metadata"], Json::object());
}

TEST_F(Serving, FramesAreShownAndTheirVideosSent) {
  const auto tools = find_video_tools();
  if (!tools) GTEST_SKIP() << "ffmpeg and ffprobe are not installed";
  const std::string clip = (pictures_ / "clip.mp4").string();
  ASSERT_NO_FATAL_FAILURE(test::make_video(*tools, clip, {"red", "blue"}));
  int64_t id = 0;
  {
    CollectionWriter writer = CollectionWriter::open(folder_).value();
    CollectionChange change;
    CollectionChange::Put& put = change.puts.emplace_back(test::put_of(frame_name(clip, 2000), 1));
    put.item.format = kVideoFormat;
    put.values = writer.row_values(0).value();
    ASSERT_TRUE(writer.commit(change));
    id = writer.find_path(frame_name(clip, 2000)).value()->id;
  }
  ASSERT_TRUE(served_->collections().front()->follow());
  const std::string path = fmt::format("/api/collections/my pictures/images/{}", id);
  const Json facts = json_of(get(path));
  EXPECT_EQ(facts["path"], clip);
  EXPECT_EQ(facts["second"], 2.0);
  const HttpResponse file = get(path + "/file");
  EXPECT_EQ(file.status, 200);
  EXPECT_EQ(file.content_type, "video/mp4");
  EXPECT_EQ(file.file->bytes, static_cast<int64_t>(fs::file_size(clip)));
  const HttpResponse small = get(path + "/thumbnail?size=64");
  ASSERT_EQ(small.status, 200) << small.body;
  const Image image = decode_image(std::as_bytes(std::span(small.body))).value().image;
  EXPECT_GT(image.pixels[2], 200);  // blue
  EXPECT_LT(image.pixels[0], 60);
  fs::remove(clip);
  EXPECT_EQ(get(path + "/thumbnail?size=64").status, 404);
}

TEST_F(Serving, VideosAreSentByTheTypeOfTheirNameInAnyCase) {
  const std::vector<std::pair<std::string, std::string>> types = {{"a.MP4", "video/mp4"},
                                                                  {"b.m4v", "video/mp4"},
                                                                  {"c.MOV", "video/quicktime"},
                                                                  {"d.WebM", "video/webm"},
                                                                  {"e.avi", "application/octet-stream"}};
  std::vector<int64_t> ids;
  {
    CollectionWriter writer = CollectionWriter::open(folder_).value();
    const std::vector<float> row = writer.row_values(0).value();
    CollectionChange change;
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string file = (pictures_ / types[i].first).string();
      saccade::test::write_text(file, "a video");
      CollectionChange::Put& put =
          change.puts.emplace_back(test::put_of(frame_name(file, 0), static_cast<int>(i) + 20));
      put.item.format = kVideoFormat;
      put.values = row;
    }
    ASSERT_TRUE(writer.commit(change));
    for (const auto& [name, type] : types) {
      ids.push_back(writer.find_path(frame_name((pictures_ / name).string(), 0)).value()->id);
    }
  }
  ASSERT_TRUE(served_->collections().front()->follow());
  for (size_t i = 0; i < types.size(); ++i) {
    const HttpResponse file = get(fmt::format("/api/collections/my pictures/images/{}/file", ids[i]));
    EXPECT_EQ(file.status, 200) << types[i].first;
    EXPECT_EQ(file.content_type, types[i].second) << types[i].first;
  }
}

// Whoever may write to an indexed folder puts a link to another video there while a thumbnail is being made.
TEST_F(Serving, AFramesThumbnailIsOfTheFileThatWasOpened) {
  const auto tools = find_video_tools();
  if (!tools) GTEST_SKIP() << "ffmpeg and ffprobe are not installed";
  const std::string clip = (pictures_ / "clip.mp4").string();
  const fs::path secret = temporary_.path() / "secret.mp4";
  ASSERT_NO_FATAL_FAILURE(test::make_video(*tools, clip, {"red"}));
  ASSERT_NO_FATAL_FAILURE(test::make_video(*tools, secret, {"blue"}));
  int64_t id = 0;
  {
    CollectionWriter writer = CollectionWriter::open(folder_).value();
    CollectionChange change;
    CollectionChange::Put& put = change.puts.emplace_back(test::put_of(frame_name(clip, 0), 1));
    put.item.format = kVideoFormat;
    put.values = writer.row_values(0).value();
    ASSERT_TRUE(writer.commit(change));
    id = writer.find_path(frame_name(clip, 0)).value()->id;
  }
  ASSERT_TRUE(served_->collections().front()->follow());
  const fs::path programs = temporary_.path() / "programs";
  fs::create_directories(programs);
  for (const fs::path& program : {tools->ffmpeg, tools->ffprobe}) {
    const fs::path script = programs / program.filename();
    test::write_text(script, fmt::format("#!/bin/sh\nln -sf '{}' '{}'\nexec '{}' \"$@\"\n", secret.string(),
                                         clip, program.string()));
    fs::permissions(script, fs::perms::owner_all);
  }
  const test::TestVariable path("PATH", programs.string() + ":/usr/bin:/bin");
  const HttpResponse small = get(fmt::format("/api/collections/my pictures/images/{}/thumbnail?size=64", id));
  ASSERT_EQ(small.status, 200) << small.body;
  ASSERT_TRUE(fs::is_symlink(clip));
  const Image image = decode_image(std::as_bytes(std::span(small.body))).value().image;
  EXPECT_GT(image.pixels[0], 200);  // red
  EXPECT_LT(image.pixels[2], 60);
}

TEST_F(Serving, ThePageIsServedUnderAPolicyThatRunsItsScriptAlone) {
  const HttpResponse page = get("/");
  ASSERT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("/page.js"));
  EXPECT_THAT(header(page, "Content-Security-Policy"), HasSubstr("default-src 'none'; script-src 'self'"));
  for (const char* file : {"/page.js", "/page.css", "/icon.svg"}) {
    EXPECT_THAT(page.body, HasSubstr(file));
    HttpRequest request;
    request.method = "GET";
    request.path = file;
    const HttpResponse whole = ask(request);
    EXPECT_EQ(whole.status, 200);
    EXPECT_GT(whole.body.size(), 100U);
    request.headers = {{"if-none-match", header(whole, "ETag")}};
    EXPECT_EQ(ask(request).status, 304);
  }
}

TEST_F(Serving, BadRequestsAreOneSentence) {
  const auto refused = [](const HttpResponse& response, int status, const char* words) {
    EXPECT_EQ(response.status, status) << response.body;
    const Json json = json_of(response);
    EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr(words));
  };
  refused(get("/api/search"), 400, "nothing to search for");
  refused(get("/api/search?q=a&nonsense=1"), 400, "\"nonsense\" is not known here");
  refused(get("/api/search?q=a&nonsense=1"), 400, "there are: q, collection, text, literal, without");
  refused(get("/api/search?q=a&images=x"), 400, "\"images\" is not taken here: send it with POST, as JSON");
  refused(get("/api/search?image=x"), 400, "\"image\" is not taken here");
  refused(get("/api/search?q=a&k=1&k=2"), 400, "\"k\" is there twice");
  refused(get("/api/search?q=a&text=b"), 400, "\"text\" is there twice");
  refused(get("/api/collections/my pictures/images?k=1&k=2"), 400, "\"k\" is there twice");
  refused(get("/api/collections/my pictures/search?q=a&collection=other"), 400,
          "\"collection\": \"other\", but the address names \"my pictures\"");
  EXPECT_EQ(get("/api/collections/my pictures/search?q=a&collection=my%20pictures").status, 200);
  EXPECT_EQ(get("/api/collections/my pictures/search?q=a&collection=").status, 200);
  refused(get("/api/search?q=a&ofset=1"), 400, "; did you mean offset?");
  refused(get("/api/search?q=a&order=dat"), 400, "expected one of score, date; did you mean date?");
  refused(get("/api/search?q=a&k=0"), 400, "\"k\": 0");
  refused(get("/api/search?q=a&k=9223372036854775807&offset=1"), 400, "both together at most 1000");
  refused(get("/api/search?q=a&k=x"), 400, "\"k\": \"x\", expected a whole number");
  refused(get("/api/search?q=a&k=1.5"), 400, "\"k\": \"1.5\", expected a whole number");
  refused(get("/api/search?q=a&keyword_weight=x"), 400, "\"keyword_weight\": \"x\", expected a number");
  refused(get("/api/search?q=a&min_probability=2"), 400, "min_probability is 2, expected 0 to 1");
  refused(get("/api/search?q=a&group_above=1.5"), 400, "group_above is 1.5, expected 0 to 1");
  refused(get("/api/search?q=a&order=size"), 400, "expected one of score, date");
  refused(get("/api/search?q=a&filter=width>"), 400, "filter");
  refused(post("/api/search", Json{{"like", 1}, {"image", data_address(1)}}.dump()), 400,
          "one image is enough");
  refused(post("/api/search", R"({"images": "x"})"), 422, "\"images\": a string, expected a list");
  refused(post("/api/search", R"({"images": ["YWJj"]})"), 422,
          "\"images\": number 0: a string, expected an object of \"image\" and \"weight\"");
  refused(post("/api/search", R"({"images": [{"weight": 2}]})"), 422, "number 0: \"image\" is missing");
  refused(post("/api/search", R"({"images": [{"image": "YWJj", "heavy": 2}]})"), 400,
          "\"heavy\" is not known");
  refused(post("/api/search", R"({"images": [{"image": "YWJj", "weight": 0}]})"), 400,
          "an image has weight 0");
  refused(post("/api/search", Json{{"images", std::vector<Json>(65)}}.dump()), 400,
          "\"images\": 65, at most 64");
  refused(post("/api/search", Json{{"without", std::vector<std::string>(65, "b")}}.dump()), 400,
          "\"without\": 65, at most 64");
  refused(post("/api/search", Json{{"text", "a"}, {"without", std::vector<std::string>(64, "b")}}.dump()),
          400, "parts");
  refused(post("/api/search", R"({"text": "a", "without": [3]})"), 422, "expected a text or a list of texts");
  refused(post("/api/search", R"({"text": "a", "without": " "})"), 400, "a text that is not wanted is empty");
  refused(get("/api/search?q=a&explain=yes"), 400, "expected true or false");
  refused(get("/api/search?q=a&explain=true&explain_by=gradcam"), 400, "expected one of legrad, chefer");
  refused(get("/api/search?q=a&explain_by=chefer"), 400, "explain is not true");
  refused(get("/api/search?q=a&exact_rescore=10001"), 400, "exact_rescore is 10001, expected 0 to 10000");
  refused(get("/api/search?q=a&explain=true&k=25"), 400, "at most 24 hits are explained");
  refused(get("/api/search?q=a&collection=other"), 404, "no collection \"other\"; there are: my pictures");
  refused(post("/api/search", "{\"text\": }"), 422, "body:");
  refused(post("/api/search", ""), 422, "body: empty, expected a JSON object");
  refused(post("/api/search", "[]"), 422, "an array, expected an object");
  refused(post("/api/search", R"({"text": 1})"), 422, "\"text\"");
  refused(post("/api/search", R"({"image": "http://a/b.png"})"), 415, "addresses are not fetched");
  refused(post("/api/search", R"({"image": "data:image/png,abc"})"), 422, "data:image/...;base64");
  refused(post("/api/search", R"({"image": "YWJ*"})"), 422, "not base64");
  refused(post("/api/search", R"({"image": "YWJj"})"), 415, "");
  refused(post("/api/search", Json{{"text", std::string((256 << 10) + 1, 'a')}}.dump()), 413,
          "a text of 262145 bytes");
  std::string many = "[0";
  for (int i = 0; i < 1 << 17; ++i) many += ",0";
  refused(post("/api/search", R"({"like": )" + many + "]}"), 413, "values, at most 131072");
  EXPECT_EQ(post("/api/search", R"({"text": "a,,,[[[{{{\",,,"})").status, 200);
  refused(get("/nothing"), 404, "nothing is at /nothing");
  const HttpResponse method = post("/api/models", "");
  refused(method, 405, "/api/models takes GET");
  EXPECT_EQ(header(method, "Allow"), "GET");
  HttpRequest elsewhere;
  elsewhere.method = "GET";
  elsewhere.path = "/api/models";
  elsewhere.headers = {{"host", "evil.example"}};
  refused(service_->handle(elsewhere), 403, "evil.example");
}

TEST_F(Serving, KeysLetInThoseWhoHaveThem) {
  const fs::path path = temporary_.path() / "keys";
  ASSERT_TRUE(write_file_atomic(path, "0123456789abcdef\n"));
  fs::permissions(path, fs::perms::owner_read);
  keys_ = Keys::read(path).value();
  EXPECT_EQ(get("/api/models").status, 401);
  EXPECT_EQ(header(get("/api/models"), "WWW-Authenticate"), "Bearer");
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/").status, 200);  // it asks for the key itself
  EXPECT_EQ(post("/api/session", R"({"key": "0123456789abcdeg"})").status, 401);
  EXPECT_EQ(header(post("/api/session", R"({"key": "0123456789abcdeg"})"), "Set-Cookie"), "");
  const std::string cookie = header(post("/api/session", R"({"key": "0123456789abcdef"})"), "Set-Cookie");
  EXPECT_THAT(cookie, HasSubstr("HttpOnly; SameSite=Strict"));
  HttpRequest browser;
  browser.method = "GET";
  browser.path = "/api/models";
  browser.headers = {{"cookie", "a=b; " + cookie.substr(0, cookie.find(';'))}};
  EXPECT_EQ(ask(browser).status, 200);
  browser.headers = {{"cookie", "saccade_key=0123456789abcdeg"}};
  EXPECT_EQ(ask(browser).status, 401);
  HttpRequest request;
  request.method = "GET";
  request.path = "/api/models";
  request.headers = {{"authorization", "Bearer 0123456789abcdef"}};
  EXPECT_EQ(ask(request).status, 200);
  request.headers = {{"x-api-key", "0123456789abcdef"}};
  EXPECT_EQ(ask(request).status, 200);
  for (const char* bearer : {"bearer 0123456789abcdef", "BEARER   0123456789abcdef"}) {
    request.headers = {{"authorization", bearer}};
    EXPECT_EQ(ask(request).status, 200) << bearer;
  }
  // As clients write http://anybody:KEY@host, and http://:KEY@host.
  for (const std::string pair : {"anybody:0123456789abcdef", ":0123456789abcdef"}) {
    request.headers = {{"authorization", "Basic " + encode_base64(pair)}};
    EXPECT_EQ(ask(request).status, 200) << pair;
  }
  for (const std::string pair : {"anybody:0123456789abcdee", "0123456789abcdef:", "0123456789abcdef", ":"}) {
    request.headers = {{"authorization", "Basic " + encode_base64(pair)}};
    EXPECT_EQ(ask(request).status, 401) << pair;
  }
  for (const char* wrong : {"Bearer 0123456789abcdee", "Bearer", "Bearer ", "", "Basic 0123456789abcdef",
                            "Bearer0123456789abcdef", "0123456789abcdef", "Basic"}) {
    request.headers = {{"authorization", wrong}};
    EXPECT_EQ(ask(request).status, 401) << wrong;
  }
  // A key that is wrong hides none that is right.
  request.headers = {{"x-api-key", "wrong"}, {"authorization", "Bearer 0123456789abcdef"}};
  EXPECT_EQ(ask(request).status, 200);
  request.headers = {{"x-api-key", "0123456789abcdef"}, {"authorization", "Bearer wrong"}};
  EXPECT_EQ(ask(request).status, 200);
  request.headers = {{"x-api-key", "wrong"}, {"cookie", cookie.substr(0, cookie.find(';'))}};
  EXPECT_EQ(ask(request).status, 200);
}

TEST_F(Serving, AKeyOfOtherCollectionsSeesNothingOfThisOne) {
  const fs::path path = temporary_.path() / "keys";
  ASSERT_TRUE(
      write_file_atomic(path,
                        "read stranger-0123456789 elsewhere\nread reader-0123456789 my%20pictures elsewhere\n"
                        "write writer-0123456789 elsewhere\nread writer-0123456789\n"));
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  keys_ = Keys::read(path).value();
  const auto with = [&](const char* key, const char* method, const std::string& at,
                        const std::string& body = "") {
    HttpRequest request;
    request.method = method;
    const size_t question = std::min(at.find('?'), at.size());
    request.path = at.substr(0, question);
    request.query = parse_query(std::string_view(at).substr(std::min(question + 1, at.size())));
    request.body = body;
    request.headers = {{"x-api-key", key}};
    return ask(request);
  };
  const std::string own = "/api/collections/my pictures";
  const char* stranger = "stranger-0123456789";
  const char* reader = "reader-0123456789";
  const char* writer = "writer-0123456789";
  EXPECT_EQ(json_of(with(stranger, "GET", "/api/collections"))["collections"].size(), 0U);
  EXPECT_EQ(json_of(with(reader, "GET", "/api/collections"))["collections"].size(), 1U);
  EXPECT_EQ(json_of(with(stranger, "GET", "/indices-list")).size(), 0U);
  for (const std::string& at : {own, own + "/search?q=red", own + "/facets", own + "/images",
                                own + "/images/1", own + "/images/1/file", own + "/images/1/thumbnail",
                                std::string("/api/search?q=red&collection=my+pictures")}) {
    const HttpResponse refused = with(stranger, "GET", at);
    EXPECT_EQ(refused.status, 404) << at;
    EXPECT_THAT(refused.body, HasSubstr("there are: none")) << at;
    EXPECT_EQ(with(reader, "GET", at).status, 200) << at;
  }
  const std::string knn = R"({"text": "red", "indice_name": "my pictures"})";
  EXPECT_EQ(with(stranger, "POST", "/knn-service", knn).status, 404);
  EXPECT_EQ(with(reader, "POST", "/knn-service", knn).status, 200);
  EXPECT_EQ(with(stranger, "POST", "/metadata", R"({"ids": [1], "indice_name": "my pictures"})").status, 404);
  EXPECT_EQ(with(stranger, "GET", "/api/search?q=red").status, 404);
  EXPECT_EQ(with(reader, "GET", "/api/search?q=red").status, 200) << "the only one";
  EXPECT_THAT(with(reader, "GET", "/metrics").body, HasSubstr("saccade_collection_images"));
  EXPECT_THAT(with(stranger, "GET", "/metrics").body, Not(HasSubstr("saccade_collection_images")));
  // A key that may write elsewhere may only read here.
  EXPECT_EQ(with(writer, "GET", own).status, 200);
  const HttpResponse change = with(writer, "DELETE", own + "/images/1");
  EXPECT_EQ(change.status, 403);
  EXPECT_THAT(change.body, HasSubstr("may not change this collection"));
  EXPECT_EQ(with(reader, "DELETE", own + "/images/1").status, 403);
  // Another file of keys holds at once.
  ASSERT_TRUE(write_file_atomic(path, "read stranger-0123456789 my%20pictures\n"));
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(keys_.follow().value());
  EXPECT_EQ(with(stranger, "GET", own).status, 200);
  EXPECT_EQ(with(reader, "GET", own).status, 401);
}

TEST_F(Serving, AHeaderSettlesWhatNeedsNoKeyAndWhatIsAnsweredAtOnce) {
  const fs::path path = temporary_.path() / "keys";
  ASSERT_TRUE(write_file_atomic(path, "0123456789abcdef\n"));
  fs::permissions(path, fs::perms::owner_read);
  keys_ = Keys::read(path).value();
  const auto admit = [&](const char* method, const char* at, const char* key = "") {
    HttpRequest request;
    request.method = method;
    request.path = at;
    request.headers = {{"host", "localhost"}, {"x-api-key", key}};
    return service_->admit(request);
  };
  EXPECT_EQ(admit("POST", "/api/search").answer->status, 401);
  EXPECT_EQ(admit("POST", "/nothing").answer->status, 404);
  const Admission search = admit("POST", "/api/search", "0123456789abcdef");
  EXPECT_FALSE(search.answer || search.open || search.at_once);
  const Admission session = admit("POST", "/api/session");
  EXPECT_FALSE(session.answer || session.at_once);
  EXPECT_TRUE(session.open);
  for (const char* at :
       {"/healthz", "/readyz", "/health", "/ping", "/.well-known/live", "/.well-known/ready"}) {
    const Admission health = admit("GET", at);
    EXPECT_TRUE(!health.answer && health.open && health.at_once) << at;
  }
}

TEST_F(Serving, HostsAreComparedWithoutCase) {
  const auto status = [&](const char* host) {
    HttpRequest request;
    request.method = "GET";
    request.path = "/healthz";
    request.headers = {{"host", host}};
    return service_->handle(request).status;
  };
  for (const char* own : {"LOCALHOST", "LocalHost:7700", "localhost", "127.0.0.1:7700", "[::1]:7700"})
    EXPECT_EQ(status(own), 200) << own;
  for (const char* other : {"localhost.example", "LOCALHOST.example:7700", "[::2]", "[::1", "", "example"})
    EXPECT_EQ(status(other), 403) << other;
}

TEST_F(Serving, QueriesBeyondTheBoundsAreRefusedAndOfClientsThatHaveGoneNoneIsSearched) {
  const auto refused = [&](const Json& body, const char* said) {
    const HttpResponse response = post("/api/search", body.dump());
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_THAT(response.body, HasSubstr(said));
  };
  std::string quotes;
  for (int i = 0; i < 60'000; ++i) quotes += "\"a ";
  const auto start = std::chrono::steady_clock::now();
  refused({{"text", quotes}}, "180000 characters, at most 8192");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  refused({{"text", std::string(8193, 'a')}, {"literal", true}}, "8193 characters, at most 8192");
  std::string parts;
  for (int i = 0; i < 65; ++i) parts += "a:2 ";
  refused({{"text", parts}}, "more than 64 parts");
  HttpRequest request;
  request.method = "POST";
  request.path = "/api/search";
  request.body = R"({"text": "a bell"})";
  std::stop_source gone;
  request.stop = gone.get_token();
  EXPECT_EQ(ask(request).status, 200);
  gone.request_stop();
  EXPECT_EQ(ask(request).status, 503);
}

std::vector<float> row_of(const Json& embedding) {
  return embedding.get<std::vector<float>>();
}

TEST_F(Serving, EmbedsAsOpenAisClientsAsk) {
  // Body that openai-python sends for client.embeddings.create(model="starter", input=["a bell", "a red
  // bell"]).
  const Json answer = json_of(
      post("/v1/embeddings",
           R"({"input": ["a bell", "a red bell"], "model": "starter", "encoding_format": "base64"})"));
  ASSERT_THAT(answer["data"], SizeIs(2));
  EXPECT_EQ(answer["object"], "list");
  EXPECT_GT(answer["usage"]["total_tokens"], 2);
  const auto lent = served_->models().front()->encoder().value();
  SharedEncoder& encoder = *lent;
  const std::vector<TokenizedText> texts = {
      encoder.tokenizer()->encode("a bell", encoder.info().context),
      encoder.tokenizer()->encode("a red bell", encoder.info().context)};
  const auto rows = encoder.encode_texts(texts).value();
  for (int64_t i = 0; i < 2; ++i) {
    const auto text = answer["data"][static_cast<size_t>(i)]["embedding"].get<std::string>();
    const std::string bytes = decode_base64(text).value();
    ASSERT_EQ(bytes.size(), rows.row(i).size_bytes());
    EXPECT_EQ(std::memcmp(bytes.data(), rows.row(i).data(), bytes.size()), 0);
  }
  const Json one = json_of(post("/v1/embeddings", R"({"input": "a bell", "model": "starter"})"));
  const std::vector<float> row = row_of(one["data"][0]["embedding"]);
  EXPECT_EQ(row, std::vector<float>(rows.row(0).begin(), rows.row(0).end()));
  EXPECT_EQ(json_of(get("/v1/models"))["data"][0]["id"], "starter");
}

TEST_F(Serving, EmbedsPicturesInTheFormsThatClientsSend) {
  const std::string address = data_address(2);
  const Json jina = json_of(post(
      "/v1/embeddings",
      Json{{"model", "starter"}, {"input", {{{"image", encode_base64(test::png(2))}}, {{"text", "a bell"}}}}}
          .dump()));
  const Json nim = json_of(post("/v1/embeddings", Json{{"model", "starter"},
                                                       {"input", {address}},
                                                       {"modality", {"image"}},
                                                       {"input_type", "query"},
                                                       {"truncate", "NONE"}}
                                                      .dump()));
  const Json infinity = json_of(
      post("/v1/embeddings", Json{{"model", "starter"}, {"input", {address}}, {"modality", "image"}}.dump()));
  const Json parts = json_of(
      post("/v1/embeddings",
           Json{{"model", "starter"}, {"input", {{{"type", "image_url"}, {"image_url", {{"url", address}}}}}}}
               .dump()));
  const std::vector<float> row = row_of(jina["data"][0]["embedding"]);
  EXPECT_THAT(row, SizeIs(served_->models().front()->info.dim));
  EXPECT_EQ(row, row_of(nim["data"][0]["embedding"]));
  EXPECT_EQ(row, row_of(infinity["data"][0]["embedding"]));
  EXPECT_EQ(row, row_of(parts["data"][0]["embedding"]));
  EXPECT_NE(row, row_of(jina["data"][1]["embedding"]));
}

TEST_F(Serving, MetricsSayWhereTimeAndMemoryGo) {
  const std::string before = get("/metrics").body;
  EXPECT_THAT(before, Not(HasSubstr("stage=\"preprocess\"")));
  ASSERT_EQ(post("/v1/embeddings", Json{{"input", {"a bell", "a cat", data_address(2)}}}.dump()).status, 200);
  const std::string after = get("/metrics").body;
  for (const char* stage : {"decode", "preprocess", "encode"})
    EXPECT_THAT(after, HasSubstr(fmt::format("saccade_stage_seconds_count{{stage=\"{}\"}}", stage)));
  EXPECT_THAT(after, HasSubstr("# TYPE saccade_encoder_batch_size histogram\n"
                               "saccade_encoder_batch_size_bucket{model=\"starter\",le=\"1\"} 1\n"
                               "saccade_encoder_batch_size_bucket{model=\"starter\",le=\"2\"} 2\n"));
  EXPECT_THAT(after, HasSubstr("saccade_encoder_batch_size_sum{model=\"starter\"} 3\n"
                               "saccade_encoder_batch_size_count{model=\"starter\"} 2\n"));
  const std::string line = "\nprocess_resident_memory_bytes ";
  const size_t found = after.find(line);
  ASSERT_NE(found, std::string::npos);
  EXPECT_GT(std::stod(after.substr(found + line.size())), 1e6);
}

TEST_F(Serving, RefusesEmbeddingsInTheShapeThatClientsRead) {
  const auto refused = [&](const std::string& body, int status, const char* words) {
    const HttpResponse response = post("/v1/embeddings", body);
    EXPECT_EQ(response.status, status) << response.body;
    const Json json = json_of(response);
    EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr(words));
    EXPECT_TRUE(json["error"].contains("type"));
  };
  refused(R"({"model": "gpt"})", 404, "no model \"gpt\"; there are: starter");
  refused(R"({"model": "starter"})", 422, "\"input\" is missing");
  refused(R"({"input": null})", 422, "\"input\": null, expected a text or an object");
  refused(R"({"input": []})", 400, "no input");
  refused(R"({"input": [""]})", 400, "input 0: an empty text");
  refused(R"({"input": [[1, 2]]})", 400, "another tokenizer's");
  refused(R"({"input": "a", "dimensions": 3})", 400, "\"dimensions\": 3");
  refused(R"({"input": "a", "dimension": 3})", 400, "\"dimension\" is not known here");
  refused(R"({"input": "a", "encoding_format": "hex"})", 400, "\"float\" or \"base64\"");
  refused(R"({"input": ["a", "data:image/png;base64,AAAA"]})", 415, "input 1");
  refused(Json{{"input", std::vector<std::string>(257, "a")}}.dump(), 400, "257 inputs, at most 256");
  std::string long_text;
  for (int i = 0; i < 100; ++i) long_text += "bell ";
  refused(Json{{"input", long_text}, {"truncate", "NONE"}}.dump(), 400, "\"truncate\" is \"NONE\"");
  const HttpResponse cut = post("/v1/embeddings", Json{{"input", long_text}}.dump());
  EXPECT_EQ(cut.status, 200);
  EXPECT_GT(std::stoi(header(cut, "X-Saccade-Dropped-Tokens")), 0);
}

TEST_F(Serving, APictureMayComeAsAFormsFile) {
  const auto form = [&](const std::string& rest) {
    HttpRequest request;
    request.method = "POST";
    request.path = "/api/search";
    request.headers = {{"content-type", "Multipart/Form-Data; boundary=b"}};
    request.body = "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\n\r\n" +
                   test::png(2) + "\r\n" + rest + "--b--\r\n";
    return ask(request);
  };
  const auto field = [](const std::string& name, const std::string& value) {
    return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
  };
  const HttpResponse response = form(field("k", "3") + field("text", "bell"));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.about, "bell");
  const Json expected =
      json_of(post("/api/search", Json{{"image", data_address(2)}, {"k", 3}, {"text", "bell"}}.dump()));
  ASSERT_THAT(expected["hits"], SizeIs(3));
  EXPECT_EQ(json_of(response)["hits"], expected["hits"]);
  EXPECT_EQ(form(field("kk", "3")).status, 400);
  EXPECT_EQ(form(field("k", "three")).status, 400);
  EXPECT_EQ(form("--b\r\nContent-Disposition: form-data; name=\"image\"\r\n\r\nx\r\n").status, 400);
  EXPECT_EQ(get("/readyz").status, 200);
}

TEST_F(Serving, ACollectionThatVanishesTakesNoOtherOutOfTheList) {
  served_.reset();
  const fs::path second = temporary_.path() / "second";
  fs::copy(folder_, second, fs::copy_options::recursive);
  ServedOptions options;
  options.collections = {folder_, second};
  served_ = Served::open(options).value();
  make({});
  const Json whole = json_of(get("/api/collections"));
  EXPECT_THAT(whole["collections"], SizeIs(2));
  EXPECT_THAT(whole["unavailable"], SizeIs(0));
  fs::remove_all(second);
  const HttpResponse response = get("/api/collections");
  ASSERT_EQ(response.status, 200) << response.body;
  const Json left = json_of(response);
  ASSERT_THAT(left["collections"], SizeIs(1));
  EXPECT_EQ(left["collections"][0]["name"], "my pictures");
  ASSERT_THAT(left["unavailable"], SizeIs(1));
  EXPECT_EQ(left["unavailable"][0]["name"], "second");
  EXPECT_THAT(left["unavailable"][0]["reason"].get<std::string>(), HasSubstr("no longer where it was"));
  fs::remove_all(folder_);
  EXPECT_EQ(get("/api/collections").status, 503);
}

TEST_F(Serving, ACollectionThatVanishesIsMissedUntilItIsBack) {
  const fs::path elsewhere = temporary_.path() / "elsewhere";
  fs::rename(folder_, elsewhere);
  for (const char* path : {"/api/search?q=red", "/api/collections/my pictures", "/readyz"}) {
    const HttpResponse response = get(path);
    EXPECT_EQ(response.status, 503) << path << response.body;
    EXPECT_EQ(header(response, "Retry-After"), "1") << path;
  }
  EXPECT_THAT(json_of(get("/api/search?q=red"))["error"]["message"].get<std::string>(),
              HasSubstr("my pictures is no longer where it was"));
  EXPECT_EQ(get("/healthz").status, 200);
  fs::rename(elsewhere, folder_);
  EXPECT_EQ(get("/api/search?q=red").status, 200);
  EXPECT_EQ(get("/readyz").status, 200);
}

TEST_F(Serving, OneOfSeveralCollectionsHasToBeNamed) {
  fs::copy(folder_, temporary_.path() / "second", fs::copy_options::recursive);
  ServedOptions options;
  options.collections = {folder_, temporary_.path() / "second"};
  served_ = Served::open(options).value();
  make({});
  const HttpResponse response = get("/api/search?q=red");
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(json_of(response)["error"]["message"].get<std::string>(),
              HasSubstr("name one of my pictures, second"));
  EXPECT_EQ(get("/api/search?q=red&collection=second").status, 200);
}

}  // namespace
}  // namespace saccade::serve
