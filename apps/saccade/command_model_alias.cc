// saccade model alias: names that a user gives to checkpoints.
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "saccade/model/checkpoints/alias.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/checkpoints/locate.h"

#include "command_model.h"

namespace saccade::app {
namespace {

struct AliasArguments {
  std::string name;
  std::string checkpoint;
  bool remove = false;
  bool json = false;
};

// The folder as it will be found from anywhere; a hub's name as it is.
Result<std::string> target_of(const std::string& checkpoint) {
  SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(checkpoint));
  if (!looks_like_checkpoint(folder)) {
    return fail(ErrorCode::kNotFound, "{}: no checkpoint there", folder.string());
  }
  std::error_code error;
  if (!std::filesystem::exists(checkpoint, error) && !checkpoint_of_alias(checkpoint) &&
      checkpoint != kStarterName) {
    return checkpoint;
  }
  const std::filesystem::path whole = std::filesystem::canonical(folder, error);
  if (error) return fail_errno(error.value(), folder.string());
  return whole.string();
}

Result<int> run_alias(const AliasArguments& arguments, Session& session) {
  if (arguments.remove) {
    if (arguments.name.empty()) return fail(ErrorCode::kUsage, "--remove: which name?");
    SACCADE_TRY(remove_checkpoint_alias(arguments.name));
    return kDone;
  }
  if (!arguments.checkpoint.empty()) {
    SACCADE_ASSIGN(const std::string target, target_of(arguments.checkpoint));
    SACCADE_TRY(set_checkpoint_alias(arguments.name, target));
  }
  Json json = Json::array();
  std::string text;
  for (const auto& [name, target] : checkpoint_aliases()) {
    if (!arguments.name.empty() && name != arguments.name) continue;
    json.push_back({{"name", name}, {"checkpoint", target}});
    text += fmt::format("{}  {}\n", name, one_line(target));
  }
  if (!arguments.name.empty() && text.empty()) {
    return fail(ErrorCode::kNotFound, "no checkpoint is called \"{}\"{}", arguments.name,
                checkpoint_suggestion(arguments.name));
  }
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json({{"aliases", std::move(json)}}));
  } else {
    SACCADE_TRY(session.out.write(
        text.empty() ? "no names yet: saccade model alias NAME CHECKPOINT gives one\n" : text));
  }
  return kDone;
}

}  // namespace

void add_model_alias_command(CLI::App& group, Command& chosen) {
  auto arguments = std::make_shared<AliasArguments>();
  CLI::App* command =
      group.add_subcommand("alias", "Give a checkpoint a short name for -m, or list the names");
  command->add_option("NAME", arguments->name, "name to set or to show: letters, digits, - _ and .");
  CLI::Option* checkpoint =
      command->add_option("CHECKPOINT", arguments->checkpoint,
                          "checkpoint to name: a folder, or OWNER/NAME[@REVISION] of the hub's cache");
  command->add_flag("--remove", arguments->remove, "remove the name; the checkpoint stays")
      ->excludes(checkpoint);
  command->add_flag("--json", arguments->json, "print the names as JSON");
  run_when_given(*command, chosen, arguments, run_alias);
}

}  // namespace saccade::app
