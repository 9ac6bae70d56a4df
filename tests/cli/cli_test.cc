// Tests of the commands: their outputs, and the agreement between these.
#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/npy.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/image/image_codec.h"

#include "outcome_json.h"
#include "run_program.h"

namespace saccade::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Cli : public ProgramTest {};

TEST_F(Cli, VersionAndHelp) {
  EXPECT_THAT(run({"--version"}).out, testing::MatchesRegex("saccade [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{}, {"search"}, {"collection", "info"}, {"eval", "length"}}) {
    std::vector<std::string> words = command;
    words.emplace_back("--help");
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Usage:"));
    EXPECT_THAT(outcome.err, IsEmpty());
  }
}

TEST_F(Cli, IndexAddsOnceAndSaysWhatItDid) {
  make_collection();
  const Outcome again = run({"index", "pictures", "-c", "c", "--json"});
  EXPECT_EQ(again.code, 0) << again.err;
  const Json json = json_of(again);
  EXPECT_EQ(json["seen"], 4);
  EXPECT_EQ(json["unchanged"], 4);
  EXPECT_EQ(json["added"], 0);
  EXPECT_EQ(json_of(run({"collection", "info", "-c", "c", "--json"}))["items"], 4);

  // Reads a list on stdin, separated by lines or by NULs.
  picture("more/a b.png", 1, 200, 200);
  picture("more/c\nd.png", 200, 200, 1);
  EXPECT_EQ(json_of(run({"index", "-", "-c", "c", "--json"}, {.input = "more/a b.png\n"}))["added"], 1);
  const std::string list("more/a b.png\0more/c\nd.png\0", 26);
  EXPECT_EQ(json_of(run({"index", "-", "-c", "c", "--json"}, {.input = list}))["added"], 1);
}

TEST_F(Cli, IndexTakesAListOfFiles) {
  make_collection();
  picture("more/a.png", 1, 200, 200);
  picture("more/b.png", 200, 1, 200);
  picture("more/c.png", 200, 200, 1);
  write("list", "more/a.png\nmore/gone.png\n\nmore/b.png\n");
  const Outcome listed = run({"index", "--files-from", "list", "-c", "c", "--json"});
  EXPECT_EQ(listed.code, 3) << listed.err;
  const Json json = json_of(listed);
  EXPECT_EQ(json["added"], 2);
  ASSERT_EQ(json["failed"].size(), 1U);
  EXPECT_EQ(json["failed"][0]["path"], (folder_ / "more/gone.png").string());
  EXPECT_EQ(json["failed"][0]["reason"], "no such file or folder");
  // Beside a folder, and from stdin.
  const Outcome beside =
      run({"index", "pictures", "--files-from", "-", "-c", "c", "--json"}, {.input = "more/c.png"});
  EXPECT_EQ(beside.code, 0) << beside.err;
  EXPECT_EQ(json_of(beside)["added"], 1);
  EXPECT_EQ(json_of(beside)["unchanged"], 4);
  // From a pipe, as of <(find ...).
  picture("more/d.png", 1, 1, 200);
  const Outcome piped =
      run({"index", "--files-from", "/dev/stdin", "-c", "c", "--json"}, {.input = "more/d.png\n"});
  EXPECT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(json_of(piped)["added"], 1);
}

TEST_F(Cli, ShardsDivideAListOfFiles) {
  make_collection();
  std::string list;
  for (int number = 0; number < 12; ++number) {
    const std::string name = fmt::format("more/{}.png", number);
    picture(name, 20 * number, 200, 100);
    list += name + "\n";
  }
  write("list", list + "more/gone.png\n");
  std::vector<int> added;
  int failed = 0;
  for (const char* shard : {"1/3", "2/3", "3/3"}) {
    const Outcome part = run({"index", "--files-from", "list", "--shard", shard, "-c", "c", "--json"});
    const Json json = json_of(part);
    added.push_back(json["added"].get<int>());
    EXPECT_EQ(json["unchanged"], 0);
    const int gone = static_cast<int>(json["failed"].size());
    EXPECT_EQ(part.code, gone == 0 ? 0 : 3) << part.err;
    failed += gone;
  }
  EXPECT_EQ(added[0] + added[1] + added[2], 12);
  EXPECT_EQ(failed, 1) << "a missing file fails in the worker that has it";
  for (const int count : added) EXPECT_LT(count, 12);
}

TEST_F(Cli, IndexPrunesAndRetriesWhenAsked) {
  make_collection();
  picture("other/large.png", 9, 9, 9);
  std::filesystem::remove(folder_ / "pictures/red.png");
  struct Step {
    std::vector<std::string> words;
    int code;
    std::map<std::string, int> counts;
  };
  const std::vector<Step> steps = {
      {{"pictures"}, 0, {{"missing", 1}, {"removed", 0}, {"unchanged", 3}}},
      {{"other", "--prune"}, 3, {{"removed", 0}, {"added", 0}}},  // elsewhere, and too large as below
      {{"pictures", "--prune"}, 0, {{"missing", 0}, {"removed", 1}, {"unchanged", 3}}},
      {{"pictures", "--prune"}, 0, {{"missing", 0}, {"removed", 0}}},
      {{"other"}, 0, {{"skipped_failed", 1}, {"added", 0}}},
      {{"other", "--retry-failed"}, 3, {{"skipped_failed", 0}, {"added", 0}}},
      {{"other", "--retry-failed", "--max-pixels", "5600"}, 0, {{"skipped_failed", 0}, {"added", 1}}},
      {{"other", "--retry-failed"}, 0, {{"unchanged", 1}, {"added", 0}}}};
  for (const Step& step : steps) {
    std::vector<std::string> words = {"index", "-c", "c", "--json"};
    if (std::ranges::find(step.words, "--max-pixels") == step.words.end())
      words.insert(words.end(), {"--max-pixels", "5599"});  // images are 80 x 70
    words.insert(words.end(), step.words.begin(), step.words.end());
    SCOPED_TRACE(testing::PrintToString(words));
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, step.code) << outcome.err;
    const Json json = json_of(outcome);
    for (const auto& [key, count] : step.counts) EXPECT_EQ(json[key], count) << key;
    EXPECT_EQ(json["failed"].size(), step.code == 3 ? 1U : 0U) << outcome.out;
  }
  EXPECT_EQ(json_of(run({"collection", "info", "-c", "c", "--json"}))["items"], 4);
}

// Returns a TIFF of 30 x 20 grey pixels that is displayed rotated (orientation 6).
std::string turned_tiff() {
  constexpr uint32_t kWidth = 30, kHeight = 20, kPixels = 8;  // kPixels: their offset
  std::string file;
  const auto put = [&file](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file += static_cast<char>(value >> (8 * i) & 0xff);
  };
  file += "II";
  put(42, 2);
  put(kPixels + kWidth * kHeight, 4);
  for (uint32_t i = 0; i < kWidth * kHeight; ++i) put(i % 251, 1);
  // The fields are: width, height, bits, no compression, black is 0, offset of pixels, orientation, channels,
  // rows per strip, bytes.
  constexpr std::pair<uint32_t, uint32_t> kFields[] = {
      {256, kWidth},  {257, kHeight}, {258, 8}, {259, 1},       {262, 1},
      {273, kPixels}, {274, 6},       {277, 1}, {278, kHeight}, {279, kWidth * kHeight}};
  put(std::size(kFields), 2);
  for (const auto& [tag, value] : kFields) {
    put(tag, 2);
    put(3, 2);  // 16 bits
    put(1, 4);
    put(value, 4);
  }
  put(0, 4);
  return file;
}

TEST_F(Cli, AsStoredIsSettledWhenACollectionIsMade) {
  write("turned/turned.tif", turned_tiff());
  for (const bool as_stored : {false, true}) {
    const std::string collection = as_stored ? "stored" : "upright";
    std::vector<std::string> words = {"index", "turned", "-c", collection, "-m", "model"};
    if (as_stored) words.emplace_back("--as-stored");
    const Outcome indexed = run(words);
    ASSERT_EQ(indexed.code, 0) << indexed.out << indexed.err;
    const Json hit = json_of(run({"search", "-c", collection, "x", "--json"}))["hits"][0];
    EXPECT_EQ(hit["width"], as_stored ? 30 : 20);
    EXPECT_EQ(hit["height"], as_stored ? 20 : 30);
    const Json info = json_of(run({"collection", "info", "-c", collection, "--json"}));
    EXPECT_EQ(info["settings"]["apply_orientation"], !as_stored);
  }
}

// Tests each option by its effect, compared with the same command without it.
TEST_F(Cli, IndexTakesWhatItsOptionsSay) {
  picture("tree/a.png", 1, 200, 200);
  write("tree/a.txt", "a card");
  picture("tree/.hidden.png", 200, 1, 200);
  picture("elsewhere/b.png", 200, 200, 1);
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", folder_ / "tree/link");
  const auto bytes = std::filesystem::file_size(folder_ / "tree/a.png");
  struct Case {
    std::vector<std::string> options;
    int added, captions;
    std::string reason;  // reason of the one failure; empty if there is none
  };
  const std::vector<Case> cases = {{{}, 1, 1, ""},
                                   {{"--hidden"}, 2, 1, ""},
                                   {{"--follow-links"}, 2, 1, ""},
                                   {{"--hidden", "--follow-links"}, 3, 1, ""},
                                   {{"--no-sidecars"}, 1, 0, ""},
                                   {{"--max-bytes", std::to_string(bytes)}, 1, 1, ""},
                                   {{"--max-bytes", std::to_string(bytes - 1)}, 0, 0, "bytes, limit"},
                                   {{"--max-seconds", "0.000000001"}, 0, 0, "seconds"},
                                   {{"--max-seconds", "0"}, 1, 1, ""}};
  int number = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::PrintToString(c.options));
    const std::string collection = fmt::format("c{}", number++);
    std::vector<std::string> words = {"index", "tree", "-c", collection, "-m", "model", "--json"};
    words.insert(words.end(), c.options.begin(), c.options.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, c.reason.empty() ? 0 : 3) << outcome.err;
    const Json json = json_of(outcome);
    EXPECT_EQ(json["added"], c.added);
    EXPECT_EQ(json["failed"].size(), c.reason.empty() ? 0U : 1U);
    if (!c.reason.empty()) {
      EXPECT_THAT(json["failed"][0]["reason"].get<std::string>(), HasSubstr(c.reason));
    }
    EXPECT_EQ(json_of(run({"collection", "info", "-c", collection, "--json"}))["captions"], c.captions);
  }
}

// What a picture becomes: settled when a collection is made, and seen in its row.
TEST_F(Cli, BackgroundColorsAndExactDecodeChangeRows) {
  Image white{.width = 40, .height = 40, .channels = 4, .mode = PixelMode::kRgba, .pixels = {}};
  for (int i = 0; i < 40 * 40; ++i) {
    white.pixels.insert(white.pixels.end(), 3, 255);
    white.pixels.push_back(i % 40 < 20 ? 255 : 0);  // the right half transparent
  }
  write("clear/a.png", encode_png(white).value_or(""));
  Image noise{.width = 1024, .height = 1024, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  uint32_t state = 1;
  for (int i = 0; i < 1024 * 1024 * 3; ++i) {
    state = state * 1664525 + 1013904223;
    noise.pixels.push_back(static_cast<uint8_t>(state >> 24));
  }
  write("large/a.jpg", encode_jpeg(noise).value_or(""));
  const std::filesystem::path colors = std::filesystem::path(test::kSourceDir) / "tests/data/color_profiles";
  write("wide/a.png", read_file(colors / "adobe_rgb.png").value_or(""));
  struct Case {
    std::string folder;
    std::vector<std::string> options;
    std::string key;
    Json value;
    bool same;  // row as without options
  };
  const std::vector<Case> cases = {
      {"clear", {}, "background", "by_contrast", true},
      {"clear", {"--background", "contrast"}, "background", "by_contrast", true},
      {"clear", {"--background", "white"}, "background", "white", false},
      {"clear", {"--background", "checkpoint"}, "background", "checkpoint", false},
      {"large", {}, "fast_decode", true, true},
      {"large", {"--fast-decode"}, "fast_decode", true, true},
      {"large", {"--exact-decode"}, "fast_decode", false, false},
      {"wide", {}, "convert_to_srgb", false, true},
      {"wide", {"--convert-to-srgb"}, "convert_to_srgb", true, false},
      {"large", {}, "int8_rows", "auto", true},
      {"large", {"--int8-rows", "off"}, "int8_rows", "off", true},
      {"large", {"--int8-rows", "on"}, "int8_rows", "on", true}};
  std::map<std::string, double> plain;
  int number = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.folder + testing::PrintToString(c.options));
    const std::string collection = fmt::format("c{}", number++);
    std::vector<std::string> words = {"index", c.folder, "-c", collection, "-m", "model"};
    words.insert(words.end(), c.options.begin(), c.options.end());
    const Outcome outcome = run(words);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(json_of(run({"collection", "info", "-c", collection, "--json"}))["settings"][c.key], c.value);
    const double score = json_of(run({"search", "-c", collection, "cat", "--json"}))["hits"][0]["score"];
    const double expected = plain.try_emplace(c.folder, score).first->second;
    EXPECT_EQ(score == expected, c.same) << score << " and " << expected;
  }
}

// JPEGs of at least five times the model's input (64 x 64) are decoded at a reduced size in new collections.
TEST_F(Cli, LargeJpegsAreDecodedAtAReducedSizeUnlessAsked) {
  const auto noise =
      [](int side) {  // squares of 4 x 4 pixels: details of the size that the resize takes away
        Image image{.width = side, .height = side, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
        for (int y = 0; y < side; ++y) {
          for (int x = 0; x < side; ++x) {
            for (int c = 0; c < 3; ++c) {
              const uint32_t cell = static_cast<uint32_t>((y / 4 * side + x / 4) * 3 + c) * 2654435761U;
              image.pixels.push_back(static_cast<uint8_t>((cell ^ cell >> 15) * 2246822519U >> 24));
            }
          }
        }
        return image;
      };
  write("small/a.jpg", encode_jpeg(noise(319)).value_or(""));
  write("large/a.jpg", encode_jpeg(noise(320)).value_or(""));
  write("drawing/a.png", encode_png(noise(640)).value_or(""));
  using Rows = std::vector<std::vector<float>>;
  const auto read_rows = [this](const std::string& file) {
    const auto matrix = read_npy(folder_ / file);
    EXPECT_TRUE(matrix.has_value()) << file;
    Rows rows;
    for (int64_t i = 0; matrix && i < matrix->rows(); ++i) {
      rows.emplace_back(matrix->row(i).begin(), matrix->row(i).end());
    }
    return rows;
  };
  const auto rows_of = [&](const std::string& collection) {
    EXPECT_EQ(run({"collection", "export", "-c", collection, collection + "-out"}).code, 0);
    return read_rows(collection + "-out/rows.npy");
  };
  int number = 0;
  const auto index = [&](const std::string& folder, const std::vector<std::string>& options = {}) {
    const std::string collection = fmt::format("c{}", number++);
    std::vector<std::string> words = {"index", folder, "-c", collection, "-m", "model"};
    words.insert(words.end(), options.begin(), options.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return collection;
  };
  std::map<std::string, Rows> exact;
  for (const std::string folder : {"small", "large", "drawing"}) {
    SCOPED_TRACE(folder);
    exact[folder] = rows_of(index(folder, {"--exact-decode"}));
    ASSERT_EQ(exact[folder].size(), 1U);
    ASSERT_EQ(run({"embed", "--images", folder, "-m", "model", "-o", folder + ".npy"}).code, 0);
    EXPECT_THAT(read_rows(folder + ".npy"),
                testing::ElementsAre(testing::Pointwise(testing::FloatNear(1e-6F), exact[folder].front())));
    const Rows usual = rows_of(index(folder));
    EXPECT_EQ(usual == exact[folder], folder != "large");
    EXPECT_EQ(rows_of(index(folder, {"--fast-decode"})), usual);
  }

  // An existing collection goes on as it was created. One that does not record the setting is exact.
  for (const bool recorded : {true, false}) {
    const std::string old = index("small", {"--exact-decode"});
    if (!recorded) {
      auto json = read_json(folder_ / old / "collection.json");
      ASSERT_TRUE(json.has_value());
      ASSERT_EQ((*json)["settings"].erase("fast_decode"), 1U);
      write(old + "/collection.json", dump_json(*json));
    }
    ASSERT_EQ(run({"index", "large", "-c", old}).code, 0);
    EXPECT_THAT(rows_of(old), testing::UnorderedElementsAre(exact["small"].front(), exact["large"].front()));
  }

  // A query image is decoded as the collection's images are. The indexed PNG has the same embedding either way.
  const std::string fast_drawing = index("drawing");
  const std::string exact_drawing = index("drawing", {"--exact-decode"});
  const auto score = [this](const std::string& collection, const std::string& image) {
    return json_of(run({"search", "-c", collection, "--image", image, "--json"}))["hits"][0]["score"]
        .get<double>();
  };
  EXPECT_NE(score(fast_drawing, "large/a.jpg"), score(exact_drawing, "large/a.jpg"));
  EXPECT_EQ(score(fast_drawing, "small/a.jpg"), score(exact_drawing, "small/a.jpg"));
}

TEST_F(Cli, FoldAboveSaysWhatIsAlike) {
  make_collection();
  picture("pictures/red again.png", 221, 10, 10);
  ASSERT_EQ(run({"index", "pictures", "-c", "c"}).code, 0);
  const auto hits = [this](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"search", "-c", "c", "red", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(run(words))["hits"].size();
  };
  EXPECT_EQ(hits({"--no-group-duplicates"}), 5U);
  EXPECT_EQ(hits({"--group-above", "0"}), 1U);
  EXPECT_LT(hits({"--group-above", "0.99"}), 5U);
  EXPECT_EQ(hits({"--group-above", "1"}), 5U);
  // Pages of one answer.
  const auto page = [this](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"search", "-c", "c", "red", "--no-group-duplicates", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(run(words))["hits"];
  };
  const Json whole = page({});
  const Json second = page({"-k", "2", "--offset", "3"});
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second[0], whole[3]);
  EXPECT_EQ(second[1], whole[4]);
  // Earlier names.
  EXPECT_EQ(hits({"--fold-above", "1"}), 5U);
  EXPECT_EQ(hits({"--all"}), 5U);
  EXPECT_EQ(hits({"--words", "0", "--sort", "date", "--all"}), 5U);
}

TEST_F(Cli, EarlierNamesOfOptionsAreAcceptedAndNotShown) {
  make_collection();
  picture("more/a.png", 1, 200, 200);
  const Outcome added = run({"index", "more", "-c", "c", "--batch", "1", "--no-facts", "--json"});
  EXPECT_EQ(added.code, 0) << added.err;
  EXPECT_EQ(json_of(added)["added"], 1);
  EXPECT_EQ(run({"index", "more", "-c", "c", "--batch", "0"}).code, 2);
  expect_failure({"search", "-c", "c", "red", "--cut", "1.5"}, 2, {"--min-probability: \"1.5\""});
  const std::string by_date = run({"search", "-c", "c", "red", "--order", "date", "--paths"}).out;
  EXPECT_EQ(run({"search", "-c", "c", "red", "--sort", "date", "--paths"}).out, by_date);
  const std::string help = run({"search", "--help"}).out + run({"index", "--help"}).out;
  for (const char* now : {"--min-probability", "--order", "--batch-size", "--no-metadata"}) {
    EXPECT_THAT(help, HasSubstr(now));
  }
  for (const char* was : {"--cut", "--sort", "--long-query", "--batch ", "--no-facts", "--all"}) {
    EXPECT_THAT(help, Not(HasSubstr(was)));
  }
}

TEST_F(Cli, EmbedAndEvalLookAtPicturesAsStoredWhenAsked) {
  write("turned/turned.tif", turned_tiff());
  const auto row = [this](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"embed", "--images", "turned", "-m", "model", "-o", "rows.npy"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run(words).code, 0);
    return read_file(folder_ / "rows.npy").value_or("");
  };
  const std::string upright = row({});
  EXPECT_EQ(upright, row({}));
  EXPECT_NE(upright, row({"--as-stored"}));

  write("d.jsonl", R"({"image": "turned/turned.tif", "captions": ["x"]})"
                   "\n");
  for (const bool as_stored : {false, true}) {
    const std::string folder = as_stored ? "stored" : "upright";
    std::vector<std::string> words = {"eval",      "retrieval", "-m", "model",
                                      "--dataset", "d.jsonl",   "-o", folder};
    if (as_stored) words.emplace_back("--as-stored");
    const Outcome outcome = run(words);
    ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    const auto about = read_json(folder_ / folder / "run.json");
    ASSERT_TRUE(about.has_value());
    EXPECT_EQ((*about)["protocol"]["as_stored"], as_stored);
    EXPECT_THAT((*about)["protocol"]["description"].get<std::string>(),
                HasSubstr(as_stored ? "EXIF orientation is ignored" : "EXIF orientation is applied"));
  }
}

TEST_F(Cli, SearchFindsAPictureByItself) {
  make_collection();
  const Outcome outcome =
      run({"search", "-c", "c", "--image", "pictures/green.png", "--no-group-duplicates", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = json_of(outcome);
  ASSERT_EQ(json["hits"].size(), 4U);
  EXPECT_THAT(json["hits"][0]["path"].get<std::string>(), testing::EndsWith("/pictures/green.png"));
  EXPECT_NEAR(json["hits"][0]["score"].get<double>(), 1, 1e-5);
  EXPECT_TRUE(json["tokens"].is_null());
  EXPECT_EQ(json["hits"][0]["width"], 80);
  EXPECT_EQ(json["hits"][0]["format"], "png");
  // As an image of the collection it is no hit of its own.
  const std::string id = json["hits"][0]["id"].dump();
  const Json like = json_of(run({"search", "-c", "c", "--like", id, "--no-group-duplicates", "--json"}));
  ASSERT_EQ(like["hits"].size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(like["hits"][i]["id"], json["hits"][i + 1]["id"]);
  const Json changed =
      json_of(run({"search", "-c", "c", "--like", id, "--compose", "slerp", "red", "--json"}));
  EXPECT_EQ(changed["query"]["compose"]["method"], "slerp");
  EXPECT_EQ(changed["query"]["image"], json["hits"][0]["path"]);
  for (const Json& hit : changed["hits"]) EXPECT_NE(hit["path"], json["hits"][0]["path"]);
  expect_failure({"search", "-c", "c", "--like", "99"}, 1, {"99"});
  expect_failure({"search", "-c", "c", "--like", "0"}, 2, {"--like"});
  expect_failure({"search", "-c", "c", "--like", id, "--image", "pictures/green.png"}, 2, {"--image"});
  const Json reranked = json_of(
      run({"search", "-c", "c", "--like", id, "--rerank", "model", "--no-group-duplicates", "--json"}));
  EXPECT_EQ(reranked["rerank"]["reranked"], 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(reranked["hits"][i]["id"], like["hits"][i]["id"]);
  // The answer is the same for people, and with one thread.
  const Outcome text =
      run({"search", "-c", "c", "--image", "pictures/green.png", "--no-group-duplicates", "--threads", "1"});
  EXPECT_THAT(text.out, testing::StartsWith("   1  1.000  "));
  EXPECT_THAT(text.out, HasSubstr("/pictures/red.png  (a red card)\n"));
  EXPECT_EQ(json_of(run({"search", "-c", "c", "--image", "pictures/green.png", "--filter", "path~\"*/b*\"",
                         "--json"}))["searched"],
            2);
}

TEST_F(Cli, WordsNeedNoQuotesAndCutTextIsSaid) {
  make_collection();
  const Json joined = json_of(run({"search", "-c", "c", "two", "birds", "--json"}));
  EXPECT_EQ(joined["query"]["text"], "two birds");
  EXPECT_EQ(joined["tokens"]["used"], 8);
  EXPECT_EQ(joined["tokens"]["dropped"], 0);
  EXPECT_EQ(json_of(run({"search", "-c", "c", "two birds", "--json"})), joined);

  const Outcome cut = run({"search", "-c", "c", "abcdefghijklmnopqrstuvwxyz", "--json"});
  EXPECT_EQ(cut.code, 0);
  expect_one_line(cut);
  EXPECT_THAT(cut.err, HasSubstr("first 14 tokens read, the other 12 dropped"));
  EXPECT_EQ(json_of(cut)["tokens"]["dropped"], 12);

  const Json both = json_of(run({"search", "-c", "c", "--image", "pictures/red.png", "red", "--json"}));
  EXPECT_EQ(both["query"]["text"], "red");
  EXPECT_EQ(both["tokens"]["used"], 3);
}

TEST_F(Cli, ThePageStandsAlone) {
  make_collection();
  const Outcome outcome = run(
      {"search", "-c", "c", "--image", "pictures/red.png", "--no-group-duplicates", "--html", "page.html"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto page = read_file(folder_ / "page.html");
  ASSERT_TRUE(page.has_value());
  EXPECT_THAT(*page, HasSubstr("src=\"data:image/"));
  EXPECT_THAT(*page, HasSubstr("a red card"));
  EXPECT_THAT(*page, Not(HasSubstr("http://")));
  EXPECT_THAT(*page, Not(HasSubstr("https://")));
}

TEST_F(Cli, RerankReadsThePicturesAgain) {
  make_collection();
  const std::vector<std::string> search = {
      "search", "-c",       "c",    "--image", "pictures/red.png", "--no-group-duplicates",
      "--json", "--rerank", "model"};
  const Outcome outcome = run(search);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = json_of(outcome);
  EXPECT_EQ(json["rerank"]["method"], "cosine");
  EXPECT_EQ(json["rerank"]["checkpoint"], "model");
  EXPECT_EQ(json["rerank"]["reranked"], 4);
  // The same encoder gives the same order and the same scores.
  ASSERT_EQ(json["hits"].size(), 4U);
  for (const Json& hit : json["hits"]) {
    EXPECT_EQ(hit["rank"], hit["retrieval"]["rank"]);
    EXPECT_NEAR(hit["score"].get<double>(), hit["retrieval"]["score"].get<double>(), 1e-5);
  }
  std::filesystem::remove(folder_ / "pictures/red.png");
  const Outcome gone = run({"search", "-c", "c", "red", "--no-group-duplicates", "--rerank", "model"});
  EXPECT_EQ(gone.code, 0);
  EXPECT_THAT(gone.err, HasSubstr("1 of 4 images could not be re-ranked: 1 gone, 0 changed"));
  EXPECT_THAT(gone.out, HasSubstr("the best 3 of 4 re-ranked by model (cosine)"));
}

// BLIP-2's matching head reranks the hits of CLIP. Its golden has random weights, so the test only shows that
// scores change.
TEST_F(Cli, RerankByAMatchingHead) {
  make_collection();
  std::filesystem::copy(golden("blip2-itm"), folder_ / "blip2");
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) words += fmt::format("{0}\n##{0}\n", letter);
  for (int unused = 56; unused < 200; ++unused) words += fmt::format("[unused{}]\n", unused);
  write("blip2/vocab.txt", words);
  write("blip2/tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  const Outcome outcome =
      run({"search", "-c", "c", "red bird", "--no-group-duplicates", "--json", "--rerank", "blip2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = json_of(outcome);
  EXPECT_EQ(json["rerank"]["method"], "match");
  EXPECT_EQ(json["rerank"]["reranked"], 4);
  EXPECT_EQ(json["rerank"]["tokens"]["used"], 7);  // letters
  ASSERT_EQ(json["hits"].size(), 4U);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_GE(json["hits"][i - 1]["score"].get<double>(), json["hits"][i]["score"].get<double>());
  }
  // Another text gives another score.
  const Json other =
      json_of(run({"search", "-c", "c", "a zebu", "--no-group-duplicates", "--json", "--rerank", "blip2"}));
  EXPECT_NE(other["hits"][0]["score"], json["hits"][0]["score"]);
}

TEST_F(Cli, CollectionCommands) {
  make_collection();
  EXPECT_EQ(json_of(run({"collection", "verify", "-c", "c", "--deep", "--json"}))["ok"], true);
  const Outcome removed = run({"collection", "remove", "-c", "c", "pictures/red.png", "--json"});
  EXPECT_EQ(json_of(removed)["removed"], 1);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "pictures/red.png"));
  EXPECT_EQ(json_of(run({"collection", "info", "-c", "c", "--json"}))["dead_rows"], 1);
  EXPECT_EQ(json_of(run({"collection", "compact", "-c", "c", "--json"}))["dropped_rows"], 1);
  EXPECT_EQ(json_of(run({"collection", "info", "-c", "c", "--json"}))["rows"], 3);
  EXPECT_EQ(run({"collection", "verify", "-c", "c"}).code, 0);
  EXPECT_EQ(json_of(run({"collection", "remove", "-c", "c", "--filter", "format=png", "--json"}))["removed"],
            3);
}

TEST_F(Cli, RemoveTakesIds) {
  make_collection();
  const Json hits = json_of(run({"search", "-c", "c", "x", "--no-group-duplicates", "--json"}))["hits"];
  ASSERT_EQ(hits.size(), 4U);
  const std::vector<std::string> ids = {hits[1]["id"].dump(), hits[3]["id"].dump(), "999999"};
  const std::vector<std::string> twice = {"collection", "remove", "-c",   "c",    "--id",
                                          ids[0],       ids[1],   ids[2], ids[0], "--json"};
  const Outcome some = run(twice);
  EXPECT_EQ(some.code, 3);
  EXPECT_EQ(some.err, "saccade: warning: 1 of 3 ids are not in the collection\n");
  EXPECT_EQ(json_of(some)["removed"], 2);
  const Json left = json_of(run({"search", "-c", "c", "x", "--no-group-duplicates", "--json"}))["hits"];
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0]["id"], hits[0]["id"]);
  EXPECT_EQ(left[1]["id"], hits[2]["id"]);
  EXPECT_EQ(json_of(run({"collection", "remove", "-c", "c", "--id", ids[0], "--json"}))["removed"], 0);
}

TEST_F(Cli, EmbedWritesRowsForOtherTools) {
  make_collection();
  write("texts.txt", "a red card\nblue\r\n\nlast");
  ASSERT_EQ(run({"embed", "--texts", "texts.txt", "-m", "model", "-o", "t.safetensors"}).code, 0);
  const auto texts = SafeTensors::open(folder_ / "t.safetensors");
  ASSERT_TRUE(texts.has_value());
  EXPECT_THAT(texts->find("rows")->shape, testing::ElementsAre(4, 24));
  EXPECT_EQ(texts->metadata().at("names"), R"(["a red card","blue","","last"])");
  // A pipe, as of <(command), and a file of an editor that begins with a byte order mark.
  ASSERT_EQ(run({"embed", "--texts", "/dev/stdin", "-m", "model", "-o", "p.npy"}, {.input = "\xEF\xBB\xBF"
                                                                                            "blue\n"})
                .code,
            0);
  EXPECT_EQ((*read_json(folder_ / "p.npy.json"))["names"], Json::array({"blue"}));

  write("pictures/broken.png", "not a picture");
  const Outcome images = run({"embed", "--images", "pictures", "-m", "model", "-o", "i.npy", "--json"});
  EXPECT_EQ(images.code, 3);
  expect_one_line(images);
  EXPECT_EQ(json_of(images)["rows"], 4);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "i.npy"), 128U + 4U * 24U * 4U);
  const auto names = read_json(folder_ / "i.npy.json");
  ASSERT_TRUE(names.has_value());
  EXPECT_EQ((*names)["names"].size(), 4U);
}

// A collection's precision is fixed at its creation, for added images and for queries.
TEST_F(Cli, PrecisionOfACollection) {
  make_collection();
  const Outcome made = run({"index", "pictures", "-c", "d", "-m", "model", "--precision", "int8"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err,
              testing::ContainsRegex("int8: cosines of the first images' rows to fp32's: mean 0\\.99[0-9]+, "
                                     "1st percentile 0\\.[0-9]+, worst 0\\.[0-9]+ \\([0-9]+ images\\)"));
  EXPECT_EQ(json_of(run({"collection", "info", "-c", "d", "--json"}))["settings"]["precision"], "int8");
  // The precision's cost is measured for a new collection alone.
  picture("pictures/another.png", 90, 90, 5);
  const Outcome again = run({"index", "pictures", "-c", "d", "-m", "model"});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.err, testing::Not(testing::HasSubstr("cosines")));
  expect_failure({"index", "pictures", "-c", "d", "-m", "model", "--precision", "fp32"}, 1,
                 {"its embeddings are in int8, the encoder computes in fp32"});
  EXPECT_EQ(
      run({"index", "pictures", "-c", "d", "-m", "model", "--precision", "fp32", "--mix-precisions"}).code,
      0);
  EXPECT_EQ(run({"search", "-c", "d", "-m", "model", "a cat"}).code, 0);
  EXPECT_EQ(run({"search", "-c", "d", "-m", "model", "--precision", "fp32", "a cat"}).code, 0);
}

TEST_F(Cli, PrecisionAutoSaysWhatItTook) {
  make_collection();
  const Outcome made = run({"index", "pictures", "-c", "d", "-m", "model", "--precision", "auto"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, testing::ContainsRegex(
                            "precision (fp32|bf16|int8): milliseconds here for 4 images and 4 texts: "));
  const Json info = json_of(run({"collection", "info", "-c", "d", "--json"}));
  EXPECT_THAT(made.err, HasSubstr("precision " + info["settings"]["precision"].get<std::string>()));
}

TEST_F(Cli, ModelShowHasAReceiptInFewerBits) {
  EXPECT_TRUE(json_of(run({"model", "show", "model", "--json"}))["receipt"].is_null());
  const Json receipt = json_of(run({"model", "show", "model", "--precision", "int8", "--json"}))["receipt"];
  EXPECT_EQ(receipt["precision"], "int8");
  EXPECT_EQ(receipt["images"]["rows"], 32);
  EXPECT_GT(receipt["images"]["mean"], 0.99);
  EXPECT_TRUE(receipt["kept"].is_boolean());
  EXPECT_EQ(receipt["wide_layers"]["count"], 0);
  EXPECT_THAT(run({"model", "show", "model", "--precision", "int8"}).out,
              HasSubstr("cosines to fp32's rows: mean 0.99"));
}

TEST_F(Cli, ModelShowAndConform) {
  const Json shown = json_of(run({"model", "show", "model", "--json"}));
  EXPECT_EQ(shown["family"], "clip");
  EXPECT_EQ(shown["dim"], 24);
  const Outcome conforms = run({"model", "conform", "model"});
  EXPECT_EQ(conforms.code, 0) << conforms.out;
  EXPECT_THAT(conforms.out, HasSubstr("model: conforms to its reference"));
  const Outcome fails = run({"model", "conform", "model", "--tolerance", "1e-12"});
  EXPECT_EQ(fails.code, 1);
  EXPECT_THAT(fails.out, HasSubstr("FAILED"));
  EXPECT_EQ(run({"model", "conform", "model", "--tolerance", "0"}).code, 1);  // only equal bits pass

  // In bf16 embeddings are compared by direction and length, without a tolerance, and none is printed.
  const Outcome half = run({"model", "conform", "model", "--precision", "bf16"});
  EXPECT_EQ(half.code, 0) << half.out;
  EXPECT_THAT(half.out, testing::ContainsRegex("image_embeds .*  direction  ok\n"));
  EXPECT_THAT(half.out, testing::ContainsRegex("logits_per_image .* [0-9.]+e[-+][0-9]+  ok\n"));
  EXPECT_THAT(half.out, HasSubstr("direction: a row's cosine must be 0.999 or more, its length within 1%\n"));
  const Json judged = json_of(run({"model", "conform", "model", "--precision", "bf16", "--json"}));
  for (const Json& answer : judged["answers"]) {
    const bool similarities = answer["name"].get<std::string>().starts_with("logits");
    EXPECT_EQ(answer["tolerance"].is_null(), !similarities) << answer["name"];
  }
}

TEST_F(Cli, EveryReferenceConforms) {
  for (const char* name :
       {"clip-gelu", "clip-quickgelu", "long-clip", "open_clip-gelu", "open_clip-quickgelu"}) {
    SCOPED_TRACE(name);
    const Outcome outcome = run({"model", "conform", golden(name).string(), "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    const Json json = json_of(outcome);
    EXPECT_EQ(json["checkpoint"], golden(name).string());
    EXPECT_EQ(json["precision"], "fp32");
    EXPECT_EQ(json["ok"], true);
    ASSERT_GE(json["answers"].size(), 2U);
    for (const Json& answer : json["answers"]) {
      for (const char* key : {"name", "max_abs", "max_rel", "cosine", "norm_ratio", "tolerance", "ok"})
        EXPECT_TRUE(answer.contains(key)) << key;
      EXPECT_LT(answer["max_abs"].get<double>(), 1e-4) << answer["name"];
      EXPECT_EQ(answer["ok"], true) << answer["name"];
    }
  }
}

TEST_F(Cli, AnotherReferenceFileIsUsedAndFailsWhereItDiffers) {
  {
    const auto io = SafeTensors::open(folder_ / "model/io.safetensors");
    ASSERT_TRUE(io.has_value());
    std::vector<NamedTensor> tensors;
    std::vector<float> changed;
    for (const auto& [name, tensor] : io->tensors()) {
      tensors.push_back({name, tensor});
      if (name != "text_embeds") continue;
      changed = tensor.to_floats().value();
      changed.back() += 0.01F;
      tensors.back().tensor.bytes = std::as_bytes(std::span<const float>(changed));
    }
    ASSERT_TRUE(write_safetensors(folder_ / "changed.safetensors", tensors).has_value());
  }
  const Outcome fails = run({"model", "conform", "model", "--io", "changed.safetensors", "--json"});
  EXPECT_EQ(fails.code, 1);
  EXPECT_THAT(fails.err, IsEmpty());
  const Json json = json_of(fails);
  EXPECT_EQ(json["ok"], false);
  for (const Json& answer : json["answers"])
    EXPECT_EQ(answer["ok"], answer["name"] != "text_embeds") << answer["name"];

  std::filesystem::rename(folder_ / "model/io.safetensors", folder_ / "kept.safetensors");
  const Outcome bf16 =
      run({"model", "conform", "model", "--io", "kept.safetensors", "--precision", "bf16", "--json"});
  EXPECT_EQ(bf16.code, 0) << bf16.out << bf16.err;
  EXPECT_EQ(json_of(bf16)["precision"], "bf16");
}

TEST_F(Cli, DemoShowsSeveralSearches) {
  make_collection();
  const Outcome outcome = run({"demo", "pictures", "-c", "c", "-m", "model", "--html", "demo.html"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("two birds on a branch\n   1  "));
  const auto page = read_file(folder_ / "demo.html");
  ASSERT_TRUE(page.has_value());
  EXPECT_THAT(*page, HasSubstr("id=\"query-7\""));
  EXPECT_THAT(*page, Not(HasSubstr("starter checkpoint")));  // there is no note on a user's own checkpoint

  const Outcome starter = run({"demo", "pictures", "-c", "d", "--html", "starter.html"});
  EXPECT_EQ(starter.code, 0) << starter.err;
  EXPECT_THAT(starter.out,
              HasSubstr("two birds on a branch\nThe starter checkpoint cannot answer this: it knows"));
  // The demo calibrates match probabilities for its collection, or says why it cannot.
  EXPECT_TRUE(std::filesystem::exists(folder_ / "d/background.safetensors"));
  EXPECT_THAT(starter.out, HasSubstr("match probabilities are unknown: "));
  EXPECT_THAT(starter.out, HasSubstr("are too few to calibrate scores"));
  const auto about = read_file(folder_ / "starter.html");
  ASSERT_TRUE(about.has_value());
  EXPECT_THAT(*about, HasSubstr("<p>The starter checkpoint was made for icons, emoji, clip art and stamps"));
  EXPECT_THAT(*about, HasSubstr("The starter checkpoint cannot answer this"));
}

TEST_F(Cli, DemoSaysWhatFailedAndWhereThereWasNothing) {
  picture("some/good.png", 90, 90, 0);
  write("some/broken.png", "not a picture");
  const std::vector<std::string> demo = {"demo", "some", "-c", "c", "-m", "model", "--html", "demo.html"};
  const Outcome failed = run(demo);
  EXPECT_EQ(failed.code, 3) << failed.err;
  EXPECT_THAT(failed.out, HasSubstr("        1  failed:\n"));
  EXPECT_THAT(failed.out, HasSubstr((folder_ / "some/broken.png").string() + ": "));
  EXPECT_THAT(failed.out, HasSubstr("1 image in c\n"));
  const Outcome again = run(demo);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("        1  skipped: failed before"));

  std::filesystem::create_directory(folder_ / "empty");
  const Outcome nothing = run({"demo", "empty", "-c", "none", "-m", "model", "--html", "none.html"});
  EXPECT_EQ(nothing.code, 1);
  expect_one_line(nothing);
  EXPECT_THAT(nothing.err, HasSubstr("no images to search in empty: name a folder of images"));
  EXPECT_THAT(nothing.out, testing::EndsWith("0 images in none\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none.html"));
}

}  // namespace
}  // namespace saccade::test
