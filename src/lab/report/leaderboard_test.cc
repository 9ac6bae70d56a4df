// Tests of a leaderboard's table and section: columns that were measured, shared ranks, and what is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/report/leaderboard_table.h"
#include "lab/report/run_sections.h"
#include "lab/report/tables_text.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

LeaderboardRow row(const std::string& model, std::optional<int64_t> rank, double r1) {
  LeaderboardRow one;
  one.rank = rank;
  one.model = model;
  one.parameters = 1'234'567;
  one.scored_by = model == "late" ? "maxsim" : "cosine";
  one.retrieval.t2i = {{.name = "r1", .value = r1, .low = r1 - 0.01, .high = r1 + 0.01}};
  one.gap = Difference{.figure = {.name = "r1", .value = 0.12, .low = 0.1, .high = 0.14},
                       .p_value = 0.01,
                       .significant = true};
  return one;
}

Leaderboard board() {
  Leaderboard board;
  board.ranked_by = "text-to-image R@1";
  board.rows = {row("dense", 1, 0.5), row("late", 1, 0.49), row("<other>", std::nullopt, 0.1)};
  board.rows[0].benchmark =
      BenchmarkPass{.images = 10, .queries = 10, .texts = 50, .queries_per_s = 83.8, .seconds = {}};
  board.rows[1].benchmark =
      BenchmarkPass{.images = 10, .queries = 10, .texts = 50, .queries_per_s = 2.9, .seconds = {}};
  board.rows[1].gap->figure = {.name = "r1", .value = -0.0001, .low = -0.02, .high = 0.02};
  board.rows[2].retrieval = {};
  board.rows[2].missing = {"retrieval"};
  board.rows[0].lengths = {{.dataset = "urban", .domain = "streets", .value = 40, .low = 35, .high = 52}};
  LeaderboardLength& noise = board.rows[1].lengths.emplace_back();
  noise.dataset = "urban";
  noise.above_chance = false;
  board.notes = {"A note of <all>."};
  return board;
}

TEST(Leaderboard, HasTheColumnsThatWereMeasured) {
  const Table table = leaderboard_table(board());
  const std::string text = tables_text(std::span(&table, 1), TableFormat::kMarkdown);
  EXPECT_THAT(text, HasSubstr("T2I R@1"));
  EXPECT_THAT(text, Not(HasSubstr("group score")));
  EXPECT_THAT(text, HasSubstr("+0.120"));
  EXPECT_THAT(text, HasSubstr("| 0.000 "));  // a gap that rounds to zero has no sign
  EXPECT_THAT(text, HasSubstr("late interaction"));
  EXPECT_THAT(text, HasSubstr("no better than chance"));
  EXPECT_THAT(text, HasSubstr("1,234,567"));
  EXPECT_THAT(text, HasSubstr("| not measured |"));
  const std::string csv = tables_text(std::span(&table, 1), TableFormat::kCsv);
  EXPECT_THAT(csv, HasSubstr("model,rank,t2i_r1,t2i_r1_low,t2i_r1_high,"));
  EXPECT_THAT(csv, HasSubstr("\ndense,1,0.5,0.49,0.51,"));
}

TEST(Leaderboard, OpensThePage) {
  PageBuilder page(true);
  const std::string html = leaderboard_section(board(), {}, page);
  EXPECT_THAT(html, HasSubstr("<section id=\"leaderboard\">"));
  EXPECT_THAT(html, HasSubstr("A note of &lt;all&gt;."));
  EXPECT_THAT(html, HasSubstr("&lt;other&gt;"));
  EXPECT_THAT(html, HasSubstr("Accuracy and speed"));
}

TEST(Leaderboard, ModelsHaveTheColoursOfTheReport) {
  lab::Run run;
  ReportData data;
  LoadedRun& loaded = data.runs.emplace_back();
  loaded.run = &run;
  for (const LeaderboardRow& one : board().rows) run.info.checkpoints.emplace_back().name = one.model;
  data.series[{&loaded, "dense"}] = {"dense", 5};
  data.series[{&loaded, "late"}] = {"late", 2};
  PageBuilder page(true);
  const std::string html = leaderboard_section(board(), data, page);
  EXPECT_THAT(html, HasSubstr("var(--s5)\"></i>dense"));
  EXPECT_THAT(html, HasSubstr("var(--s2)\"></i>late"));
}

}  // namespace
}  // namespace saccade::lab
