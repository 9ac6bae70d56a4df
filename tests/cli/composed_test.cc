// Tests of composed search from the command line: datasets of edit queries, `eval composed` and `search
// --image FILE TEXT`.
#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/json.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ComposedCli : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    const std::vector<std::string> names = {"red", "green", "blue", "dark", "light", "grey"};
    for (size_t i = 0; i < names.size(); ++i) {
      picture("pictures/" + names[i] + ".png", i % 2 == 0 ? 220 : 20, static_cast<int>(40 * i),
              i % 3 == 0 ? 200 : 10);
    }
    write("test.jsonl",
          queries("test",
                  {{"red", "in green", "green"}, {"blue", "darker", "dark"}, {"red", "lighter", "light"}}));
    write("val.jsonl", queries("val", {{"grey", "in blue", "blue"}, {"light", "in red", "red"}}));
  }
  static std::string queries(const std::string& split, const std::vector<std::vector<std::string>>& all) {
    std::string text;
    for (const char* name : {"red", "green", "blue", "dark", "light", "grey"}) {
      text += fmt::format(R"({{"gallery_image": "pictures/{}.png", "id": "{}"}})", name, name) + "\n";
    }
    for (const auto& each : all) {
      text +=
          fmt::format(
              R"({{"reference": "{}", "texts": ["{}"], "paraphrases": ["make it so"], "targets": ["{}"], "negatives": ["grey"], "shared_concept": "a card", "split": "{}", "id": "{}-{}"}})",
              each[0], each[1], each[2], split, each[0], each[2]) +
          "\n";
    }
    return text;
  }
  Json composed(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"-q", "eval", "composed", "--json", "--resamples", "50"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse_json(outcome.out).value_or(Json());
  }
  // Writes Fashion-IQ's own files, two queries over three images, and embeddings that rank their targets
  // first and second.
  void write_fashion_iq() const {
    write("fiq/captions/cap.dress.val.json",
          R"([{"target": "B2", "candidate": "B1", "captions": ["is red", "is long"]},
              {"target": "B3", "candidate": "B1", "captions": ["is blue", "is short"]}])");
    write("fiq/image_splits/split.dress.val.json", R"(["B1", "B2", "B3"])");
  }
  void write_rows(const std::string& name, const std::vector<float>& rows, int64_t count) const {
    const std::vector<float> gallery = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    const NamedTensor tensors[] = {
        {"query_embeds", {DType::kF32, {count, 3}, std::as_bytes(std::span(rows))}},
        {"gallery_embeds", {DType::kF32, {3, 3}, std::as_bytes(std::span(gallery))}},
    };
    ASSERT_TRUE(write_safetensors(folder_ / name, tensors));
  }
};

TEST_F(ComposedCli, MeasuresEveryWayOfComposing) {
  const Json answer = composed({"-m", "model", "--dataset", "test.jsonl", "-o", "run"});
  EXPECT_EQ(answer["kind"], "composed");
  EXPECT_EQ(answer["protocol"]["gallery"], "original");
  EXPECT_EQ(answer["protocol"]["reference"], "layout");
  EXPECT_THAT(answer["protocol"]["description"].get<std::string>(),
              HasSubstr("50 resamples of the references"));
  std::vector<std::string> methods;
  for (const Json& result : answer["results"]) methods.push_back(result["method"].get<std::string>());
  EXPECT_THAT(methods, ElementsAre("reference", "text", "sum", "raw-sum", "slerp", "direction"));
  for (const Json& result : answer["results"]) {
    EXPECT_EQ(result["of"], "all");
    EXPECT_EQ(result["queries"], 3);
    const Json& figures = result["figures"];
    for (const char* name : {"r1", "r5", "map5", "reference1", "negative1", "negative_above", "swing_r10"}) {
      ASSERT_TRUE(figures.contains(name)) << name;
      EXPECT_TRUE(figures[name]["value"].is_number()) << name;
      EXPECT_LE(figures[name]["low"], figures[name]["high"]);
    }
    EXPECT_TRUE(figures["r10"]["value"].is_null());  // of six images
  }
  // The reference alone finds itself.
  EXPECT_EQ(answer["results"][0]["figures"]["reference1"]["value"], 1.0);
  EXPECT_EQ(answer["results"][0]["figures"]["r1"]["value"], 0.0);
  EXPECT_EQ(answer["comparisons"].size(), 15U);
  const auto lines = read_file(folder_ / "run/composed.jsonl");
  ASSERT_TRUE(lines);
  EXPECT_EQ(std::ranges::count(*lines, '\n'), 6 * 6);  // methods x asked texts

  const Outcome report = run({"-q", "report", "run", "--no-charts", "-o", "page.html"});
  ASSERT_EQ(report.code, 0) << report.err;
  const auto page = read_file(folder_ / "page.html");
  ASSERT_TRUE(page);
  EXPECT_THAT(*page, HasSubstr("<section id=\"composed\"><h2>Composed search</h2>"));
  EXPECT_THAT(*page, HasSubstr("<a href=\"#composed\">Composed search</a>"));
  EXPECT_THAT(*page, HasSubstr("raw-sum"));
  EXPECT_THAT(*page, HasSubstr(">swing_r10<"));

  const Outcome table =
      run({"-q", "eval", "composed", "-m", "model", "--dataset", "test.jsonl", "--resamples", "50"});
  EXPECT_THAT(table.out, HasSubstr("test: 6 texts asked, 6 images")) << table.err;
  EXPECT_THAT(table.out, HasSubstr("slerp 0.5"));
}

TEST_F(ComposedCli, WeightsAreChosenOnAnotherDataset) {
  const Json answer = composed({"-m", "model", "--dataset", "test.jsonl", "--choose-on", "val.jsonl"});
  ASSERT_EQ(answer["chosen"].size(), 3U);
  for (const Json& chosen : answer["chosen"]) EXPECT_EQ(chosen["dataset"], "val");
  for (const Json& result : answer["results"]) {
    EXPECT_EQ(result["dataset"], "test");
    const std::string method = result["method"].get<std::string>();
    const bool weighted = method == "weighted-sum" || method == "slerp" || method == "direction";
    EXPECT_EQ(result["weight"].is_number(), weighted) << method;
    EXPECT_EQ(result["weight_from"], weighted ? Json("chosen on val") : Json());
  }
  expect_failure(
      {"-q", "eval", "composed", "-m", "model", "--dataset", "test.jsonl", "--choose-on", "test.jsonl"}, 2,
      {"weights are to be chosen on what they are measured on"});
  expect_failure({"-q", "eval", "composed", "-m", "model", "--dataset", "test.jsonl", "--choose-on",
                  "val.jsonl", "--text-weight", "0.3"},
                 2, {"--choose-on", "--text-weight"});
}

TEST_F(ComposedCli, MeasuresRowsOfAFileWithoutPictures) {
  write_fashion_iq();
  write_rows("rows.safetensors", {0, 1, 0, 0, 0.8F, 0.6F}, 2);
  const std::string captions = "fiq/captions/cap.dress.val.json";
  const Json answer = composed({"--dataset", captions, "--embeddings", "rows.safetensors"});
  ASSERT_EQ(answer["results"].size(), 1U);
  const Json& result = answer["results"][0];
  EXPECT_EQ(result["method"], "given");
  EXPECT_EQ(result["reference_ranked"], true);
  EXPECT_EQ(result["recall"], "any");
  EXPECT_EQ(result["queries"], 2);
  EXPECT_EQ(result["figures"]["r1"]["value"], 0.5);
  EXPECT_EQ(answer["protocol"]["rank_by"], "embeddings");
  // Without the reference two images are left; the answers stay in place.
  EXPECT_EQ(composed({"--dataset", captions, "--embeddings", "rows.safetensors", "--reference",
                      "remove"})["results"][0]["figures"]["r1"]["value"],
            0.5);

  write_rows("short.safetensors", {0, 1, 0}, 1);
  expect_failure({"-q", "eval", "composed", "--dataset", captions, "--embeddings", "short.safetensors"}, 1,
                 {"short.safetensors", "1 queries and 3 images, the dataset has 2 and 3"});
  write_rows("zero.safetensors", {0, 1, 0, 0, 0, 0}, 2);
  expect_failure({"-q", "eval", "composed", "--dataset", captions, "--embeddings", "zero.safetensors"}, 1,
                 {"row 1 of \"query_embeds\" is zero"});
  expect_failure(
      {"-q", "eval", "composed", "--dataset", captions, "--embeddings", "rows.safetensors", "--join", "each"},
      2, {"one row a query"});
  expect_failure({"-q", "eval", "composed", "--dataset", captions, "--embeddings", "rows.safetensors",
                  "--shared-concept", "with"},
                 2, {"no query has a shared concept"});
  // The images themselves do not exist.
  expect_failure({"-q", "eval", "composed", "-m", "model", "--dataset", captions}, 1,
                 {"3 of 3 images cannot be read"});
}

TEST_F(ComposedCli, WritesWhatTheServerTakes) {
  write(
      "cirr/captions/cap.rc2.test1.json",
      R"([{"pairid": 7, "reference": "a", "caption": "more", "img_set": {"id": 1, "members": ["a", "b", "c"]}},
            {"pairid": 9, "reference": "b", "caption": "", "img_set": {"id": 2, "members": ["a", "b", "c"]}}])");
  write("cirr/image_splits/split.rc2.test1.json",
        R"({"a": "./test1/a.png", "b": "./test1/b.png", "c": "./test1/c.png"})");
  for (const auto& [name, red] : {std::pair("a", 200), std::pair("b", 90), std::pair("c", 10)}) {
    picture(fmt::format("test1/{}.png", name), red, 30, 30);
  }
  expect_failure({"-q", "eval", "composed", "-m", "model", "--dataset", "cirr"}, 2,
                 {"targets are kept back", "--server-files"});
  const std::vector<std::string> arguments = {"-q",    "eval",           "composed", "-m",
                                              "model", "--dataset",      "cirr",     "--method",
                                              "sum",   "--server-files", "out",      "--json"};
  const Outcome written = run(arguments);
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_THAT(written.err, HasSubstr("1 text empty"));
  const Json recall = *read_json(folder_ / "out/cirr.model.sum.recall.json");
  EXPECT_EQ(recall["version"], "rc2");
  EXPECT_EQ(recall["metric"], "recall");
  EXPECT_EQ(recall["7"].size(), 2U);  // all but the reference
  EXPECT_THAT(recall["7"].dump(), Not(HasSubstr("\"a\"")));
  EXPECT_EQ((*read_json(folder_ / "out/cirr.model.sum.recall_subset.json"))["metric"], "recall_subset");
  const Outcome again = run(arguments);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("is there already"));
}

TEST_F(ComposedCli, DatasetsOfEditQueries) {
  write_fashion_iq();
  const Outcome info = run({"dataset", "info", "fiq"});
  EXPECT_THAT(info.out, HasSubstr("layout fashion_iq, 2 edit queries, 3 images"));
  EXPECT_THAT(info.out, HasSubstr("gallery      dress.val"));
  ASSERT_EQ(run({"dataset", "convert", "fiq", "-o", "fiq.jsonl"}).code, 0);
  const Json one = *parse_json(run({"dataset", "info", "fiq", "--json"}).out);
  const Json other = *parse_json(run({"dataset", "info", "fiq.jsonl", "--json"}).out);
  EXPECT_EQ(one["sha256"], other["sha256"]);
  EXPECT_EQ(one["edits"], other["edits"]);
  EXPECT_EQ(one["edits"]["galleries"]["dress.val"], 3);
  const Outcome audit = run({"-q", "dataset", "audit", "fiq"});
  EXPECT_EQ(audit.code, 3);  // no image is there
  EXPECT_THAT(audit.out, HasSubstr("edit queries 2; reference among the targets 0"));
  expect_failure({"-q", "eval", "retrieval", "-m", "model", "--dataset", "fiq"}, 2,
                 {"`saccade eval composed` takes it"});
  expect_failure({"-q", "eval", "composed", "-m", "model", "--dataset", "pictures"}, 1, {"pictures"});
}

TEST_F(ComposedCli, SearchSaysHowItsQueryWasMade) {
  make_collection();
  const auto search = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "-q", "search", "-c", "c", "--image", "pictures/red.png", "--json", "--keyword-weight", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse_json(outcome.out).value_or(Json());
  };
  EXPECT_TRUE(search({})["query"]["compose"].is_null());  // nothing to compose
  const Json sum = search({"but", "green"});
  EXPECT_EQ(sum["query"]["compose"],
            *parse_json(R"({"method": "sum", "image_weight": 1.0, "text_weight": 1.0})"));
  // Weight 0.5 is the sum; weight 0 is the image alone. Words in file names do not count here.
  EXPECT_EQ(search({"but", "green", "--text-weight", "0.5"})["hits"], sum["hits"]);
  EXPECT_NEAR(search({"but", "green", "--text-weight", "0"})["hits"][0]["score"].get<double>(), 1, 1e-5);
  EXPECT_NEAR(
      search({"but", "green", "--text-weight", "0", "--compose", "slerp"})["hits"][0]["score"].get<double>(),
      1, 1e-5);
  EXPECT_EQ(search({"but", "green", "--weight", "0"})["hits"],  // its earlier name
            search({"but", "green", "--text-weight", "0"})["hits"]);
  const Json direction = search({"green", "--compose", "direction", "--was", "red", "--text-weight", "0.8"});
  EXPECT_EQ(direction["query"]["compose"]["was"], "red");
  EXPECT_EQ(search({"green", "--compose", "direction"})["query"]["compose"]["was"], "a picture");
  EXPECT_THAT(
      run({"search", "-c", "c", "--image", "pictures/red.png", "green", "--compose", "slerp"}).out,
      HasSubstr(
          "the query lies on the great circle from the image's embedding to the text's, 0.5 of the way"));

  expect_failure({"search", "-c", "c", "green", "--compose", "slerp"}, 2, {"--compose", "--image"});
  expect_failure({"search", "-c", "c", "--image", "pictures/red.png", "green", "--text-weight", "1.5"}, 2,
                 {"--text-weight", "1.5"});
  expect_failure({"search", "-c", "c", "--image", "pictures/red.png", "green", "--was", "red"}, 2,
                 {"--was", "direction"});
  expect_failure({"search", "-c", "c", "--image", "pictures/red.png", "green", "--compose", "learned"}, 2,
                 {"--compose: learned: expected sum"});

  // The composer that comes with Saccade is the starter's. A collection of another checkpoint refuses it.
  expect_failure({"search", "-c", "c", "--image", "pictures/red.png", "green", "--compose", "starter"}, 1,
                 {"starter-composer", "it was trained on starter"});
  ASSERT_EQ(run({"-q", "index", "pictures", "-c", "icons", "-m", "starter"}).code, 0);
  const std::vector<std::string> asked = {"search", "-c", "icons", "--image", "pictures/red.png", "green"};
  std::vector<std::string> by_name = asked;
  by_name.insert(by_name.end(), {"--compose", "starter"});
  const std::string shipped = "the query was made by the composer starter-composer (combiner)";
  EXPECT_THAT(run(by_name).out, HasSubstr(shipped));
  ASSERT_EQ(run({"collection", "composer", "-c", "icons", "starter"}).code, 0);
  EXPECT_THAT(run(asked).out, HasSubstr(shipped));
}

#ifdef SACCADE_TRAINS
// Textual inversion is trained from texts alone, used in a search, named by a collection, evaluated, and
// shown on a page.
TEST_F(ComposedCli, AComposerIsTrainedAskedAndMeasured) {
  write("texts.txt", "a red card\na card in green\nblue\na dark card on a light ground\nred and green\n");
  const std::vector<std::string> train = {"-q",        "train",      "composed",  "--method",
                                          "inversion", "--texts",    "texts.txt", "-m",
                                          "model",     "--steps",    "3",         "--batch-size",
                                          "4",         "--sentence", "* {}",      "--inversion-width",
                                          "8",         "--held-out", "val.jsonl", "-o",
                                          "inverted",  "--json"};
  const Outcome trained = run(train);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json report = *parse_json(trained.out);
  EXPECT_EQ(report["texts"], 5);
  EXPECT_EQ(report["steps"], 3);
  EXPECT_EQ(report["held_out"][0]["queries"], 2);
  std::vector<std::string> dry = train;
  dry[dry.size() - 2] = "dry";
  dry.back() = "--dry-run";
  const Outcome tried = run(dry);
  EXPECT_EQ(tried.code, 0) << tried.err;
  EXPECT_EQ(tried.out, "a dry run: options and data are right, 5 texts; nothing was written\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "dry"));
  expect_failure({"-q", "train", "composed", "--method", "inversion", "-m", "model", "-o", "other"}, 2,
                 {"--texts"});
  expect_failure({"-q", "train", "composed", "--method", "inversion", "-m", "model", "-o", "other",
                  "--checkpoint-activations"},
                 2, {"--checkpoint-activations", "trains none"});
  const Outcome help = run({"help", "train", "composed"});
  EXPECT_EQ(help.code, 0) << help.err;
  // CLI11 writes defaults as "=both", and as "[both]" since version 2.4.
  EXPECT_THAT(help.out, testing::ContainsRegex(R"(--align-towers NAME:\{text,both\}(=| \[)both)"));
  const RunOptions lab{.program = laboratory()};
  EXPECT_THAT(run({"completion", "bash"}, lab).out, testing::HasSubstr("--align-towers"));
  EXPECT_THAT(run({"man"}, lab).out, testing::HasSubstr("saccade\\-lab train composed"));
  expect_failure({"-q", "train", "composed", "--method", "atf", "-m", "model", "-o", "other"}, 2,
                 {"--dataset"});

  make_collection();
  const std::vector<std::string> asked = {"search",           "-c",  "c",     "--image",
                                          "pictures/red.png", "but", "green", "--json"};
  const auto search = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = asked;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse_json(outcome.out).value_or(Json());
  };
  const Json by_composer = search({"--compose", "inverted/model"});
  EXPECT_EQ(by_composer["query"]["compose"]["method"], "composer");
  EXPECT_EQ(by_composer["query"]["compose"]["composer"], "inverted");
  EXPECT_EQ(by_composer["query"]["compose"]["kind"], "inversion");
  EXPECT_EQ(search({})["query"]["compose"]["method"], "sum");
  const Outcome named = run({"collection", "composer", "-c", "c", "inverted/model"});
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_THAT(named.out, HasSubstr("composed by inverted (inversion)"));
  EXPECT_EQ(search({})["hits"], by_composer["hits"]);
  EXPECT_EQ(search({"--compose", "sum"})["query"]["compose"]["method"], "sum");
  EXPECT_EQ(search({"--text-weight", "0.5"})["query"]["compose"]["method"], "sum");
  EXPECT_THAT(run({"search", "-c", "c", "--image", "pictures/red.png", "green"}).out,
              HasSubstr("the query was made by the composer inverted (inversion)"));
  expect_failure({"search", "-c", "c", "--image", "pictures/red.png", "green", "--compose", "inverted/model",
                  "--text-weight", "0.5"},
                 2, {"--text-weight", "not for a composer"});
  EXPECT_EQ(run({"collection", "composer", "-c", "c", "--none"}).code, 0);
  EXPECT_EQ(search({})["query"]["compose"]["method"], "sum");
  expect_failure({"collection", "composer", "-c", "c", "model"}, 1, {"no composer"});

  const Json answer = composed({"--dataset", "test.jsonl", "--composer", "inverted/model"});
  EXPECT_EQ(answer["checkpoints"].size(), 1U);
  bool found = false;
  for (const Json& result : answer["results"]) {
    if (result["method"] != "inverted") continue;
    found = true;
    EXPECT_EQ(result["composer"], "inversion");
  }
  EXPECT_TRUE(found);
}

// atf is the study's fusion, atf-attention ours; an option of either changes it alone.
TEST_F(ComposedCli, TheFusionsAreRecordedByTheirOptions) {
  const auto words = [](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"-q", "train",      "composed", "--dataset", "test.jsonl",
                                          "-m", "model",      "--steps",  "1",         "--batch-size",
                                          "2",  "--together", "1",        "-o",        folder};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const auto options_of = [&](const std::string& folder, const std::vector<std::string>& more) {
    const Outcome trained = run(words(folder, more));
    EXPECT_EQ(trained.code, 0) << trained.err;
    const Json description = read_json(folder_ / folder / "run.json").value_or(Json());
    EXPECT_EQ(description["method"], "atf");
    EXPECT_EQ(read_json(folder_ / folder / "fuse/model/config.json").value_or(Json())["options"],
              description["atf"]);
    return description["atf"];
  };
  const Json study = options_of("study", {});
  EXPECT_EQ(study["matching"], "all");
  EXPECT_EQ(study["weights"], "similarity");
  EXPECT_EQ(study["pooling"], "mean");
  EXPECT_EQ(study["projection"], "linear");
  EXPECT_EQ(study["residual"], "none");
  const Json ours = options_of("ours", {"--method", "atf-attention"});
  EXPECT_EQ(ours["matching"], "mutual");
  EXPECT_EQ(ours["weights"], "equal");
  EXPECT_EQ(ours["pooling"], "asked");
  EXPECT_EQ(ours["projection"], "mlp");
  EXPECT_EQ(ours["residual"], "sum");
  Json changed = ours;
  changed["tau"] = 0.5;
  changed["heads"] = 2;
  EXPECT_EQ(options_of("changed", {"--method", "atf-attention", "--tau", "0.5", "--heads", "2"}), changed);
  EXPECT_EQ(options_of("same", {"--matching", "mutual", "--merge-weights", "equal", "--pooling", "asked",
                                "--projection", "mlp", "--residual", "sum"}),
            ours);
  // The Combiner brings a residual of its own.
  EXPECT_EQ(options_of("combined", {"--projection", "combiner"})["residual"], "sum");
  expect_failure(words("no", {"--projection", "combiner", "--residual", "none"}), 2,
                 {"residual none with projection combiner", "take residual sum"});
  expect_failure(words("no", {"--heads", "8"}), 2, {"--heads 8", "--pooling is mean"});
  expect_failure(words("no", {"--fusion-width", "8"}), 2, {"--fusion-width 8", "no hidden layer"});
  expect_failure(words("no", {"--dropout", "0.5"}), 2, {"dropout is 0.5", "no hidden values"});
  expect_failure(words("study", {"--method", "atf-attention"}), 1,
                 {"holds another training", "\"atf/matching\" is \"all\" there, \"mutual\" here"});
  // SPRC is for BLIP-2, over a frozen vision tower.
  expect_failure(words("no", {"--method", "sprc"}), 1, {"no Q-Former that reads a prompt before a text"});
  expect_failure(words("no", {"--method", "sprc", "--towers", "both"}), 2, {"expected towers none"});
  expect_failure(words("no", {"--method", "sprc", "--prompt-weight", "2000"}), 2,
                 {"--prompt-weight", "2000"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "no"));

  // A run keeps to its way of joining texts, too.
  EXPECT_EQ(read_json(folder_ / "study/run.json").value_or(Json())["join"], "both-orders");
  expect_failure(words("study", {"--join", "parts"}), 1,
                 {"holds another training", "\"join\" is \"both-orders\" there, \"parts\" here"});
  expect_failure(words("no", {"--join", "comma"}), 2, {"--join", "comma", "both-orders", "parts"});
}

TEST_F(ComposedCli, AblationsGoOnAndWriteTheirPage) {
  const auto words = [](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "-q",        "train",      "composed", "--dataset",   "test.jsonl", "--held-out",
        "val.jsonl", "-m",         "model",    "--steps",     "2",          "--batch-size",
        "2",         "--together", "1",        "--resamples", "20",         "--threads",
        "1",         "-o",         folder};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const std::vector<std::string> chosen = {"--ablations", "no-places,no-fusion", "--seeds", "1", "2"};
  std::vector<std::string> as_json = chosen;
  as_json.emplace_back("--json");
  const auto is_under_way = [&](std::string_view) {
    return fs::exists(folder_ / "ablated/trainings/no-places-1/run.json");
  };
  const Outcome cut = run(words("ablated", chosen), {.stop_when = is_under_way});
  EXPECT_EQ(cut.code, 1);
  EXPECT_THAT(cut.err, HasSubstr("of 6 trainings; the same command goes on from there"));
  const Outcome rest = run(words("ablated", as_json));
  ASSERT_EQ(rest.code, 0) << rest.err;
  const Outcome whole = run(words("whole", as_json));
  ASSERT_EQ(whole.code, 0) << whole.err;
  const Json report = parse_json(rest.out).value_or(Json());
  EXPECT_EQ(report["trained"], 6);
  EXPECT_EQ(report["finished"], true);
  ASSERT_EQ(report["ablations"].size(), 3U);
  EXPECT_EQ(report["ablations"][0]["name"], "full");
  EXPECT_EQ(report["ablations"][1]["changed"], "--places none");
  EXPECT_TRUE(report["ablations"][1]["differences"]["r1"]["difference"].is_number());
  EXPECT_EQ(report["ablations"], parse_json(whole.out).value_or(Json())["ablations"]);
  const std::string page = read_file(folder_ / "ablated/report.html").value_or("");
  EXPECT_THAT(page, HasSubstr("val: ablations, means over 2 seeds"));
  EXPECT_THAT(page, HasSubstr("<td>no-fusion</td><td>--pooling none</td>"));
  const Outcome text = run(words("ablated", chosen));  // nothing is trained again
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("6 of 6 trainings done"));
  EXPECT_THAT(text.out, HasSubstr("r10 less full"));
  EXPECT_THAT(text.out, HasSubstr("  no-places         --places none"));
  EXPECT_THAT(text.out, HasSubstr(" r50 "));
  EXPECT_THAT(text.out, testing::Not(HasSubstr("r_subset1")));  // the queries have no subsets
  EXPECT_THAT(text.out, HasSubstr("measured on what chose each training's step"));
  EXPECT_EQ(run({"-q", "report", "ablated/run", "--no-charts", "-o", "again.html"}).code, 0);

  // Trainings are compared in the same way wherever they were made.
  const auto training = [](const std::string& name, const std::string& seed) {
    return fmt::format("{0}=ablated/trainings/{0}-{1}", name, seed);
  };
  std::vector<std::string> compared = {"-q",          "eval",     "composed",  "--json", "--dataset",
                                       "val.jsonl",   "--method", "reference", "text",   "sum",
                                       "--resamples", "20",       "--training"};
  for (const char* name : {"full", "no-places", "no-fusion"}) {
    for (const char* seed : {"1", "2"}) compared.push_back(training(name, seed));
  }
  const Outcome measured = run(compared);
  ASSERT_EQ(measured.code, 0) << measured.err;
  const Json again = parse_json(measured.out).value_or(Json());
  ASSERT_EQ(again["ablations"].size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    const Json& one = again["ablations"][i];
    for (const char* key : {"name", "seeds", "methods", "queries", "figures", "differences", "untrained"}) {
      EXPECT_EQ(one[key], report["ablations"][i][key]) << key;
    }
    ASSERT_EQ(one["untrained"].size(), 3U);
    const Json& sum = one["untrained"][2];
    EXPECT_EQ(sum["method"], "sum");
    // The gallery has fewer images: neither the figure nor its difference is known.
    EXPECT_TRUE(one["figures"]["r50"]["value"].is_null());
    EXPECT_TRUE(sum["figures"]["r50"]["difference"].is_null());
    for (const Json& result : again["results"]) {
      if (result["method"] != "sum" || result["of"] != "all") continue;
      EXPECT_NEAR(
          sum["figures"]["r1"]["difference"].get<double>(),
          one["figures"]["r1"]["value"].get<double>() - result["figures"]["r1"]["value"].get<double>(),
          1e-12);
    }
  }
  const std::vector<std::string> eval = {"eval", "composed", "--dataset", "val.jsonl", "--training"};
  const auto refused = [&](const std::vector<std::string>& trainings, int code,
                           const std::vector<std::string>& parts) {
    std::vector<std::string> command = eval;
    command.insert(command.end(), trainings.begin(), trainings.end());
    expect_failure(command, code, parts);
  };
  refused({"full"}, 2, {"--training full", "expected NAME=RUN"});
  refused({training("full", "1"), training("full", "1")}, 2, {"has a training of seed 1 already"});
  refused({"full=ablated"}, 2, {"expected train composed"});
  refused({"full=absent"}, 1, {"--training full=absent"});

  expect_failure(words("no", {"--ablations", "no-stage-one"}), 2,
                 {"no-stage-one", "changes nothing of this training"});
  expect_failure(words("no", {"--ablations", "nonsense"}), 2, {"--ablations", "nonsense"});
  expect_failure(words("no", {"--seeds", "1", "2"}), 2, {"--seeds", "--ablations"});
  expect_failure(words("no", {"--method", "combiner", "--ablations", "all"}), 2,
                 {"no ablation changes this training"});
  expect_failure(words("no", {"--method", "inversion", "--ablations", "all"}), 2, {"--ablations"});
  EXPECT_FALSE(fs::exists(folder_ / "no"));
}

TEST_F(ComposedCli, AblationsShowRecallOfSubsets) {
  std::string held = queries("val", {{"grey", "in blue", "blue"}, {"light", "in red", "red"}});
  const std::string before = R"("split": )";
  for (size_t at = held.find(before); at != std::string::npos; at = held.find(before, at)) {
    const std::string subset = R"("subset": ["grey", "light", "blue", "red"], )";
    held.insert(at, subset);
    at += subset.size() + before.size();
  }
  write("subsets.jsonl", held);
  const Outcome ablated = run({"-q",
                               "train",
                               "composed",
                               "--dataset",
                               "test.jsonl",
                               "--held-out",
                               "subsets.jsonl",
                               "-m",
                               "model",
                               "--steps",
                               "1",
                               "--batch-size",
                               "2",
                               "--together",
                               "1",
                               "--resamples",
                               "20",
                               "--threads",
                               "1",
                               "--ablations",
                               "no-places",
                               "-o",
                               "ablated"});
  ASSERT_EQ(ablated.code, 0) << ablated.err;
  for (const char* column : {" r50 ", " r_subset1 ", " r_subset2 ", " r_subset3 ", " mean_r5_r_subset1 ",
                             " r1 less full ", " mean_r5_r_subset1 less full"}) {
    EXPECT_THAT(ablated.out, HasSubstr(column));
  }
  EXPECT_THAT(ablated.out, Not(HasSubstr("mean_r10_r50")));  // Fashion-IQ's
  EXPECT_THAT(read_file(folder_ / "ablated/report.html").value_or(""), HasSubstr("r_subset3"));
}

TEST_F(ComposedCli, APageShowsTauTokensAndQueries) {
  const Outcome trained = run({"-q", "train", "composed", "--dataset", "test.jsonl", "-m", "model", "--steps",
                               "1", "--batch-size", "2", "--together", "1", "-o", "fused"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json answer = composed({"--dataset", "val.jsonl", "--composer", "fused/fuse/model", "--tau", "0.1",
                                "0.9", "--token-queries", "2", "-o", "run"});
  EXPECT_EQ(answer["tau_curves"].size(), 2U);
  ASSERT_EQ(answer["token_similarities"].size(), 1U);
  const Outcome report = run({"-q", "report", "run", "--no-charts", "-o", "page.html"});
  ASSERT_EQ(report.code, 0) << report.err;
  const std::string page = read_file(folder_ / "page.html").value_or("");
  EXPECT_THAT(page, HasSubstr("val: recall against tau"));
  EXPECT_THAT(page, HasSubstr("val: matched tokens against tau"));
  EXPECT_THAT(page, HasSubstr("val: cosines of tokens"));
  EXPECT_THAT(page, HasSubstr("<h3>Queries</h3>"));
  EXPECT_THAT(page, HasSubstr("in blue"));
  // Shows reference and target, and two methods with five answers each, for both queries.
  size_t pictures = 0;
  for (size_t at = page.find("<img"); at != std::string::npos; at = page.find("<img", at + 1)) ++pictures;
  EXPECT_EQ(pictures, 2U * (2 + 2 * 5));
}

#endif  // SACCADE_TRAINS

}  // namespace
}  // namespace saccade::test
