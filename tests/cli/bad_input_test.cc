// Every command against missing, empty, truncated, foreign and hostile input, targets that cannot be written,
// wrong options, and no streams: one clear line, the right exit code, and the collection as it was.

#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files.h"
#include "saccade/core/json.h"

#include "run_program.h"

namespace saccade::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class BadInput : public ProgramTest {
 protected:
  // Runs, and expects an exit code and one line with each of `parts` in it.
  void expect_failure(const std::vector<std::string>& arguments, int code,
                      const std::vector<std::string>& parts, const RunOptions& options = {}) const {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Outcome outcome = run(arguments, options);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    expect_one_line(outcome);
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
};

TEST_F(BadInput, WrongUseIsExitCode2) {
  expect_failure({}, 2, {"subcommand"});
  expect_failure({"fly"}, 2, {"fly"});
  expect_failure({"search"}, 2, {"--collection", "saccade search --help"});
  expect_failure({"search", "-c"}, 2, {"--collection"});
  expect_failure({"search", "-c", "c", "--nosuch", "x"}, 2, {"--nosuch"});
  expect_failure({"search", "-c", "c", "-k", "many", "x"}, 2, {"many"});
  expect_failure({"search", "-c", "c", "-k", "0", "x"}, 2, {"-k is 0"});
  expect_failure({"search", "-c", "c", "-k", "-3", "x"}, 2, {"-k is -3"});
  expect_failure({"search", "-c", "c"}, 2, {"nothing to search for"});
  expect_failure({"search", "-c", "c", ""}, 2, {"nothing to search for"});
  expect_failure({"search", "-c", "c", " \n\t "}, 2, {"nothing to search for"});
  expect_failure({"search", "-c", "c", "--filter", "width>", "x"}, 2, {"--filter"});
  expect_failure({"search", "-c", "c", "--precision", "fp8", "x"}, 2, {"fp8"});
  expect_failure({"index", "-c", "c"}, 2, {"PATH"});
  expect_failure({"index", "pictures", "-c", "c", "--batch", "0"}, 2, {"batch"});
  expect_failure({"index", "-", "-c", "c"}, 2, {"file list", "empty"}, {.input = "\n\n"});
  expect_failure({"collection"}, 2, {"subcommand"});
  expect_failure({"collection", "remove", "-c", "c"}, 2, {"nothing to remove"});
  expect_failure({"collection", "remove", "-c", "c", "--filter", "colour=red"}, 2, {"--filter"});
  expect_failure({"embed", "-o", "x.npy"}, 2, {"--images or --texts"});
  expect_failure({"embed", "--texts", "t", "--images", "i", "-o", "x.npy"}, 2, {"--images or --texts"});
  expect_failure({"embed", "--texts", "t", "-o", "x.txt"}, 2, {"x.txt", ".safetensors or .npy"});
  expect_failure({"model", "conform"}, 2, {"CHECKPOINT"});
}

TEST_F(BadInput, WhatIsMissingIsNamed) {
  picture("pictures/red.png", 200, 0, 0);
  expect_failure({"search", "-c", "nowhere", "x"}, 1, {"nowhere"});
  for (const char* part : {"info", "verify", "compact"})
    expect_failure({"collection", part, "-c", "nowhere"}, 1, {"nowhere"});
  expect_failure({"collection", "remove", "-c", "nowhere", "x"}, 1, {"nowhere"});
  expect_failure({"index", "pictures", "-c", "c", "-m", "nomodel"}, 1, {"nomodel"});
  expect_failure({"index", "nopictures", "-c", "c", "-m", "model"}, 1, {"nopictures"});
  expect_failure({"embed", "--images", "nopictures", "-m", "model", "-o", "x.npy"}, 1, {"nopictures"});
  expect_failure({"embed", "--texts", "notexts", "-m", "model", "-o", "x.npy"}, 1, {"notexts"});
  expect_failure({"embed", "--images", "pictures", "-m", "model", "-o", "no/x.npy"}, 1, {"no/x.npy"});
  expect_failure({"model", "show", "nomodel"}, 1, {"nomodel"});
  expect_failure({"model", "conform", "model", "--io", "noio"}, 1, {"noio"});
  expect_failure({"index", "pictures", "-c", "c", "-m", "model", "--captions", "nolist"}, 1, {"nolist"});
  expect_failure({"demo", "nosample"}, 1, {"nosample"});
}

TEST_F(BadInput, AFolderThatIsNoCollectionIsLeftAlone) {
  picture("pictures/red.png", 200, 0, 0);
  write("home/letter.txt", "dear");
  const std::string before = snapshot("home");
  EXPECT_NE(run({"index", "pictures", "-c", "home", "-m", "model"}).code, 0);
  expect_failure({"search", "-c", "home", "x"}, 1, {"home"});
  expect_failure({"collection", "compact", "-c", "home"}, 1, {"home"});
  EXPECT_EQ(snapshot("home"), before);
  // A file where a folder should be.
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
  // A header that promises 4 billion pixels a side, and an SVG that asks for a million.
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
  // Remembered, not tried again, and the same file name cannot break the list's lines.
  const Outcome again = run({"index", "bad", "-c", "c"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("6  skipped: failed before"));
  const Outcome listed = run({"collection", "info", "-c", "c", "--failures"});
  EXPECT_THAT(listed.out, HasSubstr("/line\\x0abreak.png: "));
  expect_failure({"search", "-c", "c", "--image", "bad/empty.png"}, 1, {"bad/empty.png"});
  expect_failure({"search", "-c", "c", "--image", "bad/huge.png"}, 1, {"bad/huge.png"});
  expect_failure({"search", "-c", "c", "--image", "bad"}, 1, {"bad"});
  expect_failure({"embed", "--images", "bad/empty.png", "-m", "model", "-o", "x.npy"}, 1, {"bad/empty.png"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.npy"));
}

TEST_F(BadInput, BrokenCheckpointsAreRefused) {
  make_collection();
  const std::string before = snapshot("c");
  const auto weights = read_file(folder_ / "model/model.safetensors");
  const auto config = read_file(folder_ / "model/config.json");
  ASSERT_TRUE(weights.has_value() && config.has_value());
  const auto expect_refused = [&](const std::string& part) {
    expect_failure({"index", "pictures", "-c", "c"}, 1, {part});
    expect_failure({"search", "-c", "c", "x"}, 1, {part});
    expect_failure({"model", "show", "model"}, 1, {part});
    expect_failure({"model", "conform", "model"}, 1, {part});
    expect_failure({"embed", "--images", "pictures", "-m", "model", "-o", "x.npy"}, 1, {part});
  };
  for (const size_t length : {size_t{0}, size_t{7}, size_t{100}, weights->size() / 2, weights->size() - 1}) {
    write("model/model.safetensors", std::string_view(*weights).substr(0, length));
    expect_refused("model.safetensors");
  }
  std::string hostile = *weights;
  hostile.replace(0, 8, "\xff\xff\xff\xff\xff\xff\xff\x7f");  // a header of 2^63 bytes
  write("model/model.safetensors", hostile);
  expect_refused("model.safetensors");
  write("model/model.safetensors", *weights);
  for (const char* content : {"", "{", "[]", "\x89PNG", R"({"model_type": "bert"})"}) {
    write("model/config.json", content);
    expect_refused("config.json");
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
  const auto damage = [&](const std::string& file, std::string_view content) {
    std::filesystem::remove_all(folder_ / "c");
    std::filesystem::copy(folder_ / "sound", folder_ / "c");
    write("c/" + file, content);
  };
  for (const char* content : {"", "{", "null", R"({"format_version": 99})"}) {
    damage("collection.json", content);
    for (const char* part : {"info", "verify", "compact"}) {
      expect_failure({"collection", part, "-c", "c"}, 1, {"c"});
    }
    expect_failure({"search", "-c", "c", "x"}, 1, {"c"});
    expect_failure({"index", "pictures", "-c", "c", "-m", "model"}, 1, {"c"});
  }
  for (const char* content :
       {"not a database, but long enough to look like a file of some kind", "SQLite format 3"}) {
    damage("catalog.sqlite", content);
    expect_failure({"collection", "info", "-c", "c"}, 1, {"catalog"});
    expect_failure({"search", "-c", "c", "x"}, 1, {"catalog"});
    expect_failure({"index", "pictures", "-c", "c"}, 1, {"catalog"});
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "sound")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("rows-")) continue;
    damage(name, "short");
    expect_failure({"search", "-c", "c", "x"}, 1, {"rows"});
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
  EXPECT_EQ(snapshot("c"), before);

  // No room on the disk, as far as the program can tell.
  for (int i = 0; i < 40; ++i) picture("more/" + std::to_string(i) + ".png", 5 * i, 6 * i, 99);
  const Outcome crowded = run({"index", "more", "-c", "c"}, {.max_file_bytes = 2'000});
  EXPECT_EQ(crowded.code, 1) << crowded.err;
  expect_one_line(crowded);
  EXPECT_EQ(run({"collection", "verify", "-c", "c", "--deep"}).code, 0);
  const auto info = parse_json(run({"collection", "info", "-c", "c", "--json"}).out);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ((*info)["items"], 4);
  EXPECT_EQ(run({"index", "more", "-c", "c"}).code, 0);
  expect_failure({"embed", "--images", "more", "-m", "model", "-o", "x.npy"}, 1, {"x.npy"},
                 {.max_file_bytes = 500});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.npy"));
}

TEST_F(BadInput, ReadOnlyFolders) {
  make_collection();
  const std::string before = snapshot("c");
  using std::filesystem::perms;
  std::filesystem::permissions(folder_ / "c", perms::owner_write, std::filesystem::perm_options::remove);
  // Searching needs no writing. (Root may write anywhere: then only this much can be seen.)
  EXPECT_EQ(run({"search", "-c", "c", "x"}).code, 0);
  if (geteuid() != 0) {
    picture("more/new.png", 1, 2, 3);
    expect_failure({"index", "more", "-c", "c"}, 1, {"c"});
    expect_failure({"collection", "compact", "-c", "c"}, 1, {"c"});
  }
  std::filesystem::permissions(folder_ / "c", perms::owner_write, std::filesystem::perm_options::add);
  EXPECT_EQ(snapshot("c"), before);
  picture("more/new.png", 1, 2, 3);
  expect_failure({"index", "more", "-c", "/proc/saccade", "-m", "model"}, 1, {"/proc/saccade"});
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
  // The report cannot be written, which is a failure, but no file of the collection is taken for the
  // terminal.
  EXPECT_EQ(run({"index", "more", "-c", "c"}, {.without_streams = true}).code, 1);
  EXPECT_EQ(run({"collection", "verify", "-c", "c", "--deep"}).code, 0);
  const auto info = parse_json(run({"collection", "info", "-c", "c", "--json"}).out);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ((*info)["items"], 5);
}

TEST_F(BadInput, CtrlCStopsCleanlyAndTheSameCommandGoesOn) {
  make_collection();
  for (int i = 0; i < 400; ++i) picture(fmt::format("more/{:03}.png", i), i % 256, 3 * i % 256, 7 * i % 256);
  const Outcome stopped =
      run({"index", "more", "-c", "c", "--batch", "1", "-q"}, {.interrupt_after_ms = 600});
  // On a quick machine it may be done by then, on a slow one not have begun: then the signal ends it.
  EXPECT_TRUE(stopped.code == 1 || stopped.code == 0 || stopped.code == 130) << stopped.code << stopped.err;
  if (stopped.code == 1) {
    EXPECT_THAT(stopped.err, HasSubstr("goes on from here"));
  }
  EXPECT_EQ(run({"collection", "verify", "-c", "c"}).code, 0);
  EXPECT_EQ(run({"index", "more", "-c", "c"}).code, 0);
  const auto info = parse_json(run({"collection", "info", "-c", "c", "--json"}).out);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ((*info)["items"], 404);
  EXPECT_EQ(run({"collection", "verify", "-c", "c", "--deep"}).code, 0);
}

}  // namespace
}  // namespace saccade::test
