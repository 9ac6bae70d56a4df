#include "lab/eval/advise.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "lab/eval/figures/holm.h"
#include "lab/eval/figures/tiers.h"
#include "lab/eval/run/record_fields.h"
#include "saccade/core/counts.h"

namespace saccade::lab {
namespace {

// A limit of the question: the model's measured value, and the sentence that says it breaks the limit.
struct Limit {
  std::string name;
  std::string what;  // "images/s"
  double wanted = 0;
  // Returns the measured value; `nullopt` if the model was not measured.
  std::function<std::optional<double>(const MeasuredModel&)> measured;
  std::function<bool(double)> holds;
  std::function<std::string(const MeasuredModel&, double)> sentence;
};

std::string spread_text(const Spread& spread) {
  return fmt::format("{} ({} to {})", rate_text(spread.value), rate_text(spread.low), rate_text(spread.high));
}

Limit images_limit(double wanted) {
  return {"min_images_per_s",
          "images/s",
          wanted,
          [](const MeasuredModel& model) -> std::optional<double> {
            if (!model.speed || !model.speed->images_per_s) return {};
            return model.speed->images_per_s->value;
          },
          [wanted](double value) { return value >= wanted; },
          [wanted](const MeasuredModel& model, double) {
            const Spread& spread = *model.speed->images_per_s;
            return fmt::format("It encodes {} images/s, fewer than {}{}.", spread_text(spread),
                               rate_text(wanted), spread.high >= wanted ? "; not in every pass" : "");
          }};
}

Limit latency_limit(double wanted) {
  return {"max_latency_ms",
          "latency",
          wanted,
          [](const MeasuredModel& model) -> std::optional<double> {
            if (!model.speed) return {};
            return model.speed->text_p95_ms;
          },
          [wanted](double value) { return value <= wanted; },
          [wanted](const MeasuredModel&, double value) {
            return fmt::format("One text query in twenty takes {} ms or longer, more than {}.",
                               rate_text(value), rate_text(wanted));
          }};
}

Limit memory_limit(int64_t wanted) {
  return {"max_memory_bytes",
          "memory",
          static_cast<double>(wanted),
          [](const MeasuredModel& model) -> std::optional<double> {
            if (!model.speed || !model.speed->peak_bytes) return {};
            return static_cast<double>(*model.speed->peak_bytes);
          },
          [wanted](double value) { return value <= static_cast<double>(wanted); },
          [wanted](const MeasuredModel&, double value) {
            return fmt::format("It took {:.0f} bytes of memory, more than {}.", value, wanted);
          }};
}

// Limit on the tokens that a model has been shown to read. A model's context rules out longer queries without
// any measurement.
Limit length_limit(int64_t wanted) {
  const auto context_is_short = [wanted](const MeasuredModel& model) {
    return model.checkpoint.context > 0 && wanted > model.checkpoint.context;
  };
  return {"query_length",
          "query length",
          static_cast<double>(wanted),
          [=](const MeasuredModel& model) -> std::optional<double> {
            if (context_is_short(model)) return static_cast<double>(model.checkpoint.context);
            if (!model.length || !model.length->tokens || !model.length->above_chance) return {};
            // The texts ended before R@1 stopped rising, so nothing is known about longer texts.
            if (model.length->at_end && *model.length->tokens < wanted) return {};
            return static_cast<double>(*model.length->tokens);
          },
          [wanted](double value) { return value >= static_cast<double>(wanted); },
          [=](const MeasuredModel& model, double value) {
            if (context_is_short(model)) {
              return fmt::format("It has room for {:.0f} tokens, start and end included; {} are asked for.",
                                 value, wanted);
            }
            return fmt::format(
                "It effectively reads {:.0f} tokens (enough for {:.0f}% of its best R@1), "
                "fewer than {}.",
                value, 100 * model.length->share, wanted);
          }};
}

std::vector<Limit> limits_of(const AdviceQuestion& question) {
  std::vector<Limit> limits;
  if (question.min_images_per_s) limits.push_back(images_limit(*question.min_images_per_s));
  if (question.max_latency_ms) limits.push_back(latency_limit(*question.max_latency_ms));
  if (question.max_memory_bytes) limits.push_back(memory_limit(*question.max_memory_bytes));
  if (question.query_length) limits.push_back(length_limit(*question.query_length));
  return limits;
}

// Returns the reason why a limit could not be judged for a model.
std::string missing_text(const Limit& limit, const MeasuredModel& model) {
  if (limit.name == "max_latency_ms" && model.speed && model.speed->text_samples > 0) {
    return fmt::format("its latency: {} queries are too few for a 95th percentile",
                       model.speed->text_samples);
  }
  if (limit.name == "query_length" && model.length && !model.length->above_chance) {
    return "query length: at no length did it find more than guessing does";
  }
  if (limit.name == "query_length" && model.length) {
    return model.length->tokens ? fmt::format(
                                      "query length: the texts measured with ended at {} tokens, where "
                                      "it was still gaining",
                                      *model.length->tokens)
                                : std::string("query length: it found nothing at any length");
  }
  return limit.what;
}

struct Comparison {
  bool apart = false;
  std::string sentence;  // sentence on the first model; the second has the better value
};

class Adviser {
 public:
  Adviser(const AdviceQuestion& question, Measurements measurements)
      : question_(question),
        measurements_(std::move(measurements)),
        differences_(question.composition ? measurements_.composition_differences
                                          : measurements_.accuracy_differences) {
    std::vector<double> p_values;
    for (const MeasuredDifference& one : differences_) p_values.push_back(one.difference.p_value);
    adjusted_ = holm_adjusted(p_values);
  }

  Result<Advice> advise() {
    SACCADE_TRY(find_figure());
    advice_.speed_machine = measurements_.speed_machine;
    judge();
    rank();
    explain();
    note();
    return std::move(advice_);
  }

 private:
  [[nodiscard]] const std::optional<Figure>& figure(size_t model) const {
    const MeasuredModel& measured = measurements_.models[model];
    return question_.composition ? measured.composition : measured.accuracy;
  }
  [[nodiscard]] const std::string& name(size_t model) const { return measurements_.models[model].name; }
  [[nodiscard]] double speed(size_t model) const {
    const MeasuredModel& measured = measurements_.models[model];
    return measured.speed && measured.speed->images_per_s ? measured.speed->images_per_s->value : -1;
  }

  Status find_figure() {
    for (size_t i = 0; i < measurements_.models.size(); ++i) {
      if (figure(i) && std::isfinite(figure(i)->value)) advice_.ranked_by = figure(i)->name;
    }
    if (!advice_.ranked_by.empty()) {
      advice_.dataset =
          question_.composition ? measurements_.composition_dataset : measurements_.accuracy_dataset;
      return {};
    }
    return fail(ErrorCode::kUsage, "no run measures {}: give a run of `saccade eval {}`",
                question_.composition ? "composition" : "accuracy",
                question_.composition ? "winoground" : "retrieval");
  }

  // Sorts the models into excluded, not judged and remaining.
  void judge() {
    const std::vector<Limit> limits = limits_of(question_);
    std::vector<AdvisedModel> models;
    for (const MeasuredModel& measured : measurements_.models) {
      models.emplace_back().measured = measured;
    }
    for (const Limit& limit : limits) {
      const bool measured = std::ranges::any_of(measurements_.models, [&](const MeasuredModel& model) {
        return limit.measured(model).has_value();
      });
      if (!measured) {
        advice_.notes.push_back(fmt::format(
            "Not measured: {}. No run says how any model stands to {} = {:.10g}: nobody is judged by it.",
            limit.what, limit.name, limit.wanted));
        continue;
      }
      for (AdvisedModel& model : models) judge_by(limit, model);
    }
    for (size_t i = 0; i < models.size(); ++i) {
      AdvisedModel& model = models[i];
      if (!figure(i) || !std::isfinite(figure(i)->value)) model.missing.push_back(advice_.ranked_by);
      if (!model.excluded.empty()) {
        advice_.excluded.push_back(std::move(model));
      } else if (!model.missing.empty()) {
        advice_.not_judged.push_back(std::move(model));
      } else {
        left_.push_back(i);
      }
    }
  }
  static void judge_by(const Limit& limit, AdvisedModel& model) {
    const std::optional<double> value = limit.measured(model.measured);
    if (!value) {
      model.missing.push_back(missing_text(limit, model.measured));
    } else if (!limit.holds(*value)) {
      model.excluded.push_back({limit.name, limit.wanted, *value, limit.sentence(model.measured, *value)});
    }
  }

  // Compares two models; `better` has the higher value, `worse` the lower.
  [[nodiscard]] Comparison compare(size_t worse, size_t better) const {
    const MeasuredDifference* found = nullptr;
    bool significant = false;
    for (size_t i = 0; i < differences_.size(); ++i) {
      const MeasuredDifference& one = differences_[i];
      if (!((one.a == worse && one.b == better) || (one.a == better && one.b == worse))) continue;
      // If two runs measured the pair with different resamples, both must say that the models differ.
      const bool own = is_significant(adjusted_[i], one.confidence);
      if (found != nullptr && own) continue;
      found = &one;
      significant = own;
    }
    if (found != nullptr && std::isfinite(found->difference.figure.low)) {
      Figure figure = found->difference.figure;
      if (found->a == worse) {
        figure = {.value = -figure.value, .low = -figure.high, .high = -figure.low};
      }
      const std::string text = interval_text(figure);
      if (significant) {
        return {true, fmt::format("It is behind {} by {}.", name(better), text)};
      }
      return {false, fmt::format("It cannot be told apart from {}: {} behind.", name(better), text)};
    }
    const Figure& a = *figure(worse);
    const Figure& b = *figure(better);
    if (std::isnan(a.low) || std::isnan(b.low)) {
      return {false, fmt::format("Whether it can be told apart from {} is not known: there are no intervals.",
                                 name(better))};
    }
    if (a.shown_high() < b.shown_low() || b.shown_high() < a.shown_low()) {
      return {true,
              fmt::format("It is behind {}: no run compares the two, but their intervals do not overlap.",
                          name(better))};
    }
    return {false, fmt::format("It cannot be told apart from {}: no run compares the two, "
                               "and their intervals overlap.",
                               name(better))};
  }

  void rank() {
    std::ranges::sort(left_, [&](size_t a, size_t b) {
      const double x = figure(a)->value;
      const double y = figure(b)->value;
      return x != y ? x > y : speed(a) != speed(b) ? speed(a) > speed(b) : name(a) < name(b);
    });
    int64_t tier = 0;
    for (std::vector<size_t>&equals :
         tiers_of(left_, [&](size_t one, size_t best) { return compare(one, best).apart; })) {
      ++tier;
      best_of_tier_.push_back(equals.front());
      std::ranges::stable_sort(equals, [&](size_t a, size_t b) { return speed(a) > speed(b); });
      for (const size_t model : equals) {
        AdvisedModel& advised = advice_.ranked.emplace_back();
        advised.measured = measurements_.models[model];
        advised.rank = static_cast<int64_t>(advice_.ranked.size());
        advised.tier = tier;
        order_.push_back(model);
      }
    }
  }

  void explain() {
    for (size_t i = 0; i < order_.size(); ++i) {
      const size_t model = order_[i];
      std::vector<std::string>& why = advice_.ranked[i].why;
      const auto tier = static_cast<size_t>(advice_.ranked[i].tier);
      const size_t best = best_of_tier_[tier - 1];
      why.push_back(fmt::format("Its {} is {}.", advice_.ranked_by, interval_text(*figure(model))));
      explain_chance(model, advice_.ranked[i]);
      if (model != best) {
        why.push_back(compare(model, best).sentence);
      } else if (tier > 1) {
        why.push_back(compare(model, best_of_tier_[tier - 2]).sentence);
      }
      explain_order(i, why);
      explain_limits(model, why);
    }
    for (AdvisedModel& model : advice_.excluded) {
      for (const Excluded& one : model.excluded) model.why.push_back(one.sentence);
    }
    for (AdvisedModel& model : advice_.not_judged) {
      for (const std::string& what : model.missing)
        model.why.push_back(fmt::format("Not measured: {}.", what));
    }
  }
  void explain_chance(size_t model, AdvisedModel& advised) const {
    const std::optional<double>& chance =
        question_.composition ? measurements_.composition_chance : measurements_.accuracy_chance;
    const Figure& own = *figure(model);
    if (!chance || std::isnan(own.low)) return;
    advised.above_chance = own.shown_low() > *chance;
    if (own.shown_high() < *chance) {
      advised.why.push_back(fmt::format("That is below what guessing gets ({}).", three_digits(*chance)));
    } else if (own.shown_low() <= *chance) {
      advised.why.push_back(fmt::format("That cannot be told from guessing ({}).", three_digits(*chance)));
    }
  }
  // Compares with the next model of the tier, whose figure may be higher.
  void explain_order(size_t i, std::vector<std::string>& why) const {
    const double own = speed(order_[i]);
    if (own < 0) {
      why.emplace_back("Its speed was not measured.");
      return;
    }
    const MeasuredSpeed& measured = *measurements_.models[order_[i]].speed;
    std::string text = fmt::format("It encodes {} images/s", spread_text(*measured.images_per_s));
    if (i + 1 < order_.size() && advice_.ranked[i + 1].tier == advice_.ranked[i].tier) {
      const double next = speed(order_[i + 1]);
      if (next > 0 && next < own) {
        text += fmt::format(", {:.2g} times as many as {}", own / next, name(order_[i + 1]));
      }
    } else if (i > 0 && advice_.ranked[i - 1].tier != advice_.ranked[i].tier) {
      const double before = speed(order_[i - 1]);
      if (before > 0 && before < own) {
        text += fmt::format(", {:.2g} times as many as {}", own / before, name(order_[i - 1]));
      }
    }
    why.push_back(text + ".");
  }
  void explain_limits(size_t model, std::vector<std::string>& why) const {
    const MeasuredModel& measured = measurements_.models[model];
    if (question_.min_images_per_s && speed(model) >= 0 &&
        measured.speed->images_per_s->low < *question_.min_images_per_s) {
      why.push_back(
          fmt::format("Not in every pass did it reach {} images/s.", rate_text(*question_.min_images_per_s)));
    }
    if (question_.max_latency_ms && measured.speed && measured.speed->text_p95_ms) {
      why.push_back(fmt::format("19 of 20 text queries take less than {} ms.",
                                rate_text(*measured.speed->text_p95_ms)));
    }
    if (question_.max_memory_bytes && measured.speed && measured.speed->peak_bytes) {
      why.push_back(fmt::format("It took {} bytes of memory.", *measured.speed->peak_bytes));
    }
    if (question_.query_length && measured.length && measured.length->tokens &&
        measured.length->above_chance) {
      why.push_back(fmt::format("It effectively reads {}{} tokens.",
                                measured.length->at_end ? "at least " : "", *measured.length->tokens));
    }
  }

  void note() {
    std::vector<std::string>& notes = advice_.notes;
    if (!question_.languages.empty()) {
      notes.push_back(
          fmt::format("Not measured: languages. No run says what language its captions are in, so nobody is "
                      "judged by {}; accuracy in a language is that of a retrieval run on captions in it.",
                      fmt::join(question_.languages, ", ")));
    }
    if (question_.composition) {
      notes.emplace_back(
          "Not judged: re-ranking. `saccade eval retrieval --rerank` measures a second encoder on a first one's "
          "answers; this ranking does not use its figures.");
    }
    const auto compared = std::ssize(differences_);
    if (compared > 1) {
      notes.push_back(
          fmt::format("Paired differences count where they are significant after Holm's correction for {}.",
                      counted(compared, "comparison")));
      const MeasuredDifference& least =
          *std::ranges::min_element(differences_, {}, &MeasuredDifference::resamples);
      const std::string too_few = too_few_resamples(compared, least.resamples, least.confidence);
      if (!too_few.empty()) notes.push_back(too_few + ".");
    }
    const std::string& speeds = measurements_.speed_dataset;
    if (speeds.empty()) {
      notes.emplace_back(
          "Not measured: speed. Models that cannot be told apart are in the order of accuracy.");
    } else if (speeds != advice_.dataset) {
      notes.push_back(
          fmt::format("Speed was measured on {}, {} on {}: images of other sizes and texts of "
                      "other lengths take other times.",
                      speeds, advice_.ranked_by, advice_.dataset));
    }
    std::ranges::copy(measurements_.remarks, std::back_inserter(notes));
  }

  const AdviceQuestion& question_;
  const Measurements measurements_;
  const std::vector<MeasuredDifference>& differences_;
  std::vector<double> adjusted_;  // p-values of the differences after Holm's correction for their number
  Advice advice_;
  std::vector<size_t> left_;
  std::vector<size_t> order_;         // advice_.ranked as indices
  std::vector<size_t> best_of_tier_;  // by value, tier by tier
};

Json model_json(const AdvisedModel& model) {
  const MeasuredModel& measured = model.measured;
  const auto figure = [](const std::optional<Figure>& one) {
    return one ? record_json(BriefFigure(*one)) : Json();
  };
  const auto maybe = [](const auto& value) { return value ? Json(*value) : Json(); };
  const MeasuredSpeed speed = measured.speed.value_or(MeasuredSpeed());
  const std::string& precision = measured.checkpoint.precision;
  Json json = {{"model", measured.name},
               {"fingerprint", measured.checkpoint.fingerprint},
               {"precision", precision.empty() ? Json() : Json(precision)},
               {"accuracy", figure(measured.accuracy)},
               {"composition", figure(measured.composition)},
               {"images_per_s", record_json(speed.images_per_s)},
               {"text_p95_ms", maybe(speed.text_p95_ms)},
               {"peak_bytes", maybe(speed.peak_bytes)},
               {"effective_tokens",
                measured.length && measured.length->above_chance ? maybe(measured.length->tokens) : Json()}};
  if (model.rank > 0) {
    json["rank"] = model.rank;
    json["tier"] = model.tier;
    json["above_chance"] = maybe(model.above_chance);
  }
  if (!model.excluded.empty()) {
    json["excluded_by"] = Json::array();
    for (const Excluded& one : model.excluded) {
      json["excluded_by"].push_back(
          {{"limit", one.limit}, {"wanted", one.wanted}, {"measured", one.measured}});
    }
  }
  if (!model.missing.empty()) json["missing"] = model.missing;
  json["why"] = model.why;
  return json;
}

std::string why_text(const AdvisedModel& model) {
  std::string text;
  for (const std::string& sentence : model.why) text += "     " + sentence + "\n";
  return text;
}

}  // namespace

Result<Advice> advise(std::span<const Run> runs, const AdviceQuestion& question) {
  const MeasurementChoice choice = {.datasets = question.datasets,
                                    .device = question.device,
                                    .composition = question.composition,
                                    .length = question.query_length.has_value()};
  SACCADE_ASSIGN(Measurements measurements, gather_measurements(runs, choice));
  return Adviser(question, std::move(measurements)).advise();
}

Json advice_json(const Advice& advice, const AdviceQuestion& question) {
  const auto maybe = [](const auto& value) { return value ? Json(*value) : Json(); };
  const auto list = [](const std::vector<AdvisedModel>& models) {
    Json json = Json::array();
    for (const AdvisedModel& model : models) json.push_back(model_json(model));
    return json;
  };
  return {{"asked",
           {{"datasets", question.datasets},
            {"device", question.device.empty() ? Json() : Json(question.device)},
            {"min_images_per_s", maybe(question.min_images_per_s)},
            {"max_latency_ms", maybe(question.max_latency_ms)},
            {"max_memory_bytes", maybe(question.max_memory_bytes)},
            {"languages", question.languages},
            {"query_length", maybe(question.query_length)},
            {"composition", question.composition}}},
          {"ranked_by", advice.ranked_by},
          {"dataset", advice.dataset},
          {"speed_machine", advice.speed_machine.empty() ? Json() : Json(advice.speed_machine)},
          {"ranking", list(advice.ranked)},
          {"excluded", list(advice.excluded)},
          {"not_judged", list(advice.not_judged)},
          {"notes", advice.notes}};
}

std::string advice_text(const Advice& advice) {
  std::string text = fmt::format("by {} on {}", advice.ranked_by, advice.dataset);
  if (!advice.speed_machine.empty()) text += fmt::format("; speed on {}", advice.speed_machine);
  text += "\n";
  for (const AdvisedModel& model : advice.ranked) {
    text += fmt::format("{:>3}. {}{}\n", model.rank, model.measured.name,
                        model.above_chance.value_or(true) ? "" : " (no better than guessing)") +
            why_text(model);
  }
  if (advice.ranked.empty()) text += "no model is left\n";
  const auto group = [&](std::string_view title, const std::vector<AdvisedModel>& models) {
    if (models.empty()) return;
    text += fmt::format("{}\n", title);
    for (const AdvisedModel& model : models) {
      text += fmt::format("   - {}\n", model.measured.name) + why_text(model);
    }
  };
  group("excluded:", advice.excluded);
  group("cannot be judged:", advice.not_judged);
  for (const std::string& one : advice.notes) text += "note: " + one + "\n";
  return text;
}

}  // namespace saccade::lab
