#include "traced_program.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

namespace saccade::campaign {
namespace {

using CallInfo = __ptrace_syscall_info;

std::atomic<pid_t> traced_process = 0;

void pass_on(int signal) {
  if (const pid_t process = traced_process) ::kill(process, signal);
}

bool changes_files(const CallInfo& call) {
  constexpr std::array kChanging = {
    SYS_write,
    SYS_pwrite64,
    SYS_writev,
    SYS_pwritev,
    SYS_renameat2,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_linkat,
    SYS_symlinkat,
    SYS_ftruncate,
    SYS_truncate,
    SYS_fallocate,
    SYS_copy_file_range,
    SYS_sendfile,
    SYS_fsync,
    SYS_fdatasync,
    SYS_utimensat,
    SYS_flock,
    SYS_renameat,
#if defined(__x86_64__)
    SYS_rename,
    SYS_unlink,
    SYS_rmdir,
    SYS_mkdir,
    SYS_link,
#endif
  };
  const auto number = static_cast<long>(call.entry.nr);
  if (std::ranges::find(kChanging, number) != kChanging.end()) return true;
  return number == SYS_openat && (call.entry.args[2] & (O_CREAT | O_TRUNC)) != 0;
}

// Lets a write at whose entry a thread stands write its first half only.
void halve_write([[maybe_unused]] pid_t thread, [[maybe_unused]] const CallInfo& call) {
#if defined(__x86_64__)
  const auto number = static_cast<long>(call.entry.nr);
  if ((number != SYS_write && number != SYS_pwrite64) || call.entry.args[2] < 2) return;
  user_regs_struct registers{};
  if (::ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return;
  registers.rdx /= 2;
  ::ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
#endif
}

class Tracer {
 public:
  Tracer(pid_t process, const KillPoint& point) : process_(process), point_(point) {}

  int follow() {
    for (;;) {
      int status = 0;
      const pid_t thread = ::waitpid(-1, &status, __WALL);
      if (thread < 0 && errno == EINTR) continue;
      if (thread < 0) return -1;
      if (WIFEXITED(status) || WIFSIGNALED(status)) {
        if (thread == process_) return status;
        continue;
      }
      if (WIFSTOPPED(status)) resume(thread, status);
    }
  }
  void write_counts(const std::filesystem::path& file) const {
    std::ofstream(file) << all_ << '\n' << changing_ << '\n';
  }

 private:
  void resume(pid_t thread, int status) {
    const int signal = WSTOPSIG(status);
    int deliver = 0;
    if (signal == (SIGTRAP | 0x80)) {
      at_call(thread);
    } else if (signal == SIGTRAP && (status >> 16) != 0) {
      // A thread has begun, or exec.
    } else if (known_.insert(thread).second && signal == SIGSTOP) {
      // The stop that each traced thread begins with.
    } else {
      deliver = signal;
    }
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, static_cast<long>(deliver));
  }

  void at_call(pid_t thread) {
    CallInfo call{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof call, &call) <= 0) return;
    const bool entry = call.op == PTRACE_SYSCALL_INFO_ENTRY;
    if (entry && changes_files(call)) changing_threads_.insert(thread);
    const bool changing = changing_threads_.contains(thread);
    if (!entry) changing_threads_.erase(thread);
    ++all_;
    if (changing) ++changing_;
    if (point_.stop == 0) return;
    if (thread == torn_thread_) {
      ::kill(process_, SIGKILL);
      return;
    }
    if ((point_.changes_only ? changing_ : all_) != point_.stop || (point_.changes_only && !changing)) return;
    if (point_.torn && entry && changing) {
      halve_write(thread, call);
      torn_thread_ = thread;
      return;
    }
    ::kill(process_, SIGKILL);
  }

  pid_t process_;
  KillPoint point_;
  int64_t all_ = 0;
  int64_t changing_ = 0;
  pid_t torn_thread_ = 0;
  std::set<pid_t> known_ = {process_};
  std::set<pid_t> changing_threads_;  // between entry and exit of a call that changes files
};

}  // namespace

int run_traced(const std::vector<std::string>& command, const KillPoint& point,
               const std::filesystem::path& counts) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t process = ::fork();
  if (process < 0) return -1;
  if (process == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(126);
    ::raise(SIGSTOP);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  if (::waitpid(process, &status, 0) != process || !WIFSTOPPED(status)) return -1;
  constexpr long kOptions =
      PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  if (::ptrace(PTRACE_SETOPTIONS, process, nullptr, kOptions) != 0) {
    ::kill(process, SIGKILL);
    ::waitpid(process, &status, 0);
    return -1;
  }
  traced_process = process;
  struct sigaction action {};
  action.sa_handler = pass_on;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  Tracer tracer(process, point);
  ::ptrace(PTRACE_SYSCALL, process, nullptr, nullptr);
  status = tracer.follow();
  traced_process = 0;
  if (!counts.empty()) tracer.write_counts(counts);
  return status;
}

}  // namespace saccade::campaign
