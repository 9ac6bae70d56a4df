// Tables of figures: as HTML, and as JSON inside the page, from which its script makes files to save.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// A column as displayed, and its columns in a saved file: a figure with its interval has three.
struct Column {
  std::string heading;
  std::vector<std::string> keys;
  bool number = true;  // set flush right
};
// key: of the saved file; empty takes the heading.
Column text_column(const std::string& heading, const std::string& key = "");
Column number_column(const std::string& heading, const std::string& key = "");
Column figure_column(const std::string& heading, const std::string& key = "");  // key, key_low, key_high

struct Cell {
  std::string html;
  std::vector<Json> values;  // one a key of its column
};

enum class Unit {
  kShare,   // from 0 to 1, with three digits, as everywhere else
  kNumber,  // as they are, with as many digits as help
};

Cell text_cell(std::string_view text);
// Returns a cell that displays `shown` (escaped here) and saves `text`.
Cell text_cell(std::string_view text, std::string_view shown);
Cell count_cell(int64_t count);
// Returns a cell with a number. NaN is shown as a dash and saved as an empty field.
Cell number_cell(double value, Unit unit = Unit::kNumber);
template <std::integral T>
Cell number_cell(T value) {
  Cell cell = number_cell(static_cast<double>(value));
  cell.values = {static_cast<int64_t>(value)};  // saved without a point
  return cell;
}
Cell figure_cell(double value, double low, double high, Unit unit);
// The same of a run's figure or difference; nullptr: there is none.
Cell figure_cell(const Figure* figure, Unit unit);
Cell figure_cell(const Difference* difference, Unit unit);

// Returns "43.2" and the like; "-" for NaN.
std::string number_text(double value, Unit unit);

struct Table {
  std::string name;     // name of saved files, "retrieval-ucm"; made plain
  std::string caption;  // may be empty
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

// Returns {"name", "columns": [key, ...], "rows": [[value, ...], ...]}.
Json table_json(const Table& table);
// Returns the table inside a scrolling box.
std::string table_html(const Table& table);
// Returns a caption with a table's buttons, which save the content of <script id="ID"> as CSV or JSON.
std::string save_buttons(std::string_view id);

// Returns object[key] as a number, NaN if it is missing or not a number.
double json_number(const Json& object, std::string_view key);
// Returns object[key] as text; empty if it is not a string.
std::string json_text(const Json& object, std::string_view key);

}  // namespace saccade::lab
