// Tests of training the composers that adaptive token fusion is compared with. They check gradients against
// plain formulas in double, which are held to finite differences. They also check the data of a step, and
// whole trainings, stopped and resumed.
#include "lab/train/math/composer_peers.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/train/math/test_gradients.h"
#include "lab/train/recipes/train_inversion.h"
#include "lab/train/tasks/inversion_task.h"
#include "saccade/core/files/files.h"
#include "saccade/core/rows.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/model/composers/combiner.h"
#include "saccade/model/composers/token_states.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using test::TestFolder;
using testing::HasSubstr;
using torch::Tensor;

const fs::path kStarter = fs::path(test::kSourceDir) / "models/starter";

// Returns copies in double, as leaves with gradients.
TorchMap in_double(const TorchMap& parameters) {
  TorchMap copies;
  for (const auto& [name, tensor] : parameters) {
    copies[name] = tensor.detach().to(at::kDouble).requires_grad_(true);
  }
  return copies;
}

Tensor layer(const TorchMap& weights, const std::string& name, const Tensor& x) {
  return at::linear(x, weights.at(name + ".weight"), weights.at(name + ".bias"));
}

// Checks gradients that autograd left in `found` (float) against those of the oracle (double). The oracle's
// own are checked by finite differences.
void expect_gradients(const TorchMap& found, const TorchMap& exact, const std::function<Tensor()>& loss) {
  for (const auto& [name, parameter] : exact) {
    SCOPED_TRACE(name);
    const Tensor expected = parameter.grad();
    ASSERT_TRUE(found.at(name).grad().defined());
    const Tensor difference = found.at(name).grad().to(at::kDouble) - expected;
    const double scale = expected.norm().item<double>();
    EXPECT_GT(scale, 0);
    EXPECT_TRUE(difference.norm().item<double>() <= 2e-4 * scale)
        << difference.norm().item<double>() << " of " << scale;
    const torch::NoGradGuard no_grad;
    const int64_t place = parameter.numel() / 3;
    EXPECT_NEAR(
        test::derivative(parameter.data_ptr<double>()[place], 1e-5, [&] { return loss().item<double>(); }),
        expected.view({-1})[place].item<double>(), 1e-6 * (1 + scale));
  }
}

TEST(CombinerGradients, AreThoseOfThePublishedNetwork) {
  torch::manual_seed(3);
  InitializedParameters source(3);
  const CombinerShape shape{.dim = 12, .projection = 20, .hidden = 28};
  const auto network = CombinerOf<Variable>::make(shape, source).value();
  const Tensor pictures = normalize_rows(torch::randn({5, 12}));
  const Tensor texts = normalize_rows(torch::randn({5, 12}));
  const Tensor weights = torch::randn({5, 12});
  (network.forward(Variable(pictures), Variable(texts)).tensor() * weights).sum().backward();

  const TorchMap exact = in_double(source.parameters());
  const auto loss = [&] {
    const Tensor p = pictures.to(at::kDouble);
    const Tensor t = texts.to(at::kDouble);
    const Tensor both = torch::cat(
        {at::relu(layer(exact, "text_projection", t)), at::relu(layer(exact, "picture_projection", p))}, 1);
    const Tensor share = at::sigmoid(layer(exact, "share", at::relu(layer(exact, "weigh", both))));
    const Tensor row =
        layer(exact, "out", at::relu(layer(exact, "combine", both))) + share * t + (1 - share) * p;
    return (row * weights.to(at::kDouble)).sum();
  };
  loss().backward();
  expect_gradients(source.parameters(), exact, loss);
}

TEST(StepDropout, IsAFunctionOfSeedAndStep) {
  const Variable ones(torch::ones({200, 50}));
  const auto drawn = [&](uint64_t seed, int64_t step) { return StepDropout(0.5, seed, step)(ones).tensor(); };
  EXPECT_TRUE(torch::equal(drawn(1, 7), drawn(1, 7)));
  EXPECT_FALSE(torch::equal(drawn(1, 7), drawn(1, 8)));
  EXPECT_FALSE(torch::equal(drawn(1, 7), drawn(2, 7)));
  // The kept values are scaled up to compensate for the dropped ones.
  EXPECT_NEAR(drawn(1, 7).mean().item<double>(), 1, 0.03);
  EXPECT_EQ(drawn(1, 7).max().item<double>(), 2);
  EXPECT_TRUE(torch::equal(StepDropout(0, 1, 7)(ones).tensor(), ones.tensor()));
}

TEST(MaskedText, ReplacesRunsOfKeywords) {
  EXPECT_EQ(masked_text("a red bell"), "*");
  EXPECT_EQ(masked_text("a photo of a red bell on the table"), "* of * on *");
  EXPECT_EQ(masked_text("bell, alarm"), "* , *");
  EXPECT_EQ(masked_text("A bell-shaped THING With two handles"), "* With *");
  EXPECT_EQ(masked_text("  spaces \t between "), "* between");
  EXPECT_EQ(masked_text("it is what it is"), "a photo of *");
  EXPECT_EQ(masked_text(""), "a photo of *");
  EXPECT_EQ(masked_text("* of *"), "a photo of *");
  EXPECT_EQ(masked_text("stars * and moons"), "* and *");
  EXPECT_EQ(masked_text("ein großer Hund"), "*");
}

class Inversion : public testing::Test {
 protected:
  void SetUp() override {
    std::string lines;
    for (const char* thing : {"bell", "cat", "house", "tree", "car", "star", "apple", "boat"}) {
      lines +=
          fmt::format("a {} in red\n{} outline\nthe icon of a {}\n{}, drawing\n", thing, thing, thing, thing);
    }
    ASSERT_TRUE(write_file_atomic(folder_.path() / "texts.txt", lines));
    options_.run = folder_.path() / "run";
    options_.texts = folder_.path() / "texts.txt";
    options_.model = kStarter.string();
    options_.steps = 12;
    options_.batch = 8;
    options_.hidden = 24;
    options_.learning_rate = 1e-3;
    options_.evaluate_every = 6;
    options_.checkpoint_every = 4;
    options_.sentence = "* {}";
    options_.encoder.threads = 1;
  }
  [[nodiscard]] std::string refusal() const {
    const auto report = train_inversion(options_, {}, {});
    return report ? std::string() : report.error().message;
  }
  TestFolder folder_;
  InversionTrainingOptions options_;
};

// Everything that its task borrows.
struct Parts {
  explicit Parts(const InversionTrainingOptions& options) {
    encoder = load_encoder(kStarter).value();
    tower = open_frozen_text_tower(kStarter).value();
    texts = read_inversion_texts(options.texts, *encoder->tokenizer(), encoder->info().context).value();
    const InversionConfig inversion{{.dim = 192, .hidden = options.hidden, .word = 192}, options.sentence};
    const ComposerConfig config{
        .kind = "inversion",
        .dim = 192,
        .options = inversion_options(inversion),
        .encoder = {"starter", "clip", encoder->info().fingerprint, kStarter.string()}};
    task = InversionTask::make(options, config, *encoder, *tower, texts.texts, none, pool).value();
  }
  ThreadPool pool{1};
  std::unique_ptr<EncoderBackend> encoder;
  std::unique_ptr<FrozenTextTower> tower;
  InversionTexts texts;
  std::vector<InversionQueries> none;
  std::unique_ptr<InversionTask> task;
};

// The starter's text tower, operation by operation in double, with vectors in place of tokens.
Tensor plain_tower(const TorchMap& w, const Tensor& ids, const Tensor& stands, const Tensor& words) {
  const std::string text = "text_model.";
  Tensor x = w.at(text + "embeddings.token_embedding.weight")
                 .index_select(0, ids.view({-1}))
                 .view({ids.size(0), ids.size(1), -1});
  x = at::where(stands.unsqueeze(2), words.unsqueeze(1).expand_as(x), x);
  x = x + w.at(text + "embeddings.position_embedding.weight").slice(0, 0, ids.size(1));
  const auto norm = [&](const std::string& name, const Tensor& y) {
    return at::layer_norm(y, {y.size(2)}, w.at(name + ".weight"), w.at(name + ".bias"), 1e-5);
  };
  constexpr int64_t kHeads = 6;
  const Tensor mask = torch::full({ids.size(1), ids.size(1)}, -INFINITY, x.options()).triu(1);
  for (int64_t b = 0; b < 3; ++b) {
    const std::string block = fmt::format("{}encoder.layers.{}.", text, b);
    const Tensor y = norm(block + "layer_norm1", x);
    const auto heads = [&](const char* name) {
      const Tensor z = layer(w, block + "self_attn." + name, y);
      return z.view({z.size(0), z.size(1), kHeads, -1}).transpose(1, 2);
    };
    const Tensor q = heads("q_proj");
    const Tensor scores =
        at::matmul(q, heads("k_proj").transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3))) + mask;
    const Tensor mixed =
        at::matmul(at::softmax(scores, -1), heads("v_proj")).transpose(1, 2).reshape(y.sizes());
    x = x + layer(w, block + "self_attn.out_proj", mixed);
    const Tensor z = layer(w, block + "mlp.fc1", norm(block + "layer_norm2", x));
    x = x + layer(w, block + "mlp.fc2", z * at::sigmoid(1.702 * z));
  }
  x = norm(text + "final_layer_norm", x);
  const Tensor ends = (ids == 6513).to(at::kLong).argmax(1);
  x = x.index({torch::arange(x.size(0)), ends});
  return at::matmul(x, w.at("text_projection.weight").t());
}

TEST_F(Inversion, GradientsCrossTheFrozenTower) {
  options_.dropout = 0;
  const Parts parts(options_);
  const InversionBatch batch = parts.task->batch(0).value();
  parts.task->loss(batch).backward();

  const TorchMap exact = in_double(parts.task->parameters());
  TorchMap tower;
  for (const auto& [name, tensor] : parts.tower->tensors) {
    tower[name] = torch_over(tensor.contiguous()).to(at::kDouble);
  }
  const Tensor ids = torch_over(batch.ids);
  const Tensor places = torch_over(batch.places);
  Tensor stands = torch::zeros_like(ids).to(at::kBool);
  for (int64_t i = 0; i < places.size(0); ++i) {
    for (int64_t k = 0; k < places.size(1); ++k) {
      if (const int64_t place = places[i][k].item<int64_t>(); place >= 0) stands[i][place] = true;
    }
  }
  const auto loss = [&] {
    const Tensor rows = batch.rows.to(at::kDouble);
    const Tensor hidden = at::gelu(layer(exact, "middle", at::gelu(layer(exact, "in", rows))));
    const Tensor made = plain_tower(tower, ids, stands, layer(exact, "out", hidden));
    return (made - batch.originals.to(at::kDouble)).pow(2).mean();
  };
  const Tensor value = loss();
  EXPECT_NEAR(value.item<double>(), parts.task->loss(batch).item<double>(), 1e-5 * value.item<double>());
  value.backward();
  expect_gradients(parts.task->parameters(), exact, loss);
  // The tower's weights do not change.
  for (const auto& [name, tensor] : parts.task->parameters()) EXPECT_FALSE(name.starts_with("text_model"));
}

TEST_F(Inversion, ABatchIsAFunctionOfItsStep) {
  const Parts parts(options_);
  const InversionBatch a = parts.task->batch(3).value();
  (void)parts.task->batch(5).value();
  const InversionBatch again = parts.task->batch(3).value();
  EXPECT_TRUE(torch::equal(a.rows, again.rows));
  EXPECT_TRUE(torch::equal(torch_over(a.ids), torch_over(again.ids)));
  EXPECT_FALSE(torch::equal(a.rows, parts.task->batch(4).value().rows));
  // Embeddings are normalized and equal the originals plus noise. Without noise they equal the originals.
  options_.noise = 0;
  const Parts quiet(options_);
  const InversionBatch plain = quiet.task->batch(3).value();
  EXPECT_TRUE(torch::allclose(plain.rows, normalize_rows(plain.originals), 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(a.rows.norm(2, 1), torch::ones({8}), 1e-5, 1e-6));
  const Tensor cosines = (a.rows * plain.rows).sum(1);
  EXPECT_LT(cosines.min().item<double>(), 0.99);
  EXPECT_GT(cosines.min().item<double>(), 0.5);  // noise of at most the row's length, some lengths of more
  // The mark is at its position in the masked text.
  const int64_t mark = picture_mark_id(*parts.encoder->tokenizer()).value();
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(torch_over(a.ids)[i][torch_over(a.places)[i][0].item<int64_t>()].item<int64_t>(), mark);
  }
}

TEST_F(Inversion, LearnsAndGoesOnWhereItWasStopped) {
  const auto whole = train_inversion(options_, {}, {});
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_TRUE(whole->finished);
  EXPECT_EQ(whole->steps, 12);
  EXPECT_EQ(whole->texts, 32);

  // The training is stopped after a few steps, then resumed.
  InversionTrainingOptions parted = options_;
  parted.run = folder_.path() / "parted";
  std::stop_source stop;
  const auto first = train_inversion(
      parted,
      [&](const ProgressUpdate& progress) {
        if (progress.what == "training" && progress.done >= 5) stop.request_stop();
      },
      stop.get_token());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->finished);
  const auto second = train_inversion(parted, {}, {});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(second->finished);
  const std::string a = read_file(options_.run / "model/model.safetensors").value();
  EXPECT_EQ(a, read_file(parted.run / "model/model.safetensors").value());

  // The written checkpoint composes.
  const auto composer = Composer::open(options_.run / "model");
  ASSERT_TRUE(composer) << composer.error().message;
  EXPECT_EQ((*composer)->name(), "run");
  const auto encoder = load_encoder((*composer)->encoder_folder().value()).value();
  const Matrix<float> pixels(1, int64_t{3} * 64 * 64);
  const std::vector<std::string> words = {"in red"};
  const auto composed = (*composer)->compose(*encoder, pixels.view(), words);
  ASSERT_TRUE(composed) << composed.error().message;
  EXPECT_NEAR(row_length(composed->rows.row(0)), 1, 1e-5);

  // With other options it is another training.
  options_.noise = 2;
  EXPECT_THAT(refusal(), HasSubstr("noise"));
}

TEST_F(Inversion, TheLossFalls) {
  options_.steps = 200;
  options_.evaluate_every = 200;
  const Parts parts(options_);
  const double before = parts.task->loss(parts.task->batch(1000).value()).item<double>();
  const auto report = train_inversion(options_, {}, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_LT(report->last_loss, 0.9 * before);
}

TEST_F(Inversion, RefusesWhatCannotBe) {
  const InversionTrainingOptions sound = options_;
  const auto refused = [&](const std::function<void(InversionTrainingOptions&)>& change) {
    options_ = sound;
    change(options_);
    return refusal();
  };
  EXPECT_THAT(refused([](auto& o) { o.texts.clear(); }), HasSubstr("--texts"));
  EXPECT_THAT(refused([](auto& o) { o.sentence = "a photo"; }), HasSubstr("--sentence"));
  EXPECT_THAT(refused([](auto& o) { o.noise = -1; }), HasSubstr("noise is -1"));
  EXPECT_THAT(refused([](auto& o) { o.dropout = 1; }), HasSubstr("dropout is 1"));
  EXPECT_THAT(refused([](auto& o) { o.batch = 100; }),
              HasSubstr("32 different texts, fewer than a batch of 100"));
  EXPECT_THAT(refused([](auto& o) { o.texts = "nowhere.txt"; }), HasSubstr("nowhere.txt"));
  EXPECT_THAT(
      refused([](auto& o) { o.model = (fs::path(test::kSourceDir) / "tests/golden/siglip").string(); }),
      HasSubstr("needs a CLIP"));
  ASSERT_TRUE(write_file_atomic(folder_.path() / "empty.txt", "\n \n"));
  EXPECT_THAT(refused([&](auto& o) { o.texts = folder_.path() / "empty.txt"; }), HasSubstr("no text in it"));
  ASSERT_TRUE(write_file_atomic(folder_.path() / "bytes.txt", "fine\n\xff\xfe\n"));
  EXPECT_THAT(refused([&](auto& o) { o.texts = folder_.path() / "bytes.txt"; }),
              HasSubstr("line 2 is not UTF-8"));
}

TEST_F(Inversion, ReadsEachTextOnce) {
  ASSERT_TRUE(
      write_file_atomic(folder_.path() / "some.txt", "a bell\r\n\na bell\n  a cat in a tree \nof and\n"));
  const auto encoder = load_encoder(kStarter).value();
  const InversionTexts texts =
      read_inversion_texts(folder_.path() / "some.txt", *encoder->tokenizer(), 32).value();
  ASSERT_EQ(texts.texts.size(), 3U);
  EXPECT_EQ(texts.repeated, 1);
  EXPECT_EQ(texts.empty, 1);
  EXPECT_EQ(texts.texts[0].marks, (std::vector<int64_t>{1}));
  EXPECT_EQ(texts.texts[1].marks, (std::vector<int64_t>{1, 3}));  // "* in *"
  EXPECT_EQ(texts.texts[2].marks, (std::vector<int64_t>{4}));     // "a photo of *"
}

}  // namespace
}  // namespace saccade::lab
