#include "lab/report/tables_text.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace saccade::lab {
namespace {

// A cell as it is shown, without its markup.
struct ShownCell {
  std::string text;
  bool bold = false;
};

ShownCell shown_cell(const Cell& cell) {
  ShownCell result;
  for (size_t i = 0; i < cell.html.size(); ++i) {
    if (cell.html[i] == '<') {
      const size_t end = cell.html.find('>', i);
      if (end == std::string::npos) break;
      result.bold = result.bold || cell.html.substr(i, end - i + 1) == "<b>";
      i = end;
      continue;
    }
    if (cell.html[i] == '&') {
      constexpr std::pair<std::string_view, char> kEscapes[] = {
          {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}};
      bool known = false;
      for (const auto& [escape, sign] : kEscapes) {
        if (std::string_view(cell.html).substr(i).starts_with(escape)) {
          result.text += sign;
          i += escape.size() - 1;
          known = true;
          break;
        }
      }
      if (known) continue;
    }
    result.text += cell.html[i];
  }
  return result;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string latex_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '\\':
        result += "\\textbackslash{}";
        break;
      case '~':
        result += "\\textasciitilde{}";
        break;
      case '^':
        result += "\\textasciicircum{}";
        break;
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}':
        result += '\\';
        result += c;
        break;
      case '\n':
      case '\r':
        result += ' ';
        break;
      default:
        result += c;
    }
  }
  // Signs of the tables' own that LaTeX's text fonts lack.
  result = replaced(std::move(result), "\xE2\x89\x88", "$\\approx$");
  result = replaced(std::move(result), "\xE2\x86\x92", "$\\rightarrow$");
  result = replaced(std::move(result), "\xE2\x88\x92", "$-$");
  return replaced(std::move(result), "\xE2\x80\x93", "--");
}

std::string latex_table(const Table& table) {
  std::string text = "\\begin{table}\n\\centering\n";
  if (!table.caption.empty()) text += fmt::format("\\caption{{{}}}\n", latex_text(table.caption));
  std::string kinds;
  std::string heading;
  for (const Column& column : table.columns) {
    kinds += column.number ? 'r' : 'l';
    heading += (heading.empty() ? "" : " & ") + latex_text(column.heading);
  }
  text += fmt::format("\\begin{{tabular}}{{{}}}\n\\toprule\n{} \\\\\n\\midrule\n", kinds, heading);
  for (const std::vector<Cell>& row : table.rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const ShownCell cell = shown_cell(row[i]);
      std::string words = latex_text(cell.text);
      if (cell.bold) {
        // The value alone is bold, not its interval.
        const size_t end = words.find(" [");
        words = fmt::format("\\textbf{{{}}}{}", words.substr(0, end),
                            end == std::string::npos ? "" : words.substr(end));
      }
      line += (i == 0 ? "" : " & ") + words;
    }
    text += line + " \\\\\n";
  }
  return text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n";
}

std::string markdown_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '\\' || c == '*' || c == '_' || c == '`' || c == '<' || c == '[') result += '\\';
    result += c == '\n' || c == '\r' ? ' ' : c;
  }
  return result;
}

std::string markdown_table(const Table& table) {
  std::string text;
  if (!table.caption.empty()) text += markdown_text(table.caption) + "\n\n";
  std::string rule;
  for (const Column& column : table.columns) {
    text += "| " + markdown_text(column.heading) + " ";
    rule += column.number ? "| ---: " : "| --- ";
  }
  text += "|\n" + rule + "|\n";
  for (const std::vector<Cell>& row : table.rows) {
    for (const Cell& one : row) {
      const ShownCell cell = shown_cell(one);
      std::string words = markdown_text(cell.text);
      if (cell.bold) {
        const size_t end = words.find(" \\[");
        words = "**" + words.substr(0, end) + "**" + (end == std::string::npos ? "" : words.substr(end));
      }
      text += "| " + words + " ";
    }
    text += "|\n";
  }
  return text;
}

std::string csv_cell(const Json& value) {
  if (value.is_null()) return {};
  if (!value.is_string()) return dump_json(value);
  auto text = value.get<std::string>();
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool formula =
      first != std::string::npos && (std::string_view("=+-@").find(text[first]) != std::string_view::npos ||
                                     text[0] == '\t' || text[0] == '\r' || text[0] == '\n');
  if (formula) text.insert(text.begin(), '\'');
  if (text.find_first_of("\",\r\n") == std::string::npos) return text;
  return fmt::format("\"{}\"", replaced(std::move(text), "\"", "\"\""));
}

std::string csv_table(const Table& table) {
  const Json json = table_json(table);
  std::string text = fmt::format("# {}\n", json["name"].get<std::string>());
  const auto line = [&](const Json& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) text += ',';
      text += csv_cell(cells[i]);
    }
    text += "\n";
  };
  line(json["columns"]);
  for (const Json& row : json["rows"]) line(row);
  return text;
}

}  // namespace

std::string tables_text(std::span<const Table> tables, TableFormat format) {
  std::string text;
  for (const Table& table : tables) {
    if (!text.empty()) text += "\n";
    text += format == TableFormat::kLatex ? latex_table(table)
            : format == TableFormat::kCsv ? csv_table(table)
                                          : markdown_table(table);
  }
  return text;
}

}  // namespace saccade::lab
