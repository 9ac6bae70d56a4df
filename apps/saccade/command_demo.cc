// saccade demo: the sample pictures indexed, searched, and shown.
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/collection.h"
#include "saccade/collection/ingest.h"
#include "saccade/search/search.h"

#include "answers.h"
#include "checkpoint.h"
#include "command.h"
#include "ingest_report.h"
#include "number.h"

namespace saccade::app {
namespace {

// What the sample's icons, emoji and stamps show, in words
// of several kinds: a scene, a state, a pose, a colour.
constexpr std::array<const char*, 6> kQueries = {"two birds on a branch", "crossed out bell", "waving hand",
                                                 "sailing boat",          "red apple",        "padlock"};

struct DemoArguments {
  std::string sample = SACCADE_SOURCE_SAMPLE;
  std::string collection = "saccade-demo";
  std::string html = "saccade-demo.html";
  std::string checkpoint;
  int64_t k = 24;
};

Result<int> run_demo(const DemoArguments& arguments, Session& session) {
  std::error_code error;
  if (!std::filesystem::is_directory(arguments.sample, error)) {
    return fail(ErrorCode::kNotFound,
                "no sample pictures in {}: ./dev demo makes them, or name a folder of your own",
                arguments.sample);
  }
  std::filesystem::path checkpoint = arguments.checkpoint;
  if (checkpoint.empty()) {
    SACCADE_ASSIGN(checkpoint, starter_checkpoint());
  }
  SACCADE_ASSIGN(const LoadedEncoder loaded,
                 load_checkpoint(checkpoint, {}, !is_collection(arguments.collection)));
  ThreadPool pool;
  bool some_failed = false;
  {
    SACCADE_ASSIGN(CollectionWriter writer,
                   CollectionWriter::open_or_create(arguments.collection, loaded.id));
    ProgressLine progress(session.quiet);
    const std::vector<std::filesystem::path> inputs = {arguments.sample};
    IngestOptions options;
    options.limits.processes = session.decoders.start(session.messages);
    SACCADE_ASSIGN(const IngestReport report, ingest(writer, *loaded.encoder, inputs, options, pool,
                                                     progress.callback(), session.interrupts.stop_cleanly()));
    if (report.cancelled) return fail(ErrorCode::kCancelled, "stopped; the same command goes on from here");
    progress.clear();
    SACCADE_TRY(session.out.write(report_text(report, arguments.collection)));
    warn_of_no_pictures(report, arguments.sample, session.messages);
    some_failed = !report.failed.empty();
  }

  SACCADE_ASSIGN(const Collection collection, Collection::open(arguments.collection));
  SACCADE_TRY(session.out.write(fmt::format("{} in {}\n", counted(collection.item_count(), "picture"),
                                            one_line(arguments.collection))));
  std::vector<Answer> answers;
  for (const char* text : kQueries) {
    Query query;
    query.text = text;
    query.k = arguments.k;
    SACCADE_ASSIGN(Answer answer, search(collection, *loaded.encoder, query, pool));
    Answer top = answer;
    if (top.hits.size() > 5) top.hits.resize(5);
    SACCADE_TRY(session.out.write(fmt::format("\n{}\n{}", text, answer_text(top))));
    answers.push_back(std::move(answer));
  }
  SACCADE_TRY(
      write_search_page(arguments.html, answers, collection, "Saccade: a few searches", pool, session));
  SACCADE_TRY(
      session.out.write(fmt::format("\nthe same as a page of pictures: {}\n", one_line(arguments.html))));
  return some_failed ? kSomeFailed : kDone;
}

}  // namespace

void add_demo_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<DemoArguments>();
  CLI::App* command = app.add_subcommand("demo", "The sample pictures, indexed and searched");
  command->add_option("SAMPLE", arguments->sample, "folder of pictures")->capture_default_str();
  command->add_option("-c,--collection", arguments->collection, "the collection's folder")
      ->capture_default_str();
  command->add_option("--html", arguments->html, "the page of all answers")->capture_default_str();
  command->add_option("-m,--model", arguments->checkpoint,
                      std::string(kCheckpointHelp) + " (default: the starter)");
  command->add_option("-k", arguments->k, "pictures a query on the page")
      ->transform(whole_number(1, 1000))
      ->capture_default_str();
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return run_demo(*arguments, session); };
  });
}

}  // namespace saccade::app
