// Other programs' clients: request bodies as they send them.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/image/read_pixels.h"
#include "saccade/serve/formats/multipart.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class Formats : public ServingTest {
 protected:
  [[nodiscard]] std::vector<float> row_of_text(const std::string& text) const {
    const auto lent = served_->models().front()->encoder().value();
    EncoderBackend& encoder = *lent;
    const TokenizedText tokens = encoder.tokenizer()->encode(text, encoder.info().context);
    const auto rows = encoder.encode_texts({&tokens, 1}).value();
    return {rows.row(0).begin(), rows.row(0).end()};
  }
  // Returns the embedding of the only input in `body`.
  [[nodiscard]] std::vector<float> row_of(std::string_view path, const Json& body) {
    const HttpResponse response = post(std::string(path), body.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    return response.status == 200 ? floats(json_of(response)["data"][0]["embedding"]) : std::vector<float>();
  }
  static std::vector<float> floats(const Json& list) {
    std::vector<float> values;
    for (const Json& value : list) values.push_back(value.get<float>());
    return values;
  }
};

// As clip_retrieval.clip_client.ClipClient and the front end's clip-service.js write them.
TEST_F(Formats, ClipRetrievalsClientsFindPicturesAndTheirMetadata) {
  const auto python = [&](const Json& more) {
    Json body = {{"text", nullptr},
                 {"image", nullptr},
                 {"image_url", nullptr},
                 {"embedding_input", nullptr},
                 {"deduplicate", true},
                 {"use_safety_model", true},
                 {"use_violence_detector", true},
                 {"indice_name", "my pictures"},
                 {"use_mclip", false},
                 {"aesthetic_score", 9},
                 {"aesthetic_weight", 0.5},
                 {"modality", "image"},
                 {"num_images", 3},
                 {"num_result_ids", 3}};
    body.update(more);
    return post("/knn-service", body.dump());
  };
  const HttpResponse response = python({{"text", "red stripes"}});
  ASSERT_EQ(response.status, 200) << response.body;
  const Json found = json_of(response);
  const Json own = json_of(get("/api/search?q=red+stripes&k=3"));
  ASSERT_THAT(found, SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i]["id"], own["hits"][i]["id"]);
    EXPECT_NEAR(found[i]["similarity"].get<double>(), own["hits"][i]["score"].get<double>(), 1e-6);
    EXPECT_EQ(found[i]["url"], "http://localhost:7700" + own["hits"][i]["file"].get<std::string>());
  }
  EXPECT_EQ(header(response, "X-Saccade-Dropped-Tokens"), "0");
  const Json by_picture = json_of(python({{"image", encode_base64(test::png(4))}}));
  EXPECT_THAT(by_picture[0]["image_path"].get<std::string>(), HasSubstr("p4.png"));
  EXPECT_EQ(json_of(python({{"embedding_input", row_of_text("red stripes")}}))[0]["id"], found[0]["id"]);

  // The front end asks for thousands of ids and for few metadata, then for the others'.
  const Json front = json_of(post("/knn-service",
                                  R"({"text":"red stripes","image":null,"image_url":null,"modality":"image",)"
                                  R"("num_images":1,"indice_name":"my pictures","num_result_ids":3000,)"
                                  R"("use_mclip":false,"deduplicate":false,"use_safety_model":true})"));
  ASSERT_THAT(front, SizeIs(6));
  EXPECT_TRUE(front[0].contains("url"));
  EXPECT_FALSE(front[1].contains("url"));
  const Json more = json_of(
      post("/metadata", Json{{"ids", Json::array({front[1]["id"]})}, {"indice_name", "my pictures"}}.dump()));
  ASSERT_THAT(more, SizeIs(1));
  EXPECT_EQ(more[0]["id"], front[1]["id"]);
  EXPECT_TRUE(more[0]["metadata"].contains("image_path"));
  EXPECT_EQ(json_of(get("/indices-list")), Json::array({"my pictures"}));

  EXPECT_EQ(python({{"text", "a"}, {"modality", "text"}}).status, 415);
  EXPECT_EQ(python({{"text", "a"}, {"use_mclip", true}}).status, 415);
  EXPECT_EQ(python({{"image_url", "http://a/b.png"}}).status, 415);
  EXPECT_EQ(python({{"text", "a"}, {"indice_name", "laion5B"}}).status, 404);
  EXPECT_EQ(python({{"embedding_input", {1, 2}}}).status, 409);
  EXPECT_EQ(python({{"embedding_input", "x"}}).status, 422);
  EXPECT_EQ(python({{"embedding_input", Json::array()}}).status, 422);
  const HttpResponse none = python(Json::object());
  EXPECT_EQ(none.status, 400);
  EXPECT_THAT(json_of(none)["message"].get<std::string>(), HasSubstr("is needed"));
  EXPECT_EQ(post("/metadata", R"({"ids": [77], "indice_name": "my pictures"})").status, 404);
  EXPECT_EQ(post("/metadata", R"({"ids": ["a"]})").status, 422);
  EXPECT_EQ(post("/metadata", R"({"ids": [18446744073709551615]})").status, 422);
  const HttpResponse blank = python({{"text", " \t"}});
  EXPECT_EQ(blank.status, 400) << "no list of the newest images, which have no similarity";
}

// As Immich's machine-learning.repository.ts: FormData of undici, a Blob without a type.
TEST_F(Formats, ImmichsServerEncodesPicturesAndTexts) {
  const auto form = [&](const Json& entries, std::string_view field, std::string_view bytes) {
    const std::string boundary = "----formdata-undici-012345678901";
    std::string body = "--" + boundary + "\r\nContent-Disposition: form-data; name=\"entries\"\r\n\r\n" +
                       entries.dump() + "\r\n--" + boundary + "\r\nContent-Disposition: form-data; name=\"" +
                       std::string(field) + "\"";
    if (field == "image") body += "; filename=\"blob\"\r\nContent-Type: application/octet-stream";
    body += "\r\n\r\n" + std::string(bytes) + "\r\n--" + boundary + "--\r\n";
    HttpRequest request;
    request.method = "POST";
    request.path = "/predict";
    request.headers = {{"content-type", "multipart/form-data; boundary=" + boundary}};
    request.body = std::move(body);
    return ask(request);
  };
  const HttpResponse seen = form({{"clip", {{"visual", {{"modelName", "starter"}}}}}}, "image", test::png(3));
  ASSERT_EQ(seen.status, 200) << seen.body;
  const Json picture = json_of(seen);
  EXPECT_EQ(picture["imageWidth"], 20);
  EXPECT_EQ(picture["imageHeight"], 16);
  const auto row = parse_json(picture["clip"].get<std::string>());
  ASSERT_TRUE(row);
  const Json embedded = json_of(post("/v1/embeddings", Json{{"input", {data_address(3)}}}.dump()));
  EXPECT_EQ(floats(*row), floats(embedded["data"][0]["embedding"]));

  const HttpResponse read =
      form({{"clip", {{"textual", {{"modelName", "starter"}, {"options", {{"language", "en"}}}}}}}}, "text",
           "a red bell");
  ASSERT_EQ(read.status, 200) << read.body;
  EXPECT_EQ(floats(parse_json(json_of(read)["clip"].get<std::string>()).value()), row_of_text("a red bell"));
  EXPECT_EQ(header(read, "X-Saccade-Tokens"), "3");
  EXPECT_EQ(get("/ping").body, "pong");

  const auto refused = [&](const HttpResponse& response, int status, const char* words) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_THAT(json_of(response)["detail"].get<std::string>(), HasSubstr(words));
  };
  refused(form({{"clip", {{"visual", {{"modelName", "ViT-B-32__openai"}}}}}}, "image", test::png(3)), 404,
          "no model \"ViT-B-32__openai\"; there are: starter");
  refused(
      form({{"facial-recognition", {{"detection", {{"modelName", "buffalo_l"}}}}}}, "image", test::png(3)),
      415, "\"clip\" alone");
  refused(form({{"clip", {{"visual", {{"modelName", "starter"}}}}}}, "text", "a"), 400, "no \"image\"");
  refused(form({{"clip", {{"visual", {{"modelName", "starter"}}}}}}, "image", "no picture"), 415, "");
  refused(post("/predict", "{}"), 400, "expected multipart/form-data");
}

// As infinity_client 0.0.78 writes and reads them: no /v1, 0 for the model's own dimensions, and a name for
// no model at all.
TEST_F(Formats, InfinitysClientEmbedsAndAsksWhatThereIs) {
  const std::vector<float> text = row_of_text("a bell");
  const auto row_for = [&](const Json& body) { return row_of("/embeddings", body); };
  EXPECT_EQ(
      row_for(
          {{"input", "a bell"}, {"model", "default/not-specified"}, {"dimensions", 0}, {"modality", "text"}}),
      text);
  const std::vector<float> picture =
      row_for({{"input", {data_address(2)}}, {"model", "starter"}, {"dimensions", 0}, {"modality", "image"}});
  EXPECT_THAT(picture, SizeIs(text.size()));
  EXPECT_NE(picture, text);
  // Its older versions' way to ask for pictures.
  EXPECT_EQ(row_of("/embeddings_image", {{"input", {data_address(2)}}, {"model", "default/not-specified"}}),
            picture);

  const Json models = json_of(get("/models"));
  EXPECT_EQ(models["object"], "list");
  ASSERT_THAT(models["data"], SizeIs(1));
  const Json& model = models["data"][0];
  EXPECT_EQ(model["id"], "starter");
  EXPECT_EQ(model["stats"], Json::object());
  EXPECT_EQ(model["capabilities"], Json({"embed", "image_embed", "rerank"}));
  EXPECT_FALSE(model.contains("owned_by"));  // its client knows no other owner than infinity
  EXPECT_GT(json_of(get("/health"))["unix"].get<double>(), 1.6e9);
}

// As LlamaIndex, LangChain and Haystack ask Jina.
TEST_F(Formats, JinasClientsSayWhatRowsAreFor) {
  const std::vector<float> text = row_of_text("a bell");
  const auto row_for = [&](const Json& body) { return row_of("/v1/embeddings", body); };
  EXPECT_EQ(row_for({{"input", {"a bell"}}, {"model", "starter"}, {"encoding_type", "float"}}), text);
  EXPECT_EQ(row_for({{"input", {{{"text", "a bell"}}}},
                     {"task", "retrieval.query"},
                     {"late_chunking", false},
                     {"truncate", true},
                     {"normalized", true},
                     {"embedding_type", {"float"}}}),
            text);
  const std::string picture = encode_base64(test::png(2));
  EXPECT_EQ(row_for({{"input", {{{"bytes", picture}}}}}), row_for({{"input", {{{"image", picture}}}}}));
  EXPECT_EQ(row_for({{"input", {{{"url", data_address(2)}}}}}), row_for({{"input", {{{"image", picture}}}}}));

  const auto refused = [&](const Json& body, int status, const char* words) {
    const HttpResponse response = post("/v1/embeddings", body.dump());
    EXPECT_EQ(response.status, status) << response.body;
    const Json detail = json_of(response)["detail"];  // of 422 a list
    EXPECT_THAT((status == 422 ? detail[0]["msg"] : detail).get<std::string>(), HasSubstr(words));
  };
  refused({{"input", "a"}, {"late_chunking", true}}, 400, "each input has its own row");
  refused({{"input", "a"}, {"encoding_type", "ubinary"}}, 400, "\"encoding_type\": \"ubinary\"");
  refused({{"input", "a"}, {"embedding_type", {"float", "binary"}}}, 422, "\"embedding_type\"");
  refused({{"input", "a"}, {"task", 3}}, 422, "\"task\"");
  std::string long_text;
  for (int i = 0; i < 100; ++i) long_text += "bell ";
  refused({{"input", long_text}, {"truncate", false}}, 400, "\"truncate\" is false");
}

// As vLLM's examples ask for a row: a conversation of one message.
TEST_F(Formats, AConversationOfOnePartIsAnInput) {
  const auto ask_with = [&](const Json& messages) {
    return post("/v1/embeddings",
                Json{{"model", "starter"}, {"messages", messages}, {"encoding_format", "float"}}.dump());
  };
  const auto user = [](const Json& content) {
    return Json::array({{{"role", "user"}, {"content", content}}});
  };
  const Json text_part = {{"type", "text"}, {"text", "a bell"}};
  const Json picture_part = {{"type", "image_url"}, {"image_url", {{"url", data_address(2)}}}};
  const auto row_for = [&](const Json& content) {
    const HttpResponse response = ask_with(user(content));
    EXPECT_EQ(response.status, 200) << response.body;
    return floats(json_of(response)["data"][0]["embedding"]);
  };
  EXPECT_EQ(row_for("a bell"), row_of_text("a bell"));
  EXPECT_EQ(row_for(Json::array({text_part})), row_of_text("a bell"));
  EXPECT_EQ(row_for(Json::array({picture_part})),
            floats(json_of(
                post("/v1/embeddings", Json{{"input", {data_address(2)}}}.dump()))["data"][0]["embedding"]));
  EXPECT_EQ(ask_with(user(Json::array({picture_part, text_part}))).status, 400);
  EXPECT_EQ(ask_with(Json::array()).status, 400);
  EXPECT_EQ(ask_with(Json::array({1})).status, 422);
  EXPECT_EQ(ask_with(user(Json::array({"a"}))).status, 400);
  EXPECT_EQ(ask_with(user(Json::array({{{"type", "input_audio"}}}))).status, 422);
  EXPECT_EQ(post("/v1/embeddings", R"({"input": "a", "messages": []})").status, 400);
}

TEST_F(Formats, AModelIsFoundByItsName) {
  EXPECT_EQ(json_of(get("/v1/models/starter"))["id"], "starter");
  const HttpResponse none = get("/v1/models/gpt");
  EXPECT_EQ(none.status, 404);
  EXPECT_THAT(json_of(none)["error"]["message"].get<std::string>(), HasSubstr("no model \"gpt\""));
}

TEST_F(Formats, TextEmbeddingsInferencesClientsEmbedAndRank) {
  const Json rows =
      json_of(post("/embed", R"({"inputs":["a bell","a red bell"],"truncate":true,"normalize":true})"));
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(floats(rows[0]), row_of_text("a bell"));
  EXPECT_EQ(json_of(post("/embed", R"({"inputs":"a bell"})")), Json::array({rows[0]}));
  // huggingface_hub's InferenceClient(model=address), and LangChain with it.
  EXPECT_EQ(json_of(post("/", R"({"inputs":"a bell"})")), Json::array({rows[0]}));
  EXPECT_EQ(json_of(post("/", R"({"inputs":[]})"))["error_type"], "Validation");
  std::string long_text;
  for (int i = 0; i < 100; ++i) long_text += "bell ";
  const HttpResponse cut = post("/embed", Json{{"inputs", long_text}}.dump());
  EXPECT_EQ(cut.status, 413);
  EXPECT_EQ(json_of(cut)["error_type"], "Validation");
  const HttpResponse allowed = post("/embed", Json{{"inputs", long_text}, {"truncate", true}}.dump());
  EXPECT_EQ(allowed.status, 200);
  EXPECT_GT(std::stoi(header(allowed, "X-Saccade-Dropped-Tokens")), 0);

  // huggingface_hub and LangChain send these; a picture may stand in a text's place.
  const Json ranks = json_of(post("/rerank", Json{{"query", "a bell"},
                                                  {"texts", {"a red car", "a bell", data_address(1)}},
                                                  {"raw_scores", false},
                                                  {"return_text", true},
                                                  {"truncate", false}}
                                                 .dump()));
  ASSERT_THAT(ranks, SizeIs(3));
  EXPECT_EQ(ranks[0]["index"], 1);
  EXPECT_NEAR(ranks[0]["score"].get<double>(), 1, 1e-5);
  EXPECT_EQ(ranks[0]["text"], "a bell");
  EXPECT_GE(ranks[1]["score"].get<double>(), ranks[2]["score"].get<double>());
  EXPECT_FALSE(json_of(post("/rerank", R"({"query":"a","texts":["b"]})"))[0].contains("text"));

  const Json info = json_of(get("/info"));
  EXPECT_EQ(info["model_id"], "starter");
  EXPECT_EQ(info["max_input_length"], served_->models().front()->info.context);
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(post("/embed", R"({"inputs":["a"],"normalize":false})").status, 415);
  EXPECT_EQ(post("/embed", R"({"inputs":[1]})").status, 422);
  EXPECT_EQ(post("/embed", R"({})").status, 422);
  const HttpResponse of_none = post("/rerank", R"({"query":"a","texts":[]})");
  EXPECT_EQ(of_none.status, 400);
  EXPECT_THAT(of_none.body, HasSubstr("\\\"texts\\\" is empty"));
}

TEST_F(Formats, RanksAreTheMatchingHeadsWhereAServedModelHasOne) {
  const fs::path checkpoint = add_matching_model();
  const Json body = {{"query", "a red bird"}, {"texts", {data_address(1), data_address(2), data_address(3)}}};
  const HttpResponse ranked = post("/rerank", body.dump());
  ASSERT_EQ(ranked.status, 200) << ranked.body;
  EXPECT_EQ(header(ranked, "X-Saccade-Scored-By"), "pairs");
  Json raw_body = body;
  raw_body["raw_scores"] = true;
  const Json raw = json_of(post("/rerank", raw_body.dump()));
  const Json ranks = json_of(ranked);
  // As the library scores these pairs.
  LoadedEncoder loaded = load_checkpoint(checkpoint.string()).value();
  std::vector<float> expected;
  for (int i = 1; i <= 3; ++i) {
    const PixelBatch batch = read_pixels(
        1, [&](int64_t) -> Result<std::string> { return test::png(i); },
        pixel_options(loaded.encoder->preprocessing()), pool_);
    const TokenizedText text =
        loaded.encoder->tokenizer()->encode("a red bird", loaded.encoder->info().context);
    expected.push_back(loaded.encoder->pair_scorer()->score_pairs(batch.rows(), {&text, 1}).value().front());
  }
  ASSERT_THAT(ranks, SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    const float logit = expected[ranks[i]["index"].get<size_t>()];
    EXPECT_NEAR(raw[i]["score"].get<float>(), logit, 1e-4);
    EXPECT_NEAR(ranks[i]["score"].get<float>(), 1 / (1 + std::exp(-logit)), 1e-4);
    if (i > 0) {
      EXPECT_GE(raw[i - 1]["score"].get<float>(), raw[i]["score"].get<float>());
    }
  }
  // The other way round: a picture asked with, texts to rank. The same pair has the same score.
  const Json turned = json_of(post(
      "/rerank",
      Json{{"query", data_address(2)}, {"texts", {"a zebu", "a red bird"}}, {"raw_scores", true}}.dump()));
  for (const Json& rank : turned) {
    if (rank["index"] == 1) {
      EXPECT_NEAR(rank["score"].get<float>(), expected[1], 1e-4);
    }
  }
  // Two texts are no pair for it: the rows of its Q-Former's queries are compared.
  EXPECT_EQ(header(post("/rerank", R"({"query": "a", "texts": ["b"]})"), "X-Saccade-Scored-By"), "late");
  const HttpResponse broken = post(
      "/rerank", Json{{"query", "a"}, {"texts", {data_address(1), "data:image/png;base64,AAAA"}}}.dump());
  EXPECT_EQ(broken.status, 415);
  EXPECT_THAT(json_of(broken)["error"].get<std::string>(), HasSubstr("input 2"));
}

TEST(Multipart, PartsAreFoundWhateverIsInThem) {
  const auto names = [](std::string_view type, std::string_view body) {
    std::vector<std::string> found;
    const auto parts = parse_form(type, body);
    EXPECT_TRUE(parts) << parts.error().message;
    if (!parts) return found;
    for (const FormPart& part : *parts) found.push_back(part.name + "=" + std::string(part.bytes));
    return found;
  };
  const std::string_view type = "Multipart/Form-Data; charset=x; boundary=\"a b\"";
  EXPECT_THAT(names(type, "--a b\r\nContent-Disposition: form-data; name=x\r\n\r\n1\r\n--a b--"),
              ElementsAre("x=1"));
  EXPECT_THAT(
      names(
          type,
          "before\r\n--a b\r\nX: y\r\ncontent-disposition:form-data; filename=\"a;name=z\\\"\" ; name=\"q\"\r\n"
          "\r\n\r\n--a\r\n\r\n--a b\r\nContent-Disposition: form-data; name=\"\"\r\n\r\n\r\n--a b--\r\nafter"),
      ElementsAre("q=\r\n--a\r\n", "="));
  EXPECT_THAT(names(type, "--a b--"), SizeIs(0));
}

TEST(Multipart, BrokenFormsAreErrorsAtEveryLength) {
  const std::string_view type = "multipart/form-data; boundary=b";
  const std::string body = "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--b--";
  ASSERT_TRUE(parse_form(type, body));
  for (size_t length = 0; length < body.size(); ++length) {
    EXPECT_FALSE(parse_form(type, std::string_view(body).substr(0, length))) << length;
  }
  EXPECT_FALSE(parse_form("application/json", body));
  EXPECT_FALSE(parse_form("multipart/form-data", body));
  EXPECT_FALSE(parse_form("multipart/form-data; boundary=\"b", body));
  EXPECT_FALSE(parse_form(type, "--b\r\n\r\n1\r\n--b--"));
  EXPECT_FALSE(parse_form(type, "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n--b--\r\n\r\n"));
  std::string many;
  for (size_t i = 0; i <= kMostFormParts; ++i)
    many += "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n";
  const auto parts = parse_form(type, many + "--b--");
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::kLimit);
}

}  // namespace
}  // namespace saccade::serve
