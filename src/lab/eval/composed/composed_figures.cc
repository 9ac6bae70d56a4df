#include "lab/eval/composed/composed_figures.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "lab/eval/figures/relevance.h"
#include "lab/eval/retrieval/retrieval_figures.h"
#include "lab/eval/retrieval/retrieval_metric.h"
#include "lab/eval/rows/pair_scores.h"
#include "lab/eval/run/run.h"
#include "saccade/core/rows.h"

namespace saccade::lab {
namespace {

constexpr std::array<int64_t, 4> kRecalls = {1, 5, 10, 50};
constexpr std::array<int64_t, 4> kPrecisions = {5, 10, 25, 50};
constexpr std::array<int64_t, 3> kSubsets = {1, 2, 3};
constexpr int64_t kSwingDepth = 10;
constexpr float kHidden = -std::numeric_limits<float>::infinity();

// The scores of a gallery's queries, with one image of each hidden.
class HidingScores : public PairScores {
 public:
  // hidden: [texts], -1 for no hidden image.
  HidingScores(const PairScores& all, std::vector<int64_t> hidden) : all_(all), hidden_(std::move(hidden)) {}

  [[nodiscard]] int64_t texts() const override { return all_.texts(); }
  [[nodiscard]] int64_t images() const override { return all_.images(); }
  void score(int64_t first_text, int64_t text_count, int64_t first_image, int64_t image_count, float* out,
             int64_t text_stride, int64_t image_stride) const override {
    all_.score(first_text, text_count, first_image, image_count, out, text_stride, image_stride);
    for (int64_t t = 0; t < text_count; ++t) {
      const int64_t hidden = hidden_[static_cast<size_t>(first_text + t)] - first_image;
      if (hidden >= 0 && hidden < image_count) out[t * text_stride + hidden * image_stride] = kHidden;
    }
  }

 private:
  const PairScores& all_;
  std::vector<int64_t> hidden_;
};

// The scores of each text's own few images. Column i is the i-th image of its list. Shorter lists are padded
// with kHidden.
class ListedScores : public PairScores {
 public:
  ListedScores(const PairScores& all, const std::vector<std::vector<int64_t>>& lists)
      : all_(all), lists_(lists) {
    for (const auto& list : lists_) width_ = std::max(width_, std::ssize(list));
  }

  [[nodiscard]] int64_t texts() const override { return std::ssize(lists_); }
  [[nodiscard]] int64_t images() const override { return width_; }
  void score(int64_t first_text, int64_t text_count, int64_t first_image, int64_t image_count, float* out,
             int64_t text_stride, int64_t image_stride) const override {
    for (int64_t t = 0; t < text_count; ++t) {
      const std::vector<int64_t>& list = lists_[static_cast<size_t>(first_text + t)];
      for (int64_t i = 0; i < image_count; ++i) {
        float& place = out[t * text_stride + i * image_stride];
        place = kHidden;
        if (first_image + i < std::ssize(list)) {
          all_.score(first_text + t, 1, list[static_cast<size_t>(first_image + i)], 1, &place, 1, 1);
        }
      }
    }
  }

 private:
  const PairScores& all_;
  const std::vector<std::vector<int64_t>>& lists_;
  int64_t width_ = 0;
};

// One gallery with its queries, in local numbering.
class GalleryRanks {
 public:
  GalleryRanks(const ComposedTask& task, size_t gallery, TiePolicy ties, ThreadPool& pool)
      : task_(task), pictures_(task.galleries[gallery].pictures), ties_(ties), pool_(pool) {
    for (size_t a = 0; a < task.asked.size(); ++a) {
      if (query(a).gallery == static_cast<int64_t>(gallery)) asked_.push_back(static_cast<int64_t>(a));
    }
  }

  Status rank(MatrixView<const float> asked_rows, MatrixView<const float> picture_rows, int64_t depth,
              std::vector<ComposedAnswer>& answers) {
    if (asked_.empty()) return {};
    const Matrix<float> texts = select_rows(asked_rows, asked_);
    const Matrix<float> images = select_rows(picture_rows, pictures_);
    SACCADE_ASSIGN(const auto all, dot_scores(texts.view(), images.view()));
    return rank(*all, depth, answers);
  }
  Status rank(MatrixView<const float> asked_rows, const EmbeddedRows& picture_rows, int64_t depth,
              std::vector<ComposedAnswer>& answers) {
    if (asked_.empty()) return {};
    SACCADE_ASSIGN(const RowSets texts, one_each(select_rows(asked_rows, asked_)));
    const EmbeddedRows images = select_rows(picture_rows, pictures_);
    SACCADE_ASSIGN(const auto all, max_sim_scores(texts, images.sets));
    return rank(*all, depth, answers);
  }

 private:
  // Ranks by the scores of this gallery's queries and images.
  Status rank(const PairScores& all, int64_t depth, std::vector<ComposedAnswer>& answers) {
    std::vector<int64_t> hidden(asked_.size(), -1);
    for (size_t i = 0; i < asked_.size() && task_.remove_reference; ++i) hidden[i] = local(of(i).reference);
    const HidingScores scores(all, std::move(hidden));
    SACCADE_TRY(rank_targets(scores, answers));
    SACCADE_TRY(rank_subsets(all, answers));
    if (depth == 0) return {};
    const auto top = top_answers(scores, no_relevance_, Direction::kTextToImage,
                                 std::min(depth, std::ssize(pictures_)), pool_);
    for (size_t i = 0; i < asked_.size(); ++i) {
      ComposedAnswer& answer = at(i, answers);
      for (const RunAnswer& one : top[i]) {
        if (one.score == double{kHidden}) continue;
        answer.top.push_back(pictures_[static_cast<size_t>(one.answer)]);
        answer.top_scores.push_back(static_cast<float>(one.score));
      }
      judge_negatives(scores, static_cast<int64_t>(i), answer);
    }
    return {};
  }

  [[nodiscard]] const ComposedTask::Query& query(size_t asked) const {
    return task_.queries[static_cast<size_t>(task_.asked[asked].query)];
  }
  [[nodiscard]] const ComposedTask::Query& of(size_t i) const {
    return query(static_cast<size_t>(asked_[i]));
  }
  ComposedAnswer& at(size_t i, std::vector<ComposedAnswer>& answers) const {
    return answers[static_cast<size_t>(asked_[i])];
  }
  // Returns an image's number in this gallery.
  [[nodiscard]] int64_t local(int64_t picture) const {
    return std::ranges::lower_bound(pictures_, picture) - pictures_.begin();
  }

  Status rank_targets(const PairScores& scores, std::vector<ComposedAnswer>& answers) {
    TieBreak ties{.policy = ties_};
    if (ties_ == TiePolicy::kTrec) {
      std::vector<std::string> ids;
      for (const int64_t picture : pictures_) ids.push_back(task_.pictures[static_cast<size_t>(picture)].id);
      SACCADE_ASSIGN(ties.image_order, trec_order(ids));
    }
    const auto relevance = [&](bool first) {
      std::vector<std::pair<int64_t, int64_t>> pairs;
      for (size_t i = 0; i < asked_.size(); ++i) {
        for (const int64_t target : of(i).targets) {
          pairs.emplace_back(static_cast<int64_t>(i), local(target));
          if (first) break;
        }
      }
      return Relevance::from_pairs(std::ssize(asked_), std::ssize(pictures_), std::move(pairs));
    };
    SACCADE_ASSIGN(const Relevance all, relevance(false));
    SACCADE_ASSIGN(const QueryRanks ranks,
                   rank_right_answers(scores, all, Direction::kTextToImage, ties, pool_));
    QueryRanks firsts;
    if (task_.recall_first) {
      SACCADE_ASSIGN(const Relevance first, relevance(true));
      SACCADE_ASSIGN(firsts, rank_right_answers(scores, first, Direction::kTextToImage, ties, pool_));
    }
    SACCADE_ASSIGN(no_relevance_, Relevance::from_pairs(std::ssize(asked_), std::ssize(pictures_), {}));
    for (size_t i = 0; i < asked_.size(); ++i) {
      ComposedAnswer& answer = at(i, answers);
      const auto own = ranks.of(static_cast<int64_t>(i));
      answer.ranks.assign(own.begin(), own.end());
      answer.tied = ranks.tied[i] != 0;
      if (own.empty()) continue;
      answer.recall_rank = task_.recall_first ? firsts.of(static_cast<int64_t>(i)).front() : own.front();
    }
    return {};
  }

  Status rank_subsets(const PairScores& scores, std::vector<ComposedAnswer>& answers) {
    std::vector<std::vector<int64_t>> lists(asked_.size());
    std::vector<std::pair<int64_t, int64_t>> pairs;
    size_t widest = 0;
    for (size_t i = 0; i < asked_.size(); ++i) {
      std::vector<int64_t> subset = of(i).subset;
      // Equal scores are ordered as in the gallery, or by id.
      std::ranges::sort(subset, [&](int64_t a, int64_t b) {
        if (ties_ != TiePolicy::kTrec) return a < b;
        return task_.pictures[static_cast<size_t>(a)].id > task_.pictures[static_cast<size_t>(b)].id;
      });
      for (size_t k = 0; k < subset.size(); ++k) {
        lists[i].push_back(local(subset[k]));
        const auto& targets = of(i).targets;
        // The subset ranking requires the target that r@k counts.
        const bool counts = task_.recall_first ? !targets.empty() && targets.front() == subset[k]
                                               : std::ranges::find(targets, subset[k]) != targets.end();
        if (counts) pairs.emplace_back(static_cast<int64_t>(i), static_cast<int64_t>(k));
      }
      widest = std::max(widest, subset.size());
    }
    if (widest == 0) return {};
    const ListedScores listed(scores, lists);
    SACCADE_ASSIGN(const Relevance relevance,
                   Relevance::from_pairs(std::ssize(asked_), static_cast<int64_t>(widest), std::move(pairs)));
    const TieBreak ties{.policy = ties_ == TiePolicy::kTrec ? TiePolicy::kIndex : ties_};
    SACCADE_ASSIGN(const QueryRanks ranks,
                   rank_right_answers(listed, relevance, Direction::kTextToImage, ties, pool_));
    const auto top = top_answers(listed, relevance, Direction::kTextToImage,
                                 std::min<int64_t>(kSubsets.back(), static_cast<int64_t>(widest)), pool_);
    for (size_t i = 0; i < asked_.size(); ++i) {
      ComposedAnswer& answer = at(i, answers);
      const auto own = ranks.of(static_cast<int64_t>(i));
      answer.subset_ranks.assign(own.begin(), own.end());
      for (const RunAnswer& one : top[i]) {
        if (one.score == double{kHidden}) continue;
        answer.top_subset.push_back(
            pictures_[static_cast<size_t>(lists[i][static_cast<size_t>(one.answer)])]);
      }
    }
    return {};
  }

  void judge_negatives(const PairScores& scores, int64_t i, ComposedAnswer& answer) const {
    const ComposedTask::Query& asked = of(static_cast<size_t>(i));
    if (asked.negatives.empty() || asked.targets.empty()) return;
    const auto best = [&](const std::vector<int64_t>& pictures) {
      float highest = kHidden;
      for (const int64_t picture : pictures) {
        float score = 0;
        scores.score(i, 1, local(picture), 1, &score, 1, 1);
        highest = std::max(highest, score);
      }
      return highest;
    };
    answer.negative_above = best(asked.negatives) >= best(asked.targets);
  }

  const ComposedTask& task_;
  const std::vector<int64_t>& pictures_;
  const TiePolicy ties_;
  ThreadPool& pool_;
  std::vector<int64_t> asked_;  // numbers
  Relevance no_relevance_;
};

// Pictures: embeddings, one per image or several.
template <typename Pictures>
Result<std::vector<ComposedAnswer>> rank_galleries(const ComposedTask& task, MatrixView<const float> asked,
                                                   const Pictures& pictures, TiePolicy ties, int64_t depth,
                                                   ThreadPool& pool) {
  std::vector<ComposedAnswer> answers(task.asked.size());
  for (size_t g = 0; g < task.galleries.size(); ++g) {
    SACCADE_TRY(GalleryRanks(task, g, ties, pool)
                    .rank(asked, pictures, depth, answers)
                    .in(task.galleries[g].name.empty() ? "gallery" : "gallery " + task.galleries[g].name));
  }
  return answers;
}

double within(double rank, int64_t k) {
  return rank <= static_cast<double>(k) ? 1 : 0;
}

// Collects rows of figures; clusters are renumbered among those that have a row.
class SampleMaker {
 public:
  explicit SampleMaker(std::vector<std::string> names) : names_(std::move(names)) {}
  void add(std::vector<double> values, int64_t cluster) {
    values_.push_back(std::move(values));
    clusters_.push_back(numbers_.try_emplace(cluster, std::ssize(numbers_)).first->second);
  }
  [[nodiscard]] int64_t size() const { return std::ssize(values_); }
  [[nodiscard]] ClusteredSample make() const {
    ClusteredSample sample;
    sample.mean_names = names_;
    sample.values = Matrix<double>(size(), std::ssize(names_));
    for (size_t i = 0; i < values_.size(); ++i) {
      std::ranges::copy(values_[i], sample.values.row(static_cast<int64_t>(i)).begin());
    }
    sample.cluster = clusters_;
    sample.clusters = std::ssize(numbers_);
    return sample;
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<double>> values_;
  std::vector<int64_t> clusters_;
  std::map<int64_t, int64_t> numbers_;
};

// Figures that can be computed on the whole dataset, the same for all its groups.
struct Counted {
  bool subsets = false;  // every query with targets has one
  bool reference = false;
  bool fashion_iq = false;
};

Counted counted_of(const ComposedTask& task) {
  Counted counted{
      .subsets = true, .reference = !task.remove_reference, .fashion_iq = task.layout == "fashion_iq"};
  for (const ComposedTask::Query& query : task.queries) {
    if (!query.targets.empty() && query.subset.empty()) counted.subsets = false;
  }
  return counted;
}

std::vector<std::string> main_names(const Counted& counted) {
  std::vector<std::string> names;
  for (const int64_t k : kRecalls) names.push_back(fmt::format("r{}", k));
  for (const int64_t k : kPrecisions) names.push_back(fmt::format("map{}", k));
  if (counted.subsets) {
    for (const int64_t k : kSubsets) names.push_back(fmt::format("r_subset{}", k));
    names.emplace_back("mean_r5_r_subset1");
  }
  if (counted.fashion_iq) names.emplace_back("mean_r10_r50");
  if (counted.reference) names.emplace_back("reference1");
  return names;
}

std::vector<double> main_values(const Counted& counted, const ComposedTask::Query& query,
                                const ComposedAnswer& answer) {
  std::vector<double> values;
  for (const int64_t k : kRecalls) values.push_back(within(answer.recall_rank, k));
  for (const int64_t k : kPrecisions) values.push_back(average_precision(answer.ranks, k));
  if (counted.subsets) {
    const double rank =
        answer.subset_ranks.empty() ? std::numeric_limits<double>::infinity() : answer.subset_ranks.front();
    for (const int64_t k : kSubsets) values.push_back(within(rank, k));
    values.push_back((within(answer.recall_rank, 5) + within(rank, 1)) / 2);
  }
  if (counted.fashion_iq)
    values.push_back((within(answer.recall_rank, 10) + within(answer.recall_rank, 50)) / 2);
  if (counted.reference)
    values.push_back(!answer.top.empty() && answer.top.front() == query.reference ? 1 : 0);
  return values;
}

// Returns the figures of some of the queries.
ComposedGroup group_of(const ComposedTask& task, std::span<const ComposedAnswer> answers,
                       const Counted& counted, const std::string& kind, bool all,
                       const BootstrapOptions& bootstrap, ThreadPool& pool) {
  ComposedGroup group;
  group.of = all ? "all" : "kind";
  group.name = all ? "" : kind;
  group.gallery = std::numeric_limits<int64_t>::max();
  SampleMaker main(main_names(counted));
  SampleMaker negatives({"negative1", "negative_above"});
  SampleMaker swing({"best_r10", "worst_r10", "swing_r10"});
  for (size_t a = 0; a < task.asked.size(); ++a) {
    const ComposedTask::Asked& asked = task.asked[a];
    const auto q = static_cast<size_t>(asked.query);
    const ComposedTask::Query& query = task.queries[q];
    if (asked.wording != 0 || query.targets.empty() || (!all && task.edits[q].kind != kind)) continue;
    const ComposedAnswer& answer = answers[a];
    const int64_t cluster = task.cluster[q];
    main.add(main_values(counted, query, answer), cluster);
    group.tied += answer.tied ? 1 : 0;
    group.gallery =
        std::min(group.gallery, std::ssize(task.galleries[static_cast<size_t>(query.gallery)].pictures) -
                                    (task.remove_reference ? 1 : 0));
    if (!query.negatives.empty()) {
      const bool first = !answer.top.empty() &&
                         std::ranges::find(query.negatives, answer.top.front()) != query.negatives.end();
      negatives.add({first ? 1.0 : 0.0, answer.negative_above ? 1.0 : 0.0}, cluster);
    }
    if (task.edits[q].paraphrases.empty()) continue;
    double best = 0;
    double worst = 1;
    for (size_t other = 0; other < task.asked.size(); ++other) {
      // A query's paraphrases are adjacent.
      const size_t at = a + other;
      if (at >= task.asked.size() || task.asked[at].query != asked.query) break;
      const double found = within(answers[at].recall_rank, kSwingDepth);
      best = std::max(best, found);
      worst = std::min(worst, found);
    }
    swing.add({best, worst, best - worst}, cluster);
  }
  group.queries = main.size();
  if (main.size() == 0) return group;
  for (const SampleMaker* maker : {&main, &negatives, &swing}) {
    if (maker->size() == 0) continue;
    group.estimates.push_back(estimate(maker->make(), bootstrap, pool));
  }
  return group;
}

// Returns the macro average: each kind counts once, whatever its number of queries. Kinds are resampled
// independently of each other.
ComposedGroup mean_of_kinds(std::span<const ComposedGroup> kinds) {
  ComposedGroup mean;
  mean.of = "mean of kinds";
  mean.gallery = std::numeric_limits<int64_t>::max();
  const auto count = static_cast<double>(kinds.size());
  Estimates& whole = mean.estimates.emplace_back();
  whole.names = kinds.front().estimates.front().names;
  const auto columns = std::ssize(whole.names);
  whole.value.assign(whole.names.size(), 0);
  int64_t clusters = 0;
  for (const ComposedGroup& kind : kinds) {
    const Estimates& own = kind.estimates.front();
    mean.queries += kind.queries;
    mean.tied += kind.tied;
    mean.gallery = std::min(mean.gallery, kind.gallery);
    clusters += own.left_out.rows();
    whole.trials += own.trials;
    for (size_t c = 0; c < own.value.size(); ++c) whole.value[c] += own.value[c] / count;
  }
  const int64_t resamples = kinds.front().estimates.front().resampled.rows();
  whole.resampled = Matrix<double>(resamples, columns);
  std::ranges::fill(whole.resampled.values(), 0.0);
  whole.left_out = Matrix<double>(clusters, columns);
  int64_t row = 0;
  for (const ComposedGroup& kind : kinds) {
    const Estimates& own = kind.estimates.front();
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = 0; r < resamples; ++r) whole.resampled(r, c) += own.resampled(r, c) / count;
      for (int64_t l = 0; l < own.left_out.rows(); ++l) {
        const auto at = static_cast<size_t>(c);
        whole.left_out(row + l, c) = whole.value[at] + (own.left_out(l, c) - own.value[at]) / count;
      }
    }
    row += own.left_out.rows();
  }
  return mean;
}

// Blanks r@k and map@k for a gallery with fewer than k images, since they would be the same for any model.
void finish(double confidence, ComposedGroup& group) {
  for (const Estimates& estimates : group.estimates) {
    for (Figure& figure : figures_of(estimates, confidence)) {
      bool beyond = false;
      for (const char* family : {"r", "map"}) {
        for (const int64_t k : {5, 10, 25, 50}) {
          beyond = beyond || (k > group.gallery && figure.name == fmt::format("{}{}", family, k));
        }
      }
      const bool headline = (figure.name == "mean_r10_r50" && group.gallery < 50) ||
                            (figure.name == "mean_r5_r_subset1" && group.gallery < 5);
      if (beyond || headline) {
        std::string name = std::move(figure.name);
        figure = Figure();
        figure.name = std::move(name);
      }
      group.figures.push_back(std::move(figure));
    }
  }
  if (group.queries == 0) group.gallery = 0;
}

}  // namespace

Result<std::vector<ComposedAnswer>> rank_composed(const ComposedTask& task, MatrixView<const float> asked,
                                                  MatrixView<const float> pictures, TiePolicy ties,
                                                  int64_t depth, ThreadPool& pool) {
  return rank_galleries(task, asked, pictures, ties, depth, pool);
}

Result<std::vector<ComposedAnswer>> rank_composed(const ComposedTask& task, MatrixView<const float> asked,
                                                  const EmbeddedRows& pictures, TiePolicy ties, int64_t depth,
                                                  ThreadPool& pool) {
  return rank_galleries(task, asked, pictures, ties, depth, pool);
}

double recall_at(const ComposedTask& task, std::span<const ComposedAnswer> answers, double k) {
  double found = 0;
  double queries = 0;
  for (size_t a = 0; a < task.asked.size(); ++a) {
    if (task.asked[a].wording != 0 || answers[a].ranks.empty()) continue;
    found += answers[a].recall_rank <= k ? 1 : 0;
    queries += 1;
  }
  return queries == 0 ? Figure::kNone : found / queries;
}

std::vector<ComposedGroup> composed_groups(const ComposedTask& task, std::span<const ComposedAnswer> answers,
                                           const BootstrapOptions& bootstrap, ThreadPool& pool) {
  const Counted counted = counted_of(task);
  std::vector<std::string> kinds;
  for (const EditQuery& edit : task.edits) {
    if (std::ranges::find(kinds, edit.kind) == kinds.end()) kinds.push_back(edit.kind);
  }
  std::vector<ComposedGroup> groups;
  groups.push_back(group_of(task, answers, counted, "", true, bootstrap, pool));
  if (kinds.size() > 1) {
    for (size_t k = 0; k < kinds.size(); ++k) {
      BootstrapOptions own = bootstrap;
      own.seed += k + 1;
      ComposedGroup group = group_of(task, answers, counted, kinds[k], false, own, pool);
      if (group.queries > 0) groups.push_back(std::move(group));
    }
    if (counted.fashion_iq && groups.size() > 2)
      groups.push_back(mean_of_kinds(std::span(groups).subspan(1)));
  }
  for (ComposedGroup& group : groups) finish(bootstrap.confidence, group);
  return groups;
}

Result<ComposedGroup> mean_over_seeds(std::span<const ComposedGroup* const> trainings,
                                      const BootstrapOptions& bootstrap) {
  if (trainings.empty()) return fail(ErrorCode::kUsage, "no training to take the mean of");
  const ComposedGroup& first = *trainings.front();
  ComposedGroup mean;
  mean.of = first.of;
  mean.name = first.name;
  mean.queries = first.queries;
  mean.gallery = first.gallery;
  for (size_t e = 0; e < first.estimates.size(); ++e) {
    std::vector<Estimates> own;
    for (const ComposedGroup* training : trainings) {
      if (training->estimates.size() != first.estimates.size()) {
        return fail(ErrorCode::kMismatch, "trainings measured by {} and {} groups of figures have no mean",
                    first.estimates.size(), training->estimates.size());
      }
      const Estimates& each = training->estimates[e];
      own.push_back({each.names, each.value, each.resampled.copy(), each.left_out.copy()});
    }
    SACCADE_ASSIGN(mean.estimates.emplace_back(), mean_over_trainings(own, bootstrap.seed));
  }
  finish(bootstrap.confidence, mean);
  return mean;
}

ComposedFigureSet composed_recalls() {
  return {"share of queries with a target among the first k", {"r1", "r5", "r10", "r50"}};
}

ComposedFigureSet composed_headlines() {
  return {"subsets and headlines",
          {"r_subset1", "r_subset2", "r_subset3", "mean_r5_r_subset1", "mean_r10_r50"}};
}

std::vector<ComposedFigureSet> composed_figure_sets() {
  return {composed_recalls(),
          {"mean average precision", {"map5", "map10", "map25", "map50"}},
          composed_headlines(),
          {"references, explicit negatives and paraphrases",
           {"reference1", "negative1", "negative_above", "best_r10", "worst_r10", "swing_r10"}}};
}

Result<std::vector<Difference>> composed_differences(const ComposedGroup& a, const ComposedGroup& b,
                                                     double confidence) {
  std::vector<Difference> all;
  for (size_t e = 0; e < std::min(a.estimates.size(), b.estimates.size()); ++e) {
    SACCADE_ASSIGN(const auto some, paired_differences(a.estimates[e], b.estimates[e], confidence));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace saccade::lab
