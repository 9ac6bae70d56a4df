// Tests of trained composers in the evaluation: their embeddings against the composer's own on pixels, one
// query at a time, with the starter.
#include "lab/eval/composed/composed_rows.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/composed/composed_study.h"
#include "saccade/core/files/files.h"
#include "saccade/core/rows.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/image_codec.h"
#include "saccade/model/composers/atf.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/model_test_support.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/test_tensors.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using test::TestFolder;
using testing::HasSubstr;

const fs::path kStarter = fs::path(test::kSourceDir) / "models/starter";
constexpr int kPictures = 12;

class ComposersInTheTable : public testing::Test {
 protected:
  void SetUp() override {
    encoder_ = load_encoder(kStarter).value();
    fs::create_directories(folder_.path() / "pictures");
    std::string val;
    std::string manifest;
    for (int i = 0; i < kPictures; ++i) {
      Image image;
      image.width = image.height = 32;
      image.channels = 3;
      for (int p = 0; p < 32 * 32; ++p) {
        const bool inside = std::hypot(p / 32 - 16, p % 32 - 10 - i % 3) < 3 + i;
        for (const int value : {inside ? 220 : 20 * i, inside ? 20 * i : 230, 15 * i}) {
          image.pixels.push_back(static_cast<uint8_t>(value));
        }
      }
      const std::string name = fmt::format("pictures/{}.png", i);
      ASSERT_TRUE(write_file_atomic(folder_.path() / name, *encode_png(image)));
      manifest += fmt::format("{{\"gallery_image\": \"{}\", \"id\": \"p{}\"}}\n", name, i);
    }
    val = manifest;
    for (int i = 0; i < 8; ++i) {
      manifest += fmt::format(
          "{{\"reference\": \"p{}\", \"texts\": [\"with {} dots\"], \"paraphrases\": [\"dotted\"], \"targets\": "
          "[\"p{}\"], \"id\": \"q{}\"}}\n",
          i, i % 3 == 0 ? "many red" : "no", i + 3, i);
      val += fmt::format(
          "{{\"reference\": \"p{}\", \"texts\": [\"larger\"], \"targets\": [\"p{}\"], \"id\": \"v{}\"}}\n", i,
          i + 2, i);
    }
    ASSERT_TRUE(write_file_atomic(folder_.path() / "test.jsonl", manifest));
    ASSERT_TRUE(write_file_atomic(folder_.path() / "val.jsonl", val));
    write_composer("added", "sum", Json::object());
    AtfOptions atf = attention_atf_options();
    atf.merge.tau = 0.2;
    atf.picture_tokens = encoder_->token_states()->picture_tokens();
    atf.text_places = encoder_->info().context;
    write_composer("atf", "atf", atf_options_json(atf));
  }
  void write_composer(const std::string& name, const std::string& kind, const Json& options) const {
    ComposerConfig config;
    config.kind = kind;
    config.dim = encoder_->info().dim;
    config.options = options;
    config.encoder = {"starter", "clip", encoder_->info().fingerprint, kStarter.string()};
    test::RandomParameters source(9);
    if (kind == "atf") {
      ASSERT_TRUE((AtfOf<nn::Tensor>::make(atf_options_from_json(options).value(), config.dim, source)));
    }
    ASSERT_TRUE(source.take("logit_scale", {}, {}));
    std::vector<NamedTensor> named;
    for (const auto& [each, tensor] : source.parameters()) named.push_back({each, nn::view_of(tensor)});
    fs::create_directories(at(name));
    ASSERT_TRUE(write_file_atomic(at(name) / "config.json", dump_json(composer_config_json(config))));
    ASSERT_TRUE(write_file_atomic(at(name) / "frozen.json", dump_json({{"path", kStarter.string()}})));
    ASSERT_TRUE(write_safetensors(at(name) / "model.safetensors", named));
  }
  [[nodiscard]] fs::path at(const std::string& name) const { return folder_.path() / name; }
  Result<Evaluation> evaluate(ComposedOptions composed) {
    EvaluationOptions options;
    options.datasets = {at("test.jsonl").string()};
    options.bootstrap.resamples = 40;
    options.run = run_;
    options.embed.warning = [this](const std::string& text) { warnings_.push_back(text); };
    return evaluate_composed(composed, options, {}, pool_);
  }
  static const Json& result_of(const Json& metrics, const std::string& method) {
    static const Json kNone;
    for (const Json& result : metrics["results"]) {
      if (result["method"] == method) return result;
    }
    ADD_FAILURE() << method;
    return kNone;
  }
  TestFolder folder_;
  ThreadPool pool_{2};
  std::unique_ptr<EncoderBackend> encoder_;
  fs::path run_;
  std::vector<std::string> warnings_;
};

// A composer that sums has exactly the metrics of the sum. It also brings its encoder along.
TEST_F(ComposersInTheTable, AComposerIsALineBesideTheMethods) {
  run_ = at("run");
  const auto evaluation = evaluate({.composers = {at("added"), at("atf")}, .token_queries = 4});
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  ASSERT_EQ(evaluation->info.checkpoints.size(), 1U);
  EXPECT_EQ(evaluation->info.checkpoints[0].fingerprint, encoder_->info().fingerprint);
  const Json& metrics = evaluation->metrics;
  const Json& added = result_of(metrics, "added");
  EXPECT_EQ(added["composer"], "sum");
  EXPECT_EQ(added["tau"], nullptr);
  EXPECT_EQ(added["figures"], result_of(metrics, "sum")["figures"]);
  EXPECT_EQ(result_of(metrics, "sum")["composer"], nullptr);
  const Json& atf = result_of(metrics, "atf");
  EXPECT_EQ(atf["tau"], 0.2);
  EXPECT_EQ(atf["weight_from"], "the composer's own");
  EXPECT_GT(atf["tokens_matched"], 0.0);
  EXPECT_LT(atf["tokens_matched"], 1.0);
  bool compared = false;
  for (const Json& each : metrics["comparisons"]) {
    compared = compared || (each["a"]["method"] == "added" && each["b"]["method"] == "atf");
  }
  EXPECT_TRUE(compared);
  EXPECT_EQ(evaluation->info.protocol["composers"][1]["name"], "atf");
  const auto back = read_record<ComposedMetrics>(metrics);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(dump_json(record_json(*back)), dump_json(metrics));
  ASSERT_EQ(metrics["token_similarities"].size(), 1U);
  EXPECT_EQ(metrics["token_similarities"][0]["queries"], 4);

  // The run keeps this of each query, for reports.
  const lab::Run run = read_run(run_).value();
  const auto items = read_run_items(run).value().at("test");
  ASSERT_EQ(items.images.size(), size_t{kPictures});
  int lines = 0;
  ASSERT_TRUE(read_run_lines(run, "composed.jsonl", [&](const Json& line) -> Status {
    ++lines;
    EXPECT_EQ(items.images[line["reference_item"].get<size_t>()].id, line["reference"].get<std::string>());
    EXPECT_EQ(items.images[line["target_items"][0].get<size_t>()].id, line["targets"][0].get<std::string>());
    EXPECT_EQ(line["generated_item"], nullptr);
    for (const Json& answer : line["top"]) {
      EXPECT_EQ(items.images[answer["item"].get<size_t>()].id, answer["image"].get<std::string>());
    }
    return {};
  }));
  EXPECT_EQ(lines, 16 * 8);  // asked texts, six methods and two composers
}

TEST_F(ComposersInTheTable, RowsAreTheComposersOwn) {
  // Computes all queries at once, and each query alone from its pixels.
  const auto evaluation = evaluate({.methods = {ComposeBy::kSum}, .composers = {at("atf")}});
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  const std::vector<std::string> names = {at("test.jsonl").string()};
  const NamedDataset named = read_datasets(names).value().front();
  const ComposedTask task = composed_task(named.dataset, {}, {}).value();
  std::vector<ImageRef> pictures;
  for (const GalleryPicture& picture : task.pictures) pictures.push_back(picture.image);
  const EmbedOptions embed = {};
  const EmbeddedPictures embedded = embed_pictures(*encoder_, pictures, embed, pool_).value();
  const RunDataset described = describe_dataset(named);
  const RunCheckpoint model = {};
  const EncodedContext context{{0, described, model, pool_, nullptr}, *encoder_, embedded.rows, embed};
  const auto composer = Composer::open(at("atf")).value();
  const auto all = compose_task(*composer, context, task);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->rows.rows(), 16);

  Matrix<float> pixels(1, int64_t{3} * 64 * 64);
  int64_t tokens = 0;
  for (size_t a = 0; a < task.asked.size(); ++a) {
    const ImageRef& image =
        task.pictures[static_cast<size_t>(task.queries[static_cast<size_t>(task.asked[a].query)].reference)]
            .image;
    const DecodedImage decoded = decode_image_file(image.path, {}).value();
    ASSERT_TRUE(preprocess(decoded.image, with_transparency(encoder_->preprocessing(), embed.transparency),
                           pixels.row(0)));
    const Composed one = composer->compose(*encoder_, pixels.view(), task.asked[a].texts).value();
    for (size_t d = 0; d < one.rows.row(0).size(); ++d) {
      ASSERT_NEAR(one.rows.row(0)[d], all->rows.row(static_cast<int64_t>(a))[d], 2e-5) << a;
    }
    tokens += std::ssize(encoder_->tokenizer()->encode(task.asked[a].texts[0], 32).ids);
  }
  EXPECT_EQ(all->tokens, tokens);

  // Computes the tokens' cosines one by one.
  const std::vector<int64_t> which = {0, 5};
  const TokenSimilarities counted = token_similarities(context, task, which).value().value();
  double sum = 0;
  int64_t pairs = 0;
  std::vector<int64_t> counts(40, 0);
  for (const ComposedTask::Asked& asked : task.asked) {
    if (asked.wording != 0 || (asked.query != 0 && asked.query != 5)) continue;
    const ImageRef& image =
        task.pictures[static_cast<size_t>(task.queries[static_cast<size_t>(asked.query)].reference)].image;
    const DecodedImage decoded = decode_image_file(image.path, {}).value();
    ASSERT_TRUE(preprocess(decoded.image, with_transparency(encoder_->preprocessing(), embed.transparency),
                           pixels.row(0)));
    const TokenizedText text = encoder_->tokenizer()->encode(asked.texts[0], 32);
    const RowSets p = encoder_->token_states()->image_tokens(pixels.view()).value();
    const RowSets t = encoder_->token_states()->text_tokens(std::span(&text, 1)).value();
    for (int64_t i = 0; i < p.rows.rows(); ++i) {
      for (int64_t j = 0; j < t.rows.rows(); ++j) {
        double dot = 0;
        for (int64_t d = 0; d < 192; ++d) dot += double{p.rows(i, d)} * double{t.rows(j, d)};
        const double cosine = dot / (row_length(p.rows.row(i)) * row_length(t.rows.row(j)));
        sum += cosine;
        ++pairs;
        ++counts[static_cast<size_t>(std::clamp(static_cast<int>(std::floor((cosine + 1) / 0.05)), 0, 39))];
      }
    }
  }
  EXPECT_EQ(counted.pairs, pairs);
  EXPECT_NEAR(counted.mean, sum / static_cast<double>(pairs), 1e-4);
  int64_t moved = 0;  // a cosine at a bin's edge may fall on either side
  for (size_t i = 0; i < counts.size(); ++i) moved += std::abs(counted.counts[i] - counts[i]);
  EXPECT_LE(moved, 4);
}

// SPRC over BLIP-2: an image's score is the largest cosine with one of its rows. The oracle encodes every
// query and every image alone.
TEST_F(ComposersInTheTable, SprcIsRankedByTheNearestRowOfAnImage) {
  const test::GoldenCopy checkpoint("blip2-itm");
  test::add_blip2_tokenizer(checkpoint.path());
  const auto blip2 = load_encoder(checkpoint.path());
  ASSERT_TRUE(blip2) << blip2.error().message;
  ComposerConfig config;
  config.kind = "sprc";
  config.dim = (*blip2)->info().dim;
  config.encoder = {"blip2", (*blip2)->info().family, (*blip2)->info().fingerprint,
                    checkpoint.path().string()};
  fs::create_directories(at("sprc"));
  ASSERT_TRUE(write_file_atomic(at("sprc") / "config.json", dump_json(composer_config_json(config))));
  ASSERT_TRUE(write_file_atomic(at("sprc") / "frozen.json", dump_json({{"path", config.encoder.path}})));
  ASSERT_TRUE(test::save(at("sprc") / "model.safetensors", {{"logit_scale", nn::Tensor::zeros({})}}));
  const auto evaluation = evaluate({.methods = {ComposeBy::kSum}, .composers = {at("sprc")}});
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  const Json& result = result_of(evaluation->metrics, "sprc");
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["composer"], "sprc");
  EXPECT_EQ(result["tokens_matched"], nullptr);
  EXPECT_THAT(evaluation->info.protocol["description"].get<std::string>(),
              HasSubstr("the largest cosine counts"));
  // The lines of methods without a model rank means, and a warning says so.
  EXPECT_THAT(warnings_,
              testing::Contains(HasSubstr(
                  "the means of its rows are composed and ranked by sum: these are not its own scores")));

  const auto pixels_of = [&](int number) {
    const DecodedImage decoded = decode_image_file(at(fmt::format("pictures/{}.png", number)), {}).value();
    Matrix<float> pixels(1, int64_t{3} * 56 * 56);
    EXPECT_TRUE(preprocess(decoded.image, with_transparency((*blip2)->preprocessing(), Transparency::kWhite),
                           pixels.row(0)));
    return pixels;
  };
  const auto composer = Composer::open(at("sprc")).value();
  std::vector<RowSets> gallery;
  for (int i = 0; i < kPictures; ++i) {
    gallery.push_back((*blip2)->late_interaction()->encode_image_rows(pixels_of(i).view()).value());
  }
  const std::map<std::string, double> depths = {{"r1", 1}, {"r5", 5}, {"r10", 10}};
  std::map<std::string, double> found;
  for (int q = 0; q < 8; ++q) {
    const std::vector<std::string> words = {fmt::format("with {} dots", q % 3 == 0 ? "many red" : "no")};
    const Composed asked = composer->compose(**blip2, pixels_of(q).view(), words).value();
    std::vector<double> scores;
    for (const RowSets& rows : gallery) {
      double largest = -2;
      for (int64_t r = 0; r < rows.rows.rows(); ++r) {
        double dot = 0;
        for (int64_t d = 0; d < config.dim; ++d) dot += double{rows.rows(r, d)} * double{asked.rows(0, d)};
        largest = std::max(largest, dot);
      }
      scores.push_back(largest);
    }
    const auto target = static_cast<size_t>(q + 3);
    const auto rank = std::ranges::count_if(scores, [&](double score) { return score >= scores[target]; });
    for (const auto& [name, depth] : depths) found[name] += static_cast<double>(rank) <= depth ? 1.0 / 8 : 0;
  }
  for (const auto& [name, value] : found) {
    EXPECT_NEAR(result["figures"][name]["value"].get<double>(), value, 1e-12) << name;
  }
}

TEST_F(ComposersInTheTable, TauIsChosenOnAnotherDataset) {
  ComposedOptions options{.methods = {ComposeBy::kSum}, .composers = {at("atf")}, .taus = {0.1, 0.4, 2.0}};
  const auto given = evaluate(options);
  ASSERT_TRUE(given) << given.error().message;
  ASSERT_EQ(given->metrics["tau_curves"].size(), 3U);
  double before = 2;
  for (const Json& each : given->metrics["tau_curves"]) {
    EXPECT_EQ(each["method"], "atf");
    EXPECT_LE(each["matched"].get<double>(), before);
    before = each["matched"].get<double>();
    EXPECT_TRUE(each["figures"]["r1"]["value"].is_number());
  }
  EXPECT_EQ(before, 0);  // no cosine exceeds 1, so there are no matches
  EXPECT_EQ(result_of(given->metrics, "atf")["tau"], 0.2);

  options.choose_on = at("val.jsonl").string();
  const auto chosen = evaluate(options);
  ASSERT_TRUE(chosen) << chosen.error().message;
  const Json& result = result_of(chosen->metrics, "atf");
  EXPECT_EQ(result["weight_from"], "chosen on val");
  bool found = false;
  for (const Json& each : chosen->metrics["chosen"]) {
    if (each["method"] != "atf") continue;
    found = true;
    EXPECT_EQ(each["dataset"], "val");
    EXPECT_EQ(each["weight"], result["tau"]);
  }
  EXPECT_TRUE(found);
  // The curve at the chosen tau is the line in the table.
  for (const Json& each : chosen->metrics["tau_curves"]) {
    if (each["tau"] != result["tau"]) continue;
    EXPECT_EQ(each["figures"]["r5"], result["figures"]["r5"]);
  }
}

TEST_F(ComposersInTheTable, RefusesWhatCannotBe) {
  const auto refusal = [&](const ComposedOptions& options) {
    const auto evaluation = evaluate(options);
    return evaluation ? std::string() : evaluation.error().message;
  };
  EXPECT_THAT(refusal({.composers = {}}), HasSubstr("neither a checkpoint nor a composer"));
  EXPECT_THAT(refusal({.composers = {at("nowhere")}}), HasSubstr("nowhere"));
  EXPECT_THAT(refusal({.composers = {kStarter}}), HasSubstr("no composer"));
  Json config = read_json(at("atf") / "config.json").value();
  config["encoder"]["fingerprint"] = std::string(64, 'f');
  ASSERT_TRUE(write_file_atomic(at("atf") / "config.json", dump_json(config)));
  EXPECT_THAT(refusal({.composers = {at("atf")}}), HasSubstr("for another encoder"));
}

}  // namespace
}  // namespace saccade::lab
