#include "lab/eval/run/measurements.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace saccade::lab {
namespace {

using Key = std::pair<std::string, std::string>;  // fingerprint, precision

std::string folder_of(const Run& run) {
  return run.folder.string();
}

// Returns a number of a figure; NaN for null.
Result<double> number(const Json& object, const char* key) {
  return json_field_or<double>(object, key, Figure::kNone);
}

Result<const Json*> object_in(const Json& json, const char* key) {
  if (!json.is_object()) return detail::wrong_kind(key, json, "an object around it");
  const auto found = json.find(key);
  if (found == json.end()) return fail(ErrorCode::kBadData, "\"{}\" is missing", key);
  if (!found->is_object()) return detail::wrong_kind(key, *found, "an object");
  return &*found;
}

Result<std::vector<const Json*>> list_of(const Run& run, const char* key) {
  const std::string where = (run.folder / "metrics.json").string();
  if (!run.metrics.is_object()) return fail(ErrorCode::kBadData, "{}: not an object", where);
  std::vector<const Json*> list;
  const auto found = run.metrics.find(key);
  if (found == run.metrics.end()) {
    return fail(ErrorCode::kBadData, "{}: \"{}\" is missing", where, key);
  }
  if (!found->is_array()) {
    return fail(ErrorCode::kBadData, "{}: \"{}\" is {}, expected an array", where, key, json_kind(*found));
  }
  for (const Json& one : *found) list.push_back(&one);
  return list;
}

Result<Figure> parse_figure(const Json& figures, const char* name, const char* value_name = "value") {
  SACCADE_ASSIGN(const Json* json, object_in(figures, name));
  Figure figure;
  figure.name = name;
  SACCADE_ASSIGN(figure.value, number(*json, value_name).in(name));
  SACCADE_ASSIGN(figure.low, number(*json, "low").in(name));
  SACCADE_ASSIGN(figure.high, number(*json, "high").in(name));
  return figure;
}

Result<Difference> parse_difference(const Json& figures, const char* name) {
  Difference difference;
  SACCADE_ASSIGN(difference.figure, parse_figure(figures, name, "difference"));
  SACCADE_ASSIGN(const Json* json, object_in(figures, name));
  SACCADE_ASSIGN(difference.p_value, number(*json, "p_value").in(name));
  SACCADE_ASSIGN(difference.told_apart, json_field<bool>(*json, "told_apart").in(name));
  return difference;
}

Result<std::optional<Spread>> parse_spread(const Json& result, const char* name) {
  const auto found = result.find(name);
  if (found == result.end() || found->is_null()) return std::optional<Spread>();
  SACCADE_ASSIGN(const Figure figure, parse_figure(result, name));
  if (!std::isfinite(figure.value)) return std::optional<Spread>();
  return std::optional(Spread{figure.value, figure.low, figure.high});
}

// The selected dataset of a run, by its name in that run.
struct ChosenRun {
  const Run* run = nullptr;
  const RunDataset* dataset = nullptr;
};

bool same_dataset(const RunDataset& a, const RunDataset& b) {
  return a.sha256 == b.sha256 && a.images == b.images && a.texts == b.texts &&
         a.compositions == b.compositions &&
         (a.pictures_sha256.empty() || b.pictures_sha256.empty() || a.pictures_sha256 == b.pictures_sha256);
}

class Gatherer {
 public:
  Gatherer(std::span<const Run> runs, const MeasurementChoice& choice) : runs_(runs), choice_(choice) {}

  Result<Measurements> gather() {
    if (runs_.empty()) return fail(ErrorCode::kUsage, "no runs are given");
    SACCADE_TRY(check_names());
    SACCADE_ASSIGN(const auto retrieval, choose("retrieval"));
    for (const ChosenRun& chosen : retrieval) SACCADE_TRY(add_accuracy(chosen).in(folder_of(*chosen.run)));
    if (!retrieval.empty()) result_.accuracy_dataset = retrieval.front().dataset->name;
    if (choice_.composition) {
      SACCADE_ASSIGN(const auto pairs, choose("winoground"));
      for (const ChosenRun& chosen : pairs) SACCADE_TRY(add_composition(chosen).in(folder_of(*chosen.run)));
      if (!pairs.empty()) result_.composition_dataset = pairs.front().dataset->name;
    }
    if (choice_.length) {
      SACCADE_ASSIGN(const auto lengths, choose("length"));
      for (const ChosenRun& chosen : lengths) SACCADE_TRY(add_length(chosen).in(folder_of(*chosen.run)));
      if (!lengths.empty()) result_.length_dataset = lengths.front().dataset->name;
    }
    SACCADE_ASSIGN(const auto speeds, choose("speed"));
    for (const ChosenRun& chosen : speeds) SACCADE_TRY(add_speed(chosen).in(folder_of(*chosen.run)));
    if (!speeds.empty()) {
      result_.speed_dataset = speeds.front().dataset->name;
      const RunMachine& machine = speeds.front().run->info.machine;
      result_.speed_machine =
          fmt::format("{}, {} thread{}", machine.processor.empty() ? "unknown processor" : machine.processor,
                      machine.threads, machine.threads == 1 ? "" : "s");
    }
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

  // Chooses the runs of a kind that can be compared.
  Result<std::vector<ChosenRun>> choose(std::string_view kind) {
    std::vector<ChosenRun> all;
    bool named = false;
    for (const Run& run : runs_) {
      if (run.info.kind != kind) continue;
      if (kind == "speed" && !is_on_device(run)) continue;
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
                    fmt::format("{} pictures, {} texts ({})", a.dataset->images, a.dataset->texts,
                                a.dataset->sha256.substr(0, 12)),
                    fmt::format("{} pictures, {} texts ({})", b.dataset->images, b.dataset->texts,
                                b.dataset->sha256.substr(0, 12)),
                    "");
    }
    const Json& there = a.run->info.protocol;
    const Json& here = b.run->info.protocol;
    std::set<std::string> keys;
    for (const Json* json : {&there, &here}) {
      for (const auto& [key, value] : json->items()) keys.insert(key);
    }
    keys.erase("words");
    for (const std::string& key : keys) {
      const Json of_a = there.contains(key) ? there[key] : Json();
      const Json of_b = here.contains(key) ? here[key] : Json();
      if (of_a != of_b) {
        return differ(key, dump_json(of_a), dump_json(of_b), key == "device" ? "; --device chooses one" : "");
      }
    }
    if (kind != "speed") return {};
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

  // Calls `body` with each line of `key` that belongs to the dataset.
  static Status each(const ChosenRun& chosen, const char* key,
                     const std::function<Status(const Json&)>& body) {
    SACCADE_ASSIGN(const auto list, list_of(*chosen.run, key));
    for (const Json* one : list) {
      SACCADE_ASSIGN(const std::string dataset, json_field<std::string>(*one, "dataset").in("metrics.json"));
      if (dataset == chosen.dataset->name) SACCADE_TRY(body(*one).in("metrics.json"));
    }
    return {};
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

  Status add_differences(const ChosenRun& chosen, const std::function<Result<Difference>(const Json&)>& parse,
                         std::vector<MeasuredDifference>& differences) {
    return each(chosen, "comparisons", [&](const Json& json) -> Status {
      if (json.contains("kind") && !json["kind"].is_null()) return {};
      SACCADE_ASSIGN(const std::string a, json_field<std::string>(json, "a"));
      SACCADE_ASSIGN(const std::string b, json_field<std::string>(json, "b"));
      MeasuredDifference& one = differences.emplace_back();
      SACCADE_ASSIGN(one.a, model(*chosen.run, a));
      SACCADE_ASSIGN(one.b, model(*chosen.run, b));
      SACCADE_ASSIGN(one.difference, parse(json));
      return {};
    });
  }

  Status add_accuracy(const ChosenRun& chosen) {
    SACCADE_TRY(each(chosen, "results", [&](const Json& json) -> Status {
      SACCADE_ASSIGN(const std::string name, json_field<std::string>(json, "model"));
      SACCADE_ASSIGN(const Json* t2i, object_in(json, "t2i"));
      SACCADE_ASSIGN(Figure figure, parse_figure(*t2i, "r1").in("t2i"));
      if (name == "chance") {
        if (std::isfinite(figure.value)) result_.accuracy_chance = figure.value;
        return {};
      }
      SACCADE_ASSIGN(const size_t place, model(*chosen.run, name));
      figure.name = "text-to-image R@1";
      return set_figure(result_.models[place], &MeasuredModel::accuracy, figure);
    }));
    return add_differences(
        chosen,
        [](const Json& json) -> Result<Difference> {
          SACCADE_ASSIGN(const Json* t2i, object_in(json, "t2i"));
          return parse_difference(*t2i, "r1");
        },
        result_.accuracy_differences);
  }

  Status add_composition(const ChosenRun& chosen) {
    SACCADE_TRY(each(chosen, "results", [&](const Json& json) -> Status {
      if (json.contains("kind") && !json["kind"].is_null()) return {};
      SACCADE_ASSIGN(const std::string name, json_field<std::string>(json, "model"));
      SACCADE_ASSIGN(const Json* scores, object_in(json, "scores"));
      const char* which = scores->contains("group") && !(*scores)["group"].is_null() ? "group" : "text";
      SACCADE_ASSIGN(Figure figure, parse_figure(*scores, which).in("scores"));
      if (name == "chance") {
        if (std::isfinite(figure.value)) result_.composition_chance = figure.value;
        return {};
      }
      result_.composition_figure = which;
      figure.name = fmt::format("{} score", which);
      SACCADE_ASSIGN(const size_t place, model(*chosen.run, name));
      return set_figure(result_.models[place], &MeasuredModel::composition, figure);
    }));
    return add_differences(
        chosen,
        [&](const Json& json) -> Result<Difference> {
          SACCADE_ASSIGN(const Json* scores, object_in(json, "scores"));
          return parse_difference(*scores, result_.composition_figure.c_str());
        },
        result_.composition_differences);
  }

  Status add_length(const ChosenRun& chosen) {
    return each(chosen, "results", [&](const Json& json) -> Status {
      SACCADE_ASSIGN(const std::string name, json_field<std::string>(json, "model"));
      SACCADE_ASSIGN(const size_t place, model(*chosen.run, name));
      SACCADE_ASSIGN(const Json* t2i, object_in(json, "t2i"));
      SACCADE_ASSIGN(const Json* effective, object_in(*t2i, "effective").in("t2i"));
      EffectiveTokens length;
      SACCADE_ASSIGN(const int64_t tokens, json_field_or<int64_t>(*effective, "tokens", -1));
      if (tokens >= 0) length.tokens = tokens;
      SACCADE_ASSIGN(length.at_end, json_field<bool>(*effective, "at_end"));
      SACCADE_ASSIGN(length.share, json_field<double>(*effective, "share"));
      SACCADE_ASSIGN(length.above_chance, json_field_or<bool>(*t2i, "above_chance", true).in("t2i"));
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
      return {};
    });
  }

  static Result<MeasuredSpeed> parse_speed(const Json& json) {
    MeasuredSpeed speed;
    SACCADE_ASSIGN(speed.images_per_s, parse_spread(json, "images_per_s"));
    SACCADE_ASSIGN(speed.queries_per_s, parse_spread(json, "queries_per_s"));
    SACCADE_ASSIGN(const Json* latency, object_in(json, "latency_ms"));
    const auto text = latency->find("text");
    if (text != latency->end() && !text->is_null()) {
      SACCADE_ASSIGN(const double p95, number(*text, "p95").in("latency_ms"));
      SACCADE_ASSIGN(speed.text_samples, json_field_or<int64_t>(*text, "samples", 0).in("latency_ms"));
      if (std::isfinite(p95)) speed.text_p95_ms = p95;
    }
    SACCADE_ASSIGN(const Json* memory, object_in(json, "memory"));
    SACCADE_ASSIGN(const int64_t peak, json_field_or<int64_t>(*memory, "peak_bytes", 0).in("memory"));
    if (peak > 0) speed.peak_bytes = peak;
    return speed;
  }

  Status add_speed(const ChosenRun& chosen) {
    return each(chosen, "results", [&](const Json& json) -> Status {
      SACCADE_ASSIGN(const std::string name, json_field<std::string>(json, "model"));
      SACCADE_ASSIGN(const size_t place, model(*chosen.run, name));
      SACCADE_ASSIGN(const MeasuredSpeed speed, parse_speed(json));
      MeasuredModel& measured = result_.models[place];
      if (!measured.speed) {
        measured.speed = speed;
        return {};
      }
      MeasuredSpeed& there = *measured.speed;
      if (there.images_per_s && speed.images_per_s) {
        result_.remarks.push_back(
            fmt::format("The speed of {} ({}) was measured twice: {:.4g} and {:.4g} pictures/s; the slower "
                        "figures count.",
                        measured.name, measured.checkpoint.precision, there.images_per_s->value,
                        speed.images_per_s->value));
      }
      const auto slower = [](std::optional<Spread>& a, const std::optional<Spread>& b) {
        if (b && (!a || b->value < a->value)) a = b;
      };
      slower(there.images_per_s, speed.images_per_s);
      slower(there.queries_per_s, speed.queries_per_s);
      if (speed.text_p95_ms) there.text_p95_ms = std::max(*speed.text_p95_ms, there.text_p95_ms.value_or(0));
      if (speed.peak_bytes) there.peak_bytes = std::max(*speed.peak_bytes, there.peak_bytes.value_or(0));
      return {};
    });
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
