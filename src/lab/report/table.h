// Tables of figures: as HTML, and as JSON inside the page, from which its script makes files to save.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/json.h"

namespace saccade::lab {

// A column as people see it, and the columns it becomes in a saved file: a figure with its interval is three.
struct Column {
  std::string heading;
  std::vector<std::string> keys;
  bool number = true;  // set flush right
};
Column text_column(std::string heading, std::string key);
Column number_column(std::string heading, std::string key);
Column figure_column(std::string heading, const std::string& key);  // key, key_low, key_high

struct Cell {
  std::string html;
  std::vector<Json> values;  // one a key of its column
};

enum class Unit {
  kPercent,  // shares, shown times 100
  kNumber,   // as they are, with as many digits as help
};

Cell text_cell(std::string_view text);
// `shown` (escaped here) stands for the text that is saved.
Cell text_cell(std::string_view text, std::string_view shown);
Cell count_cell(int64_t count);
// NaN is shown as a dash and saved as nothing.
Cell number_cell(double value, Unit unit = Unit::kNumber);
Cell figure_cell(double value, double low, double high, Unit unit);
// {"value", "low", "high"} or {"difference", ...} of a run's
// metrics; whatever is missing, null or no number is NaN.
Cell figure_cell(const Json& figure, Unit unit);

// "43.2" and the like; "-" for NaN.
std::string number_text(double value, Unit unit);

struct Table {
  std::string name;     // of saved files, "retrieval-ucm"; made plain
  std::string caption;  // may be empty
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

// {"name", "columns": [key, ...], "rows": [[value, ...], ...]}
Json table_json(const Table& table);
// The table within a box of its own that scrolls.
std::string table_html(const Table& table);
// A caption of the kind above, and a table's buttons: save as CSV or JSON what <script id="ID"> holds.
std::string save_buttons(std::string_view id);

// object[key] as a number; NaN where it is missing or none. object[key] itself; null where it is missing.
double json_number(const Json& object, std::string_view key);
const Json& json_member(const Json& object, std::string_view key);
// The same as text; empty where it is no string.
std::string json_text(const Json& object, std::string_view key);

}  // namespace saccade::lab
