// Weaviate's module multi2vec-clip: requests as modules/multi2vec-clip/clients of Weaviate 1.35.2 writes them, and
// answers as it reads them.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class WeaviatesModule : public ServingTest {
 protected:
  // As vectorizer.Vectorize sends a body of json.Marshal.
  [[nodiscard]] HttpResponse vectorize(const std::string& body) const {
    HttpRequest request;
    request.method = "POST";
    request.path = "/vectorize";
    request.headers = {{"user-agent", "Go-http-client/1.1"},
                       {"content-type", "application/json"},
                       {"accept-encoding", "gzip"}};
    request.body = body;
    return ask(request);
  }
  // As vecResponse: both lists are read, and on a status above 399 the sentence in "error".
  [[nodiscard]] Json vectors(const std::string& body) const {
    const HttpResponse response = vectorize(body);
    EXPECT_EQ(response.status, 200) << body << response.body;
    return json_of(response);
  }
  void refused(const std::string& body, int status, const char* words) const {
    const HttpResponse response = vectorize(body);
    EXPECT_EQ(response.status, status) << body << response.body;
    const Json json = json_of(response);
    ASSERT_TRUE(json.contains("error") && json["error"].is_string()) << response.body;
    EXPECT_THAT(json["error"].get<std::string>(), HasSubstr(words));
  }
  [[nodiscard]] Json embedding_of(const Json& input) const {
    return json_of(post("/v1/embeddings", Json{{"input", input}}.dump()))["data"][0]["embedding"];
  }
  static std::string image(int seed) { return encode_base64(saccade::test::png(seed)); }
};

TEST_F(WeaviatesModule, GetsTheVectorsOfTextsAndOfImages) {
  const Json query = vectors(R"({"texts":["a red bell"]})");
  EXPECT_THAT(query["imageVectors"], IsEmpty());
  ASSERT_THAT(query["textVectors"], SizeIs(1));
  EXPECT_EQ(query["textVectors"][0], embedding_of("a red bell"));

  const Json image_query = vectors(R"({"images":[")" + image(3) + R"("]})");
  EXPECT_THAT(image_query["textVectors"], IsEmpty());
  ASSERT_THAT(image_query["imageVectors"], SizeIs(1));
  EXPECT_EQ(image_query["imageVectors"][0], embedding_of(data_address(3)));

  // An object with two fields of each kind; Go escapes <, > and &.
  const Json object = vectors(R"({"texts":["a bell \u003e \u0026","red stripes"],"images":[")" + image(1) +
                              R"(",")" + image(2) + R"("]})");
  ASSERT_THAT(object["textVectors"], SizeIs(2));
  ASSERT_THAT(object["imageVectors"], SizeIs(2));
  EXPECT_EQ(object["textVectors"][0], embedding_of("a bell > &"));
  EXPECT_EQ(object["textVectors"][1], embedding_of("red stripes"));
  EXPECT_EQ(object["imageVectors"][0], embedding_of(data_address(1)));
  EXPECT_EQ(object["imageVectors"][1], embedding_of(data_address(2)));
}

// Weaviate sends every property that the class names, an empty one too.
TEST_F(WeaviatesModule, AnEmptyPropertyHasAVector) {
  const Json found = vectors(R"({"texts":["","a bell"]})");
  ASSERT_THAT(found["textVectors"], SizeIs(2));
  EXPECT_EQ(found["textVectors"][0], embedding_of(" "));
  EXPECT_EQ(found["textVectors"][1], embedding_of("a bell"));
}

TEST_F(WeaviatesModule, WaitsForTheServerAndShowsItsModel) {
  EXPECT_EQ(get("/.well-known/ready").status, 204);
  EXPECT_EQ(get("/.well-known/live").status, 204);
  EXPECT_EQ(get("/.well-known/ready").body, "");
  const HttpResponse meta = get("/meta");
  EXPECT_EQ(meta.status, 200);
  const EncoderInfo& encoder = served_->models().front()->info;
  EXPECT_EQ(json_of(meta)["model"]["projection_dim"], encoder.dim);
  EXPECT_EQ(json_of(meta)["model"]["fingerprint"], encoder.fingerprint);
}

TEST_F(WeaviatesModule, ErrorsAreTheSentenceThatItReads) {
  refused("{}", 400, "no input");
  refused(R"({"texts":null,"images":null})", 400, "no input");
  refused(R"({"texts":"a"})", 422, "\"texts\"");
  refused(R"({"texts":["a",1]})", 422, "\"texts\" 1: ");
  refused(R"({"images":["not base64"]})", 422, "\"images\" 0: ");
  refused(R"({"images":[")" + image(1) + R"(",")" + encode_base64("no image") + R"("]})", 415,
          "\"images\": input 1");
  refused(R"({"image":["a"]})", 400, "\"image\" is not known here");
  refused("[]", 422, "body");
  refused(R"({"texts":["a)", 422, "body");
  ServiceOptions options;
  options.most_inputs = 2;
  make(options);
  refused(R"({"texts":["a","b"],"images":[")" + image(1) + R"("]})", 400, "3 texts and images, at most 2");
  // A body beyond --max-body is refused before the handler sees it.
  HttpRequest request;
  request.method = "POST";
  request.path = "/vectorize";
  EXPECT_EQ(json_of(service_->refuse(request, 413, "too long"))["error"], "too long");
}

// CLIP_INFERENCE_API=http://saccade:KEY@host:port: Go's client sends Basic authorization.
TEST_F(WeaviatesModule, HasAKeyInItsAddress) {
  const fs::path path = temporary_.path() / "keys";
  ASSERT_TRUE(write_file_atomic(path, "0123456789abcdef\n"));
  fs::permissions(path, fs::perms::owner_read);
  keys_ = Keys::read(path).value();
  refused(R"({"texts":["a bell"]})", 401, "a key is needed");
  EXPECT_EQ(get("/meta").status, 401);
  EXPECT_EQ(get("/.well-known/ready").status, 204);
  HttpRequest request;
  request.method = "POST";
  request.path = "/vectorize";
  request.body = R"({"texts":["a bell"]})";
  request.headers = {{"authorization", "Basic " + encode_base64("saccade:0123456789abcdef")}};
  const HttpResponse response = ask(request);
  EXPECT_EQ(response.status, 200) << response.body;
}

}  // namespace
}  // namespace saccade::serve
