// Tests of `saccade eval length` as a user runs it, and of the card's use in search and `model show`.
#include <array>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/hub/test_server.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class LengthCommand : public ProgramTest {
 protected:
  // Makes ten drawings that the starter, which was trained on icons, finds by their names.
  void make_shapes() const {
    const std::map<std::string, std::string> shapes = {
        {"circle", "<circle cx='12' cy='12' r='10'/>"},
        {"square", "<rect x='3' y='3' width='18' height='18' rx='2'/>"},
        {"triangle", "<path d='M12 3 L22 20 L2 20 Z'/>"},
        {"arrow right", "<path d='M4 12 H20 M14 6 L20 12 L14 18'/>"},
        {"arrow up", "<path d='M12 20 V4 M6 10 L12 4 L18 10'/>"},
        {"plus", "<path d='M12 4 V20 M4 12 H20'/>"},
        {"x", "<path d='M5 5 L19 19 M19 5 L5 19'/>"},
        {"check", "<path d='M4 12 L10 18 L20 6'/>"},
        {"menu", "<path d='M3 6 H21 M3 12 H21 M3 18 H21'/>"},
        {"heart", "<path d='M12 21 C-4 10 6 -1 12 6 C18 -1 28 10 12 21 Z'/>"}};
    std::string manifest;
    for (const auto& [name, drawing] : shapes) {
      write("shapes/" + name + ".svg",
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' width='96' height='96' fill='none' "
            "stroke='black' stroke-width='2'>" +
                drawing + "</svg>");
      manifest +=
          dump_json(Json{{"image", "shapes/" + name + ".svg"}, {"id", name}, {"captions", {name}}}) + "\n";
    }
    write("shapes.jsonl", manifest);
  }
  // Makes three cards of one colour, for the small untrained checkpoint, which takes 14 letters.
  void make_cards() const {
    picture("images/1.png", 200, 30, 30);
    picture("images/2.png", 30, 200, 30);
    picture("images/3.png", 30, 30, 200);
    write("cards.jsonl",
          "{\"image\": \"images/1.png\", \"captions\": [\"A red card. It is on a wooden table.\", \"a "
          "card\"]}\n"
          "{\"image\": \"images/2.png\", \"captions\": [\"green\", \"a card\"]}\n"
          "{\"image\": \"images/3.png\", \"captions\": [\"blue\"]}\n");
  }
  [[nodiscard]] Json json_of(const Outcome& outcome) const {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto json = parse_json(outcome.out);
    EXPECT_TRUE(json) << outcome.out;
    return json.value_or(Json());
  }
};

TEST_F(LengthCommand, WritesARunWithCurvesControlsAndChunks) {
  make_cards();
  const std::vector<std::string> arguments = {"-q",        "eval",        "length",   "-m",    "model",
                                              "--dataset", "cards.jsonl", "--domain", "cards", "--resamples",
                                              "50",        "-o",          "run",      "--json"};
  const Json answer = json_of(run(arguments));
  EXPECT_EQ(answer["kind"], "length");
  EXPECT_EQ(answer["protocol"]["share"], 0.95);
  EXPECT_THAT(answer["protocol"]["description"].get<std::string>(),
              HasSubstr("Ties count against the model"));
  ASSERT_EQ(answer["results"].size(), 1U);
  const Json& result = answer["results"][0];
  EXPECT_EQ(result["dataset"], "cards");
  EXPECT_EQ(result["domain"], "cards");
  EXPECT_EQ(result["model"], "model");
  EXPECT_EQ(result["images"], 3);
  EXPECT_EQ(result["texts"], 5);
  EXPECT_EQ(result["limit"], 15);  // 16 positions, one of them the end token's
  EXPECT_EQ(result["t2i"]["curve"].back()["n"], 15);
  EXPECT_TRUE(result["subset_items"].is_null());
  EXPECT_TRUE(result["t2i"]["curve"][0]["subsets"].is_null());
  EXPECT_EQ(result["controls"]["texts_of_sentences"], 1);
  EXPECT_EQ(result["controls"]["last_tokens"]["i2t"]["curve"].size(), result["i2t"]["curve"].size());
  EXPECT_EQ(result["token_lengths"]["max"], 28);
  EXPECT_EQ(result["token_lengths"]["beyond_limit"], 1);
  ASSERT_EQ(result["chunking"].size(), 6U);
  EXPECT_EQ(result["chunking"][0]["chunks"], "equal");
  EXPECT_EQ(result["chunking"][0]["pooling"], "mean");
  EXPECT_EQ(result["chunking"][0]["chunk_count"], 6);
  EXPECT_EQ(result["chunking"][5]["t2i"]["curve"].back()["n"], 29);
  EXPECT_TRUE(result["chunking"][5]["t2i"]["difference"]["significant"].is_boolean());
  const Json metrics = read_json(folder_ / "run/metrics.json").value();
  EXPECT_EQ(metrics["results"], answer["results"]);

  // The same command gives the same run. With another protocol it is refused. Embeddings come from the cache.
  const Json again = json_of(run(arguments));
  EXPECT_EQ(again["results"], answer["results"]);
  std::vector<std::string> other = arguments;
  other.insert(other.end(), {"--share", "0.9"});
  const Outcome refused = run(other);
  EXPECT_EQ(refused.code, 1);
  expect_one_line(refused);
  EXPECT_THAT(refused.err, HasSubstr("share"));
  EXPECT_TRUE(fs::exists(folder_ / "home/.cache/saccade/embeddings"));

  // An untrained model has no effective length for its card.
  const Outcome card =
      run({"-q", "eval", "length", "-m", "model", "--dataset", "cards.jsonl", "--write-card"});
  EXPECT_EQ(card.code, 0) << card.err;
  EXPECT_THAT(card.err, HasSubstr("nothing is found more often than by chance"));
  EXPECT_THAT(card.out, HasSubstr("chance"));
  EXPECT_FALSE(fs::exists(folder_ / "model/saccade.json"));
  const Outcome mean =
      run({"-q", "eval", "length", "-m", "model", "--dataset", "cards.jsonl", "--write-card", "--late-mean"});
  EXPECT_EQ(mean.code, 2);
  EXPECT_THAT(mean.err, HasSubstr("--late-mean"));
}

TEST_F(LengthCommand, SaysWhatWasLeftOut) {
  make_cards();
  fs::remove(folder_ / "images/3.png");
  const Outcome outcome = run({"-q", "eval", "length", "-m", "model", "--dataset", "cards.jsonl#missing=skip",
                               "--lengths", "4", "--resamples", "0", "--no-controls", "--no-chunking"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("left out: image files that are not there: 1"));
}

// The grid, cut and chunks of the study's published program.
TEST_F(LengthCommand, TheStudysOwnProcedureIsAChoiceOfOptions) {
  make_cards();
  std::vector<std::string> arguments = {"-q",          "eval",          "length",      "-m",
                                        "model",       "--dataset",     "cards.jsonl", "--resamples",
                                        "50",          "--length-step", "10",          "--cut",
                                        "retokenize",  "--chunks",      "words",       "--no-controls",
                                        "--late-mean", "--json"};
  const Json answer = json_of(run(arguments));
  const Json& protocol = answer["protocol"];
  EXPECT_TRUE(protocol["lengths"].is_null());
  EXPECT_EQ(protocol["length_step"], 10);
  EXPECT_EQ(protocol["cut"], "retokenize");
  EXPECT_EQ(protocol["chunks"], Json({"words"}));
  EXPECT_EQ(protocol["late_mean"], true);
  EXPECT_THAT(protocol["description"].get<std::string>(), HasSubstr("tokenized again"));
  const Json& result = answer["results"][0];
  const auto lengths = [](const Json& curve) {
    std::vector<int64_t> all;
    for (const Json& point : curve["curve"]) all.push_back(point["n"].get<int64_t>());
    return all;
  };
  EXPECT_EQ(lengths(result["t2i"]), (std::vector<int64_t>{1, 11, 15}));
  ASSERT_EQ(result["chunking"].size(), 3U);
  EXPECT_EQ(result["chunking"][0]["chunks"], "words");
  EXPECT_EQ(lengths(result["chunking"][0]["t2i"]), (std::vector<int64_t>{21, 29}));
  const Outcome table = run({"-q", "eval", "length", "-m", "model", "--dataset", "cards.jsonl", "--chunks",
                             "words,equal", "--no-controls"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("chunks (words), mean"));
  EXPECT_THAT(table.out, HasSubstr("chunks (equal), maximum"));
  EXPECT_THAT(table.out, Not(HasSubstr("chunks (sentences)")));
}

TEST_F(LengthCommand, TheCardIsWhatSearchGoesBy) {
  make_shapes();
  fs::copy(fs::path(test::kSourceDir) / "models/starter", folder_ / "starter");
  fs::remove(folder_ / "starter/saccade.json");
  const Outcome outcome = run({"-q", "eval", "length", "-m", "starter", "--dataset", "shapes.jsonl",
                               "--subset-items", "6", "--subsets", "3", "--write-card", "--json"});
  const Json result = json_of(outcome)["results"][0];
  EXPECT_TRUE(result["t2i"]["above_chance"].get<bool>());
  EXPECT_EQ(result["t2i"]["curve"][0]["subsets"]["values"].size(), 3U);
  const Json& effective = result["t2i"]["effective"];
  ASSERT_TRUE(effective["tokens"].is_number());
  const auto tokens = effective["tokens"].get<int64_t>();
  EXPECT_EQ(tokens + 1, effective["value"].get<int64_t>());
  const Json card = read_json(folder_ / "starter/saccade.json").value()["effective_length"];
  ASSERT_EQ(card.size(), 1U);
  EXPECT_EQ(card[0]["tokens"], tokens);
  EXPECT_EQ(card[0]["dataset"], "shapes");
  EXPECT_EQ(card[0]["longest"], result["token_lengths"]["max"]);
  EXPECT_THAT(read_file(folder_ / "starter/README.md").value(), HasSubstr("| shapes |"));

  const Json shown = json_of(run({"model", "show", "starter", "--json"}));
  EXPECT_EQ(shown["effective_length"], card);
  ASSERT_EQ(run({"-q", "index", "shapes", "-c", "c", "-m", "starter"}).code, 0);
  const std::string text = "a long arrow that points up to the right, and then a circle around a heart";
  const Outcome note = run({"search", "-c", "c", text, "--json"});
  const Json long_answer = json_of(note);
  EXPECT_EQ(long_answer["effective_length"]["tokens"], tokens);
  EXPECT_EQ(long_answer["effective_length"]["exceeded"], true);
  EXPECT_THAT(note.err, HasSubstr("a long text: of these "));
  EXPECT_THAT(note.err, HasSubstr("on shapes"));
  const Outcome brief = run({"search", "-c", "c", "x", "--json"});
  EXPECT_EQ(json_of(brief)["effective_length"]["exceeded"], false);
  EXPECT_THAT(brief.err, Not(HasSubstr("a long text")));
  // An unreadable file suppresses the note, not the answer.
  write("starter/saccade.json", "{");
  const Outcome broken = run({"search", "-c", "c", text, "--json"});
  EXPECT_TRUE(json_of(broken)["effective_length"].is_null());
  EXPECT_THAT(broken.err, HasSubstr("the model's effective text length is not known"));
}

TEST_F(LengthCommand, LongQueriesAreReadInChunks) {
  make_collection();
  const std::string text = "a red card that lies on a table";  // 24 letters, room for 14
  const Outcome cut = run({"search", "-c", "c", text, "--json"});
  EXPECT_EQ(dump_json(json_of(cut)["tokens"]), R"({"used":14,"dropped":10,"chunks":1})");
  EXPECT_TRUE(json_of(cut)["effective_length"].is_null());
  const Outcome whole = run({"search", "-c", "c", text, "--chunk-long-text", "--json"});
  EXPECT_EQ(dump_json(json_of(whole)["tokens"]), R"({"used":24,"dropped":0,"chunks":2})");
  EXPECT_THAT(whole.err, Not(HasSubstr("cut")));
  // Its earlier name has words for both ways.
  EXPECT_EQ(run({"search", "-c", "c", text, "--long-query", "chunk", "--json"}).out, whole.out);
  EXPECT_EQ(run({"search", "-c", "c", text, "--long-query", "truncate", "--json"}).out, cut.out);
  EXPECT_EQ(run({"search", "-c", "c", text, "--long-query", "both"}).code, 2);
}

TEST_F(LengthCommand, CountsTokensWithoutWeights) {
  make_cards();
  fs::create_directory(folder_ / "words");
  for (const char* name : {"vocab.json", "merges.txt", "special_tokens_map.json"}) {
    fs::copy_file(folder_ / "model" / name, folder_ / "words" / name);
  }
  write("words/tokenizer_config.json", R"({"model_max_length": 10})");
  const Json answer = json_of(run(
      {"eval", "length", "--token-lengths", "-m", "words", "model", "--dataset", "cards.jsonl", "--json"}));
  ASSERT_EQ(answer["results"].size(), 2U);
  const Json& words = answer["results"][0];
  EXPECT_EQ(words["tokenizer"], "words");
  EXPECT_EQ(words["context"], 10);
  EXPECT_EQ(words["token_lengths"]["limit"], 8);
  EXPECT_EQ(words["token_lengths"]["count"], 5);
  EXPECT_EQ(words["token_lengths"]["max"], 28);
  EXPECT_EQ(words["token_lengths"]["histogram"]["counts"][5], 3);  // "green", twice "a card"
  EXPECT_EQ(answer["results"][1]["context"], 16);
  const Outcome table = run({"eval", "length", "--token-lengths", "-m", "words", "--dataset", "cards.jsonl",
                             "--join-captions", "--context", "12"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("of more than 10"));
  EXPECT_THAT(table.out, HasSubstr(" 33 "));  // the first two captions, joined
}

// Three images and texts in the layouts in which four datasets of long texts are published.
TEST_F(LengthCommand, ReadsTheDatasetsAsTheyArePublished) {
  const std::array<std::array<int, 3>, 3> colours = {{{200, 30, 30}, {30, 200, 30}, {30, 30, 200}}};
  const std::array<std::string, 3> texts = {"A red card. It is on a wooden table.", "A green card.", "blue"};
  const TestServer server([&](const ServerRequest& request) {
    const auto image = read_file(folder_ / ("Urban1k/image" + request.path));
    return image ? ServerReply{.body = *image} : ServerReply{.status = 404};
  });
  const std::string roco = "roco-dataset/data/test/radiology/";
  Json share = Json::array();
  std::string captions;
  std::string factify = "Id,claim,claim_image,document,document_image,Category\n";
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto image = [&](const std::string& name) {
      picture(name, colours[i][0], colours[i][1], colours[i][2]);
    };
    image(fmt::format("Urban1k/image/{}.jpg", i));
    write(fmt::format("Urban1k/caption/{}.txt", i), texts[i] + "\n");
    image(fmt::format("{}images/ROCO_{:05}.jpg", roco, i));
    captions += fmt::format("ROCO_{:05}\t {}\n", i, texts[i]);
    image(fmt::format("data/coco/train2017/{}.jpg", i));
    share.push_back({{"id", std::to_string(i)},
                     {"image", fmt::format("coco/train2017/{}.jpg", i)},
                     {"conversations",
                      {{{"from", "human"}, {"value", "What do you see?\n<image>"}},
                       {{"from", "gpt"}, {"value", texts[i]}}}}});
    factify +=
        fmt::format("{0},A claim,{1}/claim.jpg,\"{2}\",{1}/{0}.jpg,Refute\n", i, server.endpoint(), texts[i]);
  }
  // An image that the dataset's script could not fetch.
  write(roco + "captions.txt", captions + "ROCO_00009\t A scan.\n");
  write("data/sharegpt4v/captions.json", dump_json(share));
  write("factify.csv", factify);

  expect_failure(
      {"-q", "eval", "length", "-m", "model", "--dataset", "factify.csv"}, 1,
      {"images that are web addresses, not files: 3", "saccade-lab dataset fetch factify.csv -o FOLDER"});
  const Outcome fetched =
      run({"-q", "dataset", "fetch", "factify.csv", "-o", "factify", "--allow-private-networks"});
  ASSERT_EQ(fetched.code, 0) << fetched.err;
  const Json answer =
      json_of(run({"-q", "eval", "length", "-m", "model", "--dataset", "Urban1k", "roco-dataset#missing=skip",
                   "data/sharegpt4v/captions.json", "factify", "--resamples", "20", "--json"}));
  const std::array<const char*, 4> layouts = {"urban1k", "roco", "sharegpt4v", "webdataset"};
  ASSERT_EQ(answer["datasets"].size(), layouts.size());
  ASSERT_EQ(answer["results"].size(), layouts.size());
  for (size_t i = 0; i < layouts.size(); ++i) {
    SCOPED_TRACE(layouts[i]);
    const Json& dataset = answer["datasets"][i];
    EXPECT_EQ(dataset["layout"], layouts[i]);
    EXPECT_EQ(dataset["images"], 3);
    EXPECT_EQ(dataset["images_sha256"], answer["datasets"][0]["images_sha256"]);
    // The figures are those of the same images and texts, whatever the layout.
    for (const char* direction : {"t2i", "i2t"}) {
      EXPECT_EQ(answer["results"][i][direction], answer["results"][0][direction]);
    }
    EXPECT_EQ(answer["results"][i]["token_lengths"], answer["results"][0]["token_lengths"]);
  }
  EXPECT_EQ(answer["datasets"][1]["excluded"][0]["reason"], "image files that are not there");
}

TEST_F(LengthCommand, RefusesWhatMakesNoSense) {
  make_cards();
  const auto refused = [&](std::vector<std::string> more, int code, const char* words) {
    std::vector<std::string> arguments = {"eval", "length", "-m", "model"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words));
    EXPECT_EQ(outcome.out, "");
  };
  refused({}, 2, "name a dataset with --dataset");
  refused({"--dataset", "cards.jsonl", "--lengths", "5,x"}, 2, "\"x\", expected a whole number of 1 or more");
  refused({"--dataset", "cards.jsonl", "--length-step", "0"}, 2,
          "\"0\", expected a whole number of 1 or more");
  refused({"--dataset", "cards.jsonl", "--length-step", "5", "--lengths", "5"}, 2, "--length-step");
  refused({"--dataset", "cards.jsonl", "--cut", "words"}, 2, "--cut");
  refused({"--dataset", "cards.jsonl", "--chunks", "letters"}, 2, "--chunks");
  refused({"--dataset", "cards.jsonl", "--domain", "a", "b"}, 2, "2 of --domain for 1 of --dataset");
  refused({"--dataset", "cards.jsonl", "--share", "0"}, 2, "--share");
  refused({"--dataset", "cards.jsonl", "--chunk-tokens", "17"}, 2, "this model reads 1 to 16");
  refused({"--dataset", "cards.jsonl", "--token-lengths", "--write-card"}, 2, "--write-card");
  write("images/2.png", "no picture");
  refused({"--dataset", "cards.jsonl"}, 1, "1 of 3 images cannot be read");
  const Outcome rest =
      run({"-q", "eval", "length", "-m", "model", "--dataset", "cards.jsonl", "--leave-out"});
  EXPECT_EQ(rest.code, 3) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("2 images, 3 texts"));
}

}  // namespace
}  // namespace saccade::test
