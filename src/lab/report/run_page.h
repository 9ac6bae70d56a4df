// A report: one self-contained HTML page of runs, with data, images and scripts inside.
#pragma once

#include <span>
#include <stop_token>
#include <string>

#include "lab/report/report_folder.h"
#include "lab/report/table.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/progress.h"

namespace saccade::lab {

// Returns the tables of a page, in its order: first that of models by datasets. Images are not read. Errors are those of
// reading the runs' files.
Result<std::vector<Table>> run_tables(std::span<const ReportFolder> folders);

// Makes the page: it opens with one table of models by datasets and one chart, the studies follow in detail, and protocols
// and hashes are folded at its end. The same runs make the same page. A missing image gets a tile that says so. `progress` may
// be called by the pool's threads, one at a time. Errors: kUsage if a chart script cannot be included in a
// page (it contains "</script", "<!--" or carriage returns); those of reading the runs' files, with the run's
// folder; kCancelled.
Result<std::string> run_page(std::span<const ReportFolder> folders, const RunPageOptions& options,
                             ThreadPool& pool, const ProgressCallback& progress = {},
                             std::stop_token stop = {});

}  // namespace saccade::lab
