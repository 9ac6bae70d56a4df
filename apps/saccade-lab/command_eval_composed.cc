// saccade eval composed: how well "this picture, but ..." finds the picture that is meant.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/eval/composed/composed_figures.h"
#include "lab/eval/composed/composed_study.h"
#include "saccade/core/counts.h"
#include "saccade/model/checkpoints/locate.h"

#include "choice.h"
#include "command_eval.h"
#include "command_help.h"
#include "eval_options.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct ComposedArguments {
  EvalArguments eval;
  ComposedOptions composed;
  std::string server_files;
  std::string generated;
  std::vector<std::string> composers;
  std::vector<std::string> trainings;  // NAME=RUN
  std::vector<std::string> embeddings;
  Similarity similarity = Similarity::kCosine;
};

std::string name_of(const ComposedResult& result) {
  std::string name = result.method;
  if (result.tau) name += fmt::format(" {:.2g}", *result.tau);
  if (result.weight) name += fmt::format(" {:.2g}", *result.weight);
  return name;
}

// The means over the seeds, and the differences to the first training and to the untrained sum.
std::string trainings_text(const std::string& dataset, const std::vector<ComposedAblation>& trainings) {
  std::string text;
  const auto difference = [](const ComposedAblation& a, const std::string& b,
                             const std::vector<Difference>& differences) {
    return difference_text(a.name, b, "R@10", find_named(differences, "r10"));
  };
  for (const ComposedAblation& training : trainings) {
    if (training.dataset != dataset || training.of != "all") continue;
    text += fmt::format("  {}, mean over {}:", one_line(training.name),
                        counted(std::ssize(training.seeds), "seed"));
    for (const std::string& name : composed_recalls().names) {
      const Figure* figure = find_named(training.figures, name);
      text += fmt::format(" R@{} {}", name.substr(1), figure == nullptr ? "-" : figure_text(*figure));
    }
    for (const std::string& name : composed_headlines().names) {
      const Figure* figure = find_named(training.figures, name);
      if (figure != nullptr) text += fmt::format(" {} {}", name, figure_text(*figure));
    }
    text += "\n";
    if (!training.differences.empty()) {
      text += difference(training, trainings.front().name, training.differences);
    }
    for (const ComposedAblation::Untrained& untrained : training.untrained) {
      if (untrained.method == enum_name(ComposeBy::kSum)) {
        text += difference(training, untrained.method, untrained.figures);
      }
    }
  }
  return text;
}

std::string dataset_text(const RunDataset& dataset, const ComposedMetrics& metrics) {
  std::string text = fmt::format("{}: {} asked, {}\n", one_line(dataset.name), counted(dataset.texts, "text"),
                                 counted(dataset.images, "image"));
  for (const ComposedChoice& chosen : metrics.chosen) {
    if (chosen.dataset != dataset.name) continue;
    text += fmt::format("  {:<20} {:<18} weight {:.2f} chosen here, r10 {:.3f}\n", one_line(chosen.model),
                        chosen.method, chosen.weight, chosen.r10);
  }
  std::vector<FiguresLine> lines;
  for (const ComposedResult& result : metrics.results) {
    if (result.dataset != dataset.name) continue;
    const ComposedFigures& group = result.group;
    lines.push_back({fmt::format("  {:<20} {:<18} {:<14}", one_line(result.model), name_of(result),
                                 one_line(group.name.empty() ? group.of : group.name)),
                     group.figures});
  }
  const std::string head = fmt::format("  {:<20} {:<18} {:<14}", "model", "method", "of");
  for (const ComposedFigureSet& set : composed_figure_sets()) text += figures_table(head, lines, set.names);
  for (const ComposedComparison& comparison : metrics.comparisons) {
    if (comparison.dataset != dataset.name || comparison.of != "all") continue;
    // Skips comparisons of two checkpoints with two methods, which are not informative.
    const bool one_model = comparison.a.model == comparison.b.model;
    if (!one_model && comparison.a.method != comparison.b.method) continue;
    const auto side = [&](const ComposedComparison::Side& one) {
      return one_model ? one.method : fmt::format("{} {}", one.model, one.method);
    };
    text += difference_text(side(comparison.a), side(comparison.b), "R@10",
                            find_named(comparison.figures, "r10"));
  }
  text += trainings_text(dataset.name, metrics.ablations);
  return text + exclusions_text(dataset);
}

// Adds a finished training's composer, of NAME=RUN, to the variant of that name. RUN is a folder of `train composed`.
Status add_training(const std::string& named, ComposedOptions& composed) {
  const size_t sign = named.find('=');
  if (sign == std::string::npos || sign == 0 || sign + 1 == named.size()) {
    return fail(ErrorCode::kUsage, "--training {}: expected NAME=RUN", named);
  }
  const std::string name = named.substr(0, sign);
  const std::filesystem::path run = named.substr(sign + 1);
  const std::string where = "--training " + named;
  SACCADE_ASSIGN(const Json description, read_json(run / "run.json").in(where));
  SACCADE_ASSIGN(const auto kind, json_field<std::string>(description, "kind").in(where));
  if (kind != "train composed") {
    return fail(ErrorCode::kUsage, "{}: a run of kind {}, expected train composed", where, kind);
  }
  SACCADE_ASSIGN(const auto seed, json_field<uint64_t>(description, "seed").in(where));
  if (!description.contains("outcome")) {
    return fail(ErrorCode::kUsage, "{}: the training has not finished: the same command goes on from there",
                where);
  }
  auto variant = std::ranges::find(composed.variants, name, &ComposedVariant::name);
  if (variant == composed.variants.end()) {
    variant = composed.variants.insert(variant, ComposedVariant{.name = name});
  }
  if (std::ranges::find(variant->seeds, seed) != variant->seeds.end()) {
    return fail(ErrorCode::kUsage, "{}: {} has a training of seed {} already", where, name, seed);
  }
  variant->seeds.push_back(seed);
  const std::filesystem::path fused = run / "fuse" / "model";
  variant->composers.push_back(std::filesystem::exists(fused) ? fused : run / "model");
  return {};
}

Result<Evaluation> measure(ComposedArguments& arguments, Session& session, ProgressLine& progress) {
  ThreadPool pool(arguments.eval.encoder.threads);
  arguments.composed.server_files = arguments.server_files;
  if (arguments.eval.evaluation.datasets.empty()) {
    return fail(ErrorCode::kUsage, "name a dataset with --dataset");
  }
  if (!arguments.embeddings.empty()) {
    const std::vector<std::filesystem::path> files(arguments.embeddings.begin(), arguments.embeddings.end());
    return evaluate_given_composed(files, arguments.similarity, arguments.composed,
                                   evaluation_options(arguments.eval, session, progress), pool);
  }
  for (const std::string& named : arguments.composers) {
    SACCADE_ASSIGN(arguments.composed.composers.emplace_back(), find_composer(named).in("--composer"));
  }
  for (const std::string& named : arguments.trainings) SACCADE_TRY(add_training(named, arguments.composed));
  arguments.composed.generated = arguments.generated;
  const bool own = arguments.eval.evaluation.checkpoints.empty() &&
                   !(arguments.composers.empty() && arguments.trainings.empty());
  SACCADE_ASSIGN(EvaluationOptions options, encoding_options(arguments.eval, session, progress));
  // Composers bring their own checkpoints: the starter stands in for none.
  if (own) options.checkpoints.clear();
  return evaluate_composed(arguments.composed, std::move(options), options_of(arguments.eval.encoder), pool);
}

Result<int> run(ComposedArguments& arguments, Session& session) {
  return run_evaluation(
      arguments.eval, session, [&](ProgressLine& progress) { return measure(arguments, session, progress); },
      [&](const Evaluation& evaluation) -> Result<std::string> {
        SACCADE_ASSIGN(std::string text, text_by_dataset(evaluation, dataset_text));
        if (!arguments.server_files.empty()) {
          text += fmt::format("files for the servers: {}\n", one_line(arguments.server_files));
        }
        return text;
      });
}

void add_protocol_options(CLI::App& command, ComposedOptions& composed) {
  add_choice(
      command, "--join", composed.protocol.join,
      "handling of several texts per query: joined in one of three ways, mean of both orders, or each alone");
  add_choice(command, "--gallery", composed.protocol.gallery,
             "images to rank: the dataset's own list, or the union of references and targets");
  add_choice(command, "--reference", composed.protocol.reference,
             "reference image: ranked or excluded; layout: excluded in CIRR, else ranked");
  add_choice(
      command, "--shared-concept", composed.protocol.concepts,
      "query text: alone, or with the concept shared by reference and targets (\"find CONCEPT but TEXT\")");
  add_choice(command, "--recall", composed.protocol.recall,
             "target counted by r@k if there are several; layout: the first in CIRCO, else any");
  add_choice(command, "--ties", composed.ties,
             "ranking of ties: against the model, in its favor, mean rank, by index, or as trec_eval does");
}

}  // namespace

void add_eval_composed_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<ComposedArguments>();
  CLI::App* command = eval.add_subcommand(
      "composed", "Measure composed image retrieval: a reference image plus a change in words");
  add_eval_inputs(*command, arguments->eval);
  add_choices(*command, "--method", arguments->composed.methods,
              "methods that combine image and text into one embedding (default: all)")
      ->default_str("");
  CLI::Option* weight =
      command
          ->add_option_function<double>(
              "--text-weight", [arguments](const double& value) { arguments->composed.weight = value; },
              "weight of the text, 0 to 1 (default: 0.5 in weighted-sum and slerp, 1 in direction)")
          ->transform(real_number(0, 1));
  CLI::Option* choose = command->add_option(
      "--choose-on", arguments->composed.choose_on,
      "validation dataset for choosing each checkpoint's weight by r@10; not the split that is measured");
  choose->excludes(weight);
  add_old_name(*command, "--text-weight", "--weight");
  command->add_option(
      "--composer", arguments->composers,
      "trained composers to measure as well, each with the checkpoint it was trained for: folders, or "
      "starter");
  command->add_option(
      "--training", arguments->trainings,
      "trainings of composers to compare: NAME=RUN, RUN a finished run of train composed; runs of one name are its "
      "seeds, and the first name is what the others are compared with");
  command
      ->add_option("--tau", arguments->composed.taus,
                   "merge thresholds to measure of composers that have one; --choose-on selects the best")
      ->transform(real_number(-1, 1));
  command
      ->add_option("--token-queries", arguments->composed.token_queries,
                   "number of random queries for the histogram of token similarities (default: 0)")
      ->transform(whole_number(0));
  command->add_option("--generated", arguments->generated,
                      "list of generated images (saccade generate edits), shown in reports");
  add_protocol_options(*command, arguments->composed);
  command->add_flag("--leave-out", arguments->eval.evaluation.leave_out,
                    "skip unreadable images and the queries that need them, and count them");
  command->add_option("--server-files", arguments->server_files,
                      "folder for submission files for the CIRR and CIRCO servers");
  command
      ->add_option(
          "--embeddings", arguments->embeddings,
          "evaluate embeddings in FILE.safetensors: query_embeds [q, d], gallery_embeds [n, d], in the "
          "dataset's order")
      ->excludes(command->get_option("--model"));
  add_choice(*command, "--similarity", arguments->similarity, "similarity measure for --embeddings");
  command->get_option("--similarity")->needs(command->get_option("--embeddings"));
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  group_options(*command,
                {{"How queries are made",
                  {"--method", "--text-weight", "--choose-on", "--composer", "--training", "--tau",
                   "--token-queries", "--generated", "--join", "--embeddings", "--similarity"}},
                 {"What counts as right",
                  {"--gallery", "--reference", "--shared-concept", "--recall", "--ties", "--leave-out"}}});
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace saccade::lab::app
