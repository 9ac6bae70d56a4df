// saccade eval speed: throughput of images, texts and queries, time per stage, latency of a query, and
// memory. The command starts itself once for each checkpoint and precision (lab/eval/speed_evaluation.h).
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lab/eval/speed_evaluation.h"
#include "saccade/core/counts.h"
#include "saccade/model/options/precision_names.h"

#include "choice.h"
#include "command_eval.h"
#include "command_help.h"
#include "eval_options.h"
#include "load_checkpoint.h"
#include "number.h"
#include "own_process.h"

namespace saccade::lab::app {
namespace {

struct SpeedArguments {
  EvalArguments eval;
  SpeedEvaluationOptions speed;
};

std::string number_text(double value) {
  return std::isfinite(value) ? rate_text(value) : std::string("-");
}

std::string median_text(const std::optional<Spread>& spread) {
  return spread ? number_text(spread->value) : std::string("-");
}

std::string latency_text(const std::optional<Latency>& latency) {
  if (!latency) return fmt::format(" {:>24}", "-");
  return fmt::format(" {:>8}{:>8}{:>8}", number_text(latency->p50), number_text(latency->p95),
                     number_text(latency->p99));
}

// Formats the spread of a throughput over the passes, and its stages in milliseconds per item.
std::string spread_text(const char* what, const std::optional<Spread>& spread,
                        const std::optional<StageTimes>& stages) {
  if (!spread) return {};
  std::string text = fmt::format("    {}: {} to {} a second; ms each:", what, number_text(spread->low),
                                 number_text(spread->high));
  for (const auto& [name, seconds] : stages.value_or(StageTimes())) {
    text += fmt::format(" {} {:.3g}", name, 1000 * seconds);
  }
  return text + "\n";
}

std::string details_text(const SpeedRecord& result) {
  std::string text = fmt::format("  {}\n", one_line(result.model));
  text += spread_text("images", result.images_per_s, result.stages) +
          spread_text("texts", result.texts_per_s, result.text_stages) +
          spread_text("queries", result.queries_per_s, result.query_stages);
  if (std::isfinite(result.mean_tokens)) {
    text +=
        fmt::format("    texts of {:.1f} tokens on average, {} cut\n", result.mean_tokens, result.texts_cut);
  }
  if (result.benchmark) {
    text += fmt::format("    benchmark pass: {} queries a second over {}, {}; seconds:",
                        number_text(result.benchmark->queries_per_s),
                        counted(result.benchmark->images, "image"), counted(result.benchmark->texts, "text"));
    for (const auto& [name, seconds] : result.benchmark->seconds)
      text += fmt::format(" {} {:.3g}", name, seconds);
    text += "\n";
  }
  return text + fmt::format("    scored by {} against {}, {} of them random\n", result.scored_by,
                            counted(result.gallery, "image"), count_text(result.random_rows));
}

Result<std::string> answer_text(const Evaluation& evaluation) {
  const RunInfo& info = evaluation.info;
  SACCADE_ASSIGN(const auto metrics, read_record<SpeedMetrics>(evaluation.metrics));
  const RunDataset& dataset = info.datasets.front();
  std::string text =
      fmt::format("{}: {}, {}; {}, {}\n", one_line(dataset.name), counted(dataset.images, "image"),
                  counted(dataset.texts, "text"),
                  info.machine.processor.empty() ? "unknown processor" : one_line(info.machine.processor),
                  counted(info.machine.threads, "thread"));
  text += fmt::format("  {:<24} {:>10} {:>8} {:>9} {:^24} {:^24} {:>7} {:>9} {:>9}\n", "", "", "", "",
                      "text query, ms", "image query, ms", "", "", "");
  text += fmt::format("  {:<24} {:>10} {:>8} {:>9} {:>8}{:>8}{:>8} {:>8}{:>8}{:>8} {:>7} {:>9} {:>9}\n",
                      "model", "images/s", "texts/s", "queries/s", "p50", "p95", "p99", "p50", "p95", "p99",
                      "load s", "loaded", "peak");
  for (const SpeedRecord& result : metrics.results) {
    text += fmt::format("  {:<24} {:>10} {:>8} {:>9}{}{} {:>7.2f} {:>9} {:>9}\n", one_line(result.model),
                        median_text(result.images_per_s), median_text(result.texts_per_s),
                        median_text(result.queries_per_s), latency_text(result.text_latency),
                        latency_text(result.image_latency), result.load_s, size_text(result.after_load_bytes),
                        size_text(result.peak_bytes));
  }
  for (const SpeedRecord& result : metrics.results) text += details_text(result);
  text += exclusions_text(dataset);
  return text + "protocol: " + info.protocol["description"].get<std::string>() + "\n";
}

// The command line that measures one task.
std::vector<std::string> command_for(const SpeedTask& task, const SpeedArguments& arguments,
                                     const Session& session) {
  const EvaluationOptions& evaluation = arguments.eval.evaluation;
  const SpeedOptions& speed = arguments.speed.speed;
  std::vector<std::string> words = {"eval", "speed", "--json"};
  if (session.quiet) words.insert(words.begin(), "-q");
  const auto add = [&](const char* name, const auto& value) {
    words.emplace_back(fmt::format("{}={}", name, value));
  };
  add("--model", task.checkpoint);
  add("--dataset", evaluation.datasets.front());
  add("--precision", enum_name(task.precision));
  add("--threads", arguments.eval.encoder.threads);
  add("--device", arguments.eval.encoder.device);
  add("--decode-memory", session.decoders.memory_mb.value_or(0));
  add("--transparent", enum_name(evaluation.embed.transparency));
  add("--batch-size", speed.batch);
  add("--repeats", speed.repeats);
  add("--warm-up", speed.warm_up);
  add("--queries", speed.queries);
  add("--gallery", speed.gallery);
  add("--limit", arguments.speed.limit);
  add("--seed", speed.seed);
  if (speed.benchmark) words.emplace_back("--benchmark-pass");
  return words;
}

Result<int> run_eval_speed(const SpeedArguments& arguments, Session& session) {
  ProgressLine progress(session.quiet);
  SpeedEvaluationOptions options = arguments.speed;
  options.evaluation = evaluation_options(arguments.eval, session, progress);
  SACCADE_ASSIGN(options.evaluation.checkpoints, checkpoints_of(arguments.eval));
  options.encoder = options_of(arguments.eval.encoder);
  options.speed.progress = progress.callback();
  options.speed.stop = session.interrupts.stop_cleanly();

  int failed = kDone;  // how a process ended that has said why itself
  const auto elsewhere = [&](const SpeedTask& task) -> Result<Json> {
    SACCADE_ASSIGN(const OwnProcess process,
                   run_own_process(command_for(task, arguments, session), options.speed.stop));
    if (process.code >= 128) {
      return fail(ErrorCode::kInternal, "the process measuring {} in {} was ended by signal {}",
                  task.checkpoint, enum_name(task.precision), process.code - 128);
    }
    failed = process.code;
    if (failed != kDone) return fail(ErrorCode::kInternal, "the process measuring it failed");
    return parse_json(process.out).in(task.checkpoint);
  };
  const Result<Evaluation> evaluation = evaluate_speed(options, elsewhere);
  if (!evaluation && failed != kDone && evaluation.error().code != ErrorCode::kCancelled) return failed;
  if (!evaluation) return fail(evaluation.error());
  if (arguments.eval.json) {
    SACCADE_TRY(session.out.write_json(speed_evaluation_json(*evaluation)));
  } else {
    SACCADE_ASSIGN(const std::string text, answer_text(*evaluation));
    SACCADE_TRY(session.out.write(text));
  }
  return kDone;
}

}  // namespace

void add_eval_speed_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<SpeedArguments>();
  CLI::App* command =
      eval.add_subcommand("speed", "Measure images, texts and queries per second, latency, and memory");
  EvaluationOptions& options = arguments->eval.evaluation;
  SpeedOptions& speed = arguments->speed.speed;
  command->add_option(
      "-m,--model", options.checkpoints,
      "checkpoints: folders, or OWNER/NAME[@REVISION] of the hub's cache (default: the starter)");
  command
      ->add_option("--dataset", options.datasets,
                   "dataset (see saccade help datasets): PATH or PATH#split=NAME")
      ->required();
  add_choices(*command, "--precision", arguments->speed.precisions,
              "number formats of the encoder's arithmetic; each is measured");
  add_threads_option(*command, arguments->eval.encoder.threads);
  add_device_option(*command, arguments->eval.encoder);
  add_decode_options(*command);
  const auto add_count = [&](const char* name, int64_t& count, int64_t lowest, int64_t highest,
                             const char* what) {
    add_number(*command, name, count, whole_number(lowest, highest), what);
  };
  add_count(
      "--limit", arguments->speed.limit, 0, kMostWhole,
      "number of images to measure with: the first of the dataset, each with its first caption; 0: all");
  add_count("--batch-size", speed.batch, 1, 4096,
            "batch size for throughput: number of images, texts or queries");
  add_old_name(*command, "--batch-size", "--batch");
  add_count("--repeats", speed.repeats, 1, 10'000, "number of measured passes over the images and texts");
  add_count("--warm-up", speed.warm_up, 0, 10'000, "number of passes before these, which are not counted");
  add_count("--queries", speed.queries, 1, 1'000'000,
            "number of texts and of images in a pass of single queries, for latency");
  add_count("--gallery", speed.gallery, 1, 1'000'000'000,
            "gallery size of a query; random embeddings fill it up if the dataset has fewer images");
  add_number(*command, "--seed", speed.seed, whole_number(0), "seed of the random vectors");
  command->add_flag(
      "--benchmark-pass", speed.benchmark,
      "also time one pass as the benchmark of seven models does: all images, first captions, all captions and "
      "scores; its rate is that study's QPS");
  add_choice(*command, "--transparent", options.embed.transparency,
             "background of transparent images: white, or the checkpoint's");
  add_run_options(*command, arguments->eval);
  group_options(*command, {{"Models, data and encoding",
                            {"-m", "--dataset", "--precision", "--threads", "--device", "--decode-memory",
                             "--batch-size", "--transparent"}}});
  run_when_given(*command, chosen, arguments, run_eval_speed);
}

}  // namespace saccade::lab::app
