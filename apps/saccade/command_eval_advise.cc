// saccade eval advise: which of the models that runs have measured to take.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "saccade/eval/advise.h"

#include "command_eval.h"
#include "number.h"

namespace saccade::app {
namespace {

struct AdviseArguments {
  std::vector<std::string> runs;
  AdviceQuestion question;
  bool json = false;
};

Result<int> run_advise(const AdviseArguments& arguments, Session& session) {
  std::vector<Run> runs;
  for (const std::string& folder : arguments.runs) {
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
  CLI::App* command = eval.add_subcommand("advise", "Rank the models that runs have measured, and say why");
  AdviceQuestion& question = arguments->question;
  command
      ->add_option("run", arguments->runs,
                   "run folders of eval retrieval, winoground, length and speed: what each measured of a "
                   "checkpoint in a precision is joined by its fingerprint")
      ->required();
  command->add_option("--dataset", question.datasets,
                      "names of datasets to go by, where runs of one kind have several");
  command->add_option("--device", question.device, "go by speeds measured on it: cpu");
  command->add_option("--min-images-per-s", question.min_images_per_s, "pictures a second, at least")
      ->transform(real_number(0, 1e12, Lowest::kExcluded));
  command
      ->add_option("--max-latency-ms", question.max_latency_ms,
                   "19 of 20 single text queries take less than this")
      ->transform(real_number(0, 1e12, Lowest::kExcluded));
  command->add_option("--max-memory-bytes", question.max_memory_bytes, "at the peak")
      ->transform(whole_number(1));
  command->add_option("--languages", question.languages, "of the queries: en,de")->delimiter(',');
  command->add_option("--query-length", question.query_length, "tokens of the queries")
      ->transform(whole_number(1));
  command->add_flag("--composition", question.composition,
                    "who does what to whom matters: rank by a winoground run");
  command->add_flag("--json", arguments->json, "the ranking with its reasons as JSON");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return run_advise(*arguments, session); };
  });
}

}  // namespace saccade::app
