// saccade search: pictures for words, for a picture, or for both; one query, many, or a prompt.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/catalog/empty_filter.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/image/frame_name.h"
#include "saccade/search/fusion.h"
#include "saccade/search/keywords/keyword_search.h"
#include "saccade/search/listing.h"
#include "saccade/search/query_language.h"
#include "saccade/search/search.h"

#include "choice.h"
#include "collection_choice.h"
#include "command_help.h"
#include "number.h"
#include "outputs.h"
#include "print/hit_format.h"
#include "print/print_answers.h"
#include "print/sixel.h"
#include "print/terminal.h"
#include "product_commands.h"
#include "search_prompt.h"
#include "searcher.h"
#include "text_input.h"
#include "towns.h"

namespace saccade::app {
namespace {

struct SearchArguments {
  std::vector<std::string> words;
  std::vector<std::string> images;
  int64_t like = 0;  // id of the item that is searched by; 0: none
  std::string html;
  bool overwrite = false;
  std::string queries;  // a file, or "-"; empty: none
  SearchQuery query;
  SearcherOptions options;
  bool json = false;
  bool paths = false;
  bool nul = false;
  std::optional<std::string> format;
  std::optional<PictureProtocol> thumbnails;
  std::string
      compose;  // a method's word, or a composer's folder; empty: the collection's composer, or the sum
  std::optional<double> text_weight;
  std::string was;
};

// `--image -`: a picture on stdin.
Status read_image_from_stdin(SearchQuery& query) {
  SACCADE_ASSIGN(std::string bytes, read_input("-", query.limits.max_bytes));
  if (bytes.empty()) return fail(ErrorCode::kBadData, "the image on standard input is empty");
  query.images = {QueryImage::of_bytes("standard input", std::move(bytes))};
  return {};
}

// Chooses the composer, if one is requested: a folder, or the one that the collection names.
Status choose_composer(SearchArguments& arguments) {
  SearcherOptions& options = arguments.options;
  const bool by_image = !arguments.images.empty() || arguments.like != 0;
  if (!by_image && (!arguments.compose.empty() || arguments.text_weight)) {
    return fail(ErrorCode::kUsage,
                "--compose and --text-weight combine TEXT with an image: give --image or --like");
  }
  if (!arguments.compose.empty() && !from_name<Compose>(arguments.compose)) {
    SACCADE_ASSIGN(options.composer, composer_folder(arguments.compose).in("--compose"));
  }
  options.collections_composer = arguments.compose.empty() && !arguments.text_weight && arguments.was.empty();
  return {};
}

// Returns the settings that all searches of the command share.
Result<SearchQuery> common_query(const SearchArguments& arguments) {
  SearchQuery query = arguments.query;
  if (!arguments.options.composer.empty()) {
    if (arguments.text_weight || !arguments.was.empty()) {
      return fail(ErrorCode::kUsage, "--text-weight and --was are for {}, not for a composer",
                  list_of_names<Compose>());
    }
  } else {
    SACCADE_ASSIGN(query.fusion, make_fusion(from_name<Compose>(arguments.compose).value_or(Compose::kSum),
                                             arguments.text_weight, arguments.was)
                                     .in("--compose, --text-weight, --was"));
  }
  if (!query.filter.empty()) SACCADE_TRY(parse_filter(query.filter).in("--filter"));
  if (arguments.images.size() == 1 && arguments.images.front() == "-") {
    SACCADE_TRY(read_image_from_stdin(query));
  } else {
    SACCADE_ASSIGN(query.images, read_query_images(arguments.images).in("--image"));
  }
  return query;
}

// Hits as the options ask for them; nothing for an answer without any.
Result<std::string> hits_text(const SearchArguments& arguments, const SearchAnswer& answer,
                              const Terminal& terminal, Session& session) {
  if (arguments.format || arguments.paths || arguments.nul) {
    SACCADE_ASSIGN(const HitFormat format,
                   HitFormat::parse(arguments.format.value_or("{path}"), arguments.nul).in("--format"));
    return format.text_of(answer);
  }
  return answer_text(answer, terminal, session);
}

Terminal terminal_for(const SearchArguments& arguments) {
  const bool for_people = !arguments.format && !arguments.paths && !arguments.nul && !arguments.json;
  return for_people ? terminal_of_output(arguments.thumbnails) : Terminal{};
}

// Why there are no hits, on stderr.
Status tell_nothing(const SearchAnswer& answer, const CollectionReader& collection, Session& session) {
  std::string why;
  if (answer.searched == 0 && !answer.query.filter.empty()) {
    SACCADE_ASSIGN(why, why_filter_is_empty(collection, answer.query.filter, find_towns() != nullptr));
  }
  session.messages.info(nothing_found_text(answer) + (why.empty() ? "" : "; --filter: " + why));
  return {};
}

Result<int> show_answer(const SearchArguments& arguments, const SearchAnswer& answer,
                        const CollectionReader& collection, Session& session) {
  warn_of(answer, session);
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(answer_json(answer)));
  } else {
    SACCADE_ASSIGN(const std::string text, hits_text(arguments, answer, terminal_for(arguments), session));
    SACCADE_TRY(session.out.write(text));
  }
  if (!answer.hits.empty()) return kDone;
  SACCADE_TRY(tell_nothing(answer, collection, session));
  return kNothingFound;
}

// Prints an object for each line that is read. Lines that are there at a time are answered together.
Result<int> answer_lines(const SearchArguments& arguments, const SearchQuery& common, Searcher& searcher,
                         Session& session) {
  SACCADE_ASSIGN(LineSource source, LineSource::open(arguments.queries));
  // Answers that take long are printed as they come.
  const bool slow = !arguments.options.rerank.empty() || arguments.options.explain_hits;
  const size_t most = slow ? 1 : EngineCore::search_block(std::max(common.k, arguments.options.offset));
  bool failed = false;
  for (;;) {
    SACCADE_ASSIGN(const std::vector<std::string> lines, source.next_lines(most));
    if (lines.empty()) return failed ? kSomeFailed : kDone;
    std::vector<Result<SearchAnswer>> answers(lines.size());
    std::vector<SearchQuery> queries;
    std::vector<size_t> which;
    for (size_t i = 0; i < lines.size(); ++i) {
      SearchQuery query = common;
      auto text = read_query_text(lines[i], query.images);
      if (!text) {
        answers[i] = fail(text.error());
        continue;
      }
      query.text = *std::move(text);
      if (is_listing(query) && arguments.like == 0) {
        answers[i] = fail(ErrorCode::kUsage, "the line is empty");
        continue;
      }
      which.push_back(i);
      queries.push_back(std::move(query));
    }
    SACCADE_ASSIGN(std::vector<Result<SearchAnswer>> found,
                   searcher.answer_all(std::move(queries), arguments.like, session));
    for (size_t i = 0; i < which.size(); ++i) answers[which[i]] = std::move(found[i]);
    for (size_t i = 0; i < lines.size(); ++i) {
      Json json = {{"line", lines[i]}};
      if (answers[i]) {
        json.update(answer_json(*answers[i]));
      } else {
        const Error& error = answers[i].error();
        if (error.code == ErrorCode::kCancelled) return fail(error);
        failed = true;
        json["error"] = {{"code", name(error.code)}, {"message", error.message}};
      }
      SACCADE_TRY(session.out.write(dump_json(json) + "\n"));
    }
  }
}

Result<int> prompt_for(const SearchArguments& arguments, const SearchQuery& common, Searcher& searcher,
                       Session& session) {
  PromptOptions options;
  options.query = common;
  const Terminal terminal = terminal_for(arguments);
  options.show = [&](const SearchAnswer& answer) -> Status {
    if (answer.hits.empty()) return tell_nothing(answer, searcher.collection(), session);
    SACCADE_ASSIGN(const std::string text, hits_text(arguments, answer, terminal, session));
    return session.out.write(text);
  };
  return run_prompt(searcher, options, session);
}

OutputRules page_rules(const SearchArguments& arguments, const SearchQuery& query) {
  OutputRules rules{.closed = {arguments.options.collection}, .overwrite = arguments.overwrite};
  for (const QueryImage& image : query.images) rules.inputs.emplace_back(file_of(image.name().native()));
  close_checkpoint(rules, arguments.options.checkpoint);
  close_checkpoint(rules, arguments.options.rerank);
  rules.closed.emplace_back(arguments.options.composer);
  return rules;
}

Result<int> run_search(SearchArguments& arguments, Session& session) {
  std::string typed;
  for (const std::string& word : arguments.words) typed += (typed.empty() ? "" : " ") + word;
  // Reports usage errors before loading weights.
  if (arguments.format) SACCADE_TRY(HitFormat::parse(*arguments.format, arguments.nul).in("--format"));
  if (arguments.thumbnails == PictureProtocol::kSixel && !has_sixel_library()) {
    return fail(ErrorCode::kUnsupported, "--thumbnails sixel: libsixel (libsixel1) is not installed");
  }
  const bool blank = typed.find_first_not_of(" \t\r\n\f\v") == std::string::npos;
  const bool lines = !arguments.queries.empty();
  const bool nothing = blank && arguments.images.empty() && arguments.like == 0 && !lines;
  SearcherOptions& options = arguments.options;
  options.lists = nothing && !arguments.query.filter.empty();
  const bool prompts = nothing && !options.lists && isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 &&
                       !arguments.json && arguments.html.empty();
  if (nothing && !options.lists && !prompts) {
    return fail(
        ErrorCode::kUsage,
        "nothing to search for: give a text, --image FILE or --like ID, or a text with one of these. --filter "
        "alone lists what passes, and on a terminal a prompt opens without any of them");
  }
  if (options.lists && (options.explain_hits || !options.rerank.empty() || arguments.query.min_probability)) {
    return fail(
        ErrorCode::kUsage,
        "--filter alone lists images by date, without scores: leave out --min-probability, --explain and --rerank, or "
        "give a text");
  }
  if (lines && !blank) return fail(ErrorCode::kUsage, "--queries: TEXT is there too; put it into a line");
  SACCADE_TRY(choose_composer(arguments));
  SACCADE_ASSIGN(SearchQuery query, common_query(arguments));
  if (!query.images.empty() || arguments.like != 0 || !options.rerank.empty() || options.explain_hits) {
    query.limits.processes = session.decoders.start(session.messages, query.limits.max_pixels);
  }
  SACCADE_ASSIGN(query.text, read_query_text(typed, query.images));
  if (!blank && !lines && is_listing(query)) {  // signs alone, such as -- or ""
    return fail(ErrorCode::kUsage, "nothing to search for: {} has no words", typed);
  }
  // Searcher::open() settles which collection it is: rules are made behind it.
  SACCADE_ASSIGN(const std::unique_ptr<Searcher> searcher, Searcher::open(arguments.options, query, session));
  const OutputRules rules = page_rules(arguments, query);
  if (!arguments.html.empty()) {
    SACCADE_TRY(check_output(arguments.html, OutputKind::kHtml, rules).in("page"));
  }
  if (lines) return answer_lines(arguments, query, *searcher, session);
  if (prompts) return prompt_for(arguments, query, *searcher, session);
  SACCADE_ASSIGN(const SearchAnswer answer, searcher->answer(query, arguments.like, session));
  if (!arguments.html.empty()) {
    SACCADE_TRY(write_search_page(arguments.html, rules, {&answer, 1}, searcher->collection(), {},
                                  searcher->pool(), session));
  }
  return show_answer(arguments, answer, searcher->collection(), session);
}

}  // namespace

void add_search_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<SearchArguments>();
  CLI::App* command = app.add_subcommand("search", "Find images by text, by an image, or by both");
  command->add_option(
      "TEXT", arguments->words,
      "text query; several words need no quotes. \"cats -dogs\" excludes dogs, beach:2 has weight 2, "
      "\"\\\"red apple\\\"\" with inner quotes is a phrase. Without TEXT, on a terminal, a prompt opens");
  add_collection_option(*command, arguments->options.collection);
  CLI::Option* image =
      command
          ->add_option(
              "--image", arguments->images,
              "query image, - for standard input; TEXT then describes a change. Repeatable: FILE:2 has "
              "weight 2, FILE:-1 is unwanted")
          ->expected(1)
          ->allow_extra_args(false)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option(
          "--like", arguments->like,
          "id of an image of the collection (in --json) to search by, which is itself left out; TEXT "
          "then describes a change")
      ->transform(whole_number(1))
      ->excludes(image);
  command
      ->add_option(
          "--keyword-weight", arguments->query.keyword_weight,
          "weight of keyword matches (captions, file and folder names) against visual similarity, 0 to 1")
      ->transform(real_number(0, 1))
      ->default_val(kWordShare);
  add_old_name(*command, "--keyword-weight", "--words");
  command->add_option(
      "--compose", arguments->compose,
      "method that combines a query image (--image, --like) and TEXT: " + list_of_names<Compose>() +
          ", the folder of a trained composer, or starter for the starter checkpoint's own (default: "
          "the collection's composer, else sum)");
  command
      ->add_option_function<double>(
          "--text-weight", [arguments](const double& weight) { arguments->text_weight = weight; },
          "weight of TEXT against the query image, 0 to 1 (default: 0.5; with --compose direction: 1)")
      ->transform(real_number(0, 1));
  add_old_name(*command, "--text-weight", "--weight");
  command->add_option("--was", arguments->was,
                      "description of the query image, used by --compose direction (default: a picture)");
  add_number(*command, "-k", arguments->query.k, whole_number(1), "maximum number of results");
  add_number(*command, "--offset", arguments->options.offset, whole_number(0),
             "number of best results to leave out: with -k, the next page");
  command->add_option(
      "--filter", arguments->query.filter,
      "condition on the images (see saccade help filters), such as 'width>=640 and format=jpeg'; without a text or an "
      "image, lists those that meet it, newest first");
  command->add_flag_callback(
      "--chunk-long-text", [arguments] { arguments->query.long_text = LongText::kChunk; },
      "read a text beyond the model's token limit in chunks (default: only its beginning is read)");
  add_choice(*command, "--long-query", arguments->query.long_text, "")->group("");  // its earlier name
  command
      ->add_option_function<double>(
          "--min-probability", [arguments](const double& least) { arguments->query.min_probability = least; },
          "minimum match probability of results, 0 to 1: leaves out the others, and counts those that pass "
          "among the best 1,000 images (or -k, if that is more)")
      ->transform(real_number(0, 1));
  add_old_name(*command, "--min-probability", "--cut");
  add_choice(*command, "--order", arguments->query.order,
             "order of the results: best first, or newest first");
  add_old_name(*command, "--order", "--sort");
  command->add_flag_callback(
      "--no-group-duplicates", [arguments] { arguments->query.group_duplicates = false; },
      "do not group near-duplicates");
  add_old_name(*command, "--no-group-duplicates", "--all");
  command->add_flag(
      "--exact", arguments->query.exact,
      "score all images, even if the collection has an approximate index (saccade collection ann); not in a "
      "Weaviate cluster");
  add_number(*command, "--group-above", arguments->query.duplicate_cosine, real_number(0, 1),
             "minimum cosine similarity of two images that count as near-duplicates, 0 to 1");
  add_old_name(*command, "--group-above", "--fold-above");
  add_number(*command, "--candidates", arguments->query.candidates, whole_number(0),
             "late interaction: number of images scored exactly, chosen by their pooled embedding; 0: all");
  add_number(
      *command, "--exact-rescore", arguments->query.rescore, whole_number(0, kMostExactRescore),
      "Weaviate cluster: number of images that it chooses and that are compared by their full embeddings, "
      "at least; 0 (default): as many as the results need, 256 at least");
  CLI::Option* explain = command->add_flag(
      "--explain", arguments->options.explain_hits,
      "explain each hit: contribution of each word of TEXT, and a relevance map over the image");
  add_choice(*command, "--explain-by", arguments->options.explain.method,
             "method of the relevance map (default: legrad; for late-interaction encoders: patch similarity)")
      ->needs(explain);
  CLI::Option* rerank =
      command->add_option("--rerank", arguments->options.rerank, "checkpoint that re-ranks the best results");
  command
      ->add_option("--rerank-depth", arguments->options.rerank_options.depth, "number of results to re-rank")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->needs(rerank);
  add_choice(*command, "--rerank-by", arguments->options.rerank_options.method,
             "score used for re-ranking: the strongest that the checkpoint has, or the one named")
      ->needs(rerank);
  CLI::Option* queries = command->add_option(
      "--queries", arguments->queries,
      "file with one query per line, - for standard input; prints one line of JSON per query");
  CLI::Option* json = command->add_flag("--json", arguments->json, "print the answer as JSON");
  CLI::Option* paths =
      command->add_flag("--paths", arguments->paths, "print only the paths of the images, for scripts");
  CLI::Option* nul =
      command->add_flag("-0,--null", arguments->nul,
                        "end each path, or each record of --format, with a NUL instead of a newline");
  CLI::Option* format =
      command
          ->add_option_function<std::string>(
              "--format", [arguments](const std::string& text) { arguments->format = text; },
              "format of a result, for scripts: text with fields, such as '{score}\\t{path}' (see saccade "
              "help output)")
          ->excludes(paths);
  for (CLI::Option* option : {paths, nul, format}) option->excludes(json)->excludes(queries);
  add_choice(*command, "--thumbnails", arguments->thumbnails,
             "show thumbnails with the named terminal protocol (default: if the terminal supports one)");
  command->add_option("--html", arguments->html, "HTML file to write, showing the results")
      ->excludes(queries);
  add_overwrite_option(*command, arguments->overwrite);
  command->add_option(
      "-m,--model", arguments->options.checkpoint,
      std::string(kCheckpointHelp) + " (default: the collection's own; name it if it has moved)");
  add_encoder_options(*command, arguments->options.encoder, kPrecisionOfCollection);
  add_device_option(*command, arguments->options.encoder);
  add_decode_options(*command, arguments->query.limits);
  group_options(
      *command,
      {{"Query",
        {"--image", "--like", "--keyword-weight", "--compose", "--text-weight", "--was", "--chunk-long-text",
         "--queries"}},
       {"Which hits",
        {"-k", "--offset", "--filter", "--min-probability", "--order", "--no-group-duplicates",
         "--group-above"}},
       {"Output", {"--json", "--paths", "-0", "--format", "--html", "--overwrite", "--thumbnails"}},
       {"Explaining and re-ranking",
        {"--explain", "--explain-by", "--rerank", "--rerank-depth", "--rerank-by"}},
       {"Limits on query images", {"--max-bytes", "--max-pixels", "--max-seconds", "--decode-memory"}},
       {"Model and speed",
        {"-m", "--exact", "--candidates", "--exact-rescore", "--precision", "--threads", "--device"}}});
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return run_search(*arguments, session); };
  });
}

}  // namespace saccade::app
