// Execution of external programs under limits that the kernel enforces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "saccade/core/error.h"

namespace saccade {

struct ProcessLimits {
  double seconds = 60;                        // CPU time; elapsed time may be ten times that plus ten
  int64_t memory_bytes = int64_t{1} << 30;    // limit of its address space (RLIMIT_AS)
  int64_t data_bytes = 0;                     // limit of its private writable memory (RLIMIT_DATA); 0: none
  int64_t output_bytes = int64_t{256} << 20;  // on stdout
  int64_t file_bytes = int64_t{1} << 30;      // limit of each file that it writes (RLIMIT_FSIZE)
};

struct ProcessOutcome {
  int code = 0;        // its exit code
  std::string out;     // its standard output
  std::string errors;  // beginning of its standard error, 4 KiB
  double seconds = 0;  // its CPU time
};

// Returns the program of that name in the folders of PATH.
std::optional<std::filesystem::path> find_program(std::string_view name);

// Runs a program with these arguments (without its name); the working directory and the environment are
// inherited, with OPENBLAS_NUM_THREADS=1. Its stdin is the descriptor `input`, or empty if that is negative.
// Returns kLimit if it took too long or wrote too much, and kBadData if a signal ended it (out of memory, a
// crash). Returns kCancelled on a stop request, and kIo if it could not be started. After an error its process
// group is killed. A non-zero exit code is not an error here. Thread-safe.
Result<ProcessOutcome> run_limited(const std::filesystem::path& program,
                                   std::span<const std::string> arguments, const ProcessLimits& limits,
                                   const std::stop_token& stop = {}, int input = -1);

}  // namespace saccade
