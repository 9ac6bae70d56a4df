// saccade report: runs as one page for people.
#include "command_report.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/report/leaderboard_table.h"
#include "lab/report/run_page.h"
#include "lab/report/tables_text.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/output_file.h"

#include "choice.h"
#include "lab_commands.h"
#include "number.h"
#include "outputs.h"

namespace saccade::lab::app {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output;
  std::string charts;
  bool no_charts = false;
  bool overwrite = false;
  std::optional<TableFormat> tables;  // in place of a page
  RunPageOptions page;
};

}  // namespace

Result<std::string> chart_script(const std::string& named) {
  std::vector<std::filesystem::path> places;
  if (!named.empty()) {
    places.emplace_back(named);
  } else {
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (!error) {
      places.push_back(program.parent_path().parent_path() / "share" / "saccade" / "report" / "charts.js");
    }
    if (std::filesystem::path charts = SACCADE_SOURCE_CHARTS; !charts.empty())
      places.push_back(std::move(charts));
  }
  for (const std::filesystem::path& place : places) {
    std::error_code error;
    if (std::filesystem::exists(place, error)) return read_file(place, int64_t{64} << 20);
  }
  return fail(
      ErrorCode::kNotFound,
      "no script that draws charts in {}: `./dev build` fetches and makes it; --no-charts makes a page "
      "of tables without",
      places.empty() ? "share/saccade/report" : places.back().string());
}

namespace {

// The tables alone, on stdout or in a file.
Result<int> run_report_tables(const ReportArguments& arguments, Session& session) {
  const OutputRules rules{.overwrite = arguments.overwrite};
  const bool to_file = !arguments.output.empty();
  if (to_file) SACCADE_TRY(check_output(arguments.output, OutputKind::kDocument, rules).in("tables"));
  SACCADE_ASSIGN(const ReportInputs inputs, read_report_inputs(arguments.runs));
  SACCADE_ASSIGN(std::vector<Table> tables, run_tables(inputs.folders));
  if (inputs.leaderboard) tables.insert(tables.begin(), leaderboard_table(*inputs.leaderboard));
  const std::string text = tables_text(tables, *arguments.tables);
  if (!to_file) {
    SACCADE_TRY(session.out.write(text));
    return kDone;
  }
  SACCADE_TRY(write_output(arguments.output, OutputKind::kDocument, rules, text).in("tables"));
  SACCADE_TRY(session.out.write(
      fmt::format("{} in {}\n", counted(std::ssize(tables), "table"), one_line(arguments.output))));
  return kDone;
}

Result<int> run_report(const ReportArguments& arguments, Session& session) {
  if (arguments.tables) return run_report_tables(arguments, session);
  if (arguments.output.empty()) {
    return fail(ErrorCode::kUsage, "name the page's file with -o, or print tables with --format");
  }
  // A page may lie in the folder of a run: a run's own files are no pages.
  const OutputRules rules{.inputs = {arguments.charts}, .overwrite = arguments.overwrite};
  SACCADE_TRY(check_output(arguments.output, OutputKind::kHtml, rules).in("page"));
  RunPageOptions options = arguments.page;
  if (options.examples > 0) options.limits.processes = session.decoders.start(session.messages);
  // Checks that are quick run before the maps are made.
  if (!arguments.no_charts) {
    SACCADE_ASSIGN(options.chart_script, chart_script(arguments.charts));
  }
  SACCADE_ASSIGN(const ReportInputs inputs, read_report_inputs(arguments.runs));
  if (inputs.leaderboard) options.leaderboard = &*inputs.leaderboard;
  ThreadPool pool;
  std::string html;
  {
    ProgressLine progress(session.quiet);
    SACCADE_ASSIGN(html, run_page(inputs.folders, options, pool, progress.callback(),
                                  session.interrupts.stop_cleanly()));
  }
  SACCADE_TRY(write_output(arguments.output, OutputKind::kHtml, rules, html).in("page"));
  SACCADE_TRY(
      session.out.write(fmt::format("{} of {} in {}\n", size_text(std::ssize(html)),
                                    counted(std::ssize(inputs.folders), "run"), one_line(arguments.output))));
  return kDone;
}

}  // namespace

void add_report_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command =
      app.add_subcommand("report", "Make an HTML page of runs: tables, charts, best and worst queries, maps");
  command
      ->add_option("RUN", arguments->runs,
                   "run folders written by eval or train with -o, and the folder of an eval study")
      ->required();
  command->add_option("-o,--output", arguments->output,
                      "HTML file to write; with --format a file for the tables (default: standard output)");
  add_choice(
      *command, "--format", arguments->tables,
      "format in which to print the tables alone, instead of a page; the first is that of models by datasets");
  add_overwrite_option(*command, arguments->overwrite);
  command->add_option("--title", arguments->page.title, "title of the page")->capture_default_str();
  add_number(*command, "--examples", arguments->page.examples, whole_number(0, 100),
             "number of best and of worst queries to show for each model");
  add_number(*command, "--map-points", arguments->page.map_points, whole_number(0, 4000),
             "maximum number of images and texts on a map; 0: no maps");
  command->add_option("--charts", arguments->charts,
                      "file with the chart script (default: the one built with Saccade)");
  command->add_flag("--no-charts", arguments->no_charts, "show tables instead of charts");
  add_decode_options(*command);
  run_when_given(*command, chosen, arguments, run_report);
}

}  // namespace saccade::lab::app
