// saccade train editor: a small editor of pictures from edit queries.
// Only in saccade-lab-train (main.cc).
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "lab/train/recipes/train_editor.h"
#include "saccade/model/checkpoints/fingerprint.h"
#include "saccade/model/options/precision_names.h"

#include "choice.h"
#include "command_help.h"
#include "command_train.h"
#include "lab_commands.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct EditorArguments {
  EditorTrainingOptions options;
  bool json = false;
};

std::string report_text(const EditorTrainingReport& report) {
  std::string text = fmt::format("{} done on {} with {}, loss {:.4f}, {:.1f} examples a second; {}\n",
                                 counted(report.steps, "step"), counted(report.queries, "edit"),
                                 counted(report.texts, "different text"), report.last_loss,
                                 report.examples_per_second, counted(report.parameters, "parameter"));
  text += left_out_text(report.left_out);
  if (report.cut > 0) text += fmt::format("{} longer than the editor reads\n", counted(report.cut, "text"));
  if (report.best_step > 0) {
    text += fmt::format("editor of step {} in {}\n", count_text(report.best_step),
                        one_line(report.model.string()));
  }
  for (const Json& set : report.best) {
    text += fmt::format("{}: loss {:.4f} on {}; leaving the reference as it is {:.4f}\n",
                        one_line(set["name"].get<std::string>()), set["loss"].get<double>(),
                        counted(set["queries"].get<int64_t>(), "edit"), set["reference_loss"].get<double>());
  }
  return text;
}

Result<int> run_train_editor(const EditorArguments& arguments, Session& session) {
  EditorTrainingOptions options = arguments.options;
  SACCADE_ASSIGN(options.encoder, checkpoint_or_starter(options.encoder));
  options.fingerprints = user_fingerprint_memory();
  options.processes = session.decoders.start(session.messages);
  ProgressLine progress(session.quiet);
  auto report = train_editor(options, progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  std::optional<std::string> stopped;
  if (!report->finished && !options.dry_run) {
    stopped = fmt::format("after {} of {} steps", report->steps, options.steps);
  }
  return end_training(session, arguments.json, editor_training_json(*report), report_text(*report), stopped,
                      report->left_out);
}

void add_shape_options(CLI::App& command, EditorConfig& shape) {
  const auto add = [&](const char* name, int64_t& value, const char* help, int64_t least, int64_t most) {
    add_number(command, name, value, whole_number(least, most), help);
  };
  add("--side", shape.side, "side of the images, in pixels", 1, 1024);
  add("--patch-size", shape.patch_size, "patch size, in pixels", 1, 256);
  add("--width", shape.width, "width of the transformer", 1, 4096);
  add("--layers", shape.layers, "number of transformer blocks", 1, 100);
  add("--heads", shape.heads, "number of attention heads; must divide the width", 1, 128);
  add("--mlp-width", shape.mlp_width, "hidden width of the MLPs", 1, 16'384);
  add("--text-tokens", shape.text_tokens, "maximum number of text tokens", 2, 1024);
  add_choice(command, "--text-states", shape.text_states,
             "text conditioning: one state per token, or the text embedding, which every encoder has");
  add("--draw-steps", shape.steps, "default number of Euler sampling steps", 1, 1000);
  add_number(command, "--guidance", shape.guidance, real_number(0, 100),
             "default guidance scale; 1: no guidance");
}

}  // namespace

void add_train_editor_command(CLI::App& group, Command& chosen) {
  auto arguments = std::make_shared<EditorArguments>();
  EditorTrainingOptions& options = arguments->options;
  CLI::App* command = group.add_subcommand(
      "editor", "Train an editor that draws \"this picture, but ...\", from edit queries");
  command
      ->add_option(
          "--dataset", options.datasets,
          "datasets of edit queries to train on (see saccade help datasets): PATH or PATH#split=NAME")
      ->required();
  command->add_option("--held-out", options.held_out, "held-out edit queries to evaluate during training");
  add_number(*command, "--held-out-queries", options.held_out_queries, whole_number(0),
             "number of random queries of each held-out dataset to evaluate; 0: all");
  command->add_option("-m,--model", options.encoder,
                      "checkpoint of the frozen text encoder (default: the starter)");
  add_path(*command, "--cache", options.cache,
           "cache folder for decoded images (default: cache in the run folder)");
  add_loop_options(*command, options);
  add_step_options(*command, options);
  add_number(*command, "--batch-size", options.batch, whole_number(1, 1 << 20),
             "batch size: number of edits");
  add_old_name(*command, "--batch-size", "--batch");
  add_number(*command, "--text-dropout", options.text_dropout, real_number(0, 1),
             "text dropout probability, for classifier-free guidance, 0 to 1");
  add_shape_options(*command, options.shape);
  add_choice_of(*command, "--precision", options.precision, {"fp32", "bf16"},
                "number format of matrix products; weights are trained in fp32");
  add_threads_option(*command, options.threads);
  add_decode_options(*command);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  group_options(
      *command,
      {{"Data and text encoder", {"--dataset", "--held-out", "--held-out-queries", "-m", "--cache"}},
       {"The editor",
        {"--side", "--patch-size", "--width", "--layers", "--heads", "--mlp-width", "--text-tokens",
         "--text-states", "--draw-steps", "--guidance"}},
       {"Optimizer and schedule",
        {"--steps", "--batch-size", "--accumulate", "--text-dropout", "--learning-rate", "--warmup",
         "--schedule", "--weight-decay", "--adam-beta1", "--adam-beta2", "--adam-epsilon",
         "--max-gradient-norm", "--seed"}},
       {"The run", {"-o", "--evaluate-every", "--patience", "--checkpoint-every", "--dry-run"}},
       {"Device and speed", {"--device", "--precision", "--threads", "--decode-memory"}}});
  run_when_given(*command, chosen, arguments, run_train_editor);
}

}  // namespace saccade::lab::app
