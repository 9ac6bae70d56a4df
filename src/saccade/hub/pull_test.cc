// Tests of pulling from a hub on loopback, with all kinds of failures.
#include "saccade/hub/pull.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/test_folder.h"
#include "saccade/hub/cache.h"
#include "saccade/hub/select.h"
#include "saccade/hub/test_hub.h"

namespace saccade::hub {
namespace {

namespace fs = std::filesystem;
using saccade::test::hub_hash;
using saccade::test::HubFile;
using saccade::test::HubReply;
using saccade::test::HubRequest;
using saccade::test::TestHub;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kCommit = "00112233445566778899aabbccddeeff00112233";
const std::string kName = "owner/clip";

// Returns bytes that do not repeat, so that a byte from the wrong position shows.
std::string content(size_t size, uint32_t seed) {
  std::string text(size, '\0');
  for (char& c : text) {
    seed = seed * 1664525U + 1013904223U;
    c = static_cast<char>(seed >> 24);
  }
  return text;
}

class Pulling : public testing::Test {
 protected:
  void SetUp() override {
    setenv("no_proxy", "127.0.0.1", 1);
    weights_ = {content(300'000, 1), true};
    hub_.models[kName] = {.commit = kCommit,
                          .files = {{"config.json", {"{\"model_type\": \"clip\"}", false}},
                                    {"vocab.json", {"{}", false}},
                                    {"README.md", {"# no need", false}},
                                    {"tf_model.h5", {"no need either", true}},
                                    {"model.safetensors", weights_}}};
    options_.settings.endpoint = hub_.endpoint();
    options_.settings.cache = folder_ / "hub";
    options_.retry.tries = 3;
    options_.retry.first_wait = std::chrono::milliseconds(1);
  }

  Result<PullReport> run(const std::string& name = kName, const ProgressCallback& progress = {},
                         std::stop_token stop = {}) {
    return pull(parse_model_name(name).value(), options_, progress, std::move(stop));
  }
  // Checks that the pull fails with this code, and with all of the parts in its message.
  void expect_error(const Result<PullReport>& report, ErrorCode code, const std::vector<std::string>& parts) {
    ASSERT_FALSE(report.has_value());
    EXPECT_EQ(report.error().code, code) << report.error().message;
    for (const std::string& part : parts) EXPECT_THAT(report.error().message, HasSubstr(part));
    EXPECT_THAT(report.error().message, Not(HasSubstr(hub_.storage())));
  }
  [[nodiscard]] fs::path model_folder() const { return options_.settings.cache / "models--owner--clip"; }
  [[nodiscard]] fs::path incomplete() const {
    return model_folder() / "blobs" / (hub_hash(weights_) + ".incomplete");
  }
  void expect_whole(const Result<PullReport>& report) {
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_EQ(read_file(report->path / "model.safetensors").value(), weights_.content);
    EXPECT_FALSE(fs::exists(incomplete()));
  }
  // Replaces the replies for the weights' bytes only.
  void for_weights(std::function<std::optional<HubReply>(const HubRequest&, HubReply)> reply) {
    hub_.instead = [reply = std::move(reply)](const HubRequest& request,
                                              const HubReply& ordinary) -> std::optional<HubReply> {
      if (!request.path.starts_with("/storage/")) return {};
      return reply(request, ordinary);
    };
  }

  test::TestFolder folder_;
  HubFile weights_;
  TestHub hub_;
  PullOptions options_;
};

TEST_F(Pulling, BringsACheckpointIntoTheHubsOwnLayout) {
  std::vector<int64_t> done;
  int64_t total = 0;
  const auto report = run(kName, [&](const ProgressUpdate& update) {
    done.push_back(update.done);
    total = update.total;
    EXPECT_TRUE(update.bytes);
  });
  expect_whole(report);
  EXPECT_EQ(report->commit, kCommit);
  EXPECT_EQ(report->path, model_folder() / "snapshots" / kCommit);
  ASSERT_EQ(report->files.size(), 3U);
  EXPECT_EQ(report->files[1].name, "model.safetensors");
  EXPECT_TRUE(report->files[1].downloaded);
  EXPECT_EQ(report->downloaded_bytes, total);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), total);
  EXPECT_EQ(fs::read_symlink(report->path / "model.safetensors"), "../../blobs/" + hub_hash(weights_));
  EXPECT_EQ(fs::read_symlink(report->path / "config.json"),
            "../../blobs/" + hub_hash(hub_.models[kName].files["config.json"]));
  EXPECT_EQ(read_file(model_folder() / "refs" / "main").value(), kCommit);
  EXPECT_EQ(find_cached(options_.settings.cache, parse_model_name(kName).value())->path, report->path);
  EXPECT_EQ(hub_.gets("README.md") + hub_.gets("tf_model.h5"), 0);

  // A second pull fetches nothing.
  const int before = hub_.gets("/resolve/") + hub_.gets("/storage/");
  const auto again = run();
  expect_whole(again);
  EXPECT_FALSE(again->files[1].downloaded);
  EXPECT_EQ(again->downloaded_bytes, 0);
  EXPECT_EQ(hub_.gets("/resolve/") + hub_.gets("/storage/"), before);
}

TEST_F(Pulling, ACommitNeedsNoRef) {
  expect_whole(run(kName + "@" + kCommit));
  EXPECT_FALSE(fs::exists(model_folder() / "refs"));
}

// A hub, or a proxy in front of it, that returns another commit than requested.
TEST_F(Pulling, AnotherCommitIsRefused) {
  const std::string other(40, 'b');
  hub_.instead = [&](const HubRequest& request, const HubReply& ordinary) -> std::optional<HubReply> {
    if (!request.path.starts_with("/api/")) return {};
    HubReply reply = ordinary;
    reply.body.replace(reply.body.find(kCommit), kCommit.size(), other);
    return reply;
  };
  expect_error(run(kName + "@" + kCommit), ErrorCode::kMismatch,
               {"answers with commit " + other, "asked for " + kCommit});
  EXPECT_FALSE(fs::exists(model_folder()));
}

TEST_F(Pulling, ABranchMovesOnAndSharesWhatIsTheSame) {
  ASSERT_TRUE(run().has_value());
  const std::string next = "ffeeddccbbaa99887766554433221100ffeeddcc";
  hub_.models[kName].commit = next;
  hub_.models[kName].files["config.json"].content = "{\"model_type\": \"clip\", \"v\": 2}";
  const auto report = run();
  expect_whole(report);
  EXPECT_EQ(read_file(model_folder() / "refs" / "main").value(), next);
  EXPECT_EQ(report->downloaded_bytes, 30);
  EXPECT_EQ(read_file(model_folder() / "snapshots" / kCommit / "config.json").value(),
            "{\"model_type\": \"clip\"}");
}

TEST_F(Pulling, ShardsAreThoseTheIndexNames) {
  auto& files = hub_.models[kName].files;
  files.erase("model.safetensors");
  files["model.safetensors.index.json"] = {
      R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})", false};
  files["one.safetensors"] = {content(1000, 7), true};
  files["two.safetensors"] = {content(2000, 8), true};
  files["three.safetensors"] = {content(3000, 9), true};
  const auto report = run();
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(read_file(report->path / "two.safetensors").value(), files["two.safetensors"].content);
  EXPECT_FALSE(fs::exists(report->path / "three.safetensors"));
  EXPECT_TRUE(missing_files(report->path)->empty());

  files.erase("two.safetensors");
  fs::remove_all(options_.settings.cache);
  expect_error(run(), ErrorCode::kNotFound, {kName + " has no file two.safetensors"});
  files["model.safetensors.index.json"].content = R"({"weight_map": {"a": "../../../../outside"}})";
  expect_error(run(), ErrorCode::kBadData, {"../../../../outside", "not a file name"});
  // The system would read the name only up to the NUL.
  files["model.safetensors.index.json"].content = R"({"weight_map": {"a": "config.json\u0000.safetensors"}})";
  expect_error(run(), ErrorCode::kBadData, {"not a file name"});
}

TEST_F(Pulling, FilesOfOtherToolsAreUsedIfTheyAreWhatTheyShouldBe) {
  fs::create_directories(model_folder() / "blobs");
  const fs::path blob = model_folder() / "blobs" / hub_hash(weights_);
  ASSERT_TRUE(write_file_atomic(blob, weights_.content).has_value());
  const auto report = run();
  expect_whole(report);
  EXPECT_EQ(hub_.gets("/storage/"), 0);
  // Damaged files are downloaded again.
  std::string damaged = weights_.content;
  damaged[1234] ^= 1;
  ASSERT_TRUE(write_file_atomic(blob, damaged).has_value());
  const auto again = run();
  expect_whole(again);
  EXPECT_EQ(again->downloaded_bytes, 300'000);
}

TEST_F(Pulling, GoesOnWhereItStopped) {
  fs::create_directories(model_folder() / "blobs");
  ASSERT_TRUE(
      write_file_atomic(incomplete(), std::string_view(weights_.content).substr(0, 100'000)).has_value());
  std::string range;
  for_weights([&](const HubRequest& request, const HubReply&) {
    range = request.header("range");
    return std::nullopt;
  });
  constexpr int64_t kOthers = 2 + 22;  // the small files, which come first
  constexpr int64_t kTotal = 300'000 + kOthers;
  std::vector<int64_t> done;
  const auto report = run(kName, [&](const ProgressUpdate& update) {
    done.push_back(update.done);
    EXPECT_EQ(update.total, kTotal);
  });
  expect_whole(report);
  // Bytes already present count as done. The count then grows to the total.
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), kTotal);
  const auto between = [&](int64_t low, int64_t high) {
    return std::count_if(done.begin(), done.end(), [&](int64_t n) { return n > low && n < high; });
  };
  EXPECT_EQ(between(kOthers, kOthers + 100'000), 0);
  EXPECT_GT(between(kOthers + 100'000, kTotal), 3);
  EXPECT_EQ(range, "bytes=100000-");
  EXPECT_EQ(report->resumed_bytes, 100'000);
  EXPECT_EQ(report->downloaded_bytes, 200'000 + 2 + 22);
}

TEST_F(Pulling, AWholePartialFileNeedsNoRequest) {
  fs::create_directories(model_folder() / "blobs");
  ASSERT_TRUE(write_file_atomic(incomplete(), weights_.content).has_value());
  expect_whole(run());
  EXPECT_EQ(hub_.gets("/storage/"), 0);
}

TEST_F(Pulling, AWrongBeginningIsThrownAway) {
  fs::create_directories(model_folder() / "blobs");
  for (const std::string& wrong : {content(100'000, 99), content(300'000, 98), content(400'000, 97)}) {
    fs::remove(model_folder() / "blobs" / hub_hash(weights_));
    ASSERT_TRUE(write_file_atomic(incomplete(), wrong).has_value());
    const auto report = run();
    expect_whole(report);
    EXPECT_EQ(report->resumed_bytes, 0);
  }
}

TEST_F(Pulling, AHubWithoutRangesSendsAllOfIt) {
  fs::create_directories(model_folder() / "blobs");
  ASSERT_TRUE(
      write_file_atomic(incomplete(), std::string_view(weights_.content).substr(0, 1000)).has_value());
  for_weights([&](const HubRequest&, const HubReply&) {
    HubReply all;
    all.body = weights_.content;
    return all;
  });
  expect_whole(run());
  // A range other than the requested one is rejected.
  fs::remove_all(options_.settings.cache);
  fs::create_directories(model_folder() / "blobs");
  ASSERT_TRUE(
      write_file_atomic(incomplete(), std::string_view(weights_.content).substr(0, 1000)).has_value());
  for_weights([&](const HubRequest&, HubReply reply) {
    reply.headers = {{"Content-Range", "bytes 0-299999/300000"}};
    return reply;
  });
  expect_error(run(), ErrorCode::kBadData, {"asked for bytes from 1000 of 300000"});
}

TEST_F(Pulling, BrokenConnectionsAreTakenUpAgain) {
  // There are more disconnections than retries, but each attempt made progress.
  for_weights([&](const HubRequest&, HubReply reply) {
    reply.cut_after = 40'000;
    return reply;
  });
  expect_whole(run());
  EXPECT_EQ(hub_.gets("/storage/"), 8);
  // The same holds if the length of the body is unknown.
  fs::remove_all(options_.settings.cache);
  for_weights([&](const HubRequest&, HubReply reply) {
    reply.cut_after = 100'000;
    reply.no_length = true;
    return reply;
  });
  expect_whole(run());
}

TEST_F(Pulling, AConnectionThatBringsNothingIsGivenUp) {
  for_weights([&](const HubRequest&, HubReply reply) {
    reply.no_answer = true;
    return reply;
  });
  expect_error(run(), ErrorCode::kIo,
               {"pull owner/clip: model.safetensors: GET /owner/clip/resolve/" + kCommit +
                "/model.safetensors: where it is redirected to"});
  EXPECT_EQ(hub_.gets("/storage/"), 3);
}

TEST_F(Pulling, WrongBytesAndSizesAreNotKept) {
  for_weights([&](const HubRequest&, HubReply reply) {
    reply.body[5] ^= 1;
    return reply;
  });
  expect_error(run(), ErrorCode::kMismatch, {"model.safetensors", "has the hash", hub_hash(weights_)});
  EXPECT_FALSE(fs::exists(incomplete()));
  EXPECT_FALSE(fs::exists(model_folder() / "snapshots" / kCommit / "model.safetensors"));
  EXPECT_FALSE(fs::exists(model_folder() / "refs" / "main"));
  for_weights([&](const HubRequest&, HubReply reply) {
    reply.body += "more";
    return reply;
  });
  expect_error(run(), ErrorCode::kMismatch, {"more than the 300000 bytes"});
  // The body is shorter than announced by a reply, or the range does not exist.
  for_weights([&](const HubRequest& request, HubReply reply) {
    if (request.header("range").empty()) {
      reply.body.resize(200'000);
    } else {
      reply = HubReply{};
      reply.status = 416;
    }
    return reply;
  });
  expect_error(run(), ErrorCode::kMismatch, {"ends before the size", "status 416"});
  EXPECT_FALSE(fs::exists(incomplete()));
}

TEST_F(Pulling, TheTokenStaysWithTheHub) {
  options_.settings.token = "good";
  hub_.models[kName].gated = true;
  expect_whole(run());
  int at_the_hub = 0;
  int elsewhere = 0;
  for (const HubRequest& request : hub_.requests()) {
    const bool other = request.path.starts_with("/storage/");
    EXPECT_EQ(request.header("authorization"), other ? "" : "Bearer good") << request.path;
    ++(other ? elsewhere : at_the_hub);
  }
  EXPECT_GT(at_the_hub, 3);
  EXPECT_EQ(elsewhere, 1);
}

TEST_F(Pulling, ARenamedModelIsFollowed) {
  const std::string content = weights_.content;
  hub_.instead = [](const HubRequest& request, const HubReply&) -> std::optional<HubReply> {
    const size_t at = request.path.find("former/name");
    if (at == std::string::npos) return {};
    HubReply moved;
    moved.status = 307;
    moved.headers = {{"Location", request.path.substr(0, at) + "owner/clip" +
                                      request.path.substr(at + sizeof("former/name") - 1)}};
    return moved;
  };
  options_.settings.token = "good";
  hub_.models[kName].gated = true;  // so that the token must have come along
  const auto report = run("former/name");
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(
      read_file(options_.settings.cache / "models--former--name/snapshots" / kCommit / "model.safetensors")
          .value(),
      content);
}

TEST_F(Pulling, RedirectsEndSomewhere) {
  const auto redirect_to = [this](const std::string& location) {
    hub_.instead = [location](const HubRequest&, const HubReply&) {
      HubReply reply;
      reply.status = 302;
      if (!location.empty()) reply.headers = {{"Location", location}};
      return reply;
    };
  };
  redirect_to("/again");
  expect_error(run(), ErrorCode::kBadData, {"redirected more than 10 times"});
  redirect_to("");
  expect_error(run(), ErrorCode::kBadData, {"not a URL"});
  redirect_to("ftp://elsewhere.example/x");
  expect_error(run(), ErrorCode::kIo, {"where it is redirected to"});
  redirect_to("file:///etc/passwd");
  EXPECT_FALSE(run().has_value());
}

TEST_F(Pulling, RefusalsSayWhatToDo) {
  expect_error(run("owner/none"), ErrorCode::kNotFound,
               {hub_.endpoint() + " has no owner/none", "private", "HF_TOKEN", "/api/models/owner/none"});
  expect_error(run(kName + "@v9"), ErrorCode::kNotFound, {"owner/clip has no revision v9"});
  hub_.models[kName].gated = true;
  expect_error(run(), ErrorCode::kNotFound, {"is gated: accept its conditions", "HF_TOKEN", "status 401"});
  options_.settings.token = "other";
  expect_error(run(), ErrorCode::kNotFound, {"is gated, and the token's owner has no access", "status 403"});
  EXPECT_THAT(run().error().message, Not(HasSubstr("other")));
  options_.settings.token = "good";
  expect_error(run("owner/none"), ErrorCode::kNotFound, {"has no owner/none", "status 404"});
  EXPECT_FALSE(fs::exists(model_folder() / "refs"));
}

TEST_F(Pulling, BusyHubsAreWaitedFor) {
  int refused = 0;
  hub_.instead = [&](const HubRequest& request, const HubReply&) -> std::optional<HubReply> {
    if (!request.path.starts_with("/api/") || refused == 2) return {};
    HubReply busy;
    busy.status = refused == 0 ? 429 : 503;
    busy.headers = {{"Retry-After", "0"}};
    ++refused;
    return busy;
  };
  expect_whole(run());
  EXPECT_EQ(refused, 2);
}

TEST_F(Pulling, ButNotForEver) {
  const auto always = [&](int status, std::vector<std::pair<std::string, std::string>> headers) {
    hub_.instead = [=](const HubRequest&, const HubReply&) {
      HubReply busy;
      busy.status = status;
      busy.headers = headers;
      return busy;
    };
  };
  always(429, {{"Retry-After", "0"}});
  expect_error(run(), ErrorCode::kLimit, {"too many requests", "status 429", "/api/models/owner/clip"});
  EXPECT_EQ(hub_.gets("/api/"), 3);
  // A requested wait above the limit is reported at once.
  always(429, {{"RateLimit", "\"api\";r=0;t=3600"}});
  expect_error(run(), ErrorCode::kLimit, {"try again in 3600 seconds"});
  EXPECT_EQ(hub_.gets("/api/"), 4);
  always(502, {});
  expect_error(run(), ErrorCode::kIo, {"fails at the moment (3 of 3 tries)", "status 502"});
  always(418, {});
  expect_error(run(), ErrorCode::kIo, {"makes no sense", "status 418"});
}

TEST_F(Pulling, AnswersThatAreNoneAreRefused) {
  const auto api = [&](const std::string& body) {
    hub_.instead = [body](const HubRequest& request, const HubReply&) -> std::optional<HubReply> {
      if (!request.path.starts_with("/api/")) return {};
      HubReply reply;
      reply.body = body;
      return reply;
    };
  };
  for (const char* body : {"", "<html>", "[]", "{}", R"({"sha": 1})", R"({"sha": "../x", "siblings": []})",
                           R"({"sha": "00112233445566778899aabbccddeeff00112233"})",
                           R"({"sha": "00112233445566778899aabbccddeeff00112233", "siblings": [{}]})"}) {
    api(body);
    expect_error(run(), ErrorCode::kBadData, {"GET /api/models/owner/clip/revision/main"});
  }
  api(R"({"sha": "00112233445566778899aabbccddeeff00112233", "siblings": [{"rfilename": "../x"}]})");
  expect_error(run(), ErrorCode::kUnsupported, {"no weights among its 1 files"});
  api(R"({"sha": "00112233445566778899aabbccddeeff00112233", "siblings": [{"rfilename": "x\u0000.pt"}]})");
  expect_error(run(), ErrorCode::kUnsupported, {"no weights among its 1 files"});

  const auto head = [&](std::vector<std::pair<std::string, std::string>> headers) {
    hub_.instead = [=](const HubRequest& request, const HubReply&) -> std::optional<HubReply> {
      if (request.method != "HEAD") return {};
      HubReply reply;
      reply.headers = headers;
      return reply;
    };
  };
  head({});
  expect_error(run(), ErrorCode::kUnsupported, {"HEAD /owner/clip/resolve", "its ETag \"\" is neither"});
  head({{"ETag", "\"../../../../../../../../../../../../../../x\""}});
  expect_error(run(), ErrorCode::kUnsupported, {"is neither a SHA-256 nor"});
  head({{"ETag", "\"" + std::string(64, 'a') + "\""}, {"X-Linked-Size", "-5"}});
  expect_error(run(), ErrorCode::kBadData, {"says it has \"-5\" bytes"});
  head({{"ETag", "\"" + std::string(64, 'a') + "\""}, {"X-Linked-Size", "99999999999999999"}});
  expect_error(run(), ErrorCode::kBadData, {"99999999999999999"});
  head({{"ETag", "\"" + std::string(64, 'a') + "\""}, {"X-Linked-Size", "70000000000000"}});
  expect_error(run(), ErrorCode::kIo, {"bytes are still to come", "are free there"});
  head({{"ETag", "\"" + std::string(64, 'a') + "\""}, {"X-Repo-Commit", std::string(40, 'b')}});
  expect_error(run(), ErrorCode::kMismatch, {std::string(40, 'b')});
}

TEST_F(Pulling, NobodyThereIsSaidAtOnce) {
  {
    // A port without a listener.
    const TestHub gone;
    options_.settings.endpoint = gone.endpoint();
  }
  options_.retry.first_wait = std::chrono::hours(1);
  expect_error(run(), ErrorCode::kIo, {options_.settings.endpoint, "GET /api/models/owner/clip"});
}

TEST_F(Pulling, AStopKeepsWhatThereIs) {
  std::stop_source source;
  for_weights([&](const HubRequest&, HubReply reply) {
    reply.cut_after = 150'000;
    return reply;
  });
  const auto stopped = run(
      kName,
      [&](const ProgressUpdate& update) {
        if (update.done > 100'000) source.request_stop();
      },
      source.get_token());
  expect_error(stopped, ErrorCode::kCancelled, {"stopped"});
  const auto kept = fs::file_size(incomplete());
  EXPECT_GT(kept, 90'000U);
  hub_.instead = nullptr;
  const auto report = run();
  expect_whole(report);
  EXPECT_EQ(report->resumed_bytes, static_cast<int64_t>(kept));

  // A stop also ends a wait.
  options_.retry.first_wait = std::chrono::hours(1);
  std::stop_source other;
  hub_.instead = [&](const HubRequest&, const HubReply&) {
    other.request_stop();
    HubReply busy;
    busy.status = 503;
    return busy;
  };
  expect_error(run(kName, {}, other.get_token()), ErrorCode::kCancelled, {"stopped"});
}

TEST_F(Pulling, AFullDiskIsAnErrorAndNotTheEnd) {
  // The limit on file sizes simulates a full disk.
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 100'000, before.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto full = run();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  expect_error(full, ErrorCode::kIo, {"model.safetensors", "write", "File too large"});
  EXPECT_EQ(fs::file_size(incomplete()), 100'000U);
  const auto report = run();
  expect_whole(report);
  EXPECT_EQ(report->resumed_bytes, 100'000);
}

TEST_F(Pulling, FoldersThatCannotBeMadeAreNamed) {
  ASSERT_TRUE(write_file_atomic(folder_ / "hub", "a file").has_value());
  expect_error(run(), ErrorCode::kIo, {(folder_ / "hub/models--owner--clip/blobs").string()});
}

TEST_F(Pulling, AnotherDownloadOfTheSameIsWaitedFor) {
  const std::string hash = hub_hash(weights_);
  fs::create_directories(options_.settings.cache / ".locks/models--owner--clip");
  fs::create_directories(model_folder() / "blobs");
  const fs::path lock = options_.settings.cache / ".locks/models--owner--clip" / (hash + ".lock");
  const int held = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  bool waited = false;
  const auto report = run(kName, [&](const ProgressUpdate& update) {
    if (update.detail.find("waiting for another download") == std::string_view::npos || waited) return;
    waited = true;
    // The other process finishes.
    ASSERT_TRUE(write_file_atomic(model_folder() / "blobs" / hash, weights_.content).has_value());
    close(held);
  });
  expect_whole(report);
  EXPECT_TRUE(waited);
  EXPECT_EQ(hub_.gets("/storage/"), 0);
  // And a stop ends the wait.
  const int again = open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(again, LOCK_EX), 0);
  std::stop_source source;
  const auto stopped = run(
      kName, [&](const ProgressUpdate&) { source.request_stop(); }, source.get_token());
  expect_error(stopped, ErrorCode::kCancelled, {"stopped"});
  close(again);
}

TEST_F(Pulling, TwoAtATimeDownloadOnce) {
  Result<PullReport> other;
  std::thread second([&] { other = run(); });
  const auto report = run();
  second.join();
  expect_whole(report);
  expect_whole(other);
  EXPECT_EQ(hub_.gets("/storage/"), 1);
}

TEST_F(Pulling, OfflineLooksInTheCacheOnly) {
  options_.settings.offline = true;
  expect_error(run(), ErrorCode::kNotFound, {"offline", "owner/clip is not in the cache"});
  options_.settings.offline = false;
  ASSERT_TRUE(run().has_value());
  const size_t asked = hub_.requests().size();
  options_.settings.offline = true;
  const auto report = run();
  expect_whole(report);
  ASSERT_EQ(report->files.size(), 3U);
  EXPECT_EQ(report->files[1].hash, hub_hash(weights_));
  fs::remove(report->path / "model.safetensors");
  expect_error(run(), ErrorCode::kUnsupported, {"offline", "no weights among its 2 files"});
  EXPECT_EQ(hub_.requests().size(), asked);
}

}  // namespace
}  // namespace saccade::hub
