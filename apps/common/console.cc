#include "console.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace saccade::app {

void fill_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) != -1) continue;
    // The lowest free number is this one. Opened the wrong way round, so that its use still fails.
    const int opened = open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
    if (opened != descriptor) std::_Exit(1);
  }
}

Status Output::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      reader_gone_ = errno == EPIPE;
      return fail_errno(errno, "write standard output");
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status Output::write_json(const Json& json) {
  return write(dump_json(json, isatty(STDOUT_FILENO) == 1 ? 2 : -1) + "\n");
}

Messages::Messages()
    : logger_(
          std::make_shared<spdlog::logger>("saccade", std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_pattern("saccade: %v");
  // Ignores failures to write to stderr.
  logger_->set_error_handler([](const std::string&) {});
}

void Messages::info(std::string_view text) {
  logger_->info("{}", one_line(text));
}
void Messages::warning(std::string_view text) {
  logger_->warn("warning: {}", one_line(text));
}
void Messages::error(std::string_view text) {
  logger_->error("{}", one_line(text));
}

namespace {

// Pipe to which the handler writes a signal's number, since it can access nothing else. -1 until there is a
// pipe.
std::atomic<int> signal_pipe{-1};
std::atomic<int> last_signal{0};  // 0: none has come
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_signal(int number) {
  const int kept = errno;
  last_signal = number;
  const auto byte = static_cast<char>(number);
  [[maybe_unused]] const ssize_t written = ::write(signal_pipe, &byte, 1);
  errno = kept;
}

// Restores the default action and raises the signal, so that a shell sees why the program ended.
[[noreturn]] void end_by(int number) {
  signal(number, SIG_DFL);
  raise(number);
  std::_Exit(128 + number);
}

}  // namespace

struct Interrupts::State {
  std::stop_source source;
  std::atomic<bool> clean{false};

  [[noreturn]] void wait(int pipe) {
    for (;;) {
      char byte = 0;
      if (::read(pipe, &byte, 1) != 1) continue;
      if (clean && !source.stop_requested()) {
        // On a terminal the progress line, and its ^C, stay above.
        const std::string_view message = isatty(STDERR_FILENO) == 1
                                             ? "\nsaccade: stopping; once more ends at once\n"
                                             : "saccade: stopping; once more ends at once\n";
        [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
        source.request_stop();
        continue;
      }
      end_by(byte);
    }
  }
};

// Handles signals in a handler. Blocking the signals and waiting for them would not work: libraries such as
// OpenBLAS start threads before main does, and a signal that such a thread has not blocked would end the
// program.
Interrupts::Interrupts() : state_(std::make_shared<State>()) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;  // then signals do what they do by default
  signal_pipe = ends[1];
  std::thread([state = state_, pipe = ends[0]] { state->wait(pipe); }).detach();
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    // Ignored from the start (nohup, a shell's background job): that stays.
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
  }
}

std::stop_token Interrupts::stop_cleanly() {
  state_->clean = true;
  return state_->source.get_token();
}

void Interrupts::end_if_signalled() {
  state_->clean = false;
  if (const int number = last_signal; number != 0) end_by(number);
}

ProgressLine::ProgressLine(bool quiet)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1), last_shown_(Clock::now()) {}

ProgressCallback ProgressLine::callback() {
  if (quiet_) return {};
  return [this](const ProgressUpdate& progress) { update(progress); };
}

void ProgressLine::update(const ProgressUpdate& progress) {
  using std::chrono::milliseconds;
  const Clock::time_point now = Clock::now();
  if (what_ != progress.what) {
    what_ = progress.what;
    marks_.clear();
  }
  // A mark a quarter of a second at most, of the last ten.
  if (marks_.empty() || now - marks_.back().when >= milliseconds(250)) marks_.push_back({now, progress.done});
  while (marks_.size() > 2 && now - marks_.front().when > milliseconds(10'000)) marks_.pop_front();

  if (now - last_shown_ < milliseconds(terminal_ ? 100 : 10'000)) return;
  last_shown_ = now;
  const double seconds = std::chrono::duration<double>(now - marks_.front().when).count();
  const double rate = seconds >= 0.5 ? static_cast<double>(progress.done - marks_.front().done) / seconds : 0;
  std::string line = one_line(progress_text(progress, rate));
  if (terminal_) {
    winsize size{};
    const size_t width =
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U : 79U;
    if (line.size() > width) line.resize(width);
    line = fmt::format("\r\x1b[K{}", line);
    shown_ = true;
  } else {
    line = fmt::format("saccade: {}\n", line);
  }
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void ProgressLine::clear() {
  if (!shown_) return;
  constexpr std::string_view kClear = "\r\x1b[K";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kClear.data(), kClear.size());
  shown_ = false;
}

std::string progress_text(const ProgressUpdate& progress, double rate) {
  const auto amount = progress.bytes ? size_text : count_text;
  std::string text = fmt::format("{} {}", progress.what, amount(progress.done));
  if (progress.total > 0) {
    text += fmt::format(" of {} ({}%)", amount(progress.total),
                        std::clamp<int64_t>(100 * progress.done / progress.total, 0, 100));
  }
  if (rate > 0) {
    text += rate < 10 ? fmt::format(", {:.1f}/s", rate) : fmt::format(", {}/s", amount(std::llround(rate)));
    if (progress.total > progress.done) {
      text +=
          fmt::format(", {} left", duration_text(static_cast<double>(progress.total - progress.done) / rate));
    }
  }
  if (!progress.detail.empty()) text += fmt::format(", {}", progress.detail);
  return text;
}

std::string duration_text(double seconds) {
  if (!(seconds < 1e9)) return "a long time";
  const int64_t whole = std::llround(std::max(seconds, 0.0));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace saccade::app
