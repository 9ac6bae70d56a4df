// Retrieval: recall with intervals, paired differences, the distribution of ranks.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "lab/report/headlines.h"
#include "lab/report/run_sections.h"
#include "lab/report/verdicts.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

struct FigureName {
  std::string_view key;
  std::string_view heading;
  Unit unit;
  bool lower_is_better = false;
};
constexpr std::array kFigures = {FigureName{"r1", "R@1", Unit::kShare},
                                 FigureName{"r5", "R@5", Unit::kShare},
                                 FigureName{"r10", "R@10", Unit::kShare},
                                 FigureName{"recall1", "recall@1", Unit::kShare},
                                 FigureName{"recall5", "recall@5", Unit::kShare},
                                 FigureName{"recall10", "recall@10", Unit::kShare},
                                 FigureName{"mrr", "MRR", Unit::kNumber},
                                 FigureName{"ndcg10", "nDCG@10", Unit::kNumber},
                                 FigureName{"map", "mAP", Unit::kNumber},
                                 FigureName{"median_rank", "median rank", Unit::kNumber, true},
                                 FigureName{"mean_rank", "mean rank", Unit::kNumber, true}};

// Returns true if the figure equals another one with one right answer per query: recall is the hit rate then, and mAP is MRR.
bool is_for_several(const FigureName& figure) {
  return figure.key.starts_with("recall") || figure.key == "map";
}

struct Entry {
  const LoadedRun* run = nullptr;
  const RetrievalResult* result = nullptr;
};

// Results that may share a table: of the same dataset under the same protocol.
struct Group {
  std::string dataset;
  std::vector<Entry> entries;
};

std::vector<Group> group_results(const ReportData& data) {
  std::vector<Group> groups;
  std::vector<std::string> keys;
  for (const LoadedRun& run : data.runs) {
    const auto* metrics = std::get_if<RetrievalMetrics>(&run.metrics);
    if (metrics == nullptr) continue;
    for (const RetrievalResult& result : metrics->results) {
      const std::string key = comparability(run.run->info, result.dataset);
      const auto found = std::ranges::find(keys, key);
      const auto at = static_cast<size_t>(found - keys.begin());
      if (found == keys.end()) {
        keys.push_back(key);
        groups.push_back(Group{result.dataset, {}});
      }
      // Every run measures chance; it is shown once.
      const bool again =
          result.model == kChance && std::ranges::any_of(groups[at].entries, [](const Entry& entry) {
            return entry.result->model == kChance;
          });
      if (!again) groups[at].entries.push_back({&run, &result});
    }
  }
  for (Group& group : groups) {  // guessing comes last
    std::stable_partition(group.entries.begin(), group.entries.end(),
                          [](const Entry& entry) { return entry.result->model != kChance; });
  }
  return groups;
}

std::vector<Series> series_in(const ReportData& data, const Group& group) {
  std::vector<Series> series;
  for (const Entry& entry : group.entries) {
    const Series each = data.series_of(*entry.run, entry.result->model);
    if (std::ranges::none_of(series, [&](const Series& there) { return there.colour == each.colour; })) {
      series.push_back(each);
    }
  }
  return series;
}

Chart recall_chart(const ReportData& data, const Group& group, Direction direction) {
  Chart chart;
  chart.title = fmt::format("{}: {}", group.dataset, direction_words(direction));
  chart.words = "Share of queries with a right answer among the first 1, 5 and 10, with its interval.";
  chart.legend = series_in(data, group);
  chart.data.name = fmt::format("recall-{}-{}", group.dataset, direction_name(direction));
  chart.data.columns = {text_column("figure", "group"), text_column("colour", "series"),
                        text_column("model", "name"), figure_column("value")};
  std::vector<std::string> figures;
  for (const FigureName& figure : std::span(kFigures).first(3)) {
    figures.emplace_back(figure.heading.substr(0, figure.heading.find(',')));
    for (const Entry& entry : group.entries) {
      const Series series = data.series_of(*entry.run, entry.result->model);
      chart.data.rows.push_back(
          {text_cell(figures.back()), text_cell(series_key(series)), text_cell(series.name),
           figure_cell(find_named(entry.result->directions.of(direction).figures, figure.key),
                       Unit::kShare)});
    }
  }
  chart.spec = interval_spec(figures, chart.legend, "share of queries");
  chart.table = false;  // the section's own table has these figures
  return chart;
}

Table figures_table(const ReportData& data, const Group& group, Direction direction) {
  Table table;
  table.name = fmt::format("retrieval-{}-{}", group.dataset, direction_name(direction));
  table.caption =
      fmt::format("{}, {}: figures with their intervals", group.dataset, direction_words(direction));
  bool several = false;
  for (const Entry& entry : group.entries) {
    several = several || entry.result->directions.of(direction).counts.several_right > 0;
  }
  table.columns = {text_column("model"), number_column("queries")};
  for (const FigureName& figure : kFigures) {
    if (!several && is_for_several(figure)) continue;
    table.columns.push_back(figure_column(std::string(figure.heading), std::string(figure.key)));
  }
  table.columns.push_back(number_column("tied queries", "tied"));
  table.columns.push_back(number_column("without answer", "without_answer"));
  for (const Entry& entry : group.entries) {
    const RetrievalDirection& one = entry.result->directions.of(direction);
    const Series series = data.series_of(*entry.run, entry.result->model);
    std::vector<Cell> row = {text_cell(series.name), number_cell(one.counts.queries)};
    for (const FigureName& figure : kFigures) {
      if (!several && is_for_several(figure)) continue;
      row.push_back(figure_cell(find_named(one.figures, figure.key), figure.unit));
    }
    row.push_back(number_cell(one.counts.tied));
    row.push_back(number_cell(one.counts.without_answer));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Returns the figures of groups of text queries; without rows if no run has them.
Table query_kinds_table(const ReportData& data, const Group& group) {
  Table table;
  table.name = "kinds-" + group.dataset;
  table.caption = fmt::format(
      "{}, text to image by kind of query. Groups of fewer than {} images have Wilson's interval, with one trial for each image",
      group.dataset, kFewestClusters);
  table.columns = {text_column("kind"),        text_column("group"),        text_column("model"),
                   number_column("queries"),   number_column("images"),     figure_column("R@1", "r1"),
                   figure_column("R@5", "r5"), figure_column("R@10", "r10")};
  for (const Entry& entry : group.entries) {
    if (!entry.result->groups) continue;
    const Series series = data.series_of(*entry.run, entry.result->model);
    for (const QueryGroupFigures& one : *entry.result->groups) {
      std::vector<Cell> row = {text_cell(one.kind), text_cell(one.group), text_cell(series.name),
                               number_cell(one.queries), number_cell(one.images)};
      for (const char* name : {"r1", "r5", "r10"}) {
        row.push_back(figure_cell(static_cast<const Figure*>(find_named(one.figures, name)), Unit::kShare));
      }
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

Table differences_table(const ReportData& data, const Group& group) {
  Table table;
  table.name = "differences-" + group.dataset;
  table.caption = fmt::format("{}: paired differences, over the same resamples", group.dataset);
  table.columns = {text_column("a"), text_column("b"), text_column("direction"), text_column("figure"),
                   figure_column("a \xE2\x88\x92 b", "difference")};
  Verdicts verdicts;
  std::set<const LoadedRun*> done;  // a run's entries need not stand together: guessing comes last
  for (const Entry& entry : group.entries) {
    if (!done.insert(entry.run).second) continue;
    for (const RetrievalComparison& comparison : std::get<RetrievalMetrics>(entry.run->metrics).comparisons) {
      if (comparison.dataset != group.dataset) continue;
      const std::string a = data.series_of(*entry.run, comparison.a).name;
      const std::string b = data.series_of(*entry.run, comparison.b).name;
      for (const Direction direction : kBothDirections) {
        for (const std::string_view key : {"r1", "r5", "r10", "mrr", "ndcg10"}) {
          const Difference* difference = find_named(comparison.directions.of(direction), key);
          if (difference == nullptr) continue;
          const auto figure = std::ranges::find(kFigures, key, &FigureName::key);
          table.rows.push_back({text_cell(a), text_cell(b),
                                text_cell(direction_name(direction), direction_words(direction)),
                                text_cell(key, figure->heading), figure_cell(difference, figure->unit)});
          verdicts.add(difference, a, b, figure->lower_is_better);
        }
      }
    }
  }
  verdicts.finish(table, group.entries.front().run->run->info);
  return table;
}

// Returns the first ranks of the bins: 1, 2, 6, 11, 21, 51, 101, 201, ...
std::vector<int64_t> rank_bins(int64_t last) {
  std::vector<int64_t> begins = {1, 2, 6};
  for (int64_t power = 10; power < last; power *= 10) {
    for (const int64_t step : {1, 2, 5}) {
      if (step * power < last) begins.push_back(step * power + 1);
    }
  }
  return begins;
}

Chart ranks_chart(const ReportData& data, const Group& group, Direction direction) {
  Chart chart;
  std::map<size_t, std::vector<double>> ranks;  // by colour
  double last = 1;
  for (const Entry& entry : group.entries) {
    const std::string model = entry.result->model;
    for (const RunQuery& query : entry.run->queries) {
      if (query.dataset != group.dataset || query.model != model || query.direction != direction) continue;
      if (query.ranks.empty()) continue;
      ranks[data.series_of(*entry.run, model).colour].push_back(query.ranks.front());
      last = std::max(last, query.ranks.front());
    }
  }
  for (const Series& series : series_in(data, group)) {
    if (ranks.contains(series.colour)) chart.legend.push_back(series);
  }
  chart.title = fmt::format("{}: ranks, {}", group.dataset, direction_words(direction));
  chart.words = "The rank of each query's first right answer.";
  chart.data.name = fmt::format("ranks-{}-{}", group.dataset, direction_name(direction));
  chart.data.columns = {text_column("model", "name"), text_column("colour", "series"),
                        text_column("ranks", "bin"), number_column("queries"), number_column("share")};
  const std::vector<int64_t> begins = rank_bins(static_cast<int64_t>(std::ceil(last)));
  std::vector<std::string> bins;
  for (size_t i = 0; i < begins.size(); ++i) {
    const bool end = i + 1 == begins.size();
    const int64_t to = end ? 0 : begins[i + 1] - 1;
    bins.push_back(end               ? fmt::format("{}+", begins[i])
                   : to == begins[i] ? std::to_string(to)
                                     : fmt::format("{}\xE2\x80\x93{}", begins[i], to));
  }
  for (const Series& series : chart.legend) {
    std::vector<int64_t> counts(begins.size());
    for (const double rank : ranks[series.colour]) {
      // The tie policy "mean" gives half ranks, which are rounded down to their bin.
      const auto after = std::ranges::upper_bound(begins, static_cast<int64_t>(std::floor(rank)));
      ++counts[static_cast<size_t>(std::max<int64_t>(after - begins.begin() - 1, 0))];
    }
    for (size_t i = 0; i < bins.size(); ++i) {
      const double share = static_cast<double>(counts[i]) / static_cast<double>(ranks[series.colour].size());
      chart.data.rows.push_back({text_cell(series.name), text_cell(series_key(series)), text_cell(bins[i]),
                                 count_cell(counts[i]), number_cell(share, Unit::kShare)});
    }
  }
  chart.spec = bars_spec(bins, chart.legend, "rank", "share of queries");
  return chart;
}

std::string group_html(const ReportData& data, const Group& group, PageBuilder& page) {
  const RetrievalResult& first = *group.entries.front().result;
  const Json& protocol = group.entries.front().run->run->info.protocol;
  std::string html =
      fmt::format("<h3>{}</h3>\n<p class=\"soft\">{} images, {} texts", escape_html(group.dataset),
                  number_cell(first.images).html, number_cell(first.texts).html);
  for (const auto& [key, words] : {std::pair{"captions", "captions"}, std::pair{"ties", "ties"}}) {
    const std::string value = json_text(protocol, key);
    if (!value.empty()) html += fmt::format("; {}: {}", words, escape_html(value));
  }
  html += ".</p>\n<div class=\"panels\">\n";
  for (const Direction direction : kBothDirections) html += page.chart(recall_chart(data, group, direction));
  html += "</div>\n";
  for (const Direction direction : kBothDirections) html += page.table(figures_table(data, group, direction));
  const Table kinds = query_kinds_table(data, group);
  if (!kinds.rows.empty()) html += page.table(kinds);
  const Table differences = differences_table(data, group);
  if (!differences.rows.empty()) html += page.table(differences);
  std::string panels;
  for (const Direction direction : kBothDirections) {
    const Chart chart = ranks_chart(data, group, direction);
    if (!chart.data.rows.empty()) panels += page.chart(chart);
  }
  if (!panels.empty()) html += "<div class=\"panels\">\n" + panels + "</div>\n";
  return html;
}

}  // namespace

std::string retrieval_section(const ReportData& data, PageBuilder& page) {
  const std::vector<Group> groups = group_results(data);
  if (groups.empty()) return {};
  std::string html =
      "<section id=\"retrieval\"><h2>Retrieval</h2>\n<p class=\"soft\">Brackets hold the bootstrap interval, "
      "over images drawn with replacement. Figures of different datasets or protocols do not compare.</p>\n";
  for (const Group& group : groups) html += group_html(data, group, page);
  return html + "</section>\n";
}

}  // namespace saccade::lab
