// saccade train visualness: a CLIP or a classifier that tells texts that picture something from others.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/train/recipes/train_visualness.h"
#include "saccade/core/files/user_folders.h"
#include "saccade/model/options/precision_names.h"

#include "choice.h"
#include "command_help.h"
#include "command_train.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct Arguments {
  VisualnessTrainingOptions options;
  std::string checkpoint;
  std::vector<std::string> automatic;
  std::vector<std::string> human;
  std::vector<std::string> validation;
  std::vector<double> learning_rates;
  std::string config;
  std::string null_picture = "random";
  std::string run;
  std::string cache;
  bool json = false;
};

std::string figures_text(const VisualnessFigures& figures) {
  std::string text =
      fmt::format("F1 {:.3f}, precision {:.3f}, recall {:.3f}, accuracy {:.3f} at threshold {:.4f}",
                  figures.f1, figures.precision, figures.recall, figures.accuracy, figures.threshold);
  if (std::isfinite(figures.mrr)) {
    text += fmt::format("; MRR {:.3f} among {}", figures.mrr, counted(figures.pictures, "image"));
  }
  return text;
}

std::string report_text(const VisualnessTrainingReport& report) {
  std::string text = fmt::format("validation, {}:\nbefore      {}\n", counted(report.before.texts, "text"),
                                 figures_text(report.before));
  for (const VisualnessStageReport& stage : report.stages) {
    if (stage.best_step > 0) {
      text += fmt::format("{:<11} {}\n            (of {} visual and {} other texts, {}, the best at {})\n",
                          stage.name, figures_text(stage.best), count_text(stage.visual),
                          count_text(stage.non_visual), counted(stage.steps, "step"),
                          count_text(stage.best_step));
    } else {
      text += fmt::format("{:<11} {} visual and {} other texts\n", stage.name, count_text(stage.visual),
                          count_text(stage.non_visual));
    }
    for (const Exclusion& exclusion : stage.excluded) {
      text += fmt::format("            left out: {} {}, such as {}\n", count_text(exclusion.count),
                          exclusion.reason, one_line(exclusion.examples.front()));
    }
  }
  if (report.finished) text += fmt::format("checkpoint  {}\n", one_line(report.model.string()));
  return text;
}

std::string grid_text(const VisualnessGridReport& report) {
  std::string text;
  for (const VisualnessGridPoint& point : report.points) {
    text += fmt::format("learning rate {}:\n{}", point.learning_rate, report_text(point.report));
  }
  if (!report.finished) return text;
  return text + fmt::format("the best F1 is that of learning rate {}\ncheckpoint  {}\n",
                            report.points[report.best].learning_rate, one_line(report.model.string()));
}

Result<int> run(const Arguments& arguments, Session& session) {
  VisualnessTrainingOptions options = arguments.options;
  SACCADE_TRY(add_sources(arguments.automatic, options.automatic.datasets));
  SACCADE_TRY(add_sources(arguments.human, options.human.datasets));
  SACCADE_TRY(add_sources(arguments.validation, options.validation));
  SACCADE_ASSIGN(options.null_picture, parse_null_picture(arguments.null_picture));
  options.run = arguments.run;
  options.checkpoint = arguments.checkpoint;
  options.config = arguments.config;
  if (options.config.empty()) {
    SACCADE_ASSIGN(options.checkpoint, checkpoint_or_starter(options.checkpoint));
  }
  options.fingerprints = user_fingerprint_memory();
  options.embed.cache = arguments.cache;
  if (const auto caches = user_cache_folder(); arguments.cache.empty() && caches) {
    options.embed.cache = *caches / "embeddings";
  }
  options.embed.warning = [&session](const std::string& text) { session.messages.warning(text); };
  options.embed.processes = session.decoders.start(session.messages);
  ProgressLine progress(session.quiet);
  if (!arguments.learning_rates.empty()) {
    const auto grid = search_learning_rates(options, arguments.learning_rates, progress.callback(),
                                            session.interrupts.stop_cleanly());
    progress.clear();
    if (!grid) return fail(grid.error());
    std::optional<std::string> stopped;
    if (!grid->finished && !options.dry_run) {
      stopped = fmt::format("at learning rate {}", grid->points.back().learning_rate);
    }
    return end_training(session, arguments.json, visualness_grid_json(*grid), grid_text(*grid), stopped, {});
  }
  auto report = train_visualness(options, progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  std::optional<std::string> stopped;
  if (!report->finished && !options.dry_run) {
    stopped = fmt::format("in stage {}", report->stages.back().name);
  }
  return end_training(session, arguments.json, visualness_training_json(*report), report_text(*report),
                      stopped, {});
}

}  // namespace

void add_train_visualness_command(CLI::App& train, Command& chosen) {
  auto arguments = std::make_shared<Arguments>();
  VisualnessTrainingOptions& options = arguments->options;
  CLI::App* command = train.add_subcommand(
      "visualness", "Train a checkpoint to classify visual and non-visual texts (TIP-CLIP)");
  CLI::Option* checkpoint = command->add_option(
      "-m,--model", arguments->checkpoint,
      "initial checkpoint, a CLIP, or a BERT, which becomes a text classifier: a folder, or "
      "OWNER/NAME[@REVISION] of the hub's cache (default: the starter)");
  command
      ->add_option("--config", arguments->config,
                   "classifier from random weights: JSON file with \"model\" (config.json of BERT) and "
                   "\"tokenizer\" (a folder)")
      ->excludes(checkpoint);
  command->add_option(
      "--automatic", arguments->automatic,
      "first stage: datasets of rated texts (see saccade help datasets) with automatic labels");
  command->add_option("--human", arguments->human, "second stage: datasets of rated texts with human labels");
  command
      ->add_option("--validation", arguments->validation,
                   "validation datasets of rated texts, which select the threshold and the checkpoint")
      ->required();
  command->add_option("-o,--run", arguments->run, "run folder; a training found there is resumed")
      ->required();
  command
      ->add_option(
          "--null", arguments->null_picture,
          "CLIP: NULL image for non-visual texts: random, random:SEED, grey, black, white, or a file")
      ->capture_default_str();
  add_choice(*command, "--objective", options.objective,
             "CLIP: image target of a visual text: own-images, or one-image for all texts (the study's "
             "alternative, which loses retrieval)");
  add_choice(*command, "--loss", options.loss,
             "CLIP's loss: literal (the study's equation 1: texts of one image, also of the NULL image, are "
             "negatives of each other) or multi-positive (they are positives)");
  add_choice(
      *command, "--train", options.part,
      "CLIP: train both towers, or the text tower alone, which is faster and keeps image embeddings valid");
  const CLI::Validator above_zero = real_number(0, std::numeric_limits<double>::max(), Lowest::kExcluded);
  command->add_option("--automatic-epochs", options.automatic.epochs, "number of epochs of the first stage")
      ->transform(above_zero)
      ->default_str("5, for a classifier 7");
  command->add_option("--human-epochs", options.human.epochs, "number of epochs of the second stage")
      ->transform(above_zero)
      ->default_str("2, for a classifier 3");
  add_optimizer_options(*command, options);
  command
      ->add_option(
          "--learning-rates", arguments->learning_rates,
          "peak learning rates to try, each in a training of its own; the one with the best F1 on the "
          "validation texts is kept")
      ->transform(above_zero)
      ->excludes(command->get_option("--learning-rate"));
  command->add_option("--batch-size", options.batch, "batch size: number of texts, at least 2")
      ->transform(whole_number(2))
      ->default_str("128, for a classifier 32");
  add_old_name(*command, "--batch-size", "--batch");
  add_accumulate_option(*command, options.accumulate);
  add_number(*command, "--dropout", options.dropout, real_number(0, 1),
             "dropout probability of a classifier, 0 to below 1");
  add_number(*command, "--seed", options.seed, whole_number(0),
             "random seed: order of the texts, and initial weights");
  add_choice_of(*command, "--precision", options.precision, {"fp32", "bf16"},
                "number format of matrix products; weights are trained and evaluated in fp32");
  add_activation_options(*command, options);
  add_choice(*command, "--device", options.device,
             "device to train on; cuda needs a libtorch and a machine that have it");
  add_threads_option(*command, options.threads);
  add_decode_options(*command);
  command->add_option("--cache", arguments->cache,
                      "cache folder for image embeddings (default: saccade/embeddings in ~/.cache)");
  command->add_flag("--dry-run", options.dry_run, "check options and data without training");
  command->add_flag("--json", arguments->json, "print the result as JSON");
  group_options(
      *command,
      {{"Data", {"--automatic", "--human", "--validation", "--null", "--cache"}},
       {"Model", {"-m", "--config", "--train", "--dropout"}},
       {"Optimizer and schedule",
        {"--objective", "--loss", "--automatic-epochs", "--human-epochs", "--learning-rate",
         "--learning-rates", "--warmup", "--schedule", "--weight-decay", "--adam-beta1", "--adam-beta2",
         "--adam-epsilon", "--max-gradient-norm", "--batch-size", "--accumulate", "--seed"}},
       {"The run", {"-o", "--dry-run"}},
       {"Device and speed",
        {"--device", "--precision", "--checkpoint-activations", "--threads", "--decode-memory"}}});
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace saccade::lab::app
