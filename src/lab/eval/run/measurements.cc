#include "lab/eval/run/measurements.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lab/eval/length/length_metrics.h"
#include "lab/eval/retrieval/retrieval_metrics.h"
#include "lab/eval/winoground/composition_metrics.h"
#include "saccade/core/counts.h"

namespace saccade::lab {
namespace {

using Key = std::pair<std::string, std::string>;  // fingerprint, precision

constexpr const char* kHitAt1 = "r1";

std::string folder_of(const Run& run) {
  return run.folder.string();
}

// Returns the figure or difference of that name. kBadData if there is none.
template <typename T>
Result<T> figure_called(const std::vector<T>& figures, std::string_view name) {
  if (const T* found = find_named(figures, name)) return *found;
  return fail(ErrorCode::kBadData, "metrics.json: \"{}\" is missing", name);
}

// The selected dataset of a run, by its name in that run.
struct ChosenRun {
  const Run* run = nullptr;
  const RunDataset* dataset = nullptr;
};

bool same_dataset(const RunDataset& a, const RunDataset& b) {
  return a.sha256 == b.sha256 && a.images == b.images && a.texts == b.texts &&
         a.compositions == b.compositions &&
         (a.images_sha256.empty() || b.images_sha256.empty() || a.images_sha256 == b.images_sha256);
}

class Gatherer {
 public:
  Gatherer(std::span<const Run> runs, const MeasurementChoice& choice) : runs_(runs), choice_(choice) {}

  Result<Measurements> gather() {
    if (runs_.empty()) return fail(ErrorCode::kUsage, "no runs are given");
    SACCADE_TRY(check_names());
    SACCADE_ASSIGN(result_.accuracy_dataset, add_runs(&Gatherer::add_accuracy));
    if (choice_.composition) {
      SACCADE_ASSIGN(result_.composition_dataset, add_runs(&Gatherer::add_composition));
    }
    if (choice_.length) SACCADE_TRY(add_runs(&Gatherer::add_length));
    SACCADE_ASSIGN(result_.speed_dataset, add_runs(&Gatherer::add_speed));
    remark_other_precisions();
    name_models();
    return std::move(result_);
  }

 private:
  Status check_names() const {
    std::set<std::string> names;
    for (const Run& run : runs_) {
      for (const RunDataset& dataset : run.info.datasets) names.insert(dataset.name);
    }
    for (const std::string& wanted : choice_.datasets) {
      if (!names.contains(wanted)) {
        return fail(ErrorCode::kUsage, "no run has a dataset {}; there are {}", wanted,
                    fmt::join(names, ", "));
      }
    }
    return {};
  }
  [[nodiscard]] bool is_chosen(const std::string& name) const {
    return std::ranges::find(choice_.datasets, name) != choice_.datasets.end();
  }

  // Adds all runs of a kind. Returns the name of their dataset, or an empty one without runs.
  template <typename Metrics>
  Result<std::string> add_runs(Status (Gatherer::*add)(const ChosenRun&, const Metrics&)) {
    SACCADE_ASSIGN(const std::vector<ChosenRun> runs, choose(Metrics::kKind));
    for (const ChosenRun& chosen : runs) {
      SACCADE_ASSIGN(const auto metrics, read_metrics<Metrics>(*chosen.run));
      SACCADE_TRY((this->*add)(chosen, metrics).in(folder_of(*chosen.run)));
    }
    return runs.empty() ? std::string() : runs.front().dataset->name;
  }

  // Chooses the runs of a kind that can be compared.
  Result<std::vector<ChosenRun>> choose(std::string_view kind) {
    std::vector<ChosenRun> all;
    bool named = false;
    for (const Run& run : runs_) {
      if (run.info.kind != kind) continue;
      if (kind == SpeedMetrics::kKind && !is_on_device(run)) continue;
      for (const RunDataset& dataset : run.info.datasets) {
        all.push_back({&run, &dataset});
        named |= is_chosen(dataset.name);
      }
    }
    if (named) std::erase_if(all, [&](const ChosenRun& one) { return !is_chosen(one.dataset->name); });
    for (size_t i = 1; i < all.size(); ++i) SACCADE_TRY(check_comparable(kind, all.front(), all[i]));
    return all;
  }
  bool is_on_device(const Run& run) {
    if (choice_.device.empty()) return true;
    const std::string device = json_field_or<std::string>(run.info.protocol, "device", "").value_or("");
    if (device == choice_.device) return true;
    result_.remarks.push_back(fmt::format("The speed run {} was measured on {}, not on {}: left out.",
                                          folder_of(run), device.empty() ? "an unknown device" : device,
                                          choice_.device));
    return false;
  }
  static Status check_comparable(std::string_view kind, const ChosenRun& a, const ChosenRun& b) {
    const auto differ = [&](std::string_view what, const auto& of_a, const auto& of_b,
                            std::string_view remedy) {
      return fail(ErrorCode::kMismatch, "{} runs do not go together: {} is {} in {} and {} in {}{}", kind,
                  what, of_a, folder_of(*a.run), of_b, folder_of(*b.run), remedy);
    };
    if (!same_dataset(*a.dataset, *b.dataset)) {
      if (a.dataset->name != b.dataset->name) {
        return differ("the dataset", a.dataset->name, b.dataset->name, "; --dataset chooses one");
      }
      return differ("what was scored of " + a.dataset->name,
                    fmt::format("{} images, {} texts ({})", a.dataset->images, a.dataset->texts,
                                a.dataset->sha256.substr(0, 12)),
                    fmt::format("{} images, {} texts ({})", b.dataset->images, b.dataset->texts,
                                b.dataset->sha256.substr(0, 12)),
                    "");
    }
    const Json& there = a.run->info.protocol;
    const Json& here = b.run->info.protocol;
    std::set<std::string> keys;
    for (const Json* json : {&there, &here}) {
      for (const auto& [key, value] : json->items()) keys.insert(key);
    }
    keys.erase("description");
    for (const std::string& key : keys) {
      const Json of_a = there.contains(key) ? there[key] : Json();
      const Json of_b = here.contains(key) ? here[key] : Json();
      if (of_a != of_b) {
        return differ(key, dump_json(of_a), dump_json(of_b), key == "device" ? "; --device chooses one" : "");
      }
    }
    if (kind != SpeedMetrics::kKind) return {};
    const RunMachine& old = a.run->info.machine;
    const RunMachine& other = b.run->info.machine;
    if (old.processor != other.processor) {
      return differ("the processor", old.processor, other.processor, "");
    }
    if (old.threads != other.threads) {
      return differ("the number of threads", old.threads, other.threads, "");
    }
    return {};
  }

  // Returns the model that a run calls `name`, and adds it if it is new.
  Result<size_t> model(const Run& run, const std::string& name) {
    const auto found = std::ranges::find(run.info.checkpoints, name, &RunCheckpoint::name);
    if (found == run.info.checkpoints.end()) {
      return fail(ErrorCode::kBadData, "metrics.json: \"model\" is \"{}\", no checkpoint of run.json", name);
    }
    const auto [place, added] =
        places_.try_emplace({found->fingerprint, found->precision}, result_.models.size());
    if (added) {
      MeasuredModel& model = result_.models.emplace_back();
      model.name = name;
      model.checkpoint = *found;
    }
    return place->second;
  }

  // Sets a figure that must be the same in every run.
  static Status set_figure(MeasuredModel& model, std::optional<Figure> MeasuredModel::*place,
                           const Figure& figure) {
    std::optional<Figure>& there = model.*place;
    if (!there) {
      there = figure;
      return {};
    }
    // Values from two runs must be equal to within rounding. NaN equals NaN.
    const bool same = there->value == figure.value || std::abs(there->value - figure.value) < 1e-12 ||
                      (std::isnan(there->value) && std::isnan(figure.value));
    if (!same) {
      return fail(ErrorCode::kMismatch,
                  "{} of {} ({}) is {} here and {} in another run of the same dataset and protocol: they "
                  "contradict each other",
                  figure.name, model.name, model.checkpoint.precision, figure.value, there->value);
    }
    if (std::isnan(there->low)) there = figure;
    return {};
  }

  Status add_difference(const ChosenRun& chosen, const std::string& a, const std::string& b,
                        const std::vector<Difference>& all, const std::string& name,
                        std::vector<MeasuredDifference>& differences) {
    MeasuredDifference& one = differences.emplace_back();
    SACCADE_ASSIGN(one.a, model(*chosen.run, a));
    SACCADE_ASSIGN(one.b, model(*chosen.run, b));
    SACCADE_ASSIGN(one.difference, figure_called(all, name));
    one.resamples = chosen.run->info.resamples;
    one.confidence = chosen.run->info.confidence;
    return {};
  }

  Status add_accuracy(const ChosenRun& chosen, const RetrievalMetrics& metrics) {
    for (const RetrievalResult& result : metrics.results) {
      if (result.dataset != chosen.dataset->name) continue;
      SACCADE_ASSIGN(Figure figure, figure_called(result.directions.t2i.figures, kHitAt1));
      if (result.model == kChance) {
        if (std::isfinite(figure.value)) result_.accuracy_chance = figure.value;
        continue;
      }
      SACCADE_ASSIGN(const size_t place, model(*chosen.run, result.model));
      figure.name = "text-to-image R@1";
      SACCADE_TRY(set_figure(result_.models[place], &MeasuredModel::accuracy, figure));
    }
    for (const RetrievalComparison& one : metrics.comparisons) {
      if (one.dataset != chosen.dataset->name) continue;
      SACCADE_TRY(
          add_difference(chosen, one.a, one.b, one.directions.t2i, kHitAt1, result_.accuracy_differences));
    }
    return {};
  }

  Status add_composition(const ChosenRun& chosen, const CompositionMetrics& metrics) {
    for (const CompositionResult& result : metrics.results) {
      if (result.dataset != chosen.dataset->name || result.kind) continue;
      const char* which = find_named(result.scores, "group") != nullptr ? "group" : "text";
      SACCADE_ASSIGN(Figure figure, figure_called(result.scores, which));
      if (result.model == kChance) {
        if (std::isfinite(figure.value)) result_.composition_chance = figure.value;
        continue;
      }
      result_.composition_figure = which;
      figure.name = fmt::format("{} score", which);
      SACCADE_ASSIGN(const size_t place, model(*chosen.run, result.model));
      SACCADE_TRY(set_figure(result_.models[place], &MeasuredModel::composition, figure));
    }
    for (const CompositionComparison& one : metrics.comparisons) {
      if (one.dataset != chosen.dataset->name || one.kind) continue;
      SACCADE_TRY(add_difference(chosen, one.a, one.b, one.scores, result_.composition_figure,
                                 result_.composition_differences));
    }
    return {};
  }

  Status add_length(const ChosenRun& chosen, const LengthMetrics& metrics) {
    // Texts that find texts say nothing of the length at which images are found.
    const Json& protocol = chosen.run->info.protocol;
    if (protocol.contains("texts_only") || protocol.contains("late_mean")) return {};
    for (const LengthResult& result : metrics.results) {
      if (result.dataset != chosen.dataset->name) continue;
      SACCADE_ASSIGN(const size_t place, model(*chosen.run, result.model));
      const LengthCurveRecord& curve = result.curves.t2i;
      const EffectiveTokens length = {.tokens = curve.effective.tokens,
                                      .at_end = curve.effective.at_end,
                                      .share = curve.effective.share,
                                      .above_chance = curve.above_chance};
      MeasuredModel& measured = result_.models[place];
      if (measured.length && measured.length->tokens != length.tokens) {
        const auto words = [](const EffectiveTokens& one) {
          return one.tokens ? fmt::format("{}", *one.tokens) : std::string("none");
        };
        return fail(ErrorCode::kMismatch,
                    "the effective length of {} is {} tokens here and {} in another run of the same dataset "
                    "and protocol: they contradict each other",
                    measured.name, words(length), words(*measured.length));
      }
      measured.length = length;
    }
    return {};
  }

  static MeasuredSpeed speed_of(const SpeedRecord& record) {
    const auto known = [](const std::optional<Spread>& spread) {
      return spread && std::isfinite(spread->value) ? spread : std::nullopt;
    };
    MeasuredSpeed speed;
    speed.images_per_s = known(record.images_per_s);
    speed.queries_per_s = known(record.queries_per_s);
    if (record.text_latency) {
      speed.text_samples = record.text_latency->samples;
      if (std::isfinite(record.text_latency->p95)) speed.text_p95_ms = record.text_latency->p95;
    }
    if (record.peak_bytes > 0) speed.peak_bytes = record.peak_bytes;
    return speed;
  }

  Status add_speed(const ChosenRun& chosen, const SpeedMetrics& metrics) {
    const RunMachine& machine = chosen.run->info.machine;
    result_.speed_machine =
        fmt::format("{}, {} thread{}", machine.processor.empty() ? "unknown processor" : machine.processor,
                    machine.threads, machine.threads == 1 ? "" : "s");
    for (const SpeedRecord& result : metrics.results) {
      if (result.dataset != chosen.dataset->name) continue;
      SACCADE_ASSIGN(const size_t place, model(*chosen.run, result.model));
      const MeasuredSpeed speed = speed_of(result);
      MeasuredModel& measured = result_.models[place];
      if (!measured.speed) {
        measured.speed = speed;
        continue;
      }
      MeasuredSpeed& there = *measured.speed;
      if (there.images_per_s && speed.images_per_s) {
        result_.remarks.push_back(
            fmt::format("The speed of {} ({}) was measured twice: {} and {} images/s; the slower "
                        "figures count.",
                        measured.name, measured.checkpoint.precision, rate_text(there.images_per_s->value),
                        rate_text(speed.images_per_s->value)));
      }
      const auto slower = [](std::optional<Spread>& a, const std::optional<Spread>& b) {
        if (b && (!a || b->value < a->value)) a = b;
      };
      slower(there.images_per_s, speed.images_per_s);
      slower(there.queries_per_s, speed.queries_per_s);
      if (speed.text_p95_ms) there.text_p95_ms = std::max(*speed.text_p95_ms, there.text_p95_ms.value_or(0));
      if (speed.peak_bytes) there.peak_bytes = std::max(*speed.peak_bytes, there.peak_bytes.value_or(0));
    }
    return {};
  }

  // Figures do not carry over between precisions. A remark says so if a model's figures are of different
  // ones.
  void remark_other_precisions() {
    for (const MeasuredModel& model : result_.models) {
      if (model.speed || !(model.accuracy || model.composition)) continue;
      for (const MeasuredModel& other : result_.models) {
        if (!other.speed || other.checkpoint.fingerprint != model.checkpoint.fingerprint) continue;
        result_.remarks.push_back(
            fmt::format("{} was scored in {} and its speed measured in {}: the two do not go together.",
                        model.name, model.checkpoint.precision, other.checkpoint.precision));
      }
    }
  }

  void name_models() {
    // Names come from files, so control characters such as line breaks are replaced.
    for (MeasuredModel& model : result_.models) {
      std::ranges::replace_if(
          model.name, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
    }
    const auto repeated = [&](const MeasuredModel& model) {
      return std::ranges::count(result_.models, model.name, &MeasuredModel::name) > 1;
    };
    std::vector<std::string> names;
    for (const MeasuredModel& model : result_.models) {
      const std::string& precision = model.checkpoint.precision;
      names.push_back(repeated(model) && !precision.empty() ? fmt::format("{} ({})", model.name, precision)
                                                            : model.name);
    }
    for (size_t i = 0; i < names.size(); ++i) result_.models[i].name = names[i];
    for (size_t i = 0; i < names.size(); ++i) {
      if (std::ranges::count(names, names[i]) > 1) {
        result_.models[i].name =
            fmt::format("{} {}", names[i], result_.models[i].checkpoint.fingerprint.substr(0, 8));
      }
    }
  }

  std::span<const Run> runs_;
  const MeasurementChoice& choice_;
  Measurements result_;
  std::map<Key, size_t> places_;
};

}  // namespace

Result<Measurements> gather_measurements(std::span<const Run> runs, const MeasurementChoice& choice) {
  return Gatherer(runs, choice).gather();
}

}  // namespace saccade::lab
