// saccade train composed: composers, and encoders for them, from edit queries.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/eval/composed/composed_figures.h"
#include "lab/train/recipes/composed_ablations.h"
#include "lab/train/recipes/train_inversion.h"
#include "saccade/model/options/precision_names.h"

#include "choice.h"
#include "command_help.h"
#include "command_train.h"
#include "eval_options.h"
#include "load_checkpoint.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

// Our variant of adaptive token fusion: the kind atf with other defaults.
constexpr const char* kAtfAttention = "atf-attention";
constexpr const char* kAllAblations = "all";

// The options of the fusion that were given. Those that were not are the method's.
struct FusionArguments {
  std::optional<double> tau;
  std::optional<MergeMatching> matching;
  std::optional<MergeWeights> weights;
  std::optional<AtfPlaces> places;
  std::optional<AtfPooling> pooling;
  std::optional<int64_t> heads;
  std::optional<AtfProjection> projection;
  std::optional<int64_t> width;
  std::optional<AtfResidual> residual;
};

struct Arguments {
  ComposedTrainingOptions options;
  FusionArguments fusion;
  InversionTrainingOptions inversion;  // what --method inversion alone is asked
  std::string texts;
  std::vector<std::string> ablations;
  std::vector<uint64_t> seeds = {1};
  EvalArguments eval;  // how pictures are read, and how figures are resampled
  bool json = false;
};

std::string sets_text(const Json& sets, std::string_view role) {
  std::string text;
  for (const Json& set : sets) {
    text += fmt::format("  {}, {}: {} queries\n", role, one_line(set["name"].get<std::string>()),
                        count_text(set["queries"].get<int64_t>()));
    for (const char* name : {"r1", "r5", "r10"}) {
      text += fmt::format("    R@{:<3} {}\n", name + 1,
                          figure_text(read_record<Figure>(set["figures"][name]).value_or(Figure())));
    }
    if (set.contains("matched_tokens")) {
      text += fmt::format("    tokens matched at tau: {:.1f}%\n", 100 * set["matched_tokens"].get<double>());
    }
  }
  return text;
}

std::string report_text(const ComposedTrainingReport& report) {
  std::string text;
  for (const ComposedStageReport& stage : report.stages) {
    text += fmt::format("{}: {} done, loss {:.4f}, {:.0f} triplets a second\n",
                        stage.stage == "align" ? "stage one" : "stage two", counted(stage.steps, "step"),
                        stage.last_loss, stage.triplets_per_second);
    if (stage.best_step > 0) {
      text += fmt::format("best checkpoint, of step {}, in {}\n", count_text(stage.best_step),
                          one_line(stage.model.string()));
    }
    text += sets_text(stage.held_out, "held out") + sets_text(stage.test, "test");
  }
  return text + left_out_text(report.left_out);
}

std::string dry_run_text(const std::string& data) {
  return fmt::format("a dry run: options and data are right, {}; nothing was written\n", data);
}

std::string inversion_text(const InversionTrainingReport& report) {
  std::string text =
      fmt::format("{} on {}, loss {:.4f}, {:.0f} texts a second\n", counted(report.steps, "step"),
                  counted(report.texts, "text"), report.last_loss, report.texts_per_second);
  if (report.best_step > 0) {
    text += fmt::format("best checkpoint, of step {}, in {}\n", count_text(report.best_step),
                        one_line(report.model.string()));
  }
  return text + sets_text(report.held_out, "held out") + sets_text(report.test, "test") +
         left_out_text(report.left_out);
}

// Textual inversion, which is learned from texts alone.
Result<int> run_inversion(const Arguments& arguments, Session& session) {
  if (!arguments.options.datasets.empty()) {
    return fail(ErrorCode::kUsage, "--method inversion is learned from --texts alone, not from a --dataset");
  }
  if (arguments.options.checkpoint_activations) {
    return fail(ErrorCode::kUsage,
                "--checkpoint-activations is for towers that are trained: --method inversion trains none");
  }
  ProgressLine progress(session.quiet);
  InversionTrainingOptions options = arguments.inversion;
  static_cast<TrainingLoopOptions&>(options) = arguments.options;
  options.texts = arguments.texts;
  options.batch = arguments.options.batch;
  options.dropout = arguments.options.dropout.value_or(options.dropout);
  options.held_out = arguments.options.held_out;
  options.test = arguments.options.test;
  options.model = arguments.options.model;
  const EvaluationOptions evaluation = evaluation_options(arguments.eval, session, progress);
  options.embed = evaluation.embed;
  options.bootstrap = evaluation.bootstrap;
  SACCADE_ASSIGN(options.encoder, encoder_of(options.model, arguments.eval.encoder, session));
  auto report = train_inversion(options, progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  if (report->cut > 0) {
    session.messages.warning(fmt::format(
        "{} longer than the encoder reads: their beginnings are learned from", counted(report->cut, "text")));
  }
  std::optional<std::string> stopped;
  if (!report->finished && !options.dry_run) {
    stopped = fmt::format("at step {}", report->steps);
  }
  const std::string text =
      options.dry_run ? dry_run_text(counted(report->texts, "text")) : inversion_text(*report);
  return end_training(session, arguments.json, inversion_training_json(*report), text, stopped,
                      report->left_out);
}

Result<AtfOptions> fusion_options(const FusionArguments& given, AtfOptions options) {
  options.merge.tau = given.tau.value_or(options.merge.tau);
  options.merge.matching = given.matching.value_or(options.merge.matching);
  options.merge.weights = given.weights.value_or(options.merge.weights);
  options.places = given.places.value_or(options.places);
  options.pooling = given.pooling.value_or(options.pooling);
  options.heads = given.heads.value_or(options.heads);
  options.projection = given.projection.value_or(options.projection);
  options.hidden_width = given.width.value_or(options.hidden_width);
  // The Combiner's weighted mean of both embeddings is the residual.
  if (options.projection == AtfProjection::kCombiner) options.residual = AtfResidual::kSum;
  options.residual = given.residual.value_or(options.residual);
  const bool attends = options.pooling == AtfPooling::kAsked || options.pooling == AtfPooling::kLearned;
  if (given.heads && !attends) {
    return fail(ErrorCode::kUsage, "--heads {} is for attention: --pooling is {}, expected asked or learned",
                *given.heads, enum_name(options.pooling));
  }
  if (given.width && options.projection == AtfProjection::kLinear) {
    return fail(ErrorCode::kUsage,
                "--fusion-width {}: --projection linear has no hidden layer, expected mlp, both or combiner",
                *given.width);
  }
  return options;
}

// Returns the options of a training that reads edit queries.
Result<ComposedTrainingOptions> options_of(const Arguments& arguments, const EvaluationOptions& evaluation,
                                           Session& session) {
  if (!arguments.texts.empty()) {
    return fail(ErrorCode::kUsage, "--texts are for --method inversion alone");
  }
  if (arguments.options.datasets.empty()) return fail(ErrorCode::kUsage, "name edit queries with --dataset");
  ComposedTrainingOptions options = arguments.options;
  if (options.method == kAtfAttention) {
    options.method = "atf";
    options.atf = attention_atf_options();
  }
  if (options.method == "atf") {
    SACCADE_ASSIGN(options.atf, fusion_options(arguments.fusion, options.atf));
  }
  options.embed = evaluation.embed;
  options.bootstrap = evaluation.bootstrap;
  SACCADE_ASSIGN(options.encoder, encoder_of(options.model, arguments.eval.encoder, session));
  return options;
}

// Tables of a dataset's figures, and one of the differences to the full training.
std::string ablations_text(const std::string& dataset, const std::string& of,
                           const std::vector<ComposedAblation>& ablations) {
  constexpr const char* kDifference = " less full";
  std::vector<FiguresLine> lines;
  std::vector<FiguresLine> differences;
  for (const ComposedAblation& ablation : ablations) {
    if (ablation.dataset != dataset || ablation.of != of) continue;
    const std::string begin = fmt::format("  {:<17} {:<28}", ablation.name, ablation.changed);
    lines.push_back({begin, ablation.figures});
    if (ablation.differences.empty()) continue;  // the full training
    std::vector<Figure>& figures = differences.emplace_back(FiguresLine{begin, {}}).figures;
    for (const Difference& difference : ablation.differences) {
      figures.push_back(difference.figure);
      figures.back().name += kDifference;
    }
  }
  std::vector<std::string> compared;
  for (const char* name : {"r1", "r10", "mean_r5_r_subset1", "mean_r10_r50"}) {
    compared.push_back(std::string(name) + kDifference);
  }
  const std::string head = fmt::format("  {:<17} {:<28}", "training", "changed");
  return fmt::format("{}{}: means over {}\n", one_line(dataset), of == "all" ? "" : ", " + of,
                     counted(std::ssize(ablations.front().seeds), "seed")) +
         figures_table(head, lines, composed_recalls().names) +
         figures_table(head, lines, composed_headlines().names) +
         figures_table(head, differences, compared, Sign::kBoth);
}

std::string report_text(const ComposedAblationReport& report) {
  std::string text =
      fmt::format("{} of {} done\n", count_text(report.trained), counted(report.trainings, "training"));
  text += left_out_text(report.left_out);
  std::vector<std::pair<std::string, std::string>> tables;  // dataset and group
  for (const ComposedAblation& ablation : report.metrics.ablations) {
    std::pair<std::string, std::string> table(ablation.dataset, ablation.of);
    if (std::ranges::find(tables, table) == tables.end()) tables.push_back(std::move(table));
  }
  for (const auto& [dataset, of] : tables) text += ablations_text(dataset, of, report.metrics.ablations);
  return text;
}

Result<int> run_ablations(const Arguments& arguments, Session& session) {
  ProgressLine progress(session.quiet);
  const EvaluationOptions evaluation = evaluation_options(arguments.eval, session, progress);
  ComposedAblationOptions options;
  SACCADE_ASSIGN(static_cast<ComposedTrainingOptions&>(options), options_of(arguments, evaluation, session));
  for (const std::string& name : arguments.ablations) {
    if (name != kAllAblations) options.ablations.push_back(*from_name<Ablation>(name));
  }
  if (std::ranges::find(arguments.ablations, kAllAblations) != arguments.ablations.end()) {
    options.ablations.clear();
  }
  options.seeds = arguments.seeds;
  options.version = evaluation.version;
  options.command = evaluation.command;
  auto report = ablate_composed(options, progress.callback(), session.interrupts.stop_cleanly());
  if (!report) return fail(std::move(report).error());
  if (report->finished) {
    SACCADE_TRY(write_training_page("Ablations of composed retrieval", report->run, options.run,
                                    options.encoder.threads, session, progress));
  }
  progress.clear();
  std::string text =
      options.dry_run ? dry_run_text(counted(report->trainings, "training")) : report_text(*report);
  if (report->finished) {
    if (options.test.empty()) {
      text +=
          "measured on what chose each training's step, which flatters all of them: --test takes a set that chose "
          "nothing\n";
    }
    text += fmt::format("page: {}\n", one_line((options.run / "report.html").string()));
  }
  std::optional<std::string> stopped;
  if (!report->finished && !options.dry_run) {
    stopped = fmt::format("after {} of {}", report->trained, counted(report->trainings, "training"));
  }
  return end_training(session, arguments.json, composed_ablation_json(*report), text, stopped,
                      report->left_out);
}

Result<int> run_train_composed(const Arguments& arguments, Session& session) {
  if (arguments.options.method == "inversion") {
    if (!arguments.ablations.empty()) {
      return fail(ErrorCode::kUsage,
                  "--ablations are for composers of --dataset, not for --method inversion");
    }
    return run_inversion(arguments, session);
  }
  if (!arguments.ablations.empty()) return run_ablations(arguments, session);
  ProgressLine progress(session.quiet);
  const EvaluationOptions evaluation = evaluation_options(arguments.eval, session, progress);
  SACCADE_ASSIGN(const ComposedTrainingOptions options, options_of(arguments, evaluation, session));
  auto report = train_composed(options, progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  std::optional<std::string> stopped;
  if (!report->finished && !options.dry_run) {
    stopped = fmt::format("in stage {}", report->stages.back().stage == "align" ? "one" : "two");
  }
  const std::string text =
      options.dry_run ? dry_run_text(counted(report->triplets, "triplet")) : report_text(*report);
  return end_training(session, arguments.json, composed_training_json(*report), text, stopped,
                      report->left_out);
}

void add_data_options(CLI::App& command, Arguments& arguments) {
  ComposedTrainingOptions& options = arguments.options;
  command.add_option(
      "--dataset", options.datasets,
      "edit queries to train on (see saccade help datasets): PATH or PATH#split=NAME; not for inversion");
  command.add_option("--held-out", options.held_out,
                     "held-out edit queries, evaluated during training; they select the checkpoint");
  command.add_option("--test", options.test,
                     "test edit queries, evaluated once with the selected checkpoint");
  add_path(command, "--cache", options.cache,
           "cache folder for features of images and texts, which runs may share (default: cache in the run "
           "folder)");
  command.add_option(
      "-m,--model", options.model,
      "encoder: a checkpoint's folder, or OWNER/NAME[@REVISION] of the hub's cache (default: the starter)");
  add_encoder_options(command, arguments.eval.encoder);
  add_number(command, "--batch-size", options.batch, whole_number(2),
             "batch size: number of triplets, at least 2");
  add_old_name(command, "--batch-size", "--batch");
  add_number(command, "--together", options.together, whole_number(1),
             "maximum number of triplets of one group in a batch");
  add_choice(command, "--wrong", options.wrong,
             "negatives of a query: the batch's other targets, or its references too");
  add_choice(command, "--join", options.join,
             "text of a triplet with several texts: joined in their order, in either order at random, or in "
             "either order or one text alone at random");
  add_number(command, "--paraphrases", options.paraphrases, real_number(0, 1),
             "probability that a triplet uses one of its paraphrases, 0 to 1");
}

void add_peer_options(CLI::App& command, Arguments& arguments) {
  ComposedTrainingOptions& options = arguments.options;
  command
      .add_option("--projection-width", options.combiner.projection,
                  "combiner: width of the projections (default: four times the embedding width)")
      ->transform(whole_number(1, 1 << 20));
  command
      .add_option("--hidden-width", options.combiner.hidden,
                  "combiner: hidden width (default: eight times the embedding width)")
      ->transform(whole_number(1, 1 << 20));
  command
      .add_option_function<double>(
          "--dropout", [&options](double share) { options.dropout = share; },
          "dropout probability of hidden values, 0 to 0.95 (default: 0.5; atf without a combiner: 0)")
      ->transform(real_number(0, 0.95));
  command.add_option("--texts", arguments.texts, "inversion: file of training texts, one per line");
  command
      .add_option("--sentence", arguments.inversion.sentence,
                  "inversion: query template; \"*\" stands for the image and \"{}\" for the change")
      ->capture_default_str();
  add_number(command, "--noise", arguments.inversion.noise, real_number(0, 100),
             "inversion: maximum noise added to a text embedding, relative to its length");
  command
      .add_option("--inversion-width", arguments.inversion.hidden,
                  "inversion: hidden width (default: four times the embedding width)")
      ->transform(whole_number(1, 1 << 20));
}

void add_sprc_options(CLI::App& command, ComposedTrainingOptions& options) {
  add_number(command, "--prompt-weight", options.sprc.prompt, real_number(0, 1000),
             "sprc: weight of the retrieval loss of the auxiliary prompt, 0 to 1000");
  add_number(command, "--alignment-weight", options.sprc.alignment, real_number(0, 1000),
             "sprc: weight of the squared distance of the prompts from the auxiliary prompt, 0 to 1000");
}

void add_stage_options(CLI::App& command, ComposedTrainingOptions& options) {
  add_choice(command, "--align", options.align,
             "alignment target of stage one: none, the real targets, or pseudo-targets");
  add_path(command, "--pseudo-targets", options.pseudo_targets,
           "folder of pseudo-targets, written by `generate edits`");
  command
      .add_option_function<double>(
          "--min-cosine", [&options](double value) { options.min_cosine = value; },
          "minimum cosine similarity of a pseudo-target to the true target, measured by `eval edits` "
          "(default: no minimum)")
      ->transform(real_number(-1, 1));
  add_choice_of(command, "--align-towers", options.align_towers, {"text", "both"},
                "towers that stage one trains");
  add_number(command, "--align-steps", options.align_steps, whole_number(1),
             "number of batches of stage one");
  add_number(command, "--align-rate", options.align_rate, real_number(1e-9, 1),
             "peak learning rate of stage one");
  add_choice(command, "--towers", options.towers, "towers that stage two trains with the composer");
  add_number(command, "--tower-rate", options.tower_rate, real_number(1e-9, 1),
             "peak learning rate of towers in stage two, and of the Q-Former of --method sprc");
  add_choice_of(command, "--tower-precision", options.precision, {"fp32", "bf16"},
                "number format of matrix products in trained towers");
  add_activation_options(command, options);
}

// "all; atf-attention: mutual", or what both have.
template <typename Value, typename Words>
std::string default_of(const Value& study, const Value& ours, const Words& words) {
  const std::string usual(words(study));
  return study == ours ? usual : fmt::format("{}; {}: {}", usual, kAtfAttention, words(ours));
}

void add_atf_options(CLI::App& command, FusionArguments& given) {
  const AtfOptions study;
  const AtfOptions ours = attention_atf_options();
  const auto name = [](const auto value) { return enum_name(value); };
  const auto number = [](const auto value) { return fmt::format("{}", value); };
  command
      .add_option_function<double>(
          "--tau", [&given](double value) { given.tau = value; },
          "atf: minimum cosine similarity of an image token and a text token that are merged; above 1: none")
      ->transform(real_number(-1, 2))
      ->default_str(default_of(study.merge.tau, ours.merge.tau, number));
  add_choice(command, "--matching", given.matching, "atf: which of the pairs at or above --tau are merged")
      ->default_str(default_of(study.merge.matching, ours.merge.matching, name));
  add_choice(command, "--merge-weights", given.weights, "atf: weights of the merged tokens")
      ->default_str(default_of(study.merge.weights, ours.merge.weights, name));
  add_choice(command, "--places", given.places, "atf: position encoding of the tokens")
      ->default_str(default_of(study.places, ours.places, name));
  add_choice(command, "--pooling", given.pooling, "atf: pooling of the tokens")
      ->default_str(default_of(study.pooling, ours.pooling, name));
  command
      .add_option_function<int64_t>(
          "--heads", [&given](int64_t value) { given.heads = value; },
          "atf: number of heads of attention pooling")
      ->transform(whole_number(1, 1024))
      ->default_str(default_of(study.heads, ours.heads, number));
  add_choice(command, "--projection", given.projection, "atf: projection of the pooled embedding")
      ->default_str(default_of(study.projection, ours.projection, name));
  command
      .add_option_function<int64_t>(
          "--fusion-width", [&given](int64_t value) { given.width = value; },
          "atf: hidden width of the projection (default: four times the embedding width; its combiner: "
          "eight times)")
      ->transform(whole_number(1, 1 << 20));
  add_choice(command, "--residual", given.residual,
             "atf: residual connection of the projection; that of --projection combiner is sum")
      ->default_str(default_of(study.residual, ours.residual, name));
}

void add_ablation_options(CLI::App& command, Arguments& arguments) {
  std::vector<std::string> names = names_of<Ablation>();
  names.insert(names.begin(), kAllAblations);
  CLI::Option* ablations =
      command
          .add_option("--ablations", arguments.ablations,
                      "train these ablations as well, compare them with the full training, and "
                      "write the page report.html; all: each that changes this training")
          ->check(CLI::IsMember(names));
  command.add_option("--seeds", arguments.seeds, "seeds of every training")
      ->transform(whole_number(0))
      ->default_str("1")
      ->needs(ablations)
      ->excludes(command.get_option("--seed"));
}

}  // namespace

void add_train_composed_command(CLI::App& train, Command& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = train.add_subcommand(
      "composed", "Train a composer for a reference image and a change in words (TMCIR)");
  add_data_options(*command, *arguments);
  command
      ->add_option(
          "--method", arguments->options.method,
          "composer that stage two trains: atf (adaptive token fusion as in TMCIR), atf-attention (our "
          "variant of it: attention over the tokens, added to the sum of both embeddings), combiner "
          "(CLIP4Cir's), sprc (sentence-level prompts, on BLIP-2), sum (the towers alone), none (stage one "
          "only); or inversion (textual inversion, from --texts alone)")
      ->check(CLI::IsMember({"atf", kAtfAttention, "combiner", "sprc", "sum", "none", "inversion"}))
      ->capture_default_str();
  add_stage_options(*command, arguments->options);
  add_atf_options(*command, arguments->fusion);
  add_peer_options(*command, *arguments);
  add_sprc_options(*command, arguments->options);
  add_loop_options(*command, arguments->options);
  add_decode_options(*command);
  add_step_options(*command, arguments->options);
  add_number(*command, "--resamples", arguments->eval.evaluation.bootstrap.resamples,
             whole_number(0, 1'000'000),
             "number of bootstrap resamples of the held-out figures; 0: no intervals");
  add_ablation_options(*command, *arguments);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  group_options(
      *command,
      {{"Data and encoder",
        {"--dataset", "--held-out", "--test", "--texts", "--cache", "-m", "--precision", "--threads",
         "--decode-memory"}},
       {"Batches",
        {"--batch-size", "--accumulate", "--checkpoint-activations", "--together", "--wrong", "--join",
         "--paraphrases"}},
       {"Stage one: alignment of texts with images",
        {"--align", "--pseudo-targets", "--min-cosine", "--align-towers", "--align-steps", "--align-rate"}},
       {"Stage two: towers trained with the composer", {"--towers", "--tower-rate", "--tower-precision"}},
       {"Of --method atf and atf-attention",
        {"--tau", "--matching", "--merge-weights", "--places", "--pooling", "--heads", "--projection",
         "--fusion-width", "--residual"}},
       {"Of --method combiner and inversion",
        {"--projection-width", "--hidden-width", "--dropout", "--sentence", "--noise", "--inversion-width"}},
       {"Of --method sprc", {"--prompt-weight", "--alignment-weight"}},
       {"Optimizer and schedule",
        {"--steps", "--learning-rate", "--warmup", "--schedule", "--weight-decay", "--adam-beta1",
         "--adam-beta2", "--adam-epsilon", "--max-gradient-norm", "--seed"}},
       {"The run",
        {"-o", "--device", "--evaluate-every", "--patience", "--checkpoint-every", "--resamples",
         "--dry-run"}},
       {"Ablations", {"--ablations", "--seeds"}}});
  run_when_given(*command, chosen, arguments, run_train_composed);
}

}  // namespace saccade::lab::app
