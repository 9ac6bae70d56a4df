#include "lab/report/page_builder.h"

#include <fmt/format.h>

#include "saccade/pages/html.h"

namespace saccade::lab {

std::string PageBuilder::data_script(const Table& table, std::string& id) {
  id = fmt::format("t{}", ++tables_);
  return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id,
                     script_json(table_json(table)));
}

std::string PageBuilder::table(const Table& table) {
  shown_.push_back(table);
  std::string id;
  const std::string data = data_script(table, id);
  return fmt::format("<div class=\"table\"><p class=\"caption\"><span>{}</span>{}</p>\n{}{}</div>\n",
                     escape_html(table.caption), save_buttons(id), table_html(table), data);
}

std::string PageBuilder::chart(const Chart& chart) {
  Table data = chart.data;
  if (data.caption.empty()) data.caption = chart.title;
  if (!charts_) {
    return fmt::format(
        "<details class=\"figures\"><summary>{}</summary><p class=\"soft\">{}</p>\n{}</details>\n",
        escape_html(chart.title), escape_html(chart.words), table(data));
  }
  std::string id;
  const std::string script = data_script(data, id);
  std::string legend;
  for (const Series& series : chart.legend) {
    legend += fmt::format("<li><i style=\"background:var(--s{})\"></i>{}</li>", series.colour % 8,
                          escape_html(series.name));
  }
  if (!legend.empty()) legend = "<ul class=\"legend\">" + legend + "</ul>\n";
  const std::string rows =
      chart.table ? fmt::format("<details class=\"figures\"><summary>as a table</summary>\n{}</details>\n",
                                table_html(data))
                  : std::string();
  return fmt::format(
      "<figure data-chart=\"{0}\"><figcaption><h4>{1}</h4><p class=\"soft\">{2}</p></figcaption>\n{3}"
      "<div class=\"plot{4}\" role=\"img\" aria-label=\"{1}\"></div>\n"
      "<script type=\"application/json\" class=\"spec\">{5}</script>\n{6}{7}<p "
      "class=\"foot\">{8}</p></figure>\n",
      id, escape_html(chart.title), escape_html(chart.words), legend, chart.square ? " square" : "",
      script_json(chart.spec), script, rows, save_buttons(id));
}

}  // namespace saccade::lab
