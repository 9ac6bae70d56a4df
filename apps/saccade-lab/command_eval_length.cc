// saccade eval length: how much of a text a model reads, and how long texts are.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/eval/length/length_study.h"
#include "saccade/core/counts.h"

#include "choice.h"
#include "command_eval.h"
#include "eval_options.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct LengthArguments {
  EvalArguments eval;
  LengthStudyOptions study;
  bool no_controls = false;
  bool no_chunking = false;
  bool write_card = false;
  bool token_lengths = false;
  int64_t context = 0;
};

std::string length_words(const Json& length) {
  return length.is_number() ? std::to_string(length.get<int64_t>()) : "-";
}

// "14 [11, 17]"
std::string effective_words(const Json& effective) {
  std::string text = length_words(effective["value"]);
  if (effective["low"].is_number()) {
    text += fmt::format(" [{}, {}]", length_words(effective["low"]), length_words(effective["high"]));
  }
  return text + (effective["at_end"].get<bool>() ? " end" : "");
}

std::string effective_subsets(const Json& subsets) {
  std::string text = length_words(subsets["value"]);
  if (!subsets["low"].is_number()) return text;
  return text + fmt::format(" [{}, {}]", length_words(subsets["low"]), length_words(subsets["high"]));
}

std::string curves_text(const std::string& what, const Json& curves) {
  std::string text;
  for (const auto& [key, words] : {std::pair("t2i", "text to image"), std::pair("i2t", "image to text")}) {
    const Json& curve = curves[key];
    const Json& effective = curve["effective"];
    std::string last = effective["subsets"].is_null() ? "" : effective_subsets(effective["subsets"]);
    if (curve.contains("difference")) {
      const Json& difference = curve["difference"];
      last = fmt::format("{:+.3f} to the cut text{}", difference["value"].get<double>(),
                         difference["told_apart"] == true ? "" : ": cannot be told apart");
    }
    text += fmt::format("  {:<34} {:<15} {:<16} {:<22} {}\n", what, words,
                        curve["above_chance"] == true ? effective_words(effective) : "chance",
                        figure_text(curve["curve"].back()["r1"]), last);
  }
  return text;
}

std::string result_text(const Json& result) {
  const Json& tokens = result["token_lengths"];
  std::string text = fmt::format(
      "{}{}, {}: {}, {}; tokens a text: median {}, 95% within {}, longest {}; room for {}, {} longer\n",
      one_line(result["dataset"].get<std::string>()),
      result["domain"].is_null() ? "" : " (" + one_line(result["domain"].get<std::string>()) + ")",
      one_line(result["model"].get<std::string>()), counted(result["images"].get<int64_t>(), "picture"),
      counted(result["texts"].get<int64_t>(), "text"), tokens["median"].get<int64_t>(),
      tokens["p95"].get<int64_t>(), tokens["max"].get<int64_t>(), length_words(tokens["limit"]),
      count_text(tokens["beyond_limit"].get<int64_t>()));
  text += fmt::format("  {:<34} {:<15} {:<16} {:<22} {}\n", "", "direction", "effective n", "R@1 at the end",
                      "subsets");
  text += curves_text("first n", result);
  const Json& controls = result["controls"];
  if (!controls["sentences_permuted"].is_null()) {
    text += curves_text(fmt::format("first n, sentences moved ({})",
                                    count_text(controls["texts_of_sentences"].get<int64_t>())),
                        controls["sentences_permuted"]);
  }
  if (!controls["last_tokens"].is_null()) text += curves_text("last n", controls["last_tokens"]);
  for (const Json& chunked : result["chunking"]) {
    text += curves_text(fmt::format("{} chunks, {}", chunked["chunks"] == "equal" ? "equal" : "sentence",
                                    chunked["pooling"].get<std::string>()),
                        chunked);
  }
  return text;
}

std::string answer_text(const Evaluation& evaluation) {
  std::string text;
  for (const Json& result : evaluation.metrics["results"]) text += result_text(result);
  return text;
}

std::string token_lengths_text(const Json& results) {
  std::string text = fmt::format("{:<20} {:<24} {:>9} {:>5} {:>7} {:>7} {:>5} {:>6}  {}\n", "dataset",
                                 "tokenizer", "texts", "min", "median", "mean", "95%", "max", "too long");
  for (const Json& result : results) {
    const Json& lengths = result["token_lengths"];
    const auto whole = [&](const char* key) { return lengths[key].get<int64_t>(); };
    const std::string beyond =
        lengths["limit"].is_number()
            ? fmt::format("{} ({:.2f}%) of more than {}", count_text(whole("beyond_limit")),
                          100.0 * static_cast<double>(whole("beyond_limit")) /
                              static_cast<double>(std::max<int64_t>(1, whole("count"))),
                          whole("limit"))
            : std::string("-");
    text += fmt::format("{:<20} {:<24} {:>9} {:>5} {:>7} {:>7.2f} {:>5} {:>6}  {}\n",
                        one_line(result["dataset"].get<std::string>()),
                        one_line(result["tokenizer"].get<std::string>()), count_text(whole("count")),
                        whole("min"), whole("median"), lengths["mean"].get<double>(), whole("p95"),
                        whole("max"), beyond);
  }
  return text;
}

// Returns the study's options from the command line.
Result<LengthStudyOptions> study_options(const LengthArguments& arguments) {
  LengthStudyOptions study = arguments.study;
  std::ranges::sort(study.length.lengths);
  study.length.controls = !arguments.no_controls;
  study.length.chunking = !arguments.no_chunking;
  const size_t datasets = arguments.eval.evaluation.datasets.size();
  if (datasets == 0) return fail(ErrorCode::kUsage, "name a dataset with --dataset");
  if (!study.domains.empty() && study.domains.size() != datasets) {
    return fail(ErrorCode::kUsage, "{} of --domain for {} of --dataset: one each, in their order",
                study.domains.size(), datasets);
  }
  return study;
}

Result<int> run(const LengthArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const LengthStudyOptions asked, study_options(arguments));
  ThreadPool pool(arguments.eval.encoder.threads);
  ProgressLine progress(session.quiet);
  const CheckpointSource checkpoints = located_checkpoints(options_of(arguments.eval.encoder));
  if (arguments.token_lengths) {
    EvaluationOptions options = evaluation_options(arguments.eval, session, progress);
    SACCADE_ASSIGN(options.checkpoints, checkpoints_of(arguments.eval));
    SACCADE_ASSIGN(const Json json,
                   measure_token_lengths(asked, options, checkpoints, arguments.context, pool));
    SACCADE_TRY(arguments.eval.json ? session.out.write_json(json)
                                    : session.out.write(token_lengths_text(json["results"])));
    return kDone;
  }
  SACCADE_ASSIGN(const EvaluationOptions options, encoding_options(arguments.eval, session, progress));
  LengthStudy study(asked, options);
  SACCADE_ASSIGN(const Evaluation evaluation, evaluate(study, options, checkpoints, pool));
  progress.clear();
  if (arguments.write_card) SACCADE_TRY(study.write_cards(evaluation));
  return answer(evaluation, arguments.eval.json, session, answer_text);
}

}  // namespace

void add_eval_length_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<LengthArguments>();
  LengthStudyOptions& study = arguments->study;
  CLI::App* command = eval.add_subcommand(
      "length", "Measure the effective token length: R@1 of texts cut to their first tokens");
  add_eval_inputs(*command, arguments->eval);
  command->add_option("--domain", study.domains, "topic of each --dataset, one word each");
  add_choice(
      *command, "--captions", study.captions,
      "captions used as texts: all, the first of each image, distinct ones only, or one per image in both "
      "directions");
  command->add_flag("--join-captions", study.join_captions,
                    "join all captions of an image into one long text");
  command->add_flag("--leave-out", arguments->eval.evaluation.leave_out,
                    "skip images that are unreadable or have no text, and count them");
  command
      ->add_option("--share", study.length.share,
                   "share of the maximum R@1 that counts as reaching it, 0 to 1")
      ->transform(real_number(0.01, 1))
      ->capture_default_str();
  command
      ->add_option("--lengths", study.length.lengths,
                   "numbers of tokens to cut texts at, such as 5,10,20,40 (default: each from 2 to 20, then "
                   "wider steps)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(whole_number(1));
  command
      ->add_option("--chunk-tokens", study.length.chunk_tokens,
                   "maximum number of tokens of a text or chunk; 0: the model's limit")
      ->transform(whole_number(0))
      ->capture_default_str();
  command
      ->add_option("--subsets", study.length.subsets, "number of random subsets of images to measure as well")
      ->transform(whole_number(0, 1000))
      ->capture_default_str();
  command
      ->add_option("--subset-items", study.length.subset_items, "number of images in each of the --subsets")
      ->transform(whole_number(1))
      ->capture_default_str();
  command->add_flag("--no-controls", arguments->no_controls,
                    "skip the controls: shuffled sentences, and the last tokens");
  command->add_flag("--no-chunking", arguments->no_chunking,
                    "skip the measurement of longer texts in chunks");
  command->add_flag("--write-card", arguments->write_card,
                    "store the effective lengths in the checkpoints' folders, where search finds them");
  auto* only = command->add_flag("--token-lengths", arguments->token_lengths,
                                 "only count tokens; -m may be folders with tokenizer files alone");
  command
      ->add_option("--context", arguments->context,
                   "maximum number of tokens of a text, if the tokenizer's files do not state it")
      ->transform(whole_number(3))
      ->needs(only);
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  for (const char* option : {"--run", "--write-card"}) only->excludes(command->get_option(option));
  command->callback(
      [arguments, &chosen] { chosen = [arguments](Session& session) { return run(*arguments, session); }; });
}

}  // namespace saccade::lab::app
