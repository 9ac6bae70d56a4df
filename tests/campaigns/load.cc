// `./dev campaign load`: `saccade serve` as a process of its own on loopback, with the starter checkpoint and a
// collection of its own, under more than it can do at once.
//
//   soak         connections that ask without a pause, one in twenty of them hostile (serve/test_load.h): every
//                answer is right for its request, /healthz answers in time on a connection of its own, and the
//                server's memory is afterwards what it was after warming up
//   memory       a server whose address space ends a little above what it needs, and bodies of many megabytes:
//                it answers or refuses, and answers all once they have gone
//   descriptors  a server that may have 64 files open, and many more connections: likewise
//
// usage: saccade_load_campaign [--seconds S] [--connections N] [--limit-seconds S] [--rows N]
//                              [--memory-percent P] [--health-ms MS] [--only PART] [--program PATH]
// Prints figures; exit code 1 where something of this does not hold.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/base64.h"
#include "saccade/core/error.h"
#include "saccade/core/files/temporary_folder.h"
#include "saccade/core/seconds_since.h"
#include "saccade/image/image_codec.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/serve/test_load.h"
#include "saccade/serve/test_server_process.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;
using test::LoadKind;
using test::LoadOutcome;
using test::ServerProcess;

struct Arguments {
  double seconds = 600;
  int connections = 2000;
  double limit_seconds = 20;  // of each server at a limit
  int64_t rows = 10'000;
  double memory_percent = 5;
  double health_ms = 100;
  std::string only;  // a part's name; empty: all
  std::string program = SACCADE_PROGRAM;

  // So short that servers' own limits of time would take most of it.
  [[nodiscard]] bool is_short() const { return seconds < 60; }
};

constexpr double kRetryAfter = 1;  // seconds, as refusals say

// What did not hold, told as it is found.
class Findings {
 public:
  void expect(bool holds, const std::string& what) {
    fmt::print("  {} {}\n", holds ? "ok    " : "FAILED", what);
    std::fflush(stdout);
    if (!holds) ++failed_;
  }
  [[nodiscard]] int failed() const { return failed_; }

 private:
  int failed_ = 0;
};

double megabytes(int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

// Of this thread alone: whoever makes load leaves the processor to those who are measured.
void step_back() {
  ::setpriority(PRIO_PROCESS, 0, 10);
}

LoadKind good_search() {
  return {.name = "search", .request = test::load_request("GET", "/api/search?q=bell&k=10"), .right = {200}};
}

// Asks for /healthz ten times a second, each time on a new connection, until it is stopped.
class HealthProbe {
 public:
  explicit HealthProbe(uint16_t port)
      : thread_([this, port](const std::stop_token& stop) { run(port, stop); }) {}

  struct Seen {
    LoadOutcome answers;         // seconds: with connecting
    double machine_seconds = 0;  // by how much the longest pause was longer than asked for
  };
  Seen stop() {
    thread_.request_stop();
    thread_.join();
    return std::move(seen_);
  }

 private:
  void run(uint16_t port, const std::stop_token& stop) {
    constexpr double kPause = 0.1;
    const LoadKind health{
        .name = "/healthz", .request = test::load_request("GET", "/healthz"), .right = {200}};
    while (!stop.stop_requested()) {
      const auto start = std::chrono::steady_clock::now();
      const LoadOutcome answer = test::ask_once(port, health);
      seen_.answers.seconds.push_back(seconds_since(start));
      seen_.answers.requests += answer.requests;
      seen_.answers.wrong_count += answer.wrong_count;
      if (seen_.answers.wrong.empty()) seen_.answers.wrong = answer.wrong;
      const auto slept = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(std::chrono::duration<double>(kPause));
      seen_.machine_seconds = std::max(seen_.machine_seconds, seconds_since(slept) - kPause);
    }
  }
  Seen seen_;
  std::jthread thread_;  // last: it works on what is above
};

void tell_statuses(const LoadOutcome& outcome) {
  for (const auto& [kind, statuses] : outcome.statuses) {
    std::string line;
    for (const auto& [status, count] : statuses) line += fmt::format(" {} x {}", status, count);
    fmt::print("    {}:{}\n", kind, line);
  }
}

void tell(const std::string& who, LoadOutcome& outcome, double seconds) {
  fmt::print(
      "  {}: {} requests, {:.1f} a second, {} wrong; answered 200: p50 {:.1f} ms, p95 {:.1f} ms, p99 {:.1f} ms\n",
      who, outcome.requests, static_cast<double>(outcome.requests) / seconds, outcome.wrong_count,
      1e3 * outcome.percentile(0.5), 1e3 * outcome.percentile(0.95), 1e3 * outcome.percentile(0.99));
  if (outcome.not_opened > 0) fmt::print("    {} times a connection could not be made\n", outcome.not_opened);
  for (const std::string& wrong : outcome.wrong) fmt::print("    wrong: {}\n", wrong);
}

class Campaign {
 public:
  Campaign(Arguments arguments, fs::path scratch)
      : arguments_(std::move(arguments)), scratch_(std::move(scratch)) {}

  Status prepare() {
    Image picture{.width = 64, .height = 64, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
    for (int i = 0; i < 64 * 64 * 3; ++i) picture.pixels.push_back(static_cast<uint8_t>(i * 31));
    SACCADE_ASSIGN(const std::string png, encode_png(picture));
    picture_ = "data:image/png;base64," + encode_base64(png);
    SACCADE_ASSIGN(const fs::path starter, starter_checkpoint());
    SACCADE_ASSIGN(const LoadedEncoder loaded, load_checkpoint(starter.string()));
    return test::make_random_collection(collection_, loaded.id, arguments_.rows);
  }
  Status soak(Findings& findings) const;
  Status at_memory_limit(Findings& findings) const;
  Status at_descriptor_limit(Findings& findings) const;

 private:
  struct Both {
    LoadOutcome good;
    LoadOutcome hostile;
    double seconds = 0;
  };
  // One client in twenty is hostile.
  [[nodiscard]] Both put_under_both(const ServerProcess& server, double seconds, uint32_t seed) const;
  // A server that is asked one thing after the other answers each, at the latest after kRecoverySeconds.
  static void expect_recovery(ServerProcess& server, Findings& findings);
  static void expect_end(ServerProcess& server, Findings& findings);
  [[nodiscard]] Status started(const ServerProcess& server) const {
    if (server.port() != 0) return {};
    return fail(ErrorCode::kInternal, "the server does not start: {}", server.log());
  }

  const Arguments arguments_;
  const fs::path scratch_;
  const fs::path collection_ = scratch_ / "pictures";
  std::string picture_;  // as a data: URI
};

Campaign::Both Campaign::put_under_both(const ServerProcess& server, double seconds, uint32_t seed) const {
  const auto start = std::chrono::steady_clock::now();
  const int hostile = std::max(arguments_.connections / 20, 1);
  Both both;
  std::jthread others([&] {
    step_back();
    both.hostile =
        test::put_under_load(server.port(), hostile, seconds, test::hostile_clients(picture_),
                             {.seed = seed, .refused_pause = kRetryAfter, .cut_off = arguments_.is_short()});
  });
  std::jthread([&] {
    step_back();
    both.good =
        test::put_under_load(server.port(), arguments_.connections - hostile, seconds,
                             test::good_clients(picture_), {.seed = seed + 1, .refused_pause = kRetryAfter});
  }).join();
  others.join();
  both.seconds = seconds_since(start);
  return both;
}

void Campaign::expect_recovery(ServerProcess& server, Findings& findings) {
  constexpr double kRecoverySeconds = 10;
  constexpr int kInARow = 20;
  const bool alive = server.alive();
  findings.expect(alive, alive ? "the server is alive" : "the server has " + server.end());
  if (!alive) {
    fmt::print("{}\n", server.log());
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  int in_a_row = 0;
  std::string last;
  while (in_a_row < kInARow && seconds_since(start) < kRecoverySeconds) {
    const LoadOutcome answer = test::ask_once(server.port(), good_search());
    in_a_row = answer.wrong_count == 0 ? in_a_row + 1 : 0;
    if (!answer.wrong.empty()) last = "; the last that was not: " + answer.wrong.front();
  }
  findings.expect(in_a_row == kInARow,
                  fmt::format("{} searches in a row are answered within {} s ({:.1f} s{})", kInARow,
                              kRecoverySeconds, seconds_since(start), last));
}

void Campaign::expect_end(ServerProcess& server, Findings& findings) {
  const auto start = std::chrono::steady_clock::now();
  const int status = server.stop();
  findings.expect(status == 0,
                  fmt::format("asked to stop, it {} after {:.1f} s", server.end(), seconds_since(start)));
}

Status Campaign::soak(Findings& findings) const {
  ServerProcess server(arguments_.program, collection_, scratch_);
  SACCADE_TRY(started(server));
  fmt::print("soak: {} connections, one in twenty hostile, {} s\n", arguments_.connections,
             arguments_.seconds);
  // The server is warm before the first look, because threads, pools and caches that it makes once are no leak. A leak
  // grows in the second half as it did in the first.
  const auto memory = [&] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    return server.memory();
  };
  (void)put_under_both(server, std::min(120.0, arguments_.seconds / 3), 5);
  const int64_t before = memory();
  const int64_t files = server.descriptors();
  fmt::print("  warm: {:.1f} MB, {} descriptors\n", megabytes(before), files);
  HealthProbe probe(server.port());
  int64_t after = before;
  for (const uint32_t half : {1U, 2U}) {
    Both both = put_under_both(server, arguments_.seconds / 2, 10 * half);
    tell("good clients", both.good, both.seconds);
    tell_statuses(both.good);
    tell("hostile clients", both.hostile, both.seconds);
    tell_statuses(both.hostile);
    findings.expect(both.good.wrong_count + both.hostile.wrong_count == 0,
                    fmt::format("half {}: every answer is right for its request", half));
    findings.expect(both.good.statuses["search"][200] > 0,
                    fmt::format("half {}: searches are answered", half));
    after = memory();
    fmt::print("  memory: {:.1f} MB, {:+.1f}%\n", megabytes(after),
               100 * (static_cast<double>(after) / static_cast<double>(before) - 1));
  }
  HealthProbe::Seen health = probe.stop();
  fmt::print(
      "  /healthz, {} times: p50 {:.1f} ms, p99 {:.1f} ms, longest {:.1f} ms; a pause of the prober's "
      "was up to {:.1f} ms too long\n",
      health.answers.requests, 1e3 * health.answers.percentile(0.5), 1e3 * health.answers.percentile(0.99),
      1e3 * health.answers.percentile(1), 1e3 * health.machine_seconds);
  findings.expect(health.answers.wrong_count == 0,
                  fmt::format("/healthz is always 200 ({} times not{}{})", health.answers.wrong_count,
                              health.answers.wrong.empty() ? "" : ": ",
                              health.answers.wrong.empty() ? "" : health.answers.wrong.front()));
  findings.expect(1e3 * health.answers.percentile(1) < arguments_.health_ms,
                  fmt::format("/healthz answers within {} ms", arguments_.health_ms));
  const double change = 100 * (static_cast<double>(after) / static_cast<double>(before) - 1);
  findings.expect(
      std::abs(change) <= arguments_.memory_percent,
      fmt::format("memory is within {}% of what it was ({:+.1f}%)", arguments_.memory_percent, change));
  const int64_t open = server.descriptors();
  findings.expect(open <= files + 8, fmt::format("{} descriptors are open, {} were", open, files));
  expect_recovery(server, findings);
  expect_end(server, findings);
  return {};
}

Status Campaign::at_memory_limit(Findings& findings) const {
  constexpr int kClients = 60;
  constexpr uint64_t kAbove = uint64_t{96} << 20;
  const double warm_seconds = std::min(3.0, arguments_.limit_seconds / 2);
  const std::vector<LoadKind> good = test::good_clients(picture_);
  uint64_t needs = 0;
  {
    ServerProcess server(arguments_.program, collection_, scratch_);
    SACCADE_TRY(started(server));
    (void)test::put_under_load(server.port(), kClients, warm_seconds, good);
    needs = static_cast<uint64_t>(server.address_space());
  }
  ServerProcess server(arguments_.program, collection_, scratch_, {.address_space = needs + kAbove});
  SACCADE_TRY(started(server));
  fmt::print("memory: an address space of {:.1f} MB, of which good clients take {:.1f}\n",
             megabytes(static_cast<int64_t>(needs + kAbove)), megabytes(static_cast<int64_t>(needs)));
  std::vector<LoadKind> kinds = good;
  for (const size_t size : {size_t{8} << 20, size_t{40} << 20}) {
    kinds.push_back({.name = fmt::format("a body of {} MiB", size >> 20),
                     .share = 15,
                     .request = test::load_request("POST", "/api/search",
                                                   R"({"image": ")" + std::string(size, 'A') + "\"}"),
                     .right = {413, 415, 422}});
  }
  // Without memory a connection may end with no word, and an answer is no more than 500.
  for (LoadKind& kind : kinds) kind.right.insert(kind.right.end(), {0, 500});
  LoadOutcome outcome = test::put_under_load(server.port(), kClients, arguments_.limit_seconds, kinds);
  tell("clients", outcome, arguments_.limit_seconds);
  tell_statuses(outcome);
  int64_t refused = 0;
  for (const auto& [kind, statuses] : outcome.statuses)
    for (const auto& [status, count] : statuses)
      if (status == 0 || status == 429 || status >= 500) refused += count;
  findings.expect(refused > 0, fmt::format("the limit is felt: {} requests were refused", refused));
  findings.expect(outcome.wrong_count == 0, "every request is answered or refused");
  expect_recovery(server, findings);
  expect_end(server, findings);
  return {};
}

Status Campaign::at_descriptor_limit(Findings& findings) const {
  constexpr uint64_t kDescriptors = 64;
  constexpr int kClients = 200;
  ServerProcess server(arguments_.program, collection_, scratch_, {.descriptors = kDescriptors});
  SACCADE_TRY(started(server));
  fmt::print("descriptors: {} clients, {} descriptors\n", kClients, kDescriptors);
  std::vector<LoadKind> kinds = test::good_clients(picture_);
  for (LoadKind& kind : kinds) kind.right.push_back(0);  // turned away
  std::vector<LoadKind> slow = test::slow_clients(picture_, 0.2);
  for (LoadKind& kind : slow) kind.right.push_back(0);
  kinds.insert(kinds.end(), slow.begin(), slow.end());
  LoadOutcome outcome = test::put_under_load(server.port(), kClients, arguments_.limit_seconds, kinds,
                                             {.cut_off = arguments_.is_short()});
  tell("clients", outcome, arguments_.limit_seconds);
  tell_statuses(outcome);
  findings.expect(outcome.wrong_count == 0, "every request is answered or refused");
  findings.expect(outcome.statuses["search"][200] > 0, "searches are answered");
  findings.expect(outcome.statuses["search by picture"][200] > 0, "pictures are decoded");
  expect_recovery(server, findings);
  expect_end(server, findings);
  return {};
}

Status run(const Arguments& arguments, Findings& findings) {
  SACCADE_ASSIGN(const TemporaryFolder scratch, TemporaryFolder::make());
  Campaign campaign(arguments, scratch.path());
  SACCADE_TRY(campaign.prepare());
  const auto part = [&](const char* name, Status (Campaign::*runs)(Findings&) const) -> Status {
    if (!arguments.only.empty() && arguments.only != name) return {};
    return (campaign.*runs)(findings).in(name);
  };
  SACCADE_TRY(part("soak", &Campaign::soak));
  SACCADE_TRY(part("memory", &Campaign::at_memory_limit));
  SACCADE_TRY(part("descriptors", &Campaign::at_descriptor_limit));
  return {};
}

Result<Arguments> read_arguments(int count, char** words) {
  Arguments arguments;
  const std::map<std::string, std::function<void(const std::string&)>> options = {
      {"--seconds", [&](const std::string& value) { arguments.seconds = std::stod(value); }},
      {"--connections", [&](const std::string& value) { arguments.connections = std::stoi(value); }},
      {"--limit-seconds", [&](const std::string& value) { arguments.limit_seconds = std::stod(value); }},
      {"--rows", [&](const std::string& value) { arguments.rows = std::stoll(value); }},
      {"--memory-percent", [&](const std::string& value) { arguments.memory_percent = std::stod(value); }},
      {"--health-ms", [&](const std::string& value) { arguments.health_ms = std::stod(value); }},
      {"--only", [&](const std::string& value) { arguments.only = value; }},
      {"--program", [&](const std::string& value) { arguments.program = value; }}};
  for (int i = 1; i < count; i += 2) {
    const auto option = options.find(words[i]);
    if (option == options.end() || i + 1 == count)
      return fail(ErrorCode::kUsage, "\"{}\" is no option with a value", words[i]);
    try {
      option->second(words[i + 1]);
    } catch (const std::exception&) {
      return fail(ErrorCode::kUsage, "{} takes a number, not \"{}\"", words[i], words[i + 1]);
    }
  }
  return arguments;
}

}  // namespace
}  // namespace saccade::serve

int main(int count, char** words) {
  const auto arguments = saccade::serve::read_arguments(count, words);
  if (!arguments) {
    fmt::print(stderr, "{}\n", arguments.error().message);
    return 2;
  }
  saccade::serve::test::allow_many_files();
  saccade::serve::Findings findings;
  const saccade::Status status = saccade::serve::run(*arguments, findings);
  if (!status) fmt::print(stderr, "{}\n", status.error().message);
  return status && findings.failed() == 0 ? 0 : 1;
}
