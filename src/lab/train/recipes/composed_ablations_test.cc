// Tests of ablations of composers' trainings: what each changes, and trainings that stop, resume, share stage one and
// are compared.
#include "lab/train/recipes/composed_ablations.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/train/math/test_shapes.h"
#include "lab/train/recipes/test_edits.h"
#include "saccade/core/files/files.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> ablation_names(const std::vector<AblatedTraining>& trainings) {
  std::vector<std::string> names;
  for (const AblatedTraining& each : trainings) names.push_back(each.name + ": " + each.changed);
  return names;
}

std::string refused_ablations(const ComposedAblationOptions& options) {
  const auto refused = ablated_trainings(options);
  EXPECT_FALSE(refused);
  if (refused) return {};
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  return refused.error().message;
}

TEST(ComposedAblations, ChangeOnePartOfTheTraining) {
  ComposedAblationOptions study;
  study.datasets = {"edits.jsonl"};
  const auto of_study = ablated_trainings(study);
  ASSERT_TRUE(of_study) << of_study.error().message;
  EXPECT_THAT(ablation_names(*of_study),
              ElementsAre("full: ", "no-merging: --tau 2", "no-places: --places none",
                          "no-fusion: --pooling none", "other-matching: --matching mutual",
                          "other-weights: --merge-weights equal", "other-pooling: --pooling asked",
                          "other-projection: --projection mlp", "other-residual: --residual sum"));
  for (const AblatedTraining& each : *of_study) {
    const Status fits = check_composed_options(each.options);
    EXPECT_TRUE(fits) << each.name << ": " << fits.error().message;
  }
  EXPECT_EQ((*of_study)[1].options.atf.merge.tau, 2);
  EXPECT_EQ((*of_study)[1].options.atf.places, study.atf.places);
  EXPECT_EQ((*of_study)[3].options.atf.pooling, AtfPooling::kNone);

  // Our variant with a Combiner, dropout, both stages and a trained tower.
  ComposedAblationOptions ours = study;
  ours.atf = attention_atf_options();
  ours.atf.projection = AtfProjection::kCombiner;
  ours.atf.hidden_width = 64;
  ours.dropout = 0.25;
  ours.align = AlignTargets::kPseudo;
  ours.pseudo_targets = "drawn";
  ours.min_cosine = 0.8;
  ours.towers = TrainedTowers::kText;
  ours.accumulate = 2;
  ours.checkpoint_activations = true;
  const auto of_ours = ablated_trainings(ours);
  ASSERT_TRUE(of_ours) << of_ours.error().message;
  EXPECT_THAT(
      ablation_names(*of_ours),
      ElementsAre("full: ", "no-merging: --tau 2", "no-places: --places none", "no-fusion: --pooling none",
                  "no-stage-one: --align none", "real-targets: --align real", "frozen-towers: --towers none",
                  "other-matching: --matching all", "other-weights: --merge-weights similarity",
                  "other-pooling: --pooling mean", "other-projection: --projection linear"));
  for (const AblatedTraining& each : *of_ours) {
    const Status fits = check_composed_options(each.options);
    EXPECT_TRUE(fits) << each.name << ": " << fits.error().message;
  }
  EXPECT_TRUE((*of_ours)[4].options.pseudo_targets.empty());
  EXPECT_EQ((*of_ours)[5].options.min_cosine, std::nullopt);
  EXPECT_EQ((*of_ours)[10].options.dropout, std::nullopt);

  // Micro-batches and checkpointed activations are for towers that are trained, in either stage.
  EXPECT_EQ((*of_ours)[4].options.accumulate, 2);
  EXPECT_EQ((*of_ours)[6].options.accumulate, 2);
  EXPECT_TRUE((*of_ours)[4].options.checkpoint_activations);
  ComposedAblationOptions one_stage = ours;
  one_stage.ablations = {Ablation::kFrozenTowers};
  one_stage.align = AlignTargets::kNone;
  one_stage.pseudo_targets.clear();
  one_stage.min_cosine = std::nullopt;
  ComposedAblationOptions aligned = ours;
  aligned.ablations = {Ablation::kNoStageOne};
  aligned.towers = TrainedTowers::kNone;
  for (const ComposedAblationOptions& options : {one_stage, aligned}) {
    const auto ablated = ablated_trainings(options);
    ASSERT_TRUE(ablated) << ablated.error().message;
    ASSERT_EQ(ablated->size(), 2U);
    for (const AblatedTraining& each : *ablated) {
      const Status fits = check_composed_options(each.options);
      EXPECT_TRUE(fits) << each.name << ": " << fits.error().message;
    }
    EXPECT_EQ((*ablated)[0].options.accumulate, 2);
    EXPECT_EQ((*ablated)[1].options.accumulate, 1);
    EXPECT_TRUE((*ablated)[0].options.checkpoint_activations);
    EXPECT_FALSE((*ablated)[1].options.checkpoint_activations);
  }

  // Some by name, in the order of the list of all.
  ours.ablations = {Ablation::kOtherPooling, Ablation::kNoPlaces};
  const auto some = ablated_trainings(ours);
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_THAT(ablation_names(*some),
              ElementsAre("full: ", "no-places: --places none", "other-pooling: --pooling mean"));
}

TEST(ComposedAblations, ThatChangeNothingAreRefused) {
  ComposedAblationOptions options;
  options.datasets = {"edits.jsonl"};
  options.ablations = {Ablation::kNoStageOne};
  EXPECT_THAT(refused_ablations(options),
              HasSubstr("ablation no-stage-one (stage one is left out) changes nothing"));
  options.ablations = {Ablation::kNoMerging};
  options.atf.merge.tau = 1.5;
  EXPECT_THAT(refused_ablations(options), HasSubstr("ablation no-merging"));
  options.ablations.clear();
  options.method = "combiner";
  EXPECT_THAT(refused_ablations(options), HasSubstr("no ablation changes this training: method combiner"));
  options.towers = TrainedTowers::kText;
  const auto frozen = ablated_trainings(options);
  ASSERT_TRUE(frozen) << frozen.error().message;
  EXPECT_THAT(ablation_names(*frozen), ElementsAre("full: ", "frozen-towers: --towers none"));
  options.method = "sum";  // which would have nothing to train
  EXPECT_THAT(refused_ablations(options), HasSubstr("no ablation"));
  options.method = "none";
  EXPECT_THAT(refused_ablations(options), HasSubstr("trains no composer"));
}

class AblateComposed : public test::ShapeEdits {
 protected:
  [[nodiscard]] ComposedAblationOptions options(const std::string& run) const {
    ComposedAblationOptions options;
    static_cast<ComposedTrainingOptions&>(options) = shape_options(run);
    options.atf = attention_atf_options();
    options.align = AlignTargets::kReal;
    options.align_towers = TrainedTowers::kText;
    options.align_steps = 2;
    options.steps = 4;
    options.evaluate_every = 2;
    options.checkpoint_every = 1;
    options.batch = 12;
    options.ablations = {Ablation::kNoFusion, Ablation::kNoStageOne};
    options.seeds = {1, 2};
    return options;
  }
  static std::string refusal_of_run(const ComposedAblationOptions& options, ErrorCode code) {
    const auto report = ablate_composed(options, {}, {});
    EXPECT_FALSE(report);
    if (report) return {};
    EXPECT_EQ(report.error().code, code) << report.error().message;
    return report.error().message;
  }
};

TEST_F(AblateComposed, TrainsResumesAndCompares) {
  const auto whole = ablate_composed(options("whole"), {}, {});
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_TRUE(whole->finished);
  EXPECT_EQ(whole->trainings, 6);
  EXPECT_EQ(whole->trained, 6);

  const ComposedAblationOptions pieces = options("pieces");
  std::stop_source stop;
  const auto part = ablate_composed(
      pieces,
      [&](const ProgressUpdate& update) {
        if (update.what == "training" && update.detail == "no-fusion, seed 1 (2 of 6)" && update.total == 4)
          stop.request_stop();
      },
      stop.get_token());
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_FALSE(part->finished);
  EXPECT_EQ(part->trained, 1);
  EXPECT_FALSE(fs::exists(pieces.run / "run"));
  const auto rest = ablate_composed(pieces, {}, {});
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_TRUE(rest->finished);
  EXPECT_EQ(dump_json(record_json(rest->metrics.ablations)),
            dump_json(record_json(whole->metrics.ablations)));

  // Stage one is trained once for each seed, and not in the folders of those that share it.
  EXPECT_TRUE(fs::exists(pieces.run / "stage-one/real-1/model/config.json"));
  EXPECT_TRUE(fs::exists(pieces.run / "stage-one/real-2/model/config.json"));
  EXPECT_FALSE(fs::exists(pieces.run / "stage-one/none-1"));
  for (const char* name : {"full-1", "no-fusion-2", "no-stage-one-1"}) {
    EXPECT_FALSE(fs::exists(pieces.run / "trainings" / name / "align")) << name;
    EXPECT_TRUE(fs::exists(pieces.run / "trainings" / name / "fuse/model/config.json")) << name;
  }
  const Json of_one = read_json(pieces.run / "trainings/full-1/fuse/run.json").value_or(Json());
  const Json of_none = read_json(pieces.run / "trainings/no-stage-one-1/fuse/run.json").value_or(Json());
  EXPECT_NE(of_one["encoder"]["fingerprint"], of_none["encoder"]["fingerprint"]);

  const std::vector<ComposedAblation>& ablations = rest->metrics.ablations;
  ASSERT_EQ(ablations.size(), 3U);
  EXPECT_EQ(ablations[0].name, "full");
  EXPECT_TRUE(ablations[0].differences.empty());
  EXPECT_EQ(ablations[1].name, "no-fusion");
  EXPECT_EQ(ablations[1].changed, "--pooling none");
  EXPECT_EQ(ablations[2].changed, "--align none");
  const Figure* full = find_named(ablations[0].figures, "r1");
  ASSERT_NE(full, nullptr);
  for (const ComposedAblation& ablation : ablations) {
    EXPECT_EQ(ablation.dataset, "held");
    EXPECT_EQ(ablation.queries, 24);
    EXPECT_THAT(ablation.seeds, ElementsAre(1, 2));
    const Figure* r1 = find_named(ablation.figures, "r1");
    ASSERT_NE(r1, nullptr) << ablation.name;
    // The mean of the composers among the results, which is that of the seeds.
    double mean = 0;
    int found = 0;
    for (const ComposedResult& result : rest->metrics.results) {
      if (std::ranges::find(ablation.methods, result.method) == ablation.methods.end()) continue;
      const Figure* own = find_named(result.group.figures, "r1");
      ASSERT_NE(own, nullptr);
      mean += own->value / 2;
      ++found;
    }
    EXPECT_EQ(found, 2) << ablation.name;
    EXPECT_NEAR(r1->value, mean, 1e-12) << ablation.name;
    EXPECT_LE(r1->low, r1->high);
    if (&ablation == ablations.data()) continue;
    const Difference* difference = find_named(ablation.differences, "r1");
    ASSERT_NE(difference, nullptr) << ablation.name;
    EXPECT_NEAR(difference->figure.value, r1->value - full->value, 1e-12) << ablation.name;
    EXPECT_LE(difference->figure.low, difference->figure.high);
    // There are eight images.
    const Difference* beyond = find_named(ablation.differences, "r10");
    ASSERT_NE(beyond, nullptr);
    EXPECT_TRUE(std::isnan(beyond->figure.value));
  }
  EXPECT_EQ(read_json(pieces.run / "run.json").value_or(Json())["outcome"], record_json(ablations));
  EXPECT_EQ(read_json(pieces.run / "run/metrics.json").value_or(Json())["ablations"], record_json(ablations));

  // Another training is refused, by the folder's own description or by that of a training in it.
  ComposedAblationOptions other = pieces;
  other.seeds = {1};
  EXPECT_THAT(refusal_of_run(other, ErrorCode::kMismatch), HasSubstr("seeds"));
  other = pieces;
  other.steps = 5;
  EXPECT_THAT(refusal_of_run(other, ErrorCode::kMismatch), HasSubstr("\"steps\" is 4 there, 5 here"));
}

TEST_F(AblateComposed, RefusesBeforeAnythingIsWritten) {
  ComposedAblationOptions nothing = options("run");
  nothing.held_out.clear();
  EXPECT_THAT(refusal_of_run(nothing, ErrorCode::kUsage), HasSubstr("--held-out, --test or both"));
  ComposedAblationOptions twice = options("run");
  twice.seeds = {2, 1, 2};
  EXPECT_THAT(refusal_of_run(twice, ErrorCode::kUsage), HasSubstr("seed 2 is named twice"));
  ComposedAblationOptions held = options("run");
  held.held_out = held.datasets;
  EXPECT_THAT(refusal_of_run(held, ErrorCode::kUsage), HasSubstr("must be apart"));
  ComposedAblationOptions dry = options("run");
  dry.dry_run = true;
  const auto report = ablate_composed(dry, {}, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->trainings, 6);
  EXPECT_FALSE(report->finished);
  EXPECT_FALSE(fs::exists(data_.folder() / "run"));
}

}  // namespace
}  // namespace saccade::lab
