// Visualness: classification of visual texts, by models and by rules over words.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab/report/run_sections.h"
#include "lab/report/verdicts.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

struct Entry {
  Series series;
  const VisualnessResult* result = nullptr;
  bool is_checkpoint = false;
};

// Headings of BinaryFigures::kNames.
constexpr std::array<std::string_view, BinaryFigures::kNames.size()> kHeadings = {"F1", "precision", "recall",
                                                                                  "accuracy"};

// Returns a method's series; one that is not a checkpoint of the run has its own name in grey.
Series series_of(const ReportData& data, const LoadedRun& run, const std::string& name) {
  if (run.has_checkpoint(name)) return data.series_of(run, name);
  Series series = data.series_of(run, "chance");
  series.name = name;
  return series;
}

// Returns the number of images in the MRR's gallery, the same for all methods of a dataset.
int64_t pictures_of(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    if (entry.result->mrr) return entry.result->mrr->images;
  }
  return 0;
}

Table methods_table(const std::string& dataset, const std::vector<Entry>& entries) {
  Table table;
  table.name = "visualness-" + dataset;
  const int64_t pictures = pictures_of(entries);
  table.caption = dataset + ": texts told apart, macro-averaged over visual and non-visual";
  if (pictures > 0) table.caption += fmt::format("; MRR of a text's own image among {}", pictures);
  table.columns = {text_column("method"), text_column("kind")};
  for (size_t i = 0; i < kHeadings.size(); ++i) {
    table.columns.push_back(figure_column(std::string(kHeadings[i]), std::string(BinaryFigures::kNames[i])));
  }
  table.columns.push_back(number_column("threshold"));
  if (pictures > 0) table.columns.push_back(figure_column("MRR", "mrr"));
  for (const Entry& entry : entries) {
    std::vector<Cell> row = {text_cell(entry.series.name), text_cell(entry.result->method)};
    for (const Figure& figure : entry.result->figures) row.push_back(figure_cell(&figure, Unit::kShare));
    row.push_back(number_cell(entry.result->threshold));
    const Figure* mrr = entry.result->mrr ? &entry.result->mrr->mrr : nullptr;
    if (pictures > 0) row.push_back(figure_cell(mrr, Unit::kNumber));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Chart methods_chart(const std::string& dataset, const std::vector<Entry>& entries) {
  Chart chart;
  chart.title = dataset + ": F1";
  chart.words = "Macro F1 with its interval.";
  chart.table = false;
  chart.data.name = "visualness-f1-" + dataset;
  chart.data.columns = {text_column("method", "group"), text_column("colour", "series"), text_column("name"),
                        figure_column("F1", "value")};
  std::vector<std::string> groups;
  for (const Entry& entry : entries) {
    groups.push_back(entry.series.name);
    chart.data.rows.push_back({text_cell(entry.series.name), text_cell(series_key(entry.series)),
                               text_cell(entry.series.name), figure_cell(&entry.result->f1(), Unit::kShare)});
    const auto same = [&](const Series& series) { return series_key(series) == series_key(entry.series); };
    if (std::ranges::any_of(chart.legend, same)) continue;
    chart.legend.push_back(entry.series);
    if (!entry.is_checkpoint) chart.legend.back().name = "rules without a model";
  }
  chart.spec = interval_spec(groups, chart.legend, "F1");
  chart.spec["encoding"]["y"]["axis"] = {{"labelLimit", 190}};  // pixels: the names of the rules
  // A row has one dot in its middle, without offsets for other series.
  chart.spec["encoding"].erase("yOffset");
  chart.spec["height"] = static_cast<int>(groups.size()) * 26 + 44;
  return chart;
}

// Values of p from Fisher's z may be far below the precision of a table's digits.
std::string p_text(double p) {
  if (!std::isfinite(p)) return "\xE2\x80\x93";
  return p < 0.001 ? "< 0.001" : three_digits(p);
}

// Returns the correlations of attention with lexicons over one set of texts; those that an older run keeps with its
// results.
std::vector<AttentionCorrelation> correlations_of(const std::string& texts,
                                                  const VisualnessMetrics& metrics) {
  std::vector<AttentionCorrelation> correlations;
  for (const AttentionCorrelation& each : metrics.attention) {
    if (each.dataset == texts) correlations.push_back(each);
  }
  if (!metrics.attention.empty()) return correlations;
  for (const VisualnessResult& result : metrics.results) {
    if (result.dataset != texts || !result.attention) continue;
    correlations.push_back({.dataset = texts,
                            .model = result.model,
                            .lexicon = "",
                            .length = "all",
                            .ratings = *result.attention});
  }
  return correlations;
}

Table attention_table(const ReportData& data, const LoadedRun& run, const std::string& texts,
                      const VisualnessMetrics& metrics) {
  Table table;
  table.name = "attention-" + texts;
  table.caption = texts + ": attention to words of the last block, and the words' ratings (Pearson)";
  table.columns = {text_column("model"), text_column("lexicon"), text_column("texts", "length"),
                   figure_column("r"),   text_column("p"),       number_column("words")};
  for (const AttentionCorrelation& each : correlations_of(texts, metrics)) {
    const AttentionRatings& ratings = each.ratings;
    if (each.length != "all" && !std::isfinite(ratings.r)) continue;
    table.rows.push_back({text_cell(series_of(data, run, each.model).name), text_cell(each.lexicon),
                          text_cell(each.length),
                          figure_cell(ratings.r, ratings.low, ratings.high, Unit::kNumber),
                          text_cell(p_text(ratings.p)), number_cell(ratings.words)});
  }
  return table;
}

Table agreement_table(const ReportData& data, const LoadedRun& run, const std::string& texts,
                      const VisualnessMetrics& metrics) {
  Table table;
  table.name = "attention-between-" + texts;
  table.caption = texts + ": attention to words of two models (Pearson)";
  table.columns = {text_column("a"), text_column("b"), figure_column("r"), text_column("p"),
                   number_column("words")};
  for (const AttentionAgreement& each : metrics.attention_between) {
    if (each.dataset != texts) continue;
    table.rows.push_back({text_cell(series_of(data, run, each.a).name),
                          text_cell(series_of(data, run, each.b).name),
                          figure_cell(each.r, each.low, each.high, Unit::kNumber), text_cell(p_text(each.p)),
                          number_cell(each.words)});
  }
  return table;
}

// Returns what the texts are like, and the models' attention to the objects that they name.
Table objects_table(const ReportData& data, const LoadedRun& run, const VisualnessMetrics& metrics) {
  Table table;
  table.name = "attention-objects";
  table.caption = "Words and objects of a text on average, and the share of attention to objects";
  table.columns = {text_column("texts"),     number_column("words"),
                   number_column("objects"), number_column("share"),
                   text_column("model"),     number_column("attention to objects", "attention")};
  for (const AttentionTextFacts& facts : metrics.attention_texts) {
    for (const auto& [model, share] : facts.attention_to_objects) {
      table.rows.push_back({text_cell(facts.dataset), number_cell(facts.words), number_cell(facts.objects),
                            number_cell(facts.object_share, Unit::kShare),
                            text_cell(series_of(data, run, model).name), number_cell(share, Unit::kShare)});
    }
  }
  return table;
}

Table parts_table(const std::string& dataset, const std::vector<Entry>& entries) {
  Table table;
  table.name = "visualness-parts-" + dataset;
  table.caption = dataset + ": F1 by the length of the texts and the objects that they name";
  table.columns = {text_column("method"), text_column("texts", "part"), number_column("number"),
                   number_column("visual"), figure_column("F1", "f1")};
  for (const Entry& entry : entries) {
    for (const VisualnessPart& part : entry.result->parts) {
      if (!std::isfinite(part.figures.front().value)) continue;
      table.rows.push_back({text_cell(entry.series.name), text_cell(part.name), number_cell(part.texts),
                            number_cell(part.visual), figure_cell(&part.figures.front(), Unit::kShare)});
    }
  }
  return table;
}

Table word_ratings_table(const VisualnessMetrics& metrics) {
  Table table;
  table.name = "word-ratings";
  table.caption = "Ratings of words in lexicons, and people's (Pearson)";
  table.columns = {text_column("lexicon"), figure_column("r"), text_column("p"), number_column("words"),
                   number_column("people's agreement (alpha)", "alpha")};
  for (const WordRatingAgreement& each : metrics.word_ratings) {
    table.rows.push_back({text_cell(each.lexicon), figure_cell(each.r, each.low, each.high, Unit::kNumber),
                          text_cell(p_text(each.p)), number_cell(each.words),
                          number_cell(each.alpha.value_or(std::numeric_limits<double>::quiet_NaN()))});
  }
  return table;
}

Table rated_words_table(const VisualnessMetrics& metrics) {
  Table table;
  table.name = "rated-words";
  table.caption = "Words that word vectors added to a lexicon, by their ratings";
  table.columns = {text_column("lexicon"), text_column("rating"), number_column("words"),
                   text_column("such as", "examples")};
  for (const RatedWordList& list : metrics.rated_words) {
    for (const RatedWordRange& range : list.ranges) {
      table.rows.push_back({text_cell(list.lexicon), text_cell(range.name), number_cell(range.words),
                            text_cell(fmt::format("{}", fmt::join(range.examples, ", ")))});
    }
  }
  return table;
}

Table ambiguous_table(const std::string& dataset, const std::vector<Entry>& entries) {
  Table table;
  table.name = "ambiguous-" + dataset;
  table.caption = dataset + ": where the scores of ambiguous texts lie, in their own standard deviations";
  table.columns = {text_column("method"),
                   number_column("texts"),
                   number_column("5%", "q5"),
                   number_column("25%", "q25"),
                   number_column("median", "q50"),
                   number_column("75%", "q75"),
                   number_column("95%", "q95"),
                   number_column("bimodality (even 0.56, two ends 1)", "bimodality"),
                   number_column("called visual", "called_visual")};
  for (const Entry& entry : entries) {
    const std::optional<AmbiguousScores>& ambiguous = entry.result->ambiguous;
    if (!ambiguous || ambiguous->quantiles.size() != kAmbiguousShares.size()) continue;
    std::vector<Cell> row = {text_cell(entry.series.name), number_cell(ambiguous->texts)};
    for (const double each : ambiguous->quantiles) row.push_back(number_cell(each));
    row.push_back(number_cell(ambiguous->bimodality));
    row.push_back(number_cell(ambiguous->called_visual, Unit::kShare));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table differences_table(const ReportData& data, const LoadedRun& run, const std::string& dataset,
                        const std::vector<VisualnessComparison>& comparisons) {
  Table table;
  table.name = "visualness-differences-" + dataset;
  table.caption = dataset + ": paired differences";
  table.columns = {text_column("a"), text_column("b"), text_column("figure"),
                   figure_column("a \xE2\x88\x92 b", "difference")};
  Verdicts verdicts;
  for (const VisualnessComparison& comparison : comparisons) {
    if (comparison.dataset != dataset) continue;
    const std::string a = series_of(data, run, comparison.a).name;
    const std::string b = series_of(data, run, comparison.b).name;
    for (const std::string_view figure : {"f1", "accuracy", "mrr"}) {
      const Difference* difference = find_named(comparison.scores, figure);
      if (difference == nullptr) continue;
      table.rows.push_back(
          {text_cell(a), text_cell(b), text_cell(figure), figure_cell(difference, Unit::kShare)});
      verdicts.add(difference, a, b);
    }
  }
  verdicts.finish(table, run.run->info);
  return table;
}

constexpr std::array<std::string_view, 4> kMapKinds = {"visual text", "non-visual text", "image",
                                                       "NULL image"};

// Returns the chart of map.jsonl's points of one dataset and model.
Chart map_chart(const std::string& title, const std::vector<Json>& points) {
  Chart chart;
  chart.square = true;
  chart.table = false;
  const std::string method = json_text(points.front(), "method") == "pca" ? "PCA" : "t-SNE";
  chart.title = fmt::format("{}: {}", method, title);
  chart.words = "Visual and non-visual texts, the images of the former, and the NULL image.";
  chart.data.name = fmt::format("visualness-map-{}", title);
  chart.data.columns = {text_column("kind"), text_column("colour", "series"), text_column("what", "label"),
                        number_column("x"), number_column("y")};
  for (size_t i = 0; i < kMapKinds.size(); ++i) chart.legend.push_back({std::string(kMapKinds[i]), i});
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const Json& point : points) {
    std::string kind = json_text(point, "kind");
    if (kind == "picture" || kind == "NULL picture")
      kind.replace(kind.size() - 7, 7, "image");  // earlier runs
    const auto place = std::ranges::find(kMapKinds, kind);
    if (place == kMapKinds.end()) continue;
    const double x = json_number(point, "x");
    const double y = json_number(point, "y");
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    low = std::min({low, x, y});
    high = std::max({high, x, y});
    const std::string text = json_text(point, "text");
    const auto rounded = [](double value) { return std::round(value * 1e5) / 1e5; };
    chart.data.rows.push_back(
        {text_cell(kind), text_cell(series_key(chart.legend[static_cast<size_t>(place - kMapKinds.begin())])),
         text_cell(shortened(text.empty() ? kind : text, 80)), number_cell(rounded(x)),
         number_cell(rounded(y))});
  }
  const double border = 0.04 * (high - low) + 1e-9;
  chart.spec = map_spec(chart.legend, low - border, high + border);
  // The NULL image is one point among many, so it is emphasized.
  const auto null_image = [](const Json& value, const Json& otherwise) {
    return Json{{"condition", {{"test", "datum.kind === 'NULL image'"}, {"value", value}}},
                {"value", otherwise}};
  };
  chart.spec["encoding"]["size"] = null_image(240, 22);
  chart.spec["encoding"]["shape"] = null_image("diamond", "circle");
  chart.spec["encoding"]["opacity"] = null_image(1, 0.65);
  return chart;
}

Result<std::string> maps_html(const ReportData& data, const LoadedRun& run, const std::string& dataset,
                              PageBuilder& page) {
  if (!run.run->files.contains("map.jsonl")) return std::string();
  std::vector<std::pair<std::string, std::vector<Json>>> maps;
  SACCADE_TRY(read_run_lines(*run.run, "map.jsonl", [&](const Json& line) -> Status {
    if (json_text(line, "dataset") != dataset) return {};
    const std::string model = json_text(line, "model");
    auto found = std::ranges::find_if(maps, [&](const auto& each) { return each.first == model; });
    if (found == maps.end()) found = maps.insert(found, {model, {}});
    found->second.push_back(line);
    return {};
  }));
  std::string html;
  for (const auto& [model, points] : maps) {
    html += page.chart(map_chart(fmt::format("{}, {}", dataset, series_of(data, run, model).name), points));
  }
  return html.empty() ? html : "<div class=\"panels\">\n" + html + "</div>\n";
}

// Returns the tables of attention over texts without labels, and of the lexicons.
std::string words_html(const ReportData& data, const LoadedRun& run, const VisualnessMetrics& metrics,
                       PageBuilder& page) {
  std::vector<Table> tables;
  for (const AttentionTextFacts& facts : metrics.attention_texts) {
    const auto named = [&](const RunDataset& dataset) { return dataset.name == facts.dataset; };
    if (std::ranges::any_of(run.run->info.datasets, named)) continue;  // shown with the dataset
    tables.push_back(attention_table(data, run, facts.dataset, metrics));
    tables.push_back(agreement_table(data, run, facts.dataset, metrics));
  }
  tables.push_back(objects_table(data, run, metrics));
  tables.push_back(word_ratings_table(metrics));
  tables.push_back(rated_words_table(metrics));
  std::string html;
  for (const Table& table : tables) {
    if (!table.rows.empty()) html += page.table(table);
  }
  return html;
}

}  // namespace

Result<std::string> visualness_section(const ReportData& data, PageBuilder& page) {
  std::string html;
  for (const LoadedRun& run : data.runs) {
    const auto* metrics = std::get_if<VisualnessMetrics>(&run.metrics);
    if (metrics == nullptr) continue;
    for (const RunDataset& dataset : run.run->info.datasets) {
      std::vector<Entry> entries;
      for (const VisualnessResult& result : metrics->results) {
        if (result.dataset != dataset.name) continue;
        entries.push_back({series_of(data, run, result.model), &result, run.has_checkpoint(result.model)});
      }
      if (entries.empty()) continue;
      html += fmt::format("<h3>{}</h3>\n<div class=\"panels\">\n{}</div>\n{}", escape_html(dataset.name),
                          page.chart(methods_chart(dataset.name, entries)),
                          page.table(methods_table(dataset.name, entries)));
      for (const Table& table :
           {parts_table(dataset.name, entries), attention_table(data, run, dataset.name, *metrics),
            agreement_table(data, run, dataset.name, *metrics), ambiguous_table(dataset.name, entries),
            differences_table(data, run, dataset.name, metrics->comparisons)}) {
        if (!table.rows.empty()) html += page.table(table);
      }
      SACCADE_ASSIGN(const std::string maps, maps_html(data, run, dataset.name, page));
      html += maps;
    }
    html += words_html(data, run, *metrics, page);
  }
  if (html.empty()) return std::string();
  return "<section id=\"visualness\"><h2>Visualness</h2>\n<p class=\"soft\">Which texts picture something: each method "
         "gives a text a score, and calls it visual above a threshold.</p>\n" +
         html + "</section>\n";
}

}  // namespace saccade::lab
