// Tests of names, settings, file selection, hashes, URLs and the cache's layout, without the network.
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"
#include "saccade/hub/cache.h"
#include "saccade/hub/client.h"
#include "saccade/hub/content_hash.h"
#include "saccade/hub/http_client.h"
#include "saccade/hub/name.h"
#include "saccade/hub/select.h"
#include "saccade/hub/settings.h"
#include "saccade/hub/test_server.h"

namespace saccade::hub {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

class Folder : public testing::Test {
 protected:
  void write(const std::string& name, std::string_view content) const { folder_.write(name, content); }
  test::TestFolder folder_;
};

TEST(Name, TakesWhatHubsHave) {
  const auto plain = parse_model_name("openai/clip-vit-base-patch32");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->repository(), "openai/clip-vit-base-patch32");
  EXPECT_EQ(plain->revision_or_default(), "main");
  const auto full = parse_model_name("laion/CLIP-ViT-B-32_s34B.b79K@refs/pr/1");
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->name, "CLIP-ViT-B-32_s34B.b79K");
  EXPECT_EQ(full->revision, "refs/pr/1");
  EXPECT_EQ(full->text(), "laion/CLIP-ViT-B-32_s34B.b79K@refs/pr/1");
  EXPECT_TRUE(parse_model_name("a/b@" + kCommit).has_value());
}

TEST(Name, RefusesWhatWouldLeaveItsFolder) {
  for (const char* text :
       {"",       "/",        "clip",       "a/b/c",    "a/",     "/b",      "../b",     "a/..",   "a/.b",
        "a/b.",   "-a/b",     "a--b/c",     "a/b..c",   "a b/c",  "a/b\n",   "./models", "a/b@",   "a/b@/x",
        "a/b@x/", "a/b@../x", "a/b@x/../y", "a/b@x//y", "a/b@-x", "a/b@x y", "a/b@x/.y", "a/b@c@d"}) {
    const auto name = parse_model_name(text);
    ASSERT_FALSE(name.has_value()) << text;
    EXPECT_EQ(name.error().code, ErrorCode::kUsage);
    EXPECT_THAT(name.error().message, HasSubstr("\""));
  }
  EXPECT_FALSE(parse_model_name("a/" + std::string(97, 'b')).has_value());
  EXPECT_TRUE(is_commit(kCommit));
  EXPECT_FALSE(is_commit(kCommit.substr(1)));
  EXPECT_FALSE(is_commit("0123456789ABCDEF0123456789abcdef01234567"));
}

class SettingsFrom : public Folder {
 protected:
  Result<Settings> settings(const std::map<std::string, std::string>& variables) {
    return settings_from([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  }
};

TEST_F(SettingsFrom, TheCacheIsWhereOtherToolsHaveIt) {
  EXPECT_EQ(settings({{"HOME", "/h"}})->cache, "/h/.cache/huggingface/hub");
  EXPECT_EQ(settings({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}})->cache, "/x/huggingface/hub");
  EXPECT_EQ(settings({{"HOME", "/h"}, {"HF_HOME", "~/hf"}})->cache, "/h/hf/hub");
  EXPECT_EQ(settings({{"HF_HOME", "/hf"}, {"HUGGINGFACE_HUB_CACHE", "/old"}})->cache, "/old");
  EXPECT_EQ(settings({{"HUGGINGFACE_HUB_CACHE", "/old"}, {"HF_HUB_CACHE", "/new"}})->cache, "/new");
  const auto nowhere = settings({});
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_THAT(nowhere.error().message, HasSubstr("HF_HOME"));
}

TEST_F(SettingsFrom, TheTokenComesFromTheEnvironmentOrItsFile) {
  write("hf/token", " from_file\n");
  write("mine", "from_mine");
  write("bad", "two words");
  const std::string home = (folder_ / "hf").string();
  EXPECT_EQ(settings({{"HF_HOME", home}})->token, "from_file");
  EXPECT_EQ(settings({{"HF_HOME", home}, {"HF_TOKEN", "given\n"}})->token, "given");
  EXPECT_EQ(settings({{"HF_HOME", home}, {"HUGGING_FACE_HUB_TOKEN", "older"}})->token, "older");
  EXPECT_EQ(settings({{"HF_HOME", home}, {"HF_TOKEN_PATH", (folder_ / "mine").string()}})->token,
            "from_mine");
  EXPECT_EQ(settings({{"HF_HOME", home}, {"HF_TOKEN", "x"}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}})->token,
            "");
  EXPECT_EQ(settings({{"HF_HOME", (folder_ / "none").string()}})->token, "");
  const auto bad = settings({{"HF_HOME", home}, {"HF_TOKEN_PATH", (folder_ / "bad").string()}});
  ASSERT_FALSE(bad.has_value());
  EXPECT_THAT(bad.error().message,
              testing::AllOf(HasSubstr("bad: not a token"), Not(HasSubstr("two words"))));
  // The value would inject a header.
  EXPECT_FALSE(settings({{"HF_HOME", home}, {"HF_TOKEN", "a\r\nX: b"}}).has_value());
}

TEST_F(SettingsFrom, EndpointAndOffline) {
  EXPECT_EQ(settings({{"HOME", "/h"}, {"HF_ENDPOINT", "http://127.0.0.1:80/hub//"}})->endpoint,
            "http://127.0.0.1:80/hub");
  for (const char* endpoint : {"hub.example", "ftp://hub.example", "https://", "https:///x", "https://a b",
                               "https://a?b", "https://user:password@a"}) {
    const auto refused = settings({{"HOME", "/h"}, {"HF_ENDPOINT", endpoint}});
    ASSERT_FALSE(refused.has_value()) << endpoint;
    EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  }
  for (const char* yes : {"1", "on", "YES", "True"})
    EXPECT_TRUE(settings({{"HOME", "/h"}, {"HF_HUB_OFFLINE", yes}})->offline);
  EXPECT_TRUE(settings({{"HOME", "/h"}, {"TRANSFORMERS_OFFLINE", "1"}})->offline);
  EXPECT_FALSE(settings({{"HOME", "/h"}, {"HF_HUB_OFFLINE", "0"}})->offline);
}

TEST_F(SettingsFrom, CertificatesAreThoseOfTheFirstVariableThatIsSet) {
  EXPECT_EQ(settings({{"HOME", "/h"}})->certificates, "");
  EXPECT_EQ(settings({{"HOME", "/h"}, {"CURL_CA_BUNDLE", "/c"}})->certificates, "/c");
  EXPECT_EQ(settings({{"HOME", "/h"}, {"CURL_CA_BUNDLE", "/c"}, {"REQUESTS_CA_BUNDLE", "/r"}})->certificates,
            "/r");
  EXPECT_EQ(settings({{"HOME", "/h"}, {"REQUESTS_CA_BUNDLE", "/r"}, {"SSL_CERT_FILE", "/s"}})->certificates,
            "/s");
  EXPECT_EQ(settings({{"HOME", "/h"}, {"CURL_CA_BUNDLE", "/c"}, {"SSL_CERT_FILE", ""}})->certificates, "/c");
}

std::string hash_of(HashKind kind, std::string_view text) {
  ContentHash hash(kind, static_cast<int64_t>(text.size()));
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

// Results of `git hash-object` and `sha256sum`.
TEST(ContentHash, IsGitsAndSha256) {
  EXPECT_EQ(hash_of(HashKind::kGit, ""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(hash_of(HashKind::kGit, "hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(hash_of(HashKind::kSha256, "hello\n"),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
  EXPECT_EQ(hash_kind(hash_of(HashKind::kGit, "")).value(), HashKind::kGit);
  EXPECT_EQ(hash_kind(hash_of(HashKind::kSha256, "")).value(), HashKind::kSha256);
  for (const char* text : {"", "5f-abc", "../../../../../../../../../../etc/passwd00",
                           "E69DE29BB2D1D6434B8B29AE775AD8C2E48C5391"})
    EXPECT_FALSE(hash_kind(text).has_value()) << text;
}

TEST(Select, TakesWhatACheckpointNeedsAndNothingElse) {
  const std::vector<std::string> names = {".gitattributes",
                                          "README.md",
                                          "config.json",
                                          "flax_model.msgpack",
                                          "tf_model.h5",
                                          "pytorch_model.bin",
                                          "model.safetensors",
                                          "onnx/model.onnx",
                                          "preprocessor_config.json",
                                          "tokenizer.json",
                                          "vocab.json",
                                          "merges.txt",
                                          "optimizer.pt",
                                          "text_encoder/model.safetensors",
                                          "io.safetensors"};
  const auto selection = select_files(names);
  ASSERT_TRUE(selection.has_value());
  EXPECT_THAT(selection->files,
              ElementsAre("config.json", "io.safetensors", "merges.txt", "model.safetensors",
                          "preprocessor_config.json", "tokenizer.json", "vocab.json"));
  EXPECT_EQ(selection->weights, "model.safetensors");
  EXPECT_EQ(selection->weights_index, "");
}

TEST(Select, PrefersWeightsAsTheLoaderDoes) {
  const auto weights = [](std::vector<std::string> names) {
    const auto selection = select_files(names);
    return selection ? selection->weights : selection.error().message;
  };
  const std::string open_config = "open_clip_config.json";
  EXPECT_EQ(weights({open_config, "config.json", "model.safetensors", "open_clip_model.safetensors"}),
            "open_clip_model.safetensors");
  EXPECT_EQ(weights({"config.json", "model.safetensors", "open_clip_model.safetensors"}),
            "model.safetensors");
  EXPECT_EQ(weights({open_config, "open_clip_pytorch_model.bin", "model.safetensors.index.json"}),
            "model.safetensors.index.json");
  EXPECT_EQ(weights({"config.json", "pytorch_model.bin", "model-00001-of-00002.safetensors"}),
            "pytorch_model.bin");
  EXPECT_EQ(weights({"config.json", "pytorch_model.bin.index.json"}), "pytorch_model.bin.index.json");
  EXPECT_EQ(weights({"adapter_config.json", "adapter_model.safetensors"}), "adapter_model.safetensors");
  EXPECT_EQ(weights({"README.md", "longclip-B.pt", "train/state.pt"}), "longclip-B.pt");
  EXPECT_THAT(weights({"a.pt", "b.pth"}), HasSubstr("no weights"));
  EXPECT_THAT(weights({"config.json", "model.onnx"}), HasSubstr("no weights among its 2 files"));
}

TEST_F(Folder, MissingShardsAndDanglingLinksAreSeen) {
  write("config.json", "{}");
  EXPECT_FALSE(missing_files(folder_.path()).has_value());
  write("model.safetensors.index.json",
        R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  write("one.safetensors", "x");
  EXPECT_THAT(missing_files(folder_.path()).value(), ElementsAre("two.safetensors"));
  fs::create_symlink("nowhere", folder_ / "two.safetensors");
  EXPECT_THAT(missing_files(folder_.path()).value(), ElementsAre("two.safetensors"));
  fs::create_symlink("nowhere", folder_ / "model.safetensors");
  EXPECT_THAT(missing_files(folder_.path()).value(), ElementsAre("two.safetensors"));
  EXPECT_FALSE(missing_files(folder_ / "none").has_value());
}

TEST(Address, OriginsAndReferences) {
  EXPECT_EQ(origin_of("https://Hub.example/a").value(), "https://hub.example:443");
  EXPECT_EQ(origin_of("http://hub.example:80").value(), origin_of("http://hub.example/x?y").value());
  EXPECT_NE(origin_of("http://hub.example").value(), origin_of("https://hub.example").value());
  EXPECT_NE(origin_of("http://hub.example:1").value(), origin_of("http://hub.example:2").value());
  EXPECT_FALSE(origin_of("http://").has_value());
  EXPECT_EQ(resolve_url("https://a.example/b/c?d", "/e").value(), "https://a.example/e");
  EXPECT_EQ(resolve_url("https://a.example/b/c", "https://f.example/g?h=1").value(),
            "https://f.example/g?h=1");
}

TEST(Address, PartsAreThoseThatAreAskedFor) {
  const UrlParts parts = url_parts("HTTPS://Hub.Example/a%20b?c=d#e").value();
  EXPECT_EQ(parts.scheme, "https");
  EXPECT_EQ(parts.host, "hub.example");
  EXPECT_EQ(parts.port, 443);
  EXPECT_THAT(parts.url, EndsWith("/a%20b?c=d"));
  EXPECT_FALSE(parts.has_user || parts.has_zone);
  EXPECT_EQ(url_parts("http://[::1]:81/").value().host, "::1");
  EXPECT_EQ(url_parts("http://[::1]:81/").value().port, 81);
  EXPECT_TRUE(url_parts("http://[fe80::1%25eth0]/").value().has_zone);
  EXPECT_TRUE(url_parts("http://user@hub.example/").value().has_user);
  EXPECT_TRUE(url_parts("http://:secret@hub.example/").value().has_user);
  // Equal IP addresses in different notations are equal.
  for (const char* host : {"127.1", "2130706433", "0x7f.0.0.1", "0177.1", "127.0.0.1"})
    EXPECT_EQ(url_parts(std::string("http://") + host + "/").value().host, "127.0.0.1") << host;
  for (const char* text :
       {"", "/a", "hub.example", "http://", "http://a b/", "http://a\nb/", "http://a:99999/"})
    EXPECT_FALSE(url_parts(text)) << text;
}

TEST(Http, ConnectsToTheAddressesItIsGivenAlone) {
  const saccade::test::TestServer server(
      [](const saccade::test::ServerRequest&) { return saccade::test::ServerReply{.body = "here"}; });
  const std::string port = server.endpoint().substr(server.endpoint().rfind(':'));
  auto session = HttpSession::open({}).value();
  HttpRequest request;
  request.url = "http://nobody.invalid" + port + "/";
  request.addresses = {"127.0.0.1"};
  const auto reply = session.send(request, nullptr, {});
  ASSERT_TRUE(reply) << reply.error().error.message;
  EXPECT_EQ(reply->body, "here");
  // Neither an IP address in the URL nor an open connection leads elsewhere.
  request.addresses = {"127.0.0.2"};
  EXPECT_FALSE(session.send(request, nullptr, {}));
  request.url = server.endpoint();
  EXPECT_FALSE(session.send(request, nullptr, {}));
  request.addresses = {};
  EXPECT_TRUE(session.send(request, nullptr, {}));
  EXPECT_EQ(server.requests().size(), 2);
}

TEST(Wait, ComesFromEitherHeader) {
  HttpReply reply;
  EXPECT_FALSE(asked_wait(reply).has_value());
  reply.headers["ratelimit"] = "\"api\";r=0;t=55";
  EXPECT_EQ(asked_wait(reply)->count(), 55'000);
  reply.headers["retry-after"] = "7";
  EXPECT_EQ(asked_wait(reply)->count(), 7'000);
  reply.headers["retry-after"] = "Wed, 21 Oct 2015 07:28:00 GMT";
  EXPECT_EQ(asked_wait(reply)->count(), 0);
  reply.headers["retry-after"] = "99999999999999999999";
  EXPECT_EQ(asked_wait(reply)->count(), 55'000);
  reply.headers["ratelimit"] = "t=";
  EXPECT_FALSE(asked_wait(reply).has_value());
}

TEST_F(Folder, ASnapshotIsFoundByRefAndByCommit) {
  const ModelName name = parse_model_name("owner/name").value();
  const ModelFolder model(folder_.path(), name);
  const std::string hash = hash_of(HashKind::kGit, "{}");
  ASSERT_TRUE(model.create().has_value());
  write("models--owner--name/blobs/" + hash, "{}");
  ASSERT_TRUE(model.link(kCommit, "config.json", hash).has_value());
  EXPECT_EQ(fs::read_symlink(folder_ / "models--owner--name/snapshots" / kCommit / "config.json"),
            "../../blobs/" + hash);
  EXPECT_EQ(read_file(model.snapshot(kCommit) / "config.json").value(), "{}");
  // An existing file is replaced; a correct link is kept.
  ASSERT_TRUE(write_file_atomic(model.snapshot(kCommit) / "vocab.json", "old").has_value());
  ASSERT_TRUE(model.link(kCommit, "vocab.json", hash).has_value());
  ASSERT_TRUE(model.link(kCommit, "vocab.json", hash).has_value());
  EXPECT_EQ(read_file(model.snapshot(kCommit) / "vocab.json").value(), "{}");

  // Without a ref it is found only by commit, as the error says.
  const auto none = find_cached(folder_.path(), name);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("which has owner/name@" + kCommit));
  EXPECT_EQ(find_cached(folder_.path(), parse_model_name("owner/name@" + kCommit).value())->path,
            model.snapshot(kCommit));
  ASSERT_TRUE(model.write_ref("main", kCommit).has_value());
  ASSERT_TRUE(model.write_ref("refs/pr/1", kCommit).has_value());
  EXPECT_EQ(read_file(folder_ / "models--owner--name/refs/main").value(), kCommit);
  EXPECT_EQ(find_cached(folder_.path(), name)->commit, kCommit);
  EXPECT_EQ(find_cached(folder_.path(), parse_model_name("owner/name@refs/pr/1").value())->commit, kCommit);
  EXPECT_FALSE(find_cached(folder_.path(), parse_model_name("owner/other").value()).has_value());
  EXPECT_FALSE(find_cached(folder_.path(), parse_model_name("owner/name@v1").value()).has_value());

  const auto all = list_cached(folder_.path());
  ASSERT_TRUE(all.has_value());
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->front().text(), "owner/name");
  EXPECT_THAT(all->front().revisions, ElementsAre("main", "refs/pr/1"));
  EXPECT_EQ(model_of_snapshot(all->front().path)->repository(), "owner/name");
}

TEST_F(Folder, WhatIsNoModelIsNotListed) {
  write("models--a--b/refs/main", "not a commit");
  write("models--a--b/snapshots/short/config.json", "{}");
  write("models--gpt2/snapshots/" + kCommit + "/config.json", "{}");
  write("datasets--a--b/snapshots/" + kCommit + "/x", "{}");
  write("version.txt", "1");
  EXPECT_EQ(list_cached(folder_.path())->size(), 0U);
  EXPECT_EQ(list_cached(folder_ / "none")->size(), 0U);
  EXPECT_FALSE(list_cached(folder_ / "version.txt").has_value());
  EXPECT_FALSE(model_of_snapshot(folder_.path()).has_value());
}

}  // namespace
}  // namespace saccade::hub
