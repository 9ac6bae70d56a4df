// Tests that a build without Arrow says so, wherever Parquet is requested.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/read_dataset.h"
#include "lab/data/readers/parquet.h"
#include "lab/data/readers/parquet_image.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

using test::TestFolder;
using testing::HasSubstr;

TEST(ParquetAbsent, IsSaidPlainly) {
  const TestFolder folder;
  folder.write("hub/data/train-00000-of-00001.parquet", "PAR1");
  for (const char* name : {"hub", "hub/data/train-00000-of-00001.parquet"}) {
    for (const char* format : {"", "parquet"}) {
      DatasetOptions options;
      options.format = format;
      const auto dataset = read_dataset({folder.path() / name, options});
      ASSERT_FALSE(dataset);
      EXPECT_EQ(dataset.error().code, ErrorCode::kUnsupported);
      EXPECT_THAT(dataset.error().message, HasSubstr(name));
      EXPECT_THAT(dataset.error().message, HasSubstr("install libarrow-dev and libparquet-dev"));
      EXPECT_THAT(dataset.error().message, HasSubstr("-DSACCADE_PARQUET=ON"));
      EXPECT_EQ(dataset.error().message.find('\n'), std::string::npos);
    }
  }
  const auto picture = read_image_bytes(data::parquet_picture(folder.path() / "x.parquet", "image", 3));
  ASSERT_FALSE(picture);
  EXPECT_EQ(picture.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(picture.error().message, HasSubstr("x.parquet: row 3 of image: this build reads no Parquet"));
}

TEST(ParquetAbsent, TheListOfLayoutsHasANote) {
  int notes = 0;
  for (const DatasetLayout& layout : dataset_layouts()) {
    if (layout.name != "parquet") continue;
    ++notes;
    EXPECT_THAT(std::string(layout.what), HasSubstr("not in this build"));
  }
  EXPECT_EQ(notes, 1);
}

}  // namespace
}  // namespace saccade::lab
