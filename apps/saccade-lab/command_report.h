// Shared code of commands that make a page like `saccade report`.
#pragma once

#include <string>

#include "saccade/core/error.h"

namespace saccade::lab::app {

// Returns the script that draws a page's charts: `named`, or, if that is empty,
// ../share/saccade/report/charts.js beside the program, or build/report/charts.js of the source tree it was
// built from. The message of kNotFound names the option to omit charts.
Result<std::string> chart_script(const std::string& named);

}  // namespace saccade::lab::app
