// saccade eval answers: the order of hits with and without keyword matches, and their match probabilities.
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "lab/eval/answers/answers_study.h"
#include "saccade/core/counts.h"

#include "command_eval.h"
#include "eval_options.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct AnswersArguments {
  EvalArguments eval;
  AnswersOptions answers;
};

std::string orders_text(const AnswersFigures& figures) {
  std::string text;
  std::optional<QueryGroup> group;
  for (const AnswersFigures::Order& order : figures.orders) {
    if (order.group != group) {
      text += fmt::format("  {:<30} {:<24} {:<24} {}\n",
                          fmt::format("{}: {}", enum_name(order.group), count_text(order.queries)), "nDCG@10",
                          "first hit right", "nDCG@10 of the default less this");
    }
    group = order.group;
    text += fmt::format("    {:<28} {:<24} {:<24} {}\n", enum_name(order.ordering), figure_text(order.ndcg),
                        figure_text(order.first),
                        order.ordering == Ordering::kDefault ? "" : figure_text(order.lead));
  }
  return text;
}

std::string calibration_text(const AnswersFigures& figures) {
  if (!figures.tells) return fmt::format("  no match probabilities: {}\n", one_line(figures.reason));
  std::string text =
      fmt::format("  match probabilities: expected calibration error {:.3f}; separation {:.2f}{}\n",
                  figures.ece, figures.separation, figures.shipped ? ", estimated" : "");
  text += fmt::format("    {:<12} {:>7} {:>9} {:>9}\n", "from", "hits", "promised", "right");
  for (const AnswersFigures::Bin& bin : figures.bins) {
    text += fmt::format("    {:<12.1f} {:>7} {:>9.3f} {:>9.3f}\n", bin.from, count_text(bin.hits),
                        bin.promised, bin.came);
  }
  text += fmt::format("    {:<12} {:>7} {:<24} {:>9}\n", "cut", "hits", "precision", "recall");
  for (const AnswersFigures::Cut& cut : figures.cuts) {
    text +=
        fmt::format("    {:<12.1f} {:>7} {:<24} {:>9}\n", cut.cut, count_text(cut.hits),
                    figure_text(cut.precision), std::isfinite(cut.recall) ? three_digits(cut.recall) : "-");
  }
  text += fmt::format("    {:<52} {}\n", "right first hits with 0.5 or more",
                      figure_text(figures.first_right_above_half));
  text += fmt::format("    {:<52} {}\n", "absent queries told, at 10% false alarms",
                      figure_text(figures.absent_named));
  text += fmt::format("    {:<52} {}\n", "absent queries with nothing but weak matches",
                      figure_text(figures.absent_weak));
  text +=
      fmt::format("    {:<52} {}\n", "queries with an answer, the same", figure_text(figures.present_weak));
  return text;
}

std::string dataset_text(const RunDataset& dataset, const AnswersMetrics& metrics) {
  std::string text;
  for (const AnswersResult& result : metrics.results) {
    if (result.dataset != dataset.name) continue;
    text += fmt::format("{}, {}\n", one_line(dataset.name), one_line(result.model));
    if (!result.unsupported.empty()) {
      text += "  " + result.unsupported + "\n";
      continue;
    }
    text += fmt::format("  {} queries with an answer, {} without\n", count_text(result.figures.asked),
                        count_text(result.figures.absent));
    text += orders_text(result.figures) + calibration_text(result.figures);
  }
  return text + exclusions_text(dataset);
}

Result<Evaluation> measure(const AnswersArguments& arguments, Session& session, ProgressLine& progress) {
  ThreadPool pool(arguments.eval.encoder.threads);
  SACCADE_ASSIGN(const EvaluationOptions options, encoding_options(arguments.eval, session, progress));
  AnswersStudy study(options, arguments.answers);
  return evaluate(study, options, located_checkpoints(options_of(arguments.eval.encoder)), pool);
}

Result<int> run(const AnswersArguments& arguments, Session& session) {
  return run_evaluation(
      arguments.eval, session, [&](ProgressLine& progress) { return measure(arguments, session, progress); },
      [](const Evaluation& evaluation) { return text_by_dataset(evaluation, dataset_text); });
}

}  // namespace

void add_eval_answers_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<AnswersArguments>();
  CLI::App* command = eval.add_subcommand(
      "answers", "Measure answers to texts: their order with keyword matches, and their match probabilities");
  add_eval_inputs(*command, arguments->eval);
  command->add_flag("--leave-out", arguments->eval.evaluation.leave_out,
                    "leave out images that cannot be read, and count them");
  add_number(*command, "--indexed", arguments->answers.indexed, whole_number(0, 1000),
             "number of captions of each image that are indexed; the others are asked for");
  add_number(*command, "--queries", arguments->answers.each, whole_number(1, 100'000),
             "number of queries of one, two, three and more words, at most");
  add_number(*command, "--adjectives", arguments->answers.attributed, whole_number(0, 100'000),
             "number of queries of an adjective and the noun behind it, at most");
  command->add_flag("--fitted-half", arguments->answers.fitted,
                    "ask for the half of the classes that the shipped factors were fitted on, not the other");
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace saccade::lab::app
