#include "lab/eval/composed/server_file.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "saccade/core/json.h"

namespace saccade::lab {
namespace {

constexpr std::string_view kRecall = "recall";
constexpr std::string_view kSubset = "recall_subset";
constexpr std::string_view kMap = "map";

// Returns a server's id of a query. CIRCO numbers each split from 0, and the reader adds the split as a
// prefix.
std::string server_id(const ComposedTask& task, size_t query) {
  const EditQuery& edit = task.edits[query];
  if (task.layout != "circo" || edit.split.empty() || !edit.id.starts_with(edit.split + ".")) return edit.id;
  return edit.id.substr(edit.split.size() + 1);
}

// Returns the required number of images in a query's list.
int64_t length_of(const ComposedTask& task, size_t query, std::string_view metric) {
  const ComposedTask::Query& one = task.queries[query];
  if (metric == kSubset) return std::min(kServerSubset, std::ssize(one.subset));
  const int64_t gallery = std::ssize(task.galleries[static_cast<size_t>(one.gallery)].pictures);
  return std::min(kServerDepth, gallery - (task.remove_reference ? 1 : 0));
}

Json id_json(const ComposedTask& task, const std::string& id) {
  if (task.layout != "circo") return id;
  return static_cast<int64_t>(std::stoll(id));
}

Result<std::string> text_of(const ComposedTask& task, std::span<const ComposedAnswer> answers,
                            std::string_view metric) {
  Json json = Json::object();
  if (task.layout == "cirr") json = {{"version", "rc2"}, {"metric", metric}};
  for (size_t a = 0; a < task.asked.size(); ++a) {
    const ComposedTask::Asked& asked = task.asked[a];
    if (asked.wording != 0) continue;
    const auto query = static_cast<size_t>(asked.query);
    const std::vector<int64_t>& best = metric == kSubset ? answers[a].top_subset : answers[a].top;
    Json list = Json::array();
    for (const int64_t picture : best) {
      if (std::ssize(list) == length_of(task, query, metric)) break;
      list.push_back(id_json(task, task.pictures[static_cast<size_t>(picture)].id));
    }
    json[server_id(task, query)] = std::move(list);
  }
  return dump_json(json);
}

Status check_list(const ComposedTask& task, size_t query, std::string_view metric, const Json& list) {
  if (!list.is_array()) return fail(ErrorCode::kBadData, "{}, expected an array of images", json_kind(list));
  const int64_t expected = length_of(task, query, metric);
  if (std::ssize(list) != expected) {
    return fail(ErrorCode::kBadData, "{} images, the server takes {}", list.size(), expected);
  }
  const ComposedTask::Query& one = task.queries[query];
  const auto& allowed =
      metric == kSubset ? one.subset : task.galleries[static_cast<size_t>(one.gallery)].pictures;
  std::set<std::string> ids;
  for (const int64_t picture : allowed) ids.insert(task.pictures[static_cast<size_t>(picture)].id);
  if (task.remove_reference) ids.erase(task.edits[query].reference);
  for (const Json& each : list) {
    const std::string id = each.is_number_integer() ? std::to_string(each.get<int64_t>())
                           : each.is_string()       ? each.get<std::string>()
                                                    : std::string();
    // Each id may occur once.
    if (ids.erase(id) == 0) {
      return fail(ErrorCode::kBadData,
                  "\"{}\" is the reference, there twice, or none of the images it may be", id);
    }
  }
  return {};
}

}  // namespace

Status check_server_file(const ComposedTask& task, std::string_view metric, std::string_view text) {
  if (task.layout == "cirr" && std::ssize(text) > kServerBytes) {
    return fail(ErrorCode::kBadData, "{} bytes, the server takes {}", text.size(), kServerBytes);
  }
  SACCADE_ASSIGN(const Json json, parse_json(text));
  if (!json.is_object()) return fail(ErrorCode::kBadData, "{}, expected an object", json_kind(json));
  size_t others = 0;
  if (task.layout == "cirr") {
    others = 2;
    for (const auto& [key, wanted] :
         {std::pair<const char*, std::string_view>("version", "rc2"), {"metric", metric}}) {
      SACCADE_ASSIGN(const std::string value, json_field<std::string>(json, key));
      if (value != wanted)
        return fail(ErrorCode::kBadData, "\"{}\" is \"{}\", expected \"{}\"", key, value, wanted);
    }
  }
  for (size_t q = 0; q < task.queries.size(); ++q) {
    const std::string id = server_id(task, q);
    const auto found = json.find(id);
    if (found == json.end()) return fail(ErrorCode::kBadData, "query {} is missing", id);
    SACCADE_TRY(check_list(task, q, metric, *found).in("query " + id));
  }
  if (json.size() != task.queries.size() + others) {
    return fail(ErrorCode::kBadData, "{} queries, the dataset has {}", json.size() - others,
                task.queries.size());
  }
  return {};
}

Result<std::vector<ServerFile>> server_files(const ComposedTask& task,
                                             std::span<const ComposedAnswer> answers) {
  std::vector<std::string_view> metrics;
  if (task.layout == "cirr") metrics = {kRecall, kSubset};
  if (task.layout == "circo") metrics = {kMap};
  if (metrics.empty()) {
    return fail(ErrorCode::kUsage, "no server is known for the layout {}: only for cirr and circo",
                task.layout);
  }
  std::vector<ServerFile> files;
  for (const std::string_view metric : metrics) {
    ServerFile& file = files.emplace_back();
    file.metric = metric;
    SACCADE_ASSIGN(file.text, text_of(task, answers, metric));
    SACCADE_TRY(check_server_file(task, metric, file.text).in(metric));
  }
  return files;
}

}  // namespace saccade::lab
