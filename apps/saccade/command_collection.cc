// saccade collection info|verify|remove|compact.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/collection.h"
#include "saccade/collection/collection_json.h"
#include "saccade/collection/filter.h"
#include "saccade/collection/verify.h"
#include "saccade/model/precision.h"

#include "command.h"
#include "number.h"

namespace saccade::app {
namespace {

struct CollectionArguments {
  std::string collection;
  bool json = false;
  bool failures = false;           // info
  bool deep = false;               // verify
  std::vector<std::string> paths;  // remove
  std::vector<int64_t> ids;        // remove
  std::string filter;              // remove
};

Result<int> run_info(const CollectionArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const Collection collection, Collection::open(arguments.collection));
  SACCADE_ASSIGN(const CollectionSummary summary, collection.summary());
  std::vector<Failure> failures;
  if (arguments.failures) {
    SACCADE_ASSIGN(failures, collection.failures());
  }
  const CollectionInfo& info = collection.info();
  if (arguments.json) {
    Json json = {{"collection", collection.folder().string()}};
    json.update(collection_json(info, summary));
    if (arguments.failures) {
      json["failed"] = Json::array();
      for (const Failure& failure : failures) {
        json["failed"].push_back(failure_json(failure));
        json["failed"].back()["tries"] = failure.tries;
      }
    }
    SACCADE_TRY(session.out.write_json(json));
    return kDone;
  }
  std::string text =
      fmt::format("collection   {}, made {}\n", one_line(collection.folder().string()), info.created);
  text += fmt::format("checkpoint   {} ({}...), {} columns, from {}\n", one_line(info.checkpoint.name),
                      info.checkpoint.fingerprint.substr(0, 12), info.checkpoint.dim,
                      one_line(info.checkpoint.path));
  text += fmt::format("pictures     {}, {} different, {} with a caption, {}\n", count_text(summary.items),
                      count_text(summary.distinct_contents), count_text(summary.captions),
                      size_text(summary.file_bytes));
  if (!summary.formats.empty()) {
    text += "formats     ";
    for (const auto& [format, count] : summary.formats)
      text += fmt::format(" {} {}", one_line(format), count_text(count));
    text += "\n";
  }
  text += fmt::format("on disk      rows {}, catalog {}\n", size_text(summary.row_bytes),
                      size_text(summary.catalog_bytes));
  if (summary.int8_rows > 0) {
    text +=
        fmt::format("int8 rows    {}, {}\n", count_text(summary.int8_rows), size_text(summary.int8_bytes));
  }
  if (const auto& late = info.settings.late) {
    text += fmt::format("late rows    {} in {}, {}", count_text(summary.late_rows), word_of(late->precision),
                        size_text(summary.late_bytes));
    if (late->grid.rows > 0)
      text += fmt::format(", over {} x {} patches", late->grid.rows, late->grid.columns);
    if (late->pool > 1) text += fmt::format(", {} a row", late->pool);
    text += "\n";
  }
  if (summary.dead_rows > 0) {
    text += fmt::format("unused       {} (saccade collection compact drops them)\n",
                        counted(summary.dead_rows, "row"));
  }
  text += fmt::format("failed       {}\n", counted(summary.failures, "file"));
  for (const Failure& failure : failures) {
    text += fmt::format("             {}: {}\n", one_line(failure.path), one_line(failure.reason));
  }
  SACCADE_TRY(session.out.write(text));
  return kDone;
}

Result<int> run_verify(const CollectionArguments& arguments, Session& session) {
  ThreadPool pool;
  ProgressLine progress(session.quiet);
  VerifyOptions options;
  options.deep = arguments.deep;
  auto report = verify_collection(arguments.collection, options, pool, progress.callback(),
                                  session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  if (arguments.json) {
    Json json = {{"collection", arguments.collection}};
    json.update(verify_json(*report));
    SACCADE_TRY(session.out.write_json(json));
  } else {
    std::string text;
    for (const VerifyReport::Problem& problem : report->problems) {
      text += fmt::format("{}{}: {}\n", problem.fatal ? "DAMAGED " : "", one_line(problem.subject),
                          one_line(problem.message));
    }
    text += fmt::format("{}: {}, {}, {}\n", one_line(arguments.collection), counted(report->items, "picture"),
                        counted(report->rows, "row"),
                        report->ok() ? "all in order" : counted(report->problem_count, "problem"));
    SACCADE_TRY(session.out.write(text));
  }
  return report->ok() ? kDone : kFailed;
}

Result<int> run_remove(const CollectionArguments& arguments, Session& session) {
  if (arguments.paths.empty() && arguments.ids.empty() && arguments.filter.empty()) {
    return fail(ErrorCode::kUsage, "nothing to remove: give a PATH, --id or --filter");
  }
  Filter filter;
  if (!arguments.filter.empty()) {
    SACCADE_ASSIGN(filter, parse_filter(arguments.filter).in("--filter"));
  }
  SACCADE_ASSIGN(CollectionWriter collection, CollectionWriter::open(arguments.collection));
  int64_t removed = 0;
  if (!arguments.ids.empty()) {
    SACCADE_ASSIGN(const int64_t count, collection.remove_ids(arguments.ids));
    removed += count;
  }
  for (const std::string& path : arguments.paths) {
    SACCADE_ASSIGN(const int64_t count, collection.remove_path(path));
    if (count == 0) session.messages.warning(fmt::format("{} is not in the collection", path));
    removed += count;
  }
  if (!arguments.filter.empty()) {
    SACCADE_ASSIGN(const int64_t count, collection.remove_matching(filter));
    removed += count;
  }
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json({{"collection", arguments.collection}, {"removed", removed}}));
  } else {
    SACCADE_TRY(session.out.write(fmt::format("{} removed from the collection; the files were not touched\n",
                                              counted(removed, "picture"))));
  }
  return kDone;
}

Result<int> run_compact(const CollectionArguments& arguments, Session& session) {
  SACCADE_ASSIGN(CollectionWriter collection, CollectionWriter::open(arguments.collection));
  ProgressLine progress(session.quiet);
  auto dropped = collection.compact(progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (!dropped) return fail(std::move(dropped).error());
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json({{"collection", arguments.collection}, {"dropped_rows", *dropped}}));
  } else {
    SACCADE_TRY(session.out.write(fmt::format("{} dropped\n", counted(*dropped, "unused row"))));
  }
  return kDone;
}

using Run = Result<int> (*)(const CollectionArguments&, Session&);

CLI::App* add_part(CLI::App* group, const std::string& name, const std::string& what,
                   const std::shared_ptr<CollectionArguments>& arguments, Command& chosen, Run run) {
  CLI::App* command = group->add_subcommand(name, what);
  command->add_option("-c,--collection", arguments->collection, "folder of the collection")->required();
  command->add_flag("--json", arguments->json, "print the result as JSON");
  command->callback([arguments, &chosen, run] {
    chosen = [arguments, run](Session& session) { return run(*arguments, session); };
  });
  return command;
}

}  // namespace

void add_collection_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<CollectionArguments>();
  CLI::App* group = app.add_subcommand("collection", "Look at, check and tidy a collection");
  group->require_subcommand(1);
  add_part(group, "info", "Show what is in a collection", arguments, chosen, run_info)
      ->add_flag("--failures", arguments->failures, "list the files that could not be taken in");
  add_part(group, "verify", "Check that a collection is sound; exit code 1 if it is not", arguments, chosen,
           run_verify)
      ->add_flag("--deep", arguments->deep, "also read all pictures again and compare their hashes");
  CLI::App* remove = add_part(group, "remove", "Take pictures out of a collection; their files stay",
                              arguments, chosen, run_remove);
  remove->add_option("PATH", arguments->paths, "files to take out, or folders with all that is below them");
  remove->add_option("--id", arguments->ids, "ids of pictures to take out")->transform(whole_number(1));
  remove->add_option("--filter", arguments->filter,
                     "condition (docs/cli.md): take out all pictures that meet it");
  add_part(group, "compact", "Free the space of removed pictures", arguments, chosen, run_compact);
}

}  // namespace saccade::app
