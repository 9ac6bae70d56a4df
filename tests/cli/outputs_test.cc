// What commands write where their user says replaces neither their inputs, nor a collection, a dataset or a
// checkpoint of theirs, nor somebody's file of another kind.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "lab/data/test_tar.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/source_dir.h"

#include "run_program.h"

namespace saccade::test {
namespace {

using namespace saccade::lab;

namespace fs = std::filesystem;
using testing::HasSubstr;

using Words = std::vector<std::string>;

// A command that writes a file; its name goes behind the words.
struct Writer {
  Words words;
  std::string ending;                    // of an output's name
  std::vector<std::string> inputs = {};  // that it must not replace
  std::vector<std::string> closed =
      {};                 // files of collections and checkpoints, which --overwrite does not free
  std::string with = {};  // a file that is written beside the output: its name's ending
  bool finishes = true;   // all else it needs is there
};

class Outputs : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    make_collection();
    write("set.csv", "image,caption\npictures/red.png,A red card.\npictures/blue.png,A blue card.\n");
    write("set.jsonl", "{\"image\": \"pictures/red.png\", \"captions\": [\"A red card.\"]}\n");
    write("w1/0.tar", tar_member("a.png", read_file(folder_ / "pictures/red.png").value()) +
                          tar_member("a.txt", "a red card") + tar_end());
    write("w1/notes.jsonl", "{\"seen\": true}\n");
    write("ratings.csv", "text,anna,ben,carla\nA red square.,7,6,5\nIt is so.,1,2,3\n");
    write("texts.npy", "a red card\n");
    write("texts.safetensors", "a red card\n");
    write("story.md", "# A house\n\nThe red card lies on a table.\n");
    write("generated/generated.jsonl", "{}\n");
    write("charts.js", "draw();\n");
    fs::copy(folder_ / "pictures/red.png", folder_ / "query.png");
    fs::create_hard_link(folder_ / "query.png", folder_ / "query.html");
    const Outcome evaluated = run({"-q", "eval", "retrieval", "-m", "model", "--dataset", "set.csv",
                                   "--no-cache", "--resamples", "0", "-o", "run"});
    ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  }

  std::vector<Writer> writers() const {
    const std::string html = ".html";
    const std::vector<std::string> catalog = {"c/catalog.sqlite", "c/collection.json", "c/new.html"};
    return {
        {{"dataset", "convert", "set.csv", "-o"}, ".jsonl", {"set.csv", "./set.csv", "pictures/red.png"}},
        {{"dataset", "convert", "set.jsonl#missing=skip", "-o"}, ".jsonl", {"set.jsonl"}},
        {{"dataset", "convert", "w1", "-o"}, ".jsonl", {"w1/0.tar", "w1/notes.jsonl", "w1/1.tar"}},
        {{"dataset", "label", "ratings.csv", "--min-ratings", "1", "-o"}, ".jsonl", {"ratings.csv"}},
        {{"search", "-c", "c", "red", "--image", "query.png", "--html"},
         html,
         {"query.png", "query.html"},
         catalog},
        {{"search", "-c", "c", "-m", "model", "red", "--html"},
         html,
         {},
         {"model/config.json", "model/new.html"}},
        {{"collection", "duplicates", "-c", "c", "--html"}, html, {"pictures/red.png"}, catalog},
        {{"collection", "duplicates", "-c", "c", "--script"}, ".sh", {"pictures/red.png"}, catalog},
        {{"-q", "demo", "pictures", "-c", "c", "-m", "model", "--html"}, html, {"pictures/red.png"}, catalog},
        {{"-q", "embed", "--texts", "texts.npy", "-m", "model", "-o"},
         ".npy",
         {"texts.npy"},
         {"model/new.npy"},
         ".npy.json"},
        {{"-q", "embed", "--texts", "texts.safetensors", "-m", "model", "-o"},
         ".safetensors",
         {"texts.safetensors"},
         {"model/model.safetensors"}},
        {{"-q", "report", "run", "--charts", "charts.js", "-o"}, html, {"charts.js", "run/run.json"}},
        {{"-q", "eval", "edits", "--dataset", "set.csv", "--generated", "generated", "-m", "model", "--html"},
         html,
         {"set.csv", "generated/generated.jsonl"},
         {"model/new.html"},
         "",
         false},
        {{"-q", "illustrate", "story.md", "-c", "c", "--format", "markdown", "-o"},
         ".md",
         {"pictures/red.png"},
         {"c/catalog.sqlite", "c/new.md"}},
    };
  }

  // Nothing in the test's folder changes.
  void refuses(Words words, const std::string& output, const std::string& part, bool overwrite) const {
    words.push_back(output);
    if (overwrite) words.emplace_back("--overwrite");
    SCOPED_TRACE(testing::PrintToString(words));
    const std::string before = everything();
    expect_failure(words, 2, {output, part});
    EXPECT_EQ(everything(), before);
  }
  // Names and hashes of all files but what the program remembers in "home".
  std::string everything() const {
    std::vector<std::string> files;
    std::string text;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory() && name != "home") {
        text += snapshot(name);
      } else if (entry.is_regular_file()) {
        files.push_back(name + " " + sha256_file(entry.path()).value_or("unreadable") + "\n");
      }
    }
    std::ranges::sort(files);
    for (const std::string& file : files) text += file;
    return text;
  }
};

TEST_F(Outputs, ReplaceNoInputsCollectionsAndOtherKinds) {
  write("tar", tar_member("a.txt", "x") + tar_end());
  for (const Writer& writer : writers()) {
    for (const std::string& input : writer.inputs) {
      // A new archive would be one more shard of a dataset.
      refuses(writer.words, input, fs::exists(folder_ / input) ? "--overwrite" : "would be a part of", false);
    }
    for (const std::string& file : writer.closed) {
      for (const bool overwrite : {false, true}) refuses(writer.words, file, "belong together", overwrite);
    }
    const std::string other = "other" + writer.ending;
    for (const char* victim : {"query.png", "c/catalog.sqlite", "tar", "story.md", "set.csv"}) {
      fs::copy_file(folder_ / victim, folder_ / other, fs::copy_options::overwrite_existing);
      refuses(writer.words, other, "--overwrite", false);
    }
    if (!writer.with.empty()) {
      write("fresh" + writer.with, "somebody's notes");
      Words words = writer.words;
      words.push_back("fresh" + writer.ending);
      expect_failure(words, 2, {"fresh" + writer.with, "--overwrite"});
      EXPECT_EQ(read_file(folder_ / ("fresh" + writer.with)).value(), "somebody's notes");
      EXPECT_FALSE(fs::exists(folder_ / ("fresh" + writer.ending)));
      fs::remove(folder_ / ("fresh" + writer.with));
    }
    fs::remove(folder_ / other);
  }
}

TEST_F(Outputs, AreReplacedByTheirOwnKindAndByOverwrite) {
  for (const Writer& writer : writers()) {
    if (!writer.finishes) continue;
    const std::string output = "out" + writer.ending;
    Words words = writer.words;
    words.push_back(output);
    if (words[1] == "report") words.emplace_back("--no-charts");
    SCOPED_TRACE(testing::PrintToString(words));
    Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto first = read_file(folder_ / output);
    ASSERT_TRUE(first);
    if (writer.ending != ".md") {  // an illustrated document may be somebody's
      outcome = run(words);
      EXPECT_EQ(outcome.code, 0) << outcome.err;
    }
    fs::copy_file(folder_ / "query.png", folder_ / output, fs::copy_options::overwrite_existing);
    words.emplace_back("--overwrite");
    outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(read_file(folder_ / output).value(), read_file(folder_ / "query.png").value());
    fs::remove(folder_ / output);
  }
  // Onto an input, for those who say so.
  EXPECT_EQ(run({"dataset", "convert", "set.csv", "-o", "set.csv", "--overwrite"}).code, 0);
  EXPECT_THAT(read_file(folder_ / "set.csv").value(), HasSubstr("\"image\":\"pictures/red.png\""));
}

TEST_F(Outputs, FoldersLieInNoCollectionAndNoCheckpoint) {
  const std::string before = snapshot("c") + snapshot("model");
  expect_failure({"collection", "export", "-c", "c", "c/out"}, 2, {"c/out", "belong together"});
  expect_failure(
      {"-q", "eval", "retrieval", "-m", "model", "--dataset", "set.csv", "--no-cache", "-o", "model/run"}, 2,
      {"model/run", "belong together"});
  expect_failure(
      {"-q", "dataset", "from-pdf", golden("pdf") / "scanned.pdf", "-m", "model", "-o", "model/pdf"}, 2,
      {"model/pdf", "belong together"});
  EXPECT_EQ(snapshot("c") + snapshot("model"), before);
}

// A disk that is full when the vectors come, which are larger than their names.
TEST_F(Outputs, VectorsAndTheirNamesComeTogether) {
  const Words words = {"-q", "embed", "--images", "pictures", "-m", "model", "-o", "rows.npy"};
  const RunOptions full{.max_file_bytes = 500};
  expect_failure(words, 1, {"rows.npy", "File too large"}, full);
  EXPECT_FALSE(fs::exists(folder_ / "rows.npy") || fs::exists(folder_ / "rows.npy.json"));
  ASSERT_EQ(run({"-q", "embed", "--images", "pictures/red.png", "-m", "model", "-o", "rows.npy"}).code, 0);
  const std::string before = everything();
  expect_failure(words, 1, {"rows.npy", "File too large"}, full);
  EXPECT_EQ(everything(), before);
}

// What a user names is opened in one place; the files of a run are the run's own.
TEST_F(Outputs, NoCommandWritesPastTheCheck) {
  const std::set<std::string> runs = {"command_train.cc"};
  int seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(kSourceDir) / "apps")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".cc" || name.ends_with("_test.cc") || runs.contains(name)) continue;
    ++seen;
    const std::string text = read_file(entry.path()).value();
    for (const char* way : {"write_file_atomic(", "AtomicFile::create(", "std::ofstream", "fopen("}) {
      EXPECT_EQ(text.find(way), std::string::npos)
          << name << " has " << way << "...; see core/files/output_file.h";
    }
  }
  EXPECT_GT(seen, 30);
}

}  // namespace
}  // namespace saccade::test
