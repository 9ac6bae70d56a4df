// Tests of a study of several checkpoints: its plan and how it goes on, and that its leaderboard says what one run of all models
// says.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/figures/tiers.h"
#include "lab/eval/retrieval/retrieval_study.h"
#include "lab/eval/run/run.h"
#include "lab/eval/study/leaderboard.h"
#include "lab/eval/study/study_plan.h"
#include "lab/eval/winoground/winoground_study.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/hash.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Tiers, HoldWhatCannotBeToldFromTheirBest) {
  const std::vector<double> values = {0.9, 0.85, 0.7, 0.68, 0.1};
  const auto apart = [&](size_t a, size_t b) { return std::abs(values[a] - values[b]) > 0.1; };
  EXPECT_THAT(tiers_of({0, 1, 2, 3, 4}, apart),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  // A later one may belong to the best where an earlier one does not.
  EXPECT_THAT(tiers_of({0, 1, 2}, [](size_t a, size_t) { return a == 1; }),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
  EXPECT_THAT(tiers_of({}, apart), IsEmpty());
}

class StudyTest : public testing::Test {
 protected:
  static constexpr int64_t kImages = 60;
  static constexpr int64_t kItems = 50;

  void SetUp() override {
    std::string manifest;
    std::string pairs;
    for (int64_t i = 0; i < kImages; ++i) {
      manifest +=
          fmt::format(R"({{"image": "{}.png", "captions": ["a{}", "b{}", "c{}"]}})", i, i, i, i) + "\n";
    }
    for (int64_t i = 0; i < kItems; ++i) {
      pairs += fmt::format(R"({{"id": "{}", "images": ["{}.png", "{}.png"], "captions": ["x", "y"]}})", i, i,
                           (i + 1) % kImages) +
               "\n";
    }
    folder_.write("set.jsonl", manifest);
    folder_.write("pairs.jsonl", pairs);
    options_.bootstrap = {.resamples = 300, .seed = 7, .confidence = 0.95};
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Writes scores of texts with images, and of compositions: `skill` is added to those of right pairs.
  void write_model(const std::string& name, double skill, uint32_t seed) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    Matrix<float> scores(3 * kImages, kImages);
    for (float& value : scores.values()) value = normal(random);
    std::vector<int64_t> text_image;
    for (int64_t t = 0; t < scores.rows(); ++t) {
      text_image.push_back(t / 3);
      scores(t, t / 3) += static_cast<float>(skill);
    }
    std::vector<float> pairs(static_cast<size_t>(4 * kItems));
    for (size_t i = 0; i < pairs.size(); ++i) {
      pairs[i] = normal(random) + (i % 4 == 0 || i % 4 == 3 ? static_cast<float>(skill / 2) : 0.0F);
    }
    const TensorView tensors[] = {{DType::kF32, {3 * kImages, kImages}, std::as_bytes(scores.values())},
                                  {DType::kI64, {3 * kImages}, std::as_bytes(std::span(text_image))}};
    const NamedTensor named[] = {{"scores", tensors[0]}, {"text_image", tensors[1]}};
    ASSERT_TRUE(write_safetensors(folder_ / (name + ".safetensors"), named));
    const TensorView pair_scores{DType::kF32, {kItems, 2, 2}, std::as_bytes(std::span(pairs))};
    const NamedTensor named_pairs[] = {{"scores", pair_scores}};
    ASSERT_TRUE(write_safetensors(folder_ / (name + "-pairs.safetensors"), named_pairs));
  }

  Result<Evaluation> retrieval(const std::vector<std::string>& models, const fs::path& run) {
    EvaluationOptions options = options_;
    options.datasets = {path("set.jsonl")};
    options.run = run;
    RetrievalOptions how;
    use_protocol(RetrievalProtocol::kSevenModels, how);
    how.symmetric = true;
    how.by = {TextQueryKind::kNumber};
    how.table = table_;
    std::vector<fs::path> files;
    for (const std::string& model : models) files.push_back(folder_ / (model + ".safetensors"));
    return evaluate_given_retrieval({.files = files, .rows = false}, how, options, pool_);
  }
  Result<Evaluation> compositions(const std::vector<std::string>& models, const fs::path& run) {
    EvaluationOptions options = options_;
    options.datasets = {path("pairs.jsonl")};
    options.run = run;
    std::vector<fs::path> files;
    for (const std::string& model : models) files.push_back(folder_ / (model + "-pairs.safetensors"));
    return evaluate_given_compositions(files, options, pool_);
  }

  // A study whose pieces are runs of files of scores.
  StudyWork measured(const std::vector<std::string>& models) {
    StudyWork work;
    work.folder = folder_ / "study";
    work.plan.seed = options_.bootstrap.seed;
    work.plan.resamples = options_.bootstrap.resamples;
    work.plan.confidence = options_.bootstrap.confidence;
    work.plan.parts = {{.kind = "retrieval", .words = {"eval", "retrieval"}},
                       {.kind = "winoground", .words = {"eval", "winoground"}}};
    for (const std::string& name : models) {
      const size_t m = work.plan.models.size();
      work.plan.models.push_back({.checkpoint = name,
                                  .name = name,
                                  .precision = "fp32",
                                  .fingerprint = name,
                                  .folder = "models/" + name,
                                  .rates = {}});
      for (size_t p = 0; p < 2; ++p) {
        work.pieces.push_back({.part = p, .model = m, .done = true});
        const fs::path folder = work.piece_folder(work.pieces.back());
        const auto run = p == 0 ? retrieval({name}, folder) : compositions({name}, folder);
        EXPECT_TRUE(run) << run.error().message;
      }
    }
    return work;
  }

  test::TestFolder folder_;
  std::optional<QueryTable> table_;
  EvaluationOptions options_;
  ThreadPool pool_{2};
};

TEST_F(StudyTest, TheLeaderboardSaysWhatOneRunOfAllModelsSays) {
  write_model("good", 2.0, 1);
  write_model("alike", 1.95, 2);
  write_model("bad", 0.3, 3);
  table_ = QueryTable{.name = "kinds", .groups = {{"a0", "zero"}, {"a1", "one"}}};
  const StudyWork work = measured({"bad", "alike", "good"});
  const auto board = make_leaderboard(work, pool_);
  ASSERT_TRUE(board) << board.error().message;

  const auto one_run = retrieval({"bad", "alike", "good"}, {});
  ASSERT_TRUE(one_run) << one_run.error().message;
  ASSERT_THAT(board->parts, SizeIs(2));
  EXPECT_EQ(board->parts[0].metrics, one_run->metrics);
  EXPECT_EQ(board->parts[0].info.checkpoints.size(), 3U);
  const auto grouped = read_record<RetrievalMetrics>(board->parts[0].metrics);
  ASSERT_TRUE(grouped) << grouped.error().message;
  ASSERT_THAT(grouped->results, SizeIs(4));  // chance first
  for (size_t m = 1; m < 4; ++m) {
    const auto& groups = grouped->results[m].groups;
    ASSERT_TRUE(groups);
    EXPECT_TRUE(std::ranges::any_of(*groups, [](const QueryGroupFigures& one) {
      return one.kind == "kinds" && one.group == "zero" && one.queries == 1;
    }));
    EXPECT_TRUE(
        std::ranges::any_of(*groups, [](const QueryGroupFigures& one) { return one.kind == "number"; }));
  }
  // Names of the files of compositions end in "-pairs"; otherwise they are the same.
  const auto one_test = compositions({"bad", "alike", "good"}, {});
  Json renamed = one_test->metrics;
  for (const char* list : {"results", "comparisons"}) {
    for (Json& each : renamed[list]) {
      for (const char* key : {"model", "a", "b"}) {
        if (!each.contains(key)) continue;
        const std::string name = each[key];
        each[key] = name.substr(0, name.find("-pairs"));
      }
    }
  }
  EXPECT_EQ(board->parts[1].metrics, renamed);

  EXPECT_EQ(board->ranked_by, "text-to-image R@1");
  ASSERT_THAT(board->rows, SizeIs(3));
  EXPECT_EQ(board->rows[0].rank, 1);
  EXPECT_EQ(board->rows[1].rank, 1);  // "alike" and "good" cannot be told apart
  EXPECT_EQ(board->rows[2].rank, 3);
  EXPECT_EQ(board->rows[2].model, "bad");
  const Figure* r1 = find_named(board->rows[2].retrieval.i2t, "r1");
  ASSERT_NE(r1, nullptr);
  EXPECT_EQ(board->rows[2].gap->figure.value,
            r1->value - find_named(board->rows[2].retrieval.t2i, "r1")->value);
  EXPECT_TRUE(board->rows[2].symmetric.i2t);
  EXPECT_NE(find_named(board->rows[0].composition, "group"), nullptr);
  EXPECT_THAT(board->notes, testing::Contains(HasSubstr("swaps the first two")));
  EXPECT_THAT(board->notes,
              testing::Contains(HasSubstr("after Holm's correction for 3 pairs, 300 resamples")));

  // It is the same after it was written and read, and advice takes its runs.
  ASSERT_TRUE(write_leaderboard(work.folder, *board));
  const auto again = read_leaderboard(work.folder);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(record_json(*again), record_json(*board));
  const auto runs = leaderboard_runs(*again, work.folder);
  ASSERT_THAT(runs, SizeIs(2));
  EXPECT_EQ(read_metrics<RetrievalMetrics>(runs[0])->comparisons.size(), 3U);
}

TEST_F(StudyTest, RanksAreCorrectedForTheNumberOfPairs) {
  write_model("good", 4.0, 1);
  write_model("fair", 2.0, 2);
  write_model("bad", 0.1, 3);
  // The smallest p-value of 60 resamples is 0.033, which tells two models apart, but not the pairs of three.
  options_.bootstrap.resamples = 60;
  StudyWork work = measured({"good", "fair", "bad"});
  const auto three = make_leaderboard(work, pool_);
  ASSERT_TRUE(three) << three.error().message;
  const auto metrics = read_record<RetrievalMetrics>(three->parts[0].metrics);
  ASSERT_TRUE(metrics) << metrics.error().message;
  for (const RetrievalComparison& one : metrics->comparisons) {
    EXPECT_TRUE(find_named(one.directions.t2i, "r1")->significant) << one.a << ' ' << one.b;
  }
  for (const LeaderboardRow& row : three->rows) EXPECT_EQ(row.rank, 1) << row.model;
  EXPECT_THAT(three->notes, testing::Contains(HasSubstr("119 resamples or more")));

  std::erase_if(work.pieces, [](const StudyPiece& piece) { return piece.model == 2; });
  work.plan.models.pop_back();
  const auto two = make_leaderboard(work, pool_);
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_EQ(two->rows[0].rank, 1);
  EXPECT_EQ(two->rows[1].rank, 2);
}

TEST_F(StudyTest, APieceThatFailedIsNamedAndOtherDataAreRefused) {
  write_model("good", 2.0, 1);
  write_model("bad", 0.3, 3);
  StudyWork work = measured({"good", "bad"});
  work.pieces[2].done = false;  // retrieval of "bad"
  const auto board = make_leaderboard(work, pool_);
  ASSERT_TRUE(board) << board.error().message;
  EXPECT_EQ(board->rows[0].model, "good");
  EXPECT_EQ(board->rows[1].rank, std::nullopt);
  EXPECT_THAT(board->rows[1].missing, ElementsAre("retrieval"));
  EXPECT_NE(find_named(board->rows[1].composition, "text"), nullptr);

  work.pieces[2].done = true;
  options_.bootstrap.seed = 8;
  fs::remove_all(work.piece_folder(work.pieces[2]));
  ASSERT_TRUE(retrieval({"bad"}, work.piece_folder(work.pieces[2])));
  const auto mixed = make_leaderboard(work, pool_);
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(mixed.error().message, HasSubstr("by another protocol"));
}

// A model that the study's device does not run was measured on the processor.
TEST_F(StudyTest, RunsOfTwoDevicesAreOneLeaderboard) {
  write_model("good", 2.0, 1);
  write_model("bad", 0.3, 3);
  options_.device = "cuda";
  StudyWork work = measured({"bad", "good"});
  options_.device = "cpu";
  for (size_t p = 0; p < 2; ++p) fs::remove_all(work.piece_folder(work.pieces[p]));
  ASSERT_TRUE(retrieval({"bad"}, work.piece_folder(work.pieces[0])));
  ASSERT_TRUE(compositions({"bad"}, work.piece_folder(work.pieces[1])));
  const auto refused = make_leaderboard(work, pool_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("device: there cpu, asked for cuda"));

  work.plan.models[0].off_device = "family other";
  const auto board = make_leaderboard(work, pool_);
  ASSERT_TRUE(board) << board.error().message;
  EXPECT_EQ(board->parts[0].info.machine.device, "cuda");
  EXPECT_THAT(board->parts[0].info.checkpoints, SizeIs(2));
  EXPECT_THAT(read_record<RetrievalMetrics>(board->parts[0].metrics)->comparisons, SizeIs(1));
  EXPECT_THAT(board->notes, testing::Contains("bad is measured on the processor: family other."));
}

// Speeds on two devices are not one run's. The rows have both.
TEST_F(StudyTest, SpeedOnAnotherDeviceIsInItsRowAlone) {
  StudyWork work;
  work.folder = folder_ / "study";
  work.plan.parts = {{.kind = "speed", .words = {"eval", "speed"}}};
  for (const char* device : {"cpu", "cuda"}) {
    const size_t m = work.plan.models.size();
    StudyModel& model = work.plan.models.emplace_back();
    model.name = model.fingerprint = device;
    model.folder = fmt::format("models/{}", device);
    work.pieces.push_back({.part = 0, .model = m, .done = true});
    RunInfo info;
    info.kind = "speed";
    info.protocol = {{"description", "speed"}, {"device", device}};
    info.machine.device = device;
    info.datasets.emplace_back().name = "set";
    RunCheckpoint& checkpoint = info.checkpoints.emplace_back();
    checkpoint.name = checkpoint.fingerprint = device;
    SpeedMetrics metrics;
    SpeedRecord& record = metrics.results.emplace_back();
    record.model = device;
    record.images_per_s = Spread{.value = 10, .low = 10, .high = 10};
    auto writer = RunWriter::open(work.piece_folder(work.pieces.back()), info, false);
    ASSERT_TRUE(writer) << writer.error().message;
    const Status written = writer->finish(info, record_json(metrics));
    ASSERT_TRUE(written) << written.error().message;
  }
  work.plan.models[0].off_device = "family other";
  const auto board = make_leaderboard(work, pool_);
  ASSERT_TRUE(board) << board.error().message;
  ASSERT_THAT(board->rows, SizeIs(2));
  for (const LeaderboardRow& row : board->rows) EXPECT_TRUE(row.images_per_s) << row.model;
  ASSERT_THAT(board->parts, SizeIs(1));
  EXPECT_EQ(board->parts[0].info.protocol["device"], "cuda");
  ASSERT_THAT(board->parts[0].info.checkpoints, SizeIs(1));
  EXPECT_EQ(board->parts[0].info.checkpoints[0].name, "cuda");
  const auto merged = read_record<SpeedMetrics>(board->parts[0].metrics);
  ASSERT_TRUE(merged) << merged.error().message;
  ASSERT_THAT(merged->results, SizeIs(1));
  EXPECT_EQ(merged->results[0].model, "cuda");
}

class StudyPlanTest : public StudyTest {
 protected:
  void SetUp() override {
    StudyTest::SetUp();
    write_model("a", 1, 1);
    write_model("b", 1, 2);
    study_.folder = folder_ / "study";
    study_.checkpoints = {path("a.safetensors")};
    study_.parts = {{.kind = "retrieval", .words = {"eval", "retrieval", "--dataset=" + path("set.jsonl")}}};
    source_.find = [](const std::string& given) -> Result<fs::path> { return fs::path(given); };
    source_.fingerprint = [](const std::string& given) { return sha256_file(given); };
    process_ = [this](const std::vector<std::string>& words) -> Result<std::string> {
      EXPECT_THAT(words, testing::Contains("speed"));
      ++probes_;
      SpeedMetrics metrics;
      SpeedRecord& record = metrics.results.emplace_back();
      record.load_s = 2;
      record.images_per_s = Spread{.value = 10, .low = 10, .high = 10};
      record.texts_per_s = Spread{.value = 90, .low = 90, .high = 90};
      record.scored_by = "cosine";
      return dump_json(record_json(metrics));
    };
  }
  Result<StudyWork> plan() { return plan_study(study_, source_, process_); }

  StudyOptions study_;
  CheckpointSource source_;
  StudyProcess process_;
  int probes_ = 0;
};

TEST_F(StudyPlanTest, EstimatesAndGoesOnWhereItStopped) {
  {
    const auto work = plan();
    ASSERT_TRUE(work) << work.error().message;
    ASSERT_THAT(work->pieces, SizeIs(1));
    EXPECT_FALSE(work->pieces[0].done);
    EXPECT_EQ(work->pieces[0].seconds, 2 + 60 / 10.0 + 180 / 90.0);  // to load, 60 images, 180 texts
    EXPECT_EQ(probes_, 1);
    EXPECT_THAT(
        piece_words(*work, work->pieces[0]),
        ElementsAre("eval", "retrieval", "--dataset=" + path("set.jsonl"), "--model=" + path("a.safetensors"),
                    "--precision=fp32", "--run=" + work->piece_folder(work->pieces[0]).string()));
    // Nobody else may work on it meanwhile.
    const auto second = plan();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kCancelled);
  }
  // With another model, the first one is not loaded again.
  study_.checkpoints.push_back(path("b.safetensors"));
  fs::path folder;
  {
    const auto work = plan();
    ASSERT_TRUE(work) << work.error().message;
    EXPECT_EQ(probes_, 2);
    folder = work->piece_folder(work->pieces[0]);
  }
  // A finished run is done. It is not, if it is of another model or of other data.
  EvaluationOptions options = options_;
  options.datasets = {path("set.jsonl")};
  options.run = folder;
  ASSERT_TRUE(
      evaluate_given_retrieval({.files = {folder_ / "a.safetensors"}, .rows = false}, {}, options, pool_));
  study_.checkpoints.resize(1);
  EXPECT_FALSE(plan()->pieces[0].done);  // the run's precision is that of a file: none
  Json run = read_json(folder / "run.json").value();
  run["checkpoints"][0]["precision"] = "fp32";
  ASSERT_TRUE(write_file_atomic(folder / "run.json", dump_json(run)));
  EXPECT_TRUE(plan()->pieces[0].done);
  run["datasets"][0]["sha256"] = "other";
  ASSERT_TRUE(write_file_atomic(folder / "run.json", dump_json(run)));
  EXPECT_FALSE(plan()->pieces[0].done);
  EXPECT_EQ(probes_, 2);
}

// The device is a GPU's code on the processor, so that no GPU is needed.
TEST_F(StudyPlanTest, AModelThatTheDeviceDoesNotRunIsMeasuredOnTheProcessor) {
  const std::string device = "--device=torch-cpu";
  study_.checkpoints.clear();
  for (const char* name : {"clip-gelu", "siglip"}) {
    study_.checkpoints.push_back((fs::path(test::kSourceDir) / "tests/golden" / name).string());
  }
  study_.precisions = {Precision::kFp32, Precision::kInt8};
  study_.parts[0].words.push_back(device);
  source_.fingerprint = [](const std::string& given) -> Result<std::string> { return sha256_hex(given); };
  std::vector<bool> probed;
  const StudyProcess inner = process_;
  process_ = [&](const std::vector<std::string>& words) {
    probed.push_back(std::ranges::find(words, device) != words.end());
    return inner(words);
  };
  const auto work = plan();
  ASSERT_TRUE(work) << work.error().message;
  ASSERT_THAT(work->pieces, SizeIs(4));
  const std::vector<bool> expected = {true, false, false, false};  // CLIP in fp32 alone
  EXPECT_EQ(probed, expected);
  for (size_t i = 0; i < 4; ++i) {
    const std::vector<std::string> words = piece_words(*work, work->pieces[i]);
    EXPECT_EQ(std::ranges::find(words, device) != words.end(), expected[i]) << i;
    EXPECT_EQ(work->plan.models[i].off_device.empty(), expected[i]) << i;
  }
  EXPECT_THAT(work->plan.models[1].off_device, HasSubstr("precision int8"));
  EXPECT_THAT(work->plan.models[2].off_device, HasSubstr("family siglip"));
  // The record is that of a study whose models all run on the device.
  EXPECT_THAT(work->plan.parts[0].words, testing::Contains(device));
  EXPECT_FALSE(record_json(work->plan)["models"][2].contains("off_device"));
}

TEST_F(StudyPlanTest, WaitsForTheProcessOfAKilledStudy) {
  const auto work = plan();
  ASSERT_TRUE(work) << work.error().message;
  const StudyPiece& piece = work->pieces[0];
  EXPECT_TRUE(wait_for_writer(*work, piece, {}));  // there is no folder yet
  ASSERT_TRUE(fs::create_directories(work->piece_folder(piece)));
  auto lock = lock_file(work->piece_folder(piece) / "lock", "writing");
  ASSERT_TRUE(lock) << lock.error().message;

  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(wait_for_writer(*work, piece, stopped.get_token()).error().code, ErrorCode::kCancelled);

  std::atomic<bool> released = false;
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    released = true;
    *lock = Descriptor();
  });
  EXPECT_TRUE(wait_for_writer(*work, piece, {}));
  EXPECT_TRUE(released);
  writer.join();
}

TEST_F(StudyPlanTest, OtherMeasurementsAndForeignFoldersAreRefused) {
  ASSERT_TRUE(plan());
  study_.parts[0].words.emplace_back("--protocol=karpathy");
  const auto other = plan();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(other.error().message, HasSubstr("--protocol=karpathy"));
  study_.parts[0].words.pop_back();
  folder_.write("set.jsonl", "{\"image\": \"1.png\", \"captions\": [\"else\"]}\n");
  EXPECT_THAT(plan().error().message, HasSubstr("its datasets have changed"));
  // A study that is overwritten holds nothing of the earlier one, even if it is stopped at once.
  const fs::path old = study_.folder / "models/old/retrieval";
  ASSERT_TRUE(fs::create_directories(old));
  ASSERT_TRUE(write_file_atomic(old / "run.json", "{}"));
  ASSERT_TRUE(write_file_atomic(study_.folder / "leaderboard.md", "| rank |"));
  study_.overwrite = true;
  EXPECT_TRUE(plan());
  EXPECT_FALSE(fs::exists(study_.folder / "models"));
  EXPECT_FALSE(fs::exists(study_.folder / "leaderboard.md"));

  // So are other groups of the same table's name.
  study_.folder = folder_ / "groups";
  study_.overwrite = false;
  folder_.write("kinds.tsv", "a0\tfirst\n");
  study_.parts[0].words.push_back("--by-table=" + path("kinds.tsv"));
  ASSERT_TRUE(plan());
  EXPECT_TRUE(plan());
  folder_.write("kinds.tsv", "a0\tsecond\n");
  const auto regrouped = plan();
  ASSERT_FALSE(regrouped);
  EXPECT_EQ(regrouped.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(regrouped.error().message, HasSubstr("the groups of --by-table have changed"));

  study_.folder = folder_ / "mine";
  fs::create_directory(study_.folder);
  folder_.write("mine/letter.txt", "dear");
  const auto foreign = plan();
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, ErrorCode::kUsage);
  EXPECT_THAT(foreign.error().message, HasSubstr("it holds \"letter.txt\""));
  study_.folder = folder_ / "new";
  study_.parts.clear();
  EXPECT_EQ(plan().error().code, ErrorCode::kUsage);
}

}  // namespace
}  // namespace saccade::lab
