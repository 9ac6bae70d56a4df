// Tests of every command with missing, empty, truncated, foreign and hostile input, unwritable targets, wrong
// options, and no streams. Each gives one clear line and the right exit code, and leaves the collection
// unchanged.

#include <cstring>
#include <limits>
#include <unistd.h>

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
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;

class BadInput : public ProgramTest {};

// program_test checks that every numeric option refuses values that are not numbers in its range.
TEST_F(BadInput, WrongUseIsExitCode2) {
  expect_failure({"-q"}, 2, {"subcommand"});
  expect_failure({"fly"}, 2, {"fly"});
  write("red.png", "");
  expect_failure({"red.png"}, 2, {"no command named red.png, which is a path: a command comes before it"});
  expect_failure({"search", "red"}, 2, {"search is a command of the program saccade: saccade search"},
                 {.program = laboratory()});
  expect_failure({"search"}, 2, {"nothing to search for"});
  expect_failure({"search", "x"}, 2, {"no collection yet", "-c DIR"});
  expect_failure({"search", "-c", "c", "--nosuch", "x"}, 2, {"not expected here: --nosuch"});
  expect_failure({"search", "-c", "", "x"}, 2, {"--collection: the value is empty, expected DIR"});
  expect_failure({"search", "-c", "c", "--image", ""}, 2, {"--image: the value is empty"});
  expect_failure({"search", "-c", "c", "--k", "3", "x"}, 2, {"--k", "did you mean -k?"});
  expect_failure({"search", "-c", "c", "-k", "3", "-k", "4", "x"}, 2, {"-k: given 2 times, expected once"});
  expect_failure({"model", "lst"}, 2,
                 {"no command named lst; did you mean list? (see saccade model --help)"});
  expect_failure({"embed", "--thread", "2", "-o", "x.npy"}, 2,
                 {"not expected here: --thread 2; did you mean --threads?"});
  expect_failure({"search", "-c", "c", "x", "--order", "dat"}, 2,
                 {"--order: dat not in {score,date}; did you mean date?"});
  // Earlier names of values are accepted, and not listed.
  expect_failure({"collection", "duplicates", "-c", "c", "--min-likeness", "pixels"}, 2,
                 {"--min-likeness: pixels not in {bytes,image,burst} (see"});
  expect_failure({"version"}, 2, {"no command named version; did you mean --version?"});
  expect_failure({"embed", "--output-file", "x.npy"}, 2, {"not expected here: --output-file x.npy"});
  expect_failure({"search", "-c", "c", "-k", "99999999999999999999", "x"}, 2, {"-k", "99999999999999999999"});
  expect_failure({"search", "-c", "c", "-k", "-3", "x"}, 2, {"-k", "-3", "1 or more"});
  expect_failure({"search", "-c", "c", " \n\t "}, 2, {"nothing to search for"});
  for (const char* signs : {"--", "\"\""})
    expect_failure({"search", "-c", "c", "--", signs}, 2, {"nothing to search for", signs, "no words"});
  expect_failure({"search", "-c", "c", "--filter", "width>", "x"}, 2, {"--filter"});
  expect_failure({"search", "-c", "c", "--precision", "fp8", "x"}, 2, {"fp8"});
  expect_failure({"index", "-c", "c"}, 2, {"PATH"});
  expect_failure({"index", "-", "-c", "c"}, 2, {"file list", "empty"}, {.input = "\n\n"});
  expect_failure({"index", "--files-from", "-", "-c", "c"}, 2, {"file list", "empty"}, {.input = ""});
  expect_failure({"watch", "--files-from", "list", "-c", "c"}, 2, {"watch follows folders", "--files-from"});
  expect_failure({"-q", "collection"}, 2, {"subcommand"});
  expect_failure({"collection", "remove", "-c", "c"}, 2, {"nothing to remove"});
  for (const char* recall : {"0", "1"}) {
    expect_failure({"collection", "ann", "-c", "c", "--recall", recall}, 2,
                   {"--recall", "above 0 to below 1"});
  }
  expect_failure({"embed", "--texts", "t", "--images", "i", "-o", "x.npy"}, 2, {"--images or --texts"});
  expect_failure({"embed", "--texts", "t", "-o", "x.txt"}, 2, {"x.txt", ".safetensors or .npy"});
  expect_failure({"model", "conform"}, 2, {"CHECKPOINT"});
}

// A command alone that needs a subcommand prints its help.
TEST_F(BadInput, CommandsAloneGiveTheirHelp) {
  for (const std::vector<std::string>& words :
       std::initializer_list<std::vector<std::string>>{{}, {"model"}, {"collection"}, {"eval"}}) {
    std::vector<std::string> asked = words;
    asked.emplace_back("--help");
    const Outcome alone = run(words);
    EXPECT_EQ(alone.code, 0);
    EXPECT_THAT(alone.out, HasSubstr("Usage: "));
    EXPECT_EQ(alone.out, run(asked).out);
    EXPECT_THAT(alone.err, IsEmpty());
  }
}

// Broken weights give embeddings that are not finite: an answer would be empty, and a file of embeddings
// useless.
TEST_F(BadInput, RowsThatAreNoNumbersAreAnError) {
  const fs::path weights = folder_ / "model/model.safetensors";
  const auto spoil = [&](const std::string& name) {
    std::string bytes = read_file(weights).value();
    {
      const auto file = SafeTensors::open(weights);
      ASSERT_TRUE(file.has_value());
      const auto tensor = file->find(name);
      ASSERT_TRUE(tensor);
      // The tensor's offset in the file: its content occurs nowhere else.
      const std::string content(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
      const size_t at = bytes.find(content);
      ASSERT_NE(at, std::string::npos);
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(bytes.data() + at, &nan, sizeof(nan));
    }
    write("model/model.safetensors", bytes);
  };
  spoil("text_projection.weight");
  make_collection();
  expect_failure({"search", "-c", "c", "red"}, 1, {"text 1 of 1", "NaN", "damaged"});
  write("texts.txt", "a\nb\n");
  expect_failure({"embed", "--texts", "texts.txt", "-m", "model", "-o", "t.npy"}, 1,
                 {"texts.txt: lines 1 to 2", "text 1 of 2", "NaN"});
  EXPECT_FALSE(fs::exists(folder_ / "t.npy"));
  EXPECT_FALSE(fs::exists(folder_ / "t.npy.json"));

  spoil("visual_projection.weight");
  expect_failure({"embed", "--images", "pictures", "-m", "model", "-o", "i.npy"}, 1, {"image 1 of 4", "NaN"});
  EXPECT_FALSE(fs::exists(folder_ / "i.npy"));
  const Outcome indexed = run({"index", "pictures", "-c", "other", "-m", "model"});
  EXPECT_EQ(indexed.code, 1);
  EXPECT_THAT(indexed.err, HasSubstr("image 1 of 4"));
}

// Output to a target that is not a regular file goes there, and the target keeps its type.
TEST_F(BadInput, OutputsMayBeDevicesPipesAndLinks) {
  make_collection();
  const Outcome page = run({"search", "-c", "c", "red", "--html", "/dev/stdout"});
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_THAT(page.out, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page.out, HasSubstr("</html>\n   1  "));  // the answer behind the page
  // With a shell's redirection to a file, both are in it.
  write("out.html", "");
  const Outcome redirected = run({"search", "-c", "c", "red", "--html", "/dev/stdout"},
                                 {.output_file = (folder_ / "out.html").string()});
  EXPECT_EQ(redirected.code, 0) << redirected.err;
  EXPECT_EQ(read_file(folder_ / "out.html").value(), page.out);
  EXPECT_THAT(run({"search", "-c", "c", "red", "--html", "/dev/stderr"}).err, HasSubstr("</html>\n"));
  EXPECT_EQ(run({"search", "-c", "c", "red", "--html", "/dev/null"}).code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));

  write("texts.txt", "a\nb\n");
  fs::create_directory(folder_ / "elsewhere");
  fs::create_symlink("elsewhere/rows.npy", folder_ / "rows.npy");
  ASSERT_EQ(run({"embed", "--texts", "texts.txt", "-m", "model", "-o", "rows.npy"}).code, 0);
  EXPECT_TRUE(fs::is_symlink(folder_ / "rows.npy"));
  EXPECT_EQ(fs::file_size(folder_ / "elsewhere/rows.npy"), 128U + 2U * 24U * 4U);
}

// Options that an encoder with one embedding per image does not have.
TEST_F(BadInput, OptionsOfLateInteractionAreRefusedByName) {
  picture("pictures/red.png", 220, 10, 10);
  expect_failure({"index", "pictures", "-c", "new", "-m", "model", "--rows-precision", "int8"}, 1,
                 {"--rows-precision", "one row an image"});
  expect_failure({"index", "pictures", "-c", "new", "-m", "model", "--pool-rows", "4"}, 1, {"--pool-rows"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
  expect_failure({"index", "pictures", "-c", "new", "--pool-rows", "65"}, 2, {"--pool-rows"});
  make_collection();
  write("away.jsonl", R"({"image": "away/x.png", "caption": "of a picture that is not in this folder"})");
  const Outcome away = run({"index", "pictures", "-c", "c", "--captions", "away.jsonl"});
  EXPECT_EQ(away.code, 0) << away.err;
  EXPECT_THAT(away.err,
              HasSubstr("--captions away.jsonl: its captions are for 1 image, none of which is among the"));
  const std::string before = snapshot("c");
  expect_failure({"index", "pictures", "-c", "c", "--rows-precision", "fp16"}, 2,
                 {"--rows-precision", "the collection has one embedding an image"});
  expect_failure({"search", "-c", "c", "red", "--explain-by", "chefer"}, 2, {"--explain-by", "--explain"});
  expect_failure({"search", "-c", "c", "red", "--explain", "--explain-by", "gradcam"}, 2,
                 {"--explain-by", "gradcam"});
  expect_failure({"search", "-c", "c", "red", "--rerank", "model", "--rerank-by", "match"}, 1,
                 {"match: the checkpoint has no matching head"});
  expect_failure({"search", "-c", "c", "red", "--rerank", "nowhere"}, 1, {"--rerank", "nowhere"});
  expect_failure({"search", "-c", "c", "red", "--rerank-depth", "5"}, 2, {"--rerank"});
  EXPECT_EQ(snapshot("c"), before);
}

TEST_F(BadInput, WhatIsMissingIsNamed) {
  picture("pictures/red.png", 200, 0, 0);
  expect_failure({"search", "-c", "nowhere", "x"}, 1, {"nowhere"});
  for (const char* part : {"info", "verify"})
    expect_failure({"collection", part, "-c", "nowhere"}, 1, {"nowhere"});
  expect_failure({"collection", "remove", "-c", "nowhere", "x"}, 1, {"nowhere"});
  expect_failure({"index", "pictures", "-c", "c", "-m", "nomodel"}, 1, {"nomodel"});
  expect_failure({"index", "nopictures", "-c", "c", "-m", "model"}, 1,
                 {"index: " + (folder_ / "nopictures").string() + ": no such file or folder"});
  expect_failure({"index", "-", "-c", "c", "-m", "model"}, 1, {"nopictures"},
                 {.input = "nopictures\nnoneither\n"});
  expect_failure({"index", "--files-from", "nolist", "-c", "c", "-m", "model"}, 1, {"file list", "nolist"});
  expect_failure({"embed", "--images", "nopictures", "-m", "model", "-o", "x.npy"}, 1, {"nopictures"});
  expect_failure({"embed", "--texts", "notexts", "-m", "model", "-o", "x.npy"}, 1, {"notexts"});
  expect_failure({"embed", "--images", "pictures", "-m", "model", "-o", "no/x.npy"}, 1, {"no/x.npy"});
  expect_failure({"model", "show", "nomodel"}, 1,
                 {"checkpoint nomodel: no folder and no alias of this name"});
  expect_failure({"model", "show", "strater"}, 1, {"; did you mean starter?"});
  expect_failure({"model", "conform", "model", "--io", "noio"}, 1, {"noio"});
  expect_failure({"index", "pictures", "-c", "c", "-m", "model", "--captions", "nolist"}, 1, {"nolist"});
  expect_failure({"demo", "nosample"}, 1, {"nosample"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "c"));  // no collection for a path that was mistyped
  EXPECT_FALSE(std::filesystem::exists(folder_ / "saccade-demo"));

  make_collection();
  const std::string before = snapshot("c");
  expect_failure({"index", "nopictures", "-c", "c"}, 1, {"/nopictures: no such file or folder"});
  expect_failure({"index", "nopictures", "-c", "c", "--prune"}, 1, {"/nopictures: no such file or folder"});
  EXPECT_EQ(snapshot("c"), before);
  // If there are several, those that exist are used.
  const Outcome partly = run({"index", "nopictures", "pictures", "-c", "new", "-m", "model", "--json"});
  EXPECT_EQ(partly.code, 3) << partly.err;
  const auto json = parse_json(partly.out);
  ASSERT_TRUE(json.has_value()) << partly.out;
  EXPECT_EQ((*json)["added"], 4);
  ASSERT_EQ((*json)["failed"].size(), 1U);
  EXPECT_EQ((*json)["failed"][0]["path"], (folder_ / "nopictures").string());
}

TEST_F(BadInput, EmptyFilesAndFoldersAreNamed) {
  std::filesystem::create_directory(folder_ / "empty");
  const auto reference = read_file(folder_ / "model/io.safetensors");
  ASSERT_TRUE(reference.has_value());
  write("none.safetensors", "");
  write("cut.safetensors", std::string_view(*reference).substr(0, reference->size() / 2));
  write("foreign.safetensors", "%PDF-1.7 not a tensor in it");
  for (const char* file : {"none.safetensors", "cut.safetensors", "foreign.safetensors", "empty"})
    expect_failure({"model", "conform", "model", "--io", file}, 1, {file});
  write("none.txt", "");
  expect_failure({"embed", "--texts", "none.txt", "-m", "model", "-o", "x.npy"}, 1, {"none.txt is empty"});
  expect_failure({"embed", "--texts", "empty", "-m", "model", "-o", "x.npy"}, 1,
                 {"empty: a folder, not a file"});
  write("texts.png", std::string("\x89PNG\n\0", 6));
  expect_failure({"embed", "--texts", "texts.png", "-m", "model", "-o", "x.npy"}, 1,
                 {"texts.png: byte 5 is NUL", "expected lines of UTF-8"});
  expect_failure({"embed", "--images", "empty", "-m", "model", "-o", "x.npy"}, 1, {"no images in empty"});
  for (const char* file : {"x.npy", "x.npy.json"}) EXPECT_FALSE(std::filesystem::exists(folder_ / file));

  // An empty folder is a warning, and the resulting collection is searched like any other.
  const Outcome indexed = run({"index", "empty", "-c", "c", "-m", "model"});
  EXPECT_EQ(indexed.code, 0);
  expect_one_line(indexed);
  EXPECT_THAT(indexed.err, HasSubstr("no images in empty"));
  expect_failure({"search", "-c", "c", "x"}, 4, {"no images in the collection"});
  expect_failure({"search", "-c", "c", "x", "--filter", "width>1"}, 4, {"no image passes the filter"});
  const Outcome answer = run({"search", "-c", "c", "x", "--json", "--html", "page.html"});
  EXPECT_EQ(answer.code, 4) << answer.err;
  const auto json = parse_json(answer.out);
  ASSERT_TRUE(json.has_value()) << answer.out;
  EXPECT_EQ((*json)["searched"], 0);
  EXPECT_EQ((*json)["hits"], Json::array());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "page.html"));
  EXPECT_EQ(run({"collection", "verify", "-c", "c", "--deep"}).code, 0);
  EXPECT_EQ(run({"collection", "compact", "-c", "c"}).code, 0);
}

TEST_F(BadInput, AFolderThatIsNoCollectionIsLeftAlone) {
  picture("pictures/red.png", 200, 0, 0);
  write("home/letter.txt", "dear");
  const std::string before = snapshot("home");
  EXPECT_NE(run({"index", "pictures", "-c", "home", "-m", "model"}).code, 0);
  expect_failure({"search", "-c", "home", "x"}, 1, {"home"});
  expect_failure({"collection", "compact", "-c", "home"}, 1, {"home"});
  EXPECT_EQ(snapshot("home"), before);
  // A file in place of a folder.
  expect_failure({"search", "-c", "home/letter.txt", "x"}, 1, {"home/letter.txt"});
}

TEST_F(BadInput, BrokenPicturesAreListedAndTheRestIsTaken) {
  make_collection();
  const auto whole = read_file(folder_ / "pictures/red.png");
  ASSERT_TRUE(whole.has_value());
  write("bad/empty.png", "");
  write("bad/foreign.jpg", "%PDF-1.7 not a picture");
  write("bad/truncated.png", std::string_view(*whole).substr(0, whole->size() / 2));
  write("bad/line\nbreak.png", "x");
  // A header that declares 4 billion pixels per side, and an SVG that requests a million.
  std::string huge = whole->substr(0, 33);
  for (const size_t at : {16U, 17U, 18U, 19U, 20U, 21U, 22U, 23U}) huge[at] = '\x7f';
  write("bad/huge.png", huge);
  write(
      "bad/wide.svg",
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="1000000" height="1"><rect width="9" height="1"/></svg>)");
  picture("bad/good.png", 90, 90, 0);
  const Outcome outcome = run({"index", "bad", "-c", "c", "--json", "--max-pixels", "1000000"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  const auto json = parse_json(outcome.out);
  ASSERT_TRUE(json.has_value()) << outcome.out;
  EXPECT_EQ((*json)["added"], 1);
  EXPECT_EQ((*json)["failed"].size(), 6U) << outcome.out;
  for (const Json& failure : (*json)["failed"])
    EXPECT_THAT(failure["reason"].get<std::string>(), testing::Not(IsEmpty()));
  // Failures are stored and not tried again, and the same file name cannot break the list's lines.
  const Outcome again = run({"index", "bad", "-c", "c"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("6  skipped: failed before"));
  const Outcome listed = run({"collection", "info", "-c", "c", "--failures"});
  EXPECT_THAT(listed.out, HasSubstr("/line\\x0abreak.png: "));
  EXPECT_THAT(listed.out, HasSubstr("pixels are more than --max-pixels (1000000)"));
  const std::string before = snapshot("c");
  expect_failure({"search", "-c", "c", "--image", "bad/empty.png"}, 1,
                 {"saccade: image: bad/empty.png: empty file"});
  expect_failure({"search", "-c", "c", "--image", "bad/huge.png"}, 1, {"bad/huge.png"});
  expect_failure({"search", "-c", "c", "--image", "bad/good.png", "--max-pixels", "5599"}, 1,
                 {"80 x 70 pixels are more than --max-pixels (5599)"});
  EXPECT_EQ(run({"search", "-c", "c", "--image", "bad/good.png", "--max-pixels", "5600"}).code, 0);
  expect_failure({"search", "-c", "c", "--image", "bad"}, 1, {"bad"});
  expect_failure({"embed", "--images", "bad/empty.png", "-m", "model", "-o", "x.npy"}, 1,
                 {"none of 1 image could be read, the first: bad/empty.png: empty file; nothing written"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.npy"));
  EXPECT_EQ(snapshot("c"), before);
}

// Tests every damage once and every command twice. The loader's own tests cover what it refuses.
TEST_F(BadInput, BrokenCheckpointsAreRefused) {
  make_collection();
  picture("more/new.png", 12, 34, 56);  // without new files no checkpoint is read
  const std::string before = snapshot("c");
  const auto weights = read_file(folder_ / "model/model.safetensors");
  const auto config = read_file(folder_ / "model/config.json");
  ASSERT_TRUE(weights.has_value() && config.has_value());
  const std::vector<std::vector<std::string>> commands = {
      {"index", "more", "-c", "c"},
      {"search", "-c", "c", "x"},
      {"model", "show", "model"},
      {"model", "conform", "model"},
      {"embed", "--images", "pictures", "-m", "model", "-o", "x.npy"}};
  std::string hostile = *weights;
  hostile.replace(0, 8, "\xff\xff\xff\xff\xff\xff\xff\x7f");  // a header of 2^63 bytes
  const std::vector<std::string> damaged_weights = {"", weights->substr(0, 7),
                                                    weights->substr(0, weights->size() / 2),
                                                    weights->substr(0, weights->size() - 1), hostile};
  const std::vector<std::string> damaged_config = {"", "{", "[]", "\x89PNG", R"({"model_type": "resnet"})"};
  for (size_t i = 0; i < commands.size(); ++i) {
    write("model/model.safetensors", damaged_weights[i]);
    expect_failure(commands[i], 1, {"model.safetensors"});
  }
  write("model/model.safetensors", *weights);
  for (size_t i = 0; i < commands.size(); ++i) {
    write("model/config.json", damaged_config[i]);
    expect_failure(commands[i], 1, {"config.json"});
  }
  write("model/config.json", *config);
  EXPECT_EQ(snapshot("c"), before);
  EXPECT_EQ(run({"search", "-c", "c", "x"}).code, 0);
}

TEST_F(BadInput, AnotherCheckpointIsRefusedWithBothNames) {
  make_collection();
  const std::string before = snapshot("c");
  std::filesystem::copy(folder_ / "model", folder_ / "other");
  write("other/preprocessor_config.json",
        R"({"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "size": {"shortest_edge": 64}})");
  expect_failure({"search", "-c", "c", "-m", "other", "x"}, 1, {"model", "other"});
  expect_failure({"index", "pictures", "-c", "c", "-m", "other"}, 1, {"model", "other"});
  std::filesystem::remove_all(folder_ / "model");
  expect_failure({"search", "-c", "c", "x"}, 1, {"model", "-m"});
  EXPECT_EQ(snapshot("c"), before);
}

TEST_F(BadInput, DamagedCollectionsAreRefused) {
  make_collection();
  std::filesystem::rename(folder_ / "c", folder_ / "sound");
  // Damages a file of a valid collection, and expects every error to name the fault and change nothing.
  const auto expect_refused = [&](const std::string& file, std::string_view content,
                                  const std::vector<std::vector<std::string>>& commands,
                                  const std::string& part) {
    std::filesystem::remove_all(folder_ / "c");
    std::filesystem::copy(folder_ / "sound", folder_ / "c");
    write("c/" + file, content);
    const std::string before = snapshot("c");
    for (const auto& command : commands) expect_failure(command, 1, {part});
    EXPECT_EQ(snapshot("c"), before) << file << ": " << content;
  };
  const std::vector<std::vector<std::string>> commands = {{"search", "-c", "c", "x"},
                                                          {"index", "pictures", "-c", "c", "-m", "model"},
                                                          {"collection", "info", "-c", "c"},
                                                          {"collection", "compact", "-c", "c"}};
  const std::vector<std::string> damaged = {"", "{", "null", R"({"format_version": 99})"};
  for (size_t i = 0; i < commands.size(); ++i) {
    expect_refused("collection.json", damaged[i], {commands[i], {"collection", "verify", "-c", "c"}},
                   "c/collection.json: ");
  }
  expect_refused("catalog.sqlite", "not a database, but long enough to look like a file of some kind",
                 commands, "catalog");
  expect_refused("catalog.sqlite", "SQLite format 3", {commands[0]}, "catalog");
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "sound")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("rows-")) continue;
    expect_refused(name, "short", commands, "c/" + name + ": ");
    EXPECT_EQ(run({"collection", "verify", "-c", "c"}).code, 1);
  }
}

TEST_F(BadInput, TargetsThatCannotBeWritten) {
  make_collection();
  const std::string before = snapshot("c");
  const RunOptions full{.output_file = "/dev/full"};
  expect_failure({"--help"}, 1, {"standard output", "No space left"}, full);
  expect_failure({"--version"}, 1, {"standard output"}, full);
  expect_failure({"collection", "info", "-c", "c"}, 1, {"standard output"}, full);
  expect_failure({"search", "-c", "c", "x", "--json"}, 1, {"standard output"}, full);
  expect_failure({"search", "-c", "c", "x", "--html", "no/page.html"}, 1, {"no/page.html"});
  expect_failure({"search", "-c", "c", "x", "--html", "pictures"}, 1, {"pictures"});
  expect_failure({"search", "-c", "c", "x", "--html", "-"}, 2, {"page: -:", "/dev/stdout"});
  EXPECT_EQ(snapshot("c"), before);

  // Simulates a full disk.
  for (int i = 0; i < 40; ++i) picture("more/" + std::to_string(i) + ".png", 5 * i, 6 * i, 99);
  const Outcome crowded = run({"index", "more", "-c", "c"}, {.max_file_bytes = 2'000});
  EXPECT_EQ(crowded.code, 1) << crowded.err;
  EXPECT_THAT(crowded.err, AnyOf(HasSubstr("File too large"), HasSubstr("I/O error")));
  EXPECT_EQ(run({"collection", "verify", "-c", "c", "--deep"}).code, 0);
  const auto info = parse_json(run({"collection", "info", "-c", "c", "--json"}).out);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ((*info)["items"], 4);
  EXPECT_EQ(run({"index", "more", "-c", "c"}).code, 0);
  // SQLite calls it a disk I/O error; the message has the system's reason.
  expect_failure({"collection", "info", "-c", "c"}, 1, {"catalog.sqlite", "File too large"},
                 {.max_file_bytes = 2'000});
  expect_failure({"embed", "--images", "more", "-m", "model", "-o", "x.npy"}, 1, {"x.npy"},
                 {.max_file_bytes = 500});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.npy"));
}

// Outputs of commands outside a collection: without space or permission, nothing is left half done.
TEST_F(BadInput, OutputsThatCannotBeWritten) {
  write("pictures/blue.txt", std::string(20'000, 'b'));  // on the page: SQLite too needs files of 32 KiB
  make_collection();
  write("set.jsonl",
        "{\"image\": \"pictures/red.png\", \"captions\": [\"red\"]}\n"
        "{\"image\": \"pictures/blue.png\", \"captions\": [\"blue\"]}\n");
  const std::vector<std::string> evaluate = {"eval",      "retrieval",  "-m",          "model", "--dataset",
                                             "set.jsonl", "--no-cache", "--resamples", "10",    "-o"};
  std::vector<std::string> first = evaluate;
  first.emplace_back("run");
  ASSERT_EQ(run(first).code, 0);
  struct Case {
    std::vector<std::string> words;  // the output's name goes behind them
    int64_t room;                    // limit on a file's bytes, below the size of the output
  };
  const std::vector<Case> cases = {{{"search", "-c", "c", "x", "--html"}, 40'000},
                                   {{"dataset", "convert", "set.jsonl", "-o"}, 50},
                                   {{"report", "run", "--no-charts", "-o"}, 4'000},
                                   {{"embed", "--images", "pictures", "-m", "model", "-o"}, 50},
                                   {evaluate, 50}};
  const std::string before = snapshot("c") + snapshot("run");
  std::filesystem::create_directory(folder_ / "locked");
  using std::filesystem::perms;
  std::filesystem::permissions(folder_ / "locked", perms::owner_read | perms::owner_exec);
  for (const Case& each : cases) {
    const bool rows = each.words[0] == "embed";
    std::vector<std::string> words = {"-q"};
    words.insert(words.end(), each.words.begin(), each.words.end());
    words.push_back(rows ? "locked/out.npy" : "locked/out");
    expect_failure(words, 1, {words.back(), "ermission denied"}, {.plain_rights = true});
    words.back() = rows ? "out.npy" : "out";
    expect_failure(words, 1, {words.back(), "File too large"}, {.max_file_bytes = each.room});
    EXPECT_FALSE(std::filesystem::exists(folder_ / words.back())) << words.back();
    EXPECT_EQ(run(words).code, 0);
    std::filesystem::remove_all(folder_ / words.back());
  }
  EXPECT_EQ(snapshot("c") + snapshot("run"), before);
}

TEST_F(BadInput, FoldersWithoutRights) {
  make_collection();
  const std::string before = snapshot("c");
  const RunOptions plain{.plain_rights = true};
  using std::filesystem::perm_options;
  using std::filesystem::permissions;
  using std::filesystem::perms;
  picture("more/new.png", 1, 2, 3);
  picture("more/secret/hidden.png", 4, 5, 6);
  permissions(folder_ / "c", perms::owner_write, perm_options::remove);
  // Searching needs no write access.
  EXPECT_EQ(run({"search", "-c", "c", "x"}, plain).code, 0);
  expect_failure({"index", "more", "-c", "c"}, 1, {"c/catalog.sqlite", "readonly"}, plain);
  expect_failure({"collection", "compact", "-c", "c"}, 1, {"c/catalog.sqlite", "readonly"}, plain);
  permissions(folder_ / "c", perms::owner_write, perm_options::add);
  EXPECT_EQ(snapshot("c"), before);
  expect_failure({"index", "more", "-c", "/proc/saccade", "-m", "model"}, 1, {"/proc/saccade"});
  const perms rights = std::filesystem::status(folder_ / "c").permissions();
  permissions(folder_ / "c", perms::none);
  for (const std::vector<std::string>& command :
       std::initializer_list<std::vector<std::string>>{{"search", "x"}, {"collection", "info"}}) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"-c", "c"});
    expect_failure(words, 1, {"c/collection.json: Permission denied"}, plain);
  }
  permissions(folder_ / "c", rights);

  permissions(folder_ / "more/secret", perms::none);
  const Outcome partly = run({"index", "more", "-c", "c", "--json"}, plain);
  permissions(folder_ / "more/secret", perms::owner_all);
  EXPECT_EQ(partly.code, 3) << partly.err;
  const auto json = parse_json(partly.out);
  ASSERT_TRUE(json.has_value()) << partly.out;
  EXPECT_EQ((*json)["added"], 1);
  ASSERT_EQ((*json)["failed"].size(), 1U) << partly.out;
  EXPECT_THAT((*json)["failed"][0]["path"].get<std::string>(), testing::EndsWith("/more/secret"));
  EXPECT_THAT((*json)["failed"][0]["reason"].get<std::string>(), HasSubstr("ermission denied"));
}

// A file without read permission may be readable later. It fails in every run, and is never skipped.
TEST_F(BadInput, AFileWithoutRightsIsTriedAtEveryRun) {
  make_collection();
  picture("more/closed.png", 1, 2, 3);
  const auto file = folder_ / "more/closed.png";
  std::filesystem::permissions(file, std::filesystem::perms::none);
  const std::vector<std::string> words = {"index", "more", "-c", "c", "--json"};
  for (int tries = 0; tries < 2; ++tries) {
    const Outcome refused = run(words, {.plain_rights = true});
    EXPECT_EQ(refused.code, 3) << refused.err;
    const auto json = parse_json(refused.out);
    ASSERT_TRUE(json.has_value()) << refused.out;
    EXPECT_EQ((*json)["skipped_failed"], 0);
    ASSERT_EQ((*json)["failed"].size(), 1U) << refused.out;
    EXPECT_THAT((*json)["failed"][0]["reason"].get<std::string>(), HasSubstr("ermission denied"));
  }
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  const Outcome allowed = run(words, {.plain_rights = true});
  EXPECT_EQ(allowed.code, 0) << allowed.err;
  EXPECT_THAT(allowed.out, HasSubstr("\"added\":1"));
}

// Options fixed at a collection's creation are refused by name if they differ, with both values.
TEST_F(BadInput, SettledOptionsAreRefusedOnAnExistingCollection) {
  make_collection();
  const std::string before = snapshot("c");
  expect_failure({"index", "pictures", "-c", "c", "--as-stored"}, 2,
                 {"--as-stored is on, the collection was made with off"});
  expect_failure({"index", "pictures", "-c", "c", "--exact-decode"}, 2,
                 {"--exact-decode is on, the collection was made with off"});
  expect_failure({"index", "pictures", "-c", "new", "--exact-decode", "--fast-decode"}, 2,
                 {"--exact-decode", "--fast-decode"});
  expect_failure({"index", "pictures", "-c", "c", "--background", "white"}, 2,
                 {"--background is white, the collection was made with by_contrast"});
  EXPECT_EQ(snapshot("c"), before);
  EXPECT_EQ(run({"index", "pictures", "-c", "c", "--background", "contrast", "--fast-decode"}).code, 0);
  const std::vector<std::string> other = {"index",       "pictures",      "-c",           "other",
                                          "-m",          "model",         "--background", "checkpoint",
                                          "--as-stored", "--exact-decode"};
  EXPECT_EQ(run(other).code, 0);
  EXPECT_EQ(run(other).code, 0);
  EXPECT_EQ(run({"index", "pictures", "-c", "other"}).code, 0);  // not asked: as it was made
  expect_failure({"index", "pictures", "-c", "other", "--fast-decode"}, 2,
                 {"--fast-decode is on, the collection was made with off"});
  expect_failure({"index", "pictures", "-c", "other", "--background", "contrast"}, 2,
                 {"--background is by_contrast, the collection was made with checkpoint"});
}

TEST_F(BadInput, AReaderThatIsGoneEndsItQuietly) {
  make_collection();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"--help"}, {"collection", "info", "-c", "c"}, {"search", "-c", "c", "x"}}) {
    const Outcome outcome = run(command, {.close_output = true});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, IsEmpty());
  }
}

TEST_F(BadInput, NoStandardStreamsDoNoHarm) {
  make_collection();
  picture("more/new.png", 1, 2, 3);
  // The report cannot be written, which is a failure, but no file of the collection is used as the terminal.
  EXPECT_EQ(run({"index", "more", "-c", "c"}, {.without_streams = true}).code, 1);
  EXPECT_EQ(run({"collection", "verify", "-c", "c", "--deep"}).code, 0);
  const auto info = parse_json(run({"collection", "info", "-c", "c", "--json"}).out);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ((*info)["items"], 5);
}

TEST_F(BadInput, CtrlCInEmbedWritesNothing) {
  constexpr int kPictures = 1'600 / kSlower;
  for (int i = 0; i < kPictures; ++i) picture(fmt::format("more/{}.png", i), i % 256, 7 * i % 256, 0);
  const std::string before = snapshot("more");
  const Outcome stopped =
      run({"embed", "--images", "more", "-m", "model", "-o", "x.npy", "--batch-size", "1"},
          {.terminal_errors = true, .stop_when = [](std::string_view errors) {
             return errors.find("embedding ") != std::string_view::npos;
           }});
  EXPECT_EQ(stopped.code, 1) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("saccade: stopped, nothing written"));
  EXPECT_THAT(stopped.out, IsEmpty());
  for (const char* file : {"x.npy", "x.npy.json"}) EXPECT_FALSE(std::filesystem::exists(folder_ / file));
  EXPECT_EQ(snapshot("more"), before);
}

TEST_F(BadInput, CtrlCStopsCleanlyAndTheSameCommandGoesOn) {
  make_collection();
  constexpr int kPictures = 2'000 / kSlower;
  for (int i = 0; i < kPictures; ++i)
    picture(fmt::format("more/{:04}.png", i), i % 256, 3 * i % 256, i / 256 * 16);
  const std::vector<std::string> command = {"index", "more", "-c", "c", "--batch-size", "1", "--json"};
  const Outcome stopped = run(command, {.terminal_errors = true, .stop_when = [](std::string_view errors) {
                                          return errors.find("indexing ") != std::string_view::npos;
                                        }});
  EXPECT_EQ(stopped.code, 1) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("the same command resumes"));
  const auto first = parse_json(stopped.out);
  ASSERT_TRUE(first.has_value()) << stopped.out;
  EXPECT_EQ((*first)["cancelled"], true);
  const auto taken = (*first)["added"].get<int>();
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, kPictures);
  EXPECT_EQ(run({"collection", "verify", "-c", "c"}).code, 0);

  const Outcome rest = run(command);
  EXPECT_EQ(rest.code, 0) << rest.err;
  const auto second = parse_json(rest.out);
  ASSERT_TRUE(second.has_value()) << rest.out;
  EXPECT_EQ((*second)["unchanged"], taken);
  EXPECT_EQ((*second)["added"], kPictures - taken);
  const auto info = parse_json(run({"collection", "info", "-c", "c", "--json"}).out);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ((*info)["items"], 4 + kPictures);
  EXPECT_EQ(run({"collection", "verify", "-c", "c", "--deep"}).code, 0);
}

}  // namespace
}  // namespace saccade::test
