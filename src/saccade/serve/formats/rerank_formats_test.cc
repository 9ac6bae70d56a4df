// Clients of re-ranking services: request bodies as they send them.
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class Rerank : public ServingTest {
 protected:
  [[nodiscard]] Json ranked(const std::string& path, const Json& body) const {
    const HttpResponse response = post(path, body.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    return json_of(response);
  }
  static std::vector<int> order(const Json& answer) {
    std::vector<int> indices;
    for (const Json& result : answer["results"]) indices.push_back(result["index"].get<int>());
    return indices;
  }
  static double score(const Json& answer, int index) {
    for (const Json& result : answer["results"]) {
      if (result["index"] == index) return result["relevance_score"].get<double>();
    }
    return NAN;
  }
  // Returns the score that Text Embeddings Inference's clients get for the same input.
  [[nodiscard]] double reference(const Json& query, const Json& text) const {
    const HttpResponse response = post("/rerank", Json{{"query", query}, {"texts", {text}}}.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    return json_of(response)[0]["score"].get<double>();
  }
  [[nodiscard]] std::string picture(int seed) const { return encode_base64(saccade::test::png(seed)); }
};

// As LangChain and LlamaIndex ask, and as jina-reranker-m0 is asked.
TEST_F(Rerank, JinasClientsRankTextsAndPictures) {
  const Json texts = {"a red car", "a bell", "two birds"};
  const Json answer = ranked(
      "/v1/rerank", {{"query", "a bell"}, {"documents", texts}, {"model", "starter"}, {"top_n", nullptr}});
  EXPECT_EQ(answer["object"], "rerank");
  EXPECT_EQ(answer["model"], "starter");
  ASSERT_THAT(answer["results"], SizeIs(3));
  EXPECT_EQ(answer["results"][0]["index"], 1);
  for (size_t i = 0; i < 3; ++i) {
    const Json& result = answer["results"][i];
    const Json& text = texts[result["index"].get<size_t>()];
    EXPECT_NEAR(result["relevance_score"].get<double>(), reference("a bell", text), 1e-5);
    EXPECT_EQ(result["document"], Json({{"text", text}}));
    if (i > 0) {
      EXPECT_GE(answer["results"][i - 1]["relevance_score"], result["relevance_score"]);
    }
  }
  const Json two =
      ranked("/v1/rerank", {{"query", "a bell"}, {"documents", texts}, {"model", "starter"}, {"top_n", 2}});
  std::vector<int> first_two = order(answer);
  first_two.pop_back();
  EXPECT_EQ(order(two), first_two);

  const Json body = {
      {"model", "starter"},
      {"query", "red stripes"},
      {"documents",
       {{{"image", data_address(1)}}, {{"image", picture(2)}}, {{"text", "a red bell"}}, data_address(3)}},
      {"return_documents", false}};
  const HttpResponse response = post("/v1/rerank", body.dump());
  const Json mixed = json_of(response);
  ASSERT_THAT(mixed["results"], SizeIs(4)) << mixed;
  for (int i = 0; i < 4; ++i) {
    const Json text = i == 2 ? Json("a red bell") : Json(data_address(i == 3 ? 3 : i + 1));
    EXPECT_NEAR(score(mixed, i), reference("red stripes", text), 1e-5) << i;
    EXPECT_FALSE(mixed["results"][static_cast<size_t>(i)].contains("document"));
  }
  // Two texts alone have tokens.
  EXPECT_EQ(header(response, "X-Saccade-Tokens"), std::to_string(mixed["usage"]["total_tokens"].get<int>()));
  EXPECT_EQ(mixed["usage"]["prompt_tokens"], mixed["usage"]["total_tokens"]);
  EXPECT_GT(mixed["usage"]["total_tokens"], 0);
  EXPECT_EQ(header(response, "X-Saccade-Dropped-Tokens"), "0");
  EXPECT_EQ(header(response, "X-Saccade-Scored-By"), "rows");

  // A picture asks; texts come back unasked, pictures do not.
  const Json turned =
      ranked("/v1/rerank", {{"query", {{"image", picture(2)}}},
                            {"documents", {{{"image", data_address(2)}}, {{"text", "a bell"}}}}});
  EXPECT_THAT(order(turned), ElementsAre(0, 1));
  EXPECT_NEAR(score(turned, 0), 1, 1e-5);
  EXPECT_NEAR(score(turned, 1), reference(data_address(2), "a bell"), 1e-5);
  EXPECT_FALSE(turned["results"][0].contains("document"));
  EXPECT_EQ(turned["results"][1]["document"], Json({{"text", "a bell"}}));
  const Json back = ranked("/v1/rerank", {{"query", {{"text", "a bell"}}},
                                          {"documents", {{{"image", data_address(2)}}}},
                                          {"return_documents", true}});
  EXPECT_EQ(back["results"][0]["document"]["image"], data_address(2));
}

// As cohere 7.3's Client and ClientV2 ask.
TEST_F(Rerank, CoheresClientsSayHowManyTokensAreRead) {
  const Json first =
      ranked("/v1/rerank", {{"model", "starter"},
                            {"query", "a bell"},
                            {"documents", {{{"text", "two birds"}}, {{"text", "a bell"}, {"title", "x"}}}},
                            {"top_n", 1},
                            {"return_documents", true}});
  EXPECT_THAT(order(first), ElementsAre(1));
  EXPECT_EQ(first["results"][0]["document"]["text"], "a bell");

  const Json body = {{"model", "starter"}, {"query", "a bell"}, {"documents", {"a bell and a red car", "a"}}};
  const auto with = [&](int most) {
    Json more = body;
    more["max_tokens_per_doc"] = most;
    return post("/v2/rerank", more.dump());
  };
  const Json whole = ranked("/v2/rerank", body);
  EXPECT_NEAR(score(whole, 0), reference("a bell", "a bell and a red car"), 1e-5);
  EXPECT_EQ(json_of(with(4096)), whole);
  const HttpResponse two = with(2);
  EXPECT_NEAR(score(json_of(two), 0), 1, 1e-5);  // "a bell" is what is left
  EXPECT_EQ(header(two, "X-Saccade-Dropped-Tokens"), "4");
  EXPECT_EQ(header(two, "X-Saccade-Tokens"), "5");
  const HttpResponse none = with(0);
  EXPECT_EQ(none.status, 400);
  EXPECT_THAT(json_of(none)["message"].get<std::string>(), HasSubstr("\"max_tokens_per_doc\": 0"));
  // More than the model reads is cut, as there.
  std::string long_text;
  for (int i = 0; i < 100; ++i) long_text += "bell ";
  const HttpResponse cut =
      post("/v2/rerank", Json{{"model", "starter"}, {"query", "a"}, {"documents", {long_text}}}.dump());
  EXPECT_EQ(cut.status, 200);
  EXPECT_GT(std::stoi(header(cut, "X-Saccade-Dropped-Tokens")), 0);
}

// As infinity_client 0.0.78 asks, by itself and from LangChain.
TEST_F(Rerank, InfinitysClientAsksWhereTextEmbeddingsInferencesDoes) {
  const Json body = {{"query", "a bell"},
                     {"documents", {"two birds", "a bell"}},
                     {"return_documents", true},
                     {"raw_scores", false},
                     {"model", "default/not-specified"}};
  const Json answer = ranked("/rerank", body);
  EXPECT_EQ(answer["object"], "rerank");
  EXPECT_THAT(order(answer), ElementsAre(1, 0));
  EXPECT_EQ(answer["results"][0]["document"], "a bell");
  EXPECT_NEAR(score(answer, 1), 1, 1e-5);
  Json less = body;
  less["return_documents"] = false;
  less["top_n"] = 1;
  const Json one = ranked("/rerank", less);
  EXPECT_THAT(order(one), ElementsAre(1));
  EXPECT_FALSE(one["results"][0].contains("document"));
}

// As vLLM's examples ask.
TEST_F(Rerank, ContentPartsAreDocuments) {
  const Json text = {{"type", "text"}, {"text", "a bell"}};
  const Json image = {{"type", "image_url"}, {"image_url", {{"url", data_address(2)}}}};
  const auto content = [](const Json& part) { return Json{{"content", Json::array({part})}}; };
  const Json body = {{"model", "starter"}, {"query", "a bell"}};
  const auto asked = [&](const Json& documents) {
    Json whole = body;
    whole["documents"] = documents;
    return post("/rerank", whole.dump());
  };
  const Json one = json_of(asked(content(image)));
  ASSERT_THAT(one["results"], SizeIs(1)) << one;
  EXPECT_NEAR(score(one, 0), reference("a bell", data_address(2)), 1e-5);
  const Json list = json_of(asked(Json::array({content(image), "two birds", content(text)})));
  ASSERT_THAT(list["results"], SizeIs(3)) << list;
  EXPECT_EQ(list["results"][0]["index"], 2);
  EXPECT_EQ(list["results"][0]["document"]["multi_modal"][0]["text"], "a bell");
  EXPECT_NEAR(score(list, 0), score(one, 0), 1e-5);
  EXPECT_NEAR(score(list, 1), reference("a bell", "two birds"), 1e-5);
  const HttpResponse both = asked(Json::array({{{"content", {text, image}}}}));
  EXPECT_EQ(both.status, 400);
  EXPECT_THAT(json_of(both)["error"]["message"].get<std::string>(),
              HasSubstr("document 0: \"content\": a text or one content part"));
}

TEST_F(Rerank, TheModelIsTheNamedOneElseTheOneThatRanksBest) {
  add_matching_model();
  const Json body = {{"query", "a red bird"},
                     {"documents", {{{"image", data_address(1)}}, {{"image", data_address(2)}}}}};
  const HttpResponse by_pairs = post("/v1/rerank", body.dump());
  EXPECT_EQ(header(by_pairs, "X-Saccade-Scored-By"), "pairs");
  const Json pairs = json_of(by_pairs);
  EXPECT_EQ(pairs["model"], "blip2");
  Json raw_body = body;
  raw_body["raw_scores"] = true;
  const Json raw = ranked("/rerank", raw_body);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(score(pairs, i), reference("a red bird", data_address(i + 1)), 1e-4);
    EXPECT_NEAR(score(pairs, i), 1 / (1 + std::exp(-score(raw, i))), 1e-4);
  }
  Json named = body;
  named["model"] = "starter";
  const HttpResponse by_rows = post("/v1/rerank", named.dump());
  EXPECT_EQ(header(by_rows, "X-Saccade-Scored-By"), "rows");
  EXPECT_EQ(json_of(by_rows)["model"], "starter");
}

TEST_F(Rerank, ErrorsHaveTheFormOfWhoAsks) {
  // All that these clients look at: "detail" is a list for 422, as infinity's takes it.
  const auto refused = [&](const std::string& path, const Json& body, int status, const char* words) {
    const HttpResponse response = post(path, body.dump());
    EXPECT_EQ(response.status, status) << response.body;
    const Json json = json_of(response);
    EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr(words));
    EXPECT_EQ(json["message"], json["error"]["message"]);
    EXPECT_EQ(status == 422 ? json["detail"][0]["msg"] : json["detail"], json["message"]);
  };
  for (const char* path : {"/rerank", "/v1/rerank", "/v2/rerank"}) {
    refused(path, {{"query", "a"}, {"documents", Json::array()}}, 400, "\"documents\" is empty");
    refused(path, {{"query", "a"}, {"documents", {"b"}}, {"model", "rerank-v3.5"}}, 404,
            "no model \"rerank-v3.5\"; there are: starter");
    refused(path, {{"query", "a"}, {"documents", {"b"}}, {"rank_fields", {"title"}}}, 400,
            "\"rank_fields\" is not known here; there are: model, query, documents");
    refused(path, {{"documents", {"b"}}}, 422, "\"query\" is missing");
    refused(path, {{"query", "a"}, {"documents", {"b", 3}}}, 422,
            "document 1: a number, expected a text or an object");
    refused(path, {{"query", 3}, {"documents", {"b"}}}, 422,
            "\"query\": a number, expected a text or an object");
    refused(path, {{"query", "a"}, {"documents", {nullptr}}}, 422, "document 0: null");
    refused(path, {{"query", "a"}, {"documents", {{{"title", "b"}}}}}, 422,
            "document 0: \"text\" is missing");
    refused(path, {{"query", "a"}, {"documents", {{{"text", "b"}, {"image", picture(1)}}}}}, 400,
            "\"text\" and \"image\" in one");
    refused(path, {{"query", "a"}, {"documents", {"b"}}, {"top_n", -1}}, 400, "\"top_n\": -1");
    refused(path, {{"query", "a"}, {"documents", {"b"}}, {"top_n", "3"}}, 422, "\"top_n\"");
    refused(path, {{"query", ""}, {"documents", {"b"}}}, 400, "input 0: an empty text");
    refused(path, {{"query", "a"}, {"documents", {{{"image", "https://a.example/b.png"}}}}}, 415,
            "not fetched");
    refused(path, {{"query", "a"}, {"documents", std::vector<std::string>(256, "b")}}, 400,
            "\"documents\": 256, fewer than 256");
  }
  refused("/v1/rerank", {{"query", "a"}}, 422, "\"documents\" is missing");
  refused("/v1/rerank", {{"query", "a"}, {"documents", {"b"}}, {"texts", {"b"}}}, 400,
          "\"texts\" is not known");
  // Text Embeddings Inference's clients read another form.
  for (const char* body : {R"({"query": "a", "texts": ["b"], "documents": ["b"]})", R"({"query": "a"})"}) {
    const HttpResponse which = post("/rerank", body);
    EXPECT_EQ(which.status, 400);
    EXPECT_THAT(json_of(which)["error"].get<std::string>(), HasSubstr("either \"texts\" or \"documents\""));
    EXPECT_EQ(json_of(which)["error_type"], "Validation");
  }
  const HttpResponse unknown = post("/rerank", R"({"query": "a", "texts": ["b"], "user": "c"})");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(json_of(unknown)["error"].get<std::string>(), HasSubstr("\"user\" is not known here"));
}

}  // namespace
}  // namespace saccade::serve
