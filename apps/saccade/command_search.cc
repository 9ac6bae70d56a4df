// saccade search: pictures for words, for a picture, or for both.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/collection.h"
#include "saccade/search/collection_composer.h"
#include "saccade/search/explain_hits.h"
#include "saccade/search/fusion.h"
#include "saccade/search/query_language.h"
#include "saccade/search/rerank.h"
#include "saccade/search/search.h"

#include "answers.h"
#include "checkpoint.h"
#include "choice.h"
#include "command.h"
#include "likelihoods.h"
#include "number.h"

namespace saccade::app {
namespace {

struct SearchArguments {
  std::vector<std::string> words;
  std::string image;
  std::string collection;
  std::string checkpoint;
  std::string html;
  Query query;
  EncoderChoice encoder;
  bool k_given = false;
  bool all = false;
  bool json = false;
  std::string
      compose;  // a method's word, or a composer's folder; empty: the collection's composer, or the sum
  std::optional<double> weight;
  std::string was;
  std::string rerank;  // a checkpoint's folder; empty: none
  RerankOptions rerank_options;
  ExplainOptions explain;
};

// Adds what each encoder says of the hits; the one that re-ranked where there is one.
Status explain_answer(const SearchArguments& arguments, const Collection& collection,
                      const LoadedEncoder& first, const LoadedEncoder* second, Answer& answer,
                      ThreadPool& pool, Session& session) {
  if (!arguments.query.explain) return {};
  ProgressLine progress(session.quiet);
  for (const LoadedEncoder* each : {&first, second}) {
    if (each == nullptr) continue;
    ExplainOptions options = arguments.explain;
    options.name = each->id.name;
    SACCADE_TRY(explain_hits(collection, *each->encoder, options, answer, pool, progress.callback(),
                             session.interrupts.stop_cleanly()));
  }
  return {};
}

Result<Answer> answer_query(SearchArguments& arguments, const Collection& collection,
                            const LoadedEncoder& first, ThreadPool& pool, Session& session) {
  std::optional<LoadedEncoder> second;
  if (!arguments.rerank.empty()) {
    SACCADE_ASSIGN(second, load_checkpoint(arguments.rerank, arguments.encoder).in("--rerank"));
    arguments.rerank_options.name = second->id.name;
    if (!arguments.query.text.empty()) warn_of_separate_spaces(*second, session.messages);
    warn_of_guessed_preprocessing(*second, session.messages);
  }
  if (arguments.query.explain) {
    SACCADE_TRY(check_explains(*first.encoder, arguments.explain));
    if (second) SACCADE_TRY(check_explains(*second->encoder, arguments.explain).in("--rerank"));
  }
  Answer answer;
  if (second) {
    ProgressLine progress(session.quiet);
    SACCADE_ASSIGN(answer, search_and_rerank(collection, *first.encoder, *second->encoder, arguments.query,
                                             arguments.rerank_options, pool, progress.callback(),
                                             session.interrupts.stop_cleanly()));
  } else {
    SACCADE_ASSIGN(answer, search(collection, *first.encoder, arguments.query, pool));
  }
  SACCADE_TRY(
      explain_answer(arguments, collection, first, second ? &*second : nullptr, answer, pool, session));
  return answer;
}

// What the answer has to admit, on stderr.
void warn(const Answer& answer, Session& session) {
  if (answer.tokens && answer.tokens->dropped > 0) {
    session.messages.warning(fmt::format("the text was cut: {}; --long-query chunk reads all of it, in parts",
                                         tokens_text(*answer.tokens)));
  }
  if (const std::string note = measured_length_note(answer); !note.empty()) {
    session.messages.warning("a long text: " + note);
  }
  if (!answer.reranking) return;
  const Reranking& reranking = *answer.reranking;
  if (reranking.tokens && reranking.tokens->dropped > 0) {
    session.messages.warning("the text was cut for re-ranking: " + tokens_text(*reranking.tokens));
  }
  if (reranking.missing + reranking.changed + reranking.unreadable > 0) {
    session.messages.warning(
        fmt::format("{} of {} could not be re-ranked: {} gone, {} changed since they were taken in, "
                    "{} unreadable",
                    count_text(reranking.missing + reranking.changed + reranking.unreadable),
                    counted(reranking.depth, "picture"), count_text(reranking.missing),
                    count_text(reranking.changed), count_text(reranking.unreadable)));
  }
}

Result<int> run_search(SearchArguments& arguments, Session& session) {
  Query& query = arguments.query;
  for (const std::string& word : arguments.words) query.text += (query.text.empty() ? "" : " ") + word;
  query.image = arguments.image;
  query.fold_duplicates = !arguments.all;
  const bool by_composer = !arguments.compose.empty() && !from_word<Compose>(arguments.compose);
  std::error_code ignored;
  if (by_composer && !std::filesystem::is_directory(arguments.compose, ignored)) {
    return fail(ErrorCode::kUsage, "--compose {}: expected {}, or the folder of a composer",
                arguments.compose, list_of_words<Compose>());
  }
  if (by_composer && (arguments.weight || !arguments.was.empty())) {
    return fail(ErrorCode::kUsage, "--weight and --was are for {}, not for a composer",
                list_of_words<Compose>());
  }
  if (!by_composer) {
    SACCADE_ASSIGN(query.fusion, make_fusion(from_word<Compose>(arguments.compose).value_or(Compose::kSum),
                                             arguments.weight, arguments.was)
                                     .in("--compose, --weight, --was"));
  }
  // What is cut by its likelihood is not cut by its number too, unless that is asked for.
  if (query.cut && !arguments.k_given) query.k = kCutDepth;
  // What can be told without loading weights is told first.
  if (query.text.find_first_not_of(" \t\r\n\f\v") == std::string::npos) {
    if (query.image.empty())
      return fail(ErrorCode::kUsage, "nothing to search for: give a text, --image FILE, or both");
    query.text.clear();
  }
  if (!query.filter.empty()) SACCADE_TRY(parse_filter(query.filter).in("--filter"));

  SACCADE_ASSIGN(const Collection collection, Collection::open(arguments.collection));
  SACCADE_ASSIGN(const LoadedEncoder loaded, load_encoder_of(collection.info(), arguments.checkpoint,
                                                             arguments.encoder, session.messages));
  remember_place(arguments.collection, arguments.checkpoint, loaded, session.messages);
  warn_of_starter(arguments.collection, session.messages);
  if (query.has_image() && !query.text.empty()) {
    EncoderOptions options;
    options.threads = arguments.encoder.threads;
    if (by_composer) {
      SACCADE_ASSIGN(query.fusion.composer,
                     open_composer_for(collection, arguments.compose, options).in("--compose"));
    } else if (arguments.compose.empty() && !arguments.weight && arguments.was.empty() && is_plain(query)) {
      SACCADE_ASSIGN(query.fusion.composer, open_collection_composer(collection, options));
    }
  }
  query.measured_length = measured_length_of(loaded, session.messages);
  query.background = background_of(collection, session);
  if (!arguments.query.text.empty()) warn_of_separate_spaces(loaded, session.messages);
  ThreadPool pool(arguments.encoder.threads);
  if (!query.image.empty() || !arguments.rerank.empty() || query.explain) {
    query.limits.processes = session.decoders.start(session.messages);
  }
  SACCADE_ASSIGN(const Answer answer, answer_query(arguments, collection, loaded, pool, session));
  warn(answer, session);
  if (answer.searched == 0 && !query.filter.empty()) {
    SACCADE_ASSIGN(const Filter filter, parse_filter(query.filter).in("--filter"));
    SACCADE_ASSIGN(const std::string why, collection.why_empty(filter));
    if (!why.empty()) session.messages.warning("--filter: " + why);
  }
  if (!arguments.html.empty()) {
    SACCADE_TRY(write_search_page(arguments.html, {&answer, 1}, collection, {}, pool, session));
  }
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(answer_json(answer)));
  } else {
    SACCADE_TRY(session.out.write(answer_text(answer)));
  }
  return kDone;
}

}  // namespace

void add_search_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<SearchArguments>();
  CLI::App* command = app.add_subcommand("search", "Find pictures by words, by a picture, or by both");
  command->add_option("TEXT", arguments->words,
                      "words for what the pictures show; several words need no quotes");
  command->add_option("-c,--collection", arguments->collection, "folder of the collection")->required();
  CLI::Option* image = command->add_option("--image", arguments->image,
                                           "picture to search by; TEXT then says what is to be different");
  command
      ->add_option(
          "--compose", arguments->compose,
          "way to make one query of a picture and TEXT: " + list_of_words<Compose>() +
              ", or the folder of a trained composer (default: the composer that the collection names, or sum)")
      ->needs(image);
  command
      ->add_option_function<double>(
          "--weight", [arguments](const double& weight) { arguments->weight = weight; },
          "TEXT's share beside the picture, 0 to 1 (default: 0.5); of --compose direction its factor (default: 1)")
      ->transform(real_number(0, 1))
      ->needs(image);
  command->add_option("--was", arguments->was,
                      "of --compose direction: what the picture shows now, in words (default: a picture)");
  CLI::Option* k = command->add_option("-k", arguments->query.k, "number of pictures to show")
                       ->transform(whole_number(1))
                       ->default_str("10; with --cut all that pass, up to 1,000");
  command->add_option(
      "--filter", arguments->query.filter,
      "condition that pictures must meet (docs/cli.md), such as 'width>=640 and format=jpeg'");
  add_choice(
      *command, "--long-query", arguments->query.long_text,
      "what to read of a text that is longer than the model reads: its beginning, or all of it in chunks");
  command
      ->add_option_function<double>(
          "--cut", [arguments](const double& cut) { arguments->query.cut = cut; },
          "show only pictures that are at least this likely to be right, 0 to 1, of the best 1,000")
      ->transform(real_number(0, 1));
  add_choice(*command, "--sort", arguments->query.order,
             "order of the pictures shown: best first, or newest file first");
  command->add_flag("--all", arguments->all,
                    "show near-duplicates as hits of their own, not folded under the best of them");
  command
      ->add_option("--fold-above", arguments->query.duplicate_cosine,
                   "cosine from which two pictures count as near-duplicates, 0 to 1")
      ->transform(real_number(0, 1))
      ->capture_default_str();
  command
      ->add_option(
          "--candidates", arguments->query.candidates,
          "of late interaction: number of pictures to score by all rows, the best by their mean row; 0: all")
      ->transform(whole_number(0))
      ->capture_default_str();
  CLI::Option* explain = command->add_flag(
      "--explain", arguments->query.explain,
      "show what each hit owes to each word of TEXT, and where in the picture its score comes from");
  add_choice(
      *command, "--explain-by", arguments->explain.method,
      "how the score is followed back into the picture: legrad unless it is given, or for encoders with rows of "
      "patches by these rows' similarity")
      ->needs(explain);
  CLI::Option* rerank = command->add_option(
      "--rerank", arguments->rerank, "checkpoint that scores the best pictures again, to re-rank them");
  command->add_option("--rerank-depth", arguments->rerank_options.depth, "number of pictures to re-rank")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->needs(rerank);
  add_choice(*command, "--rerank-by", arguments->rerank_options.method,
             "score that re-ranks: the strongest that the checkpoint has, or the one named")
      ->needs(rerank);
  command->add_flag("--json", arguments->json, "print the answer as JSON");
  command->add_option("--html", arguments->html,
                      "HTML file to write the answer to as well, with its pictures");
  command->add_option("-m,--model", arguments->checkpoint,
                      std::string(kCheckpointHelp) + ", if it is no longer where it was");
  add_encoder_options(*command, arguments->encoder);
  command->callback([arguments, k, &chosen] {
    arguments->k_given = k->count() > 0;
    chosen = [arguments](Session& session) { return run_search(*arguments, session); };
  });
}

}  // namespace saccade::app
