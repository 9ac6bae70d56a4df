// saccade generate edits: a picture for every edit query of a dataset.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "lab/data/dataset.h"
#include "lab/data/read_dataset.h"
#include "lab/generate/generate_edits.h"
#include "lab/generate/own_engine.h"

#include "choice.h"
#include "engine_options.h"
#include "lab_commands.h"
#include "load_checkpoint.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

constexpr const char* kOwnEngine = "own";

struct GenerateArguments {
  std::string dataset;
  std::string folder;
  EngineArguments engine;
  OwnEngineOptions own;
  std::string editor;
  EncoderChoice encoder;  // threads and precision of the laboratory's own editor
  GenerateEditsOptions options;
  bool json = false;
};

std::string report_text(const GenerateEditsReport& report) {
  std::string text = fmt::format("{}: {}\n", counted(report.queries, "edit"), one_line(report.list.string()));
  text += fmt::format("made         {}, {:.1f} a second{}\n", counted(report.made, "image"),
                      report.seconds > 0 ? static_cast<double>(report.made) / report.seconds : 0.0,
                      report.requests > 0
                          ? fmt::format("; {}, {} there and back", counted(report.requests, "request"),
                                        size_text(report.bytes))
                          : "");
  if (report.there > 0) text += fmt::format("there before {}\n", counted(report.there, "edit"));
  if (report.shared > 0) text += fmt::format("asked alike  {}\n", counted(report.shared, "edit"));
  if (report.cut_texts > 0) {
    text += fmt::format("cut          {} longer than the editor reads\n", counted(report.cut_texts, "text"));
  }
  if (report.failed > 0) text += fmt::format("failed       {}\n", counted(report.failed, "edit"));
  for (const std::string& failure : report.failures) text += fmt::format("  {}\n", one_line(failure));
  if (report.failed > std::ssize(report.failures)) text += "  ... (all are in the list)\n";
  if (report.untried > 0) text += fmt::format("not come to  {}\n", counted(report.untried, "edit"));
  return text;
}

// Opens the engine that was asked for: the laboratory's own editor unless another kind is named.
Result<std::unique_ptr<PictureEngine>> open_engine_of(GenerateArguments& arguments) {
  const ImageEngineOptions& elsewhere = arguments.engine.options;
  if (!arguments.engine.kind.empty() && arguments.engine.kind != kOwnEngine)
    return engine_of(arguments.engine);
  if (!arguments.engine.set.empty() || !arguments.engine.size.empty() || !elsewhere.endpoint.empty() ||
      !elsewhere.model.empty() || !arguments.engine.workflow.empty()) {
    return fail(ErrorCode::kUsage,
                "--endpoint, --size, --set, --engine-model and --workflow are for engines that speak HTTP; "
                "name one with --engine");
  }
  if (arguments.encoder.fastest) {
    return fail(ErrorCode::kUsage, "--precision auto is for encoders: name the editor's, fp32 or bf16");
  }
  arguments.own.editor = arguments.editor;
  arguments.own.prompt = elsewhere.prompt;
  arguments.own.encoder = options_of(arguments.encoder);
  return open_own_engine(arguments.own);
}

// Adds the options of the laboratory's own editor.
void add_editor_options(CLI::App& command, GenerateArguments& arguments) {
  EditSettings& edit = arguments.own.edit;
  command.add_option("--editor", arguments.editor,
                     "folder of an editor made by `saccade-lab train editor` (for --engine own; "
                     "default: $SACCADE_EDITOR, or models/editor beside the starter)");
  command
      .add_option_function<int64_t>(
          "--draw-steps", [&edit](const int64_t& steps) { edit.steps = steps; },
          "number of sampling steps of the editor, 1 to 1000 (for --engine own; default: its checkpoint's)")
      ->transform(whole_number(1, 1000));
  command
      .add_option_function<double>(
          "--guidance", [&edit](const double& guidance) { edit.guidance = guidance; },
          "guidance scale of the editor, 0 to 100; 1 is no guidance (for --engine own; default: its "
          "checkpoint's)")
      ->transform(real_number(0, 100));
}

Result<int> run(GenerateArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const DatasetSource source, parse_dataset_source(arguments.dataset));
  SACCADE_ASSIGN(const Dataset dataset, read_dataset(source));
  SACCADE_ASSIGN(const std::unique_ptr<PictureEngine> engine, open_engine_of(arguments));
  GenerateEditsOptions& options = arguments.options;
  options.folder = arguments.folder;
  options.decode.processes = session.decoders.start(session.messages, options.max_pixels);
  const std::stop_token stop = session.interrupts.stop_cleanly();
  ThreadPool pool(arguments.encoder.threads);
  ProgressLine progress(session.quiet);
  auto report = generate_edits(dataset, *engine, options, pool, progress.callback(), stop);
  progress.clear();
  if (!report) return fail(std::move(report).error());
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(generate_edits_json(*report)));
  } else {
    SACCADE_TRY(session.out.write(report_text(*report)));
  }
  if (!report->ended.empty()) {
    return fail(report->cancelled ? ErrorCode::kCancelled : ErrorCode::kIo,
                "ended early: {}; the same command goes on from there", one_line(report->ended));
  }
  return report->failed > 0 ? kSomeFailed : kDone;
}

void add_generate_edits(CLI::App& group, Command& chosen) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = group.add_subcommand(
      "edits", "Generate an image for every edit query of a dataset, as a pseudo-target for training");
  command
      ->add_option("--dataset", arguments->dataset,
                   "dataset of edit queries (see saccade help datasets): PATH or PATH#split=NAME")
      ->required();
  command
      ->add_option("-o,--output", arguments->folder,
                   "folder for the images and their list; existing images are not generated again")
      ->required();
  std::vector<std::string> kinds = names_of<EngineKind>();
  kinds.insert(kinds.begin(), kOwnEngine);
  add_engine_options(
      *command, arguments->engine, std::move(kinds),
      "image engine that draws: own (an editor that `saccade-lab train editor` made) or a server (see "
      "saccade help engines; default: own)");
  add_editor_options(*command, *arguments);
  add_number(*command, "--limit", arguments->options.limit, whole_number(0),
             "number of random queries; 0: the whole dataset");
  add_number(*command, "--seed", arguments->options.seed, whole_number(0),
             "seed of the images, and of the choice of --limit");
  add_number(*command, "--give-up-after", arguments->options.give_up_after, whole_number(0),
             "number of consecutive failures after which to stop; 0: never");
  add_number(*command, "--max-pixels", arguments->options.max_pixels, whole_number(1, 1'000'000'000),
             "maximum size of a generated image, in pixels");
  command->add_flag("--replace-list", arguments->options.replace_list,
                    "replace the folder's list if it was made from another dataset or with other settings");
  add_encoder_options(*command, arguments->encoder);
  add_decode_options(*command);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace

void add_generate_command(CLI::App& app, Command& chosen) {
  CLI::App* group = app.add_subcommand("generate", "Generate images with an engine");
  group->require_subcommand(1);
  add_generate_edits(*group, chosen);
}

}  // namespace saccade::lab::app
