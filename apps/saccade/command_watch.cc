// saccade watch: a collection that follows its folders.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/collection_json.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/ingest/watch.h"

#include "collection_choice.h"
#include "command_help.h"
#include "core_options.h"
#include "load_checkpoint.h"
#include "number.h"
#include "print/ingest_report.h"
#include "product_commands.h"
#include "towns.h"
#include "walk_options.h"

namespace saccade::app {
namespace {

struct WatchArguments {
  std::vector<std::string> paths;
  std::string collection;
  std::string checkpoint;
  EncoderChoice encoder;
  WatchOptions watch;
  bool json = false;
};

// Reports the indexed files, if there are any.
Status tell_report(const IngestReport& report, const WatchArguments& arguments, Session& session) {
  const bool news = report.added + report.updated + report.moved + report.removed + report.facts_read > 0 ||
                    !report.failed.empty();
  if (!news) return {};
  if (arguments.json) {
    Json json = {{"collection", arguments.collection}};
    json.update(ingest_json(report));
    return session.out.write_json(json);
  }
  return session.out.write(report_text(report, arguments.watch.ingest, arguments.collection));
}

Result<int> run_watch(WatchArguments& arguments, Session& session) {
  const auto info = read_collection_info(arguments.collection);
  if (!info && info.error().code == ErrorCode::kNotFound) {
    return fail(ErrorCode::kNotFound, "{}; `saccade index PATH -c {}` makes one", info.error().message,
                arguments.collection);
  }
  SACCADE_TRY(info);
  DecodeOptions& limits = arguments.watch.ingest.limits;
  limits.processes = session.decoders.start(session.messages, limits.max_pixels);
  const std::unique_ptr<Gazetteer> towns = find_towns();
  arguments.watch.ingest.places = towns.get();
  SACCADE_ASSIGN(
      const std::unique_ptr<EngineCore> core,
      EngineCore::open(core_options(arguments.collection, arguments.checkpoint, arguments.encoder, session)));
  const std::vector<std::filesystem::path> inputs(arguments.paths.begin(), arguments.paths.end());
  std::stop_source failed;  // a reader of stdout that has gone
  const std::stop_token asked = session.interrupts.stop_cleanly();
  const std::stop_callback passed_on(asked, [&] { failed.request_stop(); });
  Status written;
  const auto news = [&](const WatchNews& happened) {
    if (!happened.text.empty()) {
      happened.warning ? session.messages.warning(happened.text) : session.messages.info(happened.text);
    }
    if (happened.report && written) {
      written = tell_report(*happened.report, arguments, session);
      if (!written) failed.request_stop();
    }
  };
  session.messages.info(
      arguments.watch.ingest.prune
          ? "images whose files are deleted are removed from the collection (--no-prune keeps them)"
          : "images whose files are deleted are kept");
  SACCADE_TRY(core->watch(inputs, arguments.watch, news, failed.get_token()));
  SACCADE_TRY(written);
  return kDone;
}

}  // namespace

void add_watch_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<WatchArguments>();
  CLI::App* command = app.add_subcommand("watch", "Keep a collection up to date while its folders change");
  command->add_option("PATH", arguments->paths, "folders and files to watch")->required();
  // It is refused with a sentence, because `index` has it.
  command
      ->add_option_function<std::string>(
          "--files-from", [](const std::string&) {}, "refused")
      ->check([](const std::string&) {
        return std::string(
            "watch follows folders, as a list does not say where new files appear: name folders, or index the "
            "list once (saccade index --files-from)");
      })
      ->group("");
  add_collection_option(*command, arguments->collection);
  command->add_option("-m,--model", arguments->checkpoint,
                      std::string(kCheckpointHelp) + " (default: the collection's own)");
  WatchOptions& watch = arguments->watch;
  command->add_flag_callback(
      "--no-prune", [arguments] { arguments->watch.ingest.prune = false; },
      "keep images whose files are deleted (default: remove them from the collection)");
  // The default, which had to be asked for once.
  command
      ->add_flag_callback(
          "--prune", [arguments] { arguments->watch.ingest.prune = true; },
          "remove images whose files are deleted")
      ->group("");
  add_walk_options(*command, watch.ingest);
  add_number(*command, "--settle", watch.settle_seconds, real_number(0),
             "time without changes before indexing starts, in seconds");
  add_number(*command, "--look", watch.look_seconds, real_number(0.1),
             "polling interval for folders that cannot be watched or are missing, in seconds");
  add_number(*command, "--most-watches", watch.most_watches, whole_number(0),
             "maximum number of watched folders; 0: the kernel's limit");
  add_encoder_options(*command, arguments->encoder, kPrecisionOfCollection);
  add_device_option(*command, arguments->encoder);
  add_decode_options(*command, watch.ingest.limits);
  command->add_flag("--json", arguments->json, "print one line of JSON per update");
  group_options(
      *command,
      {{"What is indexed",
        {"--no-prune", "--retry-failed", "--follow-links", "--hidden", "--exclude", "--no-ignore-files",
         "--no-sidecars", "--no-metadata", "--video-seconds", "--video-frames"}},
       {"Following changes", {"--settle", "--look", "--most-watches"}},
       {"Limits on files", {"--max-bytes", "--max-pixels", "--max-seconds", "--decode-memory"}},
       {"Model and speed", {"-m", "--precision", "--threads", "--device"}}});
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) -> Result<int> {
      SACCADE_TRY(settle_collection_to_fill(arguments->collection, {}, session.messages));
      return run_watch(*arguments, session);
    };
  });
}

}  // namespace saccade::app
