// saccade train head: projection heads on a frozen encoder's features.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/train/recipes/head_sweep.h"

#include "choice.h"
#include "command_help.h"
#include "command_train.h"
#include "eval_options.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct HeadArguments {
  HeadSweepOptions options;
  bool sweep = false;
  std::vector<std::string> kinds;
  EvalArguments eval;  // how features are computed and figures resampled
  ImageStates image_states = ImageStates::kRows;
  TextStates text_states = TextStates::kRows;
  CLI::Option* image_option = nullptr;
  CLI::Option* text_option = nullptr;
  std::string frozen;
  bool json = false;
};

std::string figures_text(const Json& result) {
  const auto recall = read_record<RecallOf<Figure>>(result).value_or(RecallOf<Figure>());
  std::string text = fmt::format("  {:<24}", one_line(result["model"].get<std::string>()));
  for (const Direction direction : kBothDirections) {
    for (const Figure& figure : recall.directions.of(direction)) {
      text += fmt::format(" {:<22}", figure_text(figure));
    }
  }
  return text + figure_text(recall.mean_recall) + "\n";
}

std::string outcome_text(const Json& set) {
  std::string text = fmt::format("{}: {}, {}\n", one_line(set["set"].get<std::string>()),
                                 counted(set["images"].get<int64_t>(), "image"),
                                 counted(set["texts"].get<int64_t>(), "text"));
  text += fmt::format("  {:<24} {:<68} {:<68}\n  {:<24}", "", "text to image", "image to text", "model");
  for (int direction = 0; direction < 2; ++direction) {
    for (const char* name : {"R@1", "R@5", "R@10"}) text += fmt::format(" {:<22}", name);
  }
  text += "mean recall\n";
  for (const Json& result : set["results"]) text += figures_text(result);
  for (const Json& sentence : set["sentences"]) {
    text += fmt::format("  {}\n", one_line(sentence.get<std::string>()));
  }
  return text;
}

std::string report_text(const HeadTrainingReport& report) {
  std::string text = fmt::format("{} on {}, loss {:.4f}, {:.1f} s\n", counted(report.steps, "step"),
                                 counted(report.pairs, "pair"), report.last_loss, report.seconds);
  text += left_out_text(report.left_out);
  if (report.best_step > 0) {
    text +=
        fmt::format("head of step {} in {}\n", count_text(report.best_step), one_line(report.model.string()));
  }
  for (const Json& set : report.outcome) text += outcome_text(set);
  if (report.finished && report.outcome.empty()) {
    text += "nothing is held out: what the head is worth is not measured\n";
  }
  return text;
}

Result<HeadSweepOptions> options_of(const HeadArguments& arguments, Session& session,
                                    ProgressLine& progress) {
  HeadSweepOptions options = arguments.options;
  if (!arguments.kinds.empty()) options.kinds.clear();
  for (const std::string& kind : arguments.kinds) options.kinds.push_back(*from_name<HeadKind>(kind));
  const EvaluationOptions evaluation = evaluation_options(arguments.eval, session, progress);
  options.embed = evaluation.embed;
  options.bootstrap = evaluation.bootstrap;
  options.version = evaluation.version;
  options.command = evaluation.command;
  if (arguments.image_option->count() > 0) options.image_states = arguments.image_states;
  if (arguments.text_option->count() > 0) options.text_states = arguments.text_states;
  options.frozen = arguments.frozen;
  options.encoder = options_of(arguments.eval.encoder);
  if (options.features.empty() || !options.frozen.empty()) {
    SACCADE_ASSIGN(options.encoder, encoder_of(options.frozen, arguments.eval.encoder, session));
  }
  return options;
}

std::string sweep_text(const HeadSweepReport& report) {
  std::string text =
      fmt::format("{} of {} trained\n", count_text(report.trained), counted(report.heads, "head"));
  text += left_out_text(report.left_out);
  if (!report.finished) return text;
  text += fmt::format("{:<24} {:<8} {:>8} {:>6}   {:<22} {:<22} {}\n", "measured on", "head", "pairs",
                      "width", "text to image, R@1", "image to text, R@1", "mean recall");
  const auto row = [&](const std::string& dataset, const RecallOf<Figure>& recall, const std::string& kind,
                       const std::string& pairs, const std::string& width) {
    // R@1 is the first.
    text += fmt::format("{:<24} {:<8} {:>8} {:>6}   {:<22} {:<22} {}\n", one_line(dataset), kind, pairs,
                        width, figure_text(recall.directions.t2i.front()),
                        figure_text(recall.directions.i2t.front()), figure_text(recall.mean_recall));
  };
  for (const HeadlessRecall& own : report.metrics.pretrained) row(own.dataset, own.recall, "no head", "", "");
  for (const HeadCell& cell : report.metrics.cells) {
    row(cell.dataset, cell.recall, cell.kind, count_text(cell.pairs), std::to_string(cell.width));
  }
  for (const HeadVerdict& one : report.metrics.verdicts) {
    text += fmt::format("{}\n", one_line(one.verdict.sentence));
  }
  return text;
}

Result<int> run_sweep(const HeadArguments& arguments, Session& session) {
  ProgressLine progress(session.quiet);
  SACCADE_ASSIGN(HeadSweepOptions options, options_of(arguments, session, progress));
  const std::stop_token stop = session.interrupts.stop_cleanly();
  options.embed.stop = stop;
  auto report = sweep_heads(options, progress.callback(), stop);
  if (!report) return fail(std::move(report).error());
  if (report->finished) {
    SACCADE_TRY(write_training_page("Projection heads on frozen features", report->run, options.run,
                                    options.encoder.threads, session, progress));
  }
  progress.clear();
  std::string text = sweep_text(*report);
  if (report->finished) text += fmt::format("page: {}\n", one_line((options.run / "report.html").string()));
  std::optional<std::string> stopped;
  if (!report->finished && !options.dry_run) {
    stopped = fmt::format("after {} of {}", report->trained, counted(report->heads, "head"));
  }
  return end_training(session, arguments.json, head_sweep_json(*report), text, stopped, report->left_out);
}

Result<int> run_train_head(const HeadArguments& arguments, Session& session) {
  if (arguments.sweep) return run_sweep(arguments, session);
  ProgressLine progress(session.quiet);
  SACCADE_ASSIGN(const HeadTrainingOptions options, options_of(arguments, session, progress));
  auto report = train_head(options, progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  std::optional<std::string> stopped;
  if (!report->finished && !options.dry_run) {
    stopped = "after " + counted(report->steps, "step");
  }
  return end_training(session, arguments.json, head_training_json(*report), report_text(*report), stopped,
                      report->left_out);
}

void add_data_options(CLI::App& command, HeadArguments& arguments) {
  HeadTrainingOptions& options = arguments.options;
  CLI::Option* dataset =
      command.add_option("--dataset", options.datasets,
                         "datasets to train on (see saccade help datasets): PATH or PATH#split=NAME");
  CLI::Option* features =
      add_path(command, "--features", options.features,
               "train on features that another program computed, in FILE.safetensors: image_features [n, a], "
               "text_features [m, b], text_image [m]");
  features->excludes(dataset);
  command.add_option(
      "--held-out", options.held_out,
      "held-out datasets (with --features: such files), evaluated after every epoch; they select the head "
      "and stop training");
  command.add_option(
      "--test", options.test,
      "test datasets (with --features: such files) for the selected head (default: --held-out)");
  command.add_option("-m,--model", arguments.frozen,
                     "frozen encoder: a checkpoint's folder, or OWNER/NAME[@REVISION] of the hub's cache "
                     "(default: the starter; with --features: none)");
  add_encoder_options(command, arguments.eval.encoder);
  arguments.image_option =
      add_choice(command, "--image-states", arguments.image_states,
                 "image features: the encoder's embeddings, their input before the projection, a Q-Former's "
                 "queries, or these projected; states of the vision tower are for --train-qformer")
          ->default_str("rows; for BLIP-2 with a T5: queries");
  arguments.text_option =
      add_choice(
          command, "--text-states", arguments.text_states,
          "text features: the encoder's embeddings, their input before the projection, or the token states")
          ->default_str("rows; for BLIP-2 with a T5: tokens");
  CLI::Option* qformer = command.add_flag("--train-qformer", options.train_qformer,
                                          "train a copy of BLIP-2's Q-Former together with the head");
  command.add_option("--qformer-rate", options.qformer_rate, "peak learning rate of the Q-Former")
      ->transform(real_number(1e-9, 1))
      ->needs(qformer)
      ->capture_default_str();
  add_choice(command, "--pooling", options.pooling,
             "pooling of several states: mean, maximum, first or last");
  auto* cache = command.add_option("--cache", arguments.eval.cache,
                                   "cache folder for features (default: saccade/embeddings in ~/.cache)");
  command.add_flag("--no-cache", arguments.eval.no_cache, "encode everything again, without the cache")
      ->excludes(cache);
  add_choice(command, "--captions", options.captions,
             "captions of --held-out and --test used as texts, as in `eval retrieval`");
}

void add_head_options(CLI::App& command, HeadArguments& arguments) {
  HeadTrainingOptions& options = arguments.options;
  add_choice(command, "--kind", options.kind,
             "kind of head: one linear layer per side, or a two-layer MLP with GELU");
  add_number(command, "--width", options.width, whole_number(1, 65'536), "width of the shared space");
  add_number(command, "--hidden-width", options.hidden_width, whole_number(1, 65'536),
             "hidden width of an MLP");
  add_number(command, "--pairs", options.pairs, whole_number(0), "number of random training pairs; 0: all");
  add_number(command, "--epochs", options.epochs, real_number(0, 1e6),
             "number of epochs; 0: 5 for a linear head, 8 for an MLP");
  add_number(command, "--batch-size", options.batch, whole_number(2),
             "batch size: number of pairs, at least 2");
  add_old_name(command, "--batch-size", "--batch");
  add_number(command, "--hard-negatives", options.hard_negatives, real_number(0, 0.5),
             "share of hard negatives in a batch, 0 to 0.5");
}

void add_sweep_options(CLI::App& command, HeadArguments& arguments) {
  HeadSweepOptions& options = arguments.options;
  CLI::Option* sweep = command.add_flag(
      "--sweep", arguments.sweep,
      "train a head for each kind, size, width and seed, and write the study's page, report.html");
  const auto list = [&](CLI::Option* option) {
    option->needs(sweep);
    return option;
  };
  list(command.add_option("--kinds", arguments.kinds, "kinds of heads to sweep over: linear, mlp"))
      ->check(CLI::IsMember({"linear", "mlp"}))
      ->default_str("linear mlp");
  list(command.add_option("--sizes", options.sizes, "numbers of training pairs to sweep over; 0: all"))
      ->transform(whole_number(0))
      ->default_str("500 1000 2000 5000");
  list(command.add_option("--widths", options.widths,
                          "widths of the shared space, and of hidden layers, to sweep over"))
      ->transform(whole_number(1, 65'536))
      ->default_str("768");
  list(command.add_option("--seeds", options.seeds, "seeds to sweep over"))
      ->transform(whole_number(0))
      ->default_str("1 2 3");
  for (const char* single :
       {"--train-qformer", "--kind", "--pairs", "--width", "--hidden-width", "--seed", "--against"}) {
    command.get_option(single)->excludes(sweep);
  }
}

}  // namespace

void add_train_head_command(CLI::App& train, Command& chosen) {
  auto arguments = std::make_shared<HeadArguments>();
  CLI::App* command = train.add_subcommand("head", "Train projection heads on features of a frozen encoder");
  add_data_options(*command, *arguments);
  add_head_options(*command, *arguments);
  add_loop_options(*command, arguments->options);
  add_decode_options(*command);
  command->add_option(
      "--against", arguments->options.against,
      "heads on the same encoder and features to compare with: folders, OWNER/NAME[@REVISION] of "
      "the hub's cache, or starter");
  add_number(*command, "--resamples", arguments->eval.evaluation.bootstrap.resamples,
             whole_number(0, 1'000'000), "number of bootstrap resamples; 0: no intervals and no comparison");
  add_sweep_options(*command, *arguments);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  group_options(
      *command,
      {{"Data and encoder",
        {"--dataset", "--features", "--held-out", "--test", "-m", "--precision", "--threads",
         "--decode-memory", "--image-states", "--text-states", "--pooling", "--cache", "--no-cache",
         "--captions"}},
       {"Of --train-qformer", {"--train-qformer", "--qformer-rate"}},
       {"The head", {"--kind", "--width", "--hidden-width"}},
       {"Optimizer and schedule",
        {"--pairs", "--epochs", "--batch-size", "--accumulate", "--hard-negatives", "--learning-rate",
         "--warmup", "--schedule", "--weight-decay", "--adam-beta1", "--adam-beta2", "--adam-epsilon",
         "--max-gradient-norm", "--seed"}},
       {"The run",
        {"-o", "--device", "--patience", "--checkpoint-every", "--dry-run", "--against", "--resamples"}},
       {"Many heads at once", {"--sweep", "--kinds", "--sizes", "--widths", "--seeds"}}});
  run_when_given(*command, chosen, arguments, run_train_head);
}

}  // namespace saccade::lab::app
