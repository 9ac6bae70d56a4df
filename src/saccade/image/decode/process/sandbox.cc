#include "saccade/image/decode/process/sandbox.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <initializer_list>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/files/files.h"

namespace saccade {
namespace {

void limit(__rlimit_resource what, rlim_t value) {
  const rlimit both = {value, value};
  (void)::setrlimit(what, &both);
}

// Landlock of Debian 12's headers knows files only; what later versions added, as the kernel numbers it.
struct Ruleset {
  uint64_t files = 0;
  uint64_t net = 0;
};

uint32_t close_files() {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return 0;
  // Execute, write, read, list, remove and make in all its ways: 13 rights at first; refer, truncate, ioctl.
  const int rights = version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13;
  Ruleset rules;
  rules.files = (uint64_t{1} << rights) - 1;
  rules.net = version >= 4 ? 3 : 0;  // TCP: bind and connect
  const size_t size = version >= 4 ? sizeof rules : sizeof rules.files;
  const Descriptor ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rules, size, 0)));
  if (ruleset.get() < 0) return 0;

  std::vector<std::string> readable = {
      "/usr", "/lib", "/lib64", "/etc/fonts", "/etc/ld.so.cache", "/var/cache/fontconfig"};
  if (const char* home = ::getenv("HOME"); home != nullptr) {
    for (const char* folder : {"/.fonts", "/.local/share/fonts", "/.config/fontconfig", "/.cache/fontconfig"})
      readable.push_back(std::string(home) + folder);
  }
  for (const std::string& path : readable) {
    const Descriptor place(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (place.get() < 0) continue;
    landlock_path_beneath_attr rule = {};
    rule.parent_fd = place.get();
    // A rule for a file may not speak of listing folders: then without.
    for (const uint64_t allowed : {uint64_t{LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR},
                                   uint64_t{LANDLOCK_ACCESS_FS_READ_FILE}}) {
      rule.allowed_access = allowed;
      if (::syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0) break;
    }
  }
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return 0;
  return static_cast<uint32_t>(version);
}

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

// System calls for computing, reading fonts, and threads of libraries.
// clang-format off
constexpr int kAllowed[] = {
    // messages, pixels, fonts
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_close, SYS_fstat, SYS_newfstatat,
    SYS_lseek, SYS_statx, SYS_statfs, SYS_fstatfs, SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_getdents64,
    SYS_getcwd, SYS_ftruncate, SYS_fadvise64, SYS_recvfrom, SYS_sendto, SYS_ppoll,
    // memory
    SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_membarrier, SYS_mincore,
    SYS_pipe2,  // within the process: how sanitizers ask whether memory can be read
    // threads
    SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_getparam,
    SYS_sched_getscheduler, SYS_exit, SYS_exit_group, SYS_restart_syscall, SYS_set_tid_address,
    // time and signals
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_getrusage,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,
    // who and where
    SYS_getpid, SYS_gettid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_uname, SYS_sysinfo,
    SYS_getrandom, SYS_getcpu,
#if defined(__x86_64__)
    SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_poll, SYS_time, SYS_arch_prctl, SYS_pipe,
#endif
};
// clang-format on

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
    answer(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
  }
  void allow(int number) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1);
    answer(SECCOMP_RET_ALLOW);
  }
  // Allows the call if argument `index` (its lower half) is one of `values` under `mask`; EACCES otherwise.
  void allow_where(int number, size_t index, uint32_t mask, std::initializer_list<uint32_t> values) {
    const auto behind = static_cast<int>(2 * values.size() + 3);
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, behind);
    load(offsetof(seccomp_data, args) + 8 * index);  // both architectures put the lower half first
    add(BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    for (const uint32_t value : values) {
      add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
      answer(SECCOMP_RET_ALLOW);
    }
    answer(SECCOMP_RET_ERRNO | EACCES);
  }
  // EACCES where argument `index` is one of `values`, whatever is allowed later.
  void refuse_where(int number, size_t index, std::initializer_list<uint32_t> values) {
    const auto behind = static_cast<int>(2 * values.size() + 2);
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, behind);
    load(offsetof(seccomp_data, args) + 8 * index);
    for (const uint32_t value : values) {
      add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
      answer(SECCOMP_RET_ERRNO | EACCES);
    }
    load(offsetof(seccomp_data, nr));
  }
  bool install() {
    answer(SECCOMP_RET_ERRNO | ENOSYS);
    const sock_fprog program = {static_cast<unsigned short>(code_.size()), code_.data()};
    return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void add(int code, uint32_t value, int if_true, int if_false) {
    code_.push_back(
        {static_cast<uint16_t>(code), static_cast<uint8_t>(if_true), static_cast<uint8_t>(if_false), value});
  }
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset), 0, 0); }
  void answer(uint32_t verdict) { add(BPF_RET | BPF_K, verdict, 0, 0); }

  std::vector<sock_filter> code_;
};

bool filter_system_calls() {
  if (kArchitecture == 0) return false;
  Filter filter;
  for (const int number : kAllowed) filter.allow(number);
  constexpr uint32_t kAll = ~uint32_t{0};
  constexpr auto kWriting = static_cast<uint32_t>(O_ACCMODE | O_CREAT | O_TRUNC);
  filter.allow_where(SYS_openat, 2, kWriting, {O_RDONLY});
#if defined(__x86_64__)
  filter.allow_where(SYS_open, 1, kWriting, {O_RDONLY});
#endif
  // Threads, not processes. clone3 hides its flags in memory: libraries take ENOSYS for an answer.
  filter.allow_where(SYS_clone, 0, CLONE_THREAD, {CLONE_THREAD});
  // Excludes the commands by which a descriptor sends signals to others.
  filter.allow_where(SYS_fcntl, 1, kAll, {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC});
  filter.allow_where(SYS_prctl, 0, kAll, {PR_SET_NAME});
  // Its own, downwards or within the hard limit; not those by which the program holds it to an image's share.
  filter.refuse_where(SYS_prlimit64, 1, {RLIMIT_DATA, RLIMIT_FSIZE});
  filter.allow_where(SYS_prlimit64, 0, kAll, {0});
  filter.allow_where(SYS_tgkill, 0, kAll, {static_cast<uint32_t>(::getpid())});
  return filter.install();
}

}  // namespace

std::string Isolation::describe() const {
  return fmt::format(
      "files: {}; system calls: {}; memory: {}",
      landlock > 0 ? fmt::format("Landlock {}", landlock) : "open, this kernel has no Landlock",
      seccomp ? "seccomp" : "not filtered, this kernel has no seccomp",
      memory_limited ? "limited" : "not limited");
}

bool memory_can_be_limited() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return true;
#endif
}

Isolation isolate(int64_t memory_bytes) {
  Isolation got;
  limit(RLIMIT_CORE, 0);
  if (memory_bytes > 0) {
    (void)::signal(SIGXFSZ, SIG_IGN);  // a write that fails instead
    limit(RLIMIT_FSIZE, static_cast<rlim_t>(memory_bytes));
  }
  const bool no_new_privileges = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  if (no_new_privileges) got.landlock = close_files();
  if (memory_bytes > 0 && memory_can_be_limited()) {
    limit(RLIMIT_DATA, static_cast<rlim_t>(memory_bytes));
    got.memory_limited = true;
  }
  if (no_new_privileges) got.seccomp = filter_system_calls();
  return got;
}

}  // namespace saccade
