// The kill campaign: `saccade` is killed at random system calls, and run on file systems that fill up; after each time
// its collection is looked at. See docs/reliability.md.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_folder.h"
#include "saccade/core/random.h"

#include "kill_scenarios.h"
#include "kill_world.h"
#include "traced_program.h"

namespace saccade::campaign {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFailures = 5;  // after which the campaign ends

struct Options {
  int64_t kills = 1000;
  int64_t full_disks = 200;
  uint64_t seed = 1;
  std::string scenario;
  std::string folder;
};

// A scenario's state before and after its work, from a pass that nothing disturbed.
struct Prepared {
  Content before;
  Content after;
  StopCounts counts;
  int64_t growth = 0;  // bytes of files
};

struct Tally {
  int64_t runs = 0;
  int64_t kills = 0;
  int64_t refused = 0;  // runs on full disks that ended with an error
};

int64_t bytes_below(const fs::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    constexpr int64_t kPage = 4096;
    if (entry.is_regular_file())
      bytes += (static_cast<int64_t>(entry.file_size()) + kPage - 1) / kPage * kPage;
  }
  return bytes;
}

class Campaign {
 public:
  Campaign(World& world, const Options& options) : world_(world), options_(options) {}

  Status prepare(const Scenario& scenario) {
    if (prepared_.contains(scenario.name)) return {};
    scenario.prepare(world_);
    world_.keep(std::string(scenario.name));
    Prepared made;
    SACCADE_ASSIGN(const auto before, world_.content());
    made.before = before.value_or(Content{});
    made.growth = -bytes_below(world_.work());
    Attempt attempt;
    if (const ProgramEnd end = scenario.work(world_, attempt); end.code != 0) {
      return fail(ErrorCode::kInternal, "undisturbed, it ends with code {}: {}", end.code,
                  world_.last_errors());
    }
    made.counts = world_.last_counts();
    made.growth = std::max<int64_t>(0, made.growth + bytes_below(world_.work()));
    SACCADE_ASSIGN(const auto after, world_.content());
    made.after = after.value_or(Content{});
    SACCADE_TRY(world_.verify());
    SACCADE_TRY(world_.no_orphans());
    prepared_[scenario.name] = std::move(made);
    return {};
  }

  // Up to three kills of one scenario's work, the next where the last left it, and then the work to its end.
  Status kill_run(const Scenario& scenario, SplitMix& random) {
    const Prepared& known = prepared_.at(scenario.name);
    world_.restore(std::string(scenario.name));
    Attempt attempt;
    const uint64_t rounds = 1 + random.below(3);
    for (uint64_t round = 0; round < rounds; ++round) {
      KillPoint& point = attempt.point;
      point.changes_only = random.below(2) == 0;
      const int64_t stops = point.changes_only ? known.counts.changing : known.counts.all;
      point.stop = 1 + static_cast<int64_t>(random.below(static_cast<uint32_t>(stops)));
      point.torn = random.below(3) == 0;
      told_ = fmt::format("round {}, stop {} of {} ({}{})", round + 1, point.stop, stops,
                          point.changes_only ? "changes of files" : "all calls", point.torn ? ", torn" : "");
      const ProgramEnd end = scenario.work(world_, attempt);
      SACCADE_TRY(World::wait_for_strays());
      if (end.killed) ++tally_[scenario.name].kills;
      if (!end.killed && end.code != 0) {
        return fail(ErrorCode::kInternal, "ended with code {}: {}", end.code, world_.last_errors());
      }
      SACCADE_TRY(world_.verify());
      SACCADE_TRY(world_.between(known.before, known.after, attempt.acknowledged));
      if (!end.killed) break;
    }
    return finish(scenario, attempt);
  }

  // The work on a file system with less room than it may need, then with enough.
  Status full_disk_run(const Scenario& scenario, SplitMix& random) {
    constexpr int64_t kEnough = int64_t{256} << 20;
    const Prepared& known = prepared_.at(scenario.name);
    SACCADE_TRY(world_.mount_work(kEnough));
    world_.restore(std::string(scenario.name));
    SACCADE_ASSIGN(const int64_t used, world_.used_bytes());
    const int64_t range = known.growth + (int64_t{160} << 10);
    const auto room = static_cast<int64_t>(random.below(static_cast<uint32_t>(range)));
    told_ = fmt::format("{} bytes of room", room);
    SACCADE_TRY(world_.mount_work(used + room));
    Attempt attempt;
    attempt.patience = 4;
    const ProgramEnd end = scenario.work(world_, attempt);
    SACCADE_TRY(World::wait_for_strays());
    const std::string errors = world_.last_errors();
    if (end.code >= 128)
      return fail(ErrorCode::kInternal, "ended by a signal, code {}: {}", end.code, errors);
    if (end.code != 0) {
      ++tally_[scenario.name].refused;
      if (errors.empty()) return fail(ErrorCode::kInternal, "ended with code {} and no message", end.code);
    }
    SACCADE_TRY(world_.mount_work(kEnough));
    SACCADE_TRY(world_.verify());
    SACCADE_TRY(world_.between(known.before, known.after, attempt.acknowledged));
    SACCADE_TRY(finish(scenario, attempt));
    return world_.mount_work(0);
  }

  // One run of a seed; what failed is printed with how to repeat it.
  bool run(uint64_t seed, bool full_disk) {
    SplitMix random(seed);
    std::vector<Scenario> chosen;
    for (const Scenario& scenario : scenarios()) {
      if (options_.scenario.empty() || options_.scenario == scenario.name) chosen.push_back(scenario);
    }
    const Scenario& scenario = chosen[random.below(static_cast<uint32_t>(chosen.size()))];
    told_ = "undisturbed";
    Status status = prepare(scenario);
    ++tally_[scenario.name].runs;
    if (status) status = full_disk ? full_disk_run(scenario, random) : kill_run(scenario, random);
    if (status) return true;
    std::string repeat = fmt::format("--seed {}", seed);
    if (!options_.scenario.empty()) repeat += " --scenario " + options_.scenario;
    repeat += full_disk ? " --full-disk 1 0" : " --full-disk 0 1";
    fmt::print(stderr, "FAILED: {}, seed {}, {}: {}\n  to repeat it: ./dev campaign kill {}\n", scenario.name,
               seed, told_, status.error().message, repeat);
    keep_failed(seed);
    return false;
  }

  [[nodiscard]] int64_t kills() const {
    int64_t kills = 0;
    for (const auto& [name, tally] : tally_) kills += tally.kills;
    return kills;
  }
  void print_tally(std::string_view title, bool full_disk) {
    fmt::print("{}\n", title);
    Tally sum;
    for (const auto& [name, tally] : tally_) {
      fmt::print("  {:<16} {:5} runs  {:5} {}\n", name, tally.runs, full_disk ? tally.refused : tally.kills,
                 full_disk ? "refused" : "kills");
      sum.runs += tally.runs;
      sum.kills += full_disk ? tally.refused : tally.kills;
    }
    fmt::print("  {:<16} {:5} runs  {:5} {}\n", "together", sum.runs, sum.kills,
               full_disk ? "refused" : "kills");
    std::fflush(stdout);
    tally_.clear();
  }

 private:
  // The work once more, undisturbed: after it all is as if nothing had happened.
  Status finish(const Scenario& scenario, Attempt& attempt) {
    const Prepared& known = prepared_.at(scenario.name);
    told_ += ", then undisturbed";
    attempt.point = {};
    attempt.patience = 60;
    const ProgramEnd end = scenario.work(world_, attempt);
    if (end.code != 0)
      return fail(ErrorCode::kInternal, "ended with code {}: {}", end.code, world_.last_errors());
    SACCADE_TRY(World::wait_for_strays());
    SACCADE_TRY(world_.verify());
    SACCADE_TRY(world_.between(known.after, known.after, {}));
    return world_.no_orphans();
  }

  void keep_failed(uint64_t seed) const {
    if (options_.folder.empty()) {
      fmt::print(stderr, "  with --folder DIR what it left is kept there\n");
    } else {
      world_.keep(fmt::format("failed-{}", seed));
      fmt::print(stderr, "  what it left: {}\n",
                 (world_.base() / "states" / fmt::format("failed-{}", seed)).string());
    }
    (void)world_.mount_work(0);
  }

  World& world_;
  const Options& options_;
  std::map<std::string_view, Prepared> prepared_;
  std::map<std::string_view, Tally> tally_;
  std::string told_;  // the run that is being made, for the message of its failure
};

Status write_text(const char* path, const std::string& text) {
  const Descriptor file(::open(path, O_WRONLY | O_CLOEXEC));
  if (file.get() < 0 || ::write(file.get(), text.data(), text.size()) != std::ssize(text)) {
    return fail_errno(errno, path);
  }
  return {};
}

// Lets this process mount file systems that nobody else sees.
Status enter_own_mounts() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (user == 0 && ::unshare(CLONE_NEWNS) == 0) {
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return fail_errno(errno, "make mounts private");
    return {};
  }
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return fail(ErrorCode::kUnsupported,
                "neither root nor user namespaces ({}; see kernel.unprivileged_userns_clone, "
                "user.max_user_namespaces)",
                std::strerror(errno));
  }
  SACCADE_TRY(write_text("/proc/self/setgroups", "deny"));
  SACCADE_TRY(write_text("/proc/self/uid_map", fmt::format("0 {} 1", user)));
  return write_text("/proc/self/gid_map", fmt::format("0 {} 1", group));
}

// campaign_kill --trace STOP all|changes torn|whole COUNTS PROGRAM...
int trace(const std::vector<std::string>& words) {
  const KillPoint point{
      .stop = std::stoll(words[0]), .changes_only = words[1] == "changes", .torn = words[2] == "torn"};
  const int status = run_traced({words.begin() + 4, words.end()}, point, words[3]);
  if (status == -1) return 96;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int attack(const Options& options, const fs::path& base) {
  // Before the mounts are this process's own: in a chroot its link then names a path outside.
  const fs::path self = fs::canonical("/proc/self/exe");
  bool full_disks = options.full_disks > 0;
  if (full_disks) {
    Status mounts = enter_own_mounts();
    if (!mounts) fmt::print(stderr, "no runs on full file systems: {}\n", mounts.error().message);
    full_disks = mounts.has_value();
  }
  World world(base, SACCADE_PROGRAM, self);
  prepare_inputs(world);
  Campaign campaign(world, options);
  int failures = 0;
  uint64_t seed = options.seed;
  // A run may end before its kill: there is a bound on runs without any.
  const uint64_t most = seed + 10 * static_cast<uint64_t>(options.kills) + 10;
  for (; campaign.kills() < options.kills && seed < most && failures < kMostFailures; ++seed) {
    if (!campaign.run(seed, false)) ++failures;
  }
  if (options.kills > 0)
    campaign.print_tally(fmt::format("killed, seeds {} to {}", options.seed, seed - 1), false);
  if (full_disks) {
    const uint64_t end = options.seed + static_cast<uint64_t>(options.full_disks);
    for (seed = options.seed; seed < end && failures < kMostFailures; ++seed) {
      if (!campaign.run(seed, true)) ++failures;
    }
    campaign.print_tally(fmt::format("on full file systems, seeds {} to {}", options.seed, seed - 1), true);
  }
  fmt::print("{} failures\n", failures);
  return failures == 0 ? 0 : 1;
}

int run_campaign(int argc, char** argv) {
  if (argc > 6 && std::string_view(argv[1]) == "--trace") return trace({argv + 2, argv + argc});
  Options options;
  CLI::App app(
      "Kills saccade at random system calls, runs it on file systems that fill up, and looks at what is left.",
      "./dev campaign kill");
  app.add_option("kills", options.kills, "Number of kills")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--full-disk", options.full_disks, "Number of runs on file systems that fill up")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", options.seed, "Seed of the first run; each run has the next")
      ->capture_default_str();
  app.add_option("--scenario", options.scenario, "One scenario alone (default: all, chosen by the seed)");
  app.add_option("--folder", options.folder,
                 "Folder to work in, which is kept (default: one in memory, removed)");
  CLI11_PARSE(app, argc, argv);
  const bool known = options.scenario.empty() || std::ranges::any_of(scenarios(), [&](const Scenario& s) {
                       return s.name == options.scenario;
                     });
  if (!known) {
    fmt::print(stderr, "no scenario \"{}\"; there are:", options.scenario);
    for (const Scenario& scenario : scenarios()) fmt::print(stderr, " {}", scenario.name);
    fmt::print(stderr, "\n");
    return 2;
  }
  // What a killed program leaves running is handed to us.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!options.folder.empty()) {
    fs::create_directories(options.folder);
    return attack(options, fs::canonical(options.folder));
  }
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
  const auto folder = TemporaryFolder::make();
  if (!folder) {
    fmt::print(stderr, "{}\n", folder.error().message);
    return 2;
  }
  return attack(options, fs::canonical(folder->path()));
}

}  // namespace
}  // namespace saccade::campaign

int main(int argc, char** argv) {
  // A shell's background job ignores them, and so would the programs that are asked to stop.
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
  return saccade::campaign::run_campaign(argc, argv);
}
