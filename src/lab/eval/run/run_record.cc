#include "lab/eval/run/run_record.h"

#include <cmath>
#include <thread>
#include <unistd.h>

#include "lab/data/dataset_json.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/run/record_fields.h"
#include "saccade/core/files/files.h"

namespace saccade::lab {
namespace {

// Returns a JSON number: integral ones without a point, and null for NaN.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json dataset_json(const RunDataset& dataset) {
  return {{"name", dataset.name},
          {"path", dataset.path},
          {"layout", text_or_null(dataset.layout)},
          {"sha256", text_or_null(dataset.sha256)},
          {"pictures_sha256", text_or_null(dataset.pictures_sha256)},
          {"images", dataset.images},
          {"texts", dataset.texts},
          {"compositions", dataset.compositions},
          {"excluded", exclusions_json(dataset.excluded)}};
}

Json checkpoint_json(const RunCheckpoint& checkpoint) {
  return {{"name", checkpoint.name},
          {"path", checkpoint.path},
          {"fingerprint", checkpoint.fingerprint},
          {"family", text_or_null(checkpoint.family)},
          {"precision", text_or_null(checkpoint.precision)},
          {"parameters", checkpoint.parameters},
          {"dim", checkpoint.dim},
          {"context", checkpoint.context},
          {"image_height", checkpoint.image_height},
          {"image_width", checkpoint.image_width}};
}

// Returns object[key] as an array or object; kBadData for anything else.
Result<const Json*> member(const Json& object, const char* key, Json::value_t wanted) {
  if (!object.is_object()) return detail::wrong_kind(key, object, "an object around it");
  const auto found = object.find(key);
  if (found == object.end()) return fail(ErrorCode::kBadData, "\"{}\" is missing", key);
  if (found->type() != wanted) {
    return detail::wrong_kind(key, *found, wanted == Json::value_t::array ? "an array" : "an object");
  }
  return &*found;
}

Result<std::vector<std::string>> strings(const Json& object, const char* key) {
  SACCADE_ASSIGN(const Json* array, member(object, key, Json::value_t::array));
  std::vector<std::string> result;
  for (const Json& value : *array) {
    SACCADE_ASSIGN(result.emplace_back(), detail::json_as<std::string>(key, value));
  }
  return result;
}

Result<RunDataset> parse_dataset(const Json& json) {
  RunDataset dataset;
  SACCADE_ASSIGN(dataset.name, json_field<std::string>(json, "name"));
  SACCADE_ASSIGN(dataset.path, json_field<std::string>(json, "path"));
  SACCADE_ASSIGN(dataset.layout, json_field_or<std::string>(json, "layout", ""));
  SACCADE_ASSIGN(dataset.sha256, json_field_or<std::string>(json, "sha256", ""));
  SACCADE_ASSIGN(dataset.pictures_sha256, json_field_or<std::string>(json, "pictures_sha256", ""));
  SACCADE_ASSIGN(dataset.images, json_field<int64_t>(json, "images"));
  SACCADE_ASSIGN(dataset.texts, json_field<int64_t>(json, "texts"));
  SACCADE_ASSIGN(dataset.compositions, json_field_or<int64_t>(json, "compositions", 0));
  SACCADE_ASSIGN(const Json* excluded, member(json, "excluded", Json::value_t::array));
  for (const Json& one : *excluded) {
    Exclusion& exclusion = dataset.excluded.emplace_back();
    SACCADE_ASSIGN(exclusion.reason, json_field<std::string>(one, "reason"));
    SACCADE_ASSIGN(exclusion.count, json_field<int64_t>(one, "count"));
    SACCADE_ASSIGN(exclusion.examples, strings(one, "examples"));
  }
  return dataset;
}

Result<RunCheckpoint> parse_checkpoint(const Json& json) {
  RunCheckpoint checkpoint;
  SACCADE_ASSIGN(checkpoint.name, json_field<std::string>(json, "name"));
  SACCADE_ASSIGN(checkpoint.path, json_field<std::string>(json, "path"));
  SACCADE_ASSIGN(checkpoint.fingerprint, json_field<std::string>(json, "fingerprint"));
  SACCADE_ASSIGN(checkpoint.family, json_field_or<std::string>(json, "family", ""));
  SACCADE_ASSIGN(checkpoint.precision, json_field_or<std::string>(json, "precision", ""));
  SACCADE_ASSIGN(checkpoint.parameters, json_field<int64_t>(json, "parameters"));
  SACCADE_ASSIGN(checkpoint.dim, json_field<int64_t>(json, "dim"));
  SACCADE_ASSIGN(checkpoint.context, json_field<int64_t>(json, "context"));
  SACCADE_ASSIGN(checkpoint.image_height, json_field<int64_t>(json, "image_height"));
  SACCADE_ASSIGN(checkpoint.image_width, json_field<int64_t>(json, "image_width"));
  return checkpoint;
}

std::string processor_name() {
  const auto text = read_file("/proc/cpuinfo", int64_t{64} << 20);
  if (!text) return {};
  const size_t line = text->find("model name");
  if (line == std::string::npos) return {};
  const size_t colon = text->find(':', line);
  const size_t end = text->find('\n', line);
  if (colon == std::string::npos || end == std::string::npos || colon + 2 > end) return {};
  return text->substr(colon + 2, end - colon - 2);
}

}  // namespace

RunMachine this_machine(int threads) {
  const auto pages = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<int64_t>(::sysconf(_SC_PAGE_SIZE));
  return {.processor = processor_name(), .threads = threads, .memory_bytes = pages > 0 ? pages * page : 0};
}

Json run_json(const RunInfo& info) {
  Json datasets = Json::array();
  for (const RunDataset& dataset : info.datasets) datasets.push_back(dataset_json(dataset));
  Json checkpoints = Json::array();
  for (const RunCheckpoint& checkpoint : info.checkpoints) checkpoints.push_back(checkpoint_json(checkpoint));
  Json libraries = Json::object();
  for (const auto& [name, version] : info.libraries) libraries[name] = version;
  return {{"format", kRunFormat},
          {"kind", info.kind},
          {"saccade", info.saccade},
          {"command", info.command},
          {"protocol", info.protocol},
          {"seed", info.seed},
          {"resamples", info.resamples},
          {"confidence", info.confidence},
          {"datasets", std::move(datasets)},
          {"checkpoints", std::move(checkpoints)},
          {"libraries", std::move(libraries)},
          {"machine",
           {{"processor", info.machine.processor},
            {"threads", info.machine.threads},
            {"memory_bytes", info.machine.memory_bytes}}}};
}

Result<RunInfo> parse_run_info(const Json& json) {
  if (json.is_object() && !json.contains("format")) {
    return fail(ErrorCode::kBadData, "\"format\" is missing: not a run of `saccade eval`");
  }
  SACCADE_ASSIGN(const int64_t format, json_field<int64_t>(json, "format"));
  if (format != kRunFormat) {
    return fail(ErrorCode::kUnsupported, "format {}, this program reads {}", format, kRunFormat);
  }
  RunInfo info;
  SACCADE_ASSIGN(info.kind, json_field<std::string>(json, "kind"));
  SACCADE_ASSIGN(info.saccade, json_field<std::string>(json, "saccade"));
  SACCADE_ASSIGN(info.command, strings(json, "command"));
  SACCADE_ASSIGN(const Json* protocol, member(json, "protocol", Json::value_t::object));
  SACCADE_TRY(json_field<std::string>(*protocol, "words").in("\"protocol\""));
  info.protocol = *protocol;
  SACCADE_ASSIGN(info.seed, json_field<uint64_t>(json, "seed"));
  SACCADE_ASSIGN(info.resamples, json_field<int64_t>(json, "resamples"));
  SACCADE_ASSIGN(info.confidence, json_field<double>(json, "confidence"));
  SACCADE_ASSIGN(const Json* datasets, member(json, "datasets", Json::value_t::array));
  for (const Json& dataset : *datasets) {
    SACCADE_ASSIGN(info.datasets.emplace_back(), parse_dataset(dataset).in("\"datasets\""));
  }
  SACCADE_ASSIGN(const Json* checkpoints, member(json, "checkpoints", Json::value_t::array));
  for (const Json& checkpoint : *checkpoints) {
    SACCADE_ASSIGN(info.checkpoints.emplace_back(), parse_checkpoint(checkpoint).in("\"checkpoints\""));
  }
  SACCADE_ASSIGN(const Json* libraries, member(json, "libraries", Json::value_t::object));
  for (const auto& [name, version] : libraries->items()) {
    SACCADE_ASSIGN(info.libraries[name], detail::json_as<std::string>(name, version).in("\"libraries\""));
  }
  SACCADE_ASSIGN(const Json* machine, member(json, "machine", Json::value_t::object));
  SACCADE_ASSIGN(info.machine.processor, json_field<std::string>(*machine, "processor").in("\"machine\""));
  SACCADE_ASSIGN(info.machine.threads, json_field<int64_t>(*machine, "threads").in("\"machine\""));
  SACCADE_ASSIGN(info.machine.memory_bytes, json_field<int64_t>(*machine, "memory_bytes").in("\"machine\""));
  return info;
}

std::vector<std::string> run_differences(const RunInfo& there, const RunInfo& asked) {
  std::vector<std::string> lines;
  const auto compare = [&](std::string_view what, const auto& a, const auto& b) {
    if (a != b) lines.push_back(fmt::format("{}: there {}, asked for {}", what, a, b));
  };
  compare("kind", there.kind, asked.kind);
  for (const auto& [key, value] : asked.protocol.items()) {
    if (key == "words") continue;
    const auto found = there.protocol.find(key);
    compare(key, found == there.protocol.end() ? "null" : dump_json(*found), dump_json(value));
  }
  for (const auto& [key, value] : there.protocol.items()) {
    if (key != "words" && !asked.protocol.contains(key)) compare(key, dump_json(value), std::string("null"));
  }
  compare("seed", there.seed, asked.seed);
  compare("resamples", there.resamples, asked.resamples);
  compare("confidence", there.confidence, asked.confidence);
  compare("number of datasets", there.datasets.size(), asked.datasets.size());
  for (size_t i = 0; i < std::min(there.datasets.size(), asked.datasets.size()); ++i) {
    const RunDataset& a = there.datasets[i];
    const RunDataset& b = asked.datasets[i];
    if (a.sha256 != b.sha256) {
      lines.push_back(fmt::format("dataset: there {} ({}), asked for {} ({})", a.name, a.sha256.substr(0, 12),
                                  b.name, b.sha256.substr(0, 12)));
    } else if (!a.pictures_sha256.empty() && !b.pictures_sha256.empty() &&
               a.pictures_sha256 != b.pictures_sha256) {
      lines.push_back(fmt::format("pictures of dataset {} have changed: there {}, now {}", b.name,
                                  a.pictures_sha256.substr(0, 12), b.pictures_sha256.substr(0, 12)));
    }
  }
  compare("number of checkpoints", there.checkpoints.size(), asked.checkpoints.size());
  for (size_t i = 0; i < std::min(there.checkpoints.size(), asked.checkpoints.size()); ++i) {
    const RunCheckpoint& a = there.checkpoints[i];
    const RunCheckpoint& b = asked.checkpoints[i];
    if (a.fingerprint != b.fingerprint) {
      lines.push_back(fmt::format("checkpoint: there {} ({}), asked for {} ({})", a.name,
                                  a.fingerprint.substr(0, 12), b.name, b.fingerprint.substr(0, 12)));
    } else if (a.precision != b.precision) {
      compare("precision of " + b.name, a.precision, b.precision);
    }
  }
  return lines;
}

Json run_query_json(const RunQuery& query) {
  Json ranks = Json::array();
  for (const double rank : query.ranks) ranks.push_back(number(rank));
  Json top = Json::array();
  for (const RunAnswer& answer : query.top) {
    top.push_back(
        {{"answer", answer.answer}, {"score", record_json(answer.score)}, {"right", answer.right}});
  }
  return {
      {"dataset", query.dataset}, {"model", query.model},      {"direction", direction_name(query.direction)},
      {"query", query.query},     {"ranks", std::move(ranks)}, {"tied", query.tied},
      {"top", std::move(top)}};
}

Result<RunQuery> parse_run_query(const Json& json) {
  RunQuery query;
  SACCADE_ASSIGN(query.dataset, json_field<std::string>(json, "dataset"));
  SACCADE_ASSIGN(query.model, json_field<std::string>(json, "model"));
  SACCADE_ASSIGN(const std::string direction, json_field<std::string>(json, "direction"));
  if (direction != "t2i" && direction != "i2t") {
    return fail(ErrorCode::kBadData, "\"direction\" is \"{}\", expected t2i or i2t", direction);
  }
  query.direction = direction == "t2i" ? Direction::kTextToImage : Direction::kImageToText;
  SACCADE_ASSIGN(query.query, json_field<int64_t>(json, "query"));
  SACCADE_ASSIGN(query.tied, json_field<bool>(json, "tied"));
  SACCADE_ASSIGN(const Json* ranks, member(json, "ranks", Json::value_t::array));
  for (const Json& rank : *ranks) {
    SACCADE_ASSIGN(query.ranks.emplace_back(), detail::json_as<double>("ranks", rank));
  }
  SACCADE_ASSIGN(const Json* top, member(json, "top", Json::value_t::array));
  for (const Json& one : *top) {
    RunAnswer& answer = query.top.emplace_back();
    SACCADE_ASSIGN(answer.answer, json_field<int64_t>(one, "answer"));
    SACCADE_ASSIGN(answer.score, json_field_or<double>(one, "score", Figure::kNone));
    SACCADE_ASSIGN(answer.right, json_field<bool>(one, "right"));
  }
  return query;
}

}  // namespace saccade::lab
