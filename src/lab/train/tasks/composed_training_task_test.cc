// Tests of stage one of composers' training: which target each triplet of a batch gets, which pairs are
// positives, and that training lowers the loss on pairs that it has not seen.
#include "lab/train/tasks/composed_training_task.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lab/data/generated.h"
#include "lab/train/math/test_graph.h"
#include "lab/train/recipes/test_edits.h"
#include "saccade/image/image_codec.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

// A stage and everything that it borrows.
struct OpenStage {
  ComposedTrainingOptions options;
  ComposedData data;
  LoadedEncoder loaded;
  std::vector<TokenizedText> texts;
  StoredTokens pictures;
  std::unique_ptr<ComposedTrainingTask> task;
};

// Names of a triplet and its real target, from its reference's file and its text.
struct NamedTriplet {
  std::string id;    // "red-bar-0-green"
  std::string to;    // "green"
  std::string real;  // "green-bar-0.png"
};

NamedTriplet named_triplet(const ComposedData& data, int64_t triplet) {
  const ComposedTriplet& each = data.triplets[static_cast<size_t>(triplet)];
  const std::string reference = data.pictures[static_cast<size_t>(each.reference)].path.stem().string();
  const std::string text = data.texts[static_cast<size_t>(data.wordings_of(triplet).front())];
  NamedTriplet named;
  named.to = text.substr(text.rfind(' ') + 1);
  named.id = reference + "-" + named.to;
  named.real = named.to + reference.substr(reference.find('-')) + ".png";
  return named;
}

class StageOne : public test::ShapeEdits {
 protected:
  // Options of 72 triplets, all of them in a batch.
  [[nodiscard]] ComposedTrainingOptions options(AlignTargets align) const {
    ComposedTrainingOptions options;
    options.datasets = {(data_.folder() / "train.jsonl").string()};
    options.model = (fs::path(test::kSourceDir) / "models/starter").string();
    options.method = "none";
    options.align = align;
    options.align_towers = TrainedTowers::kText;
    if (align == AlignTargets::kPseudo) options.pseudo_targets = data_.folder() / "drawn";
    options.batch = 72;
    options.paraphrases = 0;
    options.encoder.threads = 1;
    return options;
  }

  // Opens a stage that trains the text tower. Stage two composes by the sum.
  std::unique_ptr<OpenStage> open(const ComposedTrainingOptions& options, bool align = true) {
    auto made = std::make_unique<OpenStage>();
    made->options = options;
    made->data = read_composed_data(options).value();
    made->loaded = load_checkpoint(options.model, options.encoder).value();
    const EncoderBackend& encoder = *made->loaded.encoder;
    for (const std::string& text : made->data.texts) {
      made->texts.push_back(encoder.tokenizer()->encode(text, encoder.info().context));
    }
    made->pictures =
        store_picture_tokens(made->loaded, made->data, false,
                             data_.folder() / fmt::format("states-{}", opened_++), options.embed, pool_)
            .value();
    EXPECT_TRUE(settle_composed_data(options, made->pictures.file, made->data));
    ComposedStage stage;
    stage.align = align;
    stage.towers = TrainedTowers::kText;
    stage.composer.kind = "sum";
    stage.composer.dim = encoder.info().dim;
    stage.loaded = &made->loaded;
    stage.data = &made->data;
    stage.picture_tokens = &made->pictures;
    stage.texts = made->texts;
    made->task = ComposedTrainingTask::make(made->options, stage, pool_).value();
    return made;
  }

  // Writes a folder of generated edits: the images of `files`, by their queries' ids.
  void write_generated(const std::string& folder, const std::map<std::string, std::string>& files) const {
    GeneratedEdits generated;
    generated.engine = {{"name", "test"}};
    for (const auto& [id, file] : files) {
      const size_t end = id.rfind('-');
      generated.edits.push_back({.query = id,
                                 .gallery = "g",
                                 .reference = id.substr(0, end),
                                 .text = "in " + id.substr(end + 1),
                                 .file = file,
                                 .width = file.empty() ? 0 : 24,
                                 .height = file.empty() ? 0 : 24,
                                 .error = file.empty() ? "no idea" : ""});
    }
    data_.folder().write(folder + "/generated.jsonl", format_generated_edits(generated).value());
  }

  // Writes pseudo-targets of all changes to green and blue into "drawn": an image of its own each, but one
  // image for "red-frame-0-green" and "red-frame-0-blue". Those of "red-square-0-green" and
  // "red-post-0-green" failed: the one is not there, the other cannot be read.
  void draw_greens_and_blues() {
    std::map<std::string, std::string> files;
    int number = 0;
    for (const char* shape : {"square", "post", "frame"}) {
      for (int copy = 0; copy < 2; ++copy) {
        for (const std::string& from : test::shape_colours()) {
          for (const char* to : {"green", "blue"}) {
            if (from == to) continue;
            const std::string id = fmt::format("{}-{}-{}-{}", from, shape, copy, to);
            Image image{.width = 24, .height = 24, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
            if (id != "red-frame-0-blue") ++number;  // drawn like the one before
            for (int pixel = 0; pixel < 24 * 24; ++pixel) {
              for (const int value : {7 * number, pixel % 24 < number % 24 ? 240 : 20, 250 - 6 * number}) {
                image.pixels.push_back(static_cast<uint8_t>(std::clamp(value, 0, 255)));
              }
            }
            files[id] = id + ".png";
            data_.folder().write(fmt::format("drawn/{}.png", id), encode_png(image).value());
            drawn_.insert(id);
          }
        }
      }
    }
    files["red-square-0-green"] = "";
    data_.folder().write("drawn/red-post-0-green.png", "no picture");
    drawn_.erase("red-square-0-green");
    drawn_.erase("red-post-0-green");
    write_generated("drawn", files);
  }

  // Returns the stored embedding of a file's image: [dim]. It is in the folder "drawn", or not.
  static Tensor embedding_of(const OpenStage& stage, const std::string& file, bool drawn) {
    for (size_t i = 0; i < stage.data.pictures.size(); ++i) {
      const fs::path& path = stage.data.pictures[i].path;
      if (path.filename() != file || (path.parent_path().filename() == "drawn") != drawn) continue;
      const auto bytes = stage.pictures.file.bytes(static_cast<int64_t>(i));
      Tensor row = torch::empty({stage.pictures.dim}, at::kHalf);
      std::copy_n(bytes.begin(), 2 * stage.pictures.dim, static_cast<std::byte*>(row.data_ptr()));
      return row.to(at::kFloat);
    }
    ADD_FAILURE() << file << " is none of the training's images";
    return torch::zeros({stage.pictures.dim});
  }

  // Returns the triplets of a step in the order of its batch.
  static std::vector<NamedTriplet> triplets_of(const OpenStage& stage, int64_t step) {
    GroupedOrder order(stage.data, stage.options.together, stage.options.seed);
    std::vector<NamedTriplet> triplets;
    for (int64_t i = 0; i < stage.options.batch; ++i) {
      triplets.push_back(named_triplet(stage.data, order.at(step * stage.options.batch + i)));
    }
    return triplets;
  }

  // Checks that the targets of two batches are the drawn images of the triplets in `drawn`, and the real ones
  // of all others.
  static void expect_targets(OpenStage& stage, const std::set<std::string>& drawn) {
    for (const int64_t step : {0, 1}) {
      const ComposedBatch batch = stage.task->batch(step);
      const Tensor targets = batch.picture_rows.index_select(0, batch.targets);
      const std::vector<NamedTriplet> triplets = triplets_of(stage, step);
      ASSERT_EQ(targets.size(0), std::ssize(triplets));
      size_t met = 0;
      for (size_t i = 0; i < triplets.size(); ++i) {
        const NamedTriplet& each = triplets[i];
        const bool is_drawn = drawn.contains(each.id);
        met += is_drawn ? 1 : 0;
        const Tensor expected = embedding_of(stage, is_drawn ? each.id + ".png" : each.real, is_drawn);
        EXPECT_TRUE(torch::equal(targets[static_cast<int64_t>(i)], expected)) << each.id;
      }
      EXPECT_EQ(met, drawn.size());  // an epoch has every triplet once
    }
  }

  // Returns the loss of stage one on the held-out pairs: "in green" and the bars, which no training sees.
  double held_out_loss(const fs::path& model, AlignTargets align) {
    ComposedTrainingOptions held = options(align);
    held.datasets = {(data_.folder() / "held.jsonl").string()};
    if (align == AlignTargets::kPseudo) held.pseudo_targets = data_.folder() / "drawn-held";
    held.model = model.string();
    held.batch = 24;
    const auto stage = open(held);
    const torch::NoGradGuard no_grad;
    return stage->task->loss(stage->task->batch(0)).item<double>();
  }

  std::set<std::string> drawn_;  // triplets with a usable pseudo-target

 private:
  ThreadPool pool_{1};
  int opened_ = 0;
};

TEST_F(StageOne, EachTripletGetsTheTargetOfTheOptions) {
  draw_greens_and_blues();
  ASSERT_EQ(drawn_.size(), 34U);
  const ComposedTrainingOptions pseudo = options(AlignTargets::kPseudo);
  expect_targets(*open(pseudo), drawn_);
  expect_targets(*open(options(AlignTargets::kReal)), {});
  expect_targets(*open(pseudo, false), {});  // stage two is trained towards real targets

  // With a minimum cosine, the others get their real targets.
  std::map<std::string, GeneratedQuality> quality;
  std::set<std::string> like;
  for (const std::string& id : drawn_) {
    const bool green = id.ends_with("-green");
    quality[id] = {.cosine = green ? 0.9 : 0.5, .rank = 1};
    if (green) like.insert(id);
  }
  ASSERT_TRUE(write_generated_quality(pseudo.pseudo_targets, quality));
  ComposedTrainingOptions least = pseudo;
  least.min_cosine = 0.8;
  expect_targets(*open(least), like);
  // Images on disk change nothing if real targets are asked for.
  ComposedTrainingOptions real = pseudo;
  real.align = AlignTargets::kReal;
  expect_targets(*open(real), {});
}

TEST_F(StageOne, PositivesAreTripletsOfOneTextOrOneTarget) {
  draw_greens_and_blues();
  for (const AlignTargets align : {AlignTargets::kPseudo, AlignTargets::kReal}) {
    SCOPED_TRACE(enum_name(align));
    const auto stage = open(options(align));
    const ComposedBatch batch = stage->task->batch(0);
    ASSERT_EQ(batch.positives.sizes(), (std::vector<int64_t>{72, 72}));
    const Tensor targets = batch.picture_rows.index_select(0, batch.targets);
    const std::vector<NamedTriplet> triplets = triplets_of(*stage, 0);
    int64_t of_other_texts = 0;
    for (int64_t i = 0; i < 72; ++i) {
      for (int64_t j = 0; j < 72; ++j) {
        const bool same_text = triplets[static_cast<size_t>(i)].to == triplets[static_cast<size_t>(j)].to;
        const bool same_target = torch::equal(targets[i], targets[j]);
        EXPECT_EQ(batch.positives[i][j].item<bool>(), same_text || same_target)
            << triplets[static_cast<size_t>(i)].id << " " << triplets[static_cast<size_t>(j)].id;
        of_other_texts += same_target && !same_text ? 1 : 0;
      }
    }
    // The image that was drawn for two texts is right for both.
    EXPECT_EQ(of_other_texts, align == AlignTargets::kPseudo ? 2 : 0);
  }
}

// A batch has the texts of four colours, which are encoded in two micro-batches. The checkpoint's temperature
// makes rounding a hundred times as large in the logits.
TEST_F(StageOne, MicroBatchesAndCheckpointsGiveTheWholeBatchsGradients) {
  struct Outcome {
    double loss = 0;
    size_t nodes = 0;
    TorchMap parameters;
  };
  for (const bool align : {true, false}) {
    const auto run = [&](int64_t accumulate, bool checkpointed) {
      ComposedTrainingOptions given = options(AlignTargets::kReal);
      given.accumulate = accumulate;
      given.checkpoint_activations = checkpointed;
      const auto stage = open(given, align);
      const ComposedBatch batch = stage->task->batch(0);
      EXPECT_GT(batch.ids.size(0), 2);
      const Tensor loss = stage->task->loss(batch);
      const size_t nodes = test::graph_size(loss);
      loss.backward();
      return Outcome{loss.item<double>(), nodes, stage->task->parameters()};
    };
    const Outcome whole = run(1, false);
    for (const auto& [accumulate, checkpointed] :
         {std::pair(2, false), std::pair(1, true), std::pair(2, true)}) {
      SCOPED_TRACE(fmt::format("align {}, accumulate {}, checkpointed {}", align, accumulate, checkpointed));
      const Outcome other = run(accumulate, checkpointed);
      EXPECT_NEAR(other.loss, whole.loss, 1e-4);
      EXPECT_LT(other.nodes, whole.nodes);  // no graph of the tower, or of its blocks, is kept
      int trained = 0;
      for (const auto& [name, parameter] : whole.parameters) {
        const Tensor& same = other.parameters.at(name);
        ASSERT_EQ(same.grad().defined(), parameter.grad().defined()) << name;
        if (!parameter.grad().defined()) continue;
        ++trained;
        const double largest = parameter.grad().abs().max().item<double>();
        const double difference = (same.grad() - parameter.grad()).abs().max().item<double>();
        EXPECT_LT(difference, 1e-4 * std::max(1.0, largest)) << name;
      }
      EXPECT_GT(trained, 10);
    }
  }
}

TEST_F(StageOne, TextsAreTheTripletsOwnOrTheirOtherWordings) {
  for (const double paraphrases : {0.0, 1.0}) {
    ComposedTrainingOptions real = options(AlignTargets::kReal);
    real.paraphrases = paraphrases;
    const auto stage = open(real);
    const ComposedBatch batch = stage->task->batch(0);
    const std::vector<NamedTriplet> triplets = triplets_of(*stage, 0);
    const EncoderBackend& encoder = *stage->loaded.encoder;
    for (size_t i = 0; i < triplets.size(); ++i) {
      const auto place = batch.wordings[static_cast<int64_t>(i)].item<int64_t>();
      const int64_t length = batch.lengths[static_cast<size_t>(place)];
      const auto* ids = batch.ids[place].data_ptr<int64_t>();
      const std::string said = (paraphrases > 0 ? "make it " : "in ") + triplets[i].to;
      const TokenizedText expected = encoder.tokenizer()->encode(said, encoder.info().context);
      EXPECT_TRUE(std::ranges::equal(std::span(ids, static_cast<size_t>(length)), expected.ids)) << said;
    }
    // Whatever the wording, the pairs of one change of colour are positives.
    const Tensor positives = batch.positives.sum(1);
    EXPECT_EQ(positives.min().item<int64_t>(), 18);
    EXPECT_EQ(positives.max().item<int64_t>(), 18);
  }
}

// Writes Fashion-IQ's layout below "fiq": the changes of colour of squares, posts and frames. Those of copy 0
// have two captions, those of copy 1 have a blank one.
void write_fashion_iq(const test::SmallData& data) {
  Json queries = Json::array();
  Json names = Json::array();
  for (const char* shape : {"square", "post", "frame"}) {
    for (int copy = 0; copy < 2; ++copy) {
      for (const std::string& from : test::shape_colours()) {
        const std::string reference = fmt::format("{}-{}-{}", from, shape, copy);
        names.push_back(reference);
        data.folder().write(fmt::format("fiq/resized_image/{}.png", reference),
                            test::read(data.folder() / (reference + ".png")));
        for (const std::string& to : test::shape_colours()) {
          if (from == to) continue;
          queries.push_back({{"candidate", reference},
                             {"target", fmt::format("{}-{}-{}", to, shape, copy)},
                             {"captions", {fmt::format("is {}.", to), copy == 0 ? "has one colour" : " "}}});
        }
      }
    }
  }
  data.folder().write("fiq/captions/cap.shape.train.json", dump_json(queries));
  data.folder().write("fiq/image_splits/split.shape.train.json", dump_json(names));
}

// Returns the texts of a step's examples, in the order of the batch.
std::vector<std::string> texts_of(OpenStage& stage, const ComposedBatch& batch) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < batch.wordings.size(0); ++i) {
    const auto place = batch.wordings[i].item<int64_t>();
    const std::span ids(batch.ids[place].data_ptr<int64_t>(),
                        static_cast<size_t>(batch.lengths[static_cast<size_t>(place)]));
    const auto found = std::ranges::find_if(
        stage.texts, [&](const TokenizedText& text) { return std::ranges::equal(text.ids, ids); });
    EXPECT_NE(found, stage.texts.end());
    texts.push_back(stage.data.texts[static_cast<size_t>(found - stage.texts.begin())]);
  }
  return texts;
}

TEST_F(StageOne, FashionIqsTwoCaptionsComeInBothOrders) {
  write_fashion_iq(data_);
  ComposedTrainingOptions fashion = options(AlignTargets::kReal);
  fashion.datasets = {(data_.folder() / "fiq").string()};
  EXPECT_EQ(fashion.join, TrainedJoin::kBothOrders);
  constexpr int64_t kSteps = 4;  // epochs
  for (const TrainedJoin join : {TrainedJoin::kAnd, TrainedJoin::kBothOrders, TrainedJoin::kParts}) {
    for (const bool align : {true, false}) {
      SCOPED_TRACE(fmt::format("{} {}", enum_name(join), align));
      fashion.join = join;
      const auto stage = open(fashion, align);
      GroupedOrder order(stage->data, fashion.together, fashion.seed);
      std::map<std::string, int64_t> counts;  // of texts with the colour left out
      std::map<int64_t, std::set<std::string>> of_triplets;
      std::vector<std::string> last;
      for (int64_t step = 0; step < kSteps; ++step) {
        last = texts_of(*stage, stage->task->batch(step));
        for (int64_t i = 0; i < fashion.batch; ++i) {
          const int64_t triplet = order.at(step * fashion.batch + i);
          std::string text = last[static_cast<size_t>(i)];
          of_triplets[triplet].insert(text);
          for (const std::string& colour : test::shape_colours()) {
            if (const size_t at = text.find(colour); at != std::string::npos)
              text.replace(at, colour.size(), "*");
          }
          ++counts[text];
        }
      }
      // One caption is said as it is. Two are "C1 and c2", "C2 and c1", "C1" or "C2", equally often.
      EXPECT_EQ(counts["is *."], 36 * kSteps);
      counts.erase("is *.");
      std::map<TrainedJoin, std::vector<std::string>> forms = {
          {TrainedJoin::kAnd, {"Is * and has one colour"}},
          {TrainedJoin::kBothOrders, {"Is * and has one colour", "Has one colour and is *"}},
          {TrainedJoin::kParts,
           {"Is * and has one colour", "Has one colour and is *", "Is *", "Has one colour"}}};
      const auto share = 36 * kSteps / std::ssize(forms[join]);
      for (const std::string& form : forms[join]) {
        EXPECT_NEAR(counts[form], share, join == TrainedJoin::kAnd ? 0 : share / 2) << form;
        counts.erase(form);
      }
      EXPECT_TRUE(counts.empty()) << counts.begin()->first;
      // A triplet does not keep to one of them.
      EXPECT_EQ(std::ranges::any_of(of_triplets, [](const auto& each) { return each.second.size() > 1; }),
                join != TrainedJoin::kAnd);
      // The draw is a function of the seed and the step.
      const auto again = open(fashion, align);
      EXPECT_EQ(texts_of(*again, again->task->batch(kSteps - 1)), last);
    }
  }
}

// A triplet's text in the other order is no negative of its target.
TEST_F(StageOne, TheOtherOrderIsAPositive) {
  write_fashion_iq(data_);
  ComposedTrainingOptions fashion = options(AlignTargets::kReal);
  fashion.datasets = {(data_.folder() / "fiq").string()};
  for (const TrainedJoin join : {TrainedJoin::kBothOrders, TrainedJoin::kParts}) {
    fashion.join = join;
    const auto stage = open(fashion);
    const ComposedBatch batch = stage->task->batch(0);
    GroupedOrder order(stage->data, fashion.together, fashion.seed);
    int64_t other_texts = 0;
    for (int64_t i = 0; i < fashion.batch; ++i) {
      for (int64_t j = 0; j < fashion.batch; ++j) {
        const auto own = stage->data.wordings_of(order.at(i));
        const bool same = std::ranges::equal(own, stage->data.wordings_of(order.at(j)));
        if (!same) continue;
        EXPECT_TRUE(batch.positives[i][j].item<bool>());
        other_texts += batch.wordings[i].item<int64_t>() != batch.wordings[j].item<int64_t>() ? 1 : 0;
      }
    }
    EXPECT_GT(other_texts, 36);
  }
}

// Pseudo-targets have other colours than the texts say, so that learning from them and learning from the real
// targets are opposites.
TEST_F(StageOne, LowersItsLossOnHeldOutPairs) {
  const std::map<std::string, std::string> drawn_instead = {
      {"red", "green"}, {"green", "blue"}, {"blue", "yellow"}, {"yellow", "red"}};
  for (const auto& [folder, shapes] :
       {std::pair<std::string, std::vector<std::string>>{"drawn", {"square", "post", "frame"}},
        {"drawn-held", {"bar"}}}) {
    std::map<std::string, std::string> files;
    for (const std::string& shape : shapes) {
      for (int copy = 0; copy < 2; ++copy) {
        for (const std::string& from : test::shape_colours()) {
          for (const std::string& to : test::shape_colours()) {
            if (from == to) continue;
            const std::string id = fmt::format("{}-{}-{}-{}", from, shape, copy, to);
            const std::string other = fmt::format("{}-{}-{}.png", drawn_instead.at(to), shape, copy);
            files[id] = id + ".png";
            data_.folder().write(fmt::format("{}/{}.png", folder, id), test::read(data_.folder() / other));
          }
        }
      }
    }
    write_generated(folder, files);
  }

  std::map<AlignTargets, fs::path> models;
  for (const AlignTargets align : {AlignTargets::kPseudo, AlignTargets::kReal}) {
    ComposedTrainingOptions training = options(align);
    training.run = data_.folder() / fmt::format("run-{}", enum_name(align));
    training.batch = 24;
    training.paraphrases = 0.5;
    training.align_steps = 60;
    training.align_rate = 1e-3;
    const auto report = train_composed(training, {}, {});
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_EQ(report->stages.size(), 1U);
    models[align] = report->stages[0].model;
  }
  const fs::path starter = options(AlignTargets::kReal).model;
  for (const auto& [align, model] : models) {
    SCOPED_TRACE(enum_name(align));
    const AlignTargets opposite = align == AlignTargets::kReal ? AlignTargets::kPseudo : AlignTargets::kReal;
    const double after = held_out_loss(model, align);
    EXPECT_LT(after, held_out_loss(starter, align));
    EXPECT_LT(after, held_out_loss(models.at(opposite), align));
    EXPECT_GT(held_out_loss(model, opposite), after);
  }
}

}  // namespace
}  // namespace saccade::lab
