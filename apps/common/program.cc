#include "program.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>
#include <signal.h>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/text/nearest.h"
#include "saccade/version.h"

#include "command_help.h"
#include "hand_over.h"
#include "option_kinds.h"
#include "own_process.h"

namespace saccade::app {
namespace {

// Returns the command that was given, the deepest; the program itself without one.
const CLI::App& given_command(const CLI::App& app) {
  const CLI::App* deepest = &app;
  while (!deepest->get_subcommands().empty()) deepest = deepest->get_subcommands().front();
  return *deepest;
}

// "saccade collection info".
std::string command_words(const CLI::App& command) {
  const CLI::App* above = command.get_parent();
  return above == nullptr ? command.get_name() : command_words(*above) + " " + command.get_name();
}

// Returns the names that may stand where the parser met an unknown word: options of the command and of those above it, or
// the commands below it.
std::vector<std::string> known_names(const CLI::App& command, bool options) {
  std::vector<std::string> names;
  const auto everything = [](const CLI::App*) { return true; };
  if (!options) {
    for (const CLI::App* below : command.get_subcommands(everything)) names.push_back(below->get_name());
    // `saccade version`
    for (const CLI::Option* option :
         names.empty() ? std::vector<const CLI::Option*>() : command.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    return names;
  }
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
  }
  return names;
}

// "; did you mean --filter?", or "" if no known name is near the first unknown word.
std::string suggestion(const CLI::App& app, const CLI::App& deepest) {
  for (const std::string& word : app.remaining(true)) {
    const bool option = word.starts_with("--");
    if (!option && word.starts_with("-")) continue;
    const std::string meant = did_you_mean(word.substr(0, word.find('=')), known_names(deepest, option));
    if (!meant.empty()) return meant;
  }
  return {};
}

// "; did you mean date?" for "--order: dat not in {score,date}"; "" for other messages of the parser.
std::string suggested_value(const std::string& said) {
  constexpr std::string_view kNotIn = " not in {";
  const size_t at = said.find(kNotIn);
  const size_t before = at == std::string::npos ? at : said.rfind(": ", at);
  if (before == std::string::npos || !said.ends_with('}')) return {};
  std::vector<std::string> names;
  std::istringstream list(said.substr(at + kNotIn.size(), said.size() - at - kNotIn.size() - 1));
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  return did_you_mean(said.substr(before + 2, at - before - 2), names);
}

// Returns the parser's reason. Unknown words come first: a command or an option that is missing is usually there, misspelled.
std::string reason(const CLI::App& app, const CLI::App& deepest, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);  // with fallthrough they lie with the program
  const bool missing = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
  if (missing && deepest.get_require_subcommand_min() > 0) {
    const auto word =
        std::ranges::find_if(unknown, [](const std::string& each) { return !each.starts_with("-"); });
    std::error_code ignored;
    if (word != unknown.end()) {
      return fmt::format(
          "no command named {}{}", *word,
          std::filesystem::exists(*word, ignored) ? ", which is a path: a command comes before it" : "");
    }
  }
  const bool option =
      std::ranges::any_of(unknown, [](const std::string& each) { return each.starts_with("--"); });
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) || (missing && option)) {
    return fmt::format("not expected here: {}", fmt::join(unknown, " "));
  }
  const std::string said = error.what();
  constexpr std::string_view kRepeated = ": At Most 1 required but received ";
  if (const size_t at = said.find(kRepeated); at != std::string::npos) {
    return fmt::format("{}: given {} times, expected once", said.substr(0, at),
                       said.substr(at + kRepeated.size()));
  }
  return said + suggested_value(said);
}

// Explains a command line that the parser did not accept.
std::string parse_error_text(const CLI::App& app, const CLI::App& deepest, const CLI::ParseError& error,
                             const std::string& words) {
  // "cats -dogs" without its quotes.
  const bool unwanted =
      words == "saccade search" && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  const std::string meant = suggestion(app, deepest);
  return fmt::format("{}{}{} (see {} --help)", reason(app, deepest, error), meant,
                     unwanted && meant.empty() ? "; put words with hyphens in quotes, or after --" : "",
                     words);
}

int parse_and_run(const Program& program, int argc, char** argv) {
  fill_standard_streams();
  end_with_starter();
  signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error of write(), not the end
  // So is a file beyond the shell's limit (ulimit -f). Programs that are started here do not inherit a handler.
  signal(SIGXFSZ, [](int) {});
  Interrupts interrupts;
  Output out;
  Messages messages;
  Session session{out, messages, interrupts};
  Command chosen;

  CLI::App app{program.description, program.name};
  app.set_version_flag("--version", fmt::format("{} {}", program.name, version()));
  app.add_flag("-q,--quiet", session.quiet, "do not show progress");
  app.require_subcommand(1);
  app.fallthrough();
  app.get_formatter()->column_width(34);
  program.add_commands(app, chosen);
  add_help_commands(app, chosen);
  name_option_kinds(app);
  app.footer("Exit codes: 0 done, 1 failed, 2 usage error, 3 done with some inputs failed, 4 nothing found.");

  const auto failed = [&](const Error& error) {
    const bool limited = given_command(app).get_option_no_throw("--max-pixels") != nullptr;
    if (!out.reader_gone()) messages.error(limited ? with_option_names(error.message) : error.message);
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
    const CLI::App& deepest = given_command(app);
    const std::string words = command_words(deepest);
    // A command that needs another behind it, named alone: its help is what is asked for.
    const bool alone = argc == 1 + std::count(words.begin(), words.end(), ' ');
    if (alone && deepest.get_require_subcommand_min() > 0) return print(app.help());
    const std::string_view named = named_command(argv);
    if (std::ranges::find(program.elsewhere, named) != program.elsewhere.end()) {
      messages.error(fmt::format("{0} is a command of the program {1}: {1} {0}", named, program.other));
    } else {
      messages.error(parse_error_text(app, deepest, error, words));
    }
    return exit_code(ErrorCode::kUsage);
  }
  session.decoders.memory_mb = decode_memory_of(given_command(app));
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
