#include "eval_options.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "saccade/core/counts.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/user_folders.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/version.h"

#include "choice.h"
#include "command_help.h"
#include "number.h"
#include "outputs.h"

namespace saccade::lab::app {
namespace {

namespace fs = std::filesystem;

// The arguments this program was started with.
std::vector<std::string> command_line() {
  std::vector<std::string> arguments;
  const auto text = read_file("/proc/self/cmdline", int64_t{4} << 20);
  if (!text) return arguments;
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = std::min(text->find('\0', begin), text->size());
    arguments.push_back(text->substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

// Returns the embedding cache: --cache, or saccade/embeddings in $XDG_CACHE_HOME or ~/.cache. Empty with
// --no-cache or if there is no such folder.
fs::path embedding_cache_folder(const EvalArguments& arguments) {
  if (arguments.no_cache) return {};
  if (!arguments.cache.empty()) return arguments.cache;
  const auto caches = user_cache_folder();
  return caches ? *caches / "embeddings" : fs::path();
}

}  // namespace

void add_eval_inputs(CLI::App& command, EvalArguments& arguments) {
  EvaluationOptions& options = arguments.evaluation;
  command.add_option(
      "-m,--model", options.checkpoints,
      "checkpoints: folders, or OWNER/NAME[@REVISION] of the hub's cache (default: the starter)");
  command.add_option("--dataset", options.datasets,
                     "datasets (see saccade help datasets): PATH or PATH#split=NAME");
  add_choices(command, "--precision", options.precisions,
              "number formats of the encoder's arithmetic; each checkpoint is measured in each");
  add_threads_option(command, arguments.encoder.threads);
  add_device_option(command, arguments.encoder);
  add_decode_options(command);
  add_choice(command, "--transparent", options.embed.transparency,
             "background of transparent images: white, or the checkpoint's");
  command.add_flag("--as-stored", options.embed.as_stored,
                   "ignore EXIF orientation, as reference pipelines do");
  add_number(command, "--batch-size", options.embed.batch, whole_number(1, 4096),
             "batch size: number of images decoded and encoded together");
  add_old_name(command, "--batch-size", "--batch");
  auto* cache = command.add_option("--cache", arguments.cache,
                                   "cache folder for embeddings (default: saccade/embeddings in ~/.cache)");
  command.add_flag("--no-cache", arguments.no_cache, "encode everything again, without the cache")
      ->excludes(cache);
  group_options(command, {{"Models, data and encoding",
                           {"-m", "--dataset", "--precision", "--threads", "--device", "--decode-memory",
                            "--transparent", "--as-stored", "--batch-size", "--cache", "--no-cache"}}});
}

void add_bootstrap_options(CLI::App& command, EvalArguments& arguments) {
  BootstrapOptions& bootstrap = arguments.evaluation.bootstrap;
  add_number(command, "--resamples", bootstrap.resamples, whole_number(0, 1'000'000),
             "number of bootstrap resamples; 0: no intervals");
  add_number(command, "--confidence", bootstrap.confidence, real_number(0.5, 0.9999),
             "confidence of the intervals, 0.5 to 0.9999");
  add_number(command, "--seed", bootstrap.seed, whole_number(0), "seed of the bootstrap");
  group_options(command, {{"Intervals", {"--resamples", "--confidence", "--seed"}}});
}

void add_query_group_options(CLI::App& command, std::vector<TextQueryKind>& by, std::string& table) {
  add_choices(
      command, "--by", by,
      "kinds of text queries to measure group by group: length, color, number, spatial, or a field of the "
      "dataset: source, licence, group, split (default: none)")
      ->default_str("");
  command.add_option("--by-table", table,
                     "file of groups to measure: one caption, a tab and its group on each line");
}

void add_run_options(CLI::App& command, EvalArguments& arguments) {
  command.add_option("-o,--run", arguments.run,
                     "folder to write the run into (see saccade help runs), for `saccade-lab report`");
  command.add_flag("--overwrite", arguments.evaluation.overwrite,
                   "replace a finished run of other inputs in that folder, and existing output files");
  command.add_flag("--json", arguments.json, "print protocol, hashes and figures as JSON");
  group_options(command, {{"The run", {"-o", "--overwrite", "--json"}}});
}

EvaluationOptions evaluation_options(const EvalArguments& arguments, Session& session,
                                     ProgressLine& progress) {
  EvaluationOptions options = arguments.evaluation;
  // One named twice is measured once.
  std::ranges::sort(options.precisions);
  options.precisions.erase(std::unique(options.precisions.begin(), options.precisions.end()),
                           options.precisions.end());
  options.embed.cache = embedding_cache_folder(arguments);
  options.embed.warning = [&session](const std::string& text) { session.messages.warning(text); };
  options.embed.processes = session.decoders.start(session.messages);
  options.embed.progress = progress.callback();
  options.run = arguments.run;
  options.device = arguments.encoder.device;
  options.version = version();
  options.command = command_line();
  return options;
}

Result<std::vector<std::string>> checkpoints_of(const EvalArguments& arguments) {
  if (!arguments.evaluation.checkpoints.empty()) return arguments.evaluation.checkpoints;
  SACCADE_ASSIGN(const fs::path starter, starter_checkpoint());
  return std::vector{starter.string()};
}

Result<EvaluationOptions> encoding_options(const EvalArguments& arguments, Session& session,
                                           ProgressLine& progress) {
  if (arguments.evaluation.datasets.empty()) return fail(ErrorCode::kUsage, "name a dataset with --dataset");
  EvaluationOptions options = evaluation_options(arguments, session, progress);
  SACCADE_ASSIGN(options.checkpoints, checkpoints_of(arguments));
  OutputRules rules;
  for (const std::string& checkpoint : options.checkpoints) close_checkpoint(rules, checkpoint);
  if (!arguments.run.empty()) SACCADE_TRY(check_output_folder(arguments.run, rules).in("-o"));
  options.embed.stop = session.interrupts.stop_cleanly();
  return options;
}

Result<int> answer(const Evaluation& evaluation, bool json, Session& session,
                   const std::function<Result<std::string>(const Evaluation&)>& text) {
  if (json) {
    SACCADE_TRY(session.out.write_json(evaluation_json(evaluation)));
  } else {
    SACCADE_ASSIGN(const std::string figures, text(evaluation));
    SACCADE_TRY(session.out.write(
        figures + "protocol: " + evaluation.info.protocol["description"].get<std::string>() + "\n"));
  }
  return evaluation.some_unreadable ? kSomeFailed : kDone;
}

Result<int> run_evaluation(const EvalArguments& arguments, Session& session,
                           const std::function<Result<Evaluation>(ProgressLine&)>& measure,
                           const std::function<Result<std::string>(const Evaluation&)>& text) {
  ProgressLine progress(session.quiet);
  SACCADE_ASSIGN(const Evaluation evaluation, measure(progress));
  progress.clear();
  return answer(evaluation, arguments.json, session, text);
}

std::string figure_text(const Figure& figure, Sign sign) {
  return std::isfinite(figure.value) ? interval_text(figure, sign) : "-";
}

std::string figures_table(const std::string& head, const std::vector<FiguresLine>& lines,
                          const std::vector<std::string>& names, Sign sign) {
  constexpr size_t kWidth = 22;  // of a figure with its interval
  std::string first = head;
  std::vector<std::string> rows;
  for (const FiguresLine& line : lines) rows.push_back(line.begin);
  for (const std::string& name : names) {
    const auto has = [&](const FiguresLine& line) { return find_named(line.figures, name) != nullptr; };
    if (std::ranges::none_of(lines, has)) continue;
    const size_t width = std::max(kWidth, name.size());
    first += fmt::format(" {:<{}}", name, width);
    for (size_t i = 0; i < lines.size(); ++i) {
      const Figure* figure = find_named(lines[i].figures, name);
      rows[i] += fmt::format(" {:<{}}", figure == nullptr ? "-" : figure_text(*figure, sign), width);
    }
  }
  if (first == head) return {};
  std::string text = first + "\n";
  for (const std::string& row : rows) text += row + "\n";
  return text;
}

std::string_view direction_text(Direction direction) {
  return direction == Direction::kTextToImage ? "text to image" : "image to text";
}

std::string difference_text(const std::string& a, const std::string& b, std::string_view what,
                            const Difference* difference) {
  if (difference == nullptr || !std::isfinite(difference->figure.low)) return {};
  return fmt::format("  {} - {}, {}: {}, p {}{}\n", one_line(a), one_line(b), what,
                     interval_text(difference->figure, Sign::kBoth), three_digits(difference->p_value),
                     difference->significant ? "" : ": cannot be told apart");
}

std::string exclusions_text(const RunDataset& dataset) {
  std::string text;
  for (const Exclusion& exclusion : dataset.excluded) {
    text += fmt::format("  left out: {}: {}\n", exclusion.reason, count_text(exclusion.count));
  }
  return text;
}

}  // namespace saccade::lab::app
