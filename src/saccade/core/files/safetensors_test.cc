#include "saccade/core/files/safetensors.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/half.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class SafeTensorsTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path path() const { return folder_ / "a.safetensors"; }

 private:
  test::TestFolder folder_;
};

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// Returns a file with the given header and `data` zero bytes.
std::string file_of(const std::string& header, size_t data, uint64_t header_size) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &header_size, 8);
  return file + header + std::string(data, '\0');
}
std::string file_of(const std::string& header, size_t data) {
  return file_of(header, data, header.size());
}

Result<SafeTensors> parse(const std::string& file) {
  return SafeTensors::parse(std::as_bytes(std::span(file)));
}

std::string error_of(const std::string& file) {
  const auto parsed = parse(file);
  return parsed ? "good" : parsed.error().message;
}

const std::string kGoodHeader =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("b":{"dtype":"I64","shape":[],"data_offsets":[16,24]},"c":{"dtype":"U8","shape":[0,3],"data_offsets":[24,24]}})";

constexpr DType kAllDTypes[] = {DType::kBool, DType::kU8,   DType::kI8,  DType::kU16, DType::kI16,
                                DType::kF16,  DType::kBF16, DType::kU32, DType::kI32, DType::kF32,
                                DType::kU64,  DType::kI64,  DType::kF64};

TEST_F(SafeTensorsTest, EveryDTypeComesBackAsWritten) {
  std::mt19937 random(3);
  std::vector<std::vector<uint8_t>> contents;
  std::vector<NamedTensor> tensors;
  for (const DType dtype : kAllDTypes) {
    contents.emplace_back(static_cast<size_t>(6 * dtype_size(dtype)));
    for (uint8_t& byte : contents.back()) byte = static_cast<uint8_t>(random());
  }
  for (size_t i = 0; i < contents.size(); ++i) {
    tensors.push_back(
        {"t." + std::string(dtype_name(kAllDTypes[i])), {kAllDTypes[i], {2, 3}, bytes_of(contents[i])}});
  }
  tensors.push_back({"empty", {DType::kF32, {0, 4}, {}}});
  const float one = 1;
  tensors.push_back({"scalar", {DType::kF32, {}, std::as_bytes(std::span(&one, 1))}});
  ASSERT_TRUE(write_safetensors(path(), tensors, {{"format", "pt"}, {"note", "\u00e9 \"quoted\""}}));

  const auto in_memory = safetensors_bytes(tensors, {{"format", "pt"}, {"note", "\u00e9 \"quoted\""}});
  ASSERT_TRUE(in_memory) << in_memory.error().message;
  EXPECT_EQ(*in_memory, *read_file(path()));
  const auto file = SafeTensors::open(path());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors().size(), tensors.size());
  EXPECT_EQ(file->metadata().at("note"), "\u00e9 \"quoted\"");
  for (const NamedTensor& tensor : tensors) {
    const TensorView* found = file->find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->dtype, tensor.tensor.dtype);
    EXPECT_EQ(found->shape, tensor.tensor.shape);
    EXPECT_TRUE(std::ranges::equal(found->bytes, tensor.tensor.bytes)) << tensor.name;
    if (found->bytes.empty()) continue;
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(found->bytes.data()) % static_cast<size_t>(dtype_size(found->dtype)), 0U)
        << tensor.name << " is not aligned";
  }
  EXPECT_EQ(file->find("absent"), nullptr);
}

TEST_F(SafeTensorsTest, TheSameInputGivesTheSameBytesInAnyOrder) {
  const std::vector<float> a = {1, 2};
  const std::vector<uint8_t> b = {3};
  std::vector<NamedTensor> tensors = {{"b", {DType::kU8, {1}, bytes_of(b)}},
                                      {"z", {DType::kF32, {2}, bytes_of(a)}},
                                      {"a", {DType::kF32, {2}, bytes_of(a)}}};
  ASSERT_TRUE(write_safetensors(path(), tensors));
  const std::string first = *read_file(path());
  std::reverse(tensors.begin(), tensors.end());
  ASSERT_TRUE(write_safetensors(path(), tensors));
  EXPECT_EQ(*read_file(path()), first);
  EXPECT_EQ(safetensors_bytes(tensors).value(), first);
  EXPECT_LT(first.find("\"a\""), first.find("\"z\""));
  EXPECT_LT(first.find("\"z\""), first.find("\"b\""));
}

TEST_F(SafeTensorsTest, RefusesToWriteWhatCannotBeRead) {
  const std::vector<float> a = {1, 2};
  const TensorView good{DType::kF32, {2}, bytes_of(a)};
  const auto message = [&](const std::vector<NamedTensor>& tensors) {
    const Status status = write_safetensors(path(), tensors);
    EXPECT_EQ(safetensors_bytes(tensors).has_value(), status.has_value());
    return status ? "good" : status.error().message;
  };
  EXPECT_EQ(message({{"a", good}, {"a", good}}), "two tensors named a");
  EXPECT_EQ(message({{"__metadata__", good}}), "no tensor may be named __metadata__");
  EXPECT_EQ(message({{"a", {DType::kF32, {3}, bytes_of(a)}}}), "tensor a of shape [3] has 8 bytes, not 12");
  EXPECT_THAT(message({{"a", {DType::kF32, {-1}, {}}}}), HasSubstr("negative side"));
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(SafeTensorsTest, Conversions) {
  const std::vector<double> doubles = {0.5, -2};
  const std::vector<uint16_t> halves = {float_to_fp16(0.5F), float_to_fp16(-2)};
  const std::vector<uint16_t> brains = {float_to_bf16(0.5F), float_to_bf16(-2)};
  const std::vector<int8_t> small = {-128, 127};
  const std::vector<uint32_t> wide = {0, 4'000'000'000};
  EXPECT_THAT(TensorView({DType::kF64, {2}, bytes_of(doubles)}).to_floats().value(), ElementsAre(0.5F, -2));
  EXPECT_THAT(TensorView({DType::kF16, {2}, bytes_of(halves)}).to_floats().value(), ElementsAre(0.5F, -2));
  EXPECT_THAT(TensorView({DType::kBF16, {2}, bytes_of(brains)}).to_floats().value(), ElementsAre(0.5F, -2));
  EXPECT_THAT(TensorView({DType::kI8, {2}, bytes_of(small)}).to_int64s().value(), ElementsAre(-128, 127));
  EXPECT_THAT(TensorView({DType::kU32, {2}, bytes_of(wide)}).to_int64s().value(),
              ElementsAre(0, 4'000'000'000));
  EXPECT_EQ(TensorView({DType::kI8, {2}, bytes_of(small)}).to_floats().error().code, ErrorCode::kBadData);
  EXPECT_EQ(TensorView({DType::kF64, {2}, bytes_of(doubles)}).to_int64s().error().code, ErrorCode::kBadData);
  // Bytes need not be aligned.
  std::vector<std::byte> shifted(5);
  const float value = 3.25F;
  std::memcpy(shifted.data() + 1, &value, 4);
  EXPECT_THAT(TensorView({DType::kF32, {1}, std::span(shifted).subspan(1)}).to_floats().value(),
              ElementsAre(3.25F));
}

TEST_F(SafeTensorsTest, EveryTruncationIsRefused) {
  const std::string file = file_of(kGoodHeader, 24);
  ASSERT_EQ(error_of(file), "good");
  for (size_t size = 0; size < file.size(); ++size) {
    const auto parsed = parse(file.substr(0, size));
    ASSERT_FALSE(parsed) << size;
    ASSERT_EQ(parsed.error().code, ErrorCode::kBadData) << size;
  }
  EXPECT_EQ(error_of(file + "x"), "1 bytes after the last tensor");
  EXPECT_THAT(error_of(""), HasSubstr("0 bytes, a safetensors file begins with 8"));
}

TEST_F(SafeTensorsTest, HeadersOfImpossibleSize) {
  EXPECT_EQ(error_of(file_of("{}", 0, 3)), "header of 3 bytes in a file of 10");
  EXPECT_EQ(error_of(file_of("{}", 0, uint64_t{1} << 63)),
            "header of 9223372036854775808 bytes, limit 100000000: not a safetensors file");
  EXPECT_THAT(error_of(file_of("{}", 0, ~uint64_t{0})), HasSubstr("limit"));
  EXPECT_EQ(error_of(file_of("{}", 0)), "good");
  EXPECT_EQ(error_of(file_of("{}      ", 0)), "good");
}

TEST_F(SafeTensorsTest, BadHeadersSayWhatAndWhere) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets,
                       size_t data = 8) {
    return error_of(file_of(R"({"w":)" + entry(dtype, shape, offsets) + "}", data));
  };
  const auto two = [&](const std::string& first, const std::string& second, size_t data) {
    return error_of(file_of(
        R"({"v":)" + entry("U8", "[4]", first) + R"(,"w":)" + entry("U8", "[4]", second) + "}", data));
  };
  EXPECT_EQ(one("F32", "[2]", "[0,8]"), "good");
  EXPECT_EQ(one("F32", "[3]", "[0,8]"),
            "tensor w: F32 of shape [3] takes 12 bytes, data_offsets [0, 8] give 8");
  EXPECT_EQ(one("F32", "[-2]", "[0,8]"), "tensor w: shape [-2] has a negative side");
  EXPECT_EQ(one("F32", "[-1,-2]", "[0,8]"), "tensor w: shape [-1, -2] has a negative side");
  EXPECT_EQ(one("F32", "[4611686018427387904,4]", "[0,8]"),
            "tensor w: shape [4611686018427387904, 4] overflows");
  EXPECT_THAT(one("F32", "[18446744073709551615]", "[0,8]"), HasSubstr("expected a whole number"));
  EXPECT_THAT(one("F32", "[2.0]", "[0,8]"), HasSubstr("tensor w: \"shape\" is a number (2.0)"));
  EXPECT_THAT(one("F32", "2", "[0,8]"), HasSubstr("\"shape\" is not an array"));
  EXPECT_THAT(one("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", "[0,8]"),
              HasSubstr("17 dimensions, limit 16"));
  EXPECT_EQ(one("F8_E4M3", "[8]", "[0,8]"), "tensor w: dtype \"F8_E4M3\" is not known");
  EXPECT_EQ(one("F32", "[2]", "[8,0]"), "tensor w: data_offsets [8, 0] run backwards");
  EXPECT_EQ(one("F32", "[2]", "[-8,0]"), "tensor w: data_offsets [-8, 0] run backwards");
  EXPECT_THAT(one("F32", "[2]", "[0]"), HasSubstr("\"data_offsets\" has 1 numbers, not 2"));
  EXPECT_THAT(one("F32", "[2]", "[0,9223372036854775807]"), HasSubstr("takes 8 bytes"));
  EXPECT_EQ(one("F32", "[2]", "[0,8]", 7), "tensor w ends at byte 8 of the data, which has 7");
  EXPECT_EQ(one("F32", "[2]", "[0,8]", 9), "1 bytes after the last tensor");
  EXPECT_EQ(one("F32", "[2]", "[4,12]", 12),
            "tensor w begins at byte 4 of the data, leaving a gap after byte 0");
  EXPECT_EQ(two("[0,4]", "[4,8]", 8), "good");
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "good");
  EXPECT_EQ(two("[0,4]", "[2,6]", 8),
            "tensor w begins at byte 2 of the data, overlapping the one that ends at byte 4");
  EXPECT_EQ(two("[0,4]", "[0,4]", 4),
            "tensor w begins at byte 0 of the data, overlapping the one that ends at byte 4");
  EXPECT_EQ(two("[0,4]", "[6,10]", 10), "tensor w begins at byte 6 of the data, leaving a gap after byte 4");
  EXPECT_EQ(
      error_of(file_of(
          R"({"w":)" + entry("U8", "[1]", "[0,1]") + R"(,"w":)" + entry("U8", "[1]", "[1,2]") + "}", 2)),
      "header: key \"w\" twice in one object");
  EXPECT_EQ(error_of(file_of("[]", 0)), "header is an array, not an object");
  EXPECT_EQ(error_of(file_of("{", 0)), "header: not JSON at byte 2");
  EXPECT_THAT(error_of(file_of(R"({"w":3})", 0)),
              HasSubstr("tensor w: \"dtype\" is a number (3), expected an object"));
  EXPECT_THAT(error_of(file_of(R"({"w":{"shape":[]}})", 0)), HasSubstr("tensor w: \"dtype\" is missing"));
  EXPECT_THAT(error_of(file_of(R"({"__metadata__":{"a":1}})", 0)),
              HasSubstr("__metadata__ \"a\" is not a string"));
  EXPECT_THAT(error_of(file_of(R"({"__metadata__":[]})", 0)), HasSubstr("__metadata__ is an array"));
  EXPECT_THAT(error_of(file_of("{\"w\":" + std::string(100'000, '['), 0)),
              HasSubstr("nested deeper than 200 levels"));
  EXPECT_THAT(error_of(file_of("{\"\xff\":1}", 0)), HasSubstr("header: not JSON at byte"));
}

TEST_F(SafeTensorsTest, NoCorruptByteOfTheHeaderCrashes) {
  const std::string good = file_of(kGoodHeader, 24);
  size_t refused = 0;
  size_t accepted = 0;
  for (size_t position = 0; position < good.size() - 24; ++position) {
    for (int value = 0; value < 256; ++value) {
      std::string file = good;
      file[position] = static_cast<char>(value);
      const auto parsed = parse(file);
      ++(parsed ? accepted : refused);
      if (!parsed) continue;
      // Accepted files can be read to the last byte.
      for (const auto& [name, tensor] : parsed->tensors()) {
        ASSERT_EQ(tensor.elements() * dtype_size(tensor.dtype), static_cast<int64_t>(tensor.bytes.size()));
        ASSERT_TRUE(tensor.to_floats() || tensor.to_int64s() || tensor.dtype == DType::kU64) << name;
      }
    }
  }
  EXPECT_GT(refused, accepted);  // names and metadata may change, the rest may not
}

TEST_F(SafeTensorsTest, MessagesBeginWithThePath) {
  EXPECT_EQ(SafeTensors::open(path()).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(write_file_atomic(path(), "short"));
  EXPECT_EQ(SafeTensors::open(path()).error().message,
            path().string() + ": 5 bytes, a safetensors file begins with 8 of header length");
}

}  // namespace
}  // namespace saccade
