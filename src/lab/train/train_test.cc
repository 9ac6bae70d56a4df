// Tests of the objective and optimizer against the reference's numbers and torch's own, and of training end
// to end on small data.
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <torch/optim.h>

#include "lab/eval/retrieval/one_caption.h"
#include "lab/train/math/adamw.h"
#include "lab/train/math/objective.h"
#include "lab/train/math/test_graph.h"
#include "lab/train/math/test_shapes.h"
#include "lab/train/math/variable.h"
#include "lab/train/recipes/train_dual.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/model/encoder_backend.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using test::read;
using test::SmallData;
using test::train;
using torch::Tensor;

double max_difference(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

fs::path golden(const std::string& name) {
  return fs::path(test::kSourceDir) / "tests/golden" / name;
}

// Returns the recall that a trained checkpoint has on a held-out set.
Result<OneCaptionRecall> one_caption_recall(EncoderBackend& encoder, const DatasetSource& source,
                                            ThreadPool& pool) {
  SACCADE_ASSIGN(const OneCaptionSet set,
                 load_one_caption_set(source, encoder.preprocessing(), *encoder.tokenizer(),
                                      encoder.info().context, pool));
  SACCADE_ASSIGN(const Matrix<float> images, encoder.encode_images(set.pixels.view()));
  SACCADE_ASSIGN(const Matrix<float> texts, encoder.encode_texts(set.texts));
  return score_one_caption(set, images.view(), texts.view(), pool);
}

TEST(InfoNce, LossAndGradientsAreTheReferences) {
  const auto file = SafeTensors::open(golden("objectives") / "io.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  const TorchMap io = torch_tensors(*file).value();
  const Tensor images = io.at("images").clone().requires_grad_(true);
  const Tensor texts = io.at("texts").clone().requires_grad_(true);
  const Tensor scale = io.at("log_inverse_temperature").clone().requires_grad_(true);
  const Tensor loss = info_nce(normalize_rows(images), normalize_rows(texts), scale);
  loss.backward();
  EXPECT_LT(max_difference(loss, io.at("info_nce")), 1e-5);
  EXPECT_LT(max_difference(images.grad(), io.at("info_nce_grad_images")), 1e-5);
  EXPECT_LT(max_difference(texts.grad(), io.at("info_nce_grad_texts")), 1e-5);
  EXPECT_LT(max_difference(scale.grad(), io.at("info_nce_grad_log_inverse_temperature")), 1e-5);
}

// Computes the definition, one sum at a time.
double slow_info_nce(const Tensor& images, const Tensor& texts, double scale, const Tensor& positives) {
  const int64_t n = images.size(0);
  const Tensor logits = images.matmul(texts.t()) * scale;
  double total = 0;
  for (const bool transposed : {false, true}) {
    for (int64_t i = 0; i < n; ++i) {
      const auto logit = [&](int64_t j) { return (transposed ? logits[j][i] : logits[i][j]).item<double>(); };
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += std::exp(logit(j));
      double row = 0;
      int64_t count = 0;
      for (int64_t j = 0; j < n; ++j) {
        if (!(transposed ? positives[j][i] : positives[i][j]).item<bool>()) continue;
        row -= logit(j) - std::log(sum);
        ++count;
      }
      total += row / static_cast<double>(count) / static_cast<double>(n) / 2;
    }
  }
  return total;
}

TEST(InfoNce, SpreadsOverPositives) {
  torch::manual_seed(1);
  const Tensor images = normalize_rows(torch::randn({6, 4}, at::kDouble));
  const Tensor texts = normalize_rows(torch::randn({6, 4}, at::kDouble));
  Tensor positives = torch::eye(6, at::kLong).to(at::kBool);
  positives[1][4] = positives[4][1] = positives[0][2] = true;
  const Tensor scale = torch::full({}, 1.3, at::kDouble);
  EXPECT_NEAR(info_nce(images, texts, scale, positives).item<double>(),
              slow_info_nce(images, texts, std::exp(1.3), positives), 1e-9);
  const Tensor alone = torch::eye(6, at::kLong).to(at::kBool);
  EXPECT_NEAR(info_nce(images, texts, scale, alone).item<double>(),
              info_nce(images, texts, scale).item<double>(), 1e-12);
}

// Two captions of one image in a batch bring two copies of its row. Spreading the target over the copies then
// equals the literal loss, gradients included. It differs if a text belongs to an image that is paired with
// another of its texts.
TEST(InfoNce, SpreadingOverCopiesIsTheLiteralLoss) {
  torch::manual_seed(4);
  const auto loss_of = [](const Tensor& pictures, const Tensor& texts, const Tensor& positives, bool spread) {
    const Tensor leaf = pictures.detach().clone().requires_grad_(true);
    const Tensor words = texts.detach().clone().requires_grad_(true);
    const Tensor which = torch::tensor({0, 0, 1, 2, 2, 3});
    const Tensor loss = info_nce(leaf.index_select(0, which), words, torch::full({}, 1.3, at::kDouble),
                                 spread ? positives : Tensor());
    loss.backward();
    return std::tuple(loss.item<double>(), leaf.grad(), words.grad());
  };
  const Tensor pictures = normalize_rows(torch::randn({4, 5}, at::kDouble));
  const Tensor texts = normalize_rows(torch::randn({6, 5}, at::kDouble));
  Tensor positives = torch::eye(6, at::kLong).to(at::kBool);
  positives[0][1] = positives[1][0] = positives[3][4] = positives[4][3] = true;
  const auto [spread, to_pictures, to_texts] = loss_of(pictures, texts, positives, true);
  const auto [literal, literal_pictures, literal_texts] = loss_of(pictures, texts, positives, false);
  EXPECT_NEAR(spread, literal, 1e-12);
  EXPECT_LT(max_difference(to_pictures, literal_pictures), 1e-12);
  EXPECT_LT(max_difference(to_texts, literal_texts), 1e-12);
  positives[2][5] = true;  // a caption that the third image has too
  EXPECT_GT(std::abs(std::get<0>(loss_of(pictures, texts, positives, true)) - literal), 1e-3);
}

void expect_torchs_adamw(const AdamWOptions& options) {
  torch::manual_seed(2);
  const Tensor matrix = torch::randn({3, 4}).requires_grad_(true);
  const Tensor vector = torch::randn({4}).requires_grad_(true);
  const Tensor matrix2 = matrix.detach().clone().requires_grad_(true);
  const Tensor vector2 = vector.detach().clone().requires_grad_(true);
  const auto torch_options = [&](double decay) {
    return torch::optim::AdamWOptions(0.01)
        .betas({options.beta1, options.beta2})
        .eps(options.epsilon)
        .weight_decay(decay);
  };
  AdamW ours({{"matrix", matrix}, {"vector", vector}}, options);
  torch::optim::AdamW decayed({matrix2}, torch_options(options.weight_decay));
  torch::optim::AdamW plain({vector2}, torch_options(0));
  for (int step = 0; step < 20; ++step) {
    const Tensor x = torch::randn({5, 3});
    const auto loss = [&](const Tensor& m, const Tensor& v) { return (x.matmul(m) + v).pow(2).sum(); };
    loss(matrix, vector).backward();
    loss(matrix2, vector2).backward();
    ours.step(0.01);
    decayed.step();
    plain.step();
    decayed.zero_grad();
    plain.zero_grad();
  }
  EXPECT_LT(max_difference(matrix, matrix2), 1e-5);
  EXPECT_LT(max_difference(vector, vector2), 1e-5);
}

TEST(AdamW, FollowsTorch) {
  expect_torchs_adamw({.weight_decay = 0.3});
  expect_torchs_adamw({.beta1 = 0.6, .beta2 = 0.999, .epsilon = 1e-2, .weight_decay = 0.1});
  expect_torchs_adamw({.beta1 = 0, .beta2 = 0, .epsilon = 1e-8, .weight_decay = 0});
}

TEST(AdamW, ClipsTheJointNorm) {
  const Tensor a = torch::zeros({2}).requires_grad_(true);
  const Tensor b = torch::zeros({2}).requires_grad_(true);
  AdamW optimizer({{"a", a}, {"b", b}}, {});
  (3 * a.sum() + 4 * b.sum()).backward();
  EXPECT_NEAR(optimizer.clip_gradients(1.0), std::sqrt(2 * 9.0 + 2 * 16.0), 1e-5);
  EXPECT_NEAR(std::sqrt((a.grad().pow(2).sum() + b.grad().pow(2).sum()).item<double>()), 1.0, 1e-5);
}

TEST(TrainDual, LearnsShapesAndWritesACheckpointThatLoads) {
  const SmallData data;
  DualTrainingOptions options = data.options("learn");
  options.steps = 120;
  options.evaluate_every = options.checkpoint_every = 40;
  options.learning_rate = 3e-3;
  const DualTrainingReport report = train(options);
  EXPECT_TRUE(report.finished);
  EXPECT_TRUE(report.left_out.empty());
  ASSERT_EQ(report.best.size(), 1U);
  EXPECT_GT(report.best[0].text_to_image.r1, 0.6);  // 16 names over 32 images; chance is 1 in 16

  auto encoder = load_encoder(report.model);
  ASSERT_TRUE(encoder) << encoder.error().message;
  ThreadPool pool(2);
  const auto recall = one_caption_recall(**encoder, options.held_out[0], pool);
  ASSERT_TRUE(recall) << recall.error().message;
  EXPECT_NEAR(recall->text_to_image.r1, report.best[0].text_to_image.r1, 1e-9);
  EXPECT_NEAR(recall->image_to_text.r1, report.best[0].image_to_text.r1, 1e-9);
}

// Returns the number of libtorch's operations in a training.
int64_t operations_of(const DualTrainingOptions& options, DualTrainingReport& report) {
  const test::OperationCount count;
  report = train(options);
  return count.operations();
}

TEST(TrainDual, MicroBatchesTrainTheSame) {
  const SmallData data;
  DualTrainingOptions options = data.options("whole");
  options.patch_dropout = 0.5;
  options.unmasked = 0.5;
  DualTrainingReport whole;
  const int64_t at_once = operations_of(options, whole);
  EXPECT_GT(at_once, 0);
  options.run = data.folder() / "parts";
  options.accumulate = 3;  // of 16 examples
  DualTrainingReport parts;
  EXPECT_GT(operations_of(options, parts), at_once);  // each part twice
  EXPECT_NEAR(parts.last_loss, whole.last_loss, 1e-3);
  const Json run = read_json(options.run / "run.json").value();
  EXPECT_EQ(run["batch"], 16);  // the global one
  EXPECT_EQ(read(data.folder() / "whole/run.json"), read(options.run / "run.json"));
  options.accumulate = 17;
  const auto refused = train_dual(options, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  EXPECT_EQ(refused.error().message, "accumulate is 17, expected 1 to 16 (the batch size)");
}

TEST(TrainDual, CheckpointedActivationsTrainTheSame) {
  const SmallData data;
  DualTrainingReport kept;
  const int64_t once = operations_of(data.options("kept"), kept);
  EXPECT_GT(once, 0);
  DualTrainingOptions options = data.options("again");
  options.checkpoint_activations = true;
  DualTrainingReport again;
  EXPECT_GT(operations_of(options, again), once);  // the blocks of the way back
  EXPECT_NEAR(again.last_loss, kept.last_loss, 1e-4);
  // It is no part of the description: a run may go on with it or without.
  EXPECT_EQ(read(data.folder() / "kept/run.json"), read(data.folder() / "again/run.json"));
}

TEST(TrainDual, ResumesExactly) {
  const SmallData data;
  const DualTrainingReport whole = train(data.options("whole"));
  ASSERT_TRUE(whole.finished);

  std::stop_source stop;
  const DualTrainingOptions halved = data.options("halved");
  const DualTrainingReport half = train(halved, stop.get_token(), [&](const ProgressUpdate& update) {
    if (update.what == "training" && update.done == 3) stop.request_stop();
  });
  EXPECT_FALSE(half.finished);
  EXPECT_EQ(half.steps, 3);
  const DualTrainingReport rest = train(halved);
  EXPECT_TRUE(rest.finished);
  EXPECT_EQ(read(whole.model / "model.safetensors"), read(rest.model / "model.safetensors"));
  EXPECT_EQ(read(data.folder() / "whole/metrics.jsonl"), read(data.folder() / "halved/metrics.jsonl"));
}

TEST(TrainDual, WritesTheUntrainedModelAndHalfWeights) {
  const SmallData data;
  DualTrainingOptions options = data.options("untrained");
  options.steps = 0;
  const DualTrainingReport whole = train(options);
  EXPECT_TRUE(whole.finished);
  ASSERT_EQ(whole.best.size(), 1U);
  options.run = data.folder() / "untrained-half";
  options.weights = WeightsFormat::kFp16;
  const DualTrainingReport half = train(options);
  const auto size = [](const DualTrainingReport& report) {
    return fs::file_size(report.model / "model.safetensors");
  };
  EXPECT_LT(size(half), size(whole) * 6 / 10);
  auto encoder = load_encoder(half.model);
  ASSERT_TRUE(encoder) << encoder.error().message;
  ThreadPool pool(2);
  const auto recall = one_caption_recall(**encoder, options.held_out[0], pool);
  ASSERT_TRUE(recall) << recall.error().message;
  EXPECT_NEAR(recall->text_to_image.r10, whole.best[0].text_to_image.r10, 0.1);
}

TEST(TrainDual, SaysWhichPicturesItLeavesOutAlsoWhenTheyComeFromTheCache) {
  const SmallData data;
  DualTrainingOptions options = data.options("left-out");
  options.steps = 0;
  std::ofstream(data.folder() / "broken.png") << "not a picture";
  std::ofstream(data.folder() / "broken.jsonl") << R"({"image": "broken.png", "captions": ["x"]})"
                                                << "\n";
  options.datasets.emplace_back(data.folder() / "broken.jsonl");
  for (const char* run : {"left-out-1", "left-out-2"}) {
    options.run = data.folder() / run;
    options.cache = data.folder() / "cache";
    const DualTrainingReport report = train(options);
    ASSERT_EQ(report.left_out.size(), 1U) << run;
    EXPECT_NE(report.left_out[0].find("broken.png: "), std::string::npos) << report.left_out[0];
  }
}

TEST(TrainDual, SeedDecides) {
  const SmallData data;
  DualTrainingOptions other = data.options("other");
  other.seed = 2;
  EXPECT_NE(read(train(data.options("one")).model / "model.safetensors"),
            read(train(other).model / "model.safetensors"));
}

TEST(TrainDual, TheTemperatureStaysWithinBounds) {
  const SmallData data;
  Json architecture = read_json(data.folder() / "arch.json").value();
  constexpr std::pair<double, double> kStartsAndBounds[] = {{9, 100}, {-5, 1}};  // logarithm, scale
  for (const auto& [start, bound] : kStartsAndBounds) {
    architecture["model"]["logit_scale_init_value"] = start;
    data.folder().write("arch.json", dump_json(architecture));
    DualTrainingOptions options = data.options(fmt::format("bound-{}", bound));
    options.held_out.clear();
    options.steps = 1;
    train(options);
    const Json line = parse_json(read(options.run / "metrics.jsonl")).value();
    EXPECT_NEAR(line["logit_scale"].get<double>(), bound, 1e-3);
  }
}

TEST(TrainDual, PatchDropoutAndBf16Train) {
  const SmallData data;
  DualTrainingOptions options = data.options("bf16");
  options.precision = Precision::kBf16;
  options.patch_dropout = 0.5;
  const DualTrainingReport report = train(options);
  EXPECT_TRUE(report.finished);
  EXPECT_TRUE(std::isfinite(report.last_loss));
}

TEST(TrainDual, RefusesWhatCannotBe) {
  const SmallData data;
  const auto error_of = [&](auto change) {
    DualTrainingOptions options = data.options("refused");
    change(options);
    const auto report = train_dual(options, {}, {});
    EXPECT_FALSE(report);
    return report ? Error{} : report.error();
  };
  EXPECT_EQ(error_of([](auto& o) { o.batch = 1000; }).code, ErrorCode::kUsage);
  EXPECT_EQ(error_of([](auto& o) { o.learning_rate = -1; }).code, ErrorCode::kUsage);
  EXPECT_EQ(error_of([&](auto& o) { o.datasets = {data.folder() / "missing.jsonl"}; }).code,
            ErrorCode::kNotFound);
  EXPECT_EQ(error_of([&](auto& o) { o.config = data.folder() / "missing.json"; }).code, ErrorCode::kNotFound);
  train(data.options("taken"));
  EXPECT_EQ(error_of([&](auto& o) {
              o = data.options("taken");
              o.seed = 5;
            }).code,
            ErrorCode::kMismatch);
  {
    const auto lock = lock_file(data.folder() / "taken/lock", "training into this run folder");
    ASSERT_TRUE(lock) << lock.error().message;
    const Error busy = error_of([&](auto& o) { o = data.options("taken"); });
    EXPECT_EQ(busy.code, ErrorCode::kCancelled);
    EXPECT_NE(busy.message.find("is training into this run folder"), std::string::npos) << busy.message;
  }
  // A missing held-out image would change the figure.
  std::ofstream(data.folder() / "broken.jsonl") << R"({"image": "missing.png", "captions": ["x"]})"
                                                << "\n";
  EXPECT_NE(
      error_of([&](auto& o) { o.held_out = {data.folder() / "broken.jsonl"}; }).message.find("missing.png"),
      std::string::npos);
}

}  // namespace
}  // namespace saccade::lab
