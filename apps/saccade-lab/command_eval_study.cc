// saccade eval study: several checkpoints through retrieval, composition, effective length and speed, one leaderboard. Every
// measurement is another `saccade-lab eval` command in a process of its own.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/eval/figures/holm.h"
#include "lab/eval/retrieval/retrieval_metrics.h"
#include "lab/eval/retrieval/retrieval_protocols.h"
#include "lab/eval/study/leaderboard.h"
#include "lab/eval/study/study_plan.h"
#include "lab/eval/winoground/composition_metrics.h"
#include "lab/report/leaderboard_table.h"
#include "lab/report/run_page.h"
#include "lab/report/tables_text.h"
#include "saccade/core/ascii.h"
#include "saccade/core/counts.h"
#include "saccade/core/files/output_file.h"
#include "saccade/model/device/device_name.h"
#include "saccade/model/options/precision_names.h"

#include "choice.h"
#include "command_eval.h"
#include "command_help.h"
#include "command_report.h"
#include "eval_options.h"
#include "number.h"
#include "outputs.h"
#include "own_process.h"

namespace saccade::lab::app {
namespace {

struct StudyArguments {
  EvalArguments eval;
  RetrievalProtocol protocol = RetrievalProtocol::kSevenModels;
  std::string retrieval;
  std::vector<TextQueryKind> by;
  std::string table;
  std::string composition;
  std::vector<std::string> lengthy;
  std::vector<std::string> domains;
  int64_t speed_limit = 128;
  bool no_speed = false;
  bool texts_only = false;
  bool plan_only = false;
};

// Returns the words of the options that the commands of all parts share and that change figures.
std::vector<std::string> shared_words(const StudyArguments& arguments) {
  const EvaluationOptions& options = arguments.eval.evaluation;
  std::vector<std::string> words = {fmt::format("--resamples={}", options.bootstrap.resamples),
                                    fmt::format("--confidence={}", options.bootstrap.confidence),
                                    fmt::format("--seed={}", options.bootstrap.seed),
                                    fmt::format("--transparent={}", enum_name(options.embed.transparency))};
  if (options.embed.as_stored) words.emplace_back("--as-stored");
  if (options.leave_out) words.emplace_back("--leave-out");
  return words;
}

std::vector<std::string> process_words(const StudyArguments& arguments, bool caches, const Session& session) {
  std::vector<std::string> words = {fmt::format("--threads={}", arguments.eval.encoder.threads),
                                    fmt::format("--batch-size={}", arguments.eval.evaluation.embed.batch)};
  if (const int64_t memory = session.decoders.memory_mb.value_or(0); memory > 0) {
    words.push_back(fmt::format("--decode-memory={}", memory));
  }
  if (caches && arguments.eval.no_cache) words.emplace_back("--no-cache");
  if (caches && !arguments.eval.cache.empty()) words.push_back("--cache=" + arguments.eval.cache);
  return words;
}

std::vector<StudyPart> parts_of(const StudyArguments& arguments, const Session& session) {
  std::vector<StudyPart> parts;
  const auto add = [&](const char* kind, const std::vector<std::string>& datasets,
                       std::vector<std::string> own) {
    StudyPart& part = parts.emplace_back();
    part.kind = kind;
    part.words = {"eval", kind};
    for (const std::string& dataset : datasets) part.words.push_back("--dataset=" + dataset);
    part.words.insert(part.words.end(), own.begin(), own.end());
    if (const std::string& device = arguments.eval.encoder.device; !is_processor(device)) {
      part.words.push_back("--device=" + device);
    }
    part.process_words = process_words(arguments, part.kind != "speed", session);
  };
  const auto with_shared = [&](std::vector<std::string> own) {
    const std::vector<std::string> shared = shared_words(arguments);
    own.insert(own.end(), shared.begin(), shared.end());
    return own;
  };
  if (!arguments.retrieval.empty()) {
    std::vector<std::string> own = {fmt::format("--protocol={}", enum_name(arguments.protocol))};
    if (arguments.protocol != RetrievalProtocol::kSymmetric) own.emplace_back("--symmetric");
    std::string kinds;
    for (const TextQueryKind kind : arguments.by)
      kinds += fmt::format("{}{}", kinds.empty() ? "" : ",", enum_name(kind));
    if (!kinds.empty()) own.push_back("--by=" + kinds);
    if (!arguments.table.empty()) own.push_back("--by-table=" + arguments.table);
    add("retrieval", {arguments.retrieval}, with_shared(own));
  }
  if (!arguments.composition.empty()) add("winoground", {arguments.composition}, with_shared({}));
  if (!arguments.lengthy.empty()) {
    std::vector<std::string> own;
    for (const std::string& domain : arguments.domains) own.push_back("--domain=" + domain);
    if (arguments.texts_only) own.emplace_back("--texts-only");
    add("length", arguments.lengthy, with_shared(own));
  }
  if (parts.empty() || arguments.no_speed || arguments.texts_only) return parts;
  const std::string& dataset = !arguments.retrieval.empty()     ? arguments.retrieval
                               : !arguments.composition.empty() ? arguments.composition
                                                                : arguments.lengthy.front();
  const EvaluationOptions& options = arguments.eval.evaluation;
  add("speed", {dataset},
      {fmt::format("--limit={}", arguments.speed_limit), "--benchmark-pass",
       fmt::format("--seed={}", options.bootstrap.seed),
       fmt::format("--transparent={}", enum_name(options.embed.transparency))});
  return parts;
}

std::string piece_name(const StudyWork& work, const StudyPiece& piece) {
  const StudyModel& model = work.plan.models[piece.model];
  return fmt::format("{} ({}), {}", one_line(model.name), model.precision, work.plan.parts[piece.part].kind);
}

// The plan as text: a line per piece, and the sum.
std::string plan_text(const StudyWork& work) {
  std::string text;
  double left = 0;
  int64_t done = 0;
  for (const StudyPiece& piece : work.pieces) {
    int64_t images = 0;
    int64_t texts = 0;
    for (const StudyDataset& dataset : work.plan.parts[piece.part].datasets) {
      images += dataset.images;
      texts += dataset.texts;
    }
    done += piece.done ? 1 : 0;
    left += piece.seconds.value_or(0);
    text += fmt::format("  {:<44} {:>10}, {:>12}  {}\n", piece_name(work, piece), counted(images, "image"),
                        counted(texts, "text"),
                        piece.done      ? std::string("done")
                        : piece.seconds ? "about " + duration_text(std::ceil(*piece.seconds))
                                        : std::string("not estimated"));
  }
  return fmt::format("plan: {} of {} to measure, about {} of loading and encoding\n",
                     std::ssize(work.pieces) - done, counted(std::ssize(work.pieces), "piece"),
                     duration_text(std::ceil(left))) +
         text;
}

// Returns a warning if the resamples are too few to rank the models; empty if they suffice.
std::string few_resamples_text(const StudyPlan& plan) {
  const bool ranks = std::ranges::any_of(plan.parts, [](const StudyPart& part) {
    return part.kind == RetrievalMetrics::kKind || part.kind == CompositionMetrics::kKind;
  });
  const int64_t models = std::ssize(plan.models);
  return ranks ? too_few_resamples(models * (models - 1) / 2, plan.resamples, plan.confidence)
               : std::string();
}

Json plan_json(const StudyWork& work) {
  Json pieces = Json::array();
  for (const StudyPiece& piece : work.pieces) {
    pieces.push_back({{"model", work.plan.models[piece.model].name},
                      {"precision", work.plan.models[piece.model].precision},
                      {"part", work.plan.parts[piece.part].kind},
                      {"command", piece_words(work, piece)},
                      {"done", piece.done},
                      {"seconds", piece.seconds ? Json(*piece.seconds) : Json()}});
  }
  return {{"plan", record_json(work.plan)}, {"pieces", std::move(pieces)}};
}

// Runs commands in processes of their own. Messages of these go to stderr as they are.
StudyProcess process_runner(Session& session, const std::stop_token& stop) {
  return [&session, stop](const std::vector<std::string>& words) -> Result<std::string> {
    std::vector<std::string> all = words;
    if (session.quiet) all.insert(all.begin(), "-q");
    SACCADE_ASSIGN(OwnProcess process, run_own_process(all, stop));
    if (stop.stop_requested())
      return fail(ErrorCode::kCancelled, "stopped; the same command goes on from here");
    if (process.code >= 128) {
      return fail(ErrorCode::kInternal, "its process was ended by signal {}", process.code - 128);
    }
    if (process.code != kDone && process.code != kSomeFailed) {
      return fail(ErrorCode::kInternal, "its process failed");
    }
    return std::move(process.out);
  };
}

// Writes the leaderboard in every form.
Status write_forms(const std::filesystem::path& folder, const Leaderboard& board, Session& session,
                   ThreadPool& pool) {
  SACCADE_TRY(write_leaderboard(folder, board));
  const OutputRules rules{.overwrite = true};  // the study's own files
  const Table table = leaderboard_table(board);
  SACCADE_TRY(write_output(folder / "leaderboard.csv", OutputKind::kDocument, rules,
                           tables_text(std::span(&table, 1), TableFormat::kCsv)));
  SACCADE_TRY(write_output(folder / "leaderboard.md", OutputKind::kDocument, rules,
                           tables_text(std::span(&table, 1), TableFormat::kMarkdown)));
  RunPageOptions options;
  options.title = "Saccade: leaderboard";
  options.leaderboard = &board;
  options.examples = 0;
  options.map_points = 0;
  if (auto script = chart_script("")) options.chart_script = *std::move(script);
  const std::vector<std::string> study = {folder.string()};
  SACCADE_ASSIGN(const ReportInputs inputs, read_report_inputs(study));
  SACCADE_ASSIGN(const std::string page, run_page(inputs.folders, options, pool));
  SACCADE_TRY(write_output(folder / "leaderboard.html", OutputKind::kHtml, rules, page));
  session.messages.info(
      fmt::format("leaderboard.html, .csv, .md and .json are in {}", one_line(folder.string())));
  return {};
}

Result<int> run_eval_study(const StudyArguments& arguments, Session& session) {
  StudyOptions options;
  options.folder = arguments.eval.run;
  SACCADE_ASSIGN(options.checkpoints, checkpoints_of(arguments.eval));
  options.precisions = arguments.eval.evaluation.precisions;
  options.parts = parts_of(arguments, session);
  options.bootstrap = arguments.eval.evaluation.bootstrap;
  options.speed_limit = arguments.speed_limit;
  options.texts_only = arguments.texts_only;
  if (arguments.texts_only && (!arguments.retrieval.empty() || !arguments.composition.empty())) {
    return fail(ErrorCode::kUsage,
                "--texts-only reads no images, which --retrieval and --composition need: give --long alone");
  }
  if (arguments.texts_only && arguments.lengthy.empty()) {
    return fail(ErrorCode::kUsage, "--texts-only measures the effective length: name datasets with --long");
  }
  if (arguments.retrieval.empty() && (!arguments.by.empty() || !arguments.table.empty())) {
    return fail(ErrorCode::kUsage,
                "--by and --by-table group the text queries of retrieval: name its dataset with --retrieval");
  }
  if (!arguments.table.empty()) SACCADE_TRY(read_query_table(arguments.table).in("--by-table"));
  options.overwrite = arguments.eval.evaluation.overwrite;
  if (!arguments.domains.empty() && arguments.domains.size() != arguments.lengthy.size()) {
    return fail(ErrorCode::kUsage, "{} of --domain for {} of --long: one each, in their order",
                arguments.domains.size(), arguments.lengthy.size());
  }
  OutputRules rules;
  for (const std::string& checkpoint : options.checkpoints) close_checkpoint(rules, checkpoint);
  SACCADE_TRY(check_output_folder(options.folder, rules).in("-o"));
  const std::stop_token stop = session.interrupts.stop_cleanly();
  const StudyProcess process = process_runner(session, stop);
  SACCADE_ASSIGN(StudyWork work,
                 plan_study(options, located_checkpoints(options_of(arguments.eval.encoder)), process));
  for (const StudyModel& model : work.plan.models) {
    if (model.off_device.empty()) continue;
    session.messages.info(fmt::format("checkpoint {} is measured on the processor: {}",
                                      one_line(model.checkpoint), model.off_device));
  }
  const std::string too_few = few_resamples_text(work.plan);
  if (!too_few.empty()) session.messages.warning(too_few);
  if (arguments.plan_only) {
    SACCADE_TRY(arguments.eval.json ? session.out.write_json(plan_json(work))
                                    : session.out.write(plan_text(work)));
    return kDone;
  }
  // A message is one line.
  const std::string plan = plan_text(work);
  for (const std::string_view line : Lines(plan)) {
    if (!line.empty()) session.messages.info(line);
  }
  int64_t failed = 0;
  for (StudyPiece& piece : work.pieces) {
    if (piece.done) continue;
    if (!session.quiet) session.messages.info(fmt::format("measuring {}", piece_name(work, piece)));
    SACCADE_TRY(wait_for_writer(work, piece, stop));
    const Result<std::string> outcome = process(piece_words(work, piece));
    if (!outcome && outcome.error().code == ErrorCode::kCancelled) return fail(outcome.error());
    piece.done = outcome.has_value();
    if (outcome) continue;
    ++failed;
    session.messages.warning(
        fmt::format("{}: {}; the others go on", piece_name(work, piece), outcome.error().message));
  }
  if (failed == std::ssize(work.pieces)) return fail(ErrorCode::kInternal, "no measurement succeeded");
  ThreadPool pool(arguments.eval.encoder.threads);
  SACCADE_ASSIGN(const Leaderboard board, make_leaderboard(work, pool));
  SACCADE_TRY(write_forms(options.folder, board, session, pool));
  const Table table = leaderboard_table(board);
  std::string text = tables_text(std::span(&table, 1), TableFormat::kMarkdown);
  for (const std::string& note : board.notes) text += note + "\n";
  SACCADE_TRY(arguments.eval.json ? session.out.write_json(record_json(board)) : session.out.write(text));
  return failed == 0 ? kDone : kSomeFailed;
}

}  // namespace

void add_eval_study_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<StudyArguments>();
  CLI::App* command = eval.add_subcommand(
      "study",
      "Measure checkpoints in retrieval, composition, length and speed, and rank them on one leaderboard");
  EvaluationOptions& options = arguments->eval.evaluation;
  command->add_option(
      "-m,--model", options.checkpoints,
      "checkpoints: folders, or OWNER/NAME[@REVISION] of the hub's cache (default: the starter)");
  command->add_option("--retrieval", arguments->retrieval,
                      "dataset of images and captions for retrieval: PATH or PATH#split=NAME");
  command->add_option("--composition", arguments->composition,
                      "dataset of a test of composition (Winoground, SugarCrepe)");
  command->add_option("--long", arguments->lengthy, "datasets with long captions for the effective length");
  command->add_option("--domain", arguments->domains, "topic of each --long, one word each");
  add_choice(*command, "--protocol", arguments->protocol,
             "named protocol of retrieval; the symmetric one is measured beside it");
  add_query_group_options(*command, arguments->by, arguments->table);
  add_choices(*command, "--precision", options.precisions,
              "number formats of the encoder's arithmetic; each checkpoint is measured in each");
  add_threads_option(*command, arguments->eval.encoder.threads);
  add_device_option(*command, arguments->eval.encoder);
  add_decode_options(*command);
  add_choice(*command, "--transparent", options.embed.transparency,
             "background of transparent images: white, or the checkpoint's");
  command->add_flag("--as-stored", options.embed.as_stored,
                    "ignore EXIF orientation, as reference pipelines do");
  command->add_flag("--leave-out", options.leave_out,
                    "skip images that are unreadable or have no text, and count them");
  add_number(*command, "--batch-size", options.embed.batch, whole_number(1, 4096),
             "batch size: number of images encoded together");
  add_old_name(*command, "--batch-size", "--batch");
  auto* cache = command->add_option("--cache", arguments->eval.cache,
                                    "cache folder for embeddings (default: saccade/embeddings in ~/.cache)");
  command->add_flag("--no-cache", arguments->eval.no_cache, "encode everything again, without the cache")
      ->excludes(cache);
  add_number(*command, "--speed-limit", arguments->speed_limit, whole_number(0),
             "number of images to measure speed with; 0: all, as the benchmark of seven models does");
  command->add_flag("--no-speed", arguments->no_speed, "do not measure speed");
  command->add_flag("--texts-only", arguments->texts_only,
                    "read no images: measure only the effective length of texts by texts, of each --long");
  auto* plan = command->add_flag("--plan", arguments->plan_only,
                                 "print the plan with its estimates, and measure nothing");
  // Holm's correction for the differences of seven models needs more resamples than one figure.
  options.bootstrap.resamples = 10'000;
  add_bootstrap_options(*command, arguments->eval);
  command
      ->add_option("-o,--run", arguments->eval.run,
                   "folder of the study; the same command goes on where it stopped")
      ->required();
  command
      ->add_flag("--overwrite", options.overwrite,
                 "remove what the folder's study measured, and measure everything again")
      ->excludes(plan);
  command->add_flag("--json", arguments->eval.json, "print the leaderboard as JSON");
  group_options(
      *command,
      {{"Models, data and encoding",
        {"-m",          "--retrieval",  "--composition",  "--long",    "--domain",   "--protocol",
         "--by",        "--by-table",   "--precision",    "--threads", "--device",   "--transparent",
         "--as-stored", "--leave-out",  "--batch-size",   "--cache",   "--no-cache", "--speed-limit",
         "--no-speed",  "--texts-only", "--decode-memory"}},
       {"The study", {"-o", "--plan", "--overwrite", "--json"}}});
  run_when_given(*command, chosen, arguments, run_eval_study);
}

}  // namespace saccade::lab::app
