// saccade eval visualness: how well checkpoints, and rules over words, tell texts that
// picture something from others.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  std::string word_ratings;
};

std::string figures_line(const VisualnessResult& result) {
  std::string text = fmt::format("  {:<34}", one_line(result.model));
  for (const Figure& figure : result.figures) text += fmt::format(" {:<21}", figure_text(figure));
  return text + fmt::format(" {:>9.4f}\n", result.threshold);
}

std::string correlation_text(double r, double low, double high, double p, int64_t words) {
  if (!std::isfinite(r)) return "too few words for a correlation";
  return fmt::format("r {}, p {:.2g}, {}", interval_text({.value = r, .low = low, .high = high}, Sign::kBoth),
                     p, counted(words, "word"));
}

// Returns F1 by parts of the texts, a line for each method.
std::string parts_text(const RunDataset& dataset, const VisualnessMetrics& metrics) {
  std::string text;
  for (const VisualnessResult& result : metrics.results) {
    if (result.dataset != dataset.name || result.parts.empty()) continue;
    if (text.empty()) {
      text = fmt::format("  {:<34}", "F1 by length and objects");
      for (const VisualnessPart& part : result.parts) {
        text += fmt::format(" {:<21}", fmt::format("{} ({})", part.name, part.texts));
      }
      text += "\n";
    }
    text += fmt::format("  {:<34}", one_line(result.model));
    for (const VisualnessPart& part : result.parts) {
      const bool measured = std::isfinite(part.figures.front().value);
      text += fmt::format(" {:<21}", measured ? figure_text(part.figures.front()) : "one class");
    }
    text += "\n";
  }
  return text;
}

// Returns what was measured over the words of one set of texts.
std::string attention_text(const AttentionTextFacts& facts, const VisualnessMetrics& metrics) {
  std::string text = fmt::format("attention to words of {}: {}, on average {:.1f} words",
                                 one_line(facts.dataset), counted(facts.texts, "text"), facts.words);
  if (std::isfinite(facts.objects)) {
    text += fmt::format(", {:.1f} of them objects ({:.1f}%)", facts.objects, 100 * facts.object_share);
  }
  text += "\n";
  for (const AttentionCorrelation& each : metrics.attention) {
    if (each.dataset != facts.dataset) continue;
    if (each.length != "all") {
      if (std::isfinite(each.ratings.r)) {
        text += fmt::format("    {} texts ({}): r {}, {}\n", each.length, each.ratings.texts,
                            three_digits(each.ratings.r, Sign::kBoth), counted(each.ratings.words, "word"));
      }
      continue;
    }
    const AttentionRatings& ratings = each.ratings;
    text += fmt::format("  {} and {}: {}\n", one_line(each.model), each.lexicon,
                        correlation_text(ratings.r, ratings.low, ratings.high, ratings.p, ratings.words));
  }
  for (const AttentionAgreement& each : metrics.attention_between) {
    if (each.dataset != facts.dataset) continue;
    text += fmt::format("  {} and {}: {}\n", one_line(each.a), one_line(each.b),
                        correlation_text(each.r, each.low, each.high, each.p, each.words));
  }
  for (const auto& [model, share] : facts.attention_to_objects) {
    text += fmt::format("  {}: {:.1f}% of its attention to objects\n", one_line(model), 100 * share);
  }
  return text;
}

// Returns what was measured of the lexicons.
std::string lexicons_text(const VisualnessMetrics& metrics) {
  std::string text;
  for (const WordRatingAgreement& each : metrics.word_ratings) {
    text += fmt::format("{} and people's ratings of words: {}{}\n", each.lexicon,
                        correlation_text(each.r, each.low, each.high, each.p, each.words),
                        each.alpha ? ", their agreement (alpha) " + three_digits(*each.alpha) : "");
  }
  for (const RatedWordList& list : metrics.rated_words) {
    for (const RatedWordRange& range : list.ranges) {
      text += fmt::format("{}: {} rated {}: {}\n", list.lexicon, counted(range.words, "word"), range.name,
                          fmt::join(range.examples, ", "));
    }
  }
  return text;
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
    text += ambiguous_line(result);
  }
  text += parts_text(dataset, metrics);
  for (const VisualnessComparison& comparison : metrics.comparisons) {
    if (comparison.dataset != dataset.name) continue;
    for (const char* name : {"f1", "mrr"}) {
      text += difference_text(comparison.a, comparison.b, name, find_named(comparison.scores, name));
    }
  }
  return text + exclusions_text(dataset);
}

Result<std::string> whole_text(const Evaluation& evaluation) {
  SACCADE_ASSIGN(std::string text, text_by_dataset<VisualnessMetrics>(evaluation, dataset_text));
  SACCADE_ASSIGN(const auto metrics, read_record<VisualnessMetrics>(evaluation.metrics));
  for (const AttentionTextFacts& facts : metrics.attention_texts) text += attention_text(facts, metrics);
  return text + lexicons_text(metrics);
}

Result<Evaluation> measure(const VisualnessArguments& arguments, Session& session, ProgressLine& progress) {
  VisualnessOptions visualness = arguments.options;
  SACCADE_ASSIGN(visualness.null_picture, parse_null_picture(arguments.null_picture));
  visualness.lexicon = arguments.lexicon;
  visualness.objects = arguments.objects;
  visualness.word_ratings = arguments.word_ratings;
  visualness.vectors.assign(arguments.vectors.begin(), arguments.vectors.end());
  ThreadPool pool(arguments.eval.encoder.threads);
  SACCADE_ASSIGN(const EvaluationOptions options, encoding_options(arguments.eval, session, progress));
  SACCADE_ASSIGN(VisualnessStudy study, VisualnessStudy::make(visualness, options));
  return evaluate(study, options, located_checkpoints(options_of(arguments.eval.encoder)), pool);
}

Result<int> run(const VisualnessArguments& arguments, Session& session) {
  return run_evaluation(
      arguments.eval, session, [&](ProgressLine& progress) { return measure(arguments, session, progress); },
      whole_text);
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
      "attention of text classifiers and CLIPs is correlated with them");
  command->add_option(
      "--vectors", arguments->vectors,
      "word vectors in GloVe's text format or word2vec's, to expand the lexicon by nearest words");
  command->add_option("--objects", arguments->objects,
                      "everyday, the list that illustrate uses by default, or a file with "
                      "names of visible things, one per line: their share of a text's words is a baseline");
  command->add_option("--attention-texts", arguments->options.attention_texts,
                      "texts without labels, over which attention to words is measured too: datasets (their "
                      "captions or texts), or text files with one text per line");
  command->add_option(
      "--word-ratings", arguments->word_ratings,
      "people's ratings of words, with which the lexicon and its expansions are correlated: a "
      "lexicon, or a table of ratings from 1 to 7 as dataset label takes it");
  command->add_option("--prior", arguments->options.prior,
                      "share of visual texts for the class prior: a dataset of rated texts, such as the "
                      "training's, or uniform (default: the validation texts)");
  command->add_flag("--own-decision", arguments->options.own_decision,
                    "let a text classifier decide by its own classes, not by a threshold chosen on the "
                    "validation texts");
  add_choice(*command, "--map", arguments->options.map,
             "projection of texts, images and the NULL image, stored in the run (-o)");
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace saccade::lab::app
