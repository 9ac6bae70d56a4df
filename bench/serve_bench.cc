// Benchmark of `saccade serve` under load, on loopback, in a separate process.
//
//   serve/idle   one client: the time of a text query over HTTP, and of the same library call here,
//                alternating: medians
//   serve/load   64 connections that send text queries, over 100,000 rows: queries per second and latency
//                percentiles, for new texts and for repeated ones. Compared with the encoder's texts per
//                second on such texts in batches of 64, and with the library's queries per second one after
//                the other. Each is also given in milliseconds of processor time, which other work
//                disturbs less
//   serve/soak   2,000 connections of good, slow, broken and huge requests: invalid answers
//                (test_load.h), and the server's memory before, half-way and after
//
// usage: serve_bench [--benchmark_filter=serve/idle] [--checkpoint starter|vit-b-32|vit-l-14|FOLDER]
//                    [--rows N] [--connections N] [--seconds S] [--soak S] [--clients N] [--program PATH]
// Rows are random, since their meaning does not matter. vit-l-14 has that model's text tower and ViT-B/32's
// image tower, which texts do not use.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/collection.h"
#include "saccade/core/base64.h"
#include "saccade/core/files/files.h"
#include "saccade/core/rows.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/source_dir.h"
#include "saccade/image/image.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/search/search.h"
#include "saccade/search/keywords/word_search.h"
#include "saccade/serve/test_load.h"

#include "random_checkpoint.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;
using serve::test::LoadKind;
using serve::test::LoadOutcome;

struct Arguments {
  std::string checkpoint = "vit-b-32";
  std::string program = SACCADE_PROGRAM;
  int64_t rows = 100'000;
  int connections = 64;
  double seconds = 20;
  double soak = 120;
  int clients = 2000;
  std::string parts = ".";  // a regular expression that finds those to run

  [[nodiscard]] bool runs(const char* part) const {
    return std::regex_search(std::string("serve/") + part, std::regex(parts));
  }
};

// Returns distinct texts of typical lengths.
std::vector<std::string> texts(size_t count) {
  const std::vector<std::string> words = {"a",    "red",   "bell", "on",    "the",  "table",  "with",
                                          "two",  "cats",  "in",   "front", "of",   "old",    "house",
                                          "near", "water", "blue", "bird",  "tree", "evening"};
  std::minstd_rand random(7);
  std::vector<std::string> made;
  for (size_t i = 0; i < count; ++i) {
    std::string text;
    for (size_t w = 0; w < 5 + i % 5; ++w) text += (w > 0 ? " " : "") + words[random() % words.size()];
    made.push_back(text);
  }
  return made;
}

Result<fs::path> checkpoint_folder(const std::string& named, const fs::path& scratch) {
  if (named == "starter") return starter_checkpoint();
  if (named != "vit-b-32" && named != "vit-l-14") return fs::path(named);
  ClipShape shape = kVitB32;
  if (named == "vit-l-14") {
    shape.text = kVitL14.text;
    shape.projection = kVitL14.projection;
  }
  const fs::path folder = scratch / named;
  std::error_code made;
  fs::create_directories(folder, made);
  SACCADE_TRY(write_random_clip(folder, shape));
  const fs::path words = fs::path(test::kSourceDir) / "tests/golden/tokenizers/clip";
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"}) {
    std::error_code error;
    fs::copy_file(words / name, folder / name, error);
  }
  return folder;
}

Status make_collection(const fs::path& folder, const LoadedEncoder& loaded, int64_t rows) {
  SACCADE_ASSIGN(CollectionWriter writer, CollectionWriter::create(folder, loaded.id));
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto captions = texts(1000);
  for (int64_t row = 0; row < rows;) {
    CollectionChange change;
    for (; row < rows && change.puts.size() < 10'000; ++row) {
      CollectionChange::Put put;
      put.item.path = fmt::format("/nowhere/{:06}.jpg", row);
      put.item.hash = fmt::format("{:064x}", row);
      put.item.format = "jpeg";
      put.item.width = put.item.height = 640;
      // One image in fifty has words of the queries. A word in half of all captions would say nothing about
      // any.
      put.item.caption = row % 50 == 0 ? captions[static_cast<size_t>(row / 50) % captions.size()]
                                       : fmt::format("picture {}", row);
      for (int64_t c = 0; c < loaded.id.dim; ++c) put.values.push_back(normal(random));
      const auto length = static_cast<float>(row_length(put.values));
      for (float& value : put.values) value /= length;
      change.puts.push_back(std::move(put));
    }
    SACCADE_TRY(writer.commit(change));
  }
  return {};
}

// `saccade serve` of that collection; the destructor ends it.
class ServerProcess {
 public:
  ServerProcess(const std::string& program, const fs::path& collection, const fs::path& scratch) {
    const std::string out = (scratch / "serving").string();
    const std::string log = (scratch / "log").string();
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(::open(out.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), STDOUT_FILENO);
      ::dup2(::open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), STDERR_FILENO);
      ::execl(program.c_str(), program.c_str(), "serve", "-q", "-c", collection.c_str(), "--listen",
              "127.0.0.1:0", nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 1200 && port_ == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const auto said = read_file(out, 4096);
      if (said && said->ends_with('\n'))
        port_ = static_cast<uint16_t>(std::stoi(said->substr(said->rfind(':') + 1)));
    }
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() { (void)stop(); }

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] bool alive() const { return process_ > 0 && ::waitpid(process_, nullptr, WNOHANG) == 0; }
  // Returns the resident memory in bytes.
  [[nodiscard]] int64_t memory() const { return pages(1) * ::sysconf(_SC_PAGESIZE); }
  // Returns the processor time so far in seconds, of all its threads.
  [[nodiscard]] double worked() const {
    std::ifstream file(fmt::format("/proc/{}/stat", process_));
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
    std::string skipped;
    for (int i = 3; i < 14; ++i) fields >> skipped;  // up to the field before utime, counted as in proc(5)
    double user = 0;
    double system = 0;
    fields >> user >> system;
    return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }
  // Returns its exit status; -1 if it was ended by a signal.
  int stop() {
    if (process_ <= 0) return 0;
    ::kill(process_, SIGTERM);
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  [[nodiscard]] int64_t pages(int which) const {
    std::ifstream file(fmt::format("/proc/{}/statm", process_));
    int64_t value = 0;
    for (int i = 0; i <= which; ++i) file >> value;
    return value;
  }
  pid_t process_ = 0;
  uint16_t port_ = 0;
};

// Returns the processor time of this process in seconds, on all its threads.
double own_work() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

std::string query_of(const std::string& text) {
  std::string query = text;
  std::ranges::replace(query, ' ', '+');
  return "/api/search?k=10&q=" + query;
}

void tell(const char* what, LoadOutcome& outcome, double seconds) {
  fmt::print(
      "{}: {} requests, {:.1f} a second, {} wrong; answered 200: p50 {:.1f} ms, p95 {:.1f} ms, p99 {:.1f} ms\n",
      what, outcome.requests, static_cast<double>(outcome.requests) / seconds, outcome.wrong_count,
      1e3 * outcome.percentile(0.5), 1e3 * outcome.percentile(0.95), 1e3 * outcome.percentile(0.99));
  for (const std::string& wrong : outcome.wrong) fmt::print("  wrong: {}\n", wrong);
}

Status idle(const ServerProcess& server, const fs::path& folder, EncoderBackend& encoder) {
  SACCADE_ASSIGN(const Collection collection, Collection::open(folder));
  ThreadPool pool;
  const auto asked = texts(200);
  std::vector<double> here;
  std::vector<double> there;
  for (const std::string& text : asked) {
    SearchQuery query;
    query.text = text;
    query.word_share = kWordShare;
    const auto start = std::chrono::steady_clock::now();
    SACCADE_TRY(search(collection, encoder, query, pool));
    here.push_back(seconds_since(start));
    const std::vector<LoadKind> once = {
        {.name = "query", .request = serve::test::load_request("GET", query_of(text)), .right = {200}}};
    LoadOutcome outcome = serve::test::ask_once(server.port(), once.front());
    if (outcome.wrong_count > 0) return fail(ErrorCode::kInternal, "{}", outcome.wrong.front());
    there.push_back(outcome.seconds.back());
  }
  fmt::print("idle: library {:.2f} ms, over HTTP {:.2f} ms, {:+.2f} ms\n", 1e3 * median(here),
             1e3 * median(there), 1e3 * (median(there) - median(here)));
  return {};
}

Status load(const ServerProcess& server, const fs::path& folder, EncoderBackend& encoder,
            const Arguments& arguments) {
  // There are so many that hardly any is repeated, since the server caches recent texts.
  const auto asked = texts(400'000);
  std::vector<TokenizedText> tokens;
  for (const std::string& text : std::span(asked).first(4096))
    tokens.push_back(encoder.tokenizer()->encode(text, encoder.info().context));
  // Measures the encoder alone and the library alone, before and after the server, since other load changes.
  std::vector<double> encoder_rates;
  std::vector<double> encoder_work;
  const auto encode = [&]() -> Status {
    const auto start = std::chrono::steady_clock::now();
    const double before = own_work();
    int64_t encoded = 0;
    for (size_t i = 0; seconds_since(start) < arguments.seconds / 4;
         i = (i + 64) % tokens.size(), encoded += 64) {
      SACCADE_TRY(encoder.encode_texts(std::span(tokens).subspan(i, 64)));
    }
    encoder_rates.push_back(static_cast<double>(encoded) / seconds_since(start));
    encoder_work.push_back((own_work() - before) / static_cast<double>(encoded));
    return {};
  };
  SACCADE_TRY(encode());
  std::vector<LoadKind> kinds;
  for (const std::string& text : asked) {
    kinds.push_back(
        {.name = "query", .request = serve::test::load_request("GET", query_of(text)), .right = {200}});
  }
  (void)serve::test::put_under_load(server.port(), arguments.connections, 1, kinds);
  const auto start = std::chrono::steady_clock::now();
  const double before = server.worked();
  LoadOutcome outcome =
      serve::test::put_under_load(server.port(), arguments.connections, arguments.seconds, kinds);
  const double took = seconds_since(start);
  const double work =
      (server.worked() - before) / static_cast<double>(std::max<int64_t>(1, outcome.requests));
  SACCADE_TRY(encode());
  const std::vector<LoadKind> few(kinds.begin(), kinds.begin() + 512);
  const auto again = std::chrono::steady_clock::now();
  LoadOutcome remembered =
      serve::test::put_under_load(server.port(), arguments.connections, arguments.seconds / 2, few, 2);
  const double took_again = seconds_since(again);
  tell(fmt::format("load, {} connections, {} rows", arguments.connections, arguments.rows).c_str(), outcome,
       took);
  tell("load, 512 texts again and again", remembered, took_again);
  const double rate = static_cast<double>(outcome.requests) / took;
  const double alone = (encoder_rates[0] + encoder_rates[1]) / 2;
  fmt::print("encoder alone, batches of 64: {:.1f} and {:.1f} texts a second; served {:.2f} of it\n",
             encoder_rates[0], encoder_rates[1], rate / alone);
  fmt::print(
      "of the processor: {:.2f} ms a request of the server, {:.2f} and {:.2f} ms a text of the encoder\n",
      1e3 * work, 1e3 * encoder_work[0], 1e3 * encoder_work[1]);
  SACCADE_ASSIGN(const Collection collection, Collection::open(folder));
  ThreadPool pool;
  const auto one_by_one = std::chrono::steady_clock::now();
  const double before_those = own_work();
  int64_t searched = 0;
  for (; seconds_since(one_by_one) < arguments.seconds / 4; ++searched) {
    SearchQuery query;
    query.text = asked[static_cast<size_t>(searched) % asked.size()];
    query.word_share = kWordShare;
    SACCADE_TRY(search(collection, encoder, query, pool));
  }
  fmt::print("library, one query after the other: {:.1f} a second, {:.2f} ms of the processor each\n",
             static_cast<double>(searched) / seconds_since(one_by_one),
             1e3 * (own_work() - before_those) / static_cast<double>(searched));
  return {};
}

Status soak(const ServerProcess& server, const Arguments& arguments) {
  Image picture{.width = 64, .height = 64, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  for (int i = 0; i < 64 * 64 * 3; ++i) picture.pixels.push_back(static_cast<uint8_t>(i * 31));
  SACCADE_ASSIGN(const std::string png, encode_png(picture));
  const auto kinds = serve::test::mixed_clients("data:image/png;base64," + encode_base64(png));
  // Memory that a server takes once, for threads and pools, is not a leak, so the server is warmed up before
  // the first measurement. A leak grows in the second half as it did in the first.
  const auto memory = [&] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    return static_cast<double>(server.memory()) / 1e6;
  };
  (void)serve::test::put_under_load(server.port(), arguments.clients, std::min(60.0, arguments.soak / 5),
                                    kinds, 5);
  const double before = memory();
  for (const uint32_t half : {1U, 2U}) {
    const auto start = std::chrono::steady_clock::now();
    LoadOutcome outcome =
        serve::test::put_under_load(server.port(), arguments.clients, arguments.soak / 2, kinds, half);
    const double took = seconds_since(start);
    tell(fmt::format("soak, {} clients, {:.0f} s", arguments.clients, took).c_str(), outcome, took);
    for (const auto& [kind, statuses] : outcome.statuses) {
      std::string line;
      for (const auto& [status, count] : statuses) line += fmt::format(" {} x {}", status, count);
      fmt::print("  {}:{}\n", kind, line);
    }
    const double after = memory();
    fmt::print("memory before {:.1f} MB, now {:.1f} MB, {:+.1f}%; alive: {}\n", before, after,
               100 * (after / before - 1), server.alive());
    std::fflush(stdout);
  }
  return {};
}

Status run(const Arguments& arguments) {
  if (!arguments.runs("idle") && !arguments.runs("load") && !arguments.runs("soak")) return {};
  SACCADE_ASSIGN(const ScratchFolder scratch, ScratchFolder::make());
  SACCADE_ASSIGN(const fs::path checkpoint, checkpoint_folder(arguments.checkpoint, scratch.path()));
  SACCADE_ASSIGN(const LoadedEncoder loaded, load_checkpoint(checkpoint.string()));
  if (loaded.encoder->tokenizer() == nullptr) return fail(ErrorCode::kUnsupported, "no tokenizer");
  const fs::path folder = scratch.path() / "pictures";
  SACCADE_TRY(make_collection(folder, loaded, arguments.rows));
  ServerProcess server(arguments.program, folder, scratch.path());
  if (server.port() == 0) {
    return fail(ErrorCode::kInternal, "the server does not start: {}",
                read_file(scratch.path() / "log").value_or(""));
  }
  fmt::print("{}, {} rows of {}\n", arguments.checkpoint, arguments.rows, loaded.id.dim);
  if (arguments.runs("idle")) SACCADE_TRY(idle(server, folder, *loaded.encoder));
  if (arguments.runs("load")) SACCADE_TRY(load(server, folder, *loaded.encoder, arguments));
  if (arguments.runs("soak")) SACCADE_TRY(soak(server, arguments));
  fmt::print("the server's exit status: {}\n", server.stop());
  return {};
}

}  // namespace
}  // namespace saccade::bench

int main(int count, char** words) {
  saccade::bench::Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string option = words[i];
    constexpr std::string_view kFilter = "--benchmark_filter=";
    if (option.starts_with(kFilter)) {  // as `./dev bench` gives it to all
      arguments.parts = option.substr(kFilter.size());
      continue;
    }
    const std::string value = i + 1 < count ? words[++i] : "";
    if (option == "--checkpoint") arguments.checkpoint = value;
    if (option == "--program") arguments.program = value;
    if (option == "--rows") arguments.rows = std::stoll(value);
    if (option == "--connections") arguments.connections = std::stoi(value);
    if (option == "--seconds") arguments.seconds = std::stod(value);
    if (option == "--soak") arguments.soak = std::stod(value);
    if (option == "--clients") arguments.clients = std::stoi(value);
  }
  struct rlimit files = {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const saccade::Status status = saccade::bench::run(arguments);
  if (!status) fmt::print(stderr, "{}\n", status.error().message);
  return status ? 0 : 1;
}
