#include "lab/report/run_page.h"

#include <array>

#include <fmt/format.h>

#include "lab/report/run_sections.h"
#include "saccade/core/ascii.h"
#include "saccade/core/counts.h"
#include "saccade/pages/html.h"
#include "saccade/pages/page_style.h"

namespace saccade::lab {
namespace {

std::string navigation(const std::string& body) {
  struct Entry {
    std::string_view id;
    std::string_view name;
  };
  constexpr std::array kEntries = {
      Entry{"leaderboard", "Leaderboard"},
      Entry{"result", "Result"},
      Entry{"retrieval", "Retrieval"},
      Entry{"rerank", "Reranking"},
      Entry{"composition", "Composition"},
      Entry{"composed", "Composed search"},
      Entry{"edits", "Generated edits"},
      Entry{"heads", "Heads"},
      Entry{"answers", "Answers"},
      Entry{"matches", "Nothing matches"},
      Entry{"speed", "Speed"},
      Entry{"length", "Effective length"},
      Entry{"visualness", "Visualness"},
      Entry{"queries", "Best and worst"},
      Entry{"maps", "Maps"},
      Entry{"training", "Training"},
      Entry{"protocol", "Protocols"},
  };
  std::string html = "<nav aria-label=\"Sections\"><ul>\n";
  for (const Entry& entry : kEntries) {
    if (body.find(fmt::format("<section id=\"{}\"", entry.id)) == std::string::npos) continue;
    html += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", entry.id, entry.name);
  }
  return html + "</ul></nav>\n";
}

// The sections of a page: the result, then the details of each study, and the protocols last.
Result<std::string> page_sections(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                  ThreadPool& pool, const ProgressCallback& progress,
                                  const std::stop_token& stop) {
  std::string body =
      options.leaderboard == nullptr ? std::string() : leaderboard_section(*options.leaderboard, data, page);
  body += overview_section(data, page);
  body += retrieval_section(data, page);
  body += rerank_section(data, page);
  body += composition_section(data, page);
  SACCADE_ASSIGN(const std::string composed, composed_section(data, options, page, pool, progress, stop));
  body += composed;
  body += edits_section(data, page);
  SACCADE_ASSIGN(const std::string heads, heads_section(data, options, page, pool, progress, stop));
  body += heads;
  body += answers_section(data, page);
  body += matches_section(data, page);
  body += speed_section(data, page);
  body += length_section(data, page);
  SACCADE_ASSIGN(const std::string visualness, visualness_section(data, page));
  body += visualness;
  SACCADE_ASSIGN(const std::string examples, examples_section(data, options, pool, progress, stop));
  body += examples;
  SACCADE_ASSIGN(const std::string maps, maps_section(data, options, page, pool, progress, stop));
  body += maps;
  body += training_section(data, page);
  return body + protocol_section(data);
}

bool has_marks_of_scripts(std::string_view script) {
  const std::string lower = lower_ascii(script);
  return lower.find("</script") != std::string::npos || lower.find("<script") != std::string::npos ||
         lower.find("<!--") != std::string::npos;
}

// Returns a policy under which nothing is fetched, and only the scripts included here run. The text of a
// caption stays text, even if an escape were missing.
std::string security_policy(std::span<const std::string_view> scripts) {
  std::string policy =
      "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
      "form-action 'none'; script-src";
  for (const std::string_view script : scripts) policy += fmt::format(" '{}'", script_hash(script));
  return policy;
}

}  // namespace

Result<std::vector<Table>> run_tables(std::span<const ReportFolder> folders) {
  SACCADE_ASSIGN(const ReportData data, load_report_data(folders));
  RunPageOptions options;
  options.examples = 0;
  options.map_points = 0;
  PageBuilder page(true);
  ThreadPool pool(1);
  SACCADE_TRY(page_sections(data, options, page, pool, {}, {}));
  return page.tables();
}

Result<std::string> run_page(std::span<const ReportFolder> folders, const RunPageOptions& options,
                             ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop) {
  if (options.chart_script.find('\r') != std::string::npos) {
    return fail(ErrorCode::kUsage,
                "the charts' script has carriage returns, which browsers read as something else");
  }
  if (has_marks_of_scripts(options.chart_script)) {
    return fail(ErrorCode::kUsage,
                "the charts' script has \"<script\", \"</script\" or \"<!--\" in it, and cannot "
                "stand inside a page");
  }
  SACCADE_ASSIGN(const ReportData data, load_report_data(folders));
  PageBuilder page(!options.chart_script.empty());
  SACCADE_ASSIGN(const std::string body, page_sections(data, options, page, pool, progress, stop));

  std::vector<std::string_view> scripts;
  if (!options.chart_script.empty()) scripts.push_back(options.chart_script);
  scripts.push_back(page_script());
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<meta name=\"generator\" "
      "content=\"Saccade\">\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n<header><div><h1>{}</h1>\n"
      "<p class=\"soft\">{}</p></div>\n<button type=\"button\" id=\"theme\" hidden>light or dark</button>\n",
      security_policy(scripts), escape_html(options.title), page_style(), report_style(),
      escape_html(options.title), folders.size() == 1 ? "one run" : counted(std::ssize(folders), "run"));
  html += navigation(body) + "</header>\n<main>\n";
  html += body.empty() ? "<section><p class=\"note\">These runs hold nothing to show.</p></section>\n" : body;
  html += "</main>\n<footer>Made by Saccade. This page holds all it needs: nothing is fetched.</footer>\n";
  for (const std::string_view script : scripts) html += fmt::format("<script>{}</script>\n", script);
  return html + "</body>\n</html>\n";
}

}  // namespace saccade::lab
