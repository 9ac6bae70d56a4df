// What the sections of a report are built with: tables and charts with their data, numbered through the page.
#pragma once

#include <string>
#include <string_view>

#include "lab/report/chart.h"
#include "lab/report/table.h"

namespace saccade::lab {

class PageBuilder {
 public:
  // Without charts their data are tables.
  explicit PageBuilder(bool charts) : charts_(charts) {}

  // The table, its caption and what saves it.
  std::string table(const Table& table);
  // A figure with the chart, its words, and its data to be saved.
  std::string chart(const Chart& chart);

 private:
  std::string data_script(const Table& table, std::string& id);

  bool charts_;
  int tables_ = 0;
};

// The page's own script: light and dark, saving tables, and drawing charts where their scripts are there.
std::string_view page_script();
// The style of reports, behind page_style().
std::string_view report_style();

}  // namespace saccade::lab
