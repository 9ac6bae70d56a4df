// A program run under ptrace, so that it can be killed at a chosen system call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace saccade::campaign {

// When a traced program is killed. A program that makes fewer system calls ends by itself.
struct KillPoint {
  // The stop at which the process gets SIGKILL: each system call has two, before and after the kernel carries it
  // out. 0: never.
  int64_t stop = 0;
  // Count only calls that change files (write, rename, fsync, ...).
  bool changes_only = false;
  // Where the stop falls before a write, let the kernel write only the first half of it before the kill.
  bool torn = false;
};

// Runs a program, its path first, with the environment and streams of this process, and returns its wait status.
// All its threads are traced, the processes that it starts are not. SIGTERM and SIGINT sent to this process are passed
// on. The number of stops of all calls and of those that change files is written to `counts`, two lines, at its end,
// if `counts` is not empty. -1 where the program could not be started or traced.
int run_traced(const std::vector<std::string>& command, const KillPoint& point,
               const std::filesystem::path& counts);

}  // namespace saccade::campaign
