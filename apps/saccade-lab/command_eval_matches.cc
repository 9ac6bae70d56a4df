// saccade eval matches: whether what search promises of its hits comes true.
#include <cmath>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "lab/eval/matches/matches_study.h"
#include "saccade/core/counts.h"

#include "command_eval.h"
#include "eval_options.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct MatchesArguments {
  EvalArguments eval;
  MatchOptions match;
};

std::string queries_text(const std::string& name, const MatchFigures& figures) {
  std::string text =
      fmt::format("  {}: learned from {}, asked {}\n", name,
                  count_text(figures.learned) + " labelled queries", count_text(figures.asked));
  text += fmt::format("    {:<44} {}\n", "first hit right, where there is an answer",
                      figure_text(figures.first_right));
  text += fmt::format("    {:<44} {}  by cosine {}\n", "AUROC, an answer there against none",
                      figure_text(figures.found_auroc), figure_text(figures.cosine_auroc));
  text += fmt::format("    {:<44} {}  by cosine {}\n", "AUROC, right hits against wrong ones",
                      figure_text(figures.hit_auroc), figure_text(figures.hit_cosine_auroc));
  if (!figures.tells) return text + fmt::format("    nothing can be told: {}\n", one_line(figures.reason));
  text += fmt::format("    {:<12} {:>7} {:>9}  {}\n", "promised", "hits", "mean", "came true");
  for (const MatchFigures::Bin& bin : figures.bins) {
    text += fmt::format("    {:<12} {:>7} {:>9.3f}  {}\n", fmt::format("{:.1f} to {:.1f}", bin.from, bin.to),
                        count_text(bin.hits), bin.promised, figure_text(bin.came));
  }
  text += fmt::format("    {:<12} {:>7} {:>9}  {:<22} {:<22} {:<22}\n", "cut", "hits", "promised",
                      "precision", "found", "false found");
  for (const MatchFigures::Cut& cut : figures.cuts) {
    text += fmt::format("    {:<12} {:>7} {:>9}  {:<22} {:<22} {:<22}\n", fmt::format("{:.1f}", cut.cut),
                        count_text(cut.hits), std::isfinite(cut.promised) ? three_digits(cut.promised) : "-",
                        figure_text(cut.precision), figure_text(cut.found), figure_text(cut.false_found));
  }
  return text;
}

std::string dataset_text(const RunDataset& dataset, const MatchesMetrics& metrics) {
  std::string text;
  for (const MatchesResult& result : metrics.results) {
    if (result.dataset != dataset.name) continue;
    text += fmt::format("{}, {}: {} classes\n", one_line(dataset.name), one_line(result.model),
                        count_text(result.classes));
    if (!result.unsupported.empty()) text += "  " + result.unsupported + "\n";
    if (result.texts) text += queries_text("searched by text", *result.texts);
    if (result.pictures) text += queries_text("searched by image", *result.pictures);
  }
  return text + exclusions_text(dataset);
}

Result<Evaluation> measure(const MatchesArguments& arguments, Session& session, ProgressLine& progress) {
  ThreadPool pool(arguments.eval.encoder.threads);
  SACCADE_ASSIGN(const EvaluationOptions options, encoding_options(arguments.eval, session, progress));
  MatchStudy study(options, arguments.match);
  return evaluate(study, options, located_checkpoints(options_of(arguments.eval.encoder)), pool);
}

Result<int> run(const MatchesArguments& arguments, Session& session) {
  return run_evaluation(
      arguments.eval, session, [&](ProgressLine& progress) { return measure(arguments, session, progress); },
      [](const Evaluation& evaluation) { return text_by_dataset(evaluation, dataset_text); });
}

}  // namespace

void add_eval_matches_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<MatchesArguments>();
  CLI::App* command = eval.add_subcommand(
      "matches",
      "Measure the calibration of match probabilities, and how often absent things are called absent");
  add_eval_inputs(*command, arguments->eval);
  command->add_flag("--leave-out", arguments->eval.evaluation.leave_out,
                    "skip unreadable images, and count them");
  add_number(*command, "--texts", arguments->match.texts, whole_number(1, 100'000),
             "number of texts for the calibration: words and parts of captions, and everyday words");
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace saccade::lab::app
