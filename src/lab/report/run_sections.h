// The sections of a report, one file each; run_page.cc combines them.
#pragma once

#include <stop_token>
#include <string>
#include <variant>

#include <fmt/format.h>

#include "lab/eval/study/leaderboard.h"
#include "lab/report/page_builder.h"
#include "lab/report/report_data.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/pages/html.h"
#include "saccade/progress.h"

namespace saccade::lab {

// The sections. Each is empty if the runs have no data for it.
// The leaderboard that opens the page of a study.
std::string leaderboard_section(const Leaderboard& board, const ReportData& data, PageBuilder& page);
// The table and the chart that open the page.
std::string overview_section(const ReportData& data, PageBuilder& page);
std::string answers_section(const ReportData& data, PageBuilder& page);
std::string protocol_section(const ReportData& data);
std::string retrieval_section(const ReportData& data, PageBuilder& page);
std::string rerank_section(const ReportData& data, PageBuilder& page);
Result<std::string> examples_section(const ReportData& data, const RunPageOptions& options, ThreadPool& pool,
                                     const ProgressCallback& progress, const std::stop_token& stop);
Result<std::string> composed_section(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                     ThreadPool& pool, const ProgressCallback& progress,
                                     const std::stop_token& stop);
// Returns the part of it that shows queries with their images.
Result<std::string> composed_examples(const ReportData& data, const RunPageOptions& options, ThreadPool& pool,
                                      const ProgressCallback& progress, const std::stop_token& stop);
std::string edits_section(const ReportData& data, PageBuilder& page);
std::string composition_section(const ReportData& data, PageBuilder& page);
std::string matches_section(const ReportData& data, PageBuilder& page);
std::string speed_section(const ReportData& data, PageBuilder& page);
Result<std::string> heads_section(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                  ThreadPool& pool, const ProgressCallback& progress,
                                  const std::stop_token& stop);
std::string length_section(const ReportData& data, PageBuilder& page);
Result<std::string> visualness_section(const ReportData& data, PageBuilder& page);
Result<std::string> maps_section(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                 ThreadPool& pool, const ProgressCallback& progress,
                                 const std::stop_token& stop);
std::string training_section(const ReportData& data, PageBuilder& page);

// Returns part(run, metrics, dataset's name) for every dataset of the runs with these metrics, under its name.
// Datasets whose part is empty are left out.
template <typename Metrics, typename Part>
std::string dataset_parts(const ReportData& data, const Part& part) {
  std::string html;
  for (const LoadedRun& run : data.runs) {
    const auto* metrics = std::get_if<Metrics>(&run.metrics);
    if (metrics == nullptr) continue;
    for (const RunDataset& dataset : run.run->info.datasets) {
      const std::string own = part(run, *metrics, dataset.name);
      if (!own.empty()) html += fmt::format("<h3>{}</h3>\n{}", escape_html(dataset.name), own);
    }
  }
  return html;
}

}  // namespace saccade::lab
