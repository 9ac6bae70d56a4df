#include "saccade/model/options/effective_length.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

MeasuredLength length(const std::string& fingerprint, const std::string& dataset, int64_t tokens) {
  return {.fingerprint = fingerprint,
          .precision = "fp32",
          .dataset = dataset,
          .dataset_sha256 = "hash of " + dataset,
          .domain = "birds | \"all\"",
          .images = 200,
          .texts = 1000,
          .tokens = tokens,
          .low = tokens - 1,
          .high = tokens + 2,
          .share = 0.9,
          .r1 = 0.25,
          .at_end = tokens > 10,
          .longest = 40,
          .longer_texts = 0.125};
}

class MeasuredLengths : public testing::Test {
 protected:
  [[nodiscard]] std::vector<MeasuredLength> read(const std::string& fingerprint) const {
    const auto lengths = read_measured_lengths(checkpoint_.path(), fingerprint);
    EXPECT_TRUE(lengths) << lengths.error().message;
    return lengths ? *lengths : std::vector<MeasuredLength>{};
  }
  [[nodiscard]] Status write(const std::vector<MeasuredLength>& lengths) const {
    return write_measured_lengths(checkpoint_.path(), lengths);
  }
  [[nodiscard]] std::string file(const std::string& name) const {
    return read_file(checkpoint_.path() / name).value();
  }
  test::GoldenCopy checkpoint_{"clip-gelu"};
};

TEST_F(MeasuredLengths, ComeBackAsTheyWereWritten) {
  EXPECT_TRUE(read("a").empty());
  EXPECT_EQ(longest_measured(read("a")), std::nullopt);
  const std::string before = checkpoint_fingerprint(checkpoint_.path()).value();
  ASSERT_TRUE(write({length("a", "x", 7), length("a", "y", 12)}));
  // These files are not part of the fingerprint.
  EXPECT_EQ(checkpoint_fingerprint(checkpoint_.path()).value(), before);
  const std::vector<MeasuredLength> read_back = read("a");
  ASSERT_EQ(read_back.size(), 2U);
  EXPECT_EQ(measured_length_json(read_back[0]), measured_length_json(length("a", "x", 7)));
  EXPECT_EQ(measured_length_json(read_back[1]), measured_length_json(length("a", "y", 12)));
  EXPECT_EQ(longest_measured(read_back)->dataset, "y");
  EXPECT_EQ(measured_length_text(read_back[0]),
            "7 tokens (6 to 9) give 90% of the best R@1, on x (birds | \"all\")");
  // Results of other weights are ignored.
  EXPECT_TRUE(read("b").empty());
}

TEST_F(MeasuredLengths, NewOnesTakeThePlaceOfOldOnes) {
  checkpoint_.write("saccade.json", R"({"other": [1, 2]})");
  ASSERT_TRUE(write({length("a", "x", 7), length("a", "y", 12)}));
  MeasuredLength none = length("a", "x", 3);
  none.low = none.high = std::nullopt;
  ASSERT_TRUE(write({none}));
  const std::vector<MeasuredLength> lengths = read("a");
  ASSERT_EQ(lengths.size(), 2U);
  EXPECT_EQ(lengths[0].dataset, "y");
  EXPECT_EQ(lengths[1].tokens, 3);
  EXPECT_EQ(lengths[1].low, std::nullopt);
  EXPECT_THAT(file("saccade.json"), HasSubstr("\"other\""));
  ASSERT_TRUE(write({length("b", "z", 5)}));
  EXPECT_TRUE(read("a").empty());
  EXPECT_EQ(read("b").size(), 1U);
  EXPECT_THAT(file("README.md"), Not(HasSubstr("| y |")));
}

TEST_F(MeasuredLengths, TheCardHasASectionOfItsOwn) {
  checkpoint_.write("README.md", "# A model\n\nIts text.");
  ASSERT_TRUE(write({length("a", "x", 7)}));
  const std::string first = file("README.md");
  EXPECT_TRUE(first.starts_with("# A model\n\nIts text.\n\n<!-- saccade eval length -->\n## Effective"));
  EXPECT_THAT(first,
              HasSubstr("| x | birds \\| \"all\" | 200 | 1000 | 7 | 6 to 9 (95 %) | 90 % | 0.250 | 40 | "
                        "12.5 % |\n<!-- end of saccade eval length -->\n"));
  checkpoint_.write("README.md", first + "\nBelow it.\n");
  ASSERT_TRUE(write({length("a", "x", 12)}));
  const std::string second = file("README.md");
  EXPECT_TRUE(second.starts_with("# A model\n\nIts text.\n\n<!-- saccade"));
  EXPECT_TRUE(second.ends_with("length -->\n\nBelow it.\n"));
  EXPECT_THAT(second, HasSubstr("| 12 or more |"));
  EXPECT_THAT(second, Not(HasSubstr("| 7 |")));
  // A hub's file is a link to shared contents, so it is not changed.
  fs::rename(checkpoint_.path() / "README.md", checkpoint_.path() / "blob");
  fs::create_symlink("blob", checkpoint_.path() / "README.md");
  ASSERT_TRUE(write({length("a", "x", 9)}));
  EXPECT_TRUE(fs::is_symlink(checkpoint_.path() / "README.md"));
  EXPECT_EQ(file("README.md"), second);
  EXPECT_EQ(read("a")[0].tokens, 9);
}

TEST_F(MeasuredLengths, BrokenFilesAreNamed) {
  const auto error = [&](const std::string& text) {
    checkpoint_.write("saccade.json", text);
    const auto lengths = read_measured_lengths(checkpoint_.path(), "a");
    const Status written = write({length("a", "x", 7)});
    EXPECT_FALSE(written);
    EXPECT_EQ(file("saccade.json"), text);
    return lengths ? std::string("none") : lengths.error().message;
  };
  EXPECT_THAT(error("{"), HasSubstr("saccade.json"));
  EXPECT_THAT(error("[]"), HasSubstr("an array, expected an object"));
  EXPECT_THAT(error(R"({"effective_length": 3})"),
              HasSubstr("\"effective_length\" is a number, expected a list"));
  EXPECT_THAT(error(R"({"effective_length": [{"fingerprint": 3}]})"),
              HasSubstr("effective_length[0]: \"fingerprint\""));
}

}  // namespace
}  // namespace saccade
