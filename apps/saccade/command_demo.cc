// saccade demo: the sample pictures indexed, searched, and shown.
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/choose_collection.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/search/search.h"

#include "core_options.h"
#include "load_checkpoint.h"
#include "number.h"
#include "outputs.h"
#include "print/ingest_report.h"
#include "print/print_answers.h"
#include "product_commands.h"
#include "towns.h"

namespace saccade::app {
namespace {

struct DemoQuery {
  const char* text;
  const char* note;  // what to say beside it; empty: nothing
};

// Queries that the starter answers with the sample's icons, emoji, clip art and stamps: objects, a colour, a
// state, a person. The last ones are queries that it cannot answer.
constexpr std::array<DemoQuery, 7> kQueries = {{
    {"shopping cart", ""},
    {"red heart", ""},
    {"strawberry", ""},
    {"crossed out bell", ""},
    {"bicycle", ""},
    {"person running", ""},
    {"two birds on a branch",
     "The starter checkpoint cannot answer this: it knows things by name, not how many there are or where."},
}};

// Only of the starter: another checkpoint was made for something else.
constexpr const char* kAboutStarter =
    "The starter checkpoint was made for icons, emoji, clip art and stamps, searched by short English names. "
    "It is no model of photographs or sentences: for those, `saccade model pull` brings a CLIP from a hub.";

struct DemoArguments {
  std::string sample = SACCADE_SOURCE_SAMPLE;
  std::string collection = "saccade-demo";
  std::string html = "saccade-demo.html";
  bool overwrite = false;
  std::string checkpoint;
  int64_t k = 24;
};

Result<int> run_demo(const DemoArguments& arguments, Session& session) {
  std::error_code error;
  if (arguments.sample.empty()) {
    return fail(
        ErrorCode::kNotFound,
        "the sample images are not installed with the program: name a folder of images, as in `saccade demo "
        "~/Pictures`");
  }
  if (!std::filesystem::is_directory(arguments.sample, error)) {
    if (arguments.sample != DemoArguments().sample) {
      return fail(ErrorCode::kNotFound, "{}: no such folder of images", arguments.sample);
    }
    return fail(ErrorCode::kNotFound,
                "no sample images in {}: ./dev demo makes them, or name a folder of your own",
                arguments.sample);
  }
  OutputRules rules{.closed = {arguments.collection}, .overwrite = arguments.overwrite};
  close_checkpoint(rules, arguments.checkpoint);
  SACCADE_TRY(check_output(arguments.html, OutputKind::kHtml, rules).in("page"));
  const bool is_starter = arguments.checkpoint.empty();
  SACCADE_ASSIGN(const std::unique_ptr<EngineCore> core,
                 EngineCore::open(core_options(arguments.collection, arguments.checkpoint, {}, session)));
  bool some_failed = false;
  const std::unique_ptr<Gazetteer> towns = find_towns();
  {
    ProgressLine progress(session.quiet);
    const std::vector<std::filesystem::path> inputs = {arguments.sample};
    IngestOptions options;
    options.video_tools = find_video_tools();
    options.places = towns.get();
    SACCADE_ASSIGN(const IngestReport report,
                   core->index(inputs, options, progress.callback(), session.interrupts.stop_cleanly()));
    remember_collection(arguments.collection);
    if (report.cancelled) return fail(ErrorCode::kCancelled, "stopped; the same command goes on from here");
    progress.clear();
    SACCADE_TRY(session.out.write(report_text(report, options, arguments.collection)));
    some_failed = !report.failed.empty();
  }
  SACCADE_ASSIGN(const std::shared_ptr<const CollectionSnapshot> snapshot, core->snapshot());
  const CollectionReader& collection = snapshot->collection;
  SACCADE_TRY(session.out.write(
      fmt::format("{} in {}\n", counted(collection.item_count(), "image"), one_line(arguments.collection))));
  if (collection.item_count() == 0) {
    return fail(ErrorCode::kNotFound, "no images to search in {}: name a folder of images", arguments.sample);
  }
  std::vector<SearchAnswer> answers;
  SearchPageOptions page;
  page.title = "Saccade: a few searches";
  if (is_starter) page.about = kAboutStarter;
  for (const DemoQuery& each : kQueries) {
    SearchQuery query;
    query.text = each.text;
    query.k = arguments.k;
    SACCADE_ASSIGN(SearchAnswer answer, core->search(query, {}));
    SearchAnswer top = answer;
    if (top.hits.size() > 5) top.hits.resize(5);
    page.notes.emplace_back(is_starter ? each.note : "");
    const std::string note = page.notes.back().empty() ? "" : page.notes.back() + "\n";
    SACCADE_TRY(session.out.write(fmt::format("\n{}\n{}{}", each.text, note, answer_text(top, {}, session))));
    answers.push_back(std::move(answer));
  }
  SACCADE_TRY(
      write_search_page(arguments.html, rules, answers, collection, std::move(page), core->pool(), session));
  SACCADE_TRY(
      session.out.write(fmt::format("\nthe same as a page of images: {}\n", one_line(arguments.html))));
  return some_failed ? kSomeFailed : kDone;
}

}  // namespace

void add_demo_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<DemoArguments>();
  CLI::App* command = app.add_subcommand("demo", "Index the sample images and run a few searches");
  command->add_option("SAMPLE", arguments->sample, "folder of images to index")->capture_default_str();
  command
      ->add_option("-c,--collection", arguments->collection, "folder of the collection, created if missing")
      ->capture_default_str();
  command->add_option("--html", arguments->html, "HTML file to write, with all answers")
      ->capture_default_str();
  add_overwrite_option(*command, arguments->overwrite);
  command->add_option("-m,--model", arguments->checkpoint,
                      std::string(kCheckpointHelp) + " (default: the starter)");
  add_number(*command, "-k", arguments->k, whole_number(1, 1000), "number of results per query on the page");
  add_decode_options(*command);
  run_when_given(*command, chosen, arguments, run_demo);
}

}  // namespace saccade::app
