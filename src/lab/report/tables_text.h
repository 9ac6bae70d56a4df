// Tables of a report as texts: for a paper, a spreadsheet, a document.
#pragma once

#include <array>
#include <span>
#include <string>

#include "lab/report/table.h"
#include "saccade/core/enum_names.h"

namespace saccade::lab {

enum class TableFormat {
  kLatex,  // tabular with booktabs' rules, in a table with its caption
  kCsv,    // RFC 4180; figures and the ends of their intervals in columns of their own, as in the saved files
  kMarkdown,  // pipe tables
};
inline constexpr std::array<EnumName<TableFormat>, 3> kTableFormatNames{
    {{TableFormat::kLatex, "latex"}, {TableFormat::kCsv, "csv"}, {TableFormat::kMarkdown, "markdown"}}};
inline std::span<const EnumName<TableFormat>> enum_names(TableFormat) {
  return kTableFormatNames;
}

// Returns all tables, one after the other with an empty line between them. As CSV each begins with a line of its name, "#
// result". Cells of CSV that a spreadsheet would take for a formula get an apostrophe in front.
std::string tables_text(std::span<const Table> tables, TableFormat format);

}  // namespace saccade::lab
