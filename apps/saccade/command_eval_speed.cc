// saccade eval speed: how many pictures, texts and queries a second, where the time goes, how long one query
// waits, and what it all takes in memory.
//
// Each checkpoint in each precision is measured in a process that does nothing else: its memory is its own,
// and no other one's threads or caches are in the way. Where there are several, the command starts itself
// for each and puts their answers together.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/counts.h"
#include "saccade/core/threads.h"
#include "saccade/eval/speed.h"
#include "saccade/model/precision.h"

#include "checkpoint.h"
#include "choice.h"
#include "command_eval.h"
#include "eval_options.h"
#include "number.h"
#include "own_process.h"

namespace saccade::app {
namespace {

struct SpeedArguments {
  EvalArguments eval;
  std::vector<Precision> precisions = {Precision::kFp32};
  SpeedOptions speed;
  int64_t limit = 128;
};

// What one process has measured.
struct Measured {
  RunDataset dataset;
  RunCheckpoint checkpoint;
  Json result;
};

class SpeedCommand {
 public:
  SpeedCommand(const SpeedArguments& arguments, Session& session)
      : arguments_(arguments), session_(session), stop_(session.interrupts.stop_cleanly()) {}

  Result<int> run() {
    if (arguments_.eval.evaluation.datasets.size() != 1) {
      return fail(ErrorCode::kUsage, "one dataset is measured with, {} are given",
                  arguments_.eval.evaluation.datasets.size());
    }
    std::vector<Precision> precisions = arguments_.precisions;
    std::ranges::sort(precisions);  // fp32 first
    precisions.erase(std::ranges::unique(precisions).begin(), precisions.end());
    SACCADE_ASSIGN(std::vector<NamedDataset> datasets, read_datasets(arguments_.eval.evaluation.datasets));
    SACCADE_TRY(prepare(std::move(datasets.front()), precisions));
    std::optional<RunWriter> writer;
    if (!arguments_.eval.run.empty()) {
      SACCADE_ASSIGN(writer,
                     RunWriter::open(arguments_.eval.run, info_, arguments_.eval.evaluation.overwrite));
    }
    SACCADE_ASSIGN(const int code, measure_all());
    if (code != kDone) return code;
    SACCADE_TRY(gather(precisions.size() > 1));
    const Json metrics = {{"results", results_}};
    if (writer) SACCADE_TRY(writer->finish(info_, metrics));
    if (arguments_.eval.json) {
      Json json = run_json(info_);
      json.update(metrics);
      SACCADE_TRY(session_.out.write_json(json));
    } else {
      SACCADE_TRY(session_.out.write(answer_text()));
    }
    return kDone;
  }

 private:
  struct Task {
    std::string checkpoint;
    Precision precision;
  };

  // Everything that can be known without loading a checkpoint.
  Status prepare(NamedDataset dataset, const std::vector<Precision>& precisions) {
    inputs_ = speed_inputs(dataset.dataset, arguments_.limit);
    ProgressLine none(true);
    EvaluationOptions options = evaluation_options(arguments_.eval, session_, none);
    options.bootstrap.seed = arguments_.speed.seed;
    options.bootstrap.resamples = 0;
    threads_ = arguments_.eval.encoder.threads > 0 ? arguments_.eval.encoder.threads : available_processors();
    info_ = describe_run("speed", options, protocol(), threads_);
    RunDataset& described = info_.datasets.emplace_back(describe_dataset(dataset));
    described.images = static_cast<int64_t>(inputs_.images.size());
    described.texts = static_cast<int64_t>(inputs_.texts.size());
    SACCADE_ASSIGN(options.checkpoints, checkpoints_of(arguments_.eval));
    // Also brings the weights into the system's cache, so that loading is never timed from the disk.
    SACCADE_ASSIGN(const std::vector<RunCheckpoint> asked,
                   asked_checkpoints(options, located_checkpoints(options_of(arguments_.eval.encoder))));
    for (size_t i = 0; i < options.checkpoints.size(); ++i) {
      for (const Precision precision : precisions) {
        tasks_.push_back({options.checkpoints[i], precision});
        info_.checkpoints.push_back(asked[i]);
        info_.checkpoints.back().precision = word_of(precision);
      }
    }
    return {};
  }

  Json protocol() const {
    const SpeedOptions& speed = arguments_.speed;
    const char* waiting = std::getenv("OMP_WAIT_POLICY");  // NOLINT(concurrency-mt-unsafe)
    return {{"words", speed_words(speed, arguments_.limit)},
            {"device", "cpu"},
            {"batch", speed.batch},
            {"repeats", speed.repeats},
            {"warm_up", speed.warm_up},
            {"limit", arguments_.limit},
            {"queries", speed.queries},
            {"gallery", speed.gallery},
            {"answers", speed.answers},
            {"candidates", speed.candidates},
            {"transparent", word_of(arguments_.eval.evaluation.embed.transparency)},
            {"wait_policy", waiting == nullptr ? Json() : Json(waiting)}};
  }

  Result<int> measure_all() {
    if (tasks_.size() == 1) {
      SACCADE_ASSIGN(Measured measured, measure_here(tasks_.front()));
      measured_.push_back(std::move(measured));
      return kDone;
    }
    for (size_t i = 0; i < tasks_.size(); ++i) {
      SACCADE_ASSIGN(const OwnProcess process, run_own_process(arguments_for(tasks_[i]), stop_));
      if (stop_.stop_requested()) {
        return fail(ErrorCode::kCancelled, "stopped after {} of {} measurements: nothing is kept", i,
                    tasks_.size());
      }
      if (process.code >= 128) {
        return fail(ErrorCode::kInternal, "the process measuring {} in {} was ended by signal {}",
                    tasks_[i].checkpoint, word_of(tasks_[i].precision), process.code - 128);
      }
      // It has said why itself.
      if (process.code != kDone) return process.code;
      SACCADE_ASSIGN(Measured measured, parse(process.out).in(tasks_[i].checkpoint));
      measured_.push_back(std::move(measured));
    }
    return kDone;
  }

  std::vector<std::string> arguments_for(const Task& task) const {
    const SpeedOptions& speed = arguments_.speed;
    std::vector<std::string> words = {"eval", "speed", "--json"};
    if (session_.quiet) words.insert(words.begin(), "-q");
    const auto add = [&](const char* name, std::string value) {
      words.emplace_back(fmt::format("{}={}", name, value));
    };
    add("--model", task.checkpoint);
    add("--dataset", arguments_.eval.evaluation.datasets.front());
    add("--precision", std::string(word_of(task.precision)));
    add("--threads", std::to_string(arguments_.eval.encoder.threads));
    add("--transparent", std::string(word_of(arguments_.eval.evaluation.embed.transparency)));
    add("--batch", std::to_string(speed.batch));
    add("--repeats", std::to_string(speed.repeats));
    add("--warm-up", std::to_string(speed.warm_up));
    add("--queries", std::to_string(speed.queries));
    add("--gallery", std::to_string(speed.gallery));
    add("--limit", std::to_string(arguments_.limit));
    add("--seed", std::to_string(speed.seed));
    return words;
  }

  static Result<Measured> parse(const std::string& out) {
    SACCADE_ASSIGN(const Json json, parse_json(out));
    SACCADE_ASSIGN(RunInfo info, parse_run_info(json));
    if (info.datasets.size() != 1 || info.checkpoints.size() != 1 || json["results"].size() != 1) {
      return fail(ErrorCode::kInternal, "its process answered with {} datasets and {} checkpoints",
                  info.datasets.size(), info.checkpoints.size());
    }
    return Measured{std::move(info.datasets.front()), std::move(info.checkpoints.front()),
                    json["results"].front()};
  }

  Result<Measured> measure_here(const Task& task) {
    const SpeedClock clock = monotonic_clock();
    ThreadPool pool(threads_);
    EncoderChoice choice = arguments_.eval.encoder;
    choice.precision = task.precision;
    const ProcessMemory before = process_memory();
    const double begin = clock();
    SACCADE_ASSIGN(const LoadedEncoder loaded, load_checkpoint(task.checkpoint, choice));
    const double load_seconds = clock() - begin;
    const ProcessMemory after = process_memory();

    ProgressLine progress(session_.quiet);
    SpeedOptions options = arguments_.speed;
    options.transparency = arguments_.eval.evaluation.embed.transparency;
    options.progress = progress.callback();
    options.progress_detail = fmt::format("{}, {}", loaded.id.name, word_of(task.precision));
    options.stop = stop_;
    SACCADE_ASSIGN(const SpeedResult result,
                   measure_speed(*loaded.encoder, inputs_, options, pool, clock).in(loaded.id.name));
    Measured measured;
    measured.dataset = info_.datasets.front();
    measured.dataset.pictures_sha256 = result.pictures_sha256;
    measured.checkpoint = describe_checkpoint(loaded, choice.precision);
    measured.result = {{"dataset", measured.dataset.name},
                       {"model", measured.checkpoint.name},
                       {"precision", word_of(task.precision)}};
    measured.result.update(speed_json(result));
    measured.result["load_s"] = load_seconds;
    measured.result["memory"] = {{"before_load_bytes", before.resident_bytes},
                                 {"after_load_bytes", after.resident_bytes},
                                 {"peak_load_bytes", after.peak_bytes},
                                 {"peak_bytes", process_memory().peak_bytes}};
    return measured;
  }

  // All that was measured, under names of their own.
  Status gather(bool several_precisions) {
    std::vector<std::string> names;
    for (const Measured& one : measured_) {
      names.push_back(several_precisions ? fmt::format("{}-{}", one.checkpoint.name, one.checkpoint.precision)
                                         : one.checkpoint.name);
    }
    make_unique(names);
    RunDataset& dataset = info_.datasets.front();
    info_.checkpoints.clear();
    for (size_t i = 0; i < measured_.size(); ++i) {
      Measured& one = measured_[i];
      const bool same = one.dataset.sha256 == dataset.sha256 &&
                        (dataset.pictures_sha256.empty() || one.dataset.pictures_sha256.empty() ||
                         one.dataset.pictures_sha256 == dataset.pictures_sha256);
      if (!same) {
        return fail(ErrorCode::kMismatch, "dataset {} has changed while it was measured with", dataset.name);
      }
      if (dataset.pictures_sha256.empty()) dataset.pictures_sha256 = one.dataset.pictures_sha256;
      one.checkpoint.name = names[i];
      one.result["model"] = names[i];
      info_.checkpoints.push_back(one.checkpoint);
      results_.push_back(one.result);
    }
    return {};
  }

  static std::string number_text(const Json& value) {
    return value.is_number() ? fmt::format("{:.4g}", value.get<double>()) : std::string("-");
  }
  static std::string median_text(const Json& spread) {
    return spread.is_null() ? std::string("-") : number_text(spread["value"]);
  }
  static std::string latency_text(const Json& latency) {
    if (latency.is_null()) return fmt::format(" {:>24}", "-");
    return fmt::format(" {:>8}{:>8}{:>8}", number_text(latency["p50"]), number_text(latency["p95"]),
                       number_text(latency["p99"]));
  }
  // How a throughput spreads over the passes, and its stages in milliseconds an item.
  static std::string spread_text(const char* what, const Json& spread, const Json& stages) {
    if (spread.is_null()) return {};
    std::string text = fmt::format("    {}: {} to {} a second; ms each:", what, number_text(spread["low"]),
                                   number_text(spread["high"]));
    for (const auto& [name, seconds] : stages.items()) {
      text += fmt::format(" {} {:.3g}", name, 1000 * seconds.get<double>());
    }
    return text + "\n";
  }
  static std::string details_text(const Json& result) {
    std::string text = fmt::format("  {}\n", one_line(result["model"].get<std::string>()));
    text += spread_text("pictures", result["images_per_s"], result["stages"]) +
            spread_text("texts", result["texts_per_s"], result["text_stages"]) +
            spread_text("queries", result["queries_per_s"], result["query_stages"]);
    if (result["mean_tokens"].is_number()) {
      text += fmt::format("    texts of {:.1f} tokens on average, {} cut\n",
                          result["mean_tokens"].get<double>(), result["texts_cut"].get<int64_t>());
    }
    return text + fmt::format("    scored by {} against {}, {} of them random\n",
                              result["scored_by"].get<std::string>(),
                              counted(result["gallery"].get<int64_t>(), "picture"),
                              count_text(result["random_rows"].get<int64_t>()));
  }

  std::string answer_text() const {
    const RunDataset& dataset = info_.datasets.front();
    std::string text =
        fmt::format("{}: {}, {}; {}, {}\n", one_line(dataset.name), counted(dataset.images, "picture"),
                    counted(dataset.texts, "text"),
                    info_.machine.processor.empty() ? "unknown processor" : one_line(info_.machine.processor),
                    counted(threads_, "thread"));
    text += fmt::format("  {:<24} {:>10} {:>8} {:>9} {:^24} {:^24} {:>7} {:>9} {:>9}\n", "", "", "", "",
                        "text query, ms", "picture query, ms", "", "", "");
    text += fmt::format("  {:<24} {:>10} {:>8} {:>9} {:>8}{:>8}{:>8} {:>8}{:>8}{:>8} {:>7} {:>9} {:>9}\n",
                        "model", "pictures/s", "texts/s", "queries/s", "p50", "p95", "p99", "p50", "p95",
                        "p99", "load s", "loaded", "peak");
    for (const Json& result : results_) {
      const Json& memory = result["memory"];
      text +=
          fmt::format("  {:<24} {:>10} {:>8} {:>9}{}{} {:>7.2f} {:>9} {:>9}\n",
                      one_line(result["model"].get<std::string>()), median_text(result["images_per_s"]),
                      median_text(result["texts_per_s"]), median_text(result["queries_per_s"]),
                      latency_text(result["latency_ms"]["text"]), latency_text(result["latency_ms"]["image"]),
                      result["load_s"].get<double>(), size_text(memory["after_load_bytes"].get<int64_t>()),
                      size_text(memory["peak_bytes"].get<int64_t>()));
    }
    for (const Json& result : results_) text += details_text(result);
    return text + "protocol: " + info_.protocol["words"].get<std::string>() + "\n";
  }

  const SpeedArguments& arguments_;
  Session& session_;
  std::stop_token stop_;
  int threads_ = 0;
  RunInfo info_;
  SpeedInputs inputs_;
  std::vector<Task> tasks_;
  std::vector<Measured> measured_;
  Json results_ = Json::array();
};

}  // namespace

void add_eval_speed_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<SpeedArguments>();
  CLI::App* command =
      eval.add_subcommand("speed", "Measure pictures, texts and queries a second, latency, and memory");
  EvaluationOptions& options = arguments->eval.evaluation;
  SpeedOptions& speed = arguments->speed;
  command->add_option(
      "-m,--model", options.checkpoints,
      "checkpoints: folders, or OWNER/NAME[@REVISION] of the hub's cache (default: the starter)");
  command
      ->add_option("--dataset", options.datasets,
                   "the dataset (docs/datasets.md) measured with: PATH or PATH#split=NAME")
      ->required();
  add_choices(*command, "--precision", arguments->precisions,
              "number formats of the encoder's arithmetic; with both, each is measured");
  command
      ->add_option("--threads", arguments->eval.encoder.threads,
                   "number of threads; 0: one for each processor")
      ->transform(whole_number(0, 1024))
      ->capture_default_str();
  const auto add_count = [&](const char* name, int64_t& count, int64_t lowest, int64_t highest,
                             const char* what) {
    command->add_option(name, count, what)->transform(whole_number(lowest, highest))->capture_default_str();
  };
  add_count("--limit", arguments->limit, 0, kMostWhole,
            "number of pictures to measure with, the dataset's first, each with its first caption; 0: all");
  add_count("--batch", speed.batch, 1, 4096,
            "number of pictures, texts or queries in a batch, for throughput");
  add_count("--repeats", speed.repeats, 1, 10'000, "number of measured passes over the pictures and texts");
  add_count("--warm-up", speed.warm_up, 0, 10'000, "number of passes before these, which are not counted");
  add_count("--queries", speed.queries, 1, 1'000'000,
            "number of texts and of pictures in a pass of single queries, for latency");
  add_count("--gallery", speed.gallery, 1, 1'000'000'000,
            "number of pictures that a query is scored against; random vectors where the dataset has fewer");
  command->add_option("--seed", speed.seed, "seed of the random vectors")
      ->transform(whole_number(0))
      ->capture_default_str();
  add_choice(*command, "--transparent", options.embed.transparency,
             "what to lay transparent pictures on: white, or what the checkpoint says");
  add_run_options(*command, arguments->eval);
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return SpeedCommand(*arguments, session).run(); };
  });
}

}  // namespace saccade::app
