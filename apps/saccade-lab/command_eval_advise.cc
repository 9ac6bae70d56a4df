// saccade eval advise: which of the models that runs have measured to take.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "lab/eval/advise.h"
#include "lab/eval/study/leaderboard.h"

#include "command_eval.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct AdviseArguments {
  std::vector<std::string> runs;
  AdviceQuestion question;
  bool json = false;
};

Result<int> run_advise(const AdviseArguments& arguments, Session& session) {
  std::vector<Run> runs;
  for (const std::string& folder : arguments.runs) {
    if (is_study(folder)) {
      SACCADE_ASSIGN(const Leaderboard board, read_leaderboard(folder));
      std::ranges::move(leaderboard_runs(board, folder), std::back_inserter(runs));
      continue;
    }
    SACCADE_ASSIGN(Run run, read_run(folder));
    runs.push_back(std::move(run));
  }
  SACCADE_ASSIGN(const Advice advice, advise(runs, arguments.question));
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(advice_json(advice, arguments.question)));
  } else {
    SACCADE_TRY(session.out.write(advice_text(advice)));
  }
  return kDone;
}

}  // namespace

void add_eval_advise_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<AdviseArguments>();
  CLI::App* command = eval.add_subcommand("advise", "Rank the models measured by runs, with reasons");
  AdviceQuestion& question = arguments->question;
  command
      ->add_option(
          "RUN", arguments->runs,
          "run folders of eval retrieval, winoground, length and speed, joined by checkpoint fingerprint "
          "and precision, or the folder of an eval study")
      ->required();
  command->add_option("--dataset", question.datasets,
                      "names of the datasets to use, if runs of one kind have several");
  command->add_option(
      "--device", question.device,
      "device of the speed measurements to use, such as cpu (default: the only one measured)");
  command
      ->add_option("--min-images-per-s", question.min_images_per_s,
                   "minimum number of images encoded per second")
      ->transform(real_number(0, 1e12, Lowest::kExcluded));
  command
      ->add_option("--max-latency-ms", question.max_latency_ms,
                   "maximum latency of a text query, 95th percentile, in milliseconds")
      ->transform(real_number(0, 1e12, Lowest::kExcluded));
  command->add_option("--max-memory-bytes", question.max_memory_bytes, "maximum peak memory, in bytes")
      ->transform(whole_number(1));
  command->add_option("--languages", question.languages, "languages of the queries, such as en,de")
      ->delimiter(',');
  command->add_option("--query-length", question.query_length, "minimum effective token length")
      ->transform(whole_number(1));
  command->add_flag("--composition", question.composition,
                    "rank by eval winoground, for queries where word order matters");
  command->add_flag("--json", arguments->json, "print the ranking and its reasons as JSON");
  run_when_given(*command, chosen, arguments, run_advise);
}

}  // namespace saccade::lab::app
