// saccade eval classification: zero-shot classification of images by prompts.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "lab/eval/classification/classification_study.h"
#include "saccade/core/counts.h"
#include "saccade/core/files/files.h"

#include "choice.h"
#include "command_eval.h"
#include "eval_options.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct ClassificationArguments {
  EvalArguments eval;
  ClassificationOptions classification;
  std::string classes;
  std::string templates;
};

std::string dataset_text(const RunDataset& dataset, const ClassificationMetrics& metrics) {
  std::string text = fmt::format("{}: {}, {} classes\n", one_line(dataset.name),
                                 counted(dataset.images, "image"), count_text(dataset.texts));
  text += fmt::format("  {:<24} {:<22} {:<22} {:<22} {:>5}\n", "model", "top-1", "top-5", "mean per class",
                      "tied");
  for (const ClassificationResult& result : metrics.results) {
    if (result.dataset != dataset.name) continue;
    const auto figure = [&](const char* name) {
      const Figure* found = find_named(result.figures, name);
      return found == nullptr ? std::string("-") : figure_text(*found);
    };
    text += fmt::format("  {:<24} {:<22} {:<22} {:<22} {:>5}\n", one_line(result.model), figure("top1"),
                        figure("top5"), figure("mean_per_class"), count_text(result.tied));
  }
  for (const ClassificationResult& result : metrics.results) {
    if (result.dataset != dataset.name || result.classes.empty()) continue;
    text += fmt::format("  {}, by class:\n", one_line(result.model));
    for (const ClassResult& one : result.classes) {
      if (one.images == 0) continue;
      text += fmt::format(
          "    {:<32} {} of {}{}\n", one_line(one.label), count_text(one.top1), counted(one.images, "image"),
          one.mistaken_for ? ", mistaken most for " + one_line(*one.mistaken_for) : std::string());
    }
  }
  for (const ClassificationComparison& comparison : metrics.comparisons) {
    if (comparison.dataset != dataset.name) continue;
    text += difference_text(comparison.a, comparison.b, "top-1", find_named(comparison.figures, "top1"));
  }
  return text + exclusions_text(dataset);
}

Result<int> run(const ClassificationArguments& arguments, Session& session) {
  ClassificationOptions classification = arguments.classification;
  if (!arguments.classes.empty()) {
    SACCADE_ASSIGN(const std::string text, read_file(arguments.classes));
    SACCADE_ASSIGN(classification.classes, parse_class_names(text).in(arguments.classes));
  }
  if (!arguments.templates.empty()) {
    SACCADE_ASSIGN(const std::string text, read_file(arguments.templates));
    SACCADE_ASSIGN(classification.templates, parse_templates(text).in(arguments.templates));
  }
  const auto measure = [&](ProgressLine& progress) -> Result<Evaluation> {
    ThreadPool pool(arguments.eval.encoder.threads);
    SACCADE_ASSIGN(const EvaluationOptions options, encoding_options(arguments.eval, session, progress));
    ClassificationStudy study(classification, options);
    return evaluate(study, options, located_checkpoints(options_of(arguments.eval.encoder)), pool);
  };
  return run_evaluation(arguments.eval, session, measure, [](const Evaluation& evaluation) {
    return text_by_dataset(evaluation, dataset_text);
  });
}

}  // namespace

void add_eval_classification_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<ClassificationArguments>();
  CLI::App* command = eval.add_subcommand(
      "classification", "Measure zero-shot classification: images assigned to classes by prompts");
  add_eval_inputs(*command, arguments->eval);
  add_choice(*command, "--label", arguments->classification.label,
             "field of a dataset's items that names the class: the first caption, or the group");
  command->add_option(
      "--classes", arguments->classes,
      "file of classes, a label a line, behind a tab its name for prompts (default: the dataset's labels)");
  command->add_option(
      "--templates", arguments->templates,
      "file of prompts, one a line, with {} for the class's name; their embeddings are averaged (default: "
      "\"a photo of a {}.\")");
  command->add_flag("--leave-out", arguments->eval.evaluation.leave_out,
                    "skip unreadable images, and count them");
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace saccade::lab::app
