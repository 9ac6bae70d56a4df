#include "saccade/model/conform/conform_record.h"

#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/test_environment.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

ConformReport report_of(bool ok, double max_abs, Precision precision = Precision::kFp32) {
  ConformReport report;
  report.fingerprint = std::string(64, 'a');
  report.precision = precision;
  report.answers = {{.name = "text_embeds", .max_abs = max_abs / 2, .tolerance = 1e-4, .ok = ok},
                    {.name = "image_embeds", .max_abs = max_abs, .tolerance = 1e-4, .ok = ok}};
  report.ok = ok;
  return report;
}

class ConformRecords : public testing::Test {
 protected:
  ConformRecords() : state_("XDG_STATE_HOME", (folder_ / "state").string()) {
    folder_.write("model/config.json", "{}");
    folder_.write("model/io.safetensors", "answers");
    folder_.write("io2.safetensors", "other answers");
  }
  Status remember(const ConformReport& report, const std::string& reference = "model/io.safetensors") {
    return remember_conformance(report, files_, folder_ / reference, "1.2.3");
  }

  test::TestFolder folder_;
  test::TestVariable state_;
  std::vector<std::filesystem::path> files_ = {folder_ / "model/config.json"};
};

TEST_F(ConformRecords, AreFoundByFingerprintAndByWhatTheFilesLookLike) {
  EXPECT_TRUE(conformance_of(std::string(64, 'a')).results.empty());
  ASSERT_TRUE(remember(report_of(true, 2e-6)));
  ASSERT_TRUE(remember(report_of(true, 4e-3, Precision::kBf16)));
  const ConformanceRecord record = conformance_of(std::string(64, 'a'));
  ASSERT_EQ(record.results.size(), 2);
  EXPECT_EQ(record.results[0].precision, "fp32");
  EXPECT_EQ(record.results[0].answers, 2);
  EXPECT_EQ(record.results[0].max_abs, 2e-6);
  EXPECT_EQ(record.results[0].program, "1.2.3");
  EXPECT_EQ(record.results[1].precision, "bf16");
  EXPECT_EQ(conformance_json(record)[1]["max_abs"], 4e-3);
  const auto by_stamp = conformance_by_stamp();
  ASSERT_TRUE(by_stamp.contains(files_stamp(files_)));
  EXPECT_EQ(by_stamp.at(files_stamp(files_)).fingerprint, record.fingerprint);
  folder_.write("model/config.json", "{\"another\": 1}");
  EXPECT_FALSE(by_stamp.contains(files_stamp(files_)));
  EXPECT_EQ(files_stamp(std::vector<std::filesystem::path>{folder_ / "none"}), "");
}

TEST_F(ConformRecords, AFailureTakesBackWhatItContradicts) {
  ASSERT_TRUE(remember(report_of(false, 1)));
  EXPECT_TRUE(conformance_of(std::string(64, 'a')).fingerprint.empty());  // nothing to say of a new one
  ASSERT_TRUE(remember(report_of(true, 2e-6)));
  ASSERT_TRUE(remember(report_of(true, 3e-6), "io2.safetensors"));
  ASSERT_TRUE(remember(report_of(true, 1e-6)));  // the same again
  EXPECT_EQ(conformance_of(std::string(64, 'a')).results.size(), 2);
  ASSERT_TRUE(remember(report_of(false, 1)));
  const ConformanceRecord record = conformance_of(std::string(64, 'a'));
  ASSERT_EQ(record.results.size(), 1);
  EXPECT_EQ(record.results[0].max_abs, 3e-6);
}

TEST_F(ConformRecords, ABrokenRecordCountsAsNone) {
  ASSERT_TRUE(remember(report_of(true, 2e-6)));
  folder_.write("state/saccade/conformance/" + std::string(64, 'a') + ".json", "{\"fingerprint\": 7}");
  EXPECT_TRUE(conformance_of(std::string(64, 'a')).results.empty());
  EXPECT_TRUE(conformance_by_stamp().empty());
  EXPECT_TRUE(conformance_of("../../etc/passwd").results.empty());
}

}  // namespace
}  // namespace saccade
