// saccade eval winoground: whether checkpoints tell captions of the same words apart by their pictures.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lab/eval/winoground/winoground_study.h"
#include "saccade/core/counts.h"

#include "command_eval.h"
#include "eval_options.h"

namespace saccade::lab::app {
namespace {

struct WinogroundArguments {
  EvalArguments eval;
  std::vector<std::string> scores;
};

std::string dataset_text(const RunDataset& dataset, const CompositionMetrics& metrics) {
  std::string text = fmt::format("{}: {}\n", one_line(dataset.name), counted(dataset.compositions, "item"));
  text += fmt::format("  {:<24} {:<20} {:>6} {:>5}  {:<22} {:<22} {:<22}\n", "model", "kind", "items", "tied",
                      "text", "image", "group");
  for (const CompositionResult& result : metrics.results) {
    if (result.dataset != dataset.name) continue;
    const auto score = [&](const char* name) {
      const Figure* figure = find_named(result.scores, name);
      return figure == nullptr ? std::string() : figure_text(*figure);
    };
    text += fmt::format("  {:<24} {:<20} {:>6} {:>5}  {:<22} {:<22} {:<22}\n", one_line(result.model),
                        result.kind ? one_line(*result.kind) : "all", count_text(result.items),
                        count_text(result.tied), score("text"), score("image"), score("group"));
  }
  for (const CompositionComparison& comparison : metrics.comparisons) {
    if (comparison.dataset != dataset.name || comparison.kind) continue;
    for (const Difference& difference : comparison.scores) {
      text += difference_text(comparison.a, comparison.b, difference.figure.name + " score", &difference);
    }
  }
  return text + exclusions_text(dataset);
}

Result<Evaluation> measure(const WinogroundArguments& arguments, Session& session, ProgressLine& progress) {
  ThreadPool pool(arguments.eval.encoder.threads);
  if (arguments.eval.evaluation.datasets.empty()) {
    return fail(ErrorCode::kUsage, "name a dataset with --dataset");
  }
  if (!arguments.scores.empty()) {
    const std::vector<std::filesystem::path> files(arguments.scores.begin(), arguments.scores.end());
    return evaluate_given_compositions(files, evaluation_options(arguments.eval, session, progress), pool);
  }
  SACCADE_ASSIGN(const EvaluationOptions options, encoding_options(arguments.eval, session, progress));
  CompositionStudy study(options);
  return evaluate(study, options, located_checkpoints(options_of(arguments.eval.encoder)), pool);
}

Result<int> run(const WinogroundArguments& arguments, Session& session) {
  return run_evaluation(
      arguments.eval, session, [&](ProgressLine& progress) { return measure(arguments, session, progress); },
      [](const Evaluation& evaluation) { return text_by_dataset(evaluation, dataset_text); });
}

}  // namespace

void add_eval_winoground_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<WinogroundArguments>();
  CLI::App* command = eval.add_subcommand(
      "winoground",
      "Measure compositional understanding: captions with the same words (Winoground, SugarCrepe, ARO)");
  add_eval_inputs(*command, arguments->eval);
  command->add_flag("--leave-out", arguments->eval.evaluation.leave_out,
                    "skip items with an unreadable image, and count them");
  command
      ->add_option("--scores", arguments->scores,
                   "evaluate scores in FILE.safetensors: scores [items, 2 captions, images]")
      ->excludes(command->get_option("--model"));
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace saccade::lab::app
