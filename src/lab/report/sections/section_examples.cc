// The queries that a model answers best and worst, with their images.
#include <algorithm>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "lab/report/run_sections.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

constexpr size_t kShownAnswers = 4;

// Returns the margin of the best right answer over the best wrong one among the first few. Only for a query
// that is right at rank 1.
double margin(const RunQuery& query) {
  double right = -std::numeric_limits<double>::infinity();
  double wrong = -std::numeric_limits<double>::infinity();
  for (const RunAnswer& answer : query.top) {
    (answer.right ? right : wrong) = std::max(answer.right ? right : wrong, answer.score);
  }
  return right - wrong;  // infinite if all known answers are right
}

// The best and the worst queries of one dataset, model and direction.
struct Examples {
  const LoadedRun* run = nullptr;
  std::string dataset;
  std::string model;  // the run's name for it
  Direction direction = Direction::kTextToImage;
  std::vector<const RunQuery*> best;
  std::vector<const RunQuery*> worst;
};

std::vector<Examples> choose(const ReportData& data, size_t count) {
  std::vector<Examples> all;
  for (const LoadedRun& run : data.runs) {
    std::map<std::tuple<std::string, std::string, int>, size_t> places;
    std::vector<std::vector<const RunQuery*>> queries;
    for (const RunQuery& query : run.queries) {
      if (query.ranks.empty() || query.top.empty()) continue;
      const auto [found, is_new] = places.try_emplace(
          {query.dataset, query.model, query.direction == Direction::kTextToImage ? 0 : 1}, queries.size());
      if (is_new) {
        queries.emplace_back();
        all.push_back({&run, query.dataset, query.model, query.direction, {}, {}});
      }
      queries[found->second].push_back(&query);
    }
    for (size_t i = 0; i < queries.size(); ++i) {
      Examples& examples = all[all.size() - queries.size() + i];
      std::vector<const RunQuery*>& list = queries[i];
      std::ranges::stable_sort(
          list, [](const RunQuery* a, const RunQuery* b) { return a->ranks.front() > b->ranks.front(); });
      for (const RunQuery* query : list) {
        if (examples.worst.size() < count && query->ranks.front() > 1) examples.worst.push_back(query);
      }
      std::erase_if(list, [](const RunQuery* query) { return query->ranks.front() > 1; });
      std::ranges::stable_sort(list,
                               [](const RunQuery* a, const RunQuery* b) { return margin(*a) > margin(*b); });
      examples.best.assign(list.begin(), list.begin() + static_cast<int64_t>(std::min(count, list.size())));
    }
  }
  return all;
}

class Writer {
 public:
  Writer(const Examples& examples, const RunItems& items, PictureShelf& shelf)
      : examples_(examples), items_(items), shelf_(shelf) {}

  // Puts all images on the shelf.
  void collect() {
    for (const auto* list : {&examples_.best, &examples_.worst}) {
      for (const RunQuery* query : *list) {
        for (const int64_t image : pictures_of(*query)) {
          if (known_image(image)) shelf_.add(items_.images[static_cast<size_t>(image)].image);
        }
      }
    }
  }

  std::string html() const {
    std::string html;
    for (const auto& [heading, list] :
         {std::pair{"Best", &examples_.best}, std::pair{"Worst", &examples_.worst}}) {
      if (list->empty()) continue;
      html += fmt::format("<h4>{}</h4>\n<div class=\"examples\">\n", heading);
      for (const RunQuery* query : *list) html += example_html(*query);
      html += "</div>\n";
    }
    return html;
  }

 private:
  [[nodiscard]] bool by_text() const { return examples_.direction == Direction::kTextToImage; }
  [[nodiscard]] bool known_image(int64_t image) const {
    return image >= 0 && image < static_cast<int64_t>(items_.images.size());
  }
  [[nodiscard]] bool known_text(int64_t text) const {
    return text >= 0 && text < static_cast<int64_t>(items_.texts.size());
  }
  [[nodiscard]] std::string caption(int64_t text) const {
    return known_text(text) ? items_.texts[static_cast<size_t>(text)].text : fmt::format("text {}", text);
  }

  // Returns the query's relevant image if it is not among those shown.
  [[nodiscard]] int64_t missed_picture(const RunQuery& query) const {
    if (!by_text() || !known_text(query.query)) return -1;
    for (size_t i = 0; i < query.top.size() && i < kShownAnswers; ++i) {
      if (query.top[i].right) return -1;
    }
    const std::vector<int64_t>& right = items_.texts[static_cast<size_t>(query.query)].images;
    return right.empty() ? -1 : right.front();
  }

  [[nodiscard]] std::vector<int64_t> pictures_of(const RunQuery& query) const {
    if (!by_text()) return {query.query};
    std::vector<int64_t> images;
    if (const int64_t missed = missed_picture(query); missed >= 0) images.push_back(missed);
    for (size_t i = 0; i < query.top.size() && i < kShownAnswers; ++i) images.push_back(query.top[i].answer);
    return images;
  }

  [[nodiscard]] std::string tile(int64_t image) const {
    if (!known_image(image)) {
      return fmt::format("<div class=\"thumb\"><span>image {}: not in the run's items</span></div>", image);
    }
    const RunImage& each = items_.images[static_cast<size_t>(image)];
    return tile_html(shelf_.at(shelf_.add(each.image)), each.id);
  }

  [[nodiscard]] std::string example_html(const RunQuery& query) const {
    const std::string rank =
        fmt::format("<span class=\"tag{}\">rank {}</span>", query.ranks.front() <= 1 ? " apart" : "",
                    number_text(query.ranks.front(), Unit::kNumber));
    return by_text() ? text_example(query, rank) : image_example(query, rank);
  }

  [[nodiscard]] std::string text_example(const RunQuery& query, const std::string& rank) const {
    std::string html = fmt::format("<article class=\"example\"><p>{} {}</p>\n<ol class=\"strip\">\n",
                                   escape_html(shortened(caption(query.query), 300)), rank);
    for (size_t i = 0; i < query.top.size() && i < kShownAnswers; ++i) {
      const RunAnswer& answer = query.top[i];
      html += fmt::format("<li{}>{}{}. {}</li>\n", answer.right ? " class=\"right\"" : "",
                          tile(answer.answer), i + 1, number_text(answer.score, Unit::kNumber));
    }
    if (const int64_t missed = missed_picture(query); missed >= 0) {
      html += fmt::format("<li class=\"right\">{}right, at {}</li>\n", tile(missed),
                          number_text(query.ranks.front(), Unit::kNumber));
    }
    return html + "</ol></article>\n";
  }

  [[nodiscard]] std::string image_example(const RunQuery& query, const std::string& rank) const {
    std::string html =
        fmt::format("<article class=\"example\"><div class=\"head\">{}<div>{}<ol class=\"answers\">\n",
                    tile(query.query), rank);
    for (size_t i = 0; i < query.top.size() && i < kShownAnswers; ++i) {
      const RunAnswer& answer = query.top[i];
      html += fmt::format("<li{}>{} <small>{}</small></li>\n", answer.right ? " class=\"right\"" : "",
                          escape_html(shortened(caption(answer.answer), 160)),
                          number_text(answer.score, Unit::kNumber));
    }
    return html + "</ol></div></div></article>\n";
  }

  const Examples& examples_;
  const RunItems& items_;
  PictureShelf& shelf_;
};

}  // namespace

Result<std::string> examples_section(const ReportData& data, const RunPageOptions& options, ThreadPool& pool,
                                     const ProgressCallback& progress, const std::stop_token& stop) {
  if (options.examples <= 0) return std::string();
  const std::vector<Examples> all = choose(data, static_cast<size_t>(options.examples));
  if (all.empty()) return std::string();
  PictureShelf shelf;
  std::vector<Writer> writers;
  const RunItems none;
  for (const Examples& examples : all) {
    const auto items = examples.run->items.find(examples.dataset);
    writers.emplace_back(examples, items == examples.run->items.end() ? none : items->second, shelf);
    writers.back().collect();
  }
  SACCADE_TRY(shelf.decode(options, pool, progress, stop));
  std::string html =
      "<section id=\"queries\"><h2>Best and worst queries</h2>\n<p class=\"soft\">Best: right at rank 1, by "
      "the widest margin over the best wrong answer. Worst: the first right answer ranked lowest. Framed "
      "images are right; numbers under images are scores.</p>\n";
  for (size_t i = 0; i < all.size(); ++i) {
    const Series series = data.series_of(*all[i].run, all[i].model);
    html += fmt::format("<details{}><summary>{}: {}, {}</summary>\n{}</details>\n", i == 0 ? " open" : "",
                        escape_html(all[i].dataset), escape_html(series.name),
                        direction_words(all[i].direction), writers[i].html());
  }
  return html + "</section>\n";
}

}  // namespace saccade::lab
