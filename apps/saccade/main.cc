// The program: parses the command line, runs one command, and turns how it went into a line and an exit code.
#include <exception>
#include <new>
#include <signal.h>
#include <sstream>

#include <fmt/format.h>

#include "command.h"
#include "command_generate.h"
#include "command_help.h"
#include "command_illustrate.h"
#include "command_visualness.h"
#include "command_watch.h"

namespace saccade::app {
namespace {

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
  app.add_flag("-q,--quiet", session.quiet, "show no progress on stderr");
  app.require_subcommand(1);
  app.fallthrough();
  app.get_formatter()->column_width(34);
  add_index_command(app, chosen);
  add_search_command(app, chosen);
  add_collection_command(app, chosen);
  add_watch_command(app, chosen);
  add_dataset_command(app, chosen);
  add_embed_command(app, chosen);
  add_model_command(app, chosen);
  add_eval_command(app, chosen);
  add_train_command(app, chosen);
  add_visualness_command(app, chosen);
  add_generate_command(app, chosen);
  add_illustrate_command(app, chosen);
  add_serve_command(app, chosen);
  add_report_command(app, chosen);
  add_demo_command(app, chosen);
  add_help_commands(app, chosen);
  app.footer("Exit codes: 0 done, 1 failed, 2 wrong use, 3 done with some inputs failed, 4 nothing found.");

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
    // A command that needs another behind it, named alone: its help is what is asked for.
    const bool alone = argc == 1 + std::count(words.begin(), words.end(), ' ');
    if (alone && deepest->get_require_subcommand_min() > 0) {
      const Status written = out.write(app.help());  // of the deepest command, with the words before it
      return written ? kDone : failed(written.error());
    }
    // The parser only says that there is none.
    const bool unknown = words == "saccade" && argc > 1 && argv[1][0] != '-';
    // "cats -dogs" without its quotes.
    const bool unwanted =
        words == "saccade search" && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
    messages.error(fmt::format("{}{} ({} --help tells more)",
                               unknown ? fmt::format("no command named {}", argv[1]) : error.what(),
                               unwanted ? "; words with hyphens stand in quotes, or behind --" : "", words));
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
    if (argc > 1) saccade::app::hand_over(argv);
    return saccade::app::run(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "saccade: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "saccade: internal error: {}\n", error.what());
  }
  return 1;
}
