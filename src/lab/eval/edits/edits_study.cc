#include "lab/eval/edits/edits_study.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "lab/eval/rows/embed.h"
#include "lab/eval/run/record_fields.h"
#include "lab/eval/run/run_folder.h"
#include "lab/eval/visualness/word_attention.h"
#include "saccade/core/rows.h"

namespace saccade::lab {
namespace {

constexpr const char* kReference = "reference";
constexpr const char* kSum = "reference + text";

// Returns ranks from 1; equal values share the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end + 1) / 2;
    begin = end;
  }
  return ranks;
}

}  // namespace

Json EditsStudy::protocol() const {
  Json json = {
      {"description",
       fmt::format(
           "Each generated image is one row, asked of its query's gallery by cosine: {}; {}. r@k is the share "
           "of queries with a target among the first k. Beside it the reference alone, and the sum of the "
           "rows of reference and text, on the same queries: those that have a generated image and a target. "
           "Intervals: {} resamples of the references with their queries. {}",
           protocol_words(options_.protocol), meaning_of(options_.ties), evaluation_.bootstrap.resamples,
           picture_words(evaluation_.embed))},
      {"ties", enum_name(options_.ties)},
      {"leave_out", evaluation_.leave_out}};
  json.update(protocol_fields(options_.protocol));
  json.update(picture_fields(evaluation_.embed));
  json["engine"] = engine_;
  return json;
}

Status EditsStudy::add_dataset(const NamedDataset& dataset) {
  if (!dataset_.name.empty()) {
    return fail(ErrorCode::kUsage, "images are generated for one dataset, {} and {} are given", dataset_.name,
                dataset.name);
  }
  if (options_.protocol.join == JoinTexts::kEach || options_.protocol.join == JoinTexts::kBothOrders) {
    return fail(ErrorCode::kUsage, "--join {}: a generated image belongs to a query, not to one of its texts",
                enum_name(options_.protocol.join));
  }
  SACCADE_ASSIGN(const GeneratedEdits list, read_generated_edits(options_.generated));
  engine_ = list.engine;
  SACCADE_ASSIGN(counts_, read_pseudo_targets(options_.generated, dataset.dataset));
  dataset_ = dataset.dataset;
  const auto& all = dataset.dataset.as<EditQueries>().items;
  auto& edits = dataset_.as<EditQueries>().items;
  edits.clear();
  for (size_t i = 0; i < counts_.pictures.size(); ++i) {
    if (!counts_.pictures[i] || all[i].targets.empty()) continue;
    EditQuery& query = edits.emplace_back(all[i]);
    query.paraphrases.clear();
    query.subset.clear();
    generated_.push_back(*counts_.pictures[i]);
  }
  if (edits.empty()) {
    return fail(ErrorCode::kUsage, "{}: no query has both a generated image and a target", dataset.name);
  }
  // Reports queries that cannot be asked before anything is encoded.
  SACCADE_TRY(composed_task(dataset_, options_.protocol, {}));
  return {};
}

std::vector<ImageRef> EditsStudy::pictures(size_t /*dataset*/) const {
  std::vector<ImageRef> pictures;
  for (const GalleryPicture& each : dataset_.as<EditQueries>().gallery) pictures.push_back(each.image);
  pictures.insert(pictures.end(), generated_.begin(), generated_.end());
  return pictures;
}

Result<SettledTask> EditsStudy::settle(size_t /*dataset*/, std::span<const int64_t> unreadable) {
  const auto& edits = dataset_.as<EditQueries>();
  const int64_t gallery = std::ssize(edits.gallery);
  // Queries whose generated image cannot be read.
  std::set<std::string> gone;
  std::vector<int64_t> gallery_gone;
  for (const int64_t number : unreadable) {
    if (number < gallery) {
      gallery_gone.push_back(number);
    } else {
      gone.insert(edits.items[static_cast<size_t>(number - gallery)].id);
    }
  }
  Dataset readable = dataset_;
  std::erase_if(readable.as<EditQueries>().items,
                [&](const EditQuery& query) { return gone.contains(query.id); });
  SACCADE_ASSIGN(task_, composed_task(readable, options_.protocol, gallery_gone));
  std::map<std::string_view, int64_t> numbers;
  for (size_t i = 0; i < edits.items.size(); ++i) {
    numbers.emplace(edits.items[i].id, static_cast<int64_t>(i));
  }
  SettledTask settled{.pictures = task_->source,
                      .texts = std::ssize(task_->asked),
                      .excluded = task_->excluded,
                      .clusters = task_->clusters,
                      .cluster = "reference"};
  for (const EditQuery& edit : task_->edits) settled.pictures.push_back(gallery + numbers.at(edit.id));
  const auto exclude = [&](const char* reason, int64_t count) {
    if (count > 0) settled.excluded.push_back({.reason = reason, .count = count, .examples = {}});
  };
  exclude("queries without a generated image: the engine gave none", counts_.failed);
  exclude("queries that are not in the list of generated images", counts_.absent);
  exclude("queries whose generated image cannot be read", std::ssize(gone));
  return settled;
}

Status EditsStudy::measure(const EncodedContext& context) {
  const ComposedTask& task = *task_;
  const auto queries = std::ssize(task.queries);
  const auto gallery = std::ssize(task.pictures);
  const Matrix<float> rows = mean_rows(context.pictures);
  const MatrixView<const float> pictures = rows.view().slice(0, gallery);
  std::vector<std::string_view> texts;
  for (const ComposedTask::Asked& asked : task.asked) texts.push_back(asked.texts.front());
  SACCADE_ASSIGN(const EmbeddedTexts embedded, embed_study_texts(context, texts));
  const Matrix<float> said = mean_rows(embedded.rows);

  Matrix<float> generated(queries, rows.columns());
  Matrix<float> reference(queries, rows.columns());
  Matrix<float> sum(queries, rows.columns());
  for (int64_t q = 0; q < queries; ++q) {
    const auto of = rows.row(task.queries[static_cast<size_t>(q)].reference);
    std::ranges::copy(rows.row(gallery + q), generated.row(q).begin());
    std::ranges::copy(of, reference.row(q).begin());
    std::ranges::transform(of, said.row(q), sum.row(q).begin(), std::plus<>());
    normalize_row(sum.row(q));
  }
  std::map<std::string, std::vector<double>> ranks;
  for (const auto& [method, asked] : {std::pair<const char*, const Matrix<float>*>{kByGenerated, &generated},
                                      {kReference, &reference},
                                      {kSum, &sum}}) {
    SACCADE_ASSIGN(const std::vector<ComposedAnswer> answers,
                   rank_composed(task, asked->view(), pictures, options_.ties, 0, context.pool));
    for (const ComposedAnswer& answer : answers) ranks[method].push_back(answer.recall_rank);
    outcomes_.push_back({.model = context.model.name,
                         .method = method,
                         .cut = embedded.cut,
                         .groups = composed_groups(task, answers, evaluation_.bootstrap, context.pool)});
  }
  SACCADE_TRY(add_likeness(context, pictures, generated.view(), ranks[kByGenerated], ranks[kSum]));
  if (context.run == nullptr) return {};
  for (int64_t q = 0; q < queries; ++q) {
    const auto at = static_cast<size_t>(q);
    const EditQuery& edit = task.edits[at];
    SACCADE_TRY(context.run->add_line("edits.jsonl", {{"dataset", context.described.name},
                                                      {"model", context.model.name},
                                                      {"query", edit.id},
                                                      {"kind", edit.kind},
                                                      {"reference", edit.reference},
                                                      {"text", texts[at]},
                                                      {"target", edit.targets.front()},
                                                      {"cosine", quality_.at(edit.id).cosine},
                                                      {"rank", ranks[kByGenerated][at]},
                                                      {"reference_rank", ranks[kReference][at]},
                                                      {"sum_rank", ranks[kSum][at]}}));
  }
  return {};
}

Status EditsStudy::add_likeness(const EncodedContext& context, MatrixView<const float> pictures,
                                MatrixView<const float> generated, std::span<const double> generated_rank,
                                std::span<const double> sum_rank) {
  const ComposedTask& task = *task_;
  quality_.clear();
  std::map<std::string, std::vector<size_t>> groups;  // "" for all
  std::vector<std::array<double, 3>> values;          // cosine, the reference's, gain
  for (size_t q = 0; q < task.queries.size(); ++q) {
    const auto target = pictures.row(task.queries[q].targets.front());
    const double cosine = dot_product(generated.row(static_cast<int64_t>(q)), target);
    values.push_back({cosine, dot_product(pictures.row(task.queries[q].reference), target),
                      1 / generated_rank[q] - 1 / sum_rank[q]});
    quality_[task.edits[q].id] = {.cosine = cosine, .rank = generated_rank[q]};
    groups[""].push_back(q);
    if (!task.edits[q].kind.empty()) groups[task.edits[q].kind].push_back(q);
  }
  for (const auto& [kind, members] : groups) {
    ClusteredSample sample;
    sample.mean_names = {kMeanCosine, kReferenceCosine, kGain};
    sample.values = Matrix<double>(std::ssize(members), 3);
    std::map<int64_t, int64_t> clusters;
    for (size_t i = 0; i < members.size(); ++i) {
      std::ranges::copy(values[members[i]], sample.values.row(static_cast<int64_t>(i)).begin());
      sample.cluster.push_back(
          clusters.emplace(task.cluster[members[i]], std::ssize(clusters)).first->second);
    }
    sample.clusters = std::ssize(clusters);
    EditsLikeness& likeness = likeness_.emplace_back();
    likeness.model = context.model.name;
    likeness.of = kind.empty() ? "all" : "kind";
    likeness.name = kind;
    likeness.queries = std::ssize(members);
    const std::vector<Figure> figures =
        figures_of(estimate(sample, evaluation_.bootstrap, context.pool), evaluation_.bootstrap.confidence);
    likeness.cosine = figures[0];
    likeness.reference_cosine = figures[1];
    likeness.gain = figures[2];
    if (!kind.empty()) continue;
    std::vector<double> cosines;
    std::vector<double> gains;
    for (const auto& value : values) {
      cosines.push_back(value[0]);
      gains.push_back(value[2]);
    }
    const Correlation spearman =
        pearson(ranks_of(cosines), ranks_of(gains), evaluation_.bootstrap.confidence);
    likeness.correlation = Figure{.value = spearman.r, .low = spearman.low, .high = spearman.high};
  }
  return {};
}

Result<Json> EditsStudy::metrics(std::span<const RunDataset> datasets) const {
  const std::string& name = datasets.front().name;
  EditsMetrics metrics;
  metrics.engine = engine_;
  metrics.likeness = likeness_;
  for (EditsLikeness& one : metrics.likeness) one.dataset = name;
  for (const Outcome& outcome : outcomes_) {
    for (const ComposedGroup& group : outcome.groups) {
      if (group.queries == 0) continue;
      metrics.results.push_back(
          {name, outcome.model, outcome.method, outcome.cut.texts, !task_->remove_reference, group});
    }
  }
  for (const Outcome& a : outcomes_) {
    if (a.method != kByGenerated) continue;
    for (const Outcome& b : outcomes_) {
      if (b.model != a.model || b.method == a.method || a.groups.empty()) continue;
      SACCADE_ASSIGN(std::vector<Difference> figures, composed_differences(a.groups.front(), b.groups.front(),
                                                                           evaluation_.bootstrap.confidence));
      metrics.comparisons.push_back({name, a.model, a.method, b.method, std::move(figures)});
    }
  }
  return record_json(metrics);
}

Result<Evaluation> evaluate_edits(const EditsOptions& edits, bool note, const EvaluationOptions& options,
                                  const CheckpointSource& checkpoints, ThreadPool& pool) {
  if (note && options.checkpoints.size() != 1) {
    return fail(ErrorCode::kUsage, "--note keeps what one checkpoint says, {} are given",
                options.checkpoints.size());
  }
  EditsStudy study(edits, options);
  SACCADE_ASSIGN(Evaluation evaluation, evaluate(study, options, checkpoints, pool));
  if (note) {
    std::error_code error;
    const bool folder = std::filesystem::is_directory(edits.generated, error);
    SACCADE_TRY(
        write_generated_quality(folder ? edits.generated : edits.generated.parent_path(), study.quality()));
  }
  return evaluation;
}

}  // namespace saccade::lab
