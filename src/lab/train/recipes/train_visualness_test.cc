// Tests of training to classify visual texts: the objective against the reference's numbers, and trainings
// end to end on small data.
#include "lab/train/recipes/train_visualness.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lab/data/read_dataset.h"
#include "lab/eval/visualness/binary.h"
#include "lab/train/data/visualness_data.h"
#include "lab/train/math/objective.h"
#include "lab/train/math/test_gradients.h"
#include "lab/train/math/test_graph.h"
#include "lab/train/math/test_shapes.h"
#include "lab/train/math/variable.h"
#include "lab/train/tasks/visualness_task.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/hash.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/nn/parameters.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using test::read;
using test::SmallData;
using torch::Tensor;

double max_difference(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

TEST(NullPictureLoss, LiteralLossAndGradientsAreTheReferences) {
  const auto file = SafeTensors::open(fs::path(test::kSourceDir) / "tests/golden/objectives/io.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  const TorchMap io = torch_tensors(*file).value();
  const Tensor images = io.at("images").clone().requires_grad_(true);
  const Tensor texts = io.at("texts").clone().requires_grad_(true);
  const Tensor scale = io.at("log_inverse_temperature").clone().requires_grad_(true);
  const Tensor null_picture = normalize_rows(io.at("null_image").unsqueeze(0)).squeeze(0);
  const Tensor visual = io.at("is_visual").to(at::kBool);
  ASSERT_GT(visual.sum().item<int64_t>(), 0);
  ASSERT_LT(visual.sum().item<int64_t>(), 7);  // several rows share the NULL image
  const Tensor loss =
      null_picture_loss(normalize_rows(images), normalize_rows(texts), visual, null_picture, scale);
  loss.backward();
  EXPECT_LT(max_difference(loss, io.at("null_image_loss")), 1e-5);
  EXPECT_LT(max_difference(images.grad(), io.at("null_image_grad_images")), 1e-5);
  EXPECT_LT(max_difference(texts.grad(), io.at("null_image_grad_texts")), 1e-5);
  EXPECT_LT(max_difference(scale.grad(), io.at("null_image_grad_log_inverse_temperature")), 1e-5);
}

struct Rows {
  Tensor images = normalize_rows(torch::randn({6, 5}, at::kDouble));
  Tensor texts = normalize_rows(torch::randn({6, 5}, at::kDouble));
  Tensor null_picture = normalize_rows(torch::randn({1, 5}, at::kDouble)).squeeze(0);
  Tensor scale = torch::full({}, 1.7, at::kDouble);
  Tensor visual = torch::tensor({1, 0, 1, 0, 1, 0}).to(at::kBool);
  Tensor pictures = torch::tensor({4, 0, 9, 0, 4, 0});
};

double loss_of(const Rows& rows, bool literal) {
  return null_picture_loss(rows.images, rows.texts, rows.visual, rows.null_picture, rows.scale,
                           literal ? Tensor() : rows.pictures)
      .item<double>();
}

// Computes sum by sum: the texts of an image, and the copies of a text's image, are positives together.
TEST(NullPictureLoss, MultiPositiveSharesPictures) {
  torch::manual_seed(3);
  Rows rows;
  rows.images[4].copy_(rows.images[0]);  // one image of two texts
  const auto owner = [&](int64_t i) {
    return rows.visual[i].item<bool>() ? rows.pictures[i].item<int64_t>() : -1;
  };
  const auto picture = [&](int64_t i) { return owner(i) < 0 ? rows.null_picture : rows.images[i]; };
  const auto likeness = [&](int64_t i, int64_t j) {
    return std::exp(std::exp(1.7) * picture(i).dot(rows.texts[j]).item<double>());
  };
  double expected = 0;
  double literal = 0;
  for (const bool by_text : {false, true}) {
    for (int64_t i = 0; i < 6; ++i) {
      double all = 0;
      double right = 0;
      for (int64_t j = 0; j < 6; ++j) {
        const double each = by_text ? likeness(j, i) : likeness(i, j);
        all += each;
        if (owner(i) == owner(j)) right += each;
      }
      expected += std::log(all / right) / 12;
      literal += std::log(all / likeness(i, i)) / 12;
    }
  }
  EXPECT_NEAR(loss_of(rows, false), expected, 1e-9);
  EXPECT_NEAR(loss_of(rows, true), literal, 1e-9);
  EXPECT_GT(literal, expected + 0.5);
}

TEST(NullPictureLoss, TheLossesAreOneWhereNoPictureStandsTwice) {
  torch::manual_seed(5);
  Rows rows;
  rows.visual = torch::tensor({1, 0, 1, 1, 1, 1}).to(at::kBool);
  rows.pictures = torch::tensor({4, 0, 9, 0, 5, 1});  // 0 twice: at the NULL image's text it is not read
  EXPECT_NEAR(loss_of(rows, false), loss_of(rows, true), 1e-12);
  rows.pictures[5] = 9;
  EXPECT_LT(loss_of(rows, false), loss_of(rows, true) - 1e-3);
}

// If every text equals its image, the loss is 0. The literal loss keeps log 3 of the NULL image's rows.
TEST(NullPictureLoss, MultiPositiveFallsToZero) {
  Rows rows;
  const Tensor axes = torch::eye(6, at::kDouble);
  rows.images = axes.slice(1, 0, 5).clone();
  rows.null_picture = torch::tensor({0, 0, 0, 0, 1}, at::kDouble);
  rows.visual = torch::tensor({1, 1, 1, 0, 0, 0}).to(at::kBool);
  rows.pictures = torch::tensor({3, 5, 7, 0, 0, 0});
  rows.texts = at::where(rows.visual.unsqueeze(1), rows.images, rows.null_picture.unsqueeze(0));
  rows.scale.fill_(std::log(50.0));
  EXPECT_NEAR(loss_of(rows, false), 0, 1e-9);
  EXPECT_NEAR(loss_of(rows, true), std::log(3.0) / 2, 1e-9);
}

// A text nearer to the NULL image than the other non-visual ones is attracted; the literal loss pushes it
// away.
TEST(NullPictureLoss, MultiPositivePushesNoTextFromItsPicture) {
  for (const bool literal : {false, true}) {
    Rows rows;
    const Tensor zero = torch::zeros({6, 1}, at::kDouble);
    torch::manual_seed(6);
    // The NULL image has an axis of its own, so a text's gradient along it comes from the NULL image's logits
    // alone.
    rows.images = at::cat({normalize_rows(torch::randn({6, 4}, at::kDouble)), zero}, 1);
    rows.null_picture = torch::tensor({0, 0, 0, 0, 1}, at::kDouble);
    rows.texts.index_put_({1}, rows.null_picture);
    rows.texts.requires_grad_(true);
    null_picture_loss(rows.images, rows.texts, rows.visual, rows.null_picture, rows.scale,
                      literal ? Tensor() : rows.pictures)
        .backward();
    const Tensor along = rows.texts.grad().matmul(rows.null_picture);
    for (const int64_t i : {1, 3, 5}) {
      if (literal && i == 1) {
        EXPECT_GT(along[i].item<double>(), 0);
      } else {
        EXPECT_LT(along[i].item<double>(), 0) << i;
      }
    }
  }
}

TEST(NullPictureLoss, GradientsAreFiniteDifferences) {
  torch::manual_seed(4);
  for (const bool literal : {false, true}) {
    Rows rows;
    const auto loss = [&] {
      return null_picture_loss(rows.images, rows.texts, rows.visual, rows.null_picture, rows.scale,
                               literal ? Tensor() : rows.pictures);
    };
    for (Tensor* tensor : {&rows.images, &rows.texts, &rows.null_picture, &rows.scale}) {
      tensor->requires_grad_(true);
    }
    loss().backward();
    const torch::NoGradGuard no_grad;
    for (Tensor* tensor : {&rows.images, &rows.texts, &rows.null_picture, &rows.scale}) {
      for (int64_t i = 0; i < tensor->numel(); ++i) {
        const double expected =
            test::derivative(tensor->data_ptr<double>()[i], 1e-6, [&] { return loss().item<double>(); });
        EXPECT_NEAR(tensor->grad().flatten()[i].item<double>(), expected, 1e-6);
      }
    }
    // The rows in place of the NULL image are ignored.
    EXPECT_EQ(rows.images.grad()[1].abs().max().item<double>(), 0);
    EXPECT_GT(rows.null_picture.grad().abs().max().item<double>(), 0);
  }
}

// The shapes of test_shapes.h as visual texts, and non-visual ones.
class VisualnessTraining : public testing::Test {
 protected:
  VisualnessTraining() {
    DualTrainingOptions base = data_.options("base");
    base.steps = 0;  // random weights
    base_ = test::train(base).model;
    std::string train;
    std::string validation;
    int number = 0;
    for (const char* colour : {"red", "green", "blue", "yellow"}) {
      for (const char* shape : {"square", "bar", "post", "frame"}) {
        std::string& to = number++ % 4 == 3 ? validation : train;
        to += fmt::format("{{\"text\": \"a {0} {1}\", \"visual\": true, \"image\": \"{0}-{1}-0.png\"}}\n",
                          colour, shape);
        to += fmt::format("{{\"text\": \"no {} to {} it\", \"visual\": false}}\n", kNouns[number % 4],
                          kVerbs[number % 3]);
      }
    }
    train += "{\"text\": \"one day\", \"visual\": null}\n{\"text\": \"a sea\", \"visual\": true}\n";
    train_ = data_.folder().write("train.jsonl", train);
    validation_ = data_.folder().write("validation.jsonl", validation);
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";
    for (const char* word : {"a", "no", "to", "it", "red", "green", "blue", "yellow", "square", "bar", "post",
                             "frame", "way", "claim", "reason", "rule", "prove", "waive", "know"}) {
      vocabulary += std::string(word) + "\n";
    }
    data_.folder().write("words/vocab.txt", vocabulary);
    bert_ = data_.folder().write("bert.json", R"({"model": {"hidden_size": 16, "intermediate_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 12}, "tokenizer": "words"})");
  }

  [[nodiscard]] VisualnessTrainingOptions options(const std::string& run) const {
    VisualnessTrainingOptions options;
    options.checkpoint = base_.string();
    options.automatic = {.datasets = {train_}, .epochs = 16};
    options.human = {.datasets = {train_}, .epochs = 4};
    options.validation = {validation_};
    options.run = data_.folder() / run;
    options.learning_rate = 3e-3;
    options.batch = 8;
    options.precision = Precision::kFp32;
    options.threads = 1;
    return options;
  }

  // First step of a training's first stage, with the gradients in `parameters`.
  struct Step {
    double loss = 0;
    size_t losses = 0;  // number of those that the step's is the sum of
    size_t nodes = 0;   // of their graphs
    TorchMap parameters;
  };
  static Step first_step(const VisualnessTrainingOptions& options) {
    ThreadPool pool(1);
    const auto data = load_visualness_data(options, pool, {}, {});
    EXPECT_TRUE(data) << data.error().message;
    if (!data) return {};
    const VisualnessExamples& stage = data->stages.front();
    const auto task = data->classifier
                          ? make_classifier_task(options, *data, stage, {})
                          : make_null_picture_task(options, *data, stage, data->checkpoint, pool);
    EXPECT_TRUE(task) << task.error().message;
    if (!task) return {};
    const auto losses = (*task)->prepare(0);
    EXPECT_TRUE(losses) << losses.error().message;
    if (!losses) return {};
    Step step{.losses = losses->size(), .parameters = (*task)->parameters()};
    for (const StepLoss& part : *losses) {
      const Tensor loss = part();
      step.loss += loss.item<double>();
      step.nodes += test::graph_size(loss);
      loss.backward();
    }
    return step;
  }
  // Checks that two ways to compute a step give one loss and one gradient, up to rounding.
  static void expect_same(const Step& step, const Step& whole) {
    EXPECT_NEAR(step.loss, whole.loss, 1e-4);
    ASSERT_EQ(step.parameters.size(), whole.parameters.size());
    int trained = 0;
    for (const auto& [name, parameter] : whole.parameters) {
      const Tensor& same = step.parameters.at(name);
      ASSERT_EQ(same.grad().defined(), parameter.grad().defined()) << name;
      if (!parameter.grad().defined()) continue;
      ++trained;
      const double largest = parameter.grad().abs().max().item<double>();
      EXPECT_LT(max_difference(same.grad(), parameter.grad()), 1e-4 * std::max(1.0, largest)) << name;
    }
    EXPECT_GT(trained, 10);
  }

  [[nodiscard]] VisualnessTrainingOptions classifier(const std::string& run) const {
    VisualnessTrainingOptions options = this->options(run);
    options.checkpoint.clear();
    options.config = bert_;
    return options;
  }

  static VisualnessTrainingReport train(const VisualnessTrainingOptions& options) {
    auto report = train_visualness(options, {}, {});
    EXPECT_TRUE(report) << report.error().message;
    return report.value_or(VisualnessTrainingReport{});
  }
  static Error refusal(const VisualnessTrainingOptions& options) {
    auto report = train_visualness(options, {}, {});
    EXPECT_FALSE(report);
    return report ? Error{} : report.error();
  }
  // Returns macro F1 on the validation texts.
  [[nodiscard]] double f1_by_encoder(EncoderBackend& encoder, const KeptVisualness& kept) const {
    const Dataset validation = read_dataset(validation_).value();
    const auto& items = validation.as<RatedTexts>().items;
    std::vector<TokenizedText> texts;
    for (const RatedText& item : items) texts.push_back(encoder.tokenizer()->encode(item.text, 24));
    const auto rows = encoder.encode_texts(texts);
    EXPECT_TRUE(rows);
    if (!rows) return 0;
    const auto scores = visualness_scores(kept.null_row, rows->view());
    Confusion confusion{};
    for (size_t i = 0; i < scores.size(); ++i) {
      ++confusion[*items[i].visual ? 1 : 0][scores[i] > kept.threshold ? 1 : 0];
    }
    return binary_figures(confusion).f1;
  }
  static TorchMap weights(const SafeTensors& file) { return torch_tensors(file).value(); }

  static constexpr std::array kNouns = {"way", "claim", "reason", "rule"};
  static constexpr std::array kVerbs = {"prove", "waive", "know"};
  SmallData data_;
  fs::path base_;
  fs::path train_;
  fs::path validation_;
  fs::path bert_;
};

TEST_F(VisualnessTraining, LearnsAndKeepsWhatTheEncoderThenTells) {
  for (const TrainedPart part : {TrainedPart::kText, TrainedPart::kBoth}) {
    VisualnessTrainingOptions options = this->options(part == TrainedPart::kText ? "text" : "both");
    options.part = part;
    const VisualnessTrainingReport report = train(options);
    ASSERT_TRUE(report.finished);
    ASSERT_EQ(report.stages.size(), 2U);
    const VisualnessStageReport& last = report.stages.back();
    EXPECT_EQ(last.name, "human");
    EXPECT_EQ(last.visual, 12);
    EXPECT_EQ(last.non_visual + last.visual + 2, 26) << "what was left out";
    std::set<std::string> reasons;
    for (const Exclusion& exclusion : last.excluded) reasons.insert(exclusion.reason);
    EXPECT_TRUE(reasons.contains("ambiguous texts"));
    EXPECT_TRUE(reasons.contains("visual texts without an image"));
    EXPECT_GT(last.best.f1, 0.7);

    // An encoder of the written checkpoint gives the measured results.
    const auto encoder = load_encoder(report.model);
    ASSERT_TRUE(encoder) << encoder.error().message;
    const auto kept = read_kept_visualness(report.model, (*encoder)->info().fingerprint);
    ASSERT_TRUE(kept) << kept.error().message;
    ASSERT_TRUE(*kept);
    EXPECT_EQ((*kept)->threshold, last.best.threshold);
    const auto null_row = null_picture_row(**encoder, options.null_picture);
    ASSERT_TRUE(null_row);
    for (size_t d = 0; d < null_row->size(); ++d) EXPECT_NEAR((*null_row)[d], (*kept)->null_row[d], 1e-5);
    EXPECT_NEAR(f1_by_encoder(**encoder, **kept), last.best.f1, 1e-9);

    // If only the text tower is trained, image embeddings do not change.
    const auto before = SafeTensors::open(base_ / "model.safetensors");
    const auto after = SafeTensors::open(report.model / "model.safetensors");
    const TorchMap old_weights = weights(*before);
    int64_t changed = 0;
    for (const auto& [name, tensor] : weights(*after)) {
      const bool same = torch::equal(tensor, old_weights.at(name));
      const bool of_pictures = name.starts_with("vision_model") || name.starts_with("visual_projection");
      if (of_pictures && part == TrainedPart::kText) {
        EXPECT_TRUE(same) << name;
      }
      if (of_pictures && !same) ++changed;
    }
    EXPECT_EQ(changed > 0, part == TrainedPart::kBoth);
  }
}

// The weights of the base under the names of OpenAI and OpenCLIP: what is trained has them too.
TEST_F(VisualnessTraining, TrainsFromOtherLayoutsAndKeepsThem) {
  const auto file = SafeTensors::open(base_ / "model.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  const auto own = rename_to_open_clip(nn::borrow_tensors(*file).value());
  ASSERT_TRUE(own) << own.error().message;
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : *own) named.push_back({name, nn::view_of(tensor)});
  const Json config = {
      {"model_cfg",
       {{"embed_dim", 16},
        {"vision_cfg",
         {{"image_size", 16}, {"layers", 2}, {"width", 32}, {"head_width", 16}, {"patch_size", 4}}},
        {"text_cfg",
         {{"context_length", 24},
          {"vocab_size", own->at("token_embedding.weight").size(0)},
          {"width", 32},
          {"heads", 2},
          {"layers", 2}}}}},
      {"preprocess_cfg",
       {{"mean", {0.5, 0.5, 0.5}},
        {"std", {0.5, 0.5, 0.5}},
        {"interpolation", "bicubic"},
        {"resize_mode", "squash"}}}};
  for (const Layout layout : {Layout::kOpenClip, Layout::kOpenAi}) {
    const std::string name(layout_name(layout));
    SCOPED_TRACE(name);
    const char* weights_file =
        layout == Layout::kOpenClip ? "open_clip_model.safetensors" : "model.safetensors";
    data_.folder().write(name + "/open_clip_config.json", dump_json(config));
    for (const char* part : {"vocab.json", "merges.txt"}) {
      data_.folder().write(name + "/" + part, read(data_.folder() / "tokenizer" / part));
    }
    ASSERT_TRUE(write_safetensors(data_.folder() / name / weights_file, named));
    VisualnessTrainingOptions options = this->options("from-" + name);
    options.checkpoint = (data_.folder() / name).string();
    const VisualnessTrainingReport report = train(options);
    ASSERT_TRUE(report.finished);
    ASSERT_EQ(report.stages.size(), 2U);
    const VisualnessStageReport& last = report.stages.back();
    EXPECT_GT(last.best.f1, 0.7);

    const auto checkpoint = open_checkpoint(report.model);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->layout, layout);
    EXPECT_EQ(checkpoint->config, config);
    const auto encoder = load_encoder(report.model);
    ASSERT_TRUE(encoder) << encoder.error().message;
    const auto kept = read_kept_visualness(report.model, (*encoder)->info().fingerprint);
    ASSERT_TRUE(kept) << kept.error().message;
    ASSERT_TRUE(*kept);
    EXPECT_NEAR(f1_by_encoder(**encoder, **kept), last.best.f1, 1e-9);
    const auto after = SafeTensors::open(report.model / weights_file);
    ASSERT_TRUE(after) << after.error().message;
    const TorchMap trained = weights(*after);
    EXPECT_EQ(trained.size(), own->size());
    EXPECT_TRUE(trained.contains("visual.transformer.resblocks.1.attn.in_proj_weight"));
  }
}

TEST_F(VisualnessTraining, StoppedItGoesOnToTheSameWeights) {
  for (const TrainedPart part : {TrainedPart::kText, TrainedPart::kBoth}) {
    const std::string name = part == TrainedPart::kText ? "t" : "b";
    VisualnessTrainingOptions whole = options("whole-" + name);
    whole.part = part;
    const VisualnessTrainingReport report = train(whole);
    VisualnessTrainingOptions cut = whole;
    cut.run = data_.folder() / ("cut-" + name);
    for (int calls = 0; calls < 20; ++calls) {
      std::stop_source stop;
      int64_t steps = 0;
      const auto part_report = train_visualness(
          cut,
          [&](const ProgressUpdate& progress) {
            if (progress.what == "training" && ++steps == 7) stop.request_stop();
          },
          stop.get_token());
      ASSERT_TRUE(part_report) << part_report.error().message;
      if (part_report->finished) break;
      EXPECT_FALSE(fs::exists(cut.run / "model"));
    }
    for (const char* file : {"model.safetensors", "saccade.json", "config.json"}) {
      EXPECT_EQ(sha256_hex(read(cut.run / "model" / file)), sha256_hex(read(whole.run / "model" / file)))
          << file;
    }
    EXPECT_EQ(read(cut.run / "human/metrics.jsonl"), read(whole.run / "human/metrics.jsonl"));
    // The same command again has nothing left to do, and returns the same result.
    const VisualnessTrainingReport again = train(whole);
    EXPECT_EQ(dump_json(visualness_training_json(again)), dump_json(visualness_training_json(report)));
    VisualnessTrainingOptions other = whole;
    other.null_picture.seed = 5;
    const Error error = refusal(other);
    EXPECT_EQ(error.code, ErrorCode::kMismatch);
    EXPECT_NE(error.message.find("null_image/seed"), std::string::npos) << error.message;
    other = whole;
    other.adam_beta2 = 0.999;
    EXPECT_NE(refusal(other).message.find("stages/automatic/adam_beta2"), std::string::npos);
  }
}

TEST_F(VisualnessTraining, MicroBatchesAndCheckpointsGiveTheWholeBatchsGradients) {
  for (const TrainedPart part : {TrainedPart::kText, TrainedPart::kBoth}) {
    for (const VisualnessLoss loss : {VisualnessLoss::kLiteral, VisualnessLoss::kMultiPositive}) {
      VisualnessTrainingOptions given = options("unused");
      given.part = part;
      given.loss = loss;
      const Step whole = first_step(given);
      for (const auto& [accumulate, checkpointed] :
           {std::pair(3, false), std::pair(8, false), std::pair(1, true), std::pair(3, true)}) {
        SCOPED_TRACE(fmt::format("{}, {}, accumulate {}, checkpointed {}", enum_name(part), enum_name(loss),
                                 accumulate, checkpointed));
        given.accumulate = accumulate;
        given.checkpoint_activations = checkpointed;
        const Step other = first_step(given);
        EXPECT_EQ(other.losses, 1U);  // negatives are those of the whole batch
        EXPECT_LT(other.nodes, whole.nodes);
        expect_same(other, whole);
      }
    }
  }
}

TEST_F(VisualnessTraining, AClassifiersMicroBatchesGiveTheWholeBatchsGradients) {
  VisualnessTrainingOptions given = classifier("unused");
  given.dropout = 0.5;  // each example keeps its own values
  const Step whole = first_step(given);
  EXPECT_EQ(whole.losses, 1U);
  for (const int64_t accumulate : {3, 8}) {
    SCOPED_TRACE(accumulate);
    given.accumulate = accumulate;
    const Step split = first_step(given);
    EXPECT_EQ(split.losses, static_cast<size_t>(accumulate));
    expect_same(split, whole);
  }
}

// Neither is part of the description.
TEST_F(VisualnessTraining, ARunGoesOnWithOtherMicroBatches) {
  VisualnessTrainingOptions given = options("run");
  given.automatic.epochs = 1;
  given.human.datasets.clear();
  EXPECT_TRUE(train(given).finished);
  given.accumulate = 3;
  given.checkpoint_activations = true;
  EXPECT_TRUE(train(given).finished);
}

// Each training is the one that its learning rate alone gives.
TEST_F(VisualnessTraining, LearningRatesAreTriedAndOneIsChosen) {
  VisualnessTrainingOptions options = this->options("grid");
  options.part = TrainedPart::kText;
  options.human.datasets.clear();
  options.automatic.epochs = 8;
  const std::vector<double> rates = {1e-9, 3e-3};
  std::stop_source stop;
  int64_t steps = 0;
  const auto cut = search_learning_rates(
      options, rates,
      [&](const ProgressUpdate& progress) {
        if (progress.what == "training" && ++steps == 5) stop.request_stop();
      },
      stop.get_token());
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_FALSE(cut->finished);
  EXPECT_EQ(cut->points.size(), 1U);
  EXPECT_TRUE(visualness_grid_json(*cut)["learning_rate"].is_null());
  EXPECT_FALSE(fs::exists(options.run / "model"));

  const auto grid = search_learning_rates(options, rates, {}, {});
  ASSERT_TRUE(grid) << grid.error().message;
  EXPECT_TRUE(grid->finished);
  ASSERT_EQ(grid->points.size(), 2U);
  const auto f1 = [&](size_t point) { return grid->points[point].report.stages[0].best.f1; };
  const size_t best = f1(1) > f1(0) ? 1 : 0;
  EXPECT_EQ(grid->best, best);
  EXPECT_EQ(visualness_grid_json(*grid)["learning_rate"], rates[best]);
  EXPECT_EQ(read_json(options.run / "run.json").value()["outcome"]["learning_rate"], rates[best]);
  VisualnessTrainingOptions alone = options;
  alone.run = data_.folder() / "alone";
  const fs::path model = train(alone).model;  // at 3e-3
  for (const char* file : {"model.safetensors", "saccade.json"}) {
    EXPECT_EQ(sha256_hex(read(options.run / "rate-0.003/model" / file)), sha256_hex(read(model / file)))
        << file;
    EXPECT_EQ(sha256_hex(read(options.run / "model" / file)),
              sha256_hex(read(grid->points[best].report.model / file)))
        << file;
  }
  const auto again = search_learning_rates(options, rates, {}, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(dump_json(visualness_grid_json(*again)), dump_json(visualness_grid_json(*grid)));

  const auto refused = [&](const VisualnessTrainingOptions& given, const std::vector<double>& tried) {
    const auto result = search_learning_rates(given, tried, {}, {});
    EXPECT_FALSE(result);
    return result ? std::string() : result.error().message;
  };
  EXPECT_NE(refused(options, {1e-9}).find("holds another training"), std::string::npos);
  VisualnessTrainingOptions other = options;
  other.run = data_.folder() / "refused";
  EXPECT_NE(refused(other, {}).find("no learning rates"), std::string::npos);
  EXPECT_NE(refused(other, {1e-3, 1e-3}).find("given twice"), std::string::npos);
  other.batch = 1000;
  EXPECT_NE(refused(other, rates).find("a batch of 1000"), std::string::npos);
  EXPECT_FALSE(fs::exists(other.run));
  other.batch = 8;
  other.dry_run = true;
  const auto dry = search_learning_rates(other, rates, {}, {});
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_FALSE(dry->finished);
  EXPECT_FALSE(fs::exists(other.run));
}

TEST_F(VisualnessTraining, TheAlternativesTrainToo) {
  VisualnessTrainingOptions options = this->options("one");
  options.objective = VisualnessObjective::kOnePicture;
  options.human.datasets.clear();
  const VisualnessTrainingReport one = train(options);
  ASSERT_EQ(one.stages.size(), 1U);
  EXPECT_EQ(one.stages[0].visual, 13);  // it needs no image of their own
  EXPECT_GT(one.stages[0].best.f1, 0.7);

  // The objective has another name in run.json of earlier versions.
  std::string run = read(options.run / "run.json");
  const std::string name = "\"one-image\"";
  const size_t at = run.find(name);
  ASSERT_NE(at, std::string::npos);
  data_.folder().write(options.run / "run.json", run.replace(at, name.size(), "\"one-picture\""));
  options.dry_run = true;
  train(options);

  options = this->options("shared");
  options.loss = VisualnessLoss::kMultiPositive;
  options.automatic.datasets.clear();
  options.null_picture.kind = NullPicture::Kind::kGrey;
  const VisualnessTrainingReport shared = train(options);
  ASSERT_EQ(shared.stages.size(), 1U);
  EXPECT_EQ(shared.stages[0].name, "human");
  EXPECT_TRUE(fs::exists(options.run / "model/saccade.json"));
  EXPECT_FALSE(fs::exists(options.run / "automatic"));
}

TEST_F(VisualnessTraining, WhatItRefuses) {
  const auto expect = [&](const VisualnessTrainingOptions& options, ErrorCode code, const std::string& part) {
    const Error error = refusal(options);
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
    EXPECT_FALSE(fs::exists(options.run)) << part;
  };
  const VisualnessTrainingOptions good = options("refused");
  VisualnessTrainingOptions bad = good;
  bad.automatic.datasets.clear();
  bad.human.datasets.clear();
  expect(bad, ErrorCode::kUsage, "no texts to train on");
  bad = good;
  bad.validation.clear();
  expect(bad, ErrorCode::kUsage, "no validation texts");
  bad = good;
  bad.human.datasets = {data_.folder() / "shapes.jsonl"};
  expect(bad, ErrorCode::kUsage, "images with captions, not rated texts");
  bad = good;
  bad.human.datasets = {data_.folder().write("one.jsonl",
                                             "{\"text\": \"a red bar\", \"visual\": true, \"image\": "
                                             "\"red-bar-0.png\"}\n")};
  expect(bad, ErrorCode::kUsage, "the human texts are 1 visual and 0 non-visual");
  bad = good;
  bad.validation = {data_.folder().write("two.jsonl", "{\"text\": \"no use\", \"visual\": false}\n")};
  expect(bad, ErrorCode::kUsage, "the validation texts are 0 visual and 1 non-visual");
  bad = good;
  bad.batch = 1000;
  expect(bad, ErrorCode::kUsage, "a batch of 1000 from");
  bad = good;
  bad.null_picture = {.kind = NullPicture::Kind::kFile, .file = data_.folder() / "red-square-0.png"};
  expect(bad, ErrorCode::kUsage, "the NULL image is one of the texts' own images");
  for (const int64_t accumulate : {0, 9}) {
    bad = good;
    bad.accumulate = accumulate;
    expect(bad, ErrorCode::kUsage, fmt::format("accumulate is {}, expected 1 to 8", accumulate));
  }
  bad = good;
  bad.precision = Precision::kInt8;
  expect(bad, ErrorCode::kUsage, "precision int8");
  bad = good;
  bad.adam_epsilon = 0;
  expect(bad, ErrorCode::kUsage, "Adam's epsilon is 0, expected above 0");
  bad = good;
  bad.checkpoint = (fs::path(test::kSourceDir) / "tests/golden/siglip").string();
  expect(bad, ErrorCode::kUnsupported, "family siglip");
  bad = good;
  bad.checkpoint = (fs::path(test::kSourceDir) / "tests/golden/bert").string();
  expect(bad, ErrorCode::kNotFound, "tokenizer");
  bad = good;
  bad.config = bert_;
  expect(bad, ErrorCode::kUsage, "one of them");
}

// Tests the study's baseline: a config without weights begins at random, a checkpoint with its own weights
// and a new head.
TEST_F(VisualnessTraining, AClassifierLearnsInTwoStagesAndAnswersAsMeasured) {
  VisualnessTrainingOptions options = classifier("classifier");
  const VisualnessTrainingReport report = train(options);
  ASSERT_TRUE(report.finished);
  ASSERT_EQ(report.stages.size(), 2U);
  EXPECT_EQ(report.stages[0].name, "automatic");
  EXPECT_EQ(report.stages[0].visual, 13) << "it needs no images";
  EXPECT_LT(report.before.f1, 0.6);
  EXPECT_GT(report.stages[1].best.f1, 0.8);
  EXPECT_EQ(report.stages[1].best.threshold, 0.5);

  const auto encoder = load_encoder(report.model);
  ASSERT_TRUE(encoder) << encoder.error().message;
  TextClassifier* classifier = (*encoder)->text_classifier();
  ASSERT_NE(classifier, nullptr);
  EXPECT_EQ(classifier->labels(), (std::vector<std::string>{"non-visual", "visual"}));
  const Dataset validation = read_dataset(validation_).value();
  std::vector<TokenizedText> texts;
  for (const RatedText& item : validation.as<RatedTexts>().items) {
    texts.push_back((*encoder)->tokenizer()->encode(item.text, (*encoder)->info().context));
  }
  const auto scores = visual_probabilities(*classifier, texts);
  ASSERT_TRUE(scores) << scores.error().message;
  Confusion confusion{};
  for (size_t i = 0; i < scores->size(); ++i) {
    ++confusion[*validation.as<RatedTexts>().items[i].visual ? 1 : 0][(*scores)[i] > 0.5 ? 1 : 0];
  }
  EXPECT_NEAR(binary_figures(confusion).f1, report.stages[1].best.f1, 1e-9);

  // Training continues from that checkpoint: its knowledge is there before the first step.
  VisualnessTrainingOptions more = options;
  more.config.clear();
  more.checkpoint = report.model.string();
  more.run = data_.folder() / "more";
  more.automatic.datasets.clear();
  more.human.epochs = 1;
  EXPECT_EQ(train(more).before.f1, report.stages[1].best.f1);
  // A head with other class names is another's, and a plain BERT has none. In both cases a new one is drawn.
  for (const char* change : {"labels", "bare"}) {
    const fs::path folder = data_.folder() / change;
    fs::copy(report.model, folder);
    Json config = read_json(folder / "config.json").value();
    config["id2label"] = {{"0", "bad"}, {"1", "good"}};
    if (change == std::string("bare")) {
      const auto file = SafeTensors::open(folder / "model.safetensors");
      const TorchMap tensors = weights(*file);
      std::vector<NamedTensor> kept;
      for (const auto& [name, tensor] : tensors) {
        if (!name.starts_with("classifier.") && name != "bert.pooler.dense.bias")
          kept.push_back({name.substr(5), view_of(tensor)});
      }
      config["architectures"] = {"BertModel"};
      data_.folder().write("kept", "");
      ASSERT_TRUE(write_safetensors(data_.folder() / "kept", kept));
      fs::rename(data_.folder() / "kept", folder / "model.safetensors");
    }
    data_.folder().write(std::string(change) + "/config.json", dump_json(config));
    more.checkpoint = folder.string();
    more.run = data_.folder() / (std::string("run-") + change);
    const VisualnessTrainingReport again = train(more);
    EXPECT_TRUE(again.finished);
    const auto after = SafeTensors::open(again.model / "model.safetensors");
    EXPECT_TRUE(weights(*after).contains("classifier.weight"));
  }
}

TEST_F(VisualnessTraining, WeightsThatAreNoNumbersAreNamedBeforeAStep) {
  VisualnessTrainingOptions options = classifier("whole");
  options.automatic.datasets.clear();
  options.human.epochs = 1;
  const fs::path model = train(options).model;
  {
    const auto file = SafeTensors::open(model / "model.safetensors");
    TorchMap tensors = weights(*file);
    std::vector<NamedTensor> damaged;
    for (auto& [name, tensor] : tensors) {
      tensor = tensor.clone();
      if (name == "bert.pooler.dense.weight") tensor[0][0] = std::nan("");
      damaged.push_back({name, view_of(tensor)});
    }
    ASSERT_TRUE(write_safetensors(model / "damaged", damaged));
  }
  fs::rename(model / "damaged", model / "model.safetensors");
  options.config.clear();
  options.checkpoint = model.string();
  options.run = data_.folder() / "damaged";
  const Error error = refusal(options);
  EXPECT_EQ(error.code, ErrorCode::kBadData);
  EXPECT_NE(error.message.find("tensor bert.pooler.dense.weight has values that are no numbers"),
            std::string::npos)
      << error.message;
  EXPECT_FALSE(fs::exists(options.run));
}

TEST_F(VisualnessTraining, AStoppedClassifierGoesOnToTheSameWeights) {
  const VisualnessTrainingOptions whole = classifier("whole-classifier");
  (void)train(whole);
  VisualnessTrainingOptions cut = whole;
  cut.run = data_.folder() / "cut-classifier";
  int calls = 0;
  for (bool finished = false; !finished && calls < 40; ++calls) {
    std::stop_source stop;
    int64_t steps = 0;
    const auto part = train_visualness(
        cut,
        [&](const ProgressUpdate& progress) {
          if (progress.what == "training" && ++steps == 9) stop.request_stop();
        },
        stop.get_token());
    ASSERT_TRUE(part) << part.error().message;
    finished = part->finished;
  }
  EXPECT_GT(calls, 3);
  EXPECT_EQ(sha256_hex(read(cut.run / "model/model.safetensors")),
            sha256_hex(read(whole.run / "model/model.safetensors")));
  VisualnessTrainingOptions other = whole;
  other.dropout = 0;
  EXPECT_NE(refusal(other).message.find("dropout"), std::string::npos);
}

TEST_F(VisualnessTraining, AClassifierTakesNothingOfClips) {
  const VisualnessTrainingOptions good = classifier("refused");
  VisualnessTrainingOptions bad = good;
  bad.loss = VisualnessLoss::kMultiPositive;
  EXPECT_NE(refusal(bad).message.find("a loss is for CLIP"), std::string::npos);
  bad = good;
  bad.part = TrainedPart::kText;
  EXPECT_NE(refusal(bad).message.find("a part to train is for CLIP"), std::string::npos);
  bad = good;
  bad.null_picture.seed = 3;
  EXPECT_NE(refusal(bad).message.find("a NULL image is for CLIP"), std::string::npos);
  bad = good;
  bad.checkpoint_activations = true;
  EXPECT_NE(refusal(bad).message.find("--checkpoint-activations is for CLIP's towers"), std::string::npos);
  bad = good;
  bad.dropout = 1;
  EXPECT_NE(refusal(bad).message.find("dropout is 1"), std::string::npos);
  bad = good;
  bad.batch = 0;  // the study's 32, of 26 texts
  EXPECT_NE(refusal(bad).message.find("a batch of 32 from"), std::string::npos);
  bad = good;
  bad.config = data_.folder().write("no.json", "{\"model\": 3}");
  EXPECT_NE(refusal(bad).message.find("needs \"model\""), std::string::npos);
  EXPECT_FALSE(fs::exists(good.run));
}

// Tests the study's defaults, which depend on what is trained.
TEST_F(VisualnessTraining, EpochsAndBatchAreTheStudys) {
  VisualnessTrainingOptions given = options("default");
  given.automatic.epochs = given.human.epochs = 0;
  (void)train(given);
  const auto steps = [](const fs::path& run, const char* stage) {
    return read_json(run / "run.json").value()["stages"][stage]["steps"].get<int64_t>();
  };
  // There are 24 texts with a label and, if one is needed, an image, in batches of 8. A classifier has one
  // more.
  EXPECT_EQ(steps(given.run, "automatic"), 5 * 3);
  EXPECT_EQ(steps(given.run, "human"), 2 * 3);
  given = classifier("default-classifier");
  given.automatic.epochs = given.human.epochs = 0;
  (void)train(given);
  EXPECT_EQ(steps(given.run, "automatic"), 22);  // 7 * 25 / 8
  EXPECT_EQ(steps(given.run, "human"), 10);
}

TEST_F(VisualnessTraining, LeavesOutWhatWouldCheatOrContradict) {
  VisualnessTrainingOptions options = this->options("counted");
  options.human.datasets.clear();
  options.dry_run = true;
  data_.folder().write("train.jsonl",
                       read(train_) +
                           "{\"text\": \"a yellow frame\", \"visual\": true, \"image\": "
                           "\"yellow-frame-0.png\"}\n"
                           "{\"text\": \"a red square\", \"visual\": false}\n"
                           "{\"text\": \"a wall\", \"visual\": true, \"image\": \"gone.png\"}\n");
  const VisualnessTrainingReport report = train(options);
  EXPECT_FALSE(fs::exists(options.run));
  ASSERT_EQ(report.stages.size(), 1U);
  std::map<std::string, int64_t> counts;
  for (const Exclusion& exclusion : report.stages[0].excluded) counts[exclusion.reason] = exclusion.count;
  EXPECT_EQ(counts["texts that are among the validation's"], 1);
  EXPECT_EQ(counts["texts called visual and non-visual"], 2);
  EXPECT_EQ(counts["visual texts whose image cannot be read"], 1);
}

}  // namespace
}  // namespace saccade::lab
