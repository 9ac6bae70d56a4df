#include "saccade/core/files/npy.h"

#include <gmock/gmock.h>

#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// As numpy.save of NumPy 1.24 writes np.array([[1.5, -2], [0.25, 4]], dtype=type).
std::string saved(const std::string& type, const std::string& values, const std::string& shape = "(2, 2)") {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header += std::string(128 - 10 - header.size() - 1, ' ') + "\n";
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + values;
}

template <typename T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

TEST(Npy, ReadsWhatNumpyWrites) {
  const test::TestFolder folder;
  const auto read = [&](const std::string& content) { return read_npy(folder.write("a.npy", content)); };
  const std::string floats = bytes_of<float>({1.5F, -2, 0.25F, 4});
  for (const std::string& file : {saved("<f4", floats), saved("<f8", bytes_of<double>({1.5, -2, 0.25, 4})),
                                  saved("<f2", bytes_of<uint16_t>({0x3e00, 0xc000, 0x3400, 0x4400}))}) {
    const auto rows = read(file);
    ASSERT_TRUE(rows) << rows.error().message;
    EXPECT_EQ(rows->rows(), 2);
    EXPECT_THAT(rows->row(0), ElementsAre(1.5F, -2));
    EXPECT_THAT(rows->row(1), ElementsAre(0.25F, 4));
  }
  EXPECT_THAT(read(saved("<i8", floats)).error().message, HasSubstr("type '<i8'"));
  EXPECT_THAT(read(saved("<f4", floats, "(4,)")).error().message, HasSubstr("shape"));
  EXPECT_THAT(read(saved("<f4", floats, "(999999999999, 999999999999)")).error().message,
              HasSubstr("announced"));
  const std::string whole = saved("<f4", floats);
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(read(whole.substr(0, length))) << length;
  }
}

TEST(Npy, ReadsWhatItWrites) {
  const test::TestFolder folder;
  Matrix<float> rows(3, 5);
  for (size_t i = 0; i < rows.values().size(); ++i) rows.values()[i] = static_cast<float>(i) / 3;
  ASSERT_TRUE(write_npy(folder / "b.npy", rows.view()));
  const auto back = read_npy(folder / "b.npy");
  ASSERT_TRUE(back);
  EXPECT_THAT(back->values(), testing::ElementsAreArray(rows.values()));
}

TEST(Npy, PartsAreReadAsTheWhole) {
  const test::TestFolder folder;
  Matrix<float> rows(7, 3);
  for (size_t i = 0; i < rows.values().size(); ++i) rows.values()[i] = static_cast<float>(i);
  const auto path = folder / "b.npy";
  ASSERT_TRUE(write_npy(path, rows.view()));
  const auto reader = NpyReader::open(path);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->rows(), 7);
  EXPECT_EQ(reader->columns(), 3);
  for (const int64_t first : {0, 2, 6}) {
    const auto part = reader->read(first, 7 - first);
    ASSERT_TRUE(part);
    for (int64_t r = first; r < 7; ++r)
      EXPECT_THAT(part->row(r - first), testing::ElementsAreArray(rows.row(r)));
  }
  EXPECT_EQ(reader->read(7, 0)->rows(), 0);
  // Cut off after it was opened.
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_TRUE(reader->read(0, 6));
  EXPECT_EQ(reader->read(6, 1).error().code, ErrorCode::kBadData);
  EXPECT_EQ(NpyReader::open(folder / "none.npy").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(NpyReader::open(folder.path()));
}

}  // namespace
}  // namespace saccade
