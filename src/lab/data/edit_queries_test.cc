// Tests of edit queries: the manifest's lines, the published layouts (files as their publishers write them, a
// few records each), and their audit.
#include "lab/data/edit_queries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/audit.h"
#include "lab/data/dataset.h"
#include "lab/data/dataset_json.h"
#include "lab/data/read_dataset.h"
#include "lab/data/test_read.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/image_codec.h"

namespace saccade::lab {
namespace {

using test::error_of;
using test::read;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> ids(const Dataset& dataset) {
  std::vector<std::string> all;
  for (const GalleryPicture& each : dataset.as<EditQueries>().gallery)
    all.push_back(each.gallery + "/" + each.id);
  return all;
}

// Writes three queries of two categories and splits, and one of the test split, whose targets are withheld.
void write_fashion_iq(const test::TestFolder& folder) {
  folder.write("captions/cap.dress.val.json",
               R"([{"target": "B2", "candidate": "B1", "captions": ["is red", "has no sleeves"]},
                   {"target": "B1", "candidate": "B3", "captions": ["is long", " "]}])");
  folder.write("captions/cap.shirt.train.json",
               R"([{"target": "S2", "candidate": "S1", "captions": ["is blue", "is plain"]}])");
  folder.write("captions/cap.dress.test.json", R"([{"candidate": "B9", "captions": ["a", "b"]}])");
  folder.write("image_splits/split.dress.val.json", R"(["B1", "B2", "B3", "B4"])");
  folder.write("image_splits/split.shirt.train.json", R"(["S1", "S2"])");
  folder.write("image_splits/split.dress.test.json", R"(["B9"])");
  folder.write("images/B1.png", "x");
  folder.write("images/B2.png", "x");
  folder.write("images/B3.png", "x");
}

TEST(Edits, FashionIq) {
  const test::TestFolder folder;
  write_fashion_iq(folder);
  const Dataset all = read(folder, "");
  EXPECT_EQ(all.layout, "fashion_iq");
  EXPECT_EQ(all.kind(), "edit queries");
  EXPECT_EQ(all.size(), 4);
  EXPECT_EQ(all.split_sizes, (std::map<std::string, int64_t>{{"test", 1}, {"train", 1}, {"val", 2}}));

  const Dataset val = read(folder, "", "#split=val");
  EXPECT_THAT(ids(val), ElementsAre("dress.val/B1", "dress.val/B2", "dress.val/B3", "dress.val/B4"));
  const EditQuery& query = val.as<EditQueries>().items[0];
  EXPECT_EQ(query.id, "dress.val.0");
  EXPECT_EQ(query.kind, "dress");
  EXPECT_EQ(query.reference, "B1");
  EXPECT_THAT(query.texts, ElementsAre("is red", "has no sleeves"));
  EXPECT_THAT(query.targets, ElementsAre("B2"));
  // Names without an extension get the one of the files.
  EXPECT_EQ(val.as<EditQueries>().gallery[0].image.path, folder.path() / "images/B1.png");

  const Dataset one = read(folder, "captions/cap.dress.val.json");
  EXPECT_EQ(one.as<EditQueries>().items, val.as<EditQueries>().items);
  EXPECT_EQ(one.as<EditQueries>().gallery, val.as<EditQueries>().gallery);
  EXPECT_THAT(read(folder, "captions/cap.dress.test.json").as<EditQueries>().items[0].targets, IsEmpty());
}

TEST(Edits, FashionIqSaysWhatIsWrong) {
  const test::TestFolder folder;
  write_fashion_iq(folder);
  folder.write("captions/cap.dress.val.json",
               R"([{"target": "B2", "candidate": "B1", "captions": ["is red"]},
                   {"target": "B7", "candidate": "B1", "captions": ["is red"]}])");
  EXPECT_THAT(error_of(folder, ""),
              HasSubstr("cap.dress.val.json: record 2: \"B7\" is no image of the gallery "
                        "\"dress.val\""));
  folder.write("captions/cap.dress.val.json", R"([{"target": "B2", "candidate": "B1", "captions": []}])");
  EXPECT_THAT(error_of(folder, ""), HasSubstr("record 1: an edit query without a text"));
  folder.write("captions/cap.toptee.val.json", R"([{"candidate": "B1", "captions": ["a"]}])");
  EXPECT_THAT(error_of(folder, "captions/cap.toptee.val.json"),
              HasSubstr("split.toptee.val.json belongs to it"));
  folder.write("mine.json", R"([{"candidate": "B1", "captions": ["a"]}])");
  EXPECT_THAT(error_of(folder, "mine.json"), HasSubstr("cap.CATEGORY.SPLIT.json"));
  folder.write("image_splits/split.dress.test.json", R"(["B9", "B9"])");
  EXPECT_THAT(error_of(folder, "captions/cap.dress.test.json"),
              HasSubstr("\"B9\" is there twice in the gallery \"dress.test\""));
}

TEST(Edits, Cirr) {
  const test::TestFolder folder;
  folder.write(
      "cirr/captions/cap.rc2.val.json",
      R"([{"pairid": 12060, "reference": "dev-1", "target_hard": "dev-2", "target_soft": {"dev-2": 1.0, "dev-3": 0.5},
                    "caption": "show three bottles", "img_set": {"id": 36, "members": ["dev-3", "dev-2", "dev-1"],
                    "reference_rank": 2, "target_rank": 1}}])");
  folder.write(
      "cirr/captions/cap.rc2.test1.json",
      R"([{"pairid": 12063, "reference": "test1-1", "caption": "", "img_set": {"id": 1, "members": ["test1-1", "test1-2"]}}])");
  folder.write("cirr/image_splits/split.rc2.val.json",
               R"({"dev-1": "./dev/dev-1.png", "dev-2": "./dev/dev-2.png", "dev-3": "./dev/dev-3.png"})");
  folder.write("cirr/image_splits/split.rc2.test1.json",
               R"({"test1-1": "./test1/test1-1.png", "test1-2": "./test1/test1-2.png"})");
  folder.write("dev/dev-1.png", "x");
  const Dataset all = read(folder, "cirr");
  EXPECT_EQ(all.layout, "cirr");
  EXPECT_THAT(ids(all), ElementsAre("test1/test1-1", "test1/test1-2", "val/dev-1", "val/dev-2", "val/dev-3"));
  const Dataset val = read(folder, "cirr/captions/cap.rc2.val.json");
  ASSERT_EQ(val.as<EditQueries>().items.size(), 1U);
  const EditQuery& query = val.as<EditQueries>().items[0];
  EXPECT_EQ(query.id, "12060");
  EXPECT_EQ(query.split, "val");
  EXPECT_THAT(query.targets, ElementsAre("dev-2"));
  EXPECT_THAT(query.subset, ElementsAre("dev-3", "dev-2", "dev-1"));
  EXPECT_EQ(val.as<EditQueries>().gallery[0].image.path, folder.path() / "dev/dev-1.png");
  // An empty caption is kept, since the server requires an answer to every query.
  EXPECT_EQ(count_edits(read(folder, "cirr", "#split=test1").as<EditQueries>()).empty_texts, 1);
}

TEST(Edits, Circo) {
  const test::TestFolder folder;
  folder.write("annotations/val.json",
               R"([{"reference_img_id": 10, "target_img_id": 12, "relative_caption": "is held by a girl",
                    "shared_concept": "a teddy bear", "gt_img_ids": [12, 11], "id": 0, "semantic_aspects": ["viewpoint"]}])");
  folder.write(
      "annotations/test.json",
      R"([{"reference_img_id": 11, "relative_caption": "is red", "shared_concept": "a kite", "id": 0}])");
  EXPECT_THAT(error_of(folder, ""), HasSubstr("image_info_unlabeled2017.json"));
  folder.write(
      "COCO2017_unlabeled/annotations/image_info_unlabeled2017.json",
      R"({"info": {}, "images": [{"file_name": "000000000010.jpg", "id": 10}, {"file_name": "000000000011.jpg", "id": 11},
                   {"file_name": "000000000012.jpg", "id": 12}], "categories": []})");
  folder.write("COCO2017_unlabeled/unlabeled2017/000000000010.jpg", "x");
  const Dataset all = read(folder, "");
  EXPECT_EQ(all.layout, "circo");
  EXPECT_EQ(all.size(), 2);
  const Dataset val = read(folder, "annotations/val.json");
  const EditQuery& query = val.as<EditQueries>().items.at(0);
  EXPECT_EQ(query.id, "val.0");
  EXPECT_EQ(query.shared_concept, "a teddy bear");
  EXPECT_THAT(query.targets, ElementsAre("12", "11"));  // the one the text was written for first
  EXPECT_EQ(val.as<EditQueries>().gallery[0].image.path,
            folder.path() / "COCO2017_unlabeled/unlabeled2017/000000000010.jpg");
}

TEST(Edits, Pairs) {
  const test::TestFolder folder;
  folder.write(
      "pairs.jsonl",
      "{\"q_img\": \"a.jpg\", \"q_text\": [\"in red\", \"make it red\"], \"positive\": \"b.jpg\", \"hn_image\": "
      "[\"a.jpg\", \"c.jpg\"]}\n\n{\"q_img\": \"c.jpg\", \"q_text\": \"larger\", \"positive\": [\"a.jpg\"]}\n");
  const Dataset pairs = read(folder, "pairs.jsonl");
  EXPECT_EQ(pairs.layout, "edit_pairs");
  EXPECT_THAT(ids(pairs), ElementsAre("/a.jpg", "/b.jpg", "/c.jpg"));
  EXPECT_THAT(pairs.as<EditQueries>().items[0].texts, ElementsAre("in red"));
  EXPECT_THAT(pairs.as<EditQueries>().items[0].paraphrases, ElementsAre("make it red"));
  EXPECT_THAT(pairs.as<EditQueries>().items[0].negatives, ElementsAre("a.jpg", "c.jpg"));
  EXPECT_EQ(pairs.as<EditQueries>().items[1].id, "line 3");
  folder.write("bad.jsonl",
               "{\"q_img\": \"a.jpg\", \"q_text\": \"x\", \"positive\": \"b\"}\n{\"q_img\": \"a.jpg\"}\n");
  EXPECT_THAT(error_of(folder, "bad.jsonl"), HasSubstr("line 2: \"q_text\" is empty"));
  folder.write("empty.jsonl", "{\"q_img\": \"a.jpg\", \"q_text\": \"x\", \"positive\": \"\"}\n");
  EXPECT_THAT(error_of(folder, "empty.jsonl"), HasSubstr("line 1: an image without a name"));
}

TEST(Edits, Manifest) {
  const test::TestFolder folder;
  folder.write(
      "edits.jsonl",
      "{\"gallery_image\": \"1.png\", \"id\": \"bell\", \"gallery\": \"icons\"}\n"
      "{\"gallery_image\": {\"path\": \"s.tar\", \"member\": \"2.png\", \"offset\": 512, \"size\": 9}, \"id\": \"bell-off\", "
      "\"gallery\": \"icons\"}\n"
      "{\"reference\": \"bell\", \"texts\": \"crossed out\", \"paraphrases\": [\"with a line through it\"], \"targets\": "
      "[\"bell-off\"], \"negatives\": [\"bell\"], \"subset\": [\"bell\", \"bell-off\"], \"shared_concept\": \"a bell\", "
      "\"kind\": \"off\", \"gallery\": \"icons\", \"group\": \"g\", \"split\": \"test\", \"id\": \"q\"}\n");
  const Dataset dataset = read(folder, "edits.jsonl");
  ASSERT_EQ(dataset.as<EditQueries>().items.size(), 1U);
  EXPECT_EQ(dataset.as<EditQueries>().items[0].shared_concept, "a bell");
  EXPECT_EQ(dataset.as<EditQueries>().gallery[1].image.member, "2.png");
  const EditCounts counts = count_edits(dataset.as<EditQueries>());
  EXPECT_EQ(counts.paraphrased + counts.with_concept + counts.with_negatives + counts.with_subset, 4);
  EXPECT_EQ(dataset_info_json(dataset)["edits"]["galleries"]["icons"], 2);

  // As earlier versions wrote the images of a gallery.
  folder.write("earlier.jsonl",
               "{\"picture\": \"1.png\", \"id\": \"bell\"}\n"
               "{\"reference\": \"bell\", \"texts\": [\"red\"], \"targets\": [\"bell\"]}\n");
  EXPECT_EQ(read(folder, "earlier.jsonl").as<EditQueries>().gallery[0].image.path, folder.path() / "1.png");

  // Without lines of images, names are paths and the gallery has every named image.
  folder.write("short.jsonl", R"({"reference": "a/1.png", "texts": ["red"], "targets": ["a/2.png"]})");
  const Dataset brief = read(folder, "short.jsonl");
  EXPECT_THAT(ids(brief), ElementsAre("/a/1.png", "/a/2.png"));
  EXPECT_EQ(brief.as<EditQueries>().gallery[1].image.path, folder.path() / "a/2.png");
  EXPECT_EQ(brief.as<EditQueries>().items[0].id, "line 1");
}

TEST(Edits, ManifestErrorsHaveTheirLine) {
  const test::TestFolder folder;
  const std::string picture = "{\"gallery_image\": \"1.png\", \"id\": \"a\"}\n";
  const auto refused = [&](const std::string& lines, const std::string& message) {
    folder.write("m.jsonl", picture + lines);
    EXPECT_THAT(error_of(folder, "m.jsonl"), HasSubstr(message));
  };
  refused("{\"reference\": \"b\", \"texts\": [\"x\"]}", "line 2: \"b\" is no image of the gallery");
  refused("\n{\"reference\": \"a\", \"texts\": []}", "line 3: \"texts\" is empty");
  refused("{\"reference\": \"a\", \"texts\": [1]}", "line 2: \"texts\" is a number");
  refused("{\"reference\": \"a\", \"texts\": [\"x\"], \"targets\": [\"c\"]}", "line 2: \"c\" is no image");
  refused("{\"reference\": 1, \"texts\": [\"x\"]}", "line 2: \"reference\" is a number");
  refused(picture, "line 2: a second image with id \"a\"");
  refused(
      "{\"reference\": \"a\", \"texts\": [\"x\"], \"id\": \"q\"}\n{\"reference\": \"a\", \"texts\": [\"y\"], \"id\": \"q\"}",
      "line 3: a second item with id \"q\"");
  refused("{\"image\": \"1.png\", \"captions\": []}",
          "line 2: \"image\", \"images\", \"visual\" and \"reference\"");
  refused("", "nothing in it");
}

TEST(Edits, MissingPicturesTakeTheirQueriesAlong) {
  const test::TestFolder folder;
  write_fashion_iq(folder);
  const Dataset dataset = read(folder, "", "#split=val,missing=skip");
  EXPECT_THAT(ids(dataset), ElementsAre("dress.val/B1", "dress.val/B2", "dress.val/B3"));
  EXPECT_EQ(dataset.as<EditQueries>().items.size(), 2U);
  std::filesystem::remove(folder.path() / "images/B2.png");
  const Dataset fewer = read(folder, "", "#split=val,missing=skip");
  ASSERT_EQ(fewer.as<EditQueries>().items.size(), 1U);
  EXPECT_EQ(fewer.as<EditQueries>().items[0].id, "dress.val.1");
  ASSERT_EQ(fewer.excluded.size(), 2U);
  EXPECT_EQ(fewer.excluded[0].reason, "images of galleries that are not there");
  EXPECT_EQ(fewer.excluded[0].count, 2);
  EXPECT_EQ(fewer.excluded[1].reason, "edit queries with an image that is not there");
}

TEST(Edits, Audit) {
  const test::TestFolder folder;
  const auto picture = [&](const std::string& name, uint8_t grey) {
    const Image image{.width = 8,
                      .height = 8,
                      .channels = 3,
                      .mode = PixelMode::kRgb,
                      .pixels = std::vector<uint8_t>(192, grey)};
    const auto png = encode_png(image);
    ASSERT_TRUE(png);
    folder.write(name, *png);
  };
  picture("a.png", 10);
  picture("b.png", 120);
  picture("copy of b.png", 120);
  picture("c.png", 250);
  folder.write(
      "m.jsonl",
      "{\"reference\": \"a.png\", \"texts\": [\"In red!\"], \"targets\": [\"b.png\"], \"split\": \"train\"}\n"
      "{\"reference\": \"a.png\", \"texts\": [\"in red\"], \"targets\": [\"c.png\"], \"split\": \"test\"}\n"
      "{\"reference\": \"c.png\", \"texts\": [\"smaller\"], \"targets\": [\"copy of b.png\"], \"split\": \"test\"}\n"
      "{\"reference\": \"b.png\", \"texts\": [\" \"], \"targets\": [\"copy of b.png\", \"a.png\"], \"split\": \"train\"}\n"
      "{\"reference\": \"gone.png\", \"texts\": [\"what\"], \"split\": \"test\"}\n");
  const auto dataset = read_dataset(folder.path() / "m.jsonl");
  ASSERT_TRUE(dataset) << dataset.error().message;
  ThreadPool pool(1);
  const auto report = audit_datasets({&*dataset, 1}, {}, pool, {}, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->items, 5);
  EXPECT_EQ(report->images, 5);
  EXPECT_EQ(report->missing.size(), 1U);
  EXPECT_EQ(report->edits.queries, 5);
  // Compared by bytes, the copy is the reference itself, and an image of the training split.
  EXPECT_EQ(report->edits.reference_is_target, 1);
  EXPECT_EQ(report->edits.targets_seen, 1);
  EXPECT_EQ(report->edits.same_query_other_targets, 2);
  EXPECT_EQ(report->edits.without_target, 1);
  EXPECT_EQ(report->edits.empty_texts, 1);
  EXPECT_THAT(report->edits.examples,
              ElementsAre("line 3: a target is shown in training",
                          "line 4: its reference is among its targets", "line 4: its texts are empty"));
  EXPECT_EQ(audit_json(*report)["edits"]["targets_seen_in_training"], 1);
}

}  // namespace
}  // namespace saccade::lab
