// Links that lead from one collection to the next. Aliases are tested in weaviate/aliases_test.cc.
#include "saccade/collection/reencode/switch_collection.h"

#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "saccade/collection/reencode/reencode.h"
#include "saccade/collection/test_support.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SwitchLink : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(CollectionWriter::create(first_, test::fake_checkpoint()));
    const auto info = read_collection_info(first_);
    ASSERT_OK(info);
    WriterOptions copy;
    copy.copy_of = identity_of(*info);
    ASSERT_OK(CollectionWriter::create(second_, test::fake_checkpoint(), {}, copy));
  }
  [[nodiscard]] std::string refusal() const {
    const auto leads = where_name_leads(link_, first_, second_);
    EXPECT_FALSE(switch_name(link_, first_, second_));
    return leads ? "" : leads.error().message;
  }

  test::TestFolder temporary_;
  fs::path folder_ = fs::canonical(temporary_.path());
  fs::path first_ = folder_ / "photos-1";
  fs::path second_ = folder_ / "photos-2";
  fs::path link_ = folder_ / "photos";
};

TEST_F(SwitchLink, LeadsToTheSecondAfterwards) {
  fs::create_directory_symlink(first_, link_);
  EXPECT_EQ(where_name_leads(link_, first_, second_).value(), NameLeads::kToFirst);
  EXPECT_EQ(settled_collection(link_).value(), first_);
  ASSERT_OK(check_copy(read_collection_info(second_).value(), read_collection_info(first_).value()));
  ASSERT_OK(switch_name(link_, first_, second_));
  EXPECT_EQ(fs::read_symlink(link_), second_);
  EXPECT_EQ(where_name_leads(link_, first_, second_).value(), NameLeads::kToSecond);
  EXPECT_EQ(settled_collection(link_).value(), second_);
  // From now on the second is no copy, whose own images a run would remove.
  EXPECT_FALSE(check_copy(read_collection_info(second_).value(), read_collection_info(first_).value()));
  EXPECT_EQ(test::faults(second_), "");
  ASSERT_OK(switch_name(link_, first_, second_));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 3);
}

TEST_F(SwitchLink, MakesALinkThatIsMissing) {
  EXPECT_EQ(where_name_leads(link_, first_, second_).value(), NameLeads::kNowhere);
  ASSERT_OK(switch_name(link_, first_, second_));
  EXPECT_EQ(fs::read_symlink(link_), second_);
}

TEST_F(SwitchLink, ARelativeLinkStaysRelative) {
  fs::create_directory_symlink("photos-1", link_);
  ASSERT_OK(switch_name(link_ / "", first_, second_));
  EXPECT_EQ(fs::read_symlink(link_), "photos-2");
}

// A crash may come between the two steps.
TEST_F(SwitchLink, ALinkThatWasSwitchedAloneIsCompleted) {
  fs::create_directory_symlink(second_, link_);
  ASSERT_OK(switch_name(link_, first_, second_));
  EXPECT_EQ(read_collection_info(second_).value().copy_of, "");
}

TEST_F(SwitchLink, RefusesWhatIsNoLinkToTheFirst) {
  fs::create_directories(link_);
  EXPECT_THAT(refusal(), HasSubstr("not a symbolic link"));
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(link_)));
  fs::remove(link_);
  fs::create_directories(folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", link_);
  EXPECT_THAT(refusal(), HasSubstr("elsewhere"));
  EXPECT_EQ(fs::read_symlink(link_), folder_ / "elsewhere");
  fs::remove(link_);
  test::write_text(link_, "a file");
  EXPECT_THAT(refusal(), HasSubstr("not a symbolic link"));
  link_ = folder_ / "photos.2";
  const auto leads = where_name_leads(link_, first_, "weaviate://localhost/Photos");
  ASSERT_FALSE(leads);
  EXPECT_EQ(leads.error().code, ErrorCode::kUsage);
  EXPECT_THAT(leads.error().message, HasSubstr("a link cannot lead to weaviate://localhost/Photos"));
  EXPECT_NE(read_collection_info(second_).value().copy_of, "");
}

TEST_F(SwitchLink, ACollectionIsThereAtEveryMoment) {
  fs::create_directory_symlink(first_, link_);
  std::atomic<int64_t> looked = 0;
  std::atomic<int64_t> missing = 0;
  {
    const std::jthread looks([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (!is_collection(link_)) ++missing;
        ++looked;
      }
    });
    for (int i = 0; i < 200 || looked < 1000; ++i) {
      const bool forth = i % 2 == 0;
      ASSERT_OK(switch_name(link_, forth ? first_ : second_, forth ? second_ : first_));
    }
  }
  EXPECT_EQ(missing, 0);
}

// A writer goes on with the collection that the link led to when it was opened.
TEST_F(SwitchLink, AWriterStaysWithWhatItOpened) {
  IngestSettings settings;
  settings.int8_rows = Int8Policy::kOn;
  const fs::path old = folder_ / "old";
  ASSERT_OK(CollectionWriter::create(old, test::fake_checkpoint(), settings));
  fs::create_directory_symlink(old, link_);
  {
    auto other = CollectionWriter::open(second_);
    ASSERT_OK(other);
    CollectionChange change;
    change.puts = {test::put_of("/other", 9)};
    ASSERT_OK(other->commit(change));
  }
  const auto content = [](const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto bytes = read_file(entry.path());
      EXPECT_TRUE(bytes) << entry.path();
      if (bytes) files[entry.path().filename().string()] = *bytes;
    }
    return files;
  };
  const auto before = content(second_);
  {
    auto writer = CollectionWriter::open(link_);
    ASSERT_OK(writer);
    fs::remove(link_);
    fs::create_directory_symlink(second_, link_);
    EXPECT_EQ(writer->folder(), link_);
    CollectionChange change;
    change.puts = {test::put_of("/a", 1), test::put_of("/b", 2)};
    ASSERT_OK(writer->commit(change));
    ASSERT_EQ(writer->remove_path("/a").value(), 1);
    ASSERT_EQ(writer->compact().value(), 1);
    change.puts = {test::put_of("/c", 3)};
    ASSERT_OK(writer->commit(change));
  }
  EXPECT_EQ(content(second_), before);
  EXPECT_TRUE(fs::exists(old / "rows-2.f32"));
  EXPECT_TRUE(fs::exists(old / "rows-2.i8"));
  EXPECT_FALSE(fs::exists(old / "rows-1.f32"));
  EXPECT_FALSE(fs::exists(old / "rows-1.i8"));
  const auto collection = CollectionReader::open(old);
  ASSERT_OK(collection);
  EXPECT_THAT(test::paths_of(*collection), testing::ElementsAre("/b", "/c"));
  EXPECT_EQ(test::faults(old), "");
  EXPECT_EQ(test::faults(second_), "");
}

}  // namespace
}  // namespace saccade
