#include "lab/data/ratings.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "saccade/core/files/csv.h"

namespace saccade::lab {
namespace {

constexpr int kLowest = 1;
constexpr int kHighest = 7;
constexpr int kNeutral = 4;

constexpr std::array<EnumName<AlphaMetric>, 3> kMetrics = {{{AlphaMetric::kNominal, "nominal"},
                                                            {AlphaMetric::kOrdinal, "ordinal"},
                                                            {AlphaMetric::kInterval, "interval"}}};

struct Passed {
  std::string_view column;
  std::string RatedSentence::*field;
};
constexpr std::array<Passed, 5> kPassed = {{{"id", &RatedSentence::id},
                                            {"image", &RatedSentence::image},
                                            {"group", &RatedSentence::group},
                                            {"split", &RatedSentence::split},
                                            {"source", &RatedSentence::source}}};

Result<int> parse_rating(std::string_view text) {
  if (text.size() == 1 && text[0] >= '0' + kLowest && text[0] <= '0' + kHighest) return text[0] - '0';
  return fail(ErrorCode::kBadData, "rating \"{}\", expected a whole number from {} to {}", text.substr(0, 40),
              kLowest, kHighest);
}

struct Unit {
  RatedSentence sentence;
  std::optional<int> check;
  std::map<size_t, int> by_rater;
};

struct Table {
  std::vector<std::string> columns;
  bool long_form = false;
  size_t text = 0;
  std::optional<size_t> check;
  size_t rater = 0;
  size_t rating = 0;
  std::vector<std::pair<size_t, std::string RatedSentence::*>> passed;
  std::vector<size_t> rater_columns;
};

Result<Table> parse_heading(const std::vector<std::string>& columns) {
  Table table;
  table.columns = columns;
  std::optional<size_t> text;
  std::optional<size_t> rater;
  std::optional<size_t> rating;
  std::set<std::string> seen;
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& name = columns[i];
    if (!seen.insert(name).second) return fail(ErrorCode::kBadData, "two columns named \"{}\"", name);
    const auto* const passed = std::ranges::find(kPassed, std::string_view(name), &Passed::column);
    if (name == "text") {
      text = i;
    } else if (name == "check") {
      table.check = i;
    } else if (name == "rater") {
      rater = i;
    } else if (name == "rating") {
      rating = i;
    } else if (passed != kPassed.end()) {
      table.passed.emplace_back(i, passed->field);
    } else {
      table.rater_columns.push_back(i);
    }
  }
  if (!text) return fail(ErrorCode::kBadData, "no column \"text\" in its heading");
  if (rater.has_value() != rating.has_value()) {
    return fail(ErrorCode::kBadData, "of the columns \"rater\" and \"rating\", only one is there");
  }
  table.text = *text;
  table.long_form = rater.has_value();
  if (table.long_form && !table.rater_columns.empty()) {
    return fail(ErrorCode::kBadData, "beside \"rater\" and \"rating\" a column \"{}\", which is none of: {}",
                columns[table.rater_columns.front()], "text, check, id, image, group, split, source");
  }
  if (!table.long_form && table.rater_columns.size() < 2) {
    return fail(ErrorCode::kBadData, "{} of raters, expected two or more, or \"rater\" and \"rating\"",
                table.rater_columns.empty() ? "no column" : "one column");
  }
  table.rater = rater.value_or(0);
  table.rating = rating.value_or(0);
  return table;
}

class Collector {
 public:
  explicit Collector(Table table) : table_(std::move(table)) {
    if (table_.long_form) return;
    for (const size_t column : table_.rater_columns) (void)rater(table_.columns[column]);
  }

  Status add(const std::vector<std::string>& fields) {
    if (fields.size() != table_.columns.size()) {
      return fail(ErrorCode::kBadData, "{} fields, the heading has {}", fields.size(), table_.columns.size());
    }
    SACCADE_ASSIGN(Unit * unit, unit_of(fields));
    if (table_.long_form) {
      const std::string& name = fields[table_.rater];
      if (name.empty()) return fail(ErrorCode::kBadData, "no rater");
      return rate(*unit, rater(name), fields[table_.rating]);
    }
    for (const size_t column : table_.rater_columns) {
      if (!fields[column].empty()) SACCADE_TRY(rate(*unit, rater(table_.columns[column]), fields[column]));
    }
    return {};
  }

  Result<Ratings> finish(int min_ratings) {
    Ratings result;
    std::set<size_t> inattentive;
    for (const Unit& unit : units_) {
      if (!unit.check) continue;
      ++result.checks;
      for (const auto& [who, rating] : unit.by_rater) {
        if (rating != *unit.check) inattentive.insert(who);
      }
    }
    for (const size_t who : inattentive) result.inattentive.push_back(names_[who]);
    result.raters = static_cast<int64_t>(names_.size() - inattentive.size());
    for (Unit& unit : units_) {
      if (unit.check) continue;
      RatedSentence& sentence = unit.sentence;
      int low = 0;
      int high = 0;
      for (const auto& [who, rating] : unit.by_rater) {
        if (inattentive.contains(who)) continue;
        sentence.ratings.push_back(rating);
        low += rating < kNeutral ? 1 : 0;
        high += rating > kNeutral ? 1 : 0;
      }
      const auto count = static_cast<int>(sentence.ratings.size());
      if (count < min_ratings) {
        ++result.too_few;
        continue;
      }
      if (2 * low > count) sentence.visual = false;
      if (2 * high > count) sentence.visual = true;
      if (sentence.visual && std::max(low, high) >= count - 1) ++result.clear;
      result.ratings += count;
      result.texts.push_back(std::move(sentence));
    }
    if (result.texts.empty()) {
      return fail(ErrorCode::kUsage, "no text with {} ratings or more ({} with fewer, {} checks)",
                  min_ratings, result.too_few, result.checks);
    }
    return result;
  }

 private:
  size_t rater(const std::string& name) {
    const auto [known, is_new] = raters_.emplace(name, names_.size());
    if (is_new) names_.push_back(name);
    return known->second;
  }

  Result<Unit*> unit_of(const std::vector<std::string>& fields) {
    const std::string& text = fields[table_.text];
    if (text.empty()) return fail(ErrorCode::kBadData, "no text");
    std::optional<int> check;
    if (table_.check && !fields[*table_.check].empty()) {
      SACCADE_ASSIGN(check, parse_rating(fields[*table_.check]).in("check"));
    }
    const auto [known, is_new] = by_text_.emplace(text, units_.size());
    if (is_new) units_.emplace_back();
    Unit& unit = units_[known->second];
    if (!is_new && unit.check != check) {
      return fail(ErrorCode::kBadData, "another \"check\" for the same text than before");
    }
    unit.sentence.text = text;
    unit.check = check;
    for (const auto& [column, field] : table_.passed) {
      std::string& value = unit.sentence.*field;
      if (!is_new && value != fields[column]) {
        return fail(ErrorCode::kBadData, "{} \"{}\" for a text that had \"{}\" before",
                    table_.columns[column], fields[column], value);
      }
      value = fields[column];
    }
    return &unit;
  }

  Status rate(Unit& unit, size_t who, std::string_view text) {
    SACCADE_ASSIGN(const int rating, parse_rating(text));
    if (!unit.by_rater.emplace(who, rating).second) {
      return fail(ErrorCode::kBadData, "rater \"{}\" rates the same text a second time", names_[who]);
    }
    return {};
  }

  Table table_;
  std::vector<Unit> units_;
  std::map<std::string, size_t> by_text_;
  std::vector<std::string> names_;
  std::map<std::string, size_t> raters_;
};

std::vector<std::vector<double>> units_of(const Ratings& ratings) {
  std::vector<std::vector<double>> units;
  for (const RatedSentence& sentence : ratings.texts) units.push_back(sentence.ratings);
  return units;
}

}  // namespace

std::span<const EnumName<AlphaMetric>> enum_names(AlphaMetric) {
  return kMetrics;
}

std::optional<double> krippendorff_alpha(std::span<const std::vector<double>> units, AlphaMetric metric) {
  // Coincidences. Each unit of m ratings adds 1 / (m - 1) for every ordered pair of them.
  std::map<std::pair<double, double>, double> coincidences;
  std::map<double, double> totals;  // n_c
  double n = 0;
  for (const std::vector<double>& unit : units) {
    if (unit.size() < 2) continue;
    const double weight = 1.0 / static_cast<double>(unit.size() - 1);
    for (size_t i = 0; i < unit.size(); ++i) {
      for (size_t j = 0; j < unit.size(); ++j) {
        if (i != j) coincidences[{unit[i], unit[j]}] += weight;
      }
      totals[unit[i]] += 1;
      n += 1;
    }
  }
  const auto squared_difference = [&](double c, double k) {
    if (c == k) return 0.0;
    if (metric == AlphaMetric::kNominal) return 1.0;
    if (metric == AlphaMetric::kInterval) return (c - k) * (c - k);
    // Number of ratings from one to the other, with half of each end's.
    double between = 0;
    for (auto g = totals.lower_bound(std::min(c, k)); g != totals.end() && g->first <= std::max(c, k); ++g) {
      between += g->second;
    }
    between -= (totals.at(c) + totals.at(k)) / 2;
    return between * between;
  };
  double observed = 0;
  for (const auto& [pair, weight] : coincidences)
    observed += weight * squared_difference(pair.first, pair.second);
  double expected = 0;
  for (const auto& [c, n_c] : totals) {
    for (const auto& [k, n_k] : totals) expected += n_c * n_k * squared_difference(c, k);
  }
  if (expected <= 0) return std::nullopt;
  return 1 - (n - 1) * observed / expected;
}

Result<Ratings> read_ratings(std::string_view table, int min_ratings) {
  CsvReader reader(table);
  std::vector<std::string> fields;
  SACCADE_ASSIGN(const bool has_heading, reader.next(fields));
  if (!has_heading) return fail(ErrorCode::kBadData, "empty, expected a heading and a line a rating");
  SACCADE_ASSIGN(Table heading, parse_heading(fields).in("line 1"));
  Collector collector(std::move(heading));
  for (;;) {
    SACCADE_ASSIGN(const bool more, reader.next(fields));
    if (!more) break;
    SACCADE_TRY(collector.add(fields).in(fmt::format("line {}", reader.line())));
  }
  return collector.finish(min_ratings);
}

Json ratings_json(const Ratings& ratings) {
  const std::vector<std::vector<double>> units = units_of(ratings);
  Json alpha = Json::object();
  for (const EnumName<AlphaMetric>& metric : enum_names(AlphaMetric{})) {
    const std::optional<double> value = krippendorff_alpha(units, metric.value);
    alpha[std::string(metric.name)] = value ? Json(*value) : Json();
  }
  const auto count = [&](std::optional<bool> visual) {
    return std::ranges::count(ratings.texts, visual, &RatedSentence::visual);
  };
  return {{"texts", ratings.texts.size()},
          {"ratings", ratings.ratings},
          {"raters", ratings.raters},
          {"inattentive", ratings.inattentive},
          {"checks", ratings.checks},
          {"too_few", ratings.too_few},
          {"visual", count(true)},
          {"non_visual", count(false)},
          {"ambiguous", count(std::nullopt)},
          {"at_most_one_outside", ratings.clear},
          {"alpha", std::move(alpha)}};
}

Dataset ratings_dataset(const Ratings& ratings, const std::filesystem::path& folder) {
  Dataset dataset;
  auto& rated = dataset.content.emplace<RatedTexts>().items;
  for (const RatedSentence& sentence : ratings.texts) {
    RatedText& item = rated.emplace_back();
    // Name that the manifest's reader gives to a line without an id.
    item.id = sentence.id.empty() ? fmt::format("line {}", rated.size()) : sentence.id;
    item.text = sentence.text;
    item.visual = sentence.visual;
    item.ratings = sentence.ratings;
    item.source = sentence.source;
    item.group = sentence.group;
    item.split = sentence.split;
    if (!sentence.image.empty()) {
      item.image = ImageRef{.path = folder / sentence.image, .member = "", .offset = 0, .size = 0};
    }
  }
  return dataset;
}

}  // namespace saccade::lab
