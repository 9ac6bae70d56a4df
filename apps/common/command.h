// What the commands of the program share: how one is registered, and what it is run with.
//
// A command's file adds its subcommand to the parser; when that was given, it leaves what is to be run in
// `chosen`. Running returns the exit code (0 done, 1 failed with nothing more to say, 3 done with some inputs
// failed, 4 nothing found), or an error, whose line and exit code are main's business.
#pragma once

#include <functional>
#include <stop_token>

#include <CLI/CLI.hpp>

#include "saccade/core/error.h"

#include "console.h"
#include "decoders.h"

namespace saccade::app {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kSomeFailed = 3;
inline constexpr int kNothingFound = 4;

struct Session {
  Output& out;
  Messages& messages;
  Interrupts& interrupts;
  bool quiet = false;  // no progress
  Decoders decoders = {};
};

using Command = std::function<Result<int>(Session&)>;

}  // namespace saccade::app
