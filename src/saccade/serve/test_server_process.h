// Server process for benchmarks and campaigns: `saccade serve` on loopback, with optional limits of the
// system, and a collection of random rows for it.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/collection_writer.h"
#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/rows.h"
#include "saccade/model/checkpoints/locate.h"

namespace saccade::serve::test {

// Texts as people write them: of a few words, each another one.
inline std::vector<std::string> written_texts(size_t count) {
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

// Makes a collection of `rows` random rows, of files that are nowhere. A server of it encodes in `precision`.
inline Status make_random_collection(const std::filesystem::path& folder, const CheckpointId& id,
                                     int64_t rows, Precision precision = Precision::kFp32) {
  IngestSettings settings;
  settings.precision = precision;
  SACCADE_ASSIGN(CollectionWriter writer, CollectionWriter::create(folder, id, settings));
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto captions = written_texts(1000);
  for (int64_t row = 0; row < rows;) {
    CollectionChange change;
    for (; row < rows && change.puts.size() < 10'000; ++row) {
      CollectionChange::Put put;
      put.item.path = fmt::format("/nowhere/{:06}.jpg", row);
      put.item.hash = fmt::format("{:064x}", row);
      put.item.format = "jpeg";
      put.item.width = put.item.height = 640;
      // One in fifty has words of the queries: a word that half of all pictures have says nothing of any.
      put.item.caption = row % 50 == 0 ? captions[static_cast<size_t>(row / 50) % captions.size()]
                                       : fmt::format("picture {}", row);
      for (int64_t c = 0; c < id.dim; ++c) put.values.push_back(normal(random));
      const auto length = static_cast<float>(row_length(put.values));
      for (float& value : put.values) value /= length;
      change.puts.push_back(std::move(put));
    }
    SACCADE_TRY(writer.commit(change));
  }
  return {};
}

// Raises the number of descriptors that this process may have open as far as it may.
inline void allow_many_files() {
  struct rlimit files = {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// Limits that the system holds the server to; 0: as this process's.
struct ServerLimits {
  uint64_t address_space = 0;  // bytes (ulimit -v)
  uint64_t descriptors = 0;    // ulimit -n
};

// `saccade serve` of one collection; ended with it.
class ServerProcess {
 public:
  // scratch: a folder for what it prints, and its home. Waits until it listens, or has ended.
  ServerProcess(const std::string& program, const std::filesystem::path& collection,
                const std::filesystem::path& scratch, ServerLimits limits = {})
      : log_((scratch / "log").string()) {
    const std::string out = (scratch / "serving").string();
    std::error_code ignored;
    std::filesystem::remove(out, ignored);  // an earlier server's
    process_ = ::fork();
    if (process_ == 0) run(program, collection, scratch, limits, out);
    for (int i = 0; i < 1200 && port_ == 0 && alive(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const auto said = read_file(out, 4096);
      if (said && said->ends_with('\n'))
        port_ = static_cast<uint16_t>(std::stoi(said->substr(said->rfind(':') + 1)));
    }
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() { (void)stop(); }

  // 0: it has not started, and log() says why.
  [[nodiscard]] uint16_t port() const { return port_; }
  // Its last words on stderr.
  [[nodiscard]] std::string log() const {
    std::ifstream file(log_, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return text.substr(text.size() - std::min<size_t>(text.size(), 4000));
  }
  [[nodiscard]] bool alive() {
    if (process_ > 0 && ::waitpid(process_, &status_, WNOHANG) == process_) process_ = 0;
    return process_ > 0;
  }
  // Returns how the process ended, once it is no longer alive.
  [[nodiscard]] std::string end() const {
    if (WIFSIGNALED(status_)) return fmt::format("ended by signal {}", WTERMSIG(status_));
    return fmt::format("ended with {}", WEXITSTATUS(status_));
  }
  // Resident, in bytes.
  [[nodiscard]] int64_t memory() const { return status_field("VmRSS:"); }
  // Returns the peak address space in bytes, which ServerLimits::address_space bounds.
  [[nodiscard]] int64_t address_space() const { return status_field("VmPeak:"); }
  // Open now.
  [[nodiscard]] int64_t descriptors() const {
    std::error_code ignored;
    return std::distance(std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", process_), ignored),
                         {});
  }
  // Seconds of the processor so far, of all its threads.
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
  // Asks it to end. Its exit status; -1 where it was ended by a signal, also by the one that ends it for good
  // after kStopSeconds.
  int stop() {
    if (alive()) ::kill(process_, SIGTERM);
    for (int i = 0; i < kStopSeconds * 20 && alive(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (alive()) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, &status_, 0);
      process_ = 0;
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }

 private:
  [[noreturn]] static void run(const std::string& program, const std::filesystem::path& collection,
                               const std::filesystem::path& scratch, const ServerLimits& limits,
                               const std::string& out) {
    ::dup2(::open(out.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), STDOUT_FILENO);
    ::dup2(::open((scratch / "log").c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), STDERR_FILENO);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive who started it
    ::setenv("HOME", (scratch / "home").c_str(), 1);
    for (const char* name : {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}) ::unsetenv(name);
    const auto limit = [](auto resource, uint64_t value) {
      const struct rlimit both = {value, value};
      if (value > 0 && ::setrlimit(resource, &both) != 0) ::_exit(126);
    };
    limit(RLIMIT_AS, limits.address_space);
    limit(RLIMIT_NOFILE, limits.descriptors);
    ::execl(program.c_str(), program.c_str(), "serve", "-q", "-c", collection.c_str(), "--listen",
            "127.0.0.1:0", nullptr);
    ::_exit(127);
  }
  // Returns a field of /proc/PID/status, in bytes.
  [[nodiscard]] int64_t status_field(const std::string& name) const {
    std::ifstream file(fmt::format("/proc/{}/status", process_));
    for (std::string line; std::getline(file, line);)
      if (line.starts_with(name)) return 1024 * std::stoll(line.substr(name.size()));
    return 0;
  }

  static constexpr int kStopSeconds = 30;  // as long as systemd waits, by the unit in docs/serve.md

  const std::string log_;
  pid_t process_ = 0;
  int status_ = 0;
  uint16_t port_ = 0;
};

}  // namespace saccade::serve::test
