// saccade eval retrieval: how well checkpoints find a dataset's pictures by
// their captions, and the other way.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/eval/retrieval/retrieval_study.h"
#include "saccade/core/counts.h"

#include "choice.h"
#include "command_eval.h"
#include "eval_options.h"

namespace saccade::lab::app {
namespace {

struct RetrievalArguments {
  EvalArguments eval;
  RetrievalOptions retrieval;
  Similarity similarity = Similarity::kCosine;
  std::vector<std::string> embeddings;
  std::vector<std::string> scores;
};

std::string row_text(const std::string& model, std::string_view words, const std::vector<Figure>& figures) {
  const auto figure = [&](const char* name) {
    const Figure* found = find_named(figures, name);
    return found == nullptr ? Figure() : *found;
  };
  const auto plain = [&](const char* name, const char* format) {
    const double value = figure(name).value;
    return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : std::string("-");
  };
  return fmt::format("  {:<24} {:<14} {:<22} {:<22} {:<22} {:>6} {:>8} {:>8}\n", one_line(model), words,
                     figure_text(figure("r1")), figure_text(figure("r5")), figure_text(figure("r10")),
                     plain("mrr", "{:.3f}"), plain("ndcg10", "{:.3f}"), plain("median_rank", "{:g}"));
}

std::string dataset_text(const RunDataset& dataset, const RetrievalMetrics& metrics) {
  std::string text = fmt::format("{}: {}, {}\n", one_line(dataset.name), counted(dataset.images, "picture"),
                                 counted(dataset.texts, "text"));
  text += fmt::format("  {:<24} {:<14} {:<22} {:<22} {:<22} {:>6} {:>8} {:>8}\n", "model", "direction", "R@1",
                      "R@5", "R@10", "MRR", "nDCG@10", "median");
  int64_t tied = 0;
  for (const RetrievalResult& result : metrics.results) {
    if (result.dataset != dataset.name) continue;
    for (const Direction direction : kBothDirections) {
      const RetrievalDirection& one = result.directions.of(direction);
      text += row_text(result.model, direction_text(direction), one.figures);
      tied += one.counts.tied;
    }
  }
  if (tied > 0) {
    text += fmt::format("  {}: a wrong answer has exactly a right one's score\n",
                        tied == 1 ? std::string("1 tied query") : count_text(tied) + " tied queries");
  }
  for (const RetrievalComparison& comparison : metrics.comparisons) {
    if (comparison.dataset != dataset.name) continue;
    for (const Direction direction : kBothDirections) {
      text += difference_text(comparison.a, comparison.b, fmt::format("{}, R@1", direction_text(direction)),
                              find_named(comparison.directions.of(direction), "r1"));
    }
  }
  return text + exclusions_text(dataset);
}

Result<Evaluation> measure(const RetrievalArguments& arguments, Session& session, ProgressLine& progress) {
  ThreadPool pool(arguments.eval.encoder.threads);
  if (!arguments.embeddings.empty() || !arguments.scores.empty()) {
    const bool rows = !arguments.embeddings.empty();
    const std::vector<std::string>& paths = rows ? arguments.embeddings : arguments.scores;
    return evaluate_given_retrieval(
        {.files = {paths.begin(), paths.end()}, .rows = rows, .similarity = arguments.similarity},
        arguments.retrieval, evaluation_options(arguments.eval, session, progress), pool);
  }
  if (arguments.eval.evaluation.datasets.empty()) {
    return fail(ErrorCode::kUsage,
                "name a dataset with --dataset, or what was computed elsewhere with "
                "--embeddings or --scores");
  }
  SACCADE_ASSIGN(const EvaluationOptions options, encoding_options(arguments.eval, session, progress));
  RetrievalStudy study(arguments.retrieval, options);
  return evaluate(study, options, located_checkpoints(options_of(arguments.eval.encoder)), pool);
}

Result<int> run(const RetrievalArguments& arguments, Session& session) {
  return run_evaluation(
      arguments.eval, session, [&](ProgressLine& progress) { return measure(arguments, session, progress); },
      [](const Evaluation& evaluation) { return text_by_dataset(evaluation, dataset_text); });
}

}  // namespace

void add_eval_retrieval_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<RetrievalArguments>();
  CLI::App* command =
      eval.add_subcommand("retrieval", "Measure retrieval of images by captions, and of captions by images");
  add_eval_inputs(*command, arguments->eval);
  add_choice(
      *command, "--captions", arguments->retrieval.captions,
      "captions used as texts: all, the first of each image, distinct ones only, or one per image in both "
      "directions");
  add_choice(*command, "--ties", arguments->retrieval.ties,
             "ranking of ties: against the model, in its favor, mean rank, by index, or as trec_eval does");
  command->add_flag(
      "--leave-out", arguments->eval.evaluation.leave_out,
      "skip images that are unreadable or have no text, and texts without an image, and count them");
  auto* embeddings = command->add_option(
      "--embeddings", arguments->embeddings,
      "evaluate embeddings in FILE.safetensors: image_embeds [n, d], text_embeds [m, d], text_image [m]");
  auto* scores = command->add_option("--scores", arguments->scores,
                                     "evaluate scores in FILE.safetensors: scores [m, n], text_image [m]");
  embeddings->excludes(scores);
  for (auto* option : {embeddings, scores}) option->excludes(command->get_option("--model"));
  add_choice(*command, "--similarity", arguments->similarity, "similarity measure for --embeddings");
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  command->callback(
      [arguments, &chosen] { chosen = [arguments](Session& session) { return run(*arguments, session); }; });
}

}  // namespace saccade::lab::app
