// Tests of groups of text queries: which query is in which group, and their figures against those of the group alone.
#include "lab/eval/retrieval/query_groups.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(QueryGroups, WordsAreComparedWhole) {
  QueryTexts queries;
  queries.captions = {"A RED kite", "reddish kites", "3 kites", "one kite, 4th", "kite-left", "in a kite"};
  const auto color = group_by_kind(TextQueryKind::kColor, queries);
  ASSERT_TRUE(color) << color.error().message;
  EXPECT_THAT(color->names, ElementsAre("color words", "no color words"));
  EXPECT_THAT(color->group_of_query, ElementsAre(0, 1, 1, 1, 1, 1));
  const auto number = group_by_kind(TextQueryKind::kNumber, queries);
  ASSERT_TRUE(number) << number.error().message;
  EXPECT_THAT(number->group_of_query, ElementsAre(1, 1, 0, 1, 1, 1));
  const auto spatial = group_by_kind(TextQueryKind::kSpatial, queries);
  ASSERT_TRUE(spatial) << spatial.error().message;
  EXPECT_THAT(spatial->group_of_query, ElementsAre(1, 1, 1, 1, 0, 1));
}

TEST(QueryGroups, LengthsHaveSteps) {
  QueryTexts queries;
  queries.captions = std::vector<std::string_view>(6, "a");
  const auto without = group_by_kind(TextQueryKind::kLength, queries);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code, ErrorCode::kUsage);
  queries.tokens = {0, 5, 6, 40, 75, 76};
  const auto grouping = group_by_kind(TextQueryKind::kLength, queries);
  ASSERT_TRUE(grouping) << grouping.error().message;
  EXPECT_THAT(grouping->group_of_query, ElementsAre(0, 0, 1, 3, 4, 5));
  EXPECT_EQ(grouping->names.front(), "0 to 5 tokens");
  EXPECT_EQ(grouping->names.back(), "76 tokens or more");
}

TEST(QueryGroups, FieldsAndTables) {
  std::vector<DatasetItem> items(2);
  items[1].source = "web";
  QueryTexts queries;
  queries.captions = {"a", "b", "c"};
  EXPECT_FALSE(group_by_kind(TextQueryKind::kSource, queries));
  queries.items = {&items[1], &items[0], &items[1]};
  const auto source = group_by_kind(TextQueryKind::kSource, queries);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_THAT(source->names, ElementsAre("(none)", "web"));
  EXPECT_THAT(source->group_of_query, ElementsAre(1, 0, 1));

  const test::TestFolder folder;
  const std::filesystem::path path = folder.path() / "mood.tsv";
  ASSERT_TRUE(write_file_atomic(path,
                                "\xef\xbb\xbf"
                                "a\tglad\r\n\nb\tsad\n"));
  const auto table = read_query_table(path);
  ASSERT_TRUE(table) << table.error().message;
  const QueryGrouping grouping = group_by_table(*table, queries);
  EXPECT_EQ(grouping.kind, "mood");
  EXPECT_THAT(grouping.names, ElementsAre("(not in the table)", "glad", "sad"));
  EXPECT_THAT(grouping.group_of_query, ElementsAre(1, 2, 0));
  for (const char* bad : {"a\tglad\na\n", "a\tglad\na\t\n", "a\tglad\na\tsad\n"}) {
    ASSERT_TRUE(write_file_atomic(path, bad));
    const auto wrong = read_query_table(path);
    ASSERT_FALSE(wrong) << bad;
    EXPECT_THAT(wrong.error().message, HasSubstr("line 2"));
  }
  for (const char* empty : {"", "\n\r\n"}) {
    ASSERT_TRUE(write_file_atomic(path, empty));
    const auto wrong = read_query_table(path);
    ASSERT_FALSE(wrong);
    EXPECT_THAT(wrong.error().message, HasSubstr("no groups"));
  }
}

TEST(QueryGroups, FiguresAreThoseOfTheQueriesAlone) {
  // 60 queries of 30 images; the first half of the images is always found first, the others never. Two queries have no answer.
  constexpr int64_t kImages = 30;
  QueryRanks ranks;
  ranks.gallery = 30;
  std::vector<int64_t> owner;
  QueryGrouping grouping{.kind = "half", .names = {"found", "never", "empty", "few"}};
  for (int64_t q = 0; q < 2 * kImages + 2; ++q) {
    const int64_t image = q / 2;
    if (image < kImages) ranks.ranks.push_back(image < 20 ? 1 : 12);
    ranks.begin.push_back(std::ssize(ranks.ranks));
    ranks.tied.push_back(0);
    owner.push_back(image < kImages ? image : 0);
    grouping.group_of_query.push_back(image < 20 ? 0 : image < kImages ? 1 : 2);
  }
  grouping.group_of_query[0] = 3;
  ThreadPool pool(2);
  BootstrapOptions bootstrap;
  bootstrap.resamples = 100;
  const std::vector<QueryGroupFigures> groups = query_groups(grouping, ranks, owner, bootstrap, pool);
  ASSERT_EQ(groups.size(), 3U);  // queries without a right answer are no group
  EXPECT_EQ(groups[0].group, "found");
  EXPECT_EQ(groups[0].queries, 39);
  EXPECT_EQ(groups[0].images, 20);
  EXPECT_FALSE(groups[0].few);
  ASSERT_EQ(groups[0].figures.size(), 3U);
  EXPECT_EQ(groups[0].figures[0].value, 1);
  EXPECT_EQ(groups[1].group, "never");
  EXPECT_EQ(groups[1].images, 10);
  EXPECT_TRUE(groups[1].few);
  EXPECT_EQ(groups[1].figures[0].value, 0);
  // Wilson's upper end without a success in 10 trials: z^2 / (10 + z^2).
  EXPECT_NEAR(groups[1].figures[0].high, 3.8415 / 13.8415, 1e-4);
  EXPECT_EQ(groups[2].group, "few");
  EXPECT_EQ(groups[2].queries, 1);
  EXPECT_NEAR(groups[2].figures[0].low, 1 / (1 + 3.8415), 1e-4);
  EXPECT_NEAR(groups[2].figures[0].high, 1, 1e-9);

  // The record is read back as it was written.
  const auto again = read_record<QueryGroupFigures>(record_json(groups[1]));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(record_json(*again), record_json(groups[1]));

  // Figures of a gallery of fewer answers than k are blank.
  ranks.gallery = 5;
  const std::vector<QueryGroupFigures> small = query_groups(grouping, ranks, owner, bootstrap, pool);
  ASSERT_EQ(small.size(), 3U);
  EXPECT_TRUE(std::isnan(small[0].figures[2].value));
}

}  // namespace
}  // namespace saccade::lab
