// Shared code of the `saccade eval` commands: options, choice of checkpoints, and formats of figures.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "lab/eval/evaluation.h"
#include "lab/eval/retrieval/query_groups.h"
#include "saccade/core/error.h"

#include "lab_commands.h"
#include "load_checkpoint.h"

namespace saccade::lab::app {

struct EvalArguments {
  EvaluationOptions evaluation;
  EncoderChoice encoder;
  std::string run;
  std::string cache;
  bool no_cache = false;
  bool json = false;
};

// -m, --dataset, --precision, --threads, --device, --decode-memory, --transparent, --as-stored, --batch-size, --cache,
// --no-cache.
void add_eval_inputs(CLI::App& command, EvalArguments& arguments);
// --seed, --resamples, --confidence.
void add_bootstrap_options(CLI::App& command, EvalArguments& arguments);
// --by, --by-table.
void add_query_group_options(CLI::App& command, std::vector<TextQueryKind>& by, std::string& table);
// -o, --overwrite, --json.
void add_run_options(CLI::App& command, EvalArguments& arguments);

// Returns the options of the evaluation. Its callbacks borrow `session` and `progress`.
EvaluationOptions evaluation_options(const EvalArguments& arguments, Session& session,
                                     ProgressLine& progress);
// -m as given, or the starter.
Result<std::vector<std::string>> checkpoints_of(const EvalArguments& arguments);
// Returns the options of evaluations that encode: with checkpoints, and Ctrl-C as a stop request.
Result<EvaluationOptions> encoding_options(const EvalArguments& arguments, Session& session,
                                           ProgressLine& progress);
// Prints the evaluation, as JSON or as `text` makes it with the protocol in a last line, and says with which
// code the program ends.
Result<int> answer(const Evaluation& evaluation, bool json, Session& session,
                   const std::function<Result<std::string>(const Evaluation&)>& text);

// Of each dataset measured, one after the other; `text` of one is given the run's metrics.
template <typename Metrics>
Result<std::string> text_by_dataset(const Evaluation& evaluation,
                                    std::string (*text)(const RunDataset&, const Metrics&)) {
  SACCADE_ASSIGN(const Metrics metrics, read_record<Metrics>(evaluation.metrics));
  std::string all;
  for (const RunDataset& dataset : evaluation.info.datasets) all += text(dataset, metrics);
  return all;
}

// The whole of a command that evaluates: `measure` under a line of progress, then answer().
Result<int> run_evaluation(const EvalArguments& arguments, Session& session,
                           const std::function<Result<Evaluation>(ProgressLine&)>& measure,
                           const std::function<Result<std::string>(const Evaluation&)>& text);

// "text to image" or its reverse.
std::string_view direction_text(Direction direction);
// "0.123 [0.101, 0.145]"; "-" for an unknown figure.
std::string figure_text(const Figure& figure, Sign sign = Sign::kMinus);
// A line of a table of figures: its first cells as they are printed, and its figures.
struct FiguresLine {
  std::string begin;
  std::vector<Figure> figures;
};
// Returns a table of those of the named figures that any of the lines has; empty if there are none. `head` is above the lines'
// first cells.
std::string figures_table(const std::string& head, const std::vector<FiguresLine>& lines,
                          const std::vector<std::string>& names, Sign sign = Sign::kMinus);
// Returns a line on the difference `a` - `b`; empty without an interval, or without a difference (nullptr).
std::string difference_text(const std::string& a, const std::string& b, std::string_view what,
                            const Difference* difference);
// A line for each reason.
std::string exclusions_text(const RunDataset& dataset);

}  // namespace saccade::lab::app
