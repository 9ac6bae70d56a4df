#include "command_help.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/text/nearest.h"

#include "choice.h"
#include "help_topics.h"

namespace saccade::app {
namespace {

enum class Shell { kBash, kZsh, kFish };
constexpr std::array<EnumName<Shell>, 3> kShellNames{
    {{Shell::kBash, "bash"}, {Shell::kZsh, "zsh"}, {Shell::kFish, "fish"}}};
std::span<const EnumName<Shell>> enum_names(Shell) {
  return kShellNames;
}

std::vector<CLI::App*> commands_of(CLI::App& app) {
  return app.get_subcommands([](CLI::App*) { return true; });
}

// --- the table, as completion and manual read it -----------------------------------------------------------

struct OptionEntry {
  std::vector<std::string> names;   // "-c", "--collection"; of a positional its name alone
  std::vector<std::string> values;  // the words it takes, where it takes some of a few
  std::string argument;             // "DIR", or "" for a flag
  std::string help;
  bool positional = false;
};

// "{bash,fish,zsh}" as its words.
std::vector<std::string> words_of(const std::string& type) {
  std::vector<std::string> words;
  const size_t open = type.find('{');
  const size_t close = type.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return words;
  for (size_t at = open + 1; at < close;) {
    const size_t end = std::min(type.find(',', at), close);
    words.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::vector<OptionEntry> options_of(CLI::App& app) {
  std::vector<OptionEntry> entries;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    OptionEntry entry;
    for (const std::string& name : option->get_snames()) entry.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) entry.names.push_back("--" + name);
    entry.positional = entry.names.empty();
    if (entry.positional) entry.names.push_back(option->get_name());
    if (option->get_items_expected_max() > 0) {
      entry.values = words_of(option->get_type_name());
      const std::string kind = option->get_type_name();
      entry.argument = entry.values.empty() ? (kind.empty() ? "VALUE" : kind)
                                            : fmt::format("{}", fmt::join(entry.values, "|"));
    }
    entry.help = option->get_description();
    entries.push_back(std::move(entry));
  }
  return entries;
}

struct CommandEntry {
  std::string words;  // "collection info"; "" for the program itself
  CLI::App* app = nullptr;
};

void add_commands(CLI::App& app, const std::string& words, std::vector<CommandEntry>& entries) {
  entries.push_back({words, &app});
  for (CLI::App* command : commands_of(app)) {
    add_commands(*command, words.empty() ? command->get_name() : words + " " + command->get_name(), entries);
  }
}

std::vector<CommandEntry> all_commands(CLI::App& app) {
  std::vector<CommandEntry> entries;
  add_commands(app, "", entries);
  return entries;
}

// --- completion --------------------------------------------------------------------------------------------

std::string shell_word(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// Returns the words that may follow a command: its subcommands and its options.
std::vector<std::string> followers_of(CLI::App& app) {
  std::vector<std::string> words;
  for (CLI::App* command : commands_of(app)) words.push_back(command->get_name());
  for (const OptionEntry& option : options_of(app)) {
    if (!option.positional) words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return words;
}

// A shell function's name for a program and words of its commands: letters, digits and underscores alone.
std::string function_name(const std::string& program, const std::string& words) {
  std::string name = "_" + program + (words.empty() ? "" : " " + words);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

std::string bash_completion(CLI::App& app) {
  std::string words;
  std::string values;
  std::string commands;
  for (const CommandEntry& entry : all_commands(app)) {
    if (!entry.words.empty())
      commands += fmt::format("    {}) path={} ;;\n", shell_word(entry.words), shell_word(entry.words));
    words += fmt::format("    {}) words={} ;;\n", shell_word(entry.words),
                         shell_word(fmt::format("{}", fmt::join(followers_of(*entry.app), " "))));
    for (const OptionEntry& option : options_of(*entry.app)) {
      if (option.values.empty()) continue;
      for (const std::string& name : option.positional ? std::vector<std::string>{""} : option.names) {
        values += fmt::format("    {}) words={} ;;\n", shell_word(entry.words + "/" + name),
                              shell_word(fmt::format("{}", fmt::join(option.values, " "))));
      }
    }
  }
  return fmt::format(R"(# bash completion of {4}, made by `{4} completion bash`.
{5}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} path= words= each
  for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "${{path:+$path }}$each" in
{0}    esac
  done
  COMPREPLY=()
  case "$path/$before" in
{2}  esac
  if [[ -z $words ]]; then
    case "$path/" in
{3}    esac
    if [[ -z $words || $word == -* ]]; then
      case "$path" in
{1}      esac
      [[ $word == -* || $words != -* ]] || words=
    fi
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -o default -o bashdefault -F {5} {4}
)",
                     commands, words, values, values, app.get_name(), function_name(app.get_name(), ""));
}

std::string fish_completion(CLI::App& app) {
  const std::string& program = app.get_name();
  std::string text = fmt::format("# fish completion of {0}, made by `{0} completion fish`.\n", program);
  for (const CommandEntry& entry : all_commands(app)) {
    std::string seen;
    std::string others;
    for (size_t at = 0; at < entry.words.size();) {
      const size_t end = std::min(entry.words.find(' ', at), entry.words.size());
      seen += fmt::format("{}__fish_seen_subcommand_from {}", seen.empty() ? "" : "; and ",
                          entry.words.substr(at, end - at));
      at = end + 1;
    }
    for (CLI::App* command : commands_of(*entry.app)) others += " " + command->get_name();
    const std::string none = others.empty() ? "" : "not __fish_seen_subcommand_from" + others;
    const std::string here = seen.empty() || none.empty() ? seen + none : seen + "; and " + none;
    for (CLI::App* command : commands_of(*entry.app)) {
      text += fmt::format("complete -c {} -f -n {} -a {} -d {}\n", program, shell_word(here),
                          command->get_name(), shell_word(command->get_description()));
    }
    for (const OptionEntry& option : options_of(*entry.app)) {
      std::string line = "complete -c " + program + " -n " + shell_word(here.empty() ? "true" : here);
      for (const std::string& name : option.names) {
        if (option.positional) continue;
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (option.positional && option.values.empty()) continue;
      if (!option.values.empty()) {
        line += fmt::format(" {} -a {}", option.positional ? "-f" : "-x",
                            shell_word(fmt::format("{}", fmt::join(option.values, " "))));
      } else if (!option.argument.empty()) {
        line += " -r";
      }
      text += line + " -d " + shell_word(option.help) + "\n";
    }
  }
  return text;
}

// zsh's _arguments: "name[help]:argument:action", where []: are escaped.
std::string zsh_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_completion(CLI::App& app) {
  const std::string& program = app.get_name();
  std::string text =
      fmt::format("#compdef {0}\n# zsh completion of {0}, made by `{0} completion zsh`.\n", program);
  for (const CommandEntry& entry : all_commands(app)) {
    text += function_name(program, entry.words) + "() {\n  local -a commands\n  _arguments -C";
    for (const OptionEntry& option : options_of(*entry.app)) {
      const std::string action =
          option.values.empty() ? "_files" : fmt::format("({})", fmt::join(option.values, " "));
      if (option.positional) {
        text += fmt::format(" \\\n    {}",
                            shell_word(fmt::format("*:{}:{}", zsh_text(option.names.front()), action)));
        continue;
      }
      for (const std::string& name : option.names) {
        const std::string argument = option.argument.empty() ? "" : fmt::format(":value:{}", action);
        text += fmt::format(" \\\n    {}",
                            shell_word(fmt::format("*{}[{}]{}", name, zsh_text(option.help), argument)));
      }
    }
    const std::vector<CLI::App*> below = commands_of(*entry.app);
    if (below.empty()) {
      text += "\n}\n";
      continue;
    }
    text += " \\\n    '1: :->command' '*:: :->rest'\n  case $state in\n    command)\n      commands=(\n";
    for (CLI::App* command : below) {
      text += fmt::format("        {}\n",
                          shell_word(zsh_text(command->get_name()) + ":" + command->get_description()));
    }
    text += "      )\n      _describe command commands ;;\n    rest)\n      case $words[1] in\n";
    for (CLI::App* command : below) {
      const std::string deeper =
          entry.words.empty() ? command->get_name() : entry.words + " " + command->get_name();
      text += fmt::format("        {}) {} ;;\n", command->get_name(), function_name(program, deeper));
    }
    text += "      esac ;;\n  esac\n}\n";
  }
  return text +
         fmt::format(
             "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then {0} \"$@\"; else compdef {0} {1}; fi\n",
             function_name(program, ""), program);
}

// --- the manual --------------------------------------------------------------------------------------------

// Text as man(7) takes it: no line begins with a request, hyphens stay hyphens.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\n') {
      result += "\n";
    } else {
      if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) result += "\\&";
      result += c;
    }
  }
  return result;
}

std::string manual(CLI::App& app, const std::string& version) {
  const std::string program = roff(app.get_name());
  std::string title = app.get_name();
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string text = fmt::format(".TH {} 1 \"\" \"{}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n", title,
                                 roff(version), program, roff(app.get_description()));
  text += ".SH SYNOPSIS\n.B " + program + "\n.I COMMAND\n[\n.I OPTION\n\\&... ]\n.SH COMMANDS\n";
  for (const CommandEntry& entry : all_commands(app)) {
    if (!entry.words.empty()) {
      text += fmt::format(".SS {} {}\n{}.\n", program, roff(entry.words), roff(entry.app->get_description()));
    }
    for (const OptionEntry& option : options_of(*entry.app)) {
      text += fmt::format(".TP\n\\fB{}\\fR", roff(fmt::format("{}", fmt::join(option.names, ", "))));
      if (!option.positional && !option.argument.empty())
        text += fmt::format(" \\fI{}\\fR", roff(option.argument));
      text += "\n" + roff(option.help) + "\n";
    }
  }
  text += ".SH TOPICS\n";
  for (const HelpTopic& topic : help_topics()) {
    text += fmt::format(".SS {}\n.nf\n{}.fi\n", roff(topic.name), roff(topic.text));
  }
  return text + ".SH EXIT STATUS\n" + roff(app.get_footer()) + "\n";
}

// -----------------------------------------------------------------------------------------------------------

struct HelpArguments {
  std::vector<std::string> words;
  Shell shell = Shell::kBash;
};

Result<CLI::App*> command_named(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* command = &app;
  for (const std::string& word : words) {
    const std::vector<CLI::App*> below = commands_of(*command);
    const auto found = std::ranges::find(below, word, [](const CLI::App* one) { return one->get_name(); });
    if (found == below.end()) {
      std::vector<std::string> names;
      for (const CLI::App* each : below) names.push_back(each->get_name());
      if (command == &app) {
        for (const HelpTopic& topic : help_topics()) names.emplace_back(topic.name);
      }
      return fail(ErrorCode::kUsage, "no command or topic named {}{} ({} help lists them)",
                  fmt::join(words, " "), did_you_mean(word, names), app.get_name());
    }
    command = *found;
  }
  return command;
}

// The topics in a list, behind the help of the whole program.
std::string topics_text(const std::string& program) {
  std::string text = fmt::format("Topics ({} help TOPIC):\n", program);
  for (const HelpTopic& topic : help_topics()) text += fmt::format("  {:<32}{}\n", topic.name, topic.summary);
  return text;
}

// The text of `help WORDS`: of a topic, of a command, or of the program.
Result<std::string> help_text(CLI::App& app, const std::vector<std::string>& words) {
  if (words.size() == 1) {
    const auto topics = help_topics();
    const auto topic = std::ranges::find(topics, words.front(), &HelpTopic::name);
    if (topic != topics.end()) return std::string(topic->text);
  }
  SACCADE_ASSIGN(CLI::App * command, command_named(app, words));
  std::string before = app.get_name();
  for (size_t i = 0; i + 1 < words.size(); ++i) before += " " + words[i];
  app.clear();
  // Passes the names of the parent commands, as the command's help adds only its own.
  if (!words.empty()) return command->help(before);
  return command->help() + "\n" + topics_text(app.get_name());
}

}  // namespace

void add_help_commands(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<HelpArguments>();
  CLI::App* help = app.add_subcommand("help", "Explain a command or a topic");
  help->add_option("COMMAND", arguments->words,
                   "command, such as search or collection info, or a topic, such as filters");
  help->callback([arguments, &app, &chosen] {
    chosen = [arguments, &app](Session& session) -> Result<int> {
      SACCADE_ASSIGN(const std::string text, help_text(app, arguments->words));
      SACCADE_TRY(session.out.write(text));
      return kDone;
    };
  });
  CLI::App* completion = app.add_subcommand("completion", "Print the completion script of a shell");
  add_choice(*completion, "SHELL", arguments->shell, "shell to complete in")->required();
  completion->callback([arguments, &app, &chosen] {
    chosen = [arguments, &app](Session& session) -> Result<int> {
      const std::string text = arguments->shell == Shell::kBash  ? bash_completion(app)
                               : arguments->shell == Shell::kZsh ? zsh_completion(app)
                                                                 : fish_completion(app);
      SACCADE_TRY(session.out.write(text));
      return kDone;
    };
  });
  CLI::App* man = app.add_subcommand("man", "Print the manual page; man -l - shows it");
  man->callback([&app, &chosen] {
    chosen = [&app](Session& session) -> Result<int> {
      SACCADE_TRY(session.out.write(manual(app, app.version())));
      return kDone;
    };
  });
}

void group_options(CLI::App& command, std::initializer_list<OptionGroup> groups) {
  for (const OptionGroup& group : groups) {
    for (const char* name : group.options) command.get_option(name)->group(group.heading);
  }
}

}  // namespace saccade::app
