#include "lab/eval/winoground/winoground.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "saccade/core/files/safetensors.h"

namespace saccade::lab {
namespace {

std::vector<std::string> score_names(bool two_pictures) {
  if (two_pictures) return {"text", "image", "group"};
  return {"text"};
}

// Returns the cluster of each member, and the number of clusters. Items that share an image, directly or
// through other items, form one cluster. Clusters are numbered by their first member.
std::pair<std::vector<int64_t>, int64_t> connect(const CompositionTask& task,
                                                 std::span<const size_t> members) {
  // A disjoint-set forest over images: images connected by an item have one root.
  std::vector<int64_t> parent(task.pictures.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](int64_t picture) {
    while (parent[static_cast<size_t>(picture)] != picture) {
      int64_t& up = parent[static_cast<size_t>(picture)];
      up = parent[static_cast<size_t>(up)];
      picture = up;
    }
    return picture;
  };
  for (const size_t member : members) {
    const auto [first, second] = task.picture_of[member];
    if (second >= 0) parent[static_cast<size_t>(root(second))] = root(first);
  }
  std::unordered_map<int64_t, int64_t> numbers;  // root -> cluster
  std::vector<int64_t> clusters;
  for (const size_t member : members) {
    const auto next = static_cast<int64_t>(numbers.size());
    clusters.push_back(numbers.emplace(root(task.picture_of[member][0]), next).first->second);
  }
  return {std::move(clusters), static_cast<int64_t>(numbers.size())};
}

// Evaluates the items of one kind, or all.
CompositionGroup evaluate_group(const CompositionTask& task, std::span<const CompositionVerdict> verdicts,
                                std::optional<std::string> kind, const BootstrapOptions& bootstrap,
                                ThreadPool& pool) {
  CompositionGroup group;
  group.kind = std::move(kind);
  std::vector<size_t> members;
  for (size_t i = 0; i < task.items.size(); ++i) {
    if (!group.kind || task.items[i].kind == *group.kind) members.push_back(i);
  }
  ClusteredSample sample;
  sample.mean_names = score_names(task.two_pictures);
  sample.values =
      Matrix<double>(static_cast<int64_t>(members.size()), static_cast<int64_t>(sample.mean_names.size()));
  std::tie(sample.cluster, sample.clusters) = connect(task, members);
  for (size_t m = 0; m < members.size(); ++m) {
    const CompositionVerdict& verdict = verdicts[members[m]];
    const auto row = sample.values.row(static_cast<int64_t>(m));
    row[0] = verdict.text ? 1 : 0;
    if (task.two_pictures) {
      row[1] = verdict.image ? 1 : 0;
      row[2] = verdict.group ? 1 : 0;
    }
    group.tied += verdict.tied ? 1 : 0;
  }
  group.items = static_cast<int64_t>(members.size());
  group.estimates = estimate(sample, bootstrap, pool);
  group.figures = figures_of(group.estimates, bootstrap.confidence);
  return group;
}

}  // namespace

CompositionVerdict judge(const CompositionScores& s, bool two_pictures) {
  CompositionVerdict verdict;
  if (!two_pictures) {
    verdict.text = s[0][0] > s[1][0];
    verdict.tied = s[0][0] == s[1][0];
    return verdict;
  }
  verdict.text = s[0][0] > s[1][0] && s[1][1] > s[0][1];
  verdict.image = s[0][0] > s[0][1] && s[1][1] > s[1][0];
  verdict.group = verdict.text && verdict.image;
  verdict.tied = s[0][0] == s[1][0] || s[1][1] == s[0][1] || s[0][0] == s[0][1] || s[1][1] == s[1][0];
  return verdict;
}

Result<CompositionTask> composition_task(const Dataset& dataset) {
  SACCADE_ASSIGN(const CompositionTests* tests, dataset.need<CompositionTests>());
  CompositionTask task;
  task.items = tests->items;
  task.two_pictures = task.items.front().images.size() == 2;
  std::unordered_map<std::string, int64_t> numbers;
  for (const CompositionItem& item : task.items) {
    if ((item.images.size() == 2) != task.two_pictures) {
      return fail(ErrorCode::kBadData, "item {} has {} images, item {} has {}: their scores do not compare",
                  task.items.front().id, task.items.front().images.size(), item.id, item.images.size());
    }
    std::array<int64_t, 2> own = {-1, -1};
    for (size_t k = 0; k < item.images.size(); ++k) {
      const auto [known, fresh] =
          numbers.emplace(item.images[k].name(), static_cast<int64_t>(task.pictures.size()));
      if (fresh) {
        task.source.push_back(known->second);
        task.pictures.push_back(item.images[k]);
      }
      own[k] = known->second;
    }
    task.picture_of.push_back(own);
  }
  return task;
}

Result<CompositionTask> without_pictures(const CompositionTask& task, std::span<const int64_t> pictures) {
  Dataset rest;
  auto& items = rest.content.emplace<CompositionTests>().items;
  for (size_t i = 0; i < task.items.size(); ++i) {
    const bool gone = std::ranges::any_of(
        task.picture_of[i], [&](int64_t picture) { return std::ranges::binary_search(pictures, picture); });
    if (gone) {
      rest.exclude("items with an image that cannot be read", task.items[i].id);
    } else {
      items.push_back(task.items[i]);
    }
  }
  if (items.empty()) return fail(ErrorCode::kBadData, "no item is left whose images can be read");
  SACCADE_ASSIGN(CompositionTask result, composition_task(rest));
  std::unordered_map<std::string, int64_t> numbers;
  for (size_t p = 0; p < task.pictures.size(); ++p) numbers.emplace(task.pictures[p].name(), task.source[p]);
  for (size_t p = 0; p < result.pictures.size(); ++p)
    result.source[p] = numbers.at(result.pictures[p].name());
  result.excluded = task.excluded;
  std::ranges::move(rest.excluded, std::back_inserter(result.excluded));
  return result;
}

int64_t composition_clusters(const CompositionTask& task) {
  std::vector<size_t> all(task.items.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return connect(task, all).second;
}

Result<CompositionOutcome> evaluate_compositions(const CompositionTask& task,
                                                 std::span<const CompositionScores> scores,
                                                 const BootstrapOptions& bootstrap, ThreadPool& pool) {
  CompositionOutcome outcome;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t c = 0; c < 2; ++c) {
      for (size_t p = 0; p < (task.two_pictures ? 2U : 1U); ++p) {
        if (!std::isnan(scores[i][c][p])) continue;
        return fail(ErrorCode::kBadData, "item {}: the score of caption {} with image {} is not a number",
                    task.items[i].id, c, p);
      }
    }
    outcome.verdicts.push_back(judge(scores[i], task.two_pictures));
  }
  std::vector<std::string> kinds;
  for (const CompositionItem& item : task.items) {
    if (std::ranges::find(kinds, item.kind) == kinds.end()) kinds.push_back(item.kind);
  }
  outcome.groups.push_back(evaluate_group(task, outcome.verdicts, std::nullopt, bootstrap, pool));
  if (kinds.size() < 2) return outcome;
  for (const std::string& kind : kinds) {
    outcome.groups.push_back(evaluate_group(task, outcome.verdicts, kind, bootstrap, pool));
  }
  return outcome;
}

void add_results(const std::string& dataset, const std::string& model, const CompositionOutcome& outcome,
                 CompositionMetrics& metrics) {
  for (const CompositionGroup& group : outcome.groups) {
    metrics.results.push_back({dataset, model, group.kind, group.items, group.tied, group.figures});
  }
}

void add_chance(const std::string& dataset, const CompositionTask& task, const CompositionOutcome& any,
                CompositionMetrics& metrics) {
  // Among the 24 orders of four different scores, 6, 6 and 4 are right; among the 2 orders of two scores, 1.
  std::vector<Figure> figures;
  for (const std::string& name : score_names(task.two_pictures)) {
    figures.emplace_back().name = name;
    figures.back().value = !task.two_pictures ? 0.5 : name == "group" ? 1.0 / 6 : 0.25;
  }
  for (const CompositionGroup& group : any.groups) {
    metrics.results.push_back({dataset, std::string(kChance), group.kind, group.items, 0, figures});
  }
}

Status add_comparisons(const std::string& dataset, const std::string& a_name, const CompositionOutcome& a,
                       const std::string& b_name, const CompositionOutcome& b, double confidence,
                       CompositionMetrics& metrics) {
  for (size_t g = 0; g < a.groups.size(); ++g) {
    SACCADE_ASSIGN(std::vector<Difference> differences,
                   paired_differences(a.groups[g].estimates, b.groups[g].estimates, confidence)
                       .in(fmt::format("{} and {} on {}", a_name, b_name, dataset)));
    metrics.comparisons.push_back({dataset, a_name, b_name, a.groups[g].kind, std::move(differences)});
  }
  return {};
}

Status add_pairs(RunWriter& run, const std::string& dataset, const std::string& model,
                 const CompositionTask& task, std::span<const CompositionScores> scores,
                 const CompositionOutcome& outcome) {
  for (size_t i = 0; i < scores.size(); ++i) {
    const CompositionVerdict& verdict = outcome.verdicts[i];
    Json table = Json::array();
    for (const auto& caption : scores[i]) {
      table.push_back(task.two_pictures ? Json{caption[0], caption[1]} : Json::array({caption[0]}));
    }
    SACCADE_TRY(run.add_line("pairs.jsonl", {{"dataset", dataset},
                                             {"model", model},
                                             {"item", i},
                                             {"scores", std::move(table)},
                                             {"text", verdict.text},
                                             {"image", task.two_pictures ? Json(verdict.image) : Json()},
                                             {"group", task.two_pictures ? Json(verdict.group) : Json()},
                                             {"tied", verdict.tied}}));
  }
  return {};
}

Result<std::vector<CompositionScores>> read_composition_scores(const std::filesystem::path& path,
                                                               const CompositionTask& task) {
  SACCADE_ASSIGN(const SafeTensors file, SafeTensors::open(path));
  const auto read = [&]() -> Result<std::vector<CompositionScores>> {
    const TensorView* tensor = file.find("scores");
    if (tensor == nullptr) return fail(ErrorCode::kBadData, "no tensor \"scores\"");
    const std::vector<int64_t> expected = {static_cast<int64_t>(task.items.size()), 2,
                                           task.two_pictures ? 2 : 1};
    if (tensor->shape != expected) {
      return fail(ErrorCode::kMismatch, "\"scores\" of shape {}, expected {}: items, captions, images",
                  shape_text(tensor->shape), shape_text(expected));
    }
    // As with retrieval scores, rounding F64 here could create ties.
    if (tensor->dtype == DType::kF64) {
      return fail(ErrorCode::kUnsupported, "\"scores\" in F64, expected F32, F16 or BF16");
    }
    SACCADE_ASSIGN(const std::vector<float> values, tensor->to_floats().in("\"scores\""));
    std::vector<CompositionScores> scores(task.items.size());
    size_t next = 0;
    for (CompositionScores& one : scores) {
      for (auto& caption : one) {
        for (size_t p = 0; p < static_cast<size_t>(expected[2]); ++p) caption[p] = values[next++];
      }
    }
    return scores;
  };
  return read().in(path.string());
}

}  // namespace saccade::lab
