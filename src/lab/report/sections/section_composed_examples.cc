// Composed search: queries drawn by the run's seed, with their inputs, the generated images, and the first
// answers.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "lab/report/run_sections.h"
#include "saccade/core/random.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

constexpr size_t kShownQueries = 40;  // maximum per page
constexpr size_t kShownAnswers = 5;
constexpr size_t kShownMethods = 2;

// Methods of one dataset of a run whose answers are shown.
struct Shown {
  std::string model;
  std::string method;
  std::string name;
};

// Hashes with FNV-1a (Fowler, Noll and Vo).
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

// Returns the trained and the untrained method with the highest r10, or the two best of one kind.
std::vector<Shown> choose_methods(const ReportData& data, const LoadedRun& run, const std::string& dataset) {
  struct Found {
    const ComposedResult* result = nullptr;
    double r10 = 0;
    bool trained = false;
  };
  std::vector<Found> found;
  for (const ComposedResult& result : std::get<ComposedMetrics>(run.metrics).results) {
    if (result.dataset != dataset || result.group.of != "all") continue;
    const Figure* r10 = find_named(result.group.figures, "r10");
    const bool known = r10 != nullptr && std::isfinite(r10->value);
    found.push_back({&result, known ? r10->value : -1, !result.composer.empty()});
  }
  std::ranges::stable_sort(found, std::greater<>(), &Found::r10);
  // The best of the other kind comes second.
  if (found.size() > kShownMethods) {
    const auto other = std::ranges::find_if(
        found.begin() + 1, found.end(), [&](const Found& each) { return each.trained != found[0].trained; });
    if (other != found.end()) std::rotate(found.begin() + 1, other, other + 1);
    found.resize(kShownMethods);
  }
  std::vector<Shown> shown;
  const bool several = run.run->info.checkpoints.size() > 1;
  for (const Found& each : found) {
    Shown one{each.result->model, each.result->method, {}};
    one.name = one.method;
    if (several) one.name += ", " + data.series_of(run, one.model).name;
    shown.push_back(std::move(one));
  }
  return shown;
}

// A query, and its line of composed.jsonl for each shown method.
struct Example {
  std::vector<Json> lines;  // [shown]; null: not there
  [[nodiscard]] const Json& any() const {
    return *std::ranges::find_if(lines, [](const Json& line) { return !line.is_null(); });
  }
};

struct Group {
  const LoadedRun* run = nullptr;
  std::string dataset;
  const RunItems* items = nullptr;
  std::vector<Shown> shown;
  std::map<uint64_t, Example> examples;  // by a hash of seed and query: those with the smallest are kept
};

Status collect(Group& group, size_t count) {
  const uint64_t seed = group.run->run->info.seed;
  return read_run_lines(*group.run->run, "composed.jsonl", [&](const Json& line) -> Status {
    if (json_text(line, "dataset") != group.dataset || json_number(line, "wording") != 0) return {};
    const auto shown = std::ranges::find_if(group.shown, [&](const Shown& each) {
      return each.model == json_text(line, "model") && each.method == json_text(line, "method");
    });
    if (shown == group.shown.end()) return {};
    const uint64_t place = SplitMix(hash_of(json_text(line, "query")) ^ SplitMix(seed).next()).next();
    if (group.examples.size() >= count && place > group.examples.rbegin()->first) return {};
    Example& example = group.examples[place];
    example.lines.resize(group.shown.size());
    example.lines[static_cast<size_t>(shown - group.shown.begin())] = line;
    if (group.examples.size() > count) group.examples.erase(std::prev(group.examples.end()));
    return {};
  });
}

// Returns the number of an image among the run's items.
std::optional<size_t> item_of(const Group& group, const Json& number) {
  if (!number.is_number_integer() || number.get<int64_t>() < 0) return std::nullopt;
  const auto at = static_cast<size_t>(number.get<int64_t>());
  if (group.items == nullptr || at >= group.items->images.size()) return std::nullopt;
  return at;
}

class Writer {
 public:
  Writer(const Group& group, PictureShelf& shelf) : group_(group), shelf_(shelf) {}

  void collect() {
    for (const auto& [place, example] : group_.examples) {
      const Json& any = example.any();
      for (const Json* number : {&member(any, "reference_item"), &member(any, "generated_item")}) {
        add(*number);
      }
      add(first_target(any));
      for (const Json& line : example.lines) {
        for (const Json& answer : first_answers(line)) add(member(answer, "item"));
      }
    }
  }

  [[nodiscard]] std::string html() const {
    std::string html = "<div class=\"examples\">\n";
    for (const auto& [place, example] : group_.examples) html += example_html(example);
    return html + "</div>\n";
  }

 private:
  static Json first_target(const Json& line) {
    const Json& targets = member(line, "target_items");
    return targets.is_array() && !targets.empty() ? targets.front() : Json();
  }
  static std::vector<Json> first_answers(const Json& line) {
    std::vector<Json> answers;
    const Json& top = member(line, "top");
    for (size_t i = 0; top.is_array() && i < top.size() && i < kShownAnswers; ++i) answers.push_back(top[i]);
    return answers;
  }
  void add(const Json& number) {
    if (const auto at = item_of(group_, number)) shelf_.add(group_.items->images[*at].image);
  }

  [[nodiscard]] std::string tile(const Json& number) const {
    const auto at = item_of(group_, number);
    if (!at) return "<div class=\"thumb\"><span>not in the run's items</span></div>";
    const RunImage& each = group_.items->images[*at];
    return tile_html(shelf_.at(shelf_.add(each.image)), each.id);
  }

  [[nodiscard]] std::string example_html(const Example& example) const {
    const Json& any = example.any();
    std::string words;
    const Json& texts = member(any, "texts");
    for (const Json& text : texts) {
      if (text.is_string()) words += (words.empty() ? "" : " / ") + text.get<std::string>();
    }
    std::string html = "<article class=\"example\"><ol class=\"strip five\">\n";
    html += fmt::format("<li>{}reference</li>\n", tile(member(any, "reference_item")));
    if (const Json target = first_target(any); !target.is_null()) {
      html += fmt::format("<li class=\"right\">{}meant</li>\n", tile(target));
    }
    if (const Json& generated = member(any, "generated_item"); !generated.is_null()) {
      html += fmt::format("<li>{}generated</li>\n", tile(generated));
    }
    html += fmt::format("</ol>\n<p>{}</p>\n", escape_html(shortened(words, 300)));
    for (size_t i = 0; i < group_.shown.size(); ++i) {
      const Json& line = example.lines[i];
      if (line.is_null()) continue;
      const Json& ranks = member(line, "ranks");
      const double rank =
          ranks.is_array() && !ranks.empty() && ranks.front().is_number() ? ranks.front().get<double>() : NAN;
      html += fmt::format("<h4>{} <span class=\"tag{}\">{}</span></h4>\n<ol class=\"strip five\">\n",
                          escape_html(group_.shown[i].name), rank <= 1 ? " apart" : "",
                          std::isfinite(rank) ? "rank " + number_text(rank, Unit::kNumber) : "kept back");
      int number = 0;
      for (const Json& answer : first_answers(line)) {
        const Json& right = member(answer, "right");
        html += fmt::format("<li{}>{}{}</li>\n",
                            right.is_boolean() && right.get<bool>() ? " class=\"right\"" : "",
                            tile(member(answer, "item")), ++number);
      }
      html += "</ol>\n";
    }
    return html + "</article>\n";
  }

  const Group& group_;
  PictureShelf& shelf_;
};

}  // namespace

Result<std::string> composed_examples(const ReportData& data, const RunPageOptions& options, ThreadPool& pool,
                                      const ProgressCallback& progress, const std::stop_token& stop) {
  if (options.examples <= 0) return std::string();
  std::vector<Group> groups;
  for (const LoadedRun& run : data.runs) {
    if (!std::holds_alternative<ComposedMetrics>(run.metrics) || !run.run->files.contains("composed.jsonl"))
      continue;
    for (const RunDataset& dataset : run.run->info.datasets) {
      const auto items = run.items.find(dataset.name);
      // Embeddings from a file have no images to show.
      if (items == run.items.end()) continue;
      std::vector<Shown> shown = choose_methods(data, run, dataset.name);
      if (!shown.empty()) groups.push_back({&run, dataset.name, &items->second, std::move(shown), {}});
    }
  }
  if (groups.empty()) return std::string();
  const size_t each = (kShownQueries + groups.size() - 1) / groups.size();
  PictureShelf shelf;
  std::vector<Writer> writers;
  for (Group& group : groups) {
    SACCADE_TRY(collect(group, each));
    writers.emplace_back(group, shelf);
    writers.back().collect();
  }
  SACCADE_TRY(shelf.decode(options, pool, progress, stop));
  size_t queries = 0;
  for (const Group& group : groups) queries += group.examples.size();
  if (queries == 0) return std::string();
  std::string html = fmt::format(
      "<h3>Queries</h3>\n<p class=\"soft\">{} queries, drawn by the run's seed and not by hand, with the first {} "
      "answers of the ways with the highest r@10, one that was trained and one that was not where there are both. "
      "Framed images are right.</p>\n",
      queries, kShownAnswers);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].examples.empty()) continue;
    html += fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", i == 0 ? " open" : "",
                        escape_html(groups[i].dataset), writers[i].html());
  }
  return html;
}

}  // namespace saccade::lab
