// Tests of fingerprints and their cache: a cached hash is valid until the file is touched.
#include "saccade/model/checkpoints/fingerprint.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "saccade/core/files/file_stamp.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

class Fingerprints : public testing::Test {
 protected:
  // Only files matter for a fingerprint, so these need not be a model's.
  void SetUp() override {
    fs::create_directories(folder_);
    test::write_text(folder_ / "config.json", "{}");
    test::write_text(folder_ / "model.safetensors", "weights");
    wait_until_settled();
  }
  void wait_until_settled() const {
    const auto settled = [&] {
      return is_settled(*file_stamp(folder_ / "config.json")) &&
             is_settled(*file_stamp(folder_ / "model.safetensors"));
    };
    while (!settled()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  [[nodiscard]] std::string fingerprint(bool trusted = true) const {
    const auto result = checkpoint_fingerprint(folder_, {.folder = memory_, .trusted = trusted});
    EXPECT_TRUE(result) << result.error().message;
    return result.value_or("");
  }
  [[nodiscard]] std::string read_anew() const { return checkpoint_fingerprint(folder_).value(); }
  [[nodiscard]] fs::path record() const {
    for (const auto& entry : fs::directory_iterator(memory_)) return entry.path();
    return {};
  }
  // Falsifies the record, to show whether it is used.
  void falsify() const {
    test::edit_json(record(),
                    [](Json& json) { json["files"]["model.safetensors"]["sha256"] = std::string(64, 'a'); });
  }

  test::TestFolder scratch_;
  fs::path folder_ = scratch_.path() / "checkpoint";
  fs::path memory_ = scratch_.path() / "not/there/yet";
};

TEST_F(Fingerprints, AreRemembered) {
  EXPECT_EQ(fingerprint(), read_anew());
  ASSERT_FALSE(record().empty());
  EXPECT_EQ(fingerprint(), read_anew());
  falsify();
  EXPECT_NE(fingerprint(), read_anew());
  // Reading every byte corrects it.
  EXPECT_EQ(fingerprint(false), read_anew());
  EXPECT_EQ(fingerprint(), read_anew());
}

TEST_F(Fingerprints, OfFilesThatChangedAreReadAgain) {
  const std::string before = fingerprint();
  falsify();
  // Same size, and the modification time reset: the status change time still differs.
  const auto time = fs::last_write_time(folder_ / "model.safetensors");
  test::write_text(folder_ / "model.safetensors", "WEIGHTS");
  fs::last_write_time(folder_ / "model.safetensors", time);
  EXPECT_EQ(fingerprint(), read_anew());
  EXPECT_NE(fingerprint(), before);

  // Another file under the same name.
  wait_until_settled();
  EXPECT_EQ(fingerprint(), read_anew());
  falsify();
  test::write_text(folder_ / "other", "Weights");
  fs::last_write_time(folder_ / "other", time);
  fs::rename(folder_ / "other", folder_ / "model.safetensors");
  EXPECT_EQ(fingerprint(), read_anew());

  // One file more.
  wait_until_settled();
  EXPECT_EQ(fingerprint(), read_anew());
  const std::string without = fingerprint();
  test::write_text(folder_ / "merges.txt", "a b");
  EXPECT_NE(fingerprint(), without);
  EXPECT_EQ(fingerprint(), read_anew());
}

// File system clocks advance in steps: a file written just now may change again without a new stamp.
TEST_F(Fingerprints, OfFilesJustWrittenAreNotRemembered) {
  test::write_text(folder_ / "model.safetensors", "another");
  EXPECT_EQ(fingerprint(), read_anew());
  const Json json = test::read(record());
  EXPECT_TRUE(json["files"].contains("config.json"));
  EXPECT_FALSE(json["files"].contains("model.safetensors"));
}

TEST_F(Fingerprints, ADamagedRecordIsNoRecord) {
  const std::string expected = fingerprint();
  const std::string whole = read_file(record()).value();
  const fs::path path = record();
  for (size_t length = 0; length < whole.size(); ++length) {
    test::write_text(path, whole.substr(0, length));
    ASSERT_EQ(fingerprint(), expected) << length;
  }
  for (const char* content : {"[]", R"({"files": []})", R"({"files": {"model.safetensors": 1}})",
                              R"({"files": {"model.safetensors": {"stamp": 1, "sha256": "a"}}})", "\xff"}) {
    test::write_text(path, content);
    ASSERT_EQ(fingerprint(), expected) << content;
  }
}

TEST_F(Fingerprints, APlaceThatCannotBeWrittenIsNoFailure) {
  memory_ = scratch_.path() / "file";
  test::write_text(memory_, "");
  EXPECT_EQ(fingerprint(), read_anew());
  memory_ = memory_ / "below";
  EXPECT_EQ(fingerprint(), read_anew());
  memory_.clear();
  EXPECT_EQ(fingerprint(), read_anew());
}

// One folder under several names has one record; copies have their own.
TEST_F(Fingerprints, RecordsAreAFolders) {
  const std::string expected = fingerprint();
  fs::create_directory_symlink(folder_, scratch_.path() / "link");
  const FingerprintMemory memory{.folder = memory_};
  EXPECT_EQ(checkpoint_fingerprint(scratch_.path() / "link", memory).value(), expected);
  EXPECT_EQ(std::distance(fs::directory_iterator(memory_), fs::directory_iterator()), 1);
  fs::copy(folder_, scratch_.path() / "copy");
  EXPECT_EQ(checkpoint_fingerprint(scratch_.path() / "copy", memory).value(), expected);
}

}  // namespace
}  // namespace saccade
