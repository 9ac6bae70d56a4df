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

std::string figures_line(const VisualnessResult& result) {
  std::string text = fmt::format("  {:<34}", one_line(result.model));
  for (const Figure& figure : result.figures) text += fmt::format(" {:<21}", figure_text(figure));
  return text + fmt::format(" {:>9.4f}\n", result.threshold);
}

std::string attention_line(const VisualnessResult& result) {
  if (!result.attention) return {};
  const AttentionRatings& attention = *result.attention;
  if (!std::isfinite(attention.r)) {
    return fmt::format("  {}: too few words of the lexicon for a correlation\n", one_line(result.model));
  }
  return fmt::format(
      "  {}: attention to words and their rating: r {:+.3f} [{:+.3f}, {:+.3f}], p {:.2g}, {}\n",
      one_line(result.model), attention.r, attention.low, attention.high, attention.p,
      counted(attention.words, "word"));
}

std::string ambiguous_line(const VisualnessResult& result) {
  if (!result.ambiguous) return {};
  return fmt::format(
      "  {}: {} ambiguous, {:.0f}% of them called visual, bimodality {:.2f} (even 0.56, two ends 1)\n",
      one_line(result.model), counted(result.ambiguous->texts, "text"), 100 * result.ambiguous->called_visual,
      result.ambiguous->bimodality);
}

std::string dataset_text(const RunDataset& dataset, const VisualnessMetrics& metrics) {
  std::string text = fmt::format("{}: {}\n", one_line(dataset.name), counted(dataset.texts, "text"));
  text += fmt::format("  {:<34} {:<21} {:<21} {:<21} {:<21} {:>9}\n", "method", "F1", "precision", "recall",
                      "accuracy", "threshold");
  for (const VisualnessResult& result : metrics.results) {
    if (result.dataset == dataset.name) text += figures_line(result);
  }
  for (const VisualnessResult& result : metrics.results) {
    if (result.dataset != dataset.name) continue;
    if (result.mrr) {
      text +=
          fmt::format("  {}: MRR {} of {} with {}\n", one_line(result.model), figure_text(result.mrr->mrr),
                      counted(result.mrr->texts, "text"), counted(result.mrr->images, "image"));
    }
    text += attention_line(result) + ambiguous_line(result);
  }
  for (const VisualnessComparison& comparison : metrics.comparisons) {
    if (comparison.dataset != dataset.name) continue;
    for (const char* name : {"f1", "mrr"}) {
      text += difference_text(comparison.a, comparison.b, name, find_named(comparison.scores, name));
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
                      "everyday, the list that illustrate uses by default, or a file with "
                      "names of visible things, one per line: their share of a text's words is a baseline");
  add_choice(*command, "--map", arguments->options.map,
             "projection of texts, images and the NULL image, stored in the run (-o)");
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  command->callback(
      [arguments, &chosen] { chosen = [arguments](Session& session) { return run(*arguments, session); }; });
}

}  // namespace saccade::lab::app
