#include "run_program.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/capability.h>
#include <mutex>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/image/image_codec.h"

namespace saccade::test {
namespace {

struct Pipe {
  int read = -1;
  int write = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) == 0) {
      read = ends[0];
      write = ends[1];
    }
  }
  ~Pipe() {
    close_end(read);
    close_end(write);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static void close_end(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

// Appends to `text`, under `mutex`, up to the end of file. (A terminal whose other end is closed fails with
// EIO.)
void read_all(int descriptor, std::string& text, std::mutex& mutex) {
  std::array<char, 4096> block{};
  for (;;) {
    const ssize_t got = ::read(descriptor, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    const std::scoped_lock lock(mutex);
    text.append(block.data(), static_cast<size_t>(got));
  }
}

// Runs between fork and exec, and makes system calls only.
[[noreturn]] void become(const std::vector<char*>& arguments, const std::vector<char*>& environment,
                         const char* folder, const RunOptions& options, int input, int output, int errors) {
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  if (!options.output_file.empty()) {
    const int file = open(options.output_file.c_str(), O_WRONLY);
    if (file < 0) _exit(99);
    dup2(file, STDOUT_FILENO);
  }
  if (options.without_streams) {
    for (int stream = 0; stream <= 2; ++stream) close(stream);
  }
  if (options.max_file_bytes > 0) {
    const rlimit limit{static_cast<rlim_t>(options.max_file_bytes),
                       static_cast<rlim_t>(options.max_file_bytes)};
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_DFL);  // the programs see to it that writes past the limit fail with EFBIG
  }
  if (options.plain_rights) {
    // Drops both capabilities for good at exec. Users other than root have neither, and get an ignored error.
    prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
    prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH);
  }
  // Signals that the parent ignores would stay ignored across exec. (A script's background job ignores
  // Ctrl-C.)
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  if (chdir(folder) != 0) _exit(98);
  alarm(kProgramSeconds);
  execve(arguments[0], arguments.data(), environment.data());
  _exit(97);
}

// Returns our environment without variables that would lead a run out of its folder.
std::vector<std::string> environment_of(const std::filesystem::path& folder, const RunOptions& options) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool out = text.starts_with("HF_") || text.starts_with("HUGGING") || text.starts_with("XDG_") ||
                     text.starts_with("HOME=") || text.starts_with("SACCADE_COLLECTION=") ||
                     text.starts_with("TRANSFORMERS_");
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const bool given = std::ranges::any_of(options.environment,
                                           [&](const std::string& own) { return own.starts_with(name); });
    if (!out && !given) variables.emplace_back(text);
  }
  variables.push_back("HOME=" + (folder / "home").string());
  variables.emplace_back("no_proxy=127.0.0.1");
  variables.insert(variables.end(), options.environment.begin(), options.environment.end());
  return variables;
}

}  // namespace

Outcome ProgramTest::run(const std::vector<std::string>& arguments, const RunOptions& options) const {
  std::vector<std::string> words = {options.program.empty() ? SACCADE_PROGRAM : options.program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::vector<std::string> variables = environment_of(folder_.path(), options);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);

  Pipe input;
  Pipe output;
  Pipe errors;
  if (options.terminal_errors) {
    Pipe::close_end(errors.read);
    Pipe::close_end(errors.write);
    if (openpty(&errors.read, &errors.write, nullptr, nullptr, nullptr) == 0) {
      fcntl(errors.read, F_SETFD, FD_CLOEXEC);
      fcntl(errors.write, F_SETFD, FD_CLOEXEC);
    }
  }
  const pid_t child = fork();
  if (child == 0)
    become(pointers, environment, folder_.path().c_str(), options, input.read, output.write, errors.write);
  Pipe::close_end(input.read);
  Pipe::close_end(output.write);
  Pipe::close_end(errors.write);
  if (options.close_output) Pipe::close_end(output.read);

  Outcome outcome;
  std::thread writer([&] {
    signal(SIGPIPE, SIG_IGN);
    std::string_view rest = options.input;
    while (!rest.empty()) {
      const ssize_t written = ::write(input.write, rest.data(), rest.size());
      if (written <= 0) break;
      rest.remove_prefix(static_cast<size_t>(written));
    }
    Pipe::close_end(input.write);
  });
  std::mutex mutex;
  std::thread stopper([&] {
    if (!options.stop_when) return;
    for (;;) {
      // The process has ended, but was not waited for, so its number is still its own.
      siginfo_t ended{};
      if (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) != 0) return;
      if (ended.si_pid == child) return;
      std::string said;
      {
        const std::scoped_lock lock(mutex);
        said = outcome.err;
      }
      if (options.stop_when(said)) {
        kill(child, options.stop_signal);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  std::mutex output_mutex;
  std::thread reader([&] {
    if (output.read >= 0) read_all(output.read, outcome.out, output_mutex);
  });
  read_all(errors.read, outcome.err, mutex);
  reader.join();
  writer.join();
  stopper.join();
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

void ProgramTest::expect_failure(const std::vector<std::string>& arguments, int code,
                                 const std::vector<std::string>& parts, const RunOptions& options) const {
  SCOPED_TRACE(testing::PrintToString(arguments));
  Outcome outcome = run(arguments, options);
  EXPECT_EQ(outcome.code, code) << outcome.err;
  if (options.max_file_bytes > 0 && outcome.err.starts_with("saccade: warning: lengthen a file in memory")) {
    outcome.err.erase(0, outcome.err.find('\n') + 1);  // the limit holds for the decoders' memory too
  }
  expect_one_line(outcome);
  for (const std::string& part : parts) EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

void ProgramTest::SetUp() {
  const std::filesystem::path source = golden("clip-gelu");
  std::filesystem::create_directory(folder_ / "model");
  for (const char* name : {"config.json", "model.safetensors", "io.safetensors"}) {
    ASSERT_TRUE(std::filesystem::exists(source / name)) << source / name;
    std::filesystem::copy_file(source / name, folder_ / "model" / name);
  }
  // The vocabulary has letters alone and at a word's end; everything else is unknown.
  Json vocabulary;
  int id = 0;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    vocabulary[std::string(1, letter)] = id++;
    vocabulary[std::string(1, letter) + "</w>"] = id++;
  }
  while (id < 298) {
    vocabulary["unused" + std::to_string(id)] = id;
    ++id;
  }  // ids have no gaps
  vocabulary["<|startoftext|>"] = 298;
  vocabulary["<|endoftext|>"] = 299;
  write("model/vocab.json", dump_json(vocabulary));
  write("model/merges.txt", "#version: 0.2\n");
  write("model/special_tokens_map.json",
        R"({"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"})");
}

void ProgramTest::TearDown() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path(), ignored)) {
    if (entry.is_directory(ignored)) {
      std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_all,
                                   std::filesystem::perm_options::add, ignored);
    }
  }
}

std::filesystem::path ProgramTest::write(const std::string& name, std::string_view content) const {
  return folder_.write(name, content);
}

std::filesystem::path ProgramTest::picture(const std::string& name, int red, int green, int blue) const {
  Image image;
  image.width = 80;
  image.height = 70;
  image.channels = 3;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const int shade = x < 20 && y < 20 ? 2 : 1;
      for (const int value : {red, green, blue}) image.pixels.push_back(static_cast<uint8_t>(value / shade));
    }
  }
  const auto png = encode_png(image);
  EXPECT_TRUE(png.has_value());
  return write(name, png.value_or(""));
}

std::filesystem::path ProgramTest::golden(const std::string& name) {
  std::filesystem::path path = std::filesystem::path(test::kSourceDir) / "tests/golden" / name;
  EXPECT_TRUE(std::filesystem::exists(path)) << path;
  return path;
}

void ProgramTest::make_collection() const {
  picture("pictures/black.png", 10, 10, 10);
  picture("pictures/blue.png", 10, 30, 220);
  picture("pictures/green.png", 20, 200, 40);
  picture("pictures/red.png", 220, 10, 10);
  write("pictures/red.txt", "a red card\n");
  const Outcome outcome = run({"index", "pictures", "-c", "c", "-m", "model"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
}

std::string ProgramTest::snapshot(const std::string& name) const {
  std::vector<std::string> lines;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / name)) {
    const std::string file = entry.path().filename().string();
    if (!entry.is_regular_file() || file == "lock" || file.ends_with("-shm") || file.ends_with("-wal"))
      continue;
    lines.push_back(file + " " + sha256_file(entry.path()).value_or("unreadable") + "\n");
  }
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

void expect_one_line(const Outcome& outcome) {
  EXPECT_TRUE(outcome.err.starts_with("saccade: ")) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  EXPECT_GT(outcome.err.size(), std::strlen("saccade: x\n"));
}

std::string laboratory() {
  return (std::filesystem::path(SACCADE_PROGRAM).parent_path() / "saccade-lab").string();
}

}  // namespace saccade::test
