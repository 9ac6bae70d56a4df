// Tests of each published layout in a small folder of its own, and of invalid files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/dataset.h"
#include "lab/data/read_dataset.h"
#include "lab/data/test_read.h"
#include "lab/data/test_tar.h"
#include "saccade/core/test_folder.h"
#include "saccade/core/thread_seconds.h"

namespace saccade::lab {
namespace {

using test::error_of;
using test::excluded;
using test::read;
using testing::ElementsAre;
using testing::HasSubstr;

// Returns an item as "id path-from-folder split: captions".
std::string shown(const test::TestFolder& folder, const DatasetItem& item) {
  std::string text = item.id + " " + item.image.path.lexically_relative(folder.path()).string();
  if (item.image.in_archive()) text += ":" + item.image.member;
  text += " " + item.split + ":";
  for (const std::string& caption : item.captions) text += " [" + caption + "]";
  return text;
}

std::vector<std::string> shown(const test::TestFolder& folder, const Dataset& dataset) {
  std::vector<std::string> all;
  for (const DatasetItem& item : dataset.as<CaptionedImages>().items) all.push_back(shown(folder, item));
  return all;
}

TEST(Layouts, Karpathy) {
  const test::TestFolder folder;
  folder.write("images/val2014/b.jpg", "x");
  folder.write("dataset.json", R"({"images": [
    {"filepath": "val2014", "filename": "a.jpg", "split": "restval", "cocoid": 1, "sentences": [{"raw": "one", "tokens": ["one"]}, {"raw": " "}]},
    {"filepath": "val2014", "filename": "b.jpg", "split": "test", "sentences": [{"raw": "two"}, {"raw": "two"}]},
    {"filename": "c.jpg", "split": "test", "sentences": []}], "dataset": "coco"})");
  for (const char* path : {"dataset.json", ""}) {
    const Dataset dataset = read(folder, path);
    EXPECT_EQ(dataset.layout, "karpathy");
    EXPECT_THAT(shown(folder, dataset), ElementsAre("val2014/a.jpg images/val2014/a.jpg restval: [one]",
                                                    "val2014/b.jpg images/val2014/b.jpg test: [two] [two]"));
    EXPECT_THAT(excluded(dataset),
                ElementsAre("1 empty captions (val2014/a.jpg)", "1 images without captions (c.jpg)"));
  }
  EXPECT_EQ(read(folder, "dataset.json", "#split=test").as<CaptionedImages>().items.size(), 1U);
  EXPECT_EQ(read(folder, "dataset.json", "#images=/elsewhere").as<CaptionedImages>().items[0].image.path,
            "/elsewhere/val2014/a.jpg");
  folder.write(
      "bad.json",
      R"({"images": [{"filename": "a", "sentences": [{"raw": "x"}]}, {"filename": "b", "sentences": [{"tokens": []}]}]})");
  EXPECT_THAT(error_of(folder, "bad.json"), HasSubstr("\"images\": record 2: \"raw\" is missing"));
  folder.write(
      "twice.json",
      R"({"images": [{"filename": "a", "sentences": [{"raw": "x"}]}, {"filename": "a", "sentences": [{"raw": "y"}]}]})");
  EXPECT_THAT(error_of(folder, "twice.json"), HasSubstr("a second item with id \"a\""));
  folder.write("cut.json", R"({"images": [{"filename": "a", "sentences": [{"raw": "x"}]}, {"file)");
  EXPECT_THAT(error_of(folder, "cut.json", "#format=karpathy"), HasSubstr("not JSON"));
  EXPECT_THAT(error_of(folder, ""), HasSubstr("several files of records in this folder"));
}

TEST(Layouts, CocoCaptions) {
  const test::TestFolder folder;
  folder.write("val2017/1.jpg", "x");
  folder.write("annotations/captions_val2017.json", R"({"info": {}, "licenses": [],
    "images": [{"id": 1, "file_name": "1.jpg"}, {"id": 2, "file_name": "2.jpg"}],
    "annotations": [{"image_id": 1, "id": 5, "caption": "a"}, {"image_id": 1, "id": 6, "caption": "b"}]})");
  const Dataset dataset = read(folder, "annotations/captions_val2017.json");
  EXPECT_EQ(dataset.layout, "coco");
  EXPECT_EQ(dataset.as<CaptionedImages>().items[0].image.path.lexically_normal(),
            folder.path() / "val2017/1.jpg");
  EXPECT_THAT(dataset.as<CaptionedImages>().items[0].captions, ElementsAre("a", "b"));
  EXPECT_THAT(excluded(dataset), ElementsAre("1 images without captions (2.jpg)"));
  folder.write(
      "bad.json",
      R"({"images": [{"id": 1, "file_name": "1.jpg"}], "annotations": [{"image_id": 3, "caption": "a"}]})");
  EXPECT_THAT(error_of(folder, "bad.json"),
              HasSubstr("\"annotations\": record 1: its \"image_id\" 3 is the id of no image"));
  folder.write(
      "twice.json",
      R"({"images": [{"id": 1, "file_name": "1.jpg"}, {"id": 1, "file_name": "2.jpg"}], "annotations": [{"caption": ""}]})");
  EXPECT_THAT(error_of(folder, "twice.json"), HasSubstr("a second image with id 1"));
}

// The ids all fall into one bucket of libstdc++'s hash table, which uses an integer as its own hash. They
// must cost no more than others; in such a table they would take minutes.
TEST(Layouts, CocoIdsMayBeHostile) {
  constexpr int64_t kImages = 170'000;
  std::unordered_map<int64_t, int64_t> table;
  for (int64_t i = 0; i < kImages; ++i) table.emplace(i, i);
  const auto buckets = static_cast<int64_t>(table.bucket_count());
  const test::TestFolder folder;
  folder.write("0.jpg", "x");
  const auto seconds_with = [&](int64_t step) {
    std::string json = R"({"annotations": [{"image_id": 0, "caption": "a"}], "images": [)";
    for (int64_t i = 0; i < kImages; ++i) {
      json += fmt::format("{}{{\"id\": {}, \"file_name\": \"{}.jpg\"}}", i == 0 ? "" : ",", i * step, i);
    }
    folder.write("images.json", json + "]}");
    const double begun = thread_seconds();
    EXPECT_EQ(read(folder, "images.json").as<CaptionedImages>().items.size(), 1U);
    return thread_seconds() - begun;
  };
  EXPECT_LT(seconds_with(buckets), 5 * seconds_with(1) + 0.1);
}

TEST(Layouts, FlickrToken) {
  const test::TestFolder folder;
  folder.write("Flicker8k_Dataset/1.jpg", "x");
  folder.write("Flickr8k.token.txt", "1.jpg#0\tA dog .\n1.jpg#1\tA hound .\n2.jpg#0\tA cat .\n");
  EXPECT_THAT(shown(folder, read(folder, "Flickr8k.token.txt")),
              ElementsAre("1.jpg Flicker8k_Dataset/1.jpg : [A dog .] [A hound .]",
                          "2.jpg Flicker8k_Dataset/2.jpg : [A cat .]"));
  folder.write("bad/bad.token", "1.jpg#0\tA dog .\n1.jpg\tA hound .\n");
  EXPECT_THAT(error_of(folder, "bad/bad.token"), HasSubstr("line 2: not NAME#NUMBER"));
  folder.write("Flickr_8k.trainImages.txt", "1.jpg\n");
  folder.write("Flickr_8k.testImages.txt", "2.jpg\n3.jpg\n");
  const Dataset dataset = read(folder, "");
  EXPECT_EQ(dataset.layout, "flickr_token");
  EXPECT_EQ(dataset.split_sizes, (std::map<std::string, int64_t>{{"test", 1}, {"train", 1}}));
  EXPECT_THAT(excluded(dataset), ElementsAre("1 images of a split's list without captions (3.jpg)"));
  folder.write("Flickr_8k.devImages.txt", "1.jpg\n");
  EXPECT_THAT(error_of(folder, ""), HasSubstr("1.jpg was in split \"train\" already"));
}

TEST(Layouts, Tables) {
  const test::TestFolder folder;
  folder.write("images/1.jpg", "x");
  folder.write("a.csv",
               "image_id,caption_num,caption\n1.jpg,0,\"A dog, here .\"\n2.jpg,0,A cat "
               ".\n1.jpg,1,\"[\"\"x\"\", \"\"y\"\"]\"\n3.jpg,0,\n");
  const Dataset dataset = read(folder, "a.csv");
  EXPECT_EQ(dataset.layout, "table");
  EXPECT_THAT(shown(folder, dataset),
              ElementsAre("1.jpg images/1.jpg : [A dog, here .] [x] [y]", "2.jpg images/2.jpg : [A cat .]"));
  EXPECT_THAT(excluded(dataset),
              ElementsAre("1 empty captions (3.jpg)", "1 images without captions (3.jpg)"));
  // Flickr30k's table: bars, spaces, and a row without its second bar.
  folder.write("results.csv",
               "image_name| comment_number| comment\n1.jpg| 0| Two \"men\n1.jpg| 4   A dog .\n");
  const Dataset bars = read(folder, "results.csv");
  EXPECT_THAT(shown(folder, bars), ElementsAre("1.jpg images/1.jpg : [Two \"men]"));
  EXPECT_THAT(excluded(bars), ElementsAre("1 rows with a field too few or too many (line 3)"));
  folder.write("b.tsv", "Where\tWords\tpart\tshow\n1\tA dog\ttrain\tp\n");
  EXPECT_THAT(
      error_of(folder, "b.tsv"),
      HasSubstr("no image column is known among Where, Words, part, show; name it with image-column=NAME"));
  EXPECT_THAT(error_of(folder, "b.tsv", "#image-column=Nope"),
              HasSubstr("no column \"Nope\"; there are Where"));
  const Dataset named =
      read(folder, "b.tsv", "#image-column=Where,caption-column=Words,split-column=part,group-column=show");
  EXPECT_THAT(shown(folder, named), ElementsAre("1 images/1.jpg train: [A dog]"));
  EXPECT_EQ(named.as<CaptionedImages>().items[0].group, "p");
  folder.write("short.csv", "image,caption\n1.jpg,a\n2.jpg\n");
  EXPECT_THAT(error_of(folder, "short.csv"), HasSubstr("line 3: 1 fields, the header has 2"));
  folder.write("latin.csv", "image,caption\n1.jpg,caf\xe9\n");
  EXPECT_THAT(error_of(folder, "latin.csv"), HasSubstr("line 2: the caption is not UTF-8"));
  folder.write("none.csv", "image,caption\n,a\n");
  EXPECT_THAT(error_of(folder, "none.csv"), HasSubstr("line 2: no image named"));
  folder.write("twice.csv", "image,caption,caption\n1.jpg,a,b\n");
  EXPECT_THAT(error_of(folder, "twice.csv"),
              HasSubstr("several columns are called \"caption\", and one of them is the caption column"));
  folder.write("groups.csv", "image,caption,show\n1.jpg,a,p\n1.jpg,b,q\n");
  EXPECT_EQ(read(folder, "groups.csv").as<CaptionedImages>().items[0].captions.size(), 2U);
  EXPECT_THAT(error_of(folder, "groups.csv", "#group-column=show"),
              HasSubstr("line 3: \"1.jpg\" is of group \"q\" here and \"p\" before"));
  folder.write("blank.csv", "image,caption,show\n1.jpg,a,\n1.jpg,b,p\n1.jpg,c,\n");
  EXPECT_EQ(read(folder, "blank.csv", "#group-column=show").as<CaptionedImages>().items[0].group, "p");
  folder.write("splits.csv", "image,caption,split\n1.jpg,a,train\n1.jpg,b,test\n");
  EXPECT_THAT(error_of(folder, "splits.csv"),
              HasSubstr("line 3: \"1.jpg\" is of split \"test\" here and \"train\" before"));
}

TEST(Layouts, Roco) {
  const test::TestFolder folder;
  const std::string test = "clone/data/test/radiology/";
  folder.write(test + "captions.txt",
               "ROCO_00001\t Axial MRI, \"coronal\" view.\r\nROCO_00006\t A scan.\nROCO_00016\t\n");
  folder.write(test + "keywords.txt", "ROCO_00001\tmri\n");
  folder.write(test + "licences.txt",
               "ROCO_ID,PMC_ID,CC\nROCO_00001,PMC46_a-g01.jpg,CC BY-NC\nROCO_00006,PMC48_b-g02.jpg,CC0\n");
  folder.write(test + "images/ROCO_00001.jpg", "x");
  folder.write(test + "images/PMC46_a-g01.jpg", "x");
  folder.write(test + "images/PMC48_b-g02.jpg", "x");  // by an earlier version of the script
  folder.write("clone/data/test/non-radiology/captions.txt", "ROCO_81827\t An electron micrograph.\n");
  folder.write("clone/data/train/radiology/captions.txt", "ROCO_00002\t Ultrasound.\n");
  const Dataset all = read(folder, "clone");
  EXPECT_EQ(all.layout, "roco");
  EXPECT_THAT(shown(folder, all),
              ElementsAre("ROCO_00002 clone/data/train/radiology/images/ROCO_00002.jpg train: [Ultrasound.]",
                          "ROCO_00001 " + test + "images/ROCO_00001.jpg test: [Axial MRI, \"coronal\" view.]",
                          "ROCO_00006 " + test + "images/PMC48_b-g02.jpg test: [A scan.]"));
  EXPECT_EQ(all.as<CaptionedImages>().items[1].licence, "CC BY-NC");
  EXPECT_EQ(all.files.size(), 3U);
  EXPECT_THAT(excluded(all),
              ElementsAre("1 empty captions (ROCO_00016)", "1 images without captions (ROCO_00016)"));
  EXPECT_EQ(read(folder, "clone/data").hash, all.hash);
  const Dataset part = read(folder, "clone", "#split=test");
  for (const char* path :
       {"clone/data/test", "clone/data/test/radiology", "clone/data/test/radiology/captions.txt"}) {
    const Dataset same = read(folder, path);
    EXPECT_EQ(same.layout, "roco") << path;
    EXPECT_TRUE(same.content == part.content) << path;
  }
  const auto dot = read_dataset(folder.path() / "clone/data/test/radiology/.");
  ASSERT_TRUE(dot);
  EXPECT_EQ(dot->split_sizes, (std::map<std::string, int64_t>{{"test", 2}}));
  const Dataset there = read(folder, "clone", "#missing=skip");
  EXPECT_EQ(there.size(), 2);
  EXPECT_THAT(excluded(there), testing::Contains("1 image files that are not there (ROCO_00002)"));
  EXPECT_THAT(shown(folder, read(folder, "clone/data/test/non-radiology")),
              ElementsAre("ROCO_81827 clone/data/test/non-radiology/images/ROCO_81827.jpg test: [An electron "
                          "micrograph.]"));
  EXPECT_EQ(read(folder, "clone", "#images=/elsewhere").as<CaptionedImages>().items[0].image.path,
            "/elsewhere/ROCO_00002.jpg");
  EXPECT_THAT(error_of(folder, test + "keywords.txt"), HasSubstr("fits no dataset layout"));
  folder.write(test + "licences.txt", "ROCO_ID,PMC_ID,CC\nROCO_00001,../a.jpg,CC0\n");
  EXPECT_THAT(error_of(folder, "clone"), HasSubstr("test: licences.txt: line 2: its PMC_ID is no file name"));
  folder.write(test + "licences.txt", "ROCO_ID,PMC_ID,CC\nROCO_00001,a.jpg\n");
  EXPECT_THAT(error_of(folder, "clone"),
              HasSubstr("licences.txt: line 2: 2 fields, expected ROCO_ID,PMC_ID,CC"));
  folder.write("clone/data/train/radiology/captions.txt", "ROCO_00002\t Ultrasound.\nROCO_3 no tab\n");
  EXPECT_THAT(error_of(folder, "clone"),
              HasSubstr("train: captions.txt: line 2: not ROCO_NUMBER, a tab and a caption"));
  folder.write("clone/data/train/radiology/captions.txt", "ROCO_00002\tcaf\xe9\n");
  EXPECT_THAT(error_of(folder, "clone"), HasSubstr("captions.txt: line 1: the caption is not UTF-8"));
  folder.write("clone/data/train/radiology/captions.txt", "ROCO_00002\ta\nROCO_00002\tb\n");
  EXPECT_THAT(error_of(folder, "clone/data/train"), HasSubstr("a second item with id \"ROCO_00002\""));
}

// Windows' editors write a byte order mark and \r\n. Neither is part of a name or a caption.
TEST(Layouts, AByteOrderMarkIsNoPartOfARecord) {
  const std::string mark = "\xef\xbb\xbf";
  const test::TestFolder folder;
  folder.write("t.token", mark + "1.jpg#0\tA dog .\r\n1.jpg#1\tA hound .\r\n");
  EXPECT_THAT(shown(folder, read(folder, "t.token")), ElementsAre("1.jpg 1.jpg : [A dog .] [A hound .]"));
  folder.write("clone/data/train/radiology/captions.txt", mark + "ROCO_00002\tA scan.\r\n");
  EXPECT_THAT(shown(folder, read(folder, "clone")),
              ElementsAre("ROCO_00002 clone/data/train/radiology/images/ROCO_00002.jpg train: [A scan.]"));
  folder.write("beside/1.jpg", "x");
  folder.write("beside/1.txt", mark + "One.\r\n\r\n\v\r\nTwo.\r\n");
  EXPECT_THAT(shown(folder, read(folder, "beside")), ElementsAre("1.jpg beside/1.jpg : [One.] [Two.]"));
  folder.write("Urban1k/image/1.jpg", "x");
  folder.write("Urban1k/caption/1.txt", mark + "A street.");
  EXPECT_THAT(shown(folder, read(folder, "Urban1k")), ElementsAre("1 Urban1k/image/1.jpg : [A street.]"));
}

TEST(Layouts, RocoCsvAndFactify) {
  const test::TestFolder folder;
  folder.write("all_data/train/radiology/images/P1.jpg", "x");
  folder.write("all_data/train/radiologytraindata.csv", "id,name,caption\nROCO_1,P1.jpg,\" A scan\n\"\n");
  folder.write("all_data/train/non-radiologytraindata.csv", "id,name,caption\nROCO_3,P3.jpg,no\n");
  folder.write("all_data/test/radiologytestdata.csv", "id,name,caption\nROCO_2,P2.jpg,Another\n");
  const Dataset roco = read(folder, "all_data");
  EXPECT_EQ(roco.layout, "roco_csv");
  EXPECT_THAT(shown(folder, roco),
              ElementsAre("ROCO_1 all_data/train/radiology/images/P1.jpg train: [A scan]",
                          "ROCO_2 all_data/test/P2.jpg test: [Another]"));
  EXPECT_EQ(read(folder, "all_data/train/radiologytraindata.csv").as<CaptionedImages>().items[0].split,
            "train");

  folder.write("images/d1.jpg", "x");
  folder.write("factify.csv",
               "Id,claim,claim_image,document,document_image,Category\n0,c,c1.jpg,\"A "
               "long\ndocument\",d1.jpg,Refute\n1,c,c2.jpg,D,https://example.org/d2.jpg,Refute\n");
  const Dataset documents = read(folder, "factify.csv");
  EXPECT_EQ(documents.layout, "factify");
  EXPECT_THAT(shown(folder, documents), ElementsAre("d1.jpg images/d1.jpg : [A long\ndocument]"));
  EXPECT_THAT(excluded(documents),
              ElementsAre("1 images that are web addresses, not files (https://example.org/d2.jpg)"));
  EXPECT_EQ(read(folder, "factify.csv", "#image-column=claim_image,caption-column=claim")
                .as<CaptionedImages>()
                .items.size(),
            2U);
  folder.write(
      "addresses.csv",
      "Id,claim,claim_image,document,document_image\n0,c,https://example.org/c,D,http://example.org/d\n");
  EXPECT_THAT(error_of(folder, "addresses.csv"),
              testing::EndsWith(
                  "nothing in it; left out: images that are web addresses, not files: 1; download them into "
                  "FOLDER, and pass it as the dataset: saccade-lab dataset fetch " +
                  (folder.path() / "addresses.csv").string() + " -o FOLDER"));
  EXPECT_THAT(error_of(folder, "addresses.csv", "#image-column=claim_image,caption-column=claim"),
              testing::EndsWith(" -o FOLDER --url-column claim_image --caption-column claim"));
}

TEST(Layouts, RecordsAndShareGpt4v) {
  const test::TestFolder folder;
  folder.write("data/coco/1.jpg", "x");
  folder.write(
      "share.json",
      R"([{"id": "1", "image": "coco/1.jpg", "conversations": [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A long text."}]},
    {"id": "2", "conversations": [{"from": "gpt", "value": "No image."}]}])");
  const Dataset share = read(folder, "share.json");
  EXPECT_EQ(share.layout, "sharegpt4v");
  EXPECT_THAT(shown(folder, share), ElementsAre("coco/1.jpg data/coco/1.jpg : [A long text.]"));
  EXPECT_THAT(excluded(share), ElementsAre("1 records without an image (record 2)"));
  folder.write("bad.json", R"([{"image": "1.jpg", "conversations": [{"from": "human", "value": "x"}]}])");
  EXPECT_THAT(error_of(folder, "bad.json"),
              HasSubstr("record 1: \"conversations\" has nothing from \"gpt\""));
  folder.write(
      "karpathy_test.json",
      R"([{"image": "1.jpg", "caption": ["a", "b"]}, {"image": "2.jpg", "caption": "c"}, {"image": "1.jpg", "caption": "d"}])");
  const Dataset records = read(folder, "karpathy_test.json");
  EXPECT_EQ(records.layout, "records");
  EXPECT_THAT(records.as<CaptionedImages>().items[0].captions, ElementsAre("a", "b", "d"));
}

TEST(Layouts, Compositions) {
  const test::TestFolder folder;
  folder.write("images/ex_0_img_0.png", "x");
  folder.write(
      "data/examples.jsonl",
      R"({"id": 0, "caption_0": "some plants", "caption_1": "plants some", "image_0": "ex_0_img_0", "image_1": "ex_0_img_1", "collapsed_tag": "Object"})"
      "\n");
  const Dataset winoground =
      read(folder, "data/examples.jsonl", "#images=" + (folder.path() / "images").string());
  EXPECT_EQ(winoground.layout, "winoground");
  ASSERT_EQ(winoground.as<CompositionTests>().items.size(), 1U);
  const CompositionItem& item = winoground.as<CompositionTests>().items[0];
  EXPECT_EQ(item.images[1].path, folder.path() / "images/ex_0_img_1.png");
  EXPECT_THAT(item.captions, ElementsAre("some plants", "plants some"));
  EXPECT_EQ(item.kind, "Object");
  folder.write("bad.jsonl", R"({"id": 0, "caption_0": "a", "caption_1": "b", "image_0": "x", "image_1": "y"}
{"id": 1, "caption_0": "a", "image_0": "x", "image_1": "y"})");
  EXPECT_THAT(error_of(folder, "bad.jsonl"), HasSubstr("line 2: \"caption_1\" is missing"));

  folder.write("sugar/val2017/1.jpg", "x");
  folder.write("sugar/data/add_att.json",
               R"({"0": {"filename": "1.jpg", "caption": "a", "negative_caption": "b"}})");
  folder.write(
      "sugar/data/swap_obj.json",
      R"({"0": {"filename": "1.jpg", "caption": "c", "negative_caption": "d"}, "7": {"filename": "2.jpg", "caption": "e", "negative_caption": "f"}})");
  for (const char* path : {"sugar", "sugar/data"}) {
    const Dataset sugar = read(folder, path);
    EXPECT_EQ(sugar.layout, "sugar_crepe");
    ASSERT_EQ(sugar.as<CompositionTests>().items.size(), 3U);
    EXPECT_EQ(sugar.as<CompositionTests>().items[2].id, "swap_obj/7");
    EXPECT_EQ(sugar.as<CompositionTests>().items[2].kind, "swap_obj");
    EXPECT_EQ(sugar.as<CompositionTests>().items[0].images[0].path.lexically_normal(),
              folder.path() / "sugar/val2017/1.jpg");
    EXPECT_EQ(sugar.files.size(), 2U);
  }
}

TEST(Layouts, WebDataset) {
  const test::TestFolder folder;
  const std::string first = tar_member("s0.txt", "a dog\n\na hound\n") + tar_member("s0.jpg", "JPEG0") +
                            tar_member("s1.webp", "WEBP1") + tar_member("s2.txt", "alone") +
                            tar_member("s3.json", "{\"caption\": \"from json\", \"width\": 3}") +
                            tar_member("s3.png", "PNG3") + tar_member("._s3.png", "mac") + tar_end();
  folder.write("wds/test/0.tar", first);
  folder.write("wds/test/1.tar", tar_member("s0.cls", "1\n") + tar_member("s0.jpg", "JPEG4") + tar_end());
  folder.write("wds/test/nshards.txt", "2\n");
  folder.write("wds/train/0.tar", tar_member("x.jpg", "X") + tar_member("x.txt", "y") + tar_end());
  folder.write("wds/classnames.txt", "cat\ndog\n");
  const Dataset dataset = read(folder, "wds");
  EXPECT_EQ(dataset.layout, "webdataset");
  EXPECT_THAT(shown(folder, dataset), ElementsAre("test/0/s0 wds/test/0.tar:s0.jpg test: [a dog] [a hound]",
                                                  "test/0/s3 wds/test/0.tar:s3.png test: [from json]",
                                                  "test/1/s0 wds/test/1.tar:s0.jpg test: [dog]",
                                                  "train/0/x wds/train/0.tar:x.jpg train: [y]"));
  EXPECT_THAT(excluded(dataset), ElementsAre("1 captions without an image (test/0/s2)",
                                             "1 images without captions (test/0/s1)"));
  EXPECT_EQ(read_image_bytes(dataset.as<CaptionedImages>().items[1].image).value(), "PNG3");
  EXPECT_EQ(read(folder, "wds/train/0.tar").as<CaptionedImages>().items[0].id, "x");
  folder.write("wds/test/nshards.txt", "3\n");
  EXPECT_THAT(error_of(folder, "wds"), HasSubstr("test: nshards.txt says 3 shards, 2 are there"));
  folder.write("cut.tar", first.substr(0, 2000));
  EXPECT_THAT(error_of(folder, "cut.tar"), HasSubstr("cut.tar: tar, byte"));
  folder.write("two.tar", tar_member("a.jpg", "1") + tar_member("a.png", "2") + tar_end());
  EXPECT_THAT(error_of(folder, "two.tar"), HasSubstr("sample \"a\" has two images"));
  folder.write("class/0.tar", tar_member("a.jpg", "1") + tar_member("a.cls", "2") + tar_end());
  folder.write("class/classnames.txt", "cat\n");
  EXPECT_THAT(error_of(folder, "class"), HasSubstr("class 2, classnames.txt has 1"));
}

TEST(Layouts, FoldersAndUrban1k) {
  const test::TestFolder folder;
  folder.write("pictures/train/10.jpg", "x");
  folder.write("pictures/train/10.txt", "ten\n\n zehn \n");
  folder.write("pictures/train/9.jpg", "x");
  folder.write("pictures/train/9.jpg.txt", "nine");
  folder.write("pictures/2.png", "x");
  folder.write("pictures/notes/readme.txt", "hello");
  folder.write("pictures/.hidden/1.jpg", "x");
  const Dataset dataset = read(folder, "pictures");
  EXPECT_EQ(dataset.layout, "folder");
  EXPECT_THAT(shown(folder, dataset), ElementsAre("train/9.jpg pictures/train/9.jpg train: [nine]",
                                                  "train/10.jpg pictures/train/10.jpg train: [ten] [zehn]"));
  EXPECT_THAT(excluded(dataset), ElementsAre("1 text files without an image (notes/readme.txt)",
                                             "1 images without captions (2.png)"));
  folder.write("latin/a.jpg", "x");
  folder.write("latin/a.txt", "caf\xe9");
  EXPECT_THAT(error_of(folder, "latin"), HasSubstr("a.txt: its text is not UTF-8"));

  folder.write("Urban1k/image/1.jpg", "x");
  folder.write("Urban1k/image/2.jpg", "x");
  folder.write("Urban1k/caption/1.txt", "A street.\nWith people.\n");
  folder.write("Urban1k/caption/3.txt", "Nothing.");
  const Dataset urban = read(folder, "Urban1k");
  EXPECT_EQ(urban.layout, "urban1k");
  EXPECT_THAT(shown(folder, urban), ElementsAre("1 Urban1k/image/1.jpg : [A street.\nWith people.]"));
  EXPECT_THAT(excluded(urban),
              ElementsAre("1 text files without an image (3.txt)", "1 images without captions (2)"));
}

}  // namespace
}  // namespace saccade::lab
