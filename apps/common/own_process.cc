#include "own_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/files/files.h"

namespace saccade::app {
namespace {

constexpr const char* kStarter = "SACCADE_STARTED_BY";  // process id of the starter, in the environment
constexpr int kLookMilliseconds = 100;                  // how often somebody who asks to stop is heard

// Everything until the other end is closed.
std::string read_all(int pipe, pid_t child, const std::stop_token& stop) {
  std::string text;
  std::array<char, 1 << 14> buffer{};
  for (bool told = false;;) {
    if (stop.stop_requested() && !told) {
      ::kill(child, SIGTERM);
      told = true;
    }
    pollfd wait{.fd = pipe, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wait, 1, kLookMilliseconds);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
}

}  // namespace

Result<OwnProcess> run_own_process(std::span<const std::string> arguments, const std::stop_token& stop) {
  const std::string starter = fmt::format("{}={}", kStarter, ::getpid());
  return run_process("/proc/self/exe", arguments, std::span(&starter, 1), stop);
}

void end_with_starter() {
  const char* starter = std::getenv(kStarter);  // NOLINT(concurrency-mt-unsafe)
  if (starter == nullptr) return;
  const std::string id = starter;
  ::unsetenv(kStarter);  // NOLINT(concurrency-mt-unsafe): processes that this one starts have another starter
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (fmt::format("{}", ::getppid()) != id) ::raise(SIGTERM);  // it had gone before
}

Result<OwnProcess> run_process(const std::filesystem::path& program, std::span<const std::string> arguments,
                               std::span<const std::string> environment, const std::stop_token& stop) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);

  std::vector<std::string> words = {"saccade"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> added(environment.begin(), environment.end());
  std::vector<char*> variables;  // of a name given twice, the first counts
  for (std::string& variable : added) variables.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  variables.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, write_end.get(), STDOUT_FILENO);
  // A process group of its own: a terminal's Ctrl-C comes to us alone, and to it through us.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, program.c_str(), &files, &attributes, argv.data(), variables.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return fail_errno(error, fmt::format("start {} in a process of its own", program.string()));

  write_end = Descriptor();
  OwnProcess result;
  result.out = read_all(read_end.get(), child, stop);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace saccade::app
