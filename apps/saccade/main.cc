// The program: parses the command line, runs one command, and turns how it went into a line and an exit code.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <new>
#include <signal.h>
#include <sstream>
#include <string_view>
#include <unistd.h>

#include <fmt/format.h>

#include "command.h"

namespace saccade::app {
namespace {

// For commands that compute for long: OpenMP's threads are to sleep while they wait for each other, not to
// spin. Beside other work, spinning threads take the processors from the very threads they wait for (indexing
// on a machine that was also compiling took 3 to 7 times as long). The OpenMP runtime reads its environment
// when it is loaded, before main: so the variable is set, unless the user has, and the program started again
// in its own place.
void wait_without_spinning(char** argv) {
  constexpr std::array<std::string_view, 5> kLongCommands = {"demo", "embed", "eval", "index", "train"};
  char** command = argv + 1;
  while (*command != nullptr && **command == '-') ++command;
  if (*command == nullptr ||
      std::find(kLongCommands.begin(), kLongCommands.end(), *command) == kLongCommands.end())
    return;
  if (::getenv("OMP_WAIT_POLICY") != nullptr || ::setenv("OMP_WAIT_POLICY", "passive", 1) != 0) return;
  ::execv("/proc/self/exe", argv);  // returns only where it failed: then as it is
}

int run(int argc, char** argv) {
  fill_standard_streams();
  signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error of write(), not the end
  Interrupts interrupts;
  Output out;
  Messages messages;
  Session session{out, messages, interrupts};
  Command chosen;

  CLI::App app{"Saccade finds images by text, and images by images.", "saccade"};
  app.set_version_flag("--version", "saccade " SACCADE_VERSION);
  app.add_flag("-q,--quiet", session.quiet, "no progress on stderr");
  app.require_subcommand(1);
  app.fallthrough();
  app.get_formatter()->column_width(34);
  add_index_command(app, chosen);
  add_search_command(app, chosen);
  add_collection_command(app, chosen);
  add_dataset_command(app, chosen);
  add_embed_command(app, chosen);
  add_model_command(app, chosen);
  add_eval_command(app, chosen);
  add_train_command(app, chosen);
  add_report_command(app, chosen);
  add_demo_command(app, chosen);
  app.footer("Exit codes: 0 done, 1 failed, 2 wrong use, 3 done with some inputs failed.");

  const auto failed = [&](const Error& error) {
    if (!out.reader_gone()) messages.error(error.message);
    return exit_code(error.code);
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      // --help, --help-all, --version: text asked for is data.
      std::ostringstream text;
      app.exit(error, text, text);
      const Status written = out.write(text.str());
      return written ? kDone : failed(written.error());
    }
    const CLI::App* deepest = &app;
    std::string words = "saccade";
    while (!deepest->get_subcommands().empty()) {
      deepest = deepest->get_subcommands().front();
      words += " " + deepest->get_name();
    }
    // The parser only says that there is none.
    const bool unknown = words == "saccade" && argc > 1 && argv[1][0] != '-';
    messages.error(fmt::format("{} ({} --help tells more)",
                               unknown ? fmt::format("no command named {}", argv[1]) : error.what(), words));
    return 2;
  }
  const Result<int> result = chosen(session);
  return result ? *result : failed(result.error());
}

}  // namespace
}  // namespace saccade::app

int main(int argc, char** argv) {
  // Nothing below should throw; memory may still run out.
  try {
    if (argc > 1) saccade::app::wait_without_spinning(argv);
    return saccade::app::run(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "saccade: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "saccade: internal error: {}\n", error.what());
  }
  return 1;
}
