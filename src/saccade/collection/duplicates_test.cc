#include "saccade/collection/duplicates.h"

#include <cstdlib>

#include <gmock/gmock.h>

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
    const auto collection = Collection::open(folder_);
    ThreadPool pool(2);
    auto report = find_duplicates(*collection, options, pool);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : DuplicateReport{};
  }

  // What add() returns stays where it is.
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
  EXPECT_EQ(group.why_best, "the shortest path");  // of equal bytes
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

}  // namespace
}  // namespace saccade
