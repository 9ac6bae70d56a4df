// Benchmark of start-up time: from starting the program to its exit. It runs commands that take no time of
// their own, and one search over a small collection, with the starter and with a CLIP of random weights in fp32,
// bf16 and int8: what a person waits for from the command to the first answer. Shapes are those that
// SACCADE_BENCH_SHAPES lists, of ViT-B/32, ViT-L/14 and ViT-H/14 (or "all": 6 GB on disk); the default is ViT-B/32.
//
// Each iteration runs an empty process (/bin/true) first, so that "of_empty" compares the machine with
// itself. Other load disturbs wall times, but hardly processor time (user and system, all threads). Files are
// in the page cache. Memory is the process's peak resident memory, in runs of their own, because these are traced.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <spawn.h>
#include <string>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/image/image_codec.h"

#include "random_checkpoint.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kPictures = 40;
// The shapes, and in how many images they search: indexing takes a larger one seconds an image.
constexpr std::pair<ClipShape, int> kShapes[] = {{kVitB32, kPictures}, {kVitL14, 4}, {kVitH14, 4}};
constexpr int kMemoryRuns = 3;

struct Run {
  int code = -1;
  double seconds = 0;
  double processor_seconds = 0;
};

// Returns the arguments of exec, which end with nullptr and borrow from `words`.
std::vector<char*> arguments_of(std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

// The program's output is discarded.
Run run(std::vector<std::string> words) {
  const std::vector<char*> argv = arguments_of(words);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  Run result;
  pid_t child = 0;
  const auto start = std::chrono::steady_clock::now();
  const int error = ::posix_spawn(&child, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return result;
  int status = 0;
  rusage usage{};
  if (::wait4(child, &status, 0, &usage) != child) return result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  result.processor_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

// Returns the peak resident memory of a living process in megabytes; nullopt if it has none any more.
std::optional<double> resident_peak(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024 / 1e6;
  }
  return std::nullopt;
}

// Runs the program once more and reads its peak resident memory when it exits; nullopt if it cannot be traced or does not
// succeed. ru_maxrss would not do: the child of posix_spawn shares our memory until exec, and ru_maxrss keeps that.
std::optional<double> peak_megabytes(std::vector<std::string> words) {
  const std::vector<char*> argv = arguments_of(words);
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(null, STDOUT_FILENO);
    ::dup2(null, STDERR_FILENO);
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0) ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  // It stops first at exec.
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return std::nullopt;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, static_cast<long>(PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL));
  std::optional<double> peak;
  long deliver = 0;
  do {
    // This fails only if the process was killed, which waitpid tells.
    ::ptrace(PTRACE_CONT, child, nullptr, deliver);
    if (::waitpid(child, &status, 0) != child) return std::nullopt;
    deliver = 0;
    if (!WIFSTOPPED(status)) continue;
    if (status >> 8 == (SIGTRAP | (PTRACE_EVENT_EXIT << 8))) {
      peak = resident_peak(child);
    } else {
      deliver = WSTOPSIG(status);
    }
  } while (WIFSTOPPED(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? peak : std::nullopt;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void start_and_end(benchmark::State& state, const std::vector<std::string>& words) {
  std::vector<double> seconds, processor, empty;
  for (auto unused : state) {
    empty.push_back(run({"/bin/true"}).seconds);
    const Run once = run(words);
    if (once.code != 0) return state.SkipWithError("the program failed");
    state.SetIterationTime(once.seconds);
    seconds.push_back(once.seconds);
    processor.push_back(once.processor_seconds);
  }
  state.counters["median_ms"] = 1e3 * median(seconds);
  state.counters["least_ms"] = 1e3 * *std::min_element(seconds.begin(), seconds.end());
  state.counters["cpu_ms"] = 1e3 * median(processor);
  state.counters["least_cpu_ms"] = 1e3 * *std::min_element(processor.begin(), processor.end());
  double megabytes = 0;
  for (int i = 0; i < kMemoryRuns; ++i) megabytes = std::max(megabytes, peak_megabytes(words).value_or(0));
  if (megabytes > 0) state.counters["peak_RSS_MB"] = megabytes;
  state.counters["empty_ms"] = 1e3 * median(empty);
  state.counters["of_empty"] = median(seconds) / median(empty);
}

Status make_pictures(const fs::path& folder, int count) {
  std::error_code error;
  fs::create_directories(folder, error);
  for (int i = 0; i < count; ++i) {
    Image image{96, 96, 3, PixelMode::kRgb, std::vector<uint8_t>(size_t{96} * 96 * 3)};
    for (size_t at = 0; at < image.pixels.size(); ++at) {
      image.pixels[at] =
          static_cast<uint8_t>(at * static_cast<size_t>(i + 3) / 97 + static_cast<size_t>(i) * 5);
    }
    SACCADE_ASSIGN(const std::string png, encode_png(image));
    SACCADE_TRY(write_file_atomic(folder / fmt::format("{}.png", i), png));
  }
  return {};
}

// Makes a CLIP with its own tokenizer.
Status make_checkpoint(const fs::path& folder, const ClipShape& shape) {
  std::error_code error;
  fs::create_directories(folder, error);
  SACCADE_TRY(write_random_clip(folder, shape));
  for (const char* name : {"vocab.json", "merges.txt"}) {
    fs::copy_file(fs::path(test::kSourceDir) / "tests/golden/tokenizers/clip" / name, folder / name, error);
    if (error) return fail(ErrorCode::kIo, "copy {}: {}", name, error.message());
  }
  return {};
}

Status index(const fs::path& pictures, const fs::path& collection, const fs::path& model,
             const std::string& precision = "fp32") {
  const Run made =
      run({SACCADE_PROGRAM, "index", pictures, "-c", collection, "-m", model, "--precision", precision});
  if (made.code != 0) return fail(ErrorCode::kInternal, "saccade index ended with {}", made.code);
  return {};
}

// A search to measure: its name, and the collection's folder.
using Searches = std::vector<std::pair<std::string, fs::path>>;

Status prepare(const fs::path& folder, Searches& searches) {
  // The program's cache of checkpoints stays in the folder.
  ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  const auto pictures = [&](int count) -> Result<fs::path> {
    fs::path made = folder / fmt::format("pictures-{}", count);
    SACCADE_TRY(make_pictures(made, count));
    return made;
  };
  SACCADE_ASSIGN(const fs::path many, pictures(kPictures));
  SACCADE_TRY(index(many, folder / "starter", fs::path(test::kSourceDir) / "models/starter"));
  searches.emplace_back("start/search/starter", folder / "starter");
  for (const auto& [shape, count] : kShapes) {
    if (!is_wanted_shape(shape.name)) continue;
    std::string name = shape.name;
    std::erase(name, '/');
    SACCADE_ASSIGN(const fs::path indexed, pictures(count));
    SACCADE_TRY(make_checkpoint(folder / name, shape));
    for (const std::string precision : {"fp32", "bf16", "int8"}) {
      const fs::path collection = folder / fmt::format("{}-{}", name, precision);
      SACCADE_TRY(index(indexed, collection, folder / name, precision));
      searches.emplace_back(
          fmt::format("start/search/{}{}", name, precision == "fp32" ? "" : "/" + precision), collection);
    }
  }
  return {};
}

int run_all(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  auto scratch = ScratchFolder::make();
  Searches searches;
  const Status prepared =
      scratch ? prepare(scratch->path(), searches) : Status(tl::unexpected(scratch.error()));
  if (!prepared) {
    std::fprintf(stderr, "start_bench: %s\n", prepared.error().message.c_str());
    return 1;
  }
  const auto add = [](const std::string& name, const std::vector<std::string>& words) {
    benchmark::RegisterBenchmark(name.c_str(),
                                 [words](benchmark::State& state) { start_and_end(state, words); })
        ->Iterations(30)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  };
  const std::string program = SACCADE_PROGRAM;
  add("start/version", {program, "--version"});
  add("start/help", {program, "--help"});
  for (const auto& [name, collection] : searches) {
    add(name, {program, "search", "-c", collection, "a", "red", "car"});
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace saccade::bench

int main(int argc, char** argv) {
  return saccade::bench::run_all(argc, argv);
}
