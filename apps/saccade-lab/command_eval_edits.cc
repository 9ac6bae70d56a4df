// saccade eval edits: how good the pictures of `saccade generate edits` are.
#include <cmath>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "lab/data/read_dataset.h"
#include "lab/eval/edits/edits_study.h"
#include "lab/report/edits_page.h"
#include "saccade/core/counts.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/output_file.h"

#include "choice.h"
#include "command_eval.h"
#include "eval_options.h"
#include "number.h"
#include "outputs.h"

namespace saccade::lab::app {
namespace {

struct EditsArguments {
  EvalArguments eval;
  EditsOptions edits;
  std::string generated;
  std::string page;
  int64_t shown = 60;
  bool note = false;
};

std::string row_text(const EditsResult& result) {
  const auto figure = [&](const char* name) {
    const Figure* found = find_named(result.group.figures, name);
    return found == nullptr ? "-" : figure_text(*found);
  };
  return fmt::format("  {:<20} {:<18} {:<26} {:>7} {:<22} {}\n", one_line(result.model), result.method,
                     result.group.name.empty() ? "all" : one_line(result.group.name),
                     count_text(result.group.queries), figure("r1"), figure("r5"));
}

std::string dataset_text(const RunDataset& dataset, const EditsMetrics& metrics) {
  std::string text = fmt::format("{}: {}\n  {:<20} {:<18} {:<26} {:>7} {:<22} {}\n", one_line(dataset.name),
                                 counted(dataset.texts, "generated image"), "model", "asked by", "kind",
                                 "queries", "r1", "r5");
  for (const EditsResult& result : metrics.results) {
    if (result.group.of == "all") text += row_text(result);
  }
  for (const EditsResult& result : metrics.results) {
    if (result.group.of == "kind" && result.method == kByGenerated) text += row_text(result);
  }
  for (const EditsLikeness& one : metrics.likeness) {
    if (one.of != "all") continue;
    text += fmt::format("{}: cosine with the target {}, the reference's own {}\n", one_line(one.model),
                        figure_text(one.cosine), figure_text(one.reference_cosine));
    if (one.correlation && std::isfinite(one.correlation->value)) {
      text += fmt::format(
          "  rank correlation of that cosine with what asking by the image gains over reference + text: "
          "{}\n",
          figure_text(*one.correlation));
    }
  }
  return text + exclusions_text(dataset);
}

OutputRules page_rules(const EditsArguments& arguments) {
  OutputRules rules{.inputs = {arguments.generated}, .overwrite = arguments.eval.evaluation.overwrite};
  for (const std::string& dataset : arguments.eval.evaluation.datasets) add_dataset_input(rules, dataset);
  for (const std::string& checkpoint : arguments.eval.evaluation.checkpoints)
    close_checkpoint(rules, checkpoint);
  return rules;
}

Status write_page(const EditsArguments& arguments, const std::string& dataset, Session& session) {
  EditsPageOptions page;
  page.shown = arguments.shown;
  page.limits.processes = session.decoders.start(session.messages);
  SACCADE_ASSIGN(const DatasetSource source, parse_dataset_source(dataset));
  SACCADE_ASSIGN(const Dataset read, read_dataset(source));
  ThreadPool pool(arguments.eval.encoder.threads);
  SACCADE_ASSIGN(const std::string html, edits_page(read, arguments.generated, page, pool));
  return write_output(arguments.page, OutputKind::kHtml, page_rules(arguments), html).in("--html");
}

Result<int> run(EditsArguments& arguments, Session& session) {
  arguments.edits.generated = arguments.generated;
  if (!arguments.page.empty()) {
    SACCADE_TRY(check_output(arguments.page, OutputKind::kHtml, page_rules(arguments)).in("--html"));
  }
  const auto measure = [&](ProgressLine& progress) -> Result<Evaluation> {
    if (arguments.eval.evaluation.datasets.size() != 1) {
      return fail(ErrorCode::kUsage, "name the dataset that the images were generated for with --dataset");
    }
    ThreadPool pool(arguments.eval.encoder.threads);
    SACCADE_ASSIGN(const EvaluationOptions options, encoding_options(arguments.eval, session, progress));
    SACCADE_ASSIGN(Evaluation evaluation,
                   evaluate_edits(arguments.edits, arguments.note, options,
                                  located_checkpoints(options_of(arguments.eval.encoder)), pool));
    if (!arguments.page.empty()) {
      SACCADE_TRY(write_page(arguments, arguments.eval.evaluation.datasets.front(), session));
    }
    return evaluation;
  };
  return run_evaluation(arguments.eval, session, measure, [](const Evaluation& evaluation) {
    return text_by_dataset(evaluation, dataset_text);
  });
}

}  // namespace

void add_eval_edits_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<EditsArguments>();
  CLI::App* command =
      eval.add_subcommand("edits", "Measure how often a generated image's nearest neighbor is the target");
  add_eval_inputs(*command, arguments->eval);
  command
      ->add_option("--generated", arguments->generated,
                   "output folder of `saccade generate edits` for the dataset")
      ->required();
  command->add_flag(
      "--note", arguments->note,
      "write each image's similarity to its target into the folder (quality.jsonl), for use in training");
  command->add_option(
      "--html", arguments->page,
      "HTML file to write: references, texts, generated images and targets of random queries");
  add_number(*command, "--shown", arguments->shown, whole_number(1, 10'000),
             "number of queries on that page");
  add_choice(*command, "--gallery", arguments->edits.protocol.gallery,
             "images to rank: the dataset's own list, or the union of references and targets");
  add_choice(*command, "--reference", arguments->edits.protocol.reference,
             "reference image: ranked or excluded; layout: excluded in CIRR, else ranked");
  add_choice(*command, "--ties", arguments->edits.ties,
             "ranking of ties: against the model, in its favor, mean rank, by index, or as trec_eval does");
  command->add_flag("--leave-out", arguments->eval.evaluation.leave_out,
                    "skip unreadable images and the queries that need them, and count them");
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace saccade::lab::app
