// Links that lead from one collection to the next. Aliases are tested in weaviate/aliases_test.cc.
#include "saccade/collection/reencode/switch_collection.h"

#include <atomic>
#include <filesystem>
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

}  // namespace
}  // namespace saccade
