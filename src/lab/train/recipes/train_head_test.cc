// Tests of heads: their loss and gradients against plain sums, their batches, trainings end to end and
// resumed, and invalid training data.
#include "lab/train/recipes/train_head.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/train/math/test_gradients.h"
#include "lab/train/math/test_shapes.h"
#include "lab/train/tasks/head_task.h"
#include "saccade/core/hash.h"
#include "saccade/model/conform/conform.h"
#include "saccade/model/families/blip2.h"
#include "saccade/model/model_test_support.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using saccade::test::save;
using test::read;
using testing::HasSubstr;
using torch::Tensor;

// Features of images and texts that show the same thing: a few hidden numbers, each mapped by a matrix of its
// own. Those of texts are bent, so that an MLP can learn more than a linear head.
struct Synthetic {
  int64_t images = 0;
  int64_t image_width = 12;
  int64_t text_width = 10;
  int texts_each = 2;
  uint32_t seed = 1;
};

nn::TensorMap synthetic(const Synthetic& options) {
  const auto normal = [](uint32_t seed, nn::Shape shape) {
    std::mt19937 random(seed);
    std::normal_distribution<float> draw;
    nn::Tensor tensor = nn::Tensor::empty(std::move(shape));
    for (float& value : tensor.floats()) value = draw(random);
    return tensor;
  };
  constexpr int64_t kHidden = 6;
  const nn::Tensor hidden = normal(options.seed, {options.images, kHidden});
  const nn::Tensor to_image = normal(1001, {kHidden, options.image_width});
  const nn::Tensor to_text = normal(1002, {kHidden, options.text_width});
  const int64_t texts = options.images * options.texts_each;
  const nn::Tensor noise = normal(options.seed + 500, {texts, options.text_width});
  nn::TensorMap file;
  file["image_features"] = nn::Tensor::empty({options.images, options.image_width});
  file["text_features"] = nn::Tensor::empty({texts, options.text_width});
  file["text_image"] = nn::Tensor::full_integers({texts}, 0);
  for (int64_t i = 0; i < options.images; ++i) {
    for (int64_t c = 0; c < options.image_width; ++c) {
      float sum = 0;
      for (int64_t h = 0; h < kHidden; ++h) {
        sum += static_cast<float>(hidden.at({i, h}) * to_image.at({h, c}));
      }
      file["image_features"].data<float>()[i * options.image_width + c] = sum;
    }
  }
  for (int64_t t = 0; t < texts; ++t) {
    const int64_t image = t / options.texts_each;
    file["text_image"].data<int64_t>()[t] = image;
    for (int64_t c = 0; c < options.text_width; ++c) {
      float sum = 0;
      for (int64_t h = 0; h < kHidden; ++h) {
        sum += static_cast<float>(hidden.at({image, h}) * to_text.at({h, c}));
      }
      file["text_features"].data<float>()[t * options.text_width + c] =
          std::tanh(sum) + 0.05F * static_cast<float>(noise.at({t, c}));
    }
  }
  return file;
}

class TrainHead : public testing::Test {
 protected:
  TrainHead() {
    EXPECT_TRUE(save(folder_ / "train.safetensors", synthetic({.images = 300})));
    EXPECT_TRUE(save(folder_ / "held.safetensors", synthetic({.images = 60, .seed = 2})));
    EXPECT_TRUE(save(folder_ / "test.safetensors", synthetic({.images = 80, .seed = 3})));
  }

  [[nodiscard]] HeadTrainingOptions options(const std::string& run, HeadKind kind = HeadKind::kMlp) const {
    HeadTrainingOptions options;
    options.features = folder_ / "train.safetensors";
    options.held_out = {(folder_ / "held.safetensors").string()};
    options.test = {(folder_ / "test.safetensors").string()};
    options.run = folder_ / run;
    options.kind = kind;
    options.pairs = 400;
    options.epochs = 6;
    options.batch = 40;
    options.width = 16;
    options.hidden_width = 20;
    options.learning_rate = 5e-3;
    options.bootstrap.resamples = 200;
    options.checkpoint_every = 7;
    options.encoder.threads = 1;  // tests run side by side
    return options;
  }

  static HeadTrainingReport train(const HeadTrainingOptions& options, std::stop_token stop = {},
                                  const ProgressCallback& progress = {}) {
    auto report = train_head(options, progress, stop);
    EXPECT_TRUE(report) << report.error().message;
    return report.value_or(HeadTrainingReport{});
  }

  void expect_refused(const HeadTrainingOptions& options, ErrorCode code, const std::string& words) {
    const bool there = fs::exists(options.run);
    const auto report = train_head(options, {}, {});
    ASSERT_FALSE(report) << words;
    EXPECT_EQ(report.error().code, code) << report.error().message;
    EXPECT_THAT(report.error().message, HasSubstr(words));
    EXPECT_EQ(fs::exists(options.run), there) << words;
  }

  test::TestFolder folder_;
};

// --- the loss -------------------------------------------------------------------------------------------

using Values = std::map<std::string, std::vector<double>>;

// Computes the study's loss in plain sums of doubles: heads, normalization, temperature, and cross-entropy in
// both directions with a row's target spread over its positives.
double plain_loss(const Values& weights, const HeadConfig& config, const HeadBatch& batch) {
  const auto n = static_cast<size_t>(batch.images.size(0));
  const auto side = [&](const std::string& name, const Tensor& features) {
    std::vector<std::vector<double>> rows;
    for (size_t i = 0; i < n; ++i) {
      std::vector<double> row;
      for (int64_t c = 0; c < features.size(1); ++c) {
        row.push_back(features[static_cast<int64_t>(i)][c].item<double>());
      }
      for (const std::string layer : {"in", "out"}) {
        if (layer == "in" && config.kind == HeadKind::kLinear) continue;
        const auto& weight = weights.at(name + "_head." + layer + ".weight");
        const auto& bias = weights.at(name + "_head." + layer + ".bias");
        std::vector<double> next = bias;
        for (size_t o = 0; o < next.size(); ++o) {
          for (size_t c = 0; c < row.size(); ++c) next[o] += weight[o * row.size() + c] * row[c];
          if (layer == "in") next[o] *= 0.5 * (1 + std::erf(next[o] / std::sqrt(2.0)));
        }
        row = next;
      }
      double squares = 0;
      for (const double value : row) squares += value * value;
      for (double& value : row) value /= std::sqrt(squares);
      rows.push_back(row);
    }
    return rows;
  };
  const auto images = side("image", batch.images);
  const auto texts = side("text", batch.text_rows);
  const double scale = std::exp(weights.at("logit_scale").front());
  double total = 0;
  for (const bool to_text : {true, false}) {
    for (size_t i = 0; i < n; ++i) {
      std::vector<double> logits(n);
      double sum = 0;
      for (size_t j = 0; j < n; ++j) {
        const auto& a = images[to_text ? i : j];
        const auto& b = texts[to_text ? j : i];
        for (size_t c = 0; c < a.size(); ++c) logits[j] += scale * a[c] * b[c];
        sum += std::exp(logits[j]);
      }
      double picked = 0;
      double positives = 0;
      for (size_t j = 0; j < n; ++j) {
        const auto row = static_cast<int64_t>(to_text ? i : j);
        const auto column = static_cast<int64_t>(to_text ? j : i);
        if (!batch.positives[row][column].item<bool>()) continue;
        picked += logits[j] - std::log(sum);
        ++positives;
      }
      total -= picked / positives / (2 * static_cast<double>(n));
    }
  }
  return total;
}

TEST_F(TrainHead, LossAndGradientsAreThoseOfPlainSums) {
  const FeatureFile features = FeatureFile::open(folder_ / "train.safetensors").value();
  ThreadPool pool(1);
  for (const HeadKind kind : {HeadKind::kLinear, HeadKind::kMlp}) {
    SCOPED_TRACE(enum_name(kind));
    HeadTrainingOptions given = options("run", kind);
    given.batch = 9;
    HeadConfig config;
    config.kind = kind;
    config.image_width = features.image_width();
    config.text_width = features.text_width();
    config.width = 7;
    config.hidden_width = 5;
    const std::vector<int64_t> pairs = {0, 1, 2, 3, 8, 9, 10, 11, 20};  // most images with two texts
    auto task = HeadTask::make(given, config, features, pairs, {}, pool).value();
    const HeadBatch batch = task->batch(0);
    EXPECT_GT(batch.positives.sum().item<int64_t>(), 9);
    const Tensor loss = task->loss(batch);
    loss.backward();
    Values weights;
    for (const auto& [name, tensor] : task->parameters()) {
      const Tensor flat = tensor.detach().reshape({-1}).to(at::kDouble).contiguous();
      weights[name].assign(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
    }
    EXPECT_NEAR(loss.item<double>(), plain_loss(weights, config, batch), 1e-5);
    for (auto& [name, values] : weights) {
      const Tensor gradient = task->parameters().at(name).grad().reshape({-1});
      for (size_t i = 0; i < values.size(); i += std::max<size_t>(1, values.size() / 5)) {
        const double expected =
            test::derivative(values[i], 1e-5, [&] { return plain_loss(weights, config, batch); });
        EXPECT_NEAR(gradient[static_cast<int64_t>(i)].item<double>(), expected, 2e-5) << name << " " << i;
      }
    }
  }
}

TEST_F(TrainHead, EqualTextsAndPicturesBelongTogether) {
  nn::TensorMap file = synthetic({.images = 4});  // texts 0, 1 of image 0, 2, 3 of 1, ...
  const auto copy_row = [](const nn::Tensor& tensor, int64_t from, int64_t to) {
    tensor[to].copy_from(tensor[from]);
  };
  copy_row(file["image_features"], 0, 3);
  copy_row(file["text_features"], 2, 5);  // a text of image 1 is one of image 2 too
  ASSERT_TRUE(save(folder_ / "equal.safetensors", file));
  const FeatureFile features = FeatureFile::open(folder_ / "equal.safetensors").value();
  const std::vector<std::vector<int64_t>> expected = {{0, 1, 6, 7}, {2, 3, 5}, {2, 4, 5}, {0, 1, 6, 7}};
  for (int64_t image = 0; image < 4; ++image) {
    std::vector<int64_t> texts;
    for (int64_t text = 0; text < 8; ++text) {
      if (features.belong(image, text)) texts.push_back(text);
    }
    EXPECT_EQ(texts, expected[static_cast<size_t>(image)]) << image;
  }
}

TEST_F(TrainHead, BatchesAreAFunctionOfSeedAndStep) {
  const FeatureFile features = FeatureFile::open(folder_ / "train.safetensors").value();
  ThreadPool pool(1);
  HeadTrainingOptions given = options("run");
  given.hard_negatives = 0.5;
  HeadConfig config;
  config.image_width = features.image_width();
  config.text_width = features.text_width();
  const std::vector<int64_t> pairs = choose_pairs(features.texts(), 400, 1);
  auto one = HeadTask::make(given, config, features, pairs, {}, pool).value();
  auto other = HeadTask::make(given, config, features, pairs, {}, pool).value();
  std::vector<HeadBatch> first;
  for (int64_t step = 0; step < 25; ++step) first.push_back(one->batch(step));
  for (const int64_t step : {17, 3, 24}) {
    const HeadBatch again = other->batch(step);
    const HeadBatch& there = first[static_cast<size_t>(step)];
    EXPECT_EQ(again.texts, there.texts);
    EXPECT_TRUE(at::equal(again.images, there.images));
    EXPECT_TRUE(at::equal(again.positives, there.positives));
  }
  // The drawn pairs contain each pair once per epoch: 20 per step, 400 pairs.
  std::set<int64_t> epoch;
  for (size_t step = 0; step < 20; ++step)
    epoch.insert(first[step].texts.begin(), first[step].texts.begin() + 20);
  EXPECT_EQ(epoch, std::set<int64_t>(pairs.begin(), pairs.end()));
  // The chosen pairs are negatives of the pair for which they were chosen, and nearer to it than pairs
  // usually are.
  double chosen = 0;
  double usual = 0;
  const auto cosine = [](const Tensor& a, const Tensor& b) {
    return at::dot(normalize_rows(a), normalize_rows(b)).item<double>();
  };
  for (const HeadBatch& batch : first) {
    for (int64_t k = 0; k < 20; ++k) {
      EXPECT_FALSE(batch.positives[k][20 + k].item<bool>());
      chosen += cosine(batch.images[k], batch.images[20 + k]);
      usual += cosine(batch.images[k], batch.images[(k + 1) % 20]);
    }
  }
  EXPECT_GT(chosen / 500, usual / 500 + 0.4);
}

TEST(ChoosePairs, SubsetsOfASeedLieWithinEachOther) {
  const std::vector<int64_t> some = choose_pairs(1000, 50, 7);
  const std::vector<int64_t> more = choose_pairs(1000, 200, 7);
  EXPECT_EQ(some.size(), 50U);
  EXPECT_TRUE(std::ranges::is_sorted(more));
  EXPECT_TRUE(std::ranges::includes(more, some));
  EXPECT_NE(choose_pairs(1000, 50, 8), some);
  EXPECT_EQ(choose_pairs(5, 0, 1), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(choose_pairs(5, 9, 1), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

// --- trainings ------------------------------------------------------------------------------------------

TEST_F(TrainHead, LearnsAndSaysWhatMayBeSaid) {
  const HeadTrainingReport linear = train(options("linear", HeadKind::kLinear));
  HeadTrainingOptions mlp_options = options("mlp");
  mlp_options.epochs = 30;
  mlp_options.against = {folder_ / "linear/model"};
  const HeadTrainingReport mlp = train(mlp_options);
  ASSERT_TRUE(mlp.finished);
  EXPECT_EQ(mlp.pairs, 400);
  ASSERT_EQ(mlp.outcome.size(), 1U);
  const Json& set = mlp.outcome[0];
  EXPECT_EQ(set["set"], "test");
  EXPECT_EQ(set["images"], 80);
  ASSERT_EQ(set["results"].size(), 2U);
  EXPECT_EQ(set["results"][0]["model"], "mlp");
  const Json& recall = set["results"][0]["mean_recall"];
  EXPECT_GT(recall["value"].get<double>(), 0.5);
  EXPECT_LT(recall["low"], recall["value"]);
  // Widths differ, so there is no "no head". A linear head cannot fit the bend.
  EXPECT_THAT(set["sentences"][0].get<std::string>(), HasSubstr("cannot be compared with no head"));
  EXPECT_EQ(set["verdicts"][0]["better"], true) << dump_json(set, 1);
  EXPECT_THAT(set["sentences"][1].get<std::string>(), HasSubstr("mlp is better than"));
  EXPECT_EQ(read_json(folder_ / "mlp/run.json").value()["outcome"], mlp.outcome);

  // The same training again may not be reported as better than itself.
  HeadTrainingOptions again = options("again", HeadKind::kLinear);
  again.against = {folder_ / "linear/model"};
  const Json same = train(again).outcome[0];
  EXPECT_EQ(same["verdicts"][0]["better"], false);
  EXPECT_THAT(same["sentences"][1].get<std::string>(), HasSubstr("linear cannot be called better than"));
  EXPECT_THAT(same["sentences"][1].get<std::string>(), HasSubstr("an interval that holds 0"));
  for (const char* file : {"metrics.jsonl", "model/model.safetensors", "model/config.json"}) {
    EXPECT_EQ(read(folder_ / "again" / file), read(folder_ / "linear" / file)) << file;
  }
}

TEST_F(TrainHead, GoesOnExactlyWhereItStopped) {
  const HeadTrainingOptions whole = options("whole");
  train(whole);
  for (const int64_t at : {3, 14, 31}) {
    SCOPED_TRACE(at);
    const HeadTrainingOptions cut = options(fmt::format("cut {}", at));
    std::stop_source stop;
    const HeadTrainingReport first = train(cut, stop.get_token(), [&](const ProgressUpdate& update) {
      if (update.what == "training" && update.done == at) stop.request_stop();
    });
    EXPECT_FALSE(first.finished);
    EXPECT_TRUE(first.outcome.empty());
    EXPECT_FALSE(read_json(cut.run / "run.json").value().contains("outcome"));
    const HeadTrainingReport rest = train(cut);
    EXPECT_TRUE(rest.finished);
    for (const char* file : {"metrics.jsonl", "model/model.safetensors", "state.safetensors", "run.json"}) {
      EXPECT_EQ(sha256_file(cut.run / file).value(), sha256_file(whole.run / file).value()) << file;
    }
  }
}

TEST_F(TrainHead, ComparesWithNoHeadWhereWidthsAreOne) {
  for (const auto& [name, images, seed] :
       {std::tuple{"train", 300, 1U}, {"held", 60, 2U}, {"test", 80, 3U}}) {
    ASSERT_TRUE(save(folder_ / fmt::format("{}.safetensors", name),
                     synthetic({.images = images, .text_width = 12, .seed = seed})));
  }
  const Json set = train(options("run")).outcome[0];
  ASSERT_EQ(set["results"].size(), 2U);
  EXPECT_EQ(set["results"][0]["model"], "no head");
  EXPECT_LT(set["results"][0]["mean_recall"]["value"].get<double>(), 0.2);
  EXPECT_EQ(set["verdicts"][0]["better"], true);
  EXPECT_THAT(set["sentences"][0].get<std::string>(), HasSubstr("mlp is better than no head: mean recall +"));

  // Without resamples there are no intervals, and nothing is reported as better.
  HeadTrainingOptions bare = options("bare");
  bare.bootstrap.resamples = 0;
  bare.test.clear();
  const Json said = train(bare).outcome[0];
  EXPECT_EQ(said["verdicts"][0]["better"], false);
  EXPECT_THAT(said["sentences"][0].get<std::string>(), HasSubstr("there is no interval"));
  EXPECT_THAT(said["sentences"][1].get<std::string>(), HasSubstr("which flatters the head"));
}

TEST_F(TrainHead, StopsWhenWhatIsHeldOutGetsNoBetter) {
  HeadTrainingOptions long_one = options("run", HeadKind::kLinear);
  long_one.epochs = 400;
  long_one.patience = 2;
  const HeadTrainingReport report = train(long_one);
  EXPECT_TRUE(report.finished);
  EXPECT_LT(report.steps, 3000);
  EXPECT_EQ(report.steps - report.best_step, 20);  // two epochs of ten steps
}

TEST_F(TrainHead, HalvesAreReadAsWhatTheyAre) {
  nn::TensorMap file = synthetic({.images = 300});
  file["image_features"] = file["image_features"].to(DType::kF16);
  file["text_features"] = file["text_features"].to(DType::kBF16);
  ASSERT_TRUE(save(folder_ / "train.safetensors", file));
  const FeatureFile features = FeatureFile::open(folder_ / "train.safetensors").value();
  const Matrix<float> rows = features.text_rows(3, 2);
  for (int64_t c = 0; c < 10; ++c) {
    EXPECT_EQ(rows(1, c), static_cast<float>(file["text_features"].to(DType::kF32).at({4, c})));
  }
  EXPECT_GT(train(options("run")).outcome[0]["results"][0]["mean_recall"]["value"].get<double>(), 0.3);
}

// --- what is refused ------------------------------------------------------------------------------------

TEST_F(TrainHead, RefusesFeaturesThatAreNone) {
  const auto with = [&](const std::function<void(nn::TensorMap&)>& change) {
    nn::TensorMap file = synthetic({.images = 300});
    change(file);
    EXPECT_TRUE(save(folder_ / "train.safetensors", file));
  };
  const auto refused = [&](const std::string& words) {
    SCOPED_TRACE(words);
    expect_refused(options("run"), ErrorCode::kBadData, words);
  };
  with([](nn::TensorMap& file) { file["image_features"].data<float>()[5 * 12 + 3] = std::nanf(""); });
  refused("row 5 of \"image_features\" has a value that is NaN");
  with([](nn::TensorMap& file) { file["text_features"].data<float>()[70] = INFINITY; });
  refused("row 7 of \"text_features\" has a value that is infinite");
  with([](nn::TensorMap& file) { file["text_features"][9].fill(0); });
  refused("row 9 of \"text_features\" is all zeros");
  with([](nn::TensorMap& file) { file["text_image"].data<int64_t>()[3] = 300; });
  refused("text 3 has image 300, there are 300");
  with([](nn::TensorMap& file) { file["text_image"].data<int64_t>()[3] = -2; });
  refused("text 3 has image -2");
  with([](nn::TensorMap& file) { file["text_image"] = file["text_image"].slice(0, 0, 10); });
  refused("\"text_image\" for 10 texts, there are 600");
  with([](nn::TensorMap& file) { file["text_image"] = nn::Tensor::zeros({600}); });
  refused("\"text_image\"");
  with([](nn::TensorMap& file) { file["image_features"] = file["image_features"].to(DType::kF64); });
  refused("\"image_features\" of F64, expected F32, F16 or BF16");
  with([](nn::TensorMap& file) { file["image_features"] = file["image_features"].view({-1}); });
  refused("expected [rows, width]");
  with([](nn::TensorMap& file) { file.erase("text_features"); });
  refused("no tensor \"text_features\"; there are: image_features, text_image");
  folder_.write("train.safetensors", "nothing of the kind");
  refused("train.safetensors");
}

TEST_F(TrainHead, RefusesWhatCannotBeTrained) {
  HeadTrainingOptions few = options("run");
  few.batch = 401;
  expect_refused(few, ErrorCode::kUsage, "a batch of 401 from 400 pairs");
  HeadTrainingOptions same = options("run");
  same.held_out = {same.features.string()};
  expect_refused(same, ErrorCode::kUsage, "must be apart");
  HeadTrainingOptions both = options("run");
  both.test = both.held_out;
  expect_refused(both, ErrorCode::kUsage, "must be apart");
  HeadTrainingOptions none = options("run");
  none.features.clear();
  expect_refused(none, ErrorCode::kUsage, "--dataset");
  for (const bool texts : {true, false}) {  // one class only
    nn::TensorMap file = synthetic({.images = 300});
    const nn::Tensor& rows = file[texts ? "text_features" : "image_features"];
    for (int64_t i = 1; i < rows.size(0); ++i) rows[i].copy_from(rows[0]);
    HeadTrainingOptions one = options("run");
    one.features = folder_ / "one.safetensors";
    ASSERT_TRUE(save(one.features, file));
    expect_refused(one, ErrorCode::kBadData,
                   "one class only: all 400 pairs have the same image or the same text");
  }
  HeadTrainingOptions wide = options("run");
  ASSERT_TRUE(save(folder_ / "held.safetensors", synthetic({.images = 60, .image_width = 13, .seed = 2})));
  expect_refused(wide, ErrorCode::kMismatch, "features of widths 13 and 10, those trained on have 12 and 10");
}

TEST_F(TrainHead, MicroBatchesGiveTheWholeBatchsGradients) {
  const FeatureFile features = FeatureFile::open(folder_ / "train.safetensors").value();
  ThreadPool pool(1);
  HeadConfig config;
  config.kind = HeadKind::kMlp;
  config.image_width = features.image_width();
  config.text_width = features.text_width();
  config.width = 7;
  config.hidden_width = 5;
  const std::vector<int64_t> pairs = {0, 1, 2, 3, 8, 9, 10, 11, 20};
  struct Outcome {
    double loss = 0;
    TorchMap parameters;
  };
  const auto run = [&](int64_t accumulate) {
    HeadTrainingOptions given = options("run");
    given.batch = 9;
    given.accumulate = accumulate;
    auto task = HeadTask::make(given, config, features, pairs, {}, pool).value();
    const HeadBatch batch = task->batch(0);
    const Tensor loss = task->loss(batch);
    loss.backward();
    return Outcome{loss.item<double>(), task->parameters()};
  };
  const Outcome whole = run(1);
  for (const int64_t accumulate : {2, 9}) {
    SCOPED_TRACE(accumulate);
    const Outcome split = run(accumulate);
    EXPECT_NEAR(split.loss, whole.loss, 1e-5);
    for (const auto& [name, parameter] : whole.parameters) {
      ASSERT_TRUE(split.parameters.at(name).grad().defined()) << name;
      const Tensor difference = split.parameters.at(name).grad() - parameter.grad();
      const double largest = parameter.grad().abs().max().item<double>();
      EXPECT_LT(difference.abs().max().item<double>(), 1e-5 * std::max(1.0, largest)) << name;
    }
  }
  HeadTrainingOptions many = options("run");
  many.accumulate = 41;
  expect_refused(many, ErrorCode::kUsage, "accumulate is 41, expected 1 to 40 (the batch size)");
}

TEST_F(TrainHead, RefusesADeviceThatIsNotThere) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "this machine has CUDA";
  HeadTrainingOptions cuda = options("run");
  cuda.device = TrainingDevice::kCuda;
  expect_refused(cuda, ErrorCode::kUnsupported, "device cuda: this libtorch or machine has none");
}

// Whatever a GPU does not encode, the processor encodes for it.
TEST(EncoderOptions, AreThoseOfTheTrainingsDeviceWhereItEncodes) {
  const BackendOptions bf16{.precision = Precision::kBf16};
  const BackendOptions int8{.precision = Precision::kInt8};
  const auto golden = [](const char* name) {
    return (fs::path(test::kSourceDir) / "tests/golden" / name).string();
  };
  const auto device = [](TrainingDevice training, const std::string& checkpoint,
                         const BackendOptions& options) {
    const auto there = encoder_options(training, checkpoint, options);
    return there ? there->device : there.error().message;
  };
  EXPECT_EQ(device(TrainingDevice::kCpu, golden("clip-gelu"), {}), "cpu");
  EXPECT_EQ(device(TrainingDevice::kCuda, golden("clip-gelu"), {}), "cuda");
  EXPECT_EQ(device(TrainingDevice::kCuda, golden("clip-gelu"), bf16), "cuda");
  EXPECT_EQ(device(TrainingDevice::kCuda, golden("clip-gelu"), int8), "cpu");
  EXPECT_EQ(device(TrainingDevice::kCuda, golden("clip-resnet"), {}), "cpu");
  EXPECT_EQ(device(TrainingDevice::kCuda, golden("siglip"), {}), "cpu");
  EXPECT_EQ(encoder_options(TrainingDevice::kCuda, golden("clip-gelu"), bf16)->precision, Precision::kBf16);
}

// A checkpoint with an error is refused, and not encoded on the processor.
TEST(EncoderOptions, ACheckpointThatIsNotThereIsAnError) {
  const auto options = encoder_options(TrainingDevice::kCuda, "no/such/folder", {});
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().code, ErrorCode::kNotFound) << options.error().message;
}

TEST_F(TrainHead, RefusesAnotherTrainingsFolder) {
  const HeadTrainingOptions first = options("run");
  train(first);
  const std::string before = read(first.run / "run.json");
  ASSERT_TRUE(save(folder_ / "train.safetensors", synthetic({.images = 300, .seed = 9})));
  expect_refused(first, ErrorCode::kMismatch,
                 "holds another training; choose another folder: \"features_sha256\"");
  ASSERT_TRUE(save(folder_ / "train.safetensors", synthetic({.images = 300})));
  ASSERT_TRUE(save(folder_ / "held.safetensors", synthetic({.images = 61, .seed = 2})));
  expect_refused(first, ErrorCode::kMismatch, "\"held_out/0/features_sha256\"");
  EXPECT_EQ(read(first.run / "run.json"), before);
}

// A sentence of run.json was reworded. The folder of an earlier version is still this training's.
TEST_F(TrainHead, TakesAnEarlierVersionsFolder) {
  const HeadTrainingOptions given = options("run");
  const HeadTrainingReport first = train(given);
  std::string run = read(given.run / "run.json");
  const std::string now = "every text of an image is its positive";
  const size_t at = run.find(now);
  ASSERT_NE(at, std::string::npos);
  folder_.write(given.run / "run.json",
                run.replace(at, now.size(), "every text of a picture is its positive"));
  const HeadTrainingReport again = train(given);
  EXPECT_TRUE(again.finished);
  EXPECT_EQ(again.outcome, first.outcome);
}

// --- on encoders ----------------------------------------------------------------------------------------

// Shapes, split by their copies: one to train on, one to test on.
class HeadOnEncoder : public testing::Test {
 protected:
  HeadOnEncoder() {
    std::istringstream lines(read(data_.folder() / "shapes.jsonl"));
    std::string train;
    std::string test;
    for (std::string line; std::getline(lines, line);)
      (line.find("-0.png") != std::string::npos ? train : test) += line + "\n";
    (void)data_.folder().write("train.jsonl", train);
    (void)data_.folder().write("test.jsonl", test);
  }

  [[nodiscard]] HeadTrainingOptions options(const std::string& frozen) const {
    HeadTrainingOptions options;
    options.datasets = {(data_.folder() / "train.jsonl").string()};
    options.test = {(data_.folder() / "test.jsonl").string()};
    options.frozen = frozen;
    options.run = data_.folder() / "run";
    options.embed.cache = data_.folder() / "rows";
    options.batch = 16;
    options.epochs = 20;
    options.width = 24;
    options.hidden_width = 24;
    options.bootstrap.resamples = 100;
    options.encoder.threads = 1;
    return options;
  }

  // Returns the study's own encoder, in the golden's shapes, with a tokenizer of letters.
  [[nodiscard]] fs::path blip2() const {
    const fs::path frozen = data_.folder() / "blip2";
    fs::copy(fs::path(test::kSourceDir) / "tests/golden/blip2-t5", frozen);
    std::string vocabulary = "[PAD]\n[SEP]\n[CLS]\n[UNK]\n[MASK]\n";
    for (const char* before : {"", "##"}) {
      for (const char c : std::string("abcdefghijklmnopqrstuvwxyz0123456789"))
        vocabulary += fmt::format("{}{}\n", before, c);
    }
    (void)data_.folder().write("blip2/vocab.txt", vocabulary);
    return frozen;
  }

  test::SmallData data_;
};

TEST_F(HeadOnEncoder, ItsCheckpointIsAnEncoderAndConforms) {
  const std::string starter = (fs::path(test::kSourceDir) / "models/starter").string();
  const HeadTrainingOptions given = options(starter);
  const auto report = train_head(given, {}, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->finished);
  EXPECT_EQ(report->pairs, 32);
  EXPECT_EQ(report->outcome[0]["results"].size(), 2U);
  const auto conformed = conform(report->model);
  ASSERT_TRUE(conformed) << conformed.error().message;
  EXPECT_TRUE(conformed->ok) << dump_json(conform_json(*conformed), 1);
  EXPECT_EQ(conformed->answers.size(), 4U);

  // On a device the head reads the states that the device gives.
  ConformOptions on_device;
  on_device.encoder.device = "torch-cpu";
  const auto conformed_there = conform(report->model, on_device);
  ASSERT_TRUE(conformed_there) << conformed_there.error().message;
  EXPECT_TRUE(conformed_there->ok) << dump_json(conform_json(*conformed_there), 1);
  const auto here = load_encoder(report->model).value();
  const auto there = load_encoder(report->model, on_device.encoder).value();
  EXPECT_EQ(there->info().device, "torch-cpu");
  const std::vector<TokenizedText> texts = {here->tokenizer()->encode("a red bar", here->info().context),
                                            here->tokenizer()->encode("green", here->info().context)};
  const Matrix<float> expected = here->encode_texts(texts).value();
  const Matrix<float> rows = there->encode_texts(texts).value();
  ASSERT_EQ(rows.values().size(), expected.values().size());
  for (size_t i = 0; i < rows.values().size(); ++i) {
    EXPECT_NEAR(rows.values()[i], expected.values()[i], 1e-4) << i;
  }

  // The second time, the existing features are used, without the cache.
  const auto written = fs::last_write_time(given.run / "features/train.safetensors");
  fs::remove_all(given.embed.cache);
  const auto again = train_head(given, {}, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->outcome, report->outcome);
  (void)written;

  // A training goes on with the same encoder under another name.
  Json description = read_json(given.run / "run.json").value();
  ASSERT_EQ(description["frozen"]["name"], "starter");
  description["frozen"]["name"] = "model";
  ASSERT_TRUE(write_file_atomic(given.run / "run.json", dump_json(description, 2)));
  EXPECT_TRUE(train_head(given, {}, {}));

  // So does one whose run.json does not count what was left out, as earlier versions wrote it.
  for (const char* sets : {"datasets", "test"}) {
    ASSERT_TRUE(description[sets][0].contains("excluded")) << sets;
    description[sets][0].erase("excluded");
  }
  ASSERT_TRUE(write_file_atomic(given.run / "run.json", dump_json(description, 2)));
  EXPECT_TRUE(train_head(given, {}, {}));

  // An image replaced under its name counts as other data, and the refusal leaves everything unchanged.
  const std::string before = read(given.run / "run.json");
  fs::copy_file(data_.folder() / "red-bar-0.png", data_.folder() / "blue-post-0.png",
                fs::copy_options::overwrite_existing);
  const auto other = train_head(given, {}, {});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("features_sha256"));
  EXPECT_EQ(read(given.run / "run.json"), before);
}

TEST_F(HeadOnEncoder, TestPicturesAreNotTrainedOn) {
  HeadTrainingOptions given = options((fs::path(test::kSourceDir) / "models/starter").string());
  given.test = {(data_.folder() / "shapes.jsonl").string()};
  const auto report = train_head(given, {}, {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUsage);
  EXPECT_THAT(report.error().message, HasSubstr("16 images elsewhere in this training too"));
  EXPECT_FALSE(fs::exists(given.run));
}

TEST_F(HeadOnEncoder, APictureThatCannotBeReadIsLeftOutOfTrainingAndNotOfTests) {
  const std::string starter = (fs::path(test::kSourceDir) / "models/starter").string();
  HeadTrainingOptions given = options(starter);
  given.batch = 10;
  (void)data_.folder().write("blue-bar-0.png", "no picture");
  const auto report = train_head(given, {}, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->pairs, 30);
  ASSERT_EQ(report->left_out.size(), 1U);
  EXPECT_THAT(report->left_out[0], HasSubstr("blue-bar-0.png"));
  (void)data_.folder().write("blue-bar-1.png", "no picture");
  given.run = data_.folder() / "other";
  const auto refused = train_head(given, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("1 image cannot be read"));
  EXPECT_FALSE(fs::exists(given.run));
}

// Uses the study's own inputs: BLIP-2's query states and T5's, in the golden's shapes.
TEST_F(HeadOnEncoder, TrainsOnBlip2) {
  const fs::path frozen = blip2();
  HeadTrainingOptions given = options(frozen.string());
  for (const ImageStates states : {ImageStates::kQueries, ImageStates::kProjected}) {
    given.run = data_.folder() / enum_name(states);
    given.image_states = states;
    given.pooling = states == ImageStates::kQueries ? Pooling::kMean : Pooling::kMax;
    const auto report = train_head(given, {}, {});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->finished);
    const Json config = read_json(report->model / "config.json").value();
    EXPECT_EQ(config["image_states"], enum_name(states));
    EXPECT_EQ(config["text_states"], "tokens");
    const auto conformed = conform(report->model);
    ASSERT_TRUE(conformed) << conformed.error().message;
    EXPECT_TRUE(conformed->ok) << dump_json(conform_json(*conformed), 1);
  }
  // A head on other states cannot be compared with.
  given.run = data_.folder() / "third";
  given.against = {data_.folder() / "queries/model"};
  const auto refused = train_head(given, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("it reads images' queries"));
  // Neither can one on another encoder.
  given.frozen = (fs::path(test::kSourceDir) / "models/starter").string();
  given.image_states.reset();
  const auto other = train_head(given, {}, {});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("a head for another encoder"));
}

// A trained Q-Former begins as the frozen one: the first loss is that of a head on its queries. Its gradients
// are checked by finite differences.
TEST_F(HeadOnEncoder, ATrainedQFormerBeginsAsTheFrozenOne) {
  const fs::path folder = blip2();
  auto encoder = load_encoder(folder).value();
  const FrozenQFormer frozen = read_qformer(folder).value();
  std::mt19937 random(5);
  std::normal_distribution<float> draw;
  const EncoderInfo& info = encoder->info();
  constexpr int64_t kPictures = 6;
  Matrix<float> pixels(kPictures, int64_t{3} * info.image_height * info.image_width);
  for (float& value : pixels.values()) value = draw(random);
  std::vector<TokenizedText> texts;
  for (int32_t i = 0; i < kPictures; ++i) texts.push_back({.ids = {5 + i, 9, 7 + 2 * i, 1}});
  ThreadPool pool(1);
  std::vector<int64_t> pairs = {0, 1, 2, 3, 4, 5};
  for (const Pooling pooling : {Pooling::kMean, Pooling::kMax, Pooling::kFirst, Pooling::kLast}) {
    HeadTrainingOptions given = options(folder.string());
    given.batch = kPictures;
    given.qformer_rate = 2e-4;
    std::vector<double> losses;
    for (const ImageStates states : {ImageStates::kQueries, ImageStates::kVision}) {
      HeadConfig config;
      config.input = {states, TextStates::kTokens, pooling};
      config.hidden_width = config.width = 24;
      if (states == ImageStates::kVision) {
        config.qformer = HeadQFormer{frozen.config, frozen.queries, frozen.memory_rows};
      }
      const Matrix<float> images = image_head_input(*encoder, config.input, pixels.view()).value();
      const Matrix<float> rows = text_head_input(*encoder, config.input, texts).value();
      config.image_width = images.columns();
      config.text_width = rows.columns();
      const fs::path path =
          data_.folder() / fmt::format("{}-{}.safetensors", enum_name(states), enum_name(pooling));
      nn::TensorMap file;
      file["image_features"] = nn::Tensor::of(images.values(), {images.rows(), images.columns()});
      file["text_features"] = nn::Tensor::of(rows.values(), {rows.rows(), rows.columns()});
      file["text_image"] = nn::Tensor::full_integers({kPictures}, 0);
      for (int64_t i = 0; i < kPictures; ++i) file["text_image"].data<int64_t>()[i] = i;
      ASSERT_TRUE(save(path, file));
      const FeatureFile features = FeatureFile::open(path).value();
      auto task = HeadTask::make(given, config, features, pairs, {}, pool, frozen.weights.tensors);
      ASSERT_TRUE(task) << task.error().message;
      const HeadBatch batch = (*task)->batch(0);
      const Tensor loss = (*task)->loss(batch);
      losses.push_back(loss.item<double>());
      if (states == ImageStates::kQueries) continue;
      EXPECT_DOUBLE_EQ((*task)->rate_of("query_tokens"), 0.2);
      EXPECT_DOUBLE_EQ((*task)->rate_of("image_head.in.weight"), 1);
      loss.backward();
      for (const char* name :
           {"query_tokens", "qformer.encoder.layer.0.crossattention.attention.value.weight",
            "qformer.encoder.layer.0.intermediate_query.dense.bias"}) {
        const Tensor& parameter = (*task)->parameters().at(name);
        const Tensor gradient = parameter.grad();
        ASSERT_TRUE(gradient.defined()) << name;
        const torch::NoGradGuard no_grad;
        const double slope = test::derivative_along(gradient / gradient.norm(), parameter, 2e-3,
                                                    [&] { return (*task)->loss(batch).item<double>(); });
        EXPECT_NEAR(slope / gradient.norm().item<double>(), 1, 0.05) << name << " " << enum_name(pooling);
      }
    }
    EXPECT_NEAR(losses[0], losses[1], 1e-4) << enum_name(pooling);
  }
}

// Tests the study's future work: the Q-Former trained with the head. The result is a checkpoint like any
// other. It holds its own Q-Former and still names the encoder of its initial weights.
TEST_F(HeadOnEncoder, TrainsTheQFormerToo) {
  HeadTrainingOptions given = options(blip2().string());
  given.train_qformer = true;
  given.qformer_rate = 1e-3;
  const auto report = train_head(given, {}, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->finished);
  const Json config = read_json(report->model / "config.json").value();
  EXPECT_EQ(config["image_states"], "vision");
  EXPECT_TRUE(config["qformer"].is_object());
  const auto conformed = conform(report->model);
  ASSERT_TRUE(conformed) << conformed.error().message;
  EXPECT_TRUE(conformed->ok) << dump_json(conform_json(*conformed), 1);
  const auto before = SafeTensors::open(data_.folder() / "blip2/model.safetensors").value();
  const auto after = SafeTensors::open(report->model / "model.safetensors").value();
  int own = 0;
  for (const auto& [name, view] : after.tensors()) {
    if (name != "query_tokens" && !name.starts_with("qformer.")) continue;
    ++own;
    // A key's bias does not change the attention, so it has no gradient.
    if (name.ends_with("key.bias")) continue;
    EXPECT_NE(view.to_floats().value(), before.find(name)->to_floats().value()) << name;
  }
  EXPECT_GT(own, 20);
  // With another learning rate it is another training.
  given.qformer_rate = 2e-3;
  const auto other = train_head(given, {}, {});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("qformer_rate"));
  // An image's embedding is the head's: from its own Q-Former, over the frozen vision tower.
  auto encoder = load_encoder(report->model).value();
  auto frozen = load_encoder(given.frozen).value();
  const auto head = FeatureHead::open(report->model).value();
  const EncoderInfo& info = frozen->info();
  Matrix<float> pixels(2, int64_t{3} * info.image_height * info.image_width);
  for (size_t i = 0; i < pixels.values().size(); ++i) pixels.values()[i] = static_cast<float>(i % 7) - 3;
  const RowSets memory =
      frozen->frozen_features()->image_features(pixels.view(), FrozenFeatures::ImageState::kVision).value();
  const MatrixView<const float> flat(memory.rows.data(), 2, std::ssize(memory.rows.values()) / 2);
  const Matrix<float> rows = encoder->encode_images(pixels.view()).value();
  const Matrix<float> same = head->image_rows(flat).value();
  for (size_t i = 0; i < rows.values().size(); ++i) EXPECT_NEAR(rows.values()[i], same.values()[i], 1e-6);
}

TEST_F(HeadOnEncoder, RefusesAQFormerThatIsNotThere) {
  const std::string starter = (fs::path(test::kSourceDir) / "models/starter").string();
  const auto refused = [](const HeadTrainingOptions& given, const std::string& words) {
    const auto report = train_head(given, {}, {});
    ASSERT_FALSE(report) << words;
    EXPECT_EQ(report.error().code, ErrorCode::kUsage);
    EXPECT_THAT(report.error().message, HasSubstr(words));
    EXPECT_FALSE(fs::exists(given.run));
  };
  HeadTrainingOptions given = options(starter);
  given.train_qformer = true;
  refused(given, "it has no Q-Former (model_type \"clip\"");
  given.image_states = ImageStates::kRows;
  refused(given, "reads the vision tower's states, not \"rows\"");
  given.image_states.reset();
  given.hard_negatives = 0.1;
  refused(given, "hard negatives are chosen by frozen features");
  given.hard_negatives = 0;
  given.qformer_rate = 0;
  refused(given, "learning rate is 0");
  given.qformer_rate = 1e-5;
  given.frozen.clear();
  given.datasets.clear();
  given.features = "features.safetensors";
  refused(given, "of no encoder");
  given = options(starter);
  given.image_states = ImageStates::kVision;
  refused(given, "for a Q-Former that is trained with the head");
  given.image_states = ImageStates::kProjected;
  refused(given, "the encoder (clip) gives no states of projected: it has rows, pooled");
}

}  // namespace
}  // namespace saccade::lab
