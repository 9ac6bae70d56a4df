// saccade eval matches: whether what search promises of its hits comes true.
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

std::string figure_or_dash(const Json& figure) {
  return figure["value"].is_null() ? "-" : figure_text(figure);
}

std::string queries_text(const std::string& name, const Json& figures) {
  std::string text = fmt::format("  {}: learned from {}, asked {}\n", name,
                                 count_text(figures["learned"].get<int64_t>()) + " labelled queries",
                                 count_text(figures["asked"].get<int64_t>()));
  text += fmt::format("    {:<44} {}\n", "first hit right, where there is an answer",
                      figure_or_dash(figures["first_right"]));
  text += fmt::format("    {:<44} {}  by cosine {}\n", "AUROC, an answer there against none",
                      figure_or_dash(figures["found_auroc"]), figure_or_dash(figures["cosine_auroc"]));
  text += fmt::format("    {:<44} {}  by cosine {}\n", "AUROC, right hits against wrong ones",
                      figure_or_dash(figures["hit_auroc"]), figure_or_dash(figures["hit_cosine_auroc"]));
  if (!figures["tells"].get<bool>()) {
    return text +
           fmt::format("    nothing can be told: {}\n", one_line(figures["reason"].get<std::string>()));
  }
  text += fmt::format("    {:<12} {:>7} {:>9}  {}\n", "promised", "hits", "mean", "came true");
  for (const Json& bin : figures["calibration"]) {
    text += fmt::format("    {:<12} {:>7} {:>9.3f}  {}\n",
                        fmt::format("{:.1f} to {:.1f}", bin["from"].get<double>(), bin["to"].get<double>()),
                        count_text(bin["hits"].get<int64_t>()), bin["promised"].get<double>(),
                        figure_or_dash(bin["came"]));
  }
  text += fmt::format("    {:<12} {:>7} {:>9}  {:<22} {:<22} {:<22}\n", "cut", "hits", "promised",
                      "precision", "found", "false found");
  for (const Json& cut : figures["cuts"]) {
    const std::string promised =
        cut["promised"].is_null() ? std::string("-") : fmt::format("{:.3f}", cut["promised"].get<double>());
    text += fmt::format("    {:<12} {:>7} {:>9}  {:<22} {:<22} {:<22}\n",
                        fmt::format("{:.1f}", cut["cut"].get<double>()),
                        count_text(cut["hits"].get<int64_t>()), promised, figure_or_dash(cut["precision"]),
                        figure_or_dash(cut["found"]), figure_or_dash(cut["false_found"]));
  }
  return text;
}

std::string answer_text(const Evaluation& evaluation) {
  std::string text;
  for (const RunDataset& dataset : evaluation.info.datasets) {
    for (const Json& result : evaluation.metrics["results"]) {
      if (result["dataset"] != dataset.name) continue;
      text += fmt::format("{}, {}: {} classes\n", one_line(dataset.name),
                          one_line(result["model"].get<std::string>()),
                          count_text(result["classes"].get<int64_t>()));
      if (!result["unsupported"].is_null()) {
        text += "  " + result["unsupported"].get<std::string>() + "\n";
        continue;
      }
      text += queries_text("searched by text", result["text"]);
      text += queries_text("searched by picture", result["picture"]);
    }
    text += exclusions_text(dataset);
  }
  return text;
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
      answer_text);
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
  command
      ->add_option("--texts", arguments->match.texts,
                   "number of texts for the calibration: words and parts of captions, and everyday words")
      ->transform(whole_number(1, 100'000))
      ->capture_default_str();
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  command->callback(
      [arguments, &chosen] { chosen = [arguments](Session& session) { return run(*arguments, session); }; });
}

}  // namespace saccade::lab::app
