#include "lab/report/run_page.h"

#include <filesystem>
#include <limits>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/report/chart.h"
#include "lab/report/page_builder.h"
#include "lab/report/run_sections.h"
#include "lab/report/table.h"
#include "lab/report/verdicts.h"
#include "saccade/core/files/files.h"
#include "saccade/pages/html.h"

#include "test_runs.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

int count(const std::string& text, std::string_view part) {
  int result = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++result;
  return result;
}

TEST(ScriptJson, EndsNoScript) {
  const std::string text = script_json({{"caption", "</script><!-- <script> & ]]>\xFF"}});
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_THAT(text, Not(HasSubstr(">")));
  EXPECT_THAT(text, Not(HasSubstr("&")));
  EXPECT_EQ(parse_json(text)->at("caption"), "</script><!-- <script> & ]]>\xEF\xBF\xBD");
}

TEST(ScriptHash, IsWhatBrowsersCompute) {
  // From the Content Security Policy specification's example.
  EXPECT_EQ(script_hash("alert('Hello, world.');"), "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
}

TEST(ReportTable, CellsShowAndSave) {
  EXPECT_EQ(number_text(0.43216, Unit::kShare), "0.432");
  EXPECT_EQ(number_text(-0.0004, Unit::kShare), "0.000");
  EXPECT_EQ(number_text(-0.0004, Unit::kNumber), "0.000");
  EXPECT_EQ(number_text(-0.0006, Unit::kShare), "-0.001");
  EXPECT_EQ(number_text(17, Unit::kNumber), "17");
  EXPECT_EQ(number_text(0.43216, Unit::kNumber), "0.432");
  EXPECT_EQ(number_text(12.3456, Unit::kNumber), "12.35");
  EXPECT_EQ(number_text(1234.5, Unit::kNumber), "1234");
  EXPECT_EQ(number_text(kNaN, Unit::kShare), "\xE2\x80\x93");
  EXPECT_EQ(number_text(-0.0, Unit::kNumber), "0");
  EXPECT_EQ(count_cell(1234567).html, "1,234,567");
  EXPECT_EQ(count_cell(-123).html, "-123");
  EXPECT_EQ(count_cell(-1234).html, "-1,234");
  EXPECT_EQ(count_cell(999).html, "999");
  EXPECT_EQ(dump_json(number_cell(1050).values), "[1050]");
  EXPECT_EQ(dump_json(number_cell(1050.0).values), "[1050.0]");
  const Figure half = {.value = 0.5, .low = 0.25, .high = 0.75};
  const Cell figure = figure_cell(&half, Unit::kShare);
  EXPECT_EQ(figure.html, "0.500 <small>[0.250, 0.750]</small>");
  EXPECT_EQ(dump_json(figure.values), "[0.5,0.25,0.75]");
  const Figure zero = {.value = 0, .low = 0, .high = 0, .wilson_high = 0.00383};
  const Cell at_most = figure_cell(&zero, Unit::kShare);
  EXPECT_EQ(at_most.html, "0.000 <small>[Wilson 0.004]</small>");
  EXPECT_EQ(dump_json(at_most.values), "[0.0,0.0,0.00383]");
  const Figure one = {.value = 1, .low = 1, .high = 1, .wilson_low = 0.51};
  const Cell at_least = figure_cell(&one, Unit::kShare);
  EXPECT_EQ(at_least.html, "1.000 <small>[Wilson 0.510]</small>");
  EXPECT_EQ(dump_json(at_least.values), "[1.0,0.51,1.0]");
  // Tests figures without an interval, without a number, and none.
  const Figure bare = {.value = 0.5};
  EXPECT_EQ(figure_cell(&bare, Unit::kShare).html, "0.500");
  const Figure blank;
  EXPECT_EQ(figure_cell(&blank, Unit::kShare).html, "\xE2\x80\x93");
  const Figure* none = nullptr;
  EXPECT_EQ(dump_json(figure_cell(none, Unit::kShare).values), "[null,null,null]");
  EXPECT_EQ(dump_json(figure_cell(kNaN, kNaN, kNaN, Unit::kNumber).values), "[null,null,null]");
}

TEST(ReportTable, TextIsEscapedAndSavedAsItIs) {
  Table table;
  table.name = "a/b <c>..";
  table.caption = "<i>";
  table.columns = {text_column("<b>", "text"), figure_column("x")};
  table.rows.push_back({text_cell("=1+1</script>"), figure_cell(1, kNaN, 2, Unit::kNumber)});
  const std::string html = table_html(table);
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;"));
  EXPECT_THAT(html, HasSubstr("=1+1&lt;/script&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<b>")));
  const Json json = table_json(table);
  EXPECT_EQ(json["name"], "a-b-c");
  EXPECT_EQ(dump_json(json["columns"]), R"(["text","x","x_low","x_high"])");
  EXPECT_EQ(dump_json(json["rows"]), R"([["=1+1</script>",1.0,null,2.0]])");
}

TEST(ReportTable, VerdictsNameTheBetter) {
  const auto verdicts = [](const std::vector<std::pair<double, double>>& differences_and_p, bool lower,
                           int64_t resamples = 10'000) {
    Verdicts all;
    Table table;
    table.caption = "differences";
    for (const auto& [value, p] : differences_and_p) {
      const Difference difference = {.figure = {.value = value}, .p_value = p};
      all.add(&difference, "<a>", "b", lower);
      table.rows.push_back({text_cell("row")});
    }
    table.columns = {text_column("row")};
    RunInfo info;
    info.resamples = resamples;
    all.finish(table, info);
    EXPECT_EQ(table.columns.size(), 4U);
    std::vector<std::string> words;
    for (const auto& row : table.rows) words.push_back(row.back().values[0].get<std::string>());
    EXPECT_THAT(table.caption, HasSubstr("after Holm's correction for the"));
    EXPECT_EQ(table.caption.find("are too few") != std::string::npos, resamples < 119) << table.caption;
    return words;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(verdicts({{0.1, 0.01}}, false), Words({"<a> is better"}));
  EXPECT_EQ(verdicts({{-0.1, 0.01}}, false), Words({"b is better"}));
  EXPECT_EQ(verdicts({{-3, 0.01}}, true), Words({"<a> is better"}));
  EXPECT_EQ(verdicts({{0.1, 0.2}}, false), Words({"cannot be told apart"}));
  // Among three comparisons 0.03 says nothing, though alone it would.
  EXPECT_EQ(verdicts({{0.1, 0.03}}, false), Words({"<a> is better"}));
  EXPECT_EQ(verdicts({{0.1, 0.03}, {0.1, 0.6}, {0.2, 0.001}}, false),
            Words({"cannot be told apart", "cannot be told apart", "<a> is better"}));
  // Three comparisons need 119 resamples, and the caption says so if there are fewer.
  EXPECT_EQ(verdicts({{0.1, 0.02}, {0.1, 0.02}, {0.2, 0.02}}, false, 99),
            Words({"cannot be told apart", "cannot be told apart", "cannot be told apart"}));
  Verdicts none;
  Table table;
  table.rows.push_back({});
  none.add(nullptr, "a", "b");
  none.finish(table, {});
  EXPECT_EQ(table.rows[0].back().html, "");
  EXPECT_EQ(table.caption, "") << "nothing was corrected";
}

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc\xE2\x80\xA6");
  EXPECT_EQ(shortened("\xC3\xBC\xC3\xBC\xC3\xBC", 2), "\xC3\xBC\xC3\xBC\xE2\x80\xA6");
  EXPECT_EQ(shortened("\xC3\xBC\xC3\xBC", 2), "\xC3\xBC\xC3\xBC");
}

TEST(PageBuilder, WithoutChartsThereAreTables) {
  Chart chart;
  chart.title = "curve <1>";
  chart.spec = {{"mark", "line"}};
  chart.legend = {{"model </script>", 1}};
  chart.data.name = "curve";
  chart.data.columns = {number_column("n")};
  chart.data.rows.push_back({number_cell(4)});
  PageBuilder plain(false);
  const std::string without = plain.chart(chart);
  EXPECT_THAT(without, Not(HasSubstr("data-chart")));
  EXPECT_THAT(without, HasSubstr("<td class=\"n\">4</td>"));
  PageBuilder full(true);
  const std::string with = full.chart(chart) + full.chart(chart);
  EXPECT_EQ(count(with, "data-chart=\"t1\""), 1);
  EXPECT_EQ(count(with, "data-chart=\"t2\""), 1);
  EXPECT_EQ(count(with, "model &lt;/script&gt;"), 2);
}

class RunPage : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "saccade_run_page_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string page(const std::vector<std::string>& names, RunPageOptions options = {}) {
    ThreadPool pool(2);
    std::vector<ReportFolder> folders;
    for (const std::string& name : names) {
      auto folder = read_report_folder(folder_ / name);
      EXPECT_TRUE(folder.has_value()) << folder.error().message;
      if (folder) folders.push_back(*std::move(folder));
    }
    const auto html = run_page(folders, options, pool);
    EXPECT_TRUE(html.has_value()) << html.error().message;
    return html ? *html : "";
  }

  fs::path folder_;
};

const char* const kHostile = "\"><img src=x onerror=alert(1)></script><script>alert(2)</script>";

TEST_F(RunPage, RetrievalWithHostileTexts) {
  test::write_retrieval_run(folder_ / "run", {"good <model>", "worse"},
                            std::vector<std::string>(60, kHostile));
  fs::remove(folder_ / "run-pictures" / "3.png");
  RunPageOptions options;
  options.title = "<title>";
  options.chart_script = "globalThis.nothing = 1;\n";
  options.examples = 30;
  const std::string html = page({"run"}, options);

  // The page contains the charts' script and its own, and none from a text.
  EXPECT_EQ(count(html, "<script>"), 2);
  EXPECT_EQ(count(html, "</script>"), 2 + count(html, "<script type=\"application/json\""));
  EXPECT_THAT(html, Not(HasSubstr("<img src=x")));
  EXPECT_THAT(html, HasSubstr("&lt;/script&gt;&lt;script&gt;alert(2)"));
  EXPECT_THAT(html, HasSubstr("script-src '" + script_hash(options.chart_script) + "' '" +
                              script_hash(page_script()) + "'"));
  EXPECT_THAT(html, HasSubstr("&lt;title&gt;"));
  EXPECT_THAT(html, HasSubstr("good &lt;model&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<model>")));
  // Nothing is loaded from elsewhere.
  EXPECT_EQ(count(html, "src=\""), count(html, "src=\"data:image/"));
  EXPECT_EQ(count(html, "url("), 0);

  EXPECT_THAT(html, HasSubstr("Every caption is a query."));
  EXPECT_THAT(html, HasSubstr("left out: 2 images without captions"));
  EXPECT_THAT(html, HasSubstr("Cannot be shown: "));  // the image that is gone
  EXPECT_THAT(html, testing::ContainsRegex("is better|cannot be told apart"));
  EXPECT_THAT(html, HasSubstr("PCA: drawings, good &lt;model&gt;"));
  EXPECT_EQ(count(html, "<figure data-chart"), 1 + 2 + 2 + 2 * 2);  // result, recall, ranks, two maps a model
  // The answer comes first, what it was made of last, folded.
  EXPECT_LT(html.find("<section id=\"result\""), html.find("<section id=\"retrieval\""));
  EXPECT_LT(html.find("<section id=\"maps\""), html.find("<section id=\"protocol\""));
  EXPECT_THAT(html, HasSubstr("<h2>Protocols</h2>\n<details><summary>"));
  for (const char* section : {"result", "retrieval", "queries", "maps", "protocol"}) {
    EXPECT_EQ(count(html, std::string("<section id=\"") + section), 1) << section;
    EXPECT_EQ(count(html, std::string("href=\"#") + section), 1) << section;
  }
  EXPECT_THAT(html, Not(HasSubstr("<section id=\"length")));
  // The same runs give the same page.
  EXPECT_EQ(html, page({"run"}, options));
}

TEST_F(RunPage, PicturesAreLimited) {
  test::write_retrieval_run(folder_ / "run", {"model"});
  RunPageOptions options;
  options.examples = 30;
  options.map_points = 0;
  const int all = count(page({"run"}, options), "src=\"data:image/");
  EXPECT_GT(all, 30);
  options.max_pictures = 5;
  const std::string few = page({"run"}, options);
  EXPECT_LT(count(few, "src=\"data:image/"), all);
  EXPECT_THAT(few, HasSubstr("as many images as it may"));
  EXPECT_THAT(few, Not(HasSubstr("<section id=\"maps")));
  options.max_pictures = 600;
  options.max_picture_bytes = 1000;
  const std::string light = page({"run"}, options);
  EXPECT_LT(count(light, "src=\"data:image/"), all);
  EXPECT_THAT(light, HasSubstr("as many bytes of images as it may"));
  options.examples = 0;
  EXPECT_THAT(page({"run"}, options), Not(HasSubstr("<section id=\"queries")));
}

TEST_F(RunPage, LengthAndComposition) {
  test::write_plain_run(
      folder_ / "length", "length", {"m1", "m2"},
      {{"results",
        {test::length_result("d1", "aerial", "m1", 0.4, 6), test::length_result("d1", "aerial", "m2", 0.3, 9),
         test::length_result("d2", "icons", "m1", 0.5, 4)}}});
  test::write_plain_run(folder_ / "pairs", "winoground", {"m1"}, test::winoground_metrics("m1"));
  RunPageOptions options;
  options.chart_script = ";";
  const std::string html = page({"length", "pairs"}, options);
  EXPECT_EQ(count(html, "<h3>aerial</h3>"), 1);
  EXPECT_EQ(count(html, "<h3>icons</h3>"), 1);
  EXPECT_THAT(html, HasSubstr("18 <small>[12, 24]</small>"));  // m1's effective length
  // The matrix of models by domains, in both directions; m2 was not measured on d2.
  EXPECT_EQ(count(html,
                  "<th scope=\"col\">model</th><th scope=\"col\" class=\"n\">aerial (d1)</th>"
                  "<th scope=\"col\" class=\"n\">icons (d2)</th></tr>"),
            2);
  EXPECT_EQ(count(html,
                  "<tr><td>m1</td><td class=\"n\">18 <small>[12, 24]</small></td>"
                  "<td class=\"n\">12 <small>[8, 16]</small></td></tr>"),
            2);
  EXPECT_EQ(count(html,
                  "<tr><td>m2</td><td class=\"n\">27 <small>[18, 36]</small></td>"
                  "<td class=\"n\">\xE2\x80\x93</td></tr>"),
            2);
  EXPECT_THAT(html, HasSubstr("\"strokeDash\":[5,4]"));
  EXPECT_THAT(html, HasSubstr("0.010 <small>[-0.020, 0.040]</small>"));  // chunks against cut
  EXPECT_THAT(html, HasSubstr("0.167"));                                 // the group score of guessing
  // m1 has one colour throughout.
  EXPECT_EQ(count(html, "var(--s0)\"></i>m1"), 1 + 2 * 2 + 2 + 1);
}

// A curve that never rises above chance has no effective length, neither drawn nor written.
TEST_F(RunPage, NoiseIsNoEffectiveLength) {
  RunPageOptions options;
  options.chart_script = ";";
  for (const double height : {0.4, 0.0}) {
    test::write_plain_run(folder_ / "length", "length", {"m1"},
                          {{"results", {test::length_result("d1", "aerial", "m1", height, 6)}}});
    const std::string html = page({"length"}, options);
    const bool found = height > 0;
    EXPECT_EQ(html.find("strokeDash") != std::string::npos, found);
    EXPECT_EQ(html.find("dashed: the effective length") != std::string::npos, found);
    EXPECT_EQ(html.find("18 <small>[12, 24]</small>") != std::string::npos, found);
    EXPECT_THAT(html, Not(HasSubstr("Effective length by domain")));  // there is one dataset
    EXPECT_EQ(count(html, "no better than guessing: there is no effective length"), found ? 0 : 2);
    fs::remove_all(folder_ / "length");
  }
}

// The chart of subsets has their mean as the line, and the smallest and the largest as the band.
TEST_F(RunPage, SubsetsOfImagesAreABand) {
  RunPageOptions options;
  options.chart_script = ";";
  Json result = test::length_result("d1", "aerial", "m1", 0.4, 6);
  test::write_plain_run(folder_ / "without", "length", {"m1"}, {{"results", {result}}});
  EXPECT_THAT(page({"without"}, options), Not(HasSubstr("random subsets")));
  result["subset_items"] = 20;
  const Json subsets = {
      {"mean", 0.3125}, {"low", 0.1875}, {"high", 0.4375}, {"values", {0.1875, 0.3125, 0.4375}}};
  for (Json& point : result["t2i"]["curve"]) point["subsets"] = subsets;
  test::write_plain_run(folder_ / "with", "length", {"m1"}, {{"results", {result}}});
  const std::string html = page({"with"}, options);
  EXPECT_EQ(count(html, "R@1 in 3 random subsets of 20 images"), 1);  // one direction has subsets
  EXPECT_THAT(html, HasSubstr("0.3125"));
  EXPECT_THAT(html, HasSubstr("0.1875"));
  EXPECT_THAT(html, HasSubstr("0.4375"));
}

// Lengths beyond the limit: the cut text stays what it is, and chunks go on from there.
TEST_F(RunPage, ChunksContinueTheCurveOfCutTexts) {
  RunPageOptions options;
  options.chart_script = ";";
  Json result = test::length_result("d1", "aerial", "m1", 0.4, 6);
  Json& chunked = result["chunking"][0]["t2i"]["curve"];
  chunked = Json::array(
      {{{"n", 1234}, {"r1", {{"value", 0.28125}, {"low", 0.25}, {"high", 0.3}}}, {"subsets", nullptr}}});
  test::write_plain_run(folder_ / "run", "length", {"m1"}, {{"results", {result}}});
  const std::string html = page({"run"}, options);
  EXPECT_THAT(html, HasSubstr("limit of 77 or in chunks"));
  EXPECT_EQ(count(html, R"(["chunks: equal","s1",1234,0.28125,0.25,0.3])"), 1);
  EXPECT_EQ(count(html, R"(["cut at the limit","s0",1234,)"), 1);  // both curves end there
  // Both directions' chunks begin where their cut text ends.
  EXPECT_EQ(count(html, R"(["cut at the limit","s0",77,)"), 2);
  EXPECT_GE(count(html, R"(["chunks: equal","s1",77,)"), 2);
}

// A caption names the drawn curves, and no others.
TEST_F(RunPage, ControlsAreNamedAsTheyAreDrawn) {
  RunPageOptions options;
  options.chart_script = ";";
  Json result = test::length_result("d1", "aerial", "m1", 0.4, 6);
  test::write_plain_run(folder_ / "all", "length", {"m1"}, {{"results", {result}}});
  EXPECT_THAT(
      page({"all"}, options),
      HasSubstr("R@1 of texts cut to n tokens: first tokens; sentences in another order; last tokens."));
  result["controls"]["sentences_permuted"] = nullptr;
  test::write_plain_run(folder_ / "some", "length", {"m1"}, {{"results", {result}}});
  EXPECT_THAT(page({"some"}, options), HasSubstr("R@1 of texts cut to n tokens: first tokens; last tokens."));
}

// Two runs of one dataset and protocol share one table, which has each comparison once.
TEST_F(RunPage, PairedDifferencesStandOnce) {
  test::write_retrieval_run(folder_ / "one", {"m1", "m2"});
  test::write_retrieval_run(folder_ / "two", {"m3", "m4"});
  RunPageOptions options;
  options.examples = 0;
  options.map_points = 0;
  const std::string html = page({"one", "two"}, options);
  EXPECT_EQ(count(html, "differences-drawings"), 1);
  // Two directions, five figures.
  EXPECT_EQ(count(html, "<tr><td>m1</td><td>m2</td>"), 10);
  EXPECT_EQ(count(html, "<tr><td>m3</td><td>m4</td>"), 10);
}

// The curve begins with the first model alone, and ends at the depth that holds the gallery.
TEST_F(RunPage, RerankingIsACurveOverDepth) {
  const auto recall = [](const char* name, double value) {
    return Figure{.name = name, .value = value, .low = value - 0.0625, .high = value + 0.0625};
  };
  RetrievalMetrics metrics;
  RetrievalResult& result = metrics.results.emplace_back();
  result.dataset = "drawings";
  result.model = "m1";
  result.directions.t2i.figures = {recall("r1", 0.25), recall("r5", 0.5)};
  result.directions.i2t.figures = {recall("r1", 0.375)};
  test::write_plain_run(folder_ / "without", "retrieval", {"m1"}, record_json(metrics));
  RunPageOptions options;
  options.chart_script = ";";
  const std::string without = page({"without"}, options);
  EXPECT_THAT(without, Not(HasSubstr("Reranking")));

  RerankResult& rerank = result.rerank.emplace();
  rerank.second = "<second>";
  rerank.by = "match";
  rerank.pairs = 1234;
  rerank.seconds_per_query = 0.5;
  for (const int64_t depth : {2, 5}) {
    RerankPoint& point = rerank.points.emplace_back();
    point.depth = depth;
    point.figures.t2i = {recall("r1", depth == 2 ? 0.3125 : 0.4375), recall("r5", 0.625)};
    point.gain.t2i = {
        {.figure = recall("r1", depth == 2 ? 0.0625 : 0.1875), .p_value = depth == 2 ? 0.5 : 0.001}};
  }
  rerank.points[0].figures.i2t = {recall("r1", 0.75)};  // two answers are the whole gallery
  test::write_plain_run(folder_ / "with", "retrieval", {"m1"}, record_json(metrics));
  const std::string html = page({"with"}, options);
  EXPECT_EQ(count(html, "<section id=\"rerank\""), 1);
  EXPECT_EQ(count(html, "href=\"#rerank\""), 1);
  EXPECT_THAT(
      html,
      HasSubstr("m1: &lt;second&gt; scores 1,234 pairs of an image and a text (match), 0.500 s per query."));
  const auto rows_of = [&](const std::string& name) {
    const size_t at = html.find("\"name\":\"" + name + "\"");
    if (at == std::string::npos) return std::string("nothing");
    const auto data = parse_json(html.substr(at - 1, html.find("</script>", at) - at + 1));
    return data ? dump_json((*data)["rows"]) : data.error().message;
  };
  EXPECT_EQ(
      rows_of("rerank-drawings-t2i"),
      R"([["m1","s0",1,0.25,0.1875,0.3125],["m1","s0",2,0.3125,0.25,0.375],["m1","s0",5,0.4375,0.375,0.5]])");
  EXPECT_EQ(rows_of("rerank-drawings-i2t"),
            R"([["m1","s0",1,0.375,0.3125,0.4375],["m1","s0",2,0.75,0.6875,0.8125]])");
  EXPECT_EQ(count(html, "<figure data-chart"), count(without, "<figure data-chart") + 2);
  const std::string table = html.substr(html.find("figures by the number of answers reranked"));
  EXPECT_THAT(
      table, testing::ContainsRegex("0.438 <small>.0.375, 0.500.</small>.*0.188 <small>.0.125, 0.250.</small>"
                                    ".*reranking is better"));
  EXPECT_EQ(count(table, "reranking is better"), 2);  // shown, and saved
  EXPECT_EQ(count(table, "cannot be told apart"), 2);
}

TEST_F(RunPage, SpeedAgainstAccuracy) {
  test::write_retrieval_run(folder_ / "run", {"m1", "m2", "m3"});
  test::write_speed_run(folder_ / "speed", {"m1", "m2", "m3"}, {20, 80, 40});
  RunPageOptions options;
  options.chart_script = ";";
  options.map_points = 0;
  options.examples = 0;
  const std::string html = page({"run", "speed"}, options);
  EXPECT_EQ(count(html, "<section id=\"speed"), 1);
  // The checkpoints are the same, whatever their names in the speed run.
  EXPECT_THAT(html, HasSubstr("var(--s1)\"></i>m2<"));
  EXPECT_THAT(html, Not(HasSubstr("<td>m2-fp32")));
  EXPECT_THAT(html, HasSubstr("80 <small>[72, 88]</small>"));
  // m1 is more accurate and slower than m2; m3 is worse than m2 at half its speed.
  const size_t at = html.find("\"name\":\"pareto-drawings\"");
  ASSERT_NE(at, std::string::npos);
  const std::string text = html.substr(at - 1, html.find("</script>", at) - at + 1);
  const auto data = parse_json(text);
  ASSERT_TRUE(data.has_value()) << text;
  const Json& rows = (*data)["rows"];
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(dump_json((*data)["columns"]),
            R"(["name","series","x","x_low","x_high","y","y_low","y_high","frontier"])");
  EXPECT_EQ(rows[0][0], "m1");
  EXPECT_EQ(rows[0][2], 20);
  EXPECT_EQ(rows[0][8], rows[0][5]);
  EXPECT_EQ(rows[1][8], rows[1][5]);
  EXPECT_GT(rows[1][5], rows[2][5]);
  EXPECT_TRUE(rows[2][8].is_null());
}

TEST_F(RunPage, AnswersHaveTheirOrdersAndTheirProbabilities) {
  const auto figure = [](double value) {
    BriefFigure brief;
    brief.value = value;
    brief.low = value - 0.01;
    brief.high = value + 0.01;
    return brief;
  };
  AnswersMetrics metrics;
  for (const double better : {0.0, 0.1}) {
    AnswersResult& result =
        metrics.results.emplace_back(AnswersResult{.dataset = "drawings", .model = better > 0 ? "m2" : "m1"});
    AnswersFigures& figures = result.figures;
    figures.asked = 40;
    figures.absent = 20;
    figures.orders = {
        {Ordering::kVectors, QueryGroup::kAll, 40, figure(0.3), figure(0.25), figure(0.311 + better)},
        {Ordering::kDefault, QueryGroup::kAll, 40, figure(0.611 + better), figure(0.512), figure(0)},
        {Ordering::kDefault, QueryGroup::kAttributed, 7, figure(0.722), figure(0.5), figure(0)}};
    figures.tells = better == 0;
    figures.reason = better == 0 ? "" : "60 <queries> are needed";
    if (!figures.tells) continue;
    figures.ece = 0.0321;
    figures.bins = {{0, 300, 0.05, 0.04}, {0.9, 100, 0.95, 0.93}};
    figures.cuts = {{0.5, 120, figure(0.912), 0.633}};
    figures.first_right_above_half = figure(0.677);
    figures.absent_named = figure(0.588);
    figures.absent_weak = figure(0.499);
    figures.present_weak = figure(0.055);
  }
  metrics.results.push_back({.dataset = "drawings", .model = "m3", .unsupported = "late interaction"});
  test::write_plain_run(folder_ / "answers", "answers", {"m1", "m2", "m3"}, record_json(metrics));
  RunPageOptions options;
  options.chart_script = ";";
  const std::string html = page({"answers"}, options);
  EXPECT_EQ(count(html, "<section id=\"answers\""), 1);
  EXPECT_THAT(html, HasSubstr("href=\"#answers\""));
  // The page opens with nDCG@10 of the default order over all queries, the best in bold.
  const std::string opening = html.substr(0, html.find("<section id=\"answers\""));
  EXPECT_THAT(opening, HasSubstr("nDCG@10"));
  EXPECT_THAT(opening, HasSubstr("0.711"));
  EXPECT_THAT(opening, Not(HasSubstr("0.722"))) << "a group of queries is no headline";
  const std::string section = html.substr(opening.size());
  EXPECT_THAT(section, HasSubstr("<td>adjective and noun</td><td>default</td>"));
  EXPECT_THAT(section, HasSubstr("0.311 <small>[0.301, 0.321]</small>"));
  EXPECT_THAT(section, HasSubstr("0.912 <small>[0.902, 0.922]</small>"));
  EXPECT_THAT(section, HasSubstr("0.588 <small>[0.578, 0.598]</small>"));
  EXPECT_THAT(section, HasSubstr("60 &lt;queries&gt; are needed"));
  EXPECT_THAT(section, HasSubstr("\"name\":\"answers-calibration-drawings\""));
  EXPECT_THAT(section, Not(HasSubstr("<td>m3</td><td>all")));
}

TEST_F(RunPage, AblationsStandBesideTheFullTraining) {
  ComposedMetrics metrics;
  ComposedAblation full;
  full.dataset = "drawings";
  full.of = "all";
  full.name = "full";
  full.seeds = {1, 2};
  full.methods = {"full, seed 1", "full, seed 2"};
  full.queries = 40;
  full.figures = {{.name = "r1", .value = 0.412, .low = 0.4, .high = 0.43},
                  {.name = "r10"},
                  {.name = "r_subset2", .value = 0.777}};
  ComposedAblation without = full;
  without.name = "no-places";
  without.changed = "--places none";
  without.figures[0].value = 0.401;
  without.differences = {{.figure = {.name = "r1", .value = -0.011, .low = -0.021, .high = 0.006}}};
  metrics.ablations = {full, without};
  test::write_plain_run(folder_ / "composed", "composed", {"m1"}, record_json(metrics));
  const std::string html = page({"composed"});
  EXPECT_THAT(html, HasSubstr("drawings: ablations, means over 2 seeds"));
  EXPECT_THAT(html, HasSubstr("<td>no-places</td><td>--places none</td><td>all</td>"));
  EXPECT_THAT(html, HasSubstr("0.401 <small>[0.400, 0.430]</small>"));
  EXPECT_THAT(html, HasSubstr("-0.011 <small>[-0.021, 0.006]</small>"));
  EXPECT_THAT(html, HasSubstr("\"name\":\"composed-ablations-drawings\""));
  EXPECT_THAT(html, HasSubstr(">r_subset2<"));
  EXPECT_THAT(html, HasSubstr("0.777"));
  EXPECT_THAT(html, Not(HasSubstr(">r50<")));
}

TEST_F(RunPage, FiguresThatAreNotThere) {
  RetrievalMetrics nulls;
  nulls.results.push_back({.dataset = "drawings", .model = "m"});
  nulls.results[0].directions.t2i.figures.push_back({.name = "r1"});
  test::write_plain_run(folder_ / "nulls", "retrieval", {"m"}, record_json(nulls));
  EXPECT_THAT(page({"nulls"}), HasSubstr("\xE2\x80\x93"));
  const auto expect_kind = [&]<typename Metrics>(const Metrics& none) {
    const std::string kind(Metrics::kKind);
    test::write_plain_run(folder_ / kind, kind, {}, record_json(none));
    EXPECT_THAT(page({kind}), HasSubstr("<section id=\"protocol")) << kind;
    Json odd = record_json(none);
    odd["results"] = Json::array({nullptr, 3});
    test::write_plain_run(folder_ / (kind + "-odd"), kind, {"m"}, odd);
    const std::vector<ReportFolder> folders = {read_report_folder(folder_ / (kind + "-odd")).value()};
    const auto refused = run_tables(folders);
    ASSERT_FALSE(refused) << kind;
    EXPECT_EQ(refused.error().code, ErrorCode::kBadData);
    EXPECT_THAT(refused.error().message,
                HasSubstr(kind + "-odd/metrics.json: \"results[0]\" is null (null), expected an object"));
  };
  expect_kind(RetrievalMetrics());
  expect_kind(CompositionMetrics());
  expect_kind(LengthMetrics());
  expect_kind(ComposedMetrics());
  expect_kind(SpeedMetrics());
  expect_kind(VisualnessMetrics());
  expect_kind(EditsMetrics());
  expect_kind(MatchesMetrics());
  expect_kind(AnswersMetrics());
  expect_kind(HeadsMetrics());
  fs::create_directories(folder_ / "young");
  ASSERT_TRUE(write_file_atomic(folder_ / "young" / "metrics.jsonl", "").has_value());
  EXPECT_THAT(page({"young"}), HasSubstr("no evaluation yet"));
}

TEST_F(RunPage, OneNameOfTwoCheckpoints) {
  RetrievalMetrics metrics;
  test::write_plain_run(folder_ / "one", "retrieval", {"m"}, record_json(metrics));
  RunInfo other = test::small_info("retrieval", {"m"});
  other.checkpoints[0].fingerprint = "other";
  auto writer = RunWriter::open(folder_ / "two", other, false);
  ASSERT_TRUE(writer.has_value());
  metrics.results.push_back({.dataset = "drawings", .model = "m"});
  ASSERT_TRUE(writer->finish(other, record_json(metrics)).has_value());
  EXPECT_THAT(page({"one", "two"}), HasSubstr("m (two)"));
}

TEST_F(RunPage, WhatIsRefused) {
  EXPECT_EQ(read_report_folder(folder_ / "nothing").error().code, ErrorCode::kNotFound);
  fs::create_directories(folder_ / "training");
  ASSERT_TRUE(write_file_atomic(folder_ / "training" / "metrics.jsonl", "{\"step\": 1}\n{").has_value());
  const auto broken = read_report_folder(folder_ / "training");
  EXPECT_EQ(broken.error().code, ErrorCode::kBadData);
  EXPECT_THAT(broken.error().message, HasSubstr("line 2"));

  test::write_retrieval_run(folder_ / "run", {"model"});
  std::vector<ReportFolder> folders;
  folders.push_back(*read_report_folder(folder_ / "run"));
  ThreadPool pool(1);
  RunPageOptions options;
  options.chart_script = "s = '</SCRIPT>'";
  EXPECT_EQ(run_page(folders, options, pool).error().code, ErrorCode::kUsage);
  options.chart_script = "a\r\nb";
  EXPECT_EQ(run_page(folders, options, pool).error().code, ErrorCode::kUsage);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(run_page(folders, {}, pool, {}, stop.get_token()).error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace saccade::lab
