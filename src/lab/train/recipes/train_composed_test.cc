// Tests of composers' training: adaptive token fusion's gradients, batches, trainings end to end, resumed and
// stopped, and invalid training data.
#include "lab/train/recipes/train_composed.h"

#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "lab/data/generated.h"
#include "lab/data/read_dataset.h"
#include "lab/eval/composed/composed_figures.h"
#include "lab/train/math/atf_operations.h"
#include "lab/train/math/test_gradients.h"
#include "lab/train/recipes/test_edits.h"
#include "lab/train/recipes/train_inversion.h"
#include "lab/train/tasks/composed_training_task.h"
#include "saccade/core/hash.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/composers/composer.h"
#include "saccade/nn/test_tensors.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using torch::Tensor;

// --- adaptive token fusion with gradients ---------------------------------------------------------------

constexpr int64_t kDim = 8;
constexpr int64_t kPictureTokens = 4;
constexpr int64_t kTextPlaces = 5;

struct AtfInput {
  Tensor pictures, texts, picture_tokens, text_tokens;
  std::vector<int64_t> lengths = {3, 5};

  AtfInput() {
    torch::manual_seed(3);
    picture_tokens = torch::randn({2, kPictureTokens, kDim}, at::kDouble);
    text_tokens = torch::randn({2, 5, kDim}, at::kDouble);
    // Makes some tokens similar.
    text_tokens.select(1, 1).copy_(2 * picture_tokens.select(1, 2) + 0.2 * text_tokens.select(1, 1));
    text_tokens.select(1, 2).copy_(picture_tokens.select(1, 0) + 0.3 * text_tokens.select(1, 2));
    pictures = normalize_rows(torch::randn({2, kDim}, at::kDouble));
    texts = normalize_rows(torch::randn({2, kDim}, at::kDouble));
  }
};

TEST(TrainedAtf, MergesGradientsAreFiniteDifferencesInDouble) {
  const AtfInput input;
  for (const MergeWeights weights :
       {MergeWeights::kEqual, MergeWeights::kSimilarity, MergeWeights::kLearned}) {
    for (const MergeMatching matching : {MergeMatching::kAll, MergeMatching::kMutual}) {
      Tensor v = input.picture_tokens.clone().requires_grad_(true);
      Tensor t = input.text_tokens.clone().requires_grad_(true);
      Tensor share = torch::full({}, 0.3, at::kDouble).requires_grad_(true);
      const TokenMerge merge = plan_token_merge(plain_values(Variable(v)), plain_values(Variable(t)),
                                                input.lengths, {0.6, matching, weights});
      ASSERT_FALSE(merged_pairs(merge)[0].empty());
      const auto most = std::max(merge.begin[1], merge.begin[2] - merge.begin[1]);
      const Tensor mixed = torch::randn({2, most, kDim}, at::kDouble);
      const auto value = [&] { return (merged_tokens(v, t, merge, weights, share) * mixed).sum(); };
      value().backward();
      const torch::NoGradGuard no_grad;
      std::vector<Tensor> leaves = {v, t};
      if (weights == MergeWeights::kLearned) leaves.push_back(share);
      for (Tensor& leaf : leaves) {
        for (int64_t i = 0; i < leaf.numel(); ++i) {
          const double expected =
              test::derivative(leaf.data_ptr<double>()[i], 1e-6, [&] { return value().item<double>(); });
          ASSERT_NEAR(leaf.grad().flatten()[i].item<double>(), expected, 1e-6)
              << enum_name(weights) << " " << i;
        }
      }
    }
  }
}

// Computes all of it in plain operations in double, for the shapes of the study's fusion and of our variant.
Tensor plain_atf(const TorchMap& p, const AtfOptions& options, const AtfInput& input, const Tensor& v,
                 const Tensor& t, const TokenMerge& merge) {
  const auto linear = [&](const std::string& name, const Tensor& x) {
    return at::linear(x, p.at(name + ".weight"), p.at(name + ".bias"));
  };
  std::vector<Tensor> rows;
  for (int64_t e = 0; e < 2; ++e) {
    std::vector<Tensor> tokens;
    for (int64_t k = merge.begin[static_cast<size_t>(e)]; k < merge.begin[static_cast<size_t>(e) + 1]; ++k) {
      const MergedToken& token = merge.tokens[static_cast<size_t>(k)];
      Tensor x = token.picture >= 0 ? v[e][token.picture] : t[e][token.text];
      if (token.is_average()) {
        const Tensor& text = t[e][token.text];
        const Tensor cosine = at::relu((x * text).sum() / (x.norm() * text.norm()));
        const Tensor s = options.merge.weights == MergeWeights::kLearned ? at::sigmoid(p.at("share"))
                                                                         : cosine / (1 + cosine);
        x = (1 - s) * x + s * text;
      }
      x = x + p.at("picture_places")[token.picture >= 0 ? token.picture : kPictureTokens] +
          p.at("text_places")[token.text >= 0 ? token.text : kTextPlaces];
      const Tensor centred = x - x.mean();
      tokens.push_back(centred / at::sqrt(centred.pow(2).mean() + 1e-5) * p.at("norm.weight") +
                       p.at("norm.bias"));
    }
    const Tensor all = torch::stack(tokens);
    if (options.pooling == AtfPooling::kMean) {
      rows.push_back(linear("out", all.mean(0)));
      continue;
    }
    const Tensor sum = input.pictures[e] + input.texts[e];
    const Tensor asked = linear("query", sum).view({options.heads, kDim});
    const Tensor weights = at::softmax(at::matmul(asked, all.t()) / std::sqrt(static_cast<double>(kDim)), -1);
    const Tensor pooled = sum + linear("answer", at::matmul(weights, all).flatten());
    rows.push_back(sum + linear("out", at::gelu(linear("in", torch::cat({pooled, sum})))));
  }
  return torch::stack(rows);
}

void expect_plain_gradients(AtfOptions options) {
  const AtfInput input;
  options.merge.tau = 0.6;
  options.picture_tokens = kPictureTokens;
  options.text_places = kTextPlaces;
  InitializedParameters source(5);
  const auto atf = AtfOf<Variable>::make(options, kDim, source);
  ASSERT_TRUE(atf) << atf.error().message;
  TorchMap doubles;
  nn::TensorMap plain;
  {
    const torch::NoGradGuard no_grad;
    torch::manual_seed(4);
    for (const auto& [name, tensor] : source.parameters()) {
      Tensor(tensor).add_(0.2 * torch::randn(tensor.sizes()));  // a parameter of 0 would hide gradients
      doubles[name] = tensor.detach().to(at::kDouble).requires_grad_(true);
      plain[name] = borrow_torch(tensor.detach().clone());
    }
  }
  Tensor v = input.picture_tokens.to(at::kFloat).requires_grad_(true);
  Tensor t = input.text_tokens.to(at::kFloat).requires_grad_(true);
  ComposerPartsOf<Variable> parts{Variable(input.pictures.to(at::kFloat)),
                                  Variable(input.texts.to(at::kFloat)), Variable(v), Variable(t),
                                  input.lengths};
  TokenMerge merge;
  const Tensor rows = atf->forward(parts, &merge).tensor();
  const Tensor mixed = torch::randn({2, kDim});
  (rows * mixed).sum().backward();

  Tensor dv = input.picture_tokens.clone().requires_grad_(true);
  Tensor dt = input.text_tokens.clone().requires_grad_(true);
  const Tensor expected = plain_atf(doubles, options, input, dv, dt, merge);
  (expected * mixed.to(at::kDouble)).sum().backward();
  EXPECT_LT((rows.to(at::kDouble) - expected).abs().max().item<double>(), 1e-4);
  const auto compare = [](const std::string& name, const Tensor& a, const Tensor& b) {
    ASSERT_TRUE(a.defined()) << name;
    const double size = b.norm().item<double>();
    EXPECT_GT(size, 1e-6) << name;
    EXPECT_LT((a.to(at::kDouble) - b).norm().item<double>(), 1e-4 * size) << name;
  };
  for (const auto& [name, tensor] : source.parameters())
    compare(name, tensor.grad(), doubles.at(name).grad());
  compare("image tokens", v.grad(), dv.grad());
  compare("text tokens", t.grad(), dt.grad());

  // With frozen tokens it runs in one pass.
  for (const auto& [name, tensor] : source.parameters()) Tensor(tensor).mutable_grad().reset();
  parts.picture_tokens = Variable(v.detach());
  parts.text_tokens = Variable(t.detach());
  const Tensor frozen = atf->forward(parts).tensor();
  EXPECT_LT((frozen - rows).abs().max().item<double>(), 1e-5);
  (frozen * mixed).sum().backward();
  for (const auto& [name, tensor] : source.parameters())
    compare(name, tensor.grad(), doubles.at(name).grad());

  // Uses the same layers for inference.
  nn::LoadedParameters loaded(plain);
  auto inference = AtfOf<nn::Tensor>::make(options, kDim, loaded);
  ASSERT_TRUE(inference) << inference.error().message;
  inference->pack(DType::kF32);
  ComposerPartsOf<nn::Tensor> same{borrow_torch(input.pictures.to(at::kFloat)),
                                   borrow_torch(input.texts.to(at::kFloat)), borrow_torch(v.detach()),
                                   borrow_torch(t.detach()), input.lengths};
  EXPECT_LT(test::max_difference(inference->forward(same), borrow_torch(rows.detach().contiguous())), 1e-5);
}

TEST(TrainedAtf, GradientsAreAutogradsInDoubleAndRowsAreInferences) {
  AtfOptions ours = attention_atf_options();
  ours.merge.matching = MergeMatching::kAll;
  ours.merge.weights = MergeWeights::kLearned;
  ours.heads = 2;
  expect_plain_gradients(ours);
}

// Every pair at or above tau, weighted by similarity, the mean, one layer, nothing added.
TEST(TrainedAtf, TheStudysFusionIsTheDefault) {
  expect_plain_gradients({});
}

// Tests every option with frozen tokens, with a width that is not a multiple of a vector's, on one thread and
// on two. Results and every gradient must equal those of the plain operations.
TEST(TrainedAtf, OnePassIsThePlainOperationsUnderEveryOption) {
  constexpr int64_t kOddDim = 21;
  torch::manual_seed(11);
  const Tensor v = torch::randn({9, kPictureTokens, kOddDim});
  Tensor t = torch::randn({9, kTextPlaces, kOddDim});
  t.select(1, 1).copy_(v.select(1, 2) + 0.2 * t.select(1, 1));
  const std::vector<int64_t> lengths = {3, 5, 1, 5, 4, 2, 5, 5, 3};
  int checked = 0;
  for (const double tau : {-1.0, 0.6, 2.0}) {
    for (const MergeWeights weights :
         {MergeWeights::kEqual, MergeWeights::kSimilarity, MergeWeights::kLearned}) {
      for (const bool places : {true, false}) {
        for (const int64_t heads : {0, 1, 3}) {
          const TokenMerge merge = plan_token_merge(borrow_torch(v), borrow_torch(t), lengths,
                                                    {tau, MergeMatching::kBest, weights});
          const auto leaf = [](std::vector<int64_t> shape) {
            return torch::randn(shape).requires_grad_(true);
          };
          std::vector<Tensor> leaves = {leaf({kOddDim}), leaf({kOddDim})};
          MergedPoolOf<Variable> pool{.picture_tokens = Variable(v),
                                      .text_tokens = Variable(t),
                                      .merge = &merge,
                                      .weights = weights,
                                      .share = {},
                                      .picture_places = {},
                                      .text_places = {},
                                      .gain = Variable(leaves[0]),
                                      .bias = Variable(leaves[1]),
                                      .query = {}};
          if (weights == MergeWeights::kLearned) pool.share = Variable(leaves.emplace_back(leaf({})));
          if (places) {
            pool.picture_places = Variable(leaves.emplace_back(leaf({kPictureTokens + 1, kOddDim})));
            pool.text_places = Variable(leaves.emplace_back(leaf({kTextPlaces + 1, kOddDim})));
          }
          if (heads > 0) {
            pool.heads = heads;
            pool.query = Variable(leaves.emplace_back(leaf({9, heads * kOddDim})));
          }
          const Tensor mixed = torch::randn({9, pool.heads * kOddDim});
          const auto gradients = [&](const Variable& pooled) {
            return torch::autograd::grad({(pooled.tensor() * mixed).sum()}, leaves, {}, c10::nullopt, false,
                                         true);
          };
          const Variable plain = pool_merged_plainly(pool);
          const auto expected = gradients(plain);
          std::vector<Tensor> before;
          for (const int threads : {1, 2}) {
            at::set_num_threads(threads);
            const Variable pooled = pool_merged(pool);
            ASSERT_LT((pooled.tensor() - plain.tensor()).abs().max().item<double>(), 2e-5) << checked;
            const auto found = gradients(pooled);
            for (size_t i = 0; i < leaves.size(); ++i) {
              const Tensor wanted = expected[i].defined() ? expected[i] : torch::zeros_like(leaves[i]);
              ASSERT_LT((found[i] - wanted).abs().max().item<double>(),
                        1e-4 * (1 + wanted.abs().max().item<double>()))
                  << checked << " leaf " << i;
              ASSERT_TRUE(threads == 1 || at::equal(found[i], before[i])) << checked;
            }
            before = found;
          }
          ++checked;
        }
      }
    }
  }
  EXPECT_EQ(checked, 54);
}

TEST(TrainedAtf, LeavesOutHiddenValuesInTrainingAlone) {
  const AtfInput input;
  for (const AtfProjection projection : {AtfProjection::kMlp, AtfProjection::kCombiner}) {
    AtfOptions options = attention_atf_options();
    options.projection = projection;
    options.picture_tokens = kPictureTokens;
    options.text_places = kTextPlaces;
    InitializedParameters source(5);
    const ComposerConfig config{
        .kind = "atf", .dim = kDim, .options = atf_options_json(options), .encoder = {}};
    const auto atf = make_trained_composer(config, source);
    ASSERT_TRUE(atf) << atf.error().message;
    {
      const torch::NoGradGuard no_grad;
      torch::manual_seed(4);
      for (const auto& [name, tensor] : source.parameters())
        Tensor(tensor).add_(0.2 * torch::randn(tensor.sizes()));
    }
    const ComposerPartsOf<Variable> parts{Variable(input.pictures.to(at::kFloat)),
                                          Variable(input.texts.to(at::kFloat)),
                                          Variable(input.picture_tokens.to(at::kFloat)),
                                          Variable(input.text_tokens.to(at::kFloat)), input.lengths};
    const auto rows = [&](double dropout, int64_t step) {
      const StepDraw draw{.seed = 1, .step = step, .dropout = dropout};
      return (*atf)->compose(parts, nullptr, &draw);
    };
    const Tensor whole = (*atf)->compose(parts, nullptr, nullptr);
    EXPECT_TRUE(torch::equal(rows(0, 3), whole));
    EXPECT_TRUE(torch::equal(rows(0.5, 3), rows(0.5, 3)));
    EXPECT_FALSE(torch::allclose(rows(0.5, 3), rows(0.5, 4)));
    EXPECT_FALSE(torch::allclose(rows(0.5, 3), whole));
  }
}

// --- training -------------------------------------------------------------------------------------------

class TrainComposed : public test::ShapeEdits {
 protected:
  [[nodiscard]] ComposedTrainingOptions options(const std::string& run) const {
    ComposedTrainingOptions options = shape_options(run);
    options.steps = 60;
    return options;
  }
  static double r1(const ComposedStageReport& stage) {
    return stage.held_out.at(0)["figures"]["r1"]["value"].get<double>();
  }
  // Checks that the composer's results equal those measured during training. It is opened from its folder, on
  // the images themselves, encoded by the encoder that it names.
  void expect_as_measured(const ComposedStageReport& stage) const {
    const auto composer = Composer::open(stage.model);
    ASSERT_TRUE(composer) << composer.error().message;
    const auto encoder = load_encoder((*composer)->encoder_folder().value()).value();
    const Dataset dataset = read_dataset(DatasetSource(data_.folder() / "held.jsonl")).value();
    Dataset plain = dataset;
    for (EditQuery& query : plain.as<EditQueries>().items) query.paraphrases.clear();
    const ComposedTask task = composed_task(plain, {}, {}).value();
    ThreadPool pool(1);
    EmbedOptions embed;
    std::vector<ImageRef> refs;
    for (const GalleryPicture& each : task.pictures) refs.push_back(each.image);
    const PixelOptions reading =
        pixel_options(with_transparency(encoder->preprocessing(), embed.transparency));
    const PixelBatch pixels = read_pixels(
        std::ssize(refs), [&](int64_t i) { return read_image_bytes(refs[static_cast<size_t>(i)]); }, reading,
        pool);
    ASSERT_TRUE(pixels.failed.empty());
    const Matrix<float> gallery = encoder->encode_images(pixels.rows()).value();
    Matrix<float> references(std::ssize(task.asked), pixels.pixels.columns());
    std::vector<std::string> words;
    for (size_t a = 0; a < task.asked.size(); ++a) {
      const auto row = pixels.rows().row(task.queries[static_cast<size_t>(task.asked[a].query)].reference);
      std::ranges::copy(row, references.row(static_cast<int64_t>(a)).begin());
      words.push_back(task.asked[a].texts.front());
    }
    const auto composed = (*composer)->compose(*encoder, references.view(), words);
    ASSERT_TRUE(composed) << composed.error().message;
    const auto answers =
        rank_composed(task, composed->rows.view(), gallery.view(), TiePolicy::kPessimistic, 0, pool).value();
    // Half precision of the cached states may change one query's result.
    EXPECT_NEAR(recall_at(task, answers, 1), r1(stage), 1.01 / static_cast<double>(task.queries.size()));
  }
};

TEST_F(TrainComposed, FusionLearnsMoreThanTheSumKnows) {
  ComposedTrainingOptions untrained = options("untrained");
  untrained.atf = attention_atf_options();  // which begins at the plain sum
  untrained.steps = 0;
  const ComposedTrainingReport before = train(untrained);
  // A test set that is the held-out one in other paraphrases, which are not asked, has the same figures.
  std::string manifest = test::read(data_.folder() / "held.jsonl");
  for (size_t at = 0; (at = manifest.find("make it", at)) != std::string::npos;)
    manifest.replace(at, 7, "turn it");
  (void)data_.folder().write("test.jsonl", manifest);
  ComposedTrainingOptions tested = options("run");
  tested.atf = attention_atf_options();
  tested.steps = 200;
  tested.evaluate_every = 50;
  tested.test = {(data_.folder() / "test.jsonl").string()};
  const ComposedTrainingReport after = train(tested);
  ASSERT_EQ(after.stages.size(), 1U);
  ASSERT_EQ(after.stages[0].test.size(), 1U);
  EXPECT_EQ(after.stages[0].test[0]["figures"]["r1"], after.stages[0].held_out[0]["figures"]["r1"]);
  EXPECT_THAT(test::read(tested.run / "run.json"), HasSubstr("outcome"));
  EXPECT_TRUE(after.finished);
  EXPECT_EQ(after.triplets, 72);
  EXPECT_GT(r1(after.stages[0]), r1(before.stages[0]) + 0.2);

  expect_as_measured(after.stages[0]);
}

// Training lowers the loss of the study's own fusion, which begins at nothing, and the composer records it.
TEST_F(TrainComposed, TheStudysFusionTrainsByDefault) {
  ComposedTrainingOptions study = options("study");
  study.steps = 200;
  const ComposedTrainingReport report = train(study);
  ASSERT_EQ(report.stages.size(), 1U);
  std::vector<double> losses;
  std::istringstream lines(test::read(study.run / "fuse/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    losses.push_back(parse_json(line).value()["loss"].get<double>());
  }
  ASSERT_EQ(losses.size(), 10U);
  EXPECT_LT(losses.back(), losses.front());
  const Json run = read_json(study.run / "run.json").value();
  const Json config = read_json(report.stages[0].model / "config.json").value();
  for (const Json& recorded : {run["atf"], config["options"]}) {
    EXPECT_EQ(recorded["matching"], "all");
    EXPECT_EQ(recorded["weights"], "similarity");
    EXPECT_EQ(recorded["pooling"], "mean");
    EXPECT_EQ(recorded["projection"], "linear");
    EXPECT_EQ(recorded["residual"], "none");
  }
  EXPECT_TRUE(Composer::open(report.stages[0].model));

  ComposedTrainingOptions dropped = options("dropped");
  dropped.dropout = 0.5;
  EXPECT_THAT(refusal(dropped, ErrorCode::kUsage), HasSubstr("projection linear has no hidden values"));
}

TEST_F(TrainComposed, TowersTrainWithAComposerOfTheirOwn) {
  ComposedTrainingOptions both = options("both");
  both.align = AlignTargets::kReal;
  both.align_steps = 6;
  both.towers = TrainedTowers::kBoth;
  both.steps = 6;
  const ComposedTrainingReport report = train(both);
  ASSERT_EQ(report.stages.size(), 2U);
  const auto aligned = load_encoder(report.stages[0].model);
  ASSERT_TRUE(aligned) << aligned.error().message;
  const auto composer = Composer::open(report.stages[1].model);
  ASSERT_TRUE(composer) << composer.error().message;
  const fs::path own = (*composer)->encoder_folder().value();
  EXPECT_EQ(own, report.stages[1].model / "encoder");
  const auto encoder = load_encoder(own).value();
  EXPECT_TRUE((*composer)->check_encoder(*encoder));
  EXPECT_FALSE((*composer)->check_encoder(**aligned));

  // Trains a text tower alone, with the sum of both embeddings.
  ComposedTrainingOptions text = options("text");
  text.method = "sum";
  text.towers = TrainedTowers::kText;
  text.steps = 40;
  text.tower_rate = 1e-3;
  ComposedTrainingOptions untrained = text;
  untrained.run = data_.folder() / "text-untrained";
  untrained.steps = 0;
  const ComposedTrainingReport before = train(untrained);
  const ComposedTrainingReport after = train(text);
  EXPECT_GT(r1(after.stages[0]), r1(before.stages[0]));
  const SafeTensors first = SafeTensors::open(fs::path(text.model) / "model.safetensors").value();
  const SafeTensors last = SafeTensors::open(after.stages[0].model / "encoder/model.safetensors").value();
  const auto same = [&](const char* name) {
    return first.find(name)->to_floats().value() == last.find(name)->to_floats().value();
  };
  EXPECT_TRUE(same("visual_projection.weight"));
  EXPECT_FALSE(same("text_projection.weight"));
}

// Images are encoded as before, so that such a composer can search existing collections.
TEST_F(TrainComposed, ATextTowerTrainedWithAComposerReadsTheWordsAlone) {
  ComposedTrainingOptions training = options("text-tower");
  training.method = "combiner";
  training.towers = TrainedTowers::kText;
  training.steps = 20;
  training.tower_rate = 1e-3;
  const ComposedTrainingReport report = train(training);
  ASSERT_EQ(report.stages.size(), 1U);
  const fs::path& folder = report.stages[0].model;
  const auto composer = Composer::open(folder);
  ASSERT_TRUE(composer) << composer.error().message;
  const auto base = load_encoder(training.model).value();
  EXPECT_EQ((*composer)->encoder_folder().value(), fs::canonical(training.model));
  EXPECT_TRUE((*composer)->check_encoder(*base));
  EXPECT_EQ((*composer)->texts(*base).info().fingerprint, checkpoint_fingerprint(folder / "encoder").value());
  EXPECT_NE((*composer)->texts(*base).info().fingerprint, base->info().fingerprint);
  expect_as_measured(report.stages[0]);
  const auto own = load_encoder(folder / "encoder").value();
  const std::vector<std::string> words = {"make it red"};
  const EncoderInfo& info = base->info();
  const Matrix<float> pixels(1, int64_t{3} * info.image_height * info.image_width);
  const auto rows_by = [&](EncoderBackend& texts) -> std::vector<float> {
    const ComposerNeeds& needs = (*composer)->kind().needs;
    const ComposerInput input = composer_input(*base, texts, needs, pixels.view(), words).value();
    const Matrix<float> rows = (*composer)->compose(*base, input).value().rows;
    return std::vector<float>(rows.row(0).begin(), rows.row(0).end());
  };
  const Matrix<float> rows = (*composer)->compose(*base, pixels.view(), words).value().rows;
  const std::vector<float> composed(rows.row(0).begin(), rows.row(0).end());
  EXPECT_EQ(composed, rows_by(*own));
  EXPECT_NE(composed, rows_by(*base));

  // A text tower other than the one of the training is refused, and so is a missing one.
  const fs::path weights = folder / "encoder" / "model.safetensors";
  fs::copy_file(fs::path(training.model) / "model.safetensors", weights,
                fs::copy_options::overwrite_existing);
  const auto swapped = Composer::open(folder);
  ASSERT_FALSE(swapped);
  EXPECT_EQ(swapped.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(swapped.error().message, HasSubstr("it is another one"));
  fs::remove_all(folder / "encoder");
  const auto gone = Composer::open(folder);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound) << gone.error().message;
}

TEST_F(TrainComposed, GoesOnExactlyWhereItStopped) {
  for (const TrainedTowers towers : {TrainedTowers::kNone, TrainedTowers::kBoth}) {
    const std::string name(enum_name(towers));
    ComposedTrainingOptions whole = options("whole-" + name);
    whole.towers = towers;
    whole.steps = 12;
    whole.evaluate_every = whole.checkpoint_every = 4;
    ComposedTrainingOptions pieces = whole;
    pieces.run = data_.folder() / ("pieces-" + name);
    const ComposedTrainingReport at_once = train(whole);
    std::stop_source stop;
    const ComposedTrainingReport part = train(pieces, stop.get_token(), [&](const ProgressUpdate& update) {
      if (update.what == "training" && update.done == 5) stop.request_stop();
    });
    EXPECT_FALSE(part.finished);
    ASSERT_EQ(part.stages[0].steps, 5);
    const ComposedTrainingReport rest = train(pieces);
    EXPECT_TRUE(rest.finished);
    EXPECT_EQ(sha256_file(rest.stages[0].model / "model.safetensors").value(),
              sha256_file(at_once.stages[0].model / "model.safetensors").value());
    EXPECT_EQ(test::read(pieces.run / "fuse/metrics.jsonl"), test::read(whole.run / "fuse/metrics.jsonl"));
  }
}

TEST_F(TrainComposed, PseudoTargetsComeFromAFolder) {
  const fs::path folder = data_.folder() / "drawn";
  fs::create_directories(folder);
  fs::copy_file(data_.folder() / "green-square-0.png", folder / "0.png");
  ComposedTrainingOptions pseudo = options("pseudo");
  pseudo.align = AlignTargets::kPseudo;
  pseudo.pseudo_targets = folder;
  pseudo.method = "none";
  pseudo.align_steps = 2;
  EXPECT_THAT(refusal(pseudo, ErrorCode::kNotFound), HasSubstr("generated.jsonl"));
  GeneratedEdits generated;
  generated.engine = {{"name", "copy"}};
  generated.edits.push_back({.query = "red-square-0-green",
                             .gallery = "g",
                             .reference = "red-square-0",
                             .text = "in green",
                             .file = "0.png",
                             .width = 24,
                             .height = 24,
                             .error = ""});
  (void)data_.folder().write("drawn/generated.jsonl", format_generated_edits(generated).value());
  const ComposedTrainingReport report = train(pseudo);
  ASSERT_EQ(report.stages.size(), 1U);
  EXPECT_EQ(report.stages[0].stage, "align");
  EXPECT_TRUE(load_encoder(report.stages[0].model));
  EXPECT_THAT(test::read(pseudo.run / "run.json"), HasSubstr("\"there\": 1"));
}

TEST_F(TrainComposed, LeavesOutWhatCannotBeRead) {
  fs::remove(data_.folder() / "red-square-0.png");
  (void)data_.folder().write("blue-post-1.png", "no picture");
  ComposedTrainingOptions some = options("run");
  some.steps = 2;
  const ComposedTrainingReport report = train(some);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.left_out.size(), 2U);
  EXPECT_EQ(report.triplets, 72 - 2 * 6);  // three with it as the reference and three as the target, each
  ComposedTrainingOptions too_few = options("too-few");
  too_few.batch = 64;
  EXPECT_THAT(refusal(too_few, ErrorCode::kBadData), HasSubstr("a batch of 64 from 60 triplets"));
}

TEST_F(TrainComposed, RefusesWhatCannotBeTrained) {
  ComposedTrainingOptions sum = options("run");
  sum.method = "sum";
  EXPECT_THAT(refusal(sum, ErrorCode::kUsage), HasSubstr("nothing to be trained"));
  ComposedTrainingOptions none = options("run");
  none.method = "none";
  EXPECT_THAT(refusal(none, ErrorCode::kUsage), HasSubstr("neither stage"));
  ComposedTrainingOptions another = options("run");
  another.method = "magic";
  EXPECT_THAT(refusal(another, ErrorCode::kUnsupported), HasSubstr("known are"));
  ComposedTrainingOptions captions = options("run");
  captions.datasets = {(data_.folder() / "shapes.jsonl").string()};
  EXPECT_THAT(refusal(captions, ErrorCode::kUsage), HasSubstr("not edit queries"));
  ComposedTrainingOptions held = options("run");
  held.held_out = held.datasets;
  EXPECT_THAT(refusal(held, ErrorCode::kUsage), HasSubstr("must be apart"));
  ComposedTrainingOptions siglip = options("run");
  siglip.model = (fs::path(test::kSourceDir) / "tests/golden/siglip").string();
  const auto refused = train_composed(siglip, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(fs::exists(data_.folder() / "run"));

  ComposedTrainingOptions dry = options("run");
  dry.dry_run = true;
  EXPECT_TRUE(train_composed(dry, {}, {}));
  EXPECT_FALSE(fs::exists(data_.folder() / "run"));

  ComposedTrainingOptions first = options("run");
  first.steps = 2;
  train(first);
  ComposedTrainingOptions other = first;
  other.atf.merge.tau = 0.5;
  EXPECT_THAT(refusal(other, ErrorCode::kMismatch), HasSubstr("tau"));
}

TEST_F(TrainComposed, RefusesMicroBatchesOfWhatIsNotEncoded) {
  ComposedTrainingOptions frozen = options("run");
  frozen.accumulate = 2;
  EXPECT_THAT(refusal(frozen, ErrorCode::kUsage), HasSubstr("accumulate is 2: it is for towers"));
  frozen.towers = TrainedTowers::kText;
  frozen.accumulate = frozen.batch + 1;
  EXPECT_THAT(refusal(frozen, ErrorCode::kUsage), HasSubstr("expected 1 to 24 (the batch size)"));
  InversionTrainingOptions inversion;
  inversion.texts = data_.folder() / "texts.txt";
  inversion.accumulate = 2;
  const auto refused = train_inversion(inversion, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("takes a batch as a whole"));
}

TEST_F(TrainComposed, ChecksThatATowerIsTrainedIfActivationsAreCheckpointed) {
  ComposedTrainingOptions frozen = options("run");
  frozen.checkpoint_activations = true;
  EXPECT_THAT(refusal(frozen, ErrorCode::kUsage), HasSubstr("none is trained here"));
  ComposedTrainingOptions trained = frozen;
  trained.towers = TrainedTowers::kText;
  EXPECT_TRUE(check_composed_options(trained));
  trained = frozen;
  trained.align = AlignTargets::kReal;
  EXPECT_TRUE(check_composed_options(trained));
}

TEST_F(TrainComposed, RefusesADeviceThatIsNotThere) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "this machine has CUDA";
  ComposedTrainingOptions cuda = options("run");
  cuda.device = TrainingDevice::kCuda;
  EXPECT_EQ(refusal(cuda, ErrorCode::kUnsupported), "device cuda: this libtorch or machine has none");
  InversionTrainingOptions inversion;
  inversion.device = TrainingDevice::kCuda;
  const auto refused = train_inversion(inversion, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "device cuda: this libtorch or machine has none");
  EXPECT_FALSE(fs::exists(data_.folder() / "run"));
}

// A limit on the file size simulates a full disk.
TEST_F(TrainComposed, AFullDiskIsAnErrorAndNothingIsLost) {
  ComposedTrainingOptions all = options("run");
  all.steps = 4;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t bytes : {rlim_t{20'000}, rlim_t{300'000}}) {
    const rlimit small{bytes, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto report = train_composed(all, {}, {});
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_FALSE(report) << bytes;
    EXPECT_EQ(report.error().code, ErrorCode::kIo) << report.error().message;
  }
  std::signal(SIGXFSZ, old);
  EXPECT_TRUE(train(all).finished);
}

TEST_F(TrainComposed, PicturesOfOneContentAreNoWrongAnswers) {
  // Another name for the same target: a mirrored square is the square.
  fs::copy_file(data_.folder() / "green-square-0.png", data_.folder() / "green-square-0 mirrored.png");
  std::string manifest = test::read(data_.folder() / "train.jsonl");
  manifest +=
      "{\"gallery_image\": \"green-square-0 mirrored.png\", \"id\": \"twin\", \"gallery\": \"g\"}\n"
      "{\"id\": \"twin\", \"reference\": \"green-square-0\", \"texts\": [\"mirrored\"], \"targets\": [\"twin\"], \"gallery\": "
      "\"g\", \"group\": \"square-0\"}\n";
  (void)data_.folder().write("train.jsonl", manifest);
  ComposedTrainingOptions small = options("run");
  small.batch = 73;
  small.held_out.clear();
  ComposedData data = read_composed_data(small).value();
  const LoadedEncoder loaded = load_checkpoint(small.model, small.encoder).value();
  ThreadPool pool(1);
  std::vector<TokenizedText> texts;
  for (const std::string& text : data.texts) texts.push_back(loaded.encoder->tokenizer()->encode(text, 32));
  const StoredTokens pictures =
      store_picture_tokens(loaded, data, true, data_.folder() / "cache", small.embed, pool).value();
  const StoredTokens words =
      store_text_tokens(loaded, texts, true, data_.folder() / "cache", small.embed).value();
  ASSERT_TRUE(settle_composed_data(small, pictures.file, data));
  small.atf.picture_tokens = 17;
  small.atf.text_places = 32;
  ComposedStage stage;
  stage.composer.kind = "atf";
  stage.composer.dim = 192;
  stage.composer.options = atf_options_json(small.atf);
  stage.loaded = &loaded;
  stage.data = &data;
  stage.picture_tokens = &pictures;
  stage.text_tokens = &words;
  stage.texts = texts;
  const auto task = ComposedTrainingTask::make(small, stage, pool).value();
  const ComposedBatch batch = task->batch(0);
  // The batch has every triplet once: its target, and the references beside them. Equal images are found by
  // their embeddings.
  ASSERT_EQ(batch.positives.sizes(), (std::vector<int64_t>{73, 146}));
  const Tensor rows = normalize_rows(batch.picture_rows);
  const Tensor candidates =
      torch::cat({rows.index_select(0, batch.targets), rows.index_select(0, batch.references)});
  const Tensor equal = at::matmul(rows.index_select(0, batch.targets), candidates.t()) > 0.99999;
  EXPECT_TRUE(at::equal(batch.positives, equal));
  // "mirrored" names what its reference shows, so that reference is a positive too.
  EXPECT_GT(
      (batch.positives.slice(1, 73) & batch.positives.slice(1, 0, 73).any(1, true)).sum().item<int64_t>(),
      73);
  // The same step gives the same batch, another step another one.
  EXPECT_TRUE(at::equal(task->batch(0).targets, batch.targets));
  EXPECT_FALSE(at::equal(task->batch(1).targets, batch.targets));
}

TEST_F(TrainComposed, InversionIsMeasuredAsOtherComposersAre) {
  InversionTrainingOptions inversion;
  inversion.texts = data_.folder().write("texts.txt", "a red square\nin green\na blue bar\na yellow frame\n");
  inversion.model = (fs::path(test::kSourceDir) / "models/starter").string();
  inversion.held_out = {(data_.folder() / "held.jsonl").string()};
  // Uses the held-out queries in other paraphrases, which are not asked.
  std::string manifest = test::read(data_.folder() / "held.jsonl");
  for (size_t at = 0; (at = manifest.find("make it", at)) != std::string::npos;)
    manifest.replace(at, 7, "turn it");
  inversion.test = {data_.folder().write("test.jsonl", manifest).string()};
  inversion.run = data_.folder() / "inversion";
  inversion.sentence = "* {}";
  inversion.steps = 4;
  inversion.evaluate_every = 2;
  inversion.batch = 4;
  inversion.hidden = 24;
  inversion.bootstrap.resamples = 20;
  inversion.encoder.threads = 1;
  (void)data_.folder().write("blue-bar-1.png", "no picture");
  const auto report = train_inversion(inversion, {}, {});
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->held_out.size(), 1U);
  const Json& r1 = report->held_out[0]["figures"]["r1"];
  EXPECT_LE(r1["low"], r1["value"]);
  EXPECT_LE(r1["value"], r1["high"]);
  ASSERT_EQ(report->test.size(), 1U);
  EXPECT_EQ(report->test[0]["figures"], report->held_out[0]["figures"]);
  EXPECT_THAT(test::read(inversion.run / "run.json"), HasSubstr("outcome"));
  // Among 24 queries, three have the unreadable image as reference, and three as target.
  EXPECT_EQ(report->held_out[0]["queries"], 24 - 6);
  ASSERT_EQ(report->left_out.size(), 2U);  // once in either set
  EXPECT_THAT(report->left_out[0], HasSubstr("blue-bar-1.png"));
  // Data that selected a checkpoint cannot be its test set.
  inversion.test = inversion.held_out;
  inversion.run = data_.folder() / "other";
  const auto refused = train_inversion(inversion, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("held out for choosing"));
}

TEST_F(TrainComposed, AnEpochHasEveryTripletAndGroupsTogether) {
  const ComposedData data = read_composed_data(options("run")).value();
  GroupedOrder order(data, 4, 9);
  std::vector<int64_t> first;
  for (int64_t i = 0; i < data.size(); ++i) first.push_back(order.at(i));
  std::set<int64_t> seen(first.begin(), first.end());
  EXPECT_EQ(std::ssize(seen), data.size());
  for (size_t i = 0; i + 3 < first.size(); i += 4) {
    for (size_t k = 1; k < 4; ++k) {
      EXPECT_EQ(data.triplets[static_cast<size_t>(first[i + k])].group,
                data.triplets[static_cast<size_t>(first[i])].group);
    }
  }
  EXPECT_NE(order.at(data.size()), first[0]);
  EXPECT_EQ(GroupedOrder(data, 4, 9).at(5), first[5]);
}

}  // namespace
}  // namespace saccade::lab
