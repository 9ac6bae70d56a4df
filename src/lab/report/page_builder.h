// Builder for the sections of a report: tables and charts with their data, numbered through the page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/report/chart.h"
#include "lab/report/table.h"

namespace saccade::lab {

class PageBuilder {
 public:
  // Without charts, their data are shown as tables.
  explicit PageBuilder(bool charts) : charts_(charts) {}

  // Returns the table, its caption and its buttons for saving.
  std::string table(const Table& table);
  // Returns a figure with the chart, its caption, and its data for saving.
  std::string chart(const Chart& chart);
  // Returns the tables so far, without those of charts.
  [[nodiscard]] const std::vector<Table>& tables() const { return shown_; }

 private:
  std::string data_script(const Table& table, std::string& id);

  bool charts_;
  int tables_ = 0;
  std::vector<Table> shown_;
};

// Returns the page's own script: light and dark, saving tables, and drawing charts if their scripts are
// included.
std::string_view page_script();
// Returns the style of reports, which is appended to page_style().
std::string_view report_style();

}  // namespace saccade::lab
