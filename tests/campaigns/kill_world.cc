#include "kill_world.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_files.h"
#include "saccade/core/source_dir.h"

namespace saccade::campaign {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kKilled = 137;  // the exit code of `--trace` where the program was killed

// Between fork and exec.
[[noreturn]] void become(std::vector<std::string> words, const fs::path& work, const fs::path& out,
                         const fs::path& errors) {
  const int output = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int error = ::open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int input = ::open("/dev/null", O_RDONLY);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  for (const char* name : {"SACCADE_COLLECTION", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}) {
    ::unsetenv(name);
  }
  ::setenv("HOME", (work / "home").c_str(), 1);
  ::setenv("TMPDIR", (work / "tmp").c_str(), 1);
  if (::chdir(work.c_str()) != 0) ::_exit(98);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(97);
}

void copy_all(const fs::path& from, const fs::path& to) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execlp("cp", "cp", "-a", (from / ".").c_str(), to.c_str(), nullptr);
    ::_exit(97);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) {
    fmt::print(stderr, "cp -a {} {} failed\n", from.string(), to.string());
    std::abort();
  }
}

float cosine(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += a[i] * b[i];
  return sum;
}

// Whether the item is the one that is expected; an absent one is a null pointer.
bool same(const KnownItem* item, const KnownItem* expected) {
  if (item == nullptr || expected == nullptr) return item == expected;
  return item->hash == expected->hash && cosine(item->row, expected->row) > 0.9999F;
}

const KnownItem* find(const Content& content, const std::string& path) {
  const auto found = content.find(path);
  return found == content.end() ? nullptr : &found->second;
}

}  // namespace

World::World(fs::path base, fs::path saccade, fs::path itself)
    : base_(std::move(base)), saccade_(std::move(saccade)), itself_(std::move(itself)) {
  fs::create_directories(work());
  fs::create_directories(base_ / "logs");
}

std::string World::checkpoint() const {
  return (fs::path(test::kSourceDir) / "models/starter").string();
}

void World::clear() const {
  for (const auto& entry : fs::directory_iterator(work())) fs::remove_all(entry.path());
  for (const char* name : {"home", "tmp"}) fs::create_directory(work() / name);
}

void World::keep(const std::string& name) const {
  fs::create_directories(base_ / "states" / name);
  copy_all(work(), base_ / "states" / name);
}

void World::restore(const std::string& name) const {
  for (const auto& entry : fs::directory_iterator(work())) fs::remove_all(entry.path());
  copy_all(base_ / "states" / name, work());
}

Status World::mount_work(int64_t bytes) {
  const std::string size = fmt::format("size={}", bytes);
  if (bytes == 0) {
    if (mounted_ && ::umount2(work().c_str(), MNT_DETACH) != 0) return fail_errno(errno, "umount");
    mounted_ = false;
    return {};
  }
  const unsigned long flags = mounted_ ? MS_REMOUNT : 0;
  if (::mount("campaign", work().c_str(), "tmpfs", flags, size.c_str()) != 0) {
    return fail(ErrorCode::kUnsupported, "mount a tmpfs at {}: {}", work().string(), std::strerror(errno));
  }
  mounted_ = true;
  return {};
}

Result<int64_t> World::used_bytes() const {
  struct statvfs info {};
  if (::statvfs(work().c_str(), &info) != 0) return fail_errno(errno, "statvfs");
  return static_cast<int64_t>((info.f_blocks - info.f_bfree) * info.f_frsize);
}

RunningProgram World::start(const std::vector<std::string>& arguments, const KillPoint& point) {
  RunningProgram program;
  program.run = ++runs_;
  std::vector<std::string> words = {itself_.string(),
                                    "--trace",
                                    std::to_string(point.stop),
                                    point.changes_only ? "changes" : "all",
                                    point.torn ? "torn" : "whole",
                                    (base_ / "logs" / fmt::format("counts-{}", program.run)).string(),
                                    saccade_.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  program.process = ::fork();
  if (program.process == 0) {
    become(std::move(words), work(), base_ / "logs" / fmt::format("out-{}", program.run),
           base_ / "logs" / fmt::format("err-{}", program.run));
  }
  return program;
}

std::optional<ProgramEnd> World::poll(const RunningProgram& program) {
  int status = 0;
  const pid_t ended = ::waitpid(program.process, &status, WNOHANG);
  if (ended == 0) return std::nullopt;
  ProgramEnd end;
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  end.killed = end.code == kKilled;
  return end;
}

ProgramEnd World::wait(const RunningProgram& program, double seconds) {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    if (const auto end = poll(program)) return *end;
    if (Clock::now() > until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::kill(program.process, SIGKILL);  // the traced program goes with its tracer
  ::waitpid(program.process, nullptr, 0);
  return {.killed = false, .code = 128 + SIGALRM};
}

ProgramEnd World::run(const std::vector<std::string>& arguments, const KillPoint& point) {
  return wait(start(arguments, point));
}

void World::signal(const RunningProgram& program, int number) {
  ::kill(program.process, number);
}

std::string World::out(const RunningProgram& program) const {
  return read_file(base_ / "logs" / fmt::format("out-{}", program.run)).value_or("");
}

std::string World::errors(const RunningProgram& program) const {
  return read_file(base_ / "logs" / fmt::format("err-{}", program.run)).value_or("");
}

std::string World::last_errors() const {
  return read_file(base_ / "logs" / fmt::format("err-{}", runs_)).value_or("");
}

StopCounts World::last_counts() const {
  StopCounts counts;
  std::ifstream(base_ / "logs" / fmt::format("counts-{}", runs_)) >> counts.all >> counts.changing;
  return counts;
}

Status World::wait_for_strays(double seconds) {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0) return {};
    if (ended > 0) continue;
    if (Clock::now() > until) {
      return fail(ErrorCode::kLimit, "a process that a killed program had started still runs after {} s",
                  seconds);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Result<std::optional<Content>> World::content() const {
  if (!is_collection(collection())) return std::optional<Content>{};
  SACCADE_ASSIGN(const CollectionReader opened, CollectionReader::open(collection()));
  Content content;
  const auto add = [&](const Item& item) -> Status {
    const auto row = opened.rows().row(item.row);
    const auto [at, fresh] =
        content.emplace(item.path, KnownItem{item.id, item.hash, {row.begin(), row.end()}});
    if (!fresh) return fail(ErrorCode::kBadData, "{} is there twice", item.path);
    return {};
  };
  SACCADE_TRY(opened.for_each_item(add));
  return std::optional<Content>(std::move(content));
}

Status World::verify() {
  if (!is_collection(collection())) return {};
  const RunningProgram program = start({"collection", "verify", "-c", "c", "--json"});
  const ProgramEnd end = wait(program);
  if (end.code == 0) return {};
  return fail(ErrorCode::kBadData, "verify: exit code {}: {}{}", end.code, out(program), last_errors());
}

Status World::between(const Content& before, const Content& after,
                      const std::vector<std::string>& acknowledged) const {
  SACCADE_ASSIGN(const std::optional<Content> now, content());
  const Content found = now.value_or(Content{});
  std::set<std::string> paths;
  for (const Content* some : {&before, &after, &found}) {
    for (const auto& [path, item] : *some) paths.insert(path);
  }
  for (const std::string& path : paths) {
    const KnownItem* item = find(found, path);
    if (same(item, find(after, path))) continue;
    if (std::ranges::find(acknowledged, path) != acknowledged.end()) {
      return fail(ErrorCode::kBadData, "{}: the change was acknowledged, and is lost", path);
    }
    if (same(item, find(before, path))) continue;
    return fail(ErrorCode::kBadData, "{}: {}", path,
                item == nullptr ? "is lost" : "is neither as before the change nor as after it");
  }
  return {};
}

Status World::no_orphans() const {
  for (const auto& entry : fs::recursive_directory_iterator(work())) {
    if (temporary_of(entry.path().filename().string())) {
      return fail(ErrorCode::kBadData, "{} was left over", entry.path().string());
    }
  }
  if (!fs::is_empty(work() / "tmp")) {
    return fail(ErrorCode::kBadData, "{} was left over",
                fs::directory_iterator(work() / "tmp")->path().string());
  }
  if (!is_collection(collection())) return {};
  SACCADE_ASSIGN(const CollectionReader opened, CollectionReader::open(collection()));
  SACCADE_ASSIGN(const CollectionSummary summary, opened.summary());
  const std::string rows = fmt::format("rows-{}.f32", summary.generation);
  const std::set<std::string> own = {"collection.json",
                                     "catalog.sqlite",
                                     "catalog.sqlite-wal",
                                     "catalog.sqlite-shm",
                                     "lock",
                                     "background.safetensors",
                                     rows,
                                     fmt::format("rows-{}.i8", summary.generation)};
  for (const auto& entry : fs::directory_iterator(collection())) {
    if (!own.contains(entry.path().filename().string())) {
      return fail(ErrorCode::kBadData, "{} was left over", entry.path().string());
    }
  }
  const auto row_bytes = static_cast<uintmax_t>(summary.rows * opened.info().checkpoint.dim) * sizeof(float);
  if (const uintmax_t bytes = fs::file_size(collection() / rows); bytes != row_bytes) {
    return fail(ErrorCode::kBadData, "{} has {} bytes, {} rows have {}", rows, bytes, summary.rows,
                row_bytes);
  }
  SACCADE_ASSIGN(const std::optional<Content> items, content());
  if (!fs::exists(work() / "uploads")) return {};
  for (const auto& entry : fs::recursive_directory_iterator(work() / "uploads")) {
    if (entry.is_regular_file() && !items->contains(entry.path().string())) {
      return fail(ErrorCode::kBadData, "no item names {}", entry.path().string());
    }
  }
  return {};
}

}  // namespace saccade::campaign
