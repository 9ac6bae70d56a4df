// Tests of report pages, as made by the program and as shown by a browser.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/report/test_runs.h"
#include "saccade/core/files/files.h"

#include "chromium.h"
#include "small_training.h"

namespace saccade::test {
namespace {

using namespace saccade::lab;  // the laboratory is what is looked at here
using namespace saccade::lab::test;

namespace fs = std::filesystem;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

#ifdef SACCADE_TRAINS
constexpr bool kTrains = true;
#else
constexpr bool kTrains = false;  // a build without libtorch
#endif

class ReportTest : public TrainingTest {
 protected:
  // Makes a folder of each kind.
  void make_runs() const {
    write_retrieval_run(
        folder_ / "retrieval", {"better", "worse"},
        {"=cmd|' /C calc'!A0", "</script><img src=x onerror=\"window.broken=1\">", "say \"hi\", you\n2"});
    write_plain_run(folder_ / "length", "length", {"better", "other"},
                    {{"results", Json::array({length_result("drawings", "drawings", "better", 0.4, 6),
                                              length_result("drawings", "drawings", "other", 0.3, 30)})}});
    write_plain_run(folder_ / "pairs", "winoground", {"better"}, winoground_metrics("better"));
    write_speed_run(folder_ / "speed", {"better", "worse"}, {20, 80});
    if (kTrains) make_training();
  }

  // Makes the folder "training", as the program writes it.
  void make_training() const {
    const Outcome trained = run(training("training", {"--steps", "4", "--evaluate-every", "2"}));
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
};

const std::vector<std::string> kFolders = {"retrieval", "length", "pairs", "speed"};

TEST_F(ReportTest, SaysWhatIsMissing) {
  write_speed_run(folder_ / "speed", {"model"}, {20});
  const Outcome no_script = run({"report", "speed", "-o", "page.html", "--charts", "nowhere.js"});
  EXPECT_EQ(no_script.code, 1);
  expect_one_line(no_script);
  EXPECT_THAT(no_script.err, HasSubstr("nowhere.js"));
  EXPECT_THAT(no_script.err, HasSubstr("./dev build"));
  EXPECT_FALSE(fs::exists(folder_ / "page.html"));

  const Outcome tables = run({"-q", "report", "speed", "-o", "page.html", "--no-charts"});
  EXPECT_EQ(tables.code, 0) << tables.err;
  const auto page = read_file(folder_ / "page.html");
  ASSERT_TRUE(page.has_value());
  EXPECT_THAT(*page, HasSubstr("<section id=\"speed"));
  EXPECT_THAT(*page, Not(HasSubstr("University of Washington")));

  const Outcome no_run = run({"report", "nothing", "-o", "page.html", "--no-charts"});
  EXPECT_EQ(no_run.code, 1);
  EXPECT_THAT(no_run.err, HasSubstr("nothing"));
}

#ifdef SACCADE_TRAINS
// The page has the figures on held-out data, as the trainer wrote them.
TEST_F(ReportTest, ATrainingShowsWhatIsHeldOut) {
  make_training();
  const Outcome tables = run({"-q", "report", "training", "-o", "page.html", "--no-charts"});
  EXPECT_EQ(tables.code, 0) << tables.err;
  const auto page = read_file(folder_ / "page.html");
  ASSERT_TRUE(page.has_value());
  EXPECT_THAT(*page, HasSubstr("training: loss"));
  // Held-out figures are shown by step and direction, as the trainer wrote them.
  EXPECT_THAT(*page, HasSubstr("training: R@1 on what is held out"));
  EXPECT_THAT(*page, HasSubstr("Protocol: one-caption"));
  const auto lines = read_file(folder_ / "training/metrics.jsonl");
  ASSERT_TRUE(lines.has_value());
  for (const int step : {2, 4}) {
    const size_t at = lines->find(fmt::format("{{\"step\":{},", step));
    ASSERT_NE(at, std::string::npos) << *lines;
    const auto line = parse_json(std::string_view(*lines).substr(at, lines->find('\n', at) - at));
    ASSERT_TRUE(line.has_value());
    for (const auto& [key, series] : {std::pair{"t2i", "s0"}, std::pair{"i2t", "s1"}}) {
      const Json& r1 = (*line)["held_out"][0][key]["r1"];
      EXPECT_THAT(*page, HasSubstr(fmt::format("\"{}\",{}.0,{}]", series, step, dump_json(r1))));
    }
  }
}
#endif

TEST_F(ReportTest, TablesAlone) {
  make_runs();
  const Outcome markdown = run({"-q", "report", "retrieval", "pairs", "--format", "markdown"});
  ASSERT_EQ(markdown.code, 0) << markdown.err;
  EXPECT_THAT(markdown.out, HasSubstr("| model | mean rank | drawings: R@1, text"));
  EXPECT_THAT(markdown.out, HasSubstr("| **"));
  const Outcome csv = run({"-q", "report", "retrieval", "--format", "csv", "-o", "tables.csv"});
  ASSERT_EQ(csv.code, 0) << csv.err;
  const auto tables = read_file(folder_ / "tables.csv");
  ASSERT_TRUE(tables.has_value());
  EXPECT_THAT(*tables, StartsWith("# result\nmodel,rank,drawings_t2i_r1,drawings_t2i_r1_low,"));
  const Outcome latex = run({"-q", "report", "retrieval", "--format", "latex"});
  EXPECT_THAT(latex.out, StartsWith("\\begin{table}\n"));
  const Outcome nothing = run({"report", "retrieval"});
  EXPECT_EQ(nothing.code, 2);
  expect_one_line(nothing);
}

// One browser is used for everything, since it takes seconds to start.
TEST_F(ReportTest, ABrowserShowsThePage) {
  make_runs();
  std::vector<std::string> command = {"-q", "report"};
  command.insert(command.end(), kFolders.begin(), kFolders.end());
  if (kTrains) command.emplace_back("training");
  command.insert(command.end(), {"-o", "page.html"});
  const Outcome made = run(command);
  ASSERT_EQ(made.code, 0) << made.err;
  auto browser = Chromium::start(folder_ / "browser");
  ASSERT_TRUE(browser.has_value()) << browser.error().message;
  const auto value = [&](std::string_view expression) {
    auto result = browser->evaluate(expression);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return result ? *result : Json();
  };
  const auto drawn = [&] {
    const Status done = browser->wait_until("document.documentElement.dataset.charts === 'drawn'");
    EXPECT_TRUE(done.has_value()) << done.error().message;
  };
  ASSERT_TRUE(browser->show(1200, 900, "light").has_value());
  const Status opened = browser->open(folder_ / "page.html");
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  drawn();

  // Every chart has marks, also those in closed sections.
  value("document.querySelectorAll('details').forEach((each) => { each.open = true; }), 0");
  const std::string_view all_drawn =
      "[...document.querySelectorAll('figure[data-chart]')].every((each) => each.dataset.drawn === 'yes')";
  const Status every = browser->wait_until(all_drawn);
  EXPECT_TRUE(every.has_value()) << value(
      "[...document.querySelectorAll('figure[data-chart]')].map((each) => each.dataset.drawn + "
      "each.innerText)");
  // The charts are: the result, recall, ranks and two maps of two models; curves, controls, curves through the limit
  // and tokens; scores; speed; loss and recall.
  EXPECT_EQ(value("document.querySelectorAll('figure[data-chart]').length"),
            1 + 2 + 2 + 4 + 2 + 4 + 4 + 2 + 1 + 1 + (kTrains ? 2 : 0));
  EXPECT_EQ(value("[...document.querySelectorAll('figure[data-chart]')].filter((each) => "
                  "each.querySelectorAll('.mark-symbol path, .mark-rect path, .mark-line path').length === 0)"
                  ".map((each) => each.innerText)"),
            Json::array());
  // A map has 30 images and 30 texts. The recall of two models and chance has six dots with five intervals.
  EXPECT_EQ(
      value("document.querySelectorAll('.plot.square')[0].querySelectorAll('.mark-symbol path').length"), 60);
  EXPECT_EQ(
      value(
          "document.querySelector('#retrieval .plot').querySelectorAll('.mark-symbol.role-mark path').length"),
      9);
  // The result: two models in both directions, and one model's group score.
  EXPECT_EQ(
      value("document.querySelector('#result .plot').querySelectorAll('.mark-symbol.role-mark path').length"),
      5);
  EXPECT_EQ(value("document.querySelector('main section').id"), "result");
  EXPECT_EQ(value("[...document.querySelectorAll('#result tbody tr')].map((row) => row.cells[0].innerText)"),
            Json({"better", "worse", "other"}));
  EXPECT_EQ(value("document.querySelectorAll('.scroll td').length > 100"), true);

  // The contents of captions stay text.
  EXPECT_EQ(value("window.broken === undefined && document.querySelector('img[src=x]') === null"), true);
  EXPECT_EQ(value("document.body.innerText.includes('</script><img src=x onerror')"), true);

  // On a phone, names have lines of several letters, however wide their table is.
  ASSERT_TRUE(browser->show(360, 740, "light").has_value());
  EXPECT_EQ(
      value("[...document.querySelectorAll('.scroll td:first-child')].filter((each) => each.clientWidth < "
            "80).map((each) => each.innerText + ' ' + each.clientWidth)"),
      Json::array());
  // They stay in view when their table is scrolled.
  EXPECT_EQ(
      value(
          "(() => { const box = [...document.querySelectorAll('.scroll')].find((each) => each.scrollWidth > "
          "each.clientWidth + 60); const name = box.querySelector('td'); const left = "
          "name.getBoundingClientRect().left; box.scrollLeft = 60; return [box.scrollLeft, "
          "name.getBoundingClientRect().left - left]; })()"),
      Json::array({60, 0}));
  ASSERT_TRUE(browser->show(1200, 900, "light").has_value());

  // Tests light, dark by the button, and dark by the reader's system.
  const std::string_view colours =
      "getComputedStyle(document.body).backgroundColor + "
      "document.querySelector('.plot .mark-symbol.role-mark path').getAttribute('fill')";
  const Json light = value(colours);
  value("document.getElementById('theme').click()");
  drawn();
  const Json dark = value(colours);
  EXPECT_EQ(light, "rgb(246, 246, 244)#0b7a6e");
  EXPECT_EQ(dark, "rgb(22, 23, 22)#4fc3ae");
  value("document.getElementById('theme').click(), 0");
  drawn();
  EXPECT_EQ(value(colours), light);
  value("delete document.documentElement.dataset.theme, 0");

  // On a phone, only scrolling boxes are wider than the screen, and charts adapt.
  ASSERT_TRUE(browser->show(360, 740, "dark").has_value());
  const Status narrow = browser->wait_until(
      "[...document.querySelectorAll('.plot svg')].every((each) => each.clientWidth <= 330)");
  EXPECT_TRUE(narrow.has_value()) << narrow.error().message;
  drawn();
  EXPECT_EQ(value(colours), dark);
  EXPECT_EQ(value("[innerWidth, document.documentElement.scrollWidth]"), Json::array({360, 360}));

  // Tests the contents of files to save.
  value(
      "window.saved = []; URL.createObjectURL = (blob) => { window.saved.push(blob.text()); return '#'; }; "
      "const map = document.querySelector('.plot.square').closest('figure'); "
      "map.querySelector('[data-save=csv]').click(); map.querySelector('[data-save=json]').click(); 0");
  const Json saved = value("Promise.all(window.saved)");
  ASSERT_EQ(saved.size(), 2U);
  const auto csv = saved[0].get<std::string>();
  EXPECT_THAT(csv, HasSubstr("kind,series,label,x,y\r\n"));
  EXPECT_THAT(csv, HasSubstr("\r\ntext,s1,'=cmd|' /C calc'!A0,"));  // no formula
  EXPECT_THAT(csv, HasSubstr("\r\ntext,s1,\"say \"\"hi\"\", you\n2\","));
  const auto json = parse_json(saved[1].get<std::string>());
  ASSERT_TRUE(json.has_value());
  ASSERT_EQ(json->size(), 60U);
  EXPECT_EQ((*json)[30]["label"], "=cmd|' /C calc'!A0");
  EXPECT_TRUE((*json)[30]["x"].is_number());

  EXPECT_THAT(browser->complaints(), IsEmpty());
  // Only the page itself and its images are requested.
  EXPECT_THAT(browser->requests(), Each(testing::AnyOf(StartsWith("file://"), StartsWith("data:image/"))));
}

}  // namespace
}  // namespace saccade::test
