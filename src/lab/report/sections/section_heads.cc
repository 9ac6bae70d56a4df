// Heads on a frozen encoder: the study's tables over seeds, recall by pairs, and captions side by side.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>

#include "lab/report/run_sections.h"
#include "lab/report/verdicts.h"
#include "saccade/core/counts.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

constexpr std::array<std::string_view, 3> kRecalls = {"r1", "r5", "r10"};
constexpr int64_t kSamplePictures = 4;
constexpr size_t kCaptionsShown = 5;

// One dataset of one run of heads.
struct HeadRun {
  const LoadedRun* run = nullptr;
  std::string dataset;
  const HeadsMetrics* metrics = nullptr;
  std::vector<const HeadCell*> cells;
  const HeadlessRecall* pretrained =
      nullptr;  // null: images and texts have no rows of one width without a head
  int64_t most_pairs = 0;
  int64_t first_width = 0;
};

std::vector<HeadRun> head_runs(const ReportData& data) {
  std::vector<HeadRun> all;
  for (const LoadedRun& run : data.runs) {
    const auto* metrics = std::get_if<HeadsMetrics>(&run.metrics);
    if (metrics == nullptr) continue;
    for (const RunDataset& dataset : run.run->info.datasets) {
      HeadRun one;
      one.run = &run;
      one.dataset = dataset.name;
      one.metrics = metrics;
      for (const HeadCell& cell : metrics->cells) {
        if (cell.dataset == dataset.name) one.cells.push_back(&cell);
      }
      if (one.cells.empty()) continue;
      const auto own = std::ranges::find(metrics->pretrained, dataset.name, &HeadlessRecall::dataset);
      if (own != metrics->pretrained.end()) one.pretrained = &*own;
      one.first_width = one.cells.front()->width;
      for (const HeadCell* cell : one.cells) {
        if (cell->width == one.first_width) one.most_pairs = std::max(one.most_pairs, cell->pairs);
      }
      all.push_back(std::move(one));
    }
  }
  return all;
}

// Rows of the study's tables: no head, then each kind on the most pairs.
struct TableRow {
  Series series;
  std::string name;
  const RecallOf<Figure>* recall = nullptr;
};

std::vector<TableRow> table_rows(const ReportData& data, const HeadRun& run) {
  std::vector<TableRow> rows;
  if (run.pretrained != nullptr) {
    rows.push_back({data.series_of(*run.run, "pretrained"), "pretrained, no head", &run.pretrained->recall});
  }
  for (const HeadCell* cell : run.cells) {
    if (cell->width != run.first_width || cell->pairs != run.most_pairs) continue;
    const std::string role = cell->kind == "linear" ? "baseline: linear head"
                             : cell->kind == "mlp"  ? "improved: MLP head"
                                                    : cell->kind;
    rows.push_back({data.series_of(*run.run, cell->kind), role, &cell->recall});
  }
  return rows;
}

void add_recall_columns(Table& table) {
  table.columns.push_back(figure_column("mean recall", std::string(kMeanRecall)));
  for (const Direction direction : kBothDirections) {
    for (const std::string_view name : kRecalls) {
      table.columns.push_back(
          figure_column(fmt::format("{}, R@{}", direction_words(direction), name.substr(1)),
                        fmt::format("{}_{}", direction_name(direction), name)));
    }
  }
}

template <typename T>
void add_recall_cells(const RecallOf<T>& recall, std::vector<Cell>& row) {
  row.push_back(figure_cell(&recall.mean_recall, Unit::kShare));
  for (const Direction direction : kBothDirections) {
    for (const std::string_view name : kRecalls) {
      row.push_back(figure_cell(find_named(recall.directions.of(direction), name), Unit::kShare));
    }
  }
}

Table recall_table(const ReportData& data, const HeadRun& run) {
  Table table;
  table.name = "heads-" + run.dataset;
  table.caption =
      fmt::format("{}: no head, baseline and improved, on {} pairs", run.dataset, count_text(run.most_pairs));
  table.columns = {text_column("model")};
  add_recall_columns(table);
  for (const TableRow& row : table_rows(data, run)) {
    table.rows.push_back({text_cell(row.name)});
    add_recall_cells(*row.recall, table.rows.back());
  }
  return table;
}

// Table of differences and verdicts: baseline against improved, and heads against none.
Table verdict_table(const HeadRun& run) {
  Table table;
  table.name = "heads-differences-" + run.dataset;
  table.caption =
      fmt::format("{}: paired differences, over the same resamples of images and seeds", run.dataset);
  table.columns = {text_column("a"), text_column("b")};
  add_recall_columns(table);
  Verdicts by_mean_recall;
  // Comparisons of heads come first, those with no head behind them.
  for (const bool without : {false, true}) {
    for (const HeadVerdict& one : run.metrics->verdicts) {
      const Verdict& verdict = one.verdict;
      if (one.dataset != run.dataset || (verdict.b == "no head") != without) continue;
      std::vector<Cell> row = {text_cell(verdict.a), text_cell(verdict.b)};
      add_recall_cells(verdict.differences, row);
      table.rows.push_back(std::move(row));
      by_mean_recall.add(&verdict.differences.mean_recall, "a", "b");
    }
  }
  table.caption += "; p and verdict by mean recall";
  by_mean_recall.finish(table, run.run->run->info);
  return table;
}

Chart recall_bars(const ReportData& data, const HeadRun& run) {
  Chart chart;
  chart.title = run.dataset + ": recall without a head and with one";
  chart.words = "R@1, R@5 and R@10 in both directions; the table has the intervals.";
  chart.data.name = "heads-recall-" + run.dataset;
  chart.data.columns = {text_column("figure", "bin"), text_column("colour", "series"),
                        text_column("model", "name"), number_column("share")};
  std::vector<std::string> bins;
  for (const Direction direction : kBothDirections) {
    for (const std::string_view name : kRecalls) {
      bins.push_back(fmt::format("{} R@{}",
                                 direction == Direction::kTextToImage ? "T\xE2\x86\x92I" : "I\xE2\x86\x92T",
                                 name.substr(1)));
      for (const TableRow& row : table_rows(data, run)) {
        if (bins.size() == 1) chart.legend.push_back({row.name, row.series.colour});
        const Figure* figure = find_named(row.recall->directions.of(direction), name);
        chart.data.rows.push_back(
            {text_cell(bins.back()), text_cell(series_key(row.series)), text_cell(row.name),
             number_cell(figure == nullptr ? Figure::kNone : figure->value, Unit::kShare)});
      }
    }
  }
  chart.spec = bars_spec(bins, chart.legend, "", "share of queries");
  chart.table = false;
  return chart;
}

// Line chart over `along`, which is called `x`: mean recall of each kind in the cells whose `other` is `fixed`.
Chart cells_chart(const ReportData& data, const HeadRun& run, const std::string& x, int64_t HeadCell::*along,
                  int64_t HeadCell::*other, int64_t fixed) {
  Chart chart;
  chart.title = fmt::format("{}: mean recall by {}", run.dataset, x);
  chart.words =
      "The mean of R@1, R@5 and R@10 of both directions; bands are intervals over queries and seeds.";
  chart.data.name = fmt::format("heads-by-{}-{}", x, run.dataset);
  chart.data.columns = {number_column(x, x), text_column("colour", "series"), text_column("head", "name"),
                        figure_column("mean recall", "value")};
  std::set<int64_t> places;
  for (const HeadCell* cell : run.cells) {
    if (cell->*other != fixed) continue;
    const Series series = data.series_of(*run.run, cell->kind);
    if (std::ranges::none_of(chart.legend, [&](const Series& there) { return there.name == series.name; })) {
      chart.legend.push_back(series);
    }
    places.insert(cell->*along);
    chart.data.rows.push_back({number_cell(cell->*along), text_cell(series_key(series)),
                               text_cell(series.name), figure_cell(&cell->recall.mean_recall, Unit::kShare)});
  }
  if (places.size() < 2) chart.data.rows.clear();
  chart.spec = lines_spec(chart.legend, {.x = x, .x_title = x, .y_title = "mean recall", .x_log = true});
  return chart;
}

Table cells_table(const HeadRun& run) {
  Table table;
  table.name = "heads-all-" + run.dataset;
  table.caption = run.dataset + ": every kind, size and width";
  table.columns = {text_column("head", "kind"), number_column("pairs"), number_column("width"),
                   number_column("seeds")};
  add_recall_columns(table);
  for (const HeadCell* cell : run.cells) {
    table.rows.push_back({text_cell(cell->kind), number_cell(cell->pairs), number_cell(cell->width),
                          count_cell(std::ssize(cell->seeds))});
    add_recall_cells(cell->recall, table.rows.back());
  }
  return table;
}

// The first captions that each model finds for a few images, sampled evenly from the set.
class SideBySide {
 public:
  SideBySide(const ReportData& data, const HeadRun& run, PictureShelf& shelf) : run_(run) {
    const auto items = run.run->items.find(run.dataset);
    if (items == run.run->items.end()) return;
    items_ = &items->second;
    const auto count = std::ssize(items_->images);
    const int64_t shown = std::min(kSamplePictures, count);
    for (int64_t i = 0; i < shown; ++i) {
      const int64_t picture = (2 * i + 1) * count / (2 * shown);
      pictures_.emplace_back(picture, shelf.add(items_->images[static_cast<size_t>(picture)].image));
    }
    for (const RunQuery& query : run.run->queries) {
      if (query.dataset != run.dataset || query.direction != Direction::kImageToText) continue;
      const auto wanted = [&](const auto& picture) { return picture.first == query.query; };
      if (std::ranges::any_of(pictures_, wanted))
        answers_[query.query].emplace_back(data.series_of(*run.run, query.model), &query);
    }
  }

  [[nodiscard]] std::string html(const PictureShelf& shelf) const {
    if (items_ == nullptr) return {};
    std::string html;
    for (const auto& [picture, number] : pictures_) {
      const auto answers = answers_.find(picture);
      const RunImage& image = items_->images[static_cast<size_t>(picture)];
      if (answers == answers_.end() || image.image.path.empty()) continue;
      html += "<article class=\"example side-by-side\">" + tile_html(shelf.at(number), image.id) + "\n";
      for (const auto& [series, query] : answers->second) html += column(series, *query);
      html += "</article>\n";
    }
    if (html.empty()) return html;
    return fmt::format(
        "<h4>{}: the first five captions for a few images</h4>\n<p class=\"soft\">Images are taken "
        "evenly from the set, not chosen; marked captions are the image's own.</p>\n{}",
        escape_html(run_.dataset), html);
  }

 private:
  [[nodiscard]] std::string column(const Series& series, const RunQuery& query) const {
    std::string html = fmt::format("<div><b>{}</b><ol class=\"answers\">\n", escape_html(series.name));
    for (size_t i = 0; i < query.top.size() && i < kCaptionsShown; ++i) {
      const RunAnswer& answer = query.top[i];
      const bool known = answer.answer >= 0 && answer.answer < std::ssize(items_->texts);
      const std::string caption = known ? items_->texts[static_cast<size_t>(answer.answer)].text
                                        : fmt::format("text {}", answer.answer);
      html += fmt::format("<li{}>{}</li>\n", answer.right ? " class=\"right\"" : "",
                          escape_html(shortened(caption, 160)));
    }
    return html + "</ol></div>\n";
  }

  const HeadRun& run_;
  const RunItems* items_ = nullptr;
  std::vector<std::pair<int64_t, size_t>> pictures_;  // number, and the shelf's
  std::map<int64_t, std::vector<std::pair<Series, const RunQuery*>>>
      answers_;  // by image, in the models' order
};

}  // namespace

Result<std::string> heads_section(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                  ThreadPool& pool, const ProgressCallback& progress,
                                  const std::stop_token& stop) {
  const std::vector<HeadRun> runs = head_runs(data);
  if (runs.empty()) return std::string();
  PictureShelf shelf;
  std::vector<SideBySide> samples;
  samples.reserve(runs.size());
  for (const HeadRun& run : runs) samples.emplace_back(data, run, shelf);
  SACCADE_TRY(shelf.decode(options, pool, progress, stop));
  std::string html =
      "<section id=\"heads\"><h2>Heads on a frozen encoder</h2>\n<p class=\"soft\">The encoder stays as it is; a small "
      "head a side is trained on its features. Brackets hold the interval over images drawn with replacement and, "
      "where there are several, over seeds. A head is called better only where the interval of the paired difference "
      "in mean recall leaves out 0.</p>\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    const HeadRun& run = runs[i];
    html += fmt::format("<h3>{}</h3>\n", escape_html(run.dataset)) + page.table(recall_table(data, run));
    html += "<div class=\"panels\">\n" + page.chart(recall_bars(data, run));
    for (const Chart& chart :
         {cells_chart(data, run, "pairs", &HeadCell::pairs, &HeadCell::width, run.first_width),
          cells_chart(data, run, "width", &HeadCell::width, &HeadCell::pairs, run.most_pairs)}) {
      if (!chart.data.rows.empty()) html += page.chart(chart);
    }
    html +=
        "</div>\n" + page.table(verdict_table(run)) + page.table(cells_table(run)) + samples[i].html(shelf);
  }
  return html + "</section>\n";
}

}  // namespace saccade::lab
