// saccade dataset fetch: the images of a table of URLs, downloaded into WebDataset shards.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lab/data/fetch/fetch_dataset.h"
#include "saccade/core/files/output_file.h"

#include "command_dataset.h"
#include "number.h"

namespace saccade::lab::app {
namespace {

struct FetchArguments {
  std::vector<std::string> tables;
  std::string output;
  FetchOptions options;
  bool json = false;
};

std::string fetch_text(const FetchReport& report, const std::string& output) {
  std::string text = fmt::format("{}: {} of {} in {}\n", one_line(output), counted(report.images, "image"),
                                 counted(report.rows, "row"), counted(report.shards, "shard"));
  text += fmt::format("fetched      {}, {}, in {}\n", counted(report.fetched, "image"),
                      counted(report.requests, "request"), duration_text(report.seconds));
  if (report.kept_shards > 0) {
    text += fmt::format("kept         {} from earlier runs\n", counted(report.kept_shards, "shard"));
  }
  if (report.failed > 0) {
    text += fmt::format("failed       {}; {} lists them\n", counted(report.failed, "row"),
                        one_line(report.list.string()));
  }
  for (const auto& [kind, count] : report.failures)
    text += fmt::format("             {:<12} {:>9}\n", kind, count_text(count));
  if (report.untried > 0) text += fmt::format("not done     {}\n", counted(report.untried, "row"));
  return text;
}

Result<int> run_fetch(const FetchArguments& arguments, Session& session) {
  FetchOptions options = arguments.options;
  options.tables.assign(arguments.tables.begin(), arguments.tables.end());
  options.folder = arguments.output;
  SACCADE_TRY(check_output_folder(options.folder, {}));
  options.processes = session.decoders.start(session.messages);
  const std::stop_token stop = session.interrupts.stop_cleanly();
  ProgressLine progress(session.quiet);
  auto report = fetch_dataset(options, progress.callback(), stop);
  progress.clear();
  if (!report) return fail(std::move(report).error());
  if (arguments.json) {
    Json json = fetch_report_json(*report);
    json["output"] = arguments.output;
    SACCADE_TRY(session.out.write_json(json));
  } else {
    SACCADE_TRY(session.out.write(fetch_text(*report, arguments.output)));
  }
  if (report->cancelled) {
    return fail(ErrorCode::kCancelled,
                "stopped; finished shards are kept, and the same command goes on from there");
  }
  return report->failed > 0 ? kSomeFailed : kDone;
}

void add_limits(CLI::App& command, FetchOptions& options) {
  add_number(command, "--connections", options.connections, whole_number(1, 1024),
             "maximum number of simultaneous requests, 1 to 1024");
  add_number(command, "--host-connections", options.limits.host_connections, whole_number(1, 1024),
             "maximum number of simultaneous requests to one host, 1 to 1024");
  add_number(command, "--rate", options.limits.rate, real_number(0, 1e6),
             "maximum number of requests per second, redirects included; 0: no limit");
  add_number(command, "--host-rate", options.limits.host_rate, real_number(0, 1e6),
             "maximum number of requests per second to the host of one URL; 0: no limit");
  add_number(command, "--timeout", options.seconds, real_number(0, 86'400, Lowest::kExcluded),
             "time limit of a request, redirects included, in seconds");
  command
      .add_option_function<int64_t>(
          "--max-size", [&options](const int64_t& mebibytes) { options.max_bytes = mebibytes << 20; },
          "maximum size of an image, in MiB, 1 to 1024")
      ->transform(whole_number(1, 1024))
      ->default_str(std::to_string(options.max_bytes >> 20));
  add_number(command, "--redirects", options.redirects, whole_number(0, 20),
             "maximum number of redirects of a request, 0 to 20");
  add_number(command, "--retries", options.retries, whole_number(0, 20),
             "number of further requests after a status 408, 429, 500, 502, 503 or 504, a timeout or a "
             "broken connection, 0 to 20");
  command.add_flag("--allow-private-networks", options.private_networks,
                   "also fetch from loopback, private and link-local addresses, which are refused otherwise");
}

}  // namespace

void add_dataset_fetch(CLI::App& group, Command& chosen) {
  auto arguments = std::make_shared<FetchArguments>();
  FetchOptions& options = arguments->options;
  CLI::App* command =
      group.add_subcommand("fetch", "Download the images of a table of URLs into WebDataset shards");
  command
      ->add_option("TABLE", arguments->tables,
                   "tables with a column of image URLs: CSV, TSV, JSON Lines (.jsonl) or Parquet (.parquet)")
      ->required();
  command
      ->add_option("-o,--output", arguments->output,
                   "folder to write; the same command resumes an interrupted run")
      ->required();
  command->add_option("--url-column", options.columns.url,
                      "column of the URLs (default: url, image_url or another usual name)");
  command->add_option(
      "--caption-column", options.columns.caption,
      "column of the captions (default: NAME if the URLs' column is NAME_image, else caption, text or another "
      "usual name, if there is one)");
  command->add_option("--id-column", options.columns.id,
                      "column of ids, which are written to each sample's JSON (default: none)");
  command
      ->add_option("--keep", options.columns.kept,
                   "further columns to write to each sample's JSON, such as license,width (default: none)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--columns", options.columns.header,
                   "names of all columns of a CSV or TSV file without a header, such as caption,url")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_number(*command, "--shard-size", options.rows_per_shard, whole_number(1, 1'000'000),
             "number of rows of a shard, 1 to 1000000");
  command->add_flag("--retry-failed", options.retry_failed,
                    "request the failed rows of finished shards again");
  add_limits(*command, options);
  add_decode_options(*command);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  run_when_given(*command, chosen, arguments, run_fetch);
}

}  // namespace saccade::lab::app
