#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>

#include "saccade/core/files.h"

#include "console.h"
#include "npy.h"

namespace saccade::app {
namespace {

TEST(Console, WordsForNumbers) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1'000), "1,000");
  EXPECT_EQ(count_text(-1'234'567), "-1,234,567");
  EXPECT_EQ(counted(1, "picture"), "1 picture");
  EXPECT_EQ(counted(0, "picture"), "0 pictures");
  EXPECT_EQ(duration_text(0.4), "0 s");
  EXPECT_EQ(duration_text(73), "1 min 13 s");
  EXPECT_EQ(duration_text(12'000), "3 h 20 min");
  EXPECT_EQ(duration_text(1e300), "a long time");
  EXPECT_EQ(size_text(999), "999 bytes");
  EXPECT_EQ(size_text(1'400'000), "1.4 MB");
  EXPECT_EQ(size_text(999'960), "1.0 MB");
  EXPECT_EQ(size_text(5'000'000'000'000'000), "5000.0 TB");
}

TEST(Console, ProgressHasRateAndTimeLeft) {
  EXPECT_EQ(progress_text({"indexing", 1'200, 8'000, ""}, 93.2),
            "indexing 1,200 of 8,000 (15%), 93/s, 1 min 13 s left");
  EXPECT_EQ(progress_text({"indexing", 7, 0, "cat.png"}, 0), "indexing 7, cat.png");
  EXPECT_EQ(progress_text({"training", 10, 10, ""}, 2.5), "training 10 of 10 (100%), 2.5/s");
}

TEST(Console, OneLineStaysOne) {
  EXPECT_EQ(one_line("a\nb\x1b[2J\x7f\xc3\xa9"), "a\\x0ab\\x1b[2J\\x7f\xc3\xa9");
}

TEST(Npy, IsWhatNumPyReads) {
  std::string pattern = (std::filesystem::temp_directory_path() / "saccade_npy_XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path path = std::filesystem::path(pattern) / "rows.npy";
  Matrix<float> rows(2, 3);
  rows(1, 2) = 1;
  ASSERT_TRUE(write_npy(path, rows.view()).has_value());
  const auto bytes = read_file(path);
  ASSERT_TRUE(bytes.has_value());
  ASSERT_EQ(bytes->size(), 128U + 24U);
  EXPECT_EQ(bytes->substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(bytes->substr(10, 61), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  ");
  EXPECT_EQ((*bytes)[127], '\n');
  EXPECT_EQ(bytes->substr(148), std::string("\x00\x00\x80\x3f", 4));
  std::filesystem::remove_all(pattern);
}

}  // namespace
}  // namespace saccade::app
