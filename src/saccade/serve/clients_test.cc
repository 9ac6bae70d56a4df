// Clients that ask as huggingface_hub 1.x, LiteLLM's "huggingface/" and "cohere/", and Cohere's own do, and token
// ids in place of texts: request bodies as they send them.
#include <cstring>
#include <numeric>
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

class Clients : public ServingTest {
 protected:
  [[nodiscard]] Json answer(const std::string& path, const Json& body) const {
    const HttpResponse response = post(path, body.dump());
    EXPECT_EQ(response.status, 200) << path << response.body;
    return json_of(response);
  }
  void refused(const std::string& path, const Json& body, int status, const char* words) const {
    const HttpResponse response = post(path, body.dump());
    EXPECT_EQ(response.status, status) << body << response.body;
    EXPECT_THAT(response.body, HasSubstr(words));
  }
  [[nodiscard]] std::vector<float> embedding_of(const Json& input) const {
    return answer("/v1/embeddings", {{"input", input}})["data"][0]["embedding"].get<std::vector<float>>();
  }
};

// InferenceClient(model=address).sentence_similarity(sentence, others).
TEST_F(Clients, HuggingFaceHubComparesSentences) {
  const Json inputs = {{"source_sentence", "a bell"}, {"sentences", {"a red car", "a bell", "two birds"}}};
  const Json found = answer("/", {{"inputs", inputs}, {"parameters", Json::object()}});
  ASSERT_THAT(found, SizeIs(3));
  const auto source = embedding_of("a bell");
  const auto other = embedding_of("two birds");
  EXPECT_NEAR(found[1].get<double>(), 1, 1e-5);
  EXPECT_NEAR(found[2].get<double>(), std::inner_product(source.begin(), source.end(), other.begin(), 0.0),
              1e-5);
  EXPECT_LT(found[0].get<double>(), found[1].get<double>());
  EXPECT_EQ(answer("/similarity", {{"inputs", inputs}, {"parameters", {{"truncate", true}}}}), found);
  const Json picture = {{"source_sentence", data_address(1)}, {"sentences", {data_address(1), "a bell"}}};
  EXPECT_NEAR(answer("/", {{"inputs", picture}})[0].get<double>(), 1, 1e-5);

  refused("/", {{"inputs", {{"source_sentence", "a"}, {"sentences", Json::array()}}}}, 400, "is empty");
  refused("/", {{"inputs", {{"source_sentence", "a"}}}}, 422, "\"sentences\\\" is missing");
  refused("/", {{"inputs", {{"sentences", {"a"}}}}}, 422, "\"source_sentence\\\" is missing");
  refused("/", {{"inputs", {{"source_sentence", {"a", "b"}}, {"sentences", {"a"}}}}}, 400, "2 texts");
  refused("/similarity", {{"inputs", "a"}}, 422, "expected");
  std::string long_text;
  for (int i = 0; i < 100; ++i) long_text += "bell ";
  refused("/", {{"inputs", {{"source_sentence", "a"}, {"sentences", {long_text}}}}}, 413, "truncate");
}

// litellm.rerank(model="huggingface/...", api_base=address).
TEST_F(Clients, LiteLlmsHuggingFaceRanksSayHowMany) {
  Json body = {{"raw_scores", false},
               {"truncate", false},
               {"truncation_direction", "Right"},
               {"query", "a bell"},
               {"texts", {"a red car", "a bell", "two birds"}},
               {"return_text", true}};
  const Json all = answer("/rerank", body);
  ASSERT_THAT(all, SizeIs(3));
  body["top_n"] = 2;
  const Json some = answer("/rerank", body);
  ASSERT_THAT(some, SizeIs(2));
  EXPECT_EQ(some[0], all[0]);
  EXPECT_EQ(some[1], all[1]);
  EXPECT_EQ(some[0]["text"], "a bell");
  body["top_n"] = 20;
  EXPECT_THAT(answer("/rerank", body), SizeIs(3));
  body["top_n"] = 0;
  refused("/rerank", body, 400, "\\\"top_n\\\": 0");
}

// litellm.embedding(model="cohere/...", api_base=address + "/v2/embed"), and cohere.ClientV2.
TEST_F(Clients, CoheresClientsEmbedTextsAndImages) {
  const auto text = embedding_of("a bell");
  const auto picture = embedding_of(data_address(2));
  const Json litellm = answer(
      "/v2/embed", {{"model", "starter"}, {"texts", {"a bell", "a car"}}, {"input_type", "search_document"}});
  EXPECT_EQ(litellm["response_type"], "embeddings_by_type");
  ASSERT_THAT(litellm["embeddings"], SizeIs(1));
  ASSERT_THAT(litellm["embeddings"]["float"], SizeIs(2));
  EXPECT_EQ(litellm["embeddings"]["float"][0].get<std::vector<float>>(), text);
  EXPECT_EQ(litellm["texts"], Json({"a bell", "a car"}));
  EXPECT_EQ(litellm["meta"]["billed_units"], Json({{"input_tokens", 4}}));
  EXPECT_EQ(litellm["meta"]["api_version"]["version"], "2");

  const Json images = answer("/v2/embed", {{"model", "starter"},
                                           {"images", {data_address(2)}},
                                           {"input_type", "image"},
                                           {"embedding_types", {"float", "base64"}}});
  EXPECT_EQ(images["embeddings"]["float"][0].get<std::vector<float>>(), picture);
  EXPECT_EQ(images["meta"]["billed_units"]["images"], 1);
  const std::string bytes = decode_base64(images["embeddings"]["base64"][0].get<std::string>()).value();
  ASSERT_EQ(bytes.size(), picture.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(bytes.data(), picture.data(), bytes.size()), 0);
  const Json parts = answer(
      "/v2/embed", {{"model", "starter"},
                    {"input_type", "search_query"},
                    {"truncate", "END"},
                    {"inputs",
                     {{{"content", {{{"type", "text"}, {"text", "a bell"}}}}},
                      {{"content", {{{"type", "image_url"}, {"image_url", {{"url", data_address(2)}}}}}}}}}});
  EXPECT_EQ(parts["embeddings"]["float"][0].get<std::vector<float>>(), text);
  EXPECT_EQ(parts["embeddings"]["float"][1].get<std::vector<float>>(), picture);
  // The first version's answer is a list where no type is named.
  const Json older = answer("/v1/embed", {{"model", "starter"}, {"texts", {"a bell"}}});
  EXPECT_EQ(older["response_type"], "embeddings_floats");
  EXPECT_EQ(older["embeddings"][0].get<std::vector<float>>(), text);
  EXPECT_EQ(
      answer("/v1/embed", {{"texts", {"a bell"}}, {"embedding_types", {"float"}}})["embeddings"]["float"][0],
      older["embeddings"][0]);

  refused("/v2/embed", {{"model", "embed-v4.0"}, {"texts", {"a"}}}, 404, "there are: starter");
  refused("/v2/embed", {{"model", "starter"}}, 400, "is needed");
  refused("/v2/embed", {{"texts", {"a"}}, {"images", {data_address(1)}}}, 400, "one of");
  refused("/v2/embed", {{"texts", "a"}}, 422, "expected a list");
  refused("/v2/embed", {{"texts", {"a"}}, {"embedding_types", {"int8"}}}, 415, "int8");
  refused("/v2/embed", {{"texts", {"a"}}, {"output_dimension", 3}}, 415, "output_dimension");
  refused("/v2/embed", {{"texts", {"a"}}, {"truncate", "START"}}, 415, "START");
  std::string long_text;
  for (int i = 0; i < 100; ++i) long_text += "bell ";
  refused("/v2/embed", {{"texts", {long_text}}, {"truncate", "NONE"}}, 400, "NONE");
  const HttpResponse cut = post("/v2/embed", Json{{"texts", {"a bell and a car"}}, {"max_tokens", 2}}.dump());
  EXPECT_EQ(cut.status, 200);
  EXPECT_EQ(header(cut, "X-Saccade-Tokens"), "2");
  EXPECT_EQ(json_of(post("/v2/embed", "{}"))["message"].get<std::string>(),
            "one of \"texts\", \"images\" and \"inputs\" is needed");
}

// Clients of OpenAI's send another tokenizer's ids by themselves; those who have the model's own say so.
TEST_F(Clients, TokenIdsAreReadWhereTheyAreSaidToBeTheModelsOwn) {
  const auto encoder = served_->models().front()->encoder().value();
  const Tokenizer& tokenizer = *encoder->tokenizer();
  const auto context = encoder->info().context;
  const auto ids_of = [&](const std::string& text, bool framed) {
    const TokenizedText tokens = tokenizer.encode(text, context);
    const auto begin = tokens.ids.begin() + (framed ? 0 : tokens.first);
    return std::vector<int32_t>(begin, framed ? tokens.ids.end() : begin + tokens.used);
  };
  const auto embedded = [&](const Json& input) {
    return answer("/v1/embeddings", {{"input", input}, {"model", "starter"}, {"tokenizer", "starter"}});
  };
  const auto text = embedding_of("a red bell");
  for (const bool framed : {false, true}) {
    const Json one = embedded(ids_of("a red bell", framed));
    EXPECT_EQ(one["data"][0]["embedding"].get<std::vector<float>>(), text) << framed;
    EXPECT_EQ(one["usage"]["prompt_tokens"], 3);
    const Json list = embedded({ids_of("a car", framed), "a red bell", ids_of("a red bell", framed)});
    ASSERT_THAT(list["data"], SizeIs(3));
    EXPECT_EQ(list["data"][0]["embedding"].get<std::vector<float>>(), embedding_of("a car"));
    EXPECT_EQ(list["data"][1]["embedding"].get<std::vector<float>>(), text);
    EXPECT_EQ(list["data"][2]["embedding"].get<std::vector<float>>(), text);
  }
  std::string long_text;
  for (int i = 0; i < 200; ++i) long_text += "bell ";
  const TokenizedText whole = tokenizer.encode(long_text, kWholeText);
  const HttpResponse cut =
      post("/v1/embeddings", Json{{"input", whole.ids}, {"tokenizer", "starter"}}.dump());
  ASSERT_EQ(cut.status, 200) << cut.body;
  EXPECT_EQ(json_of(cut)["data"][0]["embedding"].get<std::vector<float>>(), embedding_of(long_text));
  EXPECT_EQ(header(cut, "X-Saccade-Dropped-Tokens"),
            std::to_string(tokenizer.encode(long_text, context).dropped));

  const auto own = [](const Json& input) { return Json{{"input", input}, {"tokenizer", "starter"}}; };
  refused("/v1/embeddings", {{"input", {1, 2}}}, 400, "another tokenizer's");
  refused("/v1/embeddings", {{"input", {{1, 2}}}}, 400, "say so with \\\"tokenizer\\\"");
  refused("/v1/embeddings", {{"input", {1, 2}}, {"tokenizer", "cl100k_base"}}, 400, "only starter's own");
  refused("/v1/embeddings", own({tokenizer.vocabulary_size()}), 400, "the model has");
  refused("/v1/embeddings", own({-1}), 400, "token -1");
  refused("/v1/embeddings", own({int64_t{1} << 40}), 422, "1099511627776");
  refused("/v1/embeddings", own({1, "a"}), 422, "\\\"a\\\"");
  refused("/v1/embeddings", own(Json::array({Json::array()})), 422, "an empty list");
  refused("/v1/embeddings", own(Json::array()), 400, "no input");
}

TEST_F(Clients, ImmichsEntriesAreBoundBeforeTheyAreParsed) {
  std::string entries = "[{}";
  for (int i = 0; i < 70'000; ++i) entries += ",{}";
  entries += "]";
  HttpRequest request;
  request.method = "POST";
  request.path = "/predict";
  request.headers = {{"content-type", "multipart/form-data; boundary=b"}};
  request.body = "--b\r\nContent-Disposition: form-data; name=\"entries\"\r\n\r\n" + entries +
                 "\r\n--b\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\na\r\n--b--\r\n";
  const HttpResponse response = ask(request);
  EXPECT_EQ(response.status, 413) << response.body;
  EXPECT_THAT(response.body, HasSubstr("at most 131072 are taken"));
}

}  // namespace
}  // namespace saccade::serve
