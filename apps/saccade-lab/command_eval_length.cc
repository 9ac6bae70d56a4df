// saccade eval length: how much of a text a model reads, and how long texts are.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lab/eval/length/length_study.h"
#include "saccade/core/counts.h"

#include "choice.h"
#include "command_eval.h"
#include "command_help.h"
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

std::string length_words(const std::optional<int64_t>& length) {
  return length ? std::to_string(*length) : "-";
}

// "14 [11, 17]"
template <typename Effective>
std::string effective_words(const Effective& effective) {
  if (!effective.low) return length_words(effective.value);
  return fmt::format("{} [{}, {}]", length_words(effective.value), length_words(effective.low),
                     length_words(effective.high));
}

std::string curves_text(const std::string& what, const LengthCurvesRecord& curves) {
  std::string text;
  for (const Direction direction : kBothDirections) {
    const LengthCurveRecord& curve = curves.of(direction);
    const EffectiveLengthRecord& effective = curve.effective;
    std::string last = effective.subsets ? effective_words(*effective.subsets) : "";
    if (curve.difference) {
      last = fmt::format("{} to the cut text{}", three_digits(curve.difference->figure.value, Sign::kBoth),
                         curve.difference->significant ? "" : ": cannot be told apart");
    }
    text += fmt::format(
        "  {:<34} {:<15} {:<16} {:<22} {}\n", what, direction_text(direction),
        curve.above_chance ? effective_words(effective) + (effective.at_end ? " end" : "") : "chance",
        figure_text(curve.curve.back().r1), last);
  }
  return text;
}

std::string result_text(const LengthResult& result) {
  const TokenLengths& tokens = result.token_lengths;
  std::string text = fmt::format(
      "{}{}, {}: {}, {}; tokens a text: median {}, 95% within {}, longest {}; room for {}, {} longer\n",
      one_line(result.dataset), result.domain.empty() ? "" : " (" + one_line(result.domain) + ")",
      one_line(result.model), counted(result.images, "image"), counted(result.texts, "text"),
      tokens.lengths.median, tokens.lengths.p95, tokens.lengths.max, length_words(tokens.limit),
      count_text(tokens.beyond));
  text += fmt::format("  {:<34} {:<15} {:<16} {:<22} {}\n", "", "direction", "effective n", "R@1 at the end",
                      "subsets");
  text += curves_text("first n", result.curves);
  if (result.sentences_permuted) {
    text += curves_text(fmt::format("first n, sentences moved ({})", count_text(result.texts_of_sentences)),
                        *result.sentences_permuted);
  }
  if (result.last_tokens) text += curves_text("last n", *result.last_tokens);
  for (const ChunkingRecord& chunked : result.chunking) {
    text += curves_text(fmt::format("chunks ({}), {}", chunked.chunks, chunked.pooling), chunked.curves);
  }
  return text;
}

Result<std::string> answer_text(const Evaluation& evaluation) {
  SACCADE_ASSIGN(const auto metrics, read_record<LengthMetrics>(evaluation.metrics));
  std::string text;
  for (const RunDataset& dataset : evaluation.info.datasets) {
    for (const LengthResult& result : metrics.results) {
      if (result.dataset == dataset.name) text += result_text(result);
    }
    text += exclusions_text(dataset);
  }
  return text;
}

std::string token_lengths_text(const std::vector<TokenLengthsResult>& results) {
  std::string text = fmt::format("{:<20} {:<24} {:>9} {:>5} {:>7} {:>7} {:>5} {:>6}  {}\n", "dataset",
                                 "tokenizer", "texts", "min", "median", "mean", "95%", "max", "too long");
  for (const TokenLengthsResult& result : results) {
    const TokenLengths& tokens = result.token_lengths;
    const Lengths& lengths = tokens.lengths;
    const std::string beyond = tokens.limit
                                   ? fmt::format("{} ({:.2f}%) of more than {}", count_text(tokens.beyond),
                                                 100.0 * static_cast<double>(tokens.beyond) /
                                                     static_cast<double>(std::max<int64_t>(1, lengths.count)),
                                                 *tokens.limit)
                                   : std::string("-");
    text += fmt::format("{:<20} {:<24} {:>9} {:>5} {:>7} {:>7.2f} {:>5} {:>6}  {}\n",
                        one_line(result.dataset), one_line(result.tokenizer), count_text(lengths.count),
                        lengths.min, lengths.median, lengths.mean, lengths.p95, lengths.max, beyond);
  }
  return text;
}

// Returns the study's options from the command line.
Result<LengthStudyOptions> study_options(const LengthArguments& arguments) {
  LengthStudyOptions study = arguments.study;
  std::ranges::sort(study.length.lengths);
  std::vector<Chunking>& chunks = study.length.chunks;
  std::ranges::sort(chunks);
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
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
    SACCADE_ASSIGN(const std::vector<TokenLengthsResult> results,
                   measure_token_lengths(asked, options, checkpoints, arguments.context, pool));
    SACCADE_TRY(arguments.eval.json ? session.out.write_json({{"results", record_json(results)}})
                                    : session.out.write(token_lengths_text(results)));
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
  add_number(*command, "--share", study.length.share, real_number(0.01, 1),
             "share of the maximum R@1 that counts as reaching it, 0 to 1");
  auto* lengths =
      command
          ->add_option("--lengths", study.length.lengths,
                       "numbers of tokens to cut texts at, such as 5,10,20,40 (default: each from 2 "
                       "to 20, then wider steps)")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->transform(whole_number(1));
  command
      ->add_option("--length-step", study.length.length_step,
                   "cut texts at 1, 1 + N, 1 + 2N and so on, through the model's limit to the longest text")
      ->transform(whole_number(1))
      ->excludes(lengths);
  command->add_flag(
      "--late-mean", study.late_mean,
      "compare items of several vectors (late interaction, BLIP-2's queries) by the cosine of their mean "
      "vectors in place of MaxSim");
  add_choice(*command, "--cut", study.length.cut,
             "how texts are cut: tokens keeps the first token ids; retokenize also decodes them to text and "
             "tokenizes that again, for tokenizers of CLIP's and BERT's kind");
  add_number(*command, "--chunk-tokens", study.length.chunk_tokens, whole_number(0),
             "maximum number of tokens of a text or chunk; 0: the model's limit");
  add_number(*command, "--subsets", study.length.subsets, whole_number(0, 1000),
             "number of random subsets of images to measure as well");
  add_number(*command, "--subset-items", study.length.subset_items, whole_number(1),
             "number of images in each of the --subsets");
  command->add_flag("--no-controls", arguments->no_controls,
                    "skip the controls: shuffled sentences, and the last tokens");
  command->add_flag("--no-chunking", arguments->no_chunking,
                    "skip the measurement of longer texts in chunks");
  add_choices(
      *command, "--chunks", study.length.chunks,
      "kinds of chunks for longer texts: equal numbers of tokens, whole sentences, equal numbers of words");
  command->add_flag("--write-card", arguments->write_card,
                    "store the effective lengths in the checkpoints' folders, where search finds them");
  command->get_option("--write-card")->excludes(command->get_option("--late-mean"));
  auto* texts_only = command->add_flag(
      "--texts-only", study.texts_only,
      "read no images: measure how often a cut text finds its own whole text among all texts of the dataset");
  texts_only->excludes(command->get_option("--write-card"));
  auto* only = command->add_flag("--token-lengths", arguments->token_lengths,
                                 "only count tokens; -m may be folders with tokenizer files alone");
  command
      ->add_option("--context", arguments->context,
                   "maximum number of tokens of a text, if the tokenizer's files do not state it")
      ->transform(whole_number(3))
      ->needs(only);
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  group_options(
      *command,
      {{"Lengths and cuts", {"--share", "--lengths", "--length-step", "--cut", "--late-mean"}},
       {"Controls, chunks and subsets",
        {"--no-controls", "--no-chunking", "--chunks", "--chunk-tokens", "--subsets", "--subset-items"}},
       {"Counting alone", {"--token-lengths", "--context"}}});
  for (const char* option : {"--run", "--write-card"}) only->excludes(command->get_option(option));
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace saccade::lab::app
