// Tests of programs under limits: their output is returned, and a program that exceeds a limit is ended and
// reported.
#include "saccade/core/process/limited_process.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

using testing::HasSubstr;

Result<ProcessOutcome> shell(const std::string& script, const ProcessLimits& limits = {},
                             const std::stop_token& stop = {}) {
  const std::vector<std::string> arguments = {"-c", script, "name", "two words", "$(echo no)"};
  return run_limited("/bin/sh", arguments, limits, stop);
}

TEST(LimitedProcess, GivesOutputErrorsAndCode) {
  const auto outcome = shell("printf '%s|' \"$@\"; cat; echo wrong >&2; exit 7");
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->out, "two words|$(echo no)|");  // and stdin is empty
  EXPECT_EQ(outcome->errors, "wrong\n");
  EXPECT_EQ(outcome->code, 7);
}

// OpenBLAS has no room for several threads below a limit of the data.
TEST(LimitedProcess, HasOneThreadOfOpenBlas) {
  const auto outcome = shell("echo $OPENBLAS_NUM_THREADS");
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->out, "1\n");
}

TEST(LimitedProcess, HasADescriptorAsItsInput) {
  const test::TestFolder folder;
  const Descriptor file(::open(folder.write("text", "words").c_str(), O_RDONLY | O_CLOEXEC));
  std::filesystem::remove(folder / "text");
  const std::vector<std::string> arguments = {"-c", "cat /proc/self/fd/0; cat"};
  const auto outcome = run_limited("/bin/sh", arguments, {}, {}, file.get());
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->out, "wordswords");
}

TEST(LimitedProcess, TakesMoreErrorsThanItKeeps) {
  const auto outcome = shell("head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero");
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->errors.size(), 4096U);
  EXPECT_EQ(outcome->out.size(), 1000000U);
}

TEST(LimitedProcess, WhatBreaksALimitIsEnded) {
  const auto time = shell("while :; do :; done", {.seconds = 1});
  ASSERT_FALSE(time);
  EXPECT_EQ(time.error().code, ErrorCode::kLimit);
  EXPECT_THAT(time.error().message, HasSubstr("did not end within 1 seconds of processor time"));

  const auto output = shell("cat /dev/zero", {.output_bytes = int64_t{1} << 20});
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::kLimit);
  EXPECT_THAT(output.error().message, HasSubstr("more than 1 MiB"));

  // dd allocates a block of that size and reports the failure itself.
  const auto memory =
      shell("exec dd if=/dev/zero of=/dev/null bs=400M count=1", {.memory_bytes = int64_t{100} << 20});
#if !defined(__SANITIZE_ADDRESS__)
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_NE(memory->code, 0);
  EXPECT_THAT(memory->errors, HasSubstr("memory"));
#endif
}

TEST(LimitedProcess, WhatASignalEndsAndWhatIsNotThere) {
  const auto crashed = shell("kill -SEGV $$");
  ASSERT_FALSE(crashed);
  EXPECT_EQ(crashed.error().code, ErrorCode::kBadData);
  EXPECT_THAT(crashed.error().message, HasSubstr("Segmentation"));
  const test::TestFolder folder;
  const auto missing = run_limited(folder / "missing", {}, {});
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->code, 127);
  EXPECT_FALSE(find_program("a-program-that-nobody-has"));
  EXPECT_TRUE(find_program("sh"));
}

// A killed process leaves no child behind that keeps running.
TEST(LimitedProcess, EndsWithTheProcessThatStartedIt) {
  if (!find_program("setpriv")) GTEST_SKIP() << "setpriv (util-linux) is not installed";
  const test::TestFolder folder;
  const std::string file = (folder / "pid").string();
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    static_cast<void>(shell("echo $$ > " + file + ".new; mv " + file + ".new " + file + "; exec sleep 1000"));
    ::_exit(0);
  }
  pid_t child = 0;
  while (child == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::ifstream(file) >> child;
  }
  ::kill(parent, SIGKILL);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  // Ended, or a zombie.
  const auto lives = [&] {
    std::ifstream state(fmt::format("/proc/{}/stat", child));
    std::string line;
    return std::getline(state, line) && line.find(") Z ") == std::string::npos;
  };
  while (lives()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST(LimitedProcess, StopsWhenAsked) {
  std::stop_source source;
  std::jthread asks([&] { source.request_stop(); });
  const auto stopped = shell("sleep 100", {}, source.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace saccade
