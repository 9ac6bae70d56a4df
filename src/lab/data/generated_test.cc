// Tests of the list of generated edits: write-read round trips, and invalid lists, line by line.
#include "lab/data/generated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;

GeneratedEdits three_edits() {
  GeneratedEdits generated;
  generated.dataset = "icons";
  generated.dataset_hash = "ab12";
  generated.engine = {{"name", "openai"}, {"model", "m"}};
  generated.edits = {{"q1", "icons", "bell", "crossed out", "pictures/ab/1.png", 64, 48, ""},
                     {"q2", "icons", "bell", "filled \"in\"", "", 0, 0, "status 500"},
                     {"q3", "icons", "star", "in red", "pictures/cd/2.png", 64, 64, ""}};
  return generated;
}

Dataset three_queries() {
  Dataset dataset{.name = "icons", .content = EditQueries()};
  for (const char* id : {"q3", "q2", "q1", "q9"}) {
    EditQuery& query = dataset.as<EditQueries>().items.emplace_back();
    query.id = id;
    query.gallery = "icons";
    query.reference = query.id == "q3" ? "star" : "bell";
    query.texts = {"t"};
  }
  return dataset;
}

std::string error_of(const test::TestFolder& folder, std::string_view text) {
  const auto read = read_generated_edits(folder.write(kGeneratedFile, text));
  return read ? "" : read.error().message;
}

TEST(Generated, TextsAreSaidTogether) {
  EXPECT_EQ(edit_text(std::vector<std::string>{"is red", " ", "has no sleeves "}),
            "is red, and has no sleeves");
  EXPECT_EQ(edit_text(std::vector<std::string>{"\n"}), "");
}

TEST(Generated, WrittenAndReadAgain) {
  const test::TestFolder folder;
  const GeneratedEdits generated = three_edits();
  folder.write(kGeneratedFile, *format_generated_edits(generated));
  const auto read = read_generated_edits(folder.path());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->edits, generated.edits);
  EXPECT_EQ(read->engine, generated.engine);
  EXPECT_EQ(read->dataset, "icons");
  EXPECT_EQ(read->dataset_hash, "ab12");

  GeneratedEdits broken = generated;
  broken.edits[0].text = "\xff";
  EXPECT_THAT(format_generated_edits(broken).error().message, HasSubstr("UTF-8"));
}

TEST(Generated, SaysWhatIsWrong) {
  const test::TestFolder folder;
  const std::string head = R"({"saccade":"generated edits","version":1,"dataset":{"name":"d","hash":"h"},)"
                           R"("engine":{"name":"own"}})"
                           "\n";
  EXPECT_THAT(error_of(folder, ""), HasSubstr("empty"));
  EXPECT_THAT(error_of(folder, "{}\n"), HasSubstr("line 1: not a list of generated edits"));
  EXPECT_THAT(error_of(folder, "[]\n"), HasSubstr("line 1: an array, not an object"));
  EXPECT_THAT(error_of(folder, R"({"saccade":"generated edits","version":2})"), HasSubstr("version 2"));
  EXPECT_THAT(error_of(folder, R"({"saccade":"generated edits","version":1})"), HasSubstr("missing"));
  EXPECT_THAT(error_of(folder, head + "{\"query\":3}"), HasSubstr("line 2: \"query\" is"));
  const std::string edit = R"({"query":"a","reference":"r","text":"t","file":"p.png"})";
  EXPECT_EQ(error_of(folder, head + edit), "");
  EXPECT_THAT(error_of(folder, head + edit + "\n" + edit),
              HasSubstr("line 3: the query \"a\" is there twice"));
  for (const char* path : {"../p.png", "/p.png", "a/../../p.png", "a/"}) {
    const std::string line = dump_json({{"query", "a"}, {"reference", "r"}, {"text", "t"}, {"file", path}});
    EXPECT_THAT(error_of(folder, head + line), HasSubstr("below the list's folder")) << path;
  }
  EXPECT_THAT(read_generated_edits(folder / "none").error().code, ErrorCode::kNotFound);
  const test::TestFolder empty;
  EXPECT_THAT(read_generated_edits(empty.path()).error().message, HasSubstr("saccade generate edits"));
}

TEST(Generated, PicturesOfADatasetsQueries) {
  const test::TestFolder folder;
  folder.write(kGeneratedFile, *format_generated_edits(three_edits()));
  const auto targets = read_pseudo_targets(folder.path(), three_queries());
  ASSERT_TRUE(targets) << targets.error().message;
  ASSERT_EQ(targets->pictures.size(), 4U);
  EXPECT_EQ(targets->pictures[0]->path, folder / "pictures/cd/2.png");
  EXPECT_EQ(targets->pictures[1], std::nullopt);
  EXPECT_EQ(targets->pictures[2]->path, folder / "pictures/ab/1.png");
  EXPECT_EQ(targets->pictures[3], std::nullopt);
  EXPECT_EQ(targets->there, 2);
  EXPECT_EQ(targets->failed, 1);
  EXPECT_EQ(targets->absent, 1);

  Dataset other = three_queries();
  other.as<EditQueries>().items[0].reference = "moon";
  const auto mismatch = read_pseudo_targets(folder.path(), other);
  EXPECT_EQ(mismatch.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(mismatch.error().message, HasSubstr("\"q3\""));
  other.as<EditQueries>().items = {other.as<EditQueries>().items[3]};
  EXPECT_EQ(read_pseudo_targets(folder.path(), other).error().code, ErrorCode::kUsage);
}

TEST(Generated, OnlyThoseLikeTheirTargets) {
  const test::TestFolder folder;
  folder.write(kGeneratedFile, *format_generated_edits(three_edits()));
  const auto unknown = read_pseudo_targets(folder.path(), three_queries(), {.min_cosine = 0.5});
  EXPECT_THAT(unknown.error().message, HasSubstr("saccade eval edits --note"));
  ASSERT_TRUE(write_generated_quality(folder.path(), {{"q1", {0.9, 1}}, {"q3", {0.4, 12.5}}}));
  const auto targets = read_pseudo_targets(folder.path(), three_queries(), {.min_cosine = 0.5});
  ASSERT_TRUE(targets) << targets.error().message;
  EXPECT_TRUE(targets->pictures[2]);
  EXPECT_FALSE(targets->pictures[0]);
  EXPECT_EQ(targets->below, 1);
  EXPECT_EQ(read_pseudo_targets(folder.path(), three_queries(), {.min_cosine = 0.95}).error().code,
            ErrorCode::kUsage);
  const auto quality = read_generated_quality(folder.path());
  EXPECT_EQ(quality->at("q3").rank, 12.5);
  folder.write(kQualityFile, "{\"query\": \"q1\"}\n");
  EXPECT_THAT(read_generated_quality(folder.path()).error().message, HasSubstr("line 1: \"cosine\""));
}

}  // namespace
}  // namespace saccade::lab
