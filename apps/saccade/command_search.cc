// saccade search: pictures for words, for a picture, or for both.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/collection.h"
#include "saccade/search/search.h"

#include "answers.h"
#include "checkpoint.h"
#include "command.h"
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
  bool all = false;
  bool json = false;
};

Result<int> run_search(SearchArguments& arguments, Session& session) {
  Query& query = arguments.query;
  for (const std::string& word : arguments.words) query.text += (query.text.empty() ? "" : " ") + word;
  query.image = arguments.image;
  query.fold_duplicates = !arguments.all;
  // What can be told without loading weights is told first.
  if (query.text.find_first_not_of(" \t\r\n\f\v") == std::string::npos) {
    if (query.image.empty())
      return fail(ErrorCode::kUsage, "nothing to search for: give a text, --image FILE, or both");
    query.text.clear();
  }
  if (!query.filter.empty()) SACCADE_TRY(parse_filter(query.filter).in("--filter"));

  SACCADE_ASSIGN(const Collection collection, Collection::open(arguments.collection));
  SACCADE_ASSIGN(const auto checkpoint, checkpoint_of(collection.info(), arguments.checkpoint));
  SACCADE_ASSIGN(const LoadedEncoder loaded, load_checkpoint(checkpoint, arguments.encoder));
  SACCADE_TRY(check_same_checkpoint(collection.info(), loaded.id));
  ThreadPool pool(arguments.encoder.threads);
  SACCADE_ASSIGN(const Answer answer, search(collection, *loaded.encoder, query, pool));

  if (answer.tokens && answer.tokens->dropped > 0) {
    session.messages.warning("the text was cut: " + tokens_text(*answer.tokens));
  }
  if (!arguments.html.empty()) {
    SACCADE_TRY(write_search_page(arguments.html, {&answer, 1}, collection, "Saccade", pool, session));
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
  command->add_option("TEXT", arguments->words, "what the pictures show; several words need no quotes");
  command->add_option("-c,--collection", arguments->collection, "the collection's folder")->required();
  command->add_option("--image", arguments->image, "a picture to search by; with TEXT, by the sum of both");
  command->add_option("-k", arguments->query.k, "pictures to show")
      ->transform(whole_number(1))
      ->capture_default_str();
  command->add_option("--filter", arguments->query.filter,
                      "e.g. 'width>=640 and format=jpeg and path~\"*/birds/*\"' (docs/cli.md)");
  command->add_flag("--all", arguments->all, "show near-duplicates too, not folded under the best of them");
  command
      ->add_option("--fold-above", arguments->query.duplicate_cosine,
                   "cosine from which two pictures are one")
      ->transform(real_number(0, 1))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "the answer as JSON");
  command->add_option("--html", arguments->html, "write a page of pictures to this file too");
  command->add_option("-m,--model", arguments->checkpoint,
                      "checkpoint folder, if it is no longer where it was");
  add_encoder_options(*command, arguments->encoder);
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return run_search(*arguments, session); };
  });
}

}  // namespace saccade::app
