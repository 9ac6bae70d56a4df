#include "saccade/core/process/limited_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "saccade/core/files/files.h"
#include "saccade/core/process/spawn_settings.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kLookMilliseconds = 100;  // interval of checks of the clock and the stop token
constexpr size_t kErrorBytes = 4096;

struct Pipe {
  Descriptor read;
  Descriptor write;
};

// Both ends above the standard streams, so that dup2 in the child never meets the descriptor itself.
Result<Pipe> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  const Descriptor low_read(ends[0]);
  const Descriptor low_write(ends[1]);
  Pipe pipe{Descriptor(::fcntl(low_read.get(), F_DUPFD_CLOEXEC, 3)),
            Descriptor(::fcntl(low_write.get(), F_DUPFD_CLOEXEC, 3))};
  if (pipe.read.get() < 0 || pipe.write.get() < 0) return fail_errno(errno, "make a pipe");
  return pipe;
}

class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      (void)wait();
    }
  }
  struct End {
    int status = 0;
    double seconds = 0;
  };
  End wait() {
    End end;
    rusage used{};
    while (::wait4(pid_, &end.status, 0, &used) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    end.seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
    return end;
  }

 private:
  pid_t pid_;
};

// Builds a shell command that sets the limits and then becomes the program, so nothing of the program runs
// without them. ulimit counts memory in KiB and files in blocks of 512 bytes. The hard time limit is a second
// above the soft one: at an equal limit the kernel's signal would be that of any kill.
// OpenBLAS, which ffmpeg may be linked to, takes 128 MiB for each of its threads when it is loaded. Where the
// limit of the data leaves no room for them, it tries again without end. So it gets one thread.
std::vector<std::string> limited_command(const fs::path& program, std::span<const std::string> arguments,
                                         const ProcessLimits& limits) {
  const int64_t seconds = std::max<int64_t>(1, std::llround(std::ceil(limits.seconds)));
  // The child ends with this process, however that ends. We wait for it in the thread that starts it, so the
  // end of this thread is the end of the program. util-linux, which has setpriv, is on every Debian;
  // elsewhere the child's own limits end it.
  const auto ends_with_us = find_program("setpriv");
  const std::string data =
      limits.data_bytes > 0 ? fmt::format("ulimit -d {} && ", limits.data_bytes / 1024) : "";
  const std::string script = fmt::format(
      "ulimit -c 0 && ulimit -S -t {} && ulimit -H -t {} && ulimit -v {} && {}ulimit -f {} && "
      "export OPENBLAS_NUM_THREADS=1 && exec {}\"$0\" "
      "\"$@\"",
      seconds, seconds + 1, limits.memory_bytes / 1024, data, limits.file_bytes / 512,
      ends_with_us ? "setpriv --pdeathsig KILL -- " : "");
  std::vector<std::string> command = {"sh", "-c", script, program.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

Result<pid_t> spawn(std::vector<std::string> command, const Pipe& out, const Pipe& errors, int input) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  SpawnSettings settings;
  if (input < 0) posix_spawn_file_actions_addopen(&settings.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (input >= 0) posix_spawn_file_actions_adddup2(&settings.files, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&settings.files, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&settings.files, errors.write.get(), STDERR_FILENO);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, "/bin/sh", &settings.files, &settings.attributes, argv.data(), environ);
  if (error != 0) return fail_errno(error, "start /bin/sh");
  return child;
}

// Reads the available bytes. Returns false at the end of the stream.
bool drain(const Descriptor& from, std::string& into, size_t most) {
  std::array<char, 65536> block{};
  const ssize_t got = ::read(from.get(), block.data(), block.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  if (into.size() < most) into.append(block.data(), std::min(static_cast<size_t>(got), most - into.size()));
  return true;
}

}  // namespace

std::optional<fs::path> find_program(std::string_view name) {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  for (;;) {
    const size_t end = rest.find(':');
    const fs::path file = fs::path(rest.substr(0, end)) / name;
    std::error_code error;
    if (file.is_absolute() && fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0)
      return file;
    if (end == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(end + 1);
  }
}

Result<ProcessOutcome> run_limited(const fs::path& program, std::span<const std::string> arguments,
                                   const ProcessLimits& limits, const std::stop_token& stop, int input) {
  const std::string name = program.filename().string();
  SACCADE_ASSIGN(Pipe out, make_pipe());
  SACCADE_ASSIGN(Pipe errors, make_pipe());
  SACCADE_ASSIGN(const pid_t pid,
                 spawn(limited_command(program, arguments, limits), out, errors, input).in(name));
  Child child(pid);
  out.write = Descriptor();
  errors.write = Descriptor();

  const auto start = Clock::now();
  const double patience = 10 * limits.seconds + 10;
  // One byte above the limit shows that there is more.
  const auto most = static_cast<size_t>(limits.output_bytes) + 1;
  ProcessOutcome outcome;
  bool out_open = true;
  bool errors_open = true;
  while (out_open || errors_open) {
    // poll ignores negative descriptors.
    std::array<pollfd, 2> ends = {pollfd{out_open ? out.read.get() : -1, POLLIN, 0},
                                  pollfd{errors_open ? errors.read.get() : -1, POLLIN, 0}};
    const int ready = ::poll(ends.data(), ends.size(), kLookMilliseconds);
    if (ready < 0 && errno != EINTR) return fail_errno(errno, "wait for " + name);
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "{}: asked to stop", name);
    if (std::chrono::duration<double>(Clock::now() - start).count() > patience) {
      return fail(ErrorCode::kLimit, "{} did not end within {:.0f} seconds", name, patience);
    }
    if (ready <= 0) continue;
    if (ends[0].revents != 0) out_open = drain(out.read, outcome.out, most);
    if (ends[1].revents != 0) errors_open = drain(errors.read, outcome.errors, kErrorBytes);
    if (outcome.out.size() == most) {
      return fail(ErrorCode::kLimit, "{} wrote more than {} MiB", name, limits.output_bytes >> 20);
    }
  }
  const Child::End end = child.wait();
  outcome.seconds = end.seconds;
  if (WIFSIGNALED(end.status)) {
    const int signal = WTERMSIG(end.status);
    if (signal == SIGXCPU || end.seconds >= 0.9 * limits.seconds) {
      return fail(ErrorCode::kLimit, "{} did not end within {:.0f} seconds of processor time", name,
                  limits.seconds);
    }
    if (signal == SIGXFSZ) {
      return fail(ErrorCode::kLimit, "{} wrote a file of more than {} MiB", name, limits.file_bytes >> 20);
    }
    return fail(ErrorCode::kBadData, "{} was ended by a signal ({}; {} MiB of memory allowed)", name,
                ::strsignal(signal), limits.memory_bytes >> 20);
  }
  outcome.code = WEXITSTATUS(end.status);
  return outcome;
}

}  // namespace saccade
