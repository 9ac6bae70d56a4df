// saccade serve, as a person starts and stops it.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/test_support.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/hub/test_server.h"
#include "saccade/serve/test_client.h"

#include "run_program.h"

namespace saccade::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ServeCommand : public ProgramTest {
 protected:
  // Returns the port from the line that the server prints once it listens; 0 before that.
  [[nodiscard]] uint16_t port() const {
    const auto said = read_file(folder_ / "out", 4096);
    if (!said || said->find('\n') == std::string::npos) return 0;
    return static_cast<uint16_t>(std::stoi(said->substr(said->rfind(':') + 1)));
  }
  // Calls `ask` once the server listens, then stops the server.
  RunOptions until_asked(std::function<void(serve::test::Client&)> ask) const {
    RunOptions options;
    options.output_file = write("out", "").string();
    options.stop_signal = SIGTERM;
    options.stop_when = [this, ask = std::move(ask)](std::string_view) {
      if (port() == 0) return false;
      serve::test::Client client(port());
      ask(client);
      return true;
    };
    return options;
  }
};

TEST_F(ServeCommand, AnswersUntilItIsStopped) {
  make_collection();
  serve::test::Reply found;
  serve::test::Reply embedded;
  const RunOptions options = until_asked([&](serve::test::Client& client) {
    found = client.exchange(serve::test::request("GET", "/api/search?q=abc&k=2"));
    embedded = client.exchange(serve::test::request("POST", "/v1/embeddings", R"({"input": "abc"})"));
  });
  const Outcome outcome = run({"serve", "--listen", "127.0.0.1:0"}, options);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the only one there is"));
  EXPECT_EQ(found.status, 200) << found.body;
  EXPECT_THAT(found.body, HasSubstr("\"hits\":[{\"rank\":1,"));
  EXPECT_EQ(embedded.status, 200) << embedded.body;
  EXPECT_THAT(outcome.err, HasSubstr("GET /api/search 200"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("abc")));  // nobody's words are logged
}

// Returns the fields of `all` that `some` has too, lists item by item: what both programs say.
Json shared_fields(const Json& some, const Json& all) {
  if (some.is_object() && all.is_object()) {
    Json shared = Json::object();
    for (const auto& [key, value] : some.items()) {
      if (all.contains(key)) shared[key] = shared_fields(value, all[key]);
    }
    return shared;
  }
  if (some.is_array() && all.is_array() && some.size() == all.size()) {
    Json shared = Json::array();
    for (size_t i = 0; i < some.size(); ++i) shared.push_back(shared_fields(some[i], all[i]));
    return shared;
  }
  return all;
}

TEST_F(ServeCommand, AnswersAsTheCommandLineDoes) {
  make_collection();
  struct Asked {
    std::vector<std::string> arguments;
    std::string target;
  };
  const std::vector<Asked> all = {
      {{"abc", "-k", "2"}, "/api/search?q=abc&k=2"},
      {{"abc -b"}, "/api/search?q=abc+-b"},
      {{"a:2 \"b c\""}, "/api/search?q=a:2+%22b+c%22"},
      {{"abc", "--keyword-weight", "0", "--no-group-duplicates"},
       "/api/search?q=abc&keyword_weight=0&group_duplicates=false"},
      {{"abc", "--filter", "id>1", "--order", "date"}, "/api/search?q=abc&filter=id%3E1&order=date"},
      {{std::string(300, 'a'), "--chunk-long-text"},
       "/api/search?chunk_long_text=true&q=" + std::string(300, 'a')},
      {{"abc", "-k", "1", "--offset", "2", "--group-above", "1"},
       "/api/search?q=abc&k=1&offset=2&group_above=1"},
      {{"abc", "--like", "2"}, "/api/search?q=abc&like=2"},
      {{"abc", "--rerank", "model", "--rerank-depth", "2", "--rerank-by", "cosine"},
       "/api/search?q=abc&rerank=model&rerank_depth=2&rerank_by=cosine"},
  };
  std::vector<serve::test::Reply> replies;
  const RunOptions options = until_asked([&](serve::test::Client& client) {
    for (const Asked& asked : all)
      replies.push_back(client.exchange(serve::test::request("GET", asked.target)));
  });
  const Outcome served = run({"serve", "-c", "c", "--listen", "127.0.0.1:0"}, options);
  EXPECT_EQ(served.code, 0) << served.err;
  ASSERT_EQ(replies.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(replies[i].status, 200) << replies[i].body;
    std::vector<std::string> arguments = {"search", "-c", "c", "--json"};
    arguments.insert(arguments.end(), all[i].arguments.begin(), all[i].arguments.end());
    const Outcome printed = run(arguments);
    ASSERT_EQ(printed.code, 0) << printed.err;
    const Json expected = parse_json(printed.out).value();
    ASSERT_FALSE(expected["hits"].empty()) << printed.out;
    EXPECT_EQ(shared_fields(expected, parse_json(replies[i].body).value()), expected) << all[i].target;
  }
}

TEST_F(ServeCommand, TheKeyFileIsReadAgainWhenItChanges) {
  make_collection();
  const std::filesystem::path keys = write("keys", "read first-0123456789\n");
  const auto only_mine = [&] {
    std::filesystem::permissions(keys,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  };
  only_mine();
  std::vector<int> before;
  bool changed = false;
  const RunOptions options = until_asked([&](serve::test::Client& client) {
    const auto status = [&](const std::string& key) {
      return client.exchange(serve::test::request("GET", "/api/models", "", "X-API-Key: " + key + "\r\n"))
          .status;
    };
    before = {status("first-0123456789"), status("second-0123456789")};
    write("keys", "read second-0123456789 c\nread third-0123456789 elsewhere\n");
    only_mine();
    for (int i = 0; i < 200 && !changed; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      changed = status("second-0123456789") == 200 && status("first-0123456789") == 401;
    }
  });
  const Outcome outcome = run({"serve", "-c", "c", "--listen", "127.0.0.1:0", "--key-file", "keys"}, options);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(before, ::testing::ElementsAre(200, 401));
  EXPECT_TRUE(changed) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the key file was read again"));
}

TEST_F(ServeCommand, FetchesPicturesFromTheHostsItIsToldOfAlone) {
  make_collection();
  const TestServer pictures([](const ServerRequest&) { return ServerReply{.body = png(1)}; });
  const std::string host = pictures.endpoint().substr(std::string("http://").size());
  std::vector<serve::test::Reply> replies;
  const RunOptions options = until_asked([&](serve::test::Client& client) {
    for (const std::string& address :
         {pictures.endpoint() + "/a.png", std::string("http://127.0.0.1:1/a.png")}) {
      const std::string body = R"({"input": [{"image": ")" + address + R"("}]})";
      replies.push_back(client.exchange(serve::test::request("POST", "/v1/embeddings", body)));
    }
  });
  const Outcome outcome =
      run({"serve", "-c", "c", "--listen", "127.0.0.1:0", "--fetch-from", host + "=127.0.0.1"}, options);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(replies.size(), 2U);
  EXPECT_EQ(replies[0].status, 200) << replies[0].body;
  EXPECT_EQ(replies[1].status, 415) << replies[1].body;
  EXPECT_EQ(pictures.requests().size(), 1U);
}

TEST_F(ServeCommand, ACheckpointThatHasMovedIsFoundByM) {
  make_collection();
  const std::filesystem::path model = folder_.path() / "model";
  std::filesystem::rename(model, folder_.path() / "moved");
  const std::vector<std::string> serve = {"serve", "-c", "c", "--listen", "127.0.0.1:0"};
  const std::string said =
      "c: the collection's checkpoint model is no longer in " + model.string() + ": name its folder with -m";
  expect_failure(serve, 1, {said});
  std::vector<std::string> another = serve;
  another.insert(another.end(), {"-m", golden("siglip").string()});
  expect_failure(another, 1, {said, "none of those named is it"});
  std::vector<std::string> moved = serve;
  moved.insert(moved.end(), {"-m", golden("siglip").string(), "-m", "moved"});
  serve::test::Reply found;
  const Outcome outcome = run(moved, until_asked([&](serve::test::Client& client) {
                                found = client.exchange(serve::test::request("GET", "/api/search?q=abc&k=2"));
                              }));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(found.status, 200) << found.body;
}

// A descriptor for each connection would leave none for the files that answers are made of.
TEST_F(ServeCommand, WithFewDescriptorsFilesAreOpenedAndConnectionsRefused) {
  make_collection();
  int answered = 0;
  int refused = 0;
  int other = 0;
  RunOptions options = until_asked([&](serve::test::Client& first) {
    EXPECT_EQ(first.exchange(serve::test::request("GET", "/api/search?q=abc&k=2")).status, 200);
    std::vector<std::unique_ptr<serve::test::Client>> clients;
    for (int i = 0; i < 100; ++i) {
      clients.push_back(std::make_unique<serve::test::Client>(port()));
      const std::string target = i % 2 == 0 ? "/api/collections/c/images/1/file" : "/api/search?q=b&k=1";
      clients.back()->send(serve::test::request("GET", target));
    }
    for (const auto& client : clients) {
      const int status = client->read().status;
      if (status == 200)
        ++answered;
      else if (status == 503 || status == 0)
        ++refused;  // 0: closed, past those that are told so
      else
        ++other;
    }
    clients.clear();
    int status = 0;
    for (int i = 0; i < 100 && status != 200; ++i) {
      serve::test::Client again(port());
      status = again.exchange(serve::test::request("GET", "/api/collections/c/images/1/file")).status;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(status, 200) << "it recovers";
  });
  options.program = "/bin/sh";
  const Outcome outcome = run({"-c", "ulimit -n 64 && exec \"$0\" \"$@\"", SACCADE_PROGRAM, "serve", "-c",
                               "c", "--listen", "127.0.0.1:0"},
                              options);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("64 files may be open (ulimit -n)"));
  EXPECT_GT(answered, 0);
  EXPECT_EQ(answered + refused, 100);
  EXPECT_EQ(other, 0);
}

TEST_F(ServeCommand, WhatItRefusesToStartWith) {
  expect_failure({"serve", "--listen", "127.0.0.1:0"}, 2, {"no collection yet", "-c"});
  make_collection();
  expect_failure({"serve", "-c", "none", "--listen", "127.0.0.1:0"}, 1, {"none", "no collection there"});
  expect_failure({"serve", "-c", "c", "--listen", "7700"}, 2, {"--listen 7700", "127.0.0.1:7700"});
  expect_failure({"serve", "-c", "c", "--listen", "127.0.0.1:70000"}, 2, {"--listen"});
  expect_failure({"serve", "-c", "c", "--listen", "0.0.0.0:0"}, 2, {"--key-file", "--no-key"});
  expect_failure({"serve", "-c", "c", "--listen", "0.0.0.0:0", "--no-key", "--allow-write", "."}, 2,
                 {"--no-key with --allow-write"});
  expect_failure({"serve", "-c", "c", "--listen", "127.0.0.1:0", "--index-folder", "none"}, 1,
                 {"--index-folder none: no folder"});
  expect_failure({"serve", "-c", "c", "--listen", "127.0.0.1:0", "--allow-write", "none"}, 1,
                 {"--allow-write none: no folder"});
  expect_failure({"serve", "-c", "c", "--listen", "127.0.0.1:0", "--fetch-from", "https://a.example"}, 2,
                 {"--fetch-from", "\"https://a.example\" names no host"});
  expect_failure({"serve", "-c", "c", "--tls-certificate", "x"}, 2, {"--tls-key"});
  expect_failure({"serve", "-c", "c", "--listen", "127.0.0.1:0", "--tls-certificate", "x", "--tls-key", "y"},
                 1, {"x: No such file"});
  write("keys", "0123456789abcdef\n");
  std::filesystem::permissions(folder_ / "keys", std::filesystem::perms(0644));
  expect_failure({"serve", "-c", "c", "--key-file", "keys"}, 2, {"keys", "chmod 600"});
}

}  // namespace
}  // namespace saccade::test
