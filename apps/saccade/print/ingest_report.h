// Reports of an ingest run for people.
#pragma once

#include <string>
#include <string_view>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/collection/ingest/ingest.h"

#include "console.h"

namespace saccade::app {

// Counts of a run with `options`, and one line per failure.
std::string report_text(const IngestReport& report, const IngestOptions& options,
                        const std::string& collection);

// "PATH: REASON", on one line, with the names of options in the reason.
std::string failure_text(const Failure& failure);

// Says so where there was nothing to take in; `input` is the first of the paths looked at.
void warn_of_no_pictures(const IngestReport& report, std::string_view input, Messages& messages);

}  // namespace saccade::app
