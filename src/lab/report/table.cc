#include "lab/report/table.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

Json number_json(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

// Keeps letters, digits and dashes, so that the result is a valid file name everywhere.
std::string plain_name(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (is_ascii_alphanumeric(c) || c == '_') {
      result += c;
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
  }
  while (!result.empty() && result.back() == '-') result.pop_back();
  return result.substr(0, 80);
}

}  // namespace

Column text_column(const std::string& heading, const std::string& key) {
  return Column{heading, {key.empty() ? heading : key}, false};
}

Column number_column(const std::string& heading, const std::string& key) {
  return Column{heading, {key.empty() ? heading : key}, true};
}

Column figure_column(const std::string& heading, const std::string& key) {
  const std::string& saved = key.empty() ? heading : key;
  return Column{heading, {saved, saved + "_low", saved + "_high"}, true};
}

Cell text_cell(std::string_view text) {
  return text_cell(text, text);
}

Cell text_cell(std::string_view text, std::string_view shown) {
  return Cell{escape_html(shown), {std::string(text)}};
}

Cell count_cell(int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    text += digits[i];
    const size_t left = digits.size() - 1 - i;
    if (left > 0 && left % 3 == 0 && digits[i] != '-') text += ',';
  }
  return Cell{text, {count}};
}

std::string number_text(double value, Unit unit) {
  if (!std::isfinite(value)) return "\xE2\x80\x93";  // a dash
  if (unit == Unit::kShare || (std::abs(value) < 10 && value != std::floor(value)))
    return three_digits(value);
  const double size = std::abs(value);
  if (value == std::floor(value) && size < 1e6) return fmt::format("{:.0f}", value + 0.0);  // no "-0"
  if (size >= 1000) return fmt::format("{:.0f}", value);
  if (size >= 100) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

Cell number_cell(double value, Unit unit) {
  return Cell{number_text(value, unit), {number_json(value)}};
}

Cell figure_cell(double value, double low, double high, Unit unit) {
  std::string html = number_text(value, unit);
  if (std::isfinite(low) && std::isfinite(high)) {
    html += fmt::format(" <small>[{}, {}]</small>", number_text(low, unit), number_text(high, unit));
  }
  return Cell{std::move(html), {number_json(value), number_json(low), number_json(high)}};
}

Cell figure_cell(const Figure* figure, Unit unit) {
  if (figure == nullptr) return figure_cell(Figure::kNone, Figure::kNone, Figure::kNone, unit);
  // CSV and JSON have Wilson's end too: the interval of resamples has no width where there is one.
  Cell cell = figure_cell(figure->value, figure->shown_low(), figure->shown_high(), unit);
  for (const double end : {figure->wilson_high, figure->wilson_low}) {
    if (!std::isfinite(end)) continue;
    cell.html = fmt::format("{} <small>[Wilson {}]</small>", number_text(figure->value, unit),
                            number_text(end, unit));
  }
  return cell;
}

Cell figure_cell(const Difference* difference, Unit unit) {
  return figure_cell(difference == nullptr ? nullptr : &difference->figure, unit);
}

Json table_json(const Table& table) {
  Json columns = Json::array();
  for (const Column& column : table.columns) {
    for (const std::string& key : column.keys) columns.push_back(key);
  }
  Json rows = Json::array();
  for (const std::vector<Cell>& cells : table.rows) {
    Json row = Json::array();
    for (const Cell& cell : cells) {
      for (const Json& value : cell.values) row.push_back(value);
    }
    rows.push_back(std::move(row));
  }
  return {{"name", plain_name(table.name)}, {"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

std::string table_html(const Table& table) {
  // Keys can only scroll a box that can have the focus.
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>\n<thead><tr>",
      escape_html(table.caption.empty() ? table.name : table.caption));
  const auto kind = [](const Column& column) { return column.number ? " class=\"n\"" : ""; };
  for (const Column& column : table.columns) {
    html += fmt::format("<th scope=\"col\"{}>{}</th>", kind(column), escape_html(column.heading));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& cells : table.rows) {
    html += "<tr>";
    for (size_t i = 0; i < cells.size() && i < table.columns.size(); ++i) {
      html += fmt::format("<td{}>{}</td>", kind(table.columns[i]), cells[i].html);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string save_buttons(std::string_view id) {
  return fmt::format(
      "<span class=\"save\">save: <button type=\"button\" data-save=\"csv\" data-table=\"{0}\">CSV</button> "
      "<button type=\"button\" data-save=\"json\" data-table=\"{0}\">JSON</button></span>",
      id);
}

double json_number(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string json_text(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace saccade::lab
