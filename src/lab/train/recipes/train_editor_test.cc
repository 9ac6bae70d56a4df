// Tests of training an editor: the network and its gradients against plain operations in double, and the loss
// against its formula. A small editor learns, stops and resumes.
#include "lab/train/recipes/train_editor.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/dataset.h"
#include "lab/editor/test_editor.h"
#include "lab/train/math/micro_batches.h"
#include "lab/train/math/test_gradients.h"
#include "lab/train/tasks/editor_task.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/image_codec.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;
using torch::Tensor;

double max_difference(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

struct Inputs {
  Tensor noisy, reference, time, text;
  nn::Tensor mask;
};

Inputs some_inputs(const EditorConfig& config) {
  torch::manual_seed(3);
  const std::vector<int64_t> lengths = {5, 2, 3};
  Inputs inputs;
  inputs.noisy = torch::randn({3, config.patches(), config.patch_values()});
  inputs.reference = torch::randn({3, config.patches(), config.patch_values()});
  inputs.time = torch::randn({3, 1, kTimeValues});
  inputs.text = torch::randn({3, 5, config.text_width});
  inputs.mask = editor_mask(lengths, 5, config.patches());
  return inputs;
}

// Computes the network operation by operation.
Tensor plain_editor(const EditorConfig& config, const TorchMap& weights, const Inputs& inputs) {
  const auto type = weights.begin()->second.scalar_type();
  const auto linear = [&](const Tensor& x, const std::string& name) {
    return at::matmul(x, weights.at(name + ".weight").t()) + weights.at(name + ".bias");
  };
  const auto norm = [&](const Tensor& x, const std::string& name) {
    const Tensor centred = x - x.mean(-1, true);
    return centred / (centred.pow(2).mean(-1, true) + 1e-5).sqrt() * weights.at(name + ".weight") +
           weights.at(name + ".bias");
  };
  const Tensor reference = inputs.reference.to(type);
  const Tensor picture =
      linear(torch::cat({inputs.noisy.to(type), reference}, 2), "picture_in") + weights.at("picture_places");
  const Tensor hidden = linear(inputs.time.to(type), "time_in");
  const Tensor when = linear(hidden * torch::sigmoid(hidden), "time_out");
  const Tensor words =
      linear(norm(inputs.text.to(type), "text_norm"), "text_in") + weights.at("text_places").slice(0, 0, 5);
  Tensor x = torch::cat({when, words, picture}, 1);
  const int64_t tokens = x.size(1);
  const int64_t head = config.width / config.heads;
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string block = fmt::format("blocks.{}.", i);
    const auto parts =
        linear(norm(x, block + "norm1"), block + "qkv").view({3, tokens, 3, config.heads, head}).unbind(2);
    Tensor scores = at::matmul(parts[0].transpose(1, 2), parts[1].permute({0, 2, 3, 1})) /
                    std::sqrt(static_cast<double>(head));
    scores = at::softmax(scores + torch_over(inputs.mask).to(type), -1);
    const Tensor mixed =
        at::matmul(scores, parts[2].transpose(1, 2)).transpose(1, 2).reshape({3, tokens, config.width});
    x = x + linear(mixed, block + "out");
    const Tensor inner = linear(norm(x, block + "norm2"), block + "mlp.in");
    const double c = std::sqrt(2 / std::acos(-1.0));
    x = x + linear(0.5 * inner * (1 + torch::tanh(c * (inner + 0.044715 * inner.pow(3)))), block + "mlp.out");
  }
  return reference + linear(norm(x.slice(1, 6), "norm"), "picture_out");
}

TorchMap as_double(const TorchMap& weights) {
  TorchMap result;
  for (const auto& [name, tensor] : weights) {
    result[name] = tensor.detach().to(at::kDouble).requires_grad_();
  }
  return result;
}

class Network : public testing::Test {
 protected:
  void SetUp() override {
    InitializedParameters source(5);
    auto made = EditorOf<Variable>::make(config, source);
    ASSERT_TRUE(made);
    editor = std::move(*made);
    weights = source.parameters();
    const torch::NoGradGuard no_grad;
    torch::manual_seed(9);
    for (const auto& [name, tensor] : weights) Tensor(tensor).add_(torch::randn_like(tensor) * 0.1);
  }
  Tensor forward(DType dtype = DType::kF32) {
    return editor
        .forward(Variable(inputs.noisy), Variable(inputs.reference), Variable(inputs.time),
                 Variable(inputs.text), inputs.mask, dtype)
        .tensor();
  }
  EditorConfig config = test::small_editor_config();
  Inputs inputs = some_inputs(config);
  EditorOf<Variable> editor;
  TorchMap weights;
};

TEST_F(Network, AsWrittenDownWithItsGradients) {
  const TorchMap exact = as_double(weights);
  const Tensor expected = plain_editor(config, exact, inputs);
  const Tensor said = forward();
  EXPECT_LT(max_difference(said, expected), 2e-5);
  EXPECT_LT(max_difference(forward(DType::kBF16), expected), 0.2);
  const Tensor towards = torch::randn_like(said);
  (said * towards).sum().backward();
  (expected * towards.to(at::kDouble)).sum().backward();
  for (const auto& [name, tensor] : weights) {
    const double size = exact.at(name).grad().abs().max().item<double>();
    EXPECT_GT(size, 0) << name;
    EXPECT_LT(max_difference(tensor.grad(), exact.at(name).grad()), 1e-4 * std::max(1.0, size)) << name;
  }
  // Checks the oracle's own gradients by finite differences.
  const torch::NoGradGuard no_grad;
  for (const char* name : {"picture_in.weight", "time_in.bias", "text_places", "blocks.1.qkv.weight"}) {
    const Tensor& weight = exact.at(name);
    const auto loss = [&] {
      return (plain_editor(config, exact, inputs) * towards.to(at::kDouble)).sum().item<double>();
    };
    EXPECT_NEAR(test::derivative(weight.data_ptr<double>()[3], 1e-5, loss),
                weight.grad().view({-1})[3].item<double>(), 1e-4)
        << name;
  }
}

TEST_F(Network, InferenceAsTraining) {
  nn::TensorMap tensors;
  for (const auto& [name, tensor] : weights) tensors[name] = borrow_torch(tensor.detach());
  nn::LoadedParameters source(tensors);
  auto inference = EditorOf<nn::Tensor>::make(config, source);
  ASSERT_TRUE(inference) << inference.error().message;
  EXPECT_TRUE(source.all_used({}));
  inference->pack(DType::kF32);
  const nn::Tensor said =
      inference->forward(borrow_torch(inputs.noisy), borrow_torch(inputs.reference),
                         borrow_torch(inputs.time), borrow_torch(inputs.text), inputs.mask, DType::kF32);
  EXPECT_LT(max_difference(torch_over(said), forward().detach()), 2e-5);
}

// The loss is a mean: micro-batches, each with its share of the examples, have the whole batch's gradients.
TEST_F(Network, MicroBatchesGiveTheWholeBatchsGradients) {
  EditorBatch batch;
  batch.noisy = inputs.noisy;
  batch.reference = inputs.reference;
  batch.time = inputs.time;
  batch.text = inputs.text;
  batch.mask = inputs.mask;
  batch.clean = torch::randn_like(inputs.noisy);
  batch.weight = torch::tensor({1.0F, 3.0F, 0.5F});
  const auto loss_of = [&](const EditorBatch& part) {
    return editor_loss(editor
                           .forward(Variable(part.noisy), Variable(part.reference), Variable(part.time),
                                    Variable(part.text), part.mask, DType::kF32)
                           .tensor(),
                       part);
  };
  const auto gradients = [&](int64_t parts) {
    double loss = 0;
    for (const MicroBatch rows : micro_batches(3, parts)) {
      const Tensor part = loss_of(examples_of(batch, rows)) * (static_cast<double>(rows.size()) / 3);
      loss += part.item<double>();
      part.backward();
    }
    TorchMap all;
    for (const auto& [name, tensor] : weights) {
      all[name] = tensor.grad().clone();
      Tensor(tensor).mutable_grad().reset();
    }
    return std::pair(loss, all);
  };
  const auto [whole, expected] = gradients(1);
  for (const int64_t parts : {2, 3}) {
    const auto [loss, actual] = gradients(parts);
    EXPECT_NEAR(loss, whole, 1e-5);
    for (const auto& [name, gradient] : expected) {
      const double largest = gradient.abs().max().item<double>();
      EXPECT_LT(max_difference(actual.at(name), gradient), 1e-5 * std::max(1.0, largest)) << name;
    }
  }
}

TEST_F(Network, UntrainedItSaysTheReference) {
  InitializedParameters source(5);
  auto made = EditorOf<Variable>::make(config, source);
  editor = std::move(*made);
  EXPECT_LT(max_difference(forward(), inputs.reference), 1e-6);
}

// Edits of single-coloured images: "red" makes them red, "blue" blue.
class Learning : public testing::Test {
 protected:
  void SetUp() override {
    std::string manifest;
    const auto picture = [&](const std::string& id, std::array<uint8_t, 3> colour) {
      Image image{.width = 16, .height = 16, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
      for (int i = 0; i < 256; ++i) image.pixels.insert(image.pixels.end(), colour.begin(), colour.end());
      folder.write(id + ".png", *encode_png(image));
      manifest +=
          fmt::format("{{\"gallery_image\": \"{0}.png\", \"id\": \"{0}\", \"gallery\": \"g\"}}\n", id);
    };
    picture("red", {230, 20, 20});
    picture("blue", {20, 20, 230});
    for (int i = 0; i < 8; ++i) {
      const std::string id = fmt::format("p{}", i);
      picture(id, {static_cast<uint8_t>(30 * i), static_cast<uint8_t>(200 - 20 * i), 100});
      for (const char* colour : {"red", "blue"}) {
        manifest += fmt::format(
            "{{\"id\": \"{0}-{1}\", \"reference\": \"{0}\", \"texts\": [\"{1}\"], \"paraphrases\": [\"in {1}\"], "
            "\"targets\": [\"{1}\"], \"gallery\": \"g\", \"split\": \"{2}\"}}\n",
            id, colour, i < 6 ? "train" : "val");
      }
    }
    folder.write("edits.jsonl", manifest);
    options.datasets = {(folder / "edits.jsonl").string() + "#split=train"};
    options.held_out = {(folder / "edits.jsonl").string() + "#split=val"};
    options.encoder = test::small_editor_config().frozen.path;
    options.shape = test::small_editor_config();
    options.run = folder / "run";
    options.precision = Precision::kFp32;
    options.batch = 6;
    options.learning_rate = 4e-3;
    options.steps = 300;
    options.evaluate_every = 100;
    options.checkpoint_every = 100;
    options.threads = 1;
  }
  Result<EditorTrainingReport> train(std::stop_token stop = {}, const ProgressCallback& progress = {}) {
    return train_editor(options, progress, std::move(stop));
  }
  std::string error() {
    const auto report = train();
    return report ? "" : report.error().message;
  }
  const test::TestFolder folder;
  EditorTrainingOptions options;
};

TEST_F(Learning, WhatTheTextAsksFor) {
  const auto report = train();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->finished);
  EXPECT_EQ(report->queries, 12);
  EXPECT_EQ(report->texts, 4);
  const Json& held_out = report->best[0];
  EXPECT_EQ(held_out["queries"], 4);
  EXPECT_LT(held_out["loss"].get<double>(), 0.2 * held_out["reference_loss"].get<double>());

  const auto editor = Editor::open(report->model, {.threads = 1});
  ASSERT_TRUE(editor) << editor.error().message;
  Image grey{.width = 16, .height = 16, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  grey.pixels.assign(768, 120);
  int64_t cut = 0;
  const std::vector<Image> references = {grey, grey};
  const auto drawn = (*editor)->draw(references, std::vector<std::string>{"in red", "in blue"},
                                     std::vector<uint64_t>{1, 2}, {.steps = 8, .guidance = 1}, {}, cut);
  ASSERT_TRUE(drawn) << drawn.error().message;
  const auto mean = [](const Image& image, size_t channel) {
    double sum = 0;
    for (size_t p = channel; p < image.pixels.size(); p += 3) sum += image.pixels[p];
    return sum / 256;
  };
  EXPECT_GT(mean((*drawn)[0], 0), mean((*drawn)[0], 2) + 100);
  EXPECT_GT(mean((*drawn)[1], 2), mean((*drawn)[1], 0) + 100);
}

TEST_F(Learning, StoppedItGoesOnAsIfItHadNot) {
  options.steps = 40;
  options.evaluate_every = 20;
  const auto whole = train();
  ASSERT_TRUE(whole) << whole.error().message;
  options.run = folder / "other";
  std::stop_source stop;
  const auto part = train(stop.get_token(), [&](const ProgressUpdate& update) {
    if (update.what == "training" && update.done == 13) stop.request_stop();
  });
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_FALSE(part->finished);
  const auto rest = train();
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_EQ(rest->resumed_from, part->steps);
  EXPECT_TRUE(rest->finished);
  EXPECT_EQ(rest->last_loss, whole->last_loss);
  EXPECT_EQ(rest->best, whole->best);
  EXPECT_EQ(*read_file(folder / "other/model/model.safetensors"),
            *read_file(folder / "run/model/model.safetensors"));

  // A sentence of run.json was reworded. The folder of an earlier version is still this training's.
  std::string run = read_file(folder / "other/run.json").value_or("");
  const std::string now = "of the velocity, per image";
  const size_t at = run.find(now);
  ASSERT_NE(at, std::string::npos);
  folder.write("other/run.json", run.replace(at, now.size(), "of the velocity, by the picture"));
  EXPECT_EQ(error(), "");
  options.text_dropout = 0.3;
  EXPECT_THAT(error(), HasSubstr("text_dropout"));
}

TEST_F(Learning, MicroBatchesTrainTheSame) {
  options.steps = 4;
  const auto whole = train();
  ASSERT_TRUE(whole) << whole.error().message;
  options.run = folder / "parts";
  options.accumulate = 4;  // of 6 examples
  const auto parts = train();
  ASSERT_TRUE(parts) << parts.error().message;
  EXPECT_NEAR(parts->last_loss, whole->last_loss, 1e-3 * whole->last_loss);
  // The run records the global batch, and may go on with another number of micro-batches.
  const Json run = read_json(folder / "parts/run.json").value();
  EXPECT_EQ(run["batch"], 6);
  EXPECT_FALSE(run.contains("accumulate"));
  options.accumulate = 7;
  EXPECT_THAT(error(), HasSubstr("accumulate is 7, expected 1 to 6"));
}

TEST_F(Learning, NamesAPictureThatCannotBeRead) {
  folder.write("red.png", "no picture");
  options.batch = 7;
  const std::string message = error();
  EXPECT_THAT(message, HasSubstr("a batch of 7 from 6 edits"));
  EXPECT_THAT(message, HasSubstr("1 image cannot be read, the first: "));
  EXPECT_THAT(message, HasSubstr("red.png"));
}

TEST_F(Learning, SaysWhatIsWrong) {
  options.batch = 13;
  EXPECT_THAT(error(), HasSubstr("a batch of 13 from 12 edits"));
  options.batch = 6;
  options.shape.heads = 5;
  EXPECT_THAT(error(), HasSubstr("no multiple of \"heads\""));
  options.shape.heads = 3;
  options.held_out = options.datasets;
  EXPECT_THAT(error(), HasSubstr("is trained on and held out"));
  options.held_out.clear();
  options.precision = Precision::kInt8;
  EXPECT_THAT(error(), HasSubstr("int8"));
  options.precision = Precision::kFp32;
  folder.write("pairs.jsonl", "{\"image\": \"red.png\", \"captions\": [\"red\"]}\n");
  options.datasets = {(folder / "pairs.jsonl").string()};
  EXPECT_THAT(error(), HasSubstr("images with captions, not edit queries"));
  EXPECT_FALSE(std::filesystem::exists(options.run));
}

TEST_F(Learning, RefusesADeviceThatIsNotThere) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "this machine has CUDA";
  options.device = TrainingDevice::kCuda;
  EXPECT_EQ(error(), "device cuda: this libtorch or machine has none");
  EXPECT_FALSE(std::filesystem::exists(options.run));
}

TEST_F(Learning, PicturesThatCannotBeReadAreLeftOut) {
  folder.write("p0.png", "<html>no picture</html>");
  options.steps = 2;
  const auto report = train();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->queries, 10);
  ASSERT_EQ(report->left_out.size(), 1U);
  EXPECT_THAT(report->left_out[0], HasSubstr("p0.png"));
}

// weight * (said - clean)^2 is the squared error of the velocity.
TEST(EditorLoss, IsTheVelocitys) {
  EditorBatch batch;
  torch::manual_seed(2);
  const Tensor noise = torch::randn({2, 3, 4});
  batch.clean = torch::randn({2, 3, 4});
  const Tensor said = torch::randn({2, 3, 4});
  const std::vector<double> times = {0.2, 0.75};
  batch.weight = torch::empty({2});
  double expected = 0;
  for (int64_t i = 0; i < 2; ++i) {
    const double t = times[static_cast<size_t>(i)];
    batch.weight[i] = editor_weight(t);
    const Tensor z = (1 - t) * noise[i] + t * batch.clean[i];
    const Tensor velocity = (said[i] - z) / (1 - t);
    expected += (velocity - (batch.clean[i] - noise[i])).pow(2).mean().item<double>() / 2;
  }
  EXPECT_NEAR(editor_loss(said, batch).item<double>(), expected, 1e-5);
  EXPECT_DOUBLE_EQ(editor_weight(1), 400);
  EXPECT_NEAR(editor_time_drawn(0), 1 / (1 + std::exp(0.8)), 1e-12);
}

// A batch on the CPU is itself; on another device no tensor is left behind.
TEST(EditorBatches, AllTensorsGoToTheDevice) {
  EditorBatch batch;
  const auto tensors_of = [](const EditorBatch& of) {
    return std::vector<Tensor>{of.noisy, of.reference, of.clean, of.time, of.text, of.weight};
  };
  batch.noisy = batch.reference = batch.clean = torch::ones({2, 3, 4});
  batch.time = torch::ones({2, 1, kTimeValues});
  batch.text = torch::ones({2, 5, 6});
  batch.weight = torch::ones({2});
  const std::vector<Tensor> before = tensors_of(batch);
  const std::vector<Tensor> here = tensors_of(on_device(batch, at::kCPU));
  const std::vector<Tensor> there = tensors_of(on_device(batch, at::kMeta));
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(here[i].is_same(before[i])) << i;
    EXPECT_TRUE(there[i].is_meta()) << i;
    EXPECT_EQ(there[i].sizes(), before[i].sizes()) << i;
  }
}

}  // namespace
}  // namespace saccade::lab
