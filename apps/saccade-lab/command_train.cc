// saccade train dual: a dual encoder from pictures and their captions.
// Only in saccade-lab-train (main.cc).
#include "command_train.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/report/run_page.h"
#include "lab/train/recipes/train_dual.h"
#include "saccade/core/files/files.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/options/precision_names.h"

#include "choice.h"
#include "command_help.h"
#include "command_report.h"
#include "lab_commands.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct TrainArguments {
  std::vector<std::string> datasets;
  std::vector<std::string> held_out;
  DualTrainingOptions options;
  bool json = false;
};

std::string done_text(const DualTrainingReport& report) {
  if (report.steps == 0) return "0 steps done: the model is untrained\n";
  if (report.finished && report.resumed_from == report.steps) {
    return fmt::format("finished already: {} done, loss {:.4f}\n", counted(report.steps, "step"),
                       report.last_loss);
  }
  return fmt::format("{} done, loss {:.4f}, {:.0f} images a second\n", counted(report.steps, "step"),
                     report.last_loss, report.images_per_second);
}

std::string plan_text(const DualTrainingPlan& plan) {
  std::string text =
      fmt::format("images       {}, with {}\nheld out     {}\nparameters   {}\nmemory       {}, measured\n",
                  count_text(plan.pictures), counted(plan.captions, "caption"),
                  counted(plan.held_out, "image"), count_text(plan.parameters), size_text(plan.memory_bytes));
  if (plan.seconds_a_step > 0) {
    text += fmt::format("time         {} for {}, at {:.3g} s a step, and what evaluations take\n",
                        duration_text(plan.seconds), counted(plan.steps, "step"), plan.seconds_a_step);
  }
  return text + "nothing was written\n";
}

std::string report_text(const DualTrainingReport& report) {
  std::string text = report.plan ? plan_text(*report.plan) : done_text(report);
  text += left_out_text(report.left_out);
  if (!report.best.empty()) {
    text += fmt::format(
        "best checkpoint, of step {}, in {}\n"
        "held out, each image with its first caption (as `eval retrieval --captions one-caption`):\n",
        count_text(report.best_step), one_line(report.model.string()));
    text += fmt::format(
        "{:<24} {:>8}   {:^20}   {:^20}\n{:<24} {:>8}   {:>6} {:>6} {:>6}   {:>6} {:>6} {:>6}\n", "", "",
        "text to image", "image to text", "held out", "images", "R@1", "R@5", "R@10", "R@1", "R@5", "R@10");
  }
  for (const OneCaptionRecall& set : report.best) {
    const Recall& to_image = set.text_to_image;
    const Recall& to_text = set.image_to_text;
    text += fmt::format("{:<24} {:>8}   {:>6.3f} {:>6.3f} {:>6.3f}   {:>6.3f} {:>6.3f} {:>6.3f}\n",
                        one_line(set.name), count_text(set.images), to_image.r1, to_image.r5, to_image.r10,
                        to_text.r1, to_text.r5, to_text.r10);
  }
  return text;
}

Result<int> run_train_dual(const TrainArguments& arguments, Session& session) {
  DualTrainingOptions options = arguments.options;
  SACCADE_TRY(add_sources(arguments.datasets, options.datasets));
  SACCADE_TRY(add_sources(arguments.held_out, options.held_out));
  if (!options.initial.empty()) {
    SACCADE_ASSIGN(options.initial, find_checkpoint(options.initial.string()).in("--initial"));
  }
  options.processes = session.decoders.start(session.messages);
  ProgressLine progress(session.quiet);
  auto report = train_dual(options, progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  for (const std::string& sentence : report->also_trained) session.messages.warning(one_line(sentence));
  std::optional<std::string> stopped;
  if (!report->finished && !options.dry_run) {
    stopped = fmt::format("after {} of {} steps", report->steps, options.steps);
  }
  return end_training(session, arguments.json, dual_training_json(*report), report_text(*report), stopped,
                      report->left_out);
}

}  // namespace

CLI::Option* add_path(CLI::App& command, const char* name, std::filesystem::path& path, const char* help) {
  return command.add_option_function<std::string>(
      name, [&path](const std::string& text) { path = text; }, help);
}

Result<std::string> checkpoint_or_starter(const std::string& named) {
  if (!named.empty()) return named;
  SACCADE_ASSIGN(const std::filesystem::path starter, starter_checkpoint());
  return starter.string();
}

Status add_sources(const std::vector<std::string>& given, std::vector<DatasetSource>& sources) {
  for (const std::string& text : given) {
    SACCADE_ASSIGN(DatasetSource source, parse_dataset_source(text));
    sources.push_back(std::move(source));
  }
  return {};
}

Result<BackendOptions> encoder_of(std::string& checkpoint, EncoderChoice choice, Session& session) {
  SACCADE_ASSIGN(checkpoint, checkpoint_or_starter(checkpoint));
  SACCADE_TRY(settle_precision(checkpoint, choice, session.messages));
  return options_of(choice);
}

std::string left_out_text(std::span<const std::string> left_out) {
  std::string text;
  for (const std::string& picture : left_out) text += fmt::format("left out: {}\n", one_line(picture));
  return text;
}

Result<int> end_training(Session& session, bool as_json, const Json& json, const std::string& text,
                         const std::optional<std::string>& stopped, std::span<const std::string> left_out) {
  SACCADE_TRY(as_json ? session.out.write_json(json) : session.out.write(text));
  if (stopped) {
    return fail(ErrorCode::kCancelled, "stopped {}; the same command goes on from there", *stopped);
  }
  return left_out.empty() ? kDone : kSomeFailed;
}

Status write_training_page(const std::string& title, const std::filesystem::path& run,
                           const std::filesystem::path& folder, int threads, Session& session,
                           ProgressLine& progress) {
  RunPageOptions page;
  page.title = title;
  page.limits.processes = session.decoders.start(session.messages);
  if (auto script = chart_script("")) {
    page.chart_script = *std::move(script);
  } else {
    session.messages.warning("the page has tables in place of charts: " + script.error().message);
  }
  ThreadPool pool(threads);
  std::vector<ReportFolder> folders(1);
  SACCADE_ASSIGN(folders.front(), read_report_folder(run));
  SACCADE_ASSIGN(const std::string html,
                 run_page(folders, page, pool, progress.callback(), session.interrupts.stop_cleanly()));
  return write_file_atomic(folder / "report.html", html);
}

void add_step_options(CLI::App& command, TrainingLoopOptions& options) {
  add_number(command, "--steps", options.steps, whole_number(0),
             "number of batches to train on; 0: write and score the untrained model");
  add_number(command, "--evaluate-every", options.evaluate_every, whole_number(1),
             "steps between evaluations on the held-out datasets");
}

void add_optimizer_options(CLI::App& command, OptimizerOptions& options) {
  const CLI::Validator above_zero = real_number(0, std::numeric_limits<double>::max(), Lowest::kExcluded);
  const CLI::Validator below_one = real_number(0, 1, Lowest::kIncluded, Highest::kExcluded);
  add_number(command, "--learning-rate", options.learning_rate, above_zero, "peak learning rate of AdamW");
  add_number(command, "--warmup", options.warmup, real_number(0, 1),
             "share of steps with a rising learning rate (warm-up), 0 to 1");
  add_choice(command, "--schedule", options.schedule,
             "learning rate after the warm-up: half a cosine down to 0, or constant");
  add_number(command, "--weight-decay", options.weight_decay, real_number(0),
             "weight decay of AdamW, for matrices only");
  add_number(command, "--adam-beta1", options.adam_beta1, below_one,
             "AdamW's decay rate of the running mean of gradients, 0 to below 1");
  add_number(command, "--adam-beta2", options.adam_beta2, below_one,
             "AdamW's decay rate of the running mean of squared gradients, 0 to below 1");
  add_number(command, "--adam-epsilon", options.adam_epsilon, above_zero,
             "constant that AdamW adds to the denominator of an update, above 0");
  add_number(command, "--max-gradient-norm", options.max_gradient_norm, above_zero,
             "maximum gradient norm; larger gradients are scaled down");
}

void add_accumulate_option(CLI::App& command, int64_t& accumulate) {
  add_number(command, "--accumulate", accumulate, whole_number(1),
             "number of micro-batches that a batch is computed in, for less memory; gradients are those of "
             "the whole batch, its negatives included");
}

void add_activation_options(CLI::App& command, ActivationOptions& options) {
  command.add_flag(
      "--checkpoint-activations", options.checkpoint_activations,
      "keep the inputs of the trained towers' blocks alone for the backward pass and compute the "
      "rest again: less memory, one more forward pass");
}

void add_loop_options(CLI::App& command, TrainingLoopOptions& options) {
  add_path(command, "-o,--run", options.run,
           "folder for the training's files; a training that is already in it goes on")
      ->required();
  add_optimizer_options(command, options);
  add_number(command, "--seed", options.seed, whole_number(0),
             "random seed: weights, order, captions, augmentation");
  add_number(command, "--patience", options.patience, whole_number(0),
             "number of evaluations without improvement after which training stops early; 0: never");
  add_number(command, "--checkpoint-every", options.checkpoint_every, whole_number(1),
             "number of steps between saves of the state for resuming");
  add_accumulate_option(command, options.accumulate);
  add_choice(command, "--device", options.device,
             "device to train on; cuda needs a libtorch and a machine that have it");
  command.add_flag("--dry-run", options.dry_run, "check options and data without training");
}

void hand_over(char** /*argv*/) {}

static void add_train_dual_command(CLI::App& group, Command& chosen) {
  auto arguments = std::make_shared<TrainArguments>();
  DualTrainingOptions& options = arguments->options;
  CLI::App* command =
      group.add_subcommand("dual", "Train a dual encoder (CLIP's architecture) on images and captions");
  command
      ->add_option("--dataset", arguments->datasets,
                   "datasets to train on (see saccade help datasets): PATH or PATH#split=NAME")
      ->required();
  command->add_option("--held-out", arguments->held_out,
                      "held-out datasets to evaluate during training, each image with its first caption");
  add_path(*command, "--config", options.config,
           "JSON file with \"model\" (a CLIP's config.json), \"preprocessor\" and \"tokenizer\" (a folder) "
           "(default: those of --initial)");
  add_path(*command, "--initial", options.initial,
           "checkpoint whose weights training begins with, of the same architecture and tokenizer: a folder, "
           "OWNER/NAME[@REVISION] of the hub's cache, or starter (default: random weights)");
  add_path(*command, "--cache", options.cache,
           "cache folder for decoded images (default: cache in the run folder)");
  add_loop_options(*command, options);
  add_step_options(*command, options);
  add_number(*command, "--batch-size", options.batch, whole_number(2),
             "batch size: number of images, at least 2");
  add_old_name(*command, "--batch-size", "--batch");
  add_number(*command, "--patch-dropout", options.patch_dropout, real_number(0, 0.9),
             "patch dropout probability, 0 to 0.9");
  add_number(*command, "--unmasked", options.unmasked, real_number(0, 1),
             "share of final steps without --patch-dropout, 0 to 1");
  add_number(*command, "--first-caption", options.first_caption, real_number(0, 1),
             "probability that an image is paired with its first caption instead of a random one");
  add_choice_of(*command, "--precision", options.precision, {"fp32", "bf16"},
                "number format of matrix products; weights are trained in fp32");
  add_choice(*command, "--weights", options.weights,
             "number format of the weights in the written checkpoint");
  add_activation_options(*command, options);
  add_threads_option(*command, options.threads);
  add_decode_options(*command);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  group_options(*command,
                {{"Data", {"--dataset", "--held-out", "--cache", "--first-caption"}},
                 {"Model", {"--config", "--initial", "--weights"}},
                 {"Optimizer and schedule",
                  {"--steps", "--batch-size", "--accumulate", "--learning-rate", "--warmup", "--schedule",
                   "--weight-decay", "--adam-beta1", "--adam-beta2", "--adam-epsilon", "--max-gradient-norm",
                   "--seed", "--patch-dropout", "--unmasked"}},
                 {"The run", {"-o", "--evaluate-every", "--patience", "--checkpoint-every", "--dry-run"}},
                 {"Device and speed",
                  {"--device", "--precision", "--checkpoint-activations", "--threads", "--decode-memory"}}});
  run_when_given(*command, chosen, arguments, run_train_dual);
}

void add_train_command(CLI::App& app, Command& chosen) {
  CLI::App* group = app.add_subcommand("train", "Train an encoder");
  group->require_subcommand(1);
  add_train_dual_command(*group, chosen);
  add_train_composed_command(*group, chosen);
  add_train_head_command(*group, chosen);
  add_train_editor_command(*group, chosen);
  add_train_visualness_command(*group, chosen);
}

}  // namespace saccade::lab::app
