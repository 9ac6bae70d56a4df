// Tests of SPRC's training: its network is the encoder's, its gradients are those of the loss, and a training
// writes a composer that searches as it was measured.
#include "lab/train/tasks/sprc_training_task.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/read_dataset.h"
#include "lab/eval/composed/composed_figures.h"
#include "lab/train/math/initial_weights.h"
#include "lab/train/math/test_gradients.h"
#include "lab/train/recipes/test_edits.h"
#include "saccade/core/hash.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/model_test_support.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using torch::Tensor;

Tensor copy_of(MatrixView<const float> rows, std::vector<int64_t> shape) {
  Tensor tensor = torch::empty({rows.rows(), rows.columns()});
  for (int64_t r = 0; r < rows.rows(); ++r) {
    std::ranges::copy(rows.row(r), tensor.data_ptr<float>() + r * rows.columns());
  }
  return tensor.view(shape);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  return (a - b).abs().max().item<double>();
}

// A BLIP-2 with a tokenizer and drawn weights, and the edit queries of coloured shapes.
class TrainSprc : public test::ShapeEdits {
 protected:
  TrainSprc() {
    saccade::test::add_blip2_tokenizer(checkpoint_.path());
    saccade::test::draw_blip2_weights(checkpoint_.path());
  }
  [[nodiscard]] ComposedTrainingOptions options(const std::string& run) const {
    ComposedTrainingOptions options = shape_options(run);
    options.model = checkpoint_.path().string();
    options.method = "sprc";
    options.wrong = WrongAnswers::kTargets;
    options.steps = 40;
    options.tower_rate = 1e-3;
    options.bootstrap.resamples = 20;
    return options;
  }

  saccade::test::GoldenCopy checkpoint_{"blip2-itm"};
};

TEST_F(TrainSprc, TheNetworkIsTheEncoders) {
  const auto encoder = load_encoder(checkpoint_.path());
  ASSERT_TRUE(encoder) << encoder.error().message;
  const FrozenQFormer begin = read_qformer(checkpoint_.path(), QFormerPart::kWithText).value();
  InitializedParameters source(1);
  InitializedParameters own(2);
  const auto network = TrainedSprc::make(begin, source, own);
  ASSERT_TRUE(network) << network.error().message;
  const SafeTensors file = SafeTensors::open(checkpoint_.path() / "model.safetensors").value();
  ASSERT_TRUE(begin_with(torch_tensors(file).value(), source.parameters(), "the checkpoint"));
  const torch::NoGradGuard no_grad;

  const EncoderInfo& info = (*encoder)->info();
  Matrix<float> pixels(3, int64_t{3} * info.image_height * info.image_width);
  const nn::Tensor drawn = saccade::test::random_tensor({3, pixels.columns()}, 5);
  std::copy_n(drawn.data<float>(), drawn.numel(), pixels.values().begin());
  const RowSets states = (*encoder)
                             ->frozen_features()
                             ->image_features(pixels.view(), FrozenFeatures::ImageState::kVision)
                             .value();
  const Tensor memory = copy_of(states.rows.view(), {3, begin.memory_rows, states.rows.columns()});
  const RowSets rows = (*encoder)->late_interaction()->encode_image_rows(pixels.view()).value();
  EXPECT_LT(largest_difference(network->image_rows(memory, DType::kF32),
                               copy_of(rows.rows.view(), {3, begin.queries, info.dim})),
            1e-5);

  // Texts of several lengths, padded to the longest.
  std::vector<TokenizedText> texts;
  for (const char* text : {"in red", "make it green and larger", "x"}) {
    texts.push_back((*encoder)->tokenizer()->encode(text, info.context));
  }
  const auto longest =
      std::ranges::max(texts, {}, [](const auto& text) { return text.ids.size(); }).ids.size();
  const Tensor ids = torch::zeros({3, static_cast<int64_t>(longest)}, at::kLong);
  const Tensor mask = torch::zeros_like(ids);
  for (size_t i = 0; i < texts.size(); ++i) {
    std::ranges::copy(texts[i].ids, ids.data_ptr<int64_t>() + i * longest);
    std::fill_n(mask.data_ptr<int64_t>() + i * longest, texts[i].ids.size(), 1);
  }
  const SprcTerms terms = network->terms(memory, ids, mask, DType::kF32);
  const Matrix<float> queries = (*encoder)->prompt_reader()->encode_with_prompts(states, texts).value();
  EXPECT_LT(largest_difference(terms.queries, copy_of(queries.view(), {3, info.dim})), 2e-5);
  EXPECT_TRUE(torch::equal(terms.queries, network->queries(memory, ids, mask, DType::kF32)));

  // The Q-Former of inference reads the auxiliary prompt likewise; its own test compares it with plain sums.
  nn::LoadedParameters loaded(begin.weights.tensors);
  auto qformer = QFormer::make(begin.config, begin.queries, loaded);
  ASSERT_TRUE(qformer) << qformer.error().message;
  qformer->pack(DType::kF32);
  auto projection =
      nn::Linear::make(loaded, "text_projection", begin.config.shape.width, begin.projection, 0.02);
  ASSERT_TRUE(projection) << projection.error().message;
  projection->pack(DType::kF32);
  const Tensor auxiliary = own.parameters().at("auxiliary_prompt").detach();
  const nn::Tensor alone = nn::normalize_rows(projection->forward(
      qformer->read_prompted(borrow_torch(auxiliary).expand({3, -1, -1}), QFormer::PromptPlace::kAfterStart,
                             borrow_torch(ids), borrow_torch(mask), DType::kF32)));
  EXPECT_LT(largest_difference(terms.alone, torch_over(alone)), 2e-5);
  EXPECT_TRUE(torch::equal(terms.auxiliary.detach(), auxiliary));
  EXPECT_EQ(terms.prompts.sizes(), (std::vector<int64_t>{3, begin.queries, begin.config.shape.width}));
}

// A stage and everything that it borrows.
struct OpenSprc {
  ComposedTrainingOptions options;
  ComposedData data;
  LoadedEncoder loaded;
  std::vector<TokenizedText> texts;
  StoredTokens states;
  std::unique_ptr<SprcTrainingTask> task;
};

std::unique_ptr<OpenSprc> open(const ComposedTrainingOptions& options, const fs::path& cache,
                               ThreadPool& pool) {
  auto made = std::make_unique<OpenSprc>();
  made->options = options;
  made->data = read_composed_data(options).value();
  made->loaded = load_checkpoint(options.model, options.encoder).value();
  const EncoderBackend& encoder = *made->loaded.encoder;
  for (const std::string& text : made->data.texts) {
    made->texts.push_back(encoder.tokenizer()->encode(text, encoder.info().context));
  }
  made->states = store_vision_states(made->loaded, made->data, cache, options.embed, pool).value();
  EXPECT_TRUE(settle_composed_data(options, made->states.file, made->data));
  ComposedStage stage;
  stage.composer.kind = "sprc";
  stage.composer.dim = encoder.info().dim;
  stage.loaded = &made->loaded;
  stage.data = &made->data;
  stage.picture_tokens = &made->states;
  stage.texts = made->texts;
  made->task = SprcTrainingTask::make(made->options, stage, pool).value();
  return made;
}

// In single precision: every parameter is moved along its own gradient, where the loss changes most.
TEST_F(TrainSprc, GradientsAreDifferencesOfTheLoss) {
  ThreadPool pool(1);
  for (const WrongAnswers wrong : {WrongAnswers::kTargets, WrongAnswers::kReferences}) {
    ComposedTrainingOptions small = options("gradients");
    small.batch = 8;
    small.wrong = wrong;
    const auto stage = open(small, data_.folder() / "cache", pool);
    const SprcBatch batch = stage->task->batch(0);
    ASSERT_EQ(batch.positives.sizes(),
              (std::vector<int64_t>{8, wrong == WrongAnswers::kReferences ? 16 : 8}));
    stage->task->loss(batch).backward();
    const torch::NoGradGuard no_grad;
    int64_t tested = 0;
    for (const auto& [name, parameter] : stage->task->parameters()) {
      ASSERT_TRUE(parameter.grad().defined()) << name;
      const double length = parameter.grad().norm().item<double>();
      if (length < 0.05) continue;  // too little for single precision
      ++tested;
      const double slope = test::derivative_along(parameter.grad() / length, parameter, 1e-3,
                                                  [&] { return stage->task->loss(batch).item<double>(); });
      EXPECT_NEAR(slope, length, 0.05 * length + 2e-3) << name;
    }
    EXPECT_GT(tested, 20);
    for (const char* name :
         {"query_tokens", "vision_projection.weight", "text_projection.weight", "composer.logit_scale",
          "composer.auxiliary_prompt", "qformer.encoder.layer.0.crossattention.attention.value.weight"}) {
      ASSERT_TRUE(stage->task->parameters().contains(name)) << name;
      EXPECT_GT(stage->task->parameters().at(name).grad().abs().max().item<double>(), 0) << name;
    }
  }
}

TEST_F(TrainSprc, ATrainingWritesAComposerWithItsEncoder) {
  const ComposedTrainingOptions training = options("run");
  const ComposedTrainingReport report = train(training);
  ASSERT_EQ(report.stages.size(), 1U);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.triplets, 72);
  const ComposedStageReport& stage = report.stages[0];
  std::vector<double> losses;
  std::istringstream lines(test::read(training.run / "fuse/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    losses.push_back(parse_json(line).value()["loss"].get<double>());
  }
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_LT(losses.back(), losses.front());
  const Json run = read_json(training.run / "run.json").value();
  EXPECT_EQ(run["sprc"], (Json{{"prompt_weight", 0.4}, {"alignment_weight", 0.4}, {"rate", 1e-3}}));

  // The composer, on the images themselves and its own encoder, has the figures of the training.
  const auto composer = Composer::open(stage.model);
  ASSERT_TRUE(composer) << composer.error().message;
  EXPECT_EQ((*composer)->kind().name, "sprc");
  const fs::path folder = (*composer)->encoder_folder().value();
  EXPECT_EQ(folder, stage.model / "encoder");
  const auto encoder = load_encoder(folder);
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_TRUE((*composer)->check_encoder(**encoder));
  const auto first = load_encoder(checkpoint_.path()).value();
  EXPECT_FALSE((*composer)->check_encoder(*first));
  Dataset dataset = read_dataset(DatasetSource(data_.folder() / "held.jsonl")).value();
  for (EditQuery& query : dataset.as<EditQueries>().items) query.paraphrases.clear();
  const ComposedTask task = composed_task(dataset, {}, {}).value();
  ThreadPool pool(1);
  std::vector<ImageRef> refs;
  for (const GalleryPicture& each : task.pictures) refs.push_back(each.image);
  const PixelOptions reading =
      pixel_options(with_transparency((*encoder)->preprocessing(), Transparency::kWhite));
  const PixelBatch pixels = read_pixels(
      std::ssize(refs), [&](int64_t i) { return read_image_bytes(refs[static_cast<size_t>(i)]); }, reading,
      pool);
  ASSERT_TRUE(pixels.failed.empty());
  EmbeddedRows gallery;
  gallery.late = true;
  gallery.sets = (*encoder)->late_interaction()->encode_image_rows(pixels.rows()).value();
  Matrix<float> references(std::ssize(task.asked), pixels.pixels.columns());
  std::vector<std::string> words;
  for (size_t a = 0; a < task.asked.size(); ++a) {
    const auto row = pixels.rows().row(task.queries[static_cast<size_t>(task.asked[a].query)].reference);
    std::ranges::copy(row, references.row(static_cast<int64_t>(a)).begin());
    words.push_back(task.asked[a].texts.front());
  }
  const auto composed = (*composer)->compose(**encoder, references.view(), words);
  ASSERT_TRUE(composed) << composed.error().message;
  const auto answers =
      rank_composed(task, composed->rows.view(), gallery, TiePolicy::kPessimistic, 0, pool).value();
  // Half precision of the cached states may change a query's result.
  EXPECT_NEAR(recall_at(task, answers, 5), stage.held_out.at(0)["figures"]["r5"]["value"].get<double>(),
              2.01 / static_cast<double>(task.queries.size()));

  // The vision tower and the matching head are the checkpoint's, the rest is trained.
  const SafeTensors before = SafeTensors::open(checkpoint_.path() / "model.safetensors").value();
  const SafeTensors after = SafeTensors::open(folder / "model.safetensors").value();
  const auto same = [&](const char* name) {
    return before.find(name)->to_floats().value() == after.find(name)->to_floats().value();
  };
  for (const char* name : {"vision_model.post_layernorm.weight", "itm_head.weight"}) EXPECT_TRUE(same(name));
  for (const char* name : {"query_tokens", "text_projection.weight", "vision_projection.weight",
                           "qformer.encoder.layer.0.intermediate.dense.weight",
                           "qformer.encoder.layer.0.intermediate_query.dense.weight"}) {
    EXPECT_FALSE(same(name)) << name;
  }
}

TEST_F(TrainSprc, GoesOnExactlyWhereItStopped) {
  ComposedTrainingOptions whole = options("whole");
  whole.steps = 8;
  whole.evaluate_every = whole.checkpoint_every = 4;
  ComposedTrainingOptions pieces = whole;
  pieces.run = data_.folder() / "pieces";
  const ComposedTrainingReport at_once = train(whole);
  std::stop_source stop;
  const ComposedTrainingReport part = train(pieces, stop.get_token(), [&](const ProgressUpdate& update) {
    if (update.what == "training" && update.done == 5) stop.request_stop();
  });
  EXPECT_FALSE(part.finished);
  ASSERT_EQ(part.stages.size(), 1U);
  ASSERT_EQ(part.stages[0].steps, 5);
  const ComposedTrainingReport rest = train(pieces);
  EXPECT_TRUE(rest.finished);
  ASSERT_EQ(rest.stages.size(), 1U);
  ASSERT_EQ(at_once.stages.size(), 1U);
  for (const char* file : {"model.safetensors", "encoder/model.safetensors"}) {
    EXPECT_EQ(sha256_file(rest.stages[0].model / file).value(),
              sha256_file(at_once.stages[0].model / file).value())
        << file;
  }
}

TEST_F(TrainSprc, RefusesWhatItDoesNotTrain) {
  ComposedTrainingOptions towers = options("run");
  towers.towers = TrainedTowers::kBoth;
  EXPECT_THAT(refusal(towers, ErrorCode::kUsage), HasSubstr("expected towers none"));
  ComposedTrainingOptions align = options("run");
  align.align = AlignTargets::kReal;
  EXPECT_THAT(refusal(align, ErrorCode::kUsage), HasSubstr("method sprc has no stage one"));
  ComposedTrainingOptions dropped = options("run");
  dropped.dropout = 0.1;
  EXPECT_THAT(refusal(dropped, ErrorCode::kUsage), HasSubstr("method sprc has none"));
  ComposedTrainingOptions weight = options("run");
  weight.sprc.alignment = -1;
  EXPECT_THAT(refusal(weight, ErrorCode::kUsage), HasSubstr("weight of the alignment is -1"));
  ComposedTrainingOptions starter = options("run");
  starter.model = (fs::path(test::kSourceDir) / "models/starter").string();
  EXPECT_THAT(refusal(starter, ErrorCode::kUnsupported), HasSubstr("no Q-Former that reads a prompt"));
  EXPECT_FALSE(fs::exists(data_.folder() / "run"));
  // Another weight is another training.
  ComposedTrainingOptions first = options("run");
  first.steps = 2;
  train(first);
  ComposedTrainingOptions other = first;
  other.sprc.prompt = 0.5;
  EXPECT_THAT(refusal(other, ErrorCode::kMismatch), HasSubstr("prompt_weight"));
}

}  // namespace
}  // namespace saccade::lab
