// saccade collection reencode: a collection anew with another encoder, and the switch to it.
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/collection_json.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/engine/core.h"
#include "saccade/image/decode/video.h"

#include "collection_choice.h"
#include "collection_settings.h"
#include "command_collection.h"
#include "command_help.h"
#include "core_options.h"
#include "load_checkpoint.h"
#include "print/ingest_report.h"
#include "walk_options.h"

namespace saccade::app {
namespace {

struct ReencodeArguments {
  std::string collection;
  std::string to;
  std::string checkpoint;
  EncoderChoice encoder;
  CollectionSettings settings;
  EngineCore::ReencodeCall call;
  std::string name;  // --switch
  bool json = false;
};

Json reencode_json(const ReencodeArguments& arguments, const EngineCore::Reencoded& done) {
  const ReencodeReport& report = done.report;
  Json failed = Json::array();
  for (const Failure& failure : report.failed) failed.push_back(failure_json(failure));
  return {{"collection", arguments.collection},
          {"to", arguments.to},
          {"items", report.items},
          {"added", report.added},
          {"updated", report.updated},
          {"duplicates", report.duplicates},
          {"described", report.described},
          {"moved", report.moved},
          {"removed", report.removed},
          {"unchanged", report.unchanged},
          {"failed", std::move(failed)},
          {"cancelled", report.cancelled},
          {"switched", done.switched},
          {"already", done.already}};
}

std::string reencode_text(const ReencodeArguments& arguments, const ReencodeReport& report) {
  std::string text = fmt::format("{}: {} of {} encoded", one_line(arguments.to),
                                 count_text(report.added + report.updated - report.duplicates),
                                 counted(report.items, "image"));
  const auto also = [&](int64_t count, const char* what) {
    if (count > 0) text += fmt::format(", {} {}", count_text(count), what);
  };
  also(report.unchanged, "there already");
  also(report.duplicates, "the same bytes as another");
  also(report.described, "with another caption or metadata");
  also(report.moved, "moved");
  also(report.removed, "removed");
  text += "\n";
  for (const Failure& failure : report.failed) {
    text += fmt::format("  left out: {}\n", failure_text(failure));
  }
  return text;
}

Result<int> run_reencode(ReencodeArguments& arguments, Session& session) {
  SACCADE_TRY(settle_collection(arguments.collection, session.messages));
  const bool fresh = !is_collection(arguments.to);
  if (fresh && arguments.checkpoint.empty()) {
    return fail(ErrorCode::kUsage, "{}: a new collection: name the checkpoint to encode with (-m)",
                arguments.to);
  }
  EngineCoreOptions options = core_options(arguments.to, arguments.checkpoint, arguments.encoder, session);
  options.choices = choices_of(arguments.settings);
  if (!fresh) options.precision = arguments.encoder.precision;  // else the collection's own
  SACCADE_ASSIGN(const std::unique_ptr<EngineCore> core, EngineCore::open(std::move(options)));
  EngineCore::ReencodeCall& call = arguments.call;
  call.from = arguments.collection;
  call.name = arguments.name;
  call.ingest.video_tools = find_video_tools();
  call.ingest.limits.processes = session.decoders.start(session.messages, call.ingest.limits.max_pixels);
  ProgressLine progress(session.quiet);
  auto done = core->reencode(call, progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (!done) return fail(std::move(done).error());
  const ReencodeReport& report = done->report;
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(reencode_json(arguments, *done)));
  } else {
    std::string text;
    if (!done->already) text = reencode_text(arguments, report);
    if (done->switched) {
      text += fmt::format("{} leads to {}{}\n", one_line(arguments.name), one_line(arguments.to),
                          done->already ? " already: nothing was encoded" : "");
    }
    SACCADE_TRY(session.out.write(text));
  }
  if (report.cancelled) {
    return fail(ErrorCode::kCancelled, "stopped; encoded images are kept, and the same command resumes");
  }
  if (report.failed.empty()) return kDone;
  if (!arguments.name.empty() && !done->switched) {
    session.messages.warning(
        fmt::format("{} was not switched, because of {} left out: repair or remove what is named above and "
                    "repeat the command, or add --incomplete",
                    one_line(arguments.name), counted(std::ssize(report.failed), "image")));
  }
  return kSomeFailed;
}

}  // namespace

void add_collection_reencode_command(CLI::App& group, Command& chosen) {
  auto arguments = std::make_shared<ReencodeArguments>();
  CLI::App* command = group.add_subcommand(
      "reencode", "Encode a collection anew with another checkpoint, into a second one beside it");
  add_collection_option(*command, arguments->collection);
  command
      ->add_option(
          "--to", arguments->to,
          "second collection: a folder, or weaviate://HOST:PORT/Name; created if missing. One that a "
          "stopped command left is filled further")
      ->required();
  command->add_option("-m,--model", arguments->checkpoint,
                      std::string(kCheckpointHelp) + "; required if the second collection is new");
  CLI::Option* name = command->add_option(
      "--switch", arguments->name,
      "name under which the first collection is used: a symbolic link to its folder, or weaviate://HOST:PORT/Alias. "
      "When all images are encoded, it leads to the second collection, in one step");
  command
      ->add_flag("--incomplete", arguments->call.incomplete,
                 "switch although images are left out, such as those without a file here")
      ->needs(name);
  add_collection_settings(*command, arguments->settings,
                          "Fixed when the second collection is created (default: as in the first)");
  add_encoding_options(*command, arguments->call.ingest);
  add_encoder_options(*command, arguments->encoder, "the second collection's own; fp32 if it is new");
  add_device_option(*command, arguments->encoder);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  group_options(*command,
                {{"Limits on files", {"--max-bytes", "--max-pixels", "--max-seconds", "--decode-memory"}},
                 {"Model and speed", {"-m", "--precision", "--threads", "--device", "--batch-size"}}});
  run_when_given(*command, chosen, arguments, run_reencode);
}

}  // namespace saccade::app
