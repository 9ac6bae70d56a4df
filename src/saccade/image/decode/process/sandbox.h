// Sandbox of a process that reads foreign bytes: the rights that it drops before reading any.
#pragma once

#include <cstdint>
#include <string>

namespace saccade {

// Isolation that this kernel granted.
struct Isolation {
  uint32_t landlock = 0;        // version of its interface; 0: files are not closed off
  bool seccomp = false;         // system calls are filtered
  bool memory_limited = false;  // RLIMIT_DATA is set

  // "files: Landlock 7; system calls: seccomp; memory: limited": one line.
  [[nodiscard]] std::string describe() const;
};

// Restricts this process for the rest of its life, as far as the kernel can (each step on its own):
// - no core file; files and files in memory of at most `memory_bytes`; so much memory of its own;
// - Landlock: files may be read below the system's folders of libraries and fonts and the user's of fonts
//   (texts in vector images need them); no other reads, no writes, and no TCP;
// - seccomp: the system calls of a program that computes. No sockets, no new process or program, no signals
//   to others, files opened for reading only, no change of its limits of memory and of files; the rest answers
//   as an old kernel would.
// Call it once, from the only thread. memory_bytes = 0: no limit.
Isolation isolate(int64_t memory_bytes);

// False in sanitized builds: RLIMIT_DATA would count their shadow memory, terabytes that are never used.
bool memory_can_be_limited();

}  // namespace saccade
