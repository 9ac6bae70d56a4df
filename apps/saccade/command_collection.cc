// saccade collection info|verify|remove|composer|compact|ann|duplicates|merge|export|import. `reencode` has a file of its own.
#include "command_collection.h"

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/build_approximate.h"
#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/collection_info.h"
#include "saccade/collection/collection_json.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/duplicates.h"
#include "saccade/collection/exchange.h"
#include "saccade/collection/verify.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/core/files/output_file.h"
#include "saccade/engine/core.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/pages/duplicates_page.h"
#include "saccade/search/composed/collection_composer.h"
#include "saccade/search/composed/composer_trial.h"
#include "saccade/search/matching/tuning_texts.h"
#include "saccade/text/utf8.h"

#include "choice.h"
#include "collection_choice.h"
#include "core_options.h"
#include "load_checkpoint.h"
#include "number.h"
#include "outputs.h"
#include "print/ingest_report.h"
#include "product_commands.h"

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
  bool forget = false;             // remove
  DuplicateOptions duplicates;
  std::string script;              // duplicates
  std::string html;                // duplicates
  bool overwrite = false;          // duplicates
  std::string folder;              // export, import
  std::string checkpoint;          // import
  bool no_files = false;           // import
  DecodeOptions limits;            // import
  std::string composer;            // composer
  bool none = false;               // composer
  bool if_better = false;          // composer
  ApproximateOptions approximate;  // ann
};

std::string recall_text(const ListRecall& recall) {
  if (!recall.known()) return "not measured";
  return fmt::format("{:.3f} at {} on {} queries ({} wanted{}), {} estimated and {} scored a query",
                     recall.measured, kRecallAt, count_text(recall.queries), recall.wanted,
                     recall.reached() ? "" : ", not reached: such queries are searched exactly",
                     count_text(recall.probe.scanned), count_text(recall.probe.rescored));
}

Json recall_json(const ListRecall& recall) {
  if (!recall.known()) return nullptr;
  return {{"recall", recall.measured},        {"at", kRecallAt},
          {"wanted", recall.wanted},          {"queries", recall.queries},
          {"reached", recall.reached()},      {"scanned", recall.probe.scanned},
          {"rescored", recall.probe.rescored}};
}

// Returns what `info --json` and `ann --json` print of the index; null if there is none.
Json approximate_json(const CollectionReader& collection) {
  const ApproximateIndex* index = collection.approximate();
  if (index == nullptr) {
    const std::string& why = collection.why_not_approximate();
    return why.empty() ? Json() : Json{{"usable", false}, {"reason", why}};
  }
  return {{"usable", true},
          {"lists", index->lists.lists()},
          {"rows", std::ssize(index->lists.rows)},
          {"covered", index->lists.covered},
          {"used_from", index->from},
          {"used", collection.rows().rows() >= index->from},
          {"bytes", index->stamp.size},
          {"seconds", index->seconds},
          {"text", recall_json(index->texts)},
          {"image", recall_json(index->images)}};
}

// Returns the lines of `info` and `ann` about the index; "" if there is none.
std::string approximate_text(const CollectionReader& collection) {
  const ApproximateIndex* index = collection.approximate();
  if (index == nullptr) {
    const std::string& why = collection.why_not_approximate();
    return why.empty() ? "" : fmt::format("approximate  not used: {}\n", one_line(why));
  }
  const int64_t rows = collection.rows().rows();
  std::string text = fmt::format(
      "approximate  {} in {}, {}, built in {:.0f} s{}\n", counted(std::ssize(index->lists.rows), "row"),
      counted(index->lists.lists(), "list"), size_text(index->stamp.size), index->seconds,
      rows < index->from ? fmt::format("; used from {} on", counted(index->from, "row")) : "");
  text += fmt::format("  text       recall {}\n", recall_text(index->texts));
  text += fmt::format("  image      recall {}\n", recall_text(index->images));
  if (rows > index->lists.covered) {
    text += fmt::format("  added      {}, searched exactly beside it\n",
                        counted(rows - index->lists.covered, "row"));
  }
  return text;
}

Result<int> run_info(const CollectionArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const CollectionReader collection, CollectionReader::open(arguments.collection));
  SACCADE_ASSIGN(const CollectionSummary summary, collection.summary());
  std::vector<Failure> failures;
  if (arguments.failures) {
    SACCADE_ASSIGN(failures, collection.failures());
  }
  const CollectionInfo& info = collection.info();
  if (arguments.json) {
    Json json = {{"collection", collection.folder().string()}};
    json.update(collection_json(info, summary));
    json["approximate"] = approximate_json(collection);
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
      fmt::format("collection   {}, made {}Z\n", one_line(collection.folder().string()),
                  one_line(info.created.substr(0, std::string_view("2026-01-31T12:00:00").size())));
  text += fmt::format("checkpoint   {} ({}...), {} dimensions, from {}\n", one_line(info.checkpoint.name),
                      info.checkpoint.fingerprint.substr(0, 12), info.checkpoint.dim,
                      one_line(info.checkpoint.path));
  const std::string different = summary.distinct_contents == kUnknownState
                                    ? std::string()
                                    : fmt::format(", {} different", count_text(summary.distinct_contents));
  text += fmt::format("images       {}{}, {} with a caption, {}\n", count_text(summary.items), different,
                      count_text(summary.captions), size_text(summary.file_bytes));
  if (!summary.formats.empty()) {
    text += "formats     ";
    for (const auto& [format, count] : summary.formats)
      text += fmt::format(" {} {}", one_line(format), count_text(count));
    text += "\n";
  }
  if (summary.looked_at > 0) {
    text += fmt::format("photographs  {} of {}\n", count_text(summary.photographs),
                        count_text(summary.looked_at));
  }
  if (summary.without_files > 0) {
    text += fmt::format("files        of {} not on this host: imported without\n",
                        counted(summary.without_files, "image"));
  }
  if (summary.removed > 0) {
    text += fmt::format("kept out     {} (saccade collection remove --forget allows them again)\n",
                        counted(summary.removed, "image"));
  }
  if (const VectorIndex* index = collection.index()) {
    text += fmt::format("engine       {}, rows {}\n", index->engine(), size_text(summary.row_bytes));
  } else {
    text += fmt::format("on disk      rows {}, catalog {}\n", size_text(summary.row_bytes),
                        size_text(summary.catalog_bytes));
  }
  if (summary.int8_rows > 0) {
    text +=
        fmt::format("int8 rows    {}, {}\n", count_text(summary.int8_rows), size_text(summary.int8_bytes));
  }
  text += approximate_text(collection);
  if (const auto& late = info.settings.late) {
    text += fmt::format("late rows    {} in {}, {}", count_text(summary.late_rows),
                        enum_name(late->precision), size_text(summary.late_bytes));
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
    text += fmt::format("             {}\n", failure_text(failure));
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
    text += fmt::format("{}: {}, {}, {}{}\n", one_line(arguments.collection), counted(report->items, "image"),
                        counted(report->rows, "row"),
                        report->without_files > 0
                            ? fmt::format("{} without a file here, ", count_text(report->without_files))
                            : "",
                        report->ok() ? "all in order" : counted(report->problem_count, "problem"));
    SACCADE_TRY(session.out.write(text));
  }
  return report->ok() ? kDone : kFailed;
}

// Lets pictures in again that were taken out.
Result<int> run_forget(const CollectionArguments& arguments, Session& session) {
  if (arguments.paths.empty() || !arguments.ids.empty() || !arguments.filter.empty()) {
    return fail(ErrorCode::kUsage, "--forget takes the PATHs of what was removed, and nothing else");
  }
  SACCADE_ASSIGN(CollectionWriter collection, CollectionWriter::open(arguments.collection));
  int64_t forgotten = 0;
  bool some_failed = false;
  for (const std::string& path : arguments.paths) {
    SACCADE_ASSIGN(const int64_t count, collection.forget_removed(path));
    if (count == 0) session.messages.warning(fmt::format("nothing was removed at {}", path));
    some_failed = some_failed || count == 0;
    forgotten += count;
  }
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json({{"collection", arguments.collection}, {"forgotten", forgotten}}));
  } else {
    SACCADE_TRY(session.out.write(fmt::format("{} allowed again: the next saccade index adds {}\n",
                                              counted(forgotten, "image"), forgotten == 1 ? "it" : "them")));
  }
  return some_failed ? kSomeFailed : kDone;
}

Result<int> run_remove(const CollectionArguments& arguments, Session& session) {
  if (arguments.forget) return run_forget(arguments, session);
  if (arguments.paths.empty() && arguments.ids.empty() && arguments.filter.empty()) {
    return fail(ErrorCode::kUsage, "nothing to remove: give a PATH, --id or --filter");
  }
  Filter filter;
  if (!arguments.filter.empty()) {
    SACCADE_ASSIGN(filter, parse_filter(arguments.filter).in("--filter"));
  }
  SACCADE_ASSIGN(CollectionWriter collection, CollectionWriter::open(arguments.collection));
  int64_t removed = 0;
  bool some_failed = false;
  if (!arguments.ids.empty()) {
    SACCADE_ASSIGN(const int64_t count, collection.remove_ids(arguments.ids));
    const std::set<int64_t> different(arguments.ids.begin(), arguments.ids.end());
    if (count < std::ssize(different)) {
      session.messages.warning(fmt::format("{} of {} are not in the collection",
                                           count_text(std::ssize(different) - count),
                                           counted(std::ssize(different), "id")));
      some_failed = true;
    }
    removed += count;
  }
  for (const std::string& path : arguments.paths) {
    SACCADE_ASSIGN(const int64_t count, collection.remove_path(path));
    if (count == 0) session.messages.warning(fmt::format("{} is not in the collection", path));
    some_failed = some_failed || count == 0;
    removed += count;
  }
  if (!arguments.filter.empty()) {
    SACCADE_ASSIGN(const int64_t count, collection.remove_matching(filter));
    removed += count;
  }
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json({{"collection", arguments.collection}, {"removed", removed}}));
  } else {
    SACCADE_TRY(session.out.write(fmt::format(
        "{} removed from the collection; index leaves {} out from now on (--forget allows {} again), and the "
        "files were not touched\n",
        counted(removed, "image"), removed == 1 ? "it" : "them", removed == 1 ? "it" : "them")));
  }
  return some_failed ? kSomeFailed : kDone;
}

// Loads the checkpoint that the collection was created with, which may have moved, as searches do.
Result<LoadedEncoder> load_own_encoder(const CollectionReader& collection) {
  const CollectionInfo& info = collection.info();
  SACCADE_ASSIGN(const std::filesystem::path folder, checkpoint_of(info.checkpoint, {}));
  SACCADE_ASSIGN(LoadedEncoder loaded, load_checkpoint(folder, {}).in("the collection's checkpoint"));
  SACCADE_TRY(
      check_same_checkpoint(info, loaded.id).in(fmt::format("collection {}", collection.folder().string())));
  return loaded;
}

// Compares a composer with the sum on the collection's captions.
Result<ComposerTrial> compare(const CollectionReader& collection, const std::filesystem::path& folder,
                              Session& session) {
  SACCADE_ASSIGN(const std::shared_ptr<Composer> composer, open_composer_for(collection, folder));
  SACCADE_ASSIGN(const LoadedEncoder own, load_own_encoder(collection));
  ThreadPool pool;
  return try_composer(collection, *own.encoder, *composer, pool, session.interrupts.stop_cleanly());
}

Result<int> run_composer(const CollectionArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const CollectionReader collection, CollectionReader::open(arguments.collection));
  std::optional<ComposerTrial> trial;
  if (arguments.none) SACCADE_TRY(forget_composer(collection.folder()));
  if (!arguments.composer.empty()) {
    SACCADE_ASSIGN(const std::filesystem::path composer, find_composer(arguments.composer));
    bool wanted = true;
    if (arguments.if_better) {
      SACCADE_ASSIGN(trial, compare(collection, composer, session));
      wanted = trial->better;
    }
    if (wanted) SACCADE_TRY(name_composer(collection, composer));
    if (!wanted) SACCADE_TRY(forget_composer(collection.folder()));
  }
  SACCADE_ASSIGN(const std::shared_ptr<Composer> composer, open_collection_composer(collection));
  if (arguments.json) {
    Json json = {{"collection", arguments.collection}, {"composer", nullptr}};
    if (composer) {
      json["composer"] = {{"name", composer->name()},
                          {"kind", composer->config().kind},
                          {"fingerprint", composer->fingerprint()}};
    }
    if (trial) {
      json["compared"] = {{"queries", trial->queries},
                          {"composer", trial->composer},
                          {"sum", trial->sum},
                          {"difference", trial->difference},
                          {"standard_error", trial->error},
                          {"better", trial->better},
                          {"reason", trial->reason.empty() ? Json() : Json(trial->reason)}};
    }
    SACCADE_TRY(session.out.write_json(json));
  } else {
    if (trial) SACCADE_TRY(session.out.write(trial_text(*trial) + "\n"));
    SACCADE_TRY(session.out.write(
        composer ? fmt::format("an image and words are composed by {} ({})\n", one_line(composer->name()),
                               composer->config().kind)
                 : std::string("no composer is named: an image and words are composed by their sum\n")));
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

Result<int> run_ann(const CollectionArguments& arguments, Session& session) {
  SACCADE_ASSIGN(CollectionReader collection, CollectionReader::open(arguments.collection));
  if (arguments.none) {
    SACCADE_ASSIGN(const bool removed, remove_approximate(collection));
    if (arguments.json) {
      SACCADE_TRY(session.out.write_json({{"collection", arguments.collection}, {"approximate", nullptr}}));
    } else {
      SACCADE_TRY(session.out.write(removed ? "the approximate index was removed: all searches are exact\n"
                                            : "there is no approximate index: all searches are exact\n"));
    }
    return kDone;
  }
  ThreadPool pool;
  ProgressLine progress(session.quiet);
  ApproximateOptions options = arguments.approximate;
  const auto build = [&]() -> Status {
    SACCADE_ASSIGN(const LoadedEncoder own, load_own_encoder(collection));
    SACCADE_ASSIGN(const Matrix<float> texts,
                   tuning_texts(collection, *own.encoder, kTuningTexts, session.interrupts.stop_cleanly()));
    options.texts = texts.view();
    SACCADE_TRY(
        build_approximate(collection, options, pool, progress.callback(), session.interrupts.stop_cleanly()));
    return {};
  };
  const Status built = build();
  progress.clear();
  SACCADE_TRY(built);
  SACCADE_TRY(check_not_compacted(collection).in("build approximate index"));
  SACCADE_TRY(collection.refresh());
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(
        {{"collection", arguments.collection}, {"approximate", approximate_json(collection)}}));
  } else {
    SACCADE_TRY(session.out.write(approximate_text(collection)));
  }
  return kDone;
}

Result<int> run_duplicates(const CollectionArguments& arguments, Session& session) {
  const OutputRules rules{.closed = {arguments.collection}, .overwrite = arguments.overwrite};
  SACCADE_ASSIGN(const CollectionReader collection, CollectionReader::open(arguments.collection));
  if (!arguments.html.empty()) {
    SACCADE_TRY(check_output(arguments.html, OutputKind::kHtml, rules).in("page"));
  }
  if (!arguments.script.empty()) {
    SACCADE_TRY(check_output(arguments.script, OutputKind::kShellScript, rules).in("--script"));
  }
  ThreadPool pool;
  ProgressLine progress(session.quiet);
  auto report = find_duplicates(collection, arguments.duplicates, pool, progress.callback(),
                                session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  if (!arguments.html.empty()) {
    DuplicatesPageOptions options;
    options.collection = collection.folder().string();
    options.limits.processes = session.decoders.start(session.messages);
    ProgressLine drawing(session.quiet);
    SACCADE_ASSIGN(const std::string page, duplicates_page(*report, options, pool, drawing.callback(),
                                                           session.interrupts.stop_cleanly()));
    SACCADE_TRY(write_output(arguments.html, OutputKind::kHtml, rules, page).in("page"));
  }
  if (!arguments.script.empty()) {
    SACCADE_TRY(write_output(arguments.script, OutputKind::kShellScript, rules, duplicates_script(*report))
                    .in("--script"));
  }
  if (arguments.json) {
    Json json = {{"collection", arguments.collection}};
    json.update(duplicates_json(*report));
    SACCADE_TRY(session.out.write_json(json));
  } else {
    SACCADE_TRY(session.out.write(duplicates_text(*report)));
  }
  return kDone;
}

Result<int> run_merge(const CollectionArguments& arguments, Session& session) {
  SACCADE_ASSIGN(CollectionWriter collection, CollectionWriter::open(arguments.collection));
  MergeReport all;
  for (const std::string& other : arguments.paths) {
    SACCADE_ASSIGN(const CollectionReader from, CollectionReader::open(other));
    ProgressLine progress(session.quiet);
    auto report = merge_collection(collection, from, progress.callback(), session.interrupts.stop_cleanly());
    progress.clear();
    if (!report) return fail(std::move(report).error());
    all.added += report->added;
    all.same += report->same;
    all.different += report->different;
    all.stayed_out += report->stayed_out;
  }
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json({{"collection", arguments.collection},
                                        {"added", all.added},
                                        {"same", all.same},
                                        {"different", all.different},
                                        {"stayed_out", all.stayed_out}}));
    return kDone;
  }
  std::string text = fmt::format("{} added", counted(all.added, "image"));
  if (all.same > 0) text += fmt::format(", {} there already", count_text(all.same));
  if (all.different > 0)
    text += fmt::format(", {} there with another content, which stays", count_text(all.different));
  if (all.stayed_out > 0)
    text += fmt::format(", {} left out (removed from this collection before)", count_text(all.stayed_out));
  SACCADE_TRY(session.out.write(text + "\n"));
  return kDone;
}

Result<int> run_export(const CollectionArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const CollectionReader collection, CollectionReader::open(arguments.collection));
  SACCADE_TRY(check_output_folder(arguments.folder, {.closed = {arguments.collection}}).in("export"));
  SACCADE_ASSIGN(const int64_t items, export_collection(collection, arguments.folder));
  int64_t changed = 0;
  if (collection.index() == nullptr) {  // a cluster holds no other paths
    SACCADE_TRY(collection.for_each_item([&](const Item& item) {
      changed += to_valid_utf8(item.path) == item.path ? 0 : 1;
      return Status{};
    }));
  }
  if (changed > 0) {
    session.messages.warning(fmt::format(
        "{} not UTF-8 and written with U+FFFD, as JSON holds no other bytes: an import does not find the "
        "{}",
        changed == 1 ? "1 path is" : fmt::format("{} paths are", count_text(changed)),
        changed == 1 ? "file" : "files"));
  }
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(
        {{"collection", arguments.collection}, {"folder", arguments.folder}, {"items", items}}));
  } else {
    SACCADE_TRY(session.out.write(
        fmt::format("{} written to {}\n", counted(items, "image"), one_line(arguments.folder))));
  }
  return kDone;
}

Result<int> run_import(const CollectionArguments& arguments, Session& session) {
  if (!is_collection(arguments.collection)) {
    if (arguments.checkpoint.empty()) {
      return fail(ErrorCode::kUsage,
                  "{}: a new collection: name the checkpoint that the rows were made with (-m)",
                  arguments.collection);
    }
    // Loaded, because only then it is known to be one, and how many columns it gives.
    SACCADE_ASSIGN(const LoadedEncoder loaded, load_checkpoint(arguments.checkpoint, {}, true));
    // Rows whose settings are not recorded are taken as exact.
    SACCADE_ASSIGN(const std::optional<IngestSettings> recorded, exported_settings(arguments.folder));
    const IngestSettings settings = recorded.value_or(IngestSettings());
    SACCADE_TRY(check_import(loaded.id, settings, arguments.folder));
    SACCADE_TRY(CollectionWriter::create(arguments.collection, loaded.id, settings));
  }
  SACCADE_ASSIGN(CollectionWriter collection, CollectionWriter::open(arguments.collection));
  ImportOptions options;
  options.no_files = arguments.no_files;
  options.limits = arguments.limits;
  if (!options.no_files)
    options.limits.processes = session.decoders.start(session.messages, options.limits.max_pixels);
  ThreadPool pool;
  ProgressLine progress(session.quiet);
  auto report = import_rows(collection, arguments.folder, options, pool, progress.callback(),
                            session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  // A folder is measured by its next `saccade index`. A class may never be indexed, as its images may be nowhere.
  if (weaviate::is_address(arguments.collection)) {
    auto core = EngineCore::open(core_options(arguments.collection, arguments.checkpoint, {}, session));
    if (core) {
      (*core)->refresh_calibration(session.interrupts.stop_cleanly());
    } else {
      session.messages.warning(core.error().message);
    }
  }
  if (arguments.json) {
    Json failed = Json::array();
    for (const Failure& failure : report->failed) failed.push_back(failure_json(failure));
    SACCADE_TRY(session.out.write_json({{"collection", arguments.collection},
                                        {"added", report->added},
                                        {"same", report->same},
                                        {"stayed_out", report->stayed_out},
                                        {"failed", std::move(failed)}}));
  } else {
    std::string text = fmt::format("{} added", counted(report->added, "image"));
    if (report->same > 0) text += fmt::format(", {} there already", count_text(report->same));
    if (report->stayed_out > 0)
      text +=
          fmt::format(", {} left out (removed from this collection before)", count_text(report->stayed_out));
    text += "\n";
    for (const Failure& failure : report->failed) {
      text += fmt::format("             {}\n", failure_text(failure));
    }
    SACCADE_TRY(session.out.write(text));
  }
  return report->failed.empty() ? kDone : kSomeFailed;
}

using Run = Result<int> (*)(const CollectionArguments&, Session&);

CLI::App* add_part(CLI::App* group, const std::string& name, const std::string& what,
                   const std::shared_ptr<CollectionArguments>& arguments, Command& chosen, Run run,
                   CollectionKinds kinds = CollectionKinds::kAny) {
  CLI::App* command = group->add_subcommand(name, what);
  add_collection_option(*command, arguments->collection, kinds);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  command->callback([arguments, &chosen, run] {
    chosen = [arguments, run](Session& session) -> Result<int> {
      SACCADE_TRY(settle_collection(arguments->collection, session.messages));
      return run(*arguments, session);
    };
  });
  return command;
}

}  // namespace

void add_collection_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<CollectionArguments>();
  CLI::App* group = app.add_subcommand("collection", "Inspect, check and maintain a collection");
  group->require_subcommand(1);
  add_part(group, "info", "Show what is in a collection", arguments, chosen, run_info)
      ->add_flag("--failures", arguments->failures, "list the files that could not be indexed");
  add_part(group, "verify", "Check a collection for damage; exit code 1 if there is any", arguments, chosen,
           run_verify)
      ->add_flag("--deep", arguments->deep,
                 "also read all image files and compare their hashes; only of a collection in a folder");
  CLI::App* remove = add_part(group, "remove", "Remove images from a collection; their files stay", arguments,
                              chosen, run_remove);
  remove->add_option("PATH", arguments->paths, "files to remove, or folders with everything below them");
  remove->add_option("--id", arguments->ids, "ids of images to remove")->transform(whole_number(1));
  remove->add_flag("--forget", arguments->forget,
                   "undo earlier removals: images removed at or below PATH may be indexed again");
  remove->add_option("--filter", arguments->filter,
                     "remove all images that meet this condition (see saccade help filters)");
  CLI::App* duplicates = add_part(group, "duplicates", "Find duplicate images; nothing is deleted", arguments,
                                  chosen, run_duplicates, CollectionKinds::kFolder);
  add_choice(
      *duplicates, "--min-likeness", arguments->duplicates.least,
      "minimum likeness: identical bytes, the same image in another form (default), or images of one burst");
  add_old_name(*duplicates, "--min-likeness", "--least");
  add_number(*duplicates, "--seconds", arguments->duplicates.burst_seconds, whole_number(0),
             "maximum time between two images of a burst, in seconds");
  duplicates->add_option("--html", arguments->html, "HTML file to write, showing the groups");
  duplicates->add_option(
      "--script", arguments->script,
      "shell script to write, which removes all but the best image of each group; read it before you run it");
  add_overwrite_option(*duplicates, arguments->overwrite);
  add_decode_options(*duplicates);
  add_part(group, "merge", "Add the images of other collections of the same checkpoint", arguments, chosen,
           run_merge)
      ->add_option("OTHER", arguments->paths, "folders of the other collections, which are not changed")
      ->required();
  add_part(group, "export", "Write embeddings and items to files that other programs can read", arguments,
           chosen, run_export)
      ->add_option("FOLDER", arguments->folder,
                   "folder to write to; must be missing or empty (see saccade help exchange)")
      ->required();
  CLI::App* import =
      add_part(group, "import", "Add embeddings that another program made with the same checkpoint",
               arguments, chosen, run_import);
  import
      ->add_option("FOLDER", arguments->folder,
                   "folder with rows.npy and items.jsonl (see saccade help exchange)")
      ->required();
  import->add_option(
      "-m,--model", arguments->checkpoint,
      std::string(kCheckpointHelp) + "; the one that made the embeddings, required if the collection is new");
  import->add_flag(
      "--no-files", arguments->no_files,
      "import without the images' files: none is looked for, and metadata that items.jsonl lacks stays "
      "unknown");
  add_decode_options(*import, arguments->limits);
  CLI::App* composer = add_part(group, "composer", "Set the composer for queries of an image and a text",
                                arguments, chosen, run_composer);
  CLI::Option* folder = composer->add_option(
      "COMPOSER", arguments->composer,
      "folder of a trained composer, or starter for the one that comes with Saccade (default: show the "
      "current one)");
  composer
      ->add_flag(
          "--if-better", arguments->if_better,
          "set it only if it beats the sum on this collection's captions that differ in one word, else set none")
      ->needs(folder);
  composer->add_flag("--none", arguments->none, "use no composer: image and text are added")
      ->excludes(folder);
  CLI::App* ann =
      add_part(group, "ann", "Build an approximate index, which makes searches in large collections faster",
               arguments, chosen, run_ann, CollectionKinds::kFolder);
  add_number(
      *ann, "--recall", arguments->approximate.recall,
      real_number(0, 1, Lowest::kExcluded, Highest::kExcluded),
      "share of the best 10 that searches should find, above 0 and below 1; the build finds the effort for it");
  add_number(*ann, "--from", arguments->approximate.from, whole_number(0),
             "number of images from which searches use the index; below it they are exact");
  ann->add_option(
         "--lists", arguments->approximate.lists.lists,
         "number of lists that images are divided into (default: four times the square root of their number)")
      ->transform(whole_number(1));
  ann->add_flag("--none", arguments->none, "remove the index: all searches are exact");
  add_part(group, "compact", "Free the space of removed images", arguments, chosen, run_compact);
  add_collection_reencode_command(*group, chosen);
}

}  // namespace saccade::app
