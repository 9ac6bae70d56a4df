// The program's ways to the outside: data on stdout, messages and progress on stderr, Ctrl-C.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "saccade/core/counts.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"
#include "saccade/text/utf8.h"

namespace spdlog {
class logger;
}

namespace saccade::app {

// Opens /dev/null in place of a standard stream that is closed, so that no file opened later takes its number
// and is written to as if it were the terminal. Call first.
void fill_standard_streams();

// Standard output. Not for several threads at a time.
class Output {
 public:
  // Writes all of the text at once. kIo if that fails; `reader_gone` then tells whether the other end of a
  // pipe has closed, which is not reported as a failure.
  Status write(std::string_view text);
  // One line of compact JSON, or indented for a terminal.
  Status write_json(const Json& json);
  [[nodiscard]] bool reader_gone() const { return reader_gone_; }

 private:
  bool reader_gone_ = false;
};

// Messages on stderr, a line each, "saccade: ..." in front.
class Messages {
 public:
  Messages();
  void info(std::string_view text);
  void warning(std::string_view text);
  void error(std::string_view text);

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

// Ctrl-C and SIGTERM. One a program: the handler only passes
// the signal's number on to a thread that does the rest.
class Interrupts {
 public:
  Interrupts();
  // Makes the first signal request a stop through the token, and the second one end the program. Without this
  // call the first one ends it.
  std::stop_token stop_cleanly();
  // Ends the program as the signal does, if one has come, and lets the next one end it again. A prompt calls it
  // where it waits for input: a library that reads lines may return from a signal as if the input had ended.
  void end_if_signalled();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the waiting thread, which lives as long as the process
};

// Progress of a long operation. On a terminal it is one line, rewritten, with rate and time left; elsewhere a
// line every ten seconds. Callbacks may come from several threads, one at a time. The destructor clears the
// line.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  [[nodiscard]] ProgressCallback callback();
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  struct Mark {
    Clock::time_point when;
    int64_t done;
  };
  void update(const ProgressUpdate& progress);

  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  std::string what_;
  std::deque<Mark> marks_;  // of the last ten seconds, for the rate
  Clock::time_point last_shown_;
};

// "indexing 1,200 of 8,000 (15%), 93/s, 1 min 13 s left, detail"; rate 0 where it is not known yet.
std::string progress_text(const ProgressUpdate& progress, double rate);
// "3 h 20 min", "1 min 13 s", "8 s".
std::string duration_text(double seconds);
}  // namespace saccade::app
