#include "saccade/collection/duplicates.h"

#include <array>
#include <cstdlib>

#include <gmock/gmock.h>

#include "saccade/collection/file_state.h"
#include "saccade/collection/test_support.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

namespace fs = std::filesystem;

class Duplicates : public testing::Test {
 protected:
  // A picture with that content (`seed`: bytes and row), hash of its look, and time.
  CollectionChange::Put& add(const std::string& path, int seed, uint64_t look,
                             std::optional<int64_t> taken = {}) {
    auto put = test::put_of(path, seed);
    put.facts.emplace();
    put.facts->look = look;
    put.facts->grain = 0.9;  // a photograph
    put.facts->read = FactsRead::kEverything;
    put.facts->picture.taken = taken;
    change_.puts.push_back(std::move(put));
    return change_.puts.back();
  }
  // A row that has this cosine with another.
  static std::vector<float> turned(const std::vector<float>& row, double cosine) {
    std::vector<float> other(row.size());
    // At right angles: the first two values turned, made orthogonal to the row.
    std::vector<double> side(row.size());
    side[0] = -row[1];
    side[1] = row[0];
    const double length = std::hypot(side[0], side[1]);
    for (size_t i = 0; i < row.size(); ++i) {
      other[i] = static_cast<float>(cosine * row[i] + std::sqrt(1 - cosine * cosine) * side[i] / length);
    }
    return other;
  }

  DuplicateReport find(const DuplicateOptions& options) {
    auto writer = CollectionWriter::create(folder_, test::fake_checkpoint());
    EXPECT_TRUE(writer && writer->commit(change_));
    const auto collection = CollectionReader::open(folder_);
    ThreadPool pool(2);
    auto report = find_duplicates(*collection, options, pool);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : DuplicateReport{};
  }

  // Reserves memory so that references returned by add() stay valid.
  Duplicates() { change_.puts.reserve(100); }

  test::TestFolder temporary_;
  fs::path folder_ = temporary_.path() / "c";
  CollectionChange change_;
};

TEST_F(Duplicates, ARawFileIsNoDuplicateOfWhatWasMadeOfIt) {
  add("/a/one.jpg", 1, 0xff00, 1000);
  add("/a/one.cr2", 2, 0xff00, 1000).item.format = "raw";
  add("/b/one.dng", 3, 0xff00, 1000).item.format = "raw";
  for (auto& put : change_.puts) put.values = change_.puts[0].values;
  DuplicateOptions options;
  options.least = Likeness::kBurst;
  const DuplicateReport report = find(options);
  ASSERT_THAT(report.groups, SizeIs(1));
  ASSERT_THAT(report.groups[0].members, SizeIs(2));
  for (const DuplicateMember& member : report.groups[0].members) EXPECT_EQ(member.item.format, "raw");
}

TEST_F(Duplicates, TiersTakeWhatIsAsAlikeAndNoMore) {
  add("/a/one.jpg", 1, 0xff00);
  add("/b/one copy.jpg", 1, 0xff00).item.hash = change_.puts[0].item.hash;  // the same bytes
  CollectionChange::Put& small = add("/c/one small.jpg", 2, 0xff07);        // three bits, a near row
  small.values = turned(change_.puts[0].values, 0.97);
  small.item.width = 320;
  small.item.height = 240;
  add("/d/other look.jpg", 3, 0xffffffff0000ff00).values = turned(change_.puts[0].values, 0.99);  // hash far
  add("/e/other row.jpg", 4, 0xff00).values = turned(change_.puts[0].values, 0.5);                // row far
  const DuplicateReport report = find({});
  EXPECT_EQ(report.items, 5);
  ASSERT_THAT(report.groups, SizeIs(1));
  const DuplicateGroup& group = report.groups[0];
  ASSERT_THAT(group.members, SizeIs(3));
  EXPECT_EQ(group.members[0].item.path, "/a/one.jpg");
  EXPECT_EQ(group.members[1].item.path, "/b/one copy.jpg");
  EXPECT_EQ(group.members[1].likeness, Likeness::kSameBytes);
  EXPECT_EQ(group.members[2].item.path, "/c/one small.jpg");
  EXPECT_EQ(group.members[2].likeness, Likeness::kSamePicture);
  EXPECT_EQ(group.members[2].hash_bits, 3);
  EXPECT_NEAR(group.members[2].cosine, 0.97, 1e-3);
  EXPECT_EQ(group.why_best, "the name without a copy mark");  // of equal bytes
  EXPECT_EQ(group.likeness, Likeness::kSamePicture);
  EXPECT_EQ(group.spare_bytes, group.members[1].item.size + group.members[2].item.size);
}

// Icons that differ in a stroke are near in every way.
TEST_F(Duplicates, DrawingsHaveToBeNearer) {
  const auto draw = [&](const std::string& path, int seed, uint64_t look, double cosine) {
    CollectionChange::Put& put = add(path, seed, look);
    put.facts->grain = 0.2;
    if (seed > 1) put.values = turned(change_.puts[0].values, cosine);
  };
  draw("/icon.png", 1, 0xff00, 1);
  draw("/icon@2x.png", 2, 0xff03, 0.999);
  draw("/icon filled.png", 3, 0xff0f, 0.97);
  draw("/icon slashed.png", 4, 0xff00 ^ 0xffff0000, 0.999);
  const DuplicateReport report = find({});
  ASSERT_THAT(report.groups, SizeIs(1));
  EXPECT_THAT(report.groups[0].members, SizeIs(2));
  EXPECT_THAT(duplicates_script(report),
              Not(HasSubstr("&& rm")));  // flags of one form in other colours are that near too
}

// Animations and scans that begin with the same image may go on with others.
TEST_F(Duplicates, NoScriptRemovesWhatMayHoldMoreImages) {
  const auto photograph = [&](const std::string& path, int seed, const std::string& format, int64_t size) {
    CollectionChange::Put& put = add(path, seed, 0xff00);
    put.item.format = format;
    put.item.size = size;
    put.values = change_.puts[0].values;
  };
  photograph("/best.png", 1, "png", 9000);
  photograph("/still.jpg", 2, "jpeg", 5000);
  photograph("/moving.gif", 3, "gif", 4000);
  photograph("/moving.webp", 4, "webp", 3000);
  photograph("/scan.tiff", 5, "tiff", 2000);
  photograph("/scan copy.tiff", 6, "tiff", 2000);
  change_.puts[5].item.hash = change_.puts[4].item.hash;
  const DuplicateReport report = find({});
  ASSERT_THAT(report.groups, SizeIs(1));
  EXPECT_THAT(report.groups[0].members, SizeIs(6));
  const std::string script = duplicates_script(report);
  EXPECT_THAT(script, HasSubstr("&& rm -- '/still.jpg'"));
  for (const char* path : {"/moving.gif", "/moving.webp", "/scan.tiff", "/scan copy.tiff"}) {
    EXPECT_THAT(script, HasSubstr(std::string("# rm '") + path + "'"));
  }
}

TEST_F(Duplicates, NoneAreSaidToBeNone) {
  add("/a.jpg", 1, 5);
  const DuplicateReport report = find({});
  EXPECT_EQ(report.items, 1);
  EXPECT_EQ(duplicates_text(report), "no duplicates\n");
}

TEST_F(Duplicates, BytesAloneWhereThatIsAsked) {
  add("/a.jpg", 1, 5);
  add("/b.jpg", 1, 5).item.hash = change_.puts[0].item.hash;
  add("/c.jpg", 2, 5).values = change_.puts[0].values;
  DuplicateOptions options;
  options.least = Likeness::kSameBytes;
  const DuplicateReport report = find(options);
  ASSERT_THAT(report.groups, SizeIs(1));
  EXPECT_THAT(report.groups[0].members, SizeIs(2));
}

TEST_F(Duplicates, BurstsAreNearInTimeAndOfOneCamera) {
  const auto shot = [&](const std::string& path, int seed, int64_t taken, double cosine,
                        const std::string& camera) {
    CollectionChange::Put& put = add(path, seed, static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15, taken);
    put.facts->picture.camera = camera;
    if (seed > 1) put.values = turned(change_.puts[0].values, cosine);
    return put.item.path;
  };
  shot("/1.jpg", 1, 1000, 1, "Canon");
  shot("/2.jpg", 2, 1003, 0.98, "Canon");
  shot("/3.jpg", 3, 1012, 0.97, "Canon");  // nine seconds after the second: a chain
  shot("/4.jpg", 4, 1003, 0.99, "Nikon");  // of another camera
  shot("/5.jpg", 5, 1004, 0.5, "Canon");   // of something else
  shot("/6.jpg", 6, 5000, 0.99, "Canon");  // an hour later
  DuplicateOptions options;
  options.least = Likeness::kBurst;
  options.burst_seconds = 10;
  const DuplicateReport report = find(options);
  ASSERT_THAT(report.groups, SizeIs(1));
  std::vector<std::string> paths;
  for (const DuplicateMember& member : report.groups[0].members) paths.push_back(member.item.path);
  EXPECT_THAT(paths, testing::UnorderedElementsAre("/1.jpg", "/2.jpg", "/3.jpg"));
  EXPECT_EQ(report.groups[0].likeness, Likeness::kBurst);
  const std::string script = duplicates_script(report);
  EXPECT_THAT(script, HasSubstr("# rm '/"));
  EXPECT_THAT(script, Not(HasSubstr("&& rm")));  // only its reader knows which to keep
}

TEST_F(Duplicates, TheBestIsNamedAndWhy) {
  add("/small.jpg", 1, 7);
  CollectionChange::Put& large = add("/a very long name of the large one.jpg", 2, 7);
  large.values = change_.puts[0].values;
  large.item.width = 4000;
  large.item.height = 3000;
  const DuplicateReport report = find({});
  ASSERT_THAT(report.groups, SizeIs(1));
  EXPECT_EQ(report.groups[0].members[0].item.path, "/a very long name of the large one.jpg");
  EXPECT_EQ(report.groups[0].why_best, "the most pixels (4000 x 3000)");
  EXPECT_THAT(duplicates_text(report), HasSubstr("best: the most pixels"));
  EXPECT_EQ(duplicates_json(report)["groups"][0]["members"].size(), 2U);
}

TEST_F(Duplicates, NamesDoNotReachTheTerminalAsTheyAre) {
  add("/a.jpg", 1, 5);
  add("/b\x1b[2J\xff\n\xe2\x80\xae.jpg", 1, 5).item.hash = change_.puts[0].item.hash;
  EXPECT_THAT(duplicates_text(find({})), HasSubstr("/b\\x1b[2J\\xff\\x0a\\xe2\\x80\\xae.jpg\n"));
}

// Each case: the one to keep, and the other; both show the same picture.
TEST_F(Duplicates, TheOriginalIsKept) {
  struct File {
    std::string path;
    int64_t side = 1000;  // width; the height is three quarters of it
    int64_t bytes = 500'000;
    int64_t date = 1'600'000'000;  // of the file
    std::optional<int64_t> taken = {};
  };
  struct Case {
    File best;
    File other;
    std::string why;
  };
  const int64_t later = 1'650'000'000;
  const std::vector<Case> cases = {
      // By size.
      {{"/p/holiday copy.jpg", 4000}, {"/p/holiday.jpg", 1000}, "the most pixels (4000 x 3000)"},
      {{"/p/a (1).jpg", 5'000'000'000}, {"/p/a.jpg", 1000}, "the most pixels (5000000000 x 3750000000)"},
      {{"/p/a.jpg", 1000, 900'000, later},
       {"/p/b.jpg", 1000, 300'000},
       "the largest file of the most pixels"},
      {{"/p/a (1).jpg", 1000, 900'000, later},
       {"/p/a.jpg", 1000, 300'000},
       "the largest file of the most pixels"},
      {{"/p/small bytes.jpg", 2000, 100'000, later}, {"/p/x.jpg", 1000, 900'000}, "the most pixels"},
      // As large, or nearly: by date.
      {{"/p/very/long/path/IMG_0003.jpg"}, {"/p/IMG_0003_copy.jpg", 1000, 500'000, later}, "the oldest"},
      {{"/p/IMG_0003.jpg"}, {"/p/IMG_0003_copy.jpg", 1000, 505'000, later}, "the oldest"},
      {{"/p/IMG_0003 copy.jpg"}, {"/p/IMG_0003.jpg", 1000, 500'000, later}, "the oldest"},
      {{"/p/b.jpg", 1000, 500'000, later, 1'000'000'000}, {"/p/a.jpg"}, "the oldest (2001-09-09"},
      {{"/p/b.jpg", 1000, 500'000, later, 1'000'000'000},
       {"/p/a.jpg", 1000, 500'000, 1'600'000'000, 1'100'000'000},
       "the oldest (2001-09-09"},
      {{"/p/copy of a.jpg", 1000, 500'000, 1'600'000'000, 1'000'000'000},
       {"/p/a.jpg", 1000, 500'000, later, 1'000'000'000},
       "the oldest (2001-09-09"},
      // With the same date, the name decides.
      {{"/p/very/long/path/IMG_0003.jpg"}, {"/p/IMG_0003_copy.jpg"}, "the name without a copy mark"},
      {{"/p/originals/IMG_0003.jpg"}, {"/p/IMG_0003 (1).jpg"}, "the name without a copy mark"},
      {{"/p/originals/IMG_0003.jpg"}, {"/p/IMG_0003(2).jpg"}, "the name without a copy mark"},
      {{"/p/originals/IMG_0003.jpg"}, {"/p/Copy of IMG_0003.jpg"}, "the name without a copy mark"},
      {{"/p/originals/IMG_0003.jpg"}, {"/p/IMG_0003 - Copy (2).jpg"}, "the name without a copy mark"},
      {{"/p/originals/IMG_0003.jpg"}, {"/p/IMG_0003 - Kopie.jpg"}, "the name without a copy mark"},
      {{"/p/originals/IMG_0003.jpg"}, {"/p/IMG_0003-COPY2.jpg"}, "the name without a copy mark"},
      {{"/p/originals/IMG_0003.jpg"}, {"/p/IMG_0003 copie.jpg"}, "the name without a copy mark"},
      // Neither name has a mark: by path.
      {{"/p/Rome (2019).jpg"}, {"/p/below/deeper/Rome.jpg"}, "the shortest path"},
      {{"/p/photocopy.jpg"}, {"/p/below/photocopy.jpg"}, "the shortest path"},
      {{"/p/IMG_0003.jpg"}, {"/p/by year/IMG_0003.jpg"}, "the shortest path"},
      {{"/p/copy/x.jpg"}, {"/p/copy/below/x.jpg"}, "the shortest path"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    // In either order of their ids.
    for (const bool first : {true, false}) {
      change_ = {};
      change_.puts.reserve(2);
      folder_ = temporary_.path() / fmt::format("c-{}-{}", i, first);
      for (const File& file :
           first ? std::array{cases[i].best, cases[i].other} : std::array{cases[i].other, cases[i].best}) {
        CollectionChange::Put& put = add(file.path, 1, 3, file.taken);
        put.item.width = file.side;
        put.item.height = file.side * 3 / 4;
        put.item.size = file.bytes;
        put.item.mtime_ns = file.date * 1'000'000'000;
      }
      const DuplicateReport report = find({});
      ASSERT_THAT(report.groups, SizeIs(1)) << i;
      EXPECT_EQ(report.groups[0].members[0].item.path, cases[i].best.path) << i;
      EXPECT_THAT(report.groups[0].why_best, HasSubstr(cases[i].why)) << i;
    }
  }
}

// The script removed the only copy of a picture that a link led to.
class LinkedDuplicates : public Duplicates {
 protected:
  void SetUp() override { fs::create_directories(pictures_); }
  std::string file(const std::string& name, const std::string& content = "the same bytes") {
    test::write_text(pictures_ / name, content);
    return (pictures_ / name).string();
  }
  // Indexes these paths with the identities that they have now.
  DuplicateReport find_among(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      Item& item = add(path, 1, 3).item;
      item.hash = sha256_hex("the same bytes");
      item.file = file_state(path).value().identity;
    }
    return find({});
  }
  void run_script(const DuplicateReport& report) {
    const std::string script = (temporary_.path() / "script.sh").string();
    test::write_text(script, duplicates_script(report));
    EXPECT_NE(std::system(("sh " + shell_quoted(script)).c_str()), -1);  // NOLINT(concurrency-mt-unsafe)
  }
  std::vector<std::string> left() {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(pictures_)) {
      if (!entry.is_directory()) names.push_back(entry.path().lexically_relative(pictures_).string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  fs::path pictures_ = temporary_.path() / "p";
};

TEST_F(LinkedDuplicates, ALinkIsNoDuplicateOfItsFile) {
  const std::string original = file("originals/holiday picture.jpg");
  fs::create_symlink(original, pictures_ / "a.jpg");
  fs::create_hard_link(original, pictures_ / "b.jpg");
  const DuplicateReport report =
      find_among({original, (pictures_ / "a.jpg").string(), (pictures_ / "b.jpg").string()});
  EXPECT_THAT(report.groups, testing::IsEmpty());
  EXPECT_EQ(report.items, 3);
}

TEST_F(LinkedDuplicates, AFolderUnderTwoNamesHoldsNoDuplicates) {
  const std::string original = file("originals/x.jpg");
  fs::create_directory_symlink(pictures_ / "originals", pictures_ / "o");
  EXPECT_THAT(find_among({original, (pictures_ / "o/x.jpg").string()}).groups, testing::IsEmpty());
}

// A bind mount, as the catalog has it while neither name can be looked at.
TEST_F(LinkedDuplicates, RecordedIdentitiesCountWhereFilesAreAway) {
  for (const char* path : {"/mnt/one/x.jpg", "/mnt/two/x.jpg"}) {
    add(path, 1, 3).item.file = FileIdentity{5, 77, 5, false};
  }
  EXPECT_THAT(find({}).groups, testing::IsEmpty());
}

// A catalog may be older than a link: the files are looked at, and so does the script.
TEST_F(LinkedDuplicates, WhatBecameALinkSinceIsSeen) {
  const std::string original = file("original.jpg");
  const std::string copy = file("copy.jpg");
  for (const std::string& path : {original, copy}) {
    Item& item = add(path, 1, 3).item;
    item.hash = sha256_hex("the same bytes");
    item.file = file_state(path).value().identity;
  }
  const DuplicateReport before = find({});
  ASSERT_THAT(before.groups, SizeIs(1));
  fs::remove(copy);
  fs::create_hard_link(original, copy);
  run_script(before);
  EXPECT_THAT(left(), ElementsAre("copy.jpg", "original.jpg"));
  fs::remove(copy);
  fs::create_symlink(original, copy);
  run_script(before);
  EXPECT_THAT(left(), ElementsAre("copy.jpg", "original.jpg"));
  const auto collection = CollectionReader::open(folder_);
  ThreadPool pool(1);
  EXPECT_THAT(find_duplicates(*collection, {}, pool)->groups, testing::IsEmpty());
}

// Whoever removed the copies of a best that was gone would have lost the picture.
TEST_F(LinkedDuplicates, WhatIsGoneIsNeitherKeptNorACopy) {
  const std::string first = file("a.jpg");
  const std::string second = file("b.jpg");
  const std::string third = file("c.jpg");
  const DuplicateReport before = find_among({first, second, third});
  ASSERT_THAT(before.groups, SizeIs(1));
  EXPECT_EQ(before.groups[0].members[0].item.path, first);
  EXPECT_EQ(before.gone, 0);
  const auto collection = CollectionReader::open(folder_);
  ThreadPool pool(1);
  fs::remove(first);
  const auto report = find_duplicates(*collection, {}, pool);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_THAT(report->groups, SizeIs(1));
  ASSERT_THAT(report->groups[0].members, SizeIs(2));
  EXPECT_EQ(report->groups[0].members[0].item.path, second);
  EXPECT_EQ(report->groups[0].spare_bytes, report->groups[0].members[1].item.size);
  EXPECT_EQ(report->gone, 1);
  EXPECT_THAT(duplicates_text(*report), HasSubstr("1 file left out: no longer on disk"));
  EXPECT_EQ(duplicates_json(*report)["gone"], 1);
  fs::remove(second);
  EXPECT_THAT(find_duplicates(*collection, {}, pool)->groups, testing::IsEmpty());
  // With no file here the disk may be unmounted: all are listed.
  fs::remove(third);
  EXPECT_THAT(find_duplicates(*collection, {}, pool)->groups, SizeIs(1));
}

TEST_F(LinkedDuplicates, AllNamesOfACopyAreRemovedAndItsBytesCountOnce) {
  const std::string original = file("original.jpg");
  const std::string copy = file("spare/copy.jpg");
  const std::string hard = (pictures_ / "spare/hard copy.jpg").string();
  fs::create_hard_link(copy, hard);
  const DuplicateReport report = find_among({original, copy, hard});
  ASSERT_THAT(report.groups, SizeIs(1));
  ASSERT_THAT(report.groups[0].members, SizeIs(2));
  EXPECT_EQ(report.groups[0].members[0].item.path, original);
  EXPECT_THAT(report.groups[0].members[1].other_names, SizeIs(1));
  EXPECT_EQ(report.groups[0].spare_bytes, report.groups[0].members[1].item.size);
  EXPECT_THAT(duplicates_text(report), HasSubstr("the same file as"));
  EXPECT_EQ(duplicates_json(report)["groups"][0]["members"][1]["other_names"].size(), 1U);
  run_script(report);
  EXPECT_THAT(left(), ElementsAre("original.jpg"));
}

TEST_F(LinkedDuplicates, BytesWithANameElsewhereAreNotSpare) {
  const std::string original = file("original.jpg");
  const std::string copy = file("a copy.jpg");
  fs::create_hard_link(copy, temporary_.path() / "outside.jpg");
  const DuplicateReport report = find_among({original, copy});
  ASSERT_THAT(report.groups, SizeIs(1));
  EXPECT_EQ(report.groups[0].spare_bytes, 0);
}

// The file that a link leads to stays, and so does the link; a link is never the one to keep.
TEST_F(LinkedDuplicates, LinksAreNeitherKeptNorBroken) {
  const std::string original = file("a long name of the original.jpg");
  const std::string outside = (temporary_.path() / "outside.jpg").string();
  test::write_text(outside, "the same bytes");
  const std::string link = (pictures_ / "a.jpg").string();
  fs::create_symlink(outside, link);
  const std::string copy = file("zz copy.jpg");
  const std::string to_copy = (pictures_ / "c.jpg").string();
  fs::create_symlink(copy, to_copy);
  const std::string plain = file("zz other copy.jpg");
  const DuplicateReport report = find_among({link, to_copy, plain, copy, original});
  ASSERT_THAT(report.groups, SizeIs(1));
  ASSERT_THAT(report.groups[0].members, SizeIs(4));
  EXPECT_FALSE(report.groups[0].members[0].item.file.linked);
  EXPECT_EQ(report.groups[0].members[0].item.path, original);
  EXPECT_EQ(report.groups[0].spare_bytes, 2 * report.groups[0].members[0].item.size);
  run_script(report);
  EXPECT_THAT(left(), ElementsAre("a long name of the original.jpg", "a.jpg", "c.jpg", "zz copy.jpg"));
}

// The script is run over files whose names are traps; what it must not touch is still there afterwards.
TEST_F(Duplicates, TheScriptRemovesCopiesAndNothingElse) {
  const fs::path pictures = temporary_.path() / "p";
  fs::create_directories(pictures);
  const std::vector<std::string> names = {"a.jpg",         "it's $(touch pwned) `x`; rm -rf *.jpg",
                                          "-rf",           "line\nend\nrm *",
                                          "#\"\\ $HOME *", "ünïcode 照片.jpg"};
  for (const std::string& name : names) {
    test::write_text(pictures / name, "the same bytes");
    CollectionChange::Put& put = add((pictures / name).string(), 1, 3);
    put.item.hash = sha256_hex("the same bytes");
  }
  test::write_text(pictures / "changed since.jpg", "other bytes now");
  add((pictures / "changed since.jpg").string(), 1, 3).item.hash = sha256_hex("the same bytes");
  test::write_text(pictures / "bystander.jpg", "untouched");
  const DuplicateReport report = find({});
  ASSERT_THAT(report.groups, SizeIs(1));
  test::write_text(pictures / "script.sh", duplicates_script(report));
  const std::string run = "cd " + shell_quoted(pictures.string()) + " && sh script.sh";
  EXPECT_EQ(std::system(run.c_str()) == -1, false);  // NOLINT(concurrency-mt-unsafe)
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(pictures)) left.push_back(entry.path().filename().string());
  std::sort(left.begin(), left.end());
  EXPECT_THAT(left, ElementsAre("-rf", "bystander.jpg", "changed since.jpg", "script.sh"));
}

// Items that were imported without their files: what is here is never removed in their favour.
TEST_F(Duplicates, ItemsWithoutFilesAreNeitherRemovedNorKeptForOnesThatAreHere) {
  const auto elsewhere = [&](const std::string& path, int seed, uint64_t look) -> CollectionChange::Put& {
    auto& put = add(path, seed, look);
    put.item.file.elsewhere = true;
    return put;
  };
  add("/here/a.jpg", 1, 0xff00);
  auto& larger =
      elsewhere("/elsewhere/a.jpg", 1, 0xff00);  // the same bytes, and by what is said the better one
  larger.item.width = 6400;
  larger.item.height = 4800;
  larger.item.size = 100'000;
  larger.item.caption = "captioned";
  add("/here/copy.jpg", 1, 0xff00);
  // Nothing is known of these: they are not alike.
  for (int i = 0; i < 3; ++i) {
    auto put = test::put_of(fmt::format("/elsewhere/{}.jpg", i), 10 + i);
    put.item.hash.clear();
    put.item.size = put.item.mtime_ns = kUnknownState;
    put.item.width = put.item.height = 0;
    put.item.file.elsewhere = true;
    change_.puts.push_back(put);
  }
  const DuplicateReport report = find({});
  ASSERT_THAT(report.groups, SizeIs(1));
  const DuplicateGroup& group = report.groups.front();
  ASSERT_THAT(group.members, SizeIs(3));
  EXPECT_FALSE(group.members[0].item.file.elsewhere);
  EXPECT_EQ(group.spare_bytes, 101);  // of the copy that is here
  EXPECT_EQ(report.not_looked_at, 0);
  const std::string script = duplicates_script(report);
  EXPECT_THAT(script, HasSubstr("# not on this host: /elsewhere/a.jpg"));
  EXPECT_THAT(script, Not(HasSubstr("rm -- '/elsewhere")));
  EXPECT_THAT(script, Not(HasSubstr("[ -f '/elsewhere")));
  EXPECT_THAT(duplicates_text(report), HasSubstr("the same bytes, not on this host"));
}

TEST_F(Duplicates, OfTwoWithoutTheOtherTheOneWhoseFileIsHereIsKept) {
  add("/here/a.jpg", 1, 0xff00);
  auto& better = add("/elsewhere/a.jpg", 1, 0xff00);
  better.item.file.elsewhere = true;
  better.item.width = 6400;
  const DuplicateReport report = find({});
  ASSERT_THAT(report.groups, SizeIs(1));
  EXPECT_EQ(report.groups[0].members[0].item.path, "/here/a.jpg");
  EXPECT_EQ(report.groups[0].why_best, "the only one whose file is here");
  EXPECT_THAT(duplicates_script(report), Not(HasSubstr("rm -- ")));
}

}  // namespace
}  // namespace saccade
