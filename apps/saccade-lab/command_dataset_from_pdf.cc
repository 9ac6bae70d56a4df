// saccade dataset from-pdf: visual and non-visual sentences of documents.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lab/eval/corpus/pdf_corpus.h"

#include "command_dataset.h"
#include "load_checkpoint.h"
#include "number.h"
#include "outputs.h"

namespace saccade::lab::app {
namespace {

struct FromPdfArguments {
  PdfCorpusOptions corpus;
  std::vector<std::string> inputs;
  std::string output;
  std::string checkpoint;
  EncoderChoice encoder;
  bool json = false;
};

std::string text_of(const PdfCorpusReport& report, const std::string& output) {
  std::string text = fmt::format(
      "{}: {} visual, {} non-visual of {} (T_pos {:.4f}, T_neg {:.4f})\n",
      one_line(output + "/manifest.jsonl"), count_text(report.visual), count_text(report.non_visual),
      counted(report.distinct, "different sentence"), report.positive, report.negative);
  text += fmt::format("documents    {} ({} from before), {} failed, {} with the same bytes as another\n",
                      count_text(report.documents), count_text(report.resumed),
                      count_text(static_cast<int64_t>(report.failed.size())), count_text(report.same_bytes));
  text += fmt::format("pages        {}, {} with sentences and images, {} behind the limit\n",
                      count_text(report.pages), count_text(report.pages_with_pictures),
                      count_text(report.pages_left_out));
  text += fmt::format("images       {}; left out: {} small, {} repeated, {} unread\n",
                      count_text(report.pictures), count_text(report.small_pictures),
                      count_text(report.repeated_pictures), count_text(report.unread_pictures));
  text += fmt::format(
      "sentences    {} compared, {} longer than the encoder reads; left out: {} of no prose, {} at "
      "pages' edges\n",
      count_text(report.sentences), count_text(report.cut), counted(report.no_prose, "part"),
      counted(report.edge_lines, "line"));
  return text;
}

Result<int> run_from_pdf(const FromPdfArguments& arguments, Session& session) {
  std::filesystem::path checkpoint = arguments.checkpoint;
  if (checkpoint.empty()) {
    SACCADE_ASSIGN(checkpoint, starter_checkpoint());
  }
  EncoderChoice choice = arguments.encoder;
  OutputRules rules;
  close_checkpoint(rules, checkpoint.string());
  SACCADE_TRY(check_output_folder(arguments.output, rules));
  SACCADE_TRY(settle_precision(checkpoint, choice, session.messages));
  SACCADE_ASSIGN(const LoadedEncoder loaded, load_checkpoint(checkpoint, choice));
  warn_of_guessed_preprocessing(loaded, session.messages);
  PdfCorpusOptions options = arguments.corpus;
  options.inputs.assign(arguments.inputs.begin(), arguments.inputs.end());
  options.output = arguments.output;
  options.embed.processes = session.decoders.start(session.messages, options.pdf.max_page_pixels);
  options.embed.stop = session.interrupts.stop_cleanly();
  ThreadPool pool(arguments.encoder.threads);
  ProgressLine progress(session.quiet);
  options.embed.progress = progress.callback();
  auto report = build_pdf_corpus(loaded, options, pool);
  progress.clear();
  if (!report) return fail(std::move(report).error());
  for (const auto& [path, error] : report->failed) {
    session.messages.warning(fmt::format("{}: {}", one_line(path.string()), one_line(error.message)));
  }
  if (arguments.json) {
    Json json = pdf_corpus_json(*report);
    json["output"] = arguments.output;
    SACCADE_TRY(session.out.write_json(json));
  } else {
    SACCADE_TRY(session.out.write(text_of(*report, arguments.output)));
  }
  return report->failed.empty() ? kDone : kSomeFailed;
}

}  // namespace

void add_dataset_from_pdf(CLI::App& group, Command& chosen) {
  auto arguments = std::make_shared<FromPdfArguments>();
  PdfCorpusOptions& corpus = arguments->corpus;
  CLI::App* command = group.add_subcommand(
      "from-pdf", "Make a dataset of visual and non-visual sentences from illustrated documents");
  command->add_option("PATH", arguments->inputs, "PDF files, and folders of them")->required();
  command
      ->add_option("-o,--output", arguments->output,
                   "folder to write; the same command resumes an interrupted run")
      ->required();
  command->add_option("-m,--model", arguments->checkpoint,
                      std::string(kCheckpointHelp) + " (default: the starter)");
  add_number(*command, "--top", corpus.positive_percent, real_number(0, 100),
             "percentage of sentences labelled visual: those most similar to an image on their page");
  add_number(*command, "--bottom", corpus.negative_percent, real_number(0, 100),
             "percentage of sentences labelled non-visual: those least similar to every image on their page");
  command
      ->add_option("--above", corpus.positive,
                   "minimum cosine similarity of visual sentences, instead of --top")
      ->transform(real_number(-1, 1));
  command
      ->add_option("--below", corpus.negative,
                   "maximum cosine similarity of non-visual sentences, instead of --bottom")
      ->transform(real_number(-1, 1));
  add_number(*command, "--min-side", corpus.pdf.min_side, whole_number(1, 100'000),
             "minimum length of an image's shorter side, in pixels");
  add_number(*command, "--min-words", corpus.prose.min_words, whole_number(1, 1000),
             "minimum number of words of a sentence");
  add_number(*command, "--max-words", corpus.prose.max_words, whole_number(1, 10'000),
             "maximum number of words of a sentence");
  add_number(*command, "--max-pages", corpus.pdf.max_pages, whole_number(1, 1'000'000),
             "maximum number of pages to read of a document");
  add_number(*command, "--max-seconds", corpus.pdf.max_seconds, real_number(0, 1e6, Lowest::kExcluded),
             "maximum processor time per document, in seconds");
  command
      ->add_option_function<int64_t>(
          "--max-memory", [&corpus](const int64_t& mebibytes) { corpus.pdf.max_memory = mebibytes << 20; },
          "memory limit of each program that reads a document, in MiB")
      ->transform(whole_number(1, 1 << 20))
      ->default_str(std::to_string(corpus.pdf.max_memory >> 20));
  add_encoder_options(*command, arguments->encoder);
  add_decode_options(*command);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  run_when_given(*command, chosen, arguments, run_from_pdf);
}

}  // namespace saccade::lab::app
