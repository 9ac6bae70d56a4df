// Tests of the ownership of run folders. Empty folders, finished runs and leftovers of a killed process are
// claimed; all others stay unchanged to the last byte.
#include "lab/eval/run/run_folder.h"

#include <fstream>
#include <map>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/run/run.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

RunInfo some_info() {
  RunInfo info;
  info.kind = "retrieval";
  info.saccade = "0.1.0";
  info.protocol = {{"description", "all"}};
  return info;
}

Status write_run(const fs::path& folder, const std::vector<std::string>& names, int value) {
  SACCADE_ASSIGN(RunWriter writer, RunWriter::open(folder, some_info(), true));
  for (const std::string& name : names) SACCADE_TRY(writer.add_line(name, {{"value", value}}));
  return writer.finish(some_info(), {{"value", value}});
}

// Returns every file and folder below, with its content.
std::map<std::string, std::string> content_of(const fs::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    content[entry.path().string()] =
        entry.is_regular_file() ? read_file(entry.path()).value_or("?") : "folder";
  }
  return content;
}

TEST(RunFolder, OfOthersStaysAsItIs) {
  // Files that the old writer replaced, deleted or overwrote.
  const std::map<std::string, std::string> files = {
      {"items.jsonl", "{\"image\": \"1.jpg\", \"captions\": [\"a manifest\"]}\n"},
      {"download.part", "half a download"},
      {"letter.tmp-draft", "a draft"},
      {"ranks.jsonl.tmp-1-2", "of another program"},
      {"lock", "the number of my locker"},
      {"metrics.json", "{}"},
      {"unfinished/symphony.txt", "in B minor"},
      {"embeddings/mine.safetensors", "rows"},
      {"run.json", "{\"kind\": \"train dual\"}"},
      {"run.json ", "{}"}};
  for (const auto& [name, text] : files) {
    const test::TestFolder folder;
    folder.write(name, text);
    const auto before = content_of(folder.path());
    const auto claimed = RunFolder::claim(folder.path());
    ASSERT_FALSE(claimed) << name;
    EXPECT_THAT(claimed.error().message, HasSubstr(folder.path().string())) << name;
    EXPECT_EQ(content_of(folder.path()), before) << name;
    EXPECT_FALSE(write_run(folder.path(), {"items.jsonl"}, 1)) << name;
    EXPECT_EQ(content_of(folder.path()), before) << name;
  }
}

TEST(RunFolder, TheRefusalNamesWhatIsThere) {
  const test::TestFolder folder;
  folder.write("photos/1.jpg", "a photograph");
  const auto claimed = RunFolder::claim(folder.path());
  ASSERT_FALSE(claimed);
  EXPECT_EQ(claimed.error().code, ErrorCode::kUsage);
  EXPECT_THAT(claimed.error().message, HasSubstr("not a run of `saccade eval`"));
  EXPECT_THAT(claimed.error().message, HasSubstr("it holds \"photos\""));
  const fs::path file = folder.write("file", "text");
  EXPECT_THAT(RunFolder::claim(file).error().message, HasSubstr("file"));
}

// A command that is refused or fails leaves the disk unchanged.
TEST(RunFolder, WhatWasNotPublishedLeavesNothing) {
  const test::TestFolder folder;
  const auto before = content_of(folder.path());
  for (const fs::path& run : {folder / "run", folder / "new/folders/run/", folder.path()}) {
    {
      auto writer = RunWriter::open(run, some_info(), false);
      ASSERT_TRUE(writer) << writer.error().message;
      ASSERT_TRUE(writer->add_line("ranks.jsonl", {{"value", 1}}));
      EXPECT_NE(content_of(folder.path()), before);
    }
    EXPECT_EQ(content_of(folder.path()), before) << run;
  }
  // A finished run keeps its files, and its folder has no lock that outlives the process.
  const fs::path run = folder / "run";
  ASSERT_TRUE(write_run(run, {"ranks.jsonl"}, 1));
  const auto finished = content_of(run);
  EXPECT_FALSE(fs::exists(run / "lock"));
  RunInfo other = some_info();
  other.kind = "another";
  EXPECT_EQ(RunWriter::open(run, other, false).error().code, ErrorCode::kMismatch);
  EXPECT_EQ(content_of(run), finished);
}

TEST(RunFolder, FilesBesideARunStay) {
  const test::TestFolder folder;
  const fs::path run = folder / "run";
  ASSERT_TRUE(write_run(run, {"ranks.jsonl"}, 1));
  folder.write("run/notes.md", "what I think of it");
  folder.write("run/notes.part", "more");
  folder.write("run/a.tmp-1-2", "more");
  ASSERT_TRUE(write_run(run, {"pairs.jsonl"}, 2));
  EXPECT_EQ(read_file(run / "notes.md").value_or(""), "what I think of it");
  EXPECT_EQ(read_file(run / "notes.part").value_or(""), "more");
  EXPECT_EQ(read_file(run / "a.tmp-1-2").value_or(""), "more");
  EXPECT_FALSE(fs::exists(run / "ranks.jsonl"));
  EXPECT_FALSE(fs::exists(run / "unfinished"));
  // A manifest beside the run, under a name that another kind of run would take.
  folder.write("run/items.jsonl", "a manifest");
  const Status refused = write_run(run, {"items.jsonl"}, 3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  EXPECT_THAT(refused.error().message, HasSubstr("\"items.jsonl\" that is not of its run"));
  EXPECT_EQ(read_file(run / "items.jsonl").value_or(""), "a manifest");
  EXPECT_EQ(read_run(run)->metrics["value"], 2);
}

// A process that exits in the middle of its work, without cleanup.
template <typename Body>
void in_killed_process(const Body& body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
}

TEST(RunFolder, WhatAKilledProcessLeftIsTaken) {
  const test::TestFolder folder;
  const fs::path run = folder / "run";
  in_killed_process([&] {
    auto writer = RunWriter::open(run, some_info(), false);
    static_cast<void>(writer->add_line("ranks.jsonl", {{"value", 1}}));
    ::_exit(0);
  });
  EXPECT_TRUE(fs::exists(run / "unfinished/files.json"));
  ASSERT_TRUE(write_run(run, {"ranks.jsonl"}, 2));
  EXPECT_EQ(read_run(run)->metrics["value"], 2);
  EXPECT_FALSE(fs::exists(run / "unfinished"));
}

// The process is killed after every step of putting files in place. The folder is claimed again, nothing of
// the unfinished run interferes, and other files stay.
TEST(RunFolder, KilledWhilePublishingItIsTaken) {
  const std::vector<std::string> names = {"embeddings/a.safetensors", "ranks.jsonl"};
  for (const bool had_run : {false, true}) {
    for (int left = 0; left <= 3; ++left) {
      const test::TestFolder folder;
      const fs::path run = folder / "run";
      if (had_run) {
        ASSERT_TRUE(write_run(run, {"items.jsonl", "ranks.jsonl"}, 1));
      }
      in_killed_process([&] {
        auto claimed = RunFolder::claim(run);
        for (const std::string& name : names) {
          std::ofstream(*claimed->stage(name)) << "new";
        }
        // Does what publish() does, up to some step.
        std::ofstream(run / "unfinished/files.json")
            << R"({"unfinished_run": 1, "files": ["embeddings/a.safetensors", "items.jsonl", "ranks.jsonl",
                   "metrics.json", "run.json"]})";
        if (left >= 1) fs::remove(run / "run.json");
        if (left >= 2) {
          fs::create_directories(run / "embeddings");
          fs::rename(run / "unfinished" / names[0], run / names[0]);
        }
        if (left >= 3) fs::rename(run / "unfinished" / names[1], run / names[1]);
        ::_exit(0);
      });
      folder.write("run/notes.md", "mine");
      ASSERT_TRUE(write_run(run, {"pairs.jsonl"}, 2)) << had_run << left;
      EXPECT_EQ(read_run(run)->metrics["value"], 2);
      EXPECT_EQ(read_file(run / "notes.md").value_or(""), "mine");
      for (const char* old : {"ranks.jsonl", "items.jsonl", "embeddings/a.safetensors", "unfinished"}) {
        EXPECT_FALSE(fs::exists(run / old)) << had_run << left << old;
      }
    }
  }
}

TEST(RunFolder, AListOfFilesElsewhereIsRefused) {
  const test::TestFolder folder;
  folder.write("outside.txt", "mine");
  folder.write("run/unfinished/files.json", R"({"unfinished_run": 1, "files": ["../outside.txt"]})");
  const auto claimed = RunFolder::claim(folder / "run");
  ASSERT_FALSE(claimed);
  EXPECT_THAT(claimed.error().message, HasSubstr("files.json"));
  EXPECT_TRUE(fs::exists(folder / "outside.txt"));
}

}  // namespace
}  // namespace saccade::lab
