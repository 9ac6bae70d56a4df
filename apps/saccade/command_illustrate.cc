// saccade illustrate: a document with pictures of a collection beside the sentences that picture something.
#include "product_commands.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/output_file.h"
#include "saccade/document/document.h"
#include "saccade/document/prose.h"
#include "saccade/search/visualness/sentence_judge.h"
#include "saccade/imagegen/texts.h"
#include "saccade/pages/illustrated_document.h"
#include "saccade/pages/thumbnail.h"
#include "saccade/search/background.h"
#include "saccade/search/illustrate.h"

#include "checkpoint.h"
#include "choice.h"
#include "collection_choice.h"
#include "command.h"
#include "engine_options.h"
#include "likelihoods.h"
#include "number.h"
#include "outputs.h"

namespace saccade::app {
namespace {

namespace fs = std::filesystem;

enum class Alternative { kCaption, kSentence };
std::span<const EnumName<Alternative>> enum_names(Alternative) {
  static constexpr std::array<EnumName<Alternative>, 2> kWords = {
      {{Alternative::kCaption, "caption"}, {Alternative::kSentence, "sentence"}}};
  return kWords;
}

struct IllustrateArguments {
  std::string document;
  std::string collection;
  std::string output;
  std::string checkpoint;  // the collection's, elsewhere
  std::string visualness;  // another one
  std::string lexicon;
  std::string objects;
  std::optional<double> threshold;
  bool phrases = true;
  std::optional<PageFormat> format;
  DocumentOptions reading;
  ProseOptions prose;
  IllustrateOptions choosing;
  Alternative alternative = Alternative::kCaption;
  bool copy = false;
  bool embed = false;
  int side = 640;
  bool overwrite = false;
  bool json = false;
  EncoderChoice encoder;
  EngineArguments engine;  // --engine: for visual sentences that no picture fits
};

struct Page {
  Document document;
  std::vector<DocumentSentence> sentences;
  std::vector<double> visualness;  // of each sentence
  int64_t cut = 0;                 // texts longer than what judged them reads
  IllustratePlan plan;
  int64_t no_prose = 0;
  std::vector<std::string> links;  // of each picture, as the page has it
  // Made by an engine, of visual sentences that no picture fits.
  struct Generated {
    int64_t sentence = 0;
    TextPicture picture;
    std::string link;
  };
  std::vector<Generated> generated;
  std::string engine;
};

// ---- before anything is read that takes long

OutputRules output_rules(const IllustrateArguments& arguments) {
  OutputRules rules{
      .inputs = {arguments.document}, .closed = {arguments.collection}, .overwrite = arguments.overwrite};
  close_checkpoint(rules, arguments.checkpoint);
  close_checkpoint(rules, arguments.visualness);
  return rules;
}

Status check_document_output(const IllustrateArguments& arguments) {
  if (arguments.output.empty()) return {};
  const fs::path output = arguments.output;
  std::error_code error;
  const fs::file_status there = fs::status(output, error);
  if (there.type() == fs::file_type::directory) {
    return fail(ErrorCode::kUsage, "-o {} is a folder, expected a file", arguments.output);
  }
  if (fs::equivalent(output, arguments.document, error)) {
    return fail(ErrorCode::kUsage, "-o {} is the document itself, which stays as it is", arguments.output);
  }
  return check_output(output, OutputKind::kDocument, output_rules(arguments)).in("-o");
}

Result<std::optional<PageFormat>> settle_format(const IllustrateArguments& arguments) {
  std::optional<PageFormat> format = arguments.format;
  if (arguments.output.empty()) {
    if (format || arguments.copy || arguments.embed || !arguments.engine.kind.empty()) {
      return fail(ErrorCode::kUsage,
                  "--format, --copy, --embed and --engine are for a document that is written: -o FILE");
    }
    return format;
  }
  if (!format) format = page_format(arguments.output);
  if (!format) {
    return fail(ErrorCode::kUsage, "-o {} ends neither in .md nor in .html: --format markdown or html",
                arguments.output);
  }
  if (arguments.embed && format == PageFormat::kMarkdown) {
    return fail(ErrorCode::kUsage,
                "--embed is for HTML: Markdown names its pictures' files (--copy puts them beside it)");
  }
  return format;
}

// ---- pictures that an engine makes

Status generate_missing(const IllustrateArguments& arguments, PictureEngine& engine, Session& session,
                        Page& page) {
  const std::vector<int64_t> chosen = sentences_without_fit(page.sentences, page.plan, arguments.choosing);
  std::vector<std::string> texts;
  for (const int64_t sentence : chosen) texts.push_back(page.sentences[static_cast<size_t>(sentence)].text);
  std::error_code error;
  const fs::path output = fs::absolute(arguments.output, error);
  TextPicturesOptions options;
  options.folder = output.parent_path() / (output.stem().string() + "-pictures");
  options.decode.processes = session.decoders.start(session.messages, options.max_pixels);
  ProgressLine progress(session.quiet);
  SACCADE_ASSIGN(
      const std::vector<TextPicture> made,
      generate_text_pictures(texts, engine, options, progress.callback(), arguments.choosing.stop));
  page.engine = engine.settings()["name"].get<std::string>();
  for (size_t i = 0; i < chosen.size(); ++i) page.generated.push_back({chosen[i], made[i], {}});
  return {};
}

// ---- pictures' files

Result<std::vector<DocumentPicture>> pictures_of(Page& page, const IllustrateArguments& arguments,
                                                 PageFormat format, ThreadPool& pool, Session& session) {
  std::error_code error;
  const fs::path output = fs::absolute(arguments.output, error);
  const bool is_file = fs::is_regular_file(output, error) || !fs::exists(output, error);
  const fs::path folder = fs::weakly_canonical(output.parent_path(), error);
  std::vector<DocumentPicture> pictures;
  for (const PlacedPicture& placed : page.plan.pictures) {
    const std::string& sentence = page.sentences[static_cast<size_t>(placed.sentence)].text;
    const bool by_caption = arguments.alternative == Alternative::kCaption && !placed.item.caption.empty();
    DocumentPicture picture;
    picture.paragraph = static_cast<size_t>(page.sentences[static_cast<size_t>(placed.sentence)].paragraph);
    picture.alternative = by_caption ? placed.item.caption : sentence;
    picture.title = by_caption ? sentence : std::string();
    picture.width = placed.item.width;
    picture.height = placed.item.height;
    picture.vector = placed.item.format == "svg";
    fs::path file = placed.item.path;
    if (arguments.copy) {
      SACCADE_ASSIGN(file,
                     copy_picture(placed.item, folder / (output.stem().string() + "-pictures")).in("--copy"));
    }
    picture.url = is_file || arguments.copy ? relative_url(file, folder) : relative_url(file, {});
    pictures.push_back(std::move(picture));
  }
  for (const Page::Generated& generated : page.generated) {
    if (generated.picture.file.empty()) continue;
    const DocumentSentence& sentence = page.sentences[static_cast<size_t>(generated.sentence)];
    pictures.push_back({.paragraph = static_cast<size_t>(sentence.paragraph),
                        .url = relative_url(generated.picture.file, is_file ? folder : fs::path()),
                        .alternative = sentence.text,
                        .title = {},
                        .width = generated.picture.width,
                        .height = generated.picture.height,
                        .vector = false,
                        .generated_by = page.engine});
  }
  if (arguments.embed && format == PageFormat::kHtml) {
    DecodeOptions limits;
    limits.processes = session.decoders.start(session.messages);
    std::vector<fs::path> files;
    for (const PlacedPicture& placed : page.plan.pictures) files.emplace_back(placed.item.path);
    for (const Page::Generated& generated : page.generated) {
      if (!generated.picture.file.empty()) files.push_back(generated.picture.file);
    }
    pool.parallel_for(std::ssize(pictures), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto number = static_cast<size_t>(i);
        const Thumbnail small = file_thumbnail(files[number], arguments.side, limits);
        if (!small.url.empty()) pictures[number].url = small.url;
      }
    });
  }
  std::vector<std::string> links;
  for (const DocumentPicture& picture : pictures) {
    links.push_back(picture.url.starts_with("data:") ? std::string() : picture.url);
  }
  const auto placed = static_cast<std::ptrdiff_t>(page.plan.pictures.size());
  page.links.assign(links.begin(), links.begin() + placed);
  auto link = links.begin() + placed;
  for (Page::Generated& generated : page.generated) {
    if (!generated.picture.file.empty()) generated.link = *link++;
  }
  // Within each paragraph, images that were found precede images that were generated.
  std::ranges::stable_sort(pictures, {}, &DocumentPicture::paragraph);
  return pictures;
}

// ---- what is said

std::string judge_text(const SentenceJudge& judge) {
  const std::string by =
      judge.method == "checkpoint" || judge.method == "classifier"
          ? one_line(judge.name) + ", which was trained to tell"
      : judge.method == "null_picture" ? one_line(judge.name) + ", which was not trained to tell"
      : judge.method == "lexicon"      ? "the words' mean rating (" + judge.name + ")"
                                       : "the share of words that " + one_line(judge.name) + " name";
  return fmt::format("by {}: above {:.3f}{}", by, judge.threshold,
                     judge.threshold_given          ? ", as given"
                     : judge.method == "checkpoint" ? ", its own threshold"
                                                    : ", the default");
}

std::string matching_text(const IllustratePlan& plan, const IllustrateOptions& options) {
  if (plan.tells) return fmt::format("at least {:.0f}% likely to be right", 100 * options.least);
  if (plan.null_known) {
    return fmt::format(
        "standing out as {} wrong pictures do by chance; how likely they are to be right cannot be told: {}",
        options.most_false, plan.reason);
  }
  return fmt::format("the nearest, however far: how likely they are to be right cannot be told: {}",
                     plan.reason);
}

std::string summary_text(const Page& page, const SentenceJudge& judge, const IllustrateArguments& arguments) {
  std::string text;
  for (const PlacedPicture& placed : page.plan.pictures) {
    const bool known = placed.likelihood && std::isfinite(placed.likelihood->right);
    text += fmt::format("{}  {:.3f}  {}\n             ({}) {}\n",
                        known ? fmt::format("{:>3.0f}%", 100 * placed.likelihood->right) : "   -",
                        placed.score, one_line(placed.item.path), one_line(placed.query),
                        one_line(page.sentences[static_cast<size_t>(placed.sentence)].text));
  }
  const IllustratePlan& plan = page.plan;
  const auto sentences = static_cast<int64_t>(page.sentences.size());
  const int64_t visual = sentences - plan.count(SentenceOutcome::kNotVisual);
  text +=
      fmt::format("sentences    {} in {}; {} of no prose left out\n", count_text(sentences),
                  counted(std::ssize(page.document.paragraphs), "paragraph"), counted(page.no_prose, "part"));
  text += fmt::format("visual       {}, {}\n", count_text(visual), judge_text(judge));
  text += fmt::format("pictures     {}, {}\n", count_text(std::ssize(plan.pictures)),
                      matching_text(plan, arguments.choosing));
  text += fmt::format(
      "without one  {} visual sentences: {} without a likely picture, {} whose pictures stand elsewhere, {} in "
      "paragraphs that have theirs\n",
      count_text(visual - std::ssize(plan.pictures)), count_text(plan.count(SentenceOutcome::kNothingLikely)),
      count_text(plan.count(SentenceOutcome::kTaken)), count_text(plan.count(SentenceOutcome::kFull)));
  if (!page.engine.empty()) {
    const auto made =
        std::ranges::count_if(page.generated, [](const auto& one) { return !one.picture.file.empty(); });
    text += fmt::format("generated    {} by {}, of visual sentences without a likely picture\n",
                        counted(made, "picture"), page.engine);
    for (const Page::Generated& one : page.generated) {
      if (!one.picture.file.empty()) continue;
      text +=
          fmt::format("  failed: {}: {}\n", one_line(page.sentences[static_cast<size_t>(one.sentence)].text),
                      one_line(one.picture.error));
    }
  }
  if (!arguments.output.empty()) text += fmt::format("written      {}\n", one_line(arguments.output));
  return text;
}

Json or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json page_json(const Page& page, const SentenceJudge& judge, const IllustrateArguments& arguments,
               std::optional<PageFormat> format) {
  const IllustratePlan& plan = page.plan;
  Json pictures = Json::array();
  std::vector<Json> picture_of(page.sentences.size());
  for (size_t i = 0; i < plan.pictures.size(); ++i) {
    const PlacedPicture& placed = plan.pictures[i];
    picture_of[static_cast<size_t>(placed.sentence)] = i;
    pictures.push_back(
        {{"sentence", placed.sentence},
         {"paragraph", page.sentences[static_cast<size_t>(placed.sentence)].paragraph},
         {"query", placed.query},
         {"id", placed.item.id},
         {"path", placed.item.path},
         {"caption", placed.item.caption},
         {"width", placed.item.width},
         {"height", placed.item.height},
         {"score", placed.score},
         {"likelihood", or_null(placed.likelihood ? placed.likelihood->right : HitLikelihood::kUnknown)},
         {"link", i < page.links.size() && !page.links[i].empty() ? Json(page.links[i]) : Json()}});
  }
  Json sentences = Json::array();
  for (size_t s = 0; s < page.sentences.size(); ++s) {
    const DocumentSentence& sentence = page.sentences[s];
    const DocumentParagraph& paragraph = page.document.paragraphs[static_cast<size_t>(sentence.paragraph)];
    sentences.push_back({{"text", sentence.text},
                         {"paragraph", sentence.paragraph},
                         {"page", paragraph.page > 0 ? Json(paragraph.page) : Json()},
                         {"visualness", page.visualness[s]},
                         {"visual", sentence.visual},
                         {"phrases", sentence.phrases},
                         {"outcome", enum_name(plan.outcomes[s])},
                         {"likeliest", or_null(plan.best[s])},
                         {"picture", picture_of[s]}});
  }
  Json generated = Json::array();
  for (const Page::Generated& one : page.generated) {
    const bool there = !one.picture.file.empty();
    generated.push_back({{"sentence", one.sentence},
                         {"paragraph", page.sentences[static_cast<size_t>(one.sentence)].paragraph},
                         {"engine", page.engine},
                         {"path", there ? Json(one.picture.file.string()) : Json()},
                         {"width", one.picture.width},
                         {"height", one.picture.height},
                         {"link", one.link.empty() ? Json() : Json(one.link)},
                         {"error", there ? Json() : Json(one.picture.error)}});
  }
  Json outcomes = Json::object();
  for (const auto& entry : enum_names(SentenceOutcome()))
    outcomes[std::string(entry.name)] = plan.count(entry.value);
  return {{"document", arguments.document},
          {"format", enum_name(page.document.format)},
          {"encoding",
           page.document.format == DocumentFormat::kPdf ? Json() : Json(enum_name(page.document.encoding))},
          {"collection", arguments.collection},
          {"output", arguments.output.empty() ? Json() : Json(arguments.output)},
          {"output_format", format ? Json(enum_name(*format)) : Json()},
          {"paragraphs", page.document.paragraphs.size()},
          {"visualness",
           {{"method", judge.method},
            {"name", judge.name},
            {"threshold", judge.threshold},
            {"threshold_given", judge.threshold_given}}},
          {"matching",
           {{"tells", plan.tells},
            {"null_known", plan.null_known},
            {"reason", plan.reason},
            {"cut", plan.tells ? Json(arguments.choosing.least) : Json()}}},
          {"outcomes", std::move(outcomes)},
          {"left_out",
           {{"no_prose", page.no_prose},
            {"pages", page.document.pages_left_out},
            {"gone", plan.gone},
            {"changed", plan.changed}}},
          {"pictures", std::move(pictures)},
          {"generated", std::move(generated)},
          {"sentences", std::move(sentences)}};
}

// Returns true if the output's folder differs from the document's, so that the document's own links would
// break.
bool moves_links(const Page& page, const IllustrateArguments& arguments) {
  std::error_code error;
  const bool has_links =
      page.document.format == DocumentFormat::kMarkdown || page.document.format == DocumentFormat::kHtml;
  if (!has_links || arguments.output.empty() || !fs::is_regular_file(arguments.output, error)) return false;
  const auto folder = [&](const std::string& file) {
    return fs::weakly_canonical(fs::absolute(file, error).parent_path(), error);
  };
  return folder(arguments.document) != folder(arguments.output);
}

void warn(const Page& page, const IllustrateArguments& arguments, const LoadedEncoder& loaded,
          Session& session) {
  const auto say = [&](std::string text) { session.messages.warning(std::move(text)); };
  if (page.document.pages_left_out > 0)
    say(fmt::format("{} behind the limit were not read", counted(page.document.pages_left_out, "page")));
  if (page.document.encoding == TextEncoding::kUtf16Le || page.document.encoding == TextEncoding::kUtf16Be) {
    say("the document is in UTF-16; what is written is UTF-8");
  } else if (page.document.encoding == TextEncoding::kLatin1) {
    say("the document is not UTF-8: it is read as Windows-1252");
  }
  if (page.plan.cut > 0) {
    say(fmt::format("{} cut for searching: the model reads {} tokens", counted(page.plan.cut, "sentence"),
                    loaded.encoder->info().context));
  }
  if (page.cut > 0) say(fmt::format("{} cut for judging what they picture", counted(page.cut, "sentence")));
  if (page.plan.gone + page.plan.changed > 0) {
    say(fmt::format(
        "{} passed over: {} gone, {} changed since they were taken in; `saccade index` takes them in anew",
        counted(page.plan.gone + page.plan.changed, "picture"), count_text(page.plan.gone),
        count_text(page.plan.changed)));
  }
  if (moves_links(page, arguments)) {
    say("written to another folder than the document's: links and pictures of its own that are relative lead from there");
  }
  if (page.sentences.empty()) say("the document has no sentences of prose");
}

bool is_standard_output(const std::string& output) {
  struct stat file = {};
  struct stat out = {};
  return !output.empty() && ::stat(output.c_str(), &file) == 0 && ::fstat(STDOUT_FILENO, &out) == 0 &&
         file.st_dev == out.st_dev && file.st_ino == out.st_ino;
}

// ---- the command

Result<Page> read_page(const IllustrateArguments& arguments, const std::stop_token& stop) {
  Page page;
  SACCADE_ASSIGN(page.document, read_document(arguments.document, arguments.reading, stop));
  for (size_t p = 0; p < page.document.paragraphs.size(); ++p) {
    const DocumentParagraph& paragraph = page.document.paragraphs[p];
    if (paragraph.kind != ParagraphKind::kProse) continue;
    SACCADE_ASSIGN(std::vector<std::string> sentences,
                   prose_sentences(paragraph.text, arguments.prose, page.no_prose));
    for (std::string& sentence : sentences)
      page.sentences.push_back({std::move(sentence), static_cast<int64_t>(p), true});
  }
  return page;
}

// --visualness.
Result<std::optional<LoadedEncoder>> load_judging_encoder(const IllustrateArguments& arguments,
                                                          Session& session) {
  if (arguments.visualness.empty()) return std::optional<LoadedEncoder>();
  EncoderChoice choice = arguments.encoder;
  SACCADE_TRY(settle_precision(arguments.visualness, choice, session.messages));
  SACCADE_ASSIGN(LoadedEncoder loaded, load_checkpoint(arguments.visualness, choice).in("--visualness"));
  return std::optional<LoadedEncoder>(std::move(loaded));
}

Result<int> run(IllustrateArguments& arguments, Session& session) {
  SACCADE_TRY(settle_collection(arguments.collection, session.messages));
  SACCADE_TRY(check_document_output(arguments));
  SACCADE_ASSIGN(const std::optional<PageFormat> format, settle_format(arguments));
  IllustrateOptions& options = arguments.choosing;
  options.stop = session.interrupts.stop_cleanly();
  std::unique_ptr<PictureEngine> engine;
  if (!arguments.engine.kind.empty()) {
    SACCADE_ASSIGN(engine, engine_of(arguments.engine));
  }
  SACCADE_ASSIGN(Page page, read_page(arguments, options.stop));
  if (format) SACCADE_TRY(check_page_format(page.document.format, *format));
  SACCADE_ASSIGN(const Collection collection, Collection::open(arguments.collection));
  EncoderChoice choice = arguments.encoder;  // --visualness has one of its own
  SACCADE_ASSIGN(const LoadedEncoder loaded,
                 load_encoder_of(collection.info(), arguments.checkpoint, choice, session.messages));
  warn_of_separate_spaces(loaded, session.messages);
  options.background = background_of(collection, session);
  ThreadPool pool(arguments.encoder.threads);
  SACCADE_ASSIGN(const std::optional<LoadedEncoder> other, load_judging_encoder(arguments, session));
  SentenceJudge judge;
  {
    ProgressLine progress(session.quiet);
    options.progress = progress.callback();
    const JudgeOptions by{.own = &loaded,
                          .other = other ? &*other : nullptr,
                          .lexicon = arguments.lexicon,
                          .objects = arguments.objects,
                          .threshold = arguments.threshold};
    SACCADE_ASSIGN(judge, sentence_judge(by, options.progress, options.stop));
    const TextScores scores = [&](std::span<const std::string> texts) {
      return judge.scores(texts, page.cut);
    };
    SACCADE_ASSIGN(page.visualness,
                   judge_sentences(page.sentences, scores, judge.threshold, arguments.phrases));
    SACCADE_ASSIGN(page.plan, choose_pictures(collection, *loaded.encoder, page.sentences, options, pool));
  }
  if (collection.item_count() == 0) session.messages.warning("no pictures in the collection");
  if (engine) SACCADE_TRY(generate_missing(arguments, *engine, session, page));
  if (format) {
    SACCADE_ASSIGN(const std::vector<DocumentPicture> pictures,
                   pictures_of(page, arguments, *format, pool, session));
    SACCADE_ASSIGN(
        const std::string text,
        illustrated_document(page.document, pictures, *format, fs::path(arguments.document).stem().string()));
    SACCADE_TRY(
        write_output(arguments.output, OutputKind::kDocument, output_rules(arguments), text).in("-o"));
  }
  warn(page, arguments, loaded, session);
  if (is_standard_output(arguments.output)) return kDone;
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(page_json(page, judge, arguments, format)));
  } else {
    SACCADE_TRY(session.out.write(summary_text(page, judge, arguments)));
  }
  const bool failed =
      std::ranges::any_of(page.generated, [](const auto& one) { return one.picture.file.empty(); });
  return failed ? kSomeFailed : kDone;
}

void add_choosing_options(CLI::App& command, IllustrateArguments& arguments) {
  IllustrateOptions& choosing = arguments.choosing;
  CLI::Option* visualness = command.add_option(
      "--visualness", arguments.visualness,
      "checkpoint that tells which sentences picture anything, as `saccade train visualness` makes it (default: the "
      "collection's own, where it does; else the share of words that name everyday things)");
  CLI::Option* lexicon =
      command
          .add_option("--lexicon", arguments.lexicon,
                      "tell it by ratings of words instead: a file of MRC's or Brysbaert's format")
          ->excludes(visualness);
  command
      .add_option("--objects", arguments.objects,
                  "tell it by the share of words that name things of this list, one a line")
      ->excludes(visualness)
      ->excludes(lexicon);
  command
      .add_option_function<double>(
          "--threshold", [&arguments](const double& threshold) { arguments.threshold = threshold; },
          "call a sentence visual above this score (default: the checkpoint's own; " +
              fmt::format("of words {}, of a lexicon {})", kObjectsThreshold, kLexiconThreshold))
      ->transform(real_number(-2, 2));
  command.add_flag("!--whole-sentences", arguments.phrases,
                   "search by each sentence alone, not by its phrases too");
  command
      .add_option("--cut", choosing.least,
                  "place only pictures that are at least this likely to be right, 0 to 1")
      ->transform(real_number(0, 1))
      ->capture_default_str();
  command
      .add_option(
          "--most-false", choosing.most_false,
          "where likelihoods are not known: place only what no more wrong pictures than this would match as well")
      ->transform(real_number(0))
      ->capture_default_str();
  command
      .add_option("--per-paragraph", choosing.per_paragraph, "number of pictures behind a paragraph at most")
      ->transform(whole_number(1))
      ->capture_default_str();
  command
      .add_option_function<int64_t>(
          "--at-most", [&choosing](const int64_t& count) { choosing.at_most = count; },
          "number of pictures in the document at most (default: no limit)")
      ->transform(whole_number(0));
  command
      .add_option("--candidates", choosing.candidates,
                  "number of pictures to look at for each sentence: the first may stand elsewhere")
      ->transform(whole_number(1, 1000))
      ->capture_default_str();
  command.add_option("--filter", choosing.filter,
                     "condition that pictures must meet, as of `saccade search`");
  command
      .add_option("--fold-above", choosing.duplicate_cosine,
                  "cosine from which two pictures count as near-duplicates, 0 to 1: only one is placed")
      ->transform(real_number(0, 1))
      ->capture_default_str();
  command.add_option("--min-words", arguments.prose.min_words, "leave out sentences of fewer words")
      ->transform(whole_number(1, 1000))
      ->capture_default_str();
}

}  // namespace

void add_illustrate_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<IllustrateArguments>();
  CLI::App* command = app.add_subcommand(
      "illustrate", "Put a collection's pictures behind the sentences of a document that picture something");
  command->add_option("DOCUMENT", arguments->document, "text, Markdown, HTML or PDF")->required();
  add_collection_option(*command, arguments->collection);
  command->add_option("-o,--output", arguments->output,
                      "document to write, .md or .html (default: only say what it would have)");
  add_choice(*command, "--format", arguments->format, "of the document to write (default: by its name)");
  add_choice(*command, "--from", arguments->reading.format,
             "what DOCUMENT is (default: by content and name)");
  add_choosing_options(*command, *arguments);
  add_choice(*command, "--alt", arguments->alternative,
             "a picture's text: its caption where it has one, or the sentence");
  CLI::Option* copy = command->add_flag(
      "--copy", arguments->copy, "copy the pictures into a folder beside the document, and link those");
  command->add_flag("--embed", arguments->embed, "put small copies of the pictures into the HTML itself")
      ->excludes(copy);
  command->add_option("--side", arguments->side, "longer side of pictures inside the HTML, in pixels")
      ->transform(whole_number(16, 4096))
      ->capture_default_str();
  command->add_option("--max-pages", arguments->reading.pdf.max_pages, "read no more pages of a PDF")
      ->transform(whole_number(1, 1'000'000))
      ->capture_default_str();
  add_overwrite_option(*command, arguments->overwrite);
  command->add_option("-m,--model", arguments->checkpoint,
                      std::string(kCheckpointHelp) + ", if the collection's is no longer where it was");
  add_engine_options(*command, arguments->engine, names_of<EngineKind>(),
                     "image engine that draws an image for each visual sentence that no image of the collection fits; "
                     "drawn images are marked as generated (see saccade help engines; default: none are drawn)");
  add_encoder_options(*command, arguments->encoder);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  command->callback(
      [arguments, &chosen] { chosen = [arguments](Session& session) { return run(*arguments, session); }; });
}

}  // namespace saccade::app
