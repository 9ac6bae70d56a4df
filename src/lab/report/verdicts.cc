#include "lab/report/verdicts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "lab/eval/figures/holm.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

Cell verdict_of(double difference, double adjusted, double confidence, const std::string& a,
                const std::string& b, bool lower_is_better) {
  if (std::isnan(adjusted)) return text_cell("");
  if (!is_significant(adjusted, confidence) || !std::isfinite(difference)) {
    return Cell{"<span class=\"tag\">cannot be told apart</span>", {"cannot be told apart"}};
  }
  const std::string words = ((difference > 0) != lower_is_better ? a : b) + " is better";
  return Cell{fmt::format("<span class=\"tag apart\">{}</span>", escape_html(words)), {words}};
}

}  // namespace

void Verdicts::add(const Difference* difference, std::string a, std::string b, bool lower_is_better) {
  const Difference none;
  const Difference& one = difference == nullptr ? none : *difference;
  comparisons_.push_back({one.figure.value, one.p_value, std::move(a), std::move(b), lower_is_better});
}

void Verdicts::finish(Table& table, const RunInfo& info) const {
  table.columns.push_back(number_column("p", "p_value"));
  table.columns.push_back(number_column("p, Holm", "p_holm"));
  table.columns.push_back(text_column("verdict"));
  std::vector<double> p_values;
  for (const Comparison& each : comparisons_) p_values.push_back(each.p);
  const std::vector<double> adjusted = holm_adjusted(p_values);
  const auto tested = std::ranges::count_if(p_values, [](double p) { return !std::isnan(p); });
  for (size_t i = 0; i < table.rows.size() && i < comparisons_.size(); ++i) {
    const Comparison& each = comparisons_[i];
    table.rows[i].push_back(number_cell(each.p));
    table.rows[i].push_back(number_cell(adjusted[i]));
    table.rows[i].push_back(
        verdict_of(each.difference, adjusted[i], info.confidence, each.a, each.b, each.lower_is_better));
  }
  if (tested > 0) {
    table.caption += fmt::format(
        ". p is two-sided; \"is better\" is claimed at level {:.2g} after Holm's correction for the {} comparison{} of this "
        "table",
        1 - info.confidence, tested, tested == 1 ? "" : "s");
    const std::string too_few = too_few_resamples(tested, info.resamples, info.confidence);
    if (!too_few.empty()) table.caption += ". " + too_few;
  }
}

}  // namespace saccade::lab
