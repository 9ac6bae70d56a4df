// Benchmark of `saccade serve` under load, on loopback, in a separate process.
//
//   serve/idle   one client: the time of a text query over HTTP, and of the same library call here,
//                alternating: medians
//   serve/load   64 connections that send text queries, over 100,000 rows: queries per second and latency
//                percentiles, for new texts and for repeated ones. Compared with the encoder's texts per
//                second on such texts in batches of 64, and with the library's queries per second one after
//                the other. Each is also given in milliseconds of processor time, which other work
//                disturbs less
//   serve/half   requests that arrive by themselves, at half of the rate of serve/load: latency percentiles from
//                a request's arrival, beside those of full load
//
// usage: serve_bench [--benchmark_filter=serve/idle] [--checkpoint starter|vit-b-32|vit-l-14|FOLDER]
//                    [--precision fp32|bf16|int8] [--rows N] [--connections N] [--seconds S] [--program PATH]
// Rows are random, since their meaning does not matter. vit-l-14 has that model's text tower and ViT-B/32's
// image tower, which texts do not use.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/source_dir.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/search/keywords/keyword_search.h"
#include "saccade/search/search.h"
#include "saccade/serve/test_load.h"
#include "saccade/serve/test_server_process.h"

#include "random_checkpoint.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;
using serve::test::LoadKind;
using serve::test::LoadOutcome;
using serve::test::ServerProcess;
using serve::test::written_texts;

struct Arguments {
  std::string checkpoint = "vit-b-32";
  std::string precision = "fp32";
  std::string program = SACCADE_PROGRAM;
  int64_t rows = 100'000;
  int connections = 64;
  double seconds = 20;
  std::string parts = ".";  // a regular expression that finds those to run

  [[nodiscard]] bool runs(const char* part) const {
    return std::regex_search(std::string("serve/") + part, std::regex(parts));
  }
};

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

// Seconds of the processor that this process has worked, on all its threads.
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
  SACCADE_ASSIGN(const CollectionReader collection, CollectionReader::open(folder));
  ThreadPool pool;
  const auto asked = written_texts(200);
  std::vector<double> here;
  std::vector<double> there;
  for (const std::string& text : asked) {
    SearchQuery query;
    query.text = text;
    query.keyword_weight = kWordShare;
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

// Returns queries for the server. There are so many that hardly one is asked for twice, as the server remembers those of a
// moment ago.
std::vector<LoadKind> queries_of(const std::vector<std::string>& texts) {
  std::vector<LoadKind> kinds;
  for (const std::string& text : texts) {
    kinds.push_back(
        {.name = "query", .request = serve::test::load_request("GET", query_of(text)), .right = {200}});
  }
  return kinds;
}

struct FullLoad {
  LoadOutcome outcome;
  double seconds = 0;
  double work = 0;  // the server's seconds of the processor a request

  [[nodiscard]] double rate() const { return static_cast<double>(outcome.requests) / seconds; }
};

FullLoad full_load(const ServerProcess& server, const Arguments& arguments,
                   const std::vector<LoadKind>& kinds) {
  (void)serve::test::put_under_load(server.port(), arguments.connections, 1, kinds);
  FullLoad full;
  const auto start = std::chrono::steady_clock::now();
  const double before = server.worked();
  full.outcome = serve::test::put_under_load(server.port(), arguments.connections, arguments.seconds, kinds);
  full.seconds = seconds_since(start);
  full.work = (server.worked() - before) / static_cast<double>(std::max<int64_t>(1, full.outcome.requests));
  tell(fmt::format("load, {} connections, {} rows", arguments.connections, arguments.rows).c_str(),
       full.outcome, full.seconds);
  return full;
}

void half_load(const ServerProcess& server, const Arguments& arguments, const std::vector<LoadKind>& kinds,
               FullLoad& full) {
  const auto start = std::chrono::steady_clock::now();
  LoadOutcome half =
      serve::test::put_at_rate(server.port(), full.rate() / 2, arguments.seconds, kinds, {.seed = 3});
  tell("half load, requests arrive by themselves", half, seconds_since(start));
  const double p50 = half.percentile(0.5);
  const double p99 = half.percentile(0.99);
  fmt::print(
      "half load: p50 {:.1f} ms, p99 {:.1f} ms, {:.2f} times the median; full load: {:.1f} and {:.1f} ms\n",
      1e3 * p50, 1e3 * p99, p50 > 0 ? p99 / p50 : 0, 1e3 * full.outcome.percentile(0.5),
      1e3 * full.outcome.percentile(0.99));
}

Result<FullLoad> load(const ServerProcess& server, const fs::path& folder, EncoderBackend& encoder,
                      const Arguments& arguments, const std::vector<std::string>& asked,
                      const std::vector<LoadKind>& kinds) {
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
  FullLoad full = full_load(server, arguments, kinds);
  SACCADE_TRY(encode());
  const std::vector<LoadKind> few(kinds.begin(), kinds.begin() + 512);
  const auto again = std::chrono::steady_clock::now();
  LoadOutcome remembered = serve::test::put_under_load(server.port(), arguments.connections,
                                                       arguments.seconds / 2, few, {.seed = 2});
  tell("load, 512 texts again and again", remembered, seconds_since(again));
  const double alone = (encoder_rates[0] + encoder_rates[1]) / 2;
  fmt::print("encoder alone, batches of 64: {:.1f} and {:.1f} texts a second; served {:.2f} of it\n",
             encoder_rates[0], encoder_rates[1], full.rate() / alone);
  fmt::print(
      "of the processor: {:.2f} ms a request of the server, {:.2f} and {:.2f} ms a text of the encoder\n",
      1e3 * full.work, 1e3 * encoder_work[0], 1e3 * encoder_work[1]);
  SACCADE_ASSIGN(const CollectionReader collection, CollectionReader::open(folder));
  ThreadPool pool;
  const auto one_by_one = std::chrono::steady_clock::now();
  const double before_those = own_work();
  int64_t searched = 0;
  for (; seconds_since(one_by_one) < arguments.seconds / 4; ++searched) {
    SearchQuery query;
    query.text = asked[static_cast<size_t>(searched) % asked.size()];
    query.keyword_weight = kWordShare;
    SACCADE_TRY(search(collection, encoder, query, pool));
  }
  fmt::print("library, one query after the other: {:.1f} a second, {:.2f} ms of the processor each\n",
             static_cast<double>(searched) / seconds_since(one_by_one),
             1e3 * (own_work() - before_those) / static_cast<double>(searched));
  return full;
}

Status run(const Arguments& arguments) {
  const bool loads = arguments.runs("load") || arguments.runs("half");
  if (!arguments.runs("idle") && !loads) return {};
  const auto precision = from_name<Precision>(arguments.precision);
  if (!precision) return fail(ErrorCode::kUsage, "no precision {}", arguments.precision);
  SACCADE_ASSIGN(const ScratchFolder scratch, ScratchFolder::make());
  SACCADE_ASSIGN(const fs::path checkpoint, checkpoint_folder(arguments.checkpoint, scratch.path()));
  SACCADE_ASSIGN(const LoadedEncoder loaded, load_checkpoint(checkpoint.string(), {.precision = *precision}));
  if (loaded.encoder->tokenizer() == nullptr) return fail(ErrorCode::kUnsupported, "no tokenizer");
  const fs::path folder = scratch.path() / "pictures";
  SACCADE_TRY(serve::test::make_random_collection(folder, loaded.id, arguments.rows, *precision));
  ServerProcess server(arguments.program, folder, scratch.path());
  if (server.port() == 0) {
    return fail(ErrorCode::kInternal, "the server does not start: {}", server.log());
  }
  fmt::print("{} in {}, {} rows of {}\n", arguments.checkpoint, arguments.precision, arguments.rows,
             loaded.id.dim);
  if (arguments.runs("idle")) SACCADE_TRY(idle(server, folder, *loaded.encoder));
  if (loads) {
    const auto asked = written_texts(400'000);
    const std::vector<LoadKind> kinds = queries_of(asked);
    FullLoad full;
    if (arguments.runs("load")) {
      SACCADE_ASSIGN(full, load(server, folder, *loaded.encoder, arguments, asked, kinds));
    } else {
      full = full_load(server, arguments, kinds);
    }
    if (arguments.runs("half")) half_load(server, arguments, kinds, full);
  }
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
    if (option == "--precision") arguments.precision = value;
    if (option == "--program") arguments.program = value;
    if (option == "--rows") arguments.rows = std::stoll(value);
    if (option == "--connections") arguments.connections = std::stoi(value);
    if (option == "--seconds") arguments.seconds = std::stod(value);
  }
  saccade::serve::test::allow_many_files();
  const saccade::Status status = saccade::bench::run(arguments);
  if (!status) fmt::print(stderr, "{}\n", status.error().message);
  return status ? 0 : 1;
}
