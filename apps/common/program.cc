#include "program.h"

#include <algorithm>
#include <exception>
#include <new>
#include <signal.h>
#include <sstream>

#include <fmt/format.h>

#include "saccade/version.h"

#include "command_help.h"

namespace saccade::app {
namespace {

// Explains a command line that the parser did not accept.
std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error, const std::string& words,
                             int argc, char** argv) {
  // The parser only says that a command is missing, not which word is unknown.
  const bool unknown = words == app.get_name() && argc > 1 && argv[1][0] != '-';
  // "cats -dogs" without its quotes.
  const bool unwanted =
      words == "saccade search" && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  return fmt::format("{}{} ({} --help tells more)",
                     unknown ? fmt::format("no command named {}", argv[1]) : error.what(),
                     unwanted ? "; words with hyphens stand in quotes, or behind --" : "", words);
}

int parse_and_run(const Program& program, int argc, char** argv) {
  fill_standard_streams();
  signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error of write(), not the end
  Interrupts interrupts;
  Output out;
  Messages messages;
  Session session{out, messages, interrupts};
  Command chosen;

  CLI::App app{program.description, program.name};
  app.set_version_flag("--version", fmt::format("{} {}", program.name, version()));
  app.add_flag("-q,--quiet", session.quiet, "show no progress on stderr");
  app.require_subcommand(1);
  app.fallthrough();
  app.get_formatter()->column_width(34);
  program.add_commands(app, chosen);
  add_decode_options(app, session.decoders);
  add_help_commands(app, chosen);
  app.footer("Exit codes: 0 done, 1 failed, 2 wrong use, 3 done with some inputs failed, 4 nothing found.");

  const auto failed = [&](const Error& error) {
    if (!out.reader_gone()) messages.error(error.message);
    return exit_code(error.code);
  };
  const auto print = [&](const std::string& text) {
    const Status written = out.write(text);
    return written ? kDone : failed(written.error());
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      // --help, --help-all, --version: text asked for is data.
      std::ostringstream text;
      app.exit(error, text, text);
      return print(text.str());
    }
    const CLI::App* deepest = &app;
    std::string words = program.name;
    while (!deepest->get_subcommands().empty()) {
      deepest = deepest->get_subcommands().front();
      words += " " + deepest->get_name();
    }
    // A command that needs another behind it, named alone: its help is what is asked for.
    const bool alone = argc == 1 + std::count(words.begin(), words.end(), ' ');
    if (alone && deepest->get_require_subcommand_min() > 0) return print(app.help());
    messages.error(parse_error_text(app, error, words, argc, argv));
    return exit_code(ErrorCode::kUsage);
  }
  const Result<int> result = chosen(session);
  return result ? *result : failed(result.error());
}

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  // Nothing below should throw; memory may still run out.
  try {
    return parse_and_run(program, argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "saccade: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "saccade: internal error: {}\n", error.what());
  }
  return 1;
}

}  // namespace saccade::app
