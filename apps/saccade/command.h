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

// Goes on as the program that has the command, in this process's place, where this one does not: training
// lies in a program of its own (train_elsewhere.cc). Returns where this program has it, or there is no other.
void hand_over(char** argv);

void add_index_command(CLI::App& app, Command& chosen);
void add_search_command(CLI::App& app, Command& chosen);
void add_collection_command(CLI::App& app, Command& chosen);
void add_dataset_command(CLI::App& app, Command& chosen);
void add_embed_command(CLI::App& app, Command& chosen);
void add_model_command(CLI::App& app, Command& chosen);
void add_eval_command(CLI::App& app, Command& chosen);
void add_train_command(CLI::App& app, Command& chosen);
void add_serve_command(CLI::App& app, Command& chosen);
void add_report_command(CLI::App& app, Command& chosen);
void add_demo_command(CLI::App& app, Command& chosen);

}  // namespace saccade::app
