// saccade model pull: a checkpoint from a hub into its cache.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "saccade/hub/pull.h"

#include "command_model.h"

namespace saccade::app {
namespace {

struct PullArguments {
  std::string name;
  std::string endpoint;
  std::string token_file;
  std::string cache;
  bool offline = false;
  bool json = false;
};

Result<hub::Settings> settings_of(const PullArguments& arguments) {
  SACCADE_ASSIGN(hub::Settings settings, hub::settings_from_environment());
  if (!arguments.endpoint.empty()) {
    SACCADE_ASSIGN(settings.endpoint, hub::clean_endpoint(arguments.endpoint));
  }
  if (!arguments.token_file.empty()) {
    SACCADE_ASSIGN(settings.token, hub::read_token(arguments.token_file).in("the hub's token"));
  }
  if (!arguments.cache.empty()) settings.cache = arguments.cache;
  settings.offline = settings.offline || arguments.offline;
  return settings;
}

Result<int> run_pull(const PullArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const hub::ModelName name, hub::parse_model_name(arguments.name));
  hub::PullOptions options;
  SACCADE_ASSIGN(options.settings, settings_of(arguments));
  ProgressLine progress(session.quiet);
  const auto report = hub::pull(name, options, progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) {
    if (report.error().code != ErrorCode::kCancelled) return fail(report.error());
    return fail(ErrorCode::kCancelled, "stopped; the same command goes on from here");
  }
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(hub::pull_json(*report)));
    return kDone;
  }
  std::string text;
  int64_t total = 0;
  for (const hub::PulledFile& file : report->files) {
    text += fmt::format("{:>10}  {}{}\n", size_text(file.size), one_line(file.name),
                        file.downloaded ? "" : "  (there already)");
    total += file.size;
  }
  text += fmt::format("{:>10}  {} at commit {}, in {}\n", size_text(total), name.text(), report->commit,
                      one_line(report->path.string()));
  SACCADE_TRY(session.out.write(text));
  return kDone;
}

}  // namespace

void add_model_pull_command(CLI::App& group, Command& chosen) {
  auto arguments = std::make_shared<PullArguments>();
  CLI::App* command =
      group.add_subcommand("pull", "Download a checkpoint from a hub; resumes an interrupted download");
  command->add_option("MODEL", arguments->name, "OWNER/NAME, or OWNER/NAME@REVISION (default: main)")
      ->required();
  command->add_option("--endpoint", arguments->endpoint,
                      "address of the hub (default: $HF_ENDPOINT, or Hugging Face's)");
  command->add_option("--token-file", arguments->token_file,
                      "file with the access token (default: $HF_TOKEN, or the file token in $HF_HOME)");
  command->add_option("--cache", arguments->cache,
                      "folder of the hub's cache (default: $HF_HUB_CACHE, or ~/.cache/huggingface/hub)");
  command->add_flag("--offline", arguments->offline,
                    "use no network: only check that the checkpoint is complete (default: $HF_HUB_OFFLINE)");
  command->add_flag("--json", arguments->json, "print the result as JSON");
  run_when_given(*command, chosen, arguments, run_pull);
}

}  // namespace saccade::app
