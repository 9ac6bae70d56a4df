#include "lab/report/tables_text.h"

#include <cmath>

#include <gtest/gtest.h>

namespace saccade::lab {
namespace {

Table sample() {
  Table table;
  table.name = "result";
  table.caption = "50% of <all> & more";
  table.columns = {text_column("model_a | b", "model"), figure_column("R@1", "r1"), number_column("n")};
  Cell best = figure_cell(0.5, 0.25, 0.75, Unit::kShare);
  best.html = "<b>0.500</b> <small>[0.250, 0.750]</small>";
  table.rows.push_back({text_cell("=a&b_\"c\""), best, count_cell(1234)});
  table.rows.push_back({text_cell("x|y"), figure_cell(NAN, NAN, NAN, Unit::kShare), count_cell(2)});
  return table;
}

TEST(TablesText, Markdown) {
  const Table tables[] = {sample()};
  EXPECT_EQ(tables_text(tables, TableFormat::kMarkdown),
            "50% of \\<all> & more\n\n"
            "| model\\_a \\| b | R@1 | n |\n"
            "| --- | ---: | ---: |\n"
            "| =a&b\\_\"c\" | **0.500** \\[0.250, 0.750] | 1,234 |\n"
            "| x\\|y | \xE2\x80\x93 | 2 |\n");
}

TEST(TablesText, Latex) {
  const Table tables[] = {sample()};
  EXPECT_EQ(tables_text(tables, TableFormat::kLatex),
            "\\begin{table}\n\\centering\n\\caption{50\\% of <all> \\& more}\n"
            "\\begin{tabular}{lrr}\n\\toprule\n"
            "model\\_a | b & R@1 & n \\\\\n\\midrule\n"
            "=a\\&b\\_\"c\" & \\textbf{0.500} [0.250, 0.750] & 1,234 \\\\\n"
            "x|y & -- & 2 \\\\\n"
            "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

TEST(TablesText, Csv) {
  const Table tables[] = {sample(), sample()};
  const std::string one =
      "# result\nmodel,r1,r1_low,r1_high,n\n"
      "\"'=a&b_\"\"c\"\"\",0.5,0.25,0.75,1234\n"
      "x|y,,,,2\n";
  EXPECT_EQ(tables_text(tables, TableFormat::kCsv), one + "\n" + one);
  EXPECT_EQ(tables_text({}, TableFormat::kCsv), "");
}

}  // namespace
}  // namespace saccade::lab
