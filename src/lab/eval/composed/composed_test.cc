// Tests of composed search against a sorting oracle: every metric of every query, the options, and the
// servers' files.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/composed/composed_figures.h"
#include "lab/eval/composed/composed_study.h"
#include "lab/eval/composed/composed_task.h"
#include "lab/eval/composed/server_file.h"
#include "saccade/core/random.h"
#include "saccade/core/rows.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kDim = 8;

Matrix<float> random_rows(int64_t count, uint64_t seed) {
  Matrix<float> rows(count, kDim);
  SplitMix random(seed, 0);
  for (float& value : rows.values()) value = static_cast<float>(random.below(2001)) / 1000 - 1;
  for (int64_t r = 0; r < count; ++r) normalize_row(rows.row(r));
  return rows;
}

// Two galleries of 70 images, 60 queries with one to three targets, subsets, negatives and paraphrases.
Dataset made_dataset() {
  Dataset dataset{.name = "made", .layout = "manifest", .content = EditQueries()};
  for (int g = 0; g < 2; ++g) {
    for (int i = 0; i < 70; ++i) {
      GalleryPicture& picture = dataset.as<EditQueries>().gallery.emplace_back();
      picture.id = fmt::format("p{}", i);
      picture.gallery = fmt::format("g{}", g);
      picture.image.path = picture.gallery + picture.id;
    }
  }
  SplitMix random(7, 0);
  const auto other = [&](const std::string& reference) {
    for (;;) {
      std::string id = fmt::format("p{}", random.below(70));
      if (id != reference) return id;
    }
  };
  for (int q = 0; q < 60; ++q) {
    EditQuery& query = dataset.as<EditQueries>().items.emplace_back();
    query.id = fmt::format("q{}", q);
    query.gallery = fmt::format("g{}", q % 2);
    query.kind = q % 2 == 0 ? "even" : "odd";
    query.reference = fmt::format("p{}", q / 4);  // two queries a reference
    query.texts = {fmt::format("text {}", q)};
    if (q % 3 == 0) query.paraphrases = {fmt::format("say {}", q), fmt::format("tell {}", q)};
    const auto targets = q % 5 == 0 ? 8 : 1 + random.below(3);  // more than the first depth of map@k, too
    for (uint32_t t = 0; t < targets; ++t) {
      const std::string id = other(query.reference);
      if (std::ranges::find(query.targets, id) == query.targets.end()) query.targets.push_back(id);
    }
    query.subset = {query.reference, query.targets.front()};
    while (query.subset.size() < 6) {
      const std::string id = other(query.reference);
      if (std::ranges::find(query.subset, id) == query.subset.end()) query.subset.push_back(id);
    }
    if (q % 2 == 0) query.negatives = {other(query.reference), query.reference};
  }
  dataset.hash = "made";
  return dataset;
}

// The oracle: sorts all images of the gallery. Equal scores do not occur.
struct Slow {
  std::map<std::string, double> sums;
  std::map<std::string, double> counts;
  void add(const std::string& name, double value) {
    sums[name] += value;
    counts[name] += 1;
  }
};

Slow count_slowly(const Dataset& dataset, const ComposedTask& task, const Matrix<float>& asked,
                  const Matrix<float>& pictures) {
  Slow slow;
  const auto sorted = [&](int64_t a, const std::string& gallery, const std::string& hidden) {
    std::vector<std::pair<double, std::string>> scored;
    for (size_t p = 0; p < dataset.as<EditQueries>().gallery.size(); ++p) {
      const GalleryPicture& picture = dataset.as<EditQueries>().gallery[p];
      if (picture.gallery != gallery || picture.id == hidden) continue;
      double dot = 0;
      for (int64_t i = 0; i < kDim; ++i)
        dot += double{asked(a, i)} * double{pictures(static_cast<int64_t>(p), i)};
      scored.emplace_back(-dot, picture.id);
    }
    std::ranges::sort(scored);
    std::vector<std::string> ids;
    for (const auto& [score, id] : scored) ids.push_back(id);
    return ids;
  };
  const auto has = [](const std::vector<std::string>& list, const std::string& id) {
    return std::ranges::find(list, id) != list.end();
  };
  std::map<std::string, std::pair<double, double>> wordings;
  for (size_t a = 0; a < task.asked.size(); ++a) {
    const EditQuery& query = dataset.as<EditQueries>().items[static_cast<size_t>(task.asked[a].query)];
    const auto ids =
        sorted(static_cast<int64_t>(a), query.gallery, task.remove_reference ? query.reference : "");
    const auto found = [&](size_t k) {
      return std::any_of(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(k),
                         [&](const std::string& id) {
                           return task.recall_first ? id == query.targets.front() : has(query.targets, id);
                         });
    };
    if (!query.paraphrases.empty()) {
      auto& [best, worst] = wordings.try_emplace(query.id, 0.0, 1.0).first->second;
      best = std::max(best, found(10) ? 1.0 : 0.0);
      worst = std::min(worst, found(10) ? 1.0 : 0.0);
    }
    if (task.asked[a].wording != 0) continue;
    for (const size_t k : {1U, 5U, 10U, 50U}) slow.add(fmt::format("r{}", k), found(k) ? 1 : 0);
    for (const size_t k : {5U, 10U, 25U, 50U}) {
      double hits = 0;
      double precisions = 0;
      for (size_t i = 0; i < k; ++i) {
        if (!has(query.targets, ids[i])) continue;
        hits += 1;
        precisions += hits / static_cast<double>(i + 1);
      }
      slow.add(fmt::format("map{}", k), precisions / static_cast<double>(std::min(query.targets.size(), k)));
    }
    std::vector<std::string> subset;
    for (const std::string& id : sorted(static_cast<int64_t>(a), query.gallery, query.reference)) {
      if (has(query.subset, id)) subset.push_back(id);
    }
    for (const size_t k : {1U, 2U, 3U}) {
      slow.add(fmt::format("r_subset{}", k),
               std::any_of(subset.begin(), subset.begin() + static_cast<std::ptrdiff_t>(k),
                           [&](const std::string& id) {
                             return task.recall_first ? id == query.targets.front() : has(query.targets, id);
                           })
                   ? 1
                   : 0);
    }
    if (!task.remove_reference) slow.add("reference1", ids.front() == query.reference ? 1 : 0);
    std::vector<std::string> negatives;
    for (const std::string& id : query.negatives) {
      if (id != query.reference && !has(query.targets, id)) negatives.push_back(id);
    }
    if (negatives.empty()) continue;
    slow.add("negative1", has(negatives, ids.front()) ? 1 : 0);
    const auto place = [&](const std::vector<std::string>& wanted) {
      return std::find_if(ids.begin(), ids.end(), [&](const std::string& id) { return has(wanted, id); });
    };
    slow.add("negative_above", place(negatives) < place(query.targets) ? 1 : 0);
  }
  for (const auto& [query, both] : wordings) {
    slow.add("best_r10", both.first);
    slow.add("worst_r10", both.second);
    slow.add("swing_r10", both.first - both.second);
  }
  return slow;
}

TEST(ComposedFigures, AreThoseOfASlowCount) {
  const Dataset dataset = made_dataset();
  ThreadPool pool(2);
  for (const ReferenceRanked reference : {ReferenceRanked::kKeep, ReferenceRanked::kRemove}) {
    for (const RecallTarget recall : {RecallTarget::kAny, RecallTarget::kFirst}) {
      const auto task = composed_task(dataset, {.reference = reference, .recall = recall}, {});
      ASSERT_TRUE(task) << task.error().message;
      EXPECT_EQ(task->asked.size(), 100U);
      EXPECT_EQ(task->clusters, 30);  // p0 of one gallery is not p0 of the other
      const Matrix<float> asked = random_rows(100, 1);
      const Matrix<float> pictures = random_rows(140, 2);
      const auto answers =
          rank_composed(*task, asked.view(), pictures.view(), TiePolicy::kPessimistic, 10, pool);
      ASSERT_TRUE(answers) << answers.error().message;
      const auto groups = composed_groups(*task, *answers, {.resamples = 50}, pool);
      ASSERT_EQ(groups.size(), 3U);
      EXPECT_EQ(groups[0].queries, 60);
      EXPECT_EQ(groups[1].name, "even");
      Slow slow = count_slowly(dataset, *task, asked, pictures);
      slow.sums["mean_r5_r_subset1"] = (slow.sums["r5"] + slow.sums["r_subset1"]) / 2;
      slow.counts["mean_r5_r_subset1"] = slow.counts["r5"];
      for (const Figure& figure : groups[0].figures) {
        ASSERT_TRUE(slow.sums.contains(figure.name)) << figure.name;
        EXPECT_NEAR(figure.value, slow.sums[figure.name] / slow.counts[figure.name], 1e-12) << figure.name;
        EXPECT_LE(figure.low, figure.value);
        EXPECT_GE(figure.high, figure.value);
      }
      EXPECT_EQ(groups[0].figures.size(), slow.sums.size());
      EXPECT_NEAR(recall_at(*task, *answers, 10), groups[0].figures[2].value, 1e-12);
    }
  }
}

// With several embeddings per image, a score is the largest dot product. Ranks are those of a sort of plain
// maxima.
TEST(ComposedFigures, SeveralEmbeddingsCountByTheNearest) {
  const Dataset dataset = made_dataset();
  ThreadPool pool(2);
  for (const ReferenceRanked reference : {ReferenceRanked::kKeep, ReferenceRanked::kRemove}) {
    const auto task = composed_task(dataset, {.reference = reference}, {});
    ASSERT_TRUE(task) << task.error().message;
    const Matrix<float> asked = random_rows(100, 1);
    EmbeddedRows pictures;
    pictures.late = true;
    for (int64_t i = 0; i < 140; ++i) pictures.sets.begin.push_back(pictures.sets.begin.back() + 1 + i % 3);
    pictures.sets.rows = random_rows(pictures.sets.begin.back(), 2);
    const auto answers = rank_composed(*task, asked.view(), pictures, TiePolicy::kPessimistic, 10, pool);
    ASSERT_TRUE(answers) << answers.error().message;
    for (size_t a = 0; a < task->asked.size(); ++a) {
      const ComposedTask::Query& query = task->queries[static_cast<size_t>(task->asked[a].query)];
      std::vector<std::pair<double, int64_t>> scored;
      for (const int64_t picture : task->galleries[static_cast<size_t>(query.gallery)].pictures) {
        if (task->remove_reference && picture == query.reference) continue;
        double largest = -2;
        for (int64_t r = pictures.sets.begin[static_cast<size_t>(picture)];
             r < pictures.sets.begin[static_cast<size_t>(picture) + 1]; ++r) {
          double dot = 0;
          for (int64_t d = 0; d < kDim; ++d) {
            dot += double{asked(static_cast<int64_t>(a), d)} * double{pictures.sets.rows(r, d)};
          }
          largest = std::max(largest, dot);
        }
        scored.emplace_back(-largest, picture);
      }
      std::ranges::sort(scored);
      ASSERT_EQ((*answers)[a].top.size(), 10U);
      for (size_t k = 0; k < 10; ++k) EXPECT_EQ((*answers)[a].top[k], scored[k].second) << a << " " << k;
      std::vector<double> ranks;
      for (size_t k = 0; k < scored.size(); ++k) {
        if (std::ranges::find(query.targets, scored[k].second) != query.targets.end()) {
          ranks.push_back(static_cast<double>(k + 1));
        }
      }
      EXPECT_EQ((*answers)[a].ranks, ranks) << a;
    }
  }
}

// Two images with equal embeddings tie; each policy resolves the tie in its own way.
TEST(ComposedFigures, TiesAreDeclared) {
  Dataset dataset = made_dataset();
  dataset.as<EditQueries>().items.resize(1);
  EditQuery& query = dataset.as<EditQueries>().items[0];
  query.targets = {"p9"};
  query.subset = {query.reference, "p9", "p4"};
  const auto task = composed_task(dataset, {.reference = ReferenceRanked::kRemove}, {});
  ASSERT_TRUE(task);
  Matrix<float> pictures = random_rows(140, 2);
  const Matrix<float> asked = random_rows(3, 1);
  for (const int64_t picture : {4, 9}) std::ranges::copy(asked.row(0), pictures.row(picture).begin());
  ThreadPool pool(1);
  const auto ranks = [&](TiePolicy ties) {
    const auto answers = rank_composed(*task, asked.view(), pictures.view(), ties, 1, pool);
    return std::pair((*answers)[0].ranks.front(), (*answers)[0].subset_ranks.front());
  };
  EXPECT_EQ(ranks(TiePolicy::kPessimistic), std::pair(2.0, 2.0));
  EXPECT_EQ(ranks(TiePolicy::kOptimistic), std::pair(1.0, 1.0));
  EXPECT_EQ(ranks(TiePolicy::kMean), std::pair(1.5, 1.5));
  EXPECT_EQ(ranks(TiePolicy::kIndex), std::pair(2.0, 2.0));  // p4 stands before p9
  EXPECT_EQ(ranks(TiePolicy::kTrec), std::pair(1.0, 1.0));   // "p9" after "p4", largest first
  EXPECT_TRUE((*rank_composed(*task, asked.view(), pictures.view(), TiePolicy::kMean, 1, pool))[0].tied);
}

TEST(ComposedTask, JoinsTexts) {
  const std::vector<std::string> two = {"is Red. ", "has no sleeves?"};
  const auto said = [&](JoinTexts join, const std::string& shared = "",
                        SharedConcept concepts = SharedConcept::kAlone) {
    return said_texts(two, shared, {.join = join, .concepts = concepts});
  };
  using Texts = std::vector<std::string>;
  EXPECT_THAT(said(JoinTexts::kAnd), ElementsAre(Texts{"Is red and has no sleeves"}));
  EXPECT_THAT(said(JoinTexts::kComma), ElementsAre(Texts{"is Red., and has no sleeves?"}));
  EXPECT_THAT(said(JoinTexts::kToken), ElementsAre(Texts{"is Red. <and> has no sleeves?"}));
  EXPECT_THAT(said(JoinTexts::kBothOrders),
              ElementsAre(Texts{"Is red and has no sleeves", "Has no sleeves and is Red"}));
  EXPECT_THAT(said(JoinTexts::kEach), ElementsAre(Texts{"is Red."}, Texts{"has no sleeves?"}));
  EXPECT_THAT(said(JoinTexts::kComma, "a dress", SharedConcept::kWith),
              ElementsAre(Texts{"find a dress but is Red., and has no sleeves?"}));
  EXPECT_THAT(said(JoinTexts::kComma, "a dress"), ElementsAre(Texts{"is Red., and has no sleeves?"}));
  // A single text stays as it is. An empty text beside it does not count.
  const std::vector<std::string> one = {" ", "is Red."};
  EXPECT_THAT(said_texts(one, "", {}), ElementsAre(Texts{"is Red."}));
  EXPECT_THAT(said_texts(std::span(one).first(1), "", {}), ElementsAre(Texts{""}));
}

TEST(ComposedTask, Knobs) {
  Dataset dataset = made_dataset();
  for (EditQuery& query : dataset.as<EditQueries>().items) {
    query.paraphrases.clear();
    query.texts.push_back("and more");
  }
  const auto make = [&](const ComposedProtocol& protocol, std::span<const int64_t> unreadable = {}) {
    auto task = composed_task(dataset, protocol, unreadable);
    EXPECT_TRUE(task) << task.error().message;
    return *std::move(task);
  };
  EXPECT_EQ(make({.join = JoinTexts::kEach}).asked.size(), 120U);
  EXPECT_EQ(make({.join = JoinTexts::kEach}).queries.size(), 60U);
  EXPECT_FALSE(make({}).remove_reference);
  EXPECT_FALSE(make({}).recall_first);
  dataset.layout = "cirr";
  EXPECT_TRUE(make({}).remove_reference);
  EXPECT_FALSE(make({.reference = ReferenceRanked::kKeep}).remove_reference);
  dataset.layout = "circo";
  EXPECT_TRUE(make({}).recall_first);
  EXPECT_FALSE(make({.recall = RecallTarget::kAny}).recall_first);

  // The union contains only the references and targets.
  std::set<std::pair<std::string, std::string>> named;
  for (const EditQuery& query : dataset.as<EditQueries>().items) {
    named.emplace(query.gallery, query.reference);
    for (const std::string& target : query.targets) named.emplace(query.gallery, target);
  }
  EXPECT_EQ(make({.gallery = GalleryPictures::kNamed}).pictures.size(), named.size());
  EXPECT_LT(named.size(), 140U);

  // An unreadable image removes the queries that have it as reference or target or in their subset.
  const std::vector<int64_t> gone = {0};  // g0's p0
  const ComposedTask rest = make({}, gone);
  EXPECT_EQ(rest.pictures.size(), 139U);
  for (const EditQuery& query : rest.edits) {
    const bool named_it =
        query.gallery == "g0" &&
        (query.reference == "p0" ||
         std::ranges::count(query.targets, "p0") + std::ranges::count(query.subset, "p0") > 0);
    EXPECT_FALSE(named_it) << query.id;
  }
  ASSERT_EQ(rest.excluded.size(), 1U);
  EXPECT_EQ(rest.excluded[0].count + std::ssize(rest.queries), 60);

  // A query whose only target is its reference has nothing to find if references are not ranked.
  dataset.as<EditQueries>().items[0].targets = {dataset.as<EditQueries>().items[0].reference};
  EXPECT_EQ(make({.reference = ReferenceRanked::kKeep}).queries.size(), 60U);
  EXPECT_EQ(make({.reference = ReferenceRanked::kRemove}).excluded[0].reason,
            "edit queries whose only target is their reference, which is not ranked");

  const auto refused = composed_task(dataset, {.concepts = SharedConcept::kWith}, {});
  EXPECT_THAT(refused.error().message, HasSubstr("no query has a shared concept"));
  Dataset captions;
  captions.name = "photos";
  captions.as<CaptionedImages>().items.resize(1);
  EXPECT_THAT(composed_task(captions, {}, {}).error().message,
              HasSubstr("photos: images with captions, not edit queries: `saccade eval retrieval` takes it"));
}

// Fashion-IQ's headline counts each category once, whatever its number of queries.
TEST(ComposedFigures, MeanOfKinds) {
  Dataset dataset = made_dataset();
  dataset.layout = "fashion_iq";
  for (EditQuery& query : dataset.as<EditQueries>().items) query.subset.clear();
  std::erase_if(dataset.as<EditQueries>().items,
                [](const EditQuery& query) { return query.kind == "odd" && query.id > "q3"; });
  const auto task = composed_task(dataset, {}, {});
  ASSERT_TRUE(task);
  ThreadPool pool(2);
  const Matrix<float> asked = random_rows(std::ssize(task->asked), 1);
  const Matrix<float> pictures = random_rows(140, 2);
  const auto answers = rank_composed(*task, asked.view(), pictures.view(), TiePolicy::kPessimistic, 10, pool);
  const auto groups = composed_groups(*task, *answers, {.resamples = 200}, pool);
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups[3].of, "mean of kinds");
  ASSERT_NE(groups[1].queries, groups[2].queries);
  for (size_t f = 0; f < groups[3].figures.size(); ++f) {
    const Figure& mean = groups[3].figures[f];
    EXPECT_EQ(mean.name, groups[1].figures[f].name);
    EXPECT_NEAR(mean.value, (groups[1].figures[f].value + groups[2].figures[f].value) / 2, 1e-12)
        << mean.name;
    EXPECT_LE(mean.low, mean.value);
    EXPECT_GE(mean.high, mean.value);
    // An average of two independent figures has a narrower interval than either of them.
    const auto width = [](const Figure& figure) { return figure.high - figure.low; };
    EXPECT_LE(width(mean), (width(groups[1].figures[f]) + width(groups[2].figures[f])) / 2 + 1e-9)
        << mean.name;
  }
}

// Two kinds have the same images, embeddings and figures. Resampled independently, their mean has a narrower
// interval than either.
TEST(ComposedFigures, KindsAreDrawnIndependently) {
  Dataset dataset = made_dataset();
  dataset.layout = "fashion_iq";
  std::erase_if(dataset.as<EditQueries>().items, [](const EditQuery& query) { return query.kind == "odd"; });
  for (EditQuery& query : dataset.as<EditQueries>().items) {
    query.subset.clear();
    query.paraphrases.clear();
  }
  const size_t half = dataset.as<EditQueries>().items.size();
  for (size_t q = 0; q < half; ++q) {
    EditQuery twin = dataset.as<EditQueries>().items[q];
    twin.id += " twin";
    twin.gallery = "g1";
    twin.kind = "odd";
    dataset.as<EditQueries>().items.push_back(std::move(twin));
  }
  const auto task = composed_task(dataset, {}, {});
  ASSERT_TRUE(task) << task.error().message;
  Matrix<float> asked = random_rows(std::ssize(task->asked), 1);
  Matrix<float> pictures = random_rows(140, 2);
  for (int64_t q = 0; q < asked.rows() / 2; ++q) {
    std::ranges::copy(asked.row(q), asked.row(q + asked.rows() / 2).begin());
  }
  for (int64_t p = 0; p < 70; ++p) std::ranges::copy(pictures.row(p), pictures.row(p + 70).begin());
  ThreadPool pool(2);
  const auto answers = rank_composed(*task, asked.view(), pictures.view(), TiePolicy::kPessimistic, 10, pool);
  ASSERT_TRUE(answers) << answers.error().message;
  const auto groups = composed_groups(*task, *answers, {.resamples = 1000}, pool);
  ASSERT_EQ(groups.size(), 4U);
  const auto width = [&](size_t group) {
    const Figure& r50 = groups[group].figures[3];
    EXPECT_EQ(r50.name, "r50");
    return r50.high - r50.low;
  };
  EXPECT_EQ(groups[1].figures[3].value, groups[2].figures[3].value);
  EXPECT_GT(width(1), 0.1);
  EXPECT_LT(width(3), 0.85 * width(1));  // sqrt(1/2) of it
}

TEST(ComposedFigures, DepthsBeyondTheGalleryAreNoFigures) {
  Dataset dataset = made_dataset();
  std::erase_if(dataset.as<EditQueries>().gallery,
                [](const GalleryPicture& each) { return each.gallery == "g1"; });
  std::erase_if(dataset.as<EditQueries>().items,
                [](const EditQuery& query) { return query.gallery == "g1"; });
  dataset.as<EditQueries>().items.resize(8);
  const auto task = composed_task(dataset, {.gallery = GalleryPictures::kNamed}, {});
  ASSERT_TRUE(task);
  ASSERT_LT(task->pictures.size(), 50U);
  ThreadPool pool(1);
  const Matrix<float> asked = random_rows(std::ssize(task->asked), 1);
  const Matrix<float> pictures = random_rows(std::ssize(task->pictures), 2);
  const auto answers = rank_composed(*task, asked.view(), pictures.view(), TiePolicy::kPessimistic, 10, pool);
  const auto groups = composed_groups(*task, *answers, {.resamples = 0}, pool);
  for (const Figure& figure : groups[0].figures) {
    EXPECT_EQ(std::isnan(figure.value), figure.name == "r50" || figure.name == "map50") << figure.name;
  }
}

// The mean over trainings is the plain mean of their figures, and can be compared with another on the same draws.
TEST(ComposedFigures, MeanOverSeeds) {
  const Dataset dataset = made_dataset();
  const auto task = composed_task(dataset, {}, {});
  ASSERT_TRUE(task) << task.error().message;
  ThreadPool pool(1);
  const BootstrapOptions bootstrap{.resamples = 100};
  const Matrix<float> pictures = random_rows(140, 2);
  std::vector<std::vector<ComposedGroup>> trainings;
  for (const uint64_t seed : {1U, 3U}) {
    const auto answers = rank_composed(*task, random_rows(100, seed).view(), pictures.view(),
                                       TiePolicy::kPessimistic, 10, pool);
    ASSERT_TRUE(answers) << answers.error().message;
    trainings.push_back(composed_groups(*task, *answers, bootstrap, pool));
  }
  const ComposedGroup& a = trainings[0].front();
  const ComposedGroup& b = trainings[1].front();
  const std::vector<const ComposedGroup*> both = {&a, &b};
  const auto mean = mean_over_seeds(both, bootstrap);
  ASSERT_TRUE(mean) << mean.error().message;
  EXPECT_EQ(mean->queries, 60);
  EXPECT_EQ(mean->of, "all");
  ASSERT_EQ(mean->figures.size(), a.figures.size());
  for (size_t f = 0; f < mean->figures.size(); ++f) {
    EXPECT_EQ(mean->figures[f].name, a.figures[f].name);
    EXPECT_NEAR(mean->figures[f].value, (a.figures[f].value + b.figures[f].value) / 2, 1e-12);
    EXPECT_LE(mean->figures[f].low, mean->figures[f].high);
  }
  const auto alone = mean_over_seeds(std::span(both).first(1), bootstrap);
  ASSERT_TRUE(alone) << alone.error().message;
  for (size_t f = 0; f < alone->figures.size(); ++f) {
    EXPECT_EQ(alone->figures[f].value, a.figures[f].value);
    EXPECT_EQ(alone->figures[f].low, a.figures[f].low);
    EXPECT_EQ(alone->figures[f].high, a.figures[f].high);
  }
  const auto differences = composed_differences(*mean, *alone, 0.95);
  ASSERT_TRUE(differences) << differences.error().message;
  EXPECT_NEAR(differences->front().figure.value, mean->figures.front().value - a.figures.front().value,
              1e-12);
  EXPECT_FALSE(mean_over_seeds({}, bootstrap));
  const std::vector<const ComposedGroup*> other = {&a, &trainings[0][1]};  // other queries
  EXPECT_FALSE(mean_over_seeds(other, bootstrap));
}

class ServerFiles : public testing::Test {
 protected:
  void SetUp() override {
    dataset_ = made_dataset();
    dataset_.layout = "cirr";
    for (EditQuery& query : dataset_.as<EditQueries>().items) query.targets.clear();
    auto task = composed_task(dataset_, {}, {});
    ASSERT_TRUE(task) << task.error().message;
    task_ = *std::move(task);
    EXPECT_FALSE(task_.has_targets());
    ThreadPool pool(1);
    auto answers = rank_composed(task_, random_rows(std::ssize(task_.asked), 1).view(),
                                 random_rows(140, 2).view(), TiePolicy::kPessimistic, kServerDepth, pool);
    ASSERT_TRUE(answers) << answers.error().message;
    answers_ = *std::move(answers);
  }
  // Returns the error for a file after a change.
  std::string refused(const ServerFile& file, const std::function<void(Json&)>& change) {
    Json json = *parse_json(file.text);
    change(json);
    const Status status = check_server_file(task_, file.metric, dump_json(json));
    EXPECT_FALSE(status);
    return status ? "" : status.error().message;
  }
  Dataset dataset_;
  ComposedTask task_;
  std::vector<ComposedAnswer> answers_;
};

TEST_F(ServerFiles, Cirr) {
  const auto files = server_files(task_, answers_);
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->size(), 2U);
  const Json recall = *parse_json((*files)[0].text);
  EXPECT_EQ(recall["version"], "rc2");
  EXPECT_EQ(recall["metric"], "recall");
  EXPECT_EQ(recall.size(), 62U);
  EXPECT_EQ(recall["q3"].size(), 50U);
  const Json subset = *parse_json((*files)[1].text);
  EXPECT_EQ(subset["metric"], "recall_subset");
  EXPECT_EQ(subset["q3"].size(), 3U);
  // The order is that of the whole ranking.
  size_t last = 0;
  const auto ids = recall["q3"].get<std::vector<std::string>>();
  for (const auto& id : subset["q3"].get<std::vector<std::string>>()) {
    const auto at = static_cast<size_t>(std::ranges::find(ids, id) - ids.begin());
    if (at == ids.size()) continue;
    EXPECT_GE(at, last);
    last = at;
  }

  const ServerFile& file = (*files)[0];
  EXPECT_THAT(refused(file, [](Json& json) { json.erase("q7"); }), HasSubstr("query q7 is missing"));
  EXPECT_THAT(refused(file, [](Json& json) { json["q99"] = json["q7"]; }),
              HasSubstr("61 queries, the dataset has 60"));
  EXPECT_THAT(refused(file, [](Json& json) { json["q7"].erase(0); }),
              HasSubstr("query q7: 49 images, the server takes 50"));
  EXPECT_THAT(refused(file, [](Json& json) { json["q7"][0] = json["q7"][1]; }), HasSubstr("there twice"));
  EXPECT_THAT(refused(file, [](Json& json) { json["q7"][0] = "p1"; }), HasSubstr("\"p1\" is the reference"));
  EXPECT_THAT(refused(file, [](Json& json) { json["q7"][0] = "p70"; }), HasSubstr("none of the images"));
  EXPECT_THAT(refused(file, [](Json& json) { json["metric"] = "recall_subset"; }),
              HasSubstr("expected \"recall\""));
  EXPECT_THAT(refused(file, [](Json& json) { json["version"] = "rc1"; }), HasSubstr("expected \"rc2\""));
  EXPECT_THAT(refused(file, [](Json& json) { json["more"] = std::string(5'000'000, 'x'); }),
              HasSubstr("the server takes 5000000"));
  EXPECT_THAT(refused((*files)[1],
                      [&](Json& json) {
                        for (int p = 0; p < 70; ++p) {
                          const std::string id = fmt::format("p{}", p);
                          if (std::ranges::find(dataset_.as<EditQueries>().items[7].subset, id) ==
                              dataset_.as<EditQueries>().items[7].subset.end())
                            json["q7"][0] = id;
                        }
                      }),
              HasSubstr("none of the images"));
}

TEST_F(ServerFiles, CircoNumbersItsQueriesAndPictures) {
  task_.layout = "circo";
  task_.remove_reference = false;
  for (EditQuery& edit : task_.edits) {
    edit.split = "test";
    edit.id = "test." + edit.id.substr(1);
  }
  for (GalleryPicture& picture : task_.pictures) picture.id = picture.id.substr(1);
  const auto files = server_files(task_, answers_);
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->size(), 1U);
  const Json json = *parse_json((*files)[0].text);
  EXPECT_EQ(json.size(), 60U);
  EXPECT_TRUE(json["0"][0].is_number_integer());
  task_.layout = "manifest";
  EXPECT_THAT(server_files(task_, answers_).error().message,
              HasSubstr("no server is known for the layout manifest"));
}

}  // namespace
}  // namespace saccade::lab
