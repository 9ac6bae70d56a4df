// Registration and context of the program's commands.
//
// A command's file adds its subcommand to the parser. If that was given, the file stores the function to run
// in `chosen`. Running returns the exit code (0 done, 1 failed with nothing more to report, 3 done with some
// inputs failed, 4 nothing found), or an error. main determines the error's line and exit code.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>

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

// Makes `command` store run(*arguments, session) in `chosen` if it is given. `arguments` is what its options fill.
template <typename Arguments>
void run_when_given(CLI::App& command, Command& chosen, const std::shared_ptr<Arguments>& arguments,
                    Result<int> (*run)(const std::type_identity_t<Arguments>&, Session&)) {
  command.callback([&chosen, arguments, run] {
    chosen = [arguments, run](Session& session) { return run(*arguments, session); };
  });
}
// Likewise for a function that changes its arguments.
template <typename Arguments>
void run_when_given(CLI::App& command, Command& chosen, const std::shared_ptr<Arguments>& arguments,
                    Result<int> (*run)(std::type_identity_t<Arguments>&, Session&)) {
  command.callback([&chosen, arguments, run] {
    chosen = [arguments, run](Session& session) { return run(*arguments, session); };
  });
}

// Keeps accepting an option under its earlier name, which help and completion do not show.
inline void add_old_name(CLI::App& command, const std::string& option, const std::string& old_name) {
  CLI::Option* now = command.get_option(option);
  const auto set = [now](const std::string& value) {
    now->clear();
    now->add_result(value);
    now->run_callback();
  };
  if (now->get_items_expected_max() == 0) {
    command.add_flag_callback(old_name, [set] { set("true"); })->group("");
  } else {
    command.add_option_function<std::string>(old_name, set)->group("");
  }
}

}  // namespace saccade::app
