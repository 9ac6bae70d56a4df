// saccade eval retrieval: how well checkpoints find a dataset's pictures by
// their captions, and the other way.
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lab/eval/retrieval/retrieval_study.h"
#include "saccade/core/counts.h"
#include "saccade/model/device/device_name.h"

#include "choice.h"
#include "command_eval.h"
#include "command_help.h"
#include "eval_options.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct RetrievalArguments {
  EvalArguments eval;
  RetrievalOptions retrieval;
  std::optional<RetrievalProtocol> protocol;
  std::string table;
  std::string rerank;
  int64_t rerank_depth = kRerankDepth;
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

// Returns the lines of the symmetric protocol; empty if it was not measured.
std::string symmetric_text(const RetrievalResult& result) {
  if (!result.symmetric) return {};
  std::string text;
  for (const Direction direction : kBothDirections) {
    text += row_text(result.model, direction == Direction::kTextToImage ? "t2i symmetric" : "i2t symmetric",
                     result.symmetric->directions.of(direction).figures);
  }
  for (const Direction direction : kBothDirections) {
    text += difference_text(result.model, "symmetric", fmt::format("{}, R@1", direction_text(direction)),
                            find_named(result.symmetric->gain.of(direction), "r1"));
  }
  return text;
}

// Returns a line for each group of text queries; empty if none was asked for.
std::string groups_text(const RetrievalResult& result) {
  if (!result.groups) return {};
  std::string text = fmt::format("  {}, text to image by kind of query:\n", one_line(result.model));
  for (const QueryGroupFigures& group : *result.groups) {
    text += fmt::format("    {:<10} {:<22}", one_line(group.kind), one_line(group.group));
    for (const char* name : {"r1", "r5", "r10"}) {
      const BriefFigure* found = find_named(group.figures, name);
      text += fmt::format(" {:<22}", found == nullptr ? std::string("-") : figure_text(*found));
    }
    text += fmt::format(" {} of {}{}\n", counted(group.queries, "text"), counted(group.images, "image"),
                        group.few ? ", too few to compare" : "");
  }
  return text;
}

// Returns the curve over depth; empty if nothing was reranked.
std::string rerank_text(const RetrievalResult& result, int64_t images, int64_t texts) {
  if (!result.rerank) return {};
  const RerankResult& rerank = *result.rerank;
  std::string text = fmt::format("  {}, reranked by {} ({}): {:.3g} s a query\n", one_line(result.model),
                                 one_line(rerank.second), rerank.by, rerank.seconds_per_query);
  for (const RerankPoint& point : rerank.points) {
    for (const Direction direction : kBothDirections) {
      const Figure* r1 = find_named(point.figures.of(direction), "r1");
      const Difference* gain = find_named(point.gain.of(direction), "r1");
      if (r1 == nullptr || gain == nullptr) continue;
      const int64_t depth = std::min(point.depth, direction == Direction::kTextToImage ? images : texts);
      text += fmt::format("    first {:>5}, {:<14} R@1 {:<22} {}{}\n", depth, direction_text(direction),
                          figure_text(*r1), interval_text(gain->figure, Sign::kBoth),
                          gain->significant ? "" : ": cannot be told apart");
    }
  }
  return text;
}

std::string dataset_text(const RunDataset& dataset, const RetrievalMetrics& metrics) {
  std::string text = fmt::format("{}: {}, {}\n", one_line(dataset.name), counted(dataset.images, "image"),
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
    if (result.gap && std::isfinite(result.gap->figure.low)) {
      text += fmt::format("  {:<24} {:<14} {}: R@1 of image to text minus text to image\n",
                          one_line(result.model), "gap", interval_text(result.gap->figure, Sign::kBoth));
    }
    text += symmetric_text(result);
    text += rerank_text(result, dataset.images, dataset.texts);
    text += groups_text(result);
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
  RetrievalOptions retrieval = arguments.retrieval;
  if (arguments.protocol == RetrievalProtocol::kSymmetric && retrieval.symmetric) {
    return fail(
        ErrorCode::kUsage,
        "--protocol symmetric is what --symmetric measures beside another protocol: give one of them");
  }
  if (arguments.protocol) use_protocol(*arguments.protocol, retrieval);
  if (!arguments.table.empty()) {
    SACCADE_ASSIGN(retrieval.table, read_query_table(arguments.table).in("--by-table"));
  }
  if (!arguments.embeddings.empty() || !arguments.scores.empty()) {
    const bool rows = !arguments.embeddings.empty();
    const std::vector<std::string>& paths = rows ? arguments.embeddings : arguments.scores;
    return evaluate_given_retrieval(
        {.files = {paths.begin(), paths.end()}, .rows = rows, .similarity = arguments.similarity}, retrieval,
        evaluation_options(arguments.eval, session, progress), pool);
  }
  if (arguments.eval.evaluation.datasets.empty()) {
    return fail(ErrorCode::kUsage,
                "name a dataset with --dataset, or what was computed elsewhere with "
                "--embeddings or --scores");
  }
  SACCADE_ASSIGN(const EvaluationOptions options, encoding_options(arguments.eval, session, progress));
  RetrievalStudy study(retrieval, options);
  std::optional<LoadedEncoder> second;
  if (!arguments.rerank.empty()) {
    BackendOptions reranking = options_of(arguments.eval.encoder);
    reranking.device = kProcessor;  // most models that rerank run there alone
    const CheckpointSource source = located_checkpoints(reranking);
    SACCADE_ASSIGN(second, source.load(arguments.rerank, options.precisions.front()));
    study.rerank_by({.encoder = second->encoder.get(),
                     .name = second->id.name,
                     .fingerprint = second->encoder->info().fingerprint,
                     .depth = arguments.rerank_depth});
  }
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
  add_choice(
      *command, "--protocol", arguments->protocol,
      "named protocol, which sets the captions: seven-models, karpathy, clip-benchmark, long-clip or symmetric")
      ->excludes(command->get_option("--captions"));
  command->add_flag(
      "--symmetric", arguments->retrieval.symmetric,
      "measure the symmetric protocol as well (each image with its first caption), with the difference");
  add_choice(*command, "--ties", arguments->retrieval.ties,
             "ranking of ties: against the model, in its favor, mean rank, by index, or as trec_eval does");
  auto* late_from = add_choice(
      *command, "--late-from", arguments->retrieval.late.from,
      "side whose vectors late interaction sums over: text (each with its best image vector) or image (each with its "
      "best text vector)");
  auto* late_normalize =
      command->add_flag("--late-normalize", arguments->retrieval.late.normalize,
                        "divide scores of late interaction by the number of vectors summed over");
  add_query_group_options(*command, arguments->retrieval.by, arguments->table);
  command->add_option(
      "--rerank", arguments->rerank,
      "checkpoint that puts the first answers in its own order, by its matching head where it has one");
  command
      ->add_option("--rerank-depth", arguments->rerank_depth,
                   "number of answers that --rerank judges, for every query; the curve has smaller ones too")
      ->transform(whole_number(2, 1'000'000))
      ->capture_default_str()
      ->needs(command->get_option("--rerank"));
  command->add_flag(
      "--leave-out", arguments->eval.evaluation.leave_out,
      "skip images that are unreadable or have no text, and texts without an image, and count them");
  auto* embeddings = command->add_option(
      "--embeddings", arguments->embeddings,
      "evaluate embeddings in FILE.safetensors: image_embeds [n, d], text_embeds [m, d], text_image [m]");
  auto* scores = command->add_option("--scores", arguments->scores,
                                     "evaluate scores in FILE.safetensors: scores [m, n], text_image [m]");
  embeddings->excludes(scores);
  for (auto* option : {embeddings, scores}) {
    option->excludes(command->get_option("--model"))->excludes(command->get_option("--rerank"));
    option->excludes(late_from)->excludes(late_normalize);
  }
  add_choice(*command, "--similarity", arguments->similarity, "similarity measure for --embeddings");
  command->get_option("--similarity")->needs(embeddings);
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  group_options(*command, {{"Late interaction and reranking",
                            {"--late-from", "--late-normalize", "--rerank", "--rerank-depth"}}});
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace saccade::lab::app
