// Test fixture of a running server: a collection of six images made with the starter, and a client.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "saccade/collection/test_support.h"
#include "saccade/core/base64.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/serve/service.h"

namespace saccade::serve {

// A collection of six pictures made with the starter, served.
class ServingTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 6; ++i) add(i);
    ServedOptions options;
    options.collections = {folder_};
    options.follow_seconds = 0.05;
    auto served = Served::open(options);
    ASSERT_TRUE(served) << served.error().message;
    served_ = *std::move(served);
    make({});
  }
  void make(const ServiceOptions& options) {
    service_ = std::make_unique<Service>(options, *served_, keys_, pool_, metrics_);
  }
  void add(int seed) {
    saccade::test::write_text(pictures_ / ("p" + std::to_string(seed) + ".png"), saccade::test::png(seed));
    const auto checkpoint =
        (std::filesystem::path(saccade::test::kSourceDir) / "models" / "starter").string();
    auto loaded = load_checkpoint(checkpoint);
    ASSERT_TRUE(loaded) << loaded.error().message;
    auto writer = CollectionWriter::open_or_create(folder_, loaded->id);
    ASSERT_TRUE(writer) << writer.error().message;
    const std::vector<std::filesystem::path> inputs = {pictures_};
    const auto report = ingest(*writer, *loaded->encoder, inputs, {}, pool_);
    ASSERT_TRUE(report) << report.error().message;
  }
  // Serves a checkpoint with a matching head too: BLIP-2's golden, whose weights are random, and a tokenizer
  // that knows letters.
  std::filesystem::path add_matching_model() {
    std::filesystem::path folder = temporary_.path() / "blip2";
    std::filesystem::copy(std::filesystem::path(saccade::test::kSourceDir) / "tests/golden/blip2-itm",
                          folder);
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";
    for (char letter = 'a'; letter <= 'z'; ++letter) words += fmt::format("{0}\n##{0}\n", letter);
    for (int unused = 56; unused < 200; ++unused) words += fmt::format("[unused{}]\n", unused);
    saccade::test::write_text(folder / "vocab.txt", words);
    saccade::test::write_text(folder / "tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
    ServedOptions options;
    options.collections = {folder_};
    options.checkpoints = {folder.string()};
    served_ = Served::open(options).value();
    make({});
    return folder;
  }
  HttpResponse ask(HttpRequest request) const {
    request.headers.emplace_back("host", "localhost:7700");
    return service_->handle(request);
  }
  HttpResponse get(const std::string& target) const {
    HttpRequest request;
    request.method = "GET";
    const size_t question = std::min(target.find('?'), target.size());
    request.path = target.substr(0, question);
    request.query = parse_query(std::string_view(target).substr(std::min(question + 1, target.size())));
    return ask(request);
  }
  HttpResponse post(const std::string& path, const std::string& body) const {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    return ask(request);
  }
  static Json json_of(const HttpResponse& response) {
    auto json = parse_json(response.body);
    EXPECT_TRUE(json) << response.status << response.body;
    return json ? *std::move(json) : Json::object();
  }
  static std::string header(const HttpResponse& response, std::string_view name) {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return "";
  }
  [[nodiscard]] std::string data_address(int seed) const {
    return "data:image/png;base64," + encode_base64(saccade::test::png(seed));
  }

  saccade::test::TestFolder temporary_;
  std::filesystem::path pictures_ = temporary_.path() / "pictures";
  std::filesystem::path folder_ = temporary_.path() / "my pictures";
  Keys keys_;
  ThreadPool pool_{2};
  Metrics metrics_;
  std::unique_ptr<Served> served_;
  std::unique_ptr<Service> service_;
};

}  // namespace saccade::serve
