// saccade eval visualness: how well checkpoints, and rules over words, tell texts that
// picture something from others.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/eval/visualness/visualness_study.h"
#include "saccade/core/counts.h"

#include "choice.h"
#include "command_eval.h"
#include "eval_options.h"

namespace saccade::lab::app {
namespace {

struct VisualnessArguments {
  EvalArguments eval;
  VisualnessOptions options;
  std::string null_picture = "random";
  std::string lexicon;
  std::string objects;
  std::vector<std::string> vectors;
};

bool is_of(const Json& entry, const std::string& dataset) {
  return entry["dataset"] == dataset;
}

std::string figures_line(const Json& result) {
  std::string text = fmt::format("  {:<34}", one_line(result["model"].get<std::string>()));
  for (const std::string_view name : BinaryFigures::kNames) {
    text += fmt::format(" {:<21}", figure_text(result[std::string(name)]));
  }
  return text + fmt::format(" {:>9.4f}\n", result["threshold"].get<double>());
}

std::string attention_line(const Json& result) {
  const Json& attention = result["attention"];
  if (!attention.is_object()) return {};
  if (!attention["r"].is_number()) {
    return fmt::format("  {}: too few words of the lexicon for a correlation\n",
                       one_line(result["model"].get<std::string>()));
  }
  return fmt::format(
      "  {}: attention to words and their rating: r {:+.3f} [{:+.3f}, {:+.3f}], p {:.2g}, {}\n",
      one_line(result["model"].get<std::string>()), attention["r"].get<double>(),
      attention["low"].get<double>(), attention["high"].get<double>(), attention["p"].get<double>(),
      counted(attention["words"].get<int64_t>(), "word"));
}

std::string ambiguous_line(const Json& result) {
  const Json& ambiguous = result["ambiguous"];
  if (!ambiguous.is_object()) return {};
  return fmt::format(
      "  {}: {} ambiguous, {:.0f}% of them called visual, bimodality {:.2f} (even 0.56, two ends 1)\n",
      one_line(result["model"].get<std::string>()), counted(ambiguous["texts"].get<int64_t>(), "text"),
      100 * ambiguous["called_visual"].get<double>(), ambiguous["bimodality"].get<double>());
}

std::string dataset_text(const RunDataset& dataset, const Json& metrics) {
  std::string text = fmt::format("{}: {}\n", one_line(dataset.name), counted(dataset.texts, "text"));
  text += fmt::format("  {:<34} {:<21} {:<21} {:<21} {:<21} {:>9}\n", "method", "F1", "precision", "recall",
                      "accuracy", "threshold");
  for (const Json& result : metrics["results"]) {
    if (is_of(result, dataset.name)) text += figures_line(result);
  }
  for (const Json& result : metrics["results"]) {
    if (!is_of(result, dataset.name)) continue;
    const Json& mrr = result["mrr"];
    if (mrr.is_object()) {
      text += fmt::format("  {}: MRR {} of {} with {}\n", one_line(result["model"].get<std::string>()),
                          figure_text(mrr), counted(mrr["texts"].get<int64_t>(), "text"),
                          counted(mrr["pictures"].get<int64_t>(), "picture"));
    }
    text += attention_line(result) + ambiguous_line(result);
  }
  for (const Json& comparison : metrics["comparisons"]) {
    if (!is_of(comparison, dataset.name)) continue;
    for (const char* name : {"f1", "mrr"}) {
      const auto figure = comparison["scores"].find(name);
      if (figure != comparison["scores"].end()) text += difference_text(comparison, name, *figure);
    }
  }
  return text + exclusions_text(dataset);
}

Result<Evaluation> measure(const VisualnessArguments& arguments, Session& session, ProgressLine& progress) {
  VisualnessOptions visualness = arguments.options;
  SACCADE_ASSIGN(visualness.null_picture, parse_null_picture(arguments.null_picture));
  visualness.lexicon = arguments.lexicon;
  visualness.objects = arguments.objects;
  visualness.vectors.assign(arguments.vectors.begin(), arguments.vectors.end());
  ThreadPool pool(arguments.eval.encoder.threads);
  SACCADE_ASSIGN(const EvaluationOptions options, encoding_options(arguments.eval, session, progress));
  SACCADE_ASSIGN(VisualnessStudy study, VisualnessStudy::make(visualness, options));
  return evaluate(study, options, located_checkpoints(options_of(arguments.eval.encoder)), pool);
}

Result<int> run(const VisualnessArguments& arguments, Session& session) {
  return run_evaluation(
      arguments.eval, session, [&](ProgressLine& progress) { return measure(arguments, session, progress); },
      [](const Evaluation& evaluation) { return text_by_dataset(evaluation, dataset_text); });
}

}  // namespace

void add_eval_visualness_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<VisualnessArguments>();
  CLI::App* command = eval.add_subcommand(
      "visualness", "Measure the classification of visual and non-visual texts (TIP-CLIP)");
  add_eval_inputs(*command, arguments->eval);
  command->add_flag("--leave-out", arguments->eval.evaluation.leave_out,
                    "measure texts with an unreadable image without the image, and count them");
  command->add_option(
      "--validation", arguments->options.validation,
      "datasets of rated texts for choosing thresholds: one for all datasets, or one each (default: the "
      "threshold stored in each checkpoint)");
  command
      ->add_option(
          "--null", arguments->null_picture,
          "NULL image for checkpoints that store none: random, random:SEED, grey, black, white, or a file")
      ->capture_default_str();
  command->add_option(
      "--lexicon", arguments->lexicon,
      "word ratings, the MRC database (mrc2.dct) or Brysbaert's table: their mean is a baseline, and "
      "attention of text classifiers is correlated with them");
  command->add_option(
      "--vectors", arguments->vectors,
      "word vectors in GloVe's text format or word2vec's, to expand the lexicon by nearest words");
  command->add_option("--objects", arguments->objects,
                      "names of visible things, one per line: their share of a text's words is a baseline");
  add_choice(*command, "--map", arguments->options.map,
             "projection of texts, images and the NULL image, stored in the run (-o)");
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  command->callback(
      [arguments, &chosen] { chosen = [arguments](Session& session) { return run(*arguments, session); }; });
}

}  // namespace saccade::lab::app
